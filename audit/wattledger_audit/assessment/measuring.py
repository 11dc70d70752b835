"""Telemetry joined to holds by the core's energy meter: measured energy by the keys of the time lines."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from wattledger_core.book import Book, View
from wattledger_core.energy_meter import energy_lines
from wattledger_core.event import InventoryDevice
from wattledger_core.interval import FOREVER_US
from wattledger_core.line import IDLE, UNATTRIBUTED, Line
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRevision, NodeRevision, Origin
from wattledger_core.span_lines import Holder, SpanKey
from wattledger_core.steady import BatchCurves
from wattledger_core.sweep import PARTS_PER_US, Taking

from wattledger_audit.assessment.energy_lines import MeasuredEnergy
from wattledger_audit.assessment.fleet_book import FleetBook, Node
from wattledger_audit.assessment.holding import Swept
from wattledger_audit.assessment.run_book import RunBook
from wattledger_audit.assessment.terms import Terms
from wattledger_audit.assessment.trace_batches import trace_batches
from wattledger_audit.intake.record import DeviceTrace

Floors = Mapping[str, int | None]
"""Idle power of one device in mW by GPU model, `""` for any."""


def measured_nodes(traces: Iterable[DeviceTrace], fleet: FleetBook) -> list[str]:
    """Nodes that telemetry speaks of."""
    return sorted({fleet.name_of("", trace.node) for trace in traces})


def measure(
    traces: Sequence[DeviceTrace], fleet: FleetBook, swept: Swept, runs: RunBook, terms: Terms, floors: Floors
) -> MeasuredEnergy:
    """Energy of every node that has traces. Where the usage log does not say which GPU a run had, each GPU's energy is
    shared by GPUs held: its floor also over those that nobody held, what is above it over holders alone."""
    measured = MeasuredEnergy()
    by_node: dict[str, list[DeviceTrace]] = {}
    for trace in traces:
        by_node.setdefault(fleet.name_of("", trace.node), []).append(trace)
    for name, found in sorted(by_node.items()):
        node = fleet.nodes.get(name)
        if node is None:
            swept.note("telemetry_of_unknown_node", name, f"{len(found)} devices: no inventory or run names the node")
            continue
        _measure_node(node, found, swept, runs, terms, floors.get(node.gpu_model, floors.get("")), measured)
    return measured


def _measure_node(
    node: Node, traces: Sequence[DeviceTrace], swept: Swept, runs: RunBook, terms: Terms, floor_mw: int | None,
    measured: MeasuredEnergy,
) -> None:  # fmt: skip
    takings = [taking for taking in swept.takings.get(node.name, []) if taking.device >= 0]
    place = _place_traces(node, traces, swept)
    pooled = node.gpus > 1 and any(not runs.shapes[runs.shape[taking.holder]].device for taking in takings)
    if pooled:
        swept.note("device_unknown", node.name, "the usage log says how many GPUs, not which: energy shared by count")
    if len(place) < node.gpus:
        swept.note("telemetry_of_some_devices", node.name, f"{len(place)} of {node.gpus} GPUs have readings")
    book = _book(node, takings, place, pooled)
    placed = [replace(trace, node=node.name) for trace in traces if trace.device in place.values()]
    for batch in trace_batches(placed, node.site):
        if pooled:
            devices = tuple(replace(device, sharing="mig", idle_floor_mw=floor_mw) for device in batch.devices)
            batch = replace(batch, devices=devices)
        lines, _ = energy_lines(batch, BatchCurves(batch, Policy()), book, View(FOREVER_US))
        for line in lines:
            if line.energy_uj is not None:
                _put(line, node, takings, swept, runs, terms, measured, pooled)


def _place_traces(node: Node, traces: Sequence[DeviceTrace], swept: Swept) -> dict[int, str]:
    """Device index → the trace's device: by name, else by the index that the telemetry gives, else in order."""
    names = [name.casefold() for name in swept.device_names.get(node.name, [])]
    found: dict[int, str] = {}
    rest = []
    for trace in sorted(traces, key=lambda trace: (trace.index, trace.device)):
        if trace.device.casefold() in names:
            found[names.index(trace.device.casefold())] = trace.device
        else:
            rest.append(trace)
    for trace in rest:
        free = [k for k in range(max(node.gpus, len(names))) if k not in found]
        index = trace.index if trace.index in free else (free[0] if free else None)
        if index is None:
            swept.note("device_not_in_fleet", node.name, f"telemetry of {trace.device}")
        else:
            found[index] = trace.device
    return found


def _book(node: Node, takings: Sequence[Taking], place: dict[int, str], pooled: bool) -> Book:
    """The node's holds as the core's allocations; pooled: every holder has its part of every GPU."""
    book = Book(1)
    listed = tuple(InventoryDevice(name, index, node.gpu_model, node.slices) for index, name in sorted(place.items()))
    book.add(
        NodeRevision("inventory", "inventory", Origin(0, 0), 0, node.name, "", "inventory", 0, None, devices=listed)
    )
    for span, state in enumerate([*node.status, *node.states], start=1):
        name = f"state{span}"
        book.add(
            NodeRevision(
                name, name, Origin(0, span), 0, node.name, "", "state", state.start_us, state.end_us, state=state.state
            )
        )
    seq = 0
    for number, taking in enumerate(takings):
        if taking.start_us >= taking.end_us:
            continue
        devices = sorted(place.values()) if pooled else [place[taking.device]] if taking.device in place else []
        instance = f"gpu{taking.device}" if pooled else taking.instance
        den = taking.share_den * (node.gpus if pooled else 1)
        for device in devices:
            seq += 1
            name = f"{number}@{device}"
            book.add(
                AllocationRevision(
                    name, name, Origin(0, 1000, seq), 0, "", str(taking.holder), 0, 0, node.name, device, instance,
                    taking.share_num, den, "held", "", "", "", "", "", "full", "full", False, None, None, None,
                    taking.start_us, taking.end_us,
                )
            )  # fmt: skip
    return book


def _put(
    line: Line, node: Node, takings: Sequence[Taking], swept: Swept, runs: RunBook, terms: Terms,
    measured: MeasuredEnergy, pooled: bool,
) -> None:  # fmt: skip
    edges = swept.ledger.edges
    window = bisect_right(edges, line.start_us) - 1
    if not 0 <= window < len(edges) - 1:
        return
    parts = line.span_us * PARTS_PER_US
    if line.allocation_id:
        taking = takings[int(line.allocation_id.partition("@")[0])]
        holder = terms.holder(runs, taking.holder, node.gpu_model)
        key = SpanKey(window, "", node.site, node.gpu_model, holder)
        parts = parts * taking.share_num // (taking.share_den * (node.gpus if pooled else 1))
        if line.tenant == UNATTRIBUTED:
            key = SpanKey(window, node.name, node.site, node.gpu_model, _UNATTRIBUTED)
        else:
            measured.add_run(taking.holder, line.energy_uj or 0, parts)
    elif line.tenant == UNATTRIBUTED:
        key = SpanKey(window, node.name, node.site, node.gpu_model, _UNATTRIBUTED)
    else:
        key = _idle_key(swept, window, node)
    measured.add(key, line.energy_uj or 0, parts, line.method)


_UNATTRIBUTED = Holder(UNATTRIBUTED, "", "", "", "", "", "unattributed", "usage_without_holder")


def _idle_key(swept: Swept, window: int, node: Node) -> SpanKey:
    """The unheld line of a node that its idle energy goes to: free time where there is any."""
    free = SpanKey(window, node.name, node.site, node.gpu_model, Holder(IDLE, "", "", "", "", "", "free", ""))
    if free in swept.ledger.parts:
        return free
    others = [key for key in swept.ledger.parts if key.window == window and key.node == node.name]
    return min(others) if others else free

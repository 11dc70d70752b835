"""Telemetry joined to holds by the core's energy meter: measured energy by the keys of the time lines.

Readings come as traces of single devices, or as batches of a node, which also say which MIG instance or process was
busy. Energy is the core's; here is only whose time it was.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from wattledger_core.batch import Batch
from wattledger_core.book import FAILED, Book, View
from wattledger_core.energy_meter import energy_lines
from wattledger_core.event import InventoryDevice
from wattledger_core.hold import failure_cut_us
from wattledger_core.interval import FOREVER_US
from wattledger_core.line import IDLE, UNATTRIBUTED, Discrepancy, Line
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRevision, NodeRevision, Origin
from wattledger_core.span_lines import Holder, SpanKey
from wattledger_core.split import split_exactly
from wattledger_core.steady import BatchCurves
from wattledger_core.sweep import NOBODY, Taking
from wattledger_core.units import QUARTER_US, quarter_floor_us

from wattledger_audit.assessment.device_time import DeviceTime
from wattledger_audit.assessment.energy_lines import MeasuredEnergy
from wattledger_audit.assessment.fleet_book import FleetBook, Node
from wattledger_audit.assessment.holding import Swept
from wattledger_audit.assessment.run_book import RunBook
from wattledger_audit.assessment.terms import Terms, slices_of
from wattledger_audit.assessment.trace_batches import trace_batches
from wattledger_audit.intake.record import DeviceTrace

Floors = Mapping[str, int | None]
"""Idle power of one device in mW by GPU model, `""` for any."""
NodeBatches = Mapping[str, Sequence[Batch]]
"""Batches by the name that telemetry calls a node by, in order of time."""
NO_BATCHES: NodeBatches = {}
MIG = "mig"
REPLICATED = ("time_sliced", "mps")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNATTRIBUTED = Holder(UNATTRIBUTED, "", "", "", "", "", "unattributed", "usage_without_holder")
_OVERLAP = "overlap"


def measured_nodes(traces: Iterable[DeviceTrace], fleet: FleetBook, batches: NodeBatches = NO_BATCHES) -> list[str]:
    """Nodes that telemetry speaks of."""
    return sorted({fleet.name_of("", name) for name in (*(trace.node for trace in traces), *batches)})


def measure(
    traces: Sequence[DeviceTrace], fleet: FleetBook, swept: Swept, runs: RunBook, terms: Terms, floors: Floors,
    batches: NodeBatches = NO_BATCHES,
) -> MeasuredEnergy:  # fmt: skip
    """Energy of every node that has readings; batches win where a node has both. Where the usage log does not say
    which GPU a run had, each GPU's energy is shared by GPUs held: its floor also over those that nobody held, what is
    above it over holders alone."""
    measured = MeasuredEnergy()
    by_node: dict[str, list[DeviceTrace]] = {}
    for trace in traces:
        by_node.setdefault(fleet.name_of("", trace.node), []).append(trace)
    sampled = {fleet.name_of("", name): found for name, found in batches.items() if found}
    for name in sorted({*by_node, *sampled}):
        node = fleet.nodes.get(name)
        own = by_node.get(name, [])
        devices = _devices(sampled.get(name, ())) or [(trace.device, trace.index) for trace in own]
        if node is None:
            swept.note("telemetry_of_unknown_node", name, f"{len(devices)} devices: no inventory or run names the node")
            continue
        place = _place_devices(node, devices, swept)
        floor_mw = floors.get(node.gpu_model, floors.get(""))
        sliced = _sliced(sampled.get(name, ()))
        counted = sliced if name in sampled else frozenset(place.values())
        reader = _node_reader(node, place, swept, runs, terms, measured, floor_mw, sliced, counted)
        if name in sampled:
            readings: Iterable[Batch] = (replace(batch, node=name) for batch in sampled[name])
        else:
            placed = [replace(trace, node=name) for trace in own if trace.device in place.values()]
            readings = trace_batches(placed, node.site)
        for batch in readings:
            reader.take(batch)
        reader.close()
    return measured


def _devices(batches: Iterable[Batch]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((device.device, device.index) for batch in batches for device in batch.devices))


def _sliced(batches: Iterable[Batch]) -> frozenset[str]:
    """Devices of which a part that is named is an instance, and no replica."""
    return frozenset(device.device for batch in batches for device in batch.devices if device.sharing not in REPLICATED)


def _place_devices(node: Node, devices: Sequence[tuple[str, int]], swept: Swept) -> dict[int, str]:
    """Device index → the telemetry's device: by name, else by the index that it gives, else in order."""
    names = [name.casefold() for name in swept.device_names.get(node.name, [])]
    found: dict[int, str] = {}
    rest = []
    for device, index in sorted(devices, key=lambda item: (item[1], item[0])):
        if device.casefold() in names:
            found[names.index(device.casefold())] = device
        else:
            rest.append((device, index))
    for device, index in rest:
        free = [k for k in range(max(node.gpus, len(names))) if k not in found]
        chosen = index if index in free else (free[0] if free else None)
        if chosen is None:
            swept.note("device_not_in_fleet", node.name, f"telemetry of {device}")
        else:
            found[chosen] = device
    return found


@dataclass(slots=True)
class _NodeReader:
    """Takes the batches of one node. `place`: device index → device; pooled: every holder has its part of every GPU."""

    node: Node
    place: Mapping[int, str]
    pooled: bool
    floor_mw: int | None
    takings: Sequence[Taking]
    times: Mapping[str, Sequence[DeviceTime]]
    """Whose time a device's readings speak for: its own, or when pooled that of every device in equal parts."""
    book: Book
    swept: Swept
    runs: RunBook
    terms: Terms
    measured: MeasuredEnergy
    unheld: dict[int, int] = field(default_factory=dict)
    """Parts by window that nobody held and whose energy is known."""

    def take(self, batch: Batch) -> None:
        """Book a batch's energy."""
        if self.pooled:
            floor_mw = self.floor_mw
            batch = replace(batch, devices=tuple(
                replace(d, sharing=MIG, idle_floor_mw=d.idle_floor_mw if floor_mw is None else floor_mw)
                for d in batch.devices
            ))  # fmt: skip
        lines, found = energy_lines(batch, BatchCurves(batch, Policy()), self.book, View(FOREVER_US))
        for item in found:
            if item.kind != _OVERLAP:
                self.swept.note(item.kind, self.node.name, _example(item))
        pieces: dict[tuple[str, int], list[Line]] = {}
        for line in lines:
            pieces.setdefault((line.device, quarter_floor_us(line.start_us)), []).append(line)
        edges = self.swept.ledger.edges
        for (device, quarter_us), piece in pieces.items():
            a_us, b_us = max(quarter_us, batch.start_us), min(quarter_us + QUARTER_US, batch.end_us)
            window = bisect_right(edges, a_us) - 1
            if 0 <= window < len(edges) - 1 and device in self.times:
                self._book(window, piece, self._parts(device, a_us, b_us))

    def _parts(self, device: str, a_us: int, b_us: int) -> dict[int, int]:
        found: dict[int, int] = {}
        times = self.times[device]
        for time in times:
            for number, parts in time.parts(a_us, b_us).items():
                found[number] = found.get(number, 0) + parts
        return {number: parts // len(times) for number, parts in found.items()}

    def _book(self, window: int, piece: Sequence[Line], parts: Mapping[int, int]) -> None:
        """Energy of one device in one quarter-hour, and the parts of time whose energy it is: of each holder the share
        of its span that is known (the device's share, for a holder that was asleep beside others)."""
        known, spans, energy = dict[int, int](), dict[int, int](), dict[int, int]()
        stray_uj, method = 0, ""
        for line in piece:
            number = int(line.allocation_id.partition("@")[0]) if line.allocation_id else NOBODY
            spans[number] = spans.get(number, 0) + line.span_us
            if line.energy_uj is None:
                continue
            known[number] = known.get(number, 0) + line.span_us
            method = method or line.method
            if line.tenant == UNATTRIBUTED:
                stray_uj += line.energy_uj
            else:
                energy[number] = energy.get(number, 0) + line.energy_uj
        whole_known, whole_span = sum(known.values()), sum(spans.values())
        for number in sorted({*parts, *energy}):
            span = spans.get(number, 0) if number != NOBODY else 0
            share = (known.get(number, 0), span) if span else (whole_known, whole_span)
            time = parts.get(number, 0) * share[0] // share[1] if share[1] else 0
            if time or number in energy:
                self._put(window, number, energy.get(number, 0), time, method)
        if stray_uj:
            key = SpanKey(window, self.node.name, self.node.site, self.node.gpu_model, _UNATTRIBUTED)
            self.measured.add(key, stray_uj, 0, method)

    def _put(self, window: int, number: int, energy_uj: int, parts: int, method: str) -> None:
        node = self.node
        if number == NOBODY:
            self.unheld[window] = self.unheld.get(window, 0) + parts
            self.measured.add(_idle_key(self.swept, window, node), energy_uj, 0, method)
            return
        run = self.takings[number].holder
        holder = self.terms.holder(self.runs, run, node.gpu_model)
        self.measured.add_run(run, energy_uj, parts)
        self.measured.add(SpanKey(window, "", node.site, node.gpu_model, holder), energy_uj, parts, method)

    def close(self) -> None:
        """Say for all unheld time of the node that its energy is known, in the share that is: the energy itself is in
        the idle line."""
        keys: dict[int, list[SpanKey]] = {}
        for key in self.swept.ledger.parts:
            if key.node == self.node.name:
                keys.setdefault(key.window, []).append(key)
        for window, known in sorted(self.unheld.items()):
            found = sorted(keys.get(window, []))
            weights = [self.swept.ledger.parts[key] for key in found]
            idle = _idle_key(self.swept, window, self.node)
            method = "+".join(sorted(self.measured.methods.get(idle, set())))
            for key, parts in zip(found, split_exactly(min(known, sum(weights)), weights), strict=True):
                self.measured.add(key, 0, parts, method)


def _node_reader(
    node: Node, place: Mapping[int, str], swept: Swept, runs: RunBook, terms: Terms, measured: MeasuredEnergy,
    floor_mw: int | None, sliced: frozenset[str], counted: frozenset[str],
) -> _NodeReader:  # fmt: skip
    spans = sorted((span.start_us, span.end_us) for span in (*node.status, *node.states) if span.state == FAILED)
    takings = [
        taking._replace(end_us=failure_cut_us(taking.start_us, taking.end_us, spans))
        for taking in swept.takings.get(node.name, [])
        if taking.device >= 0
    ]
    pooled = node.gpus > 1 and any(not runs.shapes[runs.shape[taking.holder]].device for taking in takings)
    if pooled:
        swept.note("device_unknown", node.name, "the usage log says how many GPUs, not which: energy shared by count")
    if len(place) < node.gpus:
        swept.note("telemetry_of_some_devices", node.name, f"{len(place)} of {node.gpus} GPUs have readings")
    own = {
        k: DeviceTime([(n, taking) for n, taking in enumerate(takings) if taking.device == k])
        for k in sorted({*place, *range(node.gpus)})
    }
    every = list(own.values())
    times = {device: every if pooled else [own[k]] for k, device in place.items()}
    book = _book(node, takings, place, pooled, runs, sliced, counted)
    return _NodeReader(node, place, pooled, floor_mw, takings, times, book, swept, runs, terms, measured)


def _book(
    node: Node, takings: Sequence[Taking], place: Mapping[int, str], pooled: bool, runs: RunBook,
    sliced: frozenset[str], counted: frozenset[str],
) -> Book:  # fmt: skip
    """The node's holds as the core's allocations; pooled: every holder has its part of every GPU. On `sliced` devices
    the usage log names the instance after `::`; on `counted` ones it may say how many slices, and not which."""
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
        run = taking.holder
        instance = f"gpu{taking.device}" if pooled else taking.instance
        if not instance and place.get(taking.device) in sliced:
            instance = runs.shapes[runs.shape[run]].device.partition("::")[2]
        if not instance and place.get(taking.device) in counted:
            instance = _slice(taking, number, node, runs.shapes[runs.shape[run]].device)
        den = taking.share_den * (node.gpus if pooled else 1)
        for device in devices:
            seq += 1
            name = f"{number}@{device}"
            book.add(
                AllocationRevision(
                    name, name, Origin(0, 1000, seq), 0, runs.whos[runs.who[run]].cluster, runs.jobs[run], 0, 0,
                    node.name, device, instance, taking.share_num, den, "held", "", "", "", "", "", "full", "full",
                    False, None, None, None, taking.start_us, taking.end_us,
                )
            )  # fmt: skip
    return book


def _slice(taking: Taking, number: int, node: Node, device: str) -> str:
    """An instance for what the log counts in MIG's slices and does not name (3/7 of an A100), so that energy goes by
    slices; empty for a whole device, another share, or a replica."""
    whole = taking.share_num == taking.share_den or "::" in device
    return "" if whole or taking.share_num * slices_of(node.gpu_model) % taking.share_den else f"slice{number}"


def _idle_key(swept: Swept, window: int, node: Node) -> SpanKey:
    """The unheld line of a node that its idle energy goes to: free time where there is any."""
    free = SpanKey(window, node.name, node.site, node.gpu_model, Holder(IDLE, "", "", "", "", "", "free", ""))
    if free in swept.ledger.parts:
        return free
    others = [key for key in swept.ledger.parts if key.window == window and key.node == node.name]
    return min(others) if others else free


def _example(found: Discrepancy) -> str:
    at = _EPOCH + timedelta(microseconds=found.start_us)
    return f"{found.device}, {at:%Y-%m-%d %H:%M:%S} UTC"

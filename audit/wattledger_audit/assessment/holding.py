"""Runs on the fleet: claims by node, devices for them, each node swept, the pieces summed. Owns no rule of its own."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from wattledger_core.capacity import RESERVED_STATE
from wattledger_core.interval import Interval, merge
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.span_lines import Holder, Place, SpanLedger
from wattledger_core.sweep import NOBODY, PARTS_PER_US, NodeSweep, NodeTimeline, Piece, Taking

from wattledger_audit.assessment.fleet_book import FleetBook, Node
from wattledger_audit.assessment.placing import Claim, DeviceNames, peak_devices, place
from wattledger_audit.assessment.run_book import RunBook

FLOATING = "(no node)"


class Charging(Protocol):
    """Who holds are charged to (`terms.Terms` is one)."""

    def holder(self, runs: RunBook, number: int, gpu_model: str) -> Holder: ...

    def reserved(self, tenant: str, gpu_model: str, reservation_id: str) -> Holder: ...


class Contradiction(NamedTuple):
    """One contradiction of usage and fleet, or of two runs; `count` of its kind on that node, with one example."""

    kind: str
    node: str
    example: str


class FreePiece(NamedTuple):
    """A device that was free over an interval: what a waiting run could have had."""

    device: int
    start_us: int
    end_us: int


@dataclass(slots=True)
class Swept:
    """What the sweep of all nodes found. `run_parts`: held parts by run inside the period, whoever pays."""

    ledger: SpanLedger
    run_parts: list[int]
    run_holder: dict[int, Holder]
    """The terms of each run that held anything, on the first node that it was seen on."""
    free: dict[str, list[FreePiece]] = field(default_factory=dict)
    found: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """(kind, node) → count and an example."""
    takings: dict[str, list[Taking]] = field(default_factory=dict)
    device_names: dict[str, list[str]] = field(default_factory=dict)
    uncounted: list[int] = field(default_factory=list)
    """Runs whose number of GPUs is not known."""

    def note(self, kind: str, node: str, example: str) -> None:
        """Count a contradiction; the first of its kind on a node is the example."""
        count, first = self.found.get((kind, node), (0, example))
        self.found[kind, node] = (count + 1, first)


def hold(runs: RunBook, fleet: FleetBook, ledger: SpanLedger, charging: Charging, keep: Iterable[str] = ()) -> Swept:
    """Place all runs of the period and sweep every node. `keep`: nodes whose takings are wanted for telemetry."""
    swept = Swept(ledger, [0] * len(runs), {})
    claims = _claims(runs, fleet, swept)
    for name, found in claims.items():
        node = fleet.nodes.get(name)
        if node is None or node.inferred:
            models = [runs.whos[runs.who[claim.holder]].gpu_model for claim in found if claim.devices]
            model = max(sorted(set(models)), key=models.count) if models else ""
            if node is None:
                node = fleet.infer(name, "", model, 0, floating=name.startswith(FLOATING))
            node.gpus = max(node.gpus, peak_devices(found))
    wanted = set(keep)
    for name in sorted(fleet.nodes):
        _sweep(runs, fleet, fleet.nodes[name], claims.pop(name, []), swept, charging, name in wanted)
    return swept


def _claims(runs: RunBook, fleet: FleetBook, swept: Swept) -> dict[str, list[Claim]]:
    """Claims by node, in order of runs. GPUs, cpus and memory of a run on several nodes are spread evenly."""
    claims: dict[str, list[Claim]] = {}
    for number in runs.held_numbers(fleet.start_us, fleet.end_us):
        who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
        start_us = max(runs.start_us[number], fleet.start_us)
        end_us = min(runs.held_until_us(number, fleet.end_us), fleet.end_us)
        if start_us >= end_us:
            continue
        gpus = shape.gpus
        if gpus is None:
            gpus = _all_of(fleet, who.cluster, shape.nodes) if who.exclusive else None
            if gpus is None:
                swept.uncounted.append(number)
                continue
        nodes = shape.nodes or (f"{FLOATING} {who.gpu_model}".rstrip(),)
        even, more = divmod(gpus, len(nodes))
        if more and len(nodes) > 1:
            swept.note("uneven_spread", nodes[0], f"job {runs.jobs[number]}: {gpus} GPUs over {len(nodes)} nodes")
        cpus = None if shape.cpus is None else shape.cpus // len(nodes)
        memory = None if shape.memory_bytes is None else shape.memory_bytes // len(nodes)
        for place_, text in enumerate(nodes):
            name = fleet.name_of(who.cluster, text)
            claims.setdefault(name, []).append(
                Claim(
                    start_us, end_us, number, even + (place_ < more), shape.device, shape.share_num, shape.share_den,
                    who.exclusive, cpus, memory,
                )
            )  # fmt: skip
    return claims


def _all_of(fleet: FleetBook, cluster: str, nodes: tuple[str, ...]) -> int | None:
    """All GPUs of the nodes, where the inventory knows each."""
    found = [fleet.nodes.get(fleet.name_of(cluster, text)) for text in nodes]
    known = [node.gpus for node in found if node is not None and not node.inferred]
    return sum(known) if known and len(known) == len(nodes) else None


def _sweep(
    runs: RunBook, fleet: FleetBook, node: Node, claims: list[Claim], swept: Swept, charging: Charging, keep: bool
) -> None:
    names = DeviceNames(node.devices, node.gpus)
    takings = place(claims, names, node.gpus)
    count = max(node.gpus, len(names.names))
    if names.extra > 0:
        swept.note("device_not_in_fleet", node.name, f"{names.names[-1]}, and the node has {node.gpus} GPUs")
    if node.inferred and fleet.listed and claims and not node.floating:
        swept.note("node_not_in_fleet", node.name, f"{len(claims)} runs, first job {runs.jobs[claims[0].holder]}")
    service = [node.service if k < node.gpus else [] for k in range(count)]
    if node.floating:
        service = [_held_time(takings, k) for k in range(count)]
    timeline = NodeTimeline(
        service, [*node.status, *node.states], fleet.reserved_spans(node), node.cpus, node.memory_bytes
    )
    sweep = NodeSweep(timeline, takings)
    at = Place(node.name, node.site, node.gpu_model, max(node.gpus, 1))
    free = swept.free.setdefault(node.name, [])
    for piece in sweep.pieces():
        if piece.holder != NOBODY:
            holder = charging.holder(runs, piece.holder, node.gpu_model)
            swept.run_parts[piece.holder] += swept.ledger.add(at, piece, holder)
            swept.run_holder.setdefault(piece.holder, holder)
            if piece.contradicts:
                swept.note("overlap", node.name, f"job {runs.jobs[piece.holder]}: shares scaled to 1")
            continue
        swept.ledger.add(at, piece, _unheld_holder(runs, piece, node.gpu_model, charging))
        if piece.state == "free" and piece.parts == (piece.end_us - piece.start_us) * PARTS_PER_US:
            free.append(FreePiece(piece.device, piece.start_us, piece.end_us))
    for outside in sweep.outside:
        swept.note(outside.kind, node.name, f"job {runs.jobs[outside.holder]}")
    if keep:
        swept.takings[node.name] = takings
    swept.device_names[node.name] = names.names


def _unheld_holder(runs: RunBook, piece: Piece, gpu_model: str, charging: Charging) -> Holder:
    """Who an unheld piece is charged to: whoever stranded it, the reservation's holder, else a reserved tenant."""
    if piece.by != NOBODY:
        by = charging.holder(runs, piece.by, gpu_model)
        return by._replace(state=piece.state, reason=piece.reason)
    if piece.state == RESERVED_STATE and piece.tenant not in RESERVED_TENANTS:
        return charging.reserved(piece.tenant, gpu_model, piece.reason)
    return Holder(piece.tenant, "", "", "", "", "", piece.state, piece.reason)


def _held_time(takings: list[Taking], device: int) -> list[Interval]:
    return merge((taking.start_us, taking.end_us) for taking in takings if taking.device == device)

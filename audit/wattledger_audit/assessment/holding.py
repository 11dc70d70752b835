"""Runs on the fleet: claims by node, devices for them, each node swept, the pieces summed. Owns no rule of its own."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from wattledger_core.capacity import RESERVED_STATE
from wattledger_core.interval import Interval, merge
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.span_lines import Holder, NodeSize, Place, SpanLedger
from wattledger_core.sweep import NOBODY, PARTS_PER_US, NodeSweep, NodeTimeline, Piece, Taking

from wattledger_audit.assessment.cost_book import NodePrice
from wattledger_audit.assessment.fleet_book import NO_NODE, FleetBook, Node, even_parts
from wattledger_audit.assessment.node_sharing import Unsaid, share_node, sizes_of
from wattledger_audit.assessment.placing import Claim, DeviceNames, part_of, peak_devices, place
from wattledger_audit.assessment.reserving import Held
from wattledger_audit.assessment.run_book import RunBook, Shape, Who

_PLACE_BITS = 20
_PLACES = (1 << _PLACE_BITS) - 1


class Charging(Protocol):
    """Who holds are charged to (`terms.Terms` is one)."""

    def holder(self, runs: RunBook, number: int, gpu_model: str) -> Holder: ...

    def model(self, text: str) -> str: ...

    def reserved(self, tenant: str, gpu_model: str, reservation_id: str) -> Holder: ...


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
    unsaid: Unsaid = field(default_factory=Unsaid)

    def note(self, kind: str, node: str, example: str) -> None:
        """Count a contradiction; the first of its kind on a node is the example."""
        count, first = self.found.get((kind, node), (0, example))
        self.found[kind, node] = (count + 1, first)


def hold(
    runs: RunBook, fleet: FleetBook, ledger: SpanLedger, charging: Charging, keep: Iterable[str] = (),
    node_prices: Sequence[NodePrice] = (),
) -> Swept:  # fmt: skip
    """Place all runs of the period and sweep every node. `keep`: nodes whose takings are wanted for telemetry.
    `node_prices`: what is taken of nodes that they are for is summed in `ledger.sized`; raises `CostFileRefused`."""
    swept = Swept(ledger, [0] * len(runs), {})
    places = _places(runs, fleet, swept)
    for name, held in places.items():
        node = fleet.nodes.get(name)
        if node is None or node.inferred:
            _infer(runs, fleet, name, _claims(runs, fleet, held), charging)
    wanted, sizes = set(keep), sizes_of(fleet, node_prices)
    for name in sorted(fleet.nodes):
        claims = _claims(runs, fleet, places.pop(name, ()))
        _sweep(runs, fleet, fleet.nodes[name], claims, swept, charging, name in wanted, sizes)
    ledger.join()
    return swept


def _infer(runs: RunBook, fleet: FleetBook, name: str, claims: list[Claim], charging: Charging) -> None:
    """A node that no inventory lists: its model is the one said most, its GPUs the most that were held at once."""
    models = Counter(runs.whos[runs.who[claim.holder]].gpu_model for claim in claims if claim.devices)
    model = charging.model(max(sorted(models), key=lambda one: models[one])) if models else ""
    node = fleet.nodes.get(name) or fleet.infer(name, "", model, 0, floating=name.startswith(NO_NODE))
    node.gpus = max(node.gpus, peak_devices(claims))


def _places(runs: RunBook, fleet: FleetBook, swept: Swept) -> "dict[str, array[int]]":
    """By node, who holds it: run numbers, each with which of its nodes this is (a million runs need no objects)."""
    places: dict[str, array[int]] = {}
    for number in runs.held_numbers(fleet.start_us, fleet.end_us):
        who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
        if min(runs.held_until_us(number, fleet.end_us), fleet.end_us) <= max(runs.start_us[number], fleet.start_us):
            continue
        gpus = _gpus(fleet, who, shape)
        if gpus is None:
            swept.uncounted.append(number)
            continue
        nodes = _nodes(who, shape)
        if len(nodes) > 1 and gpus % len(nodes):
            swept.note("uneven_spread", nodes[0], f"job {runs.jobs[number]}: {gpus} GPUs over {len(nodes)} nodes")
        for place_, text in enumerate(nodes):
            name = fleet.name_of(who.cluster, text)
            held = places.get(name)
            if held is None:
                held = places[name] = array("q")
            held.append(number << _PLACE_BITS | place_)
    return places


def _gpus(fleet: FleetBook, who: Who, shape: Shape) -> int | None:
    """GPUs of a run over its nodes; an exclusive one that does not say holds all, where the inventory knows them."""
    if shape.gpus is None and who.exclusive:
        return _all_of(fleet, who.cluster, shape.nodes)
    return shape.gpus


def _nodes(who: Who, shape: Shape) -> tuple[str, ...]:
    return shape.nodes or (f"{NO_NODE} {who.gpu_model}".rstrip(),)


def _claims(runs: RunBook, fleet: FleetBook, held: Iterable[int]) -> list[Claim]:
    """Claims of one node, in order of runs. GPUs, cpus and memory of a run on several nodes are spread evenly."""
    claims = []
    for code in held:
        number, place_ = code >> _PLACE_BITS, code & _PLACES
        who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
        of = len(shape.nodes) or 1
        gpus = _given(fleet, who, shape, place_)
        claims.append(
            Claim(
                max(runs.start_us[number], fleet.start_us),
                min(runs.held_until_us(number, fleet.end_us), fleet.end_us), number, gpus,
                shape.device, shape.share_num, shape.share_den, who.exclusive, _part(shape.cpus, place_, of),
                _part(shape.memory_bytes, place_, of),
            )
        )  # fmt: skip
    return claims


def _given(fleet: FleetBook, who: Who, shape: Shape, place_: int) -> int:
    """GPUs of a run on one of its nodes: evenly, but no more than a listed node has while another has room."""
    gpus = _gpus(fleet, who, shape) or 0
    if len(shape.nodes) < 2:
        return gpus
    nodes = [fleet.nodes.get(fleet.name_of(who.cluster, text)) for text in shape.nodes]
    return even_parts(gpus, [None if node is None or node.inferred else node.gpus for node in nodes])[place_]


def _part(whole: int | None, place_: int, of: int) -> int | None:
    """One node's part of what a run took of all its nodes, evenly."""
    return whole if whole is None or of == 1 else part_of(whole, place_, of)


def _all_of(fleet: FleetBook, cluster: str, nodes: tuple[str, ...]) -> int | None:
    """All GPUs of the nodes, where the inventory knows each."""
    found = [fleet.nodes.get(fleet.name_of(cluster, text)) for text in nodes]
    known = [node.gpus for node in found if node is not None and not node.inferred]
    return sum(known) if known and len(known) == len(nodes) else None


def _sweep(
    runs: RunBook, fleet: FleetBook, node: Node, claims: list[Claim], swept: Swept, charging: Charging, keep: bool,
    sizes: Mapping[str, NodeSize],
) -> None:  # fmt: skip
    names = DeviceNames(node.devices, node.gpus)
    takings = place(claims, names, node.gpus)
    count = max(node.gpus, len(names.names))
    if names.extra > 0:
        swept.note("device_not_in_fleet", node.name, f"{names.names[-1]}, and the node has {node.gpus} GPUs")
    if node.inferred and fleet.listed and claims and not node.floating:
        swept.note("node_not_in_fleet", node.name, f"{len(claims)} runs, first job {runs.jobs[claims[0].holder]}")
    service = [node.device_service(k) for k in range(count)]
    if node.floating:
        service = [_held_time(takings, k) for k in range(count)]
    size = sizes.get(node.name)
    if size is not None:
        # one device more, which nobody holds: its pieces say what state the node itself was in
        service.append(node.service)
    timeline = NodeTimeline(
        service,
        [*node.status, *node.states],
        fleet.reserved_spans(node, _held(runs, node, takings, charging)),
        node.cpus,
        node.memory_bytes,
    )
    sweep = NodeSweep(timeline, takings)
    at = Place(node.name, node.site, node.gpu_model, max(node.gpus, 1))
    free = swept.free.setdefault(node.name, [])
    ledger = swept.ledger if size is None else swept.ledger.of_size(size).gpus
    unheld: list[tuple[Piece, Holder]] = []
    for piece in sweep.pieces():
        if piece.holder != NOBODY:
            holder = charging.holder(runs, piece.holder, node.gpu_model)
            swept.run_parts[piece.holder] += ledger.add(at, piece, holder)
            swept.run_holder.setdefault(piece.holder, holder)
            if piece.contradicts:
                swept.note("overlap", node.name, f"job {runs.jobs[piece.holder]}: shares scaled to 1")
            continue
        holder = _unheld_holder(runs, piece, node.gpu_model, charging)
        if size is not None:
            unheld.append((piece, holder))
            if piece.device == count:
                continue
        ledger.add(at, piece, holder)
        if piece.state == "free" and piece.parts == (piece.end_us - piece.start_us) * PARTS_PER_US:
            free.append(FreePiece(piece.device, piece.start_us, piece.end_us))
    for outside in sweep.outside:
        swept.note(outside.kind, node.name, f"job {runs.jobs[outside.holder]}")
    if size is not None:
        _share(runs, node, at, size, claims, unheld, swept, charging)
    if keep:
        swept.takings[node.name] = takings
    swept.device_names[node.name] = names.names


def _held(runs: RunBook, node: Node, takings: Sequence[Taking], charging: Charging) -> list[Held]:
    """Who has which device, where a reservation asks."""
    if not node.reservations:
        return []
    return [Held(taking, charging.holder(runs, taking.holder, node.gpu_model).tenant) for taking in takings]


def _share(
    runs: RunBook, node: Node, at: Place, size: NodeSize, claims: list[Claim], unheld: list[tuple[Piece, Holder]],
    swept: Swept, charging: Charging,
) -> None:  # fmt: skip
    """Sum what was taken of the CPUs and memory of a node whose price is split."""
    parts, holders = swept.ledger.of_size(size), partial(charging.holder, runs, gpu_model=node.gpu_model)
    for number, example in share_node(parts, size, at, node, claims, unheld, holders, swept.unsaid):
        swept.note("overlap", node.name, f"job {runs.jobs[number]}: {example}")


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

"""What runs took of nodes whose price is split over GPUs, CPUs and memory: found beside the sweep, summed by size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wattledger_core.book import FAILED
from wattledger_core.hold import failure_cut_us
from wattledger_core.interval import overlap
from wattledger_core.node_share import Claimed, Unclaimed, clipped, share_resources
from wattledger_core.span_lines import Holder, NodeParts, NodeSize, Place, SpanKey
from wattledger_core.sweep import PARTS_PER_US, Piece

from wattledger_audit.assessment.cost_book import NodePrice
from wattledger_audit.assessment.cost_file_tree import CostFileRefused
from wattledger_audit.assessment.fleet_book import FleetBook, Node
from wattledger_audit.assessment.placing import Claim

_Owner = tuple[Holder, bool]
"""Whose, and whether by a claim (else it was nobody's)."""


@dataclass(slots=True)
class Unsaid:
    """Runs on such nodes that do not say their CPUs, or their memory."""

    cpus: set[int] = field(default_factory=set)
    memory: set[int] = field(default_factory=set)


def sizes_of(fleet: FleetBook, prices: Sequence[NodePrice]) -> dict[str, NodeSize]:
    """Nodes that a price per node is for, with what it is split over. Raises `CostFileRefused` where that is not
    known of one of them."""
    found: dict[str, NodeSize] = {}
    for price in prices:
        lacking: list[tuple[Node, list[str]]] = []
        for name, node in fleet.nodes.items():
            if not _is_for(price, node):
                continue
            missing = _missing(price, node)
            if missing or node.floating:
                lacking.append((node, missing))
            found[name] = NodeSize(node.gpus, node.cpus or 0, node.memory_bytes or 0)
        if lacking:
            raise CostFileRefused(_advice(price, lacking))
    return found


def _is_for(price: NodePrice, node: Node) -> bool:
    return (
        price.site in ("", node.site)
        and price.gpu_model in ("", node.gpu_model)
        and any(overlap(*span, price.start_us, price.end_us) for span in node.service)
    )


def _missing(price: NodePrice, node: Node) -> list[str]:
    wanted = [("cpus", price.cpu_weight, node.cpus), ("mem", price.memory_gb_weight, node.memory_bytes)]
    missing = [name for name, weight, size in wanted if weight and not size]
    if not missing and not (price.gpu_weight and node.gpus) and not any(weight and size for _, weight, size in wanted):
        missing = ["gpus"]
    return missing


def _advice(price: NodePrice, lacking: Sequence[tuple[Node, list[str]]]) -> str:
    node, missing = lacking[0]
    more = f" (nor of {len(lacking) - 1} more nodes)" if len(lacking) > 1 else ""
    if node.floating:
        return (
            f"{price.said_at}: per_node_hour is split by what each node has, and some runs name no node: give a usage "
            "log with nodes, or per_gpu_hour"
        )
    known = "no inventory lists it" if node.inferred else "the inventory does not say"
    return (
        f"{price.said_at}: per_node_hour is split by what each node has, and {' and '.join(missing)} of {node.name} "
        f"are not known{more}: {known}: give them in fleet, such as cpus: 64, mem: 488G, or narrow this entry by "
        "gpu_model, site, from or to"
    )


def share_node(
    parts: NodeParts, size: NodeSize, at: Place, node: Node, claims: Sequence[Claim],
    unheld: Sequence[tuple[Piece, Holder]], run_holder: Callable[[int], Holder], unsaid: Unsaid,
) -> list[tuple[int, str]]:  # fmt: skip
    """Sum the CPUs and memory that were taken of one node. Gives back contradictions: a run, and what is wrong.

    `unheld`: the pieces that nobody held, also those of one device more than the node has (numbered past the others),
    which say what state the node itself was in.
    """
    edges = parts.gpus.edges
    for window, length_us in clipped(node.service, edges):
        place = (window, at.site, at.gpu_model)
        parts.node_parts[place] = parts.node_parts.get(place, 0) + length_us * PARTS_PER_US
    numbers: dict[_Owner, int] = {}
    asked = [
        _claimed(claim, size, numbers.setdefault((run_holder(claim.holder), True), len(numbers)))
        for claim in _until_failed(node, claims)
    ]
    unclaimed = _unclaimed(unheld, numbers)
    unsaid.cpus.update(claim.holder for claim in claims if claim.cpus is None and size.cpus)
    unsaid.memory.update(claim.holder for claim in claims if claim.memory_bytes is None and size.memory_bytes)
    installed = (size.cpus * PARTS_PER_US, size.memory_bytes * PARTS_PER_US)
    owners, found = list(numbers), []
    for into, (sums, exceeded_by), what in zip(
        (parts.cpu, parts.memory), share_resources(installed, asked, unclaimed, edges),
        (f"{size.cpus} CPUs", f"{size.memory_bytes} bytes of memory"), strict=True,
    ):  # fmt: skip
        for (window, number), taken in sums.items():
            holder, held = owners[number]
            key = SpanKey(window, "" if held else at.node, at.site, at.gpu_model, holder)
            into[key] = into.get(key, 0) + taken
        if exceeded_by is not None:
            found.append((claims[exceeded_by].holder, f"more than the node's {what} were taken at once"))
    return found


def _until_failed(node: Node, claims: Sequence[Claim]) -> Sequence[Claim]:
    """A node that fails ends what it held."""
    failures = sorted((s.start_us, s.end_us) for s in (*node.status, *node.states) if s.state == FAILED)
    if not failures:
        return claims
    return [claim._replace(end_us=failure_cut_us(claim.start_us, claim.end_us, failures)) for claim in claims]


def _claimed(claim: Claim, size: NodeSize, owner: int) -> Claimed:
    """What a claim takes; where the log is silent, the part of the node's that goes with its GPUs."""
    cpus, memory = claim.cpus if size.cpus else 0, claim.memory_bytes if size.memory_bytes else 0
    if cpus is not None and memory is not None:
        amounts = (cpus * PARTS_PER_US, memory * PARTS_PER_US)
        return Claimed(claim.start_us, claim.end_us, owner, amounts, (True, True))
    devices = (1 if claim.device else claim.devices) * claim.share_num
    of = claim.share_den * max(size.gpus, 1)
    amounts = (
        size.cpus * PARTS_PER_US * devices // of if cpus is None else cpus * PARTS_PER_US,
        size.memory_bytes * PARTS_PER_US * devices // of if memory is None else memory * PARTS_PER_US,
    )
    return Claimed(claim.start_us, claim.end_us, owner, amounts, (cpus is not None, memory is not None))


def _unclaimed(unheld: Sequence[tuple[Piece, Holder]], numbers: dict[_Owner, int]) -> list[Unclaimed]:
    itself = max((piece.device for piece, _ in unheld), default=0)
    found = []
    for piece, holder in unheld:
        number = numbers.setdefault((holder, False), len(numbers))
        weight = piece.parts // (piece.end_us - piece.start_us)
        found.append(Unclaimed(piece.start_us, piece.end_us, number, weight, piece.device == itself))
    return found

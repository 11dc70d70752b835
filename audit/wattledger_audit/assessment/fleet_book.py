"""The fleet that is audited: nodes with their devices and service times, from an inventory or inferred from usage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wattledger_core.interval import Interval, merge
from wattledger_core.sweep import ReservedSpan, StateSpan

from wattledger_audit.intake.record import FleetNode, NodeState, Reservation

OPEN_US = 1 << 61
_STATUS_STATES = {"spare": "spare", "repair": "maintenance", "maintenance": "maintenance", "failed": "failed",
                  "burn_in": "burn_in"}  # fmt: skip


@dataclass(slots=True)
class Node:
    """One machine: its devices' service intervals, node states and reservations inside the period.

    `inferred`: no inventory lists it, so its GPUs are the most that were held at once. `floating`: usage without a
    node; it is in service only while held, so it has no idle time.
    """

    name: str
    cluster: str
    site: str
    gpu_model: str
    gpus: int
    slices: int = 7
    service: list[Interval] = field(default_factory=list)
    status: list[StateSpan] = field(default_factory=list)
    states: list[StateSpan] = field(default_factory=list)
    reservations: list[tuple[Reservation, str]] = field(default_factory=list)
    cpus: int | None = None
    memory_bytes: int | None = None
    partitions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    inferred: bool = False
    floating: bool = False


class FleetBook:
    """Nodes by name. Two inventory rows of one node are two stretches of its service."""

    def __init__(self, start_us: int, end_us: int) -> None:
        self.start_us, self.end_us = start_us, end_us
        self.nodes: dict[str, Node] = {}
        self.unknown_nodes: dict[str, int] = {}
        self._short: dict[str, list[str]] = {}
        self._memo: dict[tuple[str, str], str] = {}

    @property
    def listed(self) -> bool:
        """Whether an inventory was given."""
        return any(not node.inferred for node in self.nodes.values())

    def add_inventory(self, rows: Iterable[FleetNode]) -> None:
        """Take inventory rows; a node that is spare or in repair is unavailable for that stretch, yet installed."""
        listed = list(rows)
        clusters: dict[str, set[str]] = {}
        for row in listed:
            clusters.setdefault(row.node.casefold(), set()).add(row.cluster)
        for row in listed:
            name = f"{row.cluster}/{row.node}" if len(clusters[row.node.casefold()]) > 1 else row.node
            start_us = self.start_us if row.start_us is None else max(row.start_us, self.start_us)
            end_us = self.end_us if row.end_us is None else min(row.end_us, self.end_us)
            node = self.nodes.get(name)
            if node is None:
                node = self.nodes[name] = Node(
                    name, row.cluster, row.site, row.gpu_model, row.gpus, row.slices or 7, cpus=row.cpus,
                    memory_bytes=row.memory_bytes, partitions=row.partitions, devices=row.devices,
                )  # fmt: skip
                self._short.setdefault(row.node.split(".")[0].casefold(), []).append(name)
            node.gpus = max(node.gpus, row.gpus)
            if start_us < end_us:
                node.service = merge([*node.service, (start_us, end_us)])
                state = _STATUS_STATES.get(row.status)
                if state:
                    node.status.append(StateSpan(start_us, end_us, state))

    def name_of(self, cluster: str, text: str) -> str:
        """The fleet's name of a node that a source calls `text`: as it is, with its cluster, or by its first label."""
        key = (cluster, text)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._find(cluster, text)
        return found

    def _find(self, cluster: str, text: str) -> str:
        for name in (f"{cluster}/{text}", text):
            if name in self.nodes:
                return name
        near = self._short.get(text.split(".")[0].casefold(), [])
        if len(near) > 1:
            near = [name for name in near if self.nodes[name].cluster == cluster] or near
        return near[0] if len(near) == 1 else text

    def infer(self, name: str, cluster: str, gpu_model: str, gpus: int, floating: bool = False) -> Node:
        """A node that only usage knows of: in service over the whole period."""
        node = Node(name, cluster, "", gpu_model, gpus, service=[(self.start_us, self.end_us)], inferred=True,
                    floating=floating)  # fmt: skip
        self.nodes[name] = node
        self._memo.clear()
        self._short.setdefault(name.split(".")[0].casefold(), []).append(name)
        return node

    def add_states(self, spans: Iterable[NodeState]) -> list[NodeState]:
        """Take node states; those of nodes that the fleet does not have are given back."""
        unknown = []
        for span in spans:
            node = self.nodes.get(self.name_of(span.cluster, span.node))
            start_us, end_us = max(span.start_us, self.start_us), min(_until(span.end_us), self.end_us)
            if node is None:
                unknown.append(span)
            elif start_us < end_us:
                node.states.append(StateSpan(start_us, end_us, span.state))
        return unknown

    def add_reservations(self, found: Iterable[Reservation], tenants: Mapping[str, str]) -> list[Reservation]:
        """Take reservations; `tenants` maps their holders to the audit's names. Unknown nodes' are given back."""
        unknown = []
        for reservation in found:
            for text in reservation.nodes:
                node = self.nodes.get(self.name_of(reservation.cluster, text))
                if node is None:
                    unknown.append(reservation)
                else:
                    node.reservations.append((reservation, tenants.get(reservation.tenant, reservation.tenant)))
        return unknown

    def reserved_spans(self, node: Node) -> list[ReservedSpan]:
        """Reservations of a node as the sweep takes them; `gpus` fewer than the node has are its last devices."""
        spans = []
        for reservation, tenant in node.reservations:
            start_us = max(reservation.start_us, self.start_us)
            end_us = min(_until(reservation.end_us), self.end_us)
            per_node = None if reservation.gpus is None else -(-reservation.gpus // max(len(reservation.nodes), 1))
            devices: Sequence[int] = ()
            if per_node is not None and per_node < node.gpus:
                devices = range(node.gpus - per_node, node.gpus)
            if start_us < end_us:
                spans.append(ReservedSpan(start_us, end_us, reservation.reservation_id, tenant, frozenset(devices)))
        return spans


def _until(end_us: int | None) -> int:
    return OPEN_US if end_us is None else end_us

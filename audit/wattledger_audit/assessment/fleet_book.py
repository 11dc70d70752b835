"""The fleet that is audited: nodes with their devices and service times, from an inventory or inferred from usage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wattledger_core.interval import Interval, length_us, merge
from wattledger_core.sweep import ReservedSpan, StateSpan

from wattledger_audit.assessment.reserving import Counted, Held, counted_spans
from wattledger_audit.intake.record import FleetNode, NodeState, Reservation

OPEN_US = 1 << 61
NO_NODE = "(no node)"
"""How the node of runs is called whose log names none; its GPU model follows."""
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
    stretches: list[tuple[Interval, int]] = field(default_factory=list)
    """How many devices were in service over which interval, where an inventory says so: `gpus` is the most."""
    status: list[StateSpan] = field(default_factory=list)
    states: list[StateSpan] = field(default_factory=list)
    reservations: list[tuple[Reservation, str, int | None]] = field(default_factory=list)
    """Each with its holder, and how many of this node's devices (None: all)."""
    cpus: int | None = None
    memory_bytes: int | None = None
    partitions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    inferred: bool = False
    floating: bool = False

    def device_service(self, device: int) -> list[Interval]:
        """When a device was in service: in the stretches in which the node had that many."""
        if not self.stretches:
            return self.service if device < self.gpus else []
        return merge(interval for interval, gpus in self.stretches if device < gpus)

    @property
    def installed_us(self) -> int:
        """In-service device-time, from the inventory alone."""
        return sum(length_us(self.device_service(device)) for device in range(self.gpus))


class FleetBook:
    """Nodes by name. Two inventory rows of one node are two stretches of its service."""

    def __init__(self, start_us: int, end_us: int, clusters: Iterable[str] = ()) -> None:
        """`clusters`: those that the usage names; of several, each has nodes of its own where no inventory says."""
        self.start_us, self.end_us = start_us, end_us
        self._apart = len(set(clusters)) > 1
        self.nodes: dict[str, Node] = {}
        self._short: dict[str, list[str]] = {}
        self._expected: dict[str, Node] = {}
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
                node.stretches.append(((start_us, end_us), row.gpus))
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
            if name in self.nodes and self._may_be(name, cluster):
                return name
        near = [name for name in self._short.get(text.split(".")[0].casefold(), []) if self._may_be(name, cluster)]
        if len(near) > 1:
            near = [name for name in near if self._known(name).cluster == cluster] or near
        if len(near) == 1:
            return near[0]
        apart = self._apart and cluster and not near and not text.startswith(NO_NODE)
        return f"{cluster}/{text}" if apart else text

    def _may_be(self, name: str, cluster: str) -> bool:
        """Where the usage is of several clusters, a node of another one is another node."""
        own = self._known(name).cluster
        return not (self._apart and own and cluster) or own == cluster

    def _known(self, name: str) -> Node:
        return self.nodes.get(name) or self._expected[name]

    def expect(self, named: Iterable[tuple[str, str]]) -> None:
        """Nodes that the usage names, with their clusters: those that no inventory lists go by one name too, and have
        their states and reservations once `infer` says that something was held there."""
        for cluster, text in sorted(set(named)):
            name = self._find(cluster, text)
            if name not in self.nodes and name not in self._expected:
                self._expected[name] = Node(name, cluster, "", "", 0, inferred=True)
                self._short.setdefault(text.split(".")[0].casefold(), []).append(name)
        self._memo.clear()

    def infer(self, name: str, cluster: str, gpu_model: str, gpus: int, floating: bool = False) -> Node:
        """A node that only usage knows of: in service over the whole period."""
        node = Node(name, cluster, "", gpu_model, gpus, service=[(self.start_us, self.end_us)], inferred=True,
                    floating=floating)  # fmt: skip
        self.nodes[name] = node
        expected = self._expected.get(name)
        if expected is not None:
            node.cluster, node.states, node.reservations = expected.cluster, expected.states, expected.reservations
            return node
        self._memo.clear()
        self._short.setdefault(name.split(".")[0].casefold(), []).append(name)
        return node

    def add_states(self, spans: Iterable[NodeState]) -> list[NodeState]:
        """Take node states; those of nodes that the fleet does not have are given back."""
        unknown = []
        for span in spans:
            node = self._node_of(span.cluster, span.node)
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
            tenant = tenants.get(reservation.tenant, reservation.tenant)
            if not reservation.nodes:
                unknown.append(reservation)
            for text, gpus in self._reserved_gpus(reservation):
                node = self._node_of(reservation.cluster, text)
                if node is None:
                    unknown.append(reservation)
                else:
                    node.reservations.append((reservation, tenant, gpus))
        return unknown

    def _node_of(self, cluster: str, text: str) -> Node | None:
        name = self.name_of(cluster, text)
        return self.nodes.get(name) or self._expected.get(name)

    def _reserved_gpus(self, reservation: Reservation) -> list[tuple[str, int | None]]:
        """How many devices of each of its nodes a reservation is for: evenly, and no more than a node has."""
        if reservation.gpus is None:
            return [(text, None) for text in reservation.nodes]
        nodes = [self.nodes.get(self.name_of(reservation.cluster, text)) for text in reservation.nodes]
        given = even_parts(reservation.gpus, [None if node is None else node.gpus for node in nodes])
        return list(zip(reservation.nodes, given, strict=True))

    def reserved_spans(self, node: Node, holds: Iterable[Held] = ()) -> list[ReservedSpan]:
        """Reservations of a node as the sweep takes them. One of fewer devices than the node has keeps, beside what
        its holder has of them by `holds`, the last free ones."""
        spans: list[ReservedSpan] = []
        counted: list[Counted] = []
        for reservation, tenant, gpus in sorted(node.reservations, key=_reservation_order):
            start_us = max(reservation.start_us, self.start_us)
            end_us = min(_until(reservation.end_us), self.end_us)
            if start_us >= end_us or gpus == 0:
                continue
            named = frozenset(node.devices.index(name) for name in reservation.devices if name in node.devices)
            if named:
                spans.append(ReservedSpan(start_us, end_us, reservation.reservation_id, tenant, named))
            elif gpus is None or gpus >= node.gpus:
                spans.append(ReservedSpan(start_us, end_us, reservation.reservation_id, tenant))
            else:
                counted.append(Counted(start_us, end_us, reservation.reservation_id, tenant, gpus))
        return spans + (counted_spans(node.gpus, counted, holds) if counted else [])


def even_parts(whole: int, most: Sequence[int | None]) -> list[int]:
    """A number in parts as even as can be, the first ones larger, none beyond its `most` (None: no bound) as long as
    another has room; what has no room at all is the first part's."""
    given = [0] * len(most)
    left = whole if most else 0
    while left:
        open_ones = [n for n, bound in enumerate(most) if bound is None or given[n] < bound]
        if not open_ones:
            given[0] += left
            break
        for n in open_ones[:left]:
            given[n] += 1
        left -= min(left, len(open_ones))
    return given


def _reservation_order(item: tuple[Reservation, str, int | None]) -> tuple[int, str, str]:
    return item[0].start_us, item[0].reservation_id, item[1]


def _until(end_us: int | None) -> int:
    return OPEN_US if end_us is None else end_us

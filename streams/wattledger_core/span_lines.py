"""Pieces of swept nodes summed into time lines: one line for each holder or state and window of constant prices.

Quantities are in parts (1/5040 µs, `sweep.PARTS_PER_US`) so that money of sevenths is exact; nothing is priced here.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wattledger_core.ids import digest
from wattledger_core.line import Line
from wattledger_core.sweep import NOBODY, Piece

TIME = "time"


class Place(NamedTuple):
    """Where devices are. `gpus` is how many the node has (what a node-hour is divided by)."""

    node: str
    site: str
    gpu_model: str
    gpus: int


class Holder(NamedTuple):
    """Who a hold is charged to, on which terms. `state` and `reason` differ from `held` where somebody else pays."""

    tenant: str
    project: str
    model_tag: str
    cluster: str
    plan: str
    sku: str
    state: str = "held"
    reason: str = ""
    job: str = ""
    """Set only where lines are wanted job by job."""


class SpanKey(NamedTuple):
    """What one line is about. `node` is empty for holders (their place is site and model), so lines stay few."""

    window: int
    node: str
    site: str
    gpu_model: str
    holder: Holder


class NodeSize(NamedTuple):
    """What a node has, where its price is split over what it has. 0 where there is none, or it is not weighed."""

    gpus: int
    cpus: int
    memory_bytes: int


class SpanLedger:
    """Sums pieces by window and holder. `edges`: ascending window ends and starts; pieces are clipped to them.

    `parts` and `node_parts` (parts ÷ the node's GPUs) are sums by key; Σ parts over all keys and devices is the
    in-service time inside the edges, exactly. `sized` holds what was taken of nodes whose price is split.
    """

    def __init__(self, edges: Sequence[int]) -> None:
        if len(edges) < 2 or list(edges) != sorted(set(edges)):
            raise ValueError(f"window edges must be two or more, ascending: {list(edges)[:4]}")
        self.edges = edges
        self.parts: dict[SpanKey, int] = {}
        self.node_parts: dict[SpanKey, int] = {}
        self.sized: dict[NodeSize, NodeParts] = {}

    def add(self, place: Place, piece: Piece, holder: Holder) -> int:
        """Take one piece; returns its parts inside the edges. `holder` of an unheld piece says state and tenant."""
        edges = self.edges
        start_us, end_us = max(piece.start_us, edges[0]), min(piece.end_us, edges[-1])
        if start_us >= end_us:
            return 0
        length_us, whole = piece.end_us - piece.start_us, piece.parts
        at = bisect_right(edges, start_us) - 1
        if end_us <= edges[at + 1] and end_us - start_us == length_us:
            self._put(at, place, piece, holder, whole)
            return whole
        given = 0 if start_us == piece.start_us else whole * (start_us - piece.start_us) // length_us
        first = given
        while start_us < end_us:
            upto_us = min(edges[at + 1], end_us)
            upto = whole if upto_us == piece.end_us else whole * (upto_us - piece.start_us) // length_us
            self._put(at, place, piece, holder, upto - given)
            given, start_us, at = upto, upto_us, at + 1
        return given - first

    def _put(self, window: int, place: Place, piece: Piece, holder: Holder, parts: int) -> None:
        node = place.node if piece.holder == NOBODY else ""
        key = SpanKey(window, node, place.site, place.gpu_model, holder)
        self.parts[key] = self.parts.get(key, 0) + parts
        self.node_parts[key] = self.node_parts.get(key, 0) + parts // place.gpus

    def of_size(self, size: NodeSize) -> "NodeParts":
        """What was taken of nodes of that size: kept apart until `join`."""
        return self.sized.setdefault(size, NodeParts(SpanLedger(self.edges)))

    def join(self) -> None:
        """Add what was kept apart by size. A key that took CPUs or memory and no device gets a line all the same."""
        for _, found in sorted(self.sized.items()):
            for key in sorted(found.takers()):
                self.parts[key] = self.parts.get(key, 0) + found.gpus.parts.get(key, 0)
                self.node_parts[key] = self.node_parts.get(key, 0) + found.gpus.node_parts.get(key, 0)

    def lines(self) -> list[Line]:
        """One time line for each key, in order of keys; `device_us` and `span_us` are in parts."""
        return [self.line(key, self.parts[key]) for key in sorted(self.parts)]

    def line(self, key: SpanKey, parts: int) -> Line:
        """The line of one key, named by what it is about."""
        window, node, site, gpu_model, h = key
        start_us, end_us = self.edges[window], self.edges[window + 1]
        name = digest("span", TIME, start_us, node, site, gpu_model, *h)
        return Line(
            name, TIME, start_us, end_us, node, "", "", site, gpu_model, h.state, h.reason, h.tenant, h.project, "",
            h.model_tag, h.cluster, h.job, 0, "", h.plan, h.sku, start_us, end_us, parts, parts, None, 0, 0,
            "allocation", "",
        )  # fmt: skip


@dataclass(slots=True)
class NodeParts:
    """What each key took of the nodes of one size: `gpus` device-time, `cpu` and `memory` CPU- and byte-time, in parts.

    `node_parts` is the time in service of those nodes by window, site and model, from their inventory alone; so
    Σ of device-time = `node_parts` × GPUs, Σ `cpu` = `node_parts` × CPUs, Σ `memory` = `node_parts` × bytes, exactly.
    """

    gpus: SpanLedger
    cpu: dict[SpanKey, int] = field(default_factory=dict)
    memory: dict[SpanKey, int] = field(default_factory=dict)
    node_parts: dict[tuple[int, str, str], int] = field(default_factory=dict)

    def takers(self) -> set[SpanKey]:
        """Who took anything."""
        return self.gpus.parts.keys() | self.cpu.keys() | self.memory.keys()

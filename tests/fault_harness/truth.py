"""The right answer, from the final facts of a world and the rules of the design, in integers and fractions.

Shares no code with the pipeline. What the design leaves to the product's own names (who of two holders gets the odd
microjoule: the one whose allocation id comes first) is asked for as `order`.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tests.fault_harness.answers import (
    ENERGY,
    TIME,
    CostKey,
    LineKey,
    Money,
    Total,
    TotalKey,
    Usage,
    plus,
    rounded,
)
from tests.fault_harness.curve_truth import COUNTER, NONE, POWER, Curve
from tests.fault_harness.facts import Batch, Hold, Holder, PriceSaid
from tests.fault_harness.plan import LATENESS_US, QUARTER
from tests.fault_harness.schedule import FOREVER_US
from tests.fault_harness.world import World

Order = Callable[[Holder, str], str]
"""The product's name of a holder's hold of a device: holders share in the order of these."""
UNITS = {TIME: 3600 * 10**6, ENERGY: 3_600_000 * 10**6}
"""µs in an hour; µJ in a kWh of 3.6 million joules."""
IDLE, UNATTRIBUTED, UNAVAILABLE = "__idle__", "__unattributed__", "__unavailable__"


class _Part(NamedTuple):
    """Who had a device over a stretch: nobody, its tenant, or (`stopped`) the provider after a stop request."""

    hold: Hold | None
    stopped: bool


class Truth:
    """Asked by window of group starts `[from_us, to_us)`, so that a long world is never in memory whole."""

    def __init__(self, world: World, order: Order = lambda holder, device: f"{holder}") -> None:
        self.world = world
        self.order = order
        self.end_us = world.plan.last_tick_us - LATENESS_US
        """Quarter-hours that end by then are settled."""
        self._holds = world.schedule.holds
        self._prices: dict[str, PriceSaid] = {said.name: said for said in world.tariffs.said}

    # usage

    def usage(self, from_us: int, to_us: int) -> dict[LineKey, Usage]:
        """Every line that stands."""
        return dict([*self._time_lines(from_us, to_us), *self._energy_lines(from_us, to_us)])

    def totals(self, from_us: int, to_us: int) -> dict[TotalKey, Total]:
        """Every total that stands."""
        found: dict[TotalKey, Total] = {}
        for node, quarter_us in self._quarters(from_us, to_us):
            for device in self.world.devices(node):
                found[(TIME, node, quarter_us, device)] = Total(1, QUARTER, 0, 0, 0)
        for batch in self._batches(from_us, to_us):
            a, b = batch.start_us, batch.end_us
            for device, curve in self._curves(batch):
                known_us = curve.known_us(a, b)
                total = Total(1, 0, curve.energy_uj(a, b), known_us, b - a - known_us)
                found[(ENERGY, batch.node, a, device)] = total
        return found

    def _quarters(self, from_us: int, to_us: int) -> Iterator[tuple[str, int]]:
        start_us = max(from_us, self.world.plan.start_us)
        for node in self.world.nodes:
            for quarter_us in range(-(-start_us // QUARTER) * QUARTER, min(to_us, self.end_us), QUARTER):
                if quarter_us + QUARTER <= self.end_us:
                    yield node, quarter_us

    def _batches(self, from_us: int, to_us: int) -> Iterator[Batch]:
        for node in self.world.nodes:
            yield from self.world.batches(node, from_us, to_us)

    def _curves(self, batch: Batch) -> Iterator[tuple[str, Curve]]:
        for readings in batch.readings:
            yield readings.device, Curve(batch.ticks_us, readings, self.world.period_us)

    def _time_lines(self, from_us: int, to_us: int) -> Iterator[tuple[LineKey, Usage]]:
        for node, quarter_us in self._quarters(from_us, to_us):
            for device in self.world.devices(node):
                found: dict[LineKey, int] = {}
                for a_us, b_us, parts in self._stretches(device, quarter_us, quarter_us + QUARTER):
                    for part, share_us in zip(parts, _shares(b_us - a_us, len(parts)), strict=True):
                        who = _time_names(part)
                        key = LineKey(TIME, node, quarter_us, device, quarter_us, *who, "allocation", True, False)
                        found[key] = found.get(key, 0) + share_us
                yield from ((key, Usage(1, us, us, 0)) for key, us in found.items())

    def _energy_lines(self, from_us: int, to_us: int) -> Iterator[tuple[LineKey, Usage]]:
        for batch in self._batches(from_us, to_us):
            for device, curve in self._curves(batch):
                for a_us, b_us in pairwise(_grid(batch.start_us, batch.end_us)):
                    yield from self._energy_in_quarter(batch, device, curve, a_us, b_us)

    def _energy_in_quarter(
        self, batch: Batch, device: str, curve: Curve, start_us: int, end_us: int
    ) -> Iterator[tuple[LineKey, Usage]]:
        quarter_us = start_us // QUARTER * QUARTER
        amounts: dict[_Part, list[int]] = {}
        stretches: dict[_Part, list[tuple[int, int]]] = {}
        for a_us, b_us, parts in self._stretches(device, start_us, end_us):
            known_us = curve.known_us(a_us, b_us)
            whole = (curve.energy_uj(a_us, b_us), known_us, b_us - a_us - known_us)
            for n, part in enumerate(parts):
                amount = amounts.setdefault(part, [0, 0, 0])
                for place, quantity in enumerate(whole):
                    amount[place] += _shares(quantity, len(parts))[n]
                stretches.setdefault(part, []).append((a_us, b_us))
        for part, (energy_uj, known_us, unknown_us) in amounts.items():
            over = stretches[part]
            bridged = any(curve.bridged(a, b) for a, b in over)
            sources = frozenset[str]().union(*(curve.sources(a, b) for a, b in over))
            state, reason, tenant, holder = _energy_names(part)
            place_ = (ENERGY, batch.node, batch.start_us, device, quarter_us, state)
            if known_us or not unknown_us:
                key = LineKey(*place_, reason, tenant, holder, _method(sources), True, bridged)
                yield key, Usage(1, 0, known_us, energy_uj)
            if unknown_us:
                key = LineKey(*place_, reason or "energy_unknown", tenant, holder, NONE, False, bridged)
                yield key, Usage(1, 0, unknown_us, 0)

    def _stretches(self, device: str, start_us: int, end_us: int) -> Iterator[tuple[int, int, list[_Part]]]:
        """An interval cut where holders change, with who had the device, in the order in which they share."""
        pieces: list[tuple[int, int, _Part]] = []
        for hold in self._holds.over(device, start_us, end_us):
            released_us = FOREVER_US if hold.end_us is None else hold.end_us
            paid_us = released_us if hold.paid_until_us is None else hold.paid_until_us
            for a_us, b_us, stopped in ((hold.start_us, paid_us, False), (paid_us, released_us, True)):
                if max(a_us, start_us) < min(b_us, end_us):
                    pieces.append((max(a_us, start_us), min(b_us, end_us), _Part(hold, stopped)))
        points = sorted({start_us, end_us, *(p for a, b, _ in pieces for p in (a, b))})
        for a_us, b_us in pairwise(points):
            there = [part for a, b, part in pieces if a <= a_us and b >= b_us]
            there.sort(key=lambda part: self.order(part.hold.holder, device) if part.hold else "")
            yield a_us, b_us, there or [_Part(None, False)]

    # money

    def costs(self, from_us: int, to_us: int) -> dict[CostKey, Money]:
        """Every cost row that stands."""
        return self.priced(self.usage(from_us, to_us))

    def priced(self, usage: dict[LineKey, Usage]) -> dict[CostKey, Money]:
        """Lines priced by the final prices."""
        found: dict[CostKey, Money] = {}
        for line, used in usage.items():
            for component, price_kind in _components(line):
                key, money = self._cost(line, used, component, self.price(price_kind, line.quarter_us))
                found[key] = plus(found[key], money) if key in found else money
        return found

    def price(self, kind: str, at_us: int, known_before_us: int | None = None) -> PriceSaid | None:
        """The one price of a kind at a moment, by the final facts, or by what was known before `known_before_us`;
        None when there is none, or more than one."""
        if known_before_us is None:
            standing = self._prices
        else:
            standing = {s.name: s for s in self.world.tariffs.said if s.known_us < known_before_us}
        found = [
            p for p in standing.values()
            if p.kind == kind and p.start_us <= at_us and (p.end_us is None or at_us < p.end_us)
        ]  # fmt: skip
        return found[0] if len(found) == 1 else None

    def _cost(self, line: LineKey, used: Usage, component: str, price: PriceSaid | None) -> tuple[CostKey, Money]:
        quantity = used.device_us if line.kind == TIME else used.energy_uj
        if not line.known:
            status, name, cost = "unmeasured", "", Decimal(0)
        elif price is None:
            status, name, cost = "unpriced", "", Decimal(0)
        else:
            status, name = "priced", price.name
            cost = rounded(quantity * Fraction(price.rate) * Fraction(price.pue) / UNITS[line.kind])
        place = (line.node, line.group_us, line.device, line.quarter_us, line.state, line.tenant, line.holder)
        return CostKey(component, *place, status, name), Money(used.rows, quantity, cost)


def _components(line: LineKey) -> list[tuple[str, str]]:
    """Component and kind of price: all time costs, held time is billed too, all energy costs."""
    if line.kind == ENERGY:
        return [("energy", "energy")]
    return [("compute", "compute"), ("billed", "rate")] if line.state == "held" else [("compute", "compute")]


def _time_names(part: _Part) -> tuple[str, str, str, Holder | None]:
    if part.hold is None:
        return "free", "", IDLE, None
    if part.stopped:
        return "unavailable", "stop_pending", UNAVAILABLE, part.hold.holder
    return "held", "", part.hold.tenant, part.hold.holder


def _energy_names(part: _Part) -> tuple[str, str, str, Holder | None]:
    if part.hold is None:
        return "idle", "", IDLE, None
    if part.stopped:
        return "unattributed", "stop_pending", UNATTRIBUTED, part.hold.holder
    return "held", "", part.hold.tenant, part.hold.holder


def _method(sources: frozenset[str]) -> str:
    return "+".join(source for source in (COUNTER, POWER) if source in sources) or NONE


def _shares(whole: int, holders: int) -> list[int]:
    """Equal shares of one thing that sum to it: differences of one rounded cumulative."""
    upto = [whole * n // holders for n in range(holders + 1)]
    return [b - a for a, b in pairwise(upto)]


def _grid(start_us: int, end_us: int) -> list[int]:
    first = (start_us // QUARTER + 1) * QUARTER
    return [start_us, *range(first, end_us, QUARTER), end_us]

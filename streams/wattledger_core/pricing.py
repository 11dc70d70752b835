"""Pricing: a pure function of a line and the price log. Owns which components a line has.

Base rows use what was known before the line's end + L; each later revision that changes a row takes it back and
corrects it. Matching is in pricing_match.py, rows in pricing_row.py.
"""

from collections.abc import Sequence
from decimal import Decimal

from wattledger_core.capacity import HELD_STATE, RESERVED_STATE
from wattledger_core.cost import UNMEASURED, CostRow
from wattledger_core.interval import Interval
from wattledger_core.line import RESERVED_TENANTS, Line
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing_check import same_but_end
from wattledger_core.pricing_match import Choice, Scope, Step, Wanted, chain
from wattledger_core.pricing_row import UJ_UNIT, US_UNIT, Component, base_row, late_rows
from wattledger_core.units import QUARTER_US, UJ_PER_KWH, US_PER_HOUR

COMPUTE = "compute"
ENERGY = "energy"
BILLED = "billed"
POOL_PREFIX = "pool:"
TIME_KIND = "time"
UNBILLED_PLANS = ("internal", "trial")
"""Plans that need no rate: without one their lines have no `billed` row."""
RESERVED_PLAN = "reserved"
MEMO_LIMIT = 20_000
DIVISOR = {US_UNIT: Decimal(US_PER_HOUR), UJ_UNIT: Decimal(UJ_PER_KWH)}


class Pricer:
    """Prices lines with one price log. Lookups are remembered per scope, quarter-hour and base view of the log, and
    forgotten when the log grows. `parts_per_us`: what the lines count device-time in, where finer than µs."""

    def __init__(self, log: PriceLog, policy: Policy, parts_per_us: int = 1) -> None:
        self._divisor = {**DIVISOR, US_UNIT: DIVISOR[US_UNIT] * parts_per_us}
        self._log = log
        self._policy = policy
        self._entries = 0
        self._memo: dict[tuple[str | int | None, ...], tuple[Component, ...]] = {}
        self._group_end_us = -1
        self._count = 0

    def price(self, lines: Sequence[Line]) -> list[CostRow]:
        """Every cost row of the lines so far: per line its base rows by component, then the steps in log order.

        The caller waits until the price book's tick has reached each line's group end + L; before that, base rows
        could still change.
        """
        self._refresh()
        rows: list[CostRow] = []
        for line in lines:
            components = self._components(line)
            stepped = False
            for component in components:
                steps = component.steps
                choice = steps[0].choice
                if choice is not None:
                    rows.append(base_row(line, component, choice))
                stepped = stepped or len(steps) > 1
            if stepped:
                rows += late_rows(line, components, None)
        return rows

    def reprice(self, lines: Sequence[Line], price: Price) -> list[CostRow]:
        """Only what one revision's step appends to lines written before it came: reversals and corrections.

        Nothing for lines that had not been cut off when it came: it is in their base rows. Raises `KeyError` for a
        revision that isn't in the log.
        """
        self._refresh()
        index = self._log.index_of(price)
        rows: list[CostRow] = []
        for line in lines:
            components = self._components(line)
            if any(len(component.steps) > 1 for component in components):
                rows += late_rows(line, components, index)
        return rows

    def reach(self, price: Price) -> Interval | None:
        """Where lines start that a kept revision can reprice by a late step, half-open; None when it is not late."""
        index = self._log.index_of(price)
        price = self._log.entries[index]
        before = self._log.before(index)
        start_us, until_us = price.start_us, price.until_us
        if before is not None and same_but_end(before, price):
            start_us, until_us = sorted((before.until_us, price.until_us))
        elif before is not None:
            start_us, until_us = min(start_us, before.start_us), max(until_us, before.until_us)
        until_us = min(until_us, price.known_us - self._policy.lateness_us)
        return (start_us, until_us) if start_us < until_us else None

    def _refresh(self) -> None:
        if len(self._log.entries) != self._entries or len(self._memo) > MEMO_LIMIT:
            self._entries = len(self._log.entries)
            self._memo.clear()
            self._group_end_us = -1

    def _components(self, line: Line) -> tuple[Component, ...]:
        group_end_us = line.group_end_us
        if group_end_us != self._group_end_us:
            self._count = self._log.known_before(group_end_us + self._policy.lateness_us)
            self._group_end_us = group_end_us
        start_us = line.start_us
        quarter_us = start_us - start_us % QUARTER_US
        key: tuple[str | int | None, ...]
        if line.kind == TIME_KIND:
            key = (
                line.site, line.gpu_model, quarter_us, self._count, line.state, line.tenant, line.plan, line.sku,
            )  # fmt: skip
        else:
            reason = line.reason if line.energy_uj is None else None
            key = (line.site, line.gpu_model, quarter_us, self._count, reason)
        found = self._memo.get(key)
        if found is None:
            build = self._time_components if line.kind == TIME_KIND else self._energy_components
            found = self._memo[key] = tuple(build(line, quarter_us))
        return found

    def _time_components(self, line: Line, quarter_us: int) -> list[Component]:
        held = line.state == HELD_STATE
        scope = Scope(line.site, line.gpu_model)
        wanted = [(COMPUTE, Wanted("compute", True), scope)]
        drivers = ("installed_gpu_h", "held_gpu_h") if held else ("installed_gpu_h",)
        wanted += [(POOL_PREFIX + name, Wanted("pool", False, name, drivers), scope) for name in self._pool_names()]
        if line.tenant and line.tenant not in RESERVED_TENANTS:
            customer = Scope(line.site, line.gpu_model, line.tenant, line.plan, line.sku)
            if held:
                wanted.append((BILLED, Wanted("rate", line.plan not in UNBILLED_PLANS), customer))
            elif line.state == RESERVED_STATE:
                wanted.append((BILLED, Wanted("rate", False, plan=RESERVED_PLAN), customer))
        return self._chained(wanted, US_UNIT, quarter_us)

    def _energy_components(self, line: Line, quarter_us: int) -> list[Component]:
        scope = Scope(line.site, line.gpu_model)
        wanted = [(ENERGY, Wanted("energy", True), scope)]
        wanted += [(POOL_PREFIX + name, Wanted("pool", False, name, ("kwh",)), scope) for name in self._pool_names()]
        found = self._chained(wanted, UJ_UNIT, quarter_us)
        if line.energy_uj is not None:
            return found
        return [component._replace(steps=_unmeasured(component, line.reason)) for component in found]

    def _chained(self, wanted: Sequence[tuple[str, Wanted, Scope]], unit: str, at_us: int) -> list[Component]:
        found = []
        for name, want, scope in wanted:
            steps = chain(self._log, want, scope, at_us, self._count)
            if any(step.choice is not None for step in steps):
                found.append(Component(name, unit, self._divisor[unit], steps))
        return found

    def _pool_names(self) -> list[str]:
        return sorted({price.pool_name for history in self._log.histories("pool") for price in history.revisions})


def _unmeasured(component: Component, reason: str) -> tuple[Step, ...]:
    """The steps of a component whose quantity is unknown: no price shows in its rows, so none changes them."""
    unknown = Choice("", "", None, None, component.name == ENERGY, "", UNMEASURED, reason, None)
    steps: list[Step] = []
    for step in component.steps:
        choice = unknown if step.choice is not None else None
        if not steps or steps[-1].choice != choice:
            steps.append(step._replace(choice=choice))
    return tuple(steps)

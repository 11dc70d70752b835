"""From usage lines and cost rows to the figures that verdicts are made of: uses by pool, and the idle of each pool."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from wattledger_core.capacity import HELD_STATE
from wattledger_core.cost import UNPRICED, CostRow
from wattledger_core.line import IDLE, RESERVED_TENANTS, Line
from wattledger_core.pricing import BILLED, COMPUTE, TIME_KIND
from wattledger_core.split import split_exactly
from wattledger_core.units import MONEY_CONTEXT, quarter_floor_us
from wattledger_core.verdict_idle import IdlePool, Use, split_money


class Figures(NamedTuple):
    """What `judge` takes. Unattributed, unavailable and provider-stranded cost is in neither part."""

    uses: list[Use]
    pools: list[IdlePool]


class _Key(NamedTuple):
    tenant: str
    plan: str
    site: str
    gpu_model: str
    sku: str


_Place = tuple[_Key, str, str, str, int]
"""An allocation's hold of one device or instance in one quarter-hour."""


@dataclass(slots=True)
class _Sum:
    held_us: int = 0
    billable_us: int = 0
    measured_us: int = 0
    marginal_cost: Decimal = Decimal(0)
    own_cost: Decimal = Decimal(0)
    billed: Decimal = Decimal(0)
    unpriced_rows: int = 0

    def add_row(self, row: CostRow) -> None:
        quantity = row.quantity or 0
        if row.component == COMPUTE and row.state == HELD_STATE:
            self.held_us += quantity
        if row.component == BILLED:
            self.billable_us += quantity
        if row.status == UNPRICED:
            self.unpriced_rows += row.sign
        if row.cost is None:
            return
        if row.component == BILLED:
            self.billed = MONEY_CONTEXT.add(self.billed, row.cost)
            return
        self.own_cost = MONEY_CONTEXT.add(self.own_cost, row.cost)
        if row.marginal:
            self.marginal_cost = MONEY_CONTEXT.add(self.marginal_cost, row.cost)


def figures(lines: Iterable[Line], rows: Iterable[CostRow]) -> Figures:
    """Fold lines and rows (reversals and corrections among them) into uses and idle pools, in order of their keys.

    Stranded and reserved-unused time names no SKU: it is spread over the SKUs that its tenant held on that plan in
    that pool, by held time; with none held it is a use of its own.
    """
    held: dict[_Key, _Sum] = {}
    unheld: dict[_Key, _Sum] = {}
    idle: dict[tuple[str, str], _Sum] = {}
    idle_us: dict[tuple[str, str], int] = {}
    for row in rows:
        pool = (row.site, row.gpu_model)
        if row.tenant == IDLE:
            idle.setdefault(pool, _Sum()).add_row(row)
            if row.component == COMPUTE:
                idle_us[pool] = idle_us.get(pool, 0) + (row.quantity or 0)
        elif row.tenant not in RESERVED_TENANTS:
            sums = held if row.state == HELD_STATE else unheld
            sums.setdefault(_Key(row.tenant, row.plan, *pool, row.sku), _Sum()).add_row(row)
    for key, measured_us in _measured_us(lines).items():
        held.setdefault(key, _Sum()).measured_us += measured_us
    for key, caused in sorted(unheld.items()):
        _spread(key, caused, held)
    return Figures(
        [_use(key, found) for key, found in sorted(held.items()) if found != _Sum()],
        [
            IdlePool(*pool, idle_us.get(pool, 0), sums.own_cost, sums.unpriced_rows)
            for pool, sums in sorted(idle.items())
        ],
    )


def _measured_us(lines: Iterable[Line]) -> dict[_Key, int]:
    """Held device-time whose energy is known, by key.

    An allocation's device-time of a quarter-hour counts in the share of its energy lines' span there that is
    measured; without an energy line (a machine with no agent) none of it counts.
    """
    device_us: dict[_Place, int] = {}
    known_us: dict[_Place, int] = {}
    span_us: dict[_Place, int] = {}
    for line in lines:
        if line.state != HELD_STATE or line.tenant in RESERVED_TENANTS:
            continue
        key = _Key(line.tenant, line.plan, line.site, line.gpu_model, line.sku)
        place = (key, line.allocation_id, line.device, line.gpu_instance, quarter_floor_us(line.start_us))
        if line.kind == TIME_KIND:
            device_us[place] = device_us.get(place, 0) + line.device_us
            continue
        span_us[place] = span_us.get(place, 0) + line.span_us
        if line.energy_uj is not None:
            known_us[place] = known_us.get(place, 0) + line.span_us
    found: dict[_Key, int] = {}
    for place, held_us in device_us.items():
        if span_us.get(place, 0) > 0:
            part_us = held_us * known_us.get(place, 0) // span_us[place]
            found[place[0]] = found.get(place[0], 0) + part_us
    return found


def _spread(key: _Key, sums: _Sum, held: dict[_Key, _Sum]) -> None:
    """Add what a tenant caused without holding it to what it held on the same plan in the same pool."""
    targets = [found for found in sorted(held) if found[:4] == key[:4] and held[found].held_us > 0]
    weights = [held[target].held_us for target in targets]
    if not targets:
        held.setdefault(key, _Sum())
        targets, weights = [key], [1]
    billable = split_exactly(sums.billable_us, weights)
    unpriced = split_exactly(sums.unpriced_rows, weights)
    money = [split_money(amount, weights) for amount in (sums.marginal_cost, sums.own_cost, sums.billed)]
    for place, target in enumerate(targets):
        into = held[target]
        into.billable_us += billable[place]
        into.unpriced_rows += unpriced[place]
        into.marginal_cost = MONEY_CONTEXT.add(into.marginal_cost, money[0][place])
        into.own_cost = MONEY_CONTEXT.add(into.own_cost, money[1][place])
        into.billed = MONEY_CONTEXT.add(into.billed, money[2][place])


def _use(key: _Key, sums: _Sum) -> Use:
    return Use(
        key.tenant, key.sku, key.plan, key.site, key.gpu_model, sums.held_us, sums.billable_us, sums.measured_us,
        sums.marginal_cost, sums.own_cost, sums.billed, sums.unpriced_rows,
    )  # fmt: skip

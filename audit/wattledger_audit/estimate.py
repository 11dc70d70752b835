"""The back-of-envelope leak of a fleet: idle capacity, idle energy, break-even. Pure, `Decimal` only."""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from wattledger_core.units import MONEY_CONTEXT, round_money

HOURS_PER_MONTH = Decimal("730.5")
PERIODS = (
    ("hour", Decimal(1)), ("day", Decimal(24)), ("month", HOURS_PER_MONTH), ("year", Decimal(8766)),
)  # fmt: skip
"""A year of 365.25 days, a month of a twelfth of it."""
NOTHING_SOLD = "nothing is sold at an idle ratio of 1"

_add, _subtract, _times, _over = (
    MONEY_CONTEXT.add, MONEY_CONTEXT.subtract, MONEY_CONTEXT.multiply, MONEY_CONTEXT.divide,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is asked. `per_gpu_hour` is what an installed GPU-hour costs without energy; money is in one currency.

    `idle_ratio` is the share of installed GPU-hours that nobody holds; `pue` multiplies every kWh;
    `billed_per_gpu_hour` is what a held GPU-hour brings (None: not said).
    """

    gpus: int
    per_gpu_hour: Decimal
    idle_ratio: Decimal
    per_kwh: Decimal
    idle_watts: Decimal
    busy_watts: Decimal
    pue: Decimal
    billed_per_gpu_hour: Decimal | None = None


class Figure(NamedTuple):
    """One result with the formula that gave it; None is unknown, and the reason stands in the formula's place."""

    name: str
    amount: Decimal | None
    formula: str


class Leak(NamedTuple):
    """What standing idle costs over one period of so many hours."""

    period: str
    hours: Decimal
    idle_capacity: Decimal
    idle_energy: Decimal
    total: Decimal


class Estimate(NamedTuple):
    """The figures in the order in which they follow from one another, and the leak per period."""

    figures: tuple[Figure, ...]
    leak: tuple[Leak, ...]


def estimate(fleet: Fleet) -> Estimate:
    """Every figure with its formula, rounded once to 12 decimals."""
    gpus, sold_ratio = Decimal(fleet.gpus), _subtract(Decimal(1), fleet.idle_ratio)
    idle_capacity = _times(_times(gpus, fleet.idle_ratio), fleet.per_gpu_hour)
    idle_energy = _times(_times(gpus, fleet.idle_ratio), _energy_cost(fleet.idle_watts, fleet))
    watts = _add(_times(fleet.idle_ratio, fleet.idle_watts), _times(sold_ratio, fleet.busy_watts))
    energy = _energy_cost(watts, fleet)
    cost = _add(fleet.per_gpu_hour, energy)
    break_even = None if not sold_ratio else round_money(_over(cost, sold_ratio))
    figures = [
        _figure("idle_capacity_per_hour", idle_capacity, "gpus x idle_ratio x per_gpu_hour"),
        _figure("idle_energy_per_hour", idle_energy, "gpus x idle_ratio x idle_watts / 1000 x pue x per_kwh"),
        _figure("leak_per_hour", _add(idle_capacity, idle_energy), "idle_capacity_per_hour + idle_energy_per_hour"),
        _figure(
            "energy_per_installed_gpu_hour",
            energy,
            "(idle_ratio x idle_watts + (1 - idle_ratio) x busy_watts) / 1000 x pue x per_kwh",
        ),
        Figure(
            "break_even_per_sold_gpu_hour",
            break_even,
            NOTHING_SOLD if break_even is None else "(per_gpu_hour + energy_per_installed_gpu_hour) / (1 - idle_ratio)",
        ),
        *_margin(fleet, gpus, sold_ratio, cost),
    ]
    leak = tuple(_leak(name, hours, idle_capacity, idle_energy) for name, hours in PERIODS)
    return Estimate(tuple(figures), leak)


def _leak(period: str, hours: Decimal, capacity: Decimal, energy: Decimal) -> Leak:
    amounts = (capacity, energy, _add(capacity, energy))
    return Leak(period, hours, *(round_money(_times(amount, hours)) for amount in amounts))


def _energy_cost(watts: Decimal, fleet: Fleet) -> Decimal:
    """Of one GPU for an hour at that power: 1 W is a thousandth of a kWh."""
    return _times(_times(_times(watts, Decimal("0.001")), fleet.pue), fleet.per_kwh)


def _margin(fleet: Fleet, gpus: Decimal, sold_ratio: Decimal, cost: Decimal) -> list[Figure]:
    if fleet.billed_per_gpu_hour is None:
        return []
    billed = _times(_times(gpus, sold_ratio), fleet.billed_per_gpu_hour)
    spent = _times(gpus, cost)
    return [
        _figure("billed_per_hour", billed, "gpus x (1 - idle_ratio) x billed_per_gpu_hour"),
        _figure("cost_per_hour", spent, "gpus x (per_gpu_hour + energy_per_installed_gpu_hour)"),
        _figure("margin_per_hour", _subtract(billed, spent), "billed_per_hour - cost_per_hour"),
    ]


def _figure(name: str, amount: Decimal, formula: str) -> Figure:
    return Figure(name, round_money(amount), formula)

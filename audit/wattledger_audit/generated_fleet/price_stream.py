"""The demo's price book, in EUR: what the fleet costs, and what its tenants are billed. Owns the figures."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from wattledger_core.price import Price
from wattledger_core.revision import Origin
from wattledger_core.tariff import Period, expand, week_rates
from wattledger_core.units import US_PER_DAY, US_PER_HOUR

from wattledger_audit.generated_fleet.day import DAY_START_US, SITE, at
from wattledger_audit.generated_fleet.emission import Emission

UNPLACED = Origin(0, -1)
"""A price gets its origin and its revision id when it is read back from the price book."""
NOON = "12:00"
LATE_PRICE_ID = "compute-l40s-afternoon"
LATE_PRICE_FROM, LATE_PRICE_ARRIVES = NOON, "17:00"
PUE = Decimal("1.3")
NIGHT_KWH, DAY_KWH = Decimal("0.142"), Decimal("0.236")
BERLIN_OFFSET_US = US_PER_HOUR
"""Europe/Berlin is UTC+1 on the whole of the demo's day and the next."""

COMPUTE = (("H100", "2.10"), ("A100", "1.15"), ("MI300X", "2.20"))
RATES = (
    # sku, plan, EUR per device-hour
    ("h100", "spot", "1.35"),
    ("a100", "on_demand", "2.20"),
    ("a100", "spot", "0.80"),
    ("a100-mig", "on_demand", "2.90"),
    ("a100-mig", "spot", "1.20"),
    ("l40s-slice", "on_demand", "1.85"),
    ("l40s-slice", "spot", "0.80"),
    ("mi300x", "on_demand", "3.40"),
)


def price_emissions() -> Iterator[Emission]:
    """Prices in order of arrival: all at the day's start, but for the one that is published five hours late."""
    for price in (*_energy(), *_compute(), *_pools(), *_rates()):
        yield Emission(DAY_START_US, price)
    late = replace(_l40s("0.72", LATE_PRICE_FROM, None), price_id=LATE_PRICE_ID, reason="supplier's invoice came late")
    yield Emission(at(LATE_PRICE_ARRIVES), late)


def _price(price_id: str, kind: str, rate: Decimal | str, start: str = "00:00", end: str | None = None) -> Price:
    end_us = None if end is None else at(end)
    return Price(
        price_id, "", UNPLACED, 0, kind, at(start), end_us, Decimal(rate), "EUR", site=SITE, author="demo",
        reason="rate card 2026",
    )  # fmt: skip


def _energy() -> Iterator[Price]:
    """Night from 22:00 to 06:00 local, expanded to UTC, until the morning after the day."""
    night = Period(tuple(range(7)), 22 * 4, 6 * 4, NIGHT_KWH)
    rates = week_rates([night], DAY_KWH)
    segments = expand(rates, DAY_START_US, DAY_START_US + 2 * US_PER_DAY, lambda at_us: BERLIN_OFFSET_US)
    for number, segment in enumerate(segments):
        base = replace(_price(f"energy-{number}", "energy", segment.per_kwh), pue=PUE)
        yield replace(base, start_us=segment.start_us, end_us=segment.end_us)


def _compute() -> Iterator[Price]:
    for model, rate in COMPUTE:
        yield replace(_price(f"compute-{model.lower()}", "compute", rate), gpu_model=model)
    yield _l40s("0.68", "00:00", LATE_PRICE_FROM)


def _l40s(rate: str, start: str, end: str | None) -> Price:
    return replace(_price("compute-l40s-morning", "compute", rate, start, end), gpu_model="L40S")


def _pools() -> Iterator[Price]:
    fabric = _price("pool-fabric", "pool", "0.11")
    yield replace(fabric, pool_name="fabric", driver="installed_gpu_h")
    cooling = _price("pool-water", "pool", "0.012")
    yield replace(cooling, pool_name="cooling_water", driver="kwh", marginal=True)


def _rates() -> Iterator[Price]:
    """The rate card, its change at noon, the reserved rate and one tenant's contract."""
    for sku, plan, rate in RATES:
        yield replace(_price(f"rate-{sku}-{plan}", "rate", rate), sku=sku, plan=plan)
    for name, rate, start, end in (("morning", "3.90", "00:00", NOON), ("afternoon", "4.15", NOON, None)):
        on_demand = _price(f"rate-h100-on_demand-{name}", "rate", rate, start, end)
        yield replace(on_demand, sku="h100", plan="on_demand")
    reserved = _price("rate-h100-reserved", "rate", "2.15")
    yield replace(reserved, gpu_model="H100", plan="reserved")
    contract = _price("contract-borealis-h100", "rate", "1.70")
    yield replace(contract, tenant="borealis", sku="h100", reason="framework contract 2025")

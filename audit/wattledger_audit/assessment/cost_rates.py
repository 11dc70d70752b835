"""The prices of a cost file over the audited period: compute and pools per unit, energy on the quarter-hour grid."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from wattledger_core.interval import overlap
from wattledger_core.price import Price
from wattledger_core.pricing_check import stamped
from wattledger_core.revision import Origin
from wattledger_streams.tariff_file import Placed, named, numbered_prices, tariff_segments
from wattledger_streams.tariff_file_text import Place

from wattledger_audit.assessment.cost_book import NodePrice
from wattledger_audit.assessment.cost_file_form import (
    DEFAULT_WEIGHTS,
    ComputeEntry,
    EnergyEntry,
    PoolEntry,
    WeightsEntry,
)
from wattledger_audit.assessment.cost_fx import OWN, exchanged
from wattledger_audit.assessment.cost_purchase import money
from wattledger_audit.assessment.cost_reading import CostReading

KNOWN_US = 0
"""A cost file is known before anything in it happens: its prices are never late."""


def prices_of(reading: CostReading) -> tuple[Price, ...]:
    """Prices of kinds compute, energy and pool that touch the period, by kind, scope and start."""
    placed: list[Placed] = []
    for number, compute in enumerate(reading.form.compute):
        placed += _compute_prices(reading, ("compute", number), compute)
    for number, energy in enumerate(reading.form.energy):
        placed += _energy_prices(reading, ("energy", number), energy)
    for number, pool in enumerate(reading.form.pools):
        placed += _pool_prices(reading, ("pools", number), pool)
    return tuple(stamped(price, KNOWN_US, price.price_id) for price in numbered_prices(reading.tree, placed))


def node_prices_of(reading: CostReading) -> tuple[NodePrice, ...]:
    """Prices per node-hour that touch the period, whole, in the order of the file."""
    found = []
    for number, entry in enumerate(reading.form.compute):
        place: Place = ("compute", number)
        if entry.per_node_hour is None:
            continue
        span = reading.span(place, entry.start, entry.end, reading.site_zone(entry.site))
        if not reading.touches(span):
            continue
        weights = entry.weights
        if weights is None:
            weights = WeightsEntry(**DEFAULT_WEIGHTS)
            whose = f"{entry.gpu_model or 'all nodes'}{f' at {entry.site}' if entry.site else ''}"
            reading.assume(
                f"The per_node_hour of {whose} names no weights: "
                f"{' / '.join(map(str, DEFAULT_WEIGHTS.values()))} for a GPU, a CPU and a GB are taken, as AWS does."
            )
        found.append(
            NodePrice(
                entry.per_node_hour, reading.form.currency, *span.bounds, weights.gpu, weights.cpu, weights.memory_gb,
                entry.site, entry.gpu_model, reading.named(place),
            )
        )  # fmt: skip
    return tuple(found)


def _price(reading: CostReading, place: Place, kind: str, start_us: int, end_us: int, rate: Decimal) -> Price:
    return Price(
        "", "", Origin(0, -1), KNOWN_US, kind, start_us, end_us, rate, reading.form.currency,
        reason=reading.named(place),
    )  # fmt: skip


def _compute_prices(reading: CostReading, place: Place, entry: ComputeEntry) -> list[Placed]:
    if entry.per_gpu_hour is None:
        return []
    part = reading.in_period(reading.span(place, entry.start, entry.end, reading.site_zone(entry.site), quarters=True))
    if part is None:
        return []
    price = _price(reading, place, "compute", *part, entry.per_gpu_hour)
    return [(place, named(replace(price, site=entry.site, gpu_model=entry.gpu_model)))]


def _energy_prices(reading: CostReading, place: Place, entry: EnergyEntry) -> list[Placed]:
    zone = reading.site_zone(entry.site)
    part = reading.in_period(reading.span(place, entry.start, entry.end, zone, quarters=True))
    pue = _pue(reading, entry)
    if part is None:
        return []
    placed: list[Placed] = []
    for segment in tariff_segments(reading.tree, place, entry.periods, entry.default_per_kwh, zone, *part):
        price = _price(reading, place, "energy", segment[0], segment[1] or part[1], segment[2])
        placed.append((place, named(replace(price, site=entry.site, pue=pue))))
    return placed


def _pue(reading: CostReading, entry: EnergyEntry) -> Decimal:
    if entry.pue_included:
        return Decimal(1)
    if entry.pue is None:
        site = f" at {entry.site}" if entry.site else ""
        reading.assume(f"No PUE is given for energy{site}: 1 is assumed, so cooling and losses cost nothing here.")
        return Decimal(1)
    return entry.pue


def _pool_prices(reading: CostReading, place: Place, entry: PoolEntry) -> list[Placed]:
    if entry.per_unit is None:
        return []
    keys = ("service_from", "service_to")
    zone = reading.site_zone(entry.scope.site)
    span = reading.span(place, entry.service_from, entry.service_to, zone, keys, quarters=True)
    placed: list[Placed] = []
    for start_us, end_us, rate in exchanged(reading, place, entry.name, entry.currency, span):
        part = overlap(start_us, end_us, *reading.quarters)
        if part is not None:
            per_unit = entry.per_unit if rate == OWN else money(Fraction(entry.per_unit) * Fraction(rate))
            price = replace(
                _price(reading, place, "pool", *part, per_unit), pool_name=entry.name,
                driver=entry.driver, marginal=entry.marginal, site=entry.scope.site, gpu_model=entry.scope.gpu_model,
            )  # fmt: skip
            placed.append((place, named(price)))
    return placed

"""The amounts of a cost file that are spread by a driver: purchases month by month, and pools over their service."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

from wattledger_core.interval import overlap
from wattledger_streams.tariff_file_text import Place

from wattledger_audit.assessment.cost_book import Spread
from wattledger_audit.assessment.cost_file_form import ComputeEntry, PoolEntry, PurchaseEntry
from wattledger_audit.assessment.cost_fx import exchanged
from wattledger_audit.assessment.cost_purchase import Purchase, money, month_costs
from wattledger_audit.assessment.cost_reading import CostReading, Span


def spreads_of(reading: CostReading) -> tuple[Spread, ...]:
    """Spreads that touch the period, whole, in the order of the file."""
    _refuse_double(reading)
    found: list[Spread] = []
    for number, compute in enumerate(reading.form.compute):
        found += _purchase_spreads(reading, ("compute", number), compute)
    known: dict[tuple[object, ...], Place] = {}
    for number, pool in enumerate(reading.form.pools):
        place: Place = ("pools", number)
        for spread in _pool_spreads(reading, place, pool):
            first = known.setdefault(
                (spread.component, spread.driver, spread.site, spread.gpu_model, spread.start_us, spread.end_us), place
            )
            if first != place:
                raise reading.tree.error(
                    place,
                    f"pool {pool.name} has an amount for this very interval and scope on line "
                    f"{reading.tree.line(first)}: keep one, or name them apart",
                )
            found.append(spread)
    return tuple(found)


def _purchase_spreads(reading: CostReading, place: Place, entry: ComputeEntry) -> Iterator[Spread]:
    if entry.purchase is None:
        return
    zone = reading.site_zone(entry.site)
    span = reading.span(place, entry.start, entry.end, zone)
    purchase = _purchase(reading, (*place, "purchase"), entry, entry.purchase)
    for cost in month_costs(purchase, zone, span.bounds, (reading.start_us, reading.end_us)):
        yield Spread(
            "compute", money(cost.amount), reading.form.currency, cost.start_us, cost.end_us, "installed_gpu_h",
            per_device=True, site=entry.site, gpu_model=entry.gpu_model, said_at=reading.named(place),
        )  # fmt: skip


def _purchase(reading: CostReading, place: Place, entry: ComputeEntry, bought: PurchaseEntry) -> Purchase:
    what = f"The purchase of {' at '.join(part for part in (entry.gpu_model, entry.site) if part) or 'GPUs'}"
    if bought.residual is None:
        reading.assume(f"{what} names no residual value: 0 is assumed.")
    if bought.interest_rate is None:
        reading.assume(f"{what} names no interest rate: 0 is assumed, so its price is spread in equal parts.")
    in_service_us: int | None = None
    if bought.in_service is None:
        reading.assume(f"{what} names no date in_service: its payments are taken to run over the whole period.")
    else:
        zone = reading.site_zone(entry.site)
        in_service_us = reading.moment((*place, "in_service"), bought.in_service, zone)
    return Purchase(
        Fraction(bought.price) / bought.gpus,
        Fraction(bought.residual or 0) / bought.gpus,
        bought.months,
        Fraction(bought.interest_rate or 0),
        in_service_us,
        Fraction(bought.hosting) + Fraction(bought.staff),
    )


def _pool_spreads(reading: CostReading, place: Place, entry: PoolEntry) -> Iterator[Spread]:
    if entry.amount is None:
        return
    if entry.service_from is None:
        span = Span(reading.start_us, reading.end_us)
        reading.assume(f"Pool {entry.name} names no service interval: its amount is taken as the audited period's.")
    else:
        zone = reading.site_zone(entry.scope.site)
        span = reading.span(place, entry.service_from, entry.service_to, zone, ("service_from", "service_to"))
    if not reading.touches(span):
        reading.assume(f"Pool {entry.name} ({reading.named(place)}) is for a time outside the period: not counted.")
        return
    whole_us = span.bounds[1] - span.bounds[0]
    for start_us, end_us, rate in exchanged(reading, place, entry.name, entry.currency, span):
        amount = Fraction(entry.amount) * Fraction(rate) * Fraction(end_us - start_us, whole_us)
        yield Spread(
            f"pool:{entry.name}", money(amount), reading.form.currency, start_us, end_us, entry.driver,
            site=entry.scope.site, gpu_model=entry.scope.gpu_model, marginal=entry.marginal,
            said_at=reading.named(place),
        )  # fmt: skip


def _refuse_double(reading: CostReading) -> None:
    """A purchase or a node's price counts for every GPU in its scope: no other compute cost may be for the same GPUs
    at one time."""
    entries = [(number, entry, _bounds(reading, number, entry)) for number, entry in enumerate(reading.form.compute)]
    for (first, one, one_span), (second, other, other_span) in combinations(entries, 2):
        if one.per_gpu_hour is not None and other.per_gpu_hour is not None:
            continue
        same = all(not a or not b or a == b for a, b in ((one.site, other.site), (one.gpu_model, other.gpu_model)))
        if same and overlap(*one_span, *other_span) is not None:
            raise reading.tree.error(
                ("compute", second),
                f"this and the cost on line {reading.tree.line(('compute', first))} would both count for the same "
                "GPUs: narrow one by site, gpu_model, from or to",
            )


def _bounds(reading: CostReading, number: int, entry: ComputeEntry) -> tuple[int, int]:
    return reading.span(("compute", number), entry.start, entry.end, reading.site_zone(entry.site)).bounds

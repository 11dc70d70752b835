"""The tenants of a cost file: names that each has in the sources, what it has agreed to pay, how it is billed."""

from wattledger_core.interval import overlap
from wattledger_streams.tariff_file_text import Place

from wattledger_audit.assessment.cost_book import ContractRate, SkuRule, TenantTerms
from wattledger_audit.assessment.cost_file_form import TenantEntry
from wattledger_audit.assessment.cost_file_word import SOURCES
from wattledger_audit.assessment.cost_reading import CostReading, Span, named_zone


def tenants_of(reading: CostReading) -> tuple[TenantTerms, ...]:
    """Terms in the order of the file. Raises where one name would mean two tenants."""
    _refuse_shared_names(reading)
    return tuple(_terms(reading, ("tenants", number), entry) for number, entry in enumerate(reading.form.tenants))


def skus_of(reading: CostReading) -> tuple[SkuRule, ...]:
    """What each billed SKU is, in the order of the file."""
    first: dict[str, Place] = {}
    for number, entry in enumerate(reading.form.skus):
        place: Place = ("skus", number)
        known = first.setdefault(entry.sku, place)
        if known != place:
            raise reading.tree.error(place, f"sku {entry.sku} is on line {reading.tree.line(known)} already: keep one")
    return tuple(
        SkuRule(entry.sku, entry.gpu_model, entry.plan, entry.gpus_per_unit, entry.gpu) for entry in reading.form.skus
    )


def _terms(reading: CostReading, place: Place, entry: TenantEntry) -> TenantTerms:
    zone = None
    if entry.billing_timezone is not None:
        zone = named_zone(reading.tree, (*place, "billing_timezone"), entry.billing_timezone)
    rates: list[ContractRate] = []
    for number, rate in enumerate(entry.contract):
        span = reading.span((*place, "contract", number), rate.start, rate.end, zone or reading.zone)
        rates.append(
            ContractRate(
                rate.per_gpu_hour,
                reading.form.currency,
                rate.sku,
                rate.gpu_model,
                rate.plan,
                span.start_us,
                span.end_us,
            )
        )
        _refuse_overlap(reading, (*place, "contract", number), rates)
    return TenantTerms(
        name=entry.name,
        aliases=entry.aliases,
        plan=entry.plan,
        contract=tuple(rates),
        billing_timezone=zone,
        increment_us=entry.increment_us,
        minimum_us=entry.minimum_us,
        billed_by=entry.billed_by,
        bearers=entry.bearer,
    )


def _refuse_overlap(reading: CostReading, place: Place, rates: list[ContractRate]) -> None:
    last = rates[-1]
    for rate in rates[:-1]:
        same = (rate.sku, rate.gpu_model, rate.plan) == (last.sku, last.gpu_model, last.plan)
        if same and overlap(*_bounds(rate), *_bounds(last)) is not None:
            raise reading.tree.error(
                place,
                f"{rate.per_gpu_hour} and {last.per_gpu_hour} are agreed for the same sku, gpu_model and plan at one "
                "time: end the earlier one where the later one starts",
            )


def _bounds(rate: ContractRate) -> tuple[int, int]:
    return Span(rate.start_us, rate.end_us).bounds


def _refuse_shared_names(reading: CostReading) -> None:
    """In each source a name means one tenant; a tenant's own name is one of its names in every source."""
    known: dict[tuple[str, str], tuple[str, Place]] = {}
    for number, entry in enumerate(reading.form.tenants):
        place: Place = ("tenants", number)
        names = [(source, entry.name, (*place, "name")) for source in SOURCES]
        for source, aliases in entry.aliases.items():
            there = (*place, "aliases", source) if source else (*place, "aliases")
            names += [(one, alias, there) for alias in aliases for one in ([source] if source else SOURCES)]
        for source, name, there in names:
            owner, first = known.setdefault((source, name), (entry.name, there))
            if first[:2] != place:
                raise reading.tree.error(
                    there,
                    f"{name!r} is a name of tenant {owner} on line {reading.tree.line(first)} too: "
                    "a name means one tenant, so remove it from one of them",
                )

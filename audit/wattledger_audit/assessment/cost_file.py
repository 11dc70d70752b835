"""A cost file read into a CostBook, everything in it expanded over the audited period."""

from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

from wattledger_core.interval import overlap
from wattledger_streams.tariff_file_text import Place

from wattledger_audit.assessment.cost_book import CostBook, MeterReading, PowerModel
from wattledger_audit.assessment.cost_file_tree import read_cost_tree, refusing
from wattledger_audit.assessment.cost_fleet import fleet_of
from wattledger_audit.assessment.cost_fx import exchanged, fx_rates
from wattledger_audit.assessment.cost_rates import node_prices_of, prices_of
from wattledger_audit.assessment.cost_reading import CostReading, reading_of
from wattledger_audit.assessment.cost_spreads import spreads_of
from wattledger_audit.assessment.cost_tenants import skus_of, tenants_of


def read_cost_file(path: Path, start_us: int, end_us: int) -> CostBook:
    """What the file says about `[start_us, end_us)`: prices cut to it on the quarter-hour grid, spreads whole.

    Raises `CostFileRefused` with file, line, field, value and what to do.
    """
    with refusing():
        tree, form = read_cost_tree(path)
        return _book(reading_of(tree, form, start_us, end_us))


def fleet_file_of(path: Path) -> Path | None:
    """The inventory that the cost file names in place of a fleet; relative to the cost file. Raises as above."""
    with refusing():
        _, form = read_cost_tree(path)
    return None if form.fleet_file is None else path.parent / form.fleet_file


def _book(reading: CostReading) -> CostBook:
    form = reading.form
    idle_policy, normal_utilisation_ppm = form.idle
    book = CostBook(
        currency=form.currency,
        timezone=reading.zone,
        prices=prices_of(reading),
        spreads=spreads_of(reading),
        node_prices=node_prices_of(reading),
        fleet=fleet_of(reading),
        power=_power(reading),
        tenants=tenants_of(reading),
        skus=skus_of(reading),
        fx=fx_rates(reading),
        meters=_meters(reading),
        idle_policy=idle_policy,
        normal_utilisation_ppm=normal_utilisation_ppm,
        target_margin_ppm=form.target_margin_ppm,
        price_step=form.price_step,
        has_energy=bool(form.energy),
    )
    return replace(book, assumptions=tuple(reading.assumptions))


def _power(reading: CostReading) -> dict[str, PowerModel]:
    found: dict[str, PowerModel] = {}
    for number, entry in enumerate(reading.form.power):
        if entry.gpu_model in found:
            raise reading.tree.error(
                ("power", number), f"the power of {entry.gpu_model or 'any model'} is given above: keep one"
            )
        found[entry.gpu_model] = PowerModel(entry.gpu_model, entry.busy_mw, entry.idle_mw)
    return found


def _meters(reading: CostReading) -> tuple[MeterReading, ...]:
    """Meter readings that touch the period, whole."""
    found: list[tuple[MeterReading, Place]] = []
    for number, entry in enumerate(reading.form.meter):
        place: Place = ("meter", number)
        span = reading.span(place, entry.start, entry.end, reading.site_zone(entry.site))
        start_us, end_us = span.bounds
        for other, other_place in found:
            if other.site == entry.site and overlap(start_us, end_us, other.start_us, other.end_us) is not None:
                raise reading.tree.error(
                    place, f"its time overlaps the reading on line {reading.tree.line(other_place)}: keep one of them"
                )
        if entry.amount is not None:
            exchanged(reading, place, "the power bill", entry.currency, span)
        meter = MeterReading(
            entry.site, start_us, end_us, entry.kwh, entry.committed_kw, entry.peak_kw, entry.amount,
            entry.currency or reading.form.currency,
        )  # fmt: skip
        found.append((meter, place))
    return tuple(meter for meter, _ in found if overlap(meter.start_us, meter.end_us, reading.start_us, reading.end_us))


def timezone_of(path: Path) -> ZoneInfo:
    """The time zone that the file's dates are in. Raises as above."""
    with refusing():
        tree, form = read_cost_tree(path)
        return reading_of(tree, form, 0, 1).zone

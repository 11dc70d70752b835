"""Price sheets: a YAML file of tariffs, rates and pools turned into price records, local times into UTC segments."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from wattledger_core.ids import digest
from wattledger_core.price import Price
from wattledger_core.pricing_check import PriceRefused, check_price, describe
from wattledger_core.revision import UNKNOWN_TICK_US, Origin
from wattledger_core.tariff import Period, Segment, TariffRefused, expand, week_rates

from wattledger_streams.tariff_file_model import (
    ComputeEntry,
    PeriodEntry,
    PoolEntry,
    PriceSheet,
    RateEntry,
    SiteEntry,
)
from wattledger_streams.tariff_file_text import Place, PriceSheetError, TextTree, read_text_tree
from wattledger_streams.tariff_file_zone import UnclearTime, UnknownZone, load_zone, offset_us, utc_us

SHEET_OFFSET = -1
"""Offset of prices that no log has given one yet; `seq` numbers them in the order returned."""
_ADVICE = {
    "missing": "add it",
    "extra_forbidden": "remove it, or correct its spelling",
    "decimal_parsing": "write a plain decimal such as 0.12",
    "string_type": "write a text, or leave the field out",
}

Placed = tuple[Place, Price]


def load_price_sheet(path: Path) -> list[Price]:
    """The prices of a sheet, by kind, scope and start; the same file gives the same price ids.

    Raises `PriceSheetError` with file, line, field, value and what to do. The prices carry no revision id and no
    tick yet: the price log stamps both.
    """
    tree = read_text_tree(path)
    try:
        sheet = PriceSheet.model_validate(tree.content)
    except ValidationError as error:
        raise explained(tree, error.errors()[0]) from error
    return numbered_prices(tree, list(_prices(tree, sheet)))


def numbered_prices(tree: TextTree, placed: list[Placed]) -> list[Price]:
    """Prices by kind, scope and start, numbered in that order. Raises `PriceSheetError` at the place of one that is
    not well formed, or overlaps another of the same scope."""
    for place, price in placed:
        try:
            check_price(price)
        except PriceRefused as error:
            raise tree.error(place, str(error)) from error
    placed = sorted(placed, key=lambda item: (item[1].kind, _scope(item[1]), item[1].start_us))
    _refuse_overlaps(tree, placed)
    return [replace(price, origin=Origin(0, SHEET_OFFSET, seq)) for seq, (_, price) in enumerate(placed)]


def explained(tree: TextTree, error: ErrorDetails) -> PriceSheetError:
    """What a validation found, as an error that says where it is and what to do."""
    place = tuple(error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ")
    given = error["input"]
    value = f", got {given!r}" if error["type"] != "missing" and isinstance(given, str | None) else ""
    advice = "" if error["type"] == "value_error" else f": {_ADVICE.get(error['type'], 'correct it')}"
    return tree.error(place, f"{message}{value}{advice}")


def _prices(tree: TextTree, sheet: PriceSheet) -> Iterator[Placed]:
    zones: dict[str, ZoneInfo] = {"": _zone(tree, ("timezone",), sheet.timezone)}
    for number, site in enumerate(sheet.sites):
        place: Place = ("sites", number)
        zone = _zone(tree, (*place, "timezone"), site.timezone)
        known = zones.setdefault(site.site, zone)
        if known.key != zone.key:
            raise tree.error(
                (*place, "timezone"), f"{zone.key}, but {site.site} was in {known.key} above: a site has one time zone"
            )
        yield from ((place, price) for price in _energy_prices(tree, place, sheet.currency, site, zone))
    others: list[tuple[str, Sequence[ComputeEntry | RateEntry | PoolEntry]]] = [
        ("compute", sheet.compute), ("rates", sheet.rates), ("pools", sheet.pools),
    ]  # fmt: skip
    for name, entries in others:
        for number, entry in enumerate(entries):
            place = (name, number)
            start_us, end_us = _dates(tree, place, entry, zones.get(entry.site, zones[""]))
            yield place, _price(sheet.currency, entry, start_us, end_us)


def _energy_prices(tree: TextTree, place: Place, currency: str, site: SiteEntry, zone: ZoneInfo) -> Iterator[Price]:
    start_us, end_us = _dates(tree, place, site, zone)
    for segment in tariff_segments(tree, place, site.periods, site.default_per_kwh, zone, start_us, end_us):
        pue = Decimal(1) if site.pue_included else site.pue
        yield named(
            Price(
                "", "", Origin(0, SHEET_OFFSET), UNKNOWN_TICK_US, "energy", segment[0], segment[1], segment[2],
                currency, site.site, pue=pue, author=site.author, reason=site.reason,
            )
        )  # fmt: skip


def tariff_segments(
    tree: TextTree,
    place: Place,
    periods: Sequence[PeriodEntry],
    default_per_kwh: Decimal | None,
    zone: ZoneInfo,
    start_us: int,
    end_us: int | None,
) -> list[Segment] | list[tuple[int, int | None, Decimal]]:
    """What a kWh costs over `[start_us, end_us)` UTC: local periods expanded, or the default alone."""
    if not periods:
        if default_per_kwh is None:
            raise tree.error(place, "it has neither periods nor default_per_kwh: give one of them")
        return [(start_us, end_us, default_per_kwh)]
    if end_us is None:
        raise tree.error((*place, "to"), "a tariff with periods has no end: say until when it is to be expanded")
    try:
        rates = week_rates([_period(entry) for entry in periods], default_per_kwh)
        return expand(rates, start_us, end_us, lambda at_us: offset_us(zone, at_us))
    except TariffRefused as error:
        raise tree.error((*place, "periods"), str(error)) from error


def _period(entry: PeriodEntry) -> Period:
    return Period(entry.days, entry.start, entry.end, entry.per_kwh)


def _price(currency: str, entry: ComputeEntry | RateEntry | PoolEntry, start_us: int, end_us: int | None) -> Price:
    common = Price(
        "", "", Origin(0, SHEET_OFFSET), UNKNOWN_TICK_US, "compute", start_us, end_us, Decimal(0), currency,
        entry.site, entry.gpu_model, author=entry.author, reason=entry.reason,
    )  # fmt: skip
    if isinstance(entry, ComputeEntry):
        return named(replace(common, rate=entry.per_gpu_hour))
    if isinstance(entry, RateEntry):
        return named(
            replace(common, kind="rate", rate=entry.per_gpu_hour, tenant=entry.tenant, plan=entry.plan, sku=entry.sku)
        )
    return named(
        replace(
            common, kind="pool", rate=entry.per_unit, pool_name=entry.name, driver=entry.driver,
            marginal=entry.marginal,
        )
    )  # fmt: skip


def _scope(price: Price) -> tuple[str, ...]:
    return (price.pool_name, price.driver, price.site, price.gpu_model, price.tenant, price.plan, price.sku)


def named(price: Price) -> Price:
    """The price with the id that its kind, scope and start give it."""
    return replace(price, price_id=digest("price", price.kind, *_scope(price), price.start_us))


def _dates(
    tree: TextTree, place: Place, entry: SiteEntry | ComputeEntry | RateEntry | PoolEntry, zone: ZoneInfo
) -> tuple[int, int | None]:
    found: list[int | None] = []
    for name, text in (("from", entry.start), ("to", entry.end)):
        try:
            found.append(None if text is None else utc_us(text, zone))
        except UnclearTime as error:
            raise tree.error((*place, name), str(error)) from error
    start_us, end_us = found
    assert start_us is not None
    if end_us is not None and end_us <= start_us:
        raise tree.error((*place, "to"), f"{entry.end} is not after from ({entry.start}): it is the first moment after")
    return start_us, end_us


def _zone(tree: TextTree, place: Place, name: str) -> ZoneInfo:
    try:
        return load_zone(name)
    except UnknownZone as error:
        raise tree.error(place, str(error)) from error


def _refuse_overlaps(tree: TextTree, placed: list[Placed]) -> None:
    """Two prices of one scope at one time would contradict: every row there would have no price."""
    for (first_place, first), (place, price) in pairwise(placed):
        same = first.kind == price.kind and _scope(first) == _scope(price)
        if same and price.start_us < first.until_us:
            raise tree.error(
                place,
                f"{describe(price)} overlaps the one of the same scope on line {tree.line(first_place)}: "
                "end the earlier one where this one starts",
            )

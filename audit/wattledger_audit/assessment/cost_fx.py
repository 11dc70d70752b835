"""Amounts of a cost file in other currencies: rates with their dates, and what they make of an interval."""

from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from wattledger_core.interval import overlap
from wattledger_streams.tariff_file_text import Place

from wattledger_audit.assessment.cost_book import FxRate
from wattledger_audit.assessment.cost_reading import CostReading, Span

OWN = Decimal(1)


class Exchange(NamedTuple):
    """One unit of another currency is `rate` of the file's over `[start_us, end_us)`."""

    start_us: int
    end_us: int
    rate: Decimal


def fx_rates(reading: CostReading) -> tuple[FxRate, ...]:
    """The file's table, whole, by currency and start. Raises for two rates of one time, or of its own currency."""
    found: list[tuple[FxRate, Place]] = []
    for number, entry in enumerate(reading.form.fx):
        place: Place = ("fx", number)
        if entry.currency == reading.form.currency:
            raise reading.tree.error(
                (*place, "currency"),
                f"{entry.currency} is the file's own currency: name the other one, and give its rate in this one",
            )
        span = reading.span(place, entry.start, entry.end, reading.zone)
        if not entry.source:
            reading.assume(f"The exchange rate of {entry.currency}, {entry.rate}, names no source.")
        source = f"{entry.source} ({entry.date})" if entry.source and entry.date else entry.source or entry.date
        found.append((FxRate(entry.currency, entry.rate, span.start_us, span.end_us, source), place))
    found.sort(key=lambda item: (item[0].currency, Span(item[0].start_us, item[0].end_us).bounds))
    for (first, first_place), (second, place) in pairwise(found):
        start_us = Span(second.start_us, second.end_us).bounds[0]
        if first.currency == second.currency and start_us < Span(first.start_us, first.end_us).bounds[1]:
            raise reading.tree.error(
                place,
                f"{second.currency} has a rate for this time on line {reading.tree.line(first_place)} already: "
                "end that one where this one starts",
            )
    return tuple(rate for rate, _ in found)


def exchanged(reading: CostReading, place: Place, name: str, currency: str | None, span: Span) -> list[Exchange]:
    """The rates to the file's currency over a span: one of 1 for its own, else those that touch the period.

    Raises where the period has a part of the span without a rate.
    """
    if currency is None or currency == reading.form.currency:
        return [Exchange(*span.bounds, OWN)]
    needed = overlap(*span.bounds, *reading.quarters)
    if needed is None:
        return []
    rates = [rate for rate in fx_rates(reading) if rate.currency == currency]
    pieces = _pieces(rates, span, needed)
    missing_us = needed[0]
    for piece in pieces:
        if piece.start_us > missing_us:
            break
        missing_us = piece.end_us
    if missing_us < needed[1]:
        raise reading.tree.error(
            (*place, "currency"),
            f"{name} is in {currency}, the file in {reading.form.currency}, and fx has no rate of {currency} "
            f"{'for all of its time in the audited period' if pieces else 'for that time'}: "
            f"add one under fx, or give {name} in {reading.form.currency}",
        )
    for rate in rates:
        if any(piece.rate == rate.rate for piece in pieces):
            reading.assume(
                f"{name} is in {currency}: one {currency} is taken as {rate.rate} {reading.form.currency}"
                f"{f' ({rate.source})' if rate.source else ''}."
            )
    return pieces


def _pieces(rates: Iterable[FxRate], span: Span, needed: tuple[int, int]) -> list[Exchange]:
    pieces: list[Exchange] = []
    for rate in rates:
        part = overlap(*span.bounds, *Span(rate.start_us, rate.end_us).bounds)
        if part is not None and overlap(*part, *needed) is not None:
            pieces.append(Exchange(*part, rate.rate))
    return pieces

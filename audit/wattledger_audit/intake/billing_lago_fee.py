"""The service period of a Lago fee in its customer's time zone, and its words."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from wattledger_core.units import US_PER_S

from wattledger_audit.intake import local_time
from wattledger_audit.intake.billing_document import Object, as_list, as_object, text_of
from wattledger_audit.intake.billing_fixed import service_end_us, utc_stamp_us
from wattledger_audit.intake.row_refused import RowRefused

_STARTS = ("charges_from_datetime", "from_datetime", "from_date")
_ENDS = ("charges_to_datetime", "to_datetime", "to_date")


def customer_zone(customer: Object) -> ZoneInfo:
    """The zone of the customer's period edges; UTC where none is named. Raises RowRefused (`bad_timezone`)."""
    name = text_of(customer, "applicable_timezone", "timezone") or "UTC"
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise RowRefused("applicable_timezone", name, "bad_timezone: no zone of this name") from None


def fee_period_us(fee: Object, invoice: Object, zone: ZoneInfo) -> tuple[int, int]:
    """The half-open service period; Lago's own end is its last day or second. A fee without dates (a one-off one) has
    the day of its invoice. Raises RowRefused."""
    for place in (fee, as_object(fee.get("properties"))):
        charge = text_of(as_object(fee.get("item")), "type") == "charge"
        starts, ends = (_STARTS, _ENDS) if charge else (_STARTS[1:], _ENDS[1:])
        start, end = text_of(place, *starts), text_of(place, *ends)
        if start and end:
            return _span_us(start, end, zone)
    issued = text_of(invoice, "issuing_date") or text_of(fee, "created_at")[:10]
    if not issued:
        raise RowRefused("from_date", "", "no_period: the fee does not say when its service was")
    return _span_us(issued, issued, zone)


def _span_us(start: str, end: str, zone: ZoneInfo) -> tuple[int, int]:
    try:
        start_us = _edge_us(start, zone, timedelta(0))
        end_us = service_end_us(start_us, _edge_us(end, zone, timedelta(days=1)))
    except ValueError:
        raise RowRefused("from_date", f"{start} {end}", "bad_time: neither a date nor an ISO stamp") from None
    if end_us is None:
        raise RowRefused("to_date", end, f"bad_period: it ends before it starts ({start})")
    return start_us, end_us


def _edge_us(text: str, zone: ZoneInfo, after: timedelta) -> int:
    """A day's start (`after` one day: its end); a stamp as it is, the last second of a minute filled up."""
    if len(text) == 10:
        return local_time.day_start_us(date.fromisoformat(text) + after, zone)
    at_us = utc_stamp_us(text)
    in_minute_us = at_us % (60 * US_PER_S)
    return at_us + 60 * US_PER_S - in_minute_us if after and in_minute_us >= 59 * US_PER_S else at_us


def fee_words(fee: Object) -> tuple[str, str]:
    """SKU and description: the item's code with the values of its filters or groups, and what the invoice shows."""
    item = as_object(fee.get("item"))
    shown = text_of(fee, "invoice_display_name") or text_of(item, "invoice_display_name", "name")
    values = [text_of(item, "filter_invoice_display_name", "group_invoice_display_name")]
    for kept in (item.get("filters"), fee.get("filters"), fee.get("grouped_by"), item.get("grouped_by")):
        for value in as_object(kept).values():
            values += [str(part) for part in as_list(value)] or ([value] if isinstance(value, str) else [])
    named = list(dict.fromkeys(value for value in values if value))
    sku = "/".join([text_of(item, "code") or shown, *named])
    return sku, " ".join([shown, *named]).strip()

"""Threshold events to the wire and back, and as rows; the part of the mapping that the sink and the evaluator share."""

from decimal import Decimal
from typing import Any

from wattledger_core.threshold import RAISED, ThresholdEvent
from wattledger_sql.fact import ThresholdRow

Wire = dict[str, Any]
_DECIMALS = ("value", "raise_at", "clear_at")
_TENANT_KINDS = ("tenant_below_cost", "budget_used")


def to_wire_threshold_event(event: ThresholdEvent) -> Wire:
    record = {name: getattr(event, name) for name in ThresholdEvent.__dataclass_fields__}
    return {**record, **{name: format(record[name], "f") for name in _DECIMALS}}


def from_wire_threshold_event(record: Wire) -> ThresholdEvent:
    return ThresholdEvent(**{**record, **{name: Decimal(record[name]) for name in _DECIMALS}})


def to_threshold_row(event: ThresholdEvent) -> ThresholdRow:
    """As the table keeps it: the level that was crossed beside the value."""
    about_tenant = event.kind in _TENANT_KINDS
    level = event.raise_at if event.transition == RAISED else event.clear_at
    detail = f"{event.kind}: raises at {event.raise_at}, clears at {event.clear_at}"
    return ThresholdRow(
        event.event_id, event.rule, event.scope, event.transition, event.at_us, event.scope if about_tenant else "",
        "" if about_tenant else event.scope, event.severity, event.value, level, event.unit, detail,
    )  # fmt: skip

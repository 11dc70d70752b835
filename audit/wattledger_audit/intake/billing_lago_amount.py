"""What a Lago fee comes to: money in minor units of ISO 4217, units, the plan and the category that it says itself."""

import re
from decimal import Decimal

from wattledger_audit.intake.billing_document import Object, as_list, as_object, text_of
from wattledger_audit.intake.billing_fixed import fixed_number
from wattledger_audit.intake.currency import currency_code, iso_decimals
from wattledger_audit.intake.row_refused import RowRefused

_CATEGORIES = {
    "charge": "usage", "subscription": "commitment", "commitment": "shortfall", "minimum_commitment": "shortfall",
    "fixed_charge": "commitment",
}  # fmt: skip
_UNIT = re.compile(r"hour|hrs|stunde|minute|second|token|(?<![a-z])gi?b|_h$", re.IGNORECASE)
_UNIT_WORD = re.compile(
    r"(?<![a-z0-9])(?:(?:gpu|node|slice|instance)[_\- ]?)?(?:hours?|hrs?|h|stunden?|minutes?|seconds?|tokens?)"
    r"(?![a-z0-9])",
    re.IGNORECASE,
)


def fee_money(item: Object, name: str, currency_text: str) -> tuple[Decimal, str]:
    """A member in minor units as an amount, and its ISO currency. Raises RowRefused."""
    text, currency = text_of(item, name), currency_code(currency_text)
    if not currency:
        raise RowRefused("amount_currency", currency_text, "bad_currency: no ISO code such as USD")
    try:
        minor = fixed_number(text)
    except ValueError as error:
        raise RowRefused(name, text, f"bad_amount: {error}") from None
    if minor is None:
        raise RowRefused(name, text, "no_amount: the fee has no amount")
    return minor.scaleb(-iso_decimals(currency)), currency


def fee_category(invoice: Object, kind: str, amount: Decimal) -> str:
    """The category that the source itself says."""
    if invoice.get("credit_note") is True:
        return "refund"
    return _CATEGORIES.get(kind, "") if amount >= 0 else ""


def fee_unit(code: str) -> str:
    """The unit in a metric's code: `h100_gpu_hours` is counted in gpu_hours; empty where it names none."""
    if not _UNIT.search(code):
        return ""
    found = _UNIT_WORD.search(code)
    return found[0] if found else code


def fee_units(fee: Object) -> Decimal | None:
    """How many units the fee is for; None: not said. Raises RowRefused."""
    text = text_of(fee, "units")
    try:
        return fixed_number(text)
    except ValueError as error:
        raise RowRefused("units", text, f"bad_quantity: {error}") from None


def fee_plan(invoice: Object, fee: Object) -> str:
    """The code of the fee's own plan, or of the only one."""
    wanted = text_of(fee, "external_subscription_id")
    plans = [as_object(item) for item in as_list(invoice.get("subscriptions"))]
    own = [plan for plan in plans if text_of(plan, "external_id") == wanted] or (plans if len(plans) == 1 else [])
    return text_of(own[0], "plan_code") if own else ""

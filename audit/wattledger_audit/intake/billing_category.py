"""What a billed line is for, from the source's own category or its words."""

import re
from decimal import Decimal
from functools import lru_cache

from wattledger_audit.intake.billing_words import any_word, plain_words
from wattledger_audit.intake.record import CATEGORIES

_NAMED = {
    "usage": (
        "usage", "charge", "charges", "usage_based", "metered", "consumption", "on_demand", "verbrauch", "nutzung",
    ),
    "commitment": (
        "commitment", "commit", "purchase", "subscription", "recurring", "reservation", "prepayment", "prepaid",
        "upfront", "fixed", "licensed", "minimum_commitment", "abonnement", "vorauszahlung",
    ),
    "shortfall": ("shortfall", "minimum", "minimum_charge", "mindestabnahme"),
    "credit_promo": (
        "credit", "credits", "promo", "promotion", "discount", "coupon", "voucher", "gutschrift", "rabatt",
    ),
    "credit_sla": ("sla", "sla_credit", "service_credit", "outage_credit"),
    "refund": ("refund", "credit_note", "erstattung", "storno", "chargeback"),
    "tax": ("tax", "taxes", "vat", "gst", "mwst", "ust", "steuer"),
    "adjustment": ("adjustment", "correction", "korrektur", "rounding", "roundingadjustment", "anpassung", "true_up"),
    "non_gpu": ("non_gpu", "nongpu", "other", "storage", "network", "support", "licence", "license"),
}  # fmt: skip
_BY_NAME = {name: category for category, names in _NAMED.items() for name in names} | {c: c for c in CATEGORIES}

_TAX_NAME = r"(?:vat|tax(?:es)?|gst|hst|mwst|ust|umsatzsteuer|mehrwertsteuer|tva|iva|btw|moms)"
_BESIDE_TAX = r"(?:excl\w*|exkl\w*|ex|incl\w*|inkl\w*|without|before|net of|ohne|zzgl|plus|pre)"
_NET_OF_TAX = re.compile(rf"(?<![a-z]){_BESIDE_TAX}[\s.\-]*(?:of\s+)?(?:\d+\s*%\s*)?{_TAX_NAME}(?![a-z])")
_TAX = any_word(_TAX_NAME, "sales tax")
_SLA = any_word(
    "sla", "service[ -]level", "service credits?", "outage", "downtime", r"ausfall\w*", "unavailability", "uptime"
)
_REFUND = any_word(
    r"refund\w*",
    "reversal",
    "credit[ -]note",
    "chargeback",
    r"(?:r[uü]ck)?erstattung\w*",
    r"storno\w*",
    "remboursement",
)
_CREDIT = any_word(
    "credits?", r"gutschrift\w*", "voucher", "coupons?", r"promo\w*", "discounts?", r"rabatt\w*", "goodwill", "kulanz",
    "free tier",
)  # fmt: skip
_GIVEN_BACK = any_word(r"gutschrift\w*", r"credit[ -]?notes?", r"refund\w*", r"(?:r[uü]ck)?erstattung\w*")
_TAKEN_BACK = any_word(
    r"storno\w*", r"stornierung\w*", "reversal", "reversed", "cancell?ed", "cancellation", r"expir\w+", "clawback"
)
_SHORTFALL = any_word("shortfall", "true[ -]?up", "minimum", r"mindest\w+")
_COMMITMENT = any_word(
    "commitment", "committed spend", "prepa(?:id|yment)", "upfront", "retainer", "reservation fee", "base fee",
    "vorauszahlung",
)  # fmt: skip
_ADJUSTMENT = any_word(
    r"adjust\w*", "corrections?", r"korrektur\w*", r"anpassung\w*", r"berichtigung\w*", "rounding", r"rundung\w*",
    "proration",
)  # fmt: skip


def category_of(amount: Decimal, *texts: str, named: str = "") -> str:
    """The revenue category of one line: the source's own (`named`) where it says one, else by the words of the texts.

    Credits and refunds need an amount of zero or less: "10,000 prepaid credits" that are sold are a commitment.
    A negative line without such words is an adjustment.
    """
    return _category((amount > 0) - (amount < 0), texts, named)


def says_credit(*texts: str, named: str = "") -> bool:
    """Whether a line is a credit note or a refund by its own category, or by words that mean nothing else; one that
    takes such a credit back is none."""
    text = plain_words(named, *texts)
    if _TAKEN_BACK.search(text):
        return False
    own = _BY_NAME.get(re.sub(r"[^a-z]+", "_", named.casefold()).strip("_")) if named else None
    return own in ("credit_promo", "credit_sla", "refund") or bool(_GIVEN_BACK.search(text))


@lru_cache(maxsize=65_536)
def _category(sign: int, texts: tuple[str, ...], named: str) -> str:
    text = plain_words(*texts)
    own = _BY_NAME.get(re.sub(r"[^a-z]+", "_", named.casefold()).strip("_")) if named else None
    if own == "credit_promo" and _SLA.search(text):
        return "credit_sla"
    return own or _by_words(sign, f"{plain_words(named)} {text}")


def _by_words(sign: int, text: str) -> str:
    if _TAX.search(_NET_OF_TAX.sub(" ", text)):
        return "tax"
    if sign <= 0:
        if _SLA.search(text):
            return "credit_sla"
        if _REFUND.search(text):
            return "refund"
        if _CREDIT.search(text):
            return "credit_promo"
    for category, words in (("shortfall", _SHORTFALL), ("adjustment", _ADJUSTMENT), ("commitment", _COMMITMENT)):
        if words.search(text):
            return category
    return "adjustment" if sign < 0 else "usage"

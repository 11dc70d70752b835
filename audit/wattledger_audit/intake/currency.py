"""Currencies of billing files: codes in their own column, `$` beside an amount, and the decimals of minor units."""

from wattledger_audit.intake import currency_sign
from wattledger_audit.intake.currency_sign import CODES

_DOLLARS = frozenset({"AUD", "CAD", "HKD", "MXN", "NZD", "SGD", "TWD", "USD"})
_YEN = frozenset({"CNY", "JPY"})
_WORDS = {
    "euros": "EUR", "dollar": "USD", "dollars": "USD", "us dollar": "USD", "us dollars": "USD", "pound sterling": "GBP",
    "franken": "CHF", "schweizer franken": "CHF", "swiss franc": "CHF", "yen": "JPY",
}  # fmt: skip

_STRIPE_NO_DECIMALS = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF"}
)
_ISO_NO_DECIMALS = frozenset(
    {"BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF"}
)
_THREE_DECIMALS = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})


def currency_code(text: str, preferred: str | None = None) -> str:
    """The ISO code that a cell of a currency column names: `usd`, `€`, `Euro`; empty for anything else."""
    stripped = text.strip()
    if stripped.upper() in CODES:
        return stripped.upper()
    return currency_beside(stripped, preferred) if len(stripped) <= 4 else _WORDS.get(stripped.casefold(), "")


def currency_beside(text: str, preferred: str | None = None) -> str:
    """The currency that a sign or code beside an amount names, or empty.

    `$` and `¥` alone are shared: they are the preferred currency where that is one of the kind, else USD and JPY.
    """
    code = currency_sign.currency_in(text)
    if code:
        return code
    if "$" in text:
        return preferred if preferred in _DOLLARS else "USD"
    if "¥" in text or "￥" in text:
        return preferred if preferred in _YEN else "JPY"
    return ""


def stripe_decimals(code: str) -> int:
    """Decimals of Stripe's minor unit. Its API keeps ISK and UGX at two (docs.stripe.com/currencies, special cases)."""
    return _decimals(code, _STRIPE_NO_DECIMALS)


def iso_decimals(code: str) -> int:
    """Decimals of the ISO 4217 minor unit."""
    return _decimals(code, _ISO_NO_DECIMALS)


def _decimals(code: str, without: frozenset[str]) -> int:
    if code in without:
        return 0
    return 3 if code in _THREE_DECIMALS else 2

"""Currency signs and codes as people write them beside an amount."""

import re

_CODES = """
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF
    CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG
    HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD
    MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF
    SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS
    VED VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWL"""
CODES = frozenset(_CODES.split())
"""Codes of ISO 4217 that are money."""

_SIGNS = {
    "€": "EUR", "£": "GBP", "US$": "USD", "C$": "CAD", "CA$": "CAD", "A$": "AUD", "AU$": "AUD", "NZ$": "NZD",
    "HK$": "HKD", "S$": "SGD", "SG$": "SGD", "NT$": "TWD", "R$": "BRL", "MX$": "MXN", "₹": "INR", "RS": "INR",
    "₩": "KRW", "₽": "RUB", "₺": "TRY", "₪": "ILS", "₫": "VND", "₴": "UAH", "₦": "NGN", "₱": "PHP", "฿": "THB",
    "₸": "KZT", "ZŁ": "PLN", "KČ": "CZK", "FT": "HUF", "FR": "CHF", "SFR": "CHF", "EURO": "EUR", "CN¥": "CNY",
    "JP¥": "JPY", "$": "", "¥": "", "KR": "",
}  # fmt: skip
"""What a sign means; empty: a currency, and the sign alone does not say which."""

_FIRST = re.compile(r"([^\d\s.,()+'-]{1,5})\.?(?=[\s\d.,()+-])\s*")
_LAST = re.compile(r"([^\d\s.,()+'-]{1,5})\.?$")
_INSIDE = frozenset("0123456789.,()+-")


def split_first(text: str) -> tuple[str, str]:
    """A currency that the text starts with, as written, and the rest without blanks; `("", text)` if none."""
    if text[:1] in _INSIDE:
        return "", text
    found = _FIRST.match(text)
    return (found.group(1), text[found.end() :]) if found and _is_currency(found.group(1)) else ("", text)


def split_last(text: str) -> tuple[str, str]:
    """A currency that the text ends with, as written, and what stands before it; `("", text)` if none."""
    if text[-1:].isdigit():
        return "", text
    found = _LAST.search(text)
    return (found.group(1), text[: found.start()].strip()) if found and _is_currency(found.group(1)) else ("", text)


def _is_currency(name: str) -> bool:
    return name.upper() in CODES or name.upper() in _SIGNS


def currency_in(text: str) -> str:
    """The ISO 4217 code that an amount carries (`1.355,90€` is EUR, `CHF 5` CHF); empty for none, or for `$` alone."""
    bare = text.strip().lstrip("(+-−").rstrip(")+-−").strip()
    for name in (split_first(bare)[0].upper(), split_last(bare)[0].upper()):
        code = name if name in CODES else _SIGNS.get(name, "")
        if code:
            return code
    return ""

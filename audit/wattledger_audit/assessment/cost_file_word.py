"""Single values of a cost file as people write them: 25%, 15m, 512G, normal(0.8), one or a list. Text in, exact out."""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches

from wattledger_core.units import PPM, US_PER_S
from wattledger_core.verdict_idle import APART, EVEN, NORMAL, WEIGHTED

from wattledger_audit.assessment.cost_book import DEFAULT_BEARERS, PROVIDER, TENANT

SOURCES = ("usage", "billing", "telemetry")
FAULT_STATES = (*DEFAULT_BEARERS, "FAILED", "OUT_OF_MEMORY", "TIMEOUT", "DEADLINE")
"""End states that are somebody's fault: whom one word of `bearer` is about."""
END_STATES = (*FAULT_STATES, "COMPLETED", "CANCELLED")
_NORMAL_PPM = 800_000
_IDLE = {"separate": APART, APART: APART, WEIGHTED: WEIGHTED, EVEN: EVEN, NORMAL: NORMAL}
_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def number(text: object) -> Decimal:
    """A plain decimal of at most 12 places. Raises `ValueError` for anything else."""
    try:
        found = Decimal(text) if isinstance(text, str) else Decimal("NaN")
    except InvalidOperation:
        found = Decimal("NaN")
    exponent = found.as_tuple().exponent
    if not found.is_finite() or not isinstance(exponent, int) or not -12 <= exponent <= 15:
        raise ValueError("it is no number: write a plain decimal such as 0.12")
    return found


def ratio(value: object) -> object:
    """`0.25` and `25%` are the same."""
    if not isinstance(value, str):
        return value
    percent = value.rstrip().endswith("%")
    found = number(value.rstrip()[:-1] if percent else value)
    if percent:
        found = Decimal(f"{found}E-2")
    if not 0 <= found < 1:
        raise ValueError("it is a share below 1: write 0.25 or 25%")
    return found


def ratio_ppm(value: object) -> object:
    """A share in whole millionths."""
    found = ratio(value)
    if not isinstance(found, Decimal):
        raise ValueError("it is a share below 1: write 0.25 or 25%")
    return _whole(found * PPM, "it has more than 6 decimals: round it")


def listed(value: object) -> object:
    """One text is a list of one."""
    return [value] if isinstance(value, str) else value


def duration_us(value: object) -> object:
    """`1m`, `1h`, `60s` or plain seconds."""
    found = re.fullmatch(r"(\d{1,9})\s*(s|sec|m|min|h|d|)", value) if isinstance(value, str) else None
    if not found:
        raise ValueError("a time span is seconds, or such as 60s, 15m, 1h")
    return int(found[1]) * _SECONDS[found[2]] * US_PER_S


def milliwatts(value: object) -> object:
    """Watts, to the thousandth."""
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)\s*W?", value) if isinstance(value, str) else None
    if not found:
        raise ValueError("it is in watts: write a plain number such as 700, or 58.5")
    return _whole(Decimal(found[1]) * 1000, "watts have at most 3 decimals")


def memory_bytes(value: object) -> object:
    """`512G`, `2T`, `2063000M`: binary units, as schedulers count memory."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,3})?)\s*([KMGT])(?:i?B)?", value) if isinstance(value, str) else None
    if not found:
        raise ValueError("memory is a number with its unit, such as 2048G or 2T")
    return _whole(Decimal(found[1]) * _BINARY[found[2]], "it is no whole number of bytes: use a smaller unit")


def idle_of(value: object) -> object:
    """Idle policy and normal utilisation: `separate`, `weighted`, `even`, `normal`, `normal(0.8)`, `{normal: 0.8}`."""
    if isinstance(value, Mapping) and list(value) == [NORMAL]:
        return (NORMAL, ratio_ppm(value[NORMAL]))
    found = re.fullmatch(r"(\w+)\s*(?:\(\s*([^()]+?)\s*\))?", value) if isinstance(value, str) else None
    if found and found[1] in _IDLE and (found[2] is None or found[1] == NORMAL):
        return (_IDLE[found[1]], _NORMAL_PPM if found[2] is None else ratio_ppm(found[2]))
    raise ValueError("idle is separate, weighted, even, normal, or normal(0.8) with what utilisation is normal")


def aliases_of(value: object) -> object:
    """A list is for any source, a mapping goes by source."""
    if not isinstance(value, Mapping):
        return {"": listed(value)}
    for source in value:
        if source not in SOURCES:
            raise ValueError(f"{source!r} is no source of names: use {', '.join(SOURCES)}{nearest(source, SOURCES)}")
    return {source: listed(names) for source, names in value.items()}


def contract_of(value: object) -> object:
    """A number is a rate for everything."""
    if isinstance(value, str):
        return [{"per_gpu_hour": value}]
    return [value] if isinstance(value, Mapping) else value


def bearers_of(value: object) -> object:
    """Who pays by end state; one word is about every state that is somebody's fault."""
    given = dict.fromkeys(FAULT_STATES, value) if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise ValueError(f"bearer is {PROVIDER}, {TENANT}, or a mapping from an end state to one of them")
    bearers: dict[str, str] = {}
    for state, bearer in given.items():
        name = str(state).strip().upper().replace(" ", "_").replace("-", "_")
        if bearer not in (PROVIDER, TENANT):
            raise ValueError(f"{state}: {bearer!r} bears no cost: write {PROVIDER} or {TENANT}")
        close = get_close_matches(name, END_STATES, n=1, cutoff=0.75)
        if close and name not in END_STATES:
            raise ValueError(f"{state!r} is no end state: did you mean {close[0]}?")
        bearers[name] = bearer
    return bearers


def nearest(given: str, known: tuple[str, ...] | list[str]) -> str:
    """`: did you mean X?` when something known is near, else nothing."""
    close = get_close_matches(given.lower(), known, n=1, cutoff=0.6)
    return f": did you mean {close[0]}?" if close else ""


def _whole(value: Decimal, message: str) -> int:
    if value != value.to_integral_value():
        raise ValueError(message)
    return int(value)

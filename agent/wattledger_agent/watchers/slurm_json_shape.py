"""The shapes that one value takes over the releases of SLURM's JSON: numbers in structs, lists or texts, null or {}."""

from typing import Any

from wattledger_agent.watchers.slurm_time import US_PER_S

Json = dict[str, Any]
_NO_TIME = 4_294_967_294
"""SLURM's NO_VAL; the next number is its INFINITE."""
_NO_NUMBERS = frozenset({_NO_TIME, _NO_TIME + 1, (1 << 64) - 2, (1 << 64) - 1})
"""The same in 32 and in 64 bits."""
_NO_NUMBER_FROM = 1 << 63


def whole(value: object) -> int | None:
    """A number, a `{set, infinite, number}` struct or digits; None where it is unset, infinite, null, {} or a mark."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        return whole(value.get("number"))
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value) <= 20:
        value = int(value)
    if isinstance(value, int) and 0 <= value < _NO_NUMBER_FROM and value not in _NO_NUMBERS:
        return value
    return None


def epoch_us(value: object) -> int | None:
    """Epoch seconds in µs; 0 is SLURM's unset, and so are its NO_VAL and INFINITE."""
    seconds = whole(value)
    return None if not seconds or not 0 < seconds < _NO_TIME else seconds * US_PER_S


def text(value: object) -> str:
    """A text, a number as digits, or the name in a struct (`wckey: {wckey: "", flags: []}`); empty for null."""
    if isinstance(value, str):
        # half of a pair, which JSON can write and no text may hold
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        named = (value.get(key) for key in ("name", "wckey", "list", "state", "string"))
        found = next((word for word in named if isinstance(word, str)), "")
        number = whole(value)
        return found or ("" if number is None else str(number))
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return ""


def words(value: object) -> list[str]:
    """The words of a list, a text or a `{current: …}` struct; empty for null and {}."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, list):
        return [word for word in map(text, value) if word]
    if isinstance(value, dict):
        return words(value.get("current") or value.get("flags"))
    return []


def struct(value: object) -> Json:
    """A JSON object, {} for anything else."""
    return value if isinstance(value, dict) else {}


def host_names(value: object) -> str:
    """A host list's text: from a text, a list, or an object with `list`, `names`, `nodes` or `allocation`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        names = [host_names(item) if not isinstance(item, dict) else _host_name(item) for item in value]
        return ",".join(name for name in names if name)
    if isinstance(value, dict):
        for key in ("list", "names", "nodes", "allocation"):
            if found := host_names(value.get(key)):
                return found
    return ""


def _host_name(item: Json) -> str:
    return text(item.get("name") or item.get("nodename") or item.get("node_name") or item.get("hostname"))

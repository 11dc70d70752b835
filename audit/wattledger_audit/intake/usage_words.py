"""Words of usage tables and what they mean: states, plans, yes and no, sizes, durations."""

import re
from decimal import Decimal
from functools import lru_cache

from wattledger_core.event import PLANS
from wattledger_core.units import US_PER_S

from wattledger_audit.intake.slurm_state import state_word
from wattledger_audit.intake.slurm_time import duration_us

UNSAID = frozenset({"", "-", "null", "none", "nan", "n/a", "na", "\\n", "(null)", "unknown"})
"""Cells, in lower case, that say nothing."""
_STATES = {
    "SUCCEEDED": "COMPLETED", "SUCCESS": "COMPLETED", "SUCCESSFUL": "COMPLETED", "COMPLETE": "COMPLETED",
    "DONE": "COMPLETED", "FINISHED": "COMPLETED", "OK": "COMPLETED", "EVICTED": "PREEMPTED",
    "PREEMPTION": "PREEMPTED", "INTERRUPTED": "PREEMPTED", "OOMKILLED": "OUT_OF_MEMORY", "OOM_KILLED": "OUT_OF_MEMORY",
    "OUTOFMEMORY": "OUT_OF_MEMORY", "FAILURE": "FAILED", "ERROR": "FAILED", "ERRORED": "FAILED",
    "CANCELED": "CANCELLED", "ABORTED": "CANCELLED", "KILLED": "CANCELLED",
    "TIMED_OUT": "TIMEOUT", "TIMEDOUT": "TIMEOUT", "DEADLINEEXCEEDED": "TIMEOUT",
    "ACTIVE": "RUNNING", "IN_PROGRESS": "RUNNING", "QUEUED": "PENDING",
    "WAITING": "PENDING",
    "NODE_FAILURE": "NODE_FAIL", "NODEFAIL": "NODE_FAIL", "NODE_LOST": "NODE_FAIL",
    "NODELOST": "NODE_FAIL", "PAUSED": "SUSPENDED",
}  # fmt: skip
_PLANS = {
    "ondemand": "on_demand", "payg": "on_demand", "payasyougo": "on_demand", "standard": "on_demand",
    "preemptible": "spot", "preemptable": "spot", "interruptible": "spot", "committed": "reserved",
    "commitment": "reserved", "reservation": "reserved", "reservedinstance": "reserved", "dedicated": "reserved",
    "free": "trial", "freetrial": "trial", "poc": "trial", "inhouse": "internal",
} | {plan.replace("_", ""): plan for plan in PLANS}  # fmt: skip
_YES, _NO = frozenset({"1", "yes", "y", "true", "t", "exclusive"}), frozenset({"0", "no", "n", "false", "f", "shared"})
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)(b?|bytes)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_LEAST_PLAIN_BYTES = 1 << 20
_SPAN = re.compile(
    r"(\d+(?:[.,]\d+)?|\d*[.,]\d+)\s*(ms|milliseconds|s|sec|secs|seconds?|min|mins|minutes?|h|hrs?|hours?|d|days?)?",
    re.I,
)
_US_OF = {"ms": 1000, "s": US_PER_S, "min": 60 * US_PER_S, "h": 3600 * US_PER_S, "d": 86_400 * US_PER_S}
_UNIT_OF = {"mil": "ms", "sec": "s", "min": "min", "hr": "h", "hrs": "h", "hou": "h", "day": "d"}


@lru_cache(maxsize=4096)
def state_of(text: str) -> str:
    """A state in SLURM's words where it has one, otherwise as given; upper case."""
    word = "_".join(text.upper().replace("-", " ").split())
    if word.lower() in UNSAID:
        return ""
    return _STATES.get(word) or state_word(text.strip().upper()) or state_word(word) or word


@lru_cache(maxsize=4096)
def plan_of(text: str) -> str | None:
    """One of the core's plans, empty for a cell that says nothing, None for a word that is no plan."""
    if text.lower() in UNSAID:
        return ""
    return _PLANS.get(re.sub(r"[\s_\-]+", "", text.lower()))


def yes_or_no(text: str) -> bool | None:
    """None: neither."""
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO or word in UNSAID else None


def size_bytes(text: str, unit: str = "") -> int | None:
    """Bytes of `64G`, `64 GiB`, `68719476736`; G, GB and GiB are 2^30, as schedulers mean them.

    `unit` is the column's own (`mem_gb`). None: unreadable, or a plain number too small to be bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    letter = found[2].lower() or unit[:1].lower()
    size = int(Decimal(found[1]) * 1024 ** _POWERS[letter])
    bare = not letter and not found[4]
    return None if bare and 0 < size < _LEAST_PLAIN_BYTES else size


def span_us(text: str, unit: str = "s") -> int | None:
    """µs of `3600`, `3600.5 s`, `1,5 h`, `[D-]HH:MM:SS`; a plain number is in `unit`. None: no duration."""
    if found := _SPAN.fullmatch(text.strip()):
        said = (found[2] or unit).lower()
        return int(Decimal(found[1].replace(",", ".")) * _US_OF[_UNIT_OF.get(said[:3], said)])
    try:
        return duration_us(text.strip())
    except ValueError:
        return None


def is_bare_number(text: str) -> bool:
    """Whether a duration is written as a number without a unit."""
    found = _SPAN.fullmatch(text.strip())
    return found is not None and found[2] is None


def could_be_span(text: str, length_us: int, slack_us: int) -> bool:
    """Whether a number without a unit is this length of time in milliseconds, seconds, minutes or hours."""
    return any(
        (told := span_us(text, unit)) is not None and abs(told - length_us) <= max(slack_us, _US_OF[unit] // 100)
        for unit in ("ms", "s", "min", "h")
    )

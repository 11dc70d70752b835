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
_SECONDS = re.compile(r"(\d+)(?:\.(\d{1,6}))?\d*\s*(?:s|sec|secs|seconds)?", re.IGNORECASE)


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


def span_us(text: str) -> int | None:
    """µs of `3600`, `3600.5 s`, `[D-]HH:MM:SS`; None: no duration."""
    if found := _SECONDS.fullmatch(text.strip()):
        return int(found[1]) * US_PER_S + int((found[2] or "").ljust(6, "0"))
    try:
        return duration_us(text.strip())
    except ValueError:
        return None

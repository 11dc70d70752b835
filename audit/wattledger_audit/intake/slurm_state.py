"""SLURM's words: job states, why a job waits, and what a QOS says about the plan. Owns no times."""

import re

from wattledger_core.event import PLANS

STATES = (
    "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE",
    "REVOKED", "REQUEUED", "RESIZING", "RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED",
    "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "POWER_UP_NODE",
    "EXPEDITING", "LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB",
)  # fmt: skip
_SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED",
    "R": "RUNNING", "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "ST": "STOPPED",
    "TO": "TIMEOUT",
}  # fmt: skip
WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
OPEN = frozenset({"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"})
"""States of a run that still holds its nodes."""
_COULD_START = frozenset({"", "none", "priority", "resources", "n/a", "unknown"})
_SPOT = re.compile(r"(?:^|[^a-z])(?:spot|preempt\w*|scavenge\w*)(?:$|[^a-z])")


def state_word(text: str) -> str | None:
    """The state of `CANCELLED by 123`, `NODE_FAIL`, the cut `CANCELLED+` or the short `CD`; None: no state word."""
    word = text.split(" ", 1)[0].upper()
    if word.endswith("+"):
        stem = word[:-1]
        fits = [state for state in STATES if len(stem) >= 3 and state.startswith(stem)]
        return fits[0] if len(fits) == 1 or stem in fits else None
    if word in STATES:
        return word
    return _SHORT.get(word)


def waits_for(reason: str) -> str:
    """Why a pending job could not have started, empty when it waited for nothing but its turn and free nodes."""
    text = reason.strip().strip("()")
    return "" if text.lower() in _COULD_START else text


def plan_of_qos(qos: str) -> str:
    """The plan a QOS names, `spot` for words like preemptible, empty when it names none."""
    word = qos.strip().lower().replace("-", "_")
    if word in PLANS:
        return word
    return "spot" if _SPOT.search(word) else ""


def is_exclusive(exclusive: str, oversubscribe: str) -> bool:
    """From a column Exclusive (a yes) or OverSubscribe (`NO` is what SLURM shows for --exclusive)."""
    return exclusive.strip().lower() in {"1", "yes", "y", "true", "exclusive"} or (
        oversubscribe.strip().upper() in {"NO", "EXCLUSIVE"}
    )

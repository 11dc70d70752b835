"""SLURM's words for the state of a job, and what a QOS says about the plan. Owns no times."""

import re

STATES = frozenset({
    "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE",
    "REVOKED", "REQUEUED", "RESIZING", "RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED",
    "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "POWER_UP_NODE",
    "EXPEDITING", "LAUNCH_FAILED", "RECONFIG_FAIL",
})  # fmt: skip
_SHORT = {
    "BF": "BOOT_FAIL", "CA": "CANCELLED", "CD": "COMPLETED", "CF": "CONFIGURING", "CG": "COMPLETING",
    "DL": "DEADLINE", "F": "FAILED", "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PD": "PENDING", "PR": "PREEMPTED",
    "R": "RUNNING", "RQ": "REQUEUED", "RS": "RESIZING", "RV": "REVOKED", "S": "SUSPENDED", "ST": "STOPPED",
    "TO": "TIMEOUT",
}  # fmt: skip
WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
OPEN = frozenset({
    "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING",
    "EXPEDITING", "POWER_UP_NODE",
})  # fmt: skip
"""States in which a job still holds its nodes: an end that comes with them is only expected."""
_PASSING = ("SUSPENDED", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT")
_FLAGS = ("REQUEUED", "RESIZING", "REVOKED")
_PLANS = ("reserved", "on_demand", "spot", "internal", "trial")
_SPOT = re.compile(r"(?:^|[^a-z])(?:spot|preempt\w*|scavenge\w*)(?:$|[^a-z])")


def state_word(text: str) -> str:
    """The state in `CANCELLED by 123`, the cut `CANCELLED+` or the short `CD`; empty: no state word."""
    word = text.strip().split(" ", 1)[0].upper()
    if word.endswith("+"):
        stem = word[:-1]
        fits = [state for state in sorted(STATES) if len(stem) >= 3 and state.startswith(stem)]
        return fits[0] if len(fits) == 1 else stem if stem in fits else ""
    return word if word in STATES else _SHORT.get(word, "")


def state_of(words: list[str]) -> str:
    """One state out of a base state and flags, as REST and JSON list them; empty: none that is known.

    A job that waits again holds nothing, whatever else is listed; a flag that tells what holds now (COMPLETING) goes
    before the base state, and so does REQUEUED."""
    known = [word for word in map(state_word, words) if word]
    waiting = [word for word in known if word in WAITING]
    flags = [word for word in (*_FLAGS, *_PASSING) if word in known]
    return (waiting or flags or known or [""])[0]


def plan_of_qos(qos: str) -> str:
    """The plan that a QOS names, `spot` for words like preemptible, empty when it names none."""
    word = qos.strip().lower().replace("-", "_")
    if word in _PLANS:
        return word
    return "spot" if _SPOT.search(word) else ""

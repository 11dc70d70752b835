"""SLURM's node states (`DOWN*`, `IDLE+DRAIN`, `MAINT`) as the core's. Owns which state wins when several are said."""

import re

_SIGNS = {"*": "NO_RESPOND", "$": "MAINT"}
_FAILED = frozenset({"DOWN", "FAIL", "FAILED", "FAILING", "NO_RESPOND", "NOT_RESPONDING", "UNKNOWN", "ERROR"})
_OTHER = frozenset(
    """ALLOCATED ALLOC IDLE MIXED MIX COMPLETING COMP RESERVED RESV PLANNED POWERED_DOWN POWERING_DOWN POWER_DOWN
    POWERING_UP POWER_UP REBOOT REBOOT_ISSUED REBOOT_REQUESTED FUTURE FUTR INVAL INVALID_REG PERFCTRS NPC BLOCKED UP
    CLOUD DYNAMIC_NORM RESUME UNDRAIN CANCEL_REBOOT POWERED_UP POWER_DRAIN EXTERNAL""".split()  # noqa: SIM905
)


def _words(text: str) -> set[str]:
    """`DOWN*+DRAIN` -> DOWN, NO_RESPOND, DRAIN."""
    words: set[str] = set()
    for part in re.split(r"[+,]", text.strip().upper()):
        name = part.rstrip("*~#!%$@^-")
        words.add(name)
        words.update(_SIGNS[sign] for sign in part[len(name) :] if sign in _SIGNS)
    return words - {""}


def _is_draining(word: str) -> bool:
    return word.startswith("DRAIN") or word == "DRNG"


def is_node_state(text: str) -> bool:
    """Whether the text is made of SLURM's node states; sacctmgr leaves it blank for states it can't name."""
    words = _words(text)
    return all(word in _FAILED or word in _OTHER or word.startswith("MAINT") or _is_draining(word) for word in words)


def node_state(text: str) -> str | None:
    """`maintenance`, `failed` or `draining`, in this order when several are said; None: the node was available.

    Maintenance comes first because a node that is down inside it was taken away on purpose."""
    words = _words(text)
    if any(word.startswith("MAINT") for word in words):
        return "maintenance"
    if words & _FAILED:
        return "failed"
    return "draining" if any(map(_is_draining, words)) else None

"""Job events as the agent says them: their ids and their wire shape (job_event v2). Decides nothing."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from wattledger_agent.run_claim import WireClaim
from wattledger_agent.watchers.run import Run

START, RESIZE, SUSPEND, RESUME = "start", "resize", "suspend", "resume"
STOP_REQUESTED, END, REQUEUE, RELEASED = "stop_requested", "end", "requeue", "released"
_RANKS = {k: n for n, k in enumerate((START, RESIZE, SUSPEND, RESUME, STOP_REQUESTED, END, REQUEUE, RELEASED))}

TEXT_FACTS = ("tenant", "project", "user", "model_tag", "plan", "requested_profile")
DEFAULT_PLAN = "on_demand"
MOST_RESTATEMENTS = 9999

Event = dict[str, Any]
Facts = dict[str, str]


def facts_of(run: Run) -> Facts:
    """Who holds it and on which terms, as far as the source says; `exclusive` as `true` or empty."""
    told = {name: getattr(run, name) for name in TEXT_FACTS if getattr(run, name)}
    return told | ({"exclusive": "true"} if run.exclusive else {})


def event(
    kind: str,
    at_us: int,
    run: Run,
    node: str,
    attempt: int,
    facts: Facts,
    claims: Iterable[WireClaim] = (),
    outcome: str = "",
    number: int = 0,
) -> Event:
    """A job event in wire shape. `attempt` is the number it is said under.

    `number` counts starts and resizes of one run. Sessions order events of one kind and instant by their ids, and take
    who pays from the first start: so a start that is said again with other facts gets an id that sorts before the
    earlier one and wins, and a resize sorts after the one before. An end is said again (number 1) with the outcome that
    it lacked; sessions fill it in.
    """
    if kind == START:
        order = f"{MOST_RESTATEMENTS - number:04d}-"
    else:
        order = f"{number:04d}-" if kind == RESIZE or number else ""
    return {
        "event_id": order + _digest(run.source, node, run.cluster, run.job, attempt, kind, at_us),
        "kind": kind,
        "at_us": at_us,
        "cluster": run.cluster,
        "job": run.job,
        "attempt": attempt,
        "claims": [dict(claim) for claim in claims],
        **{name: facts.get(name, "") for name in TEXT_FACTS},
        "plan": facts.get("plan") or DEFAULT_PLAN,
        "sku": "",
        "exclusive": "exclusive" in facts,
        "outcome": outcome,
        "source": run.source,
        "node": node,
    }


def in_order(events: Iterable[Event]) -> list[Event]:
    """By time; in one instant an attempt before the next one, and of one attempt by what can follow what."""
    return sorted(events, key=lambda e: (e["at_us"], e["attempt"], _RANKS[e["kind"]]))


def _digest(*parts: str | int) -> str:
    """128 bits, hex, of the parts with their lengths, so that no two lists of parts are one text."""
    text = "".join(f"{len(str(part))}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

"""The life of one run: what each sighting of it makes it say. No clock, no I/O; the book says which sighting counts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from wattledger_agent.run_claim import Resolved, WireClaim
from wattledger_agent.run_entry import BY_SOURCE, Entry
from wattledger_agent.run_event import (
    END,
    MOST_RESTATEMENTS,
    RELEASED,
    REQUEUE,
    RESIZE,
    RESUME,
    START,
    STOP_REQUESTED,
    SUSPEND,
    Event,
    event,
    facts_of,
)
from wattledger_agent.watchers.run import Finding, Held, Run

REQUEUED = "REQUEUED"
FUTURE_SLACK_US = 300_000_000
"""How far another machine's clock may be ahead of this one's."""

Resolver = Callable[[tuple[Held, ...]], Resolved]


@dataclass(slots=True)
class Observed:
    """What came of it: events to publish, in order, and findings for dead letters."""

    events: list[Event] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Look:
    """The circumstances of one look: when, against which inventory (its number), and into what the outcome goes."""

    node: str
    at_us: int
    now_us: int
    inventory: int
    resolve: Resolver
    wait_limit_us: int
    out: Observed

    def note(self, entry: Entry, reason: str, detail: str) -> None:
        """A finding, once for a run."""
        mark = f"{reason} {detail}"
        if mark not in entry.noted:
            entry.noted.append(mark)
            entry.text = ""
            self.out.findings.append(Finding(entry.run.source, reason, f"{entry.name}: {detail}"))


def first_seen(run: Run, watcher: str, attempt: int, look: Look) -> Entry:
    """A run that is not in the book; nothing is said yet. A start that is not told is now, at the latest."""
    start_us = run.started_us
    is_told = 0 < start_us <= look.at_us + FUTURE_SLACK_US
    entry = Entry(run, watcher, attempt, start_us if is_told else look.at_us, facts_of(run))
    entry.pending_us = entry.start_us
    if not is_told:
        look.note(entry, "start_unknown", f"started_us {start_us} is no time in the past: it counts from {look.at_us}")
    return entry


def see(entry: Entry, run: Run, look: Look) -> None:
    """A fresh sighting of an open run: facts, holds, suspension, then how it ended if it did."""
    if run.held != entry.run.held and entry.pending_us is None:
        entry.pending_us = look.at_us
        entry.inventory_seen = -1
    learned = {name: value for name, value in facts_of(run).items() if entry.facts.get(name) != value}
    entry.run = run
    if learned:
        entry.facts = entry.facts | learned
        _state_again(entry, look)
    is_open = not has_ended(run, look)
    if is_open and run.is_suspended != entry.is_suspended:
        entry.is_suspended = run.is_suspended
        _say(entry, SUSPEND if run.is_suspended else RESUME, look.at_us, look)
    if is_open:
        settle(entry, look)
    close_as_told(entry, run, look)


def has_ended(run: Run, look: Look) -> bool:
    """Whether the source says so. An end that lies ahead is a plan, and the run goes on."""
    return run.ended_us is not None and run.ended_us <= look.at_us + FUTURE_SLACK_US


def close_as_told(entry: Entry, run: Run, look: Look) -> None:
    """Stop, end and release, as far as the source tells them and they were not said."""
    if run.ended_us is not None and not has_ended(run, look):
        look.note(
            entry, "end_in_future", f"ended_us {run.ended_us} is ahead of {look.at_us}: have the source tell ends only"
        )
    if run.stop_requested_us is not None and not entry.is_stopping and entry.is_open:
        entry.is_stopping = True
        end_us = run.ended_us if has_ended(run, look) and run.ended_us is not None else run.stop_requested_us
        _say(entry, STOP_REQUESTED, min(run.stop_requested_us, end_us), look)
    if entry.is_open and run.ended_us is not None and has_ended(run, look):
        close(entry, run.ended_us, run.outcome, BY_SOURCE, look)
    if _tells_outcome(entry, run):
        # accounting knows the outcome later than the node knows the end: the end is said again with it
        entry.has_outcome, entry.text = True, ""
        _emit(entry, END, entry.end_us or 0, look, outcome=run.outcome, number=1)
    if not entry.is_open and run.released_us is not None and not entry.is_released and entry.ended_by == BY_SOURCE:
        entry.is_released, entry.text = True, ""
        _say(entry, RELEASED, max(run.released_us, entry.end_us or 0), look)
    if not entry.is_open:
        settle(entry, look)


def _tells_outcome(entry: Entry, run: Run) -> bool:
    """Whether a run whose end was said by its source gets the outcome now that it lacked then."""
    is_lacking = not entry.is_open and entry.is_said and entry.ended_by == BY_SOURCE and not entry.has_outcome
    return is_lacking and run.outcome not in ("", REQUEUED)


def close(entry: Entry, end_us: int, outcome: str, by: str, look: Look) -> None:
    """The run is over: an end, or a requeue where that is how the source calls it."""
    entry.end_us, entry.ended_by, entry.has_outcome = max(end_us, entry.start_us), by, bool(outcome)
    _say(entry, REQUEUE if outcome == REQUEUED else END, entry.end_us, look, outcome)


def settle(entry: Entry, look: Look) -> None:
    """Say what it holds, if all of that can be told by now; after the limit, what of it can."""
    if entry.is_said and (not entry.is_open or (entry.pending_us is None and entry.inventory_seen == look.inventory)):
        return
    entry.inventory_seen = look.inventory
    found = look.resolve(entry.run.held)
    for missed in found.missed:
        if missed.is_final:
            look.note(entry, missed.reason, missed.detail)
    if found.may_come and _waits(entry, found, look):
        return
    if not found.may_come:
        entry.waiting_from_us = None
    if not entry.is_said:
        _say_start(entry, list(found.claims), look)
    elif list(found.claims) != entry.claims:
        at_us = max(look.at_us if entry.pending_us is None else entry.pending_us, entry.start_us)
        entry.claims, entry.resizes = list(found.claims), entry.resizes + 1
        _emit(entry, RESIZE, at_us, look, claims=entry.claims, number=entry.resizes)
    if not found.may_come:
        entry.pending_us = None


def _waits(entry: Entry, found: Resolved, look: Look) -> bool:
    """Whether to say nothing yet. A device that was there and is gone changes nothing of who holds it."""
    if entry.is_said and entry.pending_us is None:
        for missed in found.missed:
            look.note(entry, "held_device_gone", f"{missed.detail} It counts as held all the same")
        return True
    if entry.waiting_from_us is None:
        entry.waiting_from_us = look.now_us
    if look.now_us - entry.waiting_from_us < look.wait_limit_us:
        return True
    for missed in (one for one in found.missed if not one.is_final):
        look.note(entry, missed.reason, f"{missed.detail} (waited {look.wait_limit_us // 1_000_000} s)")
    return False


def _say_start(entry: Entry, claims: list[WireClaim], look: Look) -> None:
    entry.is_said, entry.claims, entry.start_claims = True, claims, claims
    _emit(entry, START, entry.start_us, look, claims=claims)
    for kind, at_us, outcome in sorted(entry.later, key=lambda one: one[1]):
        _emit(entry, kind, at_us, look, outcome=outcome)
    entry.later = []


def _state_again(entry: Entry, look: Look) -> None:
    """Facts that came later: the same start again under an id that sorts before, which sessions take for the first."""
    if not entry.is_said:
        return
    if entry.starts >= MOST_RESTATEMENTS:
        look.note(
            entry, "facts_unstable", "its tenant, project, user, model or plan changed too often: the last is kept"
        )
        return
    entry.starts += 1
    _emit(entry, START, entry.start_us, look, claims=entry.start_claims, number=entry.starts)


def _say(entry: Entry, kind: str, at_us: int, look: Look, outcome: str = "") -> None:
    """Now if its start was said, else after it. Nothing is said to have happened before the start."""
    at_us = max(at_us, entry.start_us)
    if entry.is_said:
        _emit(entry, kind, at_us, look, outcome=outcome)
    else:
        entry.later.append((kind, at_us, outcome))


def _emit(
    entry: Entry,
    kind: str,
    at_us: int,
    look: Look,
    claims: list[WireClaim] | None = None,
    outcome: str = "",
    number: int = 0,
) -> None:
    look.out.events.append(
        event(kind, at_us, entry.run, look.node, entry.attempt, entry.facts, claims or (), outcome, number)
    )

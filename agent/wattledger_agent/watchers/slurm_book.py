"""The runs of this node over all sources: which record speaks of which run, what was reported, what is done with."""

from collections import deque
from collections.abc import Iterable

from wattledger_agent.watchers.run import Finding, Run
from wattledger_agent.watchers.slurm_entry import Entry
from wattledger_agent.watchers.slurm_fact import EPILOG, LIVE, PROLOG, Fact, finding
from wattledger_agent.watchers.slurm_run import Bounds, begun_us, compose, held_of
from wattledger_agent.watchers.slurm_time import US_PER_S

_GRACE_US = 60 * US_PER_S
_NO_EPILOG_US = 600 * US_PER_S
_CATCH_UP_US = 600 * US_PER_S
_HISTORY_US = 7 * 86_400 * US_PER_S
GONE_AFTER = 2
"""So many snapshots in a row must lack a run before it counts as ended: one may be half an answer."""


class SlurmBook:
    """`keep_us`: how long an ended run is remembered, so that what comes later about it is known to be about it; at
    most `most_kept` are. Records of runs that ended before are left out, but for the first ten minutes: then a week's
    are taken, for what ended while nobody looked. `booted_us`: when this node started; nothing runs through that."""

    def __init__(self, cluster: str, keep_us: int, booted_us: int | None = None, most_kept: int = 5000) -> None:
        self._cluster = cluster
        self._keep_us = keep_us
        self._booted_us = booted_us
        self._most_kept = most_kept
        self._caught_up_us: int | None = None
        self._jobs: dict[str, list[Entry]] = {}
        self._active: dict[int, Entry] = {}
        self._done: deque[Entry] = deque()

    def add(self, fact: Fact, now_us: int) -> Entry | None:
        """The run that a fact speaks of, made new if there is none; None for a fact that is left out."""
        if self._caught_up_us is None:
            self._caught_up_us = now_us + _CATCH_UP_US
        entries = self._jobs.get(fact.job, [])
        entry = next((one for one in entries if one.is_told_of_by(fact)), None)
        if entry is None:
            back_us = _HISTORY_US if now_us < self._caught_up_us else self._keep_us
            if fact.is_of_no_length or (fact.end_us is not None and fact.end_us < now_us - back_us):
                return None
            entry = Entry(fact.job)
            self._jobs.setdefault(fact.job, []).append(entry)
        if not fact.is_of_no_length or entry.was_seen_here:
            entry.take(fact)
            self._active[id(entry)] = entry
        return entry

    def snapshot(self, source: str, at_us: int, present: Iterable[Entry]) -> None:
        """A whole snapshot of the controller's: runs that it showed before and lacks now have ended."""
        here = set()
        for entry in present:
            here.add(id(entry))
            entry.lacking[source] = (0, 0)
            if entry.closed_us is not None:
                entry.closed_us, entry.is_dirty = None, True
                self._active[id(entry)] = entry
        for entry in self._active.values():
            is_meant = source in entry.lacking and entry.end_us is None and entry.start_us < at_us - _GRACE_US
            if id(entry) in here or not is_meant:
                continue
            times, first_us = entry.lacking[source]
            entry.lacking[source] = (times + 1, first_us or at_us)
            if times + 1 >= GONE_AFTER:
                entry.closed_us, entry.is_dirty = first_us or at_us, True

    def runs(self, now_us: int) -> tuple[tuple[Run, ...], tuple[Finding, ...]]:
        """Runs that are open, and ended ones that are not known yet as they are now; in order of start."""
        for job in {entry.job for entry in self._active.values() if entry.is_dirty}:
            self._settle(self._jobs[job])
        told, found = [], []
        for entry in list(self._active.values()):
            if entry.run is None:
                found.extend(_lost(entry, now_us))
            elif entry.run.ended_us is None or entry.run != entry.reported:
                told.append(entry.run)
                entry.reported = entry.run
            if entry.is_settled and not entry.files:
                self._rest(entry)
        self._forget(now_us)
        return tuple(sorted(told, key=lambda run: (run.started_us, run.job, run.attempt))), tuple(found)

    def handed_over(self, now_us: int) -> list[str]:
        """Drop files of runs whose end an earlier look reported: whoever asked for it has kept it by now. A run whose
        epilog has not come keeps its prolog's for ten minutes, for it says when the run began."""
        names: list[str] = []
        for entry in list(self._active.values()):
            if not entry.is_settled:
                continue
            end_us = entry.end_us
            if EPILOG in entry.facts or (end_us is not None and end_us < now_us - _NO_EPILOG_US):
                names.extend(sorted(entry.files))
                entry.files.clear()
                self._rest(entry)
        return names

    def _rest(self, entry: Entry) -> None:
        self._active.pop(id(entry), None)
        if not entry.is_listed:
            entry.is_listed = True
            self._done.append(entry)

    def _forget(self, now_us: int) -> None:
        """The oldest that are done, in the order in which they were done with."""
        while self._done:
            entry = self._done[0]
            is_old = (entry.end_us or 0) < now_us - self._keep_us
            if not is_old and len(self._done) <= self._most_kept:
                break
            self._done.popleft()
            entry.is_listed = False
            if id(entry) in self._active:
                continue
            entries = self._jobs[entry.job]
            entries.remove(entry)
            if not entries:
                del self._jobs[entry.job]

    def _settle(self, entries: list[Entry]) -> None:
        """Make a job's runs anew, in order: one that has a successor has ended, and numbers follow the starts."""
        entries.sort(key=lambda entry: (entry.start_us, entry.attempt or 0))
        taken = {entry.number for entry in entries if entry.number is not None}
        for place, entry in enumerate(entries):
            if entry.number is None:
                next_one = max(taken, default=-1) + 1
                said = entry.attempt
                entry.number = said if said is not None and said not in taken else next_one
                taken.add(entry.number)
            self._time(entry)
            later_us = entries[place + 1].start_us if place + 1 < len(entries) else None
            bounds = Bounds(entry.started_us, self._closed_us(entry, later_us))
            run = compose(entry.facts, entry.job, entry.number, self._cluster or entry.cluster, bounds)
            entry.is_dirty = False
            if run != entry.run:
                entry.run = run
                self._active[id(entry)] = entry

    def _time(self, entry: Entry) -> None:
        """When it began: said once, and moved only if it turns out to have been clearly earlier."""
        begun = begun_us(entry.facts)
        if begun is None:
            return
        prolog = entry.facts.get(PROLOG)
        if entry.started_us is None:
            is_exact = prolog is not None and prolog.at_us == begun
            entry.started_us = begun if is_exact else self._freed_us(entry, begun)
        elif begun < entry.started_us - US_PER_S:
            entry.started_us = begun

    def _freed_us(self, entry: Entry, begun: int) -> int:
        """A stamp in whole seconds may lie before the moment at which the run before gave the same device up."""
        refs = {held.ref for held in held_of(entry.facts)}
        freed = [begun]
        for other in (*self._active.values(), *self._done):
            if other is entry or other.run is None or not refs & {held.ref for held in other.run.held}:
                continue
            end_us = other.run.released_us or other.run.ended_us
            if end_us is not None and begun < end_us < begun + US_PER_S:
                freed.append(end_us)
        return max(freed)

    def _closed_us(self, entry: Entry, later_us: int | None) -> int | None:
        """The earliest of what else shows that it ended."""
        booted = self._booted_us
        is_before_boot = booted is not None and entry.start_us < booted and LIVE not in entry.facts
        bounds = (entry.closed_us, later_us, booted if is_before_boot else None)
        return min((bound for bound in bounds if bound is not None), default=None)


def _lost(entry: Entry, now_us: int) -> list[Finding]:
    """An end without any start, once nothing else is likely to come."""
    epilog = entry.facts.get(EPILOG)
    if entry.is_lost or epilog is None or now_us - epilog.at_us < _GRACE_US:
        return []
    entry.is_lost = True
    words = "its epilog has no SLURM_JOB_START_TIME and no prolog or accounting record came: when it began is unknown"
    return [finding("start_unknown", f"job {entry.job}: {words}; install the prolog too")]

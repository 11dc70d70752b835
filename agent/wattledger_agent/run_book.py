"""All runs of this node: sightings of all sources become job events, each said once. A pure fold; keeps no file."""

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction

from wattledger_agent.probes.device import Inventory
from wattledger_agent.run_claim import Resolved, resolve
from wattledger_agent.run_conflict import Conflicts, Holder, Job, Use
from wattledger_agent.run_entry import BY_ABSENCE, BY_ATTEMPT, BY_REBOOT, Entry, RunKey
from wattledger_agent.run_event import in_order
from wattledger_agent.run_life import REQUEUED, Look, Observed, close, close_as_told, first_seen, has_ended, see, settle
from wattledger_agent.watchers.run import Held, Run, Sighting

VERSION = 1
WAIT_LIMIT_US = 600_000_000
SETTLE_US = 30_000_000
LINGER_US = 60_000_000
"""How long a run's processes still count as its own after its end: the last samples come a little later."""
_KEPT_US = 6 * 3_600_000_000
_MOST_ENDED = 256


class BadRunBook(ValueError):
    """A kept state that can't be used: begin with an empty book; repeats are duplicates by their event ids."""


class RunBook:
    """The runs of `node`. `observe` is told every sighting; events and `dump()` belong into one transaction.

    A source is told by the name of its watcher. A source that does not answer ends nothing: it is not observed.
    `wait_limit_us`: how long a run waits for a device that is not there (a driver that loads) before it is said
    without. `settle_us`: how long use without a hold must last before it is a finding.
    """

    def __init__(
        self,
        node: str,
        boot_id: str = "",
        xcp_minors: Mapping[int, int] | None = None,
        wait_limit_us: int = WAIT_LIMIT_US,
        settle_us: int = SETTLE_US,
    ) -> None:
        self._node = node
        self._boot_id = boot_id
        self._xcp_minors = dict(xcp_minors or {})
        self._wait_limit_us = wait_limit_us
        self._entries: dict[RunKey, Entry] = {}
        self._looked_us: dict[str, int] = {}
        self._conflicts = Conflicts(settle_us)
        self._inventory = Inventory()
        self._inventory_number = 0

    def observe(self, source: str, sighting: Sighting, inventory: Inventory, now_us: int) -> Observed:
        """What a sighting of the watcher named `source` changes. One that is not newer than the last of its source
        is a repeat: it can bring a run or an end that was missed, but nothing is over because it lacks it."""
        look = self._look(sighting.at_us, now_us, inventory)
        is_fresh = sighting.at_us > self._looked_us.get(source, -1)
        if is_fresh:
            look.out.findings.extend(sighting.findings)
            self._looked_us[source] = sighting.at_us
        seen: set[RunKey] = set()
        for run in sorted(
            sighting.runs, key=lambda run: (run.started_us, run.source, run.cluster, run.job, run.attempt)
        ):
            key = (run.source, run.cluster, run.job, run.attempt)
            if key in seen and self._entries[key].is_open:
                look.note(self._entries[key], "run_repeated", "is listed twice in one sighting: the first counts")
                continue
            if self._take(run, source, is_fresh, look):
                seen.add(key)
        if is_fresh and sighting.is_snapshot:
            for entry in self._entries.values():
                if entry.watcher == source and entry.is_open and entry.key not in seen:
                    close(entry, sighting.at_us, BY_ABSENCE, BY_ABSENCE, look)
        return self._finish(look)

    def retry(self, inventory: Inventory, now_us: int) -> Observed:
        """Say of the waiting runs what the inventory lets say by now. `observe` does it too."""
        return self._finish(self._look(now_us, now_us, inventory))

    def observe_use(self, uses: Iterable[Use], now_us: int) -> Observed:
        """Findings about who is on devices now; `uses` is all of them."""
        return Observed(findings=self._conflicts.of_use(uses, self._holders(), now_us))

    def booted(self, boot_id: str, last_alive_us: int = 0) -> Observed:
        """Called at start with the kernel's boot id. If it is another than before, all that was open ended when it was
        last seen: at the last look of its source or, if that is later, when the agent last wrote a tick."""
        is_same = not self._boot_id or not boot_id or boot_id == self._boot_id
        self._boot_id = boot_id or self._boot_id
        out = Observed()
        if is_same:
            return out
        for entry in self._entries.values():
            if entry.is_open:
                seen_us = max(self._looked_us.get(entry.watcher, 0), last_alive_us)
                close(entry, seen_us, BY_REBOOT, BY_REBOOT, self._look(seen_us, seen_us, self._inventory, out))
        return Observed(in_order(out.events), out.findings)

    def follow_clock(self, source: str, now_us: int) -> None:
        """Called before a look at `now_us`. When the clock was set back since the last one, also while the agent was
        down, the next sightings are news although they are stamped before the last ones."""
        if now_us < self._looked_us.get(source, -1):
            self._looked_us = dict.fromkeys(self._looked_us, -1)

    def owners(self, now_us: int) -> dict[str, Job | None]:
        """Owner keys of the runs, to tie processes to jobs; None where two jobs claim one key."""
        found: dict[str, Job | None] = {}
        ended = [e for e in self._entries.values() if e.end_us is not None and now_us - e.end_us < LINGER_US]
        for entries in ([e for e in self._entries.values() if e.is_open], ended):
            before = set(found)
            for entry in entries:
                job = (entry.run.cluster, entry.run.job)
                for key in entry.run.owner_keys:
                    if key not in before:
                        found[key] = job if found.get(key, job) == job else None
        return found

    def open_runs(self) -> tuple[Run, ...]:
        """As last seen; a watcher that names runs itself takes them up again after a restart."""
        return tuple(entry.run for entry in self._entries.values() if entry.is_open)

    def waiting(self) -> tuple[str, ...]:
        """Runs whose start is not said yet, for a device of theirs is not there; for people."""
        return tuple(entry.name for entry in self._entries.values() if not entry.is_said)

    def sharing(self, device: str) -> str:
        """How open runs share a whole device, as their source says: time_sliced or mps; empty: nobody says so."""
        for entry in self._entries.values():
            shared = next((held.sharing for held in entry.run.held if held.sharing != "exclusive"), "")
            if entry.is_open and shared and any(c["device"] == device and not c["gpu_instance"] for c in entry.claims):
                return shared
        return ""

    def unsaid(self) -> tuple[object, ...]:
        """What was seen and could not be said yet. When it changes the state must be kept at once: a source may tell
        it only once."""
        return tuple(
            (entry.key, entry.start_us, entry.end_us, entry.pending_us, len(entry.later))
            for entry in self._entries.values()
            if not entry.is_said or (entry.is_open and entry.pending_us is not None)
        )

    def dump(self) -> bytes:
        """The state, for the log that keeps the events."""
        state = {
            "version": VERSION,
            "node": self._node,
            "boot_id": self._boot_id,
            "looked_us": self._looked_us,
            "conflicts": self._conflicts.to_json(),
        }
        head = json.dumps(state, separators=(",", ":"))
        runs = ",".join(entry.to_text() for entry in self._entries.values())
        return f'{head[:-1]},"runs":[{runs}]}}'.encode()

    def load(self, data: bytes) -> None:
        """Take up a state that `dump` wrote. Raises BadRunBook, and the book stays as it was."""
        try:
            state = json.loads(data)
            if state["version"] != VERSION or state["node"] != self._node:
                what = f"version {state['version']} of node {state['node']!r}"
                raise BadRunBook(f"the kept run book is {what}, not {VERSION} of {self._node!r}: it is not used")
            entries = [Entry.from_json(one) for one in state["runs"]]
            looked_us = {str(source): int(at_us) for source, at_us in state["looked_us"].items()}
            boot_id = str(state["boot_id"])
            self._conflicts.restore(state["conflicts"])
        except BadRunBook:
            raise
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BadRunBook(f"the kept run book can't be read ({error!r}): it is not used") from error
        self._entries = {entry.key: entry for entry in entries}
        self._looked_us, self._boot_id = looked_us, boot_id

    def _take(self, run: Run, source: str, is_fresh: bool, look: Look) -> bool:
        """False for an earlier run of the same name, which the source still lists."""
        key = (run.source, run.cluster, run.job, run.attempt)
        entry = self._entries.get(key)
        if entry is None or (is_fresh and self._came_back(entry, run, look)):
            self._admit(run, source, entry, look)
        elif run.started_us < entry.run.started_us and (run.ended_us or entry.start_us + 1) <= entry.start_us:
            return False
        elif entry.is_open and is_fresh:
            entry.watcher = source
            see(entry, run, look)
        elif entry.start_us <= (run.ended_us or -1):
            close_as_told(entry, run, look)
        return True

    def _admit(self, run: Run, source: str, before: Entry | None, look: Look) -> None:
        same_job = [e for e in self._entries.values() if e.job == (run.source, run.cluster, run.job)]
        entry = first_seen(run, source, _number(run, same_job, before), look)
        if before is not None and before.end_us is not None and before.end_us > entry.start_us:
            entry.start_us = entry.pending_us = look.at_us
        for earlier in same_job:
            if earlier.is_open and earlier.run.attempt < run.attempt:
                close(earlier, min(entry.start_us, look.at_us), REQUEUED, BY_ATTEMPT, look)
        self._entries.pop(entry.key, None)
        self._entries[entry.key] = entry
        if run.is_suspended and not has_ended(run, look):
            entry.is_suspended = True
            entry.later.append(("suspend", max(look.at_us, entry.start_us), ""))
        settle(entry, look)
        close_as_told(entry, run, look)

    def _came_back(self, entry: Entry, run: Run, look: Look) -> bool:
        """Whether an ended run goes on or runs again. One whose source told its end does only with a later start; one
        that a snapshot lacked does at once, under the next attempt's number, for its end was said."""
        if entry.is_open or entry.end_us is None:
            return False
        if run.started_us >= entry.end_us and run.started_us > entry.start_us:
            return True
        if has_ended(run, look):
            return False
        if entry.ended_by == BY_ABSENCE:
            look.note(
                entry, "run_came_back", "was missing from a sighting and is there again: it counts as a new attempt"
            )
            return True
        look.note(entry, "open_after_end", f"is said to run, but it ended ({entry.ended_by}) at {entry.end_us}")
        return False

    def _look(self, at_us: int, now_us: int, inventory: Inventory, out: Observed | None = None) -> Look:
        if inventory is not self._inventory and inventory != self._inventory:
            self._inventory_number += 1
        self._inventory = inventory
        number, limit = self._inventory_number, self._wait_limit_us
        return Look(self._node, at_us, now_us, number, self._resolve, limit, Observed() if out is None else out)

    def _resolve(self, held: tuple[Held, ...]) -> Resolved:
        return resolve(held, self._inventory, self._node, self._xcp_minors)

    def _finish(self, look: Look) -> Observed:
        for entry in self._entries.values():
            if not entry.is_said or (entry.is_open and entry.pending_us is not None):
                settle(entry, look)
        self._prune(look.now_us)
        look.out.findings.extend(self._conflicts.of_claims(self._holders(), self._capacity))
        return Observed(in_order(look.out.events), look.out.findings)

    def _prune(self, now_us: int) -> None:
        """Ended runs are remembered for a while, so that a repeat is known for one."""
        ended = [entry for entry in self._entries.values() if entry.is_said and entry.end_us is not None]
        for entry in ended:
            entry.slim()
        ended.sort(key=lambda entry: entry.end_us or 0)
        for place, entry in enumerate(ended):
            if place < len(ended) - _MOST_ENDED or now_us - (entry.end_us or 0) > _KEPT_US:
                del self._entries[entry.key]

    def _holders(self) -> list[Holder]:
        return [
            Holder(entry.name, (entry.run.cluster, entry.run.job), tuple(entry.claims))
            for entry in self._entries.values()
            if entry.is_open and entry.is_said and not entry.is_suspended
        ]

    def _capacity(self, device: str, gpu_instance: str) -> Fraction:
        for found in self._inventory.devices:
            for instance in found.instances:
                if (found.device, instance.gpu_instance) == (device, gpu_instance):
                    return Fraction(instance.slices, found.slices)
        return Fraction(1)


def _number(run: Run, same_job: list[Entry], before: Entry | None) -> int:
    """The attempt number to say: as the source counts, moved on once a number had to be used for a run that came back,
    and never one that was used."""
    used = [entry.attempt for entry in same_job]
    shift = max((entry.attempt - entry.run.attempt for entry in same_job), default=0)
    if before is None and shift == 0 and run.attempt not in used:
        return run.attempt
    return max(run.attempt + shift, max(used) + 1)

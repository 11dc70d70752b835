"""One run as it stands in the book: what was said of it, and whether a record speaks of it."""

from dataclasses import dataclass, field

from wattledger_agent.watchers.run import Run
from wattledger_agent.watchers.slurm_fact import EPILOG, PROLOG, Fact
from wattledger_agent.watchers.slurm_run import NEAR_US, ended_us, stamp_us


@dataclass(eq=False, slots=True)
class Entry:
    """`attempt` is what a source said, `number` what the run was reported as. `files` are its records in the drop
    folder, `lacking` counts by source the snapshots in a row without it and has the time of the first."""

    job: str
    attempt: int | None = None
    number: int | None = None
    cluster: str = ""
    sluids: set[str] = field(default_factory=set)
    facts: dict[str, Fact] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    lacking: dict[str, tuple[int, int]] = field(default_factory=dict)
    started_us: int | None = None
    closed_us: int | None = None
    run: Run | None = None
    reported: Run | None = None
    is_dirty: bool = True
    is_lost: bool = False
    is_listed: bool = False

    @property
    def start_us(self) -> int:
        """For the order of a job's runs."""
        found = stamp_us(self.facts)
        return found if found is not None else min(fact.at_us for fact in self.facts.values())

    @property
    def end_us(self) -> int | None:
        """As it is known; before the run was made, as the facts say."""
        return ended_us(self.facts)[0] if self.run is None else self.run.ended_us

    @property
    def was_seen_here(self) -> bool:
        return PROLOG in self.facts or EPILOG in self.facts

    @property
    def is_settled(self) -> bool:
        """Its end was reported just as it is known, or there is nothing to report."""
        return self.is_lost or (self.run is not None and self.end_us is not None and self.run == self.reported)

    def take(self, fact: Fact) -> None:
        """Note a fact, the newest of its kind; of two equally new ones the one with the later end."""
        before = self.facts.get(fact.kind)
        if before is not None and (before.at_us, before.end_us or 0) > (fact.at_us, fact.end_us or 0):
            return
        if before != fact:
            self.facts[fact.kind] = fact
            self.is_dirty = True
        self.attempt = fact.attempt if self.attempt is None else self.attempt
        if self.reported is None:  # a run keeps the name under which it was reported
            self.cluster = self.cluster or fact.cluster
        self.sluids |= {sluid for sluid in (fact.sluid, fact.original_sluid) if sluid}
        if fact.file:
            self.files.add(fact.file)

    def is_told_of_by(self, fact: Fact) -> bool:
        """Whether a fact speaks of this run: by SLUID, by attempt, or by a start at the same time. An id that is used
        again later is another run."""
        if self.sluids & {sluid for sluid in (fact.sluid, fact.original_sluid) if sluid}:
            return True
        stamp = stamp_us(self.facts)
        is_near = None if stamp is None or fact.start_us is None else abs(stamp - fact.start_us) <= NEAR_US
        if self.attempt is not None and fact.attempt is not None:
            return self.attempt == fact.attempt and (is_near is not False or self._overlaps(fact))
        if is_near is None:
            return self.end_us is None or fact.at_us <= self.end_us + NEAR_US
        return is_near

    def _overlaps(self, fact: Fact) -> bool:
        """A resize starts a record anew while the run goes on."""
        begun = fact.start_us if fact.start_us is not None else fact.at_us
        is_over_before = self.end_us is not None and self.end_us <= begun
        return not is_over_before and not (fact.end_us is not None and fact.end_us <= self.start_us)

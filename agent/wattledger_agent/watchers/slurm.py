"""The SLURM watcher: what prolog and epilog saw here, joined with what the site's files, socket or slurmrestd say.

It asks SLURM nothing through a command and writes nothing but the removal of records that it is done with."""

from collections.abc import Sequence
from typing import Protocol

from wattledger_agent.watchers.run import Finding, Sighting
from wattledger_agent.watchers.slurm_book import SlurmBook
from wattledger_agent.watchers.slurm_entry import Entry
from wattledger_agent.watchers.slurm_fact import Document, finding
from wattledger_agent.watchers.slurm_site import SlurmSite
from wattledger_agent.watchers.slurm_time import US_PER_S
from wattledger_agent.watchers.watcher import WatcherUnavailable

KEEP_US = 6 * 3_600 * US_PER_S
_MOST_TOLD = 4096


class SlurmReader(Protocol):
    """One way in which SLURM's data come: DropFolder, SlurmFiles, SlurmSocket or SlurmRest."""

    @property
    def name(self) -> str: ...

    @property
    def is_snapshot(self) -> bool:
        """Whether a whole document shows every job that runs here."""
        ...

    @property
    def reported_to_us(self) -> int: ...

    def read(self, now_us: int) -> tuple[Document, ...]:
        """What is new, by where it came from. Raises WatcherUnavailable."""
        ...

    def remove(self, names: list[str]) -> None: ...

    def close(self) -> None: ...


class SlurmWatcher:
    """Follows SLURM on this node through `readers`; `events`, if there is one, is the reader that sees each start and
    end at once (the drop folder), and alone says how far everything is reported. `booted_us`: when the node started.

    No sighting is a snapshot: what vanished from a snapshot of the controller's is reported as ended by then."""

    def __init__(
        self,
        site: SlurmSite,
        readers: Sequence[SlurmReader],
        events: SlurmReader | None = None,
        keep_us: int = KEEP_US,
        booted_us: int | None = None,
    ) -> None:
        self._readers: tuple[SlurmReader, ...] = (*(() if events is None else (events,)), *readers)
        if not self._readers:
            raise ValueError(
                "the SLURM watcher has nothing to read: give it a drop folder, files, a socket or an address"
            )
        self._events = events
        self._book = SlurmBook(site.cluster, keep_us, booted_us)
        self._told: dict[tuple[str, str], None] = {}

    @property
    def name(self) -> str:
        return "slurm"

    def look(self, now_us: int) -> Sighting:
        """Runs that are open and those whose end or particulars are new. Records whose run was reported as ended by
        the look before are removed now, so whoever looks keeps a sighting before it looks again.

        Raises WatcherUnavailable when none of the readers can read."""
        self._remove(self._book.handed_over(now_us))
        found: list[Finding] = []
        failures: list[str] = []
        for reader in self._readers:
            try:
                documents = reader.read(now_us)
            except WatcherUnavailable as error:
                failures.append(str(error))
                continue
            for document in documents:
                found.extend(document.findings)
                self._take(reader, document, now_us)
        if len(failures) == len(self._readers):
            raise WatcherUnavailable("; ".join(failures))
        found.extend(finding("source_unavailable", words) for words in failures)
        runs, lost = self._book.runs(now_us)
        return Sighting(now_us, runs, False, self._reported_to_us(now_us), self._new([*found, *lost]))

    def close(self) -> None:
        for reader in self._readers:
            reader.close()

    def _take(self, reader: SlurmReader, document: Document, now_us: int) -> None:
        present: list[Entry] = []
        for fact in sorted(document.facts, key=lambda fact: (fact.start_us or fact.at_us, fact.at_us)):
            entry = self._book.add(fact, now_us)
            if entry is not None:
                present.append(entry)
        if reader.is_snapshot and document.is_whole and not document.findings:
            self._book.snapshot(document.source, document.at_us, present)

    def _remove(self, names: list[str]) -> None:
        if names and self._events is not None:
            self._events.remove(names)

    def _reported_to_us(self, now_us: int) -> int:
        """With a drop folder, its word: starts and ends are in it at once. Without one, the slowest of the others."""
        if self._events is not None:
            return min(now_us, self._events.reported_to_us)
        reported = [reader.reported_to_us for reader in self._readers]
        return min([now_us, *reported])

    def _new(self, found: list[Finding]) -> tuple[Finding, ...]:
        """What was not told before: a file that stays as it is would be told at each look."""
        new = []
        for one in found:
            key = (one.reason, one.detail)
            if key not in self._told:
                self._told[key] = None
                new.append(one)
        while len(self._told) > _MOST_TOLD:
            del self._told[next(iter(self._told))]
        return tuple(new)

"""Sessions: a pure fold of one `job-events` partition into allocation revisions, node facts and marks.

Owns numbering, `known_us`, ticks and the daily announcement; what events mean is `session_life` and `node_session`.
State is all events so far: memory grows with the log that is folded, and nothing is forgotten, for a late event may
change any of it. A restart folds the log again and drops what comes out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wattledger_core.event import JobEvent, JobTopicEvent, NodeEvent, Tick
from wattledger_core.ids import digest
from wattledger_core.node_session import NodeSession
from wattledger_core.revision import UNKNOWN_TICK_US, AllocationRecord, AllocationRevision, Mark, Origin, Revision
from wattledger_core.session_job import JobSession
from wattledger_core.session_rejection import Rejection, flaw
from wattledger_core.session_standing import CONFLICTING_DUPLICATE, identity
from wattledger_core.units import US_PER_DAY


class SessionFold:
    """Fold of partition `partition` of `job-events`. No clock: the same records give the same revisions.

    `rejected` collects events that changed nothing because they can't be used (see `Rejection`); the shell takes
    them with `take_rejected`. Plain duplicates are no rejections.
    """

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.known_us = UNKNOWN_TICK_US
        self.rejected: list[Rejection] = []
        self._last_offset = -1
        self._jobs: dict[tuple[str, str], JobSession] = {}
        self._nodes: dict[str, NodeSession] = {}
        self._open: dict[str, Revision] = {}
        self._ticked = False

    def fold(self, offset: int, event: JobTopicEvent) -> list[AllocationRecord]:
        """What the event changes, in the order to write it: `seq` counts from 0 and a mark comes last.

        Raises ValueError when `offset` is not above the last one folded: the caller must fold the log again.
        """
        if offset <= self._last_offset:
            raise ValueError(
                f"offset {offset} of job-events partition {self.partition} comes after {self._last_offset}: "
                "build a new SessionFold and fold the partition again from its start"
            )
        self._last_offset = offset
        if isinstance(event, Tick):
            return self._answer(offset, event)
        found = flaw(event)
        if found is not None:
            self.rejected.append(Rejection(offset, event.event_id, *found))
            return []
        verdict, changed = self._take(event)
        if verdict == CONFLICTING_DUPLICATE:
            detail = f"{event.kind} event {event.event_id!r} came before with other content: the first one is kept"
            self.rejected.append(Rejection(offset, event.event_id, CONFLICTING_DUPLICATE, detail))
        for content in changed:
            self._note_open(content)
        return list(self._number(changed, offset))

    def take_rejected(self) -> list[Rejection]:
        """Rejections since the last call."""
        taken, self.rejected = self.rejected, []
        return taken

    def _take(self, event: JobEvent | NodeEvent) -> tuple[str, Sequence[Revision]]:
        if isinstance(event, JobEvent):
            key = (event.cluster, event.job)
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = JobSession()
            return job.add(event)
        node = self._nodes.get(event.node)
        if node is None:
            node = self._nodes[event.node] = NodeSession()
        return node.add(event)

    def _answer(self, offset: int, tick: Tick) -> list[AllocationRecord]:
        """Announcements at the first tick of a UTC day (they are known since the tick before), then the mark.

        The first tick of all announces nothing: what stands has just been said."""
        records: list[AllocationRecord] = []
        if self._ticked and tick.at_us // US_PER_DAY > self.known_us // US_PER_DAY:
            records += self._number(self._announcements(tick.at_us), offset)
        self._ticked = True
        self.known_us = max(self.known_us, tick.at_us)
        records.append(Mark(Origin(self.partition, offset, len(records)), self.known_us, tick.stale_sources))
        return records

    def _announcements(self, at_us: int) -> list[Revision]:
        self._open = {name: content for name, content in self._open.items() if content.until_us > at_us}
        return [
            replace(content, announced=True)
            for content in sorted(self._open.values(), key=lambda c: (isinstance(c, AllocationRevision), identity(c)))
        ]

    def _note_open(self, content: Revision) -> None:
        if not content.void and content.until_us > self.known_us:
            self._open[identity(content)] = content
        else:
            self._open.pop(identity(content), None)

    def _number(self, contents: Iterable[Revision], offset: int) -> Iterable[Revision]:
        for seq, content in enumerate(contents):
            name = digest("revision", identity(content), self.partition, offset, seq)
            yield replace(content, revision_id=name, origin=Origin(self.partition, offset, seq), known_us=self.known_us)

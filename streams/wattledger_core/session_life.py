"""The life of one attempt: its events, in order, become the segments it held. Owns what each kind of event means;
not which events there are (`session_job`)."""

from dataclasses import dataclass, field

from wattledger_core.event import Claim, JobEvent
from wattledger_core.ids import digest
from wattledger_core.revision import AllocationRevision
from wattledger_core.session_standing import NOWHERE

SUSPENDED = "suspended"
RESIZED = "resized"
END_INFERRED = "end_inferred"
END_BEFORE_START = "end_before_start"
EVENT_BEFORE_START = "event_before_start"
EVENT_AFTER_END = "event_after_end"
START_REPEATED = "start_repeated"
CLAIM_REPEATED = "claim_repeated"
REQUEUED = "REQUEUED"

CLOSING_KINDS = ("end", "requeue", "released")

ClaimKey = tuple[str, str, str]
"""Node, device, GPU instance."""


@dataclass(slots=True, eq=False)
class Segment:
    """One unbroken hold of one claim. `ordinal` counts the holds of its device or slice within the attempt."""

    allocation_id: str
    ordinal: int
    claim: Claim
    start_us: int
    end_us: int | None = None
    stop_us: int | None = None
    outcome: str = ""
    marks: set[str] = field(default_factory=set)
    void: bool = False


def distinct(claims: tuple[Claim, ...]) -> tuple[dict[ClaimKey, Claim], set[ClaimKey]]:
    """Claims by device and slice, the first of each kept, and which came more than once."""
    found: dict[ClaimKey, Claim] = {}
    repeated: set[ClaimKey] = set()
    for claim in claims:
        key = (claim.node, claim.device, claim.gpu_instance)
        if key in found:
            repeated.add(key)
        else:
            found[key] = claim
    return found, repeated


class Life:
    """A small machine fed with an attempt's events in order, the earliest start first. What is stamped before that
    start (clock skew) counts as at the start, so no segment is negative.

    `touched` collects the segments that changed; whoever reads it clears it.
    """

    def __init__(self, start: JobEvent) -> None:
        self.start = start
        self.segments: dict[ClaimKey, list[Segment]] = {}
        self.touched: dict[Segment, None] = {}
        self._claims, self._repeated = distinct(start.claims)
        self._started_with = self._claims
        self._open: dict[ClaimKey, Segment] = {}
        self._last: list[Segment] = []
        self._freed_late: list[Segment] = []
        self._suspended = False
        self._stop_us: int | None = None
        self._closed_us: int | None = None
        self._outcome = ""
        self._open_missing(start.at_us)

    def apply(self, event: JobEvent) -> None:
        """Take the next event."""
        at_us = max(event.at_us, self.start.at_us)
        if event.kind in CLOSING_KINDS:
            self._close(event, at_us)
        elif event.kind == "stop_requested":
            self._stop(at_us)
        elif self._closed_us is not None:
            self.mark(EVENT_AFTER_END)
        else:
            self._alter(event, at_us)
            if event.at_us < self.start.at_us:
                self.mark(EVENT_BEFORE_START)

    def _alter(self, event: JobEvent, at_us: int) -> None:
        if event.kind == "suspend" and not self._suspended:
            self._suspended = True
            self._drop(list(self._open), at_us, SUSPENDED)
        elif event.kind == "resume" and self._suspended:
            self._suspended = False
            self._open_missing(at_us)
        elif event.kind == "resize":
            self._resize(event, at_us)
        elif event.kind == "start" and distinct(event.claims)[0] != self._started_with:
            self._resize(event, at_us)
            self.mark(START_REPEATED)

    def mark(self, name: str) -> None:
        """Put a mark on what the attempt holds, or held last."""
        for segment in list(self._open.values()) or self._last:
            segment.marks.add(name)
            self.touched[segment] = None

    def _resize(self, event: JobEvent, at_us: int) -> None:
        self._claims, self._repeated = distinct(event.claims)
        self._drop([key for key, held in self._open.items() if self._claims.get(key) != held.claim], at_us, RESIZED)
        if not self._suspended:
            self._open_missing(at_us)

    def _drop(self, keys: list[ClaimKey], at_us: int, why: str) -> None:
        dropped = [self._open.pop(key) for key in keys]
        for segment in dropped:
            segment.end_us = at_us
            segment.marks.add(why)
            self.touched[segment] = None
        if dropped:
            self._last = dropped

    def _open_missing(self, at_us: int) -> None:
        for key, claim in self._claims.items():
            if key not in self._open:
                earlier = self.segments.setdefault(key, [])
                # what a node's agent says and what is said of the whole job are two accounts of it
                scope = ("node",) if self.start.node else ()
                job = (self.start.cluster, self.start.job, self.start.attempt)
                name = digest("allocation", *job, *key, len(earlier), *scope)
                stop_us = None if self._stop_us is None else at_us
                segment = Segment(name, len(earlier), claim, at_us, stop_us=stop_us)
                earlier.append(segment)
                self._open[key] = segment
                self.touched[segment] = None
            if key in self._repeated:
                self._open[key].marks.add(CLAIM_REPEATED)
                self.touched[self._open[key]] = None

    def _stop(self, at_us: int) -> None:
        if self._stop_us is None:
            self._stop_us = at_us
            for segment in self._open.values():
                segment.stop_us = at_us
                self.touched[segment] = None

    def _close(self, event: JobEvent, at_us: int) -> None:
        """The first to close ends the tenant's hold; a later `released` says when the devices were really free."""
        if self._closed_us is None:
            self._closed_us = at_us
            self._freed_late = list(self._open.values())
            self._open.clear()
            self._last = self._freed_late or self._last
            for segment in self._freed_late:
                segment.end_us = at_us
                if event.at_us < self.start.at_us:
                    segment.void = True
                    segment.marks.add(END_BEFORE_START)
                self.touched[segment] = None
        elif event.kind == "released":
            for segment in self._freed_late:
                segment.stop_us = self._closed_us if segment.stop_us is None else segment.stop_us
                segment.end_us = at_us
                self.touched[segment] = None
        if not self._outcome:
            self._outcome = event.outcome or (REQUEUED if event.kind == "requeue" else "")
            for segment in self._last if self._outcome else ():
                segment.outcome = self._outcome
                self.touched[segment] = None

    def content(self, segment: Segment) -> AllocationRevision:
        """The segment as an allocation; who holds it and on which terms is the earliest start's word."""
        start, claim, end_us = self.start, segment.claim, segment.end_us
        stop_us = segment.stop_us
        if stop_us is not None and end_us is not None and stop_us >= end_us:
            stop_us = None
        return AllocationRevision(
            "", segment.allocation_id, NOWHERE, 0, start.cluster, start.job, start.attempt, segment.ordinal,
            claim.node, claim.device, claim.gpu_instance, claim.share_num, claim.share_den, start.tenant,
            start.project, start.user, start.model_tag, start.plan, start.sku, start.requested_profile,
            claim.delivered_profile, start.exclusive, claim.cpus, claim.memory_bytes, claim.storage_bytes,
            segment.start_us, end_us, stop_us, segment.outcome, tuple(sorted(segment.marks)), segment.void,
        )  # fmt: skip

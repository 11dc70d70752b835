"""The guard of one worker: with a Kafka client of its own, which joins no group, it compares what the worker did with
what the broker shows, and ends the process where going on would lose, double or stand still."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, NoReturn

import faust
import structlog
from confluent_kafka import KafkaException

from wattledger_streams.clock import monotonic_s
from wattledger_streams.crash import EXIT_STALLED
from wattledger_streams.group_view import GroupView
from wattledger_streams.layout import EXIT_LAYOUT, Layout, LayoutChanged
from wattledger_streams.lost_records import Lost, LostRecords
from wattledger_streams.metrics import GUARD_WAIT_S
from wattledger_streams.partitions import ACKNOWLEDGED
from wattledger_streams.progress import Jump, Place, Progress, Seen
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.stall import FETCH, BrokerView, Stall, StallRule, Unowned

log = structlog.get_logger()
EXIT_LOG_WENT_BACK = 73
_LAYOUT_EVERY_S = 30.0
_RETRY_S = 1.0
_LOOKS_BEFORE_BACK = 3


class Guard:
    """One a worker. The stream's loop calls `takes` and `acknowledge`; a thread of its own looks at the broker."""

    def __init__(self, processor: str, settings: WorkerSettings, counts: dict[str, int]) -> None:
        self.progress = Progress()
        self._processor = processor
        self._group = settings.group(processor)
        self._limit_s = settings.watchdog_s
        self._every_s = min(max(self._limit_s / 6, 0.5), 10.0) if self._limit_s > 0 else 10.0
        self._counts = {settings.topic(name): count for name, count in counts.items()}
        self._lost = LostRecords(processor, settings, counts["dead-letters"])
        self._view = GroupView(settings.kafka(), self._group)
        self._layout = Layout(settings, renewed=True)
        self._layout_due_s = 0.0
        self._rule = StallRule(self._limit_s)
        self._unowned = Unowned()
        self._topics = [settings.topic(name) for name in ACKNOWLEDGED[processor]]
        self._back: dict[Place, int] = {}
        self._stop = threading.Event()

    @property
    def on_lost(self) -> Callable[[Lost], None]:
        """For the readers of this worker's other logs."""
        return self._lost.report

    def watch(self, app: faust.App) -> None:
        """Follow the app's rebalances. Call while building the app; `start` when it runs."""

        @app.on_partitions_assigned.connect(weak=False)
        async def assigned(sender: faust.App, assigned: Iterable[Any], **_: Any) -> None:
            owned = {(tp.topic, tp.partition) for tp in assigned}
            self.progress.assigned(int(sender.consumer_generation_id), owned)

        @app.on_partitions_revoked.connect(weak=False)
        async def revoked(sender: faust.App, revoked: Iterable[Any], **_: Any) -> None:
            self.progress.revoked()

    def start(self) -> None:
        threading.Thread(target=self._run, name="guard", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    async def takes(self, stream: Any, most: int, within_s: float) -> AsyncIterator[Sequence[Any]]:
        """Takes of the stream, unacknowledged, each after its offsets were found to follow what came before."""
        self.progress.asks(monotonic_s())
        async for events in stream.noack_take(most, within=within_s):
            for jump in self.progress.received((event.message for event in events), monotonic_s()):
                await asyncio.to_thread(self._look_at, jump)
            yield events
            self.progress.asks(monotonic_s())

    async def acknowledge(self, stream: Any, events: Sequence[Any]) -> None:
        """Acknowledge in arrival order, after all that they led to is durable."""
        for event in events:
            await stream.ack(event)
        self.progress.acknowledged(event.message for event in events)

    def _look_at(self, jump: Jump) -> None:
        """Records are missing before this one: did retention take them? Waits while the broker is away."""
        while True:
            try:
                if jump.place[1] >= self._counts.get(jump.place[0], 0):
                    self._check_layout()
                view = self._view.of({jump.place})[jump.place]
                break
            except KafkaException as error:
                log.warning("offsets_not_checked_yet", place=jump.place, error=str(error))
                self._stop.wait(_RETRY_S)
        expected = jump.expected if jump.expected is not None else view.committed
        self._say_if_lost(jump.place, expected, min(view.start, jump.offset))

    def _say_if_lost(self, place: Place, expected: int | None, kept_from: int) -> None:
        if kept_from > (expected or 0):
            topic, partition = place
            self._lost.report(Lost(topic, partition, expected or 0, kept_from, self._group, expected is not None))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.look(monotonic_s())
            except KafkaException as error:
                self._rule.broker_away()
                self._unowned.broker_away()
                log.warning("guard_not_answered", error=str(error))
            self._stop.wait(self._every_s)

    def look(self, now_s: float) -> None:
        """One look; ends the process when it has to. Raises KafkaException while the broker does not answer."""
        if now_s >= self._layout_due_s:
            self._layout_due_s = now_s + min(_LAYOUT_EVERY_S, self._limit_s or _LAYOUT_EVERY_S)
            self._check_layout()
        seen = self.progress.seen(now_s)
        # The broker is asked after the copy was made: what is committed meanwhile only makes a wait shorter.
        views = self._view.of(seen.owned)
        self._look_for_lost(seen, views)
        self._look_for_log_gone_back(views)
        if self._limit_s > 0:
            self._look_for_stall(now_s, seen, views)
            self._look_for_unowned(now_s, seen)

    def _check_layout(self) -> None:
        try:
            self._layout.check(self._layout.look())
        except LayoutChanged as error:
            log.error("layout_changed", detail=str(error))
            self._end(EXIT_LAYOUT)

    def _look_for_lost(self, seen: Seen, views: dict[Place, BrokerView]) -> None:
        """Retention that took everything leaves no record whose offset could show it."""
        for place, view in views.items():
            is_empty = view.start == view.end
            if is_empty and seen.idle_s > 0 and view.start > max(view.committed or 0, seen.received.get(place, 0)):
                expected = None if view.committed is None else max(view.committed, seen.received.get(place, 0))
                self._say_if_lost(place, expected, view.start)

    def _look_for_log_gone_back(self, views: dict[Place, BrokerView]) -> None:
        """A position above the log's end: its records would be skipped in silence until it has grown past it."""
        for place, view in views.items():
            is_above = view.committed is not None and view.committed > view.end
            self._back[place] = self._back.get(place, 0) + 1 if is_above else 0
            # The end that a broker tells may be behind (just elected, or Tansu): only a refused read is proof.
            if self._back[place] >= _LOOKS_BEFORE_BACK and self._view.is_out_of_range(place, view.committed or 0):
                detail = (
                    f"group {self._group!r} has acknowledged {place[0]}[{place[1]}] up to {view.committed}, and the "
                    f"log ends at {view.end}: the topic was made again, or the broker lost data. Nothing more is "
                    "acknowledged. Find out what is missing; then stop this group's workers, delete the group and "
                    "start them: they fold again from the start of what is kept, and no row is doubled"
                )
                log.error("log_went_back", topic=place[0], partition=place[1], detail=detail)
                self._end(EXIT_LOG_WENT_BACK)

    def _look_for_stall(self, now_s: float, seen: Seen, views: dict[Place, BrokerView]) -> None:
        waits = self._rule.waits(now_s, seen, views)
        for kind, longest_s in longest(waits).items():
            GUARD_WAIT_S.labels(self._processor, kind).set(longest_s)
        for stall in self._rule.stalls(waits):
            if stall.kind == FETCH and not self._view.delivers(stall.place, stall.offset):
                continue  # what lies there is no record (a transaction's marker), or the broker does not deliver it
            log.error(
                "worker_stalled",
                kind=stall.kind,
                topic=stall.place[0],
                partition=stall.place[1],
                offset=stall.offset,
                waited_s=round(stall.waited_s, 1),
                limit_s=self._limit_s,
                processor=self._processor,
            )
            self._end(EXIT_STALLED)

    def _look_for_unowned(self, now_s: float, seen: Seen) -> None:
        """A group can come to rest with nobody owning what there is; a member that joins anew sets it going."""
        waited_s = self._unowned.waited_s(now_s, bool(seen.owned))
        if waited_s <= self._limit_s:
            return
        topics = {topic: self._counts[topic] for topic in self._topics}
        places = {(topic, partition) for topic, count in topics.items() for partition in range(count)}
        if left := self._view.unassigned(places):
            log.error(
                "worker_stalled",
                kind="unowned",
                unassigned=sorted(left),
                waited_s=round(waited_s, 1),
                limit_s=self._limit_s,
                processor=self._processor,
            )
            self._end(EXIT_STALLED)

    def _end(self, code: int) -> NoReturn:
        """At once, whatever the loop is doing: a graceful stop would commit, and may never end."""
        os._exit(code)


def longest(waits: Sequence[Stall]) -> dict[str, float]:
    """The longest wait of each kind, in seconds; 0 where nothing is waited for."""
    found = {"commit": 0.0, "fetch": 0.0}
    for wait in waits:
        found[wait.kind] = max(found[wait.kind], wait.waited_s)
    return found

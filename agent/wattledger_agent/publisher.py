"""The publisher: drains the log to Kafka in order, deletes on delivery reports only, keeps trying for ever."""

import threading
from collections.abc import Callable
from functools import partial

import structlog
from confluent_kafka import KafkaError, KafkaException, Message
from wattledger_schemas import partition_for

from wattledger_agent.broker_link import BrokerLink, Config
from wattledger_agent.clock import Clock, SystemClock
from wattledger_agent.drain_rate import DrainRate, DrainRule
from wattledger_agent.in_flight import InFlight, Sent
from wattledger_agent.metrics import BROKER_FAILURES, NOT_DELIVERED, PUBLISHED, WAL_BYTES, WAL_RECORDS
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, BY_KEY, Kept, WalRecord, WalUnavailable

log = structlog.get_logger()
_PAGE = 500
_POLL_S = 0.02
_IDLE_S = 0.25
"""How long a new record may lie in a log that was empty: it is looked at no more often, for each look costs CPU."""
_BACKOFF_FIRST_S = 0.1
_BACKOFF_MOST_S = 5.0
_RENEW_AFTER_S = 15.0
_REFUSED = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG)
"""The broker will never take this record. Everything else may pass: retry."""


class PublisherEnded(RuntimeError):
    """The publisher's thread ended by an error that is no broker's and no disk's: a bug. The data is in the log."""


class Publisher:
    """Idempotent producer, `acks=all`. Call `drain` in a loop, or `start` a thread that does.

    Order within a partition is the log's. After a failed delivery nothing more is sent until all reports are in; then
    everything undelivered is sent again from the log. `kafka` is librdkafka's configuration, or what gives it anew:
    a connection that is refused for its password or certificate is tried again with what the files then hold.
    `bytes_per_s` bounds the rate of a backlog (0: none); `agent_id` says where in a fleet's spread this one begins.
    """

    def __init__(
        self,
        wal: Wal,
        kafka: Config | Callable[[], Config],
        topic_prefix: str = "",
        in_flight: int = 5000,
        bytes_per_s: int = 0,
        agent_id: str = "",
        clock: Clock | None = None,
        rule: DrainRule | None = None,
        renew_after_s: float = _RENEW_AFTER_S,
    ) -> None:
        self._wal = wal
        self._prefix = topic_prefix
        self._most = in_flight
        self._clock = clock or SystemClock()
        self._rate = DrainRate(rule or DrainRule(bytes_per_s), agent_id, self._now_us())
        self._link = BrokerLink(kafka, self._clock, renew_after_s)
        self._flight = InFlight()
        self._after = 0
        self._backoff_s = 0.0
        self._alone_through = 0
        self._must_renew = False
        self.last_offset: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def trouble(self) -> str:
        """What keeps records from the broker now, in a word of `broker_trouble`; empty: nothing known."""
        return self._link.trouble.reason

    def _now_us(self) -> int:
        return int(self._clock.monotonic_s() * 1_000_000)

    def drain(self, wait_s: float = 0.05) -> int:
        """Send what is pending, up to the bound in flight, and take delivery reports; how many records were sent."""
        if self._link.is_due_anew and not self._must_renew:
            self._must_renew = self._flight.failed = True
            self._link.purge(in_flight=True)
        if self._flight.failed and not self._flight.messages:
            self._start_again()
        page = self._page()
        if page is None:
            self._link.poll(wait_s)
            return 0
        sent = 0
        for kept in page:
            if not self._send(kept):
                self._flight.failed = True
                break
            sent += 1
        self._link.poll(0 if sent else wait_s)
        WAL_BYTES.set(self._wal.kept_bytes)
        WAL_RECORDS.set(self._wal.count())
        return sent

    def _page(self) -> list[Kept] | None:
        """The next records to send, already remembered as sent; what the broker has is deleted with the same commit.
        None while the log's disk refuses."""
        room = 0 if self._flight.failed else min(self._most, self._bound(), _PAGE) - self._flight.records
        delivered = self._flight.take_delivered()
        try:
            # read again from the start, the log still holds what was delivered a moment ago
            held = set(delivered)
            page = [kept for kept in self._affordable(room) if kept.seq not in held]
            # Remember, then send: a record that may be in the topic is never thinned.
            self._wal.settle(delivered, page[-1].seq if page else 0)
        except WalUnavailable as error:
            self._flight.put_back(delivered)
            log.warning("wal_not_available", error=str(error))
            return None
        if page:
            self._wal.in_hand = page[-1].seq
        return page

    def _affordable(self, most: int) -> list[Kept]:
        """The next records, as many as the rate allows now."""
        if most <= 0:
            return []
        room_bytes = self._rate.room_bytes(self._now_us(), self._wal.appended_bytes, self._flight.size_bytes)
        if room_bytes is None:
            return self._wal.pending(self._after, most)
        if room_bytes <= 0:
            return []
        # a page is read whole: no more of it than will be sent
        usual_bytes = max(self._wal.kept_bytes // max(self._wal.count(), 1), 1)
        page = []
        for kept in self._wal.pending(self._after, min(most, room_bytes // usual_bytes + 1)):
            if room_bytes <= 0:
                break
            room_bytes -= kept.record.size_bytes
            page.append(kept)
        return page

    def _bound(self) -> int:
        """One at a time while a refused record is looked for: the broker refuses a batch for one bad record in it."""
        return 1 if self._after < self._alone_through else self._most

    def _start_again(self) -> None:
        """Everything is reported: read the log again from its start, after a pause."""
        BROKER_FAILURES.inc()
        self._backoff_s = min(self._backoff_s * 2 or _BACKOFF_FIRST_S, _BACKOFF_MOST_S)
        self._stop.wait(self._backoff_s)
        if self._must_renew or self._link.producer is None:
            self._link.connect()
            self._must_renew = False
        self._flight.failed = False
        self._after = self._wal.in_hand = 0

    def _send(self, kept: Kept) -> bool:
        """Hand one record to the producer, for all its partitions; False when it has to wait."""
        record = kept.record
        topic = self._prefix + record.topic
        try:
            targets = self._targets(topic, record)
        except KafkaException as error:
            self._link.note(error.args[0], topic)
            return False
        alone = self._bound() == 1 and not self._flight.records
        sent = Sent(kept.seq, topic, len(targets), alone, record.size_bytes)
        self._rate.spend(record.size_bytes)
        self._after = kept.seq
        self._flight.begin(sent)
        for place, partition in enumerate(targets):
            if not self._produce(sent, partition, record):
                self._flight.abandon(sent, len(targets) - place)
                return not self._flight.failed
        return True

    def _targets(self, topic: str, record: WalRecord) -> list[int]:
        if record.partition >= 0:
            return [record.partition]
        count = self._link.partition_count(topic)
        if record.partition == BROADCAST:
            return list(range(count))
        assert record.partition == BY_KEY
        return [partition_for(record.key, count)]

    def _produce(self, sent: Sent, partition: int, record: WalRecord) -> bool:
        report = partial(self._report, sent)
        while self._link.producer is not None and not self._stop.is_set():
            try:
                self._link.producer.produce(
                    sent.topic, value=record.value, key=record.key.encode(), partition=partition, on_delivery=report
                )
                return True
            except BufferError:
                self._link.poll(0.1)
            except KafkaException as error:
                self._fail(sent, error.args[0], is_alone=True)
                return False
        self._flight.failed = True
        return False

    def _report(self, sent: Sent, error: KafkaError | None, message: Message) -> None:
        """A delivery report: the only place from which a record counts as delivered."""
        if error is not None:
            NOT_DELIVERED.labels(sent.topic).inc()
            self._fail(sent, error, sent.alone)
            self._flight.end_message(sent, ok=False)
            return
        place = (sent.topic, int(message.partition() or 0))
        self.last_offset[place] = max(self.last_offset.get(place, -1), int(message.offset() or 0))
        PUBLISHED.labels(sent.topic).inc()
        self._backoff_s = 0.0
        self._link.trouble.over()
        self._rate.heard(self._now_us(), self._wal.kept_bytes)
        self._flight.end_message(sent, ok=True)

    def _fail(self, sent: Sent, error: KafkaError, is_alone: bool) -> None:
        if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            return
        log.warning("not_delivered", topic=sent.topic, seq=sent.seq, error=str(error))
        if error.code() not in _REFUSED:
            self._link.note(error, sent.topic)
        if error.code() in _REFUSED and is_alone and self._set_aside(sent.seq):
            return
        if error.code() in _REFUSED:
            self._alone_through = max(self._alone_through, sent.seq)
        self._link.forget(sent.topic)
        self._must_renew = self._must_renew or error.fatal() or error.code() == KafkaError._FATAL
        self._flight.failed = True
        # What is still queued must not overtake what failed.
        self._link.purge(in_flight=self._must_renew)

    def _set_aside(self, seq: int) -> bool:
        try:
            self._wal.set_aside(seq, "refused_by_broker")
        except WalUnavailable as error:
            log.warning("wal_not_available", error=str(error))
            return False
        return True

    def start(self) -> None:
        """Drain in a thread until `stop`."""
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                if self._wal.count() or self._flight.messages:
                    self.drain()
                else:
                    self._stop.wait(_IDLE_S)
                    self.drain(0)
        except BaseException as error:
            self._error = error
            raise

    def check(self) -> None:
        """Raise PublisherEnded when the thread has ended by an error."""
        if self._error is not None:
            raise PublisherEnded(f"publisher ended: {self._error!r}") from self._error

    def wait_empty(self, timeout_s: float | None = None) -> bool:
        """Wait until everything in the log was delivered; False when the time is over. Raises PublisherEnded."""
        waited_s = 0.0
        while self._wal.count():
            self.check()
            if self._stop.is_set() or (timeout_s is not None and waited_s >= timeout_s):
                return False
            self._stop.wait(_POLL_S)
            waited_s += _POLL_S
        return True

    def stop(self, empty: bool = True) -> None:
        """End the thread; with `empty`, after everything in the log was delivered. What is in flight stays in the
        log unless it is reported by then. Raises PublisherEnded."""
        try:
            if empty and self._thread is not None:
                self.wait_empty()
        finally:
            self._stop.set()
            if self._thread is not None:
                self._thread.join()
        self.check()

"""One producer, made again when that may help, and what it knows of topics. It does not decide what is sent."""

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

from wattledger_agent.broker_trouble import CONFIGURATION, RENEW_HELPS, BrokerTrouble
from wattledger_agent.clock import Clock

Config = Mapping[str, str | int | bool]
_METADATA_S = 2.0

# May be overridden. Messages never time out in the producer: a later one could otherwise overtake a timed-out one.
_DEFAULTS: dict[str, str | int | bool] = {
    "message.timeout.ms": 0,
    "linger.ms": 5,
    "compression.type": "lz4",
    "message.max.bytes": 8_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "reconnect.backoff.max.ms": 5000,
    "allow.auto.create.topics": False,
    "log_level": 0,
}
_FIXED: dict[str, str | int | bool] = {"enable.idempotence": True, "acks": "all"}


class BrokerLink:
    """The producer, or None while its configuration can't be used: a certificate that is not there, for one.

    `config` may be a function: it is asked with each new producer, so that a password file is read again. OSError from
    it counts as a configuration that can't be used.
    """

    def __init__(self, config: Config | Callable[[], Config], clock: Clock, renew_after_s: float) -> None:
        self._config = config
        self._clock = clock
        self._renew_after_s = renew_after_s
        self._partitions: dict[str, int] = {}
        self.trouble = BrokerTrouble()
        self.producer: Producer | None = None
        self.connect()

    def connect(self) -> None:
        """Make a producer in place of the one that there is."""
        self.trouble.try_again(self._clock.monotonic_s())
        try:
            given = self._config() if callable(self._config) else self._config
            self.producer = Producer({**_DEFAULTS, **given, **_FIXED, "error_cb": self.note})
        except KafkaException as error:
            self.producer = None
            self.trouble.tell(CONFIGURATION, error.args[0].str(), self._clock.monotonic_s())
        except OSError as error:
            self.producer = None
            self.trouble.tell(CONFIGURATION, str(error), self._clock.monotonic_s())

    def note(self, error: KafkaError, topic: str = "") -> None:
        """An error that the producer told."""
        self.trouble.note(error, self._clock.monotonic_s(), topic)

    @property
    def is_due_anew(self) -> bool:
        """Whether a trouble that a new producer may end has lasted long enough to try one."""
        trouble = self.trouble
        return trouble.reason in RENEW_HELPS and self._clock.monotonic_s() - trouble.since_s >= self._renew_after_s

    def partition_count(self, topic: str) -> int:
        """Partitions of a topic. Raises KafkaException, also while there is no producer."""
        if topic not in self._partitions:
            if self.producer is None:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
            found = self.producer.list_topics(topic, timeout=_METADATA_S).topics[topic]
            if found.error is not None or not found.partitions:
                raise KafkaException(found.error or KafkaError(KafkaError._UNKNOWN_TOPIC))
            self._partitions[topic] = len(found.partitions)
        return self._partitions[topic]

    def forget(self, topic: str) -> None:
        """Ask for the topic's partitions again."""
        self._partitions.pop(topic, None)

    def poll(self, wait_s: float) -> None:
        """Take delivery reports and errors; waits for them no longer than `wait_s`."""
        if self.producer is not None:
            self.producer.poll(wait_s)
        elif wait_s:
            self._clock.sleep(wait_s)

    def purge(self, in_flight: bool) -> None:
        """Give up what is queued, and what is under way too; each is reported as not delivered."""
        if self.producer is not None:
            self.producer.purge(in_queue=True, in_flight=in_flight, blocking=False)

"""What keeps records from the broker, as one word for a metric and one sentence for people; told when it changes."""

from collections.abc import Iterable
from typing import Final

import structlog
from confluent_kafka import KafkaError
from prometheus_client import Gauge

log = structlog.get_logger()
TROUBLE = Gauge(
    "wattledger_agent_broker_trouble",
    "1 for what keeps records from the broker: configuration, tls, authentication, authorization, no_topic, "
    "name_resolution, unreachable, other",
    ["reason"],
)
CONFIGURATION: Final = "configuration"
# The first found here is told: a refused password is followed by "all brokers down", which says less.
_REASONS: Final[dict[str, tuple[tuple[int, ...], str]]] = {
    CONFIGURATION: ((KafkaError._INVALID_ARG,), "look at the settings of the connection, and the files that they name"),
    "tls": (
        (KafkaError._SSL,),
        "is the certificate authority the one that signed the broker's certificate, the host name in it the one asked "
        "for, and this agent's own certificate what the broker wants?",
    ),
    "authentication": (
        (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.UNSUPPORTED_SASL_MECHANISM),
        "the broker knows another user, password or mechanism",
    ),
    "authorization": (
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED),
        "allow this agent's user to describe and write the topics, and to write idempotently",
    ),
    "no_topic": (
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION),
        "make it with `wattledger topics create`",
    ),
    "name_resolution": ((KafkaError._RESOLVE,), "does the broker's host name exist?"),
    "unreachable": (
        (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT),
        "is the broker up, and may this machine reach it?",
    ),
    "other": ((), "the broker's own log may say more"),
}
_SEEN_FOR_S: Final = 30.0
_RANKS: Final = {reason: rank for rank, reason in enumerate(_REASONS)}
RENEW_HELPS: Final = frozenset({CONFIGURATION, "tls", "authentication"})
"""Troubles that end when files with certificates or passwords are mended: they are read again with a new producer."""


def reason_of(code: int, said: str = "") -> str:
    """The word for an error of librdkafka. In TLS 1.3 a broker refuses a certificate only after the handshake, which
    then is an error of transport that has OpenSSL's words in it."""
    if code == KafkaError._TRANSPORT and "SSL routines" in said:
        return "tls"
    return next((reason for reason, (codes, _) in _REASONS.items() if code in codes), "other")


def most_telling(errors: Iterable[KafkaError]) -> tuple[str, str]:
    """Of errors of one attempt the one that says most, and what to do about it."""
    reason, _, error = min(
        ((reason_of(one.code(), one.str()), one.code() == KafkaError._ALL_BROKERS_DOWN, one) for one in errors),
        key=lambda found: (_RANKS[found[0]], found[1]),
    )
    return error.str(), _REASONS[reason][1]


class BrokerTrouble:
    """The trouble that there is now: '' for none. It is over when the broker has confirmed a record."""

    def __init__(self) -> None:
        self.reason = ""
        self.since_s = 0.0
        self._seen_s = 0.0

    def note(self, error: KafkaError, now_s: float, topic: str = "") -> None:
        """An error. Of those of one time the one that says most is kept, and told once."""
        self.tell(reason_of(error.code(), error.str()), error.str(), now_s, topic)

    def tell(self, reason: str, said: str, now_s: float, topic: str = "") -> None:
        """The same, in a word of `reason_of` and the words of whoever found it."""
        is_seen = now_s - self._seen_s <= _SEEN_FOR_S
        if reason == self.reason or (self.reason and is_seen and _RANKS[reason] > _RANKS[self.reason]):
            self._seen_s = now_s if reason == self.reason else self._seen_s
            return
        self._set(reason)
        self.since_s = self._seen_s = now_s
        log.error("broker_trouble", reason=reason, topic=topic, error=said, hint=_REASONS[reason][1])

    def try_again(self, now_s: float) -> None:
        """A new attempt: what comes next counts, whatever it is."""
        self.since_s, self._seen_s = now_s, now_s - 2 * _SEEN_FOR_S

    def over(self) -> None:
        """The broker has confirmed a record."""
        if self.reason:
            log.info("broker_available", was=self.reason)
            self._set("")

    def _set(self, reason: str) -> None:
        if self.reason:
            TROUBLE.labels(self.reason).set(0)
        self.reason = reason
        if reason:
            TROUBLE.labels(reason).set(1)

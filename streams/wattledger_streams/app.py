"""The Faust app of one processor, on the crash-only pattern: raw bytes in, in order, acknowledged by hand."""

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

import faust
from faust.types.auth import CredentialsT

from wattledger_streams.settings import WorkerSettings

# A year. A worker that waits for ClickHouse longer than the poll interval, its buffer full, leaves its group and never
# joins it again: aiokafka rejoins only after a fetch, and Faust fetches only after the rejoin. Whether a worker is
# alive is the watchdog's and the guard's to say.
_NO_POLL_INTERVAL_S = 366 * 86_400.0

# A leader that assigns while a broker is just coming back may see no topic, and then gives nobody anything; the group
# rests like that until its metadata changes (seen in a soak: for aiokafka's five minutes).
_METADATA_MS = 5_000


class SlowPath(RuntimeError):
    """Faust's C extensions are missing; its pure-Python stream acknowledges what it skips."""


def build_app(processor: str, settings: WorkerSettings) -> faust.App:
    """An app with one consumer group and no tables, no web server, no implicit topics.

    Settings as in the reference (streaming.md 1.8); `stream_wait_empty` keeps a graceful stop from acknowledging a
    batch that is still inside the sink.
    """
    if importlib.util.find_spec("faust._cython.streams") is None:
        raise SlowPath("faust-streaming was installed without its C extensions: install the wheel of this platform")
    return faust.App(
        settings.group(processor),
        broker=";".join(f"kafka://{host}" for host in settings.bootstrap.split(",")),
        broker_credentials=_credentials(settings),
        datadir=str(settings.work_dir / processor),
        key_serializer="raw",
        value_serializer="raw",
        broker_commit_interval=settings.commit_interval_s,
        broker_commit_every=100_000,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / 4,
        # The dead are missed by the session timeout. A live member is waited for longer: put out because it folds its
        # books for longer than a session, it drops them, joins again, and its joining puts out the next one (seen in a
        # soak of half an hour: two meters that took all partitions from each other for minutes).
        broker_rebalance_timeout=max(settings.rebalance_timeout_s, settings.session_timeout_s),
        broker_request_timeout=max(40.0, settings.session_timeout_s * 2, settings.rebalance_timeout_s + 10),
        broker_max_poll_interval=_NO_POLL_INTERVAL_S,
        consumer_metadata_max_age_ms=_METADATA_MS,
        broker_max_poll_records=2000,
        producer_acks=-1,
        topic_disable_leader=True,
        topic_allow_declare=False,
        topic_partitions=1,
        stream_wait_empty=True,
        stream_buffer_maxsize=4096,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        autodiscover=False,
    )


def _credentials(settings: WorkerSettings) -> CredentialsT | None:
    if not settings.kafka_username:
        return None
    import ssl

    context = ssl.create_default_context(cafile=settings.kafka_ca_file or None)
    credentials: CredentialsT = faust.SASLCredentials(
        username=settings.kafka_username,
        password=settings.kafka_password.get_secret_value(),
        ssl_context=context,
        mechanism="SCRAM-SHA-512",
    )
    return credentials


def let_go(app: faust.App, events: Iterable[Any]) -> None:
    """Records that were taken and are not acknowledged: they come again where their partition belongs then. Without
    this a rebalance would wait for them (Faust 0.15; pinned)."""
    for event in events:
        app.consumer._unacked_messages.discard(event.message)  # type: ignore[attr-defined]


def raw_topic(app: faust.App, names: Sequence[str]) -> faust.TopicT:
    """The topics of a processor, as raw bytes."""
    return app.topic(*names, key_serializer="raw", value_serializer="raw", key_type=bytes, value_type=bytes)

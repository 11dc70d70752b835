"""A day played through the whole embedded stack: into it, until it is at rest, and a client on its tables."""

import logging
import time
from collections.abc import Callable, Iterable
from decimal import Decimal

import clickhouse_connect
import structlog
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from wattledger_agent.clock import SystemClock
from wattledger_agent.player import Pace, Played, Player
from wattledger_agent.publisher import Publisher
from wattledger_agent.wal import Wal
from wattledger_core.verdict import VerdictPolicy
from wattledger_schemas import Codec

from wattledger_audit.marks import MarkWatch
from wattledger_audit.settling import Settling, partitions_of
from wattledger_audit.stack import Stack
from wattledger_audit.trace_items import Emitted, trace_items

log = structlog.get_logger()
LEAD_US = 3600 * 1_000_000
FUTURE_LIMIT_S = 7200
POLICY = VerdictPolicy(target_margin_ppm=200_000, price_step=Decimal("0.05"))
Say = Callable[[str], None]


def play_into(stack: Stack, emissions: Iterable[Emitted], say: Say, speed: float | None = None) -> Played:
    """Play emissions through write-ahead log and publisher into a running stack; returns when all is delivered."""
    settings = stack.settings
    counts = partitions_of(settings.partitions)
    watch = MarkWatch(stack.kafka, settings.topic_prefix + "allocations", counts["job-events"])
    wal = Wal(settings.work_dir / "agent.wal")
    publisher = Publisher(wal, stack.kafka, settings.topic_prefix)
    publisher.start()
    player = Player(wal, publisher, SystemClock(), Pace(speed, watch.confirmed_us, LEAD_US))
    told_s = time.monotonic()

    def progress(at_us: int, records: int) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= 5:
            told_s = time.monotonic()
            marked = watch.confirmed_us() or 0
            say(f"  played to {_clock(at_us)}, {records} records; marked to {_clock(marked)}")

    try:
        return player.play(trace_items(emissions, Codec()), progress)
    finally:
        watch.stop()
        wal.close()


def settle(stack: Stack, say: Say, within_s: float = 180) -> None:
    """Wait until every processor has acknowledged everything."""
    settling = Settling(stack.kafka, stack.settings.topic_prefix, partitions_of(stack.settings.partitions))
    told_s = time.monotonic()

    def progress(lag: object) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= 5:
            told_s = time.monotonic()
            say(f"  behind: {lag}")

    try:
        settling.wait(within_s, progress)
    finally:
        settling.close()


def read_client(stack: Stack, within_s: float = 60) -> Client:
    """A stock client on the stack's read-only endpoint."""
    until = time.monotonic() + within_s
    # The driver logs every refused connection while the endpoint is not open yet.
    logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
    while True:
        try:
            return clickhouse_connect.get_client(host="127.0.0.1", port=stack.endpoint_port, database="wattledger")
        except (Error, OSError):
            if time.monotonic() > until:
                raise
            time.sleep(0.3)


_FRESH = """
SELECT
    (SELECT max(inserted_at) FROM cost_rows) <= (SELECT max(inserted_through) FROM tenant_margin_hour)
    AND (SELECT max(inserted_at) FROM usage_lines) <= (SELECT max(inserted_through) FROM capacity_hour)
    AND (SELECT max(refreshed_at) FROM tenant_margin_hour) <= (SELECT max(hours_through) FROM tenant_margin_day)
"""


def wait_fresh(client: Client, within_s: float = 60) -> None:
    """Wait until the views have seen every row; what is then missing is a broken law, and verify says so."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if client.query(_FRESH).result_rows[0][0]:
            return
        time.sleep(0.5)
    log.warning("views_not_fresh", within_s=within_s)


def _clock(at_us: int) -> str:
    seconds = at_us // 1_000_000 % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}" if at_us else "--:--"

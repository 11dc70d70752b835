"""Watching one restart from outside: the topics' ends, the consumer group, the worker's log, the tables."""

import json
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import clickhouse_connect
from clickhouse_connect.driver.exceptions import Error
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from wattledger_audit.settling import Settling, partitions_of
from wattledger_audit.stack import Stack

WRITES = {"sessions": "allocations", "meter": "usage-lines"}
HISTORY = ("gpu-samples", "job-events", "allocations", "price-book", "usage-lines", "tenant-cost")
_REBUILT = ("sessions_rebuilt", "meter_caught_up")
_LIMIT_S = 120.0
_POLL_S = 0.02
_CAUGHT_UP = 1000
"""Records behind in all. Not 0: a take of the meter's is acknowledged whole, and its last batches wait for marks."""


@dataclass(slots=True)
class Restart:
    """Seconds after the kill: the new process, the group stable with new members only, what was folded again, the
    endpoint answering (sink), the first record or row. None: does not happen in that worker, or was not seen."""

    worker: str
    started_s: float = 0.0
    joined_s: float | None = None
    rebuilt_s: float | None = None
    rebuilt: str = ""
    endpoint_s: float | None = None
    first_s: float = 0.0

    def as_json(self) -> dict[str, object]:
        return {name: round(v, 2) if isinstance(v, float) else v for name, v in asdict(self).items()}


def imports_s(workers: Sequence[str]) -> dict[str, float]:
    """Seconds a fresh process takes to import each worker's module, the fastest of three."""
    found = {}
    for name in workers:
        tries = []
        for _ in range(3):
            began_s = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import wattledger_streams.{name}"], check=True)
            tries.append(time.perf_counter() - began_s)
        found[name] = round(min(tries), 2)
    return found


class Watch:
    """Holds the clients. Joins no group."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._counts = partitions_of(stack.settings.partitions)
        self._consumer = Consumer({**stack.kafka, "group.id": "restart-watch", "enable.auto.commit": False})
        self._admin = AdminClient({**stack.kafka})
        # The driver logs every refused connection while the endpoint is away.
        logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)

    def close(self) -> None:
        self._consumer.close()

    def records(self) -> dict[str, int]:
        """How many records each topic holds."""
        return {topic: self._end(topic) for topic in HISTORY}

    def until_caught_up(self, within_s: float) -> None:
        """Until the workers are about as far as what is in the topics. Raises `TimeoutError`."""
        settling = Settling(self._stack.kafka, self._stack.settings.topic_prefix, self._counts)
        until_s = time.monotonic() + within_s
        while sum((lag := settling.lag()).behind.values()) > _CAUGHT_UP:
            if time.monotonic() > until_s:
                raise TimeoutError(f"after {within_s:.0f} s still behind: {lag}")
            time.sleep(0.5)
        settling.close()

    def _end(self, topic: str) -> int:
        name = self._stack.settings.topic_prefix + topic
        places = [TopicPartition(name, p) for p in range(self._counts[topic])]
        return sum(self._consumer.get_watermark_offsets(place, 10.0)[1] for place in places)

    def restart(self, name: str) -> Restart:
        """Kill the worker while it writes, and follow it until it writes again. Raises `TimeoutError`."""
        child = self._stack.workers[name]
        self.until_caught_up(_LIMIT_S)
        self._until_busy(name)
        members, old_pid, log_at = self._members(name), child.pid, child.log_file.stat().st_size
        child.kill()
        killed_s, killed_at = time.monotonic(), time.time()
        base = self._end(WRITES[name]) if name in WRITES else 0
        found = Restart(name)
        while not found.first_s:
            after_s = time.monotonic() - killed_s
            if after_s > _LIMIT_S:
                raise TimeoutError(f"{name} wrote nothing within {_LIMIT_S:.0f} s:\n{child.log_tail()}")
            if not found.started_s and child.alive and child.pid != old_pid:
                found.started_s = after_s
            if found.joined_s is None and (now := self._members(name)) and not now & members:
                found.joined_s = after_s
            if name in WRITES:
                if self._end(WRITES[name]) > base:
                    found.first_s = after_s
            else:
                self._look_at_tables(found, killed_at, after_s)
            time.sleep(_POLL_S)
        found.rebuilt_s, found.rebuilt = _rebuilt(child.log_file.read_bytes()[log_at:], killed_at)
        return found

    def _look_at_tables(self, found: Restart, killed_at: float, after_s: float) -> None:
        """The first row by the server's own stamp: both clocks are this machine's."""
        sql = f"SELECT toUnixTimestamp64Micro(min(inserted_at)) FROM usage_lines WHERE inserted_at > {killed_at:.6f}"
        with suppress(Error, OSError):
            client = clickhouse_connect.get_client(
                host="127.0.0.1", port=self._stack.endpoint_port, database="wattledger"
            )
            if found.endpoint_s is None:
                found.endpoint_s = after_s
            inserted_us = client.query(sql).result_rows[0][0]
            client.close()
            if inserted_us:
                found.first_s = inserted_us / 1e6 - killed_at

    def _until_busy(self, name: str) -> None:
        """Until the worker's output has grown twice: it is at work when it is killed."""
        topic = WRITES.get(name, "usage-lines")
        seen, grown, until_s = self._end(topic), 0, time.monotonic() + _LIMIT_S
        while grown < 2:
            if time.monotonic() > until_s:
                raise TimeoutError(f"{topic} did not grow within {_LIMIT_S:.0f} s: there is no load")
            time.sleep(0.1)
            if (now := self._end(topic)) > seen:
                seen, grown = now, grown + 1

    def _members(self, name: str) -> set[str]:
        """Members of the worker's group while it is stable; empty otherwise."""
        group = f"{self._stack.settings.topic_prefix}wattledger-{name}"
        with suppress(KafkaException):
            described = self._admin.describe_consumer_groups([group])[group].result(10)
            if described.state.name == "STABLE":
                return {member.member_id for member in described.members}
        return set()


def _rebuilt(log: bytes, killed_at: float) -> tuple[float | None, str]:
    """When the last partition was folded again, and how much that was, from the worker's own log."""
    last: float | None = None
    told = []
    for line in log.decode(errors="replace").splitlines():
        with suppress(ValueError, KeyError):
            said = json.loads(line[line.index("{") :])  # the terminal's escapes may come first
            if said["event"] in _REBUILT:
                stamp = datetime.fromisoformat(said["timestamp"]).astimezone(UTC).timestamp()
                last = stamp - killed_at
                told.append(str(said.get("records", said.get("book"))))
    return last, "+".join(told)

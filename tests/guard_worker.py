"""One real worker on a real broker, and what a test sees of it from outside: exit, log, metrics, positions, letters."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from wattledger_audit.processes import Child, free_port
from wattledger_core.event import Tick
from wattledger_schemas import Codec
from wattledger_streams.group_view import GroupView
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import to_wire_tick
from wattledger_streams.topics import create_topics

from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
MINUTE_US = 60_000_000
T0 = 1_794_182_400 * 1_000_000


def wait_until(what: str, holds: Callable[[], bool], within_s: float = 60, every_s: float = 0.1) -> None:
    """Wait for a condition; an AssertionError says what did not come."""
    until(holds, what, within_s, every_s)


class Deployment:
    """Topics of one prefix on a broker, and workers started on them. `stop` ends what was started."""

    def __init__(self, bootstrap: str, prefix: str, folder: Path, partitions: int = 1) -> None:
        self.kafka = {"bootstrap.servers": bootstrap}
        self.prefix, self.partitions, self.folder = prefix, partitions, folder
        self.admin = AdminClient({**self.kafka})
        self.started: list[Child] = []
        self.metrics_ports: dict[int, int] = {}
        self.ticks = 0
        create_topics(self.kafka, prefix, partitions)

    def worker(self, processor: str, fault: str = "", harness: str = "", **env: str) -> Child:
        """Start a worker. `fault` goes to tests.guard_launch, `harness` to tests.fault_harness.launch."""
        number = len(self.started)
        folder, port = self.folder / f"{processor}-{number}", free_port()
        told = {
            "WATTLEDGER_BOOTSTRAP": self.kafka["bootstrap.servers"],
            "WATTLEDGER_TOPIC_PREFIX": self.prefix,
            "WATTLEDGER_WORK_DIR": str(self.folder / "work"),
            "WATTLEDGER_CLICKHOUSE_PATH": str(self.folder / "clickhouse"),
            "WATTLEDGER_SESSION_TIMEOUT_S": "3",
            "WATTLEDGER_COMMIT_INTERVAL_S": "0.3",
            "WATTLEDGER_METRICS_PORT": str(port),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "GUARD_FAULT": fault,
            "HARNESS_FAULT": harness,
            **{f"WATTLEDGER_{name.upper()}": value for name, value in env.items()},
        }
        module = "tests.guard_launch" if fault else "tests.fault_harness.launch" if harness else "wattledger_streams"
        child = Child(processor, [sys.executable, "-m", module, processor], folder / "worker.log", told)
        self.started.append(child.start())
        self.metrics_ports[child.pid] = port
        return child

    def topic(self, name: str) -> str:
        return self.prefix + name

    def send(self, name: str, values: Sequence[bytes | None], partition: int = 0, key: bytes = b"k") -> int:
        """Write raw values; the offset of the first."""
        placed: list[int] = []

        def note(error: KafkaError | None, message: Message) -> None:
            placed.append(-1 if error is not None else int(message.offset() or 0))

        producer = Producer({**self.kafka, "message.max.bytes": 8_000_000, "enable.idempotence": True})
        for value in values:
            producer.produce(self.topic(name), value, key, partition, on_delivery=note)
        assert producer.flush(30) == 0
        assert min(placed) >= 0, f"{name} did not take what was sent"
        return placed[0]

    def send_ticks(self, count: int, name: str = "job-events", partition: int = 0) -> None:
        """The next ticks, a minute apart."""
        codec = Codec()
        times = range(self.ticks, self.ticks + count)
        self.send(name, [codec.encode("tick", to_wire_tick(Tick(T0 + n * MINUTE_US))) for n in times], partition)
        self.ticks += count

    def delete_before(self, name: str, offset: int, partition: int = 0) -> None:
        """What retention does: the log starts at `offset`."""
        [future] = self.admin.delete_records([TopicPartition(self.topic(name), partition, offset)]).values()
        assert future.result(30).low_watermark == offset

    def committed(self, processor: str, name: str, partition: int = 0) -> int:
        """0 when nothing."""
        view = GroupView(self.kafka, f"{self.prefix}wattledger-{processor}")
        try:
            return view.place((self.topic(name), partition))[0]
        finally:
            view.close()

    def wait_committed(self, processor: str, name: str, offset: int, within_s: float = 60) -> None:
        def is_there() -> bool:
            return self.committed(processor, name) >= offset

        wait_until(f"{processor} has committed {name} up to {offset}", is_there, within_s)

    def records(self, name: str, partition: int = 0) -> list[tuple[int, Any]]:
        """Decoded records with their offsets, of what is there now."""
        reader, codec = LogReader(self.kafka, self.topic(name), partition, "guard-test"), Codec()
        try:
            return [(found.offset, codec.decode(found.value)) for found in reader.read_until(reader.end_offset())]
        finally:
            reader.close()

    def letters(self, reason: str = "") -> list[Mapping[str, Any]]:
        """Dead letters, of one reason or all."""
        found = [decoded.record for _, decoded in self.records("dead-letters")]
        return [record for record in found if reason in ("", record["reason_code"])]

    def metric(self, worker: Child, line_start: str) -> float:
        """The sum of a worker's metrics whose line begins so; 0 where there is none."""
        with urlopen(f"http://127.0.0.1:{self.metrics_ports[worker.pid]}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(line_start))

    def stop(self) -> None:
        for child in self.started:
            child.kill()


def exit_of(worker: Child, within_s: float = 60) -> int:
    """The exit code; an AssertionError with the log's tail when it does not end."""
    until_s = time.monotonic() + within_s
    while worker.exit_code is None:
        assert time.monotonic() < until_s, f"{worker.name} still runs after {within_s:.0f} s:\n{worker.log_tail(30)}"
        time.sleep(0.1)
    return int(worker.exit_code)

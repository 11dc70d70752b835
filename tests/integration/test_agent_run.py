"""The whole agent on fake cards and Apache Kafka: killed and started again while SLURM jobs come and go; what arrives
is folded by the core, and every joule and second of it is where it belongs."""

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from wattledger_audit.broker import Broker
from wattledger_core.event import JobEvent, JobTopicEvent, NodeEvent, Tick
from wattledger_core.policy import Policy
from wattledger_core.replay import Logs, replay
from wattledger_schemas import Codec, partition_for
from wattledger_streams.mapping import from_wire_job_event, from_wire_node_event
from wattledger_streams.mapping_batch import from_wire_batch
from wattledger_streams.topics import create_topics

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[2]
PROLOG = ROOT / "infra" / "slurm" / "wattledger-prolog"
CARDS = 2
WATTS = 300


@dataclass
class Arrived:
    """All records of a topic set, by partition, in offset order."""

    batches: list[dict[str, Any]] = field(default_factory=list)
    events: dict[int, list[tuple[int, JobTopicEvent]]] = field(default_factory=lambda: defaultdict(list))
    gaps: list[dict[str, Any]] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    sample_logs: dict[int, list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))


class Machine:
    """One node: its agent as a process of its own, its drop folder, its SLURM."""

    def __init__(self, folder: Path, bootstrap: str, prefix: str) -> None:
        self.since_us = time.time_ns() // 1000 - 3_600_000_000
        self.drops = folder / "slurm"
        self.drops.mkdir(mode=0o700)
        self.config = folder / "agent.toml"
        self.config.write_text(
            f"""
node = "n1"
cluster = "c1"
site = "fra1"
agent_id = "a1"
watchers = ["slurm", "processes"]
watch_s = 0.1
http_port = 0
[kafka]
bootstrap = "{bootstrap}"
topic_prefix = "{prefix}"
[wal]
path = "{folder / "state" / "agent.wal"}"
[sampling]
probes = ["nvml"]
period_ms = 100
flush_s = 1
[slurm]
drop_dir = "{self.drops}"
"""
        )
        self.log = (folder / "agent.log").open("wb")
        self.process: subprocess.Popen[bytes] | None = None
        self.started_s: dict[int, int] = {}

    def start(self) -> None:
        args = [sys.executable, "-m", "tests.agent_on_fakes", str(CARDS), str(self.since_us), str(self.config)]
        path = os.pathsep.join(sys.path)
        self.process = subprocess.Popen(
            args, cwd=ROOT, stdout=self.log, stderr=self.log, env={**os.environ, "PYTHONPATH": path}
        )

    def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(30)
        self.process = None
        return code

    def slurm(self, context: str, job: int, gpus: str) -> None:
        """What slurmd runs at a job's start and end."""
        env = {
            "SLURM_SCRIPT_CONTEXT": context,
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_ACCOUNT": "acme",
            "SLURM_JOB_USER": "ann",
            "SLURM_JOB_UID": "1000",
            "SLURM_CLUSTER_NAME": "c1",
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_GPUS": gpus,
            "SLURM_JOB_START_TIME": str(self.started_s.setdefault(job, int(time.time()))),
            "WATTLEDGER_SLURM_FOLDER": str(self.drops),
        }
        assert subprocess.run(["/bin/sh", str(PROLOG)], env=env, check=False).returncode == 0


@pytest.fixture
def machine(tmp_path: Path, broker: Broker, topic_prefix: str) -> Iterator[Machine]:
    create_topics({"bootstrap.servers": broker.bootstrap}, topic_prefix, partitions=2)
    found = Machine(tmp_path, broker.bootstrap, topic_prefix)
    yield found
    if found.process is not None:
        found.process.kill()
        found.process.wait()
    found.log.close()
    sys.stdout.write((tmp_path / "agent.log").read_text()[-4000:])


def arrived(bootstrap: str, prefix: str) -> Arrived:
    """Read all topics from their start to their end. A batch that came twice is the same bytes, and counts once."""
    codec, found = Codec(), Arrived()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "t", "enable.auto.commit": False})
    seen: dict[tuple[str, str, int], bytes] = {}
    try:
        for name in ("gpu-samples", "job-events", "dead-letters"):
            topic = prefix + name
            for number in consumer.list_topics(topic, timeout=20).topics[topic].partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
                consumer.assign([TopicPartition(topic, number, low)])
                offset = low - 1
                while offset < high - 1:
                    message = consumer.poll(10)
                    assert message is not None and message.error() is None, (topic, number, offset, high)
                    offset = int(message.offset() or 0)
                    _take(found, codec, number, offset, message.value() or b"", seen)
    finally:
        consumer.close()
    return found


def _take(
    found: Arrived, codec: Codec, partition: int, offset: int, value: bytes, seen: dict[tuple[str, str, int], bytes]
) -> None:
    subject, _, record = codec.decode(value)
    if subject == "sample_batch":
        name = (record["agent"], record["boot_id"], record["seq"])
        assert seen.setdefault(name, value) == value, f"{name} was sent with two contents"
        if value is seen[name]:
            found.batches.append(record)
            found.sample_logs[partition].append((offset, from_wire_batch(record)))
    elif subject == "job_event":
        found.events[partition].append((offset, from_wire_job_event(record)))
    elif subject == "node_event":
        found.events[partition].append((offset, from_wire_node_event(record)))
    elif subject == "gap":
        found.gaps.append(record)
    else:
        found.letters.append(record)


def spans(batches: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    ticks = [record["ticks_us"] for record in batches]
    return [(int.from_bytes(t[:8], "little"), int.from_bytes(t[-8:], "little")) for t in ticks]


def energy_uj(batches: Sequence[dict[str, Any]], device: str) -> int:
    """Sum of the increases in the records, each record's base being where the one before ended."""
    total, end_uj = 0, None
    for batch in batches:
        for row in batch["devices"]:
            if row["device"] == device:
                count = len(batch["ticks_us"]) // 8
                gain = sum(
                    int.from_bytes(row["energy_delta_uj"][8 * i : 8 * i + 8], "little", signed=True)
                    for i in range(count)
                )
                assert end_uj in (None, row["counter_base_uj"])
                end_uj = row["counter_base_uj"] + gain
                total += gain
    return total


def test_kills_and_restarts_cost_no_tick_no_joule_and_no_job(
    machine: Machine, broker: Broker, topic_prefix: str
) -> None:
    seed = secrets.randbits(32)
    sys.stdout.write(f"seed {seed}\n")
    rng = random.Random(seed)
    machine.start()
    time.sleep(2.5)
    machine.slurm("prolog_slurmd", 77, "0")
    for round_number in range(3):
        time.sleep(rng.uniform(0.3, 2.0))
        machine.end(signal.SIGKILL)
        if round_number == 1:
            # a job that lives while no agent does
            machine.slurm("prolog_slurmd", 78, "1")
            time.sleep(0.4)
            machine.slurm("epilog_slurmd", 78, "1")
        machine.start()
    time.sleep(2.5)
    machine.slurm("epilog_slurmd", 77, "0")
    time.sleep(1.5)
    assert machine.end(signal.SIGTERM) == 0
    found = arrived(broker.bootstrap, topic_prefix)

    assert found.gaps == []
    batches = sorted(found.batches, key=lambda record: record["ticks_us"][-8:][::-1])
    tiles = spans(batches)
    assert all(before[1] == after[0] for before, after in pairwise(tiles)), tiles
    start_us, end_us = tiles[0][0], tiles[-1][1]
    for device in {row["device"] for batch in batches for row in batch["devices"]}:
        drawn_uj = energy_uj(batches, device)
        assert abs(drawn_uj - (end_us - start_us) * WATTS) < 0.05 * 1e6 * WATTS * 2, "the counter bridges every absence"

    events = [event for log in found.events.values() for _, event in log]
    jobs = {(e.job, e.kind): e for e in events if isinstance(e, JobEvent)}
    assert set(jobs) == {(job, kind) for job in ("77", "78") for kind in ("start", "end")}, sorted(jobs)
    told = {(e.event_id, e) for e in events if isinstance(e, JobEvent)}
    assert len(told) == len({name for name, _ in told}) == 4, "what a killed agent sent twice is the same event"
    # minors run against indices on these cards: SLURM's 0 is the second
    [claim] = jobs["77", "start"].claims
    assert (claim.device[-1], claim.node, jobs["77", "start"].node) == ("1", "n1", "n1")
    lived_us = jobs["78", "end"].at_us - jobs["78", "start"].at_us
    assert 350_000 < lived_us < 900_000
    assert any(isinstance(e, NodeEvent) and len(e.devices) == CARDS for e in events)

    lines = fold(found, end_us)
    total_uj = sum(energy_uj(batches, row["device"]) for row in batches[0]["devices"])
    assert sum(line.energy_uj or 0 for line in lines if line.energy_uj is not None) == total_uj
    held_uj = {name: sum(x.energy_uj or 0 for x in lines if x.job == name) for name in ("77", "78")}
    for name in held_uj:
        span_us = jobs[name, "end"].at_us - jobs[name, "start"].at_us
        assert abs(held_uj[name] - span_us * WATTS) < 0.2 * 1e6 * WATTS, (name, held_uj, span_us)


def fold(found: Arrived, end_us: int) -> list[Any]:
    """Energy lines of all that arrived, as the pipeline makes them."""
    events: dict[int, list[tuple[int, JobTopicEvent]]] = {}
    for partition in range(2):
        log = list(found.events.get(partition, []))
        last = log[-1][0] if log else -1
        first_us = min((e.at_us for _, e in log), default=end_us)
        events[partition] = [(-1, Tick(first_us - 1)), *log, (last + 1, Tick(end_us + 3_600_000_000))]
        events[partition] = [(place, event) for place, (_, event) in enumerate(events[partition])]
    prices: list[tuple[int, Tick]] = [(0, Tick(end_us + 3_600_000_000))]
    logs = Logs(events, dict(found.sample_logs), prices)
    replayed = replay(logs, Policy(), 2, {"n1": partition_for("n1", 2)})
    return [line for line in replayed.lines if line.kind == "energy"]

"""Damage to the log, its disk and its records, followed to the other end of a real broker: what is missing there is
exactly what the gap records say, number by number."""

import os
import random
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.cimpl import KafkaException
from wattledger_agent.drain_rate import DrainRule
from wattledger_agent.publisher import Publisher
from wattledger_agent.wal import Wal
from wattledger_agent.wal_cipher import WalCipher
from wattledger_audit.broker import Broker
from wattledger_streams.topics import create_topics

from tests.agent_delivery import Arrived, arrived
from tests.fault.test_agent_disk_full import can_mount
from tests.unit.agent_bare_batches import S, batch_of
from tests.unit.agent_records import log_with, numbers, read_all, record, records

pytestmark = [pytest.mark.kafka, pytest.mark.quick]
COUNT = 200
PAGE = 4096
RATE = 1_500
KEY = bytes(range(32))


@pytest.fixture
def kafka(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.max.ms": "300"}


def deliver(wal: Wal, kafka: dict[str, str], prefix: str, partitions: int = 1) -> Arrived:
    """Publish all that a log holds, and read it back."""
    create_topics({"bootstrap.servers": kafka["bootstrap.servers"]}, prefix, partitions)
    publisher = Publisher(wal, kafka, prefix)
    publisher.start()
    publisher.stop()
    wal.close()
    return arrived(kafka, prefix, "job-events")


def flip(content: bytearray, rng: random.Random) -> None:
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def cut(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(PAGE, len(content)) :]


def zero_page(content: bytearray, rng: random.Random) -> None:
    page = rng.randrange(1, len(content) // PAGE)
    content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)


def garble(content: bytearray, rng: random.Random) -> None:
    at = rng.randrange(PAGE, len(content) - 600)
    content[at : at + 600] = rng.randbytes(600)


DAMAGES = [flip, flip, flip, flip, cut, cut, zero_page, zero_page, garble, garble]


@pytest.mark.fault(
    2, "log flipped, cut, zeroed, garbled; delivered", "what is missing in Kafka is what gap records name"
)
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_what_damage_takes_is_named_exactly_by_the_gap_records_that_arrive(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str, is_encrypted: bool, seen: Callable[[str], None]
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    cipher = WalCipher([KEY]) if is_encrypted else None
    wal = Wal(tmp_path / "whole.wal", cipher=cipher)
    for first in range(0, COUNT, 50):
        wal.append(records(first, first + 50, size_bytes=1500))
    wal.note_tick(b"tick", 1)
    wal.close()
    whole = (tmp_path / "whole.wal").read_bytes()
    lost_somewhere = lost = 0
    for place, damage in enumerate(DAMAGES[:: 2 if is_encrypted else 1]):
        content = bytearray(whole)
        damage(content, rng)
        path = tmp_path / f"{place}.wal"
        path.write_bytes(content)
        shutil.copy(tmp_path / "whole.wal.lock", f"{path}.lock")
        found = deliver(Wal(path, cipher=cipher), kafka, f"{topic_prefix}{place}.")
        found.gaps = [gap for gap in found.gaps if gap["topic"] not in ("ticks", "state")]
        said = f"seed {seed}, {damage.__name__} {place}"
        # in a new log record n has number n + 1
        missing = {number + 1 for number in set(range(COUNT)) - set(found.numbers())}
        assert len(found.every) == len(set(found.every)), said
        assert set(found.every) <= {one.value for one in records(0, COUNT, size_bytes=1500)}, said
        if any(gap["reason"] == "corrupt_count_unknown" for gap in found.gaps):
            continue
        assert found.named() == missing and found.counted() == len(missing), said
        lost_somewhere, lost = lost_somewhere + bool(missing), lost + len(missing)
    seen(f"seed {seed}: {lost} records missing over {lost_somewhere} damages, exactly those named")
    assert lost_somewhere >= 2, f"seed {seed}: this damage shows nothing"


def test_an_emptied_file_is_told_with_a_gap_whose_count_is_unknown(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str
) -> None:
    log_with(tmp_path / "a.wal", 20).close()
    (tmp_path / "a.wal").write_bytes(b"")
    wal = Wal(tmp_path / "a.wal")
    wal.append(records(20, 25))
    found = deliver(wal, kafka, topic_prefix)
    assert found.numbers() == list(range(20, 25))
    assert [(gap["reason"], gap["count"]) for gap in found.gaps] == [("corrupt_count_unknown", 0)]


@pytest.mark.fault(16, "a record larger than the topic takes", "named in a gap record; all others arrive in order")
def test_a_record_that_the_broker_refuses_is_named_and_what_is_around_it_arrives_in_order(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str, seen: Callable[[str], None]
) -> None:
    create_topics({"bootstrap.servers": kafka["bootstrap.servers"]}, topic_prefix, partitions=2)
    topic = ConfigResource(ConfigResource.Type.TOPIC, f"{topic_prefix}job-events", {"max.message.bytes": "20000"})
    admin = AdminClient(dict(kafka))
    try:
        admin.alter_configs([topic])[topic].result(20)
    except KafkaException as error:
        pytest.skip(f"this broker changes no topic's configuration: {error}")
    wal = log_with(tmp_path / "a.wal", 30)
    noise = random.Random(7).randbytes(40_000)
    wal.append([*records(30, 35), record(35), *records(36, 40)])
    large = record(40)
    wal.append([type(large)(large.topic, large.key, b"40;" + noise, at_us=large.at_us), *records(41, 60)])
    found = deliver(wal, kafka, topic_prefix, partitions=2)
    assert found.numbers() == [number for number in range(60) if number != 40]
    assert len(found.every) == len(set(found.every))
    for values in found.values:
        assert values == sorted(values, key=lambda value: int(value.split(b";")[0]))
    [gap] = found.gaps
    assert (gap["from_seq"], gap["to_seq"], gap["count"], gap["reason"]) == (41, 41, 1, "refused_by_broker")
    assert (gap["from_us"], gap["to_us"]) == (40 * S, 40 * S)
    seen("59 of 60 records in order, one gap record of one record: refused_by_broker")


@pytest.mark.fault(
    (7, 9), "broker SIGKILLed, an hour of event time, started again", "drained in order at a bounded rate"
)
def test_a_broker_away_for_an_hour_of_event_time_gets_every_tick_in_order_at_the_rate_allowed(
    tmp_path: Path, broker: Broker, topic_prefix: str, seen: Callable[[str], None]
) -> None:
    if broker.child is None or not broker.durable:
        pytest.skip(f"needs a broker of our own that keeps its data over a kill, not {broker.kind}")
    create_topics({"bootstrap.servers": broker.bootstrap}, topic_prefix, partitions=1)
    wal = Wal(tmp_path / "a.wal")
    kafka = {"bootstrap.servers": broker.bootstrap, "reconnect.backoff.max.ms": "300"}
    publisher = Publisher(wal, kafka, topic_prefix, rule=DrainRule(RATE, 0, burst_least_bytes=0))
    publisher.start()
    ticks: list[tuple[int, int]] = []

    def take(first_s: int, last_s: int) -> None:
        """Ticks each 10 s, batches each minute."""
        for second in range(first_s, last_s, 10):
            ticks.append((wal.note_tick(b"%d" % second, second * S), second * S))
            if len(ticks) > 6:
                wal.append([batch_of([at for _, at in ticks], second // 60, "boot")], ticks_before=ticks[-1][0])
                del ticks[:-1]

    take(0, 310)
    assert publisher.wait_empty(30)
    broker.kill()
    take(310, 3910)
    waiting = wal.count()
    broker.restart()
    began_s, backlog_bytes = time.monotonic(), wal.kept_bytes
    take(3910, 4210)
    assert publisher.wait_empty(60)
    took_s = time.monotonic() - began_s
    publisher.stop()
    found = arrived({"bootstrap.servers": broker.bootstrap}, topic_prefix, "gpu-samples")
    assert waiting == 60 and found.gaps == []
    times = [batch["ticks_us"] for batch in found.batches()]
    assert [int.from_bytes(one[-8:], "little") for one in times] == [n * 60 * S for n in range(1, 71)]
    assert sum(len(one) // 8 - 1 for one in times) == 420
    seen(f"{waiting} batches waited; all 420 ticks in order, {backlog_bytes} bytes in {took_s:.1f} s at {RATE} bytes/s")
    # one burst is in the bucket and one in flight when it comes back
    assert backlog_bytes > 3 * RATE and took_s > (backlog_bytes - 2 * RATE) / RATE


_FILL_AND_DELIVER = """
import os, sys
sys.path[:0] = sys.argv[3].split(os.pathsep)
from pathlib import Path
from tests.unit.agent_records import records
from wattledger_agent.publisher import Publisher
from wattledger_agent.wal import Wal
wal, taken = Wal(Path(sys.argv[1])), 0
for _ in range(300):
    wal.append(records(taken, taken + 20, size_bytes=3000))
    taken += 20
publisher = Publisher(wal, {"bootstrap.servers": sys.argv[4]}, sys.argv[2])
publisher.start()
publisher.stop()
print("TAKEN", taken)
"""


@pytest.mark.fault((3, 4), "disk full for long, then delivery", "oldest given up, exactly those named in Kafka")
@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a tmpfs (root, and unshare)")
def test_what_a_full_disk_cost_is_named_exactly_at_the_other_end(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str, seen: Callable[[str], None]
) -> None:
    create_topics({"bootstrap.servers": kafka["bootstrap.servers"]}, topic_prefix, partitions=2)
    folder = tmp_path / "small"
    folder.mkdir()
    mount = f'mount -t tmpfs -o size=20m tmpfs {folder} && exec {sys.executable} -c "$0" "$@"'
    args = [f"{folder}/a.wal", topic_prefix, os.pathsep.join(sys.path), kafka["bootstrap.servers"]]
    command = ["unshare", "-m", "sh", "-c", mount, _FILL_AND_DELIVER, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "TAKEN 6000" in done.stdout
    found = arrived(kafka, topic_prefix, "job-events")
    missing = set(range(6000)) - set(found.numbers())
    seen(f"{len(missing)} of 6000 records given up for want of room, {found.counted()} named in gap records")
    assert len(found.every) == len(set(found.every))
    assert found.counted() == len(missing) > 0
    assert {gap["reason"] for gap in found.gaps} == {"disk_full"}
    assert min(gap["from_us"] for gap in found.gaps) == min(missing) * S
    assert max(gap["to_us"] for gap in found.gaps) == max(missing) * S


@pytest.mark.fault(2, "two ticks of the journal damaged", "named in a gap record, the other ticks kept")
def test_a_damaged_journal_of_ticks_is_named_at_the_other_end(
    tmp_path: Path, kafka: dict[str, str], topic_prefix: str, seen: Callable[[str], None]
) -> None:
    wal = Wal(tmp_path / "a.wal")
    given = [wal.note_tick(b"%d" % number, number * S) for number in range(10)]
    wal._store.db.execute(f"UPDATE ticks SET value = 'x' WHERE number IN ({given[4]}, {given[5]})")
    wal.close()
    again = Wal(tmp_path / "a.wal")
    assert [int(value) for _, value in again.open_ticks()] == [0, 1, 2, 3, 6, 7, 8, 9]
    assert numbers(read_all(again)) == []
    [gap] = deliver(again, kafka, topic_prefix).gaps
    assert (gap["topic"], gap["from_seq"], gap["to_seq"], gap["count"]) == ("ticks", given[4], given[5], 2)
    seen("8 of 10 ticks kept, a gap record names the two")

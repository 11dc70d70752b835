"""Records that nobody can use, of every kind in every topic: put aside, and the stream goes on, also after a start."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker
from wattledger_core.event import Tick
from wattledger_schemas import Codec, load_contracts
from wattledger_streams.mapping import to_wire_tick

from tests.guard_worker import T0, Deployment, exit_of, wait_until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
PROCESSORS = ("sessions", "meter", "sink")
READ_BY = {
    "job-events": "sessions",
    "gpu-samples": "meter",
    "allocations": "sink",
    "price-book": "sink",
    "usage-lines": "sink",
    "tenant-cost": "sink",
    "threshold-events": "sink",
}


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(broker.bootstrap, f"poison-{topic_prefix}", tmp_path)
    yield found
    found.stop()


def poisons(topic: str) -> dict[str, bytes | None]:
    """Kinds of records that no processor of the topic can use."""
    codec = Codec()
    good = codec.encode("tick", to_wire_tick(Tick(T0)))
    strange = codec.encode("gap", {"node": "n", "agent": "a", "topic": "t", "from_seq": 1, "to_seq": 2, "count": 2,
                                   "from_us": None, "to_us": None, "reason": "cap"})  # fmt: skip
    noise = random.Random(7)
    found: dict[str, bytes | None] = {
        "a tombstone": None,
        "empty": b"",
        "no wire format": b"{}garbage",
        "no such schema": b"\0\0\0\0\x4d" + good[5:],
        "cut short": good[:6],
        "more than the record": good + b"tail",
        "another topic's": strange,
        "as large as the topic takes": noise.randbytes(7_990_000),
    }
    if topic == "allocations":
        del found["no such schema"]  # see below
    return found | ({} if topic in ("job-events", "price-book") else {"a tick where none belongs": good})


@pytest.mark.fault(16, "eight kinds of bad records in each of seven topics, tombstones and 8 MB ones", "all put aside")
def test_no_record_in_any_topic_stops_a_worker(deployment: Deployment, seen: Seen) -> None:
    placed: dict[tuple[str, int], str] = {}
    for topic in READ_BY:
        for kind, value in poisons(topic).items():
            placed[(topic, deployment.send(topic, [value]))] = kind
    deployment.send_ticks(3)
    workers = [deployment.worker(name) for name in PROCESSORS]
    ends = {topic: len(poisons(topic)) for topic in READ_BY} | {"job-events": len(poisons("job-events")) + 3}

    def is_over() -> bool:
        dead = [worker for worker in workers if worker.exit_code is not None]
        assert not dead, "\n".join(f"{w.name} {w.exit_code}: {w.log_tail(4)[:3000]}" for w in dead)
        return all(deployment.committed(READ_BY[topic], topic) >= end for topic, end in ends.items())

    wait_until("everything is acknowledged", is_over, 120)
    for worker in workers:
        worker.kill()
    ends["allocations"] += 3
    workers = [deployment.worker(name) for name in PROCESSORS]
    deployment.send_ticks(2)
    ends["job-events"] += 2
    ends["allocations"] += 2
    wait_until("everything is acknowledged after a start", is_over, 120)
    deployment.wait_committed("sink", "dead-letters", len(placed))
    letters = {(letter["source_topic"], letter["source_offset"]): letter for letter in deployment.letters()}
    assert placed.keys() - letters.keys() == set(), {place: placed[place] for place in placed.keys() - letters.keys()}
    assert {place for place in letters if place not in placed} == set()
    reasons = sorted({letter["reason_code"] for letter in letters.values()})
    seen(f"{len(placed)} bad records of {len(load_contracts()) - 1} topics in dead-letters ({', '.join(reasons)})")


@pytest.mark.fault(
    16, "an allocation of a schema that this meter does not know", "it stops: a skip would lose a holder"
)
def test_an_allocation_of_a_newer_schema_stops_the_meter_and_is_not_skipped(deployment: Deployment, seen: Seen) -> None:
    deployment.send("allocations", [b"\0\0\0\0\x4dnewer"])
    meter = deployment.worker("meter")
    assert exit_of(meter) == 70
    assert "allocations[0]@0: unknown_schema_id" in meter.log_tail(5)
    seen("exit 70, the message names the offset and the schema id")

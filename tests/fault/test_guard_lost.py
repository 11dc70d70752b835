"""Records that retention took before they were read are never passed over in silence; nor a log that went back."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from wattledger_audit.broker import Broker
from wattledger_streams.log_reader import LogReader
from wattledger_streams.lost_records import Lost

from tests.guard_worker import Deployment, exit_of, wait_until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
LIMIT_S = "6"


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Deployment]:
    found = Deployment(broker.bootstrap, f"lost-{topic_prefix}", tmp_path)
    yield found
    found.stop()


def worked_until(deployment: Deployment, count: int) -> None:
    """Sessions has acknowledged the first `count` ticks, and is gone."""
    deployment.send_ticks(count)
    worker = deployment.worker("sessions")
    deployment.wait_committed("sessions", "job-events", count)
    worker.kill()


def the_letter(deployment: Deployment) -> tuple[str, int, str]:
    [letter] = deployment.letters("offsets_lost")
    return letter["source_topic"], letter["source_offset"], letter["detail"]


@pytest.mark.quick
@pytest.mark.fault(28, "the topic truncated above the committed position", "dead letter, metric, log; then it goes on")
def test_a_truncated_topic_is_alarmed_with_its_range_and_the_stream_goes_on(deployment: Deployment, seen: Seen) -> None:
    worked_until(deployment, 50)
    deployment.send_ticks(50)
    deployment.delete_before("job-events", 70)
    worker = deployment.worker("sessions", watchdog_s=LIMIT_S)
    deployment.wait_committed("sessions", "job-events", 100)
    topic, offset, detail = the_letter(deployment)
    assert (topic, offset) == ("job-events", 50)
    assert f"offsets 50 to 69 of {deployment.topic('job-events')}[0] (20 records)" in detail
    assert deployment.metric(worker, "wattledger_lost_records_total{") == 20
    texts = [line[line.index("{") :] for line in worker.log_tail(50).splitlines() if "{" in line]
    said = [line for line in map(json.loads, texts) if line["event"] == "offsets_lost"]
    assert [(line["level"], line["start"], line["end"]) for line in said] == [("error", 50, 70)]
    marks = [decoded.record["at_us"] for _, decoded in deployment.records("allocations") if decoded.subject == "mark"]
    assert len(set(marks)) == 80
    seen("letter offsets_lost 50 to 69, metric 20, one error line; the other 80 ticks have their marks")


@pytest.mark.fault(28, "everything unread deleted, and nothing comes after it", "the alarm needs no record to come")
def test_a_loss_is_alarmed_even_when_no_record_follows(deployment: Deployment, seen: Seen) -> None:
    worked_until(deployment, 10)
    deployment.send_ticks(5)
    deployment.delete_before("job-events", 15)
    worker = deployment.worker("sessions", watchdog_s=LIMIT_S)
    wait_until("a letter is written", lambda: bool(deployment.letters("offsets_lost")), 60)
    assert the_letter(deployment)[1] == 10
    deployment.send_ticks(1)
    deployment.wait_committed("sessions", "job-events", 16)
    assert len(deployment.letters("offsets_lost")) == 1
    assert deployment.metric(worker, "wattledger_lost_records_total{") == 5
    seen("letter for 10 to 14 while the topic was empty; not said again with the next record")


@pytest.mark.fault(28, "the group's offsets gone and the topic's start deleted", "alarmed: what was read is not known")
def test_a_group_without_a_position_on_a_topic_without_its_start_is_alarmed(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(10)
    deployment.delete_before("job-events", 4)
    deployment.worker("sessions")
    deployment.wait_committed("sessions", "job-events", 10)
    _, offset, detail = the_letter(deployment)
    assert offset == 0
    assert "offsets 0 to 3 " in detail
    assert "no position of its own" in detail
    seen("letter for 0 to 3 that says the position is not known")


@pytest.mark.fault(28, "the committed position lies above the end of the log", "exit 73, nothing acknowledged")
def test_a_log_that_ends_below_what_was_acknowledged_stops_the_worker(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(10)
    group = f"{deployment.prefix}wattledger-sessions"
    consumer = Consumer({**deployment.kafka, "group.id": group})
    consumer.commit(offsets=[TopicPartition(deployment.topic("job-events"), 0, 500)], asynchronous=False)
    consumer.close()
    worker = deployment.worker("sessions", watchdog_s="3")
    assert exit_of(worker) == 73
    assert "log_went_back" in worker.log_tail(3)
    assert deployment.committed("sessions", "job-events") == 500
    assert deployment.records("allocations") == []
    seen("exit 73, the message says what the group had and where the log ends")


@pytest.mark.fault(28, "the books truncated above the meter's position", "one letter for each, the meter goes on")
def test_a_meter_whose_books_are_truncated_says_so(deployment: Deployment, seen: Seen) -> None:
    deployment.send_ticks(8)
    sessions = deployment.worker("sessions")
    deployment.wait_committed("sessions", "job-events", 8)
    deployment.send_ticks(8, "price-book")
    meter = deployment.worker("meter")
    deployment.wait_committed("meter", "allocations", 8)
    meter.kill()
    deployment.send_ticks(6)
    deployment.wait_committed("sessions", "job-events", 14)
    sessions.kill()
    deployment.delete_before("allocations", 12)
    deployment.delete_before("price-book", 3)
    deployment.worker("meter")
    deployment.send_ticks(20, "price-book")
    deployment.wait_committed("meter", "allocations", 14)
    found = {(letter["source_topic"], letter["source_offset"]) for letter in deployment.letters("offsets_lost")}
    assert found == {("allocations", 8), ("price-book", 0)}
    seen("letters for allocations 8 to 11 and price-book 0 to 2; the book's position then moves on")


def test_a_reader_tells_what_was_deleted_under_it_once_and_with_its_range(deployment: Deployment) -> None:
    told: list[Lost] = []
    deployment.send("price-book", [b"x"] * 30)
    reader = LogReader(deployment.kafka, deployment.topic("price-book"), 0, "a-reader", told.append)
    try:
        assert len(list(reader.read_until(5))) == 5
        deployment.delete_before("price-book", 20)
        reader.seek(5)
        assert [record.offset for record in reader.read_until(30)] == list(range(20, 30))
        assert told == [Lost(deployment.topic("price-book"), 0, 5, 20, "a-reader")]
        reader.must_follow(25)
        assert len(told) == 1
        reader.must_follow(12)
        assert (told[1].start, told[1].end) == (12, 20)
    finally:
        reader.close()

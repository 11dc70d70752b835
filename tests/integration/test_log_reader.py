"""Reading a partition by hand: nothing is lost at the end of a stretch, and positions are kept by group."""

from collections.abc import Iterator

import pytest
from wattledger_audit.broker import Broker
from wattledger_streams.log_reader import LogReader
from wattledger_streams.outbox import Outbox
from wattledger_streams.topics import create_topics

pytestmark = pytest.mark.kafka
COUNT = 50


@pytest.fixture
def kafka(broker: Broker, topic_prefix: str) -> dict[str, str]:
    """Connection settings; `price-book` of the prefix holds fifty records."""
    config = {"bootstrap.servers": broker.bootstrap}
    create_topics(config, f"reader-{topic_prefix}", 1)
    outbox = Outbox(config)
    for number in range(COUNT):
        outbox.send(f"reader-{topic_prefix}price-book", 0, f"k{number}", str(number).encode())
    outbox.settle_blocking()
    return config


@pytest.fixture
def reader(kafka: dict[str, str], topic_prefix: str) -> Iterator[LogReader]:
    found = LogReader(kafka, f"reader-{topic_prefix}price-book", 0, f"group-{topic_prefix}")
    yield found
    found.close()


def polled(reader: LogReader, wanted: int) -> list[int]:
    """Values of the next records; a poll may bring fewer than there are."""
    values: list[int] = []
    for _ in range(200):
        values += [int(record.value) for record in reader.poll(timeout_s=0.1)]
        if len(values) >= wanted:
            break
    return values


@pytest.mark.parametrize("end", [0, 1, 20, COUNT])
def test_what_lies_beyond_the_end_is_left_for_the_next_poll(reader: LogReader, end: int) -> None:
    assert [int(record.value) for record in reader.read_until(end)] == list(range(end))
    assert polled(reader, COUNT - end) == list(range(end, COUNT))


def test_stretches_follow_each_other_without_a_hole_or_a_repeat(reader: LogReader) -> None:
    found = [int(record.value) for end in (7, 7, 30, reader.end_offset()) for record in reader.read_until(end)]
    assert found == list(range(COUNT))


def test_a_seek_backwards_reads_again(reader: LogReader) -> None:
    assert len(list(reader.read_until(40))) == 40
    reader.seek(10)
    assert [int(record.value) for record in reader.read_until(15)] == list(range(10, 15))


def test_a_record_carries_its_key_and_place(reader: LogReader) -> None:
    record = list(reader.read_until(4))[3]
    assert (record.partition, record.offset, record.key, record.value) == (0, 3, b"k3", b"3")


def test_the_ends_of_the_log_are_known(reader: LogReader) -> None:
    assert (reader.start_offset(), reader.end_offset()) == (0, COUNT)

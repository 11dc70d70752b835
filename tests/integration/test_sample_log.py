"""The index of written batches: also those that another worker wrote while it owned the partition are found."""

from collections.abc import Callable, Iterator

import pytest
from wattledger_audit.broker import Broker
from wattledger_core.batch import Batch
from wattledger_core.book import Entry
from wattledger_core.meter import Reach
from wattledger_core.revision import AllocationRevision, Origin
from wattledger_schemas import Codec
from wattledger_streams.mapping import to_wire_batch
from wattledger_streams.outbox import Outbox
from wattledger_streams.sample_log import SampleLog
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.topics import create_topics

from tests.pipeline_day import T0, S, emissions

pytestmark = pytest.mark.kafka
BATCHES = [e.item for e in emissions() if isinstance(e.item, Batch) and e.item.node == "alpha"][:12]


@pytest.fixture
def settings(broker: Broker, topic_prefix: str) -> Iterator[WorkerSettings]:
    """A deployment whose one partition of samples holds twelve batches of one node."""
    found = WorkerSettings(bootstrap=broker.bootstrap, topic_prefix=f"log-{topic_prefix}")
    create_topics(found.kafka(), found.topic_prefix, 1)
    outbox, codec = Outbox(found.kafka()), Codec()
    for batch in BATCHES:
        outbox.send(found.topic("gpu-samples"), 0, "alpha", codec.encode("sample_batch", to_wire_batch(batch)))
    outbox.settle_blocking()
    yield found


def reach(until_s: int) -> Reach:
    """Of a late revision about everything."""
    revision = AllocationRevision(
        "r", "a", Origin(0, 1), T0 + until_s * S, "c1", "j", 0, 0, "alpha", "GPU-alpha-0", "", 1, 1, "acme", "", "", "",
        "", "", "", "", False, 0, None, None, T0, None,
    )  # fmt: skip
    return Reach(Entry(0, revision), "alpha", ((T0, T0 + until_s * S),), T0 + until_s * S)


def index(settings: WorkerSettings, dead: Callable[[int], bool], acknowledged: list[int]) -> SampleLog:
    return SampleLog(settings, Codec(), 0, dead, lambda: acknowledged[0])


def found(log: SampleLog) -> list[int]:
    return [offset for offset, _ in log.touched(reach(3600))]


def test_what_another_worker_wrote_and_acknowledged_is_found(settings: WorkerSettings) -> None:
    acknowledged = [0]
    log = index(settings, lambda _: False, acknowledged)
    for offset in (0, 1, 2):
        log.note(BATCHES[offset], offset)
    assert found(log) == [0, 1, 2]
    # Another owned the partition meanwhile; then it came back, and the next record of here is 6.
    acknowledged[0] = 6
    assert found(log) == [0, 1, 2, 3, 4, 5]
    log.note(BATCHES[6], 6)
    log.note(BATCHES[9], 9)
    assert found(log) == list(range(10)), "7 and 8 were acknowledged before 9 was given to anybody"


def test_what_was_acknowledged_before_the_start_is_found_and_nothing_above(settings: WorkerSettings) -> None:
    assert found(index(settings, lambda _: False, [5])) == [0, 1, 2, 3, 4]
    assert found(index(settings, lambda _: False, [0])) == []


def test_a_dead_letter_is_never_corrected(settings: WorkerSettings) -> None:
    log = index(settings, lambda offset: offset == 3, [5])
    assert found(log) == [0, 1, 2, 4]
    log.note(BATCHES[5], 5)
    log.skip(6)
    log.note(BATCHES[7], 7)
    assert found(log) == [0, 1, 2, 4, 5, 7]


def test_a_record_that_comes_again_is_corrected_once(settings: WorkerSettings) -> None:
    log = index(settings, lambda _: False, [0])
    for offset in (0, 1, 0, 1, 2):
        log.note(BATCHES[offset], offset)
    assert found(log) == [0, 1, 2]

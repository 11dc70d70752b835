"""A batch that another worker wrote with more of the books read than this one has: it is left to what was written."""

from wattledger_core.meter import READY, PartitionMeter
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRecord

from tests.builders import S, allocation, energy_by_tenant, installed, lines_of, mark, partition_meter, steady

BATCH = steady(0, 300)
PRICE_TICK_US = 10**9 * S
FIRST = allocation("a", 0, None, offset=1, known_s=0)
LATE = allocation("a", 0, 100, offset=3, known_s=400)  # its end, told when source 0 had marked past the batch
OTHER = allocation("b", 150, None, offset=1, known_s=120, partition=1)  # in time, and behind it in the log
BOOK: list[AllocationRecord] = [*installed(), FIRST, mark(400, offset=2), LATE, OTHER, mark(400, offset=2, partition=1)]


def test_a_late_revision_read_again_before_the_book_is_settled_adds_nothing_to_a_batch_written_with_more() -> None:
    writer = partition_meter(*BOOK, sources=2)
    assert writer.verdict(BATCH.end_us, PRICE_TICK_US) == READY
    written = writer.meter_batch(BATCH, 0, 0)
    # 301 ticks of 100 W: a had it to 100 s in truth, b from 150 s on, and between them nobody
    assert energy_by_tenant(written.lines) == {"tenant-a": 10 * 10**9, "tenant-b": 15 * 10**9, "__idle__": 5 * 10**9}

    behind = PartitionMeter(2, Policy())
    for record in BOOK[: BOOK.index(LATE)]:
        behind.read(record)
    reach = behind.read(LATE)
    assert reach is not None
    assert behind.correct_batch(BATCH, 0, 0, reach) is None


def test_the_same_revision_corrects_what_was_settled_without_it() -> None:
    in_time = [*installed(), FIRST, mark(400, offset=2), OTHER, mark(400, offset=2, partition=1)]
    meter = partition_meter(*in_time, sources=2)
    first = meter.meter_batch(BATCH, 0, 0)
    reach = meter.read(LATE)
    assert reach is not None
    step = meter.correct_batch(BATCH, 0, 0, reach)
    assert step is not None
    whole = partition_meter(*BOOK, sources=2).meter_batch(BATCH, 0, 0)
    assert {line.line_id: line for line in lines_of([first, step])} == {line.line_id: line for line in whole.lines}

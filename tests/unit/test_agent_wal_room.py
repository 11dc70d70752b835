"""A full log: what is thinned, what is dropped, and the gap record that says so."""

from pathlib import Path

import pytest
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalFull, WalRecord

from tests.unit.agent_records import covered, gaps, number_of, numbers, read_all, records

CAP = 20_000


def halve(one: WalRecord) -> WalRecord | None:
    """A stand-in for thinning: sample records become 20 bytes, once."""
    if one.topic != "gpu-samples" or len(one.value) <= 20:
        return None
    return WalRecord(one.topic, one.key, one.value[:20], one.partition, one.at_us)


def full_log(tmp_path: Path, topic: str = "job-events") -> Wal:
    """A log just below its cap: records `[0, 90)` of about 215 bytes."""
    wal = Wal(tmp_path / "a.wal", CAP, thin=halve)
    wal.append(records(0, 90, topic, size_bytes=190))
    return wal


def test_gap_records_name_exactly_the_records_that_are_missing(tmp_path: Path) -> None:
    wal = full_log(tmp_path)
    wal.append(records(90, 120, "gpu-samples", size_bytes=10))
    for first in range(120, 400, 20):
        wal.append(records(first, first + 20, size_bytes=190))
    after = read_all(wal)
    lost = sorted(set(range(400)) - set(numbers(after)))
    found = gaps(after)
    assert lost and sum(int(str(gap["count"])) for gap in found) == len(lost)
    assert not covered([gap for gap in found if gap["topic"] == "job-events"]) & {
        kept.seq for kept in after if kept.record.topic == "job-events"
    }
    assert min(int(str(gap["from_us"])) for gap in found) == lost[0] * 1_000_000
    assert max(int(str(gap["to_us"])) for gap in found) == lost[-1] * 1_000_000
    assert wal.kept_bytes <= CAP + 200 * len(found)


def test_the_log_of_a_gap_survives_a_restart(tmp_path: Path) -> None:
    wal = full_log(tmp_path)
    wal.append(records(90, 110, size_bytes=190))
    found = gaps(read_all(wal))
    wal.close()
    assert found and gaps(read_all(Wal(tmp_path / "a.wal"))) == found


def test_blocking_refuses_the_group_and_keeps_all(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal", CAP, "block")
    wal.append(records(0, 90, size_bytes=190))
    with pytest.raises(WalFull, match="over its cap of 20000"):
        wal.append(records(90, 110, size_bytes=190))
    assert numbers(read_all(wal)) == list(range(90))
    wal.settle([kept.seq for kept in read_all(wal)[:30]])
    wal.append(records(90, 110, size_bytes=190))
    assert numbers(read_all(wal)) == list(range(30, 110))


def test_an_empty_log_takes_a_group_larger_than_its_cap(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal", 100, "block")
    wal.append(records(0, 10))
    assert wal.count() == 10


def test_samples_are_thinned_before_anything_is_dropped(tmp_path: Path) -> None:
    wal = full_log(tmp_path, "gpu-samples")
    wal.append(records(90, 110, size_bytes=190))
    after = read_all(wal)
    assert numbers(after) == list(range(110)) and not gaps(after)
    thinned = [number_of(kept.record) for kept in after if len(kept.record.value) == 20]
    assert thinned == list(range(len(thinned))) and thinned


def test_what_was_ever_handed_to_the_producer_is_not_thinned_over_a_restart(tmp_path: Path) -> None:
    wal = full_log(tmp_path, "gpu-samples")
    sent_through = wal.pending(0, 40)[-1].seq
    wal.settle([], sent_through)
    wal.close()
    again = Wal(tmp_path / "a.wal", CAP, thin=halve)
    again.append(records(90, 110, size_bytes=190))
    assert not [kept.seq for kept in read_all(again) if len(kept.record.value) == 20 and kept.seq <= sent_through]
    assert [kept.seq for kept in read_all(again) if len(kept.record.value) == 20]


def test_what_the_producer_has_in_hand_is_dropped_last(tmp_path: Path) -> None:
    wal = full_log(tmp_path)
    wal.in_hand = wal.pending(0, 40)[-1].seq
    wal.append(records(90, 110, size_bytes=190))
    after = numbers(read_all(wal))
    assert after[:40] == list(range(40)) and after[40] > 40

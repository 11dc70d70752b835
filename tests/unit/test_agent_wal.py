"""The write-ahead log: durable groups, deleted on delivery only, last ticks, a disk that refuses."""

import sqlite3
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import BROADCAST, WalRecord, WalUnavailable
from wattledger_agent.wal_status import read_status

from tests.unit.agent_records import gaps, log_with, numbers, read_all, record, records


def test_records_come_back_as_they_were_in_order(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    first = [WalRecord("price-book", "tick", b"\0\xff", BROADCAST, -5), WalRecord("job-events", "é/1", b"", 3, 9)]
    wal.append(first)
    wal.append(records(0, 3))
    assert [kept.record for kept in read_all(wal)] == first + records(0, 3)


def test_what_was_appended_is_there_after_closing_and_opening(tmp_path: Path) -> None:
    log_with(tmp_path / "a.wal", 120).close()
    wal = Wal(tmp_path / "a.wal")
    assert numbers(read_all(wal)) == list(range(120))
    assert wal.count() == 120


def test_only_what_was_delivered_is_deleted(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 1200)
    kept = read_all(wal)
    wal.settle([one.seq for one in kept if one.seq % 3])
    assert [one.seq for one in read_all(wal)] == [one.seq for one in kept if one.seq % 3 == 0]
    wal.settle([one.seq for one in kept])
    assert (wal.count(), wal.kept_bytes) == (0, 0)


def test_a_number_is_never_used_twice(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 10)
    used = {kept.seq for kept in read_all(wal)}
    wal.settle(sorted(used))
    wal.close()
    again = Wal(tmp_path / "a.wal")
    again.append(records(0, 3))
    (tmp_path / "b").mkdir()
    assert not used & {kept.seq for kept in read_all(again)}
    again.close()
    (tmp_path / "a.wal").unlink()
    third = log_with(tmp_path / "a.wal", 10)
    assert not used & {kept.seq for kept in read_all(third)}


def test_the_last_tick_of_a_node_survives_a_restart(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([record(1)], {"n1": b"tick 1", "n2": b"other"})
    wal.append([record(2)], {"n1": b"tick 2"})
    wal.settle([kept.seq for kept in read_all(wal)])
    wal.close()
    again = Wal(tmp_path / "a.wal")
    assert (again.last_tick("n1"), again.last_tick("n2"), again.last_tick("n3")) == (b"tick 2", b"other", None)


def test_a_second_agent_on_the_same_log_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 3)
    with pytest.raises(WalUnavailable, match=r"a\.wal is in use"):
        Wal(tmp_path / "a.wal")
    wal.append(records(3, 4))
    assert numbers(read_all(wal)) == [0, 1, 2, 3]


def limit_pages(wal: Wal) -> None:
    """The file may grow no more: SQLite then reports SQLITE_FULL, as for a full disk."""
    [pages] = wal._store.db.execute("PRAGMA page_count").fetchone()
    wal._store.db.execute(f"PRAGMA max_page_count={pages + 8}")


def test_on_a_full_disk_a_group_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal", when_full="block")
    wal.append(records(0, 100), {"n1": b"old"})
    limit_pages(wal)
    with pytest.raises(WalUnavailable, match="full"):
        wal.append(records(100, 200, size_bytes=2000), {"n1": b"new"})
    assert (numbers(read_all(wal)), wal.count(), wal.last_tick("n1")) == (list(range(100)), 100, b"old")
    wal._store.db.execute("PRAGMA max_page_count=1000000")
    wal.append(records(100, 200, size_bytes=2000))
    assert numbers(read_all(wal)) == list(range(200))


def test_on_a_full_disk_the_oldest_go_and_a_gap_record_says_which(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 200, size_bytes=2000)
    before = {kept.seq: kept for kept in read_all(wal)}
    limit_pages(wal)
    wal.append(records(200, 240, size_bytes=2000))
    after = read_all(wal)
    [gap] = gaps(after)
    lost = sorted(set(before) - {kept.seq for kept in after})
    assert numbers(after)[-40:] == list(range(200, 240))
    assert (gap["from_seq"], gap["to_seq"], gap["count"], gap["reason"]) == (lost[0], lost[-1], len(lost), "disk_full")


def test_on_a_disk_that_became_read_only_nothing_changes_and_it_recovers(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 5)
    wal._store.db.execute("PRAGMA query_only=ON")
    with pytest.raises(WalUnavailable, match="readonly"):
        wal.append(records(5, 9))
    with pytest.raises(WalUnavailable, match="readonly"):
        wal.settle([1, 2])
    wal._store.db.execute("PRAGMA query_only=OFF")
    wal.append(records(5, 9))
    assert numbers(read_all(wal)) == list(range(9))


def test_status_reads_beside_the_agent_and_changes_nothing(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 30)
    wal.append(records(0, 2, "gpu-samples"))
    [events, samples] = sorted(read_status(tmp_path / "a.wal").topics, key=lambda topic: topic.count, reverse=True)
    assert (events.topic, events.count, events.last_us) == ("job-events", 30, 29_000_000)
    assert (samples.topic, samples.count, samples.size_bytes) == ("gpu-samples", 2, wal.kept_bytes - events.size_bytes)
    (tmp_path / "no.wal").write_text("this is a text and no database, and long enough to be looked at " * 20)
    with pytest.raises(WalUnavailable, match=r"no\.wal can't be read as a log"):
        read_status(tmp_path / "no.wal")
    assert (tmp_path / "no.wal").exists()


def test_a_record_set_aside_stays_in_the_file_and_leaves_a_gap_record(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 3)
    second = read_all(wal)[1]
    wal.set_aside(second.seq, "refused_by_broker")
    after = read_all(wal)
    assert numbers(after) == [0, 2]
    assert [(g["from_seq"], g["from_us"], g["reason"]) for g in gaps(after)] == [
        (second.seq, 1_000_000, "refused_by_broker")
    ]
    with sqlite3.connect(tmp_path / "a.wal") as db:
        assert db.execute("SELECT value FROM set_aside").fetchall() == [(second.record.value,)]


def test_a_damaged_name_in_the_schema_puts_the_file_aside_and_its_records_are_kept_or_told(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = Wal(path)
    wal.append(records(0, 5))
    wal.close()
    content = bytearray(path.read_bytes())
    for name in (b"at_us INTEGER", b"topic TEXT"):
        content[content.index(name)] = 0xFF
    path.write_bytes(bytes(content))
    again = Wal(path)
    again.append(records(5, 6))
    kept = [kept.record.topic for kept in read_all(again)]
    assert again.files_put_aside == 1 and kept
    assert len([t for t in kept if t != "dead-letters"]) == 6 or "dead-letters" in kept
    again.close()

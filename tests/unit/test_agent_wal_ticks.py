"""The journal of ticks and named values: durable at once, forgotten with the batch that holds them, salvaged."""

import sqlite3
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal
from wattledger_agent.wal_commands import export_answer, status_answer, verify_answer
from wattledger_agent.wal_record import WalFull, WalUnavailable

from tests.unit.agent_records import gaps, log_with, numbers, read_all, record, records


def note(wal: Wal, first: int, last: int) -> list[int]:
    """Ticks `[first, last)`; their numbers."""
    return [wal.note_tick(b"tick %d" % number, number * 1_000_000) for number in range(first, last)]


def values(wal: Wal) -> list[bytes]:
    return [value for _, value in wal.open_ticks()]


def zero_from(path: Path, first_byte: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:first_byte] + bytes(len(content) - first_byte))


def test_ticks_come_back_in_order_with_their_numbers_over_a_restart(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    given = note(wal, 0, 5)
    wal.close()
    again = Wal(tmp_path / "a.wal")
    assert again.open_ticks() == [(number, b"tick %d" % place) for place, number in enumerate(given)]
    assert given == sorted(set(given)) and note(again, 5, 6)[0] > given[-1]
    assert again.count() == 0


def test_a_batch_takes_its_ticks_out_of_the_journal_in_one_step_with_what_is_remembered(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    given = note(wal, 0, 6)
    wal.append([record(1)], {"n1": b"last"}, ticks_before=given[3] + 1, state={"sampler": b"\0s"})
    assert values(wal) == [b"tick 4", b"tick 5"]
    assert (wal.last_tick("n1"), wal.state("sampler"), wal.state("other")) == (b"last", b"\0s", None)
    wal.append([], ticks_before=given[-1] + 1)
    assert (values(wal), wal.kept_bytes) == ([], record(1).size_bytes)


def test_a_batch_that_is_refused_leaves_its_ticks_where_they_are(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 3)
    given = note(wal, 0, 3)
    wal._store.db.execute("PRAGMA query_only=ON")
    with pytest.raises(WalUnavailable):
        wal.append([record(4)], ticks_before=given[-1] + 1, state={"sampler": b"new"})
    wal._store.db.execute("PRAGMA query_only=OFF")
    assert (len(values(wal)), wal.state("sampler"), numbers(read_all(wal))) == (3, None, [0, 1, 2])


def test_the_journal_counts_in_the_cap(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal", 1000, "block")
    wal.append(records(0, 10))
    with pytest.raises(WalFull, match="over its cap of 1000"):
        for number in range(100):
            wal.note_tick(bytes(100), number)
    noted = wal.open_ticks()
    assert 3 <= len(noted) <= 6
    assert wal.kept_bytes == 10 * records(0, 1)[0].size_bytes + 100 * len(noted)
    wal.settle([kept.seq for kept in read_all(wal)])
    wal.note_tick(b"again", 1)


def test_under_drop_oldest_a_tick_makes_room_and_a_gap_record_says_so(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal", 1000)
    wal.append(records(0, 15))
    for number in range(3):
        wal.note_tick(bytes(200), number)
    kept = read_all(wal)
    assert len(wal.open_ticks()) == 3
    assert sum(int(str(gap["count"])) for gap in gaps(kept)) == 15 - len(numbers(kept)) > 0


def test_a_batch_may_take_the_room_of_its_ticks_in_a_full_log(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal", 1000, "block")
    wal.append(records(0, 2))
    given = [wal.note_tick(bytes(200), number) for number in range(4)]
    wal.append([record(5, size_bytes=600)], ticks_before=given[-1] + 1)
    assert (numbers(read_all(wal)), wal.open_ticks()) == ([0, 1, 5], [])


def test_damaged_ticks_are_left_out_and_a_gap_record_counts_them_once(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    given = note(wal, 0, 8)
    wal._store.db.execute(f"UPDATE ticks SET value = value || 'x' WHERE number IN ({given[2]}, {given[3]}, {given[6]})")
    assert values(wal) == [b"tick %d" % number for number in (0, 1, 4, 5, 7)]
    assert (len(values(wal)), wal.ticks_damaged) == (5, 3)
    found = [(gap["topic"], gap["from_seq"], gap["to_seq"], gap["count"], gap["reason"]) for gap in gaps(read_all(wal))]
    assert found == [
        ("ticks", given[2], given[3], 2, "damaged"),
        ("ticks", given[6], given[6], 1, "damaged"),
    ]


def test_a_damaged_named_value_is_unknown_and_not_wrong(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([], {"n1": b"last"}, state={"sampler": b"s"})
    wal._store.db.execute("UPDATE state SET value = 'lost' WHERE name = 'last_tick/n1'")
    assert (wal.last_tick("n1"), wal.last_tick("n1"), wal.state("sampler")) == (None, None, b"s")
    assert [(gap["topic"], gap["count"], gap["reason"]) for gap in gaps(read_all(wal))] == [("state", 1, "damaged")]


def test_journal_and_named_values_survive_a_file_that_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = Wal(path)
    note(wal, 0, 4)
    given = note(wal, 4, 9)
    wal.append([], {"n1": b"last"}, ticks_before=given[0], state={"sampler": b"s"})
    wal.append(records(0, 300, size_bytes=1500))
    wal.close()
    zero_from(path, 4096 * 60)
    again = Wal(path)
    assert again.files_put_aside == 1
    assert again.open_ticks() == [(number, b"tick %d" % place) for place, number in enumerate(given, start=4)]
    assert (again.last_tick("n1"), again.state("sampler")) == (b"last", b"s")
    assert note(again, 9, 10)[0] > given[-1]


def test_ticks_lost_with_a_page_leave_a_gap_record_with_exactly_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = Wal(path)
    given = [wal.note_tick(b"%d;" % number + bytes(900), number) for number in range(40)]
    wal.append(records(0, 5))
    wal.close()
    content = path.read_bytes()
    place = content.index(b"17;" + bytes(100)) // 4096 * 4096
    path.write_bytes(content[:place] + bytes(4096) + content[place + 4096 :])
    again = Wal(path)
    kept = {number for number, _ in again.open_ticks()}
    lost = set(given) - kept
    named = [gap for gap in gaps(read_all(again)) if gap["topic"] == "ticks"]
    assert given[17] in lost and len(lost) < 10
    assert {n for gap in named for n in range(int(str(gap["from_seq"])), int(str(gap["to_seq"])) + 1)} == lost
    assert sum(int(str(gap["count"])) for gap in named) == len(lost)
    assert numbers(read_all(again)) == list(range(5))


def test_numbers_of_ticks_are_not_used_again_after_two_corrupt_files(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    used: list[int] = []
    for round_number in range(3):
        wal = Wal(path)
        used += note(wal, round_number * 10, round_number * 10 + 3)
        wal.append(records(0, 100, size_bytes=1500))
        wal.close()
        zero_from(path, path.stat().st_size - 4096 * 8)
    assert len(set(used)) == 9
    assert [number for number, _ in Wal(path).open_ticks()] == used


VERSION_1 = """
CREATE TABLE records(
    seq INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL, partition INTEGER NOT NULL,
    at_us INTEGER NOT NULL, size INTEGER NOT NULL, crc INTEGER NOT NULL, value BLOB NOT NULL
);
CREATE TABLE set_aside(
    seq INTEGER PRIMARY KEY, topic, key, partition, at_us, size, crc, value, reason TEXT NOT NULL
);
CREATE TABLE last_ticks(node TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE progress(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
PRAGMA user_version=1;
"""


def as_version_1(path: Path) -> None:
    """Make a closed log what the version before wrote: no keys, no journal, last ticks without checksum."""
    old = sqlite3.connect(path.with_suffix(".old"))
    old.executescript("PRAGMA journal_mode=WAL; PRAGMA auto_vacuum=INCREMENTAL;" + VERSION_1)
    with sqlite3.connect(path) as db:
        columns = "seq, topic, key, partition, at_us, size, crc, value"
        old.executemany(
            f"INSERT INTO records({columns}) VALUES (?,?,?,?,?,?,?,?)", db.execute(f"SELECT {columns} FROM records")
        )
        old.execute("INSERT INTO last_ticks VALUES ('n1', x'0102')")
        old.executemany("INSERT INTO progress VALUES (?,?)", db.execute("SELECT * FROM progress"))
    old.commit()
    old.close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.with_suffix(".old").rename(path)


def test_a_log_of_the_version_before_is_taken_over_with_all_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    log_with(path, 20).close()
    as_version_1(path)
    wal = Wal(path)
    assert (numbers(read_all(wal)), wal.last_tick("n1"), wal.files_put_aside) == (list(range(20)), b"\1\2", 0)
    wal.append(records(20, 22))
    wal.set_aside(3, "refused_by_broker")
    wal.note_tick(b"t", 1)
    assert len({kept.seq for kept in read_all(wal)}) == 22


def test_a_corrupt_log_of_the_version_before_is_salvaged(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    log_with(path, 300, size_bytes=1500).close()
    as_version_1(path)
    zero_from(path, path.stat().st_size - 4096 * 8)
    wal = Wal(path)
    assert (wal.files_put_aside, wal.last_tick("n1")) == (1, b"\1\2")
    kept = read_all(wal)
    lost = set(range(300)) - set(numbers(kept))
    assert 0 < len(lost) == sum(int(str(gap["count"])) for gap in gaps(kept)) < 60


def test_a_log_of_the_version_before_can_be_looked_at_without_taking_it_over(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    log_with(path, 20).close()
    as_version_1(path)
    before = path.read_bytes()
    assert status_answer(path).text.startswith("20 records")
    assert (
        verify_answer(path).text
        == "20 records (0 sample batches, 0 gap records), 0 ticks in the journal: nothing is wrong"
    )
    assert export_answer(path, tmp_path / "out").text.startswith("20 records written")
    assert path.read_bytes() == before

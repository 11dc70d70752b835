"""The agent's log after damage to its file: it starts, gives what is sound, and says what is missing."""

import random
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal

from tests.unit.agent_records import covered, gaps, log_with, number_of, numbers, read_all, record, records

pytestmark = pytest.mark.quick
COUNT = 300
FLIPS = 60


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two files with the same 300 records: all in the main file, and most in SQLite's journal (as after a kill)."""
    folder = tmp_path_factory.mktemp("logs")
    for name in ("closed", "killed"):
        (folder / name).mkdir()
    log_with(folder / "closed" / "a.wal", COUNT, size_bytes=1500).close()
    wal = log_with(folder / "b.wal", COUNT, size_bytes=1500)
    for suffix in ("", "-wal", ".lock"):
        shutil.copyfile(f"{folder / 'b.wal'}{suffix}", f"{folder / 'killed' / 'a.wal'}{suffix}")
    wal.close()
    assert (folder / "killed" / "a.wal-wal").stat().st_size > 100_000
    return {name: folder / name for name in ("closed", "killed")}


def damaged_copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target)
    return target / "a.wal"


def check(path: Path, message: str) -> set[int]:
    """Open, and hold what is there against what is said; the numbers that are missing."""
    wal = Wal(path)
    kept = read_all(wal)
    notes = gaps(read_all(wal))
    kept = read_all(wal)
    for one in kept:
        if one.record.topic == "job-events":
            assert one.record == record(number_of(one.record), size_bytes=1500), message
    missing = set(range(COUNT)) - set(numbers(kept))
    is_count_unknown = any("unknown" in str(note["reason"]) for note in notes)
    # records were appended in order to a new log: number n has seq n + 1
    assert is_count_unknown or {number + 1 for number in missing} <= covered(notes), message
    wal.append(records(COUNT, COUNT + 5, size_bytes=1500))
    again = read_all(wal)
    assert numbers(again)[-5:] == list(range(COUNT, COUNT + 5)), message
    assert len({one.seq for one in again}) == len(again), message
    wal.close()
    return missing


@pytest.mark.fault(2, f"a bit flipped in the log, at {FLIPS} places", "it starts; what is lost is in a gap record")
def test_a_flipped_bit_anywhere_loses_at_most_what_a_gap_record_names(
    logs: dict[str, Path], tmp_path: Path, seen: Callable[[str], None]
) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    lost = []
    for flip in range(FLIPS):
        path = damaged_copy(logs["closed"], tmp_path / str(flip))
        content = bytearray(path.read_bytes())
        place = rng.randrange(len(content))
        content[place] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        lost.append(len(check(path, f"seed {seed}, flip {flip} at {place}")))
    seen(
        f"seed {seed}: lost {sum(lost)} of {FLIPS * COUNT} records, at most {max(lost)} by a flip, told by gap records"
    )
    assert sorted(lost)[FLIPS // 2] <= 10, f"seed {seed}: a flip usually costs few records, not {sorted(lost)}"


@pytest.mark.fault(2, "the log's file cut off", "what is left is read; a gap record tells that something is missing")
@pytest.mark.parametrize("keep_share", [0.0, 0.001, 0.3, 0.6, 0.97])
def test_a_truncated_file_gives_what_is_left_of_it(
    logs: dict[str, Path], tmp_path: Path, keep_share: float, seen: Callable[[str], None]
) -> None:
    path = damaged_copy(logs["closed"], tmp_path / "cut")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep_share)])
    missing = check(path, f"kept {keep_share}")
    seen(f"cut to {keep_share:.1%} of its bytes: {len(missing)} of {COUNT} records missing, told by a gap record")
    assert missing


def test_a_file_that_is_no_database_is_put_aside_whole_and_the_agent_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.wal").write_bytes(b"something else entirely " * 200)
    wal = Wal(tmp_path / "a.wal")
    wal.append([record(1)])
    assert wal.files_put_aside == 1
    assert (tmp_path / "a.wal.corrupt-1").read_bytes() == b"something else entirely " * 200
    [gap] = gaps(read_all(wal))
    assert (gap["count"], gap["reason"], gap["from_us"]) == (0, "corrupt_count_unknown", None)


def test_a_record_with_a_wrong_checksum_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 20)
    wal._store.db.execute("UPDATE records SET value = value || 'x' WHERE seq = 8")
    assert numbers(read_all(wal)) == [number for number in range(20) if number != 7]
    [gap] = gaps(read_all(wal))
    assert (wal.records_damaged, wal.files_put_aside) == (1, 0)
    assert (gap["from_seq"], gap["count"], gap["reason"], gap["from_us"]) == (8, 1, "damaged", None)


@pytest.mark.fault(2, "a bit flipped in SQLite's journal, 12 times", "noticed; the damaged file is kept aside")
def test_a_flip_in_the_journal_is_noticed_though_sqlite_says_nothing(
    logs: dict[str, Path], tmp_path: Path, seen: Callable[[str], None]
) -> None:
    rng, lost = random.Random(5), 0
    for flip in range(12):
        path = damaged_copy(logs["killed"], tmp_path / str(flip))
        journal = Path(f"{path}-wal")
        content = bytearray(journal.read_bytes())
        content[rng.randrange(len(content) * 3 // 4)] ^= 1
        journal.write_bytes(content)
        lost += len(check(path, f"flip {flip}"))
        assert (path.parent / "a.wal.corrupt-1-wal").read_bytes() == bytes(content)
    seen(f"12 of 12 noticed and put aside; {lost} of {12 * COUNT} records lost, told by gap records")


@pytest.mark.fault(2, "an unfinished last write in the journal", "no damage: everything appended is there")
def test_a_torn_last_write_of_the_journal_is_no_damage(
    logs: dict[str, Path], tmp_path: Path, seen: Callable[[str], None]
) -> None:
    path = damaged_copy(logs["killed"], tmp_path / "torn")
    journal = Path(f"{path}-wal")
    journal.write_bytes(journal.read_bytes() + bytes(1000))
    wal = Wal(path)
    assert (wal.files_put_aside, numbers(read_all(wal))) == (0, list(range(COUNT)))
    seen(f"{COUNT} of {COUNT} records, nothing put aside")


@pytest.mark.fault(2, "pages zeroed under a running agent", "it goes on with a new file; a gap record says so")
def test_damage_found_while_running_does_not_stop_the_agent(tmp_path: Path, seen: Callable[[str], None]) -> None:
    path = tmp_path / "a.wal"
    log_with(path, COUNT, size_bytes=1500).close()
    wal = Wal(path)
    wal._store.db.execute("PRAGMA cache_size=2")
    content = bytearray(path.read_bytes())
    content[4096 * 4 :] = bytes(len(content) - 4096 * 4)
    path.write_bytes(content)
    read_all(wal)
    wal.append([record(COUNT, size_bytes=1500)])
    assert numbers(read_all(wal))[-1] == COUNT
    assert wal.files_put_aside == 1 and gaps(read_all(wal))
    seen(f"put aside and gone on; gap records: {[gap['reason'] for gap in gaps(read_all(wal))]}")


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM sqlite_sequence", "UPDATE sqlite_sequence SET seq = 7", "UPDATE sqlite_sequence SET seq = 'x'"],
)
def test_damaged_numbering_is_mended_at_the_start(tmp_path: Path, damage: str) -> None:
    wal = log_with(tmp_path / "a.wal", 20)
    wal._store.db.execute(damage)
    wal.close()
    again = Wal(tmp_path / "a.wal")
    again.append(records(20, 25))
    assert numbers(read_all(again)) == list(range(25))
    assert len({kept.seq for kept in read_all(again)}) == 25


def test_a_name_that_is_no_text_any_more_does_not_stop_the_log(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 5)
    wal._store.db.execute("UPDATE records SET topic = CAST(x'6aff62' AS TEXT) WHERE seq = 3")
    assert numbers(read_all(wal)) == [0, 1, 3, 4]
    assert [(gap["from_seq"], gap["reason"]) for gap in gaps(read_all(wal))] == [(3, "damaged")]

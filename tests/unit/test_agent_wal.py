"""The write-ahead log: nothing lost, nothing deleted too early, damage put aside, gaps said."""

import sqlite3
import threading
from pathlib import Path

import pytest
from wattledger_agent.gap_record import gap_records
from wattledger_agent.thinning import thin_samples
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalFull, WalRecord
from wattledger_core.curve import build_curves
from wattledger_core.policy import Policy
from wattledger_schemas import Codec
from wattledger_streams.mapping import from_wire_batch, to_wire_batch

from tests.builders import batch


def record(number: int, size: int = 100) -> WalRecord:
    return WalRecord("job-events", f"k{number}", bytes(size), at_us=number)


def keys(wal: Wal) -> list[str]:
    return [kept.record.key for kept in wal.pending(0, 10_000)]


def test_records_come_back_in_order_after_reopening_and_go_only_when_delivered(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([record(i) for i in range(5)], {"n1": b"tick"})
    wal.close()
    again = Wal(tmp_path / "wal")
    assert keys(again) == ["k0", "k1", "k2", "k3", "k4"]
    assert again.last_tick("n1") == b"tick"
    again.delivered([kept.seq for kept in again.pending(0, 2)])
    assert keys(again) == ["k2", "k3", "k4"]
    again.append([record(5)])
    assert again.pending(0, 10)[-1].seq == 6, "numbers are never used twice"


def test_the_cap_drops_the_oldest_and_says_exactly_what_is_missing(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal", cap_bytes=1000)
    for i in range(20):
        wal.append([record(i)])
    left = keys(wal)
    lost = [number for note in wal.take_gaps() for number in range(note.from_us, note.to_us + 1)]
    assert [f"k{i}" for i in lost] + left == [f"k{i}" for i in range(20)]
    assert wal.kept_bytes <= 1000


def test_gap_notes_become_gap_records(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal", cap_bytes=300)
    for i in range(4):
        wal.append([record(i)])
    notes = wal.take_gaps()
    found = [Codec().decode(r.value).record for r in gap_records(notes, "n1", "agent-1", Codec())]
    assert sum(gap["count"] for gap in found) == 4 - len(keys(wal))
    assert {(gap["node"], gap["topic"], gap["reason"]) for gap in found} == {("n1", "job-events", "cap")}
    assert wal.take_gaps() == []


def test_a_blocking_log_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal", cap_bytes=250, when_full="block")
    wal.append([record(0), record(1)])
    with pytest.raises(WalFull):
        wal.append([record(2)])
    assert keys(wal) == ["k0", "k1"]


def test_a_sample_batch_is_thinned_and_keeps_its_energy(tmp_path: Path) -> None:
    ticks = list(range(31))
    given = batch(ticks, [100_000] * 31, [99_000_000 * i for i in ticks])
    raw = Codec().encode("sample_batch", to_wire_batch(given))
    whole = WalRecord("gpu-samples", "n1", raw)
    wal = Wal(tmp_path / "wal", cap_bytes=whole.size_bytes + 200, thin=thin_samples)
    wal.append([whole])
    wal.append([record(1, 400)])
    first = wal.pending(0, 10)[0].record
    thin = from_wire_batch(Codec().decode(first.value).record)
    assert thin.ticks_us.tolist() == [given.start_us, given.end_us]
    assert build_curves(thin, Policy()).whole()[0].energy_uj == build_curves(given, Policy()).whole()[0].energy_uj
    assert wal.take_gaps() == []


def test_a_flipped_byte_puts_one_record_aside(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    wal.append([record(i) for i in range(3)])
    wal.close()
    db = sqlite3.connect(tmp_path / "wal")
    db.execute("UPDATE records SET value = CAST(x'01' || substr(value, 2) AS BLOB) WHERE key = 'k1'")
    db.commit()
    db.close()
    again = Wal(tmp_path / "wal")
    assert keys(again) == ["k0", "k2"]
    assert again.records_damaged == 1


@pytest.mark.parametrize("damage", ["garbage", "truncated"])
def test_a_corrupt_file_is_put_aside_and_the_agent_goes_on(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "wal"
    if damage == "garbage":
        path.write_bytes(b"not a database" * 1000)
    else:
        wal = Wal(path)
        wal.append([record(i, 5000) for i in range(50)])
        wal.close()
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    again = Wal(path)
    again.append([record(99)])
    assert keys(again) == ["k99"]
    assert again.files_put_aside == 1
    assert list(tmp_path.glob("wal.corrupt-*"))


def test_two_threads_append_and_delete_at_once(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "wal")
    errors: list[BaseException] = []

    def delete() -> None:
        done = 0
        try:
            while done < 200:
                found = [kept.seq for kept in wal.pending(0, 50)]
                wal.delivered(found)
                done += len(found)
        except sqlite3.Error as error:
            errors.append(error)

    deleter = threading.Thread(target=delete)
    deleter.start()
    for i in range(200):
        wal.append([record(i)])
    deleter.join(30)
    assert errors == []
    assert wal.count() == 0
    assert wal.kept_bytes == 0

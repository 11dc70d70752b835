"""`wal status|export|verify`: what they say is what the file holds, with the right exit code; they change nothing."""

import json
import sqlite3
from pathlib import Path

import pytest
from wattledger_agent.trace import read_trace
from wattledger_agent.wal import Wal
from wattledger_agent.wal_cipher import WalCipher, key_id_of
from wattledger_agent.wal_commands import FOUND_WRONG, OK, REFUSED, export_answer, status_answer, verify_answer
from wattledger_agent.wal_gap import GapNote, gap_encoder
from wattledger_agent.wal_record import BROADCAST, WalRecord
from wattledger_agent.wal_schema import how_to_read

from tests.unit.agent_bare_batches import S, batch_record
from tests.unit.agent_records import log_with, numbers, read_all, record, records

KEY = bytes(range(32))


def sound_log(path: Path, cipher: WalCipher | None = None) -> Wal:
    """Events, tiling batches, a tick for all partitions, and an open journal."""
    wal = Wal(path, cipher=cipher)
    wal.append([*records(0, 3), *(batch_record(n, n * 30 * S, (n + 1) * 30 * S) for n in range(4))])
    wal.append([WalRecord("job-events", "tick", b"T", BROADCAST, 120 * S)], {"n1": b"120"}, state={"sampler": b"s"})
    wal.note_tick(b"t", 121 * S)
    wal.note_tick(b"u", 122 * S)
    return wal


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


def test_status_says_what_is_there_as_text_and_as_json(tmp_path: Path) -> None:
    wal = sound_log(tmp_path / "a.wal")
    wal.settle([], 5)
    before = files(tmp_path)
    text = status_answer(tmp_path / "a.wal").text
    assert "8 records" in text and "  gpu-samples: 4 records" in text and "1970-01-01T00:02:00Z" in text
    assert "2 ticks that no batch holds yet, 2 bytes" in text and "not encrypted" in text
    assert "handed to the producer up to 5; generation 0" in text
    said = json.loads(status_answer(tmp_path / "a.wal", as_json=True).text)
    assert (said["records"], said["bytes"] + said["journal"]["size_bytes"]) == (8, wal.kept_bytes)
    assert (said["first_seq"], said["last_seq"], said["sent_through"], said["generation"]) == (1, 8, 5, 0)
    assert (said["journal"]["count"], said["journal"]["last_us"]) == (2, 122 * S)
    assert (said["is_encrypted"], said["rows_by_key"]) == (False, {"": 12})
    assert files(tmp_path) == before


def test_status_names_keys_what_was_set_aside_and_files_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    log_with(path, 3).close()
    path.write_bytes(b"no log any more " * 500)
    wal = Wal(path, cipher=WalCipher([KEY]))
    wal.append(records(0, 3))
    wal.set_aside(read_all(wal)[1].seq, "refused_by_broker")
    said = json.loads(status_answer(path, as_json=True).text)
    assert (said["is_encrypted"], said["set_aside"], said["generation"]) == (True, {"refused_by_broker": 1}, 1)
    assert said["rows_by_key"] == {"": 1, key_id_of(KEY): 3}
    assert said["files_put_aside"] == [str(tmp_path / "a.wal.corrupt-1")]
    text = status_answer(path).text
    assert "1 records set aside (refused_by_broker)" in text and "a.wal.corrupt-1" in text
    assert f"3 rows encrypted with key {key_id_of(KEY)}" in text and "1 rows not encrypted" in text


def test_what_is_no_log_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "no.wal").write_text("this is a text and no database, and long enough to be looked at " * 20)
    for found in (status_answer(tmp_path / "no.wal"), verify_answer(tmp_path / "no.wal")):
        assert found.exit_code == REFUSED
        assert "no.wal can't be read as a log" in found.text and "wal export" in found.text
    found = export_answer(tmp_path / "no.wal", tmp_path / "out")
    assert found.exit_code == REFUSED and "nothing to export" in found.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["no.wal"]


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_an_export_holds_every_record_in_the_logs_order_and_can_be_played(tmp_path: Path, is_encrypted: bool) -> None:
    (tmp_path / "key").write_text(KEY.hex())
    wal = sound_log(tmp_path / "a.wal", WalCipher([KEY]) if is_encrypted else None)
    wal.append([record(1)])
    before = files(tmp_path)
    found = export_answer(tmp_path / "a.wal", tmp_path / "out.trace", tmp_path / "key" if is_encrypted else None)
    assert found.exit_code == OK
    assert "9 records written" in found.text and "1 records are emitted later" in found.text and "2 ticks" in found.text
    items = list(read_trace(tmp_path / "out.trace"))
    kept = [one.record for one in read_all(wal)]
    assert [(one.topic, one.key, one.value) for one in items] == [(one.topic, one.key, one.value) for one in kept]
    assert [one.broadcast for one in items] == [False] * 7 + [True, False]
    assert [one.at_us for one in items][-3:] == [120 * S, 120 * S, 120 * S]
    assert {name: content for name, content in files(tmp_path).items() if name != "out.trace"} == before


def test_an_export_without_the_key_is_refused_and_leaves_no_half_file(tmp_path: Path) -> None:
    sound_log(tmp_path / "a.wal", WalCipher([KEY]))
    found = export_answer(tmp_path / "a.wal", tmp_path / "out.trace")
    assert found.exit_code == REFUSED and f"encrypted with key {key_id_of(KEY)}: give the key file" in found.text
    assert not list(tmp_path.glob("out*"))


def test_an_export_overwrites_nothing(tmp_path: Path) -> None:
    sound_log(tmp_path / "a.wal")
    (tmp_path / "out").write_text("mine")
    assert export_answer(tmp_path / "a.wal", tmp_path / "out").exit_code == REFUSED
    assert (tmp_path / "out").read_text() == "mine"


def test_an_export_of_a_file_that_was_put_aside_gives_what_is_left_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    log_with(path, 300, size_bytes=1500).close()
    content = path.read_bytes()
    path.write_bytes(content[:-40_000] + bytes(40_000))
    saved = numbers(read_all(Wal(path)))
    aside = tmp_path / "a.wal.corrupt-1"
    before = aside.read_bytes()
    found = export_answer(aside, tmp_path / "out")
    assert found.exit_code == OK and f"at {300 - len(saved)} numbers nothing could be read" in found.text
    assert [int(item.value.split(b";")[0]) for item in read_trace(tmp_path / "out")] == saved
    assert aside.read_bytes() == before


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_sound_log_verifies_also_beside_the_agent_and_after_dropping(tmp_path: Path, is_encrypted: bool) -> None:
    (tmp_path / "key").write_text(KEY.hex())
    key_file = tmp_path / "key" if is_encrypted else None
    wal = sound_log(tmp_path / "a.wal", WalCipher([KEY]) if is_encrypted else None)
    assert verify_answer(tmp_path / "a.wal", key_file).text == (
        "8 records (4 sample batches, 0 gap records), 2 ticks in the journal: nothing is wrong"
    )
    wal.settle([1, 2], 3)
    wal.cap_bytes = wal.kept_bytes
    wal.append(records(10, 14))
    wal.set_aside(read_all(wal)[-2].seq, "refused_by_broker")
    before = files(tmp_path)
    found = verify_answer(tmp_path / "a.wal", key_file)
    assert (found.exit_code, "nothing is wrong" in found.text) == (OK, True), found.text
    assert files(tmp_path) == before


WRONG: list[tuple[str, str, str]] = [
    ("a record", "UPDATE records SET value = value || 'x' WHERE seq = 2", "record 2 (topic job-events): its checksum"),
    ("a tick", "UPDATE ticks SET at_us = 1 WHERE number = 2", "tick 2 of the journal: its checksum is wrong"),
    ("a named value", "UPDATE state SET value = x'00' WHERE name = 'sampler'", "named value 'sampler': its checksum"),
    ("lost numbers", "DELETE FROM records WHERE seq IN (2, 3)", "records 2 to 3 are missing, and no gap record"),
    ("a lost end", "DELETE FROM records WHERE seq = 8", "records 8 to 8 are missing, and no gap record"),
]


@pytest.mark.parametrize(("damage", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_verify_finds(tmp_path: Path, damage: str, said: str) -> None:
    wal = sound_log(tmp_path / "a.wal")
    wal._store.db.execute(damage)
    found = verify_answer(tmp_path / "a.wal")
    assert found.exit_code == FOUND_WRONG
    assert said in found.text and "1 problems" in found.text
    assert json.loads(verify_answer(tmp_path / "a.wal", as_json=True).text)["problem_count"] == 1


def test_a_number_that_may_have_been_delivered_is_no_problem_and_one_that_was_never_sent_is(tmp_path: Path) -> None:
    wal = log_with(tmp_path / "a.wal", 10)
    wal.settle([1, 2, 3, 5], 6)
    assert verify_answer(tmp_path / "a.wal").exit_code == OK
    wal._store.db.execute("DELETE FROM records WHERE seq IN (6, 7, 8)")
    assert "records 7 to 8 are missing" in verify_answer(tmp_path / "a.wal").text


@pytest.mark.parametrize(("first_us", "said"), [(61 * S, "leaves a hole after"), (59 * S, "overlaps")])
def test_verify_finds_batches_that_do_not_tile(tmp_path: Path, first_us: int, said: str) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([batch_record(0, 0, 30 * S), batch_record(1, 30 * S, 60 * S), batch_record(2, first_us, 90 * S)])
    found = verify_answer(tmp_path / "a.wal")
    assert found.exit_code == FOUND_WRONG
    assert f"record 3: the batch of n1 that begins at {first_us} us {said} the one before it (record 2)" in found.text


def test_verify_does_not_blame_the_batch_after_one_that_was_dropped_with_a_gap_record(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([batch_record(n, n * 30 * S, (n + 1) * 30 * S) for n in range(3)])
    wal.set_aside(2, "refused_by_broker")
    assert verify_answer(tmp_path / "a.wal").exit_code == OK


def test_verify_does_not_blame_a_batch_that_began_anew_and_says_so(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    note = GapNote("gpu-samples", 0, 0, 0, 30 * S, 900 * S, "outage")
    wal.append([batch_record(0, 0, 30 * S), gap_encoder("n1", "a1")(note), batch_record(1, 900 * S, 930 * S)])
    assert verify_answer(tmp_path / "a.wal").exit_code == OK


def test_verify_tells_two_agents_with_one_id(tmp_path: Path) -> None:
    wal = Wal(tmp_path / "a.wal")
    wal.append([batch_record(0, 0, 60 * S, boot_id="one"), batch_record(0, 60 * S, 90 * S, boot_id="two")])
    assert verify_answer(tmp_path / "a.wal").exit_code == OK
    wal.append([batch_record(1, 90 * S, 120 * S, boot_id="one"), batch_record(1, 120 * S, 150 * S, boot_id="two")])
    found = verify_answer(tmp_path / "a.wal")
    assert found.exit_code == FOUND_WRONG
    assert "two runs of agent a1 on n1 overlap in time, one and two" in found.text


def test_without_the_key_verify_checks_what_it_can_and_says_so(tmp_path: Path) -> None:
    wal = sound_log(tmp_path / "a.wal", WalCipher([KEY]))
    found = verify_answer(tmp_path / "a.wal")
    assert found.exit_code == OK and "12 rows are encrypted: only their checksums were checked" in found.text
    wal._store.db.execute("UPDATE records SET value = value || 'x' WHERE seq = 2")
    assert verify_answer(tmp_path / "a.wal").exit_code == FOUND_WRONG


@pytest.mark.parametrize(
    ("content", "said"), [(None, "as the agent's user or as root"), (b"no database at all" * 100, "wal export")]
)
def test_a_log_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.wal"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(sqlite3.Error) as caught:
        sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT * FROM sqlite_master").fetchall()
    assert said in how_to_read(caught.value)

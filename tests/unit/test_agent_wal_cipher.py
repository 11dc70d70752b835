"""Encryption at rest: nothing readable in the file, no row for another, no start without the key, no nonce twice."""

import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from wattledger_agent.wal import Wal
from wattledger_agent.wal_cipher import KeyRefused, WalCipher, key_id_of, read_keys
from wattledger_agent.wal_record import WalKeyMissing, WalRecord

from tests.unit.agent_records import gaps, numbers, read_all, record, records

OLD, NEW, OTHER = bytes(range(32)), bytes(range(1, 33)), bytes(range(2, 34))
SECRET = b"secret energy of job 4711"


def log_of(path: Path, keys: list[bytes]) -> Wal:
    return Wal(path, cipher=WalCipher(keys) if keys else None)


def content_of(path: Path) -> bytes:
    return path.read_bytes() + Path(f"{path}-wal").read_bytes()


def test_values_journal_and_named_values_can_not_be_read_in_the_file_and_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = log_of(path, [OLD])
    wal.append([WalRecord("gpu-samples", "n1", SECRET, at_us=7)], {"n1": SECRET}, state={"sampler": SECRET})
    number = wal.note_tick(SECRET, 8)
    assert SECRET not in content_of(path) and SECRET[:8] not in content_of(path)
    wal.close()
    again = log_of(path, [OLD])
    assert [kept.record for kept in read_all(again)] == [WalRecord("gpu-samples", "n1", SECRET, at_us=7)]
    assert (again.open_ticks(), again.last_tick("n1"), again.state("sampler")) == ([(number, SECRET)], SECRET, SECRET)


@pytest.mark.parametrize("given", [[], [NEW]], ids=["none", "another"])
def test_without_its_key_a_log_is_refused_with_what_to_do_and_is_not_put_aside(
    tmp_path: Path, given: list[bytes]
) -> None:
    path = tmp_path / "a.wal"
    wal = log_of(path, [OLD])
    wal.append(records(0, 5))
    wal.close()
    said = "no key file was given" if not given else f"the key file has {key_id_of(NEW)}"
    with pytest.raises(WalKeyMissing, match=rf"a\.wal .* key {key_id_of(OLD)}; {said}\. Give the key file"):
        log_of(path, given)
    assert not list(tmp_path.glob("*.corrupt-*"))
    assert numbers(read_all(log_of(path, [OLD]))) == list(range(5))


@pytest.mark.parametrize("what", ["tick", "state"])
def test_a_key_that_only_the_journal_or_a_named_value_needs_is_asked_for_too(tmp_path: Path, what: str) -> None:
    wal = log_of(tmp_path / "a.wal", [OLD])
    if what == "tick":
        wal.note_tick(b"t", 1)
    else:
        wal.append([], {"n1": b"last"})
    wal.close()
    with pytest.raises(WalKeyMissing):
        log_of(tmp_path / "a.wal", [])


def test_a_corrupt_encrypted_log_is_salvaged_without_its_key_and_nothing_is_lost_by_asking_for_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.wal"
    wal = log_of(path, [OLD])
    wal.append(records(0, 200, size_bytes=1500))
    wal.close()
    content = path.read_bytes()
    path.write_bytes(content[:-20_000] + bytes(20_000))
    with pytest.raises(WalKeyMissing):
        log_of(path, [NEW])
    assert (tmp_path / "a.wal.corrupt-1").exists() and not (tmp_path / "a.wal.corrupt-2").exists()
    kept = read_all(log_of(path, [OLD]))
    lost = set(range(200)) - set(numbers(kept))
    assert 0 < len(lost) == sum(int(str(gap["count"])) for gap in gaps(kept)) < 40


def test_rotation_reads_what_the_old_key_wrote_and_needs_it_no_more_once_that_is_delivered(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = log_of(path, [OLD])
    wal.append(records(0, 3), {"n1": b"last"})
    wal.close()
    wal = log_of(path, [NEW, OLD])
    wal.append(records(3, 5))
    assert numbers(read_all(wal)) == list(range(5))
    wal.settle([kept.seq for kept in read_all(wal) if int(kept.record.value.split(b";")[0]) < 3])
    wal.close()
    again = log_of(path, [NEW])
    assert (numbers(read_all(again)), again.last_tick("n1")) == ([3, 4], b"last")


def test_turning_encryption_on_keeps_what_was_there_and_hides_what_stays_for_long(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = log_of(path, [])
    wal.append(records(0, 3), {"n1": SECRET})
    wal.close()
    wal = log_of(path, [NEW])
    wal.append(records(3, 5))
    assert (numbers(read_all(wal)), wal.last_tick("n1")) == (list(range(5)), SECRET)
    stored = wal._store.db.execute("SELECT value FROM state").fetchone()[0]
    assert SECRET not in stored


@pytest.mark.parametrize(
    "swap",
    [
        "UPDATE records SET topic = 'gpu-samples' WHERE seq = 2",
        "UPDATE records SET key = 'key-6' WHERE seq = 2",
        "UPDATE records SET at_us = 5 WHERE seq = 2",
        "UPDATE records SET value = (SELECT value FROM records WHERE seq = 3) WHERE seq = 2",
    ],
)
def test_a_row_in_another_ones_place_is_found_even_if_its_checksum_was_made_right(tmp_path: Path, swap: str) -> None:
    from wattledger_agent.wal_record import checksum

    wal = log_of(tmp_path / "a.wal", [OLD])
    wal.append(records(0, 5))
    db = wal._store.db
    db.execute(swap)
    topic, key, value, partition, at_us, key_id = db.execute(
        "SELECT topic, key, value, partition, at_us, key_id FROM records WHERE seq = 2"
    ).fetchone()
    right = checksum(2, WalRecord(topic, key, value, partition, at_us), key_id)
    db.execute("UPDATE records SET crc = ? WHERE seq = 2", (right,))
    assert numbers(read_all(wal)) == [0, 2, 3, 4]
    assert [(gap["from_seq"], gap["reason"]) for gap in gaps(read_all(wal))] == [(2, "damaged")]


def test_a_flipped_bit_in_the_name_of_a_key_is_damage_and_stops_no_start(tmp_path: Path) -> None:
    path = tmp_path / "a.wal"
    wal = log_of(path, [OLD])
    wal.append(records(0, 5))
    name = key_id_of(OLD)
    wal._store.db.execute("UPDATE records SET key_id = ? WHERE seq = 3", (name[:-1] + chr(ord(name[-1]) ^ 1),))
    wal.close()
    again = log_of(path, [OLD])
    assert numbers(read_all(again)) == [0, 1, 3, 4]


def test_no_nonce_is_used_twice_under_one_key_not_by_a_rollback_a_thinning_or_another_log(tmp_path: Path) -> None:
    def halve(one: WalRecord) -> WalRecord | None:
        small = WalRecord(one.topic, one.key, one.value[:20], one.partition, one.at_us)
        return small if len(one.value) > 20 else None

    seen: list[bytes] = []
    for log, rounds in (("a", 2), ("b", 1)):
        for _ in range(rounds):
            cipher = WalCipher([OLD])
            wal = Wal(tmp_path / f"{log}.wal", 30_000, thin=halve, cipher=cipher)
            seal = cipher.seal

            def noted(plain: bytes, bound: bytes, seal: object = seal) -> bytes:
                assert callable(seal)
                sealed = bytes(seal(plain, bound))
                seen.append(sealed[:28])
                return sealed

            cipher.seal = noted  # type: ignore[method-assign]
            for first in range(0, 200, 20):
                wal.append(records(first, first + 20, "gpu-samples", size_bytes=190), {"n1": b"x"})
                wal.note_tick(b"t", first)
            db = wal._store.db
            db.execute("PRAGMA max_page_count=1")
            wal.when_full = "block"
            wal.cap_bytes = 1 << 30
            for _ in range(2):
                with pytest.raises(Exception, match="full"):
                    wal.append(records(0, 20, size_bytes=9000))
            wal.close()
    assert len(seen) > 600 and len(set(seen)) == len(seen)


KEY_FILES: list[tuple[str, bytes, list[bytes]]] = [
    ("raw bytes", OLD, [OLD]),
    ("hex with a newline", OLD.hex().encode() + b"\n", [OLD]),
    ("base64", b64encode(NEW), [NEW]),
    ("several lines, comments", b"# new\n" + NEW.hex().encode() + b"\r\n\n" + b64encode(OLD) + b"\n", [NEW, OLD]),
]


@pytest.mark.parametrize(("content", "keys"), [case[1:] for case in KEY_FILES], ids=[case[0] for case in KEY_FILES])
def test_key_files(tmp_path: Path, content: bytes, keys: list[bytes]) -> None:
    (tmp_path / "key").write_bytes(content)
    assert read_keys(tmp_path / "key") == keys
    assert WalCipher.from_files(tmp_path / "key").key_id == key_id_of(keys[0])
    (tmp_path / "older").write_text(OTHER.hex())
    both = WalCipher.from_files(tmp_path / "key", tmp_path / "older")
    assert (both.key_id, both.key_ids) == (key_id_of(keys[0]), frozenset([*map(key_id_of, keys), key_id_of(OTHER)]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no key"),
        (b"# only a comment\n", "holds no key"),
        (OLD.hex().encode()[:-2], "line 1: 62 characters that are no key"),
        (OLD.hex().encode() + b"\n" + b"z" * 64, "line 2: 64 characters"),
        (b"\xff" * 33, "line 1: 33 characters"),
    ],
)
def test_a_key_file_that_can_not_be_used_is_told_without_giving_any_of_it_away(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(KeyRefused, match=said) as caught:
        read_keys(tmp_path / "key")
    assert OLD.hex()[:16] not in str(caught.value)
    with pytest.raises(KeyRefused, match="can't be read: No such file"):
        read_keys(tmp_path / "none")


def test_the_size_of_what_encryption_adds_counts_in_the_cap(tmp_path: Path) -> None:
    wal = log_of(tmp_path / "a.wal", [OLD])
    wal.append([record(1)])
    assert wal.kept_bytes == record(1).size_bytes + WalCipher.overhead_bytes
    wal.settle([kept.seq for kept in read_all(wal)])
    assert wal.kept_bytes == 0


def test_without_a_key_nothing_of_the_cryptography_package_is_loaded() -> None:
    code = "import wattledger_agent.wal, sys; assert not [m for m in sys.modules if m.startswith('cryptography')]"
    path = ";".join(f"sys.path.append({entry!r})" for entry in sys.path)
    subprocess.run([sys.executable, "-c", f"import sys;{path};{code}"], check=True, timeout=30)

"""An agent keeps its id over reboots and new cards, and gives it up on another host; its log goes with it."""

import json
from itertools import count
from pathlib import Path

import pytest
from wattledger_agent.host_identity import FILE_NAME, Fingerprint, Identity, read_fingerprint, settle, settle_identity
from wattledger_agent.wal import Wal
from wattledger_agent.wal_verify import verify_log

from tests.unit.agent_bare_batches import S, batch_record
from tests.unit.agent_records import log_with, numbers, read_all

HOME = Fingerprint("m1", "4c4c4544-0001", "boot-1", ("GPU-a", "GPU-b"))
PLACEHOLDER = "03000200-0400-0500-0006-000700080009"
CASES: list[tuple[str, Fingerprint, Fingerprint, str]] = [
    ("nothing changed", HOME, HOME, ""),
    ("a reboot", HOME, Fingerprint("m1", "4c4c4544-0001", "boot-2", ("GPU-a", "GPU-b")), ""),
    ("the machine booted and lost a card", HOME, Fingerprint("m1", "4c4c4544-0001", "boot-2", ("GPU-b",)), ""),
    ("a card was exchanged", HOME, Fingerprint("m1", "4c4c4544-0001", "boot-2", ("GPU-a", "GPU-c")), ""),
    ("the driver is not loaded", HOME, Fingerprint("m1", "4c4c4544-0001", "boot-2"), ""),
    (
        "a clone with the same machine id",
        HOME,
        Fingerprint("m1", "4c4c4544-0002", "boot-9", ("GPU-x",)),
        "product UUID",
    ),
    ("a clone whose board can't be read", HOME, Fingerprint("m1", "", "boot-9", ("GPU-x", "GPU-y")), "GPUs"),
    ("a clone without cards or board", HOME, Fingerprint("m2", "", "boot-9"), "machine id m2, was m1"),
    ("a virtual machine restored twice", HOME, Fingerprint("m1", "4c4c4544-0002", "boot-1", HOME.gpus), "product UUID"),
    (
        "the folder given to another agent's cards",
        HOME,
        Fingerprint("m1", "4c4c4544-0001", "boot-1", ("GPU-x",)),
        "GPUs",
    ),
    ("a container with a machine id of its own", HOME, Fingerprint("m2", "", "boot-1", ("GPU-a",)), ""),
    (
        "boards whose maker gave them no UUID",
        Fingerprint("m1", PLACEHOLDER, "boot-1"),
        Fingerprint("m1", "00000000-0000-0000-0000-000000000000", "boot-2"),
        "",
    ),
    ("the board's UUID in capitals", HOME, Fingerprint("m1", "4C4C4544-0001", "boot-2", HOME.gpus), ""),
    ("nothing is known of the host", HOME, Fingerprint(), ""),
]


@pytest.mark.parametrize(("before", "now", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_settle(before: Fingerprint, now: Fingerprint, why: str) -> None:
    settled = settle(Identity("old", before), now, "new")
    assert (settled.identity.agent_id, settled.is_new_host) == (("new", True) if why else ("old", False))
    assert why in settled.note and bool(settled.note) == bool(why)


def test_what_can_not_be_read_now_is_not_forgotten() -> None:
    known = settle(Identity("old", HOME), Fingerprint("m1", "", "boot-2"), "new").identity.fingerprint
    assert known == Fingerprint("m1", HOME.product_uuid, "boot-2", HOME.gpus)
    assert settle(Identity("old", known), Fingerprint("m1", "4c4c4544-0002", "boot-3"), "new").is_new_host


def test_the_id_is_kept_in_the_folder_and_a_clone_takes_another_with_the_log_it_brought(tmp_path: Path) -> None:
    ids = (f"id-{number}" for number in count(1))
    first = settle_identity(tmp_path, HOME, lambda: next(ids))
    assert (first.identity.agent_id, first.note) == ("id-1", "")
    log_with(tmp_path / "a.wal", 20).close()
    assert settle_identity(tmp_path, HOME, lambda: next(ids)).identity.agent_id == "id-1"
    clone = Fingerprint("m1", "4c4c4544-0002", "boot-9", ("GPU-x",))
    settled = settle_identity(tmp_path, clone, lambda: next(ids))
    assert settled.is_new_host and settled.identity.agent_id == "id-3"
    assert "agent id-1 is on another host" in settled.note and "still delivered" in settled.note
    assert settle_identity(tmp_path, clone, lambda: next(ids)) == type(settled)(settled.identity)
    assert numbers(read_all(Wal(tmp_path / "a.wal"))) == list(range(20))


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0\0", b"[]", b'{"agent_id": "", "fingerprint": {}}', b'{"agent_id": 4}']
)
def test_a_damaged_file_is_kept_beside_and_gives_a_new_id(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    settled = settle_identity(tmp_path, HOME, lambda: "fresh")
    assert settled.identity.agent_id == "fresh" and "identity.json.damaged" in settled.note
    assert (tmp_path / f"{FILE_NAME}.damaged").read_bytes() == content
    assert json.loads((tmp_path / FILE_NAME).read_text())["agent_id"] == "fresh"


def test_made_ids_differ(tmp_path: Path) -> None:
    made = {settle_identity(tmp_path / str(number), HOME).identity.agent_id for number in range(20)}
    assert len(made) == 20


def test_the_fingerprint_is_read_from_the_system_and_what_is_not_there_is_unknown(tmp_path: Path) -> None:
    for name, text in (
        ("etc/machine-id", "m1\n"),
        ("sys/class/dmi/id/product_uuid", "4C4C4544-0001\n"),
        ("proc/sys/kernel/random/boot_id", "boot-1\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert read_fingerprint(("GPU-b", "GPU-a"), tmp_path) == Fingerprint(
        "m1", "4C4C4544-0001", "boot-1", ("GPU-a", "GPU-b")
    )
    assert read_fingerprint((), tmp_path / "none") == Fingerprint()


def test_two_agents_with_one_id_would_be_seen_by_their_runs(tmp_path: Path) -> None:
    """What a cloned disk would do if its id were kept: both send batches of one agent, but of runs that overlap."""
    wal = Wal(tmp_path / "a.wal")
    wal.append([batch_record(0, 0, 30 * S, boot_id="one"), batch_record(0, 5 * S, 35 * S, boot_id="two")])
    assert any("two agents have one id" in problem for problem in verify_log(tmp_path / "a.wal").problems)

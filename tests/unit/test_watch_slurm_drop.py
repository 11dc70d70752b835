"""The drop folder: what a record says, whose records are believed, and which files go and stay."""

import os
from pathlib import Path

import pytest
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_MINOR, BY_UNKNOWN, BY_UUID, DeviceRef, Held
from wattledger_agent.watchers.slurm_drop import BadDrop, drop_fact, drop_values, event_us
from wattledger_agent.watchers.slurm_fact import EPILOG, PROLOG, Document, Fact
from wattledger_agent.watchers.slurm_folder import DropFolder
from wattledger_agent.watchers.slurm_site import SlurmSite
from wattledger_agent.watchers.watcher import WatcherUnavailable

from tests.slurm_watch_case import SITE, T0, S, drop_text, put_drop, refs

ME = frozenset({os.geteuid()})
LATER_US = 4_000_000_000 * S
"""After every file of the test was written."""


def fact_of(data: bytes, site: SlurmSite = SITE, received_us: int = 0) -> Fact:
    fact = drop_fact(drop_values(data), site, received_us)
    assert fact is not None
    return fact


def test_a_prolog_says_when_who_and_what() -> None:
    fact = fact_of(drop_text(SLURM_JOB_SLUID="sEK", SLURM_JOB_OVERSUBSCRIBE="NO", SLURM_JOB_CPUS_PER_NODE="16(x4)"))
    assert (fact.kind, fact.job, fact.attempt, fact.sluid) == (PROLOG, "123", 0, "sEK")
    assert (fact.at_us, fact.start_us, fact.end_us) == ((T0 + 60) * S + 200_000, (T0 + 60) * S, None)
    assert (fact.account, fact.user, fact.cluster, fact.exclusive, fact.cpus) == ("acme", "ann", "alpha", True, 16)
    assert refs(fact.held) == ["minor:0", "minor:1"]


def test_the_end_that_slurm_expects_is_never_an_end() -> None:
    for kind in (PROLOG, EPILOG):
        assert fact_of(drop_text(kind, SLURM_JOB_END_TIME=f"{T0 + 86_400}")).end_us is None


@pytest.mark.parametrize(
    ("case", "values", "held"),
    [
        ("positions", {"SLURM_JOB_GPUS": "0,3"}, [(BY_MINOR, "0"), (BY_MINOR, "3")]),
        ("a range", {"SLURM_JOB_GPUS": "0-1,3"}, [(BY_MINOR, "0"), (BY_MINOR, "1"), (BY_MINOR, "3")]),
        ("B2, B3: CUDA's numbers are left where SLURM names devices",
         {"SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}, [(BY_MINOR, "3")]),
        ("B3: alone they tell nothing", {"SLURM_JOB_GPUS": "-", "CUDA_VISIBLE_DEVICES": "0"}, [(BY_UNKNOWN, "0")]),
        ("B4", {"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": "GPU-8a5f"}, [(BY_UUID, "GPU-8a5f")]),
        ("B4 in SLURM's own list", {"SLURM_JOB_GPUS": "GPU-8a5f"}, [(BY_UUID, "GPU-8a5f")]),
        ("B8", {"SLURM_JOB_GPUS": "5", "CUDA_VISIBLE_DEVICES": "MIG-de2d"}, [(BY_MIG_UUID, "MIG-de2d")]),
        ("AMD", {"SLURM_JOB_GPUS": "1", "ROCR_VISIBLE_DEVICES": "GPU-ff01"}, [(BY_UUID, "GPU-ff01")]),
        ("the same list twice", {"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-a", "ROCR_VISIBLE_DEVICES": "GPU-a"},
         [(BY_UUID, "GPU-a")]),
        ("none", {"SLURM_JOB_GPUS": "-"}, []),
        ("none", {"SLURM_JOB_GPUS": "-", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
    ],
)  # fmt: skip
def test_devices_are_named_by_the_best_name_there_is(
    case: str, values: dict[str, str], held: list[tuple[str, str]]
) -> None:
    fact = fact_of(drop_text(**values))
    assert [(one.ref.by, one.ref.value) for one in fact.held or ()] == held, case


def test_a_part_of_a_gpu_by_mps_is_a_part() -> None:
    fact = fact_of(drop_text(SLURM_JOB_GPUS="1", CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25", CUDA_VISIBLE_DEVICES="0"))
    assert fact.held == (Held(DeviceRef(BY_MINOR, "1"), 25, 100, "mps"),)


@pytest.mark.parametrize(
    ("text", "received_us", "at_us"),
    [
        (f"{T0}123456789", 0, T0 * S + 123_456),
        (f"{T0}", T0 * S + 400_000, T0 * S + 400_000),
        (f"{T0}", (T0 + 9) * S, T0 * S),
        (f"{T0}", T0 * S - 1, T0 * S),
        ("0", 77, 77),
        ("", 77, 77),
        ("soon", 77, 77),
    ],
)
def test_the_time_of_an_event_is_as_fine_as_the_machine_gives_it(text: str, received_us: int, at_us: int) -> None:
    assert event_us(text, received_us) == at_us


@pytest.mark.parametrize(
    ("case", "data", "reason"),
    [
        ("cut", drop_text()[:-4], "torn_drop"),
        ("empty", b"", "torn_drop"),
        ("without its end", drop_text().replace(b"WATTLEDGER_END=1\n", b""), "torn_drop"),
        ("a key twice", drop_text().replace(b"SLURM_JOB_ID", b"SLURM_JOB_ACCOUNT=rich\nSLURM_JOB_ID"), "foreign_drop"),
        ("not of ours", b"hello\nWATTLEDGER_END=1\n", "foreign_drop"),
        ("no job", drop_text(SLURM_JOB_ID="-"), "foreign_drop"),
        ("a job of words", drop_text(SLURM_JOB_ID="12a"), "foreign_drop"),
        ("no kind", drop_text(WATTLEDGER_KIND="task"), "foreign_drop"),
        ("another node", drop_text(SLURMD_NODENAME="gpu09"), "other_node"),
    ],
)
def test_a_record_that_is_none_is_refused(case: str, data: bytes, reason: str) -> None:
    with pytest.raises(BadDrop) as refused:
        drop_fact(drop_values(data), SITE, 0)
    assert refused.value.reason == reason, case


def test_what_is_not_on_the_list_is_not_read() -> None:
    values = drop_values(drop_text(SLURM_JOB_NAME="secret", AWS_SECRET_ACCESS_KEY="x", SLURM_JOB_WORK_DIR="/home"))
    assert not {"SLURM_JOB_NAME", "AWS_SECRET_ACCESS_KEY", "SLURM_JOB_WORK_DIR"} & set(values)


def test_another_clusters_job_is_left_out() -> None:
    assert drop_fact(drop_values(drop_text(SLURM_CLUSTER_NAME="beta")), SITE, 0) is None


def test_a_comment_tags_only_where_that_is_allowed() -> None:
    data = drop_text(SLURM_JOB_COMMENT="wattledger.tenant=lab7", SLURM_JOB_EXTRA="wattledger.model=llama")
    assert (fact_of(data).tenant_tag, fact_of(data).model_tag) == ("", "")
    fact = fact_of(data, SlurmSite("gpu01", comment_tags=True))
    assert (fact.tenant_tag, fact.model_tag) == ("lab7", "llama")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "slurm"
    path.mkdir(mode=0o700)
    return path


def read(drops: DropFolder, now_us: int = LATER_US) -> Document:
    (document,) = drops.read(now_us)
    return document


def test_a_record_is_read_once_and_removed_when_told(folder: Path) -> None:
    path = put_drop(folder, drop_text())
    drops = DropFolder(folder, SITE, ME)
    document = read(drops)
    assert [(fact.kind, fact.file) for fact in document.facts] == [(PROLOG, path.name)]
    assert (read(drops).facts, path.exists()) == ((), True)
    drops.remove([path.name])
    assert not path.exists()
    assert read(drops) == Document((), (), False, source=str(folder), at_us=LATER_US)


def test_a_removal_that_is_refused_is_no_harm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put_drop(folder, drop_text())

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "unlink", refuse)
    drops = DropFolder(folder, SITE, ME)
    assert len(read(drops).facts) == 1
    drops.remove([path.name, "prolog-9-0-9"])
    assert path.exists()
    assert read(drops).facts == ()


def test_an_agent_that_starts_again_reads_what_is_still_there(folder: Path) -> None:
    put_drop(folder, drop_text())
    first, second = (read(DropFolder(folder, SITE, ME)).facts for _ in range(2))
    assert first == second != ()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_record_that_others_may_write_is_not_believed(folder: Path, mode: int) -> None:
    put_drop(folder, drop_text(), mode)
    document = read(DropFolder(folder, SITE, ME))
    assert (document.facts, [one.reason for one in document.findings]) == ((), ["foreign_drop"])
    assert "mode" in document.findings[0].detail


def test_a_record_of_another_user_is_not_believed(folder: Path) -> None:
    put_drop(folder, drop_text())
    others = DropFolder(folder, SITE, frozenset({os.geteuid() + 1}))
    with pytest.raises(WatcherUnavailable, match="anybody's word"):
        others.read(LATER_US)


def test_a_record_of_another_user_in_our_folder_is_not_believed(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = put_drop(folder, drop_text())
    os.chown(path, 1000, 1000)
    document = read(DropFolder(folder, SITE, ME))
    assert (document.facts, [one.reason for one in document.findings]) == ((), ["foreign_drop"])
    assert path.exists()


def test_a_folder_that_is_open_to_all_is_not_read(folder: Path) -> None:
    put_drop(folder, drop_text())
    folder.chmod(0o777)
    with pytest.raises(WatcherUnavailable, match="mode 777"):
        DropFolder(folder, SITE, ME).read(LATER_US)


def test_links_and_other_things_are_not_followed(folder: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere"
    real.write_bytes(drop_text())
    (folder / "prolog-123-0-1").symlink_to(real)
    os.mkfifo(folder / "prolog-124-0-1")
    (folder / "prolog-125-0-1").mkdir()
    (folder / "core").write_bytes(b"x")
    document = read(DropFolder(folder, SITE, ME))
    assert document.facts == ()
    assert sorted(one.reason for one in document.findings) == [
        "foreign_drop",
        "foreign_drop",
        "foreign_drop",
        "unreadable_drop",
    ]
    other = tmp_path / "link"
    other.symlink_to(folder)
    with pytest.raises(WatcherUnavailable):
        DropFolder(other, SITE, ME).read(LATER_US)


def test_a_record_under_another_name_is_not_believed(folder: Path) -> None:
    path = put_drop(folder, drop_text())
    path.rename(folder / "epilog-123-0-1790769660200000000")
    document = read(DropFolder(folder, SITE, ME))
    assert (document.facts, [one.reason for one in document.findings]) == ((), ["foreign_drop"])


def test_a_torn_record_is_told_when_it_stays_torn(folder: Path) -> None:
    path = put_drop(folder, drop_text())
    path.write_bytes(drop_text()[:60])
    os.utime(path, (T0, T0))
    drops = DropFolder(folder, SITE, ME)
    assert read(drops, (T0 + 1) * S).findings == ()
    assert [one.reason for one in read(drops, (T0 + 9) * S).findings] == ["torn_drop"]
    assert read(drops, (T0 + 10) * S).findings == ()


def test_a_torn_record_that_is_written_whole_meanwhile_counts(folder: Path) -> None:
    path = put_drop(folder, drop_text())
    path.write_bytes(drop_text()[:60])
    drops = DropFolder(folder, SITE, ME)
    os.utime(path, (T0, T0))
    assert read(drops, (T0 + 1) * S).facts == ()
    path.write_bytes(drop_text())
    assert len(read(drops).facts) == 1


def test_what_a_killed_script_left_is_cleared_away(folder: Path) -> None:
    path = folder / ".new-prolog-123-0-77"
    path.write_bytes(drop_text()[:60])
    os.utime(path, (T0, T0))
    drops = DropFolder(folder, SITE, ME)
    assert (read(drops, (T0 + 60) * S).findings, path.exists()) == ((), True)
    assert [one.reason for one in read(drops, (T0 + 601) * S).findings] == ["torn_drop"]
    assert not path.exists()


def test_a_whole_second_gets_its_fraction_from_the_file(folder: Path) -> None:
    path = put_drop(folder, drop_text(at=f"{T0 + 60}"))
    os.utime(path, ns=((T0 + 60) * 10**9, (T0 + 60) * 10**9 + 400_000_000))
    (fact,) = read(DropFolder(folder, SITE, ME)).facts
    assert fact.at_us == (T0 + 60) * S + 400_000


def test_a_folder_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WatcherUnavailable, match=r"infra/slurm/README\.md"):
        DropFolder(tmp_path / "none", SITE, ME).read(LATER_US)


def test_a_full_folder_is_told(folder: Path) -> None:
    for number in range(10_000):
        (folder / f".{number}").touch()
    drops = DropFolder(folder, SITE, ME)
    assert [one.reason for one in read(drops).findings] == ["drop_folder_full"]

"""The SLURM watcher from look to look: what is told when, what ends, what is removed and forgotten."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from wattledger_agent.watchers.run import BY_UNKNOWN, BY_UUID, DeviceRef, Held, Run
from wattledger_agent.watchers.slurm import SlurmWatcher
from wattledger_agent.watchers.slurm_document import parse_document
from wattledger_agent.watchers.slurm_fact import Document, finding
from wattledger_agent.watchers.slurm_files import SlurmFiles
from wattledger_agent.watchers.slurm_folder import DropFolder
from wattledger_agent.watchers.slurm_site import SlurmSite
from wattledger_agent.watchers.watcher import Watcher, WatcherUnavailable

from tests.slurm_watch_case import (
    NOW_US,
    RUNNING,
    SITE,
    T0,
    S,
    Told,
    drop_text,
    only,
    put_drop,
    refs,
    sacct_file,
    sacct_row,
    scontrol_job,
    watch,
)
from tests.slurm_watch_facts import GPU0, GPU1, STAMP, UUIDS, accounted, epilog, live, prolog, seen, seen_one

ME = frozenset({os.geteuid()})


@pytest.mark.parametrize("seed", range(12))
def test_the_order_in_which_records_come_does_not_matter(seed: int) -> None:
    facts = [
        prolog(sluid="sA"), epilog(sluid="sA"), accounted(sluid="sA"), live(at_us=NOW_US - 900 * S),
        prolog(STAMP + 5000 * S + 1, attempt=1, start_us=STAMP + 5000 * S, sluid="sB"),
        live(attempt=1, start_us=STAMP + 5000 * S, held=(GPU0, GPU1)),
        prolog(job="124", held=UUIDS), epilog(job="124"),
    ]  # fmt: skip
    expected = seen(*facts)
    shuffled = facts[:]
    random.Random(seed).shuffle(shuffled)
    told = Told()
    watcher = watch(told)
    last: dict[tuple[str, int], Run] = {}
    for fact in shuffled:
        told.tell(fact)
        for run in watcher.look(NOW_US).runs:
            last[run.job, run.attempt] = run
    assert {key: replace(run, started_us=0) for key, run in last.items()} == {
        (run.job, run.attempt): replace(run, started_us=0) for run in expected
    }


def test_ended_runs_are_told_once_and_again_only_when_more_is_known() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(prolog(), epilog())
    assert only(watcher.look(NOW_US)).outcome == ""
    assert watcher.look(NOW_US + S).runs == ()
    told.tell(accounted())
    run = only(watcher.look(NOW_US + 2 * S))
    assert (run.outcome, run.ended_us) == ("COMPLETED", STAMP + 3_600_700_000)
    told.tell(accounted(at_us=NOW_US + 60 * S))
    assert watcher.look(NOW_US + 3 * S).runs == ()


def test_open_runs_are_told_at_each_look_and_no_sighting_is_a_snapshot() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(prolog())
    for at in range(3):
        sighting = watcher.look(NOW_US + at)
        assert (len(sighting.runs), sighting.is_snapshot, sighting.at_us) == (1, False, NOW_US + at)


def test_the_start_that_was_told_stays_unless_it_was_clearly_earlier() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(prolog(STAMP + 900 * S, start_us=None))
    assert only(watcher.look(NOW_US)).started_us == STAMP + 900 * S
    told.tell(accounted(end_us=None, state="RUNNING"))
    assert only(watcher.look(NOW_US)).started_us == STAMP
    told.tell(prolog(STAMP + 700_000))
    assert only(watcher.look(NOW_US)).started_us == STAMP


def test_back_to_back_jobs_do_not_overlap_by_the_seconds_that_stamps_lack() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(prolog(), epilog(STAMP + 100 * S + 600_000))
    watcher.look(NOW_US)
    told.tell(prolog(STAMP + 200 * S, job="124", start_us=STAMP + 100 * S))
    assert only(watcher.look(NOW_US)).started_us == STAMP + 100 * S + 600_000


def test_a_run_that_left_two_whole_snapshots_in_a_row_has_ended() -> None:
    told = Told(is_snapshot=True)
    watcher = watch(told)
    told.tell(live(), at_us=STAMP + 100 * S)
    watcher.look(NOW_US)
    told.tell(at_us=STAMP + 200 * S)
    assert only(watcher.look(NOW_US)).ended_us is None
    told.tell(live(), at_us=STAMP + 300 * S)
    told.tell(at_us=STAMP + 400 * S)
    assert only(watcher.look(NOW_US)).ended_us is None
    told.tell(at_us=STAMP + 500 * S, is_whole=False)
    assert only(watcher.look(NOW_US)).ended_us is None
    told.tell(at_us=STAMP + 600 * S)
    assert only(watcher.look(NOW_US)).ended_us == STAMP + 400 * S


def test_a_snapshot_of_which_something_could_not_be_read_ends_nothing() -> None:
    told = Told(is_snapshot=True)
    watcher = watch(told)
    told.tell(live(), at_us=STAMP + 100 * S)
    for at in (200, 300, 400):
        told.documents.append(
            Document((), (finding("zone_needed", f"{at}"),), True, source="told", at_us=STAMP + at * S)
        )
        assert only(watcher.look(NOW_US)).ended_us is None


def test_a_snapshot_says_nothing_of_runs_that_it_never_showed() -> None:
    told, drops = Told(is_snapshot=True), Told()
    watcher = watch(told, events=drops)
    drops.tell(prolog())
    for at in range(100, 500, 100):
        told.tell(at_us=STAMP + at * S)
        assert only(watcher.look(NOW_US)).ended_us is None


def test_a_run_that_is_in_the_snapshot_again_goes_on() -> None:
    told = Told(is_snapshot=True)
    watcher = watch(told)
    for facts in ([live()], [], [], [live(at_us=NOW_US + S)]):
        told.tell(*facts, at_us=STAMP + 200 * S)
        run = only(watcher.look(NOW_US))
    assert run.ended_us is None


def test_records_are_removed_after_the_look_that_reported_the_end() -> None:
    drops = Told()
    watcher = watch(events=drops)
    drops.tell(prolog())
    watcher.look(NOW_US)
    watcher.look(NOW_US)
    assert drops.removed == []
    drops.tell(epilog())
    watcher.look(NOW_US)
    assert drops.removed == []
    watcher.look(NOW_US)
    assert drops.removed == ["epilog-123-0-2", "prolog-123-0-1"]
    watcher.look(NOW_US)
    assert len(drops.removed) == 2


def test_a_prologs_record_stays_while_its_epilog_may_come() -> None:
    drops, files = Told(), Told()
    watcher = watch(files, events=drops)
    drops.tell(prolog())
    files.tell(accounted())
    for _ in range(3):
        watcher.look(STAMP + 3700 * S)
    assert drops.removed == []
    for _ in range(2):
        watcher.look(STAMP + 4300 * S)
    assert drops.removed == ["prolog-123-0-1"]


def test_everything_is_reported_up_to_what_the_drop_folder_says_else_the_slowest() -> None:
    drops, files = Told(), Told()
    assert watch(files, events=drops).look(NOW_US).reported_to_us == NOW_US

    class Slow(Told):
        def read(self, now_us: int) -> tuple[()]:
            self.reported_to_us = now_us - 300 * S
            return ()

    assert watch(files, Slow()).look(NOW_US).reported_to_us == NOW_US - 300 * S
    assert watch(Slow(), events=drops).look(NOW_US).reported_to_us == NOW_US


def test_a_source_that_fails_hides_no_other_and_ends_nothing() -> None:
    class Gone(Told):
        def read(self, now_us: int) -> tuple[()]:
            raise WatcherUnavailable("the folder is gone: make it")

    told = Told()
    watcher = watch(told, Gone())
    told.tell(prolog())
    sighting = watcher.look(NOW_US)
    assert [one.reason for one in sighting.findings] == ["source_unavailable"]
    assert len(sighting.runs) == 1
    assert watcher.look(NOW_US + 1).findings == ()
    with pytest.raises(WatcherUnavailable, match="make it"):
        watch(Gone()).look(NOW_US)


def test_what_is_done_with_is_forgotten() -> None:
    told = Told()
    watcher = watch(told, keep_us=100 * S)
    told.tell(prolog(), epilog())
    watcher.look(STAMP + 3610 * S)
    told.tell(accounted())
    assert only(watcher.look(STAMP + 3650 * S)).attempt == 0
    watcher.look(STAMP + 3800 * S)
    told.tell(accounted(state="FAILED", at_us=NOW_US + S))
    assert watcher.look(STAMP + 90_000 * S).runs == ()


def test_a_cluster_that_no_setting_names_is_what_the_source_says() -> None:
    assert seen_one(prolog(cluster="beta"), site=SlurmSite("gpu01")).cluster == "beta"
    told = Told()
    watcher = watch(told, site=SlurmSite("gpu01"))
    told.tell(live())
    assert only(watcher.look(NOW_US)).cluster == ""
    told.tell(prolog())
    assert only(watcher.look(NOW_US)).cluster == "", "a run keeps the name under which it was reported"


def test_a_watcher_without_anything_to_read_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to read"):
        SlurmWatcher(SITE, ())


def test_folder_and_files_together(tmp_path: Path) -> None:
    folder = tmp_path / "slurm"
    folder.mkdir(mode=0o700)
    watcher: Watcher = SlurmWatcher(SITE, [SlurmFiles([f"{tmp_path}/*.txt"], SITE)], DropFolder(folder, SITE, ME))
    assert watcher.name == "slurm"
    first = put_drop(folder, drop_text(CUDA_VISIBLE_DEVICES="GPU-a,GPU-b"))
    run = only(watcher.look(NOW_US))
    assert (run.started_us, refs(run.held), run.ended_us) == (STAMP + 200_000, ["uuid:GPU-a", "uuid:GPU-b"], None)

    (tmp_path / "jobs.txt").write_text(scontrol_job(state="SUSPENDED"))
    (tmp_path / "sacct.txt").write_bytes(sacct_file(sacct_row(**RUNNING, QOS="preempt", SLUID="sEK")))
    for path in tmp_path.glob("*.txt"):
        os.utime(path, (T0 + 600, T0 + 600))
    run = only(watcher.look(NOW_US))
    assert (run.is_suspended, run.plan, run.owner_keys) == (True, "spot", ("job_123", "sEK"))
    assert [one.cpus for one in run.held] == [4, 4]

    second = put_drop(folder, drop_text("epilog", f"{T0 + 3660}500000000"))
    run = only(watcher.look(NOW_US))
    assert (run.ended_us, run.is_suspended) == ((T0 + 3660) * S + 500_000, False)
    assert first.exists() and second.exists()
    watcher.look(NOW_US)
    assert not first.exists() and not second.exists()
    watcher.close()


def test_an_agent_that_starts_again_says_the_same(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    put_drop(tmp_path, drop_text())
    put_drop(tmp_path, drop_text(SLURM_JOB_ID="124"))
    put_drop(tmp_path, drop_text("epilog", f"{T0 + 99}700000000", SLURM_JOB_ID="124"))
    before = SlurmWatcher(SITE, (), DropFolder(tmp_path, SITE, ME)).look(NOW_US).runs
    after = SlurmWatcher(SITE, (), DropFolder(tmp_path, SITE, ME)).look(NOW_US).runs
    assert before == after
    assert [run.ended_us for run in before] == [None, (T0 + 99) * S + 700_000]


def test_b1_the_index_space_is_the_settings(tmp_path: Path) -> None:
    for order, held in (
        ("minor", ["minor:0", "minor:1"]),
        ("index", ["index:0", "index:1"]),
        (["/dev/nvidia4", "/dev/nvidia2"], ["minor:4", "minor:2"]),
    ):
        site = SlurmSite("gpu01", cluster="alpha", gres_index=order)
        for data in (drop_text(), scontrol_job().encode()):
            told = Told()
            told.documents.append(parse_document(data, site, NOW_US, "x"))
            assert refs(only(watch(told, site=site).look(NOW_US)).held) == held


def test_numbers_of_an_unknown_space_are_never_resolved() -> None:
    run = seen_one(prolog(held=(Held(DeviceRef(BY_UNKNOWN, "0")),)))
    assert [one.ref.by for one in run.held] == [BY_UNKNOWN]
    assert BY_UUID not in {one.ref.by for one in run.held}

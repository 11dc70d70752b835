"""The SLURM watcher: runs out of records of several sources, in every order in which they come."""

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from wattledger_agent.watchers.run import BY_MINOR, BY_UNKNOWN, BY_UUID, DeviceRef, Held, Run
from wattledger_agent.watchers.slurm import SlurmWatcher
from wattledger_agent.watchers.slurm_document import parse_document
from wattledger_agent.watchers.slurm_fact import ACCOUNTING, EPILOG, LIVE, PROLOG, Document, Fact, finding
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

ME = frozenset({os.geteuid()})
STAMP = (T0 + 60) * S
GPU0, GPU1 = Held(DeviceRef(BY_MINOR, "0")), Held(DeviceRef(BY_MINOR, "1"))
UUIDS = (Held(DeviceRef(BY_UUID, "GPU-a")), Held(DeviceRef(BY_UUID, "GPU-b")))


def prolog(at_us: int = STAMP + 200_000, **changed: object) -> Fact:
    usual = Fact(
        PROLOG, "123", at_us, "alpha", attempt=0, start_us=STAMP, held=(GPU0, GPU1), account="acme", user="ann",
        file="prolog-123-0-1",
    )  # fmt: skip
    return replace(usual, **changed)  # type: ignore[arg-type]


def epilog(at_us: int = STAMP + 3_600_700_000, **changed: object) -> Fact:
    return prolog(at_us, **{"kind": EPILOG, "file": "epilog-123-0-2", **changed})


def accounted(**changed: object) -> Fact:
    usual = Fact(
        ACCOUNTING, "123", NOW_US, "alpha", attempt=0, start_us=STAMP, end_us=STAMP + 3600 * S, state="COMPLETED",
        gpus=2, cpus=8, memory_bytes=64, account="acme", user="ann", plan="spot",
    )  # fmt: skip
    return replace(usual, **changed)  # type: ignore[arg-type]


def live(**changed: object) -> Fact:
    usual = Fact(
        LIVE, "123", NOW_US, attempt=0, start_us=STAMP, state="RUNNING", held=(GPU0, GPU1), gpus=2, cpus=8,
        account="acme", user="ann",
    )  # fmt: skip
    return replace(usual, **changed)  # type: ignore[arg-type]


def seen(*facts: Fact, site: SlurmSite = SITE, now_us: int = NOW_US) -> tuple[Run, ...]:
    """The runs of one look at all these facts."""
    told = Told()
    told.tell(*facts)
    return watch(told, site=site).look(now_us).runs


def seen_one(*facts: Fact, site: SlurmSite = SITE) -> Run:
    (run,) = seen(*facts, site=site)
    return run


def test_a_prolog_opens_a_run() -> None:
    run = seen_one(prolog(sluid="sEKNKTV3WPV500"))
    assert run == Run(
        "slurm", "alpha", "123", 0, STAMP + 200_000, (GPU0, GPU1), tenant="acme", project="acme", user="ann",
        owner_keys=("job_123", "sEKNKTV3WPV500"),
    )  # fmt: skip


def test_b6_processes_are_tied_by_both_layouts_of_cgroups() -> None:
    assert seen_one(prolog()).owner_keys == ("job_123",)
    assert seen_one(prolog(), accounted(sluid="sEK", end_us=None, state="RUNNING")).owner_keys == ("job_123", "sEK")


def test_an_epilog_ends_it_to_the_microsecond() -> None:
    run = seen_one(prolog(), epilog())
    assert (run.started_us, run.ended_us, run.released_us) == (STAMP + 200_000, STAMP + 3_600_700_000, None)


def test_a_job_of_400_ms_is_seen_with_both_ends() -> None:
    run = seen_one(prolog(STAMP + 100_000), epilog(STAMP + 500_000))
    assert (run.ended_us or 0) - run.started_us == 400_000
    of_no_length = accounted(end_us=STAMP)
    run = seen_one(prolog(STAMP + 100_000), epilog(STAMP + 500_000), of_no_length)
    assert ((run.ended_us or 0) - run.started_us, run.outcome) == (400_000, "COMPLETED")
    assert seen_one(prolog(STAMP + 100_000), of_no_length).ended_us is None


@pytest.mark.parametrize(
    ("case", "facts", "started_us", "ended_us", "released_us"),
    [
        ("late prolog: held since the scheduler's start", [prolog(STAMP + 90 * S)], STAMP, None, None),
        ("no prolog", [epilog(STAMP + 50 * S)], STAMP, STAMP + 50 * S, None),
        ("a prolog that does not know the start", [prolog(start_us=None)], STAMP + 200_000, None, None),
        ("a node's clock behind the controller's", [prolog(STAMP - 3 * S)], STAMP - 3 * S, None, None),
        ("accounting alone", [accounted()], STAMP, STAMP + 3600 * S, None),
        ("the same end, seen finer here", [prolog(), epilog(STAMP + 3600 * S + 900_000), accounted()],
         STAMP + 200_000, STAMP + 3600 * S + 900_000, None),
        ("an epilog that took long: ended then, free later", [prolog(), epilog(STAMP + 3700 * S), accounted()],
         STAMP + 200_000, STAMP + 3600 * S, STAMP + 3700 * S),
        ("an epilog before the job's end elsewhere", [prolog(), epilog(STAMP + 3000 * S), accounted()],
         STAMP + 200_000, STAMP + 3000 * S, None),
    ],
)  # fmt: skip
def test_when_a_run_holds_its_devices(
    case: str, facts: list[Fact], started_us: int, ended_us: int | None, released_us: int | None
) -> None:
    run = seen_one(*facts)
    assert (run.started_us, run.ended_us, run.released_us) == (started_us, ended_us, released_us), case


def test_an_epilog_without_any_start_waits_and_is_told_then() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(epilog(NOW_US - S, start_us=None))
    assert watcher.look(NOW_US).runs == ()
    told.tell(accounted(end_us=None, state="RUNNING", start_us=STAMP))
    assert only(watcher.look(NOW_US + S)).started_us == STAMP

    watcher = watch(told)
    told.tell(epilog(NOW_US - S, start_us=None, job="9"))
    assert watcher.look(NOW_US).findings == ()
    sighting = watcher.look(NOW_US + 60 * S)
    assert [one.reason for one in sighting.findings] == ["start_unknown"]
    assert watcher.look(NOW_US + 70 * S).findings == ()


def test_a_completing_job_has_stopped_and_holds_on() -> None:
    run = seen_one(prolog(), live(state="COMPLETING", stop_us=STAMP + 100 * S))
    assert (run.stop_requested_us, run.ended_us) == (STAMP + 100 * S, None)
    run = seen_one(prolog(), live(state="COMPLETING", stop_us=STAMP + 100 * S), epilog(STAMP + 130 * S))
    assert (run.ended_us, run.released_us) == (STAMP + 100 * S, STAMP + 130 * S)


@pytest.mark.parametrize(
    "state", ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "REQUEUED"]
)
def test_an_ended_run_has_the_schedulers_word_for_how(state: str) -> None:
    assert seen_one(prolog(), epilog(), accounted(state=state)).outcome == state
    assert seen_one(accounted(state=state)).outcome == state


def test_a20_suspension_is_what_holds_now() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(prolog(), live(state="SUSPENDED"))
    assert only(watcher.look(NOW_US)).is_suspended
    told.tell(live(state="RUNNING", at_us=NOW_US + S))
    assert not only(watcher.look(NOW_US + S)).is_suspended
    told.tell(live(state="SUSPENDED", at_us=NOW_US + 2 * S))
    told.tell(epilog(NOW_US + 3 * S))
    assert not only(watcher.look(NOW_US + 4 * S)).is_suspended


def test_an_old_file_does_not_undo_what_a_newer_one_said() -> None:
    told = Told()
    watcher = watch(told)
    told.tell(live(state="RUNNING", at_us=NOW_US))
    told.tell(live(state="SUSPENDED", at_us=NOW_US - S))
    assert not only(watcher.look(NOW_US)).is_suspended


@pytest.mark.parametrize(
    ("case", "facts", "held"),
    [
        ("what the node saw", [prolog(), live(held=None)], ["minor:0", "minor:1"]),
        ("B4 a UUID before a position", [prolog(held=UUIDS), live()], ["uuid:GPU-a", "uuid:GPU-b"]),
        ("the controller where no prolog ran", [live(), accounted(end_us=None)], ["minor:0", "minor:1"]),
        ("shards before whole cards", [prolog(), live(held=(Held(GPU0.ref, 2, 8, "time_sliced"),))], ["minor:0"]),
        ("B8 MIG instances by UUID", [prolog(held=UUIDS), live(gpu_kind="a100_1g.5gb")], ["uuid:GPU-a", "uuid:GPU-b"]),
        ("a count alone", [accounted()], ["unknown:gpu:any#0", "unknown:gpu:any#1"]),
        ("A10 nothing said is not none", [accounted(gpus=None)], ["unknown:gpu:any#0"]),
        ("said to be none", [accounted(gpus=0)], []),
        ("B13 held without a process: a hold all the same", [prolog()], ["minor:0", "minor:1"]),
        ("a job without GPUs", [prolog(held=())], []),
        ("a count where the node saw no device", [prolog(held=()), accounted(gpu_kind="a100")],
         ["unknown:gpu:a100#0", "unknown:gpu:a100#1"]),
        ("B11 positions of MIG instances", [prolog(), accounted(gpu_kind="a100_1g.5gb")],
         ["unknown:gres:a100_1g.5gb#0", "unknown:gres:a100_1g.5gb#1"]),
        ("a resize that the controller shows", [prolog(), live(held=(GPU1,))], ["minor:1"]),
    ],
)  # fmt: skip
def test_which_devices_a_run_holds(case: str, facts: list[Fact], held: list[str]) -> None:
    assert refs(seen_one(*facts).held) == held, case


def test_shards_of_cards_known_by_uuid_are_parts_of_those_cards() -> None:
    parts = (Held(GPU0.ref, 2, 8, "time_sliced"), Held(GPU1.ref, 1, 8, "time_sliced"))
    held = seen_one(prolog(held=UUIDS), live(held=parts)).held
    assert refs(held) == ["uuid:GPU-a", "uuid:GPU-b"]
    assert [(one.share_num, one.share_den, one.sharing) for one in held] == [
        (2, 8, "time_sliced"),
        (1, 8, "time_sliced"),
    ]


def test_cpus_and_memory_of_the_node_are_spread_over_what_is_held() -> None:
    run = seen_one(prolog(), live(cpus=9, memory_bytes=101))
    assert [(one.cpus, one.memory_bytes) for one in run.held] == [(4, 50), (5, 51)]


def test_account_tags_plan_and_profile() -> None:
    run = seen_one(prolog(tenant_tag="lab7", model_tag="llama"), accounted(requested_profile="3g.20gb"))
    assert (run.tenant, run.project, run.model_tag, run.plan) == ("lab7", "acme", "llama", "spot")
    assert run.requested_profile == "3g.20gb"
    assert seen_one(prolog(exclusive=True)).exclusive


def test_a34_two_jobs_on_one_gpu_are_both_reported() -> None:
    first, second = seen(prolog(), prolog(job="124", file="prolog-124-0-1"))
    assert first.held == second.held
    assert {first.job, second.job} == {"123", "124"}


def test_a13_a18_requeues_are_runs_of_their_own() -> None:
    spans = [(0, 3889, "REQUEUED"), (10_000, 4473, "REQUEUED"), (20_000, 6122, "REQUEUED"), (30_000, 2153, "REQUEUED"),
             (40_000, 7200, "COMPLETED")]  # fmt: skip
    base = NOW_US - 90_000 * S
    facts = [
        accounted(attempt=None, start_us=base + at * S, end_us=base + (at + length) * S, state=state)
        for at, length, state in spans
    ]
    random.Random(5).shuffle(facts)
    runs = seen(*facts)
    assert [run.attempt for run in runs] == [0, 1, 2, 3, 4]
    lengths = [((run.ended_us or 0) - run.started_us) // S for run in runs]
    assert (lengths, sum(lengths[:4])) == ([3889, 4473, 6122, 2153, 7200], 16_637)
    assert [run.outcome for run in runs] == ["REQUEUED"] * 4 + ["COMPLETED"]


def test_a_requeue_by_prolog_and_epilog() -> None:
    again = prolog(STAMP + 7200 * S, attempt=1, start_us=STAMP + 7200 * S, file="prolog-123-1-1")
    first, second = seen(prolog(), epilog(), again)
    assert (first.attempt, first.ended_us, second.attempt, second.ended_us) == (0, STAMP + 3_600_700_000, 1, None)


def test_a_run_that_has_a_successor_has_ended() -> None:
    again = prolog(STAMP + 7200 * S, attempt=1, start_us=STAMP + 7200 * S)
    first, second = seen(prolog(), again)
    assert (first.ended_us, second.ended_us) == (STAMP + 7200 * S, None)


def test_an_id_that_is_used_again_is_another_run() -> None:
    day_us = 86_400 * S
    first, second = seen(
        accounted(start_us=STAMP - day_us, end_us=STAMP - day_us + S), accounted(end_us=None, state="RUNNING")
    )
    assert (first.attempt, second.attempt) == (0, 1)


def test_a15_a_node_failure_is_one_run() -> None:
    run = seen_one(prolog(), accounted(end_us=STAMP + 1232 * S, state="NODE_FAIL"))
    assert (run.ended_us, run.outcome) == (STAMP + 1232 * S, "NODE_FAIL")


@pytest.mark.parametrize(
    "double",
    [
        accounted(end_us=STAMP, state="REQUEUED"),
        accounted(end_us=STAMP, state="REQUEUED", attempt=None),
        accounted(end_us=None, state="RUNNING"),
    ],
)
def test_a33_an_extra_record_of_the_same_run_changes_nothing(double: Fact) -> None:
    for facts in ([accounted(), double], [double, accounted()]):
        run = seen_one(*facts)
        assert (run.started_us, run.ended_us, run.outcome) == (STAMP, STAMP + 3600 * S, "COMPLETED")
    assert seen(accounted(end_us=STAMP)) == ()
    run = seen_one(accounted(), accounted(end_us=STAMP, state="REQUEUED", at_us=NOW_US + S))
    assert (run.ended_us, run.outcome) == (STAMP + 3600 * S, "COMPLETED")


def test_a33_what_runs_for_ever_in_accounting_did_not_outlive_a_reboot() -> None:
    told = Told()
    watcher = watch(told, booted_us=STAMP + 500 * S)
    told.tell(accounted(end_us=None, state="RUNNING"))
    assert only(watcher.look(NOW_US)).ended_us == STAMP + 500 * S


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

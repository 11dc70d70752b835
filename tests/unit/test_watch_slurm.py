"""The SLURM watcher: one run out of what several sources say of it."""

import random

import pytest
from wattledger_agent.watchers.run import Held, Run
from wattledger_agent.watchers.slurm_fact import Fact

from tests.slurm_watch_case import (
    NOW_US,
    S,
    Told,
    only,
    refs,
    watch,
)
from tests.slurm_watch_facts import GPU0, GPU1, STAMP, UUIDS, accounted, epilog, live, prolog, seen, seen_one


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

"""Sources that contradict one another: named once, and again when it changes; what each said stays said."""

from dataclasses import replace

import pytest
from wattledger_agent.probes.device import Inventory
from wattledger_agent.run_conflict import Use
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_UUID, DeviceRef, Held

from tests.run_sightings import CARD, MIG_CARD, S, Told, held, run

MIG = Inventory((MIG_CARD,))


def part(num: int, den: int) -> tuple[Held, ...]:
    return (Held(DeviceRef(BY_UUID, CARD), num, den, "time_sliced"),)


def mig(uuid: str, num: int | None = None, den: int | None = None) -> tuple[Held, ...]:
    return (Held(DeviceRef(BY_MIG_UUID, uuid), num, den, "exclusive" if num is None else "time_sliced"),)


def reasons(told: Told) -> list[str]:
    return [finding.reason for finding in told.findings]


def use(told: Told, at: int, *uses: Use) -> list[tuple[str, str]]:
    return [(f.reason, f.detail) for f in told.book.observe_use(uses, at * S).findings]


def somebody(job: str | None, device: str = CARD, instance: str = "", label: str = "a process of uid 5") -> Use:
    return Use(
        device, instance, None if job is None else ("c1", job), label if job is None else f"a process of c1/{job}"
    )


def test_two_sources_that_both_give_one_card_away_disagree_and_both_claims_are_said() -> None:
    told = Told()
    first = told(10, [run("1", 8)])
    second = told.snapshot(11, [run("abc", 9, source="containers")], source="containers")
    assert [e["claims"][0]["device"] for e in first + second] == [CARD, CARD]
    (finding,) = told.findings
    assert finding.reason == "watchers_disagree"
    assert "slurm c1/1" in finding.detail and "containers c1/abc" in finding.detail and CARD in finding.detail
    told(20, [run("1", 8)])
    told.restart()
    told.snapshot(21, [run("abc", 9, source="containers")], source="containers")
    assert len(told.findings) == 1


def test_a_contradiction_that_changes_or_comes_again_is_told_again() -> None:
    told = Told()
    told(10, [run("1", 8), run("2", 8)])
    told(20, [run("1", 8), run("2", 8, hold=part(1, 2))])
    assert len(told.findings) == 2
    told(30, [run("1", 8), run("2", 8, hold=held("GPU-1"))])
    assert len(told.findings) == 2
    told(40, [run("1", 8), run("2", 8, hold=part(1, 2))])
    assert len(told.findings) == 3


def test_c7_a_pod_that_was_force_deleted_overlaps_its_successor_for_two_seconds() -> None:
    told = Told()
    told(10, [run("old", 1)], source="kubernetes")
    events = told(13, [run("old", 1, ended=12), run("new", 10)], source="kubernetes")
    events += told(14, [run("new", 10)], source="kubernetes")
    assert [(e["kind"], e["job"], e["at_us"] // S) for e in events] == [("start", "new", 10), ("end", "old", 12)]
    told(20, [run("newer", 19), run("new", 10)], source="kubernetes")
    assert reasons(told) == ["watchers_disagree"]


@pytest.mark.parametrize(
    ("shares", "count"),
    [([(1, 2), (1, 2)], 0), ([(1, 4)] * 4, 0), ([(1, 1), (1, 4)], 1), ([(2, 3), (1, 2)], 1), ([(1, 4)] * 5, 1)],
)
def test_shares_that_fit_are_no_contradiction(shares: list[tuple[int, int]], count: int) -> None:
    told = Told()
    told(10, [run(str(n), 8, hold=part(*share)) for n, share in enumerate(shares)])
    assert reasons(told) == ["watchers_disagree"] * count


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        (mig("MIG-3"), mig("MIG-1"), 0),
        (mig("MIG-3"), mig("MIG-3"), 1),
        (mig("MIG-3", 1, 2), mig("MIG-3", 1, 2), 0),
        (mig("MIG-3"), held("GPU-M"), 1),
    ],
)
def test_b12_instances_of_one_card_don_t_contradict_but_one_instance_given_twice_does(
    first: tuple[Held, ...], second: tuple[Held, ...], count: int
) -> None:
    told = Told(MIG)
    told(10, [run("1", 8, hold=first), run("2", 8, hold=second)])
    assert reasons(told) == ["watchers_disagree"] * count


def test_attempts_of_one_job_and_suspended_jobs_don_t_contradict() -> None:
    told = Told()
    told(10, [run("1", 8, suspended=True), run("2", 9)])
    told(20, [run("1", 8, suspended=True), run("2", 9), run("2", 12, source="other")])
    assert told.findings == []


def test_processes_of_one_job_on_another_s_card_are_a_contradiction_once_it_lasts() -> None:
    told = Told()
    told(10, [run("1", 8), run("2", 8, device="GPU-1")])
    stranger = somebody("2")
    assert use(told, 10, somebody("1"), stranger) == []
    assert use(told, 39, somebody("1"), stranger) == []
    ((reason, detail),) = use(told, 40, somebody("1"), stranger)
    assert reason == "watchers_disagree"
    assert "slurm c1/1 holds 1/1 of GPU-0" in detail and "c1/2 is on GPU-0" in detail
    assert use(told, 41, stranger) == []
    told.restart()
    assert use(told, 100, stranger) == []


def test_a_process_that_comes_a_little_before_its_run_is_known_is_no_finding() -> None:
    told = Told()
    assert use(told, 10, somebody("1")) == []
    told(20, [run("1", 8)])
    assert use(told, 60, somebody("1")) == []


def test_kubernetes_and_the_cgroup_differ() -> None:
    told = Told()
    told(10, [run("pod-a", 8, source="kubernetes")], source="kubernetes")
    stranger = Use(CARD, "", None, "a process of Kubernetes pod 1f0c")
    use(told, 10, stranger)
    ((reason, detail),) = use(told, 50, stranger)
    assert reason == "watchers_disagree"
    assert "kubernetes c1/pod-a" in detail and "Kubernetes pod 1f0c" in detail


def test_c10_use_of_a_device_that_nobody_holds_is_an_alarm_of_its_own() -> None:
    told = Told()
    told(10, [run("1", 8, device="GPU-1")])
    alone = [somebody(None), somebody("1")]
    use(told, 10, *alone)
    found = use(told, 50, *alone)
    assert [reason for reason, _ in found] == ["use_without_allocation"] * 2
    assert "a process of c1/1 is on GPU-0, which nobody holds" in found[0][1]
    assert "uid 5" in found[1][1]


def test_b43_a_card_that_is_held_and_not_used_is_no_contradiction() -> None:
    told = Told()
    told(10, [run("1", 8)])
    use(told, 10)
    assert use(told, 700) == []


def test_use_of_an_instance_is_judged_by_who_holds_that_instance() -> None:
    told = Told(MIG)
    told(10, [run("1", 8, hold=mig("MIG-3"))])
    uses = [somebody("1", "GPU-M", "2"), somebody("1", "GPU-M", "9"), somebody(None, "GPU-M", "")]
    use(told, 10, *uses)
    assert [reason for reason, _ in use(told, 50, *uses)] == ["use_without_allocation", "watchers_disagree"]


def test_use_that_comes_and_goes_has_to_last_again_and_is_not_told_twice_within_the_hour() -> None:
    told = Told()
    use(told, 10, somebody(None))
    use(told, 20)
    assert use(told, 41, somebody(None)) == []
    assert len(use(told, 71, somebody(None))) == 1
    use(told, 72)
    use(told, 80, somebody(None))
    assert use(told, 200, somebody(None)) == []
    use(told, 4000)
    use(told, 4001, somebody(None))
    assert len(use(told, 4031, somebody(None))) == 1


def test_a_run_that_is_stopped_holds_until_its_end() -> None:
    told = Told()
    told(10, [replace(run("1", 8), stop_requested_us=9 * S)])
    use(told, 10, somebody("1"))
    assert use(told, 50, somebody("1")) == []

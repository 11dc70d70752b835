"""What sightings make the run book say: one case a kind. Downstream's reading of it is asked of the real sessions."""

from dataclasses import replace
from typing import Any

import pytest
from wattledger_agent.probes.device import Inventory, MigInstance
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_MINOR, DeviceRef, Held

from tests.run_sightings import CARD, CARDS, MIG_CARD, S, Told, held, run, sessions


def kinds(events: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(e["kind"], e["job"], e["at_us"] // S) for e in events]


def claims(event: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    return [(c["device"], c["gpu_instance"], c["share_num"], c["share_den"]) for c in event["claims"]]


def test_a_run_starts_once_and_ends_once() -> None:
    told = Told()
    assert kinds(told(10, [run("1", 8)])) == [("start", "1", 8)]
    assert told(20, [run("1", 8)]) == []
    assert kinds(told(30, [run("1", 8, ended=25, outcome="COMPLETED")])) == [("end", "1", 25)]
    assert told(40, [run("1", 8, ended=25, outcome="COMPLETED")]) == []
    assert told(50, []) == []


def test_an_event_has_the_whole_wire_shape() -> None:
    full = run("1", 8, tenant="acme", project="p", user="ada", model_tag="m", plan="spot", requested_profile="full")
    (start,) = Told()(10, [replace(full, exclusive=True)])
    assert start.pop("event_id").startswith("9999-")
    assert start == {
        "kind": "start", "at_us": 8 * S, "cluster": "c1", "job": "1", "attempt": 0, "tenant": "acme", "project": "p",
        "user": "ada", "model_tag": "m", "plan": "spot", "sku": "", "requested_profile": "full", "exclusive": True,
        "outcome": "", "source": "slurm", "node": "n1",
        "claims": [
            {
                "node": "n1", "device": CARD, "gpu_instance": "", "share_num": 1, "share_den": 1,
                "delivered_profile": "full", "cpus": None, "memory_bytes": None, "storage_bytes": None,
            }
        ],
    }  # fmt: skip


def test_events_encode_as_job_events_and_sessions_take_them() -> None:
    told = Told()
    events = told(10, [run("1", 8)]) + told(20, [run("1", 8, ended=15, outcome="FAILED")])
    (allocation,) = sessions(events)
    assert (allocation.start_us, allocation.end_us, allocation.outcome) == (8 * S, 15 * S, "FAILED")
    assert (allocation.node, allocation.device, allocation.job) == ("n1", CARD, "1")


def test_a_run_of_0_4_s_starts_and_ends_in_one_sighting() -> None:
    short = replace(run("1", 8), ended_us=8 * S + 400_000, outcome="COMPLETED")
    events = Told()(10, [short])
    assert [(e["kind"], e["at_us"]) for e in events] == [("start", 8 * S), ("end", 8 * S + 400_000)]
    (allocation,) = sessions(events)
    assert allocation.end_us is not None
    assert allocation.end_us - allocation.start_us == 400_000


def test_what_a_snapshot_no_longer_has_ended_at_that_look() -> None:
    told = Told()
    told.snapshot(10, [run("1", 8), run("2", 9, device="GPU-1")])
    events = told.snapshot(20, [run("2", 9, device="GPU-1")])
    assert kinds(events) == [("end", "1", 20)]
    assert events[0]["outcome"] == "no_longer_seen"
    assert kinds(told.snapshot(30, [])) == [("end", "2", 30)]


def test_without_a_snapshot_absence_ends_nothing() -> None:
    told = Told()
    told(10, [run("1", 8)])
    assert told(20, []) == []
    assert told.retry(4000) == []


def test_a_snapshot_of_one_source_ends_nothing_of_another() -> None:
    told = Told()
    told(10, [run("1", 8)])
    assert told.snapshot(20, [], source="containers") == []


def test_a_restart_repeats_nothing_and_forgets_nothing() -> None:
    told = Told()
    told.snapshot(10, [run("1", 8), run("2", 8, device="GPU-1")])
    told.restart()
    assert told.snapshot(20, [run("1", 8), run("2", 8, device="GPU-1")]) == []
    told.restart()
    assert kinds(told.snapshot(30, [run("2", 8, device="GPU-1")])) == [("end", "1", 30)]


def test_without_its_state_the_same_sightings_give_the_same_ids() -> None:
    sightings = [(10, [run("1", 8)]), (20, [run("1", 8, suspended=True)]), (30, [run("1", 8, ended=25)])]
    first, second = Told(), Told()
    events = [event for one in sightings for event in first(*one)]
    assert [event for one in sightings for event in second(*one)] == events
    assert len({event["event_id"] for event in events}) == len(events) == 3


def test_suspend_and_resume_are_said_when_they_are_seen() -> None:
    told = Told()
    events = told(10, [run("1", 8)]) + told(20, [run("1", 8, suspended=True)]) + told(30, [run("1", 8, suspended=True)])
    events += told(40, [run("1", 8)]) + told(50, [run("1", 8, ended=45)])
    assert [(kind, at) for kind, _, at in kinds(events)] == [
        ("start", 8), ("suspend", 20), ("resume", 40), ("end", 45),
    ]  # fmt: skip
    assert [(a.start_us // S, (a.end_us or 0) // S) for a in sessions(events)] == [(8, 20), (40, 45)]


def test_a_run_that_is_first_seen_suspended_says_so() -> None:
    assert kinds(Told()(10, [run("1", 8, suspended=True)])) == [("start", "1", 8), ("suspend", "1", 10)]


def test_stop_requested_comes_before_the_end_and_released_after() -> None:
    told = Told()
    told(10, [run("1", 8)])
    stopping = replace(run("1", 8), stop_requested_us=15 * S)
    assert kinds(told(20, [stopping])) == [("stop_requested", "1", 15)]
    done = replace(stopping, ended_us=25 * S)
    assert kinds(told(30, [done])) == [("end", "1", 25)]
    assert kinds(told(40, [replace(done, released_us=33 * S)])) == [("released", "1", 33)]
    assert told(50, [replace(done, released_us=33 * S)]) == []


def test_an_outcome_that_accounting_tells_after_the_end_is_said_and_sessions_fill_it_in() -> None:
    told = Told()
    events = told(10, [run("1", 8)]) + told(30, [run("1", 8, ended=25)])
    told.restart()
    late = told(40, [run("1", 8, ended=25, outcome="TIMEOUT")])
    assert [(e["kind"], e["at_us"] // S, e["outcome"]) for e in late] == [("end", 25, "TIMEOUT")]
    assert told(50, [run("1", 8, ended=25, outcome="TIMEOUT")]) == []
    for order in (events + late, late + events):
        [held_by_it] = sessions(order)
        assert (held_by_it.end_us, held_by_it.outcome) == (25 * S, "TIMEOUT")


def test_stop_end_and_release_in_one_sighting_are_in_order() -> None:
    done = replace(run("1", 8, ended=25), stop_requested_us=20 * S, released_us=26 * S)
    assert [(kind, at) for kind, _, at in kinds(Told()(30, [done]))] == [
        ("start", 8), ("stop_requested", 20), ("end", 25), ("released", 26),
    ]  # fmt: skip


def test_other_holds_are_a_resize() -> None:
    told = Told()
    told(10, [run("1", 8)])
    (resize,) = told(20, [run("1", 8, hold=held("GPU-0", "GPU-1"))])
    assert (resize["kind"], resize["at_us"]) == ("resize", 20 * S)
    assert claims(resize) == [("GPU-0", "", 1, 1), ("GPU-1", "", 1, 1)]
    (less,) = told(30, [run("1", 8, hold=())])
    assert (less["kind"], less["claims"]) == ("resize", [])
    assert kinds(told(40, [run("1", 8, hold=held("GPU-1"))])) == [("resize", "1", 40)]


def test_another_share_is_a_resize() -> None:
    told = Told()
    told(10, [run("1", 8)])
    half = (Held(DeviceRef("uuid", CARD), 1, 2, "time_sliced"),)
    assert [claims(e) for e in told(20, [run("1", 8, hold=half)])] == [[(CARD, "", 1, 2)]]


def test_two_resizes_of_one_instant_are_two_events_and_the_later_counts() -> None:
    told = Told(wait_s=10)
    unknown = held("GPU-0", "GPU-9")
    assert told(10, [run("1", 8, hold=unknown)]) == []
    partly = told(25, [run("1", 8, hold=unknown)])
    assert [claims(e) for e in partly] == [[("GPU-0", "", 1, 1)]]
    card = replace(CARDS.devices[1], device="GPU-9", index=9, minor=9)
    told.inventory = Inventory((*CARDS.devices, card))
    (late,) = told(30, [run("1", 8, hold=unknown)])
    assert (late["kind"], late["at_us"], claims(late)) == ("resize", 8 * S, [("GPU-0", "", 1, 1), ("GPU-9", "", 1, 1)])
    assert {a.device for a in sessions([*partly, late])} == {"GPU-0", "GPU-9"}


def test_a_mig_reconfiguration_under_a_run_is_a_resize() -> None:
    told = Told(Inventory((MIG_CARD,)))
    mig = (Held(DeviceRef(BY_MIG_UUID, "MIG-3")),)
    (start,) = told(10, [run("1", 8, hold=mig)])
    assert claims(start) == [("GPU-M", "2", 3, 7)]
    assert start["claims"][0]["delivered_profile"] == "3g.40gb"
    told.inventory = Inventory((replace(MIG_CARD, instances=(MigInstance("1", "MIG-3", "4g.40gb", 4),)),))
    (resize,) = told(20, [run("1", 8, hold=mig)])
    assert (resize["kind"], claims(resize)) == ("resize", [("GPU-M", "1", 4, 7)])


def test_uuids_that_change_places_at_a_reboot_are_resolved_anew() -> None:
    told = Told()
    by_minor = (Held(DeviceRef(BY_MINOR, "0")),)
    assert claims(told(10, [run("1", 8, hold=by_minor)])[0]) == [("GPU-0", "", 1, 1)]
    first, second = CARDS.devices
    told.inventory = Inventory((replace(first, minor=1), replace(second, minor=0)))
    (end,) = told.boot("boot-2")
    assert (end["kind"], end["at_us"], end["outcome"]) == ("end", 10 * S, "agent_rebooted")
    assert claims(told(100, [run("2", 95, hold=by_minor)])[0]) == [("GPU-1", "", 1, 1)]


def test_minors_that_change_places_under_a_run_are_a_resize() -> None:
    told = Told()
    by_minor = (Held(DeviceRef(BY_MINOR, "0")),)
    told(10, [run("1", 8, hold=by_minor)])
    first, second = CARDS.devices
    told.inventory = Inventory((replace(first, minor=1), replace(second, minor=0)))
    (resize,) = told(20, [run("1", 8, hold=by_minor)])
    assert (resize["kind"], resize["at_us"], claims(resize)) == ("resize", 20 * S, [("GPU-1", "", 1, 1)])


def test_a_held_device_that_is_gone_counts_as_held_and_is_told_once() -> None:
    told = Told()
    told(10, [run("1", 8)])
    told.inventory = Inventory((CARDS.devices[1],))
    assert told(20, [run("1", 8)]) == []
    assert [finding.reason for finding in told.findings] == ["held_device_gone"]
    told.inventory = Inventory()
    assert told(30, [run("1", 8)]) == []
    told.inventory = CARDS
    assert told(40, [run("1", 8)]) == []
    assert len(told.findings) == 1


def test_a_requeue_ends_the_attempt_and_the_next_one_starts() -> None:
    told = Told()
    told(10, [run("1", 8)])
    events = told(30, [run("1", 8, ended=20, outcome="REQUEUED"), run("1", 25, attempt=1)])
    assert [(e["kind"], e["attempt"], e["at_us"] // S, e["outcome"]) for e in events] == [
        ("requeue", 0, 20, "REQUEUED"), ("start", 1, 25, ""),
    ]  # fmt: skip


def test_a_next_attempt_ends_the_one_before_if_nobody_said_so() -> None:
    told = Told()
    told(10, [run("1", 8)])
    events = told(30, [run("1", 25, attempt=1)])
    assert [(e["kind"], e["attempt"], e["at_us"] // S) for e in events] == [("requeue", 0, 25), ("start", 1, 25)]
    for second in range(40, 45):
        assert told(second, [run("1", 8), run("1", 25, attempt=1)]) == []
    assert [finding.reason for finding in told.findings] == ["open_after_end"]


def test_a_job_that_starts_again_under_the_same_attempt_gets_the_next_number() -> None:
    told = Told()
    told(10, [run("1", 8, ended=9)])
    events = told(20, [run("1", 15)])
    assert [(e["kind"], e["attempt"], e["at_us"] // S) for e in events] == [("start", 1, 15)]
    assert [(e["kind"], e["attempt"]) for e in told(30, [run("1", 8, ended=9), run("1", 15, ended=28)])] == [("end", 1)]
    later = told(40, [run("1", 35, attempt=1)])
    assert [(e["kind"], e["attempt"]) for e in later] == [("start", 2)]


def test_a_run_that_a_snapshot_lacked_once_comes_back_as_the_next_attempt() -> None:
    told = Told()
    events = told.snapshot(10, [run("1", 8)]) + told.snapshot(20, []) + told.snapshot(30, [run("1", 8)])
    events += told.snapshot(40, [])
    assert [(e["kind"], e["attempt"], e["at_us"] // S) for e in events] == [
        ("start", 0, 8), ("end", 0, 20), ("start", 1, 30), ("end", 1, 40),
    ]  # fmt: skip
    assert [finding.reason for finding in told.findings] == ["run_came_back"]
    assert [(a.start_us // S, (a.end_us or 0) // S) for a in sessions(events)] == [(8, 20), (30, 40)]


def test_a_sighting_that_is_older_than_the_last_ends_nothing_and_reopens_nothing() -> None:
    told = Told()
    told.snapshot(10, [run("1", 8)])
    told.snapshot(20, [run("2", 15, device="GPU-1")])
    assert told.snapshot(10, [run("1", 8)]) == []
    assert told.snapshot(20, [run("2", 15, device="GPU-1")]) == []
    assert kinds(told.snapshot(15, [run("3", 12, ended=14)])) == [("start", "3", 12), ("end", "3", 14)]


def test_after_the_clock_was_set_back_sightings_are_news_again() -> None:
    told = Told()
    told.snapshot(5000, [run("1", 8)])
    told.restart()
    told.book.follow_clock("slurm", 1400 * S)
    assert kinds(told.snapshot(1400, [])) == [("end", "1", 1400)]
    told.book.follow_clock("slurm", 1400 * S)
    assert told.snapshot(1400, [run("1", 8)]) == [], "the same look again is no news"


def test_a_reboot_ends_what_was_open_when_it_was_last_seen() -> None:
    told = Told()
    told(10, [run("1", 8)])
    told.snapshot(14, [run("p", 8, source="processes", device="GPU-1")], source="processes")
    told(20, [run("1", 8), run("2", 12, ended=13)])
    assert told.boot("boot-1") == []
    told.restart()
    ends = told.boot("boot-2")
    assert [(e["job"], e["at_us"] // S, e["outcome"]) for e in ends] == [
        ("p", 14, "agent_rebooted"), ("1", 20, "agent_rebooted"),
    ]  # fmt: skip
    told.restart()
    assert told.boot("boot-2") == []
    assert told(30, [run("1", 8)]) == []
    told.restart()
    assert told(35, [run("1", 8)]) == []
    assert told(40, [run("1", 8, ended=21, outcome="NODE_FAIL")]) == []
    assert [finding.reason for finding in told.findings] == ["open_after_end"]


def test_a_reboot_ends_runs_at_the_last_tick_where_that_is_later() -> None:
    told = Told()
    told(10, [run("1", 8)])
    assert kinds(told.boot("boot-2", last_alive=17)) == [("end", "1", 17)]


def test_a_restart_of_the_agent_alone_ends_nothing() -> None:
    told = Told()
    told(10, [run("1", 8)])
    told.restart()
    assert told.boot("boot-1") == []
    assert told.boot("") == []


def test_a_tenant_that_is_known_later_is_said_as_the_start_again_and_wins_downstream() -> None:
    told = Told()
    events = told(10, [run("1", 8)]) + told(20, [run("1", 8, hold=held("GPU-1"))])
    for tenant in ("acme", "globex"):
        (again,) = told(30 if tenant == "acme" else 40, [run("1", 8, hold=held("GPU-1"), tenant=tenant)])
        assert (again["kind"], again["at_us"], again["tenant"]) == ("start", 8 * S, tenant)
        assert claims(again) == [("GPU-0", "", 1, 1)]
        events.append(again)
    events += told(50, [run("1", 8, ended=45, hold=held("GPU-1"), tenant="globex")])
    assert len({e["event_id"] for e in events}) == len(events)
    for order in (events, events[::-1]):
        found = sessions(order)
        assert [(a.device, a.start_us // S, (a.end_us or 0) // S, a.tenant, a.marks) for a in found] == [
            ("GPU-0", 8, 20, "globex", ("resized",)), ("GPU-1", 20, 45, "globex", ()),
        ]  # fmt: skip


def test_a_fact_that_a_source_no_longer_tells_is_kept() -> None:
    told = Told()
    told(10, [run("1", 8, tenant="acme")])
    assert told(20, [run("1", 8)]) == []
    assert [e["tenant"] for e in told(30, [run("1", 8, ended=25)])] == ["acme"]


def test_the_end_of_an_attempt_is_not_before_its_start() -> None:
    events = Told()(10, [run("1", 8, ended=5, outcome="CANCELLED")])
    assert [(kind, at) for kind, _, at in kinds(events)] == [("start", 8), ("end", 8)]


def test_an_end_that_lies_ahead_is_a_plan() -> None:
    told = Told()
    assert kinds(told(10, [run("1", 8, ended=90_000)])) == [("start", "1", 8)]
    assert [finding.reason for finding in told.findings] == ["end_in_future"]
    assert kinds(told(20, [run("1", 8, ended=18)])) == [("end", "1", 18)]


@pytest.mark.parametrize("started_us", [0, -1, 90_000 * S])
def test_a_start_that_nobody_knows_is_the_first_look_and_a_finding(started_us: int) -> None:
    told = Told()
    assert kinds(told(10, [replace(run("1", 8), started_us=started_us)])) == [("start", "1", 10)]
    assert [finding.reason for finding in told.findings] == ["start_unknown"]


def test_a_run_that_is_listed_twice_counts_once() -> None:
    told = Told()
    assert kinds(told(10, [run("1", 8), run("1", 8, hold=held("GPU-1"))])) == [("start", "1", 8)]
    assert told(20, [run("1", 8), run("1", 8, hold=held("GPU-1"))]) == []
    assert [finding.reason for finding in told.findings] == ["run_repeated"]

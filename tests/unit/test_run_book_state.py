"""What the run book keeps: runs that wait for a device, its state over a restart, and what it tells others."""

from dataclasses import replace
from typing import Any

import pytest
from wattledger_agent.probes.device import Inventory
from wattledger_agent.run_book import BadRunBook, RunBook
from wattledger_agent.watchers.run import BY_UNKNOWN, DeviceRef, Held, Run

from tests.run_sightings import CARDS, S, Told, held, run


def kinds(events: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(e["kind"], e["job"], e["at_us"] // S) for e in events]


def claims(event: dict[str, Any]) -> list[tuple[str, str, int, int]]:
    return [(c["device"], c["gpu_instance"], c["share_num"], c["share_den"]) for c in event["claims"]]


def test_a_run_waits_for_a_driver_that_loads_and_keeps_its_start() -> None:
    told = Told(Inventory())
    assert told(10, [run("1", 8)]) == []
    assert told(20, [run("1", 8, suspended=True)]) == []
    told.restart()
    assert told(25, [run("1", 8)]) == []
    told.inventory = CARDS
    assert [(kind, at) for kind, _, at in kinds(told.retry(30))] == [("start", 8), ("suspend", 20), ("resume", 25)]
    assert told.findings == []


def test_a_run_that_ended_while_it_waited_is_said_whole() -> None:
    told = Told(Inventory())
    assert told(10, [run("1", 8, ended=9)]) == []
    told.inventory = CARDS
    assert [(kind, at) for kind, _, at in kinds(told.retry(30))] == [("start", 8), ("end", 9)]


def test_after_the_limit_a_run_is_said_without_the_device_and_that_is_a_finding() -> None:
    told = Told(Inventory(), wait_s=60)
    assert told(10, [run("1", 8)]) == []
    assert told.retry(69) == []
    (start,) = told.retry(70)
    assert (start["kind"], start["claims"]) == ("start", [])
    assert [finding.reason for finding in told.findings] == ["device_not_found"]
    assert "slurm c1/1" in told.findings[0].detail and "GPU-0" in told.findings[0].detail
    assert told.retry(200) == []
    told.inventory = CARDS
    (resize,) = told.retry(300)
    assert (resize["kind"], resize["at_us"], claims(resize)) == ("resize", 8 * S, [("GPU-0", "", 1, 1)])
    assert len(told.findings) == 1


def test_a_number_of_an_unknown_space_is_never_resolved_and_never_waited_for() -> None:
    told = Told()
    unknown = (Held(DeviceRef(BY_UNKNOWN, "0")), *held("GPU-1"))
    (start,) = told(10, [run("1", 8, hold=unknown)])
    assert claims(start) == [("GPU-1", "", 1, 1)]
    assert [finding.reason for finding in told.findings] == ["device_unknown_space"]
    assert told(20, [run("1", 8, hold=unknown)]) == []
    assert len(told.findings) == 1


def test_owners_tie_keys_to_open_runs_and_a_minute_beyond() -> None:
    told = Told()
    told(
        10, [replace(run("1", 8), owner_keys=("job_1", "s1")), replace(run("2", 8, device="GPU-1"), owner_keys=("x",))]
    )
    told(11, [replace(run("3", 8, hold=()), owner_keys=("x",))])
    assert told.book.owners(11 * S) == {"job_1": ("c1", "1"), "s1": ("c1", "1"), "x": None}
    told(20, [replace(run("1", 8, ended=19), owner_keys=("job_1", "s1"))])
    assert told.book.owners(70 * S)["job_1"] == ("c1", "1")
    assert "job_1" not in told.book.owners(80 * S)


def test_open_runs_are_told_for_a_watcher_that_starts_again() -> None:
    told = Told()
    told(10, [run("1", 8), run("2", 8, ended=9)])
    told.restart()
    assert told.book.open_runs() == (run("1", 8),)


def test_many_short_runs_do_not_make_the_state_grow() -> None:
    told = Told()
    for second in range(10, 1500):
        told(second, [run(str(second), second - 1, ended=second)])
    assert len(told.book.dump()) < 200_000


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b'{"version":1}', b'{"version":2,"node":"n1"}', b"\xff\xfe",
        b'{"version":1,"node":"n2"}',
        b'{"version":1,"node":"n1","boot_id":"","looked_us":{"a":"x"},"runs":[],"conflicts":{}}',
        b'{"version":1,"node":"n1","boot_id":"","looked_us":{},"runs":[{"run":{}}],"conflicts":{}}',
        b'{"version":1,"node":"n1","boot_id":"","looked_us":{},"runs":[],"conflicts":{"claims":1}}',
    ],
)  # fmt: skip
def test_a_state_that_can_t_be_used_says_so_and_changes_nothing(data: bytes) -> None:
    told = Told()
    told(10, [run("1", 8)])
    before = told.book.dump()
    with pytest.raises(BadRunBook):
        told.book.load(data)
    assert told.book.dump() == before


def test_a_state_survives_being_written_and_read() -> None:
    told = Told(Inventory())
    full: Run = replace(
        run("1", 8, tenant="acme", suspended=True), held=(Held(DeviceRef("uuid", "GPU-0", "3"), 1, 2, "mps", 4, 5),),
        owner_keys=("a", "b"), exclusive=True, stop_requested_us=9 * S,
    )  # fmt: skip
    told(10, [full])
    again = RunBook("n1")
    again.load(told.book.dump())
    assert again.dump() == told.book.dump()
    assert again.open_runs() == (full,)

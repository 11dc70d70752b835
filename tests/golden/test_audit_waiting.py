"""Runs that waited while GPUs stood idle: cases worked by hand from ACCOUNTING.md, "Waiting runs".

One machine of 4 GPUs at 1 per GPU-hour; tenant `a` is on one of them from 0 to 10, so that 3 are free, then 4.
`w` waits from 2 to 6, and would have run for at most 4 hours; H100 are billed at 3.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from wattledger_audit.report.model import WaitingRun

from tests.audit_cases import DAY, at, bill, billing, costs, events, fleet, machine, reservations, run, usage
from tests.audit_runner import audit_texts

BUSY = run("j", "a", 0, 10)
BILL = billing(bill("a", "H100", "10", "30"))
ONE = fleet(machine(gpus=4))


def waiting(
    job: str = "w", gpus: int = 2, start: float | None = 6, since: float = 2, until: float | None = 6, **more: str
) -> dict[str, str]:
    """A run that became eligible at `since`; it started at `start`, or was cancelled at `until` (None: it waits on)."""
    ends = until if start is None else start + 4
    state = "COMPLETED" if start is not None else "CANCELLED" if until is not None else "PENDING"
    node = "elsewhere" if start is not None else ""
    row = run(job, "b", start, ends, gpus, node=node, submit=at(since), eligible=at(since), state=state)
    return {**row, "limit_s": "14400", **more}


class Case(NamedTuple):
    """Runs beside the busy one, and `job@node: matched GPU-hours, capacity cost, revenue lost` of what would fit."""

    name: str
    runs: list[dict[str, str]]
    fits: list[str]
    machines: str = ONE
    more: Mapping[str, str] = MappingProxyType({})


NODES = fleet(machine("n1", 4, partitions="batch"), machine("n2", 4, "A100", partitions="other"))
CASES = [
    # 2 GPUs from 2 to 6: 8 idle GPU-hours, each of which cost 1. It did run later: no revenue is lost
    Case("a run that had to wait", [waiting()], ["w@n1: 8 8 None"]),
    # it was cancelled at 6: 8 hours at 3 are lost
    Case("a run that was cancelled while it waited", [waiting(start=None)], ["w@n1: 8 8 24"]),
    # still pending at the day's end: it would have run for its 4 hours, and may still do
    Case("a run that still waits has lost nothing yet", [waiting(start=None, until=None)], ["w@n1: 8 8 None"]),
    # its limit is 2 h: it would have been done at 4
    Case("a run is no longer than it may be", [waiting(start=None, limit_s="7200")], ["w@n1: 4 4 12"]),
    # it ran for 4 h from 3 on: it waited for 1 h
    Case("only the time that it waited", [waiting(start=3)], ["w@n1: 2 2 None"]),
    # 4 GPUs together are free from 10 on, when it had started
    Case("not enough GPUs together", [waiting(gpus=4)], []),
    # until 12: 4 GPUs from 10 to 12
    Case("enough GPUs from ten on", [waiting(gpus=4, start=12)], ["w@n1: 8 8 None"]),
    Case("more GPUs than a machine has", [waiting(gpus=5)], []),
    Case("two runs share no idle hour", [waiting(), waiting("x", 2)], ["w@n1: 8 8 None"]),
    # one takes 2 of the 3, the other the third: 8 + 4
    Case("two runs side by side", [waiting(), waiting("x", 1)], ["w@n1: 8 8 None", "x@n1: 4 4 None"]),
    # w is done at 4 (2 h of limit), then x fits from 4 to 6: 2 GPUs × 2 h
    Case(
        "one run after the other", [waiting(start=None, limit_s="7200"), waiting("x", 2)],
        ["w@n1: 4 4 12", "x@n1: 4 4 None"],
    ),
    Case("it waits for another job", [waiting(waits_for="Dependency")], []),
    Case("it is held", [waiting(waits_for="JobHeldUser")], []),
    Case("another model", [waiting(gpu_model="H200")], []),
    Case("another partition", [waiting(partition="debug")], [], NODES),
    Case("its own partition", [waiting(partition="batch")], ["w@n1: 8 8 None"], NODES),
    Case("another cluster", [waiting(cluster="B")], [], fleet(machine(gpus=4, cluster="A"))),
    # a machine in maintenance could not have had it; a reserved one neither
    Case("a machine in maintenance", [waiting()], [], ONE, {"e.txt": events(("n1", 1, 10, "MAINT"))}),
    Case("a reserved machine", [waiting()], [], ONE, {"r.csv": reservations(("r", "c", "n1", "", 0, 24))}),
    # back at 5: 2 GPUs × 1 h
    Case("a machine that comes back at five", [waiting()], ["w@n1: 2 2 None"], ONE,
         {"e.txt": events(("n1", 1, 5, "MAINT"))}),
    # out of service from 4 on: 2 GPUs × 2 h
    Case("a machine that leaves at four", [waiting()], ["w@n1: 4 4 None"], fleet(machine(gpus=4, in_service_to=at(4)))),
    # 32 CPUs, of which a has 28 until 10: 8 are not left before it had started
    Case("no CPUs to go with the GPUs", [waiting(cpus="8")], [], fleet(machine(gpus=4, cpus="32"))),
    Case("CPUs enough", [waiting(cpus="4")], ["w@n1: 8 8 None"], fleet(machine(gpus=4, cpus="32"))),
    # from 10 to 12 there are: 2 GPUs × 2 h
    Case("CPUs from ten on", [waiting(cpus="8", start=12)], ["w@n1: 4 4 None"], fleet(machine(gpus=4, cpus="32"))),
    Case("no memory to go with the GPUs", [waiting(mem="300G")], [], fleet(machine(gpus=4, mem="512G"))),
    # w takes the last 4 CPUs: x has none
    Case(
        "two runs share no CPU", [waiting(gpus=1, cpus="4"), waiting("x", 1, cpus="4")], ["w@n1: 4 4 None"],
        fleet(machine(gpus=4, cpus="32")),
    ),
    # no limit: nobody knows how long it would have run
    Case("an unknown length", [waiting(start=None, limit_s="")], []),
    # eligible since before the day: its wait counts from the day's start; 2 GPUs × 4 h of limit
    Case("it waits since before the day", [waiting(start=None, since=-10)], ["w@n1: 8 8 24"]),
    # nothing is lost by an internal run that was called off
    Case("an internal run that was cancelled", [waiting(start=None, plan="internal")], ["w@n1: 8 8 None"]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_which_runs_would_have_fitted(case: Case, tmp_path: Path) -> None:
    busy = {**BUSY, "cpus": "28", "mem": "400G"}
    files = {
        "u.csv": usage(busy, *case.runs), "f.csv": _with_elsewhere(case.machines), "b.csv": BILL,
        "c.yaml": costs("tenants: [{name: b, contract: 3}]"),
    }  # fmt: skip
    report = audit_texts(tmp_path, {**files, **case.more}, DAY, timezone="UTC").report
    fits = [_shown(found, node.node) for node in report.idle for found in node.waiting]
    assert sorted(fits) == case.fits


def _with_elsewhere(machines: str) -> str:
    """The machine on which those ran that did start: of another model, so that nothing fits there."""
    return machines + fleet(machine("elsewhere", 8, "L40S")).splitlines()[1] + "\n"


def _shown(found: WaitingRun, node: str) -> str:
    def plain(text: str | None) -> str:
        return "None" if text is None else f"{Decimal(text).normalize():f}"

    return (
        f"{found.job}@{node}: {plain(found.matched_gpu_hours)} {plain(found.capacity_cost)} {plain(found.revenue_lost)}"
    )


def test_no_idle_hour_is_matched_twice(tmp_path: Path) -> None:
    """40 runs of 1 to 4 GPUs wait all day for 86 idle GPU-hours: what is matched is at most that, on each machine."""
    runs = [waiting(f"w{n}", 1 + n % 4, start=None, since=n / 4, until=24) for n in range(40)]
    files = {"u.csv": usage(BUSY, *runs), "f.csv": ONE, "b.csv": BILL, "c.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY)
    matched = sum((match.matched_hours for match in audited.assessment.waiting.matches), start=0)
    (node,) = audited.report.idle
    assert Decimal(node.idle_gpu_hours) == 86
    assert 70 < matched <= 86


def test_the_note_says_what_was_not_looked_at(tmp_path: Path) -> None:
    runs = [waiting("w"), waiting("x", waits_for="Dependency"), waiting("y", start=None, limit_s="")]
    files = {"u.csv": usage(BUSY, *runs), "f.csv": ONE, "c.yaml": costs()}
    note = audit_texts(tmp_path, files, DAY).report.waiting_note
    assert note.startswith("3 runs waited; 1 were matched")
    assert "1 could not have started" in note
    assert "1 do not say how long" in note

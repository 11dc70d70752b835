"""Where every installed GPU-hour goes, and who pays for it: cases worked by hand from ACCOUNTING.md, "Capacity".

Every machine costs 1 per GPU-hour, so that hours are money; the day has 24 hours, a machine of 8 GPUs 192 GPU-hours.
"""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from wattledger_audit.audit_run import Audited

from tests.audit_cases import (
    DAY,
    at,
    costs,
    events,
    fleet,
    found,
    hours,
    idle_costs,
    machine,
    own_costs,
    reservations,
    run,
    state_cost,
    usage,
)
from tests.audit_runner import audit_texts, tenant_row, unexplained


class Case(NamedTuple):
    """Files, and what they come to: GPU-hours by state, own cost by tenant, contradictions."""

    name: str
    files: dict[str, str]
    states: dict[str, Fraction | int]
    tenants: dict[str, str]
    kinds: Mapping[str, int] = MappingProxyType({})


CASES = [
    # one GPU for 10 h holds all eight: 10 held, 7 × 10 stranded and the holder's; the other 14 h × 8 are free
    Case(
        "an exclusive job with one GPU strands seven",
        {"u.csv": usage(run("j", "a", 0, 10, 1, exclusive="yes")), "f.csv": fleet(machine())},
        {"installed": 192, "held": 10, "stranded": 70, "free": 112}, {"a": "80.00"},
    ),
    # no count: an exclusive job has all GPUs of its nodes, which the inventory knows: 8 + 8, 10 h
    Case(
        "an exclusive job without a count holds every GPU of its nodes",
        {"u.csv": usage(run("j", "a", 0, 10, "", node="n[1-2]", exclusive="yes")),
         "f.csv": fleet(machine(), machine("n2"))},
        {"installed": 384, "held": 160, "free": 224}, {"a": "160.00"}, {"gpus_unknown": 1},
    ),
    # 64 of 64 CPUs are gone with 3 GPUs: 5 × 10 h nobody could take. 64 does not divide by 3: no CPU may get lost.
    Case(
        "a job that takes every CPU strands the GPUs that it leaves",
        {"u.csv": usage(run("j", "a", 0, 10, 3, cpus="64")), "f.csv": fleet(machine(cpus="64"))},
        {"installed": 192, "held": 30, "stranded": 50, "free": 112}, {"a": "30.00"},
    ),
    Case(
        "a job that takes all memory strands the GPUs that it leaves",
        {"u.csv": usage(run("j", "a", 0, 10, 3, mem="512G")), "f.csv": fleet(machine(mem="512G"))},
        {"installed": 192, "held": 30, "stranded": 50, "free": 112}, {"a": "30.00"},
    ),
    # one CPU is left: something small could still have come
    Case(
        "a GPU is not stranded while a CPU is left",
        {"u.csv": usage(run("j", "a", 0, 10, 3, cpus="63")), "f.csv": fleet(machine(cpus="64"))},
        {"installed": 192, "held": 30, "free": 162}, {"a": "30.00"},
    ),
    # a CPU job without GPUs takes the CPUs: all 8 GPUs are stranded for 6 h
    Case(
        "a job without GPUs strands them by its CPUs",
        {"u.csv": usage(run("j", "a", 0, 6, 0, cpus="64")), "f.csv": fleet(machine(cpus="64"))},
        {"installed": 192, "stranded": 48, "free": 144}, {},
    ),
    # b reserved all 8 for 12 h: 96, of which a held 3 × 10 (a pays those); 66 unused are b's alone
    Case(
        "an unused reservation is its holder's and nobody else's",
        {"u.csv": usage(run("j", "a", 0, 10, 3)), "r.csv": reservations(("r", "b", "n1", "", 0, 12)),
         "f.csv": fleet(machine())},
        {"installed": 192, "held": 30, "reserved_unused": 66, "free": 96}, {"a": "30.00", "b": "66.00"},
    ),
    # 9 GPUs over two machines are 5 + 4, not 5 + 5: 9 × 12
    Case(
        "a reservation that does not divide by its machines keeps no GPU more",
        {"u.csv": usage(run("j", "a", 12, 13, 1)), "r.csv": reservations(("r", "b", "n[1-2]", "9", 0, 12)),
         "f.csv": fleet(machine(), machine("n2"))},
        {"installed": 384, "held": 1, "reserved_unused": 108, "free": 275}, {"a": "1.00", "b": "108.00"},
    ),
    # a reservation of more than the second machine has: 8 + 4 of 12
    Case(
        "a reservation fills machines of unlike size",
        {"u.csv": usage(run("j", "a", 12, 13, 1)), "r.csv": reservations(("r", "b", "n[1-2]", "12", 0, 12)),
         "f.csv": fleet(machine(), machine("n2", gpus=4))},
        {"installed": 288, "held": 1, "reserved_unused": 144, "free": 143}, {"a": "1.00", "b": "144.00"},
    ),
    # two tenants, 4 GPUs each, side by side
    Case(
        "two reservations of one machine keep four GPUs each",
        {"u.csv": usage(run("j", "a", 12, 13, 1)),
         "r.csv": reservations(("r1", "b", "n1", "4", 0, 12), ("r2", "c", "n1", "4", 0, 12)),
         "f.csv": fleet(machine())},
        {"installed": 192, "held": 1, "reserved_unused": 96, "free": 95}, {"a": "1.00", "b": "48.00", "c": "48.00"},
    ),
    # a has 6 of the 8: only 2 of the reserved 4 are left to be unused, 12 h
    Case(
        "a reservation keeps no GPU that somebody else has",
        {"u.csv": usage(run("j", "a", 0, 12, 6)), "r.csv": reservations(("r", "b", "n1", "4", 0, 12)),
         "f.csv": fleet(machine())},
        {"installed": 192, "held": 72, "reserved_unused": 24, "free": 96}, {"a": "72.00", "b": "24.00"},
    ),
    Case(
        "a reservation without machines is listed and not used",
        {"u.csv": usage(run("j", "a", 0, 1, 1)), "r.csv": reservations(("r", "b", "", "4", 0, 12)),
         "f.csv": fleet(machine())},
        {"installed": 192, "held": 1, "free": 191}, {"a": "1.00"}, {"reservation_of_unknown_node": 1},
    ),
    # no inventory: n1 is inferred, with 3 GPUs. It fails from 5 to 8: 15 held, 9 unavailable
    Case(
        "a failure of a machine that no inventory lists counts too",
        {"u.csv": usage(run("j", "a", 0, 10, 3)), "e.txt": events(("n1.dc.example.com", 5, 8, "DOWN"))},
        {"installed": 72, "held": 15, "unavailable": 9, "free": 48}, {"a": "15.00"}, {"hold_on_failed_node": 3},
    ),
    Case(
        "a reservation of a machine that no inventory lists counts too",
        {"u.csv": usage(run("j", "a", 0, 2, 3)), "r.csv": reservations(("r", "b", "n1", "", 0, 12))},
        {"installed": 72, "held": 6, "reserved_unused": 30, "free": 36}, {"a": "6.00", "b": "30.00"},
    ),
    Case(
        "long and short names are one machine without an inventory as well",
        {"u.csv": usage(run("j", "a", 0, 10, 3, node="n1.dc.example.com"), run("k", "a", 10, 12, 2))},
        {"installed": 72, "held": 34, "free": 38}, {"a": "34.00"},
    ),
    # an event of cluster B's n1 is none of A's
    Case(
        "a failure is its own cluster's",
        {"u.csv": usage(run("j", "a", 0, 10, 3, cluster="A"), run("k", "b", 0, 10, 3, cluster="c")),
         "e.txt": events(("n1", 5, 8, "DOWN"))},
        {"installed": 144, "held": 45, "unavailable": 9, "free": 90}, {"a": "30.00", "b": "15.00"},
        {"hold_on_failed_node": 3},
    ),
    # maintenance 5..8 under a running job: it keeps its 3; the other 5 are unavailable for 3 h. Down 12..14: all 8, 2 h
    Case(
        "maintenance takes what nobody holds",
        {"u.csv": usage(run("j", "a", 0, 10, 3)), "e.txt": events(("n1", 5, 8, "MAINT"), ("n1", 12, 14, "DOWN")),
         "f.csv": fleet(machine())},
        {"installed": 192, "held": 30, "unavailable": 31, "free": 131}, {"a": "30.00"},
    ),
    # the node fails at 5: the hold ends there (15), whatever end the log has; 8 × 3 h unavailable; then free
    Case(
        "a failed node ends the hold",
        {"u.csv": usage(run("j", "a", 0, 10, 3)), "e.txt": events(("n1", 5, 8, "DOWN")), "f.csv": fleet(machine())},
        {"installed": 192, "held": 15, "unavailable": 24, "free": 153}, {"a": "15.00"}, {"hold_on_failed_node": 3},
    ),
    # maintenance beats the reservation: 8 × 4 unavailable, 8 × 8 reserved and unused
    Case(
        "a reservation is not charged while its machine is in maintenance",
        {"u.csv": usage(run("j", "a", 20, 21, 1)), "r.csv": reservations(("r", "b", "n1", "", 0, 12)),
         "e.txt": events(("n1", 0, 4, "MAINT")), "f.csv": fleet(machine())},
        {"installed": 192, "held": 1, "reserved_unused": 64, "unavailable": 32, "free": 95},
        {"a": "1.00", "b": "64.00"},
    ),
    # n2 spare all day 192; n3 in repair from noon, when it comes into service: 96; n4 leaves at 6: 48 free
    Case(
        "spare and repair are unavailable, and a machine counts only while it is in service",
        {"u.csv": usage(run("j", "a", 0, 10, 3)),
         "f.csv": fleet(machine(), machine("n2", status="spare"),
                        machine("n3", status="repair", in_service_from=at(12)), machine("n4", in_service_to=at(6)))},
        {"installed": 528, "held": 30, "unavailable": 288, "free": 210}, {"a": "30.00"},
    ),
    # a machine that leaves at 6 cannot be held to 10: 3 × 6 held, and it is said
    Case(
        "a hold beyond the machine's service is not counted, and listed",
        {"u.csv": usage(run("j", "a", 0, 10, 3)), "f.csv": fleet(machine(in_service_to=at(6)))},
        {"installed": 48, "held": 18, "free": 30}, {"a": "18.00"}, {"hold_out_of_service": 3},
    ),
    # spare until noon, active from then on: two rows of one machine
    Case(
        "a machine is spare first and active later",
        {"u.csv": usage(run("j", "a", 12, 22, 8)),
         "f.csv": fleet(machine(status="spare", in_service_to=at(12)), machine(in_service_from=at(12)))},
        {"installed": 192, "held": 80, "unavailable": 96, "free": 16}, {"a": "80.00"},
    ),
    # equal job ids, equal node names: four different things
    Case(
        "two clusters with equal job ids and node names stay apart",
        {"u.csv": usage(run("j", "a", 0, 10, 3, cluster="A"), run("j", "b", 0, 10, 8, cluster="B")),
         "f.csv": fleet(machine(cluster="A"), machine(cluster="B"))},
        {"installed": 384, "held": 110, "free": 274}, {"a": "30.00", "b": "80.00"},
    ),
    # the inventory has A's n1 only; B's is another, with the 8 GPUs that were held there
    Case(
        "a machine of one cluster is not the other's that no inventory lists",
        {"u.csv": usage(run("j", "a", 0, 10, 3, cluster="A"), run("j", "b", 0, 10, 8, cluster="B")),
         "f.csv": fleet(machine(gpus=4, cluster="A"))},
        {"installed": 288, "held": 110, "free": 178}, {"a": "30.00", "b": "80.00"}, {"node_not_in_fleet": 1},
    ),
    # without an inventory: A/n1 had 3 at once, B/n1 8: 11 × 24
    Case(
        "two clusters without an inventory have machines of their own",
        {"u.csv": usage(run("j", "a", 0, 10, 3, cluster="A"), run("j", "b", 0, 10, 3, cluster="B"),
                        run("k", "b", 10, 12, 8, cluster="B"))},
        {"installed": 264, "held": 76, "free": 188}, {"a": "30.00", "b": "46.00"},
    ),
    Case(
        "usage without a node holds only while it holds, in whatever cluster",
        {"u.csv": usage(run("j", "a", 0, 10, 3, node="", cluster="A"), run("j", "b", 0, 10, 1, node="", cluster="B"))},
        {"installed": 40, "held": 40}, {"a": "30.00", "b": "10.00"},
    ),
    Case(
        "long and short node names are one machine, in any case",
        {"u.csv": usage(run("j", "a", 0, 10, 3, node="n1.dc.example.com"), run("k", "a", 0, 10, 3, node="N2")),
         "f.csv": fleet(machine(), machine("n2.dc.example.com"))},
        {"installed": 384, "held": 60, "free": 324}, {"a": "60.00"},
    ),
    # 0 and 1 are named; the counted one must find 2, though it comes second
    Case(
        "a counted GPU is not one that another job names",
        {"u.csv": usage(run("j", "a", 0, 10, device="0"), run("k", "b", 0, 10), run("l", "c", 2, 10, device="1")),
         "f.csv": fleet(machine(gpus=3))},
        {"installed": 72, "held": 28, "free": 44}, {"a": "10.00", "b": "10.00", "c": "8.00"},
    ),
    Case(
        "a device of another machine is out of service, and listed",
        {"u.csv": usage(run("j", "a", 0, 10, device="GPU-x"), run("k", "b", 0, 10, device="GPU-z")),
         "f.csv": fleet(machine(gpus=2, devices="GPU-x;GPU-y"))},
        {"installed": 48, "held": 10, "free": 38}, {"a": "10.00", "b": "0"},
        {"device_not_in_fleet": 1, "hold_out_of_service": 1},
    ),
    # A30: quarters. 2/4 and 1/4 of one card for 10 h
    Case(
        "quarters of an A30",
        {"u.csv": usage(run("j", "a", 0, 10, share_num="2", share_den="4", gpu_model="A30"),
                        run("k", "b", 0, 10, share_num="1", share_den="4", gpu_model="A30")),
         "f.csv": fleet(machine(gpus=1, gpu_model="A30"))},
        {"installed": 24, "held": Fraction("7.5"), "free": Fraction("16.5")}, {"a": "5.00", "b": "2.50"},
    ),
    # A100: 3/7 + 4/7 = 1 for 7 h: 3 and 4
    Case(
        "sevenths of an A100 fill it exactly",
        {"u.csv": usage(run("j", "a", 0, 7, share_num="3", share_den="7", gpu_model="A100"),
                        run("k", "b", 0, 7, share_num="4", share_den="7", gpu_model="A100")),
         "f.csv": fleet(machine(gpus=1, gpu_model="A100"))},
        {"installed": 24, "held": 7, "free": 17}, {"a": "3.00", "b": "4.00"},
    ),
    # three slices of 4/7 stand on three cards (two of them do not fit on one): 3 × 4/7 × 7 h = 12; 72 installed
    Case(
        "slices that do not fit beside each other need cards of their own",
        {"u.csv": usage(*(run(f"j{n}", "a", 0, 7, share_num="4", share_den="7", gpu_model="A100") for n in range(3)))},
        {"installed": 72, "held": 12, "free": 60}, {"a": "12.00"},
    ),
    # two jobs say that they have all 8 at once: each has half
    Case(
        "exclusive holders of the same GPUs are scaled to one, and listed",
        {"u.csv": usage(run("j", "a", 0, 10, device="0"), run("k", "b", 0, 10, device="0")),
         "f.csv": fleet(machine(gpus=1))},
        {"installed": 24, "held": 10, "free": 14}, {"a": "5.00", "b": "5.00"}, {"overlap": 2},
    ),
    # 6 GPUs over 3 machines, 10 h
    Case(
        "a job of several machines holds its GPUs on each",
        {"u.csv": usage(run("j", "a", 0, 10, 6, node="n[1-3]")),
         "f.csv": fleet(machine(gpus=4), machine("n2", gpus=4), machine("n3", gpus=4))},
        {"installed": 288, "held": 60, "free": 228}, {"a": "60.00"},
    ),
    # NODE_FAIL is the provider's (2 × 10 unavailable), the second attempt the tenant's; b has agreed to pay for its own
    Case(
        "a failed node is paid by the provider, unless the tenant bears it",
        {"u.csv": usage(run("j", "a", 0, 10, 2, state="NODE_FAIL"), run("j", "a", 11, 12, 2, attempt="1"),
                        run("k", "b", 0, 10, 2, state="NODE_FAIL")), "f.csv": fleet(machine()),
         "c.yaml": costs("tenants: [{name: b, bearer: {NODE_FAIL: tenant}}]")},
        {"installed": 192, "held": 22, "unavailable": 20, "free": 150}, {"a": "2.00", "b": "20.00"},
    ),
    # every attempt held GPUs: 3 + 2 + 1 hours
    Case(
        "every attempt of a requeued job counts",
        {"u.csv": usage(run("j", "a", 0, 3, state="FAILED"), run("j", "a", 4, 6, attempt="1", state="TIMEOUT"),
                        run("j", "a", 7, 8, attempt="2")), "f.csv": fleet(machine())},
        {"installed": 192, "held": 6, "free": 186}, {"a": "6.00"},
    ),
    # 10 h of which 2 suspended, 2 GPUs
    Case(
        "suspended time is not held",
        {"u.csv": usage(run("j", "a", 0, 10, 2, suspended_s="7200")), "f.csv": fleet(machine())},
        {"installed": 192, "held": 16, "free": 176}, {"a": "16.00"},
    ),
    # open from 20 on: 2 × 4; before the day: 3 h of 8; beyond it: 2 h of 8
    Case(
        "runs are cut at the period's edges, and an open one runs on",
        {"u.csv": usage(run("j", "a", 20, None, 2, state="RUNNING"), run("k", "a", -5, 3), run("l", "b", 22, 30)),
         "f.csv": fleet(machine())},
        {"installed": 192, "held": 13, "free": 179}, {"a": "11.00", "b": "2.00"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hours_and_money_of_a_day(case: Case, tmp_path: Path) -> None:
    files = case.files if "c.yaml" in case.files else {**case.files, "c.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, timezone="UTC")
    assert hours(audited) == case.states
    own = own_costs(audited)
    assert {name: cost for name, cost in own.items() if cost} == {
        name: Decimal(cost) for name, cost in case.tenants.items() if Decimal(cost)
    }
    assert found(audited) == case.kinds
    # every machine costs 1 an hour: tenants, idle and what nobody could have are the whole fleet, to the cent
    rest = state_cost(audited, "unavailable") + state_cost(audited, "stranded") - _held_stranded(audited, own)
    assert sum(own.values()) + sum(idle_costs(audited).values()) + rest == case.states["installed"]
    assert unexplained(audited) == []


def _held_stranded(audited: Audited, own: dict[str, Decimal]) -> Decimal:
    """The part of the stranded cost that tenants bear."""
    rows = audited.assessment.costed.rows
    return sum((row.cost or Decimal(0) for row in rows if row.state == "stranded" and row.tenant in own), Decimal(0))


@pytest.mark.parametrize(
    ("log", "reserved", "states"),
    [
        # the holder runs on 3 of its 4 for 12 h: 36 held, 12 reserved and unused, whatever cards the runs stand on
        (usage(run("j", "b", 0, 12, 3)), reservations(("r", "b", "n1", "4", 0, 12)),
         {"installed": 240, "held": 36, "reserved_unused": 12, "free": 192}),
        # 10 GPUs on a machine of 8 and one of 2: 8 + 2, not 5 + 5
        (usage(run("j", "a", 0, 12, 10, node="n[1-2]")), None, {"installed": 240, "held": 120, "free": 120}),
    ],
    ids=["the holder's own runs", "machines of unlike size"],
)  # fmt: skip
def test_counted_gpus_stand_where_they_can(
    tmp_path: Path, log: str, reserved: str | None, states: dict[str, int]
) -> None:
    files = {"u.csv": log, "f.csv": fleet(machine(), machine("n2", gpus=2)), "c.yaml": costs()}
    audited = audit_texts(tmp_path, files | ({"r.csv": reserved} if reserved else {}), DAY)
    assert hours(audited) == states


def test_what_the_provider_pays_for_stands_beside_the_tenant(tmp_path: Path) -> None:
    log = usage(run("j", "a", 0, 10, 2, state="NODE_FAIL"), run("k", "a", 0, 1))
    audited = audit_texts(tmp_path, {"u.csv": log, "f.csv": fleet(machine()), "c.yaml": costs()}, DAY)
    row = tenant_row(audited, "a")
    assert (row.gpu_hours, row.provider_paid_gpu_hours, row.cost_own) == ("1.000000", "20.000000", "1.00")


def test_a_model_in_the_logs_words_has_the_cost_files_price(tmp_path: Path) -> None:
    """No inventory: the machine is inferred, and its model is the one that the cost file calls H100."""
    log = usage(run("j", "a", 0, 10, gpu_model="nvidia_h100_80gb_hbm3"))
    priced = costs("compute: [{gpu_model: H100, per_gpu_hour: 2}, {gpu_model: A100, per_gpu_hour: 1}]")
    audited = audit_texts(tmp_path, {"u.csv": log, "c.yaml": priced}, DAY)
    assert tenant_row(audited, "a").cost_own == "20.00"
    assert idle_costs(audited) == {"n1": Decimal("28.00")}


def test_names_that_differ_in_case_and_punctuation_are_one_tenant(tmp_path: Path) -> None:
    log = usage(run("j", "ACME Corp.", 0, 2), run("k", "acme-corp", 2, 4), run("l", "acme_corp", 4, 5))
    audited = audit_texts(tmp_path, {"u.csv": log, "f.csv": fleet(machine()), "c.yaml": costs()}, DAY)
    assert own_costs(audited) == {"ACME Corp.": Decimal("5.00")}


def test_the_same_tenant_by_another_name_is_what_the_cost_file_says(tmp_path: Path) -> None:
    log = usage(run("j", "proj-17", 0, 2), run("k", "acme", 2, 4))
    said = costs("tenants: [{name: Acme, aliases: {usage: [proj-17]}}]")
    audited = audit_texts(tmp_path, {"u.csv": log, "f.csv": fleet(machine()), "c.yaml": said}, DAY)
    assert own_costs(audited) == {"Acme": Decimal("4.00")}


@pytest.mark.parametrize(
    ("zone", "period", "hours_of_it", "installed"),
    [
        ("Europe/Berlin", "2026-10", "745", "745.000000"),
        ("Europe/Berlin", "2026-03", "743", "743.000000"),
        ("Europe/Berlin", "2026-10-25..2026-10-26", "25", "25.000000"),
        # Kathmandu is 5:45 ahead: the day starts at 18:15 UTC
        ("Asia/Kathmandu", "2026-02-10..2026-02-11", "24", "24.000000"),
    ],
)
def test_a_period_is_a_local_one(tmp_path: Path, zone: str, period: str, hours_of_it: str, installed: str) -> None:
    files = {"u.csv": usage(run("j", "a", 0, 1)), "f.csv": fleet(machine(gpus=1)), "c.yaml": costs(timezone=zone)}
    report = audit_texts(tmp_path, files, period).report
    assert (report.hours, report.fleet["installed"]) == (hours_of_it, installed)


def test_a_run_is_cut_where_the_day_starts_in_kathmandu(tmp_path: Path) -> None:
    """2026-02-10 there runs from 18:15 UTC of the 9th to 18:15 of the 10th: of 16:00..20:00 UTC it has 2 h 15 min."""
    log = usage(run("j", "a", 16, 20, 4))
    files = {"u.csv": log, "f.csv": fleet(machine()), "c.yaml": costs(timezone="Asia/Kathmandu")}
    assert audit_texts(tmp_path, files, DAY).report.fleet["held"] == "9.000000"


OPEN_RUN = usage(run("j", "a", 0, None, 2, state="RUNNING"), run("k", "a", 1, 3))
ENDED_RUN = usage(run("j", "a", 0, 6, 2), run("l", "a", 7, 8))


@pytest.mark.parametrize("names", [("u1.csv", "u2.csv"), ("u2.csv", "u1.csv")], ids=["earlier first", "later first"])
def test_a_run_that_one_log_saw_open_and_another_ended_ended(tmp_path: Path, names: tuple[str, str]) -> None:
    """2 × 6 + 2 + 1, whichever file is given first: an open end never replaces an end."""
    texts = {"u1.csv": OPEN_RUN, "u2.csv": ENDED_RUN}
    files = {name: texts[name] for name in names} | {"f.csv": fleet(machine()), "c.yaml": costs()}
    assert own_costs(audit_texts(tmp_path, files, DAY)) == {"a": Decimal("15.00")}


def test_a_run_that_waited_in_one_log_and_ran_in_another_has_its_machine(tmp_path: Path) -> None:
    """One key (`sacct` of two months): first pending and nowhere, then on n1 for 6 h: n1 is not free then."""
    first = run("j", "a", None, None, 2, node="", state="PENDING", submit=at(0))
    second = run("j", "a", 2, 8, 2, submit=at(0))
    files = {"u1.csv": usage(first), "u2.csv": usage(second), "f.csv": fleet(machine()), "c.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY)
    assert hours(audited) == {"installed": 192, "held": 12, "free": 180}

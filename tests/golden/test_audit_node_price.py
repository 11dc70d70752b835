"""A node's price split over GPUs, CPUs and memory: the worked figures of AWS, and what becomes of what nobody took."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from wattledger_audit.assessment.cost_file_tree import CostFileRefused
from wattledger_audit.audit_run import Audited

from tests.audit_runner import audit_texts, tenant_row, unexplained

HEADER = "job_id,attempt,tenant,node,gpu_model,gpus,share_num,share_den,start,end,state,cpus,mem,exclusive\n"
HOUR = "2026-02-10T00:00..2026-02-10T01:00"
WHEN = "2026-02-10T00:00:00Z,2026-02-10T01:00:00Z"
WHOLE = Decimal("178.4")
"""8 × 9 + 64 × 0.9 + 488 × 0.1."""


def costs(
    node: str = "", price: str = "10", weights: str = "{gpu: 9, cpu: 0.9, memory_gb: 0.1}", more: str = ""
) -> str:
    node = node or "{node: n1, gpu_model: P4, gpus: 8, cpus: 64, mem: 488G}"
    return (
        f"currency: USD\ntimezone: UTC\nfleet:\n  - {node}\ncompute:\n"
        f"  - {{gpu_model: P4, per_node_hour: {price}, weights: {weights}}}\n{more}"
    )


def run(
    job: str, tenant: str, gpus: int | str, cpus: int | str, mem: str, when: str = WHEN, node: str = "n1",
    state: str = "COMPLETED", share: str = "1,1", exclusive: str = "",
) -> str:  # fmt: skip
    return f"{job},0,{tenant},{node},P4,{gpus},{share},{when},{state},{cpus},{mem},{exclusive}\n"


def audited_of(folder: Path, rows: str, sheet: str = "", period: str = HOUR, **more: str) -> Audited:
    return audit_texts(folder, {"u.csv": HEADER + rows, "costs.yaml": sheet or costs(), **more}, period)


def own(audited: Audited, tenant: str) -> Decimal:
    return Decimal(tenant_row(audited, tenant).cost_own or 0)


def state_cost(audited: Audited, state: str) -> Decimal:
    return next(Decimal(row.cost or 0) for row in audited.report.waterfall if row.step == state)


def of_ten(units: str | Decimal) -> Decimal:
    """10 × units ÷ 178.4, to 12 decimals."""
    return Decimal(f"{round(Fraction(units) * 10 / Fraction(WHOLE) * 10**12)}E-12")


def assert_near(amount: Decimal, exact: Decimal) -> None:
    """To the last digit that money has: each part is the difference of two rounded sums."""
    assert abs(amount - exact) <= Decimal("1e-12"), (amount, exact)


def assert_all_of_it(audited: Audited, amount: str) -> None:
    """Every line's cost together is the nodes' price × their hours, exactly, and all ties out."""
    rows = [row for row in audited.assessment.costed.rows if row.component == "compute"]
    assert sum((row.cost or Decimal(0) for row in rows), Decimal(0)) == Decimal(amount)
    assert {(row.state, bool(row.node)) for row in rows} <= {
        ("held", False), ("free", True), ("unavailable", True), ("unavailable", False), ("reserved_unused", True),
        ("stranded", True),
    }  # fmt: skip
    assert unexplained(audited) == []
    for size, found in audited.assessment.swept.ledger.sized.items():
        hours = sum(found.node_parts.values())
        assert sum(found.gpus.parts.values()) == hours * size.gpus
        assert sum(found.cpu.values()) == hours * size.cpus
        assert sum(found.memory.values()) == hours * size.memory_bytes


def test_the_accelerated_node_of_aws_is_split_by_9_to_0_9_to_0_1(tmp_path: Path) -> None:
    rows = run("g", "gpu", 1, 0, "0G") + run("c", "cpu", 0, 1, "0G") + run("m", "mem", 0, 0, "1G")
    audited = audited_of(tmp_path, rows + run("h", "half", 4, 32, "244G"))
    assert_near(own(audited, "gpu"), of_ten("9"))
    assert_near(own(audited, "cpu"), of_ten("0.9"))
    assert_near(own(audited, "mem"), of_ten("0.1"))
    assert [f"{own(audited, name):.6f}" for name in ("gpu", "cpu", "mem", "half")] == [
        "0.504484", "0.050448", "0.005605", "5.000000",
    ]  # fmt: skip
    assert_near(state_cost(audited, "free"), of_ten(WHOLE - 10 - WHOLE / 2))
    assert_all_of_it(audited, "10")
    assert any(
        "8 GPU × 9 + 64 CPU × 0.9 + 488 GB × 0.1 = 178.4, so 0.504484 per GPU-hour, 0.050448 per CPU-hour, "
        "0.005605 per GB-hour (a GB is 2^30 bytes)" in said
        for said in audited.report.assumptions
    )


def test_a_run_without_gpus_has_no_gpu_hours_and_bears_its_cpus_and_memory(tmp_path: Path) -> None:
    audited = audited_of(tmp_path, run("c", "prep", 0, 16, "64G"))
    row = tenant_row(audited, "prep")
    # 16 × 0.9 + 64 × 0.1 = 20.8
    assert (row.gpu_hours, row.cost_own) == ("0.000000", str(of_ten("20.8")))
    assert row.break_even_reason == "no billable quantity"
    assert audited.report.coverage.cpu_only_runs == 1
    assert_all_of_it(audited, "10")


def test_a_node_without_gpus_is_split_9_to_1(tmp_path: Path) -> None:
    """AWS: $1 an hour, 4 vCPU and 16 GB: 1/52 = 0.01923 a GB, 0.17308 a vCPU."""
    sheet = costs("{node: n1, gpu_model: P4, gpus: 0, cpus: 4, mem: 16G}", "1", "{cpu: 9, memory_gb: 1}")
    rows = run("c", "cpu", 0, 1, "0G") + run("m", "mem", 0, 0, "1G") + run("b", "both", 0, 2, "4G")
    audited = audited_of(tmp_path, rows, sheet)
    assert [f"{own(audited, name):.5f}" for name in ("mem", "cpu", "both")] == ["0.01923", "0.17308", "0.42308"]
    # one CPU and eleven of sixteen GB are left
    assert_near(state_cost(audited, "free"), Decimal(20) / 52)
    (idle,) = audited.report.idle
    assert (idle.node, idle.idle_gpu_hours) == ("n1", "0.000000")
    assert_all_of_it(audited, "1")
    said = "4 CPU × 9 + 16 GB × 1 = 52, so 0.173077 per CPU-hour, 0.019231 per GB-hour"
    assert any(said in text for text in audited.report.assumptions)


def test_weights_that_are_not_given_are_those_of_aws(tmp_path: Path) -> None:
    sheet = costs().replace(", weights: {gpu: 9, cpu: 0.9, memory_gb: 0.1}", "")
    audited = audited_of(tmp_path, run("g", "a", 1, 8, "0G"), sheet)
    assert own(audited, "a") == of_ten("16.2")
    assert any("names no weights: 9 / 0.9 / 0.1" in said for said in audited.report.assumptions)


@pytest.mark.parametrize(
    ("gpus", "share", "cpus", "mem", "units"),
    [
        # an eighth of everything
        (1, "1,1", "", "", WHOLE / 8),
        # its 20 CPUs are said: 9 + 18, and an eighth of 48.8
        (1, "1,1", "20", "", Decimal("33.1")),
        (1, "1,1", "", "100G", Decimal("26.2")),
        # two sevenths of one GPU of eight
        (1, "2,7", "", "", Decimal(2) * WHOLE / 56),
        # no GPU and nothing said: nothing
        (0, "1,1", "", "", Decimal(0)),
    ],
)  # fmt: skip
def test_what_a_run_does_not_say_goes_with_its_gpus(
    tmp_path: Path, gpus: int, share: str, cpus: str, mem: str, units: Decimal
) -> None:
    rows = run("j", "a", gpus, cpus, mem, share=share) + run("k", "b", 1, 8, "61G")
    audited = audited_of(tmp_path, rows)
    found = [row.cost for row in audited.assessment.costed.rows if row.tenant == "a" and row.cost is not None]
    assert_near(sum(found, Decimal(0)), of_ten(units))
    assert_near(own(audited, "b"), Decimal("1.25"))
    assert_all_of_it(audited, "10")
    said = [text for text in audited.report.assumptions if "do not say their" in text]
    assert [("CPUs" in text, text[:6]) for text in said] == [
        ("CPUs" in what, "1 runs") for what, value in (("CPUs", cpus), ("memory", mem)) if not value
    ]


def test_what_is_guessed_gives_way_to_what_is_said(tmp_path: Path) -> None:
    """60 of 64 CPUs are said, so half the GPUs of the node come with 4 CPUs, not 32."""
    audited = audited_of(tmp_path, run("j", "a", 1, 60, "61G") + run("k", "b", 4, "", "244G"))
    assert_near(own(audited, "a"), of_ten("69.1"))
    assert_near(own(audited, "b"), of_ten("64"))
    assert [found.kind for found in audited.report.discrepancies] == []
    assert_all_of_it(audited, "10")


def test_more_than_a_node_has_is_scaled_to_it_and_listed(tmp_path: Path) -> None:
    """96 and 32 CPUs of 64: three to one; nothing of them is left over."""
    rows = run("j", "a", 1, 96, "0G") + run("k", "b", 1, 32, "0G", "2026-02-10T00:30:00Z,2026-02-10T01:00:00Z")
    audited = audited_of(tmp_path, rows)
    # a: 9, half an hour all 64 CPUs, then 48; b: half of 9 + 16 × 0.9
    assert_near(own(audited, "a"), of_ten(Decimal("9") + Decimal("57.6") / 2 + Decimal("43.2") / 2))
    assert_near(own(audited, "b"), of_ten(Decimal("11.7")))
    assert [(f.kind, f.nodes, f.example) for f in audited.report.discrepancies] == [
        ("overlap", "n1", "job j: more than the node's 64 CPUs were taken at once")
    ]
    assert_all_of_it(audited, "10")


@pytest.mark.parametrize(
    ("state", "end", "held", "free", "unavailable"),
    [
        # held beats maintenance, but a failure ends what was held
        ("MAINT", "2026-02-10T01:00:00", "5", "2.5", "2.5"),
        ("DOWN", "2026-02-10T01:00:00", "2.5", "2.5", "5"),
        # and it does not come back with the node
        ("DOWN", "2026-02-10T00:45:00", "2.5", "5", "2.5"),
    ],
)
def test_what_nobody_took_is_in_the_state_of_the_node(
    tmp_path: Path, state: str, end: str, held: str, free: str, unavailable: str
) -> None:
    """Half the node is held for an hour; from half past, something is the matter with it."""
    events = f"NodeName|TimeStart|TimeEnd|State|Reason\nn1|2026-02-10T00:30:00|{end}|{state}|\n"
    files = {"u.csv": HEADER + run("j", "a", 4, 32, "244G"), "costs.yaml": costs(), "events.txt": events}
    audited = audit_texts(tmp_path, files, HOUR, timezone="UTC")
    assert own(audited, "a") == Decimal(held)
    assert (state_cost(audited, "free"), state_cost(audited, "unavailable")) == (Decimal(free), Decimal(unavailable))
    assert_all_of_it(audited, "10")


def test_what_nobody_took_goes_with_the_gpus_that_nobody_held(tmp_path: Path) -> None:
    """A quarter of the node is held; of six GPUs left four are reserved, so two thirds of all else is too."""
    reserved = "reservation_id,tenant,nodes,gpus,start,end\nr1,b,n1,4,2026-02-10T00:00:00Z,2026-02-10T01:00:00Z\n"
    files = {"u.csv": HEADER + run("j", "a", 2, 16, "122G"), "costs.yaml": costs(), "r.csv": reserved}
    audited = audit_texts(tmp_path, files, HOUR)
    assert (own(audited, "a"), own(audited, "b")) == (Decimal("2.5"), Decimal(5))
    assert (state_cost(audited, "reserved_unused"), state_cost(audited, "free")) == (Decimal(5), Decimal("2.5"))
    assert_all_of_it(audited, "10")


def test_cpus_and_memory_left_beside_held_gpus_are_the_providers(tmp_path: Path) -> None:
    audited = audited_of(tmp_path, run("j", "a", 8, 8, "8G"))
    # 72 + 7.2 + 0.8, and 98.4 that nobody took
    assert_near(own(audited, "a"), of_ten("80"))
    assert_near(state_cost(audited, "free"), of_ten("98.4"))
    (idle,) = audited.report.idle
    assert (idle.idle_gpu_hours, idle.idle_ratio) == ("0.000000", "0.0000")
    assert_near(Decimal(idle.cost or 0), of_ten("98.4"))
    assert_all_of_it(audited, "10")


def test_an_exclusive_run_bears_the_whole_node(tmp_path: Path) -> None:
    audited = audited_of(tmp_path, run("j", "a", 1, 1, "1G", exclusive="true"))
    assert own(audited, "a") == 10
    assert state_cost(audited, "free") == 0
    assert_all_of_it(audited, "10")


def test_a_failed_run_that_the_provider_pays_for_takes_its_cpus_along(tmp_path: Path) -> None:
    rows = run("c", "a", 0, 16, "64G", state="NODE_FAIL") + run("k", "b", 1, 0, "0G")
    audited = audited_of(tmp_path, rows)
    assert_near(state_cost(audited, "unavailable"), of_ten("20.8"))
    assert not [row for row in audited.report.tenants if row.tenant == "a" and Decimal(row.cost_own or 0)]
    assert_all_of_it(audited, "10")


def test_nodes_of_different_sizes_each_split_their_own_price(tmp_path: Path) -> None:
    """The same run bears an eighth of one node, and half of the other, by what each has."""
    small = "{node: n2, gpu_model: P4, gpus: 2, cpus: 16, mem: 122G}"
    sheet = costs().replace("compute:", f"  - {small}\ncompute:")
    rows = run("j", "a", 1, 8, "61G") + run("k", "b", 1, 8, "61G", node="n2")
    audited = audited_of(tmp_path, rows, sheet)
    assert (own(audited, "a"), own(audited, "b")) == (Decimal("1.25"), Decimal(5))
    assert_all_of_it(audited, "20")
    both = audited_of(tmp_path / "both", run("j", "a", 2, 16, "122G", node="n[1-2]"), sheet)
    assert own(both, "a") == Decimal("6.25")


def test_what_does_not_divide_by_a_runs_nodes_is_lost_on_none(tmp_path: Path) -> None:
    """9 CPUs over two nodes are 5 and 4, and one CPU of each node weighs the same."""
    sheet = costs("{node: 'n[1-2]', gpu_model: P4, gpus: 8, cpus: 64, mem: 488G}")
    audited = audited_of(tmp_path, run("j", "a", 2, 9, "0G", node="n[1-2]"), sheet)
    assert_near(own(audited, "a"), of_ten(Decimal("18") + Decimal("8.1")))
    assert_all_of_it(audited, "20")


def test_a_price_that_changes_splits_a_run_and_hours_out_of_service_cost_nothing(tmp_path: Path) -> None:
    """In service from 06:00 for 10 hours: 4 at 7, then 6 at 11, no matter how a run lies over them."""
    node = "{node: n1, gpu_model: P4, gpus: 8, cpus: 64, mem: 488G, from: 2026-02-10T06:00, to: 2026-02-10T16:00}"
    sheet = costs(node, "7, to: 2026-02-10T10:00").replace(
        "\ncompute:", "\ncompute:\n  - {gpu_model: P4, per_node_hour: 11, from: 2026-02-10T10:00, "
        "weights: {gpu: 1}}"
    )  # fmt: skip
    audited = audited_of(tmp_path, run("j", "a", 2, 16, "122G", "2026-02-10T09:00:00Z,2026-02-10T20:00:00Z"), sheet,
                         "2026-02-10..2026-02-11")  # fmt: skip
    # an hour of a quarter at 7, then 6 hours of a quarter at 11
    assert own(audited, "a") == Decimal("1.75") + Decimal("16.5")
    assert_all_of_it(audited, "94")


def test_odd_prices_times_and_shares_sum_to_the_price_to_the_last_digit(tmp_path: Path) -> None:
    sheet = costs(
        "{node: 'n[1-3]', gpu_model: P4, gpus: 7, cpus: 61, mem: 487.5G, to: 2026-02-10T07:13:11}", "13.377777777777",
        "{gpu: 8.7, cpu: 0.913, memory_gb: 0.077}",
    )  # fmt: skip
    rows = "".join(
        run(f"j{n}", f"t{n % 5}", n % 4, "" if n % 3 == 0 else n, f"{n * 7}G" if n % 4 else "",
            f"2026-02-10T00:{n:02d}:{n:02d}Z,2026-02-10T0{n % 9}:59:07Z", f"n{1 + n % 3}",
            share="3,7" if n % 5 == 0 else "1,1")
        for n in range(1, 40)
    )  # fmt: skip
    audited = audited_of(tmp_path, rows, sheet, "2026-02-10..2026-02-11")
    seconds = 3 * (7 * 3600 + 13 * 60 + 11)
    exact = Fraction("13.377777777777") * seconds / 3600
    assert_all_of_it(audited, str(Decimal(f"{round(exact * 10**12)}E-12")))
    assert tenant_row(audited, "t1").unpriced_rows == 0


def test_a_price_of_nothing_is_a_price(tmp_path: Path) -> None:
    audited = audited_of(tmp_path, run("j", "a", 1, 8, "61G"), costs(price="0"))
    row = tenant_row(audited, "a")
    assert (row.gpu_hours, row.cost_own, row.unpriced_rows) == ("1.000000", "0.00", 0)


@pytest.mark.parametrize(
    ("node", "rows", "told"),
    [
        ("{node: n1, gpu_model: P4, gpus: 8}", run("j", "a", 1, 1, "1G"),
         "costs.yaml line 6: .*cpus and mem of n1 are not known: the inventory does not say: give them in fleet"),
        ("{node: n1, gpu_model: P4, gpus: 8, cpus: 64}", run("j", "a", 1, 1, "1G"), " mem of n1 are not known"),
        ("{node: 'n[1-3]', gpu_model: P4, gpus: 8, mem: 9G}", "", r"cpus of n1 are not known \(nor of 2 more nodes\)"),
        ("{node: n1, gpu_model: P4, gpus: 8, cpus: 64, mem: 9G}", run("j", "a", 1, 1, "1G", node="n7"),
         "cpus and mem of n7 are not known: no inventory lists it"),
        ("{node: n1, gpu_model: P4, gpus: 8, cpus: 64, mem: 9G}", run("j", "a", 1, 1, "1G", node=""),
         "some runs name no node: give a usage log with nodes, or per_gpu_hour"),
    ],
)  # fmt: skip
def test_without_the_size_of_a_node_its_price_is_refused_with_what_to_give(
    tmp_path: Path, node: str, rows: str, told: str
) -> None:
    with pytest.raises(CostFileRefused, match=told):
        audited_of(tmp_path, rows or run("j", "a", 1, 1, "1G"), costs(node))


@pytest.mark.parametrize(
    ("weights", "node"),
    [("{gpu: 1}", "gpus: 8"), ("{gpu: 9, cpu: 1}", "gpus: 8, cpus: 4"), ("{cpu: 1}", "gpus: 0, cpus: 4")],
)
def test_only_what_is_weighed_must_be_known(tmp_path: Path, weights: str, node: str) -> None:
    sheet = costs(f"{{node: n1, gpu_model: P4, {node}}}", weights=weights)
    assert_all_of_it(audited_of(tmp_path, run("j", "a", 0, 1, "1G"), sheet), "10")


def test_gpus_that_weigh_nothing_cost_nothing_and_count(tmp_path: Path) -> None:
    sheet = costs(weights="{cpu: 1}")
    audited = audited_of(tmp_path, run("j", "a", 1, 0, "0G") + run("k", "b", 0, 16, "0G"), sheet)
    row = tenant_row(audited, "a")
    assert (row.gpu_hours, row.cost_own, row.unpriced_rows) == ("1.000000", "0.00", 0)
    assert own(audited, "b") == Decimal("2.5")
    assert_all_of_it(audited, "10")

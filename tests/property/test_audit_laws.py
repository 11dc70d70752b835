"""Laws of the whole audit over small fleets: hours and money are conserved, books tie out, no order or form matters."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wattledger_audit.assessment.bridge import BILLED, STEPS
from wattledger_audit.audit_run import Audited
from wattledger_core.line import IDLE as IDLE_TENANT
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.verdict_idle import IDLE_POLICIES

from tests.audit_cases import (
    DAY,
    at,
    bill,
    billing,
    costs,
    events,
    fleet,
    machine,
    reservations,
    run,
    usage,
)
from tests.audit_oracle import IDLE, QUARTERS, UNAVAILABLE, Day, Hold, Machine, Outage, Reserved, who_pays
from tests.audit_runner import audit_texts, bridge_amounts, unexplained

LAWS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TENANTS = ("a", "b", "c")
NEARLY = Fraction(1, 10**9)
"""Rows are rounded to 12 decimals, one by one."""
quarters = st.integers(-12, QUARTERS + 12)
spans = st.tuples(quarters, st.integers(1, QUARTERS)).map(lambda pair: (pair[0], min(sum(pair), QUARTERS + 13)))
shares = st.sampled_from([Fraction(1)] * 4 + [Fraction(1, 7), Fraction(3, 7), Fraction(4, 7), Fraction(1, 2)])
Row = dict[str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("laws")


@st.composite
def days(draw: st.DrawFn) -> Day:
    """Two machines; runs on named GPUs, which may overlap; outages; a reservation."""
    machines = [Machine("n1", draw(st.integers(1, 3))), Machine("n2", 2, draw(st.integers(-4, 20)), 80)]
    sizes = {found.name: found.gpus for found in machines}
    holds = []
    for number in range(draw(st.integers(0, 7))):
        start, end = draw(spans)
        node = draw(st.sampled_from(sorted(sizes)))
        holds.append(
            Hold(
                f"j{number}", draw(st.sampled_from(TENANTS)), node, draw(st.integers(0, sizes[node] - 1)), start, end,
                draw(shares), draw(st.sampled_from([False] * 3 + [True])),
                draw(st.sampled_from(["COMPLETED", "FAILED", "NODE_FAIL"])),
            )
        )  # fmt: skip
    outages = [
        Outage(draw(st.sampled_from(sorted(sizes))), *draw(spans), draw(st.sampled_from(["DOWN", "MAINT"])))
        for _ in range(draw(st.integers(0, 2)))
    ]
    reserved = [Reserved("b", "n1", *draw(spans))] if draw(st.booleans()) else []
    return Day(machines, holds, outages, reserved)


def rows_of(day: Day) -> list[Row]:
    """The day's usage rows."""
    return [
        run(
            hold.job, hold.tenant, hold.start / 4, hold.end / 4, node=hold.node, device=str(hold.device),
            share_num=str(hold.share.numerator), share_den=str(hold.share.denominator), state=hold.state,
            exclusive="yes" if hold.exclusive else "",
        )
        for hold in day.holds
    ]  # fmt: skip


def files_of(day: Day, rows: Sequence[Row] | None = None, said: str = "") -> dict[str, str]:
    """The day as files: usage, inventory, events, reservations, costs of 1 per GPU-hour."""
    files = {
        "u.csv": usage(*(rows_of(day) if rows is None else rows)),
        "f.csv": fleet(
            *(
                machine(m.name, m.gpus, in_service_from=at(m.start / 4), in_service_to=at(m.end / 4))
                for m in day.machines
            )
        ),
        "c.yaml": costs(said),
    }
    if day.outages:
        files["e.txt"] = events(*((o.node, o.start / 4, o.end / 4, o.state) for o in day.outages))
    if day.reserved:
        files["r.csv"] = reservations(*(("r", r.tenant, r.node, "", r.start / 4, r.end / 4) for r in day.reserved))
    return files


def audit(folder: Path, files: Mapping[str, str]) -> Audited:
    return audit_texts(folder, files, DAY, timezone="UTC")


def paid(audited: Audited) -> dict[str, Fraction]:
    """Money by payer, from the cost rows."""
    found: dict[str, Fraction] = {}
    for row in audited.assessment.costed.rows:
        name = IDLE if row.tenant == IDLE_TENANT else UNAVAILABLE if row.tenant in RESERVED_TENANTS else row.tenant
        found[name] = found.get(name, Fraction(0)) + Fraction(row.cost or 0)
    return {name: amount for name, amount in found.items() if amount}


def nearly(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> bool:
    return all(abs(one.get(key, Fraction(0)) - other.get(key, Fraction(0))) <= NEARLY for key in {*one, *other})


@LAWS
@given(days())
def test_everybody_pays_what_the_oracle_says(folder: Path, day: Day) -> None:
    audited = audit(folder, files_of(day))
    assert nearly(paid(audited), who_pays(day)), (paid(audited), who_pays(day))
    assert unexplained(audited) == []


@LAWS
@given(days())
def test_states_sum_to_the_time_in_service_and_money_to_its_price(folder: Path, day: Day) -> None:
    """2 per GPU-hour, 0.5 kW at 0.40 per kWh whatever a GPU does, and a pool of 1000: whoever did what."""
    said = (
        "compute: [{per_gpu_hour: 2}]\nenergy: {pue: 1, default_per_kwh: 0.40}\npower: [{busy_w: 500, idle_w: 500}]\n"
        "pools: [{name: p, amount: 1000, driver: installed_gpu_h, service_from: 2026-02-10, service_to: 2026-02-11}]"
    )
    audited = audit(folder, files_of(day, said=said))
    installed = sum((Fraction(m.gpus * (min(m.end, QUARTERS) - max(m.start, 0)), 4) for m in day.machines), Fraction(0))
    report = audited.report.fleet
    named = ("held", "free", "stranded", "reserved_unused", "unavailable")
    assert abs(sum(Fraction(report[name]) for name in named) - installed) <= Fraction(5, 10**6)
    assert Fraction(report["installed"]) == installed
    assert abs(sum(paid(audited).values()) - (installed * Fraction("2.2") + 1000)) <= NEARLY


@LAWS
@given(days(), st.data())
def test_idle_shares_and_what_stays_apart_are_the_idle_cost(folder: Path, day: Day, data: st.DataObject) -> None:
    audited = audit(folder, files_of(day))
    idle = paid(audited).get(IDLE, Fraction(0))
    for policy in IDLE_POLICIES:
        shares = [Fraction(row.by_policy[policy].idle_share or 0) for row in audited.report.tenants]
        skus = [Fraction(row.by_policy[policy].idle_share or 0) for row in audited.report.skus]
        assert sum(shares) == sum(skus)
        assert 0 <= sum(shares) <= idle + NEARLY
        held = any(Fraction(row.gpu_hours) for row in audited.report.tenants)
        if policy in ("weighted", "even") and held:
            assert abs(sum(shares) - idle) <= NEARLY
        if policy == "apart":
            assert sum(shares) == 0


SOLD = ("H100", "H100 reserved", "A100", "gpu")
SKUS = (*SOLD, "SLA credit", "VAT", "Object storage")


@st.composite
def bills(draw: st.DrawFn) -> list[Row]:
    """Lines of any tenant, of any part of the time, with and without quantities; credits are negative."""
    lines = []
    for number in range(draw(st.integers(1, 8))):
        start, end = draw(spans)
        sku = draw(st.sampled_from(SKUS))
        cents = draw(st.integers(1, 500_000))
        amount = Decimal(-cents if sku == "SLA credit" else cents) / 100
        quantity, unit = "", ""
        if sku in SOLD:
            quantity = draw(st.sampled_from(["", "1", "7.5", "24", "100"]))
            unit = draw(st.sampled_from(["GPU-hours", "minutes", "GPU-months", "node-hours", ""]))
        lines.append(
            bill(
                draw(st.sampled_from([*TENANTS, "z"])), sku, quantity, f"{amount:f}", unit,
                invoice_id=f"I{number}", period_start=at(start / 4), period_end=at(end / 4),
            )
        )  # fmt: skip
    return lines


@LAWS
@given(days(), bills(), st.sampled_from(["", "increment: 1h, ", "minimum: 30m, ", "billed_by: end, "]))
def test_the_bridge_closes_and_invoices_tie_out(folder: Path, day: Day, lines: list[Row], terms: str) -> None:
    said = f"tenants: [{{name: a, {terms}contract: 3}}, {{name: b, plan: internal}}]"
    audited = audit(folder, {**files_of(day, said=said), "b.csv": billing(*lines)})
    amounts = bridge_amounts(audited)
    assert sum(amounts[step] for step in STEPS if step != BILLED) == amounts[BILLED]
    expected = sum((_inside(line) for line in lines if _is_gpu(line)), Fraction(0))
    assert abs(Fraction(amounts[BILLED]) - expected) <= NEARLY
    assert unexplained(audited) == []
    rows = [Fraction(row.billed or 0) for row in audited.report.tenants]
    assert abs(sum(rows) - expected) <= NEARLY


def _is_gpu(line: Row) -> bool:
    return line["sku"] not in ("VAT", "Object storage")


def _inside(line: Row) -> Fraction:
    """The part of a line's amount inside the day, by time."""
    start, end = (_quarter(line[name]) for name in ("period_start", "period_end"))
    return Fraction(line["amount"]) * Fraction(max(min(end, QUARTERS) - max(start, 0), 0), end - start)


def _quarter(stamp: str) -> int:
    return next(q for q in range(-12, QUARTERS + 14) if at(q / 4) == stamp)


def said(audited: Audited) -> dict[str, Any]:
    """The report, but for the list of files: its order is that of the command line."""
    report = audited.report.model_dump()
    del report["files"]
    return report


@LAWS
@given(days(), bills(), st.randoms(use_true_random=False))
def test_the_order_of_files_changes_nothing(folder: Path, day: Day, lines: list[Row], random: Any) -> None:
    rows = rows_of(day)
    half = len(rows) // 2
    files = files_of(day, rows[:half]) | {"v.csv": usage(*rows[half:])} if half else files_of(day, rows)
    files |= {"b1.csv": billing(*lines[::2])} | ({"b2.csv": billing(*lines[1::2])} if lines[1:] else {})
    shuffled = list(files.items())
    random.shuffle(shuffled)
    assert said(audit(folder, dict(shuffled))) == said(audit(folder, files))


@LAWS
@given(days(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nobodys_cost(folder: Path, day: Day, random: Any) -> None:
    rows = rows_of(day)
    shuffled = list(rows)
    random.shuffle(shuffled)
    # who of two exclusive jobs strands the rest is settled by their order, so there is only one
    if sum(hold.exclusive for hold in day.holds) < 2:
        assert paid(audit(folder, files_of(day, shuffled))) == paid(audit(folder, files_of(day, rows)))


@LAWS
@given(days(), st.integers(1, 5))
def test_a_run_in_two_rows_costs_what_it_costs_in_one(folder: Path, day: Day, after: int) -> None:
    """Each run is cut in two adjacent rows, but where its machine fails: what starts after that holds once more."""
    day = day._replace(outages=[outage for outage in day.outages if outage.state != "DOWN"])
    parts = [part for hold in day.holds for part in _halves(hold, after)]
    assert nearly(paid(audit(folder, files_of(day._replace(holds=parts)))), paid(audit(folder, files_of(day))))


def _halves(hold: Hold, after: int) -> list[Hold]:
    middle = hold.start + after
    return [hold] if middle >= hold.end else [hold._replace(end=middle), hold._replace(start=middle)]


@LAWS
@given(days(), bills())
def test_a_file_given_twice_changes_nothing(folder: Path, day: Day, lines: list[Row]) -> None:
    """Once as the same bytes, once with a blank line at its end: delivered again, not added."""
    files = files_of(day) | {"b.csv": billing(*lines)}
    twice = files | {f"again_{name}": text for name, text in files.items() if name != "c.yaml"}
    once = said(audit(folder, files))
    assert said(audit(folder, twice)) == once
    delivered = files | {"v.csv": files["u.csv"] + "\n", "w.csv": files["b.csv"] + "\n", "x.csv": files["f.csv"] + "\n"}
    again = audit(folder, delivered)
    assert paid(again) == paid(audit(folder, files))
    assert [step.amount for step in again.report.bridge] == [step["amount"] for step in once["bridge"]]
    assert again.report.fleet == once["fleet"]


@LAWS
@given(days())
def test_idle_hours_are_matched_once(folder: Path, day: Day) -> None:
    """Runs wait all day for every GPU: on no machine is more matched than was free."""
    waiting = [
        run(
            f"w{n}", "w", None, 24, 1 + n % 2, node="", submit=at(n), eligible=at(n), state="CANCELLED", limit_s="36000"
        )
        for n in range(12)
    ]
    report = audit(folder, files_of(day, [*rows_of(day), *waiting])).report
    for node in report.idle:
        matched = sum((Fraction(found.matched_gpu_hours) for found in node.waiting), Fraction(0))
        assert matched <= Fraction(node.idle_gpu_hours)


def test_the_oracle_agrees_with_a_case_by_hand() -> None:
    """One GPU of two for 10 h, exclusive: 20 h are a's; down from 20:00: 2 × 4; the rest is free."""
    day = Day([Machine("n", 2)], [Hold("j", "a", "n", 0, 0, 40, exclusive=True)], [Outage("n", 80, 96, "DOWN")])
    assert who_pays(day) == {"a": 20, UNAVAILABLE: 8, IDLE: 20}

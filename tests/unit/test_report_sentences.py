"""The first sentence of an audit and its next question: what they say for what was given, and what is missing."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from wattledger_audit.audit_run import Audited

from tests.audit_cases import DAY, at, bill, billing, costs, run, usage
from tests.audit_runner import audit_texts

USED = usage(run("1", "acme", 0, 10), run("2", "acme", 10, 12, state="NODE_FAIL"))
BILLED = billing(bill("acme", "H100", "10", "20.00"))
SACCT = "JobID|Account|State|Start|End|NodeList|AllocTRES"


def audited(folder: Path, period: str | None = DAY, per_gpu_hour: str | None = None, **files: str) -> Audited:
    texts = {f"{name}.{'yaml' if name == 'costs' else 'csv'}": text for name, text in files.items()}
    return audit_texts(folder, texts, period=period, per_gpu_hour=per_gpu_hour)


def test_without_billing_hours_are_said_as_the_waterfall_has_them(tmp_path: Path) -> None:
    report = audited(tmp_path, used=USED).report
    assert report.headline.endswith(
        ", 10 GPU-hours were held and 2 more lost to failures that the provider pays. Without billing and costs there "
        "is no verdict."
    )
    assert float(report.fleet["held"]) == 10
    assert report.next_answer.startswith("What was billed?")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([bill("acme", "H100", "10", "20.00")], "all that was used is on an invoice."),
        ([bill("acme", "H100", "5", "10.00", period_end=at(5))], "10.00 USD of usage was not billed."),
        ([bill("globex", "A100", "5", "9.00")],
         "10 GPU-hours were not billed and have no known rate; 9.00 USD was billed to names without usage, perhaps "
         "the same tenants."),
        ([bill("Acme Inc", "H100", "5", "10.00")],
         "20.00 USD of usage was not billed; 10.00 USD was billed to names without usage, perhaps the same tenants."),
    ],
)  # fmt: skip
def test_before_costs_the_leak_is_said_in_money_or_in_hours(
    tmp_path: Path, lines: Sequence[dict[str, str]], said: str
) -> None:
    report = audited(tmp_path, used=usage(run("1", "acme", 0, 10)), billed=billing(*lines)).report
    assert report.headline.partition(", ")[2] == f"{said} Costs are not given, so nobody is judged yet."
    assert all("insufficient" not in line for line in report.verdict_lines)


def test_one_tenant_below_cost_is_said_in_the_singular(tmp_path: Path) -> None:
    report = audited(tmp_path, per_gpu_hour="3", used=USED, billed=BILLED).report
    assert report.headline.startswith("1 of 1 tenant is billed below cost in ")


def test_what_is_billed_for_no_usage_is_not_called_healthy_in_the_verdict(tmp_path: Path) -> None:
    both = billing(bill("acme", "H100", "10", "200.00"), bill("globex", "H100", "10", "20.00"))
    report = audited(tmp_path, used=USED, billed=both, costs=costs()).report
    assert [line for line in report.verdict_lines if line.startswith("globex")] == [
        "globex: billed without usage, margin 20.00 USD: find out what was billed: no usage goes with it"
    ]


def test_a_period_without_anything_says_what_the_files_are_of(tmp_path: Path) -> None:
    report = audited(tmp_path, period="2025-01", used=USED, billed=BILLED).report
    assert report.headline == "Nothing in these files is of 2025-01: no run and no billed line."
    assert report.next_answer == (
        "Which time? The files are of 2026-02-10 to 2026-02-11: say --period 2026-02, or leave it out."
    )


def test_lines_that_were_lost_are_asked_about_first_with_their_money(tmp_path: Path) -> None:
    lines = [bill("acme", "H100", "10", "20.00"), bill("", "H100", "10", "7.50"), bill("x", "y", "1", "2", currency="")]
    report = audited(tmp_path, used=USED, billed=billing(*lines)).report
    assert report.next_answer == (
        "Why were 2 of 3 lines of billed.csv not used (2.00, 7.50 USD)? Most are no_currency: rejected.csv says each "
        "one's reason; mend the file or export it again."
    )


def test_totals_steps_and_other_months_are_no_lost_lines(tmp_path: Path) -> None:
    lines = [bill("acme", "H100", "10", "20.00"), bill("Total", "", "", "20.00", invoice_id="")]
    lines += [
        bill("acme", "H100", "10", "9.00", period_start="2026-01-01T00:00:00Z", period_end="2026-02-01T00:00:00Z")
    ]
    report = audited(tmp_path, used=USED, billed=billing(*lines)).report
    assert [code for _, code, _, _ in report.rejected] == ["outside_period", "total_row"]
    assert not report.next_answer.startswith("Why")


@pytest.mark.parametrize(
    ("end", "state", "said"),
    [
        ("2026-02-12T03:00:00", "COMPLETED",
         "The usage log ends 2026-02-12 03:00, the period 2026-03-01 00:00: of the last 16 days no file says what was "
         "used"),
        ("Unknown", "RUNNING",
         "The usage log ends 2026-02-11 00:00, the period 2026-03-01 00:00: of the last 18 days no file says what was "
         "used; 1 run that was still open then counted to its end"),
        ("2026-02-27T03:00:00", "COMPLETED", ""),
    ],
)  # fmt: skip
def test_a_log_that_ends_early_is_asked_about_and_named_among_the_assumptions(
    tmp_path: Path, end: str, state: str, said: str
) -> None:
    dump = "\n".join([
        SACCT, "1|acme|COMPLETED|2026-02-01T00:00:00|2026-02-01T10:00:00|n1|gres/gpu=1",
        f"2|acme|{state}|2026-02-11T00:00:00|{end}|n1|gres/gpu=1", "",
    ])  # fmt: skip
    report = audit_texts(tmp_path, {"dump.txt": dump}, period="2026-02", timezone="UTC").report
    assert any(line == f"{said}." for line in report.assumptions) == bool(said)
    assert report.next_answer.startswith(f"Is the usage log whole? {said}" if said else "What was billed?")


def test_a_log_that_begins_late_is_asked_about(tmp_path: Path) -> None:
    report = audited(tmp_path, period="2026-02-01..2026-02-12", used=USED).report
    assert (
        "The usage log begins 2026-02-10 00:00, the period 2026-02-01 00:00: of the first 9 days" in report.next_answer
    )


def test_a_usage_log_without_a_run_is_told_from_one_that_was_not_given(tmp_path: Path) -> None:
    empty = audited(tmp_path / "a", used=SACCT + "\n", billed=BILLED).report
    assert empty.next_answer.startswith("What was used? used.csv holds no run: export it again")
    assert "it holds no record" in next(file.why for file in empty.files if file.name == "used.csv")
    assert audited(tmp_path / "b", billed=BILLED).report.next_answer.startswith("What was used? Give a usage log")


def test_every_mark_of_a_run_says_how_it_was_counted(tmp_path: Path) -> None:
    rows = [
        SACCT + "|ElapsedRaw", "1|acme|COMPLETED|1770681600|1770685200|n1|gres/gpu=1|1800",
        "2|acme|COMPLETED|1770681600|Unknown|n1|gres/gpu=1|3600",
        "3|acme|ODD|1770681600|1770685200|n1|gres/shard=1|3600",
        "4|acme|COMPLETED|1770681600|1770685200|n[1|cpu=4,gres/gpu|9999", "",
    ]  # fmt: skip
    found = audit_texts(tmp_path, {"dump.txt": "\n".join(rows)}, timezone="UTC").report.discrepancies
    rules = {one.kind: one.rule for one in found}
    marks = {"suspended_from_elapsed", "end_from_elapsed", "unknown_state", "shard_share_unknown", "tres_cut"}
    assert marks | {"nodes_unreadable", "elapsed_disagrees"} <= rules.keys()
    assert [kind for kind in marks if rules[kind] == "counted as the source says"] == []


def test_an_invoice_that_came_twice_says_which_file_counts(tmp_path: Path) -> None:
    first, second = billing(bill("acme", "H100", "10", "20.00")), billing(bill("acme", "H100", "10", "25.00"))
    report = audit_texts(tmp_path, {"a.csv": first, "b.csv": second, "used.csv": USED}, period=DAY).report
    assert [step.amount for step in report.bridge if step.step == "billed"] == ["25.00"]
    assert [line for line in report.assumptions if "oldest first" in line] == [
        "Invoices that came more than once count once (20.00 USD is replaced): of files with the same invoice the one "
        "that was named last counts, so name them oldest first."
    ]


def test_a_cost_file_without_a_rate_is_told_from_none(tmp_path: Path) -> None:
    report = audited(tmp_path, used=USED, billed=BILLED, costs="currency: USD\ntimezone: UTC\nidle: even\n").report
    assert report.headline.endswith("The cost file has no rate yet, so nobody is judged yet.")
    assert report.next_answer == (
        "What does a GPU-hour cost? costs.yaml has no rate yet: fill in 'compute' (per_gpu_hour or purchase)."
    )

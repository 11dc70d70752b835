"""`--fail-on`: what holds, what does not, and what nobody can judge from what was given."""

from pathlib import Path

import pytest
from wattledger_audit.audit_run import Audited
from wattledger_audit.fail_condition import failures, parse_conditions

from tests.audit_cases import DAY, bill, billing, costs, run, usage
from tests.audit_runner import audit_texts

USED = usage(run("1", "acme", 0, 10))
TOTAL = bill("Total", "", "", "20.00", invoice_id="")


def audited(folder: Path, *, billed: bool = True, costed: bool = True, lost: bool = False) -> Audited:
    lines = [bill("acme", "H100", "10", "20.00"), TOTAL, *([bill("", "H100", "1", "3.00")] if lost else [])]
    files = {"used.csv": USED, **({"billed.csv": billing(*lines)} if billed else {})}
    return audit_texts(folder, {**files, **({"costs.yaml": costs()} if costed else {})}, period=DAY)


def said(found: Audited, condition: str) -> list[str]:
    return failures(parse_conditions(condition), found.report)


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ("rejected", []), ("unpriced", []), ("below-cost>1", []), ("unbilled>1%", []), ("idle>99%", []),
        ("coverage<10%", ["coverage is 0.0000 %, limit < 10 %"]),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_silent_and_a_total_row_is_no_lost_line(
    tmp_path: Path, condition: str, held: list[str]
) -> None:
    assert said(audited(tmp_path), condition) == held


def test_a_line_that_was_lost_holds(tmp_path: Path) -> None:
    assert said(audited(tmp_path, lost=True), "rejected") == ["rejected is 1, limit > 0"]
    assert said(audited(tmp_path, lost=True), "rejected>1") == []


@pytest.mark.parametrize(
    ("condition", "billed", "costed", "why"),
    [
        ("below-cost", True, False, "no costs were given"), ("below-cost", False, True, "no billing was given"),
        ("unbilled>5%", False, True, "no billing was given"), ("unpriced", True, False, "no costs were given"),
    ],
)  # fmt: skip
def test_what_nobody_can_judge_is_not_passed_over(
    tmp_path: Path, condition: str, billed: bool, costed: bool, why: str
) -> None:
    found = said(audited(tmp_path, billed=billed, costed=costed), condition)
    assert found == [f"{condition.partition('>')[0]} can't be judged: {why}"]

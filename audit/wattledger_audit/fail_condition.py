"""`--fail-on`: conditions on a report that make the exit code 1, for those who run audits from a scheduler."""

import re
from decimal import Decimal
from typing import NamedTuple

from wattledger_audit.assessment.assess import LEAKAGE
from wattledger_audit.report.lost_lines import ANSWERED
from wattledger_audit.report.model import Report

_CONDITION = re.compile(r"(below-cost|idle|unbilled|rejected|unpriced|coverage)(?:([<>])(\d+(?:\.\d+)?)(%?))?")
NAMES = ("below-cost", "idle>20%", "unbilled>5%", "rejected", "unpriced", "coverage<90%")


class ConditionRefused(ValueError):
    """A condition that can't be read; the message lists those that can."""


class Condition(NamedTuple):
    """One condition: what is looked at, which way is bad, and the limit as a share or a count (None: any at all)."""

    name: str
    sign: str
    limit: Decimal | None
    percent: bool


def parse_conditions(text: str) -> list[Condition]:
    """Conditions separated by commas. Raises `ConditionRefused`."""
    found = []
    for part in (piece.strip() for piece in text.split(",")):
        match = _CONDITION.fullmatch(part)
        if match is None:
            raise ConditionRefused(f"--fail-on {part!r}: use one of {', '.join(NAMES)}, separated by commas")
        name, sign, limit, percent = match.groups()
        if name == "coverage" and sign != "<":
            raise ConditionRefused(f"--fail-on {part!r}: coverage is bad when it is low: write coverage<90%")
        if name != "coverage" and sign == "<":
            raise ConditionRefused(f"--fail-on {part!r}: {name} is bad when it is high: write {name}>…")
        if name in ("idle", "coverage") and (limit is None or not percent):
            raise ConditionRefused(f"--fail-on {part!r}: it needs a share, such as {name}{sign or '>'}20%")
        found.append(Condition(name, sign or ">", None if limit is None else Decimal(limit), bool(percent)))
    return found


def failures(conditions: list[Condition], report: Report) -> list[str]:
    """The conditions that hold, each in words with the figure that it was held against; and those that can't be judged,
    since nobody knows that they do not hold."""
    return [said for condition in conditions if (said := _failed(condition, report)) is not None]


def _failed(condition: Condition, report: Report) -> str | None:
    lacking = _lacking(condition, report)
    if lacking:
        return f"{condition.name} can't be judged: {lacking}"
    value = _value(condition, report)
    limit = Decimal(0) if condition.limit is None else condition.limit
    bad = value < limit if condition.sign == "<" else value > limit
    unit = " %" if condition.percent else ""
    return f"{condition.name} is {value:f}{unit}, limit {condition.sign} {limit:f}{unit}" if bad else None


def _lacking(condition: Condition, report: Report) -> str:
    """What is not given that the condition is about; empty where all is there."""
    if condition.name in ("below-cost", "unbilled") and report.unbilled is None:
        return "no billing was given"
    if condition.name in ("below-cost", "unpriced") and report.stage == LEAKAGE:
        return "no costs were given"
    return "no machine is known" if condition.name == "idle" and not Decimal(report.fleet["installed"]) else ""


def _value(condition: Condition, report: Report) -> Decimal:
    name = condition.name
    if name == "below-cost":
        return Decimal(report.below_cost_tenants)
    if name == "idle":
        return _percent(report.fleet["free"], report.fleet["installed"])
    if name == "unbilled":
        unbilled = report.unbilled or "0"
        expected = next((step.amount for step in report.bridge if step.step == "contract_x_measured"), None)
        return _percent(unbilled, expected or "0") if condition.percent else Decimal(unbilled)
    if name == "coverage":
        return (Decimal(report.coverage.measured_ratio) + Decimal(report.coverage.modelled_ratio)) * 100
    if name == "rejected":
        return Decimal(sum(count for _, code, count, _ in report.rejected if code not in ANSWERED))
    return Decimal(report.coverage.unpriced_rows)


def _percent(part: str, whole: str) -> Decimal:
    return (Decimal(part) / Decimal(whole) * 100).quantize(Decimal("0.01")) if Decimal(whole) else Decimal(0)

"""What was billed: lines of the newest delivery each, in one currency, prorated to the period, by category and SKU."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from wattledger_core.units import MONEY_CONTEXT, QUARTER_US, US_PER_HOUR, round_money

from wattledger_audit.assessment.cost_book import FxRate, SkuRule
from wattledger_audit.assessment.names import TenantNames, model_family, squeezed
from wattledger_audit.assessment.terms import mig_profile, plan_of_text, slices_of
from wattledger_audit.intake.record import BillingLine
from wattledger_audit.intake.refusal import InputRefused, Rejections

SALES = ("usage", "commitment", "shortfall")
CREDITS = ("credit_promo", "credit_sla", "refund", "adjustment")
_HOURS = {
    "h": 1, "hr": 1, "hrs": 1, "hour": 1, "hours": 1, "gpuh": 1, "gpuhr": 1, "gpuhrs": 1, "gpuhour": 1, "gpuhours": 1,
    "instancehours": 1, "instancehour": 1, "suhours": 1, "suhour": 1, "stunden": 1, "gpustunden": 1, "std": 1,
    "sliceh": 1, "slicehour": 1, "slicehours": 1, "day": 24, "days": 24, "gpuday": 24, "gpudays": 24, "tage": 24,
}  # fmt: skip
_FRACTIONS = {
    "s": 3600, "sec": 3600, "second": 3600, "seconds": 3600, "gpusecond": 3600, "gpuseconds": 3600, "gpusec": 3600,
    "min": 60, "mins": 60, "minute": 60, "minutes": 60, "gpuminute": 60, "gpuminutes": 60, "gpumin": 60,
}  # fmt: skip
_INSTANCE_HOURS = ("instancehour", "instancehours")
_SEVERAL = re.compile(r"(?<![\w.])(\d{1,3})\s*x\s*(?=(?:nvidia|amd|gpu|[abhlmvt]\d|gb\d|gh\d|rtx))", re.IGNORECASE)
"""`8xH100`: one hour of it is eight GPU-hours."""
_NODE_HOURS = (
    "nodeh", "nodehr", "nodehrs", "nodehour", "nodehours", "serverhour", "serverhours", "hosthour", "hosthours",
)  # fmt: skip
_MONTHS = ("month", "months", "gpumonth", "gpumonths", "monat", "monate", "mo", "gpus")
"""Units of which one is one GPU over the whole service period; a plain `GPUs` is a count of them."""
_GPU_SECONDS = re.compile(r"gpu[\s._/*-]+s", re.IGNORECASE)
_MOST_EDGES = 130
_IN_PARTS = ("focus/", "cur/", "azure/", "gcp/", "oci/")
"""Deliveries of clouds, whose months come in several files."""
_MULTIPLE = re.compile(r"^\s*([\d,]+)\s+(.+)$")

_INSTANCE_TYPE = re.compile(r"\b(?:[a-z]+\d+[a-z]*\.(?:\d*x?large|metal)|(?:standard_)?n[cdv]\d+\w*)", re.IGNORECASE)
"""Machine types sold by the hour (`p5.48xlarge`, `ND96isr_H100_v5`): their names do not say how many GPUs."""
_MACHINE_GPUS = re.compile(r"(?:high|mega|ultra|edge)gpu-(\d+)g\b", re.IGNORECASE)
"""Machine types whose name says it (`a3-highgpu-8g`)."""


class Revenue(NamedTuple):
    """One billed line as the audit counts it: inside the period, net, in the audit's currency, 12 decimals.

    `gpu_hours` is its quantity in GPU-hours (None: not said or not comparable), prorated like the amount."""

    file: int
    line: BillingLine
    tenant: str
    sku: str
    plan: str
    category: str
    amount: Decimal
    gpu_hours: Fraction | None
    prorated: bool
    gpu: bool

    @property
    def start_us(self) -> int:
        return self.line.start_us

    @property
    def end_us(self) -> int:
        return self.line.end_us


@dataclass(slots=True)
class RevenueBook:
    """Lines that count, and where every other amount went, so that the files' totals tie out.

    `left_out`: reason → amount in the audit's currency (tax, outside the period, replaced deliveries).
    """

    currency: str
    lines: list[Revenue] = field(default_factory=list)
    left_out: dict[str, Decimal] = field(default_factory=dict)
    read_total: Decimal = Decimal(0)
    assumptions: list[str] = field(default_factory=list)
    found: list[tuple[str, str, str]] = field(default_factory=list)
    """Contradictions: kind, tenant, words."""
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class BillingRules:
    """What the cost file says of billing: currency, exchange rates, SKUs; and the period that is audited."""

    start_us: int
    end_us: int
    currency: str | None
    fx: Sequence[FxRate]
    skus: Mapping[str, SkuRule]
    gpus_per_node: Mapping[str, int]
    """GPUs of a node by model family, where every node of it has the same."""


def book_revenue(
    files: Sequence[tuple[str, Sequence[BillingLine]]],
    rules: BillingRules,
    names: TenantNames,
    rejections: Rejections,
) -> RevenueBook:
    """Every billing line of the files, in the order given. Raises `InputRefused` for currencies without a rate."""
    book = RevenueBook(_currency(files, rules))
    keep = _newest_deliveries(files)
    undecided: dict[str, Decimal] = {}
    for number, (name, lines) in enumerate(files):
        for line in lines:
            amount = _converted(name, line, book.currency, rules.fx)
            book.read_total = MONEY_CONTEXT.add(book.read_total, amount)
            reason = _left_out(line, number, keep, rules)
            if reason:
                code = reason.split(":", 1)[0]
                book.left_out[code] = MONEY_CONTEXT.add(book.left_out.get(code, Decimal(0)), amount)
                book.dropped += 1
                rejections.add(name, line.line, "amount", str(line.amount), reason, line.amount, line.currency)
                continue
            _take(book, number, line, amount, rules, names, undecided)
    for sku, amount in sorted(undecided.items()):
        book.assumptions.append(
            f"SKU '{sku}' ({_cents(amount)} {book.currency}) does not say whether it is for GPUs: it is counted as GPU "
            "revenue; say so under skus in the cost file"
        )
    return book


def _cents(amount: Decimal) -> str:
    return f"{amount.quantize(Decimal('0.01')):,}"


def _currency(files: Sequence[tuple[str, Sequence[BillingLine]]], rules: BillingRules) -> str:
    found = sorted({line.currency for _, lines in files for line in lines})
    if rules.currency:
        return rules.currency
    if len(found) > 1:
        raise InputRefused(
            f"{files[0][0]}: amounts in {', '.join(found)}: give a cost file with a currency and an fx table "
            "(currency, from, to, rate, source)"
        )
    return found[0] if found else "USD"


def _converted(name: str, line: BillingLine, currency: str, fx: Sequence[FxRate]) -> Decimal:
    if line.currency == currency:
        return line.amount
    for rate in fx:
        starts = rate.start_us is None or rate.start_us <= line.start_us
        if rate.currency == line.currency and starts and (rate.end_us is None or line.start_us < rate.end_us):
            return round_money(MONEY_CONTEXT.multiply(line.amount, rate.rate))
    raise InputRefused(
        f"{name}, line {line.line}: {line.amount} {line.currency}, but the audit is in {currency} and no fx rate of "
        f"{line.currency} holds then: add one to the cost file (fx: currency, from, to, rate, source)"
    )


def _newest_deliveries(files: Sequence[tuple[str, Sequence[BillingLine]]]) -> dict[str, set[int]]:
    """delivery → the files that count for it: the one of the highest rank, then the last given.

    A cloud's month may come in part files, which share a delivery and no line: those all count. What has a line of the
    same subject and period in a later file came again.
    """
    places: dict[str, dict[int, list[BillingLine]]] = {}
    for number, (_, lines) in enumerate(files):
        for line in lines:
            if line.delivery:
                places.setdefault(line.delivery, {}).setdefault(number, []).append(line)
    return {delivery: _counting(delivery, found) for delivery, found in places.items()}


def _counting(delivery: str, found: Mapping[int, Sequence[BillingLine]]) -> set[int]:
    newest = max(found, key=lambda number: (max(line.delivery_rank for line in found[number]), number))
    if not delivery.startswith(_IN_PARTS):
        return {newest}
    counting, subjects = {newest}, set(map(_subject, found[newest]))
    for number in sorted(found, reverse=True):
        if number not in counting and subjects.isdisjoint(map(_subject, found[number])):
            counting.add(number)
            subjects |= set(map(_subject, found[number]))
    return counting


def _subject(line: BillingLine) -> tuple[str, str, str, int, int]:
    """What a line is about, whatever it comes to."""
    return (line.tenant, line.sku, line.description, line.start_us, line.end_us)


def _left_out(line: BillingLine, number: int, keep: Mapping[str, set[int]], rules: BillingRules) -> str:
    if line.delivery and number not in keep[line.delivery]:
        return f"replaced_by_redelivery: {line.delivery} came again in a later file, which counts instead"
    if line.category == "tax":
        return "tax: revenue is net of tax"
    if line.end_us <= rules.start_us or line.start_us >= rules.end_us:
        return "outside_period: its service period lies outside the audited one"
    return ""


def _take(
    book: RevenueBook, number: int, line: BillingLine, amount: Decimal, rules: BillingRules, names: TenantNames,
    undecided: dict[str, Decimal],
) -> None:  # fmt: skip
    start_us, end_us = max(line.start_us, rules.start_us), min(line.end_us, rules.end_us)
    share = Fraction(max(end_us - start_us, 1), max(line.end_us - line.start_us, 1))
    if share < 1:
        inside = round_money(
            MONEY_CONTEXT.divide(MONEY_CONTEXT.multiply(amount, Decimal(share.numerator)), Decimal(share.denominator))
        )
        rest = MONEY_CONTEXT.subtract(amount, inside)
        book.left_out["prorated_away"] = MONEY_CONTEXT.add(book.left_out.get("prorated_away", Decimal(0)), rest)
        amount = inside
    rule = rules.skus.get(line.sku)
    text = f"{line.sku} {line.description}"
    gpu = _is_gpu(line, rule, text)
    if gpu is None:
        gpu = True
        if line.category in SALES:
            undecided[line.sku] = MONEY_CONTEXT.add(undecided.get(line.sku, Decimal(0)), amount)
    quantity = _gpu_hours(line, rule, rules, text) if line.category in SALES else None
    plan = line.plan or (rule.plan if rule else "") or plan_of_text(text)
    book.lines.append(
        Revenue(
            number, line, names.resolve("billing", line.tenant), line.sku, plan,
            line.category if gpu else "non_gpu", amount, None if quantity is None else quantity * share, share < 1, gpu,
        )
    )  # fmt: skip


def _is_gpu(line: BillingLine, rule: SkuRule | None, text: str) -> bool | None:
    if line.category == "non_gpu":
        return False
    if rule is not None:
        return rule.gpu
    if line.gpu is not None:
        return line.gpu
    if model_family(text) or "gpu" in text.casefold() or "gpu" in line.unit.casefold():
        return True
    return True if line.category in CREDITS else None


def _gpu_hours(line: BillingLine, rule: SkuRule | None, rules: BillingRules, text: str) -> Fraction | None:
    """The quantity in GPU-hours, None where the unit cannot be compared with GPU time."""
    if line.quantity is None or (not line.unit and (line.quantity == 1 or line.category != "usage")):
        # one of something that is not said, or so many of what was committed to: no hours
        return None
    unit, multiple = line.unit, Fraction(1)
    found = _MULTIPLE.match(unit)
    if found:
        unit, multiple = found.group(2), Fraction(int(found.group(1).replace(",", "")))
    word = "gpusec" if _GPU_SECONDS.fullmatch(unit.strip()) else squeezed(unit)
    several = _SEVERAL.search(text) or _MACHINE_GPUS.search(text)
    hours = _unit_hours(word, line, rule, rules, text)
    by_instance = word in _INSTANCE_HOURS or (not word.startswith("gpu") and _INSTANCE_TYPE.search(text) is not None)
    if hours is None or (by_instance and rule is None and several is None):
        return None
    if rule is not None and word not in _NODE_HOURS:
        hours *= rule.gpus_per_unit
    elif several is not None and word not in _NODE_HOURS and not word.startswith("gpu"):
        hours *= int(several.group(1))
    profile = mig_profile(text)
    if profile and not word.startswith("gpu"):
        hours *= Fraction(int(profile[0]), slices_of(text))
    return Fraction(line.quantity) * multiple * hours


def _unit_hours(
    word: str, line: BillingLine, rule: SkuRule | None, rules: BillingRules, text: str
) -> Fraction | None:  # fmt: skip
    """Hours of one unit, of one GPU or of all of a node's."""
    if word in _HOURS or not word:
        return Fraction(_HOURS.get(word, 1))
    if word in _FRACTIONS:
        return Fraction(1, _FRACTIONS[word])
    if word in _NODE_HOURS:
        per_node = rules.gpus_per_node.get(model_family(text)) if rule is None else rule.gpus_per_unit
        return None if per_node is None else Fraction(per_node)
    return Fraction(line.end_us - line.start_us, US_PER_HOUR) if word in _MONTHS else None


def billed_edges(lines: Iterable[Revenue]) -> set[int]:
    """Where lines that sell GPU time start and end, on the quarter-hour grid: between them all is billed or nothing.

    None where there are too many to tell time by (a bill of single hours)."""
    found = {at_us for line in gpu_sales(lines) for at_us in (line.start_us, line.end_us) if at_us % QUARTER_US == 0}
    return found if len(found) <= _MOST_EDGES else set()


def gpu_sales(lines: Iterable[Revenue]) -> list[Revenue]:
    """Lines that sell GPU time (usage, commitments, shortfalls)."""
    return [line for line in lines if line.gpu and line.category in SALES]

"""One tenant's usage for that tenant to read: its runs, days, SKUs and billed quantities. No price, and nobody else.

Of a cost file only what the tenant itself agreed gets in here: its names, plan, time zone, increment and who pays.
"""

from collections.abc import Iterable
from zoneinfo import ZoneInfo

from wattledger_core.capacity import HELD_STATE, RESERVED_STATE, STRANDED_STATE

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.cost_book import PROVIDER
from wattledger_audit.assessment.revenue import SALES, Revenue
from wattledger_audit.assessment.run_book import NONE_US
from wattledger_audit.report.amount_text import fraction_hours, kwh, part_hours, ratio
from wattledger_audit.shown_time import local_text
from wattledger_audit.statement_days import NOT_CHARGED, DayKey, UsedSum, used_by_day
from wattledger_audit.statement_value import DayUsed, LineBilled, ProjectUsed, RunUsed, SkuUsed, Statement

SkuKey = tuple[str, str, str]
"""SKU, plan, GPU model."""


def build_statement(assessment: Assessment, tenant: str) -> Statement:
    """The statement of a tenant (by the audit's name) over the assessment's period."""
    zone = assessment.terms.terms_of(tenant).billing_timezone or assessment.period.zone
    shown = _OwnSkus(assessment, tenant)
    by_day = used_by_day(assessment, tenant, zone, shown.name)
    numbers = _runs_of(assessment, tenant)
    total = _sum(by_day.values())
    lines = [line for line in assessment.revenue.lines if line.tenant == tenant and line.gpu and line.category in SALES]
    has_billing = assessment.has_billing
    depth = {"time": "scheduler", "energy": "counter" if total.energy_uj is not None else "not measured"}
    if has_billing:
        depth["billed quantity"] = "invoice"
    return Statement(
        tenant=tenant,
        period_start=local_text(assessment.period.start_us, zone),
        period_end=local_text(assessment.period.end_us, zone),
        timezone=zone.key,
        gpu_hours=part_hours(total.held),
        not_charged_gpu_hours=part_hours(total.of(NOT_CHARGED)),
        energy_kwh=kwh(total.energy_uj),
        depth=depth,
        projects=_projects(assessment, numbers),
        skus=_skus(assessment, tenant, by_day, lines, shown),
        days=tuple(_day(key, found) for key, found in _without_plan(by_day).items() if found.held),
        runs=tuple(_run(assessment, number, zone, shown) for number in numbers),
        billed=tuple(_billed(line, zone) for line in lines) if has_billing else None,
    )


class _OwnSkus:
    """What a tenant is shown of a SKU: a name that it was billed by or wrote itself, else the GPU model.

    Use that was never billed stands under a SKU of others, whose name can name them."""

    def __init__(self, assessment: Assessment, tenant: str) -> None:
        names = assessment.terms.names
        self._own = {line.sku for line in assessment.revenue.lines if line.tenant == tenant}
        self._own |= {who.sku for who in assessment.runs.whos if names.resolve("usage", who.tenant) == tenant}

    def name(self, sku: str, gpu_model: str) -> str:
        """The SKU, or the GPU model in its place."""
        return sku if sku in self._own else gpu_model


def _sum(sums: Iterable[UsedSum]) -> UsedSum:
    total = UsedSum()
    for found in sums:
        total.add(found.parts, found.energy_uj)
    return total


def _runs_of(assessment: Assessment, tenant: str) -> list[int]:
    """Its GPU runs inside the period, by project, job and start; also those whose number of GPUs is not known."""
    runs, resolve = assessment.runs, assessment.terms.names.resolve
    whos = {at for at, who in enumerate(runs.whos) if resolve("usage", who.tenant) == tenant}
    uncounted = set(assessment.swept.uncounted)
    numbers = [
        number
        for number in runs.held_numbers(assessment.period.start_us, assessment.period.end_us)
        if runs.who[number] in whos and (runs.shapes[runs.shape[number]].gpus or number in uncounted)
    ]
    return sorted(
        numbers, key=lambda n: (runs.whos[runs.who[n]].project, runs.jobs[n], runs.start_us[n], runs.file[n], n)
    )  # fmt: skip


def _run(assessment: Assessment, number: int, zone: ZoneInfo, shown: "_OwnSkus") -> RunUsed:
    runs, swept, measured = assessment.runs, assessment.swept, assessment.measured
    who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
    holder = swept.run_holder.get(number)
    parts = swept.run_parts[number]
    known = number not in swept.uncounted
    charged = assessment.terms.bearer(assessment.terms.names.resolve("usage", who.tenant), who.state) != PROVIDER
    seen = min(measured.run_parts.get(number, 0), parts)
    note = "" if charged else "the provider bears a run that ends so: it is not charged"
    if not known:
        note = "the log does not say how many GPUs it had"
    elif runs.suspended_us[number]:
        note = f"{note}; without its suspended time".removeprefix("; ")
    end_us = runs.end_us[number]
    return RunUsed(
        project=who.project,
        cluster=who.cluster,
        job=runs.jobs[number],
        sku=shown.name(holder.sku, assessment.model_of(number)) if holder else "",
        plan=holder.plan if holder else "",
        gpu_model=assessment.model_of(number),
        gpus=shape.gpus,
        share="" if shape.share_num == shape.share_den else f"{shape.share_num}/{shape.share_den}",
        start=local_text(runs.start_us[number], zone),
        end=None if end_us == NONE_US else local_text(end_us, zone),
        gpu_hours=part_hours(parts) if known else None,
        energy_kwh=kwh(measured.run_uj.get(number)),
        energy_ratio=ratio(seen, parts) if number in measured.run_uj and seen < parts else None,
        state=who.state,
        charged=charged,
        note=note,
    )


def _projects(assessment: Assessment, numbers: list[int]) -> tuple[ProjectUsed, ...]:
    runs, swept = assessment.runs, assessment.swept
    sums: dict[str, UsedSum] = {}
    counts: dict[str, int] = {}
    for number in numbers:
        who = runs.whos[runs.who[number]]
        paid = assessment.terms.bearer(assessment.terms.names.resolve("usage", who.tenant), who.state) != PROVIDER
        counts[who.project] = counts.get(who.project, 0) + 1
        sums.setdefault(who.project, UsedSum()).add(
            {HELD_STATE if paid else NOT_CHARGED: swept.run_parts[number]}, assessment.measured.run_uj.get(number)
        )
    return tuple(
        ProjectUsed(
            name, counts[name], part_hours(found.held), part_hours(found.of(NOT_CHARGED)), kwh(found.energy_uj)
        )
        for name, found in sorted(sums.items())
    )  # fmt: skip


def _skus(
    assessment: Assessment, tenant: str, by_day: dict[DayKey, UsedSum], lines: list[Revenue], shown: "_OwnSkus"
) -> tuple[SkuUsed, ...]:
    sums: dict[SkuKey, UsedSum] = {}
    for (_, *key), found in by_day.items():
        sums.setdefault((key[0], key[1], key[2]), UsedSum()).add(found.parts, found.energy_uj)
    billable: dict[SkuKey, int] = {}
    for sold in assessment.billable.parts:
        if sold.tenant == tenant:
            place = (shown.name(sold.sku, sold.gpu_model), sold.plan, sold.gpu_model)
            billable[place] = billable.get(place, 0) + assessment.billable.total(sold)
    return tuple(
        SkuUsed(
            *key,
            part_hours(found.held),
            part_hours(found.of(NOT_CHARGED)),
            part_hours(found.of(RESERVED_STATE)),
            part_hours(found.of(STRANDED_STATE)),
            part_hours(billable.get(key, 0)),
            _billed_hours(key[0], lines) if assessment.has_billing else None,
            kwh(found.energy_uj),
        )
        for key, found in sorted(sums.items())
    )


def _billed_hours(sku: str, lines: list[Revenue]) -> str | None:
    """GPU-hours of the invoice lines of a SKU; None where there are none, or one does not say."""
    hours = [line.gpu_hours for line in lines if line.sku == sku]
    known = [each for each in hours if each is not None]
    return fraction_hours(sum(known[1:], known[0])) if hours and len(known) == len(hours) else None


def _without_plan(by_day: dict[DayKey, UsedSum]) -> dict[DayKey, UsedSum]:
    found: dict[DayKey, UsedSum] = {}
    for key, each in by_day.items():
        found.setdefault(key._replace(plan=""), UsedSum()).add(each.parts, each.energy_uj)
    return found


def _day(key: DayKey, found: UsedSum) -> DayUsed:
    return DayUsed(
        key.day, key.sku, key.gpu_model, part_hours(found.held), part_hours(found.of(NOT_CHARGED)), kwh(found.energy_uj)
    )


def _billed(line: Revenue, zone: ZoneInfo) -> LineBilled:
    quantity = line.line.quantity
    return LineBilled(
        invoice_id=line.line.invoice_id,
        sku=line.sku,
        category=line.category,
        start=local_text(line.start_us, zone),
        end=local_text(line.end_us, zone),
        quantity=None if quantity is None else format(quantity, "f"),
        unit=line.line.unit,
        gpu_hours=fraction_hours(line.gpu_hours),
        prorated=line.prorated,
    )

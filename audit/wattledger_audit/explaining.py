"""Every number of a tenant's rows back to its lines, price versions and formulas; sums end in the report's figures."""

from collections.abc import Sequence
from decimal import Decimal

from wattledger_core.capacity import HELD_STATE
from wattledger_core.cost import CostRow
from wattledger_core.pricing import COMPUTE, ENERGY
from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.audit_run import Audited
from wattledger_audit.explain_value import BilledLine, Figure, IdleShare, RowExplained, TenantExplained
from wattledger_audit.explaining_billed import billed_lines, lines_not_counted
from wattledger_audit.explaining_idle import idle_shares
from wattledger_audit.explaining_priced import PriceBook, priced_groups
from wattledger_audit.explaining_runs import runs_of_tenant, shown_runs
from wattledger_audit.explaining_spread import SpreadBook, spread_groups
from wattledger_audit.report.amount_text import kwh, money, part_hours
from wattledger_audit.report.model import Row
from wattledger_audit.report.sums import tenant_key, total
from wattledger_audit.shown_time import local_text

MOST_RUNS = 1_000


def explain_tenant(audited: Audited, tenant: str) -> TenantExplained:
    """A tenant by the audit's name; it has a row for what is sold, and others for internal and trial use."""
    assessment, book = audited.assessment, audited.assessment.book
    period = assessment.period
    rows = [row for row in audited.report.tenants if row.tenant == tenant]
    prices = PriceBook(assessment)
    spreads = SpreadBook.of(book, assessment.costed, assessment.swept.ledger, period.zone)
    keys = [(row.tenant, row.sku, row.plan) for row in rows]
    billed = billed_lines(assessment, tenant, keys)
    return TenantExplained(
        kind="tenant",
        tenant=tenant,
        period_start=local_text(period.start_us, period.zone),
        period_end=local_text(period.end_us, period.zone),
        timezone=period.zone.key,
        currency=book.currency,
        stage=assessment.stage,
        rows=tuple(_row(assessment, row, billed[key], prices, spreads) for row, key in zip(rows, keys, strict=True)),
        not_counted=lines_not_counted(assessment, tenant),
    )


def _row(
    assessment: Assessment, row: Row, billed: Sequence[BilledLine], prices: PriceBook, spreads: SpreadBook
) -> RowExplained:
    key = (row.tenant, row.sku, row.plan)
    costed = assessment.stage != LEAKAGE
    rows = [each for each in assessment.costed.rows if tenant_key(each.tenant, each.plan) == key] if costed else []
    idle = idle_shares(assessment, key, prices, spreads) if costed else ()
    runs = _runs(assessment, row)
    return RowExplained(
        tenant=row.tenant,
        plan=row.plan,
        verdict=row.verdict,
        reason=row.reason,
        action=row.action,
        figures=tuple(_figures(assessment, row, rows, idle, billed)),
        priced=priced_groups(rows, prices),
        spread=spread_groups(rows, spreads),
        idle=idle,
        billed=tuple(billed),
        runs=shown_runs(assessment, runs[:MOST_RUNS]),
        more_runs=max(len(runs) - MOST_RUNS, 0),
    )


def _runs(assessment: Assessment, row: Row) -> list[int]:
    """The tenant's runs that are in this row."""
    found = runs_of_tenant(assessment, row.tenant)
    whos, who = assessment.runs.whos, assessment.runs.who
    plan_of = assessment.terms.plan_of
    return [n for n in found if tenant_key(row.tenant, plan_of(row.tenant, whos[who[n]].plan))[2] == row.plan]


def _figures(
    assessment: Assessment, row: Row, rows: Sequence[CostRow], idle: Sequence[IdleShare], billed: Sequence[BilledLine]
) -> list[Figure]:
    """The row's figures in order; sums are made from what is shown, prices are the report's."""
    key = (row.tenant, row.sku, row.plan)
    currency, hour = assessment.book.currency, f"{assessment.book.currency} per GPU-hour"
    held = sum(
        parts
        for at, parts in assessment.swept.ledger.parts.items()
        if at.holder.state == HELD_STATE and tenant_key(at.holder.tenant, at.holder.plan) == key
    )
    found = [
        Figure("gpu_hours", part_hours(held), "GPU-hours", "Σ of its runs × share of the device, inside the period"),
        Figure("billable_gpu_hours", row.billable_gpu_hours, "GPU-hours", _billable(assessment, row)),
    ]
    if row.energy_kwh is not None:
        energy = sum(
            line.energy_uj or 0
            for line in assessment.costed.lines
            if line.kind == "energy" and tenant_key(line.tenant, line.plan) == key
        )
        found.append(Figure("energy_kwh", kwh(energy), "kWh", f"Σ of energy lines ({row.energy_depth})"))
    if assessment.stage != LEAKAGE:
        found += _costs(row, rows, idle, currency)
    if row.billed is not None:
        counted = total(line.counted for line in billed)
        found.append(Figure("billed", money(counted), currency, f"Σ of {len(billed)} invoice lines"))
        quantities = "Σ of the quantities of its invoice lines, as GPU-hours inside the period"
        found.append(Figure("billed_gpu_hours", row.billed_gpu_hours, "GPU-hours", quantities))
        found.append(
            Figure(
                "effective_rate_per_gpu_hour", row.effective_rate_per_gpu_hour, hour,
                f"{money(counted)} ÷ {row.billable_gpu_hours} billable GPU-hours",
            )
        )  # fmt: skip
        if row.margin is not None:
            whole = total(Decimal(each.value or 0) for each in found if each.name == "cost_total")
            margin = MONEY_CONTEXT.subtract(counted, whole)
            found.append(Figure("margin", money(margin), currency, f"{money(counted)} − {money(whole)}"))
    return found + _prices(assessment, row, hour)


def _costs(row: Row, rows: Sequence[CostRow], idle: Sequence[IdleShare], currency: str) -> list[Figure]:
    parts = {
        "cost_energy": total(each.cost for each in rows if each.component == ENERGY),
        "cost_compute": total(each.cost for each in rows if each.component == COMPUTE),
        "cost_pools": total(each.cost for each in rows if each.component not in (ENERGY, COMPUTE)),
    }
    own = total(each.cost for each in rows)
    marginal = total(each.cost for each in rows if each.marginal)
    share = total(each.share for each in idle)
    words = {
        "cost_energy": "Σ of energy rows: kWh × tariff × PUE",
        "cost_compute": "Σ of compute rows: time × rate, and its part of purchases",
        "cost_pools": "Σ of pool rows: per unit of the driver, or its part of an amount",
    }
    found = [Figure(name, money(amount), currency, words[name]) for name, amount in parts.items()]
    if row.cost_energy is None:
        found = found[1:]
    sums = " + ".join(each.value or "0" for each in found)
    full = MONEY_CONTEXT.add(own, share)
    return [
        *found,
        Figure("cost_own", money(own), currency, sums),
        Figure("marginal_floor", money(marginal), currency, "Σ of the rows that are paid in cash per use"),
        Figure(
            "idle_share", money(share), currency, " + ".join(money(each.share) or "0" for each in idle) or "no pool"
        ),
        Figure("cost_total", money(full), currency, f"{money(own)} + {money(share)}"),
    ]


def _prices(assessment: Assessment, row: Row, hour: str) -> list[Figure]:
    if assessment.stage == LEAKAGE:
        return []
    book = assessment.book
    even = row.break_even_per_gpu_hour
    formula = f"{row.cost_total} ÷ {row.billable_gpu_hours} billable GPU-hours"
    margin = Decimal(book.target_margin_ppm).scaleb(-6).normalize()
    up = f"{even} ÷ (1 − {margin:f}), up to the next {book.price_step:f}"
    return [
        Figure("break_even_per_gpu_hour", even, hour, formula if even is not None else row.break_even_reason),
        Figure(
            "suggested_price_per_gpu_hour", row.suggested_price_per_gpu_hour, hour,
            up if row.suggested_price_per_gpu_hour is not None else row.suggested_price_reason,
        ),
    ]  # fmt: skip


def _billable(assessment: Assessment, row: Row) -> str:
    """What is billable of what: by SKU and place, with the tenant's rule where it has one."""
    key = (row.tenant, row.sku, row.plan)
    parts = [
        " at ".join(
            filter(None, (f"{part_hours(assessment.billable.total(sold))} {sold.sku or sold.gpu_model}", sold.site))
        )
        for sold in sorted(assessment.billable.parts)
        if tenant_key(sold.tenant, sold.plan) == key
    ]
    terms = assessment.terms.terms_of(row.tenant)
    rules = [
        words
        for words, holds in (
            (f"increment {terms.increment_us // 1_000_000} s", terms.increment_us),
            (f"minimum {terms.minimum_us // 1_000_000} s", terms.minimum_us),
            ("each run whole when it ends", terms.billed_by == "end"),
        )
        if holds
    ]
    told = " + ".join(parts) or "nothing was held"
    return f"{told} (held and reserved time; {', '.join(rules)})" if rules else f"{told} (held and reserved time)"

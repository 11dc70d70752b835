"""One job: its runs, what its time cost in each window by each price, and what it should be billed at."""

from collections.abc import Sequence

from wattledger_core.capacity import HELD_STATE
from wattledger_core.units import round_money

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.billable import Sold
from wattledger_audit.assessment.costing import cost
from wattledger_audit.explain_value import Figure, JobExplained, Worth
from wattledger_audit.explaining_priced import PriceBook, priced_groups
from wattledger_audit.explaining_quantity import decimal_of, hours, quantity_text
from wattledger_audit.explaining_runs import shown_runs
from wattledger_audit.explaining_spread import SpreadBook, spread_groups
from wattledger_audit.report.amount_text import money, part_hours
from wattledger_audit.report.sums import total
from wattledger_audit.shown_time import local_text
from wattledger_audit.sweep_again import Closer, TermsByRun, sweep_again


def explain_job(assessment: Assessment, numbers: Sequence[int]) -> JobExplained:
    """The job that these runs are of; the sweep once more, with them told apart from all other use."""
    runs, period, book = assessment.runs, assessment.period, assessment.book
    closer = sweep_again(assessment, assessment.swept.ledger.edges, TermsByRun(assessment.terms, numbers))
    costed = cost(closer.swept.ledger, closer.measured, book)
    rows = [row for row in costed.rows if row.job] if assessment.stage != LEAKAGE else []
    prices = PriceBook(assessment)
    prices.add_lines(costed.lines)
    spreads = SpreadBook.of(book, costed, closer.swept.ledger, period.zone)
    resolve = assessment.terms.names.resolve
    parts = sum(assessment.swept.run_parts[number] for number in numbers)
    components = sorted({row.component for row in rows})
    figures = [
        Figure(name, money(total(row.cost for row in rows if row.component == name)), book.currency, "Σ of its rows")
        for name in components
    ]
    if rows:
        figures.append(Figure("cost", money(total(row.cost for row in rows)), book.currency, "Σ of all its rows"))
    return JobExplained(
        kind="job",
        cluster=runs.whos[runs.who[numbers[0]]].cluster,
        job=runs.jobs[numbers[0]],
        tenants=tuple(sorted({resolve("usage", runs.whos[runs.who[number]].tenant) for number in numbers})),
        period_start=local_text(period.start_us, period.zone),
        period_end=local_text(period.end_us, period.zone),
        timezone=period.zone.key,
        currency=book.currency,
        stage=assessment.stage,
        runs=shown_runs(assessment, numbers),
        gpu_hours=part_hours(parts),
        priced=priced_groups(rows, prices, by_window=True),
        spread=spread_groups(rows, spreads),
        costs=tuple(figures),
        worth=_worth(assessment, closer),
    )


def _worth(assessment: Assessment, closer: Closer) -> tuple[Worth, ...]:
    """Each window's held time at the rate that was agreed, or billed most."""
    edges, zone = closer.swept.ledger.edges, assessment.period.zone
    found = []
    for key, parts in sorted(closer.swept.ledger.parts.items()):
        holder = key.holder
        if not holder.job or holder.state != HELD_STATE:
            continue
        sold = Sold(holder.tenant, holder.sku, holder.plan, key.site, key.gpu_model)
        rate = assessment.rates.rate(sold, edges[key.window])
        known = None if rate.per_gpu_hour is None else decimal_of(rate.per_gpu_hour)
        amount = None if rate.per_gpu_hour is None else round_money(decimal_of(hours(parts) * rate.per_gpu_hour))
        found.append(
            Worth(
                local_text(edges[key.window], zone), local_text(edges[key.window + 1], zone), holder.sku, holder.plan,
                quantity_text(hours(parts)), known, rate.basis, amount,
            )
        )  # fmt: skip
    return tuple(found)

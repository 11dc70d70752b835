"""One tenant from watts to joules to money to margin to price: each step with its formula and where it is from."""

from decimal import Decimal
from fractions import Fraction

from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.assessment.assess import FIRST_MARGIN, LEAKAGE, Assessment
from wattledger_audit.report.model import Row, Walk

SCHEDULER, INVOICE, COUNTER, COST_FILE = "scheduler", "invoice", "counter", "cost file"
_J_PER_KWH = 3_600_000


def build_walk(assessment: Assessment, rows: list[Row]) -> list[Walk]:
    """A walk for each tenant, in the rows' order."""
    return [Walk(tenant=_named(row), steps=_steps(assessment, row)) for row in rows]


def _named(row: Row) -> str:
    return f"{row.tenant} ({row.plan})" if row.plan else row.tenant


def _steps(assessment: Assessment, row: Row) -> list[tuple[str, str, str, str]]:
    currency = assessment.book.currency
    steps = [("Held", f"{row.gpu_hours} GPU-hours", "Σ of its runs × share of the device", SCHEDULER)]
    if row.energy_kwh is not None:
        steps += _energy(row, currency)
    elif assessment.book.has_energy:
        steps.append(("Energy", "unknown", "no reading covers it, and no power is modelled", "unknown"))
    if assessment.stage != LEAKAGE:
        steps += _costs(assessment, row, currency)
    if row.billed is not None:
        rate = row.effective_rate_per_gpu_hour
        formula = "Σ of invoice lines, net, prorated"
        steps.append(("Billed", f"{row.billed} {currency}", formula, INVOICE))
        if rate is not None:
            steps.append(("Effective rate", f"{rate} {currency}/GPU-h", "billed ÷ billable GPU-hours", INVOICE))
    if row.margin is not None:
        steps.append(("Margin", f"{row.margin} {currency}", "billed − full cost", INVOICE))
    if row.break_even_per_gpu_hour is not None:
        steps.append(
            (
                "Break-even", f"{row.break_even_per_gpu_hour} {currency}/GPU-h",
                f"full cost ÷ {row.billable_gpu_hours} billable GPU-hours", COST_FILE,
            )
        )  # fmt: skip
    if row.suggested_price_per_gpu_hour is not None:
        margin = Decimal(assessment.book.target_margin_ppm) / 10_000
        formula = f"break-even ÷ (1 − {margin.normalize():f} %), up to the next {assessment.book.price_step}"
        price = f"{row.suggested_price_per_gpu_hour} {currency}/GPU-h"
        steps.append(("Suggested price", price, formula, COST_FILE))
    return steps


def _energy(row: Row, currency: str) -> list[tuple[str, str, str, str]]:
    known = Fraction(row.energy_kwh or "0")
    hours = Fraction(row.gpu_hours)
    steps = []
    if hours:
        watts = _text(known * 1000 / hours, 1)
        steps.append(("Mean power", f"{watts} W per GPU", "energy ÷ held time", row.energy_depth))
    joules = _text(known * _J_PER_KWH, 0)
    steps.append(("Energy", f"{joules} J = {row.energy_kwh} kWh", "counters, or power × time", row.energy_depth))
    if row.cost_energy is not None:
        per_kwh = _text(Fraction(row.cost_energy) / known, 4) if known else "0"
        formula = f"Σ kWh × tariff of the hour × PUE (mean {per_kwh} {currency}/kWh)"
        steps.append(("Energy cost", f"{row.cost_energy} {currency}", formula, COST_FILE))
    return steps


def _costs(assessment: Assessment, row: Row, currency: str) -> list[tuple[str, str, str, str]]:
    rate = "--per-gpu-hour" if assessment.stage == FIRST_MARGIN else COST_FILE
    steps = []
    for label, amount, formula in (
        ("Compute", row.cost_compute, "held, reserved and stranded time × rate, or its share of purchases"),
        ("Pools", row.cost_pools, "its share by each pool's driver"),
        ("Own cost", row.cost_own, "energy + compute + pools"),
        ("Share of idle", row.idle_share, f"idle cost of its pools, {assessment.book.idle_policy}"),
        ("Full cost", row.cost_total, "own cost + share of idle"),
    ):
        if amount is not None and (label != "Pools" or Decimal(amount)):
            steps.append((label, f"{amount} {currency}", formula, rate))
    return steps


def _text(amount: Fraction, places: int) -> str:
    exact = MONEY_CONTEXT.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return format(exact.quantize(Decimal(1).scaleb(-places), context=MONEY_CONTEXT), ",f")

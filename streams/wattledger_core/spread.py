"""An amount of money spread over time lines by a driver, so that the parts sum to it exactly."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from wattledger_core.cost import PRICED, CostRow
from wattledger_core.ids import digest
from wattledger_core.line import Line
from wattledger_core.pricing_row import US_UNIT
from wattledger_core.units import MONEY_CONTEXT, round_money
from wattledger_core.verdict_idle import split_money


def amount_for(amount: Decimal, time: int, whole: int) -> Decimal:
    """`amount × time / whole`, rounded once: what an amount for `whole` comes to for `time`."""
    share = Fraction(time, whole)
    product = MONEY_CONTEXT.multiply(amount, Decimal(share.numerator))
    return round_money(MONEY_CONTEXT.divide(product, Decimal(share.denominator)))


def spread_rows(
    component: str, amount: Decimal, currency: str, marginal: bool, lines: Sequence[Line], weights: Sequence[int]
) -> list[CostRow]:
    """One cost row for each line with a weight above 0; Σ cost = `amount`, exactly.

    The rows have no rate: a share of an amount is not a price per unit. Raises `ValueError` when no weight is above 0.
    """
    taking = [(line, weight) for line, weight in zip(lines, weights, strict=True) if weight > 0]
    if not taking:
        raise ValueError(f"{component}: no line bears any of {amount} {currency}")
    parts = split_money(amount, [weight for _, weight in taking])
    return [
        _row(component, line, part, currency, marginal) for (line, _), part in zip(taking, parts, strict=True)
    ]  # fmt: skip


def _row(component: str, line: Line, cost: Decimal, currency: str, marginal: bool) -> CostRow:
    name = digest("spread", component, line.line_id)
    return CostRow(
        name, line.line_id, component, line.group_start_us, line.group_end_us, line.node, line.device,
        line.gpu_instance, line.site, line.gpu_model, line.state, line.tenant, line.project, line.model_tag,
        line.cluster, line.job, line.attempt, line.allocation_id, line.plan, line.sku, line.start_us, line.end_us,
        line.device_us, US_UNIT, "", "", None, None, marginal, cost, currency, PRICED, "",
    )  # fmt: skip

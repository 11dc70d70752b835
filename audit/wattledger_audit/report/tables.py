"""The report as named tables with typed columns: what the CSV, Parquet and workbook writers write. Computes nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from pydantic import BaseModel

from wattledger_audit.report.model import IDLE_CHOICES, Report, Row

TEXT, DECIMAL, INT = "text", "decimal", "int"
MONEY, RATE, HOURS, RATIO, PLAIN = "money", "rate", "hours", "ratio", ""
"""How a sheet shows a decimal; the value is the same."""

Cell = str | Decimal | int | None


class Column(NamedTuple):
    """`kind` is text, decimal or int; None in any of them is unknown."""

    name: str
    kind: str
    form: str = PLAIN


class NamedTable(NamedTuple):
    """Rows in the report's order, each with one cell a column of the column's kind."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def _texts(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, TEXT) for name in names)


def _ints(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, INT) for name in names)


def _decimals(form: str, *names: str) -> tuple[Column, ...]:
    return tuple(Column(name, DECIMAL, form) for name in names)


_FILES = (
    *_texts("name", "role", "format", "why"), *_ints("records", "rejected"), *_decimals(HOURS, "gpu_hours"),
    *_texts("money", "refused_money", "sha256"),
)  # fmt: skip
_BRIDGE = (
    *_texts("step", "label", "kind"), *_decimals(MONEY, "amount"), *_decimals(HOURS, "hours"), *_ints("more"),
    *_texts("note"),
)  # fmt: skip
_EVIDENCE = (*_texts("step", "kind", "name"), *_decimals(MONEY, "amount"))
_PRICES = (
    *_decimals(RATE, "break_even_per_gpu_hour"), *_texts("break_even_reason"),
    *_decimals(RATE, "suggested_price_per_gpu_hour"), *_texts("suggested_price_reason"),
)  # fmt: skip
_JUDGED = (*_texts("verdict", "reason", "below_cost"), *_texts("action"))
_MARGIN = (
    *_decimals(MONEY, "idle_share", "cost_total"),
    *_decimals(MONEY, "margin"),
    *_decimals(RATIO, "margin_ratio"),
)
_ROWS = (
    *_texts("tenant", "sku", "plan"),
    *_decimals(HOURS, "gpu_hours", "billable_gpu_hours", "billed_gpu_hours", "provider_paid_gpu_hours"),
    *_decimals(PLAIN, "energy_kwh"), *_texts("energy_depth"),
    *_decimals(MONEY, "cost_energy", "cost_compute", "cost_pools", "cost_own", "marginal_floor"),
    *_decimals(MONEY, "idle_share", "cost_total", "billed"),
    *_decimals(RATE, "effective_rate_per_gpu_hour", "contract_price_per_gpu_hour"),
    *_decimals(MONEY, "margin"), *_decimals(RATIO, "margin_ratio"), *_PRICES, *_JUDGED,
    *_decimals(RATIO, "measured_ratio"), *_ints("unpriced_rows", "unmeasured_rows"),
)  # fmt: skip
_POLICIES = (*_texts("level", "tenant", "sku", "plan", "idle_policy"), *_MARGIN, *_PRICES, *_JUDGED)
_WALK = (*_texts("tenant"), *_ints("place"), *_texts("label", "value", "formula", "depth"))
_WATERFALL = (*_texts("step", "label", "kind"), *_decimals(HOURS, "gpu_hours"), *_decimals(MONEY, "cost"))
_REASONS = (*_texts("step", "reason"), *_decimals(HOURS, "gpu_hours"), *_decimals(MONEY, "cost"))
_IDLE = (
    *_texts("node", "site", "gpu_model"), *_ints("gpus"), *_decimals(HOURS, "idle_gpu_hours"),
    *_decimals(RATIO, "idle_ratio"), *_decimals(MONEY, "cost"), *_decimals(PLAIN, "energy_kwh"), *_ints("waiting_more"),
)  # fmt: skip
_WAITING = (
    *_texts("node", "job", "tenant"), *_ints("gpus"), *_decimals(HOURS, "waited_hours", "matched_gpu_hours"),
    *_decimals(MONEY, "capacity_cost", "revenue_lost"),
)  # fmt: skip
_TOKENS = (
    *_texts("tenant", "model"), *_ints("runs", "tokens"),
    *_decimals(PLAIN, "energy_joules", "joules_per_token"), *_decimals(RATE, "cost_per_million_tokens"),
    *_texts("depth"),
)  # fmt: skip
_TIE_OUT = (
    *_texts("name", "left_label"), *_decimals(PLAIN, "left"), *_texts("right_label"), *_decimals(PLAIN, "right"),
    *_decimals(PLAIN, "residual"), *_texts("unit", "named"),
)  # fmt: skip
_COVERAGE = (*_texts("measure"), *_decimals(PLAIN, "value"), *_texts("unit"))
_DISCREPANCIES = (*_texts("kind"), *_ints("count"), *_texts("nodes", "example", "rule"))
_REJECTED = (*_texts("file", "code"), *_ints("count"), *_texts("money"))
_ASSUMPTIONS = _texts("kind", "text")


def build_tables(report: Report) -> tuple[NamedTable, ...]:
    """Every table of the report, in the order of the sheets; a table without rows is there too."""
    return (
        NamedTable("files", _FILES, _each(report.files, _FILES, money=_by_currency, refused_money=_by_currency)),
        NamedTable("bridge", _BRIDGE, _each(report.bridge, _BRIDGE)),
        NamedTable("bridge_evidence", _EVIDENCE, _evidence(report)),
        NamedTable("tenants", _ROWS, _each(report.tenants, _ROWS)),
        NamedTable("skus", _ROWS, _each(report.skus, _ROWS)),
        NamedTable("repricing", _ROWS, _each(report.repricing, _ROWS)),
        NamedTable("idle_policies", _POLICIES, _policies(report)),
        NamedTable("walk", _WALK, _walk(report)),
        NamedTable("waterfall", _WATERFALL, _each(report.waterfall, _WATERFALL)),
        NamedTable("waterfall_reasons", _REASONS, _reasons(report)),
        NamedTable("idle", _IDLE, _each(report.idle, _IDLE)),
        NamedTable("waiting", _WAITING, _waiting(report)),
        NamedTable("tokens", _TOKENS, _each(report.tokens, _TOKENS)),
        NamedTable("tie_out", _TIE_OUT, _each(report.tie_out, _TIE_OUT)),
        NamedTable("coverage", _COVERAGE, _coverage(report)),
        NamedTable("discrepancies", _DISCREPANCIES, _each(report.discrepancies, _DISCREPANCIES)),
        NamedTable("rejected", _REJECTED, tuple(report.rejected)),
        NamedTable("assumptions", _ASSUMPTIONS, _assumptions(report)),
    )


def exact(text: str | None) -> Decimal | None:
    """Decimal text of the report as a number; None stays None. Raises ValueError for what is no finite number."""
    if text is None:
        return None
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise ValueError(f"{text!r} stands where the report has a decimal: write digits, or null for unknown") from None
    if not value.is_finite():
        raise ValueError(f"{text!r} stands where the report has a decimal: write null for unknown")
    return value


def _each(
    parts: Iterable[BaseModel], columns: Sequence[Column], **shown: Callable[[Mapping[str, str]], str]
) -> tuple[tuple[Cell, ...], ...]:
    """A row a part: the fields that the columns are named after; `shown` turns those that are no single value."""
    return tuple(tuple(_cell(part, column, shown.get(column.name)) for column in columns) for part in parts)


def _cell(part: BaseModel, column: Column, shown: Callable[[Mapping[str, str]], str] | None) -> Cell:
    value = getattr(part, column.name)
    if shown is not None:
        return shown(value)
    if column.kind == DECIMAL:
        return exact(value)
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return int(value) if column.kind == INT else str(value)


def _by_currency(money: Mapping[str, str]) -> str:
    return "; ".join(f"{amount} {currency}".strip() for currency, amount in money.items())


def _evidence(report: Report) -> tuple[tuple[Cell, ...], ...]:
    found: list[tuple[Cell, ...]] = []
    for step in report.bridge:
        found += [(step.step, "tenant", tenant, exact(amount)) for tenant, amount in step.tenants]
        found += [(step.step, "invoice", invoice, None) for invoice in step.invoices]
        found += [(step.step, "job", job, None) for job in step.jobs]
    return tuple(found)


def _policies(report: Report) -> tuple[tuple[Cell, ...], ...]:
    levels: tuple[tuple[str, list[Row]], ...] = (("tenant", report.tenants), ("sku", report.skus))
    return tuple(
        (level, row.tenant, row.sku, row.plan, policy, *figures)
        for level, rows in levels
        for row in rows
        for policy in sorted(row.by_policy, key=_policy_place)
        for figures in _each([row.by_policy[policy]], _POLICIES[5:])
    )


def _policy_place(policy: str) -> tuple[int, str]:
    return (IDLE_CHOICES.index(policy) if policy in IDLE_CHOICES else len(IDLE_CHOICES), policy)


def _walk(report: Report) -> tuple[tuple[Cell, ...], ...]:
    return tuple((walk.tenant, place, *step) for walk in report.walk for place, step in enumerate(walk.steps, 1))


def _reasons(report: Report) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (state.step, reason, exact(hours), exact(cost))
        for state in report.waterfall
        for reason, hours, cost in state.reasons
    )


def _waiting(report: Report) -> tuple[tuple[Cell, ...], ...]:
    return tuple((node.node, *cells) for node in report.idle for cells in _each(node.waiting, _WAITING[1:]))


def _coverage(report: Report) -> tuple[tuple[Cell, ...], ...]:
    """A row a measure: shares from 0 to 1, counts as they are."""
    found: list[tuple[Cell, ...]] = []
    for name, value in report.coverage:
        unit = {"ratio": "ratio", "rows": "rows"}.get(name.rpartition("_")[2], "runs")
        found.append((name, exact(None if value is None else str(value)), unit))
    return tuple(found)


def _assumptions(report: Report) -> tuple[tuple[Cell, ...], ...]:
    return (
        *(("method", text) for text in report.method),
        *(("assumption", text) for text in report.assumptions),
    )

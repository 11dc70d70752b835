"""The columns of the tenants, SKU and repricing tables: which figures there are to show, and how each is shown."""

from dataclasses import dataclass

from wattledger_audit.report.model import IDLE_CHOICES, Report

LEAKAGE = "leakage"
INVOICE, SCHEDULER = "invoice", "scheduler"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a report can show. `policies`: the idle policies that it has figures for, in the order of the choice."""

    costs: bool
    billing: bool
    energy_cost: bool
    energy: bool
    actions: bool
    contract: bool
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `key` names the field of a row; `switched` ones follow the cost switch and the idle policy.

    `kind`: money, price, hours, kwh, ratio, verdict or text. `reason_key` names the field that says why it is unknown,
    `missing` says it where there is no such field; `reason_seen` shows the reason in the cell.
    """

    key: str
    label: str
    group: str
    kind: str
    switched: bool = False
    reason_key: str = ""
    missing: str = ""
    reason_seen: bool = False
    depth: str = ""


_NO_BILLED = "nothing billed was found for it"
_NO_ENERGY = "energy is not known"
_NO_COST = "no cost is known for it"
_VERDICT = Column("verdict", "Verdict", "Answer", "verdict", True)
_BILLED = Column("billed", "Billed", "Answer", "money", missing=_NO_BILLED, depth=INVOICE)
_COST = Column("cost_total", "Cost, full floor", "Answer", "money", True, missing=_NO_COST)
_MARGIN = Column("margin", "Margin", "Answer", "money", True, missing=_NO_BILLED)
_RATIO = Column("margin_ratio", "Margin %", "Answer", "ratio", True, missing=_NO_BILLED)
_BREAK_EVEN = Column(
    "break_even_per_gpu_hour", "Break-even", "Price per GPU-hour", "price", True, "break_even_reason", "", True
)
_SUGGESTED = Column(
    "suggested_price_per_gpu_hour", "Suggested", "Price per GPU-hour", "price", True, "suggested_price_reason", "", True
)
_CONTRACT = Column(
    "contract_price_per_gpu_hour", "Contract", "Price per GPU-hour", "price", missing="no contract price was given"
)
_EFFECTIVE = Column(
    "effective_rate_per_gpu_hour", "Effective", "Price per GPU-hour", "price",
    missing="nothing billed, or no billable hours", depth=INVOICE,
)  # fmt: skip
_ACTION = Column("action", "Action", "Answer", "text", True)
_HOURS = (
    Column("gpu_hours", "Held", "GPU-hours", "hours", depth=SCHEDULER),
    Column("billable_gpu_hours", "Billable", "GPU-hours", "hours", depth=SCHEDULER),
    Column("billed_gpu_hours", "Billed", "GPU-hours", "hours", missing="no billed quantity in hours", depth=INVOICE),
    Column("provider_paid_gpu_hours", "Provider pays", "GPU-hours", "hours", depth=SCHEDULER),
)
_ENERGY = (
    Column("energy_kwh", "Energy", "Energy", "kwh", missing=_NO_ENERGY),
    Column("measured_ratio", "Measured", "Energy", "ratio"),
)
_COST_PARTS = (
    Column("marginal_floor", "Marginal floor", "Floors and what they hold", "money", missing=_NO_COST),
    Column("cost_energy", "Energy", "Floors and what they hold", "money", missing=_NO_ENERGY),
    Column("cost_compute", "Compute", "Floors and what they hold", "money", missing="no compute cost was given"),
    Column("cost_pools", "Pools", "Floors and what they hold", "money", missing="no pool was given"),
    Column("cost_own", "All but idle", "Floors and what they hold", "money", missing=_NO_COST),
    Column("idle_share", "Share of idle", "Floors and what they hold", "money", True, missing=_NO_COST),
)


def shape_of(report: Report) -> Shape:
    """What this report can show, from its stage and from which figures are there at all."""
    rows = [*report.tenants, *report.skus, *report.repricing]
    costs = report.stage != LEAKAGE
    return Shape(
        costs=costs,
        billing=any(row.billed is not None for row in rows),
        energy_cost=costs and any(row.cost_energy is not None for row in rows),
        energy=any(row.energy_kwh is not None for row in rows),
        actions=any(row.action for row in rows),
        contract=any(row.contract_price_per_gpu_hour is not None for row in rows),
        policies=tuple(name for name in IDLE_CHOICES if costs and any(name in row.by_policy for row in rows)),
    )


def columns(shape: Shape) -> tuple[Column, ...]:
    """The columns after the names, for tenants and for tenants × SKU × plan."""
    answer = [_VERDICT] if shape.costs else []
    answer += [_ACTION] if shape.actions else []
    answer += [_BILLED] if shape.billing else []
    answer += [_COST] if shape.costs else []
    answer += [_MARGIN, _RATIO] if shape.costs and shape.billing else []
    prices = [_BREAK_EVEN, _SUGGESTED] if shape.costs else []
    prices += [_CONTRACT] if shape.contract or shape.costs else []
    prices += [_EFFECTIVE] if shape.billing else []
    hours = [column for column in _HOURS if shape.billing or column.key != "billed_gpu_hours"]
    return (
        *answer,
        *prices,
        *hours,
        *(_COST_PARTS if shape.costs else ()),
        *(_ENERGY if shape.energy or shape.costs else ()),
    )


def repricing_columns(shape: Shape) -> tuple[Column, ...]:
    """The columns of the repricing list: what is charged now, what would cover the cost, what to do."""
    prices = (_CONTRACT, _EFFECTIVE, _BREAK_EVEN, _SUGGESTED)
    return (_VERDICT, *([_ACTION] if shape.actions else []), *prices, _BILLED, _COST, _MARGIN)


def groups(shown: tuple[Column, ...]) -> list[tuple[str, int]]:
    """Neighbouring columns of one group: its name and how many there are."""
    found: list[tuple[str, int]] = []
    for column in shown:
        if found and found[-1][0] == column.group:
            found[-1] = (column.group, found[-1][1] + 1)
        else:
            found.append((column.group, 1))
    return found

"""Runs the laws as SQL on the tables. A law is a named query that returns what breaks it; it holds if nothing does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from clickhouse_connect.driver.client import Client
from wattledger_core.interval import FOREVER_US
from wattledger_core.policy import Policy
from wattledger_core.units import MONEY_CONTEXT

from wattledger_sql.query import LAW_PREFIX, query

UNITS = {
    "device_time": "us",
    "in_service": "us",
    "energy": "uj",
    "money_views": "currency",
    "usage_views": "us or uj",
    "cost_exact": "1e-12 currency",
    "lines_priced": "us or uj",
    "rows_follow_lines": "rows",
    "one_content": "ids",
    "content_intact": "rows",
    "reversals_exact": "rows",
    "reversed_once": "rows",
    "one_currency": "currencies",
    "well_formed": "lines",
}
"""Every law, in the order of the report, with the unit of its residual."""
MONEY_TOPIC = "money_topic"
EXAMPLES = 5
_US_PER_S = 1_000_000
_MEASURE = """
SELECT count(), toString(sum(toDecimal256(abs(residual), 12))), groupArray({limit})((what, toString(residual)))
FROM (SELECT what, residual FROM ({law}) ORDER BY what)
"""
_NEWEST = """
SELECT toUnixTimestamp64Micro(greatest(
    (SELECT max(inserted_at) FROM usage_lines), (SELECT max(inserted_at) FROM device_totals),
    (SELECT max(inserted_at) FROM cost_rows)
))
"""


@dataclass(frozen=True, slots=True)
class Broken:
    """One thing that breaks a law: which row or group, and by how much."""

    what: str
    residual: str


@dataclass(frozen=True, slots=True)
class LawResult:
    """A law on the tables: `residual` is Σ of what it is off by, in `unit`, as a decimal string, "0" when it holds;
    `violations` counts what breaks it, `rows` are the first of them."""

    name: str
    ok: bool
    residual: str
    unit: str
    violations: int
    rows: Sequence[Broken]


def verify(
    client: Client,
    topic_amounts: Mapping[str, Decimal] | None = None,
    *,
    lateness_us: int = Policy().lateness_us,
    grace_s: int = 0,
) -> list[LawResult]:
    """Every law, in the order of `UNITS`; then, with `topic_amounts`, that the cost rows sum to the folded topic.

    `topic_amounts` is Σ cost of `tenant-cost` by component, each row counted once. `grace_s` is for a stack that runs:
    laws over several tables leave out what has a row inserted in the last seconds before the newest one. Only reads;
    refresh first, or the hours due are left out of the laws on views. Raises the driver's errors.
    """
    parameters = {"lateness_us": lateness_us, "through_us": _through_us(client, grace_s)}
    results = [_law(client, name, parameters) for name in UNITS]
    if topic_amounts is not None:
        results.append(_money_topic(client, topic_amounts))
    return results


def _through_us(client: Client, grace_s: int) -> int:
    if grace_s <= 0:
        return FOREVER_US
    return int(client.query(_NEWEST).result_rows[0][0]) - grace_s * _US_PER_S


def _law(client: Client, name: str, parameters: Mapping[str, int]) -> LawResult:
    law = query(LAW_PREFIX + name)
    asked = {key: value for key, value in parameters.items() if f"{{{key}:" in law}
    sql = _MEASURE.replace("{limit}", str(EXAMPLES)).replace("{law}", f"\n{law}\n")
    violations, residual, examples = client.query(sql, parameters=asked or None).result_rows[0]
    rows = [Broken(str(what), str(by)) for what, by in examples]
    return LawResult(name, violations == 0, str(residual), UNITS[name], int(violations), rows)


def _money_topic(client: Client, topic_amounts: Mapping[str, Decimal]) -> LawResult:
    tables: dict[str, Decimal] = {}
    for component, _, amount, _ in client.query(query("cost_by_component")).result_rows:
        tables[component] = MONEY_CONTEXT.add(tables.get(component, Decimal(0)), Decimal(amount))
    rows, residual = [], Decimal(0)
    for component in sorted({*tables, *topic_amounts}):
        table, topic = tables.get(component, Decimal(0)), topic_amounts.get(component, Decimal(0))
        if table != topic:
            off = MONEY_CONTEXT.subtract(table, topic)
            residual = MONEY_CONTEXT.add(residual, off.copy_abs())
            rows.append(Broken(f"component {component}: topic {topic}, table {table}", format(off, "f")))
    return LawResult(MONEY_TOPIC, not rows, format(residual, "f"), "currency", len(rows), rows[:EXAMPLES])

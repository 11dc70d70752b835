"""What people ask of the month, through the published views, beside a plain query straight over the fact tables."""

from collections.abc import Callable
from dataclasses import dataclass

from clickhouse_connect.driver.client import Client
from wattledger_sql.query import query, query_names

from benchmarks.month_clock import best, timed


@dataclass(frozen=True, slots=True)
class Question:
    """One question: over the views, and as somebody without them would write it, folded (FINAL) or not."""

    name: str
    views: str
    facts: str


_COST = "sumIf(ifNull(cost, 0), component != 'billed')"
_BILLED = "sumIf(ifNull(cost, 0), component = 'billed')"
QUESTIONS = (
    Question(
        "margin by tenant and hour",
        "SELECT tenant_id, hour_at, sum(m.billed) AS bill, sum(m.cost_total) AS own, sum(m.margin) AS margin,"
        " sum(m.unpriced_rows) AS unpriced FROM v_tenant_margin_hour AS m GROUP BY tenant_id, hour_at ORDER BY ALL",
        f"SELECT tenant_id, toStartOfHour(start_at) AS hour_at, {_BILLED} AS bill, {_COST} AS own,"
        " bill - own AS margin, sumIf(sign, status = 'unpriced') AS unpriced FROM {facts} GROUP BY ALL ORDER BY ALL",
    ),
    Question(
        "the hundred tenant-hours furthest below cost",
        "SELECT tenant_id, hour_at, sum(m.margin) AS margin FROM v_tenant_margin_hour AS m WHERE is_customer"
        " GROUP BY tenant_id, hour_at ORDER BY margin LIMIT 100",
        f"SELECT tenant_id, toStartOfHour(start_at) AS hour_at, {_BILLED} - {_COST} AS margin FROM {{facts}}"
        " WHERE NOT startsWith(tenant_id, '__') GROUP BY ALL ORDER BY margin LIMIT 100",
    ),
    Question(
        "idle burn by node and hour",
        "SELECT node, hour_at, sum(b.cost_total) AS burn FROM v_idle_burn_hour AS b WHERE tenant_id = '__idle__'"
        " GROUP BY node, hour_at ORDER BY ALL",
        "SELECT node, toStartOfHour(start_at) AS hour_at, sum(ifNull(cost, 0)) AS burn FROM {facts}"
        " WHERE tenant_id = '__idle__' AND component != 'billed' GROUP BY ALL ORDER BY ALL",
    ),
    Question(
        "live cost of the running day",
        query("live_cost"),
        f"SELECT tenant_id, {_COST} AS own, {_BILLED} AS bill FROM {{facts}} WHERE start_at >="
        " (SELECT toStartOfDay(max(marked_at)) FROM marks) GROUP BY ALL ORDER BY own DESC",
    ),
)
NAMED = tuple(
    name for name in query_names() if not name.startswith("laws/") and "{" not in query(name).split("*/")[-1]
)  # those that take no parameter


def ask(client: Client, say: Callable[[str], None]) -> list[dict[str, object]]:
    """Each question: rows, seconds with the rows fetched into Python, seconds in the engine alone, and the rivals."""
    return [_one(client, question, say) for question in QUESTIONS]


def _one(client: Client, question: Question, say: Callable[[str], None]) -> dict[str, object]:
    rows = client.query(question.views).result_rows
    folded = question.facts.replace("{facts}", "cost_rows FINAL")
    plain = question.facts.replace("{facts}", "cost_rows")
    fetched = best(lambda: client.query(question.views), 5)
    engine = best(lambda: client.raw_query(question.views, fmt="Null"), 5)
    rivals = {"final": _engine(client, folded), "plain": _engine(client, plain)}
    result: dict[str, object] = {
        "question": question.name,
        "rows": len(rows),
        "fetched_s": round(fetched.seconds, 3),
        "engine": engine.as_json(),
        "final_s": round(rivals["final"], 3),
        "plain_s": round(rivals["plain"], 3),
        "final_ratio": round(rivals["final"] / engine.seconds, 2),
        "plain_ratio": round(rivals["plain"] / engine.seconds, 2),
    }
    say(str(result))
    return result


def _engine(client: Client, sql: str) -> float:
    return best(lambda: client.raw_query(sql, fmt="Null"), 3).seconds


def named(client: Client, say: Callable[[str], None]) -> dict[str, float]:
    """Seconds of each named query without parameters over the month, rows fetched: what a report over tables runs."""
    found = {}
    for name in NAMED:
        found[name] = round(timed(lambda name=name: client.query(query(name))).seconds, 3)  # type: ignore[misc]
        say(f"{name}: {found[name]} s")
    return found


def same_answers(client: Client) -> None:
    """The views' margin equals the folded facts' for every tenant and hour. Raises `RuntimeError` where it does not."""
    question = QUESTIONS[0]
    facts = question.facts.replace("{facts}", "cost_rows FINAL")
    sql = (
        f"SELECT count() FROM (SELECT tenant_id, hour_at, own, bill FROM ({question.views})) AS v FULL OUTER JOIN"
        f" (SELECT tenant_id, hour_at, own, bill FROM ({facts})) AS f USING (tenant_id, hour_at)"
        " WHERE v.own != f.own OR v.bill != f.bill"
    )
    different = client.query(sql).result_rows[0][0]
    if different:
        raise RuntimeError(f"{different} tenant-hours differ between the views and the facts")

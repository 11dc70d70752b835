"""Bringing the views up to the facts: the first build, a refresh after an hour's rows, and one with nothing new."""

from collections.abc import Callable

from clickhouse_connect.driver.client import Client
from wattledger_sql.refresh import AGGREGATES, HOURS, refresh

from benchmarks.month_clock import Timed, best, peak_mb, timed
from benchmarks.month_fleet import Fleet, add_hour

_READ = "SELECT sum(read_rows) FROM system.view_refreshes WHERE database = currentDatabase()"
_NEW = "SELECT count() FROM {} WHERE inserted_at > now() - INTERVAL 1 HOUR"
_HOURS = (
    "SELECT (SELECT uniqExact(hour_at) FROM tenant_margin_hour),"
    " (SELECT uniqExact(toStartOfHour(start_at)) FROM cost_rows)"
)
_REBUILD = (
    "INSERT INTO FUNCTION null('tenant_id String, hour_at DateTime, cost Decimal(38, 12), billed Decimal(38, 12)')"
    " SELECT tenant_id, toStartOfHour(start_at), sumIf(ifNull(cost_rows.cost, 0), component != 'billed'),"
    " sumIf(ifNull(cost_rows.cost, 0), component = 'billed') FROM cost_rows FINAL GROUP BY ALL"
)


def stop_views(client: Client) -> None:
    """While the month is made the schedule would only compete with it."""
    for each in AGGREGATES:
        client.command(f"SYSTEM STOP VIEW r_{each.table}")


def first_build(client: Client, say: Callable[[str], None]) -> dict[str, object]:
    """Every hour is new to every view: one computation a view, those over hours all at once."""
    before_mb = peak_mb()
    took = timed(lambda: _build(client))
    result: dict[str, object] = {**took.as_json(), "peak_mb_before": before_mb, "peak_mb": peak_mb()}
    say(f"first build: {result}")
    return result


def _build(client: Client) -> None:
    for each in AGGREGATES:
        client.command(f"SYSTEM START VIEW r_{each.table}")
    refresh(client)
    built, made = client.query(_HOURS).result_rows[0]
    if built != made:
        raise RuntimeError(f"the first build holds {built} hours of {made}")


def steps(client: Client, fleet: Fleet, say: Callable[[str], None]) -> dict[str, object]:
    """An hour's new rows and the refresh after it, twice; then refreshes with nothing new; then a user's rebuild."""
    result: dict[str, object] = {}
    after: list[Timed] = []
    for hour in range(2):
        made = timed(lambda hour=hour: add_hour(client, fleet, hour))  # type: ignore[misc]
        after.append(timed(lambda: refresh(client)))
        say(f"hour {hour}: made in {made.seconds:.1f} s, refreshed in {after[-1].seconds:.2f} s")
    best_after = min(after, key=lambda one: one.seconds)
    result["after_an_hour"] = best_after.as_json()
    result["rows_read"] = int(client.query(_READ).result_rows[0][0])
    result["rows_new"] = sum(int(client.query(_NEW.format(t)).result_rows[0][0]) for t in ("cost_rows", "usage_lines"))
    result["nothing_new"] = best(lambda: refresh(client), 3).as_json()
    result["by_view"] = {each.table: _view(client, each.table) for each in HOURS}
    rebuild = best(lambda: client.command(_REBUILD), 2)
    result["rebuild_of_margin_alone"] = rebuild.as_json()
    margin = result["by_view"]["tenant_margin_hour"]  # type: ignore[index]
    result["rebuild_ratio"] = round(rebuild.seconds / margin, 1)
    say(f"refresh: {result}")
    return result


def _view(client: Client, table: str) -> float:
    def one() -> None:
        client.command(f"SYSTEM REFRESH VIEW r_{table}")
        client.command(f"SYSTEM WAIT VIEW r_{table}")

    return round(best(one, 3).seconds, 3)

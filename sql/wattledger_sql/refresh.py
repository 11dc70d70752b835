"""Brings the refreshable views up to the facts, and says how far each one is. The schedule is in the migrations."""

from typing import NamedTuple

from clickhouse_connect.driver.client import Client

from wattledger_sql.query import query


class Aggregate(NamedTuple):
    """A table that a refreshable view `r_<table>` fills; `time` names its hour or day, `seen` its watermark, and
    `source` and `source_time` what the watermark is about."""

    table: str
    time: str
    seen: str
    source: str
    source_time: str


HOURS = (
    Aggregate("tenant_margin_hour", "hour_at", "inserted_through", "cost_rows", "inserted_at"),
    Aggregate("idle_burn_hour", "hour_at", "inserted_through", "cost_rows", "inserted_at"),
    Aggregate("job_cost_hour", "hour_at", "inserted_through", "cost_rows", "inserted_at"),
    Aggregate("model_tag_cost_hour", "hour_at", "inserted_through", "cost_rows", "inserted_at"),
    Aggregate("device_energy_hour", "hour_at", "inserted_through", "usage_lines", "inserted_at"),
    Aggregate("capacity_hour", "hour_at", "inserted_through", "usage_lines", "inserted_at"),
    Aggregate("discrepancy_count_hour", "hour_at", "inserted_through", "discrepancies", "inserted_at"),
)
DAYS = (
    Aggregate("tenant_margin_day", "day_on", "hours_through", "tenant_margin_hour", "refreshed_at"),
    Aggregate("idle_burn_day", "day_on", "hours_through", "idle_burn_hour", "refreshed_at"),
)
AGGREGATES = (*HOURS, *DAYS)
"""Days after hours: they are sums of them."""


class ViewAge(NamedTuple):
    """One aggregate: its oldest and newest hour or day as refreshed, with their ages; both None before the first."""

    table: str
    rows: int
    oldest_age_s: int | None
    newest_age_s: int | None


def refresh(client: Client, everything: bool = False) -> None:
    """Refresh every view once and wait; afterwards all rows inserted before the call are in them.

    With `everything`, repeat until every hour and day ever written was recomputed: it also shows rows that were
    changed or lost long ago. Raises the driver's `DatabaseError` with the view's own error when a refresh fails.
    """
    started_at = client.query("SELECT toUnixTimestamp64Micro(now64(6))").result_rows[0][0]
    for group in (HOURS, DAYS):
        _refresh(client, group)
        while everything and (waiting := [each for each in group if _older(client, each, started_at)]):
            _refresh(client, waiting)


def _refresh(client: Client, group: tuple[Aggregate, ...] | list[Aggregate]) -> None:
    for each in group:
        client.command(f"SYSTEM REFRESH VIEW r_{each.table}")
    for each in group:
        client.command(f"SYSTEM WAIT VIEW r_{each.table}")


def _older(client: Client, each: Aggregate, started_us: int) -> int:
    """How many hours or days of the aggregate were last computed before the moment given."""
    sql = (
        f"SELECT count() FROM (SELECT {each.time}, max(refreshed_at) AS last_at FROM {each.table} GROUP BY {each.time})"
        f" WHERE toUnixTimestamp64Micro(last_at) < {started_us}"
    )
    return int(client.query(sql).result_rows[0][0])


def ages(client: Client) -> list[ViewAge]:
    """How old each aggregate is, as shown beside its numbers."""
    return [ViewAge(*row) for row in client.query(query("view_ages")).result_rows]

"""A month of ledger facts made inside ClickHouse by INSERT SELECT: the same sizes give the same rows.

Shaped as the pipeline writes them: time lines per device and quarter-hour, energy lines per device and batch, both cut
where a hold ends; a cost row per line and component; reversals and corrections for one held line in a hundred.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from string import Template

from clickhouse_connect.driver.client import Client

from benchmarks.month_sql import ALLOCATIONS, CORRECTIONS, COSTS, HOLDER, LINES, MARKS, NODES, TOTALS

START_S = 1_780_272_000
"""2026-06-01 00:00 UTC."""
DAY_S = 86_400
HOUR_S = 3_600
GPUS_A_NODE = 8
US = 1_000_000


@dataclass(frozen=True, slots=True)
class Fleet:
    """How big. `flush_s` is what one sample batch covers; it divides a quarter-hour."""

    gpus: int = 1000
    days: int = 30
    tenants: int = 300
    flush_s: int = 30

    @property
    def end_s(self) -> int:
        return START_S + self.days * DAY_S

    @property
    def nodes(self) -> int:
        return -(-self.gpus // GPUS_A_NODE)


def fill(client: Client, fleet: Fleet, progress: Callable[[str], None]) -> None:
    """The month, day by day. Raises the driver's errors."""
    whole = _values(fleet, START_S, fleet.end_s)
    for template in (NODES, ALLOCATIONS, MARKS):
        client.command(template.substitute(whole))
    for day in range(fleet.days):
        add_window(client, fleet, START_S + day * DAY_S, START_S + (day + 1) * DAY_S)
        progress(f"day {day + 1} of {fleet.days}")


def add_hour(client: Client, fleet: Fleet, hour: int) -> None:
    """One more hour after the month, taken in at this moment, as the sink would."""
    begin_s = fleet.end_s + hour * HOUR_S
    add_window(client, fleet, begin_s, begin_s + HOUR_S, now=True)


def add_window(client: Client, fleet: Fleet, from_s: int, to_s: int, now: bool = False) -> None:
    """Lines, corrections, totals and cost rows of whole quarter-hours, taken in 75 s after each group, or now."""
    for sql in _window(fleet, from_s, to_s, now):
        client.command(sql)


def _window(fleet: Fleet, from_s: int, to_s: int, now: bool) -> Iterator[str]:
    values = _values(fleet, from_s, to_s)
    values["corrected_in"] = "now64(6)" if now else "inserted_at + INTERVAL 6 HOUR"
    for kind, period_s in (("time", 900), ("energy", fleet.flush_s)):
        taken_in = f"fromUnixTimestamp64Micro(group_us + {period_s * US} + 75000000, 'UTC')"
        values["taken_in"] = "now64(6)" if now else taken_in
        yield LINES.substitute({**values, "kind": kind, "period_us": period_s * US})
    for template in (CORRECTIONS, TOTALS, COSTS):
        yield template.substitute(values)


def _values(fleet: Fleet, from_s: int, to_s: int) -> dict[str, object]:
    return {
        "gpus": fleet.gpus,
        "tenants": fleet.tenants,
        "start_us": START_S * US,
        "from_us": from_s * US,
        "to_us": to_s * US,
        "holder": Template(HOLDER).substitute(tenants=fleet.tenants, start_us=START_S * US),
    }

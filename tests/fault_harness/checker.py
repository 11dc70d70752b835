"""Holds what a run left in Kafka and ClickHouse against the world's truth. Reads with a decoder and SQL of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.fault_harness.answers import Money, plus
from tests.fault_harness.check_topics import check_costs_topic, check_dead_letters, check_raw
from tests.fault_harness.findings import Difference, Finding, equal
from tests.fault_harness.ledger import Ledger, Query
from tests.fault_harness.plan import LATENESS_US, MINUTE
from tests.fault_harness.topic_reading import Topics, kafka_topics
from tests.fault_harness.truth import Truth
from tests.fault_harness.world import World

__all__ = ["Finding", "assert_exact", "check", "check_sources"]
_WINDOW_US = 360 * MINUTE
_PRICE_KINDS = {"compute": "compute", "billed": "rate", "energy": "energy"}
Totals = dict[tuple[str, str], Money]


def check(world: World, kafka: Mapping[str, str], prefix: str, partitions: int, client: Any) -> list[Finding]:
    """Everything that the run must have left, once all is at rest. `client`: a clickhouse_connect Client."""

    def query(sql: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = client.query(sql).result_rows
        return rows

    return check_sources(world, kafka_topics(kafka, prefix, partitions), query)


def check_sources(world: World, topics: Topics, query: Query) -> list[Finding]:
    """The same over any source of records and rows."""
    ledger = Ledger(query)
    truth = Truth(world, ledger.order)
    found = check_raw(world, topics)
    compared, totals = _compare_ledger(truth, ledger)
    found += compared
    found += check_costs_topic(truth, ledger, topics, totals)
    found += _check_corrections(world, truth, ledger)
    found += check_dead_letters(world, topics, query)
    return found


def assert_exact(findings: Sequence[Finding]) -> None:
    """Raise AssertionError with a table of what differs."""
    wrong = [finding for finding in findings if not finding.ok]
    if wrong:
        told = [f"- {f.what}\n    expected: {f.expected}\n    seen:     {f.seen}" for f in wrong]
        raise AssertionError(f"{len(wrong)} of {len(findings)} findings differ from the truth:\n" + "\n".join(told))


@dataclass(slots=True)
class _Sums:
    """What sums over the whole world, as truth and as table have it."""

    money: Totals
    joules: int = 0
    device_us: int = 0
    unknown_us: int = 0


def _compare_ledger(truth: Truth, ledger: Ledger) -> tuple[list[Finding], Totals]:
    lines, totals, costs = (Difference(name) for name in ("usage_lines", "device_totals", "cost_rows"))
    true, seen = _Sums({}), _Sums({})
    for from_us, to_us in _windows(truth.world):
        usage, kept = truth.usage(from_us, to_us), ledger.usage(from_us, to_us)
        lines.compare(usage, kept)
        totals.compare(truth.totals(from_us, to_us), ledger.totals(from_us, to_us))
        money, booked = truth.priced(usage), ledger.costs(from_us, to_us)
        costs.compare(money, booked)
        for sums, used, priced in ((true, usage, money), (seen, kept, booked)):
            sums.joules += sum(amount.energy_uj for amount in used.values())
            sums.device_us += sum(amount.device_us for amount in used.values())
            sums.unknown_us += sum(amount.span_us for key, amount in used.items() if not key.known)
            for cost_key, amount in priced.items():
                name = (cost_key.tenant, cost_key.component)
                sums.money[name] = plus(sums.money.get(name, Money(0, 0, Decimal(0))), amount)
    unknown_us, zeros = ledger.unknown_energy()
    repeated = ledger.repeated_ids()
    found = [difference.finding() for difference in (lines, totals, costs)]
    found += [
        equal("joules of all lines, µJ", true.joules, seen.joules),
        equal("device-time of all lines, µs", true.device_us, seen.device_us),
        equal("amounts by tenant and component", _told(true.money), _told(seen.money)),
        equal("time without a known energy, µs", true.unknown_us, unknown_us),
        equal("rows that give unmeasured time a value", 0, zeros),
        equal("ids with two contents", dict.fromkeys(repeated, 0), repeated),
    ]
    return found, true.money


def _windows(world: World) -> Iterator[tuple[int, int]]:
    """Windows that hold everything: also what lies before and after the world, where nothing may be."""
    start_us, end_us = world.plan.start_us, world.plan.last_tick_us
    yield 0, start_us
    for from_us in range(start_us, end_us, _WINDOW_US):
        yield from_us, from_us + _WINDOW_US
    yield start_us + -(-(end_us - start_us) // _WINDOW_US) * _WINDOW_US, 1 << 52


def _told(totals: Totals) -> str:
    return ", ".join(
        f"{tenant} {component} {m.cost:.12f}" for (tenant, component), m in sorted(totals.items()) if any(m)
    )


def _check_corrections(world: World, truth: Truth, ledger: Ledger) -> list[Finding]:
    lone = ledger.lone_reversals()
    found = [equal("rows that take back what is not there", dict.fromkeys(lone, 0), lone)]
    late_us = _lateness_us(world)
    if late_us > 5 * MINUTE:
        found.append(_check_corrected("usage_lines", ledger))
    elif late_us < MINUTE // 2:
        entries = ledger.entries("usage_lines")
        found.append(Finding("entries in usage_lines", "originals only", str(entries), set(entries) <= {"original"}))
    if world.plan.late_prices:
        found.append(_check_corrected("cost_rows", ledger))
    return [*found, _check_first_prices(truth, ledger)]


def _lateness_us(world: World) -> int:
    """How late the latest event of a job was first reported."""
    first: dict[str, int] = {}
    for said in world.schedule.said():
        first.setdefault(said.event_id, said.said_us - said.at_us)
    return max(first.values(), default=0)


def _check_corrected(table: str, ledger: Ledger) -> Finding:
    entries = ledger.entries(table)
    corrected = all(entries.get(name) for name in ("original", "reversal", "correction"))
    return Finding(f"entries in {table}", "originals, reversals and corrections", str(entries), corrected)


def _check_first_prices(truth: Truth, ledger: Ledger) -> Finding:
    """An original row has the price that was known when it was cut off, and keeps it whatever was said later."""
    wrong, rows, first_wrong = 0, 0, ""
    for component, quarter_us, end_us, status, name, rate, pue, count in ledger.first_prices():
        price = truth.price(_PRICE_KINDS[component], quarter_us, int(end_us) + LATENESS_US)
        rows += int(count)
        if status == "unmeasured":
            right = name == "" and component == "energy"
        elif price is None:
            right = status == "unpriced"
        else:
            right = status == "priced" and name == price.name and Decimal(rate) == Decimal(price.rate)
            right = right and (component != "energy" or Decimal(pue) == Decimal(price.pue))
        if not right:
            wrong += int(count)
            first_wrong = first_wrong or f"{component} at {quarter_us}: {status} {name!r} {rate}, not {price}"
    what = "original cost rows that keep the price known when they were made"
    return Finding(what, f"all {rows}", f"{rows - wrong} {first_wrong}".strip(), wrong == 0)

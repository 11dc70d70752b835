"""The checker sees planted differences: a record, row, price or letter changed, and the finding that must fail."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.line import Line
from wattledger_schemas import Codec

from tests.fault_harness.checker import assert_exact, check_sources
from tests.fault_harness.topic_reading import Record
from tests.fault_harness.world import Plan, World
from tests.replay_world import Run, costs_topic, emptied_ledger, fill, run

pytestmark = pytest.mark.chdb
PLAN = Plan(
    21, nodes=1, devices=2, minutes=45, job_minutes=9, late_jobs=0.6, late_by_min=15, late_prices=1, gaps=1, poison=1,
    duplicate_records=0.1,
)  # fmt: skip
LINES, COSTS = "usage_lines net of reversals", "cost_rows net of reversals"
PAIRS = "rows that take back what is not there"


@pytest.fixture(scope="module")
def true_run() -> Run:
    """What a run without a mistake leaves."""
    return run(World(PLAN))


@pytest.fixture(scope="module")
def emptied(chdb_path: Path) -> Iterator[Callable[[], Client]]:
    """One database for all, its tables empty again at each call."""
    with emptied_ledger(chdb_path) as make:
        yield make


@pytest.fixture
def client(emptied: Callable[[], Client]) -> Client:
    return emptied()


@pytest.fixture
def found(true_run: Run) -> Iterator[Run]:
    """A copy to spoil; the original must not change."""
    rows = true_run.rows
    yield Run(
        {topic: list(kept) for topic, kept in true_run.records.items()},
        replace(rows, lines=list(rows.lines), totals=list(rows.totals), cost_rows=list(rows.cost_rows)),
        list(true_run.letters),
    )


def wrong(found: Run, client: Client, world: World | None = None) -> list[str]:
    """What the checker complains of."""
    fill(client, found)

    def query(sql: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = client.query(sql).result_rows
        return rows

    findings = check_sources(world or World(PLAN), found.topics, query)
    if bad := [finding.what for finding in findings if not finding.ok]:
        with pytest.raises(AssertionError, match="differ from the truth"):
            assert_exact(findings)
    return bad


def line_where(found: Run, is_it: Callable[[Line], bool]) -> int:
    return next(n for n, line in enumerate(found.rows.lines) if is_it(line))


def cost_where(found: Run, is_it: Callable[[CostRow], bool]) -> int:
    return next(n for n, row in enumerate(found.rows.cost_rows) if is_it(row))


def measured(line: Line) -> bool:
    return line.kind == "energy" and line.entry == "original" and bool(line.energy_uj)


def change_line(is_it: Callable[[Line], bool], **changes: Any) -> Callable[[Run], None]:
    def spoil(found: Run) -> None:
        n = line_where(found, is_it)
        found.rows.lines[n] = found.rows.lines[n]._replace(**changes)

    return spoil


def more_energy(found: Run) -> None:
    n = line_where(found, measured)
    line = found.rows.lines[n]
    found.rows.lines[n] = line._replace(energy_uj=(line.energy_uj or 0) + 1)


def less_time(found: Run) -> None:
    n = line_where(found, lambda line: line.kind == "time" and line.entry == "original")
    line = found.rows.lines[n]
    found.rows.lines[n] = line._replace(device_us=line.device_us - 1, span_us=line.span_us - 1)


def line_dropped(found: Run) -> None:
    del found.rows.lines[line_where(found, measured)]


def line_again_under_another_id(found: Run) -> None:
    found.rows.lines.append(found.rows.lines[line_where(found, measured)]._replace(line_id="made-by-a-clock"))


def gap_as_zero(found: Run) -> None:
    n = line_where(found, lambda line: line.kind == "energy" and line.energy_uj is None)
    found.rows.lines[n] = found.rows.lines[n]._replace(energy_uj=0)


def not_reversed(found: Run) -> None:
    del found.rows.lines[line_where(found, lambda line: line.entry == "reversal")]


def reversed_by_less(found: Run) -> None:
    n = line_where(found, lambda line: line.entry == "reversal" and line.kind == "time")
    line = found.rows.lines[n]
    found.rows.lines[n] = line._replace(device_us=line.device_us + 1)


def reversed_twice(found: Run) -> None:
    n = line_where(found, lambda line: line.entry == "reversal")
    found.rows.lines.append(found.rows.lines[n]._replace(line_id="again"))


def total_off(found: Run) -> None:
    total = found.rows.totals[0]
    found.rows.totals[0] = total._replace(in_service_us=total.in_service_us - 1, energy_uj=total.energy_uj + 1)


def total_twice(found: Run) -> None:
    found.rows.totals.append(found.rows.totals[-1]._replace(measured_us=77))


def cost_off(found: Run) -> None:
    n = cost_where(found, lambda row: row.status == "priced")
    row = found.rows.cost_rows[n]
    found.rows.cost_rows[n] = row._replace(cost=(row.cost or Decimal(0)) + Decimal("1e-12"))


def cost_off_everywhere(found: Run) -> None:
    cost_off(found)
    found.records["tenant-cost"] = costs_topic(Codec(), found.rows.cost_rows)


def cost_twice(found: Run) -> None:
    found.rows.cost_rows.append(found.rows.cost_rows[0]._replace(row_id="again"))


def late_price_in_place(found: Run) -> None:
    """The old rows rewritten, nothing taken back: the net is right all the same."""
    kept = []
    corrected = {r.line_id: r for r in found.rows.cost_rows if r.entry == "correction" and "-late-" in r.price_id}
    for row in found.rows.cost_rows:
        late = corrected.get(row.line_id) if row.component == "energy" else None
        if late is None:
            kept.append(row)
        elif row.entry == "original":
            kept.append(late._replace(row_id=row.row_id, entry="original", cause_id=""))
    found.rows.cost_rows = kept
    found.records["tenant-cost"] = costs_topic(Codec(), kept)


def revision_lost(found: Run) -> None:
    """Every revision of an allocation that lines name."""
    name = found.rows.lines[line_where(found, lambda line: bool(line.allocation_id))].allocation_id
    found.rows.allocations = {
        partition: [record for record in kept if getattr(record, "allocation_id", "") != name]
        for partition, kept in found.rows.allocations.items()
    }


def original_unpriced(found: Run) -> None:
    n = cost_where(found, lambda row: row.status == "priced" and row.entry == "original")
    row = found.rows.cost_rows[n]
    found.rows.cost_rows[n] = row._replace(status="unpriced", price_id="", rate=None, pue=None, cost=None)


def without(topic: str, n: int = 3) -> Callable[[Run], None]:
    def spoil(found: Run) -> None:
        value = found.records[topic][n].value
        found.records[topic] = [record for record in found.records[topic] if record.value != value]

    return spoil


def one_bit(found: Run) -> None:
    record = found.records["gpu-samples"][5]
    found.records["gpu-samples"][5] = record._replace(value=record.value[:-1] + bytes([record.value[-1] ^ 1]))


def never_sent(found: Run) -> None:
    found.records["gpu-samples"].append(Record(0, 9999, b"node-0", b"\0never sent"))


def topic_row_contradicts(found: Run) -> None:
    n = cost_where(found, lambda row: row.status == "priced")
    row = found.rows.cost_rows[n]
    again = row._replace(cost=(row.cost or Decimal(0)) + 1)
    found.records["tenant-cost"] += costs_topic(Codec(), [again])


def letter_lost(found: Run) -> None:
    del found.letters[0]
    del found.records["dead-letters"][0]


def letter_lost_in_the_table(found: Run) -> None:
    del found.letters[0]


def good_record_put_aside(found: Run) -> None:
    found.letters.append(found.letters[0]._replace(offset=1, value=b"x"))


def letter_with_another_reason(found: Run) -> None:
    found.letters[0] = found.letters[0]._replace(reason_code="because")


PLANTED: dict[str, tuple[Callable[[Run], None], str]] = {
    "a microjoule too much": (more_energy, LINES),
    "a microsecond missing": (less_time, LINES),
    "a line missing": (line_dropped, LINES),
    "a line again under an id that took the clock in": (line_again_under_another_id, LINES),
    "a line for another tenant": (change_line(measured, tenant="somebody"), LINES),
    "energy bridged over a gap without saying so": (change_line(lambda r: "interpolated" in r.marks, marks=""), LINES),
    "a gap counted as zero": (gap_as_zero, "rows that give unmeasured time a value"),
    "a gap counted as zero, by line": (gap_as_zero, LINES),
    "a corrected line not reversed": (not_reversed, LINES),
    "a line reversed by less": (reversed_by_less, PAIRS),
    "a line reversed twice": (reversed_twice, PAIRS),
    "a total off by one": (total_off, "device_totals net of reversals"),
    "a total with two contents": (total_twice, "ids with two contents"),
    "a cost off by its last digit": (cost_off, COSTS),
    "a cost row twice": (cost_twice, COSTS),
    "table and topic apart": (cost_off, "tenant-cost folded by row id is cost_rows FINAL"),
    "a cost that is not quantity times rate": (cost_off_everywhere, "tenant-cost: rows whose cost is not"),
    "amounts of a tenant off": (cost_off, "amounts by tenant and component"),
    "a late price applied in place": (late_price_in_place, "original cost rows that keep the price known"),
    "an original row that says it had no price": (original_unpriced, "original cost rows that keep the price known"),
    "the revisions of a held allocation lost": (revision_lost, LINES),
    "a sample record lost": (without("gpu-samples"), "gpu-samples in Kafka"),
    "a job event lost": (without("job-events"), "job-events in Kafka"),
    "a price lost": (without("price-book", 0), "price-book in Kafka"),
    "a sample record with one bit changed": (one_bit, "gpu-samples in Kafka"),
    "a sample record that nobody sent": (never_sent, "gpu-samples in Kafka"),
    "a cost record lost": (without("tenant-cost"), "tenant-cost by tenant and component"),
    "two contents under one row id in the topic": (topic_row_contradicts, "tenant-cost: row ids with two contents"),
    "a dead letter lost": (letter_lost, "dead-letters"),
    "a dead letter lost on the way to its table": (letter_lost_in_the_table, "dead_letters table"),
    "a good record put aside": (good_record_put_aside, "dead_letters table"),
    "a dead letter with another reason": (letter_with_another_reason, "dead_letters table"),
}


def test_without_a_planted_difference_nothing_is_found(found: Run, client: Client) -> None:
    assert wrong(found, client) == []


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_seen(planted: str, found: Run, client: Client) -> None:
    spoil, what = PLANTED[planted]
    spoil(found)
    assert [name for name in wrong(found, client) if name.startswith(what)]


def test_a_price_of_the_world_that_the_run_did_not_have_is_seen(found: Run, client: Client) -> None:
    world = World(PLAN)
    world.tariffs.said = tuple(
        replace(said, rate="0.310000001") if said.name == "energy" else said for said in world.tariffs.said
    )
    seen = wrong(found, client, world)
    assert any(name.startswith(COSTS) for name in seen)
    assert any(name.startswith("price-book in Kafka") for name in seen)


def test_a_reading_of_the_world_that_the_run_did_not_have_is_seen(found: Run, client: Client) -> None:
    world = World(replace(PLAN, seed=22))
    assert any(name.startswith(LINES) for name in wrong(found, client, world))

"""The whole pipeline over lists, small enough to check on paper: 100 W, 0.36 a kWh, PUE 1.5, 3.6 a GPU-hour.

100 W for 30 s is 3000 J = 3000/3.6e6 kWh; x 0.36 x 1.5 = 0.00045. A GPU for 900 s at 3.6 an hour is 0.9.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from wattledger_core.cost import CostRow
from wattledger_core.event import Claim, InventoryDevice, JobEvent, JobTopicEvent, NodeEvent, Tick
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.replay import Logs, Replayed, replay
from wattledger_core.revision import Origin

from tests.builders import DEVICE, NODE, S, steady

PLACED = {NODE: 0}


def job(kind: str, at_s: int, event_id: str, outcome: str = "") -> JobEvent:
    claims = (Claim(NODE, DEVICE),) if kind == "start" else ()
    return JobEvent(event_id, kind, at_s * S, "c", "j1", 0, claims, tenant="acme", sku="h100", outcome=outcome)


def node(kind: str, at_s: int, event_id: str) -> NodeEvent:
    devices = (InventoryDevice(DEVICE, 0, "H100"),) if kind == "inventory" else ()
    return NodeEvent(event_id, kind, at_s * S, NODE, "c", "fra1", devices)


def price(kind: str, name: str, rate: str, offset: int, pue: str = "1") -> Price:
    return Price(name, f"{name}@{offset}", Origin(0, offset), 0, kind, 0, None, Decimal(rate), "EUR", pue=Decimal(pue))


BOOK: list[tuple[int, Price | Tick]] = [
    (0, price("energy", "e", "0.36", 0, pue="1.5")),
    (1, price("compute", "c", "3.6", 1)),
    (2, price("rate", "r", "4", 2)),
    (3, Tick(10_000 * S)),
]
JOBS: dict[int, list[tuple[int, JobTopicEvent]]] = {
    0: [(0, node("inventory", 0, "i")), (1, job("start", 0, "s")), (2, Tick(5000 * S))]
}
BATCH = [(7, steady(0, 30))]


def run(
    job_events: Mapping[int, Sequence[tuple[int, JobTopicEvent]]], prices: Sequence[tuple[int, Price | Tick]]
) -> Replayed:
    return replay(Logs(job_events, {0: BATCH}, prices), Policy(), 1, PLACED)


def folded(rows: list[CostRow], component: str) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for row in rows:
        if row.component == component:
            total[row.tenant] = total.get(row.tenant, Decimal(0)) + (row.cost or 0)
    return {tenant: cost for tenant, cost in total.items() if cost}


def test_one_job_one_batch_and_what_it_costs() -> None:
    got = run(JOBS, BOOK)
    assert [group.start_us // S for group in got.groups if group.kind == "time"] == [0, 900, 1800, 2700, 3600]
    assert folded(got.cost_rows, "energy") == {"acme": Decimal("0.00045")}
    assert folded(got.cost_rows, "compute") == {"acme": Decimal("4.5")}
    assert folded(got.cost_rows, "billed") == {"acme": Decimal("5")}


def test_a_stop_that_comes_late_moves_time_energy_and_money_to_idle() -> None:
    late = {0: [*JOBS[0], (3, job("end", 10, "e", outcome="COMPLETED")), (4, Tick(6000 * S))]}
    got = run(late, BOOK)
    assert folded(got.cost_rows, "energy") == {"acme": Decimal("0.00015"), "__idle__": Decimal("0.0003")}
    # 10 s of 3.6 an hour; 6 quarter-hours are due by 6000 - 60 s, the rest of them is idle
    assert folded(got.cost_rows, "compute") == {"acme": Decimal("0.01"), "__idle__": Decimal("5.39")}
    originals = {row.row_id: row for row in run(JOBS, BOOK).cost_rows}
    kept = {row.row_id: row for row in got.cost_rows}
    assert all(kept[name] == row for name, row in originals.items()), "what was written stays as it was"


def test_a_late_price_corrects_what_was_priced_before() -> None:
    # the energy tariff is taken back from 0 s on and 0.72 published, after the tick at 10,000 s
    closed = Price("e", "e@4", Origin(0, 4), 0, "energy", 0, 0, Decimal("0.36"), "EUR", pue=Decimal("1.5"))
    book = [*BOOK, (4, closed), (5, price("energy", "e2", "0.72", 5, pue="1.5")), (6, Tick(11_000 * S))]
    rows = [row for row in run(JOBS, book).cost_rows if row.component == "energy"]
    assert [(row.entry, row.status, row.cost, row.sign) for row in rows] == [
        ("original", "priced", Decimal("0.000450000000"), 1),
        ("reversal", "priced", Decimal("-0.000450000000"), -1),
        ("correction", "unpriced", None, 1),
        ("reversal", "unpriced", None, -1),
        ("correction", "priced", Decimal("0.000900000000"), 1),
    ]


def test_no_price_is_unpriced_and_not_zero() -> None:
    rows = [row for row in run(JOBS, BOOK[1:]).cost_rows if row.component == "energy"]
    assert [(row.status, row.cost, row.reason) for row in rows] == [("unpriced", None, "no_price")]


def test_the_same_logs_give_the_same_rows_and_a_duplicate_event_changes_nothing() -> None:
    doubled = {0: [*JOBS[0][:2], (2, job("start", 0, "s")), (3, Tick(5000 * S))]}
    assert run(JOBS, BOOK).lines == run(JOBS, BOOK).lines
    assert {line.line_id: line for line in run(doubled, BOOK).lines} == {
        line.line_id: line for line in run(JOBS, BOOK).lines
    }

"""A small ledger made by `replay`: two GPUs over four hours, with late events and a late price, and its insertion.

n1 has GPU-0 (sampled, 100 W) and GPU-1 (no agent). acme holds GPU-0 and ends late; zeta holds GPU-1 exclusively for a
while, and has a reservation of it later; labs claims GPU-0 on a trial plan while acme is still thought to hold it.
"""

from decimal import Decimal
from typing import Any

from clickhouse_connect.driver.client import Client
from wattledger_core.event import Claim, InventoryDevice, JobEvent, NodeEvent, Tick
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.replay import Logs, Replayed, replay
from wattledger_core.revision import AllocationRevision, Mark, NodeRevision, Origin
from wattledger_sql.fact import Source
from wattledger_sql.insert import (
    insert_allocation_revisions,
    insert_cost_rows,
    insert_device_totals,
    insert_discrepancies,
    insert_marks,
    insert_node_revisions,
    insert_prices,
    insert_usage_lines,
)

from tests.builders import steady
from tests.unit.sql_rows import T0, S

BASE_S = T0 // S
HOURS = 4


def _job(kind: str, at_s: int, job: str, tenant: str, device: str = "", **changes: Any) -> JobEvent:
    claims = (Claim("n1", device),) if device else ()
    return JobEvent(
        f"{kind}-{job}-{at_s}", kind, (BASE_S + at_s) * S, "c", job, 0, claims, tenant, model_tag="llm", sku="h100",
        **changes,
    )  # fmt: skip


def _node(kind: str, at_s: int, **changes: Any) -> NodeEvent:
    return NodeEvent(f"{kind}-{at_s}", kind, (BASE_S + at_s) * S, "n1", "c", "fra1", **changes)


def _price(offset: int, name: str, kind: str, rate: str, end_s: int | None = None, **changes: Any) -> Price:
    pue = Decimal("1.5") if kind == "energy" else Decimal(1)
    end_us = None if end_s is None else (BASE_S + end_s) * S
    return Price(
        name, "", Origin(0, offset), 0, kind, T0, end_us, Decimal(rate), "EUR", reason="late", pue=pue, **changes
    )


def job_events() -> list[tuple[int, Any]]:
    """One partition of job-events, ticks every hour; what follows a tick is known from it on."""
    inventory = (InventoryDevice("GPU-0", 0, "H100"), InventoryDevice("GPU-1", 1, "H100"))
    reserved = {"reservation_id": "r1", "tenant": "zeta", "reserved_devices": ("GPU-1",)}
    events = [
        _node("inventory", 0, devices=inventory, cpus=64),
        _node("reservation", 0, start_us=(BASE_S + 9000) * S, end_us=(BASE_S + 12600) * S, **reserved),
        _job("start", 100, "j1", "acme", "GPU-0"),
        _job("start", 1000, "j2", "zeta", "GPU-1", exclusive=True),
        Tick((BASE_S + 3600) * S),
        _job("end", 4000, "j2", "zeta", outcome="completed"),
        _job("start", 5000, "j3", "labs", "GPU-0", plan="trial"),
        Tick((BASE_S + 7200) * S),
        _job("end", 2500, "j1", "acme", outcome="completed"),
        _job("end", 9000, "j3", "labs", outcome="completed"),
        Tick((BASE_S + 10_800) * S),
        Tick((BASE_S + HOURS * 3600 + 60) * S),
    ]
    return list(enumerate(events))


def price_book() -> list[tuple[int, Price | Tick]]:
    items: list[Price | Tick] = [
        _price(0, "e", "energy", "0.36"),
        _price(1, "c", "compute", "3.6"),
        _price(2, "r", "rate", "4"),
        _price(3, "fabric", "pool", "0.1", pool_name="fabric", driver="installed_gpu_h"),
        Tick((BASE_S + 7200) * S),
        _price(5, "r-zeta", "rate", "1.7", tenant="zeta"),
        _price(6, "cooling", "pool", "0.0333", pool_name="cooling", driver="kwh", marginal=True),
        Tick((BASE_S + HOURS * 3600 + 60) * S),
    ]
    return list(enumerate(items))


def replayed() -> Replayed:
    """Everything the pipeline writes for these logs: originals, reversals and corrections of lines and of cost rows."""
    seconds = range(BASE_S + 300, BASE_S + 6300, 300)
    batches = [(n, steady(start, start + 300, seq=n)) for n, start in enumerate(seconds)]
    return replay(Logs({0: job_events()}, {0: batches}, price_book()), Policy(), 1, {"n1": 0})


def kept_prices() -> list[Price]:
    log = PriceLog()
    return [kept for _, item in price_book() if (kept := log.add(item)) is not None]


def insert_ledger(client: Client, rows: Replayed) -> None:
    """The ledger into its tables, as the sink does: revisions before marks."""
    records = rows.allocations[0]
    insert_allocation_revisions(client, [record for record in records if isinstance(record, AllocationRevision)])
    insert_node_revisions(client, [record for record in records if isinstance(record, NodeRevision)])
    marks = [(record, Source(0, offset)) for offset, record in enumerate(records) if isinstance(record, Mark)]
    insert_marks(client, [record for record, _ in marks], [source for _, source in marks])
    insert_usage_lines(client, rows.lines)
    insert_device_totals(client, rows.totals)
    insert_discrepancies(client, rows.discrepancies)
    insert_cost_rows(client, rows.cost_rows)
    insert_prices(client, kept_prices())

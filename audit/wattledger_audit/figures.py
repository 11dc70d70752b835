"""Figures read from ClickHouse for verdicts: uses and idle pools as the core's values. Sums only; no price, no join."""

from decimal import Decimal

from clickhouse_connect.driver.client import Client
from wattledger_core.verdict_idle import IdlePool, Use
from wattledger_sql.query import query


def uses(client: Client) -> list[Use]:
    """What every customer used of every pool, and what it was billed."""
    rows = client.query(query("verdict_uses")).result_rows
    return [
        Use(
            str(tenant), str(sku), str(plan), str(site), str(model), int(held), int(billable), int(measured),
            Decimal(marginal), Decimal(own), Decimal(billed), int(unpriced),
        )
        for tenant, sku, plan, site, model, held, billable, measured, marginal, own, billed, unpriced in rows
    ]  # fmt: skip


def idle_pools(client: Client) -> list[IdlePool]:
    """The free time of every pool (site × model) and what it cost."""
    rows = client.query(query("verdict_idle_pools")).result_rows
    return [
        IdlePool(str(site), str(model), int(idle), Decimal(cost), int(unpriced))
        for site, model, idle, cost, unpriced in rows
    ]

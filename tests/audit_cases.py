"""Small files of an audit in one line each, for tests: a day of usage, invoices, inventories, states, reservations."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from wattledger_audit.audit_run import Audited
from wattledger_audit.report.model import Row

DAY = "2026-02-10..2026-02-11"
"""The audited period of most cases: 24 hours, UTC."""
_START = datetime(2026, 2, 10)
USAGE = (
    "job_id,attempt,tenant,project,node,device,gpu_model,gpus,share_num,share_den,start,end,state,tokens,cluster,submit",
    "eligible,partition,plan,model,user,exclusive,cpus,mem,sku,suspended_s,limit_s,waits_for",
)
BILLING = ("invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency",)
FLEET = (
    "node,site,gpu_model,gpus,slices,in_service_from,in_service_to,status,cpus,mem,cluster,partitions,devices",
)  # fmt: skip
EVENTS = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
RESERVATIONS = "reservation_id,tenant,nodes,gpus,start,end"


def at(hour: float | None) -> str:
    """An hour of the day as a stamp in UTC; None is an empty cell."""
    return "" if hour is None else (_START + timedelta(hours=hour)).isoformat() + "Z"


def run(
    job: str, tenant: str, start: float | None, end: float | None, gpus: int | str = 1, node: str = "n1", **more: str
) -> dict[str, str]:
    """One usage row: hours of the day, GPUs on a node; `more` are other columns."""
    row = {
        "job_id": job, "attempt": "0", "tenant": tenant, "node": node, "gpu_model": "H100", "gpus": str(gpus),
        "share_num": "1", "share_den": "1", "start": at(start), "end": at(end), "state": "COMPLETED",
    }  # fmt: skip
    return {**row, **more}


def bill(tenant: str, sku: str, quantity: str, amount: str, unit: str = "GPU-hours", **more: str) -> dict[str, str]:
    """One billed line, of the whole day."""
    row = {
        "invoice_id": f"I-{tenant}", "tenant": tenant, "period_start": at(0), "period_end": at(24), "sku": sku,
        "quantity": quantity, "unit": unit, "amount": amount, "currency": "USD",
    }  # fmt: skip
    return {**row, **more}


def machine(node: str = "n1", gpus: int = 8, gpu_model: str = "H100", **more: str) -> dict[str, str]:
    """One machine of an inventory, in service all the time."""
    return {"node": node, "gpu_model": gpu_model, "gpus": str(gpus), **more}


def table(columns: Iterable[str], rows: Iterable[dict[str, str]]) -> str:
    """Rows as CSV. `columns` are texts of names."""
    listed, names = list(rows), ",".join(columns).split(",")
    return "".join(
        ",".join(cells) + "\n" for cells in [names, *([row.get(name, "") for name in names] for row in listed)]
    )


def usage(*rows: dict[str, str]) -> str:
    """A canonical usage log."""
    return table(USAGE, rows)


def billing(*rows: dict[str, str]) -> str:
    """A canonical billing export."""
    return table(BILLING, rows)


def fleet(*rows: dict[str, str]) -> str:
    """An inventory."""
    return table(FLEET, rows)


def events(*rows: tuple[str, float, float | None, str]) -> str:
    """`sacctmgr -P show event`: node, from, to (hours of the day), state."""
    lines = [f"c|{node}|{at(a)[:-1]}|{at(b)[:-1] or 'Unknown'}|{state}|why|root(0)" for node, a, b, state in rows]
    return "\n".join([EVENTS, *lines]) + "\n"


def reservations(*rows: tuple[str, str, str, str, float, float]) -> str:
    """Reservations: id, tenant, nodes, gpus (empty: all), from, to."""
    lines = [f'{name},{tenant},"{nodes}",{gpus},{at(a)},{at(b)}' for name, tenant, nodes, gpus, a, b in rows]
    return "\n".join([RESERVATIONS, *lines]) + "\n"


def costs(*parts: str, currency: str = "USD", timezone: str = "UTC") -> str:
    """A cost file of these parts; one rate of 1 per GPU-hour where none says `compute`."""
    text = "\n".join(parts)
    compute = "" if "compute:" in text else "compute: [{per_gpu_hour: 1}]\n"
    return f"currency: {currency}\ntimezone: {timezone}\n{compute}{text}\n"


def hours(audited: Audited) -> dict[str, Fraction]:
    """GPU-hours by state that are not 0."""
    return {name: Fraction(text) for name, text in audited.report.fleet.items() if Fraction(text)}


def own_costs(audited: Audited) -> dict[str, Decimal]:
    """Own cost of each tenant."""
    return {row.tenant: Decimal(row.cost_own or 0) for row in audited.report.tenants}


def idle_costs(audited: Audited) -> dict[str, Decimal]:
    """Cost of free time by machine."""
    return {row.node: Decimal(row.cost or 0) for row in audited.report.idle}


def row_of(rows: Iterable[Row], tenant: str, sku: str = "", plan: str = "") -> Row:
    """The row of a tenant (× SKU × plan, where given)."""
    return next(
        row for row in rows if row.tenant == tenant and (not sku or row.sku == sku) and (not plan or row.plan == plan)
    )


def state_cost(audited: Audited, step: str) -> Decimal:
    """The cost of one step of the capacity waterfall."""
    return next(Decimal(state.cost or 0) for state in audited.report.waterfall if state.step == step)


def found(audited: Audited) -> dict[str, int]:
    """Contradictions: kind and count."""
    return {item.kind: item.count for item in audited.report.discrepancies}

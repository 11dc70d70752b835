"""Small rows for the SQL tests: one node, two devices, easy numbers. Every default can be overridden."""

from decimal import Decimal
from typing import Any

from wattledger_core.cost import CostRow
from wattledger_core.ids import digest
from wattledger_core.line import DeviceTotal, Line

S = 1_000_000
QUARTER = 900 * S
T0 = 1_780_272_000 * S
"""2026-06-01 00:00 UTC: the start of an hour, a day and a month."""


def time_line(job: str = "j1", quarter: int = 0, **changes: Any) -> Line:
    """A whole quarter-hour of GPU-0 held by `tenant-<job>`."""
    start = T0 + quarter * QUARTER
    base = Line(
        "", "time", start, start + QUARTER, "n1", "GPU-0", "", "fra1", "H100", "held", "", f"tenant-{job}", "", "",
        "llm", "c", job, 0, f"allocation-{job}", "on_demand", "h100", start, start + QUARTER, QUARTER, QUARTER, None,
        0, 0, "allocation", "",
    )._replace(**changes)  # fmt: skip
    return base._replace(line_id=base.line_id or digest("line", *[str(value) for value in base]))


def energy_line(job: str = "j1", quarter: int = 0, energy_uj: int | None = 90_000_000_000, **changes: Any) -> Line:
    """A batch of a whole quarter-hour of GPU-0 at 100 W."""
    changes = {"kind": "energy", "device_us": 0, "energy_uj": energy_uj, "method": "counter", **changes}
    return time_line(job, quarter, **changes)


def total_of(*lines: Line) -> DeviceTotal:
    """The total of the lines of one device and group."""
    first = lines[0]
    return DeviceTotal(
        digest("total", first.kind, first.device, first.group_start_us), first.kind, first.group_start_us,
        first.group_end_us, first.node, first.device, sum(line.device_us for line in lines),
        sum(line.energy_uj or 0 for line in lines), 0, 0, -1, -1,
    )  # fmt: skip


def cost_row(line: Line, component: str, rate: str | None, pue: str | None = None, **changes: Any) -> CostRow:
    """The line priced for one component; without a rate it is unpriced. `cost` is exact for the defaults."""
    unit, divisor = ("uj", 3_600_000_000_000) if line.kind == "energy" else ("us", 3_600_000_000)
    quantity = line.energy_uj if unit == "uj" else line.device_us
    cost = None
    status = "priced" if rate is not None else "unpriced"
    if quantity is None:
        rate, status = None, "unmeasured"
    if rate is not None and quantity is not None:
        cost = (Decimal(quantity) * Decimal(rate) * Decimal(pue or 1) / divisor).quantize(Decimal("0.000000000001"))
    priced = rate is not None
    return CostRow(
        digest("cost", line.line_id, component), line.line_id, component, line.group_start_us, line.group_end_us,
        line.node, line.device, line.gpu_instance, line.site, line.gpu_model, line.state, line.tenant, line.project,
        line.model_tag, line.cluster, line.job, line.attempt, line.allocation_id, line.plan, line.sku, line.start_us,
        line.end_us, quantity, unit, "p1" if priced else "", "p1r1" if priced else "",
        None if rate is None else Decimal(rate), None if pue is None or not priced else Decimal(pue), unit == "uj",
        cost, "EUR" if priced else "", status, "" if priced else "no_price", line.sign, line.entry, "", line.cause_id,
    )._replace(**changes)  # fmt: skip

"""Prices and lines for tests: one quarter-hour, one device, easy numbers. Every default can be overridden."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from wattledger_core.cost import CostRow
from wattledger_core.event import Tick
from wattledger_core.line import CORRECTION, REVERSAL, Line
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import Pricer
from wattledger_core.revision import Origin

S = 1_000_000
QUARTER = 900 * S
KWH_UJ = 3_600_000_000_000

Item = Price | Tick


def at(iso: str) -> int:
    """An ISO moment with its offset, in µs since the epoch."""
    moment = datetime.fromisoformat(iso).astimezone(UTC)
    return round(moment.timestamp()) * S


def price(kind: str, rate: str, *, offset: int, name: str = "", **changes: Any) -> Price:
    """A price from 0 on without an end; named by its offset unless `name` is given."""
    fields: dict[str, Any] = {"start_us": 0, "end_us": None, "currency": "EUR", **changes}
    return Price(name or f"p{offset}", "", Origin(0, offset), 0, kind, rate=Decimal(rate), **fields)


def tick(at_s: int) -> Tick:
    return Tick(at_s * S)


def price_log(*items: Item) -> PriceLog:
    log = PriceLog()
    for item in items:
        log.add(item)
    return log


def pricer(*items: Item) -> Pricer:
    """A pricer with L = 60 s over a log of the items."""
    return Pricer(price_log(*items), Policy())


def time_line(quarter: int = 0, **changes: Any) -> Line:
    """A device held by acme over one whole quarter-hour: 0.25 GPU-hours."""
    start_us = quarter * QUARTER
    return _line("time", start_us, start_us + QUARTER, device_us=QUARTER)._replace(**changes)


def energy_line(quarter: int = 0, **changes: Any) -> Line:
    """A device held by acme that used 0.1 kWh in a batch of 30 s at the start of the quarter-hour."""
    start_us = quarter * QUARTER
    return _line("energy", start_us, start_us + 30 * S, energy_uj=KWH_UJ // 10)._replace(**changes)


def _line(kind: str, start_us: int, end_us: int, *, device_us: int = 0, energy_uj: int | None = None) -> Line:
    return Line(
        f"{kind}-{start_us}", kind, start_us, end_us, "n1", "GPU-0", "mig-1", "fra1", "H100", "held", "", "acme",
        "vision", "ann", "resnet", "c1", "job-7", 2, "alloc-7", "on_demand", "h100", start_us, end_us,
        end_us - start_us, device_us, energy_uj, 0, 0, "counter", "",
    )  # fmt: skip


def reversed_line(line: Line, cause_id: str = "late-1") -> Line:
    """The line that takes `line` back."""
    return line._replace(
        line_id=f"reversal-{line.line_id}", device_us=-line.device_us, span_us=-line.span_us,
        energy_uj=None if line.energy_uj is None else -line.energy_uj, sign=-1, entry=REVERSAL,
        of_line_id=line.line_id, cause_id=cause_id,
    )  # fmt: skip


def corrected_line(line: Line, cause_id: str = "late-1", **changes: Any) -> Line:
    return line._replace(line_id=f"correction-{line.line_id}", entry=CORRECTION, cause_id=cause_id, **changes)


def costs(rows: Iterable[CostRow], component: str = "") -> list[Decimal | None]:
    """Costs of the rows (of one component) in order."""
    return [row.cost for row in rows if component in ("", row.component)]


def folded(rows: Sequence[CostRow]) -> dict[tuple[str, str], Decimal]:
    """Σ cost by line and component; what sums to 0 stays, rows without a cost count nothing."""
    found: dict[tuple[str, str], Decimal] = {}
    for row in rows:
        key = (row.line_id, row.component)
        found[key] = found.get(key, Decimal(0)) + (row.cost or 0)
    return found

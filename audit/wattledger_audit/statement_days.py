"""One tenant's held time and energy by local day, SKU, plan and GPU model: the sweep once more, into days."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_core.capacity import HELD_STATE, RESERVED_STATE, STRANDED_STATE
from wattledger_core.span_lines import Holder

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.terms import FAILED_RUN
from wattledger_audit.intake.local_time import day_start_us
from wattledger_audit.shown_time import local_text
from wattledger_audit.sweep_again import sweep_again

NOT_CHARGED = "not charged"
_MOST_DAYS = 100_000
_HELD = (HELD_STATE, NOT_CHARGED)


class DayKey(NamedTuple):
    """A local day of one SKU on one plan and GPU model."""

    day: str
    sku: str
    plan: str
    gpu_model: str


@dataclass(slots=True)
class UsedSum:
    """Parts by kind (held, not charged, reserved_unused, stranded), and measured energy; None: nothing is known."""

    parts: dict[str, int] = field(default_factory=dict)
    energy_uj: int | None = None

    def add(self, parts: dict[str, int], energy_uj: int | None) -> None:
        """Take more in."""
        for kind, more in parts.items():
            self.parts[kind] = self.parts.get(kind, 0) + more
        if energy_uj is not None:
            self.energy_uj = (self.energy_uj or 0) + energy_uj

    def of(self, *kinds: str) -> int:
        """Parts of these kinds."""
        return sum(self.parts.get(kind, 0) for kind in kinds)

    @property
    def held(self) -> int:
        """Parts that its runs held, whoever pays."""
        return self.of(*_HELD)


def used_by_day(
    assessment: Assessment, tenant: str, zone: ZoneInfo, sku_of: Callable[[str, str], str]
) -> dict[DayKey, UsedSum]:
    """Exact sums of one tenant; Σ over days is what the assessment's own windows sum to. `sku_of` is what the tenant
    is shown of a SKU and GPU model."""
    edges = day_edges(assessment.period.start_us, assessment.period.end_us, zone)
    swept, measured = sweep_again(assessment, edges, assessment.terms)
    found: dict[DayKey, UsedSum] = {}
    for key, parts in swept.ledger.parts.items():
        kind = _kind(key.holder, tenant)
        if kind:
            day = local_text(edges[key.window], zone)[:10]
            place = DayKey(day, sku_of(key.holder.sku, key.gpu_model), key.holder.plan, key.gpu_model)
            energy_uj = measured.energy_uj.get(key) if kind in _HELD else None
            found.setdefault(place, UsedSum()).add({kind: parts}, energy_uj)
    return dict(sorted(found.items()))


def day_edges(start_us: int, end_us: int, zone: ZoneInfo) -> list[int]:
    """The period's ends and every local midnight between them, ascending; a day may have 23 or 25 hours."""
    first = datetime.fromisoformat(local_text(start_us, zone)).date()
    starts = (day_start_us(first + timedelta(days=count), zone) for count in range(1, _MOST_DAYS))
    inside = takewhile(lambda at_us: at_us < end_us, starts)
    return sorted({start_us, end_us, *inside})


def _kind(holder: Holder, tenant: str) -> str:
    """What a line of the ledger is to the tenant; empty where it is not the tenant's."""
    if holder.tenant == tenant and holder.state in (HELD_STATE, RESERVED_STATE, STRANDED_STATE):
        return holder.state
    failed = holder.reason.startswith(FAILED_RUN) and holder.project == tenant
    return NOT_CHARGED if failed else ""

"""The shape of a price sheet: what may stand in the YAML, field by field. Meaning is given in tariff_file.py."""

import re
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from wattledger_core.tariff import DAYS, QUARTERS_PER_DAY

_CLOCK = re.compile(r"([01]?\d|2[0-3]):(00|15|30|45)|24:00")


def _quarter(text: object) -> object:
    if not isinstance(text, str) or not _CLOCK.fullmatch(text):
        raise ValueError("a time of day is HH:MM on a quarter-hour, from 00:00 to 24:00")
    hours, minutes = text.split(":")
    return int(hours) * 4 + int(minutes) // 15


def _days(value: object) -> object:
    """Weekday numbers of `[mon, wed]`, `mon..fri`, or a mixture; a range may run over Sunday."""
    found: set[int] = set()
    for item in value if isinstance(value, list) else [value]:
        first, _, last = str(item).lower().partition("..")
        if first not in DAYS or (last or first) not in DAYS:
            raise ValueError(f"days are {', '.join(DAYS)}, or a range such as mon..fri")
        day, end = DAYS.index(first), DAYS.index(last or first)
        found.add(day)
        while day != end:
            day = (day + 1) % 7
            found.add(day)
    if not found:
        raise ValueError("name at least one day")
    return tuple(sorted(found))


def _currency(code: str) -> str:
    if not re.fullmatch(r"[A-Z]{3}", code):
        raise ValueError("a currency is three capital letters, such as EUR")
    return code


Quarter = Annotated[int, BeforeValidator(_quarter), Field(ge=0, le=QUARTERS_PER_DAY)]
Days = Annotated[tuple[int, ...], BeforeValidator(_days)]
Currency = Annotated[str, AfterValidator(_currency)]
NotNegative = Annotated[Decimal, Field(ge=0)]
Name = Annotated[str, Field(min_length=1)]
PlanName = Literal["", "reserved", "on_demand", "spot", "internal", "trial"]


class Part(BaseModel):
    """One mapping of a file: nothing may stand in it that isn't named."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Dated(Part):
    """`from` and `to` are dates or date-times; without an offset they are local time of the site (or the sheet)."""

    start: str = Field(alias="from")
    end: str | None = Field(default=None, alias="to")
    author: str = ""
    reason: str = ""


class PeriodEntry(Part):
    """A time-of-use window by local wall clock; over midnight it belongs to the day on which it starts."""

    days: Days = tuple(range(7))
    start: Quarter = Field(alias="from")
    end: Quarter = Field(alias="to")
    per_kwh: Decimal


class SiteEntry(_Dated):
    """A site's energy tariff. `pue_included`: its meters count the overhead already, so the price's PUE is 1."""

    site: Name
    timezone: Name
    pue: Decimal = Field(ge=1)
    pue_included: bool = False
    default_per_kwh: Decimal | None = None
    periods: tuple[PeriodEntry, ...] = ()


class ComputeEntry(_Dated):
    """Cost per device-hour of a model at a site."""

    site: str = ""
    gpu_model: str = ""
    per_gpu_hour: NotNegative


class RateEntry(_Dated):
    """What a tenant is billed per device-hour held; what is left out matches all."""

    site: str = ""
    tenant: str = ""
    plan: PlanName = ""
    sku: str = ""
    gpu_model: str = ""
    per_gpu_hour: NotNegative


class PoolEntry(_Dated):
    """A cost pool per unit of its driver; `marginal` when it is paid in cash per use."""

    name: Name
    driver: Literal["installed_gpu_h", "held_gpu_h", "kwh"]
    per_unit: NotNegative
    marginal: bool = False
    site: str = ""
    gpu_model: str = ""


class PriceSheet(Part):
    """A whole price sheet. `timezone` is that of dates whose entry names no site of the sheet."""

    currency: Currency
    timezone: Name = "UTC"
    sites: tuple[SiteEntry, ...] = ()
    compute: tuple[ComputeEntry, ...] = ()
    rates: tuple[RateEntry, ...] = ()
    pools: tuple[PoolEntry, ...] = ()

"""What was really so, as plain values: jobs and their holds, prices, readings. No record, no id of the product."""

from dataclasses import dataclass
from typing import NamedTuple


class Holder(NamedTuple):
    """One unbroken hold of a job's devices: `segment` counts them within the attempt."""

    cluster: str
    job: str
    attempt: int
    segment: int


@dataclass(frozen=True, slots=True)
class Hold:
    """A job held `devices` of a node exclusively over `[start_us, end_us)` (None: to this day). From `paid_until_us`
    on (None: its end) the provider had them: the stop was requested."""

    holder: Holder
    tenant: str
    node: str
    devices: tuple[str, ...]
    start_us: int
    end_us: int | None
    paid_until_us: int | None = None


@dataclass(frozen=True, slots=True)
class PriceSaid:
    """One record of the price book. The last one of a name is what stands; `known_us` is the last tick above it."""

    name: str
    kind: str
    start_us: int
    end_us: int | None
    rate: str
    pue: str
    known_us: int
    at_us: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Readings:
    """One card over one record: power in mW and the absolute counter in µJ at each tick, None where not read.
    From tick `epoch_from` on the counter has begun anew (0: it has not)."""

    device: str
    index: int
    power_mw: tuple[int | None, ...]
    counter_uj: tuple[int | None, ...]
    busy_ppm: tuple[int, ...]
    epoch: str
    epoch_from: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One sample record of one node: the first tick repeats the last one of the record before."""

    node: str
    seq: int
    ticks_us: tuple[int, ...]
    readings: tuple[Readings, ...]

    @property
    def start_us(self) -> int:
        return self.ticks_us[0]

    @property
    def end_us(self) -> int:
        return self.ticks_us[-1]

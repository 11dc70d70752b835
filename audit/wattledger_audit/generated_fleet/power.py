"""How busy a job keeps its device, second by second, and what the device then draws. Integers; the same every time."""

from zlib import crc32

import numpy as np
import numpy.typing as npt
from wattledger_core.units import PPM, US_PER_DAY, US_PER_S

from wattledger_audit.generated_fleet.day import DAY_START_US, second_of_day
from wattledger_audit.generated_fleet.job_row import Span, spans_of
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import Card, Machine

SECONDS = US_PER_DAY // US_PER_S
TICKS = SECONDS + 1
"""One reading a second, both midnights included."""
Int64Array = npt.NDArray[np.int64]

_LOADS = {
    # base and swing of utilisation in ppm, period of the swing in seconds
    "train": (930_000, 60_000, 300),
    "heavy": (780_000, 120_000, 90),
    "infer": (520_000, 260_000, 40),
    "steady": (430_000, 40_000, 600),
    "light": (150_000, 90_000, 120),
    "notebook": (0, 0, 1),
}
_NOTEBOOK_BURST_S, _NOTEBOOK_EVERY_S = 240, 2700


def machine_spans(machine: Machine) -> list[Span]:
    """Every use of the machine's devices, in order of start."""
    found = [span for job in JOBS if job.node == machine.node for span in spans_of(job)]
    return sorted(found, key=lambda span: (span.start_us, span.job.job, span.claim.device, span.claim.gpu_instance))


def utilisation(span: Span) -> tuple[int, Int64Array]:
    """First tick, and utilisation in ppm for each tick until the release: a reading speaks for the second before it."""
    first, last = second_of_day(span.start_us) + 1, min(second_of_day(span.released_us) + 1, TICKS)
    seconds = np.arange(max(last - first, 0), dtype=np.int64)
    base, swing, period = _LOADS[span.job.load]
    if span.job.load == "notebook":
        return first, np.where(seconds % _NOTEBOOK_EVERY_S < _NOTEBOOK_BURST_S, 610_000, 0)
    phase = (seconds + crc32(span.job.job.encode()) % period) % period
    wave = np.abs(2 * phase - period) * swing // period
    # A job needs a while to load before it works.
    warm = np.minimum(seconds * PPM // 45, PPM)
    return first, (base + wave - swing // 2) * warm // PPM


def noise_mw(machine: Machine, card: Card) -> Int64Array:
    """A reading's noise around the true power, for every tick of the day."""
    seed = crc32(f"{machine.node}/{card.index}".encode())
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.integers(-card.idle_mw // 40, card.idle_mw // 40 + 1, TICKS, dtype=np.int64)


def tick_times() -> Int64Array:
    """Every tick of the day, µs since the epoch."""
    return DAY_START_US + np.arange(TICKS, dtype=np.int64) * US_PER_S

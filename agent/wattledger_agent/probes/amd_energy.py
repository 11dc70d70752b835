"""One AMD energy counter made whole: unit, wrap, stale reads, another GPU's values, resets. Pure: time is passed in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from wattledger_agent.probes.reading import FOREIGN, IMPLAUSIBLE, NOT_READ, NOT_SUPPORTED, STALE, Reading, unknown

BITS_32: Final = 1 << 32
STALE_TICKS: Final = 5
"""After so many bad readings in a row the counter is not used until as many good ones."""
_CHECK_US: Final = 500_000
_SLACK_US: Final = 100_000
"""The firmware renews its table each 100 ms at the slowest."""
_DEFAULT_LIMIT_MW: Final = 2_000_000


def microjoules(counts: int) -> int:
    """Counts to µJ, rounded down: one count is 2^-16 J = 15625/1024 µJ (rocm_smi_gpu_metrics.h). The library's own
    `counter_resolution` of 15.3 µJ is 0.27 % too much."""
    return counts * 15625 // 1024


def counts_of(energy_uj: int) -> int:
    """µJ to counts, rounded down."""
    return energy_uj * 1024 // 15625


@dataclass(frozen=True, slots=True)
class CounterSample:
    """`counts` as read, the library's own time stamp in ns (None: it has none), and when it was read (monotonic µs)."""

    counts: int
    stamp_ns: int | None
    at_us: int


@dataclass(slots=True)
class _Check:
    """Start of the stretch over which counter and power are compared."""

    counts: int
    at_us: int
    power_mw: int | None


class CounterTrack:
    """Follows one device's counter. `run` counts its resets: within one run the readings never fall.

    The counter is used only once its increase over half a second agrees with power within a factor of ten (the check
    that Zeus makes at start); power of 0 or unknown can't confirm it. `limit_mw` is the power limit, `is_32_bit` what
    is known of the accumulator's width.
    """

    def __init__(self, limit_mw: int | None = None, is_32_bit: bool | None = None) -> None:
        self.run = 0
        self._most_mw = (limit_mw or _DEFAULT_LIMIT_MW) * 3 // 2
        self._is_32_bit = is_32_bit
        self._last: CounterSample | None = None
        self._suspect: CounterSample | None = None
        self._check: _Check | None = None
        self._usable = False
        self._was_usable = False
        self._good = self._bad = self._foreign = 0
        self._why = NOT_READ

    @property
    def wraps(self) -> bool:
        """Whether this is a 32-bit counter, whose wraps (each 65,536 J) are undone here."""
        return self._is_32_bit is True

    def restart(self) -> None:
        """The device was lost or set up anew: what comes next is another run."""
        self.run += 1
        self._begin(None)

    def take(self, sample: CounterSample, power: Reading, others: Iterable[Self] = ()) -> Reading:
        """The counter in µJ, or why it can't be used now. `power` is the same tick's, `others` the tracks of the other
        devices (before ROCm 7.2 a call could return another GPU's counter)."""
        last = self._last
        if last is None:
            self._begin(sample, power.value)
            return unknown(self._why)
        span_us = sample.at_us - last.at_us
        if span_us <= 0 or self._stands_still(last, sample, power):
            return self._stale(span_us)
        if self._is_32_bit and self._most(span_us) >= BITS_32:
            self._reset(sample, power.value)  # it may have wrapped more than once
            return unknown(self._why)
        counts = self._on_track(last, sample)
        if counts is None:
            return self._off_track(sample, power, others)
        self._last = CounterSample(counts, sample.stamp_ns, sample.at_us)
        self._suspect, self._foreign = None, 0
        self._compare(power)
        return Reading(microjoules(counts)) if self._usable else unknown(self._why)

    def is_near(self, sample: CounterSample) -> bool:
        """Whether a value read for another device may be this one's."""
        if self._last is None:
            return False
        grown = sample.counts - self._last.counts
        return -self._most(0) <= grown <= self._most(max(0, sample.at_us - self._last.at_us))

    def _most(self, span_us: int) -> int:
        return counts_of(self._most_mw * (span_us + _SLACK_US) // 1000)

    def _stands_still(self, last: CounterSample, sample: CounterSample, power: Reading) -> bool:
        """The same reading as before: by the library's stamp, or, with a stamp that moves, because a device that draws
        power must have counted."""
        if self._counts_within(last) != self._counts_within(sample):
            return False
        if sample.stamp_ns is not None and sample.stamp_ns == last.stamp_ns:
            return True
        return power.value is not None and sample.at_us - last.at_us >= _SLACK_US

    def _counts_within(self, sample: CounterSample) -> int:
        return sample.counts % BITS_32 if self._is_32_bit else sample.counts

    def _on_track(self, last: CounterSample, sample: CounterSample) -> int | None:
        """The unwrapped count, if an energy that the time allows leads from `last` to `sample`."""
        most = self._most(sample.at_us - last.at_us)
        if self._is_32_bit:
            grown = (sample.counts - last.counts) % BITS_32
            return last.counts + grown if grown <= most else None
        if 0 <= sample.counts - last.counts <= most:
            return sample.counts
        wrapped = sample.counts + BITS_32 - last.counts
        if self._is_32_bit is None and last.counts < BITS_32 and 0 <= wrapped <= most:
            self._is_32_bit = True
            return last.counts + wrapped
        return None

    def _off_track(self, sample: CounterSample, power: Reading, others: Iterable[Self]) -> Reading:
        if self._suspect is not None and self._on_track(self._suspect, sample) is not None:
            self._reset(sample, power.value)
            return unknown(self._why)
        if self._foreign < STALE_TICKS and any(other.is_near(sample) for other in others):
            self._foreign += 1
            return unknown(FOREIGN)
        self._suspect = sample
        return unknown(IMPLAUSIBLE)

    def _stale(self, span_us: int) -> Reading:
        if span_us > 0:
            self._judge(False, STALE)
        return unknown(STALE)

    def _compare(self, power: Reading) -> None:
        assert self._last is not None
        check = self._check
        if check is None:
            self._check = _Check(self._last.counts, self._last.at_us, power.value)
            return
        span_us = self._last.at_us - check.at_us
        if span_us < _CHECK_US:
            return
        grown_uj = microjoules(self._last.counts) - microjoules(check.counts)
        self._check = _Check(self._last.counts, self._last.at_us, power.value)
        if power.value is None and power.reason == NOT_SUPPORTED:
            self._judge(grown_uj > 0, IMPLAUSIBLE)  # nothing to compare with: it moves, that must do
        elif power.value and check.power_mw:
            expected_uj = (power.value + check.power_mw) * span_us // 2000
            self._judge(expected_uj < 10 * grown_uj and grown_uj < 10 * expected_uj, IMPLAUSIBLE)

    def _judge(self, is_good: bool, why: str) -> None:
        self._good, self._bad = (self._good + 1, 0) if is_good else (0, self._bad + 1)
        if not is_good:
            self._why = why
        if self._usable and self._bad >= STALE_TICKS:
            self._usable = False
        elif not self._usable and is_good and (not self._was_usable or self._good >= STALE_TICKS):
            if self._was_usable:
                self.run += 1  # what it did meanwhile is not known, so it is not bridged
            self._usable = self._was_usable = True

    def _reset(self, sample: CounterSample, power_mw: int | None) -> None:
        self.run += 1
        self._begin(sample, power_mw)

    def _begin(self, sample: CounterSample | None, power_mw: int | None = None) -> None:
        self._last, self._suspect = sample, None
        self._check = _Check(sample.counts, sample.at_us, power_mw) if sample is not None else None
        self._usable = self._was_usable = False
        self._good = self._bad = self._foreign = 0
        self._why = NOT_READ

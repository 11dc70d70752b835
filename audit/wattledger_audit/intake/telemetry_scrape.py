"""When the samples of a text dump were read: scrapes told apart, and each given its time. Owns no metric's meaning."""

from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.telemetry_gather import Series

_Waiting = tuple[Series, str, int]
_NS_PER_US = 1000


class Scrapes:
    """Feed it the dump in order. Samples that carry no time wait until their scrape's time is known.

    A scrape ends where a series comes a second time, or at a line with a time. Times stand before their scrapes when
    one stands before the first sample of the file, else after them."""

    def __init__(self, source: Source, rejections: Rejections) -> None:
        self._source = source
        self._rejections = rejections
        self._waiting: dict[str, _Waiting] = {}
        self._time_us: int | None = None
        self._clock_us: int | None = None
        self._times_before: bool | None = None
        self._placed = False

    def sample(self, key: str, series: Series, text: str, at_us: int | None, line: int) -> None:
        """One sample, with its own time or without."""
        if at_us is not None:
            self._placed = True
            series.add(at_us, text, line)
            return
        if self._times_before is None:
            self._times_before = False
        if key in self._waiting:
            self._close()
        self._waiting[key] = (series, text, line)

    def clock(self, at_us: int) -> None:
        """node_exporter's clock inside the current scrape."""
        self._clock_us = at_us

    def time(self, at_us: int) -> None:
        """A line that says when."""
        if self._times_before is None:
            self._times_before = True
        if self._times_before:
            self._close()
            self._time_us = at_us
        else:
            self._time_us = at_us
            self._close()

    def end(self) -> None:
        """The dump is over. A last scrape without any time is placed where the file was last written, when nothing
        else in the file has one: such a scrape alone gives no energy."""
        if not self._waiting or self._at_us() is not None or self._placed:
            self._close()
            return
        self._time_us = self._source.path.stat().st_mtime_ns // _NS_PER_US
        line = min(line for _, _, line in self._waiting.values())
        words = "time_of_file: the scrape says no time; it is placed where the file was last written"
        self._rejections.add(self._source.name, line, "", "", words)
        self._close()

    def _at_us(self) -> int | None:
        return self._time_us if self._time_us is not None else self._clock_us

    def _close(self) -> None:
        at_us = self._at_us()
        waiting, self._waiting = self._waiting, {}
        self._time_us = self._clock_us = None
        if not waiting:
            return
        if at_us is None:
            line = min(line for _, _, line in waiting.values())
            words = "no_time: nothing says when this scrape was made; write a line with its time before each scrape"
            self._rejections.add(self._source.name, line, "", "", words)
            return
        self._placed = True
        for series, text, line in waiting.values():
            series.add(at_us, text, line)

"""Whether the usage logs are about all of the period: days of it before their first stamp, or after their last."""

from typing import NamedTuple

from wattledger_core.units import US_PER_DAY

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.run_book import NONE_US

QUIET_US = 2 * US_PER_DAY
"""A fleet may stand still for a weekend; longer than that, the log is more likely not whole."""


class LogGap(NamedTuple):
    """The end of the period of which no log has a stamp. `open_runs` were still running at the last stamp."""

    at_start: bool
    stamp: str
    edge: str
    days: int
    open_runs: int

    def said(self) -> str:
        """A sentence: what is missing and how it is counted."""
        side, of = ("begins", "first") if self.at_start else ("ends", "last")
        runs = "1 run that was" if self.open_runs == 1 else f"{self.open_runs} runs that were"
        counted = f"; {runs} still open then counted to its end" if self.open_runs else ""
        return (
            f"The usage log {side} {self.stamp}, the period {self.edge}: of the {of} {self.days} days no file says "
            f"what was used{counted}"
        )


def log_gap(assessment: Assessment) -> LogGap | None:
    """The larger of the two gaps, where it is longer than a weekend; None: the logs are about the whole period."""
    runs, period = assessment.runs, assessment.period
    if not any(assessment.swept.run_parts):
        return None
    first_us = min((at_us for at_us in runs.start_us if at_us != NONE_US), default=NONE_US)
    last_us = max(max(column, default=NONE_US) for column in (runs.start_us, runs.end_us, runs.submit_us))
    before_us, after_us = first_us - period.start_us, period.end_us - last_us
    at_start = before_us > after_us
    gap_us = max(before_us, after_us)
    if gap_us < QUIET_US or last_us <= period.start_us or first_us >= period.end_us:
        return None
    stamp_us, edge_us = (first_us, period.start_us) if at_start else (last_us, period.end_us)
    open_runs = 0 if at_start else sum(
        parts > 0 and runs.end_us[number] == NONE_US for number, parts in enumerate(assessment.swept.run_parts)
    )  # fmt: skip
    stamp, edge = (f"{period.local(at_us):%Y-%m-%d %H:%M}" for at_us in (stamp_us, edge_us))
    return LogGap(at_start, stamp, edge, gap_us // US_PER_DAY, open_runs)

"""What a person can say about files where the files themselves do not prove it."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Answers that apply to every file of a run; None: decide from proof in the file, or refuse and name the flag.

    Flags: `--timezone`, `--decimal . or ,`, `--date-order dmy|mdy|ymd`, `--delimiter`, `--encoding`, `--fields`
    (sacct dumps without a header), `--currency` (amounts without one), `--cluster` (usage without one), `--period-end
    inclusive|exclusive` (billing periods that end with a date), `--node` (telemetry that names no machine).
    `days_in` is the cost file's zone: of billed days without a time, where `--timezone` does not say.
    """

    timezone: ZoneInfo | None = None
    decimal: str | None = None
    date_order: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    fields: tuple[str, ...] | None = None
    currency: str | None = None
    cluster: str | None = None
    period_end: str | None = None
    node: str | None = None
    days_in: ZoneInfo | None = None

"""Text dumps of exporters (`curl …/metrics`), one or many put together, with or without times in them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.iso_stamp import BadTime, IsoStamps, NotIso
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import TELEMETRY, DeviceTrace
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.source import TEXT, Source, text_lines
from wattledger_audit.intake.telemetry_gather import Gathered, Series
from wattledger_audit.intake.telemetry_metric import FAMILY_NAME, KNOWN_NAME, is_number, metric_of
from wattledger_audit.intake.telemetry_scrape import Scrapes

NAME = "prometheus-text"
_SAMPLE = re.compile(
    r"(?P<series>(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(?P<labels>.*)\})?)\s+(?P<value>[^\s{}]+)"
    r"(?:\s+(?P<time>-?\d+(?:\.\d+)?))?\s*(?:#.*)?"
)
_LABEL = re.compile(r'\s*(?P<key>[a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"(?P<value>(?:[^"\\]|\\.)*)"\s*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TIME_LINE = re.compile(
    r"(?:#+\s*)?(?:(?:time|date|scraped(?: at)?)\s*[:=]\s*)?(?P<time>\d{4}-\d\d-\d\d[T ]\S.*|\d{10}(?:\.\d+)?|\d{13})",
    re.IGNORECASE,
)
_DATE_COMMAND = re.compile(
    r"(?:#+\s*)?\w{3} (?P<date>\w{3}\s+\d+ \d\d:\d\d:\d\d)(?P<half> [AP]M)? (?:UTC|GMT) (?P<year>\d{4})"
)
_CLOCK = "node_time_seconds"
"""node_exporter's own clock: when a scrape was made, if it is in the dump."""
_MS_FROM = 100_000_000_000
"""From here on a time is in ms (Prometheus' text form), below in seconds (OpenMetrics)."""
_FAR_US = 1 << 62
_NO_SAMPLE = "not_a_sample: a line is `name{labels} value [time]`"


def detect(source: Source) -> Detection | None:
    """Looks for samples of metrics that say something about a GPU."""
    if source.kind != TEXT:
        return None
    family = None
    for line in source.head.splitlines():
        if line[:1] in ("", "#") or _SAMPLE.fullmatch(line.strip()) is None:
            continue
        if known := KNOWN_NAME.match(line):
            return Detection(95, f"a text dump of a Prometheus exporter with samples of {known[0]}")
        family = family or FAMILY_NAME.match(line)
    if family is not None:
        return Detection(80, f"a text dump of a GPU exporter with samples such as {family[0]}")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[DeviceTrace]:
    """One trace a device. A sample's own time counts; else the line with a time that stands before (or after) each
    scrape, node_exporter's clock, or for a single scrape when the file was written. Raises InputRefused."""
    gathered = Gathered(source.name, options, rejections)
    stamps = IsoStamps(source.name, options.timezone)
    scrapes = Scrapes(source, rejections)
    known: dict[str, Series | None] = {}
    for number, raw in enumerate(text_lines(source), start=1):
        line = raw.strip()
        if not line:
            continue
        at_us = _time_line(line, number, stamps)
        if at_us is not None:
            scrapes.time(at_us)
        elif line[0] != "#":
            reason = _sample(line, number, gathered, scrapes, known)
            if reason:
                rejections.add(source.name, number, "", line, reason)
    scrapes.end()
    yield from gathered.traces()


def _sample(line: str, number: int, gathered: Gathered, scrapes: Scrapes, known: dict[str, Series | None]) -> str:
    """Takes one sample; why it can't be used, or nothing."""
    name = _NAME.match(line)
    if name is not None and name[0] != _CLOCK and metric_of(name[0]) is None:
        behind = line[name.end() :].lstrip()
        if behind[:1] != "{" and not is_number(behind.partition(" ")[0]):
            return _NO_SAMPLE  # words, such as `Internal Server Error`
        gathered.skip(name[0], number)
        return ""
    sample = _SAMPLE.fullmatch(line)
    if sample is None:
        return _NO_SAMPLE
    if not is_number(sample["value"]):
        return "not_a_number: the value of a sample"
    at_us = _own_us(sample["time"])
    if at_us is not None and not -_FAR_US < at_us < _FAR_US:
        return "not_a_time: a sample's time is in milliseconds since 1970"
    key = sample["series"]
    if sample["name"] == _CLOCK:
        seconds = Decimal(sample["value"])
        if 0 < seconds < _MS_FROM:
            scrapes.clock(round(seconds * US_PER_S))
        return ""
    if key not in known:
        known[key] = gathered.series(sample["name"], _labels(sample["labels"] or ""), number)
    series = known[key]
    if series is not None:
        scrapes.sample(key, series, sample["value"], at_us, number)
    return ""


def _own_us(text: str | None) -> int | None:
    """A sample's own time: milliseconds, or seconds in OpenMetrics."""
    if text is None:
        return None
    value = Decimal(text)
    return round(value * (1000 if abs(value) >= _MS_FROM else US_PER_S))


def _labels(text: str) -> dict[str, str]:
    return {found["key"]: _ESCAPE.sub(_unescaped, found["value"]) for found in _LABEL.finditer(text)}


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def _time_line(line: str, number: int, stamps: IsoStamps) -> int | None:
    """The time that a line of its own says (ISO 8601, an epoch, or what `date` prints in UTC); None: it says none."""
    if "{" in line or line.startswith(("# HELP ", "# TYPE ")):
        return None
    if printed := _DATE_COMMAND.fullmatch(line):
        form = "%b %d %I:%M:%S %p %Y" if printed["half"] else "%b %d %H:%M:%S %Y"
        text = f"{printed['date']}{printed['half'] or ''} {printed['year']}"
        try:
            stamp = datetime.strptime(text, form).replace(tzinfo=UTC)
        except ValueError:
            return None
        return int(stamp.timestamp()) * US_PER_S
    found = _TIME_LINE.fullmatch(line)
    if found is None:
        return None
    try:
        return stamps.read(found["time"].strip(), number, "the time of a scrape")
    except (BadTime, NotIso):
        return None


IMPORTERS: tuple[Importer, ...] = (Importer(NAME, TELEMETRY, detect, read),)

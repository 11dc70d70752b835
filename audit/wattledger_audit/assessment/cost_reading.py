"""What every part of a cost file is read with: its text and lines, the audited period, the zones of its sites."""

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple
from zoneinfo import ZoneInfo

from wattledger_core.interval import FOREVER_US, Interval, overlap
from wattledger_core.units import QUARTER_US, quarter_floor_us
from wattledger_streams.tariff_file_text import Place, TextTree
from wattledger_streams.tariff_file_zone import UnclearTime, UnknownZone, load_zone, utc_us

from wattledger_audit.assessment.cost_file_form import CostForm


class Span(NamedTuple):
    """`[start_us, end_us)` as a file says it; None: before, or after, all that is looked at."""

    start_us: int | None
    end_us: int | None

    @property
    def bounds(self) -> Interval:
        """The same, with numbers that every stamp lies between."""
        return (0 if self.start_us is None else self.start_us, FOREVER_US if self.end_us is None else self.end_us)


@dataclass(frozen=True, slots=True)
class CostReading:
    """`zone` is the file's, `zones` those that its sites' energy tariffs name. `assumptions` collects sentences."""

    tree: TextTree
    form: CostForm
    start_us: int
    end_us: int
    zone: ZoneInfo
    zones: dict[str, ZoneInfo]
    assumptions: list[str] = field(default_factory=list)

    @property
    def quarters(self) -> Interval:
        """The audited period, widened to the quarter-hour grid."""
        return quarter_floor_us(self.start_us), -quarter_floor_us(-self.end_us)

    def site_zone(self, site: str) -> ZoneInfo:
        """The zone of a site: its own, else that of the tariff without a site, else the file's."""
        return self.zones.get(site) or self.zones.get("") or self.zone

    def assume(self, sentence: str) -> None:
        """Keep a sentence for the report, once."""
        if sentence not in self.assumptions:
            self.assumptions.append(sentence)

    def named(self, place: Place) -> str:
        """Where a value stands, for people: the same wherever the file lies."""
        return f"{PurePath(self.tree.path).name} line {self.tree.line(place)}"

    def moment(self, place: Place, text: str, zone: ZoneInfo) -> int:
        """A date or date-time in µs; local where it has no offset; a date is the start of that day."""
        try:
            return utc_us(text, zone)
        except UnclearTime as error:
            raise self.tree.error(place, str(error)) from error

    def span(
        self,
        place: Place,
        start: str | None,
        end: str | None,
        zone: ZoneInfo,
        keys: tuple[str, str] = ("from", "to"),
        quarters: bool = False,
    ) -> Span:
        """An entry's interval; `quarters`: its ends must lie on the quarter-hour grid, as prices do."""
        ends: list[int | None] = []
        for key, text in zip(keys, (start, end), strict=True):
            at_us = None if text is None else self.moment((*place, key), text, zone)
            if quarters and at_us is not None and at_us % QUARTER_US:
                raise self.tree.error((*place, key), f"{text} is not on a quarter-hour: prices start and end on one")
            ends.append(at_us)
        found = Span(*ends)
        if found.bounds[0] >= found.bounds[1]:
            raise self.tree.error(
                (*place, keys[1]),
                f"{end} is not after {keys[0]} ({start}): it is the first moment after, a date the start of that day",
            )
        return found

    def in_period(self, span: Span) -> Interval | None:
        """The part of a span inside the audited period, on its quarter-hour grid."""
        return overlap(*span.bounds, *self.quarters)

    def touches(self, span: Span) -> bool:
        """Whether a span has a part inside the audited period."""
        return overlap(*span.bounds, self.start_us, self.end_us) is not None


def reading_of(tree: TextTree, form: CostForm, start_us: int, end_us: int) -> CostReading:
    """Resolves the zones of the file and its sites. Raises `PriceSheetError`."""
    zones: dict[str, ZoneInfo] = {}
    for number, entry in enumerate(form.energy):
        if entry.timezone is None:
            continue
        place: Place = ("energy", number, "timezone")
        zone = named_zone(tree, place, entry.timezone)
        known = zones.setdefault(entry.site, zone)
        if known.key != zone.key:
            raise tree.error(
                place, f"{zone.key}, but {entry.site or 'it'} was in {known.key} above: a site has one time zone"
            )
    if form.timezone is not None:
        return CostReading(tree, form, start_us, end_us, named_zone(tree, ("timezone",), form.timezone), zones)
    keys = sorted({zone.key for zone in zones.values()})
    key = keys[0] if len(keys) == 1 else "UTC"
    reading = CostReading(tree, form, start_us, end_us, load_zone(key), zones)
    reading.assume(f"No timezone is given: months and dates without an offset are taken in {key}.")
    return reading


def named_zone(tree: TextTree, place: Place, name: str) -> ZoneInfo:
    """The zone of a field. Raises `PriceSheetError`."""
    try:
        return load_zone(name)
    except UnknownZone as error:
        raise tree.error(place, str(error)) from error

"""Proof from a whole table, taken only when a row first needs it: most files are read once."""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from wattledger_audit.intake.date_form import DateForm, DateProof, UnclearDate
from wattledger_audit.intake.iso_stamp import BadTime
from wattledger_audit.intake.number_form import NumberForm, NumberProof
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import open_table


class FileProof:
    """How one table writes numbers and dates. The columns that first ask are what is looked at."""

    def __init__(self, source: Source, options: ReadOptions, is_header: Callable[[Sequence[str]], bool]) -> None:
        self._source = source
        self._options = options
        self._is_header = is_header
        self._number: NumberForm | None = None
        self._date: DateForm | None = None

    def number(self, columns: Iterable[int], text: str) -> Decimal:
        """A number of these columns. Raises NotANumber, and InputRefused where the file proves no decimal mark."""
        if self._number is None:
            proof = NumberProof()
            self._add(proof, columns)
            self._number = proof.decide(self._source.name, self._options)
        return self._number.parse(text)

    def instant(self, columns: Iterable[int], text: str) -> int:
        """µs UTC of a date with its time of day. Raises BadTime, and InputRefused where the file proves no order of
        day and month or says no time zone."""
        try:
            if self._dates(columns).parse_day(text) is not None:
                raise BadTime("date_without_time: a day is no instant; add the time of day")
            return self._dates(columns).parse(text)
        except UnclearDate as error:
            raise BadTime(str(error)) from error

    def edge(self, columns: Iterable[int], text: str) -> int:
        """Like `instant`, where a date alone is good enough: it is the first moment of its day."""
        try:
            return self._dates(columns).parse(text)
        except UnclearDate as error:
            raise BadTime(str(error)) from error

    def _dates(self, columns: Iterable[int]) -> DateForm:
        if self._date is None:
            dates = DateProof()
            self._add(dates, columns)
            self._date = dates.decide(self._source.name, self._options)
        return self._date

    def _add(self, proof: NumberProof | DateProof, columns: Iterable[int]) -> None:
        table = open_table(self._source, self._options, self._is_header)
        places = [(place, table.headers[place]) for place in columns if place < len(table.headers)]
        for line, cells in table.rows:
            for place, title in places:
                if place < len(cells) and cells[place]:
                    proof.add(line, title, cells[place])

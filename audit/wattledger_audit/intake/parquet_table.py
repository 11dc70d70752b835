"""Parquet files: columns become text cells, typed ones exact."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact, Row, Table
from wattledger_audit.intake.sheet_table import exact_number
from wattledger_audit.intake.source import Source

BATCH_ROWS = 16_384
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_parquet(source: Source, is_header: Callable[[Sequence[str]], bool]) -> Table:
    """The table in a Parquet file; its column names are the header. Raises `InputRefused`."""
    file = _open(source)
    headers = [str(name) for name in file.schema_arrow.names]
    if not is_header(headers):
        file.close()
        raise InputRefused(f"{source.name}: its columns {', '.join(headers[:12])} are not those that are looked for")
    return Table(headers, 0, _rows(source, file), "Parquet")


def parquet_head(source: Source, limit: int) -> list[list[str]]:
    """The column names and the first rows; nothing where the file can't be read."""
    try:
        file = _open(source)
        headers = [str(name) for name in file.schema_arrow.names]
        return [headers, *(row.cells for row in islice(_rows(source, file), max(limit - 1, 0)))]
    except InputRefused:
        return []


def _open(source: Source) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(source.path)
    except (pa.ArrowException, OSError) as error:
        raise InputRefused(f"{source.name} is a damaged Parquet file ({error}): get it once more") from error


def _rows(source: Source, file: pq.ParquetFile) -> Iterator[Row]:
    line = 0
    with file:
        try:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                columns = [_texts(column) for column in batch.columns]
                for cells in zip(*columns, strict=True):
                    line += 1
                    if any(cells):
                        yield Row(line, list(cells))
        except (pa.ArrowException, OSError) as error:
            raise InputRefused(f"{source.name} is a damaged Parquet file ({error}): get it once more") from error


def _texts(column: pa.Array) -> list[str]:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _texts(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        ticks = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).to_pylist()
        return ["" if tick is None else _moment(tick, kind.tz is not None) for tick in ticks]
    if pa.types.is_floating(kind):
        return ["" if text is None else exact_number(text) for text in column.cast(pa.string()).to_pylist()]
    return ["" if value is None else _text(value) for value in column.to_pylist()]


def _text(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return Exact(value)
    if isinstance(value, date):
        return Exact(value.isoformat())
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return exact_number(str(value))


def _moment(tick_us: int, zoned: bool) -> Exact:
    moment = (_EPOCH + timedelta(microseconds=tick_us)).replace(tzinfo=None).isoformat()
    return Exact(moment + "Z" if zoned else moment)

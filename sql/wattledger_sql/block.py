"""One synchronous insert of rows into one table: cut by month, exact decimals, a token made of the content."""

import marshal
from collections.abc import Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation
from hashlib import blake2b
from typing import Any

import numpy as np
from clickhouse_connect.driver.client import Client

from wattledger_sql.fact import NO_SOURCE, Fact, Source

SCALE = Decimal("0.000000000001")
DIGITS = 38
_EXACT = Context(prec=DIGITS, traps=[Inexact, InvalidOperation])
SETTINGS = {"async_insert": 0, "insert_deduplicate": 1, "deduplicate_blocks_in_dependent_materialized_views": 1}
"""Set on every insert: defaults differ between servers. The token only saves work; the sort key is the guarantee."""


class RowRefused(ValueError):
    """A row that the table can't hold exactly; the message says which table, column and value."""


def insert_rows(
    client: Client, fact: Fact, rows: Sequence[Sequence[object]], sources: Sequence[Source] | None = None
) -> int:
    """Insert rows (values in the order of `fact.columns`, times in µs) and return when they are stored; their number.

    One insert a month, in the order given. `sources` is as long as `rows`. The same rows again are the same block.
    Raises `RowRefused` for a decimal that Decimal(38, 12) can't hold exactly, and the driver's errors.
    """
    if not rows:
        return 0
    places = [NO_SOURCE] * len(rows) if sources is None else sources
    columns: list[Sequence[object]] = list(zip(*rows, strict=True))
    columns += zip(*places, strict=True)
    names = (*fact.columns, "source_partition", "source_offset")
    if len(columns) != len(names) or len(places) != len(rows):
        raise RowRefused(
            f"{fact.table}: rows of {len(columns) - 2} columns with {len(places)} sources for {len(rows)} rows; "
            f"give {len(fact.columns)} columns and a source a row"
        )
    for name in fact.decimals:
        place = names.index(name)
        columns[place] = [_exact(fact.table, name, value) for value in columns[place]]
    for part in _months(columns, None if fact.month_column is None else names.index(fact.month_column)):
        token = _token(fact.table, part)
        client.insert(
            fact.table,
            part,
            column_names=names,
            column_oriented=True,
            settings={**SETTINGS, "insert_deduplication_token": token},
        )
    return len(rows)


def _months(columns: list[Sequence[object]], place: int | None) -> list[list[Sequence[object]]]:
    """The columns cut into one part a month, each in the order given: an insert over two months is two blocks, and
    part of it could be taken for a duplicate while the rest is not."""
    if place is None:
        return [columns]
    times = np.asarray(columns[place], dtype=np.int64)
    months = times.view("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    found = np.unique(months)
    if len(found) == 1:
        return [columns]
    parts: list[list[Sequence[object]]] = []
    for month in found:
        picked = np.flatnonzero(months == month).tolist()
        parts.append([[column[i] for i in picked] for column in columns])
    return parts


def _token(table: str, columns: list[Sequence[object]]) -> str:
    """A hash of the block's content in order, so "same token, other rows" cannot be.

    Version 0 of marshal writes each value with its type and length and shares nothing, so it is one to one with the
    content; it takes a tenth of the time of the values as text.
    """
    state = blake2b(table.encode(), digest_size=16)
    for column in columns:
        values: Any = column
        try:
            packed = marshal.dumps(values, 0)
        except ValueError:
            packed = marshal.dumps([str(value) for value in column], 0)
        state.update(len(packed).to_bytes(8, "little"))
        state.update(packed)
    return state.hexdigest()


def _exact(table: str, name: str, value: object) -> Decimal | None:
    if value is None:
        return None
    try:
        amount = value if isinstance(value, Decimal) else Decimal(str(value))
        if amount.same_quantum(SCALE) and amount.adjusted() < DIGITS - 12:
            return amount  # as pricing makes them
        if amount.is_finite():
            return amount.quantize(SCALE, context=_EXACT)
    except (Inexact, InvalidOperation):
        pass
    raise RowRefused(
        f"{table}: {name} {value} does not fit Decimal(38, 12) exactly: round it to 12 decimals where it is made"
    )

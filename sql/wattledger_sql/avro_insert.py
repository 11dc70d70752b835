"""Avro records into the fact tables that they hold rows of, decoded by ClickHouse: no row becomes a Python value.

The records go into a temporary table of the subject's schema, are checked there as a whole, and only then become rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from secrets import token_bytes, token_hex
from typing import Any, NamedTuple

from clickhouse_connect.driver.binding import quote_identifier
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, Error
from wattledger_core.interval import FOREVER_US
from wattledger_schemas.catalogue import newest

from wattledger_sql.avro_container import (
    END_BYTES,
    PLACED,
    UNUSED,
    clickhouse_type,
    container,
    strict,
    wrapper_schema,
)
from wattledger_sql.block import SETTINGS
from wattledger_sql.fact import COST_ROWS, DEVICE_TOTALS, DISCREPANCIES, USAGE_LINES, Fact, Source

SUBJECTS: dict[str, tuple[tuple[Fact, str], ...]] = {
    "usage_lines": ((USAGE_LINES, "lines"), (DEVICE_TOTALS, "totals"), (DISCREPANCIES, "discrepancies")),
    "tenant_cost": ((COST_ROWS, "rows"),),
}
"""Which subjects can be inserted so, and which array of theirs holds the rows of which table, in insertion order."""

_STAGED = "wattledger_staged_records"
_MOST_BYTES = 8 << 20
"""Records go in by as many as this, so that a take of long records needs no more memory than one of short ones."""
_AMOUNT = r"^-?[0-9]{1,25}([.][0-9]{1,12})?$"
"""Decimals that Decimal(38, 12) holds exactly, in the only way that they are written here."""
_RENAMED = {"tenant_id": "tenant", "user_name": "user", "batch_partition": "partition", "batch_offset": "offset"}
_ONE_BLOCK = {**SETTINGS, "max_threads": 1, "max_insert_threads": 1}


class Record(NamedTuple):
    """One record's Avro body, written with the newest schema of its subject, and where it was read from."""

    source: Source
    body: bytes | memoryview


class RecordsRefused(DatabaseError):
    """ClickHouse does not take these records as they are: at least one is broken or has a value that does not fit, or
    it lacks what this way needs. Which one, and whether it has rows all the same, is for a decoder to say."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The statements of one subject. `check` has the record's end as its only blank, an insert its settings."""

    schema_json: bytes
    create: str
    check: str
    inserts: tuple[tuple[str, str], ...]


def insert_records(client: Client, subject: str, records: Sequence[Record]) -> dict[str, int]:
    """Insert the rows of records of one of `SUBJECTS`; rows by table, once they are stored. The same records again
    are the same blocks.

    No record has a row here that is not whole, does not end where its bytes end, has a text that is no UTF-8, or an
    amount or a sign that does not fit. Raises `RecordsRefused` when ClickHouse answers that it can't, and the driver's
    errors when it does not answer; part of the rows may be there then, and inserting them again does no harm.
    """
    done = dict.fromkeys((fact.table for fact, _ in SUBJECTS[subject]), 0)
    for part in _parts(records):
        session = {"session_id": f"wattledger-{token_hex(8)}"}
        try:
            counts = _insert_part(client, subject, part, session)
        except Error as error:
            if getattr(error, "code", None) is None and not isinstance(error, RecordsRefused):
                raise
            with suppress(Error):
                client.command(f"DROP TEMPORARY TABLE IF EXISTS {_STAGED}", settings=session)
            raise RecordsRefused(f"{len(part)} records of {subject}: {error}") from error
        for table, count in counts.items():
            done[table] += count
    return done


def _insert_part(client: Client, subject: str, records: Sequence[Record], session: dict[str, str]) -> dict[str, int]:
    """`session` keeps the temporary table on a server; the engine in this process has one for ever."""
    plan = _plan(subject)
    end = token_bytes(END_BYTES)
    client.command(f"DROP TEMPORARY TABLE IF EXISTS {_STAGED}", settings=session)
    client.command(plan.create, settings=session)
    staged = container(plan.schema_json, records, end)
    client.raw_insert(_STAGED, insert_block=staged, fmt="Avro", settings=session)
    read, bad, *counts = client.query(plan.check.format(end=end.hex()), settings=session).result_rows[0]
    if bad or read != len(records):
        raise RecordsRefused(f"{read} were read, {bad} of them bad")
    content = _content(records)
    done = {}
    for (table, insert), count in zip(plan.inserts, counts, strict=True):
        done[table] = int(count)
        if count:
            insert_staged(client, insert, content, session)
    client.command(f"DROP TEMPORARY TABLE {_STAGED}", settings=session)
    return done


def insert_staged(client: Client, insert: str, content: bytes, session: dict[str, str]) -> None:
    """The rows of one table out of the staged records. One block a month: ClickHouse tells blocks of one token apart
    by their month, and the token is made of statement and content, so no other rows can have it."""
    token = blake2b(insert.encode() + content, digest_size=16).hexdigest()
    settings = ", ".join(f"{name} = {value}" for name, value in _ONE_BLOCK.items())
    client.command(insert.format(settings=f"{settings}, insert_deduplication_token = '{token}'"), settings=session)


def _parts(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Cut by size, in order; the same records are cut in the same places."""
    start = size = 0
    for place, record in enumerate(records):
        if size and size + len(record.body) > _MOST_BYTES:
            yield records[start:place]
            start, size = place, 0
        size += len(record.body)
    if start < len(records):
        yield records[start:]


def _content(records: Sequence[Record]) -> bytes:
    """A hash of the records in order, with their places."""
    state = blake2b(digest_size=32)
    for (partition, offset), body in records:
        state.update(b"%d %d %d;" % (partition, offset, len(body)))
        state.update(body)
    return state.digest()


@cache
def _plan(subject: str) -> _Plan:
    schema = strict(newest(subject).schema)
    types = {field["name"]: clickhouse_type(field["type"]) for field in PLACED}
    columns = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in types.items())
    create = (
        f"CREATE TEMPORARY TABLE {_STAGED} ({columns}, value {clickhouse_type(schema)}, end FixedString({END_BYTES}))"
        " ENGINE = Memory"
    )
    holds = SUBJECTS[subject]
    counts = ", ".join(f"sum(length(value.{array}))" for _, array in holds)
    good = ["end = unhex('{end}')", *_good(schema, "value", ())]
    for fact, array in holds:
        tests = " AND ".join(_good(_items(schema, array), "row", fact.decimals))
        good.append(f"arrayAll(row -> {tests}, value.{array})")
    check = f"SELECT count(), countIf(NOT ({' AND '.join(good)})), {counts} FROM {_STAGED} SETTINGS max_threads = 1"
    inserts = tuple((fact.table, _insert(fact, array, _items(schema, array))) for fact, array in holds)
    return _Plan(wrapper_schema(newest(subject).schema), create, check, inserts)


def _items(schema: dict[str, Any], array: str) -> dict[str, Any]:
    found: dict[str, Any] = next(field["type"]["items"] for field in schema["fields"] if field["name"] == array)
    return found


def _good(record: dict[str, Any], of: str, decimals: Sequence[str]) -> list[str]:
    """What must hold for a record's fields: ClickHouse takes any bytes for a String, but a text is UTF-8; a union's
    branch is one that it was written with."""
    found = []
    for field in record["fields"]:
        value = f"{of}.{quote_identifier(field['name'])}"
        if isinstance(field["type"], list):
            found.append(f"isNull(variantElement({value}, '{clickhouse_type(UNUSED)}'))")
            value = _read(record, field["name"], of)
        if field["name"] == "sign":
            found.append(f"{value} BETWEEN -128 AND 127")
        elif field["name"] in decimals:
            amount = _AMOUNT.replace("{", "{{").replace("}", "}}")
            found.append(f"ifNull(match({value}, '{amount}'), true)")
        elif field["type"] == "string":
            found.append(f"isValidUTF8({value})")
        elif "string" in field["type"]:
            found.append(f"ifNull(isValidUTF8({value}), true)")
    return found


def _read(record: dict[str, Any], name: str, of: str = "row") -> str:
    """A field; of a union its value or NULL."""
    value = f"{of}.{quote_identifier(name)}"
    kind = next(field["type"] for field in record["fields"] if field["name"] == name)
    if not isinstance(kind, list):
        return value
    (written,) = (branch for branch in kind if branch not in ("null", UNUSED))
    return f"variantElement({value}, '{clickhouse_type(written)}')"


def _insert(fact: Fact, array: str, items: dict[str, Any]) -> str:
    places = tuple(field["name"] for field in PLACED)
    names = ", ".join(map(quote_identifier, (*fact.columns, *places)))
    values = ", ".join([*(_value(fact, column, items) for column in fact.columns), *places])
    return (
        f"INSERT INTO {fact.table} ({names}) SETTINGS {{settings}} SELECT {values} FROM {_STAGED}"
        f" ARRAY JOIN value.{array} AS row"
    )


def _value(fact: Fact, column: str, items: dict[str, Any]) -> str:
    """A column of a table out of the field of `row` that it is made of."""
    if column.endswith("_at"):
        field = _read(items, column.removesuffix("_at") + "_us")
        if fact is DISCREPANCIES and column == "end_at":
            field = f"if({field} >= {FOREVER_US}, NULL, {field})"
        return f"fromUnixTimestamp64Micro({field}, 'UTC')"
    field = _read(items, _RENAMED.get(column, column))
    if column in fact.decimals:
        return f"toDecimal128({field}, 12)"
    return field

"""Records that ClickHouse decodes: the rows are those of decoding them here, to the last byte, or there are none."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wattledger_sql.avro_insert
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from wattledger_core.price_log import PriceLog
from wattledger_schemas import BadRecord
from wattledger_sql.avro_insert import Record, RecordsRefused, insert_records
from wattledger_sql.fact import Source
from wattledger_sql.migrate import migrate
from wattledger_streams.sink_rows import Rows, sort_record

from tests.unit.avro_records import (
    CODEC,
    TABLES,
    TOPICS,
    Sent,
    as_avro,
    body,
    by_decoding,
    costs,
    discrepancy,
    empty,
    held,
    long,
    many,
    mutated,
    usage,
)
from tests.unit.sql_engine import fresh_database
from tests.unit.sql_rows import cost_row, energy_line, time_line, total_of

pytestmark = pytest.mark.chdb
MUTATIONS = 250


@pytest.fixture(scope="module")
def ledger(chdb_path: Path) -> Iterator[Client]:
    with fresh_database(chdb_path) as client:
        migrate(client)
        yield client


@pytest.fixture
def client(ledger: Client) -> Client:
    """Tables of this module's own database, empty."""
    empty(ledger)
    return ledger


def counts(client: Client) -> dict[str, int]:
    return {table: int(str(client.command(f"SELECT count() FROM {table}"))) for table in TABLES}


def one(value: bytes, subject: str = "usage_lines") -> Sent:
    return Sent(subject, Source(0, 1), value)


def test_every_column_of_every_row_is_as_by_decoding(client: Client) -> None:
    records = many()
    done = by_decoding(client, records)
    expected = held(client)
    assert all(len(rows) > 1000 for rows in expected.values()), "each table must have rows to compare"
    empty(client)
    assert as_avro(client, records) == done == counts(client)
    assert held(client) == expected
    odd = "SELECT countIf(energy_uj IS NULL), uniq(entry), uniq(toYYYYMM(start_at)), uniq(source_partition)"
    [(unknown, *kinds_months_partitions)] = client.query(f"{odd} FROM usage_lines").result_rows
    assert unknown > 60 and kinds_months_partitions == [3, 4, 4]
    odd = "SELECT countIf(cost IS NULL) > 0, countIf(pue IS NULL) > 0, uniq(status), min(cost), max(cost)"
    [(unpriced, without_pue, kinds, least, most)] = client.query(f"{odd} FROM cost_rows").result_rows
    assert (unpriced, without_pue, kinds) == (1, 1, 3)
    assert (str(least), str(most)) == ("-9999999999999999999999999.000000000000", "9" * 25 + "." + "9" * 12)
    assert client.query("SELECT countIf(end_at IS NULL), count() FROM discrepancies").result_rows == [(21, 60)]


def test_an_open_end_is_null_and_the_last_closed_one_is_not(client: Client) -> None:
    records = [one(usage([], [], [discrepancy("a", 1 << 62), discrepancy("b", (1 << 62) - 1)]))]
    by_decoding(client, records)
    expected = held(client)
    empty(client)
    as_avro(client, records)
    assert held(client) == expected
    sql = "SELECT discrepancy_id, end_at IS NULL FROM discrepancies ORDER BY 1"
    assert client.query(sql).result_rows == [("a", 1), ("b", 0)]


def test_the_same_records_again_are_not_stored_again_and_elsewhere_are_the_same_rows(client: Client) -> None:
    records = many(6)
    done = as_avro(client, records)
    assert as_avro(client, records) == done, "rows given, as the other way counts"
    assert counts(client) == done
    before = held(client, "FINAL")
    as_avro(client, [sent._replace(source=Source(9, 9)) for sent in records])
    by_decoding(client, records)
    assert counts(client)["usage_lines"] > done["usage_lines"]
    sql = "SELECT count(), uniqExact(line_id, content_hash) FROM usage_lines FINAL"
    assert len(set(client.query(sql).result_rows[0])) == 1
    assert held(client, "FINAL").keys() == before.keys()


def test_records_in_another_order_or_of_other_rows_are_another_block(client: Client) -> None:
    first, second = one(usage([time_line("a")])), Sent("usage_lines", Source(0, 2), usage([time_line("b")]))
    for records in ([first], [second], [first, second], [second, first]):
        as_avro(client, records)
    assert counts(client)["usage_lines"] == 6
    assert client.command("SELECT count() FROM usage_lines FINAL") == 2


def test_many_bytes_go_in_by_parts_and_are_the_same_rows(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    records = many(12)
    done = as_avro(client, records)
    expected = held(client)
    empty(client)
    monkeypatch.setattr(wattledger_sql.avro_insert, "_MOST_BYTES", 5000)
    assert as_avro(client, [*records, *records[:1]]) == done
    assert held(client) == expected


def test_no_record_is_no_row(client: Client) -> None:
    assert insert_records(client, "tenant_cost", []) == {"cost_rows": 0}
    assert counts(client) == dict.fromkeys(TABLES, 0)


GOOD = usage([time_line()], [total_of(time_line())], [discrepancy()])
PRICED = costs([cost_row(time_line(), "compute", "2.5")])
MEASURED = usage([energy_line(energy_uj=5)])
INDEX_AND_VALUE = long(0) + b"\x02\x0a"
"""Of `MEASURED`: device_us 0, then energy_uj: the second branch, 5."""


def with_text(name: str, text: bytes) -> bytes:
    """`GOOD` with other bytes in one of its texts."""
    return GOOD.replace(long(len(name)) + name.encode(), long(len(text)) + text, 1)


def amount(text: str) -> bytes:
    """`PRICED` with another rate."""
    return PRICED.replace(b"\x02\x062.5", b"\x02" + long(len(text.encode())) + text.encode(), 1)


BROKEN: dict[str, tuple[str, bytes]] = {
    "a byte after it": ("usage_lines", GOOD + b"\0"),
    "itself after it": ("usage_lines", GOOD + body(GOOD)),
    "cut at the end": ("usage_lines", GOOD[:-1]),
    "cut in the middle": ("usage_lines", GOOD[: len(GOOD) // 2]),
    "nothing": ("usage_lines", GOOD[:5]),
    "an array of 2^40": ("tenant_cost", PRICED.replace(b"\x02@", long(1 << 40) + b"@", 1)),
    "an array of 2^62": ("tenant_cost", PRICED.replace(b"\x02@", long(1 << 62) + b"@", 1)),
    "a text of 2^30 bytes": ("tenant_cost", PRICED[:5] + long(1 << 30) + PRICED[6:]),
    "a text of 2^62 bytes": ("tenant_cost", PRICED[:5] + long(1 << 62) + PRICED[6:]),
    "a text of -1 bytes": ("tenant_cost", PRICED[:5] + long(-1) + PRICED[6:]),
    "no UTF-8: a lone byte": ("usage_lines", with_text("fra1", b"fr\xff1")),
    "no UTF-8: a surrogate": ("usage_lines", with_text("fra1", b"f\xed\xa0\x80")),
    "no UTF-8: an overlong slash": ("usage_lines", with_text("fra1", b"fr\xc0\xaf")),
    "no UTF-8: past the last code point": ("usage_lines", with_text("fra1", b"\xf4\x90\x80\x80")),
    "no UTF-8: half a letter at the end": ("usage_lines", with_text("fra1", b"fra\xc3")),
    "no UTF-8 in the record itself": ("usage_lines", with_text("n1", b"n\xff")),
    "no UTF-8 in a discrepancy": ("usage_lines", with_text("overlap", b"overla\xff")),
    "a third branch of a union": ("usage_lines", MEASURED.replace(INDEX_AND_VALUE, b"\0\x04\x01", 1)),
    "a fourth branch that leaves as many bytes": ("usage_lines", MEASURED.replace(INDEX_AND_VALUE, b"\0\x06\x0a", 1)),
    "the branch 2^32 + 1": ("usage_lines", MEASURED.replace(INDEX_AND_VALUE, b"\0" + long(2**32 + 1) + b"\x0a", 1)),
    "an attempt past 32 bits": ("usage_lines", GOOD.replace(b"\x04j1\0", b"\x04j1" + long(1 << 31), 1)),
    "an amount of 26 digits": ("tenant_cost", amount("1" * 26)),
    "an amount that is none": ("tenant_cost", amount("NaN")),
}  # fmt: skip
ONLY_BY_DECODING: dict[str, tuple[str, bytes]] = {
    "an amount as a power": ("tenant_cost", amount("25e-1")),
    "an amount with a line's end": ("tenant_cost", amount("2.5\n")),
    "an amount in other digits": ("tenant_cost", amount("٢.٥")),
    "the branch -1, which is the last": ("usage_lines", MEASURED.replace(INDEX_AND_VALUE, b"\0\x01\x0a", 1)),
}


@pytest.mark.parametrize(("subject", "value"), [*BROKEN.values(), *ONLY_BY_DECODING.values()],
                         ids=[*BROKEN, *ONLY_BY_DECODING])  # fmt: skip
def test_one_record_that_is_not_as_written_here_leaves_nothing_of_all(
    client: Client, subject: str, value: bytes
) -> None:
    assert value not in (GOOD, PRICED, MEASURED), "the case must change something"
    good = {"usage_lines": GOOD, "tenant_cost": PRICED}[subject]
    records = [Record(Source(0, n), body(raw)) for n, raw in enumerate((good, value, good))]
    with pytest.raises(RecordsRefused, match=f"3 records of {subject}"):
        insert_records(client, subject, records)
    assert counts(client) == dict.fromkeys(TABLES, 0)
    assert client.query("SELECT name FROM system.tables WHERE is_temporary").result_rows == []
    assert as_avro(client, [one(good, subject)]) == counts(client) | {}, "the client goes on"


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_so_by_decoding_too(case: str) -> None:
    subject, value = BROKEN[case]
    if case == "an attempt past 32 bits":
        assert CODEC.decode(value).record["lines"][0]["attempt"] == 1 << 31, "no 32 bits to a Python int"
        return
    with pytest.raises(BadRecord):
        sort_record(Rows(), TOPICS[subject], CODEC.decode(value), Source(0, 0), PriceLog())


@pytest.mark.parametrize("case", ONLY_BY_DECODING)
def test_what_decoding_takes_all_the_same_is_left_to_it(client: Client, case: str) -> None:
    subject, value = ONLY_BY_DECODING[case]
    assert sum(by_decoding(client, [one(value, subject)]).values()) == 1


def test_arrays_in_blocks_with_their_size_are_the_same_rows(client: Client) -> None:
    row = PRICED[PRICED.index(b"\x02@") + 1 : -1]
    blocks = long(-1) + long(len(row)) + row + long(-2) + long(0) + row.replace(b"@", b"@", 1) * 2 + long(0)
    value = PRICED[: PRICED.index(b"\x02@")] + blocks
    by_decoding(client, [one(value, "tenant_cost")])
    expected = held(client)
    empty(client)
    assert as_avro(client, [one(value, "tenant_cost")])["cost_rows"] == 3
    assert held(client) == expected


def test_rows_of_more_months_than_one_insert_may_have_are_left_to_decoding(client: Client) -> None:
    lines = [time_line(f"j{n}", start_us=n * 32 * 86400 * 10**6) for n in range(120)]
    records = [one(usage(lines))]
    with pytest.raises(RecordsRefused, match="TOO_MANY_PARTS"):
        as_avro(client, records)
    assert by_decoding(client, records)["usage_lines"] == 120 == counts(client)["usage_lines"]


def test_of_mutated_records_nothing_lands_that_decoding_would_refuse_or_read_otherwise(client: Client) -> None:
    noise = random.Random(1)
    bases = [GOOD, PRICED, MEASURED, usage([energy_line(energy_uj=None, reason="é" * 70)]), costs([])]
    taken: list[Sent] = []
    refused = 0
    for number in range(MUTATIONS):
        base = noise.choice(bases)
        sent = Sent(CODEC.decode(base).subject, Source(0, number), mutated(base, noise))
        if is_taken(client, sent):
            taken.append(sent)
        else:
            refused += 1
    assert refused > MUTATIONS / 2 and len(taken) > MUTATIONS / 20
    empty(client)
    as_avro(client, taken)
    found = held(client)
    empty(client)
    by_decoding(client, taken)
    assert held(client) == found


def is_taken(client: Client, sent: Sent) -> bool:
    try:
        insert_records(client, sent.subject, [Record(sent.source, body(sent.value))])
    except RecordsRefused:
        return False
    return True


def test_half_done_and_then_done_by_decoding_leaves_the_rows_of_decoding(client: Client) -> None:
    records = many(10)
    by_decoding(client, records)
    expected = held(client, "FINAL")
    empty(client)
    rows = Rows()
    for sent in records:
        raw = sent.value + (b"\0" if sent is records[-2] else b"")
        keep(rows, sent._replace(value=raw))
    with pytest.raises(RecordsRefused):
        rows.insert(client)
    done = counts(client)
    assert done["usage_lines"] > 0 == done["cost_rows"], "the lines are in, the costs refused"
    assert rows.give_back(fewest_bytes=1) == {}
    for topic, whole in rows.give_back().items():
        for record in whole:
            value = record.value.removesuffix(b"\0") if record.value == records[-2].value + b"\0" else record.value
            sort_record(rows, topic, CODEC.decode(value), record.source, PriceLog())
    assert rows.insert(client)["usage_lines"] == done["usage_lines"]
    assert held(client, "FINAL") == expected


def keep(rows: Rows, sent: Sent) -> None:
    from wattledger_streams.sink_rows import Whole

    found: Any = CODEC.newest_body(sent.value, sent.subject)
    rows.keep_whole(TOPICS[sent.subject], Whole(sent.source, b"k", sent.value, found))


def test_no_answer_is_not_a_refusal(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise Error("connection reset")

    monkeypatch.setattr(client, "raw_insert", away)
    with pytest.raises(Error, match="connection reset") as caught:
        as_avro(client, [one(GOOD)])
    assert not isinstance(caught.value, RecordsRefused)

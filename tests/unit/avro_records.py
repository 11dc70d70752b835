"""Records of `usage-lines` and `tenant-cost` as bytes: ordinary and odd ones, and the two ways into the tables."""

import random
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from clickhouse_connect.driver.client import Client
from wattledger_core.cost import CostRow
from wattledger_core.late import reverse_line
from wattledger_core.line import DeviceTotal, Discrepancy, Line
from wattledger_core.meter import Group
from wattledger_core.price_log import PriceLog
from wattledger_schemas import Codec
from wattledger_sql.avro_insert import Record, insert_records
from wattledger_sql.fact import Source
from wattledger_streams.mapping import to_wire_tenant_cost, to_wire_usage_lines
from wattledger_streams.sink_rows import Rows, sort_record

from tests.unit.sql_rows import QUARTER, T0, cost_row, energy_line, time_line, total_of

TOPICS = {"usage_lines": "usage-lines", "tenant_cost": "tenant-cost"}
TABLES = ("usage_lines", "device_totals", "discrepancies", "cost_rows")
CODEC = Codec()
MONTH = 2920
"""Quarter-hours of a month, about."""
LONGEST = 2**63 - 1
TEXTS = ("", "ünï — 電力 😀", "a\0b", "it's\t\"\\N\\\n", "{}%s{0}", "\x7f\u0080\u07ff\uffff\U0010ffff", "x" * 20_000)
AMOUNTS = ("0", "-0", "0.000000000001", "-0.000000000001", "9" * 25 + "." + "9" * 12, "-" + "9" * 25, "007.50", "-1.5")


class Sent(NamedTuple):
    """A record in its topic."""

    subject: str
    source: Source
    value: bytes


def usage(lines: Iterable[Line], totals: Iterable[DeviceTotal] = (), found: Iterable[Discrepancy] = ()) -> bytes:
    group = Group("time", "n1", T0, T0 + QUARTER, 0, 7, "", list(lines), list(totals), list(found))
    return CODEC.encode("usage_lines", to_wire_usage_lines(group))


def costs(rows: Iterable[CostRow]) -> bytes:
    return CODEC.encode("tenant_cost", to_wire_tenant_cost("t", T0, T0 + QUARTER, list(rows)))


def body(value: bytes) -> bytes:
    return value[5:]


def discrepancy(name: str = "d", end_us: int = T0 + 5, detail: str = "shares → 1") -> Discrepancy:
    return Discrepancy(name, "overlap", "n1", "GPU-0", T0, end_us, "a,b", "x,y", detail)


def many(count: int = 60) -> list[Sent]:
    """Records with all that rows can be: reversals and corrections, unknown energy, unpriced and unmeasured rows, odd
    texts, the largest numbers, several months, partitions and offsets; arrays that are empty."""
    found: list[bytes] = [usage([]), costs([])]
    for number in range(count):
        line = time_line(f"j{number}", number * MONTH // 20)
        energy = energy_line(f"j{number}", number, None if number % 3 == 0 else number * 10**12)
        back = reverse_line(energy, "cause")
        forward = energy._replace(line_id=f"c{number}", entry="correction", cause_id="cause", energy_uj=-number)
        text = TEXTS[number % len(TEXTS)]
        odd = line._replace(line_id=f"o{number}", reason=text, user=text, project=text, marks=text)
        lines = [line, energy, back, forward, odd]
        totals = [total_of(line), total_of(energy)._replace(sign=-1, entry="reversal", of_total_id="t", partition=3)]
        ends = (1 << 62, (1 << 62) - 1, T0)
        contradictions = [discrepancy(f"d{number}-{n}", ends[number // 3 % 3], text) for n in range(number % 3)]
        found.append(usage(lines, totals, contradictions))
        amount = Decimal(AMOUNTS[number % len(AMOUNTS)])
        rows = [cost_row(line, "compute", "2.5"), cost_row(back, "energy", "0.31", "1.2"), cost_row(line, "b", None)]
        rows.append(cost_row(odd, f"pool:{text[:9]}", "1")._replace(cost=amount, rate=amount, pue=amount, reason=text))
        found.append(costs(rows))
    extreme = time_line(
        start_us=0, end_us=2**53, span_us=LONGEST, device_us=-LONGEST - 1, busy_us=-1, attempt=2**31 - 1
    )
    least = extreme._replace(line_id="least", energy_uj=-LONGEST - 1, attempt=-(2**31), sign=-128)
    found.append(usage([extreme, least], [total_of(extreme)._replace(in_service_us=LONGEST, offset=LONGEST)]))
    subjects = {CODEC.decode(value).subject for value in found}
    assert subjects == set(TOPICS)
    return [
        Sent(CODEC.decode(value).subject, Source(number // 2 % 4 - 1, number * 10**15), value)
        for number, value in enumerate(found)
    ]


def by_decoding(client: Client, records: Iterable[Sent]) -> dict[str, int]:
    """Insert as the sink does record by record."""
    rows = Rows()
    for sent in records:
        sort_record(rows, TOPICS[sent.subject], CODEC.decode(sent.value), sent.source, PriceLog())
    return rows.insert(client)


def as_avro(client: Client, records: Iterable[Sent]) -> dict[str, int]:
    """Insert as the sink does with records left whole."""
    done: dict[str, int] = {}
    for subject in TOPICS:
        own = [Record(sent.source, body(sent.value)) for sent in records if sent.subject == subject]
        done |= insert_records(client, subject, own)
    return done


def held(client: Client, final: str = "") -> dict[str, bytes]:
    """Every column of every row, the hash of the content and the places included, as bytes."""
    return {
        table: client.raw_query(f"SELECT * EXCEPT(inserted_at) FROM {table} {final} ORDER BY ALL", fmt="RowBinary")
        for table in TABLES
    }


def empty(client: Client) -> None:
    for table in TABLES:
        client.command(f"TRUNCATE TABLE {table}")


def long(number: int) -> bytes:
    """Avro's encoding of an integer."""
    rest = number * 2 if number >= 0 else -number * 2 - 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes(out) + bytes([rest])


def mutated(value: bytes, noise: random.Random) -> bytes:
    """The record with one to three bytes or stretches of its body changed."""
    found = bytearray(body(value))
    for _ in range(noise.choice((1, 1, 2, 3))):
        place = noise.randrange(len(found))
        kind = noise.randrange(8)
        if kind == 0:
            found[place] ^= 1 << noise.randrange(8)
        elif kind == 1:
            del found[place : place + noise.randrange(1, 6)]
        elif kind == 2:
            found[place:place] = noise.randbytes(noise.randrange(1, 5))
        elif kind == 3:
            found += noise.choice((b"\0", b"\0\0", bytes(found[-noise.randrange(1, 40) :])))
        elif kind == 4:
            found[place : place + 1] = long(noise.choice((1 << 20, 1 << 31, 1 << 40, 1 << 62, -1, -2, LONGEST)))
        elif kind == 5:
            found[place : place + 1] = noise.choice((b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"))
        elif kind == 6:
            other = noise.randrange(len(found))
            found[place : place + 8] = found[other : other + 8]
        elif found[place] < 128:
            found[place : place + 1] = bytes([found[place] | 128, 0])
    return value[:5] + bytes(found)

"""The topics held against the world: what was sent is there, costs fold to the ledger, only poison was put aside."""

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from typing import Any

from tests.fault_harness import record_bytes
from tests.fault_harness.answers import ENERGY, TIME, Money, plus, rounded
from tests.fault_harness.findings import Difference, Finding, equal
from tests.fault_harness.ledger import Ledger, Query
from tests.fault_harness.topic_reading import Topics
from tests.fault_harness.truth import UNITS, Truth
from tests.fault_harness.world import World

SOURCES = ("gpu-samples", "job-events", "price-book")
_ROW = (
    "row_id", "line_id", "component", "node", "device", "state", "tenant", "job", "attempt", "allocation_id",
    "quantity", "unit", "price_id", "rate", "cost", "status", "sign", "entry", "of_row_id", "cause_id", "start_us",
    "end_us",
)  # fmt: skip
_SQL = {
    "tenant": "tenant_id", "start_us": "toUnixTimestamp64Micro(start_at)", "end_us": "toUnixTimestamp64Micro(end_at)",
    "rate": "toString(rate)", "cost": "toString(cost)",
}  # fmt: skip


def _fingerprint(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def check_raw(world: World, topics: Topics) -> list[Finding]:
    """Every record that was sent is in its topic, byte for byte, at least once; and nothing else is."""
    sent: dict[str, dict[bytes, str]] = {topic: {} for topic in SOURCES}
    for emission in world.emissions():
        sent[emission.topic][_fingerprint(emission.value)] = emission.ident
    found = []
    for topic in SOURCES:
        times = Counter(_fingerprint(record.value) for record in topics(topic))
        missing = [ident for name, ident in sent[topic].items() if name not in times]
        foreign = sum(count for name, count in times.items() if name not in sent[topic])
        again = sum(times.values()) - foreign - (len(sent[topic]) - len(missing))
        seen = f"{len(sent[topic]) - len(missing)} there, {len(missing)} missing {missing[:3]}, {foreign} never sent"
        expected = f"{len(sent[topic])} records, each at least once"
        found.append(Finding(f"{topic} in Kafka ({again} repeated)", expected, seen, not missing and not foreign))
    return found


def check_costs_topic(
    truth: Truth, ledger: Ledger, topics: Topics, totals: dict[tuple[str, str], Money]
) -> list[Finding]:
    """`tenant-cost` folded by row id: each id one content; the same rows as the table; the truth's amounts."""
    prices = {said.name: said for said in truth.world.tariffs.said}
    rows: dict[str, bytes] = {}
    sums: dict[tuple[str, str], Money] = {}
    contradicting = misfigured = 0
    for record in topics("tenant-cost"):
        subject, content = record_bytes.decode(record.value)
        if subject != "tenant_cost":
            contradicting += 1
            continue
        for row in content["rows"]:
            name, kept = row["row_id"], _fingerprint(repr(_content(row)).encode())
            if rows.setdefault(name, kept) != kept:
                contradicting += 1
            elif rows.get(name) is kept:
                misfigured += row["status"] == "priced" and not _figured(row, prices[row["price_id"]])
                key = (row["tenant"], row["component"])
                amount = Money(row["sign"], row["quantity"] or 0, Decimal(row["cost"] or 0))
                sums[key] = plus(sums.get(key, Money(0, 0, Decimal(0))), amount)
    columns = ", ".join(_SQL.get(name, name) for name in _ROW)
    kept_rows = {row[0]: _fingerprint(repr(_plain(row)).encode()) for row in ledger.cost_rows(columns)}
    same = sum(kept_rows.get(name) == content_ for name, content_ in rows.items())
    by_tenant = Difference("tenant-cost by tenant and component")
    by_tenant.compare({k: m for k, m in totals.items() if any(m)}, {k: m for k, m in sums.items() if any(m)})
    told = f"{same} of {len(rows)} rows of the topic in a table of {len(kept_rows)}"
    return [
        equal("tenant-cost: row ids with two contents", 0, contradicting),
        equal("tenant-cost: rows whose cost is not quantity × rate × PUE, rounded once", 0, misfigured),
        Finding(
            "tenant-cost folded by row id is cost_rows FINAL",
            "the same rows",
            told,
            same == len(rows) == len(kept_rows),
        ),
        by_tenant.finding(),
    ]


def _content(row: dict[str, Any]) -> tuple[Any, ...]:
    return _plain([row[name] for name in _ROW])


def _plain(values: Any) -> tuple[Any, ...]:
    """One form for what the topic and the table say differently: decimals as numbers, integers as integers."""
    row = dict(zip(_ROW, values, strict=True))
    for name in ("rate", "cost"):
        row[name] = None if row[name] is None else Decimal(row[name]).normalize() + 0
    return tuple(row.values())


def _figured(row: dict[str, Any], price: Any) -> bool:
    unit = UNITS[TIME if row["unit"] == "us" else ENERGY]
    exact = row["quantity"] * Fraction(price.rate) * Fraction(price.pue) / unit
    return Decimal(row["cost"]) == rounded(exact)


def check_dead_letters(world: World, topics: Topics, query: Query) -> list[Finding]:
    """Put aside was the poison and nothing else: each with its origin, reason and bytes, in topic and table."""
    wanted = dict(world.poisons())
    values = {e.ident: e.value for e in world.emissions() if e.ident in wanted} if wanted else {}
    reasons = {(wanted[ident].topic, value): wanted[ident].reason for ident, value in values.items()}
    expected: dict[tuple[str, int, int], tuple[str, bytes]] = {}
    for topic in SOURCES if wanted else ():
        for record in topics(topic):
            reason = reasons.get((topic, record.value))
            if reason is not None:
                expected[(topic, record.partition, record.offset)] = (reason, record.value)
    seen: dict[tuple[str, int, int], tuple[str, bytes]] = {}
    for record in topics("dead-letters"):
        subject, letter = record_bytes.decode(record.value)
        if subject == "dead_letter":
            origin = (letter["source_topic"], letter["source_partition"], letter["source_offset"])
            seen[origin] = (letter["reason_code"], letter["raw"])
    in_topic = Difference("dead-letters")
    in_topic.compare(expected, seen)
    rows = query("SELECT DISTINCT topic, topic_partition, topic_offset, reason_code FROM dead_letters FINAL")
    in_table = Difference("dead_letters table")
    in_table.compare(
        {origin: reason for origin, (reason, _) in expected.items()}, {(r[0], int(r[1]), int(r[2])): r[3] for r in rows}
    )
    return [in_topic.finding(), in_table.finding()]

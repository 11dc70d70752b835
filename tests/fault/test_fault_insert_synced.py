"""What an insert is answered for is on the disk, by the engine's own counters: SIGKILL alone would not show it."""

from collections.abc import Callable

import pytest
from clickhouse_connect.driver.client import Client
from wattledger_sql.fact import FACTS, DeadLetter
from wattledger_sql.insert import insert_cost_rows, insert_dead_letters, insert_usage_lines

from tests.unit.sql_rows import cost_row, time_line

pytestmark = [pytest.mark.chdb, pytest.mark.quick]


def syncs(client: Client) -> dict[str, int]:
    """How often the engine has synced files and folders since it started."""
    found = client.query("SELECT event, value FROM system.events WHERE event IN ('FileSync', 'DirectorySync')")
    return {"FileSync": 0, "DirectorySync": 0} | {str(event): int(value) for event, value in found.result_rows}


@pytest.mark.fault(
    20,
    "rows inserted, the engine's counters of syncs read before and after",
    "files and folder are synced before the answer",
)
def test_an_answered_insert_is_on_the_disk(chdb_client: Client, seen: Callable[[str], None]) -> None:
    line = time_line()
    inserts: dict[str, Callable[[], int]] = {
        "usage_lines": lambda: insert_usage_lines(chdb_client, [line]),
        "cost_rows": lambda: insert_cost_rows(chdb_client, [cost_row(line, "compute", "2.5")]),
        "dead_letters": lambda: insert_dead_letters(
            chdb_client, [DeadLetter("gpu-samples", 0, 1, "undecodable", "", "meter", b"k", b"raw")]
        ),
    }
    told = []
    for table, insert in inserts.items():
        before = syncs(chdb_client)
        assert insert() == 1
        after = syncs(chdb_client)
        rise = {event: after[event] - before[event] for event in after}
        assert all(count > 0 for count in rise.values()), f"{table}: {rise}"
        told.append(f"{table} {rise['FileSync']} files and {rise['DirectorySync']} folders")
    seen(f"synced by an insert into {', '.join(told)}")


def test_every_fact_table_is_synced_at_each_insert(chdb_client: Client) -> None:
    sql = "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
    found = {str(name): str(engine) for name, engine in chdb_client.query(sql).result_rows}
    unsynced = [
        fact.table
        for fact in FACTS
        if not all(f"{name} = 1" in found[fact.table] for name in ("fsync_after_insert", "fsync_part_directory"))
    ]
    assert unsynced == []

"""`wattledger verify` on the folder of a stack: 0 while the laws hold, 1 when a row was changed by hand.

Each step is a process of its own: the engine opens one path a process.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.chdb
ROOT = Path(__file__).resolve().parents[2]
BUILD = """
import sys
import clickhouse_connect
from wattledger_sql.migrate import migrate
from wattledger_sql.refresh import refresh
from tests.unit.sql_ledger import insert_ledger, replayed
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
client.command("CREATE DATABASE wattledger")
client.database = "wattledger"
migrate(client)
insert_ledger(client, replayed())
refresh(client)
client.close()
"""
CHANGE = """
import sys
import clickhouse_connect
client = clickhouse_connect.get_client(interface="chdb", path=sys.argv[1])
client.database = "wattledger"
client.command(sys.argv[2] + " SETTINGS mutations_sync = 2")
client.close()
"""


def python(*args: str) -> subprocess.CompletedProcess[str]:
    roots = [str(ROOT / name) for name in ("agent", "audit", "schemas", "sql", "streams", ".")]
    return subprocess.run(
        [sys.executable, *args],
        cwd=ROOT,
        env={"PYTHONPATH": ":".join(roots)},
        capture_output=True,
        text=True,
        timeout=240,
    )


def verify(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "wattledger_audit", "verify", "--path", str(folder), *options)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ledger") / "clickhouse"
    built = python("-c", BUILD, str(folder))
    assert built.returncode == 0, built.stderr
    return folder


def test_verify_is_0_on_a_sound_ledger_and_1_with_the_laws_named_after_a_change_by_hand(ledger: Path) -> None:
    sound = verify(ledger, "--json")
    assert sound.returncode == 0, sound.stderr + sound.stdout
    said = json.loads(sound.stdout)
    assert said["ok"] is True
    assert {law["ok"] for law in said["laws"]} == {True}
    assert len(said["laws"]) > 5

    sql = "ALTER TABLE usage_lines UPDATE device_us = device_us + 1 WHERE kind = 'time' AND tenant_id = 'acme'"
    changed = python("-c", CHANGE, str(ledger), sql)
    assert changed.returncode == 0, changed.stderr
    broken = verify(ledger, "--json")
    assert broken.returncode == 1, broken.stderr + broken.stdout
    said = json.loads(broken.stdout)
    named = {law["name"] for law in said["laws"] if not law["ok"]}
    assert said["ok"] is False
    assert {"device_time", "content_intact"} <= named
    assert all(law["rows"] for law in said["laws"] if not law["ok"])

    plain = verify(ledger)
    assert plain.returncode == 1
    assert "BROKEN device_time" in plain.stdout


def test_without_a_place_verify_is_a_usage_error() -> None:
    done = python("-m", "wattledger_audit", "verify")
    assert done.returncode == 2
    assert "--path" in done.stderr


def test_a_folder_without_tables_is_a_configuration_error(tmp_path: Path) -> None:
    done = verify(tmp_path / "empty")
    assert done.returncode == 4, done.stderr + done.stdout
    assert "Traceback" not in done.stderr

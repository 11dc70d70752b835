"""The wired agent: what it keeps of its past, and what it must not keep when its folder came from another host."""

import json
from pathlib import Path
from typing import Any

import pytest
from wattledger_agent.build import build_agent
from wattledger_agent.clock import ManualClock
from wattledger_agent.host_identity import FILE_NAME
from wattledger_agent.settings import AgentSettings, load_settings
from wattledger_schemas import Codec

from tests.fake_nvml import FakeNvml, fake_fleet

T0 = 1_767_225_600_000_000


@pytest.fixture
def fleet() -> FakeNvml:
    return fake_fleet(2)


def settings(folder: Path, **more: Any) -> AgentSettings:
    return load_settings(
        None, node="n1", http_port=0, wal={"path": folder / "agent.wal"},
        sampling={"probes": ("nvml",), "flush_s": 5, **more},
    )  # fmt: skip


def batches(folder: Path, fleet: FakeNvml, clock: ManualClock, ticks: int) -> list[dict[str, Any]]:
    """Run for some ticks and stop as a kill does; the sample records in the log."""
    with fleet.installed():
        agent = build_agent(settings(folder), clock)
        for _ in range(ticks):
            clock.sleep(1)
            fleet.advance(1)
            agent.sampler.step()
        found = [Codec().decode(kept.record.value) for kept in agent.wal.pending(0, 1000)]
        for runner in agent.runners:
            runner.stop()
        agent.wal.close()
    return [one.record for one in found if one.subject == "sample_batch"]


def span(record: dict[str, Any]) -> tuple[int, int]:
    ticks = record["ticks_us"]
    return (int.from_bytes(ticks[:8], "little") - T0) // 1_000_000, (
        int.from_bytes(ticks[-8:], "little") - T0
    ) // 1_000_000


def test_a_restarted_agent_goes_on_where_it_was_under_the_same_id(tmp_path: Path, fleet: FakeNvml) -> None:
    clock = ManualClock(T0)
    batches(tmp_path, fleet, clock, 8)
    found = batches(tmp_path, fleet, clock, 8)
    assert [span(record) for record in found] == [(1, 6), (6, 8), (8, 13)]
    assert len({record["agent"] for record in found}) == 1
    assert len({record["boot_id"] for record in found}) == 2


def test_a_folder_from_another_host_gives_a_new_id_and_its_last_tick_is_not_continued(
    tmp_path: Path, fleet: FakeNvml
) -> None:
    clock = ManualClock(T0)
    batches(tmp_path, fleet, clock, 8)
    told = json.loads((tmp_path / FILE_NAME).read_text())
    told["fingerprint"] = {"machine_id": "other", "product_uuid": "other", "boot_id": "other", "gpus": ["GPU-other"]}
    (tmp_path / FILE_NAME).write_text(json.dumps(told))
    found = batches(tmp_path, fleet, clock, 8)
    assert [span(record) for record in found] == [(1, 6), (9, 14)]
    assert found[0]["agent"] != found[1]["agent"]

"""The trace probe: a recorded machine's ticks, each once, in order, with what the record says and nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest
from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NOT_READ,
    SENTINEL,
    UNREAD,
    DeviceReading,
    InstanceReading,
    Reading,
    ZoneReading,
    lost_device,
    unknown,
)
from wattledger_agent.probes.trace_probe import TraceProbe
from wattledger_agent.trace import TraceItem, write_trace
from wattledger_schemas import Codec
from wattledger_schemas.catalogue import catalogue
from wattledger_schemas.columns import pack_column

from tests.unit.agent_batches import T0, N, S, batch, wire_batch

CODEC = Codec()
Cells = Sequence[int | None]


def column(cells: Cells, width: int = 4) -> bytes:
    values = np.array([cell or 0 for cell in cells], dtype=np.int64)
    return pack_column(values, np.array([cell is not None for cell in cells]), width)


def device(name: str, power: Cells, base: int | None, deltas: Cells, **other: Any) -> dict[str, Any]:
    """One device of a record; what is not told is unread."""
    nothing: Cells = [None] * len(power)
    return {
        "device": name, "index": 0, "pci": "0000:83:00.0", "minor": 4, "gpu_model": "H100", "driver": "590",
        "mig_layout": "", "sharing": "exclusive", "counter_epoch": "boot/590/0", "epoch_from_tick": 0,
        "idle_floor_mw": None, "slices": 7, "power_mw": column(power), "counter_base_uj": base,
        "energy_delta_uj": column(deltas, 8), "busy_ppm": column(nothing), "memory_bytes": column(nothing, 8),
        "instances": [], "processes": [], "vendor": "nvidia",
    } | other  # fmt: skip


def record(ticks_s: Sequence[int], *devices: dict[str, Any], node: str = "n1", **other: Any) -> dict[str, Any]:
    ticks = np.array([T0 + second * S for second in ticks_s], dtype="<i8").tobytes()
    return {
        "node": node, "site": "", "agent": "", "boot_id": "", "seq": 0, "period_us": S, "ticks_us": ticks,
        "devices": list(devices),
    } | other  # fmt: skip


def trace(folder: Path, *records: dict[str, Any]) -> Path:
    items = [TraceItem(T0, "gpu-samples", one["node"], CODEC.encode("sample_batch", one)) for one in records]
    tick = TraceItem(T0, "job-events", "tick", CODEC.encode("tick", {"at_us": T0, "stale_sources": []}), broadcast=True)
    write_trace(folder / "t.jsonl", [tick, *items], CODEC)
    return folder / "t.jsonl"


def opened(path: Path, **options: Any) -> TraceProbe:
    probe = TraceProbe(path, **options)
    probe.open()
    probe.inventory()
    return probe


def powers(probe: TraceProbe, count: int) -> list[int | str]:
    return [each.power_mw.value or each.power_mw.reason for _ in range(count) for each in probe.read().devices]


def ended(probe: TraceProbe) -> bool:
    with pytest.raises(ProbeUnavailable, match="has been played to its end"):
        probe.read()
    return True


def test_every_reading_of_a_recorded_batch_comes_back(tmp_path: Path) -> None:
    probe, played = opened(trace(tmp_path, wire_batch())), batch()
    for tick in range(N):
        first, second = probe.read().devices
        shown = (first.power_mw.value, first.energy_uj.value, first.busy_ppm.value, second.power_mw.value)
        assert shown == (
            played.power_mw[0, tick], played.counter_uj[0, tick], played.busy_ppm[0, tick], played.power_mw[1, tick],
        )  # fmt: skip
        activity = Reading(int(played.devices[0].instances[0].activity_ppm[tick]))
        assert first.instances == (InstanceReading("1", activity),)
        assert (first.memory_used_bytes, first.temperature_c, first.throttle) == (UNREAD, UNREAD, UNREAD)
        assert (first.processes, first.processes_reason) == (None, NOT_READ)
    assert ended(probe)


def test_all_that_version_two_carries_is_read(tmp_path: Path) -> None:
    gpu = device(
        "GPU-0", [100, None], 50, [0, 25], counter_scope="module", power_field="nvml.instant", power_window_us=25_000,
        power_refresh_us=100_000, temperature_c=column([40, 41]), throttle=column([0, 4]), sharing="mig",
        mig_layout="3g+2g", memory_bytes=column([1 << 40, 7], 8), busy_ppm=column([1_000_000, 0]),
        instances=[{"gpu_instance": "5", "slices": 3, "activity_ppm": column([None, 500_000])}],
        processes=[{"cluster": "c", "job": "j", "sm_ppm": column([1, 2])}],
        nulls=[{"column": "power_mw", "reason": SENTINEL, "ticks": 1}],
    )  # fmt: skip
    zone = {"zone": "package-0", "counter_epoch": "boot", "counter_base_uj": 9, "energy_delta_uj": column([0, 6], 8)}
    probe = opened(trace(tmp_path, record([0, 1], gpu, host_zones=[zone])))
    assert probe.inventory().devices == (
        Device(
            "GPU-0", "nvidia", "H100", "590", 0, 4, "0000:83:00.0", sharing="mig", counter_epoch="boot/590/0",
            instances=(MigInstance("5", "", "3g", 3),), counter_scope="module", power_field="nvml.instant",
            power_window_us=25_000, power_refresh_us=100_000, is_mig=True,
        ),
    )  # fmt: skip
    first, second = probe.read(), probe.read()
    assert first.devices == (
        DeviceReading(
            "GPU-0", Reading(100), Reading(50), Reading(1_000_000), Reading(1 << 40), Reading(40), Reading(0),
            (InstanceReading("5", UNREAD),),
        ),
    )  # fmt: skip
    assert second.devices == (
        DeviceReading(
            "GPU-0", unknown(SENTINEL), Reading(75), Reading(0), Reading(7), Reading(41), Reading(4),
            (InstanceReading("5", Reading(500_000)),),
        ),
    )  # fmt: skip
    assert (first.zones, second.zones) == (
        (ZoneReading("package-0", Reading(9), "boot"),), (ZoneReading("package-0", Reading(15), "boot"),),
    )  # fmt: skip


def test_a_batch_of_version_one_is_played_too(tmp_path: Path) -> None:
    (entry,) = [one for one in catalogue() if (one.subject, one.version) == ("sample_batch", 1)]
    wire = record([0, 1], device("GPU-0", [100, 200], 50, [0, 25]))
    body = tmp_path / "body"
    with body.open("wb") as file:
        fastavro.schemaless_writer(file, fastavro.parse_schema(entry.schema), wire)
    value = b"\0" + entry.schema_id.to_bytes(4, "big") + body.read_bytes()
    write_trace(tmp_path / "v1.jsonl", [TraceItem(T0, "gpu-samples", "n1", value)])
    probe = opened(tmp_path / "v1.jsonl")
    assert probe.inventory().devices[0].vendor == ""
    assert [each.energy_uj for _ in range(2) for each in probe.read().devices] == [Reading(50), Reading(75)]


TILES = [
    ("the first tick repeats the last one", ([0, 1], [1, 2]), [100, 101, 201]),
    ("a batch twice", ([0, 1], [0, 1], [1, 2]), [100, 101, 201]),
    ("a gap", ([0, 1], [5, 6]), [100, 101, 200, 201]),
    ("a batch inside another", ([0, 3], [1, 2], [3, 4]), [100, 101, 301]),
]


@pytest.mark.parametrize(("ticks", "expected"), [case[1:] for case in TILES], ids=[case[0] for case in TILES])
def test_no_tick_is_given_twice(tmp_path: Path, ticks: Sequence[Sequence[int]], expected: list[int]) -> None:
    numbers: dict[tuple[int, ...], int] = {}
    records = []
    for each in ticks:
        number = numbers.setdefault(tuple(each), len(numbers) + 1)
        records.append(record(each, device("GPU-0", [number * 100, number * 100 + 1], None, [None, None])))
    probe = opened(trace(tmp_path, *records))
    assert powers(probe, len(expected)) == expected
    assert ended(probe)


def test_only_one_node_is_played(tmp_path: Path) -> None:
    def of(node: str, power: int, first: int) -> dict[str, Any]:
        return record([first, first + 1], device("GPU-0", [power, power + 1], None, [None, None]), node=node)

    path = trace(tmp_path, of("n1", 10, 0), of("n2", 20, 0), of("n1", 30, 1))
    assert powers(opened(path), 3) == [10, 11, 31]
    assert powers(opened(path, node="n2"), 2) == [20, 21]
    with pytest.raises(ProbeUnavailable, match="has no samples of node 'n3'"):
        TraceProbe(path, node="n3").open()


def test_closed_and_opened_it_goes_on_and_at_the_end_it_stays_ended(tmp_path: Path) -> None:
    probe = opened(trace(tmp_path, record([0, 1, 2], device("GPU-0", [1, 2, 3], None, [None] * 3))))
    assert powers(probe, 1) == [1]
    probe.close()
    with pytest.raises(ProbeUnavailable, match="is not open"):
        probe.read()
    probe.open()
    assert powers(probe, 2) == [2, 3]
    assert probe.inventory().devices
    assert ended(probe)
    probe.close()
    with pytest.raises(ProbeUnavailable, match="has been played to its end: give another one"):
        probe.open()


def test_a_loop_begins_again_in_another_epoch(tmp_path: Path) -> None:
    path = trace(tmp_path, record([0, 1], device("GPU-0", [1, 2], 1000, [0, 5])))
    probe = opened(path, loops=True)
    seen = []
    for _ in range(5):
        tick = probe.read()
        seen.append(
            (tick.devices[0].energy_uj.value, tick.inventory_changed, probe.inventory().devices[0].counter_epoch)
        )
    assert seen == [
        (1000, False, "boot/590/0"), (1005, False, "boot/590/0"),
        (1000, True, "boot/590/0/round-2"), (1005, False, "boot/590/0/round-2"), (1000, True, "boot/590/0/round-3"),
    ]  # fmt: skip


def test_a_device_that_was_lost_is_lost_and_the_other_goes_on(tmp_path: Path) -> None:
    gone = device("GPU-0", [1, None, None, 4], 10, [0, None, None, 5], lost_from_tick=1)
    stays = device("GPU-1", [5, 6, 7, 8], None, [None] * 4, index=1)
    probe = opened(trace(tmp_path, record([0, 1, 2, 3], gone, stays)))
    ticks = [probe.read().devices for _ in range(4)]
    assert [one.lost for one, _ in ticks] == [False, True, True, False]
    assert ticks[1][0] == lost_device("GPU-0")
    assert [one.power_mw for _, one in ticks] == [Reading(5), Reading(6), Reading(7), Reading(8)]


COUNTERS = [
    ("readings missing in between", 100, [0, None, 7], 0, [100, NOT_READ, 107]),
    ("none at all", None, [None, None, None], 0, [NOT_READ] * 3),
    ("a fall within the epoch, and on from there", 100, [0, -90, 5], 0, [100, IMPLAUSIBLE, 15]),
    ("one bad read", 100, [0, -90, 95], 0, [100, IMPLAUSIBLE, 105]),
    ("below zero", 100, [0, -190, 195], 0, [100, IMPLAUSIBLE, 105]),
    ("an epoch that begins at the second tick", 100, [0, -90, 5], 1, [NOT_READ, 10, 15]),
]


@pytest.mark.parametrize(
    ("base", "deltas", "epoch_from", "expected"), [case[1:] for case in COUNTERS], ids=[case[0] for case in COUNTERS]
)
def test_the_counter_is_base_and_increases(
    tmp_path: Path, base: int | None, deltas: list[int | None], epoch_from: int, expected: list[int | str]
) -> None:
    gpu = device("GPU-0", [1, 1, 1], base, deltas, epoch_from_tick=epoch_from)
    probe = opened(trace(tmp_path, record([0, 1, 2], gpu)))
    epoch = probe.inventory().devices[0].counter_epoch
    ticks = [(probe.read(), probe.inventory().devices[0].counter_epoch) for _ in range(3)]
    assert [one.devices[0].energy_uj for one, _ in ticks] == [
        unknown(each) if isinstance(each, str) else Reading(each) for each in expected
    ]
    began_anew = expected[-1] == 15 and not epoch_from
    assert [one.inventory_changed for one, _ in ticks] == [False, False, began_anew]
    assert ticks[-1][1] == (f"{epoch}/run-1" if began_anew else epoch)


def test_a_change_of_what_is_installed_is_told_with_the_tick_that_it_belongs_to(tmp_path: Path) -> None:
    before = record([0, 1], device("GPU-0", [1, 2], None, [None] * 2))
    after = record([1, 2], device("GPU-0", [2, 3], None, [None] * 2, driver="595"))
    probe = opened(trace(tmp_path, before, after))
    assert [probe.read().inventory_changed, probe.read().inventory_changed] == [False, False]
    assert probe.inventory().devices[0].driver == "590"
    assert probe.read().inventory_changed
    assert probe.inventory().devices[0].driver == "595"
    assert "node n1" in probe.inventory().library


def test_the_commonest_reason_of_a_column_stands_for_its_empty_cells(tmp_path: Path) -> None:
    nulls = [
        {"column": "power_mw", "reason": "stale", "ticks": 2},
        {"column": "power_mw", "reason": "sentinel", "ticks": 1},
    ]
    gpu = device("GPU-0", [None, None, None], None, [None] * 3, nulls=nulls)
    assert powers(opened(trace(tmp_path, record([0, 1, 2], gpu))), 3) == ["stale"] * 3


def test_a_trace_that_can_not_be_played_says_where_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ProbeUnavailable, match=r"none\.jsonl can't be read: .*No such file"):
        TraceProbe(tmp_path / "none.jsonl").open()
    (tmp_path / "bad.jsonl").write_text("{\n")
    with pytest.raises(ProbeUnavailable, match=r"bad\.jsonl, line 1: "):
        TraceProbe(tmp_path / "bad.jsonl").open()
    with pytest.raises(ProbeUnavailable, match="has no samples: record one"):
        TraceProbe(trace(tmp_path)).open()
    short = record([0, 1], device("GPU-0", [1, 2], None, [None] * 2, power_mw=b"123"))
    with pytest.raises(ProbeUnavailable, match="column_length: power_mw"):
        TraceProbe(trace(tmp_path, short)).open()

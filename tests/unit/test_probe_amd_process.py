"""AMD processes: shares from engine times, lists that are not to be believed; and why clocks are held down."""

from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.amd_metrics import Metrics, from_mapping
from wattledger_agent.probes.amd_throttle import ThrottleTrack
from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    HARDWARE_SLOWDOWN,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_READ,
    NOT_SUPPORTED,
    OTHER_THROTTLE,
    POWER_CAP,
    STALE,
    THERMAL,
    UNKNOWN_ERROR,
    DeviceReading,
    Reading,
    unknown,
)

from tests.fake_amdsmi import FakeAmdSmi
from tests.fake_amdsmi_gpu import NA64, FakeGpu, FakeProcess


def _ticks(folder: Path, gpu: FakeGpu, count: int) -> list[DeviceReading]:
    fake = FakeAmdSmi(gpu)
    clock = ManualClock(1_767_225_600_000_000)
    probe = fake.probe(clock, folder)
    probe.open()
    readings = []
    for _ in range(count):
        clock.sleep(1)
        fake.advance()
        readings.append(probe.read().devices[0])
    return readings


def _shares(reading: DeviceReading) -> list[Reading]:
    return [process.sm_ppm for process in reading.processes or ()]


def test_a_share_is_engine_time_by_time(tmp_path: Path) -> None:
    gpu = FakeGpu(processes=[FakeProcess(10, 7, grows_ns=600_000_000), FakeProcess(11, 7)])
    first, second = _ticks(tmp_path, gpu, 2)
    assert _shares(first) == [unknown(NOT_READ), unknown(NOT_READ)]
    assert _shares(second) == [Reading(600_000), Reading(0)]


@pytest.mark.parametrize("ticks", [1, 3])
def test_b57_no_engine_time_on_a_busy_device_is_no_share(tmp_path: Path, ticks: int) -> None:
    reading = _ticks(tmp_path, FakeGpu(activity=97, processes=[FakeProcess(10), FakeProcess(11)]), ticks)[-1]
    assert reading.busy_ppm == Reading(970_000)
    assert _shares(reading) == [unknown(IMPLAUSIBLE)] * 2


def test_no_engine_time_on_an_idle_device_is_a_share_of_0(tmp_path: Path) -> None:
    assert _shares(_ticks(tmp_path, FakeGpu(activity=0, processes=[FakeProcess(10)]), 2)[-1]) == [Reading(0)]


@pytest.mark.parametrize(("grows_ns", "expected"), [(1_020_000_000, Reading(1_000_000)), (9_000_000_000, None)])
def test_more_than_a_whole_device(tmp_path: Path, grows_ns: int, expected: Reading | None) -> None:
    gpu = FakeGpu(processes=[FakeProcess(10, 1, grows_ns=grows_ns)])
    assert _shares(_ticks(tmp_path, gpu, 2)[-1]) == [expected or unknown(IMPLAUSIBLE)]


@pytest.mark.parametrize("pid", [4_194_305, 4_294_967_295])
def test_b06_a_list_with_an_impossible_pid_is_rejected_whole(tmp_path: Path, pid: int) -> None:
    (reading,) = _ticks(tmp_path, FakeGpu(processes=[FakeProcess(1184), FakeProcess(pid)]), 1)
    assert (reading.processes, reading.processes_reason) == (None, ABI_MISMATCH)


def test_empty_rows_are_no_processes(tmp_path: Path) -> None:
    gpu = FakeGpu(processes=[FakeProcess(10, 5), FakeProcess(0, 0, 0), FakeProcess(0, 0, 0)])
    assert [process.pid for process in _ticks(tmp_path, gpu, 1)[0].processes or ()] == [10]


def test_more_processes_than_the_list_holds(tmp_path: Path) -> None:
    gpu = FakeGpu(processes=[FakeProcess(pid) for pid in range(1, 1026)])
    (reading,) = _ticks(tmp_path, gpu, 1)
    assert (reading.processes, reading.processes_reason) == (None, UNKNOWN_ERROR)


def test_1024_processes_are_listed(tmp_path: Path) -> None:
    gpu = FakeGpu(processes=[FakeProcess(pid) for pid in range(1, 1025)])
    assert len(_ticks(tmp_path, gpu, 1)[0].processes or ()) == 1024


@pytest.mark.parametrize(("activity", "expected"), [(97, (None, NO_PERMISSION)), (3, ((), ""))])
def test_nobody_is_on_an_idle_device_only(tmp_path: Path, activity: int, expected: tuple[object, str]) -> None:
    (reading,) = _ticks(tmp_path, FakeGpu(activity=activity), 1)
    assert (reading.processes, reading.processes_reason) == expected


STATUS: list[tuple[str, Metrics, Reading]] = [
    ("nothing holds", Metrics({"indep_throttle_status": 0}), Reading(0)),
    ("package power", Metrics({"indep_throttle_status": 1 << 0}), Reading(POWER_CAP)),
    ("current limit", Metrics({"indep_throttle_status": 1 << 16}), Reading(OTHER_THROTTLE)),
    ("hotspot", Metrics({"indep_throttle_status": 1 << 36}), Reading(THERMAL)),
    ("PROCHOT", Metrics({"indep_throttle_status": 1 << 47}), Reading(HARDWARE_SLOWDOWN)),
    ("fit", Metrics({"indep_throttle_status": 1 << 57}), Reading(OTHER_THROTTLE)),
    ("power and hotspot", Metrics({"indep_throttle_status": 1 | 1 << 36}), Reading(POWER_CAP | THERMAL)),
    ("an ASIC's own word", Metrics({"throttle_status": 4}), Reading(OTHER_THROTTLE)),
    ("what the dictionary keeps of it", Metrics({}, {"indep_throttle_status": True}), Reading(OTHER_THROTTLE)),
    ("and of nothing", Metrics({}, {"indep_throttle_status": False}), Reading(0)),
    ("no word at all", Metrics(), unknown(NOT_SUPPORTED)),
]


@pytest.mark.parametrize(("metrics", "expected"), [s[1:] for s in STATUS], ids=[s[0] for s in STATUS])
def test_throttle_from_the_status_word(metrics: Metrics, expected: Reading) -> None:
    assert ThrottleTrack().take(metrics) == expected


RESIDENCIES: list[tuple[str, dict[str, int], Reading]] = [
    ("nothing grew", {"accumulation_counter": 200}, Reading(0)),
    ("package power", {"accumulation_counter": 200, "ppt_residency_acc": 9}, Reading(POWER_CAP)),
    ("HBM temperature", {"accumulation_counter": 200, "hbm_thm_residency_acc": 6}, Reading(THERMAL)),
    ("PROCHOT", {"accumulation_counter": 200, "prochot_residency_acc": 6}, Reading(HARDWARE_SLOWDOWN)),
    ("not renewed", {"accumulation_counter": 100, "ppt_residency_acc": 5}, unknown(STALE)),
    ("counted anew", {"accumulation_counter": 3, "ppt_residency_acc": 0}, unknown(NOT_READ)),
]


@pytest.mark.parametrize(("changed", "expected"), [r[1:] for r in RESIDENCIES], ids=[r[0] for r in RESIDENCIES])
def test_throttle_from_residency_counters(changed: dict[str, int], expected: Reading) -> None:
    names = ("ppt_residency_acc", "socket_thm_residency_acc", "hbm_thm_residency_acc", "prochot_residency_acc")
    start = {"accumulation_counter": 100} | dict.fromkeys(names, 5)
    track = ThrottleTrack()
    assert track.take(Metrics(start)) == unknown(NOT_READ)
    assert track.take(Metrics(start | changed)) == expected


def test_the_table_as_a_dictionary_keeps_no_sentinel_and_no_bool_as_a_number() -> None:
    metrics = from_mapping(
        {"current_socket_power": 65535, "energy_accumulator": 65535, "indep_throttle_status": True,
         "accumulation_counter": NA64, "temperature_edge": "N/A", "common_header.format_revision": 1,
         "common_header.content_revision": 0},
        1,
    )  # fmt: skip
    assert metrics.numbers == {"energy_accumulator": 65535, "format_revision": 1, "content_revision": 0}
    assert metrics.flags == {"indep_throttle_status": True}
    assert metrics.is_32_bit

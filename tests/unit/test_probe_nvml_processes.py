"""Who is on a card: lists that can't be are rejected whole, samples are fresh by their own stamps, and pids that only
one list knows are joined to nothing."""

import pytest
from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SENTINEL,
    STALE,
    DeviceReading,
    ProcessReading,
    Reading,
    unknown,
)

from tests.fake_nvml import FakeNvml, fake_fleet
from tests.fake_nvml_card import NO_PERMISSION as NO_PERMISSION_CODE
from tests.fake_nvml_card import NOT_FOUND, PROCESS_RECORD_535, U32, U64, FakeInstance, FakeProcess

_GIB = 1 << 30


def _one(processes: list[FakeProcess]) -> FakeNvml:
    fleet = fake_fleet(1)
    fleet.gpus[0].processes = processes
    return fleet


def _read(fleet: FakeNvml, ticks: int = 1) -> list[DeviceReading]:
    probe = fleet.probe()
    probe.open()
    readings = []
    for _ in range(ticks):
        fleet.advance()
        readings.append(probe.read().devices[0])
    return readings


def _shares(reading: DeviceReading) -> dict[int, Reading]:
    assert reading.processes is not None
    return {process.pid: process.sm_ppm for process in reading.processes}


def test_processes_have_their_host_pid_share_and_memory() -> None:
    reading = _read(_one([FakeProcess(1184, 3 * _GIB, sm=61), FakeProcess(16040, 2 * _GIB, sm=38)]))[0]
    assert reading.processes == (
        ProcessReading(1184, Reading(610_000), Reading(3 * _GIB)),
        ProcessReading(16040, Reading(380_000), Reading(2 * _GIB)),
    )
    assert reading.processes_reason == ""


def test_an_empty_list_means_nobody() -> None:
    reading = _read(_one([]))[0]
    assert (reading.processes, reading.processes_reason) == ((), "")


def test_b06_a_list_in_the_layout_of_an_early_535_driver_is_rejected_whole() -> None:
    fleet = _one([FakeProcess(1184, U64), FakeProcess(16040, U64), FakeProcess(16041, U64)])
    fleet.gpus[0].process_record = PROCESS_RECORD_535
    module = fleet.binding()
    module.nvmlInit()
    scrambled = module.nvmlDeviceGetComputeRunningProcesses_v3(module.nvmlDeviceGetHandleByIndex(0))
    assert [process.pid for process in scrambled] == [1184, 0, U32]
    reading = _read(fleet)[0]
    assert (reading.processes, reading.processes_reason) == (None, ABI_MISMATCH)
    assert reading.power_mw == Reading(300_000)


def test_b07_a_pid_that_is_a_memory_size_rejects_the_list() -> None:
    reading = _read(_one([FakeProcess(6498025472, 9980), FakeProcess(77)]))[0]
    assert (reading.processes, reading.processes_reason) == (None, ABI_MISMATCH)


@pytest.mark.parametrize("code", [0, NOT_FOUND])
def test_b09_no_samples_is_no_error_and_two_quiet_seconds_are_no_use(code: int) -> None:
    fleet = _one([FakeProcess(1184)])
    fleet.gpus[0].no_samples_code = code
    shares = [_shares(reading)[1184] for reading in _read(fleet, 4)]
    assert shares == [unknown(STALE), unknown(STALE), Reading(0), Reading(0)]


def test_b11_a_pid_that_only_the_utilisation_list_knows_is_told_and_joined_to_nothing() -> None:
    fleet = _one([FakeProcess(324)])
    for reading in _later(fleet, [(645400, 1, 90, 1, 0, 0)], 4):
        assert reading.processes == (
            ProcessReading(324, unknown(STALE), Reading(_GIB)),
            ProcessReading(645400, Reading(900_000)),
        )


def _later(fleet: FakeNvml, rows: list[tuple[int, int, int, int, int, int]], ticks: int) -> list[DeviceReading]:
    """Ticks with these samples, stamped now minus their `timeStamp` in ms."""
    probe = fleet.probe()
    probe.open()
    readings = []
    for _ in range(ticks):
        fleet.advance()
        now_us = fleet.clock.wall_us()
        fleet.gpus[0].samples = [(row[0], now_us - row[1] * 1000, *row[2:]) for row in rows]
        readings.append(probe.read().devices[0])
    return readings


def test_the_same_stamp_again_is_not_repeated_as_a_value() -> None:
    fleet = _one([FakeProcess(1184)])
    fleet.gpus[0].samples = [(1184, fleet.clock.wall_us() + 900_000, 55, 1, 0, 0)]
    shares = [_shares(reading)[1184] for reading in _read(fleet, 2)]
    assert shares == [Reading(550_000), unknown(STALE)]


def test_stamps_many_seconds_old_are_not_of_this_tick() -> None:
    fleet = _one([FakeProcess(1184), FakeProcess(1185)])
    reading = _later(fleet, [(1184, 13_000, 55, 1, 0, 0), (1185, 100, 44, 1, 0, 0)], 1)[0]
    assert _shares(reading) == {1184: unknown(STALE), 1185: Reading(440_000)}


def test_garbage_samples_are_rejected_whole_and_padding_is_nothing() -> None:
    garbage = (50554, 0, 37100, 0, 50583, 0)
    fleet = _one([FakeProcess(1184)])
    rows = [garbage, (1184, 10, 50, 0, 0, 0)]
    assert _shares(_later(fleet, rows, 1)[0]) == {1184: unknown(ABI_MISMATCH)}
    fleet = _one([FakeProcess(1184, sm=50)])
    fleet.gpus[0].samples = [(1184, fleet.clock.wall_us() + 900_000, 50, 0, 0, 0)] + [(0, 0, 0, 0, 0, 0)] * 97
    assert _shares(_read(fleet)[0]) == {1184: Reading(500_000)}


@pytest.mark.parametrize(
    ("ago_ms", "sm", "read"),
    [(10, U32, unknown(SENTINEL)), (10, 101, unknown(ABI_MISMATCH)), (-1500, 50, unknown(IMPLAUSIBLE))],
)
def test_a_share_above_100_all_ones_or_a_stamp_from_the_future_is_no_share(ago_ms: int, sm: int, read: Reading) -> None:
    assert _shares(_later(_one([FakeProcess(1184)]), [(1184, ago_ms, sm, 0, 0, 0)], 1)[0])[1184] == read


def test_shares_of_several_processes_may_add_up_to_more_than_all() -> None:
    reading = _read(_one([FakeProcess(1, sm=99), FakeProcess(2, sm=97)]))[0]
    assert _shares(reading) == {1: Reading(990_000), 2: Reading(970_000)}


@pytest.mark.parametrize(("memory", "read"), [(U64, unknown(SENTINEL)), (200 * _GIB, unknown(IMPLAUSIBLE))])
def test_memory_of_a_process_that_can_not_be_is_unknown(memory: int, read: Reading) -> None:
    reading = _read(_one([FakeProcess(1184, memory, sm=5)]))[0]
    assert reading.processes == (ProcessReading(1184, Reading(50_000), read),)


def test_mps_clients_are_asked_for_once_they_are_there_and_each_is_one_process() -> None:
    fleet = _one([FakeProcess(900, sm=0)])
    probe = fleet.probe()
    probe.open()
    assert probe.inventory().devices[0].sharing == "exclusive"
    fleet.gpus[0].mps_clients = [FakeProcess(901, sm=70), FakeProcess(900)]
    fleet.advance(6)
    tick = probe.read()
    assert tick.inventory_changed
    assert probe.inventory().devices[0].sharing == "mps"
    assert [process.pid for process in tick.devices[0].processes or ()] == [900, 901]


def test_a_driver_that_does_not_tell_processes_says_why() -> None:
    fleet = _one([FakeProcess(1184)])
    fleet.gpus[0].codes["nvmlDeviceGetComputeRunningProcesses_v3"] = NO_PERMISSION_CODE
    reading = _read(fleet)[0]
    assert (reading.processes, reading.processes_reason) == (None, NO_PERMISSION)


def test_without_the_privilege_to_see_a_whole_mig_card_its_instances_are_asked() -> None:
    fleet = _one([FakeProcess(31, gi=1, ci=0), FakeProcess(32, gi=2, ci=0), FakeProcess(31, gi=2, ci=0)])
    gpu = fleet.gpus[0]
    gpu.mig_mode, gpu.codes["privilege"] = 1, NO_PERMISSION_CODE
    gpu.instances = [FakeInstance(1, "3g.40gb", ("MIG-a",)), FakeInstance(2, "3g.40gb", ("MIG-b",))]
    reading = _read(fleet)[0]
    assert reading.processes == (
        ProcessReading(31, unknown(NOT_SUPPORTED), Reading(_GIB), "1"),
        ProcessReading(31, unknown(NOT_SUPPORTED), Reading(_GIB), "2"),
        ProcessReading(32, unknown(NOT_SUPPORTED), Reading(_GIB), "2"),
    )

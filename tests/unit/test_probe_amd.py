"""The AMD probe over every wrapper version: readings, identity, sockets and partitions, lost devices, runs."""

import threading
from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    FOREIGN,
    GPU_LOST,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_SUPPORTED,
    SENTINEL,
    TIMED_OUT,
    UNKNOWN_ERROR,
    Reading,
    lost_device,
    unknown,
)

from tests.fake_amdsmi import FakeAmdSmi
from tests.fake_amdsmi_api import WALL, WRAPPERS, Bench
from tests.fake_amdsmi_gpu import API_FAILED, DRIVER_NOT_LOADED, GIB, NA16, NA32, NA64, FakeGpu, FakeProcess
from tests.fake_amdsmi_gpu import NO_PERMISSION as NO_PERM
from tests.fake_amdsmi_gpu import NOT_SUPPORTED as NOT_SUPP


@pytest.mark.parametrize("version", [*WRAPPERS, ""], ids=[*WRAPPERS, "the real 7.0.2 wrapper"])
def test_readings_through_every_wrapper(tmp_path: Path, version: str) -> None:
    bench = Bench(tmp_path, FakeAmdSmi(FakeGpu(processes=[FakeProcess(4711, 5, grows_ns=250_000_000)])), version)
    bench.tick()
    before, after = bench.one(), bench.one()
    assert after.power_mw == Reading(717_000)
    assert (after.energy_uj.value or 0) - (before.energy_uj.value or 0) == 717_000_000
    assert after.busy_ppm == Reading(970_000)
    assert after.memory_used_bytes == Reading(20 * GIB)
    assert after.temperature_c == Reading(61)
    assert after.processes is not None
    (process,) = after.processes
    assert (process.pid, process.sm_ppm, process.memory_bytes) == (4711, Reading(250_000), Reading(GIB))
    (device,) = bench.probe.inventory().devices
    assert (device.device, device.vendor, device.pci) == ("0000:0c:00.0/0", "amd", "0000:0c:00.0")
    assert (device.power_field, device.counter_scope) == ("amdsmi.current_socket_power", "gpu")
    assert (device.power_limit_mw, device.memory_bytes, device.driver) == (750_000, 192 * GIB, "6.12.12")


@pytest.mark.parametrize("version", WRAPPERS)
def test_an_mi200_gives_its_average_through_every_wrapper(tmp_path: Path, version: str) -> None:
    gpu = FakeGpu(model="AMD Instinct MI210", device_id=0x740F, current_w=NA16, average_w=94, draws_w=94, header=(1, 3))
    bench = Bench(tmp_path, FakeAmdSmi(gpu), version)
    assert bench.one().power_mw == Reading(94_000)
    assert bench.probe.inventory().devices[0].power_field == "amdsmi.average_socket_power"


@pytest.mark.parametrize("version", WRAPPERS)
def test_the_counter_under_the_key_of_every_wrapper(tmp_path: Path, version: str) -> None:
    gpu = FakeGpu(table={"energy_accumulator": NA64, "system_clock_counter": NA64})
    bench = Bench(tmp_path, FakeAmdSmi(gpu), version)
    bench.tick()
    assert bench.one().energy_uj == Reading(gpu.counts * 15625 // 1024)


BUSY = [
    (0, Reading(0)),
    (100, Reading(1_000_000)),
    (101, unknown(IMPLAUSIBLE)),
    (NA16, unknown(SENTINEL)),
    (NA32, unknown(SENTINEL)),
]


@pytest.mark.parametrize(("raw", "expected"), BUSY)
def test_activity(tmp_path: Path, raw: int, expected: Reading) -> None:
    gpu = FakeGpu(activity=raw, table={"average_gfx_activity": min(raw, NA16)})
    if raw == NA32:
        gpu.table = {"average_gfx_activity": NA16}
    assert Bench(tmp_path, FakeAmdSmi(gpu)).one().busy_ppm == expected


TEMPERATURES = [
    (61, 40, Reading(61)),
    (NA16, 40, Reading(40)),
    (0, 40, Reading(40)),
    (NA16, NA16, unknown(NOT_SUPPORTED)),
    (61_000, NA16, unknown(IMPLAUSIBLE)),
]


@pytest.mark.parametrize(("hotspot", "edge", "expected"), TEMPERATURES)
def test_temperature(tmp_path: Path, hotspot: int, edge: int, expected: Reading) -> None:
    assert Bench(tmp_path, FakeAmdSmi(FakeGpu(hotspot_c=hotspot, edge_c=edge))).one().temperature_c == expected


MEMORY = [
    (5, Reading(5)),
    (192 * GIB, Reading(192 * GIB)),
    (192 * GIB + 1, unknown(IMPLAUSIBLE)),
    (NA64, unknown(SENTINEL)),
]


@pytest.mark.parametrize(("used", "expected"), MEMORY)
def test_memory(tmp_path: Path, used: int, expected: Reading) -> None:
    assert Bench(tmp_path, FakeAmdSmi(FakeGpu(used_bytes=used))).one().memory_used_bytes == expected


STATUSES = [(2, NOT_SUPPORTED), (3, NOT_SUPPORTED), (8, TIMED_OUT), (10, NO_PERMISSION), (43, ABI_MISMATCH)]


@pytest.mark.parametrize(("status", "reason"), STATUSES)
@pytest.mark.parametrize("version", ["7.0", ""])
def test_a_status_code_becomes_a_reason_and_hides_no_other_reading(
    tmp_path: Path, status: int, reason: str, version: str
) -> None:
    gpu = FakeGpu(status={"amdsmi_get_gpu_memory_usage": status})
    reading = Bench(tmp_path, FakeAmdSmi(gpu), version).one()
    assert reading.memory_used_bytes == unknown(reason)
    assert reading.power_mw == Reading(717_000)


def test_power_is_kept_when_only_the_power_cap_could_not_be_read(tmp_path: Path) -> None:
    gpu = FakeGpu(status={"amdsmi_get_power_info": NO_PERM, "amdsmi_get_power_cap_info": NO_PERM})
    gpu.table = {"current_socket_power": NA16}
    assert Bench(tmp_path, FakeAmdSmi(gpu)).one().power_mw == Reading(717_000)


def test_power_and_energy_come_from_the_table_where_their_calls_fail(tmp_path: Path) -> None:
    gpu = FakeGpu(status={"amdsmi_get_power_info": NO_PERM, "amdsmi_get_energy_count": NO_PERM})
    for version in ("6.1", "7.0"):
        bench = Bench(tmp_path, FakeAmdSmi(gpu), version)
        bench.tick()
        reading = bench.one()
        assert reading.power_mw == Reading(717_000)
        assert reading.energy_uj.value is not None


def test_a_guest_says_that_the_host_must_be_asked(tmp_path: Path) -> None:
    gpu = FakeGpu(virtualization=3, current_w=NA16, kfd_partition=NA32, model="")
    gpu.status = dict.fromkeys(
        ("amdsmi_get_power_info", "amdsmi_get_energy_count", "amdsmi_get_gpu_metrics_info"), NOT_SUPP
    )
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    reading = bench.one()
    assert (reading.power_mw, reading.energy_uj) == (unknown(NOT_SUPPORTED), unknown(NOT_SUPPORTED))
    assert not reading.lost
    inventory = bench.probe.inventory()
    assert any("on the host" in note for note in inventory.notes)
    assert inventory.devices[0].gpu_model == "0x74a1"


def test_no_permission_names_the_groups(tmp_path: Path) -> None:
    gpu = FakeGpu(status={"amdsmi_get_gpu_memory_usage": NO_PERM}, processes=[FakeProcess(10)])
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    assert bench.one().memory_used_bytes == unknown(NO_PERMISSION)
    assert "`render` and `video`" in bench.probe.inventory().notes[0]
    gpu.status = {}
    bench.tick()
    assert bench.probe.inventory().notes == ()


def test_what_is_odd_at_every_tick_is_logged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = FakeGpu(average_w=0)
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    for watts in range(600, 620):
        gpu.current_w = watts
        bench.tick()
    assert "is 0 beside current_socket_power 619" in bench.probe.inventory().notes[0]
    assert capsys.readouterr().out.count("about=power") == 1


def test_a_lost_device_gives_nothing_and_hides_no_other(tmp_path: Path) -> None:
    fake = FakeAmdSmi(FakeGpu(), FakeGpu(bus=0x22, counts=10**10))
    bench = Bench(tmp_path, fake)
    bench.tick()
    first, second = fake.gpus
    epochs = [device.counter_epoch for device in bench.probe.inventory().devices]
    first.gone = True
    readings = bench.tick()
    assert readings[first.device] == lost_device(first.device, GPU_LOST)
    assert readings[second.device].power_mw == Reading(717_000)
    assert len(bench.probe.inventory().devices) == 2
    first.gone, first.counts = False, 65_536
    assert bench.tick()[first.device].energy_uj.value is None
    back = bench.tick()[first.device]
    after = [device.counter_epoch for device in bench.probe.inventory().devices]
    assert not back.lost
    assert (back.energy_uj.value or 0) < 10**10
    assert after[0] != epochs[0]
    assert after[1] == epochs[1]


def test_one_failing_call_is_no_lost_device(tmp_path: Path) -> None:
    reading = Bench(tmp_path, FakeAmdSmi(FakeGpu(status={"amdsmi_get_gpu_memory_usage": API_FAILED}))).one()
    assert not reading.lost
    assert reading.memory_used_bytes == unknown(UNKNOWN_ERROR)


def test_a_device_that_comes_back_counts_in_another_run_even_where_its_counter_seems_to_go_on(tmp_path: Path) -> None:
    gpu = FakeGpu()
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    bench.tick()
    epoch = bench.probe.inventory().devices[0].counter_epoch
    gpu.gone = True
    assert bench.one().lost
    gpu.gone = False
    bench.tick()
    assert bench.one().energy_uj.value is not None
    assert bench.probe.inventory().devices[0].counter_epoch != epoch


@pytest.mark.parametrize("name", ["amdsmi_get_gpu_memory_usage", "amdsmi_get_power_info"])
def test_a_driver_that_went_ends_the_reading_whichever_call_says_so(tmp_path: Path, name: str) -> None:
    gpu = FakeGpu()
    for version in ("7.0", ""):
        bench = Bench(tmp_path, FakeAmdSmi(gpu), version)
        gpu.status = {name: DRIVER_NOT_LOADED}
        with pytest.raises(ProbeUnavailable, match=f"{name}|amdsmi_power_info_t"):
            bench.tick()
        gpu.status = {}


def test_b19_another_gpus_counter_is_foreign_and_starts_no_run(tmp_path: Path) -> None:
    f110, c610 = FakeGpu(bus=0xF1, current_w=43, draws_w=43), FakeGpu(bus=0xC6, counts=4_734_149_698, draws_w=43)
    c610.current_w = 43
    bench = Bench(tmp_path, FakeAmdSmi(f110, c610))
    for _ in range(3):
        bench.tick()
    epoch = bench.probe.inventory().devices[0].counter_epoch
    f110.foreign = (c610.counts + 42 * 65_536, c610.stamp_ns + 997_203_140)
    assert bench.tick()[f110.device].energy_uj == unknown(FOREIGN)
    f110.foreign = None
    assert bench.tick()[f110.device].energy_uj.value == f110.counts * 15625 // 1024
    assert bench.probe.inventory().devices[0].counter_epoch == epoch


def test_a_run_goes_on_over_close_and_open_and_ends_with_the_drivers_load(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAmdSmi())
    bench.tick()
    bench.tick()
    before = bench.probe.inventory().devices[0].counter_epoch
    assert before.startswith("6f1c0a52-77b1-4c55-9d4e-3a8f2f1b9a10/")
    bench.probe.close()
    bench.probe.open()
    assert bench.one().energy_uj.value is not None
    assert bench.probe.inventory().devices[0].counter_epoch == before
    bench.probe.close()
    (tmp_path / "amdgpu").rmdir()
    (tmp_path / "another").mkdir()
    (tmp_path / "amdgpu").mkdir()
    bench.probe.open()
    assert bench.probe.inventory().devices[0].counter_epoch != before


def test_a_reset_while_closed_is_another_run(tmp_path: Path) -> None:
    gpu = FakeGpu()
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    bench.tick()
    last = bench.one().energy_uj.value or 0
    before = bench.probe.inventory().devices[0].counter_epoch
    bench.probe.close()
    gpu.counts = 0
    bench.probe.open()
    seen = [bench.one().energy_uj.value for _ in range(4)]
    assert bench.probe.inventory().devices[0].counter_epoch != before
    assert seen[-1] is not None
    assert seen[-1] < last


def test_a_32_bit_counters_run_begins_with_the_opening(tmp_path: Path) -> None:
    gpu = FakeGpu(header=(1, 0), counts=5, current_w=NA16, average_w=94, draws_w=94, mode="", memory_mode="")
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    assert f"/{WALL}/" in bench.probe.inventory().devices[0].counter_epoch


def test_the_limit_in_force_is_read_again(tmp_path: Path) -> None:
    gpu = FakeGpu()
    bench = Bench(tmp_path, FakeAmdSmi(gpu))
    bench.tick()
    bench.probe.inventory()
    gpu.cap = 500_000_000
    bench.fake.advance()
    ticks = []
    for _ in range(30):
        bench.clock.sleep(1)
        bench.fake.advance()
        ticks.append(bench.probe.read())
    assert any(tick.inventory_changed for tick in ticks)
    assert bench.probe.inventory().devices[0].power_limit_mw == 500_000


def test_nothing_but_reading_functions_is_called_and_all_from_one_thread(tmp_path: Path) -> None:
    fake = FakeAmdSmi(FakeGpu(), FakeGpu(bus=0x22))
    before = threading.active_count()
    bench = Bench(tmp_path, fake)
    for _ in range(61):
        bench.tick()
    bench.probe.close()
    allowed = {"amdsmi_init", "amdsmi_shut_down"}
    assert {name for name in fake.calls if not name.startswith("amdsmi_get_")} == allowed
    assert "amdsmi_get_violation_status" not in fake.calls
    assert threading.active_count() == before


def test_the_process_list_is_read_each_nth_tick(tmp_path: Path) -> None:
    fake = FakeAmdSmi(FakeGpu(processes=[FakeProcess(1, 5)]))
    clock = ManualClock(WALL)
    probe = fake.probe(clock, tmp_path, processes_every=5)
    probe.open()
    known = []
    for _ in range(10):
        clock.sleep(1)
        fake.advance()
        known.append(probe.read().devices[0].processes is not None)
    assert [n + 1 for n, is_known in enumerate(known) if is_known] == [1, 5, 10]

"""The NVML probe as a whole: what it finds, how cards fail apart from one another, and how it comes back."""

import importlib.metadata
from pathlib import Path

import pytest
from wattledger_agent.probes.nvml import NvmlProbe
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NOT_SUPPORTED,
    DeviceReading,
    Reading,
    unknown,
)

from tests.fake_nvml import FakeNvml, fake_fleet
from tests.fake_nvml_card import (
    AVERAGE,
    ENERGY,
    INSTANT,
)
from tests.fake_nvml_card import NOT_SUPPORTED as NOT_SUPPORTED_CODE


def _open(fleet: FakeNvml) -> NvmlProbe:
    probe = fleet.probe()
    probe.open()
    probe.inventory()
    return probe


def _tick(fleet: FakeNvml, probe: NvmlProbe, seconds: float = 1.0) -> tuple[DeviceReading, ...]:
    fleet.advance(seconds)
    return probe.read().devices


def test_a_card_is_known_by_uuid_and_described(tmp_path: Path) -> None:
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("5b1c9a4e-0000-4000-8000-000000000001\n")
    inventory = _open(fake_fleet(2, root=tmp_path)).inventory()
    device = inventory.devices[0]
    assert device.device == "GPU-00000000-0000-4000-8000-000000000000"
    assert (device.vendor, device.gpu_model, device.driver) == ("nvidia", "NVIDIA H100 80GB HBM3", "590.48.01")
    assert (device.index, device.minor, device.pci) == (0, 1, "0000:1a:00.0")
    assert device.counter_epoch == "5b1c9a4e-0000-4000-8000-000000000001/590.48.01/0"
    assert (device.counter_scope, device.power_field) == ("gpu", "nvml.average")
    assert (device.power_window_us, device.power_refresh_us) == (1_000_000, 100_000)
    assert (device.power_limit_mw, device.memory_bytes) == (700_000, 85_520_809_984)
    assert (device.sharing, device.is_mig, device.instances, device.slices) == ("exclusive", False, (), 7)
    assert inventory.library == f"nvml 590.48.01 (nvidia-ml-py {importlib.metadata.version('nvidia-ml-py')})"
    assert inventory.notes == ()


def test_b39_minor_numbers_are_not_indices() -> None:
    fleet = fake_fleet(8)
    for index, minor in enumerate((4, 1, 2, 3, 5, 6, 0, 7)):
        fleet.gpus[index].minor = minor
    devices = _open(fleet).inventory().devices
    by_minor = {device.minor: (device.index, device.pci) for device in devices}
    assert by_minor[0] == (6, "0000:20:00.0")
    assert by_minor[4] == (0, "0000:1a:00.0")


def test_a_tick_reads_every_column() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].throttle = 0x04 | 0x20
    probe = _open(fleet)
    reading = _tick(fleet, probe)[0]
    assert reading.power_mw == Reading(300_000)
    assert reading.energy_uj == Reading(5_300_000_000)
    assert reading.busy_ppm == Reading(400_000)
    assert reading.memory_used_bytes == Reading(4 << 30)
    assert reading.temperature_c == Reading(45)
    assert reading.throttle == Reading(3)
    assert not reading.lost


def test_power_and_energy_of_a_card_cost_one_call_and_a_tick_ten_at_most() -> None:
    fleet = fake_fleet(8)
    probe = _open(fleet)
    _tick(fleet, probe)
    calls = fleet.calls
    _tick(fleet, probe)
    assert fleet.calls - calls <= 10 * 8


def test_b56_memory_in_use_leaves_out_what_the_driver_reserves() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].memory = (25_757_220_864, 308 << 20, 0)
    assert _tick(fleet, _open(fleet))[0].memory_used_bytes == Reading(0)


def test_a_driver_without_the_newer_functions_is_read_by_the_older_ones() -> None:
    fleet = fake_fleet(1, driver="470.82.01")
    fleet.absent = {
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetC2cModeInfoV",
        "nvmlGpmQueryDeviceSupport",
    }
    fleet.gpus[0].throttle = 0x40
    probe = _open(fleet)
    assert probe.inventory().devices[0].power_field == "nvml.power_usage"
    reading = _tick(fleet, probe)[0]
    assert reading.power_mw == Reading(300_000)
    assert reading.energy_uj == Reading(5_300_000_000)
    assert reading.memory_used_bytes == Reading((4 << 30) + (640 << 20))
    assert (reading.temperature_c, reading.throttle) == (Reading(45), Reading(2))


@pytest.mark.parametrize(
    ("field_codes", "codes", "power_field", "power", "energy"),
    [
        ({}, {}, "nvml.average", Reading(300_000), Reading(5_300_000_000)),
        ({AVERAGE: 3}, {}, "nvml.instant", Reading(300_000), Reading(5_300_000_000)),
        ({AVERAGE: 2, INSTANT: 2}, {}, "nvml.power_usage", Reading(300_000), Reading(5_300_000_000)),
        ({ENERGY: 3}, {}, "nvml.average", Reading(300_000), Reading(5_300_000_000)),
        (
            {ENERGY: 3},
            {"nvmlDeviceGetTotalEnergyConsumption": 3},
            "nvml.average",
            Reading(300_000),
            unknown(NOT_SUPPORTED),
        ),
        (
            {AVERAGE: 3, INSTANT: 3},
            {"nvmlDeviceGetPowerUsage": 3},
            "",
            unknown(NOT_SUPPORTED),
            Reading(5_300_000_000),
        ),
    ],
)
def test_power_and_energy_come_from_what_the_card_has(
    field_codes: dict[int, int], codes: dict[str, int], power_field: str, power: Reading, energy: Reading
) -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].field_codes, fleet.gpus[0].codes = field_codes, codes
    probe = _open(fleet)
    assert probe.inventory().devices[0].power_field == power_field
    reading = _tick(fleet, probe)[0]
    assert (reading.power_mw, reading.energy_uj) == (power, energy)


def test_b36_without_a_counter_the_power_stays() -> None:
    fleet = fake_fleet(1)
    gpu = fleet.gpus[0]
    gpu.power_mw = 26_000
    gpu.field_codes, gpu.codes = {ENERGY: 3}, {"nvmlDeviceGetTotalEnergyConsumption": 3}
    probe = _open(fleet)
    readings = [_tick(fleet, probe, 36)[0] for _ in range(101)]
    assert {reading.energy_uj for reading in readings} == {unknown(NOT_SUPPORTED)}
    power_mw = [reading.power_mw.value or 0 for reading in readings]
    assert sum(power_mw[1:]) * 36 // 1000 == 93_600


def test_b35_a_counter_that_disagrees_with_power_is_given_as_it_is() -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    first = _tick(fleet, probe)[0]
    fleet.gpus[0].field_raw[AVERAGE] = 65_317
    fleet.gpus[0].power_mw = 37_455
    second = _tick(fleet, probe, 5.0045)[0]
    assert second.power_mw == Reading(65_317)
    assert first.energy_uj.value is not None
    assert second.energy_uj.value is not None
    assert (second.energy_uj.value - first.energy_uj.value) // 1_000_000 == 187


def test_b01_a_reset_opens_an_epoch_and_never_falls_within_one() -> None:
    fleet = fake_fleet(1)
    gpu = fleet.gpus[0]
    gpu.energy_uj = 123_456_789_000
    probe = _open(fleet)
    before = probe.read().devices[0].energy_uj
    gpu.energy_uj = 42_000 - 300_000 * 1000 * 10
    fell = _tick(fleet, probe, 10)[0]
    fleet.advance()
    tick = probe.read()
    assert (before, fell.energy_uj) == (Reading(123_456_789_000), unknown(IMPLAUSIBLE))
    assert tick.inventory_changed
    assert tick.devices[0].energy_uj == Reading(300_042_000)
    assert fell.power_mw == Reading(300_000)
    assert probe.inventory().devices[0].counter_epoch.endswith("/1")


def test_b02_a_reset_without_power_is_unknown() -> None:
    fleet = fake_fleet(1)
    gpu = fleet.gpus[0]
    gpu.field_codes = {AVERAGE: 3, INSTANT: 3}
    gpu.codes = {"nvmlDeviceGetPowerUsage": 3}
    probe = _open(fleet)
    probe.read()
    gpu.energy_uj = 42_000
    reading = _tick(fleet, probe, 0)[0]
    assert (reading.power_mw, reading.energy_uj) == (unknown(NOT_SUPPORTED), unknown(IMPLAUSIBLE))


def test_b03_a_sentinel_in_one_column_keeps_the_others() -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    busy = []
    for raw in (45, 4294967295, 47):
        fleet.gpus[0].busy = raw
        reading = _tick(fleet, probe)[0]
        busy.append(reading.busy_ppm)
        assert reading.power_mw == Reading(300_000)
    assert [read.value for read in busy] == [450_000, None, 470_000]


@pytest.mark.parametrize(
    ("field", "raw", "reason"),
    [(AVERAGE, 4294967295, "sentinel"), (AVERAGE, 1_050_001, IMPLAUSIBLE), (AVERAGE, 0, IMPLAUSIBLE)],
)
def test_power_that_can_not_be_is_unknown_and_the_counter_stays(field: int, raw: int, reason: str) -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    fleet.gpus[0].field_raw[field] = raw
    reading = _tick(fleet, probe)[0]
    assert (reading.power_mw, reading.energy_uj) == (unknown(reason), Reading(5_300_000_000))


def test_b55_80_mw_under_load_is_a_broken_sensor() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].busy = 97
    probe = _open(fleet)
    fleet.gpus[0].field_raw[AVERAGE] = 80
    assert _tick(fleet, probe)[0].power_mw == unknown(IMPLAUSIBLE)


def test_a_highest_limit_of_0_is_no_limit() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].max_limit_mw = 0
    assert _tick(fleet, _open(fleet))[0].power_mw == Reading(300_000)


def test_b54_a_card_that_supports_nothing_hides_no_other() -> None:
    fleet = fake_fleet(2)
    poor = fleet.gpus[0]
    poor.field_codes = {AVERAGE: 3, INSTANT: 3, ENERGY: 3}
    poor.codes = dict.fromkeys(
        [
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetTotalEnergyConsumption",
            "nvmlDeviceGetUtilizationRates",
            "nvmlDeviceGetMemoryInfo_v2",
            "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetComputeRunningProcesses_v3",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetMinorNumber",
        ],
        NOT_SUPPORTED_CODE,
    )
    probe = _open(fleet)
    first, second = _tick(fleet, probe)
    assert first.power_mw == first.energy_uj == first.busy_ppm == first.memory_used_bytes == unknown(NOT_SUPPORTED)
    assert (first.processes, first.processes_reason, first.lost) == (None, NOT_SUPPORTED, False)
    assert second.power_mw == Reading(300_000)
    assert probe.inventory().devices[0].minor == -1
    assert probe.inventory().devices[0].memory_bytes is None


def test_a_new_limit_is_told() -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    fleet.gpus[0].limit_mw = 500_000
    fleet.advance(5)
    assert probe.read().inventory_changed
    assert probe.inventory().devices[0].power_limit_mw == 500_000


def test_the_counter_of_a_grace_hopper_covers_the_module_and_may_rise_faster_than_the_card() -> None:
    fleet = fake_fleet(1)
    gpu = fleet.gpus[0]
    gpu.c2c, gpu.name = 1, "NVIDIA GH200 480GB"
    probe = _open(fleet)
    device = probe.inventory().devices[0]
    assert (device.counter_scope, device.power_window_us, device.power_refresh_us) == ("module", 1_000_000, None)
    assert any("whole module" in note for note in probe.inventory().notes)
    _tick(fleet, probe)
    gpu.power_mw, gpu.field_raw[AVERAGE] = 2_900_000, 690_000
    assert _tick(fleet, probe)[0].energy_uj == Reading(8_200_000_000)


def test_a_window_that_nobody_measured_is_said() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].name, fleet.gpus[0].pci_device_id = "NVIDIA H200", 0x2335_10DE
    fleet.gpus[0].field_codes[AVERAGE] = NOT_SUPPORTED_CODE
    inventory = _open(fleet).inventory()
    assert (inventory.devices[0].power_field, inventory.devices[0].power_window_us) == ("nvml.instant", None)
    assert any("not measured" in note for note in inventory.notes)


def test_opening_and_closing_twice_is_harmless_and_reading_unopened_is_refused() -> None:
    fleet = fake_fleet(1)
    probe = fleet.probe()
    probe.close()
    with pytest.raises(ProbeUnavailable, match="not open"):
        probe.read()
    probe.open()
    probe.open()
    probe.close()
    probe.close()

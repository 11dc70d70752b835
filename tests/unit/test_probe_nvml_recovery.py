"""Cards that are lost or do not answer, drivers that go and come back: what is told, and which epoch follows."""

import pytest
from wattledger_agent.probes.nvml import NvmlProbe
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    GPU_LOST,
    RESET_REQUIRED,
    TIMED_OUT,
    UNKNOWN_ERROR,
    DeviceReading,
    Reading,
    lost_device,
    unknown,
)

from tests.fake_nvml import FakeNvml, fake_fleet
from tests.fake_nvml_card import (
    ENERGY,
    LOST,
    MISMATCH,
    NOT_LOADED,
    RESET,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
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


@pytest.mark.parametrize(("code", "reason"), [(LOST, GPU_LOST), (RESET, RESET_REQUIRED)])
def test_a_lost_card_tells_nothing_but_that_and_the_others_go_on(code: int, reason: str) -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    _tick(fleet, probe)
    fleet.gpus[0].lost = code
    first, second = _tick(fleet, probe)
    assert first == lost_device(fleet.gpus[0].uuid, reason)
    assert second.energy_uj == Reading(5_007_000_000 + 600_000_000)
    notes = probe.inventory().notes
    assert any(fleet.gpus[0].uuid in note and "lost" in note for note in notes)
    assert [device.device for device in probe.inventory().devices] == [gpu.uuid for gpu in fleet.gpus]


def test_a_card_lost_between_two_fields_of_one_call_is_lost() -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    fleet.gpus[0].field_codes[ENERGY] = LOST
    assert _tick(fleet, probe)[0] == lost_device(fleet.gpus[0].uuid)


def test_a_card_that_comes_back_counts_in_a_new_epoch() -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    _tick(fleet, probe)
    fleet.gpus[0].lost = LOST
    _tick(fleet, probe)
    fleet.gpus[0].lost = 0
    assert _tick(fleet, probe)[0].lost
    fleet.advance(5)
    tick = probe.read()
    assert tick.inventory_changed
    assert not tick.devices[0].lost
    epochs = [device.counter_epoch.rpartition("/")[2] for device in probe.inventory().devices]
    assert epochs == ["1", "0"]


def test_a_card_lost_for_long_makes_nvml_initialise_anew_and_stays_lost() -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    fleet.gpus[1].lost = LOST
    for _ in range(70):
        readings = _tick(fleet, probe, 5)
        assert {reading.device: reading.lost for reading in readings} == {
            fleet.gpus[0].uuid: False,
            fleet.gpus[1].uuid: True,
        }
    assert len(probe.inventory().devices) == 2
    fleet.gpus[1].lost = 0
    for _ in range(70):
        readings = _tick(fleet, probe, 5)
    assert not any(reading.lost for reading in readings)


def test_a_card_that_does_not_answer_at_opening_is_noted_and_found_later() -> None:
    fleet = fake_fleet(2)
    fleet.gpus[0].codes["nvmlDeviceGetHandleByIndex_v2"] = TIMEOUT
    probe = _open(fleet)
    inventory = probe.inventory()
    assert [device.index for device in inventory.devices] == [1]
    assert any("index 0" in note and TIMED_OUT in note for note in inventory.notes)
    fleet.gpus[0].codes.clear()
    fleet.advance(5)
    assert probe.read().inventory_changed
    assert [device.index for device in probe.inventory().devices] == [0, 1]


def test_cards_with_one_uuid_are_told_and_read_once() -> None:
    fleet = fake_fleet(2)
    fleet.gpus[1].uuid = fleet.gpus[0].uuid
    probe = _open(fleet)
    assert len(_tick(fleet, probe)) == 1
    assert any("UUID of another card" in note for note in probe.inventory().notes)


def test_a_card_without_a_uuid_is_known_by_its_address() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].codes["nvmlDeviceGetUUID"] = NOT_SUPPORTED_CODE
    assert _open(fleet).inventory().devices[0].device == "0000:1a:00.0"


def test_one_unknown_error_on_one_of_two_cards_is_a_reading_without_a_value() -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    fleet.gpus[0].codes = dict.fromkeys(
        ["nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetTemperatureV"], UNKNOWN
    )
    first, second = _tick(fleet, probe)
    assert (first.power_mw, first.lost) == (unknown(UNKNOWN_ERROR), False)
    assert second.power_mw == Reading(300_000)


@pytest.mark.parametrize("code", [UNKNOWN, UNINITIALIZED, NOT_LOADED, MISMATCH])
def test_a_driver_that_goes_makes_the_probe_unavailable_until_it_is_opened_again(code: int) -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    _tick(fleet, probe)
    fleet.broken = code
    with pytest.raises(ProbeUnavailable):
        _tick(fleet, probe)
    probe.close()
    with pytest.raises(ProbeUnavailable) as refused:
        probe.open()
    assert str(refused.value)
    fleet.broken = 0
    probe.open()
    assert [reading.power_mw for reading in _tick(fleet, probe)] == [Reading(300_000)] * 2


@pytest.mark.parametrize(("code", "epoch"), [(UNKNOWN, "0"), (NOT_LOADED, "1")])
def test_only_a_driver_that_was_unloaded_begins_a_new_epoch(code: int, epoch: str) -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    _tick(fleet, probe)
    fleet.broken = code
    with pytest.raises(ProbeUnavailable):
        _tick(fleet, probe)
    probe.close()
    fleet.broken = 0
    probe.open()
    _tick(fleet, probe)
    assert probe.inventory().devices[0].counter_epoch.rpartition("/")[2] == epoch


def test_another_driver_after_opening_again_is_another_epoch_and_told() -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    _tick(fleet, probe)
    probe.close()
    fleet.driver, fleet.gpus[0].energy_uj = "595.80", 1_000
    probe.open()
    fleet.advance()
    tick = probe.read()
    assert tick.inventory_changed
    assert tick.devices[0].energy_uj == Reading(300_001_000)
    assert probe.inventory().devices[0].counter_epoch == "unknown-boot/595.80/0"


def test_another_order_after_a_reboot_changes_the_indices_and_not_the_identities() -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    before = {device.device: device.index for device in probe.inventory().devices}
    probe.close()
    fleet.gpus.reverse()
    probe.open()
    after = {device.device: device.index for device in probe.inventory().devices}
    assert after == {device: 1 - index for device, index in before.items()}


def test_a_card_that_the_driver_no_longer_lists_is_lost() -> None:
    fleet = fake_fleet(2)
    probe = _open(fleet)
    probe.close()
    gone = fleet.gpus.pop()
    probe.open()
    assert lost_device(gone.uuid) in _tick(fleet, probe)

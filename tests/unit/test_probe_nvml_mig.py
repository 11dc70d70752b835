"""MIG: what exists, how often it was made, how active it is; power and energy belong to the parent alone."""

import shutil
from pathlib import Path

import pytest
from wattledger_agent.probes.nvml import NvmlProbe
from wattledger_agent.probes.reading import (
    GPU_LOST,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_READ,
    NOT_SUPPORTED,
    STALE,
    Reading,
    unknown,
)

from tests.fake_nvml import FakeNvml, fake_fleet
from tests.fake_nvml_card import LOST, FakeInstance
from tests.fake_nvml_card import NO_PERMISSION as NO_PERMISSION_CODE

_CAPABILITIES = "proc/driver/nvidia/capabilities/gpu0/mig"


def _mig(*instances: FakeInstance, root: Path = Path("/nonexistent")) -> FakeNvml:
    fleet = fake_fleet(1, root=root)
    fleet.gpus[0].mig_mode, fleet.gpus[0].instances = 1, list(instances)
    return fleet


def _open(fleet: FakeNvml) -> NvmlProbe:
    probe = fleet.probe()
    probe.open()
    probe.inventory()
    return probe


def _folder(root: Path, gi: int, minor: int = 30) -> None:
    """What the kernel shows of an instance with one compute instance."""
    compute = root / _CAPABILITIES / f"gi{gi}" / "ci0"
    compute.mkdir(parents=True)
    (compute.parent / "access").write_text(f"DeviceFileMinor: {minor}\nDeviceFileMode: 256\nDeviceFileModify: 1\n")
    (compute / "access").write_text(f"DeviceFileMinor: {minor + 1}\nDeviceFileMode: 256\nDeviceFileModify: 1\n")


def _activity(fleet: FakeNvml, probe: NvmlProbe, seconds: float = 1.0) -> dict[str, Reading]:
    fleet.advance(seconds)
    return {each.gpu_instance: each.activity_ppm for each in probe.read().devices[0].instances}


def test_an_instance_is_described_by_profile_slices_memory_uuids_and_minors(tmp_path: Path) -> None:
    _folder(tmp_path, 2)
    fleet = _mig(FakeInstance(2, "3g.40gb", ("MIG-1", "MIG-2"), memory_mb=40_448), root=tmp_path)
    probe = fleet.probe()
    probe.open()
    device = probe.inventory().devices[0]
    assert (device.is_mig, device.sharing, device.slices, device.mig_layout) == (True, "mig", 7, "3g")
    instance = device.instances[0]
    assert (instance.gpu_instance, instance.uuid, instance.compute_uuids) == ("2", "MIG-1", ("MIG-1", "MIG-2"))
    assert (instance.profile, instance.slices, instance.memory_bytes) == ("3g.40gb", 3, 40_448 << 20)
    assert (instance.generation, instance.minors) == (0, (30, 31))


def test_profiles_with_media_extensions_keep_their_name() -> None:
    probe = _open(_mig(FakeInstance(7, "1g.10gb+me", ("MIG-1",))))
    assert [(each.profile, each.slices) for each in probe.inventory().devices[0].instances] == [("1g.10gb+me", 1)]


def test_a_name_without_a_profile_gives_one_made_of_slices_and_memory() -> None:
    fleet = _mig(FakeInstance(1, "2g.20gb", ("MIG-1",), memory_mb=19_968))
    fleet.absent = {"nvmlDeviceGetName"}
    assert _open(fleet).inventory().devices[0].instances[0].profile == "2g.20gb"


def test_b12_four_instances_of_an_a30_and_its_power_once() -> None:
    fleet = _mig(*(FakeInstance(gi, "1g.6gb", (f"MIG-{gi}",), 5_952) for gi in (3, 4, 5, 6)))
    gpu = fleet.gpus[0]
    gpu.name, gpu.architecture, gpu.pci_device_id, gpu.most_instances = "NVIDIA A30", 7, 0x20B7_10DE, 4
    gpu.power_mw, gpu.gpm = 52_700, False
    gpu.field_codes[185] = 3
    probe = _open(fleet)
    device = probe.inventory().devices[0]
    assert (device.slices, device.mig_layout, device.power_field) == (4, "1g+1g+1g+1g", "nvml.instant")
    fleet.advance()
    readings = probe.read().devices
    assert [reading.power_mw for reading in readings] == [Reading(52_700)]
    assert [each.activity_ppm for each in readings[0].instances] == [unknown(NOT_SUPPORTED)] * 4


def test_b15_one_busy_gpc_in_instances_of_1_2_and_3_slices_weighs_the_same() -> None:
    fleet = _mig(
        FakeInstance(1, "1g.10gb", ("MIG-1",), gpm=100.0),
        FakeInstance(2, "2g.20gb", ("MIG-2",), gpm=50.0),
        FakeInstance(3, "3g.40gb", ("MIG-3",), gpm=33.3333),
    )
    probe = _open(fleet)
    _activity(fleet, probe)
    slices = {each.gpu_instance: each.slices for each in probe.inventory().devices[0].instances}
    activity = _activity(fleet, probe)
    weights = [slices[name] * (read.value or 0) for name, read in activity.items()]
    assert weights == [1_000_000, 1_000_000, pytest.approx(1_000_000, abs=3)]


def test_activity_is_of_the_time_since_the_last_tick() -> None:
    fleet = _mig(FakeInstance(1, "4g.40gb", ("MIG-1",)), FakeInstance(2, "3g.40gb", ("MIG-2",)))
    probe = _open(fleet)
    assert _activity(fleet, probe) == {"1": unknown(NOT_READ), "2": unknown(NOT_READ)}
    fleet.gpus[0].instances[0].activity = 80.0
    assert _activity(fleet, probe) == {"1": Reading(800_000), "2": Reading(0)}
    fleet.gpus[0].instances[1].activity = 100.0
    assert _activity(fleet, probe, 0.5) == {"1": Reading(800_000), "2": Reading(1_000_000)}


def test_samples_closer_than_gpm_renews_them_are_not_compared() -> None:
    fleet = _mig(FakeInstance(1, "7g.80gb", ("MIG-1",), activity=60.0))
    probe = _open(fleet)
    _activity(fleet, probe)
    assert _activity(fleet, probe, 0.06) == {"1": unknown(STALE)}
    assert _activity(fleet, probe, 0.06)["1"].value == pytest.approx(600_000, abs=2)


@pytest.mark.parametrize(("gpm", "read"), [(129.4, unknown(IMPLAUSIBLE)), (100.4, Reading(1_000_000))])
def test_activity_above_the_whole_is_implausible(gpm: float, read: Reading) -> None:
    fleet = _mig(FakeInstance(1, "1g.10gb", ("MIG-1",), gpm=gpm))
    probe = _open(fleet)
    _activity(fleet, probe)
    assert _activity(fleet, probe) == {"1": read}


def test_gpm_without_permission_says_so() -> None:
    fleet = _mig(FakeInstance(1, "1g.10gb", ("MIG-1",)))
    probe = _open(fleet)
    fleet.gpus[0].codes["nvmlGpmMigSampleGet"] = NO_PERMISSION_CODE
    assert _activity(fleet, probe) == {"1": unknown(NO_PERMISSION)}


def test_b18_utilisation_of_a_mig_card_is_unknown_and_not_0() -> None:
    fleet = _mig(FakeInstance(1, "1g.10gb", ("MIG-1",)))
    fleet.gpus[0].busy = 0
    probe = _open(fleet)
    fleet.advance()
    reading = probe.read().devices[0]
    assert reading.busy_ppm == unknown(NOT_SUPPORTED)
    assert reading.power_mw == Reading(300_000)


def test_the_h200_capture_in_mig_mode_reads_as_it_was() -> None:
    fleet = _mig(FakeInstance(1, "3g.71gb", ("MIG-1",)))
    fleet.gpus[0].memory = (150754820096, 643825664, 17782800384)
    fleet.gpus[0].power_mw = 295_010
    probe = _open(fleet)
    fleet.advance()
    reading = probe.read().devices[0]
    assert (reading.memory_used_bytes, reading.power_mw) == (Reading(17782800384), Reading(295_010))
    assert probe.inventory().devices[0].memory_bytes == 150754820096


def test_another_geometry_is_told_at_the_tick_where_the_kernel_shows_it(tmp_path: Path) -> None:
    _folder(tmp_path, 1)
    fleet = _mig(FakeInstance(1, "7g.80gb", ("MIG-1",)), root=tmp_path)
    probe = _open(fleet)
    fleet.advance()
    assert not probe.read().inventory_changed
    shutil.rmtree(tmp_path / _CAPABILITIES / "gi1")
    for gi in (5, 9):
        _folder(tmp_path, gi)
    fleet.gpus[0].instances = [FakeInstance(5, "3g.40gb", ("MIG-5",)), FakeInstance(9, "4g.40gb", ("MIG-9",))]
    fleet.advance()
    tick = probe.read()
    assert tick.inventory_changed
    assert {each.gpu_instance for each in tick.devices[0].instances} == {"5", "9"}
    assert probe.inventory().devices[0].mig_layout == "4g+3g"
    fleet.advance()
    assert not probe.read().inventory_changed


def test_the_same_instance_made_again_between_two_ticks_is_another_generation(tmp_path: Path) -> None:
    _folder(tmp_path, 1)
    fleet = _mig(FakeInstance(1, "3g.40gb", ("MIG-1",)), root=tmp_path)
    probe = _open(fleet)
    (tmp_path / _CAPABILITIES / "gi1").rename(tmp_path / "gone")
    _folder(tmp_path, 1)
    fleet.gpus[0].instances = [FakeInstance(1, "3g.40gb", ("MIG-1",))]
    fleet.advance()
    assert probe.read().inventory_changed
    assert [each.generation for each in probe.inventory().devices[0].instances] == [1]


def test_without_the_kernels_list_a_geometry_is_seen_within_five_seconds() -> None:
    fleet = _mig(FakeInstance(1, "3g.40gb", ("MIG-1",)))
    fleet.gpus[0].gpm = False
    probe = _open(fleet)
    fleet.gpus[0].instances = []
    changes = []
    for _ in range(5):
        fleet.advance()
        changes.append(probe.read().inventory_changed)
    assert changes == [False, False, False, False, True]
    assert probe.inventory().devices[0].instances == ()
    fleet.gpus[0].instances = [FakeInstance(1, "3g.40gb", ("MIG-1",))]
    fleet.advance(5)
    probe.read()
    assert [each.generation for each in probe.inventory().devices[0].instances] == [1]


def test_an_instance_that_gpm_no_longer_knows_is_looked_for_at_the_next_tick() -> None:
    fleet = _mig(FakeInstance(1, "3g.40gb", ("MIG-1",)), FakeInstance(2, "4g.40gb", ("MIG-2",)))
    probe = _open(fleet)
    fleet.gpus[0].instances.pop(0)
    assert _activity(fleet, probe)["1"] == unknown(NOT_READ)
    assert set(_activity(fleet, probe)) == {"2"}


def test_buffers_are_given_back_when_an_instance_goes_and_at_closing() -> None:
    fleet = _mig(FakeInstance(1, "3g.40gb", ("MIG-1",)), FakeInstance(2, "4g.40gb", ("MIG-2",)))
    probe = _open(fleet)
    _activity(fleet, probe)
    assert len(fleet.gpm_buffers) == 4
    fleet.gpus[0].instances.pop(0)
    _activity(fleet, probe, 5)
    assert len(fleet.gpm_buffers) == 2
    probe.close()
    assert fleet.gpm_buffers == {}


def test_mig_switched_on_is_told_and_its_utilisation_stops() -> None:
    fleet = fake_fleet(1)
    probe = _open(fleet)
    fleet.gpus[0].mig_mode, fleet.gpus[0].instances = 1, [FakeInstance(1, "7g.80gb", ("MIG-1",))]
    fleet.advance(5)
    assert probe.read().inventory_changed
    assert probe.inventory().devices[0].is_mig


def test_a_card_lost_while_its_instances_are_asked_is_lost_as_a_whole() -> None:
    fleet = _mig(FakeInstance(1, "3g.40gb", ("MIG-1",)))
    probe = _open(fleet)
    fleet.gpus[0].codes["nvmlGpmMigSampleGet"] = LOST
    fleet.advance()
    reading = probe.read().devices[0]
    assert (reading.lost, reading.power_mw, reading.instances) == (True, unknown(GPU_LOST), ())

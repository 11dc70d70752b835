"""dcgm-exporter's pages: one device however often it is named, instances, blanks, both generations of names."""

import pytest
from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NOT_READ,
    NOT_SUPPORTED,
    OTHER_THROTTLE,
    POWER_CAP,
    SENTINEL,
    THERMAL,
    DeviceReading,
    Reading,
    lost_device,
    unknown,
)
from wattledger_agent.probes.scrape import ScrapeProbe

from tests.fake_scrape import BLANK, GPU_A, GPU_B, URL, Pages, page, sample

POWER, ENERGY, UTIL = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL"
ACTIVE, USED = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED"


def opened(*pages: str, node: str = "") -> ScrapeProbe:
    probe = ScrapeProbe(URL, Pages(pages[0], *pages), node=node, boot="boot-1")
    probe.open()
    return probe


def read(*lines: str) -> tuple[Device, DeviceReading]:
    """The one device that a page has."""
    probe = opened(page(*lines))
    (device,), (reading,) = probe.inventory().devices, probe.read().devices
    return device, reading


def mig(name: str, value: object, instance: int, profile: str, **labels: str) -> str:
    return sample(name, value, GPU_I_ID=str(instance), GPU_I_PROFILE=profile, **labels)


def test_a_device_is_what_its_labels_say() -> None:
    device, reading = read(
        sample(POWER, "301.25"), sample(ENERGY, 126272101025), sample(UTIL, 45), sample(USED, 1024),
        sample("DCGM_FI_DEV_FB_TOTAL", 81920), sample("DCGM_FI_DEV_GPU_TEMP", 40),
        sample("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0x4 | 0x20 | 0x1), sample("DCGM_FI_DEV_MINOR_NUMBER", 4),
        sample("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 400),
    )  # fmt: skip
    assert device == Device(
        GPU_A, "nvidia", "NVIDIA A100-SXM4-80GB", "550.90.07", 0, 4, "0000:83:00.0", counter_epoch="boot-1/550.90.07/0",
        counter_scope="gpu", power_field=POWER, power_limit_mw=400_000, memory_bytes=80 << 30,
    )  # fmt: skip
    assert reading == DeviceReading(
        GPU_A, Reading(301_250), Reading(126_272_101_025_000), Reading(450_000), Reading(1 << 30), Reading(40),
        Reading(POWER_CAP | THERMAL),
    )  # fmt: skip


def test_the_label_device_is_not_the_minor_number() -> None:
    """B39 (jobstats#34): dcgm-exporter writes `nvidia` and its own index there; minor 4 may be index 0."""
    device, _ = read(sample(POWER, 100, gpu="6", device="nvidia6"))
    assert (device.index, device.minor) == (6, -1)


def test_names_and_units_of_exporter_4_9_read_the_same() -> None:
    label = {"Hostname": "", "hostname": "gpu-7", "DCGM_FI_DRIVER_VERSION": "", "DCGM_FI_SYSTEM_DRIVER_VERSION": "590"}
    device, reading = read(
        sample("DCGM_FI_DEV_BOARD_POWER_WATTS", "301.25", **label),
        sample("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 126272101, **label),
        sample("DCGM_FI_DEV_GPU_UTIL_RATIO", "0.45", **label),
        sample("DCGM_FI_DEV_FB_USED_BYTES", 1 << 30, **label),
        sample("DCGM_FI_DEV_FB_CAPACITY_BYTES", 80 << 30, **label),
        sample("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 40, **label),
        sample("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 0x100, **label),
    )
    assert (device.driver, device.memory_bytes, device.power_field) == (
        "590",
        80 << 30,
        "DCGM_FI_DEV_BOARD_POWER_WATTS",
    )
    assert reading == DeviceReading(
        GPU_A, Reading(301_250), Reading(126_272_101_000_000), Reading(450_000), Reading(1 << 30), Reading(40),
        Reading(OTHER_THROTTLE),
    )  # fmt: skip


BLANKS = [
    ("B03 the middle one of 45, 4294967295, 47", UTIL, ["45", "4294967295", "47"], [450_000, SENTINEL, 470_000]),
    ("B03 other shapes", UTIL, ["808334905", "686103", "1980"], [IMPLAUSIBLE] * 3),
    ("B04 a 64-bit blank", UTIL, ["9223372036854775792"], [SENTINEL]),
    ("B04 a float's blank", ACTIVE, ["140737488355328.0"], [SENTINEL]),
    ("B05", UTIL, ["9223372036854775794"], [SENTINEL]),
    ("a 32-bit blank", UTIL, ["2147483634"], [SENTINEL]),
]


@pytest.mark.parametrize(("name", "texts", "expected"), [case[1:] for case in BLANKS], ids=[case[0] for case in BLANKS])
def test_a_blank_hides_its_own_reading_and_no_other(name: str, texts: list[str], expected: list[int | str]) -> None:
    probe = opened(*(page(sample(POWER, f"69.43{n}"), sample(name, text)) for n, text in enumerate(texts)))
    for n, each in enumerate(expected):
        (reading,) = probe.read().devices
        assert reading.busy_ppm == (unknown(each) if isinstance(each, str) else Reading(each))
        assert reading.power_mw == Reading(69_430 + n)


def test_b12_the_parents_power_on_every_mig_instance_is_one_power() -> None:
    """dcgm-exporter#317: an A30 with instances 3 to 6; adding them gives 210.8 W."""
    power = {3: "52.636", 4: "52.636", 5: "52.746", 6: "52.746"}
    device, reading = read(
        *(mig(POWER, watts, number, "1g.6gb", modelName="NVIDIA A30") for number, watts in power.items()),
        *(mig(ENERGY, 4294000000 + number, number, "1g.6gb", modelName="NVIDIA A30") for number in power),
    )
    assert reading.power_mw == Reading(52_691)
    assert reading.energy_uj == Reading(4_294_000_006_000)
    assert (device.device, device.slices, device.mig_layout, device.sharing) == (GPU_A, 4, "1g+1g+1g+1g", "mig")


def test_b15_weights_of_instances_with_one_loaded_gpc_each_are_equal() -> None:
    """DCGM#138: 1.0, 0.5 and 0.33 are shares of each instance's own whole; slices times share is one GPC each."""
    device, reading = read(
        mig(ACTIVE, "1.0", 9, "1g.10gb"), mig(ACTIVE, "0.5", 5, "2g.20gb"), mig(ACTIVE, "0.333333", 1, "3g.40gb")
    )
    assert [(one.gpu_instance, one.slices) for one in device.instances] == [("1", 3), ("5", 2), ("9", 1)]
    slices = {one.gpu_instance: one.slices for one in device.instances}
    weights = [slices[one.gpu_instance] * (one.activity_ppm.value or 0) for one in reading.instances]
    assert weights == [999_999, 1_000_000, 1_000_000]


def test_an_activity_above_the_whole_is_implausible() -> None:
    """DCGM#152 shows 1.294."""
    _, reading = read(mig(ACTIVE, "1.294", 1, "3g.40gb"), mig(ACTIVE, "0.2", 5, "2g.20gb"))
    assert [one.activity_ppm for one in reading.instances] == [unknown(IMPLAUSIBLE), Reading(200_000)]


@pytest.mark.parametrize("util", ["0", "N/A", BLANK])
def test_b18_utilisation_of_a_device_in_mig_mode_is_unknown(util: str) -> None:
    """dcgm-exporter#216 and #50: 0 or nothing under full load."""
    lines = [mig(POWER, "300", 1, "3g.40gb"), mig(UTIL, util, 1, "3g.40gb")]
    _, reading = read(*lines)
    assert reading.busy_ppm == unknown(NOT_SUPPORTED)
    assert [one.activity_ppm for one in reading.instances] == [unknown(NOT_SUPPORTED)]
    _, reading = read(sample(POWER, 300), sample(UTIL, util), sample("DCGM_FI_DEV_MIG_MODE", 1))
    assert reading.busy_ppm == unknown(NOT_SUPPORTED)


def test_memory_belongs_to_the_instance_and_is_added_once_for_each() -> None:
    device, reading = read(
        mig(USED, 1000, 1, "3g.40gb", pod="a"), mig(USED, 1000, 1, "3g.40gb", pod="b"), mig(USED, 24, 5, "2g.20gb"),
        mig("DCGM_FI_DEV_FB_TOTAL", 20480, 5, "2g.20gb"),
    )  # fmt: skip
    assert reading.memory_used_bytes == Reading(1024 << 20)
    assert device.instances == (
        MigInstance("1", "", "3g.40gb", 3), MigInstance("5", "", "2g.20gb", 2, 20 << 30),
    )  # fmt: skip
    _, reading = read(mig(USED, 1000, 1, "3g.40gb"), mig(USED, BLANK, 5, "2g.20gb"))
    assert reading.memory_used_bytes == unknown(SENTINEL)


PODS = [
    ("C1 three pods", [{"pod": "a"}, {"pod": "b"}, {"pod": "c"}], "time_sliced"),
    ("B14 replicas with their number", [{"pod": "a", "vgpu": "0"}, {"pod": "b", "vgpu": "1"}], "time_sliced"),
    ("renamed by Prometheus", [{"pod": "dcgm-x", "exported_pod": p} for p in "ab"], "time_sliced"),
    ("C12 with and without a pod", [{"pod": "a"}, {}], "exclusive"),
    ("C12 renamed, with and without", [{"pod": "dcgm-x", "exported_pod": "a"}, {"container": ""}], "exclusive"),
    ("one pod", [{"pod": "a", "namespace": "n", "container": "c"}], "exclusive"),
    ("jobs of one node", [{"hpc_job": "1"}, {"hpc_job": "2"}], "time_sliced"),
]


@pytest.mark.parametrize(("labels", "sharing"), [case[1:] for case in PODS], ids=[case[0] for case in PODS])
def test_a_device_named_for_every_pod_is_one_device(labels: list[dict[str, str]], sharing: str) -> None:
    """dcgm-exporter#587 (0.714 for each of three), #582, #237, #340."""
    lines = [sample(name, value, **one) for name, value in ((ACTIVE, "0.714"), (POWER, "200")) for one in labels]
    device, reading = read(*lines)
    assert (reading.device, reading.power_mw, reading.busy_ppm) == (GPU_A, Reading(200_000), Reading(714_000))
    assert device.sharing == sharing


UUIDS = [
    ("C2 a replica", "UUID", f"{GPU_A}::1"),
    ("C2 the tenth replica", "UUID", f"{GPU_A}::10"),
    ("B14 a replica with a dash", "UUID", f"{GPU_A}-0"),
    ("a vGPU of GKE", "UUID", f"{GPU_A}/vgpu0"),
    ("lower case label", "uuid", GPU_A),
    ("gpu_uuid", "gpu_uuid", GPU_A),
    ("renamed by Prometheus", "exported_UUID", GPU_A),
    ("upper case digits", "UUID", GPU_A.replace("aaaa", "AAAA")),
]


@pytest.mark.parametrize(("name", "uuid"), [case[1:] for case in UUIDS], ids=[case[0] for case in UUIDS])
def test_the_uuid_is_the_devices_however_it_is_written(name: str, uuid: str) -> None:
    device, reading = read(sample(POWER, 200, of="", **{name: uuid}))
    assert (device.device, reading.device, reading.power_mw) == (GPU_A, GPU_A, Reading(200_000))


def test_mig_uuids_lead_to_the_device_that_they_are_in() -> None:
    old = f"MIG-{GPU_A}/5/0"
    new = "MIG-99999999-cccc-4ccc-8ccc-cccccccccccc"
    device, reading = read(
        mig(ACTIVE, "0.25", 1, "3g.40gb"),
        sample(ACTIVE, "0.5", of=old, GPU_I_PROFILE="2g.20gb"),
        mig(ACTIVE, "0.75", 9, "1g.10gb", of=new),
    )
    assert [(one.gpu_instance, one.uuid) for one in device.instances] == [("1", ""), ("5", old), ("9", new)]
    assert [one.activity_ppm for one in reading.instances] == [Reading(250_000), Reading(500_000), Reading(750_000)]


def test_a_mig_uuid_without_its_device_is_said_and_left_out() -> None:
    probe = opened(page(sample(POWER, 1), sample(ACTIVE, "0.5", of="MIG-" + GPU_B[4:], gpu="7", pci_bus_id="")))
    assert len(probe.inventory().devices) == 1
    assert any(note.startswith("1 series name a MIG instance") for note in probe.inventory().notes)


ZERO = "GPU-00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("uuid", [ZERO, "", "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff", "N/A"])
def test_a_uuid_that_is_none_gives_way_to_the_pci_address(uuid: str) -> None:
    probe = opened(page(sample(POWER, 1, of=uuid), sample(POWER, 2, of=uuid, pci_bus_id="00000000:84:00.0", gpu="1")))
    assert [one.device for one in probe.inventory().devices] == ["0000:83:00.0", "0000:84:00.0"]


def test_devices_that_nothing_tells_apart_are_refused() -> None:
    with pytest.raises(ProbeUnavailable, match="keep the label UUID"):
        opened(page(sample(POWER, 1, of="", pci_bus_id="")))


def test_c3_an_idle_device_whose_series_vanish_is_unknown_and_stays_known() -> None:
    """dcgm-exporter#569: with sharing on, devices without a pod are left out."""
    both = page(sample(POWER, 100), sample(POWER, 60, of=GPU_B, gpu="1", pci_bus_id="00000000:84:00.0"))
    probe = opened(both, page(sample(POWER, 100)), both)
    assert [one.power_mw for one in probe.read().devices] == [Reading(100_000), Reading(60_000)]
    told = probe.inventory()
    tick = probe.read()
    assert [one.power_mw for one in tick.devices] == [Reading(100_000), unknown(NOT_READ)]
    assert not tick.devices[1].lost and not tick.inventory_changed
    assert probe.inventory().devices == told.devices
    probe.close()
    probe.open()
    assert probe.inventory().devices == told.devices


def test_a_device_that_fell_off_the_bus_is_lost_only_while_it_reads_nothing() -> None:
    """The XID stays until the driver is reset (DCGM#277): 79 on a card that reads again is history."""
    gone = page(sample(POWER, BLANK), sample(ENERGY, BLANK), sample("DCGM_FI_DEV_XID_ERRORS", 79))
    back = page(sample(POWER, 90), sample(ENERGY, 5), sample("DCGM_FI_DEV_XID_ERRORS", 79))
    other = page(sample(POWER, BLANK), sample(ENERGY, BLANK), sample("DCGM_FI_DEV_XID_ERRORS", 31))
    probe = opened(gone, back, other)
    assert probe.read().devices == (lost_device(GPU_A),)
    (reading,) = probe.read().devices
    assert (reading.lost, reading.power_mw) == (False, Reading(90_000))
    (reading,) = probe.read().devices
    assert (reading.lost, reading.power_mw) == (False, unknown(SENTINEL))


PLAUSIBLE = [
    ("above 1.5 times the limit", "601", "45", unknown(IMPLAUSIBLE)),
    ("at 1.5 times the limit", "600", "45", Reading(600_000)),
    ("B55 80 mW under load", "0.08", "97", unknown(IMPLAUSIBLE)),
    ("80 mW asleep", "0.08", "0", Reading(80)),
    ("nothing at all", "0", "0", unknown(IMPLAUSIBLE)),
]


@pytest.mark.parametrize(
    ("watts", "util", "expected"), [case[1:] for case in PLAUSIBLE], ids=[case[0] for case in PLAUSIBLE]
)
def test_power_that_can_not_be_is_no_reading(watts: str, util: str, expected: Reading) -> None:
    _, reading = read(sample(POWER, watts), sample(UTIL, util), sample("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", 400))
    assert reading.power_mw == expected


def test_an_instance_with_a_new_profile_is_another_instance_and_full_devices_drop_the_old_ones() -> None:
    halves = page(mig(ACTIVE, "0.1", 1, "3g.40gb"), mig(ACTIVE, "0.1", 2, "3g.40gb"))
    idle = page(mig(ACTIVE, "0.1", 1, "3g.40gb"))
    anew = page(mig(ACTIVE, "0.1", 1, "4g.40gb"), mig(ACTIVE, "0.1", 5, "2g.20gb"))
    probe = opened(halves, idle, anew)
    probe.inventory()
    assert not probe.read().inventory_changed
    tick = probe.read()
    assert [one.activity_ppm for one in tick.devices[0].instances] == [Reading(100_000), unknown(NOT_READ)]
    assert not tick.inventory_changed
    assert probe.read().inventory_changed
    (device,) = probe.inventory().devices
    assert [(one.gpu_instance, one.profile, one.generation) for one in device.instances] == [
        ("1", "4g.40gb", 1), ("5", "2g.20gb", 0),
    ]  # fmt: skip


def test_instances_without_a_profile_are_said_and_left_out() -> None:
    probe = opened(page(sample(ACTIVE, "0.5", GPU_I_ID="3"), sample(POWER, "300", GPU_I_ID="3")))
    (device,) = probe.inventory().devices
    assert (device.sharing, device.instances) == ("mig", ())
    assert any("keep the label GPU_I_PROFILE" in note for note in probe.inventory().notes)
    assert probe.read().devices[0].power_mw == Reading(300_000)


def test_of_a_page_of_several_machines_only_this_ones_devices_are_taken() -> None:
    federation = page(
        sample(POWER, 100, Hostname="gpu-7.example.org"),
        sample(POWER, 60, of=GPU_B, Hostname="gpu-8.example.org", gpu="1", pci_bus_id="00000000:84:00.0"),
    )
    probe = opened(federation, node="gpu-8")
    assert [one.device for one in probe.inventory().devices] == [GPU_B]
    for node in ("", "gpu-9"):
        with pytest.raises(ProbeUnavailable, match="devices of 2 machines"):
            opened(federation, node=node)
    opened(
        page(sample(POWER, 100, Hostname="dcgm-exporter-x7f2")), node="gpu-8"
    )  # one machine: its name does not matter


def test_a_driver_or_a_card_that_is_new_changes_the_inventory() -> None:
    before, after = sample(POWER, 100), sample(POWER, 100, DCGM_FI_DRIVER_VERSION="560.1")
    probe = opened(page(before), page(after), page(after, sample(POWER, 1, of=GPU_B, pci_bus_id="", gpu="1")))
    probe.inventory()
    assert not probe.read().inventory_changed
    assert probe.read().inventory_changed
    assert probe.inventory().devices[0].counter_epoch == "boot-1/560.1/0"
    assert probe.read().inventory_changed
    assert len(probe.inventory().devices) == 2
    assert not probe.read().inventory_changed


def test_a_power_limit_that_is_set_again_changes_no_inventory() -> None:
    limit = "DCGM_FI_DEV_ENFORCED_POWER_LIMIT"
    probe = opened(page(sample(POWER, 100), sample(limit, 400)), page(sample(POWER, 100), sample(limit, 300)))
    assert probe.inventory().devices[0].power_limit_mw == 400_000
    assert [probe.read().inventory_changed, probe.read().inventory_changed] == [False, False]
    assert probe.inventory().devices[0].power_limit_mw == 300_000


@pytest.mark.parametrize(
    ("model", "scope"), [("NVIDIA GH200 480GB", "module"), ("NVIDIA GB200", "module"), ("NVIDIA H200", "gpu")]
)
def test_the_counter_of_a_superchip_covers_its_module(model: str, scope: str) -> None:
    device, _ = read(sample(ENERGY, 5, modelName=model))
    assert device.counter_scope == scope


def test_a_page_without_a_gpu_is_refused_with_what_to_do() -> None:
    for text in ("", "<html>login</html>", "node_load1 0.5\n"):
        with pytest.raises(ProbeUnavailable, match="has no series of a GPU exporter: it must be the page of"):
            opened(text)

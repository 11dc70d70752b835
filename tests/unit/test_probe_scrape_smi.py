"""nvidia_gpu_exporter's pages: the captures of real cards, its NVML backend's MIG series, its own health."""

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.reading import (
    NOT_READ,
    NOT_SUPPORTED,
    STALE,
    UNREAD,
    DeviceReading,
    InstanceReading,
    ProcessReading,
    Reading,
    unknown,
)
from wattledger_agent.probes.scrape import ScrapeProbe

from tests.fake_scrape import CAPTURED, CAPTURES, T0_US, URL, Pages, page

captured = pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"the captures are not there: {CAPTURES}")
H200, H200_MIG, L40S = CAPTURED
UUID = "df6e7a7c-7314-46f8-abc4-b88b36dcf3aa"
INFO = (
    f'nvidia_smi_gpu_info{{uuid="{UUID}",name="NVIDIA H200",driver_version="590.48.01",serial="[N/A]",index="2",'
    'pci_bus_id="00000000:83:00.0"} 1'
)


def opened(text: str, at_us: int = T0_US) -> ScrapeProbe:
    probe = ScrapeProbe(URL, Pages(text), clock=ManualClock(at_us))
    probe.open()
    return probe


def of_capture(name: str) -> ScrapeProbe:
    return opened((CAPTURES / f"{name}.metrics").read_text())


def processes(**memory: int) -> tuple[ProcessReading, ...]:
    return tuple(ProcessReading(int(pid[1:]), UNREAD, Reading(used)) for pid, used in memory.items())


@captured
def test_a_captured_h200_under_load() -> None:
    probe = of_capture(H200)
    assert probe.inventory().devices == (
        Device(
            "0000:83:00.0", "nvidia", "NVIDIA H200", "590.48.01", 0, -1, "0000:83:00.0", counter_epoch="590.48.01/0",
            power_field="nvidia_smi_power_draw_watts", power_limit_mw=700_000, memory_bytes=150_754_820_096,
        ),
    )  # fmt: skip
    assert probe.read().devices == (
        DeviceReading(
            "0000:83:00.0", Reading(627_400), UNREAD, Reading(1_000_000), Reading(33_934_016_512), Reading(52),
            Reading(0), (), processes(p10291=2_690_646_016, p10293=1_616_904_192, p10309=29_605_494_784), "",
        ),
    )  # fmt: skip
    assert any("no energy counter" in note for note in probe.inventory().notes)


@captured
def test_a_captured_h200_in_mig_mode_has_power_and_no_utilisation() -> None:
    probe = of_capture(H200_MIG)
    (device,), (reading,) = probe.inventory().devices, probe.read().devices
    assert (device.sharing, device.is_mig, device.slices, device.instances) == ("mig", True, 7, ())
    assert reading == DeviceReading(
        "0000:83:00.0", Reading(295_010), UNREAD, unknown(NOT_SUPPORTED), Reading(17_782_800_384), Reading(36),
        Reading(0), (), processes(p12249=2_300_575_744, p12250=1_226_833_920, p12267=14_183_038_976), "",
    )  # fmt: skip
    assert any("the page names no instance" in note for note in probe.inventory().notes)


@captured
def test_a_captured_l40s_without_a_process() -> None:
    (reading,) = of_capture(L40S).read().devices
    assert (reading.power_mw, reading.processes, reading.processes_reason) == (Reading(144_970), (), "")


def test_the_uuid_gets_back_what_the_exporter_cuts_off() -> None:
    probe = opened(page(INFO, f'nvidia_smi_power_draw_watts{{uuid="{UUID}"}} 28.07'))
    (device,) = probe.inventory().devices
    assert (device.device, device.index, device.pci) == (f"GPU-{UUID}", 2, "0000:83:00.0")


def test_mig_series_of_the_nvml_backend_are_instances() -> None:
    def of(name: str, value: str, **labels: str) -> str:
        text = ",".join(f'{key}="{one}"' for key, one in {"uuid": UUID, **labels}.items())
        return f"nvidia_smi_{name}{{{text}}} {value}"

    first, second, third = (f"MIG-{n}1111111-cccc-4ccc-8ccc-cccccccccccc" for n in "123")
    probe = opened(
        page(
            INFO, of("mig_mode_current", "1"), of("power_draw_watts", "295.01"),
            of("energy_joules_total", "1234567.891"),
            of("mig_info", "1", mig_uuid=second, gpu_instance_id="1", compute_instance_id="1", profile="1c.3g.71gb"),
            of("mig_info", "1", mig_uuid=first, gpu_instance_id="1", compute_instance_id="0", profile="1c.3g.71gb"),
            of("mig_info", "1", mig_uuid=third, gpu_instance_id="9", compute_instance_id="0", profile="1g.18gb"),
            of("mig_graphics_activity_ratio", "0.5", gpu_instance_id="1"),
            of("mig_memory_total_bytes", "7.6e+10", gpu_instance_id="1"),
            of("memory_total_bytes", "1.5e+11"),
            of("compute_apps", "1"), "nvidia_smi_compute_apps_last_collect_success 1",
            of("compute_app_info", "1", pid="77", process_name="/secret/train.py", gpu_instance_id="1"),
        )
    )  # fmt: skip
    (device,), (reading,) = probe.inventory().devices, probe.read().devices
    assert device.instances == (
        MigInstance("1", first, "3g.71gb", 3, 76_000_000_000, 0, (first, second)),
        MigInstance("9", third, "1g.18gb", 1, None, 0, (third,)),
    )
    assert device.memory_bytes == 150_000_000_000
    assert reading.energy_uj == Reading(1_234_567_891_000)
    assert reading.instances == (InstanceReading("1", Reading(500_000)), InstanceReading("9", UNREAD))
    assert reading.processes == (ProcessReading(77, UNREAD, UNREAD, "1"),)


HEALTH = [
    ("just collected", 1, T0_US // 1_000_000, Reading(28_070)),
    ("the last collection failed", 0, T0_US // 1_000_000, unknown(STALE)),
    ("collected long ago", 1, T0_US // 1_000_000 - 200, unknown(STALE)),
]


@pytest.mark.parametrize(("success", "at_s", "expected"), [case[1:] for case in HEALTH], ids=[c[0] for c in HEALTH])
def test_what_the_exporter_says_of_its_own_collection_counts(success: int, at_s: int, expected: Reading) -> None:
    lines = [
        f"nvidia_smi_last_collect_success {success}",
        f"nvidia_smi_last_collect_success_timestamp_seconds {at_s / 1e9:.9f}e+09",
        f'nvidia_smi_power_draw_watts{{uuid="{UUID}"}} 28.07',
    ]
    probe = opened(page(INFO, *lines))
    assert probe.read().devices[0].power_mw == expected
    assert probe.read().devices[0].power_mw == unknown(STALE)  # the same collection again


@pytest.mark.parametrize("broken", ["apps 2", "success 0", "no count"])
def test_a_list_of_processes_that_may_have_holes_is_none(broken: str) -> None:
    count = f'nvidia_smi_compute_apps{{uuid="{UUID}"}} {2 if broken == "apps 2" else 1}'
    lines = [
        f'nvidia_smi_power_draw_watts{{uuid="{UUID}"}} 28.07',
        f'nvidia_smi_compute_app_info{{pid="77",uuid="{UUID}"}} 1',
        f"nvidia_smi_compute_apps_last_collect_success {0 if broken == 'success 0' else 1}",
    ]
    probe = opened(page(INFO, *lines, *([] if broken == "no count" else [count])))
    (reading,) = probe.read().devices
    assert (reading.processes, reading.processes_reason) == (None, NOT_READ)

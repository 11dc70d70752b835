"""The script for a real NVIDIA machine: its parsing and its sums, on texts and on fake cards."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.reading import Reading, unknown

from tests.fake_nvml import FakeNvml, fake_fleet
from tests.fake_nvml_card import AVERAGE

_SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_check.py"


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpu_check", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    return module


gpu_check = _script()


class _FleetClock(ManualClock):
    """Sleeping is what lets a fake machine's time pass."""

    def __init__(self, fleet: FakeNvml) -> None:
        self._fleet = fleet
        super().__init__(fleet.clock.now_us)

    def wall_us(self) -> int:
        return self._fleet.clock.wall_us()

    def monotonic_s(self) -> float:
        return self._fleet.clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        self._fleet.advance(seconds)


def test_nvidia_smi_lines_become_integers_and_marks_become_unknown() -> None:
    told = gpu_check.parse_smi(
        "GPU-a, 295.01, 294.14, 295.01, 16959, 41\n"
        "GPU-b, [N/A], 61.30, [Not Supported], [Insufficient Permissions], ERR!\n"
        'Field "power.draw.average" is not a valid field to query.\n'
        "\n"
    )
    assert told == {
        "GPU-a": gpu_check.SmiCard((295_010, 294_140, 295_010), 16959 << 20, 41),
        "GPU-b": gpu_check.SmiCard((None, 61_300, None), None, None),
    }


@pytest.mark.parametrize(
    ("before", "smi", "after", "agrees"),
    [
        (Reading(295_010), 295_020, Reading(295_005), True),
        (Reading(295_010), 295_031, Reading(295_020), False),
        (Reading(290_000), 295_000, Reading(300_000), True),
        (Reading(290_000), None, Reading(300_000), None),
        (unknown("sentinel"), 295_000, Reading(300_000), None),
    ],
)
def test_a_value_agrees_when_it_lies_between_two_readings(
    before: Reading, smi: int | None, after: Reading, agrees: bool | None
) -> None:
    assert gpu_check.between(before, smi, after, 10) is agrees


def test_agreement_counts_by_column() -> None:
    fleet = fake_fleet(2)
    probe = fleet.probe()
    probe.open()
    first, second = (gpu.uuid for gpu in fleet.gpus)
    text = f"{first}, 300.00, 1.00, 2.00, 4096, 45\n{second}, 310.00, 1.00, 2.00, 4096, [N/A]\n"
    told = gpu_check.agreement(probe, lambda: text, 3, _FleetClock(fleet))
    assert told["counts"] == {
        "power_mw": {"agree": 3, "differ": 3, "unknown": 0},
        "memory_used_bytes": {"agree": 6, "differ": 0, "unknown": 0},
        "temperature_c": {"agree": 3, "differ": 0, "unknown": 3},
    }


def test_counter_and_power_of_a_steady_load_agree_and_b35_shows_as_an_error() -> None:
    fleet = fake_fleet(2)
    fleet.gpus[1].field_raw[AVERAGE] = 523_170
    probe = fleet.probe()
    probe.open()
    steady, odd = gpu_check.watch(probe, _FleetClock(fleet), 60, 0.1).values()
    told = gpu_check.counter_against_power(steady, 10)
    assert (told["power_uj"], told["power_1hz_uj"]) == (18_000_000_000, 18_000_000_000)
    # The counter itself is cut to whole mJ.
    assert 17_999_999_000 <= told["counter_uj"] <= 18_000_000_000
    assert (told["power_uj_error_ppm"], told["power_1hz_uj_error_ppm"]) == (0, 0)
    assert (told["seconds"], told["busy_ppm_max"]) == (60.0, 400_000)
    assert gpu_check.counter_against_power(odd, 10)["power_uj_error_ppm"] == 743_900


def test_without_a_counter_nothing_is_compared() -> None:
    fleet = fake_fleet(1)
    fleet.gpus[0].field_codes[83] = 3
    fleet.gpus[0].codes["nvmlDeviceGetTotalEnergyConsumption"] = 3
    probe = fleet.probe()
    probe.open()
    (card,) = gpu_check.watch(probe, _FleetClock(fleet), 5, 1.0).values()
    told = gpu_check.counter_against_power(card, 1)
    assert (told["counter_uj"], told["power_uj"], told["power_uj_error_ppm"]) == (None, 1_500_000_000, None)
    assert gpu_check.idle_power_mw(probe, _FleetClock(fleet), 5, 5) == {fleet.gpus[0].uuid: None}


def test_b59_idle_power_that_rises_from_50_to_100_w_while_read_is_found() -> None:
    fleet = fake_fleet(1)
    probe = fleet.probe()
    probe.open()
    uuid, idle = fleet.gpus[0].uuid, {}
    for name, power_mw, period_s in (("alone", 50_000, 20), ("1_hz", 100_000, 1), ("10_hz", 50_500, 0.1)):
        fleet.gpus[0].power_mw = power_mw
        idle[name] = gpu_check.idle_power_mw(probe, _FleetClock(fleet), 20, period_s)
    assert {name: told[uuid] for name, told in idle.items()} == pytest.approx(
        {"alone": 50_000, "1_hz": 100_000, "10_hz": 50_500}, abs=1
    )
    counts = {"power_mw": {"agree": 5, "differ": 0, "unknown": 0}}
    report = {"agreement": {"counts": counts}, "under_load": {}, "idle_power_mw": idle}
    assert gpu_check.findings(report) == [f"{uuid}: reading at 1_hz raises idle power from 50000 to 100000 mW."]


def test_without_an_nvidia_driver_it_says_so_and_ends_with_2() -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has an NVIDIA driver")
    ended = subprocess.run([sys.executable, str(_SCRIPT)], capture_output=True, text=True, check=False)
    assert ended.returncode == gpu_check.NOTHING_HERE
    assert ended.stderr.startswith("Nothing to check here: libnvidia-ml.so.1 was not found")
    assert ended.stdout == ""

"""Known mistakes about NVIDIA's readings, from the driver's own bytes to the energy that the core makes of them.

Expected values are worked out from the reports by hand: W × s = J, mJ of a counter × 1,000 = µJ.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.fake_nvml import FakeNvml
from tests.fake_nvml_card import (
    AVERAGE,
    ENERGY,
    INSTANT,
    NOT_SUPPORTED,
    PROCESS_RECORD_535,
    U32,
    U64,
    FakeGpu,
    FakeInstance,
    FakeProcess,
)
from tests.measurement_path import Cells, J, MeasuredNode, S, held, processes_of

CARD, OTHER = "GPU-a", "GPU-b"
NO_POWER = {AVERAGE: NOT_SUPPORTED, INSTANT: NOT_SUPPORTED}
WITHOUT_COUNTER = {"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}


def card(**changed: object) -> FakeGpu:
    return FakeGpu(**{"uuid": CARD, "index": 0, **changed})  # type: ignore[arg-type]


def node_of(
    folder: Path, *gpus: FakeGpu, period_s: float = 1, jobs: Mapping[int, str] | None = None
) -> tuple[FakeNvml, MeasuredNode]:
    """`jobs`: whose each process is, by pid."""
    machine = FakeNvml(list(gpus))
    shares_of = processes_of(jobs or {})
    return machine, MeasuredNode(folder, machine.clock, machine.probe(), period_s=period_s, shares_of=shares_of)


def test_b01_a_counter_that_fell_is_a_reset_and_its_energy_is_that_of_power(tmp_path: Path) -> None:
    """aitra-meter 59, codecarbon, vllm 56354: (300 + 310) / 2 × 10 = 3,050 J; 42 mJ is where the new run began."""
    gpu = card(energy_uj=123_456_789_000)
    machine, node = node_of(tmp_path, gpu, period_s=10)
    node.tick()
    machine.clock.sleep(10)
    gpu.power_mw, gpu.energy_uj = 310_000, 42_000
    node.tick()
    node.run(lambda: machine.advance(10))
    first, second = node.lines(held("j", CARD))
    assert (first.energy_uj, first.method) == (3050 * J, "power")
    assert second.energy_uj == 3100 * J
    before, after = node.wire()
    assert before["counter_epoch"] != after["counter_epoch"]
    assert (after["epoch_from_tick"], after["counter_base_uj"]) == (1, 42_000 + 3100 * J)


@pytest.mark.parametrize("fallen_uj", [0, 42_000, 999_000_000, 4_999_999_000])
@pytest.mark.parametrize("at", [1, 4, 9])
def test_b01_wherever_it_falls_the_energy_is_that_of_power(tmp_path: Path, fallen_uj: int, at: int) -> None:
    """Ten seconds of 300 W; to nothing, a little, or hardly lower than it was."""
    gpu = card(energy_uj=5_000_000_000, busy=0)
    machine, node = node_of(tmp_path, gpu)
    node.run(machine.advance, at)
    gpu.energy_uj = fallen_uj - 300 * J
    machine.advance()
    node.tick()
    node.run(machine.advance, 9 - at)
    assert node.energy_uj(held("j", CARD)) == {"j": 3000 * J}


def test_b01_says_that_the_counter_was_reset(tmp_path: Path) -> None:
    gpu = card()
    machine, node = node_of(tmp_path, gpu)
    node.run(machine.advance, 5)
    gpu.energy_uj = 42_000
    node.run(machine.advance, 5)
    assert "reset" in node.marks(held("j", CARD))
    assert node.discrepancies(held("j", CARD)) == {"counter_reset"}


def test_b02_a_reset_without_power_is_unknown_and_not_zero(tmp_path: Path) -> None:
    gpu = card(energy_uj=123_456_789_000, field_codes=NO_POWER, codes={"nvmlDeviceGetPowerUsage": NOT_SUPPORTED})
    machine, node = node_of(tmp_path, gpu, period_s=10)
    node.tick()
    machine.clock.sleep(10)
    gpu.energy_uj = 42_000
    node.tick()
    (line,) = node.lines(held("j", CARD))
    assert (line.energy_uj, line.span_us, line.reason, line.method) == (None, 10 * S, "energy_unknown", "none")
    assert node.reasons("power_mw") == {"not_supported"}


GARBAGE: list[tuple[str, Sequence[int], Cells, set[str]]] = [
    # DCGM 199, go-dcgm 75, dcgm-exporter 418
    ("B03-all-ones", (45, U32, 47), [450_000, None, 470_000], {"sentinel"}),
    ("B03-garbage", (45, 808_334_905, 686_103, 1980, 47), [450_000, None, None, None, 470_000], {"implausible"}),
    ("B03-a-little-above-the-whole", (100, 101, 0), [1_000_000, None, 0], {"implausible"}),
    ("B03-a-blank-of-dcgm", (45, 0x7FFF_FFF0, 47), [450_000, None, 470_000], {"sentinel"}),
]


@pytest.mark.parametrize(("raw", "cells", "why"), [case[1:] for case in GARBAGE], ids=[case[0] for case in GARBAGE])
def test_a_share_that_is_none_costs_no_other_reading(
    tmp_path: Path, raw: Sequence[int], cells: Cells, why: set[str]
) -> None:
    gpu = card()
    machine, node = node_of(tmp_path, gpu)
    for share in raw:
        gpu.busy = share
        machine.advance()
        node.tick()
    assert (node.column("busy_ppm"), node.reasons("busy_ppm")) == (cells, why)
    assert node.column("power_mw") == [300_000] * len(raw)
    assert node.energy_uj(held("j", CARD)) == {"j": (len(raw) - 1) * 300 * J}


LISTS: list[tuple[str, dict[str, object]]] = [
    # nvitop 75: records of 32 bytes read as 24 are 1184, 0, 4294967295, …
    ("B06-records-of-another-size", {"process_record": PROCESS_RECORD_535,
                                     "processes": [FakeProcess(1184, sm=60), FakeProcess(16_040, sm=20)]}),
    # pynvml 50: pid and memory changed places
    ("B07-a-pid-beyond-any", {"processes": [FakeProcess(1184, sm=60), FakeProcess(6_498_025_472, memory=9980)]}),
    ("B07-a-pid-of-0", {"processes": [FakeProcess(0, memory=9980), FakeProcess(16_040, sm=20)]}),
    ("B07-one-above-the-highest", {"processes": [FakeProcess(4_194_305)]}),
]  # fmt: skip


@pytest.mark.parametrize("changed", [case[1] for case in LISTS], ids=[case[0] for case in LISTS])
def test_a_list_with_an_impossible_pid_attributes_nothing_not_even_its_good_rows(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    """Two jobs with half a card each and 300 W: without a list that can be believed, 1,500 J each in ten seconds."""
    machine, node = node_of(tmp_path, card(**changed), jobs={1184: "a", 16_040: "b"})
    node.run(machine.advance, 10)
    halves = held("a", CARD, den=2), held("b", CARD, den=2)
    assert node.reading().processes_reason == "abi_mismatch"
    assert [one["processes"] for one in node.wire()] == [[]]
    assert node.energy_uj(*halves) == {"a": 1500 * J, "b": 1500 * J}
    assert node.marks(*halves) == {"split_equally"}


def test_b06_a_list_that_can_be_read_is_used(tmp_path: Path) -> None:
    """The same two, as the binding expects them: 60 to 20 of 3,000 J."""
    gpu = card(processes=[FakeProcess(1184, sm=60), FakeProcess(16_040, sm=20)])
    machine, node = node_of(tmp_path, gpu, jobs={1184: "a", 16_040: "b"})
    node.run(machine.advance, 10)
    halves = held("a", CARD, den=2), held("b", CARD, den=2)
    assert node.energy_uj(*halves) == {"a": 2250 * J, "b": 750 * J}


@pytest.mark.parametrize("code", [0, 6], ids=["B09-success-with-none", "B09-not-found"])
def test_b09_no_sample_is_an_empty_list_and_no_error(tmp_path: Path, code: int) -> None:
    """The wrapper raises NVMLError(0) where the size query finds none. Without a sample for two seconds it is idle."""
    gpu = card(processes=[FakeProcess(1184)], samples=[], no_samples_code=code)
    machine, node = node_of(tmp_path, gpu, jobs={1184: "a"})
    node.run(machine.advance, 5)
    assert node.shares("a") == [None, None, 0, 0, 0, 0]
    assert node.energy_uj(held("a", CARD)) == {"a": 1500 * J}


def test_b12_four_instances_of_an_a30_have_one_power(tmp_path: Path) -> None:
    """dcgm-exporter 317: 52.636, 52.636, 52.746 and 52.746 W of one card are 52.7 W; ten seconds are 527 J, not
    2,108."""
    instances = [FakeInstance(gi, "1g.6gb", (f"MIG-{gi}",)) for gi in (3, 4, 5, 6)]
    gpu = card(
        name="NVIDIA A30", architecture=7, pci_device_id=0x20B7_10DE, power_mw=52_700, mig_mode=1, most_instances=4,
        gpm=False, instances=instances, busy=0,
    )  # fmt: skip
    machine, node = node_of(tmp_path, gpu)
    node.run(machine.advance, 10)
    quarters = [held(f"j{gi}", CARD, 0, str(gi), 1, 4) for gi in (3, 4, 5, 6)]
    assert set(node.column("power_mw")) == {52_700}
    assert (node.total_uj(), sum(node.energy_uj(*quarters).values())) == (527 * J, 527 * J)
    assert node.energy_uj(*quarters) == {f"j{gi}": 131_750_000 for gi in (3, 4, 5, 6)}


def test_b15_one_busy_gpc_costs_the_same_in_instances_of_1_2_and_3_slices(tmp_path: Path) -> None:
    """DCGM 138: activity of 1.0, 0.5 and 0.33 of 1, 2 and 3 slices is one slice's work each: a third of 3,000 J each
    (0.333333 × 3 is a millionth short of 1)."""
    shapes = [(1, "1g.10gb", 100.0), (2, "2g.20gb", 50.0), (3, "3g.40gb", 100 / 3)]
    instances = [FakeInstance(gi, profile, (f"MIG-{gi}",), activity=share) for gi, profile, share in shapes]
    machine, node = node_of(tmp_path, card(mig_mode=1, instances=instances))
    node.run(machine.advance, 10)
    jobs = [held(f"j{gi}", CARD, 0, str(gi), gi, 7) for gi, _, _ in shapes]
    found = node.energy_uj(*jobs)
    assert sum(found.values()) == 3000 * J
    assert all(abs(energy - 1000 * J) <= 1000 for energy in found.values()), found
    assert node.marks(*jobs) == {"split_by_activity"}


@pytest.mark.parametrize("raw", [0, 100, U32])
def test_b18_utilisation_of_a_card_in_mig_mode_is_unknown_and_not_0(tmp_path: Path, raw: int) -> None:
    """dcgm-exporter 216 and 50: whatever the call gives."""
    gpu = card(mig_mode=1, busy=raw, instances=[FakeInstance(1, "3g.40gb", ("MIG-1",), activity=80.0)])
    machine, node = node_of(tmp_path, gpu)
    node.run(machine.advance, 3)
    assert (node.column("busy_ppm"), node.reasons("busy_ppm")) == ([None] * 4, {"not_supported"})
    assert node.energy_uj(held("j", CARD, 0, "1", 3, 7)) == {"j": 900 * J}


@pytest.mark.parametrize(("first_mj", "then_mj"), [(22_000_000_000, 200_000), (22_000_000_000, 21_999_999_999)])
def test_b32_one_bad_read_between_two_good_ones_is_left_out(tmp_path: Path, first_mj: int, then_mj: int) -> None:
    """xpumanager 130, compute-runtime 938: 22 MJ, 200 J, 22 MJ. A wrap of 2^64 µJ in 5 s would be 3.69e12 W."""
    gpu = card(energy_uj=first_mj * 1000)
    machine, node = node_of(tmp_path, gpu, period_s=5)
    node.tick()
    machine.advance(5)
    good_uj, gpu.energy_uj = gpu.energy_uj, then_mj * 1000
    node.tick()
    gpu.energy_uj = good_uj
    machine.advance(5)
    node.tick()
    assert node.column("energy_uj") == [first_mj * 1000, None, first_mj * 1000 + 3000 * J]
    assert node.energy_uj(held("j", CARD)) == {"j": 3000 * J}
    assert {one["counter_epoch"] for one in node.wire()} == {node.wire()[0]["counter_epoch"]}


def test_b35_a_counter_that_disagrees_with_power_is_published_and_flagged(tmp_path: Path) -> None:
    """zeus 181: 187.443 J counted, 326.883 J of power over 5.0045 s: 1.74 times as much."""
    gpu = card(power_mw=65_318)
    machine, node = node_of(tmp_path, gpu)
    node.tick()
    for _ in range(5):
        machine.clock.sleep(1.0009)
        gpu.energy_uj += 37_488_600
        node.tick()
    (line,) = node.lines(held("j", CARD))
    assert (line.method, line.marks, line.span_us) == ("counter", "disagree", 5_004_500)
    assert abs((line.energy_uj or 0) - 187_443_000) < 1000 * 5
    assert node.discrepancies(held("j", CARD)) == {"counter_disagrees"}


def test_b36_without_a_counter_26_watts_for_an_hour_are_93600_joules(tmp_path: Path) -> None:
    """codecarbon 1316, 378, 393: 0.026 kWh, not 0."""
    gpu = card(power_mw=26_000, codes=dict(WITHOUT_COUNTER), field_codes={ENERGY: NOT_SUPPORTED})
    machine, node = node_of(tmp_path, gpu, period_s=60)
    node.run(lambda: machine.advance(60), 60)
    lines = node.lines(held("j", CARD))
    assert sum(line.energy_uj or 0 for line in lines) == 93_600 * J
    assert {line.method for line in lines} == {"power"}
    assert node.reasons("energy_delta_uj") == {"not_supported"}


def test_b54_a_card_that_supports_nothing_hides_no_other(tmp_path: Path) -> None:
    """nviwatch 28, carbontracker 36."""
    names = ("PowerUsage", "UtilizationRates", "MemoryInfo", "MemoryInfo_v2", "TemperatureV", "Temperature")
    nothing = {f"nvmlDeviceGet{name}": NOT_SUPPORTED for name in names} | WITHOUT_COUNTER
    dumb = card(codes=nothing, field_codes={**NO_POWER, ENERGY: NOT_SUPPORTED})
    machine, node = node_of(tmp_path, dumb, card(uuid=OTHER, index=1, power_mw=120_000))
    node.run(machine.advance, 10)
    assert node.column("power_mw", CARD) == [None] * 11
    assert node.column("power_mw", OTHER) == [120_000] * 11
    assert node.energy_uj(held("a", CARD), held("b", OTHER)) == {"b": 1200 * J}
    assert [line.reason for line in node.lines(held("a", CARD)) if line.device == CARD] == ["energy_unknown"]


@pytest.mark.parametrize("raw_mw", [80, 1, 999])
def test_b55_less_than_a_watt_under_load_is_a_broken_sensor(tmp_path: Path, raw_mw: int) -> None:
    """MangoHud 1656: 0.08 W."""
    gpu = card(power_mw=250_000, field_raw={AVERAGE: raw_mw}, busy=97)
    machine, node = node_of(tmp_path, gpu)
    node.run(machine.advance, 4)
    assert (node.column("power_mw"), node.reasons("power_mw")) == ([None] * 5, {"implausible"})
    assert node.energy_uj(held("j", CARD)) == {"j": 1000 * J}


MEMORY = [
    # gpustat 141: 308 MB on an idle card are the driver's own
    ("B56-an-idle-card", (85_520_809_984, 308 << 20, 0), 0),
    # measurement.md 1.7: an H200 in MIG mode under load
    ("B56-the-h200-vector", (150_754_820_096, 643_825_664, 17_782_800_384), 17_782_800_384),
    ("B56-more-than-there-is", (85_520_809_984, 0, 85_520_809_985), None),
    ("B56-all-ones", (85_520_809_984, 0, U64), None),
]


@pytest.mark.parametrize(("memory", "used"), [case[1:] for case in MEMORY], ids=[case[0] for case in MEMORY])
def test_memory_in_use_leaves_out_what_the_driver_reserves(
    tmp_path: Path, memory: tuple[int, int, int], used: int | None
) -> None:
    machine, node = node_of(tmp_path, card(memory=memory))
    node.run(machine.advance)
    assert node.column("memory_bytes") == [used, used]


def test_b62_what_a_sensor_that_sees_a_quarter_of_the_time_says_is_not_billed_where_a_counter_is(
    tmp_path: Path,
) -> None:
    """An A100 at 400 and 100 W by turns, 100 ms each pair: read in step with the load it shows 400 W, and 250 W flow.
    The record says that the window is shorter than the refresh: an alias is possible."""
    gpu = card(name="NVIDIA A100-SXM4-40GB", architecture=7, pci_device_id=0x20B0_10DE, power_mw=400_000,
               field_codes=dict(NO_POWER))  # fmt: skip
    machine, node = node_of(tmp_path, gpu)
    node.tick()
    for _ in range(10):
        machine.clock.sleep(1)
        gpu.energy_uj += 250 * J
        node.tick()
    (line,) = node.lines(held("j", CARD))
    assert (line.energy_uj, line.method, line.marks) == (2500 * J, "counter", "disagree")
    (told,) = node.wire()
    assert (told["power_window_us"], told["power_refresh_us"]) == (25_000, 100_000)

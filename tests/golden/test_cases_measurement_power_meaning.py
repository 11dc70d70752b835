"""What a power reading means, by architecture, driver and field (measurement.md 1.1), as the record says it.

Right values are those of the measured matrix (Yang, Adamek, Armour, SC24); what it lacks is documented by the vendor or
unknown, and unknown is no number.
"""

from pathlib import Path

import pytest
from wattledger_agent.probes import nvml_power as power

from tests.fake_nvml import FakeNvml
from tests.fake_nvml_card import AVERAGE, INSTANT, NOT_SUPPORTED, FakeGpu
from tests.measurement_path import J, MeasuredNode, held

H100, A100, A30 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA A30"
RTX3090, RTX4090, A40 = "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "NVIDIA A40"
CHIPS = {H100: 0x2330, A100: 0x20B0, A30: 0x20B7, RTX3090: 0x2204, RTX4090: 0x2684, A40: 0x2235}
ALL, NO_AVERAGE, NEITHER = (), (AVERAGE,), (AVERAGE, INSTANT)
SECOND, HUNDRED, QUARTER, UNKNOWN = (1_000_000, 100_000), (100_000, 100_000), (25_000, 100_000), (None, None)
Case = tuple[str, int, str, str, tuple[int, ...], str, tuple[int | None, int | None]]
MATRIX: list[Case] = [
    # what, architecture, model, driver, fields that the card lacks, field that is read, window and refresh
    ("hopper-above-530-average", power.HOPPER, H100, "535.129.03", ALL, power.AVERAGE, SECOND),
    ("hopper-above-530-instant", power.HOPPER, H100, "550.90.07", NO_AVERAGE, power.INSTANT, QUARTER),
    ("hopper-above-530-power-draw", power.HOPPER, H100, "535.129.03", NEITHER, power.USAGE, SECOND),
    ("hopper-525-had-both-fields", power.HOPPER, "NVIDIA H100 PCIe", "525.105.17", ALL, power.AVERAGE, SECOND),
    ("hopper-525-power-draw-is-not-in-the-table", power.HOPPER, H100, "525.60.13", NEITHER, power.USAGE, UNKNOWN),
    ("hopper-530-power-draw-is-not-in-the-table", power.HOPPER, H100, "530.30.02", NEITHER, power.USAGE, UNKNOWN),
    ("ada-below-530", power.ADA, RTX4090, "525.105.17", NEITHER, power.USAGE, SECOND),
    ("ada-530", power.ADA, RTX4090, "530.30.02", NEITHER, power.USAGE, HUNDRED),
    ("ada-above-530", power.ADA, RTX4090, "535.54.03", NEITHER, power.USAGE, SECOND),
    ("ada-average", power.ADA, RTX4090, "535.54.03", ALL, power.AVERAGE, SECOND),
    ("ada-instant", power.ADA, RTX4090, "535.54.03", NO_AVERAGE, power.INSTANT, HUNDRED),
    ("ampere-below-530", power.AMPERE, RTX3090, "470.82.01", NEITHER, power.USAGE, SECOND),
    ("ampere-530", power.AMPERE, RTX3090, "530.41.03", NEITHER, power.USAGE, HUNDRED),
    ("ampere-above-530", power.AMPERE, A40, "535.54.03", NEITHER, power.USAGE, SECOND),
    ("ampere-average", power.AMPERE, RTX3090, "590.48.01", ALL, power.AVERAGE, SECOND),
    ("ampere-instant", power.AMPERE, A40, "590.48.01", NO_AVERAGE, power.INSTANT, HUNDRED),
    ("ga100-below-530", power.AMPERE, A100, "525.105.17", NEITHER, power.USAGE, QUARTER),
    ("ga100-530", power.AMPERE, A100, "530.30.02", NEITHER, power.USAGE, QUARTER),
    ("ga100-above-530", power.AMPERE, A100, "550.54.15", NEITHER, power.USAGE, QUARTER),
    ("ga100-instant", power.AMPERE, A30, "550.54.15", NO_AVERAGE, power.INSTANT, QUARTER),
    ("ga100-a30", power.AMPERE, A30, "470.82.01", NEITHER, power.USAGE, QUARTER),
    ("turing", power.TURING, "Tesla T4", "470.82.01", NEITHER, power.USAGE, HUNDRED),
    ("turing-530", power.TURING, "NVIDIA GeForce RTX 2080 Ti", "530.30.02", NEITHER, power.USAGE, HUNDRED),
    ("turing-rtx-8000", power.TURING, "Quadro RTX 8000", "535.54.03", NEITHER, power.USAGE, (20_000, 100_000)),
    ("volta", power.VOLTA, "Tesla V100-SXM2-32GB", "535.54.03", NEITHER, power.USAGE, (10_000, 20_000)),
    ("pascal", power.PASCAL, "Tesla P100-PCIE-16GB", "470.82.01", NEITHER, power.USAGE, (10_000, 20_000)),
    ("maxwell-is-a-low-pass-without-a-window", power.MAXWELL, "Tesla M40", "470.82.01", NEITHER, power.USAGE, UNKNOWN),
    ("kepler-is-a-low-pass-without-a-window", power.KEPLER, "Tesla K40m", "470.82.01", NEITHER, power.USAGE, UNKNOWN),
    # not measured: the vendor's text says 1 s and nothing of the refresh; of instant it says nothing
    ("l40s-average", power.ADA, "NVIDIA L40S", "595.80", ALL, power.AVERAGE, (1_000_000, None)),
    ("l40s-instant", power.ADA, "NVIDIA L40S", "595.80", NO_AVERAGE, power.INSTANT, UNKNOWN),
    ("h200-average", power.HOPPER, "NVIDIA H200", "590.48.01", ALL, power.AVERAGE, (1_000_000, None)),
    ("h200-instant", power.HOPPER, "NVIDIA H200", "590.48.01", NO_AVERAGE, power.INSTANT, UNKNOWN),
    ("gh200-average", power.HOPPER, "NVIDIA GH200 480GB", "550.54.15", ALL, power.AVERAGE, (1_000_000, None)),
    ("b200-average", power.BLACKWELL, "NVIDIA B200", "570.86.10", ALL, power.AVERAGE, (1_000_000, None)),
    ("an-architecture-of-next-year", 11, "NVIDIA R100", "610.1", ALL, power.AVERAGE, (1_000_000, None)),
    ("an-architecture-that-is-not-told", 0, "NVIDIA A1000000", "610.1", NEITHER, power.USAGE, UNKNOWN),
]  # fmt: skip


def node_of(folder: Path, gpu: FakeGpu, driver: str) -> tuple[FakeNvml, MeasuredNode]:
    machine = FakeNvml([gpu], driver)
    return machine, MeasuredNode(folder, machine.clock, machine.probe())


@pytest.mark.parametrize("case", MATRIX, ids=[case[0] for case in MATRIX])
def test_the_record_says_field_window_and_refresh(tmp_path: Path, case: Case) -> None:
    _, architecture, model, driver, lacks, field, meaning = case
    chip = CHIPS.get(model, 0x1DB6) << 16 | 0x10DE
    gpu = FakeGpu("GPU-a", 0, model, architecture, chip, field_codes=dict.fromkeys(lacks, NOT_SUPPORTED))
    machine, node = node_of(tmp_path, gpu, driver)
    node.run(machine.advance, 3)
    (told,) = node.wire()
    assert (told["power_field"], told["driver"]) == (field, driver)
    assert (told["power_window_us"], told["power_refresh_us"]) == meaning
    assert ("was not measured" in node.notes()) == (meaning == UNKNOWN)
    assert node.energy_uj(held("j", "GPU-a")) == {"j": 900 * J}


@pytest.mark.parametrize(
    ("model", "chip", "is_ga100"),
    [
        (A100, 0x20B0, True), ("NVIDIA A800-SXM4-80GB", 0x20F3, True), ("NVIDIA A100X", 0x20B8, True),
        ("NVIDIA A10", 0x2236, False), ("NVIDIA A16", 0x25B6, False), (A40, 0x2235, False),
        ("Graphics Device", 0x20B5, True), ("Graphics Device", 0x2204, False),
    ],
)  # fmt: skip
def test_which_amperes_are_ga100_is_told_by_the_chip(tmp_path: Path, model: str, chip: int, is_ga100: bool) -> None:
    """A10, A16 and A40 are none, whatever their names begin with; a card without a name has its chip's number."""
    lacks = dict.fromkeys(NEITHER, NOT_SUPPORTED)
    gpu = FakeGpu("GPU-a", 0, model, power.AMPERE, chip << 16 | 0x10DE, field_codes=lacks)
    machine, node = node_of(tmp_path, gpu, "535.54.03")
    node.run(machine.advance)
    (told,) = node.wire()
    assert (told["power_window_us"], told["power_refresh_us"]) == (QUARTER if is_ga100 else SECOND)


def test_fermi_tells_no_power_and_that_is_no_zero(tmp_path: Path) -> None:
    gpu = FakeGpu("GPU-a", 0, "Tesla C2050", 1, 0x06D1_10DE)
    gpu.field_codes = dict.fromkeys((*NEITHER, 83), NOT_SUPPORTED)
    gpu.codes = dict.fromkeys(("nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"), NOT_SUPPORTED)
    machine, node = node_of(tmp_path, gpu, "390.157")
    node.run(machine.advance, 3)
    (told,) = node.wire()
    assert (told["power_field"], told["power_window_us"], node.column("power_mw")) == ("", None, [None] * 4)
    assert node.energy_uj(held("j", "GPU-a")) == {}


def test_the_same_card_under_another_driver_is_another_meaning(tmp_path: Path) -> None:
    """530 is the odd one out: the record carries what is read, and a driver that changes closes the batch."""
    gpu = FakeGpu("GPU-a", 0, RTX3090, power.AMPERE, 0x2204_10DE, field_codes=dict.fromkeys(NEITHER, NOT_SUPPORTED))
    machine, node = node_of(tmp_path, gpu, "530.41.03")
    node.run(machine.advance, 3)
    machine.driver, machine.broken = "535.54.03", 9
    node.run(machine.advance)
    machine.broken = 0
    node.run(machine.advance, 5)
    found = [(one["driver"], one["power_window_us"]) for one in node.wire()]
    assert found == [("530.41.03", 100_000), ("535.54.03", 1_000_000)]
    assert node.wire()[0]["counter_epoch"] != node.wire()[1]["counter_epoch"]


def test_a_grace_hoppers_counter_is_of_the_module_and_its_power_of_the_gpu(tmp_path: Path) -> None:
    """zeus 172: the counter covers CPU, GPU and memory. 300 W of the GPU, 700 W counted: both are published, and said
    to differ."""
    gpu = FakeGpu("GPU-a", 0, "NVIDIA GH200 480GB", power.HOPPER, 0x2342_10DE, c2c=1)
    machine, node = node_of(tmp_path, gpu, "550.54.15")
    node.tick()
    for _ in range(10):
        machine.advance()
        gpu.energy_uj += 400 * J
        node.tick()
    (told,) = node.wire()
    assert told["counter_scope"] == "module"
    assert node.energy_uj(held("j", "GPU-a")) == {"j": 7000 * J}
    assert node.marks(held("j", "GPU-a")) == {"disagree"}
    assert "covers the whole module" in node.notes()

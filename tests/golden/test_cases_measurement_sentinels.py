"""Every mark for "no value" of the sentinel table, where it comes from, as what it is on the wire: null with a reason,
never 0 and never a number. Also the reports on exporters' pages: blanks, copies of one reading, names that changed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.scrape import ScrapeProbe

from tests.fake_amdsmi import FakeAmdSmi, probe_of
from tests.fake_amdsmi_api import WALL
from tests.fake_amdsmi_gpu import NA16, NA32, NA64
from tests.fake_amdsmi_gpu import FakeGpu as AmdGpu
from tests.fake_nvml import FakeNvml
from tests.fake_nvml_card import AVERAGE, ENERGY, INSTANT, U32, U64, FakeGpu, FakeProcess
from tests.fake_scrape import GPU_A, T0_US, URL, Pages, page, sample
from tests.measurement_path import J, MeasuredNode, held, processes_of

CARD = "GPU-a"
POWER, COUNTER, UTIL = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL"
ACTIVE, USED, TEMPERATURE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP"
Marked = tuple[str, dict[str, object], str, str]


def nvidia(folder: Path, **changed: object) -> MeasuredNode:
    """Five ticks of a card of 300 W of which something is changed."""
    gpu = FakeGpu(**{"uuid": CARD, "index": 0, **changed})  # type: ignore[arg-type]
    machine = FakeNvml([gpu])
    return MeasuredNode(folder, machine.clock, machine.probe()).run(machine.advance, 4)


NVIDIA: list[Marked] = [
    ("4294967295-power", {"field_raw": {AVERAGE: U32}}, "power_mw", "sentinel"),
    ("4294967295-utilisation", {"busy": U32}, "busy_ppm", "sentinel"),
    ("4294967295-as-a-temperature-is-minus-1", {"temperature": -273}, "temperature_c", "implausible"),
    ("18446744073709551615-energy", {"field_raw": {ENERGY: U64}}, "energy_uj", "sentinel"),
    ("18446744073709551615-memory", {"memory": (85_520_809_984, 0, U64)}, "memory_bytes", "sentinel"),
    ("18446744073709551615-throttle", {"throttle": U64}, "throttle", "sentinel"),
    ("18446744073709551614-memory-of-as-much", {"memory": (U64 - 1, 0, U64 - 1)}, "memory_bytes", "implausible"),
    ("18446744073709551614-energy", {"field_raw": {ENERGY: U64 - 1}}, "energy_uj", "implausible"),
    ("2147483632-a-blank-of-32-bits", {"field_raw": {AVERAGE: 2_147_483_632}}, "power_mw", "sentinel"),
    ("9223372036854775794-a-blank-of-64-bits", {"field_raw": {ENERGY: 2**63 - 14}}, "energy_uj", "sentinel"),
    ("0-mw-of-a-field-that-failed", {"field_codes": {AVERAGE: 999, INSTANT: 999},
                                       "codes": {"nvmlDeviceGetPowerUsage": 999}},
     "power_mw", "unknown_error"),
    ("0-mw-of-a-card-that-answers", {"field_raw": {AVERAGE: 0}}, "power_mw", "implausible"),
    ("0-counter-with-a-busy-card", {"field_raw": {ENERGY: 0}, "busy": 40}, "energy_uj", "implausible"),
    ("util-above-100", {"busy": 101}, "busy_ppm", "implausible"),
    ("power-above-1.5-times-the-limit", {"field_raw": {AVERAGE: 1_050_001}}, "power_mw", "implausible"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "column", "why"), [case[1:] for case in NVIDIA], ids=[case[0] for case in NVIDIA])
def test_a_mark_of_nvml_is_null_with_its_reason_and_costs_no_other_reading(
    tmp_path: Path, changed: dict[str, object], column: str, why: str
) -> None:
    node = nvidia(tmp_path, **changed)
    name = "energy_delta_uj" if column == "energy_uj" else column
    assert (node.column(column), node.reasons(name)) == ([None] * 5, {why})
    others = {"power_mw": 300_000, "busy_ppm": 400_000, "temperature_c": 45, "throttle": 0}
    assert {one: node.column(one)[-1] for one in others if one != column} == {
        one: value for one, value in others.items() if one != column
    }
    energy = node.energy_uj(held("j", CARD))
    assert energy == {"j": 1200 * J}


@pytest.mark.parametrize(
    ("raw", "cell"), [(1_050_000, 1_050_000), (1, 1), (699_999, 699_999)], ids=["1.5-times", "a-milliwatt", "below"]
)
def test_what_is_just_possible_is_a_reading(tmp_path: Path, raw: int, cell: int) -> None:
    assert nvidia(tmp_path, field_raw={AVERAGE: raw}, busy=0).column("power_mw") == [cell] * 5


def test_a_counter_of_0_on_an_idle_card_is_a_counter(tmp_path: Path) -> None:
    node = nvidia(tmp_path, energy_uj=0, power_mw=20_000, busy=0)
    assert node.column("energy_uj") == [0, 20 * J, 40 * J, 60 * J, 80 * J]


@pytest.mark.parametrize(("ahead_s", "share"), [(1.5, None), (0.5, 600_000)], ids=["ts-1.5-s-ahead", "ts-0.5-s-ahead"])
def test_a_sample_of_more_than_a_second_from_now_is_rejected(tmp_path: Path, ahead_s: float, share: int | None) -> None:
    gpu = FakeGpu(CARD, 0, processes=[FakeProcess(1184)])
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe(), shares_of=processes_of({1184: "a"}))
    gpu.samples = [(1184, machine.clock.wall_us() + round(ahead_s * 1e6), 60, 1, 0, 0)]
    node.tick()
    gpu.samples = []
    node.run(machine.advance, 1)
    assert node.shares("a")[0] == share


@pytest.mark.parametrize(
    "samples", [[(4_194_305, 1, 60, 1, 0, 0)], [(50_554, 1, 37_100, 0, 50_583, 0), (0, 1, 0, 0, 0, 0)]]
)
def test_garbage_in_the_list_of_samples_is_no_share_of_anybody(
    tmp_path: Path, samples: list[tuple[int, int, int, int, int, int]]
) -> None:
    """A pid above 4194304, and nvtop 110's rows."""
    gpu = FakeGpu(CARD, 0, processes=[FakeProcess(1184)], samples=samples)
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe(), shares_of=processes_of({1184: "a"}))
    assert node.run(machine.advance, 4).shares("a") == [None] * 5


def amd(folder: Path, **changed: object) -> MeasuredNode:
    gpu = AmdGpu(**changed)  # type: ignore[arg-type]
    fake, clock = FakeAmdSmi(gpu), ManualClock(WALL)
    node = MeasuredNode(folder, clock, probe_of(fake.loader(), clock, folder))

    def advance() -> None:
        clock.sleep(1)
        fake.advance(1)

    return node.run(advance, 4)


AMD: list[Marked] = [
    ("65535-power", {"current_w": NA16, "average_w": NA16}, "power_mw", "sentinel"),
    ("65535-activity", {"activity": NA16}, "busy_ppm", "sentinel"),
    ("255-of-8-bits-activity", {"activity": 255}, "busy_ppm", "implausible"),
    ("4294967295-power", {"current_w": NA32, "average_w": NA32}, "power_mw", "sentinel"),
    ("4294967295-activity", {"table": {"average_gfx_activity": NA16}, "activity": NA32}, "busy_ppm", "sentinel"),
    ("18446744073709551615-counter", {"counts": NA64, "counts_move": False}, "energy_uj", "sentinel"),
    ("18446744073709551614-counter", {"counts": NA64 - 1, "counts_move": False}, "energy_uj", "implausible"),
    ("0-counter-with-a-busy-gpu", {"counts": 0, "counts_move": False}, "energy_uj", "implausible"),
    ("18446744073709551615-memory", {"used_bytes": NA64}, "memory_bytes", "sentinel"),
    ("18446744073709551614-memory-without-a-total", {"used_bytes": NA64 - 1, "total_bytes": 0}, "memory_bytes",
     "implausible"),
    ("18446744073709551614-memory-of-as-much", {"used_bytes": NA64 - 1, "total_bytes": NA64 - 1}, "memory_bytes",
     "implausible"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "column", "why"), [case[1:] for case in AMD], ids=[case[0] for case in AMD])
def test_a_mark_of_amd_smi_is_null_with_its_reason(
    tmp_path: Path, changed: dict[str, object], column: str, why: str
) -> None:
    node = amd(tmp_path, **changed)
    name = "energy_delta_uj" if column == "energy_uj" else column
    assert node.column(column) == [None] * 5
    assert why in node.reasons(name)
    if column != "power_mw":
        assert node.energy_uj(held("j", "0000:0c:00.0/0"))["j"] in range(4 * 717 * J - 2, 4 * 717 * J + 1)


def test_a_partition_id_of_all_ones_is_no_partition(tmp_path: Path) -> None:
    node = amd(tmp_path, kfd_partition=NA32, high_bits=0)
    assert {one["device"] for one in node.wire()} == {"0000:0c:00.0/0"}


def scraped(folder: Path, *pages: str | None) -> MeasuredNode:
    """A tick a page and second."""
    clock = ManualClock(T0_US)
    node = MeasuredNode(folder, clock, ScrapeProbe(URL, Pages(pages[0], *pages), boot="b", clock=clock))
    return node.run(lambda: clock.sleep(1), len(pages) - 1)


def counting(value: Callable[[int], tuple[str, ...]], ticks: int = 5) -> list[str]:
    """Pages on which 300 W and its counter go on, beside other lines."""
    return [
        page(sample(POWER, "300.0"), sample(COUNTER, 126_272_101_025 + 300_000 * at), *value(at)) for at in range(ticks)
    ]


WORDS = [
    ("[N/A]", "sentinel"), ("N/A", "sentinel"), ("[Not Supported]", "not_supported"), ("ERR!", "sentinel"),
    ("[Unknown Error]", "sentinel"), ("[Insufficient Permissions]", "no_permission"), ("NaN", "sentinel"),
    ("9223372036854775792", "sentinel"), ("9223372036854775793", "sentinel"), ("9223372036854775794", "sentinel"),
    ("9223372036854775795", "sentinel"), ("9.223372036854776e+18", "sentinel"), ("140737488355328.0", "sentinel"),
    ("140737488355328", "sentinel"), ("2147483632", "sentinel"), ("2147483635", "sentinel"),
    ("4294967295", "sentinel"), ("18446744073709551615", "sentinel"), ("1.8446744073709552e+19", "sentinel"),
    ("18446744073709551614", "sentinel"), ("4294967294", "sentinel"), ("-1", "implausible"),
]  # fmt: skip


@pytest.mark.parametrize("name", [POWER, UTIL, ACTIVE, USED, TEMPERATURE, COUNTER])
@pytest.mark.parametrize(("word", "why"), WORDS, ids=[f"B05-{word}" for word, _ in WORDS])
def test_what_an_exporter_writes_for_no_value_is_null(tmp_path: Path, name: str, word: str, why: str) -> None:
    """gpu-monitoring-tools 92 has 9223372036854775794; the words are nvidia-smi's."""
    column = {
        POWER: "power_mw", UTIL: "busy_ppm", ACTIVE: "busy_ppm", USED: "memory_bytes", TEMPERATURE: "temperature_c",
        COUNTER: "energy_uj",
    }[name]  # fmt: skip
    lines = {POWER: "300.0", COUNTER: "126272101025", name: word}
    node = scraped(tmp_path, *[page(*(sample(one, value) for one, value in lines.items()))] * 3)
    cold = (name, word) == (TEMPERATURE, "-1")
    assert node.column(column)[0] == (-1 if cold else None)
    assert cold or why in node.reasons("energy_delta_uj" if name == COUNTER else column)


def test_b04_blanks_of_profiling_fields_keep_the_power(tmp_path: Path) -> None:
    """slurm-job-exporter 30: fp64_active 140737488355328.0, pcie_tx 9223372036854775792, power 69.437 W."""
    lines = (
        sample(POWER, "69.437"), sample(ACTIVE, "140737488355328.0"),
        sample("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "140737488355328.0"),
        sample("DCGM_FI_PROF_PCIE_TX_BYTES", "9223372036854775792"),
    )  # fmt: skip
    node = scraped(tmp_path, *[page(*lines)] * 5)
    assert (node.column("power_mw"), node.column("busy_ppm")) == ([69_437] * 5, [None] * 5)
    assert node.energy_uj(held("j", GPU_A)) == {"j": 4 * 69_437_000}


def test_b03_garbage_between_two_good_shares_keeps_their_power(tmp_path: Path) -> None:
    """dcgm-exporter 418 and others: 45, 4294967295, 47; 808334905, 686103, 1980."""
    shares = ["45", "4294967295", "47", "808334905", "686103", "1980", "3"]
    node = scraped(tmp_path, *counting(lambda at: (sample(UTIL, shares[at]),), len(shares)))
    assert node.column("busy_ppm") == [450_000, None, 470_000, None, None, None, 30_000]
    assert node.column("power_mw") == [300_000] * 7
    assert node.energy_uj(held("j", GPU_A)) == {"j": 1800 * J}


def test_b12_b18_a_parents_power_on_four_instances_is_one_and_its_utilisation_of_0_is_none(tmp_path: Path) -> None:
    """dcgm-exporter 317, 216, 50: 52.636 twice and 52.746 W twice are 52.691; ten seconds 526.91 J, not 2,107.64."""
    watts = {3: "52.636", 4: "52.636", 5: "52.746", 6: "52.746"}
    lines = [
        sample(name, value, GPU_I_ID=str(gi), GPU_I_PROFILE="1g.6gb", modelName="NVIDIA A30")
        for gi, power in watts.items()
        for name, value in ((POWER, power), (UTIL, "0"))
    ]
    node = scraped(tmp_path, *[page(*lines)] * 11)
    assert set(node.column("power_mw")) == {52_691}
    assert (node.column("busy_ppm"), node.reasons("busy_ppm")) == ([None] * 11, {"not_supported"})
    assert (node.total_uj(), node.wire()[0]["sharing"], node.wire()[0]["slices"]) == (526_910_000, "mig", 4)


RENAMED = [
    # telegraf 16569, netdata 15755: <power_draw> got other names with R535 and R570
    ("B53-another-name-for-power", "nvidia_smi_gpu_power_readings_instant_power_draw_watts", None),
    ("B53-the-name-that-is-known", "nvidia_smi_power_draw_watts", 295_010),
]


@pytest.mark.parametrize(("name", "cell"), [case[1:] for case in RENAMED], ids=[case[0] for case in RENAMED])
def test_a_name_that_is_not_known_is_no_reading(tmp_path: Path, name: str, cell: int | None) -> None:
    uuid = GPU_A.removeprefix("GPU-")
    pages = [
        page(f'{name}{{uuid="{uuid}"}} 295.01', f'nvidia_smi_temperature_gpu{{uuid="{uuid}"}} {40 + at}')
        for at in range(4)
    ]
    node = scraped(tmp_path, *pages)
    assert (node.column("power_mw"), node.column("temperature_c")) == ([cell] * 4, [40, 41, 42, 43])
    assert node.energy_uj(held("j", GPU_A)) == ({} if cell is None else {"j": 885_030_000})

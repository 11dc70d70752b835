"""Known mistakes about AMD's readings, from the library's bytes or the wrapper's dictionaries to the core's energy.

A count of the accumulator is 2^-16 J, so 65,536 counts are 1 J; the library's own 15.3 µJ is 0.27 % too much.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock

from tests.fake_amdsmi import FakeAmdSmi, probe_of
from tests.fake_amdsmi_api import WALL, FakeApi
from tests.fake_amdsmi_gpu import NA16, NA32, FakeGpu, FakeProcess
from tests.measurement_path import Cells, J, MeasuredNode, held, processes_of

AMD_MI250 = {"model": "AMD INSTINCT MI250 (MCM) OAM AC MBA", "device_id": 0x740C, "mode": "", "memory_mode": "",
             "header": (1, 3)}  # fmt: skip
DEVICE = "0000:0c:00.0/0"


class Machine:
    """AMD GPUs, the wrapper of a version over them (empty: the real one over bytes), and the node that reads them."""

    def __init__(self, folder: Path, *gpus: FakeGpu, wrapper: str = "", jobs: dict[int, str] | None = None) -> None:
        self.fake = FakeAmdSmi(*gpus)
        self.api = FakeApi(self.fake, wrapper or "7.0")
        clock = ManualClock(WALL)
        probe = probe_of(self.api.module if wrapper else self.fake.loader(), clock, folder)
        self.node = MeasuredNode(folder, clock, probe, shares_of=processes_of(jobs or {}))

    def advance(self) -> None:
        self.node.clock.sleep(1)
        self.fake.advance(1)

    def run(self, times: int = 1) -> MeasuredNode:
        return self.node.run(self.advance, times)

    def set_counts(self, counts: int, stamp_ns: int, at_s: float = 1) -> MeasuredNode:
        """A tick at which the first GPU's counter reads so."""
        self.node.clock.sleep(at_s)
        self.fake.gpus[0].counts, self.fake.gpus[0].stamp_ns = counts, stamp_ns
        return self.node.tick()


def uj(counts: int) -> int:
    """Counts in µJ, rounded down: 10^6 / 65,536."""
    return counts * 1_000_000 // 65_536


def test_b19_another_gpus_counter_is_left_out_and_the_next_good_read_closes_the_gap(tmp_path: Path) -> None:
    """amdsmi 115: …f110 went from 4750896266 to 4736943791, which is …c610's 4734149698 and 42.63 J. Nothing of it is
    −212.9 J; the counter's own line goes on."""
    f110, c610 = FakeGpu(bus=0xF1, current_w=43, draws_w=43), FakeGpu(bus=0xC6, current_w=43, draws_w=43)
    f110.counts, f110.stamp_ns = 4_750_896_266 - 3 * 43 * 65_536, 1_712_024_507_665 - 3 * 10**9
    c610.counts, c610.stamp_ns = 4_734_149_698 - 3 * 43 * 65_536, 1_712_027_255_611 - 3 * 10**9
    machine = Machine(tmp_path, f110, c610)
    machine.run(3)
    assert (f110.counts, c610.counts) == (4_750_896_266, 4_734_149_698)
    f110.foreign = (4_736_943_791, 1_713_024_458_751)
    machine.run()
    f110.foreign = None
    node = machine.run(2)
    cells = node.column("energy_uj", f110.device)
    last = 4_750_896_266 + 3 * 43 * 65_536
    assert cells[3:] == [uj(4_750_896_266), None, uj(last - 43 * 65_536), uj(last)]
    assert "foreign_value" in node.reasons("energy_delta_uj", f110.device)
    assert len({one["counter_epoch"] for one in node.wire(f110.device)}) == 1
    both = held("a", f110.device), held("b", c610.device)
    assert node.discrepancies(*both) == set()
    assert all(abs(energy - 6 * 43 * J) <= 2 for energy in node.energy_uj(*both).values())


def test_b20_the_same_stamp_again_is_stale_and_not_0_joule(tmp_path: Path) -> None:
    """amdsmi 22, hpcfund 21: 8152136 at 3824190842400799 twice and more, at 200 W: the energy is that of power."""
    gpu = FakeGpu(current_w=200, draws_w=200, counts=8_152_136, stamp_ns=3_824_190_842_400_799, counts_move=False)
    node = Machine(tmp_path, gpu).run(20)
    assert node.column("energy_uj") == [None] * 21
    assert "stale" in node.reasons("energy_delta_uj")
    (line,) = node.lines(held("a", DEVICE))
    assert (line.energy_uj, line.method) == (20 * 200 * J, "power")


def test_b20_a_counter_that_freezes_later_gives_way_to_power_and_bridges_a_single_repeat(tmp_path: Path) -> None:
    gpu = FakeGpu(current_w=200, draws_w=200)
    machine = Machine(tmp_path, gpu)
    machine.run(5)
    gpu.counts_move = False
    machine.run()
    gpu.counts_move = True
    gpu.counts += 200 * 65_536  # what it counted meanwhile
    machine.run(4)
    assert machine.node.column("energy_uj").count(None) <= 2
    gpu.counts_move = False
    node = machine.run(10)
    energy = node.energy_uj(held("a", DEVICE))["a"]
    assert abs(energy - 20 * 200 * J) <= 2


COUNTED = [
    # amdsmi 38: the library says 1.004108 J
    ("B22-65628-counts", 65_628, 1_001_404),
    # the library says 1.002701 J
    ("B22-65536-counts", 65_536, 1_000_000),
    ("B22-32768-counts", 32_768, 500_000),
]


@pytest.mark.parametrize(("counts", "expected_uj"), [case[1:] for case in COUNTED], ids=[case[0] for case in COUNTED])
def test_a_count_is_2_to_the_minus_16_joule(tmp_path: Path, counts: int, expected_uj: int) -> None:
    gpu = FakeGpu(current_w=1, draws_w=1, counts=1 << 26, activity=0)
    machine = Machine(tmp_path, gpu)
    machine.run(4)
    node = machine.set_counts(gpu.counts + counts, gpu.stamp_ns + 10**9)
    before, after = node.column("energy_uj")[-2:]
    assert before is not None and after is not None
    assert abs(after - before - expected_uj) <= 1
    assert node.wire()[0]["counter_scope"] == "gpu"


def test_b22_the_mi210_of_the_reference_draws_a_quarter_of_a_percent_less_than_printed(tmp_path: Path) -> None:
    """20909145.914, …188.578, …231.286 and …273.989 J as printed, at 15.3 µJ: 42.549, 42.593 and 42.588 J a second."""
    printed_mj = [20_909_145_914, 20_909_188_578, 20_909_231_286, 20_909_273_989]
    counts = [mj * 10_000 // 153 for mj in printed_mj]
    gpu = FakeGpu(model="AMD Instinct MI210", device_id=0x740F, mode="", memory_mode="", current_w=NA16, average_w=43,
                  draws_w=43, counts=counts[0] - 3 * 43 * 65_536, counts_move=True)  # fmt: skip
    machine = Machine(tmp_path, gpu)
    machine.run(3)
    for n, one in enumerate(counts[1:], 1):
        node = machine.set_counts(one, gpu.stamp_ns + n)
    cells = [cell or 0 for cell in node.column("energy_uj")[-4:]]
    found = [after - before for before, after in pairwise(cells)]
    assert [round(one / 1000) for one in found] == [42_549, 42_593, 42_588]


GENERATIONS = [
    # pytorch 1457
    ("B23-mi200-average", {"current_w": NA16, "average_w": 94}, 94_000, "amdsmi.average_socket_power"),
    ("B23-mi300-current", {"current_w": 717, "average_w": NA16}, 717_000, "amdsmi.current_socket_power"),
]


@pytest.mark.parametrize("wrapper", ["", "6.0", "6.3", "6.4", "7.0"])
@pytest.mark.parametrize(
    ("gpu", "power_mw", "field"), [case[1:] for case in GENERATIONS], ids=[case[0] for case in GENERATIONS]
)
def test_each_generation_has_its_own_power_field(
    tmp_path: Path, wrapper: str, gpu: dict[str, int], power_mw: int, field: str
) -> None:
    machine = Machine(tmp_path, FakeGpu(**gpu, draws_w=power_mw // 1000), wrapper=wrapper)  # type: ignore[arg-type]
    node = machine.run(5)
    assert node.column("power_mw") == [power_mw] * 6
    assert {one["power_field"] for one in node.wire()} == {field}
    assert abs(node.energy_uj(held("a", DEVICE))["a"] - 5 * power_mw * 1000) <= 2


LIES = [
    # the replay of 6.4's bytes through the wrapper of 6.3
    ("B24-average-0-beside-current", {"current_socket_power": 717, "average_socket_power": 0}, 717_000),
    ("B24-current-0-beside-average", {"current_socket_power": 0, "average_socket_power": 94}, 94_000),
    ("B24-both-0", {"current_socket_power": 0, "average_socket_power": 0}, None),
    ("B24-6.3-read-as-6.4", {"socket_power": 281_470_681_744_077, "current_socket_power": 65535}, None),
    ("B24-nothing-but-marks", {"current_socket_power": "N/A", "average_socket_power": NA32}, None),
]


@pytest.mark.parametrize(("told", "power_mw"), [case[1:] for case in LIES], ids=[case[0] for case in LIES])
def test_a_plausible_lie_of_another_layout_is_not_believed(
    tmp_path: Path, told: dict[str, object], power_mw: int | None
) -> None:
    machine = Machine(tmp_path, FakeGpu(current_w=NA16, average_w=NA16), wrapper="6.3")
    machine.api.shapes["amdsmi_get_power_info", DEVICE] = {**told, "power_limit": 65535}
    node = machine.run(4)
    assert node.column("power_mw") == [power_mw] * 5
    assert ("is 0 beside" in node.notes()) == (power_mw is not None)


def test_b25_a_counter_of_0_on_a_working_mi300x_is_none_and_its_power_stays(tmp_path: Path) -> None:
    """codecarbon 3.3.2 gave a power of 0 and an energy of 0, and took every "MI3" for a card of two dies."""
    node = Machine(tmp_path, FakeGpu(counts=0, counts_move=False), FakeGpu(bus=0x22)).run(10)
    assert (node.column("power_mw", DEVICE), node.column("energy_uj", DEVICE)) == ([717_000] * 11, [None] * 11)
    assert [one["socket"] for one in node.wire()] == ["", ""]
    (line,) = node.lines(held("a", DEVICE))[:1]
    assert (line.energy_uj, line.method) == (7170 * J, "power")


SOCKETS = [[248, 247, 247, 247], [221, 221, 222, 221], [239] * 4, [219] * 4, [222] * 4, [241, 241, 241, 240],
           [211] * 4, [227] * 4]  # fmt: skip


def test_b27_32_partitions_of_8_sockets_draw_1828_watts(tmp_path: Path) -> None:
    """AMD's own listing: added up they are 7,309. Ten seconds are 18,280 J."""
    gpus = [
        FakeGpu(bus=0x0C + 0x10 * socket, partition=at, current_w=watts, draws_w=row[0], mode="QPX", counts=10**10)
        for socket, row in enumerate(SOCKETS)
        for at, watts in enumerate(row)
    ]
    node = Machine(tmp_path, *gpus).run(10)
    powers = [node.column("power_mw", gpu.device)[-1] for gpu in gpus]
    assert sum(power or 0 for power in powers) == 1_828_000
    assert len({one["socket"] for one in node.wire()}) == 8
    assert abs(node.total_uj() - 18_280 * J) <= 8 * 2


def test_b27_136_watts_seven_times_and_137_once_are_one_socket(tmp_path: Path) -> None:
    """legacy-rocm-build 4750: eight partitions of one socket, read one after the other."""
    watts = [136] * 3 + [137] + [136] * 4
    gpus = [FakeGpu(partition=at, current_w=one, draws_w=136, mode="CPX") for at, one in enumerate(watts)]
    node = Machine(tmp_path, *gpus).run(10)
    assert [node.column("power_mw", gpu.device)[-1] for gpu in gpus] == [136_000] + [None] * 7
    assert abs(node.total_uj() - 1360 * J) <= 2
    assert [one["counter_scope"] for one in node.wire()] == ["socket"] + [""] * 7


@pytest.mark.parametrize("second", [NA16, 0], ids=["not-available", "zero"])
def test_the_second_die_of_an_mi250_has_its_power_in_the_first(tmp_path: Path, second: int) -> None:
    """rocm_smi_lib 160: 237, N/A, 230, N/A, 220, N/A, 235, N/A are 922 W of four cards."""
    watts = [237, second, 230, second, 220, second, 235, second]
    gpus = [
        FakeGpu(bus=0xC1 + 4 * at, current_w=NA16, average_w=one, draws_w=one % NA16, counts=10**9 * (one % NA16 > 0),
                **AMD_MI250)  # type: ignore[arg-type]
        for at, one in enumerate(watts)
    ]  # fmt: skip
    node = Machine(tmp_path, *gpus).run(10)
    powers = [node.column("power_mw", gpu.device)[-1] for gpu in gpus]
    assert powers == [237_000, None, 230_000, None, 220_000, None, 235_000, None]
    assert abs(node.total_uj() - 9220 * J) <= 4 * 2


def dpx() -> list[FakeGpu]:
    return [FakeGpu(partition=at, mode="DPX", current_w=300, draws_w=300) for at in (0, 1)]


SHAPES: list[tuple[str, object, object, Cells, Cells]] = [
    # amdsmi 134
    ("B29-a-struct-and-words", {"gfx_activity": {"value": 0, "unit": "%"}}, "N/A", [0] * 3, [None] * 3),
    ("B29-words-first", "N/A", {"gfx_activity": {"value": 0, "unit": "%"}}, [None] * 3, [0] * 3),
    ("B29-a-number-as-text", {"gfx_activity": "42"}, {"gfx_activity": {"value": "N/A"}}, [420_000] * 3, [None] * 3),
    ("B29-nothing-at-all", {}, None, [None] * 3, [970_000] * 3),
]


@pytest.mark.parametrize(
    ("first", "second", "busy", "other"), [case[1:] for case in SHAPES], ids=[case[0] for case in SHAPES]
)
def test_partitions_of_unlike_shapes_are_both_read(
    tmp_path: Path, first: object, second: object, busy: Cells, other: Cells
) -> None:
    gpus = dpx()
    machine = Machine(tmp_path, *gpus, wrapper="7.0")
    for gpu, shape in zip(gpus, (first, second), strict=True):
        if shape is not None:
            machine.api.shapes["amdsmi_get_gpu_activity", gpu.device] = shape
    node = machine.run(2)
    assert [node.column("busy_ppm", gpu.device) for gpu in gpus] == [busy, other]
    assert node.column("power_mw", gpus[0].device) == [300_000] * 3


@pytest.mark.parametrize(("mode", "engines", "parts"), [("CPX", 8, 8), ("CPX", 6, 6), ("DPX", 8, 2), ("TPX", 6, 3)])
def test_b30_how_many_partitions_there_are_is_told_by_the_mode(
    tmp_path: Path, mode: str, engines: int, parts: int
) -> None:
    """rocm-systems 4516: num_partition reads 65535."""
    gpu = FakeGpu(mode=mode, memory_mode="NPS1", engines=engines, num_partition=NA16)
    node = Machine(tmp_path, gpu).run(2)
    assert f"{mode}/NPS1 has {parts} partitions, AMD SMI shows 1" in node.notes()
    assert [(one["socket"], one["counter_scope"]) for one in node.wire()[-1:]] == [("0000:0c:00", "socket")]


@pytest.mark.parametrize(
    ("grows_ns", "activity", "share"),
    [(0, 97, None), (0, 0, 0), (400_000_000, 97, 400_000)],
    ids=["B57-busy-without-engine-time", "B57-idle-without-engine-time", "B57-with-engine-time"],
)
def test_engine_time_of_0_on_a_busy_device_is_no_share(
    tmp_path: Path, grows_ns: int, activity: int, share: int | None
) -> None:
    """amdsmi 130: gfx 0 ns while the device is 97 % busy."""
    gpu = FakeGpu(activity=activity, processes=[FakeProcess(4711, grows_ns=grows_ns)])
    node = Machine(tmp_path, gpu, jobs={4711: "a"}).run(3)
    assert node.shares("a")[-1] == share
    halves = held("a", DEVICE, den=2), held("b", DEVICE, den=2)
    assert node.marks(*halves) == {"split_by_sm" if share else "split_equally"}


def test_a_32_bit_accumulator_wraps_each_65536_joule(tmp_path: Path) -> None:
    """gpu_metrics 1.0: from 50 J before a wrap to 50 J behind it are 100 J, and not −65,436."""
    gpu = FakeGpu(model="AMD Instinct MI100", device_id=0x738C, mode="", memory_mode="", header=(1, 0), current_w=NA16,
                  average_w=100, draws_w=100, counts=2**32 - 350 * 65_536)  # fmt: skip
    machine = Machine(tmp_path, gpu)
    wrap: Callable[[], None] = machine.advance

    def advance() -> None:
        wrap()
        gpu.counts %= 2**32

    node = machine.node.run(advance, 6)
    cells = [cell or 0 for cell in node.column("energy_uj")[2:]]
    assert [after - before for before, after in pairwise(cells)] == [100 * J] * 4
    assert node.energy_uj(held("a", DEVICE)) == {"a": 600 * J}


@pytest.mark.parametrize("low_bits", [NA32, 0])
def test_a_virtual_function_without_a_uuid_is_known_by_its_address(tmp_path: Path, low_bits: int) -> None:
    """device-metrics-exporter 233: UUID all zeros and partition_id 4294967295 on an MI300X' function."""
    gpus = [FakeGpu(bus=0x0C + at, kfd_partition=low_bits, high_bits=0) for at in (0, 1)]
    node = Machine(tmp_path, *gpus).run(2)
    assert [one["device"] for one in node.wire()] == ["0000:0c:00.0/0", "0000:0d:00.0/0"]

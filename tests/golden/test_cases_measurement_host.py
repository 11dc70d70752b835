"""Known mistakes about the host's counters, clocks that step, sensors that freeze and cards that are kept awake."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from wattledger_agent.metrics import IDLE_FLOOR_RAISED
from wattledger_agent.probes.rapl import RaplProbe

from tests.fake_nvml import FakeNvml
from tests.fake_nvml_card import AVERAGE, ENERGY, INSTANT, NOT_SUPPORTED, FakeGpu, FakeInstance, FakeProcess
from tests.fake_rapl import DRAM_RANGE_UJ, RANGE_UJ, FakePowercap
from tests.measurement_path import Cells, J, MeasuredNode, S, held

CARD, PACKAGE = "GPU-a", "intel-rapl:0"
WITHOUT_COUNTER = {"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}


class HostNode:
    """A card of 300 W and a CPU package on one machine, read together."""

    def __init__(self, folder: Path, first_uj: int = 10**9, range_uj: int | str | None = RANGE_UJ) -> None:
        self.gpu = FakeGpu(CARD, 0)
        self.machine = FakeNvml([self.gpu])
        self.tree = FakePowercap(folder)
        self.tree.add(PACKAGE, "package-0", first_uj, range_uj)
        clock = self.machine.clock
        rapl = RaplProbe(clock, self.tree.root, self.tree.boot_id)
        self.node = MeasuredNode(folder, clock, self.machine.probe(), rapl)

    def at(self, raw_uj: int, after_s: float = 1) -> MeasuredNode:
        self.machine.advance(after_s)
        self.tree.set(PACKAGE, raw_uj)
        return self.node.tick()


ZONES: list[tuple[str, int | str | None, list[int], Cells]] = [
    # codecarbon 1309: 4000000000 to 10000 µJ is not −3,999.99 J
    ("B33-a-fall-without-a-range", None, [4_000_000_000, 10_000, 50_010_000, 100_010_000],
     [4_000_000_000, None, 50_010_000, 100_010_000]),
    ("B33-a-range-that-can-not-be-read", "N/A", [4_000_000_000, 10_000], [4_000_000_000, None]),
    ("B33-one-bad-read", None, [4_000_000_000, 10_000, 4_050_000_000], [4_000_000_000, None, 4_050_000_000]),
    # 65,536 J of 2^-16: from 30 J before the range's end to 70 J behind its start are 100 J
    ("B33-a-wrap-with-a-range", RANGE_UJ, [RANGE_UJ - 30 * J, 70 * J, 170 * J],
     [RANGE_UJ - 30 * J, RANGE_UJ + 70 * J, RANGE_UJ + 170 * J]),
    ("B33-a-wrap-of-dram", DRAM_RANGE_UJ, [DRAM_RANGE_UJ - J, 4 * J], [DRAM_RANGE_UJ - J, DRAM_RANGE_UJ + 4 * J]),
    ("B33-no-wrap-that-the-time-allows", RANGE_UJ, [200_000 * J, 10_000], [200_000 * J, None]),
    ("B33-beyond-its-own-range", RANGE_UJ, [10**9, RANGE_UJ + 1, 10**9 + 200 * J], [10**9, None, 10**9 + 200 * J]),
]  # fmt: skip


@pytest.mark.parametrize(("range_uj", "raw", "cells"), [case[1:] for case in ZONES], ids=[case[0] for case in ZONES])
def test_a_host_counter_that_falls_is_a_wrap_only_where_the_time_allows_it(
    tmp_path: Path, range_uj: int | str | None, raw: list[int], cells: Cells
) -> None:
    host = HostNode(tmp_path, raw[0], range_uj)
    host.node.tick()
    for one in raw[1:]:
        host.at(one)
    # the newest run only: a zone's counter is not differenced across runs
    newest = [cell for cell in host.node.zone("package-0") if cell is not None]
    known = [cell for cell in cells if cell is not None]
    assert newest == known[len(known) - len(newest) :]
    assert newest and all(b >= a for a, b in pairwise(newest))
    assert host.node.energy_uj(held("j", CARD)) == {"j": (len(raw) - 1) * 300 * J}


STEPS: list[tuple[str, int]] = [
    # scaphandre 441, pyJoules 53: 27.35 J in 0.5 ms would be 54.7 kW; real time is 2 s, so it is 13.675 W
    ("B47-set-back-by-almost-all-of-it", -1_999_500),
    ("B47-set-forward-by-an-hour", 3600 * S),
    ("B48-set-back-to-before-the-last-tick", -5 * S),
    ("B48-set-back-to-the-very-last-tick", -2 * S),
]


@pytest.mark.parametrize("step_us", [case[1] for case in STEPS], ids=[case[0] for case in STEPS])
@pytest.mark.parametrize("with_counter", [True, False])
def test_time_between_two_readings_is_what_passed_and_not_what_the_wall_clock_says(
    tmp_path: Path, step_us: int, with_counter: bool
) -> None:
    host = HostNode(tmp_path, 10**9)
    if not with_counter:
        host.gpu.field_codes, host.gpu.codes = {ENERGY: NOT_SUPPORTED}, dict(WITHOUT_COUNTER)
    host.node.tick()
    host.at(10**9 + 13_675_000)
    host.machine.clock.step(step_us)
    host.at(10**9 + 13_675_000 + 27_350_000, after_s=2)
    host.at(10**9 + 13_675_000 * 4)
    ticks = [tick for batch in host.node.batches() for tick in batch.ticks_us.tolist()]
    assert [(tick - ticks[0]) / S for tick in ticks] == [0, 1, 3, 4]
    zone = [cell or 0 for cell in host.node.zone("package-0")]
    assert [cell - zone[0] for cell in zone] == [0, 13_675_000, 41_025_000, 54_700_000]
    assert host.node.energy_uj(held("j", CARD)) == {"j": 1200 * J}


def test_b48_a_second_reading_of_one_moment_is_ignored_and_its_energy_counts_with_the_next(tmp_path: Path) -> None:
    host = HostNode(tmp_path, 10**9)
    host.node.tick()
    host.at(10**9 + 50 * J)
    host.at(10**9 + 51 * J, after_s=0)
    host.at(10**9 + 100 * J)
    zone = [cell for cell in host.node.zone("package-0") if cell is not None]
    assert zone == [10**9, 10**9 + 50 * J, 10**9 + 100 * J]
    assert host.node.energy_uj(held("j", CARD)) == {"j": 600 * J}
    assert all(after > before for batch in host.node.batches() for before, after in pairwise(batch.ticks_us.tolist()))


@pytest.mark.parametrize("with_counter", [True, False])
def test_b50_a_first_interval_of_71_days_is_a_gap_and_no_energy(tmp_path: Path, with_counter: bool) -> None:
    """energymon 40: µs taken for ns make 6,200,404,583,720 µs of a moment; 3.025 W over them were 18,756,224 J."""
    gpu = FakeGpu(CARD, 0, power_mw=3025, busy=0)
    if not with_counter:
        gpu.field_codes, gpu.codes = {ENERGY: NOT_SUPPORTED}, dict(WITHOUT_COUNTER)
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe())
    node.run(machine.advance, 2)
    machine.advance(6_200_404.583720)
    node.tick()
    node.run(machine.advance, 2)
    assert node.energy_uj(held("j", CARD)) == {"j": 4 * 3_025_000}
    (gap,) = node.records("gap")
    assert (gap["reason"], gap["to_us"] - gap["from_us"]) == ("outage", 6_200_404_583_720)


@pytest.mark.parametrize(("gap_s", "measured_s"), [(5, 9), (6, 4), (3600, 4), (86_400, 4)])
def test_b50_power_alone_bridges_no_more_than_five_seconds(tmp_path: Path, gap_s: int, measured_s: int) -> None:
    gpu = FakeGpu(CARD, 0, power_mw=100_000, field_codes={ENERGY: NOT_SUPPORTED}, codes=dict(WITHOUT_COUNTER))
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe(), flush_s=10**6)
    node.run(machine.advance, 2)
    machine.advance(gap_s)
    node.tick()
    node.run(machine.advance, 2)
    assert node.energy_uj(held("j", CARD)) == {"j": measured_s * 100 * J}
    unknown_s = sum(line.span_us // S for line in node.lines(held("j", CARD)) if line.energy_uj is None)
    assert unknown_s == gap_s + 4 - measured_s


def sensor(folder: Path, busy: Callable[[int], int], **changed: object) -> MeasuredNode:
    """46.19 W for two minutes while the card warms up from 32 to 60 °C; `busy` gives its use at each second."""
    gpu = FakeGpu(CARD, 0, power_mw=46_190, **changed)  # type: ignore[arg-type]
    machine = FakeNvml([gpu])
    node = MeasuredNode(folder, machine.clock, machine.probe(), flush_s=30)
    node.tick()
    for second in range(120):
        machine.clock.sleep(1)
        gpu.busy, gpu.temperature = busy(second), 32 + 28 * second // 119
        gpu.energy_uj += 250 * J
        node.tick()
    return node


def test_b52_a_power_that_never_moves_while_the_card_works_is_a_frozen_sensor(tmp_path: Path) -> None:
    """GPU_Power_Benchmark, 12,792 rows of 46.19 W: without a counter it is all there is, and it is said."""
    node = sensor(tmp_path, lambda second: 97 if second % 7 else 12, field_codes={ENERGY: NOT_SUPPORTED},
                  codes=dict(WITHOUT_COUNTER))  # fmt: skip
    temperatures = [cell or 0 for cell in node.column("temperature_c")]
    assert (min(temperatures), max(temperatures), set(node.column("power_mw"))) == (32, 60, {46_190})
    assert node.energy_uj(held("j", CARD)) == {"j": 120 * 46_190_000}
    assert node.marks(held("j", CARD)) == {"frozen_sensor"}
    assert node.discrepancies(held("j", CARD)) == {"frozen_sensor"}


def test_b52_where_a_counter_counts_the_frozen_power_is_not_billed(tmp_path: Path) -> None:
    node = sensor(tmp_path, lambda second: 97 if second % 7 else 12)
    assert node.energy_uj(held("j", CARD)) == {"j": 120 * 250 * J}
    assert "disagree" in node.marks(held("j", CARD))


def test_b44_an_agent_that_starts_under_load_knows_no_idle_power(tmp_path: Path) -> None:
    """kepler 2388 and 2498: the first reading is no floor. Without one all is split by activity: 3 × 80 to 1 × 80."""
    instances = [
        FakeInstance(1, "3g.40gb", ("MIG-1",), activity=80.0),
        FakeInstance(2, "1g.10gb", ("MIG-2",), activity=80.0),
    ]
    gpu = FakeGpu(CARD, 0, power_mw=200_000, busy=99, mig_mode=1, instances=instances, processes=[FakeProcess(1184)])
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe())
    node.run(machine.advance, 100)
    assert {one["idle_floor_mw"] for one in node.wire()} == {None}
    jobs = held("a", CARD, 0, "1", 3, 7), held("b", CARD, 0, "2", 1, 7)
    assert node.energy_uj(*jobs) == {"a": 15_000 * J, "b": 5000 * J}


def test_b44_a_floor_above_what_is_drawn_never_makes_anything_negative(tmp_path: Path) -> None:
    """20 W under a floor of 50 W, of other days: all of it is static, by slices, and the free slices' is idle."""
    instances = [FakeInstance(1, "3g.40gb", ("MIG-1",), activity=80.0)]
    machine = FakeNvml([FakeGpu(CARD, 0, power_mw=21_000, mig_mode=1, instances=instances)])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe(), floors_mw={CARD: 50_000})
    node.run(machine.advance, 10)
    assert {one["idle_floor_mw"] for one in node.wire()} == {50_000}
    assert node.energy_uj(held("a", CARD, 0, "1", 3, 7)) == {"a": 90 * J, "__idle__": 120 * J}
    assert all((line.energy_uj or 0) >= 0 for line in node.lines(held("a", CARD, 0, "1", 3, 7)))


@pytest.mark.parametrize(
    ("power_mw", "is_raised", "floor_mw"),
    [(100_000, True, 50_000), (76_000, True, 50_000), (74_000, False, 74_000), (40_000, False, 40_000)],
)
def test_b59_an_idle_card_that_draws_far_more_than_it_used_to_raises_an_alert(
    tmp_path: Path, power_mw: int, is_raised: bool, floor_mw: int
) -> None:
    """dcgm-exporter 464: 50 W became 100 W by the exporter itself. The remembered floor stays meanwhile."""
    machine = FakeNvml([FakeGpu(CARD, 0, power_mw=power_mw, busy=0)])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe(), floors_mw={CARD: 50_000})
    node.run(machine.advance, 90)
    assert IDLE_FLOOR_RAISED.labels(CARD)._value.get() == int(is_raised)
    node.tick()
    assert {one["idle_floor_mw"] for one in node.wire()[-1:]} == {floor_mw}


def test_b59_the_agents_own_reading_of_an_idle_card_makes_ten_calls_a_tick_at_most(tmp_path: Path) -> None:
    machine = FakeNvml([FakeGpu(CARD, 0, busy=0, field_codes={AVERAGE: 0, INSTANT: 0})])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe())
    node.run(machine.advance, 2)
    before = machine.calls
    node.run(machine.advance, 100)
    assert (machine.calls - before) / 100 <= 10

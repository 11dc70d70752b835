"""Whose time and energy readings are: by device, by count, beside a holder that slept, in batches and in traces."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from wattledger_audit.assessment.assess import Asked, Assessment, assess
from wattledger_audit.assessment.cost_book import CostBook
from wattledger_audit.assessment.device_time import DeviceTime
from wattledger_audit.assessment.measuring import NO_BATCHES, NodeBatches
from wattledger_audit.assessment.period import Period
from wattledger_audit.gathering import Gathered
from wattledger_audit.intake.record import DeviceTrace, FleetNode, UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.report.build_report import build_report
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity, SampledDevice
from wattledger_core.price import Price
from wattledger_core.revision import Origin
from wattledger_core.sweep import NOBODY, PARTS_PER_US, Taking
from wattledger_core.units import US_PER_HOUR, US_PER_S

WATTS_MW = 100_000
HOUR_UJ = 100 * 3600 * US_PER_S
"""Energy of a device that draws 100 W for an hour."""
HOUR_PARTS = US_PER_HOUR * PARTS_PER_US
TICKS = np.arange(0, US_PER_HOUR + 1, 10 * US_PER_S, dtype=np.int64)
GOOD = np.ones(len(TICKS), dtype=np.bool_)
POWER = np.full(len(TICKS), WATTS_MW, dtype=np.int64)
COUNTER = TICKS * (WATTS_MW // 1000)
BUSY = np.full(len(TICKS), 500_000, dtype=np.int64)


def run(job: str, device: str = "", gpus: int = 1, share: tuple[int, int] = (1, 1), end_us: int = US_PER_HOUR) -> (
    UsageRun
):  # fmt: skip
    return UsageRun(
        1, "c", job, job, 0, job, "", "", "", "on_demand", "", "gpu", ("n1",), device, "H100", gpus, *share, None, None,
        0, end_us, 0, "COMPLETED", None, False, None, None, None, "", (),
    )  # fmt: skip


def trace(device: str, index: int, watts: int = 100) -> DeviceTrace:
    return DeviceTrace(
        "n1", device, index, "H100", "", TICKS, POWER * watts // 100, GOOD, COUNTER * watts // 100, GOOD, BUSY, GOOD
    )  # fmt: skip


def batch(device: SampledDevice) -> Batch:
    good = GOOD[None, :]
    return Batch(
        "n1", "", "a", "b", 0, 10 * US_PER_S, TICKS, (device,), POWER[None, :].copy(), good, COUNTER[None, :], good,
        BUSY[None, :], good,
    )  # fmt: skip


def sampled(
    sharing: str, processes: tuple[ProcessActivity, ...] = (), instances: tuple[InstanceActivity, ...] = ()
) -> SampledDevice:
    return SampledDevice("GPU-0", 0, "", 0, "H100", "", "", sharing, "e", 0, None, 7, instances, processes)


def assessed(
    runs: Sequence[UsageRun], gpus: int, traces: Sequence[DeviceTrace] = (), batches: NodeBatches = NO_BATCHES
) -> Assessment:
    gathered = Gathered()
    for item in runs:
        gathered.runs.add(item, 0)
    gathered.fleet = [
        FleetNode(1, "n1", "c", "", "H100", gpus, 7, None, None, "active", None, None, (), tuple(
            f"GPU-{k}" for k in range(gpus)
        ))
    ]  # fmt: skip
    gathered.traces = list(traces)
    energy = Price("e", "", Origin(0, 0), 0, "energy", 0, None, Decimal(1), "EUR")
    compute = Price("c", "", Origin(0, 0), 0, "compute", 0, None, Decimal(2), "EUR")
    period = Period(0, US_PER_HOUR, ZoneInfo("UTC"), "one hour")
    book = CostBook("EUR", period.zone, (energy, compute), has_energy=True)
    rejections = Rejections(StringIO())
    return assess(gathered, Asked(period.zone, period), rejections, (), lambda _: None, book, batches)


def of_run(found: Assessment, job: str) -> list[Fraction | int]:
    """Energy and measured time of a run, in hours of 100 W and in device-hours."""
    number = found.runs.jobs.index(job)
    measured = found.measured
    return [Fraction(measured.run_uj[number], HOUR_UJ), Fraction(measured.run_parts[number], HOUR_PARTS)]


def coverage(found: Assessment) -> str:
    return build_report(found, Rejections(StringIO())).coverage.measured_ratio


def test_a_named_device_is_its_holder_s_and_the_rest_is_idle() -> None:
    found = assessed([run("a", "GPU-1")], 2, [trace("GPU-0", 0, 50), trace("GPU-1", 1)])
    assert of_run(found, "a") == [1, 1]
    assert sum(found.measured.energy_uj.values()) == HOUR_UJ * 3 // 2
    assert coverage(found) == "1.0000"


@pytest.mark.parametrize(
    ("gpus", "held", "traced", "energy", "time", "covered"),
    [
        # gpus of the node, held by the run, with readings; 100 W each, so the run has held ÷ gpus of what was read
        (2, 1, 2, Fraction(1), Fraction(1), "1.0000"),
        (8, 4, 8, Fraction(4), Fraction(4), "1.0000"),
        (4, 3, 4, Fraction(3), Fraction(3), "1.0000"),
        (2, 1, 1, Fraction(1, 2), Fraction(1, 2), "0.5000"),
        (8, 8, 2, Fraction(2), Fraction(2), "0.2500"),
    ],
)
def test_a_run_of_a_count_of_gpus_has_that_share_of_all_energy_and_all_its_time_is_measured_that_was_read(
    gpus: int, held: int, traced: int, energy: Fraction, time: Fraction, covered: str
) -> None:
    found = assessed([run("a", gpus=held)], gpus, [trace(f"GPU-{k}", k) for k in range(traced)])
    got = of_run(found, "a")
    assert max(abs(got[0] - energy), abs(got[1] - time)) < Fraction(1, 10**9)
    assert coverage(found) == covered


def test_a_holder_that_slept_beside_another_is_measured_at_nothing() -> None:
    asleep = ProcessActivity("c", "b", np.zeros(len(TICKS), dtype=np.int64), GOOD)
    awake = ProcessActivity("c", "a", BUSY, GOOD)
    runs = [run(job, "GPU-0", share=(1, 4)) for job in ("a", "b")]
    found = assessed(runs, 1, batches={"n1": [batch(sampled("time_sliced", (awake, asleep)))]})
    assert of_run(found, "a") == [1, Fraction(1, 4)]
    assert of_run(found, "b") == [0, Fraction(1, 4)]
    assert coverage(found) == "1.0000"


@pytest.mark.parametrize(("sharing", "energy"), [("mig", Fraction(3, 5)), ("exclusive", Fraction(3, 5))])
def test_instances_are_told_by_the_name_behind_the_device(sharing: str, energy: Fraction) -> None:
    instances = tuple(InstanceActivity(name, slices, BUSY, GOOD) for name, slices in (("g3", 3), ("g2", 2)))
    runs = [run("a", "GPU-0::g3", share=(3, 7)), run("b", "GPU-0::g2", share=(2, 7))]
    found = assessed(runs, 1, batches={"n1": [batch(sampled(sharing, instances=instances))]})
    # no idle floor is known: by slices × activity, alike here
    assert abs(of_run(found, "a")[0] - energy) < Fraction(1, 10**6)
    assert of_run(found, "a")[1] == Fraction(3, 7)


def test_replicas_of_a_device_are_no_instances() -> None:
    runs = [run(job, f"GPU-0::{job}", share=(1, 4)) for job in ("a", "b")]
    used = ProcessActivity("c", "a", BUSY, GOOD)
    found = assessed(runs, 1, batches={"n1": [batch(sampled("time_sliced", (used,)))]})
    assert of_run(found, "a")[0] == 1


def test_batches_win_over_traces_of_the_same_node() -> None:
    found = assessed([run("a", "GPU-0")], 1, [trace("GPU-0", 0)], {"n1": [batch(sampled("exclusive"))]})
    assert of_run(found, "a") == [1, 1]


def test_batches_of_a_node_that_nothing_names_are_said() -> None:
    found = assessed([run("a", "GPU-0")], 1, batches={"n9": [batch(sampled("exclusive"))]})
    assert found.swept.found["telemetry_of_unknown_node", "n9"][0] == 1
    assert not found.measured.energy_uj


def test_what_readings_contradict_is_listed() -> None:
    wrong = batch(sampled("exclusive"))
    wrong.power_mw[0, 10] = 9_000_000_000
    found = assessed([run("a", "GPU-0")], 1, batches={"n1": [wrong]})
    assert found.swept.found["implausible_reading", "n1"] == (1, "GPU-0, 1970-01-01 00:00:00 UTC")


@pytest.mark.parametrize(
    ("takings", "expected"),
    [
        ([], {NOBODY: 60}),
        ([(0, 60, 1, 1)], {0: 60, NOBODY: 0}),
        ([(10, 30, 1, 1)], {0: 20, NOBODY: 40}),
        ([(0, 60, 1, 4), (30, 90, 1, 2)], {0: 15, 1: 15, NOBODY: 30}),
        # two claim the whole: half each; three thirds and a half: two, two, two and three of nine
        ([(0, 60, 1, 1), (0, 30, 1, 1)], {0: 45, 1: 15, NOBODY: 0}),
        ([(0, 60, 1, 3)] * 3 + [(0, 60, 1, 2)], {0: 40 / 3, 1: 40 / 3, 2: 40 / 3, 3: 20, NOBODY: 0}),
        ([(70, 90, 1, 1)], {NOBODY: 60}),
    ],
)
def test_parts_of_a_device_s_time_sum_to_it(
    takings: Sequence[tuple[int, int, int, int]], expected: Mapping[int, float]
) -> None:
    time = DeviceTime([(n, Taking(a, b, 0, n, num, den)) for n, (a, b, num, den) in enumerate(takings)])
    parts = time.parts(0, 60)
    assert sum(parts.values()) == 60 * PARTS_PER_US
    assert {number: round(part / PARTS_PER_US, 6) for number, part in parts.items() if part} == {
        number: round(hours, 6) for number, hours in expected.items() if hours
    }

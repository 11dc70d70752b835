"""Batches of a node's traces: they tile time for each device, and their energy is that of the trace however cut."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from wattledger_audit.assessment.trace_batches import BATCH_TICKS, trace_batches
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.telemetry_nvidia_smi import IMPORTERS as NVIDIA_SMI
from wattledger_core.batch import Batch
from wattledger_core.curve import build_curves
from wattledger_core.policy import Policy

from tests.telemetry_reading import energy_uj, read_file, unknown_us

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "power-meter"
recorded = pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded traces are not there: {DATA}")
KNOWN = [
    # trace, from, to, µJ between the markers (shared/data/README.md has them in J)
    ("A100_TR", 1689325828417687, 1689325840387686, 1_492_794_892),
    ("3090_TR", 1688840857595627, 1688840869524528, 3_271_998_764),
    ("4090_TR", 1689858995561243, 1689859007542629, 2_622_300_813),
]
S = 1_000_000
Values = Sequence[int | None]


def trace(device: str, ticks_s: Sequence[float], power: Values = (), counter: Values = ()) -> DeviceTrace:
    def column(values: Values) -> tuple[np.ndarray, np.ndarray]:
        given = list(values) or [None] * len(ticks_s)
        return np.array([v or 0 for v in given], dtype=np.int64), np.array(
            [v is not None for v in given], dtype=np.bool_
        )

    ticks = np.array([round(at * S) for at in ticks_s], dtype=np.int64)
    return DeviceTrace("n1", device, 0, "NVIDIA H100", "590", ticks, *column(power), *column(counter), *column(()))


def between(batches: Sequence[Batch], from_us: int, to_us: int) -> int:
    """Energy of the only device between two stamps."""
    total = 0
    for batch in batches:
        a, b = max(from_us, batch.start_us), min(to_us, batch.end_us)
        if a < b:
            total += build_curves(batch, Policy()).slice(0, a, b).energy_uj
    return total


@recorded
@pytest.mark.parametrize("batch_ticks", [2, 37, BATCH_TICKS, 100_000])
@pytest.mark.parametrize(("name", "from_us", "to_us", "expected_uj"), KNOWN)
def test_a_recorded_traces_energy_is_the_same_however_it_is_cut(
    name: str, from_us: int, to_us: int, expected_uj: int, batch_ticks: int
) -> None:
    clock = ReadOptions(timezone=ZoneInfo("Etc/GMT-1"))  # the recording's clock is an hour ahead of UTC
    told = read_file(NVIDIA_SMI[0], DATA / name / "gpudata.csv", clock)
    batches = list(trace_batches(told.traces, batch_ticks=batch_ticks))
    assert between(batches, from_us, to_us) == expected_uj


@pytest.mark.parametrize("batch_ticks", [2, 3, 10, 600])
def test_batches_tile_time_and_repeat_the_tick_at_which_they_are_cut(batch_ticks: int) -> None:
    one = trace("GPU-a", range(25), [100_000 + k for k in range(25)])
    batches = list(trace_batches([one], "berlin", batch_ticks))
    assert (batches[0].start_us, batches[-1].end_us) == (0, 24 * S)
    assert all(a.end_us == b.start_us for a, b in itertools.pairwise(batches))
    assert all(a.power_mw[0, -1] == b.power_mw[0, 0] for a, b in itertools.pairwise(batches))
    assert all(2 <= len(batch.ticks_us) <= batch_ticks and (np.diff(batch.ticks_us) > 0).all() for batch in batches)
    assert [batch.seq for batch in batches] == list(range(len(batches)))
    assert {(batch.node, batch.site, batch.period_us) for batch in batches} == {("n1", "berlin", S)}


def test_devices_read_at_the_same_ticks_share_a_batch() -> None:
    [batch] = trace_batches([trace("GPU-a", range(3), [1, 2, 3]), trace("GPU-b", range(3), [4, None, 6])])
    assert [device.device for device in batch.devices] == ["GPU-a", "GPU-b"]
    assert batch.power_mw.tolist() == [[1, 2, 3], [4, 0, 6]]
    assert batch.power_valid.tolist() == [[True] * 3, [True, False, True]]


def test_devices_stamped_a_moment_apart_keep_all_their_energy() -> None:
    """nvidia-smi stamps each row: on common ticks no device would have two readings in a row."""
    traces = [trace(f"GPU-{d}", [k + d / 100 for k in range(61)], [100_000] * 61) for d in range(8)]
    assert energy_uj(traces) == {f"GPU-{d}": 60 * 100 * S for d in range(8)}
    assert set(unknown_us(traces).values()) == {0}
    ends = [batch.end_us for batch in trace_batches(traces, batch_ticks=10)]
    assert ends == sorted(ends)


@pytest.mark.parametrize("batch_ticks", [2, 3, 600])
def test_a_hole_is_bridged_by_a_counter_and_by_nothing_else(batch_ticks: int) -> None:
    ticks = [0, 1, 2, 1000, 1001]
    counted = trace("GPU-a", ticks, [50_000] * 5, [50 * S * t for t in ticks])
    powered = trace("GPU-b", ticks, [50_000] * 5)
    assert energy_uj([counted, powered], batch_ticks) == {"GPU-a": 50_050 * S, "GPU-b": 150 * S}
    assert unknown_us([counted, powered]) == {"GPU-a": 0, "GPU-b": 998 * S}


@pytest.mark.parametrize("batch_ticks", range(4, 14))
def test_a_cut_never_falls_where_it_would_hide_a_counter(batch_ticks: int) -> None:
    """Blank at 4 and 5, a bad read at 9 (neighbours rise past it): the counter's rise is all there is, 10 J a step."""
    counter: list[int | None] = [1_000_000_000 + 10 * S * k for k in range(14)]
    counter[4] = counter[5] = None
    counter[9] = 7
    assert energy_uj([trace("GPU-a", range(14), counter=counter)], batch_ticks) == {"GPU-a": 130 * S}


def test_a_reset_costs_only_its_own_step() -> None:
    counter = [10 * S, 20 * S, 30 * S, 0, 10 * S, 20 * S]
    for batch_ticks in (2, 3, 4, 600):
        assert energy_uj([trace("GPU-a", range(6), counter=counter)], batch_ticks) == {"GPU-a": 40 * S}


def test_counters_start_from_their_first_reading() -> None:
    [batch] = trace_batches([trace("GPU-a", range(3), counter=[None, 5 * 10**18, 5 * 10**18 + 7])])
    assert batch.counter_uj.tolist() == [[0, 0, 7]]


def test_one_tick_makes_no_batch() -> None:
    assert list(trace_batches([trace("GPU-a", [0], [1])])) == []
    assert list(trace_batches([])) == []


def test_a_batch_has_two_ticks_at_least() -> None:
    with pytest.raises(ValueError, match="two ticks"):
        list(trace_batches([], batch_ticks=1))

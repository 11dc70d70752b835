"""A recorded A100 trace through agent, Kafka, Faust and ClickHouse: jobs cut at any microsecond sum to the whole."""

import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattledger_audit.broker import Broker
from wattledger_audit.demo import play_into, read_client, settle
from wattledger_audit.integrate import integrate, trace_batch
from wattledger_audit.nvidia_smi_csv import Trace, parse_offset, read_nvidia_smi_csv
from wattledger_audit.stack import Stack, StackSettings
from wattledger_core.batch import Batch
from wattledger_core.event import Claim, InventoryDevice, JobEvent, NodeEvent, Tick
from wattledger_core.policy import Policy

from tests.pipeline_day import Emission

pytestmark = pytest.mark.kafka
S = 1_000_000
QUARTER = 900 * S
FILE = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "power-meter" / "A100_TR" / "gpudata.csv"
NODE, TILED, INSIDE = "a100", "GPU-tiled", "GPU-inside"
Energies = dict[tuple[str, str], int]
"""(device, job) → µJ; an empty job is what nobody held."""


def quiet(_: str) -> None:
    """Progress goes nowhere."""


@dataclass(frozen=True, slots=True)
class Run:
    traces: dict[str, Trace]
    batch: Batch
    cuts: dict[str, list[int]]
    energies: Energies
    seed: int


def _two_devices(traces: dict[str, Trace]) -> Batch:
    """Both power columns of the trace, as two devices of one node in one flush."""
    one, other = (trace_batch(trace) for trace in traces.values())
    names = ("power_mw", "power_valid", "counter_uj", "counter_valid", "busy_ppm", "busy_valid")
    columns: dict[str, Any] = {name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names}
    devices = tuple(
        replace(one.devices[0], device=name, index=i, gpu_model="A100", minor=i) for i, name in enumerate(traces)
    )
    return replace(one, node=NODE, site="lab", agent="agent-a100", boot_id="b", devices=devices, **columns)


def _job(job: str, kind: str, at_us: int, claims: tuple[Claim, ...] = ()) -> Emission:
    return Emission(
        at_us,
        JobEvent(f"{job}-{kind}", kind, at_us, "c", job, 0, claims, "acme", outcome="" if claims else "COMPLETED"),
    )  # fmt: skip


def _emissions(batch: Batch, cuts: dict[str, list[int]]) -> list[Emission]:
    first_us = batch.start_us - batch.start_us % QUARTER
    listed = tuple(InventoryDevice(device, i, "A100") for i, device in enumerate((TILED, INSIDE)))
    found = [Emission(first_us, NodeEvent("i", "inventory", first_us, NODE, "c", "lab", listed, 64))]
    for device, points in cuts.items():
        for i, (start_us, end_us) in enumerate(pairwise(points)):
            found.append(_job(f"{device}-{i}", "start", start_us, (Claim(NODE, device),)))
            found.append(_job(f"{device}-{i}", "end", end_us))
    found.append(Emission(batch.end_us + S, batch))
    found += [Emission(first_us + 60 * S * i, Tick(first_us + 60 * S * i)) for i in range(60)]
    return sorted(found, key=lambda emission: emission.at_us)


@pytest.fixture(scope="module")
def run(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    if not FILE.exists():
        pytest.skip(f"the recorded traces are not there: {FILE}")
    seed = secrets.randbelow(10**6)
    print(f"seed of the cuts: {seed}")
    dice = random.Random(seed)
    columns = {TILED: "power.draw", INSIDE: "power.draw.instant"}
    traces = {d: read_nvidia_smi_csv(FILE, column, parse_offset("+01:00"))[0] for d, column in columns.items()}
    batch = _two_devices(traces)
    inner = range(batch.start_us + 1, batch.end_us)
    cuts = {
        # the jobs tile the trace to its ends; on the other device something is idle before and after
        TILED: [batch.start_us, *sorted(dice.sample(inner, 2)), batch.end_us],
        INSIDE: sorted(dice.sample(inner, 4)),
    }
    settings = StackSettings(
        tmp_path_factory.mktemp("trace"), Path(), broker.bootstrap, 2, "trace.", future_limit_s=7200, refresh_s=1
    )
    with Stack(settings) as stack:
        play_into(stack, _emissions(batch, cuts), quiet)
        settle(stack, quiet)
        client = read_client(stack)
        rows = client.query(
            "SELECT device, job, sum(energy_uj) FROM usage_lines FINAL WHERE kind = 'energy' GROUP BY device, job"
        ).result_rows
        dead = client.query("SELECT count() FROM dead_letters").result_rows[0][0]
        client.close()
    assert dead == 0
    yield Run(traces, batch, cuts, {(str(d), str(j)): int(e) for d, j, e in rows}, seed)


@pytest.mark.parametrize("device", [TILED, INSIDE])
def test_what_the_tables_hold_of_a_device_is_the_integral_of_its_trace(run: Run, device: str) -> None:
    whole = integrate(run.traces[device], None, None, Policy()).energy_uj
    assert whole is not None
    assert sum(energy for (name, _), energy in run.energies.items() if name == device) == whole, f"seed {run.seed}"


def test_three_jobs_that_tile_the_trace_sum_to_it(run: Run) -> None:
    whole = integrate(run.traces[TILED], None, None, Policy()).energy_uj
    jobs = {job: energy for (device, job), energy in run.energies.items() if device == TILED and job}
    assert len(jobs) == 3
    assert sum(jobs.values()) == whole, f"seed {run.seed}"
    assert (TILED, "") not in run.energies or run.energies[TILED, ""] == 0


@pytest.mark.parametrize("device", [TILED, INSIDE])
def test_each_job_has_what_wattledger_integrate_says_of_its_interval(run: Run, device: str) -> None:
    points = run.cuts[device]
    for i, (start_us, end_us) in enumerate(pairwise(points)):
        alone = integrate(run.traces[device], start_us, end_us, Policy())
        assert run.energies.get((device, f"{device}-{i}"), 0) == alone.energy_uj, f"seed {run.seed}, job {i}"


def test_what_is_before_the_first_job_and_after_the_last_is_idle(run: Run) -> None:
    points = run.cuts[INSIDE]
    before = integrate(run.traces[INSIDE], None, points[0], Policy()).energy_uj or 0
    after = integrate(run.traces[INSIDE], points[-1], None, Policy()).energy_uj or 0
    assert run.energies[INSIDE, ""] == before + after, f"seed {run.seed}"

"""The generated day: nodes, devices, jobs, prices and power, second by second, and the exact sums that must come out.

Plain integers and no part of the pipeline. Jobs start and end on whole seconds and power is in whole mW at each of
them, so a trapezoid of any cut is a whole number of µJ: every contestant can be held to the same sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

S = 1_000_000
START_US = 1_794_182_400 * S
HOUR_S = 3600
QUARTER_S = 900
JOB_SIZES = (1, 2, 4, 8)
"""GPUs a job holds, by node in turn; a node with fewer devices gives all it has."""
EUR_PER_KWH = ("0.31", "0.27", "0.42", "0.36")
"""Energy tariff, by hour in turn."""
PUE = "1.4"
EUR_PER_DEVICE_HOUR = "2.1"
TENANTS = 12
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plan:
    """Size of a day: a warm-up that is not measured, then `minutes` that are. One sample a device a second."""

    nodes: int = 16
    devices: int = 8
    ticks_per_record: int = 60
    minutes: int = 60
    partitions: int = 2
    jobs_per_hour: int = 1
    warm_minutes: int = 2
    seed: int = 7

    def __post_init__(self) -> None:
        if self.warm_s % self.ticks_per_record:
            raise ValueError(f"{self.warm_minutes} minutes of warm-up are not whole records of {self.ticks_per_record}")

    @property
    def warm_s(self) -> int:
        return self.warm_minutes * 60

    @property
    def end_s(self) -> int:
        return self.warm_s + self.minutes * 60

    @property
    def samples(self) -> int:
        """Samples measured: one device at one second; those of the warm-up are not counted."""
        return self.nodes * self.devices * self.minutes * 60


@dataclass(frozen=True, slots=True)
class Job:
    """One job on devices `first`..`first + size` of one node, over `[start_s, end_s)` from the day's start."""

    job: str
    tenant: str
    node: int
    first: int
    size: int
    start_s: int
    end_s: int

    def held_s(self, until_s: int) -> int:
        """Device-seconds held before a second of the day."""
        return max(min(self.end_s, until_s) - self.start_s, 0) * self.size


@dataclass(frozen=True, slots=True)
class Truth:
    """What a job used by the end of the day: energy, device-seconds, and what the energy costs."""

    energy_uj: int
    held_s: int
    energy_eur: Fraction


def node_name(node: int) -> str:
    return f"node-{node:03d}"


def device_name(node: int, device: int) -> str:
    return f"GPU-{node:03d}-{device:02d}"


class Day:
    """Deterministic in the plan. Power of one node is made when it is asked for and kept."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.jobs = list(self._jobs())
        self._power: dict[int, tuple[Ints, Ints]] = {}
        self._counter: dict[int, Ints] = {}

    def _jobs(self) -> Iterator[Job]:
        plan = self.plan
        slot_s = HOUR_S // plan.jobs_per_hour
        for node in range(plan.nodes):
            size = min(JOB_SIZES[node % len(JOB_SIZES)], plan.devices)
            for first in range(0, plan.devices - size + 1, size):
                shift_s = (node * 37 + first * 101) % (slot_s // 10)
                for number, from_s in enumerate(range(shift_s, plan.end_s, slot_s)):
                    tenant = f"tenant-{(node * 5 + first * 3 + number) % TENANTS:02d}"
                    name = f"{node:03d}.{first:02d}.{number:04d}"
                    yield Job(name, tenant, node, first, size, from_s, from_s + slot_s * 85 // 100)

    def power_busy(self, node: int) -> tuple[Ints, Ints]:
        """Power in mW and busy share in ppm of a node: (devices, seconds + 1), both ends included."""
        if node not in self._power:
            plan = self.plan
            shape = (plan.devices, plan.end_s + 1)
            held = np.zeros(shape, dtype=np.bool_)
            for job in self.jobs:
                if job.node == node:
                    held[job.first : job.first + job.size, job.start_s : job.end_s] = True
            rng = np.random.default_rng([plan.seed, node])
            work = rng.integers(450_000, 700_000, shape)
            power = np.where(held, work, rng.integers(70_000, 90_000, shape))
            self._power[node] = power, np.where(held, work + 250_000, 0)
        return self._power[node]

    def counter_uj(self, node: int) -> Ints:
        """The devices' energy counters, µJ from the day's start: the exact trapezoid of their power."""
        if node not in self._counter:
            power, _ = self.power_busy(node)
            gains = (power[:, 1:] + power[:, :-1]) * (S // 2000)
            start = np.zeros((len(power), 1), dtype=np.int64)
            self._counter[node] = np.concatenate([start, np.cumsum(gains, axis=1)], axis=1)
        return self._counter[node]

    def truth(self) -> dict[str, Truth]:
        """What each job used and what its energy costs at the tariff of each hour, unrounded."""
        counters = [self.counter_uj(node) for node in range(self.plan.nodes)]
        return {job.job: self._truth(job, counters[job.node]) for job in self.jobs}

    def _truth(self, job: Job, counter: Ints) -> Truth:
        end_s = min(job.end_s, self.plan.end_s)
        cuts = [job.start_s, *range((job.start_s // HOUR_S + 1) * HOUR_S, end_s, HOUR_S), end_s]
        energy_uj, cost = 0, Fraction(0)
        for from_s, to_s in pairwise(cuts):
            held = counter[job.first : job.first + job.size]
            part_uj = int((held[:, to_s] - held[:, from_s]).sum())
            energy_uj += part_uj
            rate = Fraction(EUR_PER_KWH[from_s // HOUR_S % len(EUR_PER_KWH)]) * Fraction(PUE)
            cost += rate * part_uj / (HOUR_S * 1000 * S)
        return Truth(energy_uj, job.held_s(end_s), cost)

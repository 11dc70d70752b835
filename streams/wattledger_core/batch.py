"""One flush of one node's samples as arrays: what the energy meter integrates. Values only."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class InstanceActivity:
    """A MIG instance's activity: `slices` of the parent, `activity_ppm[n]` with its validity."""

    gpu_instance: str
    slices: int
    activity_ppm: Int64Array
    valid: BoolArray


@dataclass(frozen=True, slots=True)
class ProcessActivity:
    """SM share of the processes of one job on one device, `sm_ppm[n]` with validity; `job` is empty for processes
    that belong to no known job."""

    cluster: str
    job: str
    sm_ppm: Int64Array
    valid: BoolArray


@dataclass(frozen=True, slots=True)
class SampledDevice:
    """What identifies one sampled device, and its optional activity columns."""

    device: str
    index: int
    pci: str
    minor: int
    gpu_model: str
    driver: str
    mig_layout: str
    sharing: str
    counter_epoch: str
    epoch_from_tick: int
    """First tick read in `counter_epoch`; ticks before it belong to the epoch before (0: all are in it)."""
    idle_floor_mw: int | None
    slices: int = 7
    instances: tuple[InstanceActivity, ...] = ()
    processes: tuple[ProcessActivity, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """All devices of one node over one flush: d devices, n ticks. Ticks strictly increase; the first repeats the
    last tick of the batch before, so batches tile `[ticks_us[0], ticks_us[-1])`.

    Arrays are (d, n): power in mW, the energy counter in µJ relative to its first valid reading, busy share in ppm;
    each with its validity. An invalid cell's value is meaningless."""

    node: str
    site: str
    agent: str
    boot_id: str
    seq: int
    period_us: int
    ticks_us: Int64Array
    devices: tuple[SampledDevice, ...]
    power_mw: Int64Array
    power_valid: BoolArray
    counter_uj: Int64Array
    counter_valid: BoolArray
    busy_ppm: Int64Array
    busy_valid: BoolArray

    @property
    def start_us(self) -> int:
        return int(self.ticks_us[0])

    @property
    def end_us(self) -> int:
        return int(self.ticks_us[-1])

"""Small values for tests: one node, whole seconds, easy numbers. Every default can be overridden."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity, SampledDevice
from wattledger_core.event import InventoryDevice
from wattledger_core.ids import digest
from wattledger_core.line import DeviceTotal, Line
from wattledger_core.meter import Group, PartitionMeter
from wattledger_core.policy import Policy
from wattledger_core.revision import AllocationRevision, Mark, NodeRevision, Origin

S = 1_000_000
QUARTER = 900 * S
NODE, DEVICE = "n1", "GPU-0"


def allocation(
    job: str, start_s: float, end_s: float | None, *, offset: int, known_s: float, partition: int = 0, **changes: Any
) -> AllocationRevision:
    """An allocation revision of `job` on the default device; `changes` override any field."""
    device = changes.get("device", DEVICE)
    instance = changes.get("gpu_instance", "")
    name = digest("allocation", "c", job, 0, NODE, device, instance, 0)
    revision_id = digest("revision", name, partition, offset, 0)
    base = AllocationRevision(
        revision_id, name, Origin(partition, offset), round(known_s * S), "c", job, 0, 0, NODE, device, instance, 1, 1,
        f"tenant-{job}", "", "", "", "on_demand", "h100", "full", "full", False, None, None, None, round(start_s * S),
        None if end_s is None else round(end_s * S),
    )  # fmt: skip
    return replace(base, **changes)


def fact(
    kind: str, start_s: float, end_s: float | None, *, offset: int, known_s: float, partition: int = 0, **changes: Any
) -> NodeRevision:
    """A node fact; named by kind and start unless `fact_id` is given."""
    name = changes.pop("fact_id", digest("fact", NODE, kind, round(start_s * S)))
    base = NodeRevision(
        digest("revision", name, partition, offset, 0), name, Origin(partition, offset), round(known_s * S), NODE, "c",
        kind, round(start_s * S), None if end_s is None else round(end_s * S),
    )  # fmt: skip
    return replace(base, **changes)


def installed(devices: Sequence[str] = (DEVICE,), start_s: float = 0, offset: int = 0) -> list[NodeRevision]:
    """Inventory and service of the node from `start_s` on."""
    listed = tuple(InventoryDevice(name, i, "H100") for i, name in enumerate(devices))
    return [
        fact("inventory", start_s, None, offset=offset, known_s=0, devices=listed, site="fra1", cpus=64),
        replace(fact("service", start_s, None, offset=offset, known_s=0), origin=Origin(0, offset, 1)),
    ]


def mark(at_s: float, *, offset: int, partition: int = 0) -> Mark:
    return Mark(Origin(partition, offset), round(at_s * S))


def batch(
    ticks_s: Sequence[float],
    power_mw: Sequence[int | None] | None = None,
    counter_uj: Sequence[int | None] | None = None,
    busy_ppm: Sequence[int | None] | None = None,
    *,
    device: str = DEVICE,
    floor_mw: int | None = None,
    epoch_from: int = 0,
    instances: Sequence[tuple[str, int, Sequence[int | None]]] = (),
    processes: Sequence[tuple[str, Sequence[int | None]]] = (),
    seq: int = 0,
) -> Batch:
    """One device of the node. Instances are (id, slices, activity ppm), processes (job, SM ppm)."""
    n = len(ticks_s)

    def column(values: Sequence[int | None] | None) -> tuple[Any, Any]:
        given = [None] * n if values is None else list(values)
        return np.array([0 if v is None else v for v in given], dtype=np.int64), np.array(
            [v is not None for v in given]
        )

    sampled = SampledDevice(
        device, 0, "0000:00:00.0", 0, "H100", "550", "", "exclusive", "epoch", epoch_from, floor_mw, 7,
        tuple(InstanceActivity(name, slices, *column(values)) for name, slices, values in instances),
        tuple(ProcessActivity("c", job, *column(values)) for job, values in processes),
    )  # fmt: skip
    columns = [part[None, :] for values in (power_mw, counter_uj, busy_ppm) for part in column(values)]
    ticks = np.array([round(tick * S) for tick in ticks_s], dtype=np.int64)
    return Batch(NODE, "fra1", "agent", "boot", seq, S, ticks, (sampled,), *columns)


def steady(start_s: int, end_s: int, power_mw: int = 100_000, **changes: Any) -> Batch:
    """A batch at 1 Hz and constant power."""
    ticks = list(range(start_s, end_s + 1))
    return batch(ticks, [power_mw] * len(ticks), **changes)


def partition_meter(*records: Any, sources: int = 1, policy: Policy | None = None) -> PartitionMeter:
    """A meter that has read the records."""
    meter = PartitionMeter(sources, policy or Policy())
    for record in records:
        meter.read(record)
    return meter


def energy_by_tenant(lines: Sequence[Line]) -> dict[str, int]:
    """Σ energy by tenant over original, reversal and correction lines; what sums to 0 is left out."""
    total: dict[str, int] = {}
    for line in lines:
        total[line.tenant] = total.get(line.tenant, 0) + (line.energy_uj or 0)
    return {tenant: energy for tenant, energy in total.items() if energy}


def time_by_tenant(lines: Sequence[Line]) -> dict[str, int]:
    """Σ device time in µs by tenant, in the same way."""
    total: dict[str, int] = {}
    for line in lines:
        total[line.tenant] = total.get(line.tenant, 0) + line.device_us
    return {tenant: time_us for tenant, time_us in total.items() if time_us}


def lines_of(groups: Sequence[Group]) -> list[Line]:
    return [line for group in groups for line in group.lines]


def totals_of(groups: Sequence[Group]) -> list[DeviceTotal]:
    return [total for group in groups for total in group.totals]

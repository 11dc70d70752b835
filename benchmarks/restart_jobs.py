"""More jobs in the demo's day, on nodes of their own without agents: what a restart has to fold again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge

from wattledger_audit.generated_fleet.day import CLUSTER, DAY_END_US, DAY_START_US, SITE
from wattledger_audit.trace_items import Emitted
from wattledger_core.event import Claim, InventoryDevice, JobEvent, NodeEvent

DEVICES = 200
DEVICES_A_NODE = 8
_FIRST_US = DAY_START_US + 1_000_000


@dataclass(frozen=True, slots=True)
class Extra:
    """An event and when it is emitted."""

    at_us: int
    item: JobEvent | NodeEvent


def with_jobs(day: Iterable[Emitted], jobs: int) -> Iterator[Emitted]:
    """The day with about so many jobs more: each device of the further nodes runs one after the other."""
    return merge(day, _inventory(), _jobs(jobs), key=lambda emission: emission.at_us)


def _name(device: int) -> tuple[str, str]:
    return f"far-{device // DEVICES_A_NODE:03d}", f"GPU-far-{device:04d}"


def _inventory() -> Iterator[Extra]:
    for first in range(0, DEVICES, DEVICES_A_NODE):
        node, _ = _name(first)
        listed = tuple(InventoryDevice(_name(first + i)[1], i, "H100") for i in range(DEVICES_A_NODE))
        yield Extra(_FIRST_US, NodeEvent(f"i-{node}", "inventory", DAY_START_US, node, CLUSTER, SITE, listed, 64))


def _jobs(jobs: int) -> Iterator[Extra]:
    """Starts and ends in order of time; a job begins a hundred seconds after the one before it."""
    each = max(jobs // DEVICES, 1)
    lasts_us = (DAY_END_US - DAY_START_US) // each
    for number in range(each):
        for device in range(DEVICES):
            start_us = DAY_START_US + number * lasts_us + 100_000_000
            yield Extra(start_us, _event("start", number, device, start_us))
        for device in range(DEVICES):
            end_us = DAY_START_US + (number + 1) * lasts_us
            yield Extra(end_us, _event("end", number, device, end_us))


def _event(kind: str, number: int, device: int, at_us: int) -> JobEvent:
    node, uuid = _name(device)
    job = f"far-{device}-{number}"
    claims = (Claim(node, uuid),) if kind == "start" else ()
    return JobEvent(
        f"{job}-{kind}", kind, at_us, CLUSTER, job, 0, claims, f"tenant-{device % 40}", "p", "ada", "llama", sku="gpu"
    )

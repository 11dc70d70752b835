"""Sightings in whole seconds, a run book that is told them, and what the real sessions make of its events."""

from collections.abc import Iterable, Sequence
from typing import Any

from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.run_book import RunBook
from wattledger_agent.run_life import Observed
from wattledger_agent.watchers.run import BY_UUID, DeviceRef, Finding, Held, Run, Sighting
from wattledger_core.revision import AllocationRevision
from wattledger_core.session import SessionFold
from wattledger_schemas import Codec
from wattledger_streams.mapping import from_wire_job_event

S = 1_000_000
CARD = "GPU-0"
CARDS = Inventory(tuple(Device(f"GPU-{n}", "nvidia", "H100", "550", index=n, minor=n) for n in range(2)))
MIG_CARD = Device(
    "GPU-M", "nvidia", "H100", "550", 2, 2, sharing="mig", is_mig=True,
    instances=(MigInstance("2", "MIG-3", "3g.40gb", 3), MigInstance("9", "MIG-1", "1g.10gb", 1)),
)  # fmt: skip


def held(*devices: str) -> tuple[Held, ...]:
    return tuple(Held(DeviceRef(BY_UUID, device)) for device in devices)


def run(
    job: str,
    started: int,
    *,
    ended: int | None = None,
    attempt: int = 0,
    device: str = CARD,
    hold: tuple[Held, ...] | None = None,
    suspended: bool = False,
    source: str = "slurm",
    **facts: Any,
) -> Run:
    """A run; times in seconds."""
    ended_us = None if ended is None else ended * S
    hold = held(device) if hold is None else hold
    return Run(source, "c1", job, attempt, started * S, hold, ended_us, is_suspended=suspended, **facts)


class Told:
    """A run book of node n1 that is told sightings at whole seconds. Returns the events; collects the findings."""

    def __init__(self, inventory: Inventory = CARDS, wait_s: int = 600) -> None:
        self.inventory = inventory
        self.findings: list[Finding] = []
        self._wait_s = wait_s
        self.book = RunBook("n1", "boot-1", wait_limit_us=wait_s * S)

    def __call__(self, at: int, runs: Sequence[Run], source: str = "slurm", snapshot: bool = False) -> list[Any]:
        return self._took(self.book.observe(source, Sighting(at * S, tuple(runs), snapshot), self.inventory, at * S))

    def snapshot(self, at: int, runs: Sequence[Run], source: str = "slurm") -> list[Any]:
        return self(at, runs, source, snapshot=True)

    def retry(self, at: int) -> list[Any]:
        return self._took(self.book.retry(self.inventory, at * S))

    def boot(self, boot_id: str, last_alive: int = 0) -> list[Any]:
        return self._took(self.book.booted(boot_id, last_alive * S))

    def restart(self) -> None:
        """The agent is started again with what it kept."""
        kept = self.book.dump()
        self.book = RunBook("n1", wait_limit_us=self._wait_s * S)
        self.book.load(kept)

    def _took(self, observed: Observed) -> list[Any]:
        self.findings += observed.findings
        return observed.events


def sessions(events: Iterable[dict[str, Any]]) -> list[AllocationRevision]:
    """What sessions hold for true after the events, through the wire, by start; void ones left out."""
    codec, fold = Codec(), SessionFold(0)
    standing: dict[str, AllocationRevision] = {}
    for offset, event in enumerate(events):
        wire = codec.decode(codec.encode("job_event", event)).record
        for record in fold.fold(offset, from_wire_job_event(wire)):
            assert isinstance(record, AllocationRevision)
            standing[record.allocation_id] = record
    assert fold.rejected == []
    return sorted((r for r in standing.values() if not r.void), key=lambda r: (r.start_us, r.device))

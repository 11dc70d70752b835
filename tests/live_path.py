"""A node's watchers as they run: watcher, run book, log, wire event, session. Cases are read off its ends: who held
what and when, and what was found that can't be taken."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.run_book import RunBook
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import gap_encoder
from wattledger_agent.watch_loop import WatchLog, WatchLoop
from wattledger_agent.watchers.watcher import Watcher
from wattledger_core.event import JobEvent
from wattledger_core.revision import AllocationRevision
from wattledger_schemas import Codec
from wattledger_streams.mapping import from_wire_job_event

from tests.run_sightings import sessions

S = 1_000_000
CODEC = Codec()


class Hold(NamedTuple):
    """Who holds what, as sessions have it in the end; times in seconds from the base of the path."""

    job: str
    device: str
    start_s: float
    end_s: float | None
    share: Fraction = Fraction(1)
    gpu_instance: str = ""


class LivePath:
    """Watchers of `node` over an inventory. `look` lets each of them look once."""

    def __init__(
        self, folder: Path, inventory: Inventory, *watchers: Watcher, node: str = "n1", base_us: int = 0
    ) -> None:
        self.inventory = inventory
        self.base_us = base_us
        self.clock = ManualClock(base_us)
        self.book = RunBook(node, "boot-1")
        folder.mkdir(exist_ok=True)
        self._wal = Wal(folder / "watch.wal", 1 << 30, "drop_oldest", None, gap_encoder(node, "a1", CODEC))
        self.shared = WatchLog(self._wal, self.book, node, CODEC)
        self._loops = [WatchLoop(watcher, self.shared, lambda: self.inventory, self.clock) for watcher in watchers]

    def look(self, *at_s: float) -> "LivePath":
        """Look at these times, in seconds from the base."""
        for at in at_s:
            self.clock.now_us = self.base_us + round(at * S)
            for loop in self._loops:
                loop.step()
        return self

    def events(self) -> list[dict[str, Any]]:
        """Job events as they are on the wire, in the order in which they were put in the log."""
        return [record for subject, record in self._sent() if subject == "job_event"]

    def job_events(self) -> list[JobEvent]:
        return [from_wire_job_event(record) for record in self.events()]

    def reasons(self) -> list[str]:
        """Codes of the dead letters."""
        return [record["reason_code"] for subject, record in self._sent() if subject == "dead_letter"]

    def details(self) -> str:
        return " ".join(record["detail"] for subject, record in self._sent() if subject == "dead_letter")

    def allocations(self) -> list[AllocationRevision]:
        """What sessions hold for true in the end."""
        return sessions(self.events())

    def holds(self) -> list[Hold]:
        return [
            Hold(
                one.job,
                one.device,
                (one.start_us - self.base_us) / S,
                None if one.end_us is None else (one.end_us - self.base_us) / S,
                Fraction(one.share_num, one.share_den),
                one.gpu_instance,
            )
            for one in self.allocations()
        ]

    def held_s(self) -> list[float | None]:
        """Seconds for which each was held; None: still held."""
        return [None if one.end_s is None else one.end_s - one.start_s for one in self.holds()]

    def _sent(self) -> Sequence[tuple[str, dict[str, Any]]]:
        kept = [CODEC.decode(one.record.value) for one in self._wal.pending(0, 100_000)]
        return [(one.subject, one.record) for one in kept]


def cards(*uuids: str, model: str = "NVIDIA A100-SXM4-80GB") -> Inventory:
    """NVIDIA cards whose index, minor and bus follow their order."""
    return Inventory(
        tuple(
            Device(uuid, "nvidia", model, "550.54.15", index=n, minor=n, pci=f"0000:{0x1A + n:02x}:00.0")
            for n, uuid in enumerate(uuids)
        )
    )

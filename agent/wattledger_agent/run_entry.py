"""What the run book remembers of one run, and its form as JSON. Values only; `run_life` gives them meaning."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from wattledger_agent.run_claim import WireClaim
from wattledger_agent.run_event import Facts
from wattledger_agent.watchers.run import DeviceRef, Held, Run

BY_SOURCE = "source"
BY_ABSENCE = "no_longer_seen"
"""A snapshot no longer had it: it ended at that look at the latest."""
BY_REBOOT = "agent_rebooted"
"""The machine was started again: it ended when it was last seen, or later by what nobody knows."""
BY_ATTEMPT = "next_attempt"

_NOT_KEPT = ("run", "inventory_seen", "text")

RunKey = tuple[str, str, str, int]
"""Source, cluster, job, attempt as the source counts."""
JobKey = tuple[str, str, str]


@dataclass(slots=True)
class Entry:
    """One run. `attempt` is the number that its events carry: the source's own, unless the run came back after its end
    had been said. `claims` is what was said last. Times in µs."""

    run: Run
    watcher: str
    attempt: int
    start_us: int
    facts: Facts = field(default_factory=dict)
    claims: list[WireClaim] = field(default_factory=list)
    start_claims: list[WireClaim] = field(default_factory=list)
    is_said: bool = False
    """Its start was said. Until then `later` collects what happened to it: kind, time, outcome."""
    later: list[tuple[str, int, str]] = field(default_factory=list)
    pending_us: int | None = None
    """Since when it holds what could not be said yet, for a device is not there."""
    waiting_from_us: int | None = None
    """The agent's time since when it waits for that device."""
    is_suspended: bool = False
    is_stopping: bool = False
    end_us: int | None = None
    ended_by: str = ""
    has_outcome: bool = False
    """The end was said with an outcome."""
    is_released: bool = False
    starts: int = 0
    resizes: int = 0
    noted: list[str] = field(default_factory=list)
    """What was complained of already."""
    inventory_seen: int = -1
    """Which of the book's inventories the claims were resolved against; not kept."""
    text: str = ""
    """Its JSON, once it is slim; not kept."""

    @property
    def key(self) -> RunKey:
        return self.run.source, self.run.cluster, self.run.job, self.run.attempt

    @property
    def job(self) -> JobKey:
        return self.run.source, self.run.cluster, self.run.job

    @property
    def is_open(self) -> bool:
        return self.end_us is None

    @property
    def name(self) -> str:
        """For people: `slurm c1/123`."""
        return f"{self.run.source} {self.run.cluster}/{self.run.job}"

    def slim(self) -> None:
        """Once all of it is said, only what tells a repeat from news is kept."""
        run = self.run
        if self.is_said and not self.is_open and (run.held or run.user or self.claims or self.facts):
            key = (run.source, run.cluster, run.job, run.attempt, run.started_us)
            self.run = Run(*key, held=(), owner_keys=run.owner_keys)
            self.claims, self.start_claims, self.facts = [], [], {}
            self.pending_us = self.waiting_from_us = None
            self.text = ""

    def to_text(self) -> str:
        """As JSON; what has its default is left out."""
        if self.text:
            return self.text
        text = json.dumps(self._plain(), separators=(",", ":"))
        if self.is_said and not self.is_open:
            self.text = text
        return text

    def _plain(self) -> dict[str, Any]:
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_KEPT}
        blank = Entry(self.run, "", 0, 0)
        told = {name: value for name, value in kept.items() if value != getattr(blank, name)}
        run = {name: value for name, value in asdict(self.run).items() if value not in ("", None, False, (), [])}
        return told | {"watcher": self.watcher, "attempt": self.attempt, "start_us": self.start_us, "run": run}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Entry":
        """Raises KeyError, TypeError or ValueError for what `to_text` did not write."""
        told = dict(data)
        run = dict(told.pop("run"))
        run["held"] = tuple(_held(one) for one in run.get("held", ()))
        run["owner_keys"] = tuple(run.get("owner_keys", ()))
        told["later"] = [(str(kind), int(at_us), str(outcome)) for kind, at_us, outcome in told.get("later", ())]
        return cls(run=Run(**{"attempt": 0, "started_us": 0, "cluster": "", **run}), **told)


def _held(data: Mapping[str, Any]) -> Held:
    told = dict(data)
    return Held(DeviceRef(**told.pop("ref")), **told)

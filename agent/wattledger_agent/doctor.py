"""Looks at everything the agent needs and says what is wrong, where, and what to do. Changes nothing but a test file in
the agent's own folder."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from wattledger_agent.clock import Clock
from wattledger_agent.probe_once import read_once
from wattledger_agent.probes.probe import Probe, ProbeUnavailable
from wattledger_agent.settings import AgentSettings
from wattledger_agent.watchers.watcher import Watcher, WatcherUnavailable

State = Literal["ok", "note", "wrong"]
NEEDED_TOPICS = ("gpu-samples", "job-events", "dead-letters")
_LEAST_FREE = 64 << 20


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `note`: works, but read it."""

    what: str
    state: State
    detail: str


def check_probes(probes: Sequence[Probe], clock: Clock) -> Iterator[Check]:
    """Each probe, opened and read; hardware that is not here is a note. No probe with devices at all is wrong."""
    devices = 0
    for probe in probes:
        try:
            inventory, tick = read_once(probe, clock)
        except ProbeUnavailable as error:
            yield Check(f"probe {probe.name}", "note" if error.absent else "wrong", str(error))
            continue
        devices += len(inventory.devices)
        lost = [reading.device for reading in tick.devices if reading.lost]
        said = f"{len(inventory.devices)} devices, {len(tick.zones)} host zones; {inventory.library}".rstrip("; ")
        yield Check(f"probe {probe.name}", "wrong" if lost else "ok", f"lost: {', '.join(lost)}" if lost else said)
        for note in inventory.notes:
            yield Check(f"probe {probe.name}", "note", note)
    if not devices:
        yield Check("devices", "wrong", "no probe found a GPU: nothing on this machine would be measured")


def check_watchers(watchers: Sequence[Watcher], now_us: int) -> Iterator[Check]:
    """Each watcher looks once; what it could not take is a note."""
    if not watchers:
        yield Check("watchers", "note", "none is configured: devices are measured, but no job is known to hold them")
    for watcher in watchers:
        try:
            sighting = watcher.look(now_us)
        except WatcherUnavailable as error:
            yield Check(f"watcher {watcher.name}", "wrong", str(error))
            continue
        running = sum(run.ended_us is None for run in sighting.runs)
        yield Check(f"watcher {watcher.name}", "ok", f"{running} runs here now")
        for finding in sighting.findings:
            yield Check(f"watcher {watcher.name}", "note", f"{finding.reason}: {finding.detail}")


def check_folder(wal: Path) -> Iterator[Check]:
    """The folder of the log: there, writable, synced, with space."""
    folder = wal.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trial = folder / f".{wal.name}.doctor"
        with trial.open("wb") as file:
            file.write(b"x")
            os.fsync(file.fileno())
        trial.unlink()
        room = os.statvfs(folder)
    except OSError as error:
        yield Check("log folder", "wrong", f"{folder}: {error.strerror}; the agent must be able to write there")
        return
    free = room.f_bavail * room.f_frsize
    if free < _LEAST_FREE:
        yield Check(
            "log folder", "wrong", f"{folder} has {free >> 20} MiB free; at least {_LEAST_FREE >> 20} are needed"
        )
    else:
        yield Check("log folder", "ok", f"{folder}, {free >> 20} MiB free")


def check_kafka(settings: AgentSettings) -> Iterator[Check]:
    """The broker answers, and the topics are there."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    kafka = settings.kafka
    said: list[str] = []
    try:
        config: dict[str, Any] = {**kafka.config(), "log_level": 0, "error_cb": lambda error: said.append(str(error))}
        client = AdminClient(config)
        topics = client.list_topics(timeout=8).topics
    except (KafkaException, OSError, ValueError) as error:
        why = said[-1] if said else str(error)
        yield Check("kafka", "wrong", f"{kafka.bootstrap} ({kafka.security}) does not answer: {why}")
        return
    missing = [kafka.topic_prefix + name for name in NEEDED_TOPICS if kafka.topic_prefix + name not in topics]
    if missing:
        yield Check("kafka", "wrong", f"topics are missing: {', '.join(missing)}; `wattledger topics` makes them")
    else:
        yield Check("kafka", "ok", f"{kafka.bootstrap} ({kafka.security}), all topics are there")


def check_processes(proc: Path = Path("/proc")) -> Iterator[Check]:
    """Whether the processes that drivers report can be seen."""
    try:
        (proc / "1" / "cgroup").read_bytes()
    except OSError as error:
        yield Check(
            "processes", "note", f"{proc}/1 can't be read ({error.strerror}): processes can't be tied to jobs here; "
            "give the agent the host's pid namespace, and no hidepid mount"
        )  # fmt: skip
        return
    yield Check("processes", "ok", f"{proc} shows the processes of others")


def as_json(checks: Sequence[Check]) -> dict[str, Any]:
    return {"format": 1, "healthy": is_healthy(checks), "checks": [asdict(check) for check in checks]}


def as_text(checks: Sequence[Check]) -> str:
    width = max(len(check.what) for check in checks)
    return "\n".join(f"{check.state:5}  {check.what:{width}}  {check.detail}" for check in checks)


def is_healthy(checks: Sequence[Check]) -> bool:
    return all(check.state != "wrong" for check in checks)

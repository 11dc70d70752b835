"""Looks at everything the agent needs and says what is wrong, where, and what to do. Changes nothing but a test file in
the agent's own folder."""

import errno
import os
import socket
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
_ANSWER_S = 8.0
_HINTS = {errno.ENOSPC: "make room", errno.EROFS: "mount it to be written, or set wal.path"}


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
        said = (
            f"{_count(len(inventory.devices), 'device')}, {_count(len(tick.zones), 'host zone')}; {inventory.library}"
        )
        yield Check(
            f"probe {probe.name}", "wrong" if lost else "ok", f"lost: {', '.join(lost)}" if lost else said.rstrip("; ")
        )
        for note in inventory.notes:
            yield Check(f"probe {probe.name}", "note", note)
    if not devices:
        yield Check("devices", "wrong", "no probe found a GPU: nothing on this machine would be measured")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def check_watchers(watchers: Sequence[Watcher], now_us: int) -> Iterator[Check]:
    """Each watcher looks once; what it could not take is a note."""
    if not watchers:
        yield Check("watchers", "note", "none is set: devices are measured, but no job is known to hold them")
    for watcher in watchers:
        try:
            sighting = watcher.look(now_us)
        except WatcherUnavailable as error:
            yield Check(f"watcher {watcher.name}", "wrong", str(error))
            continue
        running = sum(run.ended_us is None for run in sighting.runs)
        yield Check(f"watcher {watcher.name}", "ok", f"{_count(running, 'run')} here now")
        for finding in sighting.findings:
            yield Check(f"watcher {watcher.name}", "note", f"{finding.reason}: {finding.detail}")


def check_folder(wal: Path, cap_bytes: int) -> Iterator[Check]:
    """The folder of the log: there or to be made, writable, synced, with space. Makes no folder."""
    folder = wal.parent
    if wal.is_dir():
        yield Check(
            "log folder", "wrong", f"wal.path {wal} is a folder: name a file in it, {wal / 'agent.wal'} for one"
        )
        return
    place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    try:
        _try_to_write(place, f".{wal.name}.doctor", folder.exists())
        room = os.statvfs(place)
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, f"uid {os.geteuid()} must be able to write there, or set wal.path")
        yield Check("log folder", "wrong", f"{place}: {error.strerror}; {hint}")
        return
    free = room.f_bavail * room.f_frsize
    said = f"{folder}{'' if folder.exists() else ' will be made'}, {free >> 20} MiB free"
    if free < _LEAST_FREE:
        yield Check("log folder", "wrong", f"{said}; at least {_LEAST_FREE >> 20} are needed")
    elif free < cap_bytes:
        yield Check(
            "log folder", "note", f"{said}, and the log may grow to {cap_bytes >> 20} MiB while the broker is away "
            "(wal.cap_bytes): the disk would be full before",
        )  # fmt: skip
    else:
        yield Check("log folder", "ok", said)
    owner = place.stat().st_uid
    if os.geteuid() == 0 and owner != 0 and folder.exists():
        yield Check(
            "user", "note", f"looked at as root, and {folder} is uid {owner}'s: what that user may read is another "
            "matter; run the doctor as that user",
        )  # fmt: skip


def _try_to_write(place: Path, name: str, is_there: bool) -> None:
    """Raises OSError when nothing can be kept at the place. A folder that is yet to be made is not tried out."""
    if not is_there:
        if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
            raise OSError(errno.EACCES, os.strerror(errno.EACCES if place.is_dir() else errno.ENOTDIR))
        return
    trial = place / name
    try:
        with trial.open("wb") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
    finally:
        trial.unlink(missing_ok=True)


def check_port(settings: AgentSettings) -> Iterator[Check]:
    """Whether metrics and health can be served. A port that is taken is what a running agent looks like."""
    place = f"{settings.http_host}:{settings.http_port}"
    try:
        [family, kind, protocol, _, address] = socket.getaddrinfo(
            settings.http_host, settings.http_port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            yield Check(
                "metrics", "note", f"{place} is taken: by the agent that runs here? http://{place}/version tells"
            )
        else:
            yield Check(
                "metrics", "wrong", f"{place} can't be listened on ({error.strerror}): set http_host to an address of "
                "this machine and http_port to a free port from 1024 on",
            )  # fmt: skip
        return
    yield Check("metrics", "ok", f"{place} is free")


def check_socket(path: Path) -> Iterator[Check]:
    """Where slurm.socket is to be. It is not opened: that would take it away from an agent that listens there."""
    if path.parent.is_dir() and os.access(path.parent, os.W_OK | os.X_OK):
        yield Check("slurm.socket", "ok", f"{path} can be made" if not path.exists() else f"{path} is there, not tried")
    else:
        yield Check(
            "slurm.socket", "wrong", f"{path.parent} is no folder that uid {os.geteuid()} may write: make it, for the "
            "agent's user",
        )  # fmt: skip


def check_kafka(settings: AgentSettings) -> Iterator[Check]:
    """The broker answers, and the topics are there. Whether this agent may write them shows when it writes."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient

    from wattledger_agent.broker_trouble import most_telling

    kafka = settings.kafka
    place = f"{kafka.bootstrap} ({kafka.security})"
    if kafka.security.startswith("sasl") and not kafka.has_password():
        yield Check(
            "kafka", "wrong", f"{place}: no password is set: give kafka.password_file; what a systemd unit hands over "
            "as a credential is not there for a doctor that is run by hand",
        )  # fmt: skip
        return
    errors: list[KafkaError] = []
    try:
        for name, file in kafka.files():
            if not os.access(file, os.R_OK):
                raise OSError(
                    f"uid {os.geteuid()} can't read kafka.{name} {file}: is it there, and that user's to read?"
                )
        config: dict[str, Any] = {**kafka.config(), "log_level": 0, "error_cb": errors.append}
        client = AdminClient(config)
    except KafkaException as error:
        yield Check("kafka", "wrong", f"{place} can't be asked: {error.args[0].str()}")
        return
    except (OSError, ValueError) as error:
        yield Check("kafka", "wrong", f"{place} can't be asked: {error}")
        return
    try:
        topics = client.list_topics(timeout=_ANSWER_S).topics
    except KafkaException as error:
        client.poll(0.1)
        said, hint = most_telling([*errors, error.args[0]])
        yield Check("kafka", "wrong", f"{place} does not answer: {said}: {hint}")
        return
    missing = [kafka.topic_prefix + name for name in NEEDED_TOPICS if kafka.topic_prefix + name not in topics]
    if missing:
        prefix = f" --prefix {kafka.topic_prefix}" if kafka.topic_prefix else ""
        yield Check(
            "kafka", "wrong", f"{place} has no topics {', '.join(missing)}: `wattledger topics create --bootstrap "
            f"{kafka.bootstrap}{prefix}` makes them, where the whole of WattLedger is installed",
        )  # fmt: skip
    else:
        yield Check("kafka", "ok", f"{place}, all topics are there")


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

"""The commands that run parts of the agent: what they build, in which order they close, and what can stop them."""

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog
from wattledger_schemas import Codec

from wattledger_agent.build import agent_version, build_agent, build_probes, build_wal
from wattledger_agent.clock import SystemClock
from wattledger_agent.daemon import AgentEnded
from wattledger_agent.doctor import (
    Check,
    check_folder,
    check_kafka,
    check_port,
    check_probes,
    check_processes,
    check_socket,
    check_watchers,
)
from wattledger_agent.health import HealthServer, Pulse, answer
from wattledger_agent.host import read_host
from wattledger_agent.metrics import BUILD_INFO
from wattledger_agent.notify import Notifier
from wattledger_agent.publisher import PublisherEnded
from wattledger_agent.settings import AgentSettings
from wattledger_agent.wal_cipher import KeyRefused
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.watchers.watcher import Watcher, WatcherUnavailable

log = structlog.get_logger()
_TICKER_SILENT_S = 60.0
_LOW_BYTES = 1 << 20
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class AgentRefused(RuntimeError):
    """The agent can't start as it is configured, or here: its message says what to change."""


class AgentStopped(RuntimeError):
    """A part of the running agent ended by an error, or what it needs is not free now: whoever supervises it starts it
    anew. What was read is in the log."""


class NothingRecorded(RuntimeError):
    """A recording without a record."""


@contextmanager
def refusing(settings: AgentSettings) -> Iterator[None]:
    """Turns what building raises into AgentRefused, or into AgentStopped where it may pass: a full disk, a log or a
    port in use."""
    try:
        _look_at_state(settings.wal.path)
        yield
    except WalUnavailable as error:
        raise AgentStopped(f"{error}{_room(settings.wal.path.parent)}") from error
    except (KeyRefused, WatcherUnavailable, ValueError) as error:
        raise AgentRefused(str(error)) from error
    except OSError as error:
        place = error.filename or settings.wal.path.parent
        said = f"{place}: {error.strerror}; the agent's state is kept there"
        raise (AgentStopped if error.errno in _PASSING else AgentRefused)(said) from error


def _look_at_state(wal: Path) -> None:
    """What SQLite has no good words for. Raises ValueError."""
    if wal.is_dir():
        raise ValueError(f"wal.path {wal} is a folder: name a file in it, {wal / 'agent.wal'} for one")
    for place in (wal, wal.parent):
        if place.exists() and os.statvfs(place).f_flag & os.ST_RDONLY:
            raise ValueError(f"{place} is on a read-only file system: mount it to be written, or set wal.path")
        if place.exists() and not os.access(place, os.W_OK):
            raise ValueError(
                f"uid {os.geteuid()} may not write {place}: run the agent as its owner, or set wal.path to a place of "
                "its own"
            )


def _room(folder: Path) -> str:
    try:
        room = os.statvfs(folder)
    except OSError:
        return ""
    free_bytes = room.f_bavail * room.f_frsize
    return "" if free_bytes >= _LOW_BYTES else f" ({folder} has {free_bytes >> 10} KiB free: make room)"


def cannot_listen(settings: AgentSettings, error: OSError) -> str:
    """Why metrics and health can't be served where they should be, and what to do."""
    hints = {
        errno.EADDRINUSE: "another agent or ticker? Stop it, or set http_port, or 0 for no metrics",
        errno.EACCES: "ports below 1024 are root's: set http_port to a higher one",
    }
    hint = hints.get(error.errno or 0, "set http_host to an address of this machine, 0.0.0.0 for all of them")
    return f"{settings.http_host}:{settings.http_port} can't be listened on ({error.strerror}): {hint}"


@contextmanager
def _health(settings: AgentSettings, pulse: Pulse) -> Iterator[None]:
    if not settings.http_port:
        yield
        return
    BUILD_INFO.labels(agent_version()).set(1)
    try:
        server = HealthServer(settings.http_host, settings.http_port, lambda path: answer(path, pulse, agent_version()))
    except OSError as error:
        said = cannot_listen(settings, error)
        raise (AgentStopped if error.errno == errno.EADDRINUSE else AgentRefused)(said) from error
    try:
        yield
    finally:
        server.close()


def run_agent(settings: AgentSettings, stop: threading.Event) -> None:
    """Run until `stop`. Raises AgentRefused before it has started, AgentStopped when a part ended by an error or can't
    be had now."""
    with refusing(settings):
        agent = build_agent(settings, SystemClock())
    with _health(settings, agent.pulse):
        log.info("agent_started", node=agent.host.node, agent=agent.agent_id, version=agent_version())
        try:
            agent.daemon().run(stop)
        except (AgentEnded, PublisherEnded) as error:
            raise AgentStopped(str(error)) from error
        log.info("agent_stopped", node=agent.host.node, agent=agent.agent_id)


def record_trace(settings: AgentSettings, stop: threading.Event, out: Path, duration_s: float) -> str:
    """Record to a trace file; what was recorded, in words. The log that holds it meanwhile lies beside `out` and is
    removed. Raises AgentRefused, AgentStopped, NothingRecorded."""
    from wattledger_agent.wal_export import export_log

    if out.exists():
        raise AgentRefused(f"{out} is there already: give another name, nothing is overwritten")
    if not out.parent.is_dir():
        raise AgentRefused(f"{out.parent} is no folder: make it, or name the trace file elsewhere")
    part = out.with_name(f"{out.name}.recording")
    if part.exists():
        raise AgentRefused(f"{part} is there already: another recording runs, or one broke off; remove it")
    wal = settings.wal.model_copy(update={"path": part / "log", "key_file": None, "old_key_files": ()})
    inner = _without_socket(settings.model_copy(update={"wal": wal}))
    timer = threading.Timer(duration_s, stop.set)
    try:
        with refusing(inner):
            # what slurmd dropped is the running agent's to remove
            agent = build_agent(inner, SystemClock(), removes=False)
        timer.start()
        agent.daemon(publish=False).run(stop)
        found = export_log(wal.path, out, None)
    except AgentEnded as error:
        raise AgentStopped(str(error)) from error
    finally:
        timer.cancel()
        for file in sorted(part.iterdir()) if part.exists() else ():
            file.unlink()
        if part.exists():
            part.rmdir()
    if not found.records:
        out.unlink()
        raise NothingRecorded("nothing was recorded: no probe could be read; `wattledger-agent doctor` says why")
    return f"{found.records} records written to {out}"


def _without_socket(settings: AgentSettings) -> AgentSettings:
    """The same, but for the socket that a running agent listens on: whoever opens it anew takes it away."""
    return settings.model_copy(update={"slurm": settings.slurm.model_copy(update={"socket": None})})


def run_the_ticker(settings: AgentSettings, stop: threading.Event) -> None:
    """Write ticks until `stop`. Raises AgentRefused, AgentStopped."""
    from wattledger_agent.ticker_process import run_ticker

    kafka, clock, notifier = settings.kafka, SystemClock(), Notifier(settings.notify_socket)
    with refusing(settings):
        wal = build_wal(settings, settings.agent_id or "ticker", Codec())
    pulse = Pulse(clock, _TICKER_SILENT_S)
    # a ticker that can't see the topics waits for them: that is told by the age of its last tick, not by its health
    pulse.ready = True
    try:
        with _health(settings, pulse):
            notifier.ready()
            log.info("ticker_started", version=agent_version())
            run_ticker(wal, kafka.config, kafka.topic_prefix, clock, stop)
        log.info("ticker_stopped")
    except PublisherEnded as error:
        raise AgentStopped(str(error)) from error
    finally:
        wal.close()


def examine(settings: AgentSettings) -> list[Check]:
    """All checks of the doctor; harmless beside a running agent."""
    clock = SystemClock()
    checks: list[Check] = []
    try:
        checks += check_probes(build_probes(settings, clock, Codec()), clock)
    except ValueError as error:
        checks.append(Check("probes", "wrong", str(error)))
    watchers, refused = _watchers(settings)
    checks += refused
    if watchers or not refused:
        checks += check_watchers(watchers, clock.wall_us())
    for watcher in watchers:
        watcher.close()
    if "slurm" in settings.watchers and settings.slurm.socket is not None:
        checks += check_socket(settings.slurm.socket)
    checks += [*check_processes(), *check_folder(settings.wal.path, settings.wal.cap_bytes)]
    if settings.http_port:
        checks += check_port(settings)
    return [*checks, *check_kafka(settings)]


def _watchers(settings: AgentSettings) -> tuple[Sequence[Watcher], list[Check]]:
    from wattledger_agent.build_watchers import build_watcher

    clock, host = SystemClock(), read_host(settings.node)
    built: list[Watcher] = []
    refused: list[Check] = []
    slurm = settings.slurm
    has_only_socket = slurm.socket is not None and not (slurm.drop_dir or slurm.files or slurm.restd)
    for name in settings.watchers:
        if name == "slurm" and has_only_socket:
            continue
        try:
            built.append(build_watcher(name, _without_socket(settings), host, clock, tuple, ()))
        except (ValueError, WatcherUnavailable) as error:
            refused.append(Check(f"watcher {name}", "wrong", str(error)))
    return built, refused

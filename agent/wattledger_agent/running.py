"""The commands that run parts of the agent: what they build, in which order they close, and what can stop them."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog
from wattledger_schemas import Codec

from wattledger_agent.build import agent_version, build_agent, build_probes, build_wal
from wattledger_agent.clock import SystemClock
from wattledger_agent.daemon import AgentEnded
from wattledger_agent.doctor import Check, check_folder, check_kafka, check_probes, check_processes, check_watchers
from wattledger_agent.health import HealthServer, Pulse, answer
from wattledger_agent.host import read_host
from wattledger_agent.notify import Notifier
from wattledger_agent.publisher import PublisherEnded
from wattledger_agent.settings import AgentSettings
from wattledger_agent.wal_cipher import KeyRefused
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.watchers.watcher import Watcher, WatcherUnavailable

log = structlog.get_logger()
_TICKER_SILENT_S = 60.0


class AgentRefused(RuntimeError):
    """The agent can't start as it is configured, or here: its message says what to change."""


class AgentStopped(RuntimeError):
    """A part of the running agent ended by an error; what was read is in the log."""


@contextmanager
def _refusing(settings: AgentSettings) -> Iterator[None]:
    try:
        yield
    except (WalUnavailable, KeyRefused, WatcherUnavailable, ValueError) as error:
        raise AgentRefused(str(error)) from error
    except OSError as error:
        place = error.filename or settings.wal.path.parent
        raise AgentRefused(f"{place}: {error.strerror}; the agent's state is kept there") from error


@contextmanager
def _health(settings: AgentSettings, pulse: Pulse) -> Iterator[None]:
    if not settings.http_port:
        yield
        return
    try:
        server = HealthServer(settings.http_host, settings.http_port, lambda path: answer(path, pulse, agent_version()))
    except OSError as error:
        raise AgentRefused(
            f"{settings.http_host}:{settings.http_port} can't be listened on ({error.strerror}): "
            "another agent? set http_port, or 0 for no metrics"
        ) from error
    try:
        yield
    finally:
        server.close()


def run_agent(settings: AgentSettings, stop: threading.Event) -> None:
    """Run until `stop`. Raises AgentRefused before it has started, AgentStopped when a part ended by an error."""
    with _refusing(settings):
        agent = build_agent(settings, SystemClock())
    with _health(settings, agent.pulse):
        log.info("agent_started", node=agent.host.node, agent=agent.agent_id, version=agent_version())
        try:
            agent.daemon().run(stop)
        except (AgentEnded, PublisherEnded) as error:
            raise AgentStopped(str(error)) from error


def record_trace(settings: AgentSettings, stop: threading.Event, out: Path, duration_s: float) -> str:
    """Record to a trace file; what was recorded, in words. The log that holds it meanwhile lies beside `out` and is
    removed. Raises AgentRefused, AgentStopped."""
    from wattledger_agent.wal_export import export_log

    if out.exists():
        raise AgentRefused(f"{out} is there already: give another name, nothing is overwritten")
    part = out.with_name(f"{out.name}.recording")
    if part.exists():
        raise AgentRefused(f"{part} is there already: another recording runs, or one broke off; remove it")
    wal = settings.wal.model_copy(update={"path": part / "log", "key_file": None, "old_key_files": ()})
    inner = settings.model_copy(update={"wal": wal})
    with _refusing(inner):
        agent = build_agent(inner, SystemClock())
    timer = threading.Timer(duration_s, stop.set)
    timer.start()
    try:
        agent.daemon(publish=False).run(stop)
        found = export_log(wal.path, out, None)
    except AgentEnded as error:
        raise AgentStopped(str(error)) from error
    finally:
        timer.cancel()
        for file in sorted(part.iterdir()):
            file.unlink()
        part.rmdir()
    return f"{found.records} records written to {out}"


def run_the_ticker(settings: AgentSettings, stop: threading.Event) -> None:
    """Write ticks until `stop`. Raises AgentRefused, AgentStopped."""
    from wattledger_agent.ticker_process import run_ticker

    kafka, clock, notifier = settings.kafka, SystemClock(), Notifier(settings.notify_socket)
    with _refusing(settings):
        wal = build_wal(settings, settings.agent_id or "ticker", Codec())
    pulse = Pulse(clock, _TICKER_SILENT_S)
    # a ticker that can't see the topics waits for them: that is told by the age of its last tick, not by its health
    pulse.ready = True
    try:
        with _health(settings, pulse):
            notifier.ready()
            run_ticker(wal, kafka.config, kafka.topic_prefix, clock, stop)
    except PublisherEnded as error:
        raise AgentStopped(str(error)) from error
    finally:
        wal.close()


def examine(settings: AgentSettings) -> list[Check]:
    """All checks of the doctor."""
    clock = SystemClock()
    checks = list(check_probes(build_probes(settings, clock, Codec()), clock))
    watchers, refused = _watchers(settings)
    checks += refused
    if watchers or not refused:
        checks += check_watchers(watchers, clock.wall_us())
    for watcher in watchers:
        watcher.close()
    return [*checks, *check_processes(), *check_folder(settings.wal.path), *check_kafka(settings)]


def _watchers(settings: AgentSettings) -> tuple[Sequence[Watcher], list[Check]]:
    from wattledger_agent.build_watchers import build_watcher

    clock, host = SystemClock(), read_host(settings.node)
    built: list[Watcher] = []
    refused: list[Check] = []
    for name in settings.watchers:
        try:
            built.append(build_watcher(name, settings, host, clock, tuple, ()))
        except (ValueError, WatcherUnavailable) as error:
            refused.append(Check(f"watcher {name}", "wrong", str(error)))
    return built, refused

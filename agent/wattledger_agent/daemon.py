"""The running agent: its threads and their order of starting and stopping. A thread that ends by an error ends the
agent, so that whoever supervises it starts it anew: everything that matters is in the log."""

import threading
from collections.abc import Callable, Sequence

import structlog

from wattledger_agent.clock import Clock
from wattledger_agent.health import Pulse
from wattledger_agent.notify import Notifier
from wattledger_agent.probe_runner import ProbeRunner
from wattledger_agent.publisher import Publisher
from wattledger_agent.sampler import Sampler
from wattledger_agent.wal import Wal
from wattledger_agent.watch_loop import WatchLoop

log = structlog.get_logger()
_LOOK_S = 1.0
_LAST_DRAIN_S = 5.0


class AgentEnded(RuntimeError):
    """A part of the agent ended by itself: which, and why as far as it is known."""


class Daemon:
    """Sampler, watchers and publisher side by side over one log."""

    def __init__(
        self,
        wal: Wal,
        sampler: Sampler,
        runners: Sequence[ProbeRunner],
        loops: Sequence[WatchLoop],
        publisher: Publisher | None,
        pulse: Pulse,
        notifier: Notifier,
        clock: Clock,
        watch_s: float,
        restart_after_s: int,
    ) -> None:
        self._wal = wal
        self._sampler = sampler
        self._runners = runners
        self._loops = loops
        self._publisher = publisher
        self._pulse = pulse
        self._notifier = notifier
        self._clock = clock
        self._watch_s = watch_s
        self._restart_after_s = restart_after_s
        self._threads: list[threading.Thread] = []

    def run(self, stop: threading.Event) -> None:
        """Run until `stop` is set; then close the open batch, give the publisher a moment, and close the log.

        Raises AgentEnded when a part ended by an error, or a probe stayed out for longer than allowed.
        """
        try:
            self._start(stop)
            while not stop.wait(_LOOK_S):
                self._look_after()
        finally:
            self._notifier.stopping()
            stop.set()
            for thread in self._threads:
                thread.join(timeout=10)
            for runner in self._runners:
                runner.stop()
            if self._publisher is not None:
                self._drain_last()
                self._publisher.stop(empty=False)
            self._wal.close()

    def _start(self, stop: threading.Event) -> None:
        if self._publisher is not None:
            self._publisher.start()
        self._begin("sampler", lambda: self._sampler.run(stop, self._ticked))
        for loop in self._loops:
            name = f"watcher-{loop.name}"
            self._begin(name, self._watching(loop, stop, name))

    def _watching(self, loop: WatchLoop, stop: threading.Event, name: str) -> Callable[[], None]:
        return lambda: loop.run(stop, self._watch_s, lambda: self._pulse.beat(name))

    def _ticked(self) -> None:
        self._pulse.beat("sampler")
        if not self._pulse.ready:
            self._pulse.ready = True
            self._notifier.ready()

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        self._pulse.beat(name)
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _look_after(self) -> None:
        ended = [thread.name for thread in self._threads if not thread.is_alive()]
        if ended:
            raise AgentEnded(f"{', '.join(ended)} ended by an error (above); what was read is in the log")
        if self._publisher is not None:
            self._publisher.check()
        for runner in self._runners:
            since_s = runner.lost_since_s
            if since_s is not None and 0 < self._restart_after_s < self._clock.monotonic_s() - since_s:
                raise AgentEnded(
                    f"probe {runner.name} worked and has been out for {self._restart_after_s} s ({runner.trouble}): "
                    "ending, so that a new process can open the devices"
                )
        if not self._pulse.silent():
            self._notifier.alive()
        self._notifier.status(f"{len(self._sampler.devices)} devices, {self._wal.count()} records not yet delivered")

    def _drain_last(self) -> None:
        until_s = self._clock.monotonic_s() + _LAST_DRAIN_S
        while self._wal.count() and self._clock.monotonic_s() < until_s:
            self._clock.sleep(0.05)

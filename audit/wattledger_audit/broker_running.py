"""A broker that runs: what it is, where it listens, what a run on it does not show, and how to stop or restart it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from wattledger_audit.processes import Child

START_WITHIN_S = 60.0


class NoBroker(RuntimeError):
    """The broker asked for can't be had here; says what to do."""


@dataclass(slots=True)
class Broker:
    """A running broker. `untested` lists what a run on it does not show.

    `reliable_offsets`: end offsets are right. `durable`: what was acknowledged is there after `restart`.
    """

    kind: str
    bootstrap: str
    child: Child | None = None
    untested: tuple[str, ...] = ()
    on_stop: Callable[[], object] | None = None
    reliable_offsets: bool = True
    durable: bool = False

    @property
    def line(self) -> str:
        """One line for people."""
        missing = f"; not tested on it: {', '.join(self.untested)}" if self.untested else ""
        return f"broker: {self.kind} at {self.bootstrap}{missing}"

    @property
    def pids(self) -> list[int]:
        """The broker's process, where it is ours."""
        return [self.child.pid] if self.child is not None and self.child.alive else []

    def kill(self) -> None:
        """SIGKILL it, as a power cut would. Raises NoBroker when it is not our process."""
        self._own_child().kill()

    def restart(self) -> None:
        """Stop it if it runs, start it again on the same address and folder, and wait until it answers."""
        child = self._own_child()
        child.stop()
        wait_for_broker(self.bootstrap, child.start())

    def _own_child(self) -> Child:
        if self.child is None:
            raise NoBroker(f"{self.kind} at {self.bootstrap} is not a process of ours: it can't be killed or restarted")
        return self.child

    def stop(self) -> None:
        if self.child is not None:
            self.child.stop()
        if self.on_stop is not None:
            self.on_stop()


def wait_for_broker(bootstrap: str, child: Child | None = None, within_s: float = START_WITHIN_S) -> None:
    """Return when the broker answers; raises NoBroker when its process ends or the time is up."""
    # The client would wait ten seconds between tries by default.
    admin = AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if child is not None and not child.alive:
            raise NoBroker(f"{child.name} ended with {child.exit_code}; {child.log_file}:\n{child.log_tail()}")
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            time.sleep(0.05)
    raise NoBroker(f"no broker answered at {bootstrap} within {within_s:.0f} s")

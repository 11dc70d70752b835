"""The embedded stack: broker, topics, workers, and a supervisor that starts a worker again when it ends."""

import os
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from wattledger_streams.topics import create_topics

from wattledger_audit.broker import Broker, choose_broker
from wattledger_audit.processes import Child, free_port, total_pss_bytes

WORKERS = ("sessions", "meter", "sink")
_SUPERVISE_S = 0.5
_MEMORY_S = 2.0


@dataclass(frozen=True, slots=True)
class StackSettings:
    """Where the stack lives and how it is set. `libs` holds Apache Kafka's jars."""

    work_dir: Path
    libs: Path
    broker: str = "auto"
    partitions: int = 2
    topic_prefix: str = ""
    endpoint_port: int = 0
    future_limit_s: int = 300
    refresh_s: float = 5.0
    extra_env: dict[str, str] = field(default_factory=dict)


class Stack:
    """Broker and workers as child processes. Use as a context manager: leaving it stops everything."""

    def __init__(self, settings: StackSettings) -> None:
        self.settings = settings
        self.endpoint_port = settings.endpoint_port or free_port()
        self.workers: dict[str, Child] = {}
        self.metrics_ports: dict[str, int] = {}
        self.restarts = 0
        self.peak_pss_bytes = 0
        self._broker: Broker | None = None
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("the stack is not started")
        return self._broker

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.broker.bootstrap}

    def env(self) -> dict[str, str]:
        """What the workers are told."""
        s = self.settings
        return {
            "WATTLEDGER_BOOTSTRAP": self.broker.bootstrap,
            "WATTLEDGER_TOPIC_PREFIX": s.topic_prefix,
            "WATTLEDGER_WORK_DIR": str(s.work_dir / "work"),
            "WATTLEDGER_CLICKHOUSE_PATH": str(s.work_dir / "clickhouse"),
            "WATTLEDGER_ENDPOINT_PORT": str(self.endpoint_port),
            "WATTLEDGER_FUTURE_LIMIT_S": str(s.future_limit_s),
            "WATTLEDGER_REFRESH_S": str(s.refresh_s),
            "PYTHONUNBUFFERED": "1",
            **s.extra_env,
        }

    def start(self) -> "Stack":
        """Start the broker, make the topics, start the workers and their supervisor."""
        work_dir = self.settings.work_dir
        work_dir.mkdir(parents=True, exist_ok=True)
        self._broker = choose_broker(self.settings.broker, work_dir, self.settings.libs)
        try:
            create_topics(self.kafka, self.settings.topic_prefix, self.settings.partitions)
            for name in WORKERS:
                args = [sys.executable, "-m", "wattledger_streams", name]
                self.metrics_ports[name] = free_port()
                env = {**self.env(), "WATTLEDGER_METRICS_PORT": str(self.metrics_ports[name])}
                self.workers[name] = Child(name, args, work_dir / f"{name}.log", env).start()
        except BaseException:
            self.stop()
            raise
        for work, every_s in ((self._supervise, _SUPERVISE_S), (self._weigh, _MEMORY_S)):
            thread = threading.Thread(target=self._repeat, args=(work, every_s), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def _repeat(self, work: object, every_s: float) -> None:
        while not self._stop.wait(every_s):
            work()  # type: ignore[operator]

    def _supervise(self) -> None:
        """Workers are crash-only: whatever they end with, they are started again and go on from the log."""
        for child in self.workers.values():
            if not child.alive and not self._stop.is_set():
                self.restarts += 1
                child.start()

    def _weigh(self) -> None:
        self.peak_pss_bytes = max(self.peak_pss_bytes, total_pss_bytes(self.pids()))

    def pids(self) -> list[int]:
        """This process, the broker and the workers."""
        return [os.getpid(), *self.broker.pids, *(child.pid for child in self.workers.values() if child.alive)]

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=10)
        for child in self.workers.values():
            child.stop(8)
        if self._broker is not None:
            self._broker.stop()

    def __enter__(self) -> "Stack":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

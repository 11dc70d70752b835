"""A whole deployment of real processes for a test: broker, workers, ClickHouse, and every way to hurt them."""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import Error
from confluent_kafka import Consumer, TopicPartition
from wattledger_agent.player import Played
from wattledger_audit.broker import Broker
from wattledger_audit.processes import free_port
from wattledger_audit.settling import Lag, NotSettled, Settling, partitions_of
from wattledger_audit.stack import StackSettings
from wattledger_streams.topics import create_topics

from tests.fault_harness.broker_process import start_private_broker
from tests.fault_harness.proxy import Proxy
from tests.fault_harness.publishing import Publishing, Record, publish_through_agent
from tests.fault_harness.server_process import ClickhouseProcess
from tests.fault_harness.wire import HttpWire
from tests.fault_harness.worker_fleet import ROOT, Worker, WorkerFleet

LIBS = ROOT / ".cache" / "kafka" / "libs"
FUTURE_LIMIT_S = 7200
QUICK = {"WATTLEDGER_SESSION_TIMEOUT_S": "2", "WATTLEDGER_REFRESH_S": "1"}
"""So that a rebalance takes seconds; the rest of the settings are those of a deployment."""


class Cluster:
    """Use as a context manager: leaving it stops everything that it started.

    `broker`: a running one to share (give a `prefix` of your own then); None: a private Apache Kafka in `work_dir`,
    which may be killed. `broker_proxy`: workers reach the private broker through `broker_proxy`, the test itself does
    not. `clickhouse`: "embedded" in the sink (one sink then), or "server", a process of its own that the sinks reach
    through `clickhouse_proxy`. `launch`: processor → fault for the launcher (see `launch.py`).
    """

    def __init__(
        self,
        work_dir: Path,
        *,
        partitions: int = 2,
        prefix: str = "",
        workers: Mapping[str, int] | None = None,
        clickhouse: str = "embedded",
        env: Mapping[str, str] | None = None,
        broker: Broker | None = None,
        broker_proxy: bool = False,
        supervise: bool = True,
        launch: Mapping[str, str] | None = None,
    ) -> None:
        if broker is not None and broker_proxy:
            raise ValueError("a proxy needs a private broker: it has to be the address that the broker names")
        if clickhouse not in ("embedded", "server"):
            raise ValueError(f"clickhouse {clickhouse!r} is not known: embedded or server")
        self.work_dir, self.prefix, self.partitions = work_dir, prefix, partitions
        self.clickhouse: ClickhouseProcess | None = None
        self.clickhouse_proxy: Proxy | None = None
        self.broker_proxy: Proxy | None = None
        self._wanted = dict(workers or {"sessions": 1, "meter": 1, "sink": 1})
        self._has_server, self._has_proxy = clickhouse == "server", broker_proxy
        self._env, self._shared = dict(env or {}), broker
        self._broker = broker
        self._endpoint_port = free_port()
        self._supervise, self._launch = supervise, dict(launch or {})
        self._fleet: WorkerFleet | None = None
        self._publishing: list[Publishing] = []

    def start(self) -> "Cluster":
        """Broker, topics, ClickHouse and workers; returns when they were started, not when they are ready."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self) -> None:
        self.work_dir.mkdir(parents=True, exist_ok=True)
        if self._shared is None:
            self._broker, self.broker_proxy = start_private_broker(self.work_dir, LIBS, self._has_proxy)
        create_topics(self.kafka, self.prefix, self.partitions)
        if self._has_server:
            self.clickhouse = ClickhouseProcess(self.work_dir / "server").start()
            self.clickhouse_proxy = Proxy("127.0.0.1", self.clickhouse.port, HttpWire).start()
        self._fleet = WorkerFleet(self.work_dir, self._worker_env, self._launch, self._supervise)
        for processor, count in self._wanted.items():
            self.scale(processor, count)

    def stop(self) -> None:
        for publishing in self._publishing:
            publishing.end()
        if self._fleet is not None:
            self._fleet.close()
        for proxy in (self.clickhouse_proxy, self.broker_proxy):
            if proxy is not None:
                proxy.close()
        if self.clickhouse is not None:
            self.clickhouse.stop()
        if self._shared is None and self._broker is not None:
            self.thaw_broker()
            self._broker.stop()

    def __enter__(self) -> "Cluster":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._fleet is not None:
            print(f"exits: {self.exits}\n{self._fleet.log_tails()}")
        self.stop()

    # addresses

    @property
    def broker(self) -> Broker:
        if self._broker is None:
            raise RuntimeError("the cluster is not started")
        return self._broker

    @property
    def fleet(self) -> WorkerFleet:
        if self._fleet is None:
            raise RuntimeError("the cluster is not started")
        return self._fleet

    @property
    def bootstrap(self) -> str:
        """The broker's own address: a test's clients never go through the proxy."""
        return self.broker.bootstrap

    @property
    def kafka(self) -> dict[str, str]:
        return {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": "500", "log_level": "2"}

    @property
    def worker_bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker_proxy.port}" if self.broker_proxy is not None else self.bootstrap

    @property
    def settings(self) -> StackSettings:
        """What `tests.pipeline_check` asks of a stack."""
        return StackSettings(self.work_dir, LIBS, self.bootstrap, self.partitions, self.prefix, 0, FUTURE_LIMIT_S)

    def _worker_env(self, processor: str) -> dict[str, str]:
        found = {
            "WATTLEDGER_BOOTSTRAP": self.worker_bootstrap,
            "WATTLEDGER_TOPIC_PREFIX": self.prefix,
            "WATTLEDGER_FUTURE_LIMIT_S": str(FUTURE_LIMIT_S),
            **QUICK,
        }
        if processor == "sink" and self.clickhouse_proxy is not None:
            found["WATTLEDGER_CLICKHOUSE_DSN"] = f"http://default@127.0.0.1:{self.clickhouse_proxy.port}"
        elif processor == "sink":
            found["WATTLEDGER_CLICKHOUSE_PATH"] = str(self.work_dir / "clickhouse")
            found["WATTLEDGER_ENDPOINT_PORT"] = str(self._endpoint_port)
        return found | self._env

    def client(self, within_s: float = 60) -> Client:
        """A stock client on the ledger: the sink's read-only endpoint, or the server itself (not through the proxy)."""
        port = self.clickhouse.port if self.clickhouse is not None else self._endpoint_port
        until = time.monotonic() + within_s
        while True:
            try:
                return clickhouse_connect.get_client(host="127.0.0.1", port=port, database="wattledger")
            except (Error, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.3)

    # workers

    @property
    def workers(self) -> dict[str, list[Worker]]:
        return self.fleet.workers

    @property
    def exits(self) -> list[tuple[str, int]]:
        """Every end of a worker that nobody asked to stop, kills included: processor and exit code (minus a signal)."""
        return self.fleet.exits

    def scale(self, processor: str, count: int) -> None:
        """Workers of one processor from now on. Raises ValueError for several sinks over one embedded engine."""
        if processor == "sink" and count > 1 and not self._has_server:
            raise ValueError('one sink owns the embedded engine: several need clickhouse="server"')
        self.fleet.scale(processor, count)

    def kill(self, processor: str, i: int = 0, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send `sig` to the i-th worker; a supervised one is started again."""
        self.fleet.kill(processor, i, sig)

    def freeze(self, processor: str, i: int = 0) -> None:
        self.fleet.freeze(processor, i)

    def thaw(self, processor: str, i: int = 0) -> None:
        self.fleet.thaw(processor, i)

    # broker

    def kill_broker(self) -> None:
        """SIGKILL the private broker."""
        self._own_broker().kill()

    def start_broker(self) -> None:
        """Start it again on its data and its port, and wait until it answers."""
        self._own_broker().restart()

    def freeze_broker(self) -> None:
        os.kill(self._own_broker().pids[0], signal.SIGSTOP)

    def thaw_broker(self) -> None:
        for pid in self._own_broker().pids:
            os.kill(pid, signal.SIGCONT)

    def _own_broker(self) -> Broker:
        if self._shared is not None:
            raise RuntimeError("this broker is shared with other tests: make the cluster without `broker`")
        return self.broker

    # records

    def start_publishing(
        self,
        records: Iterable[Record],
        speed: float | None = None,
        kafka: Mapping[str, str] | None = None,
        settings: Mapping[str, str | int | float | bool] | None = None,
    ) -> Publishing:
        """Publish in the background, so that faults can be injected meanwhile; `join` it. `kafka`: another way to the
        broker; `settings`: of the producer."""
        publishing = Publishing(records, kafka or self.kafka, self.prefix, self.partitions, speed, settings=settings)
        self._publishing.append(publishing)
        return publishing

    def publish(self, records: Iterable[Record], speed: float | None = None, within_s: float = 300) -> int:
        """Publish to the end; how many records."""
        return self.start_publishing(records, speed).join(within_s)

    def publish_by_agent(self, records: Iterable[Record], speed: float | None = None) -> Played:
        """Publish to the end through the agent's write-ahead log and publisher."""
        wal_file = self.work_dir / "agent.wal"
        return publish_through_agent(records, self.kafka, self.prefix, self.partitions, wal_file, speed)

    # progress

    def lag(self) -> Lag:
        """Records that no group has acknowledged yet."""
        settling = self._settling()
        try:
            return settling.lag()
        finally:
            settling.close()

    def settle(self, within_s: float = 120) -> None:
        """Wait until every group has acknowledged everything. Raises NotSettled with what is behind and the logs."""
        settling = self._settling()
        try:
            settling.wait(within_s)
        except NotSettled as error:
            raise NotSettled(f"{error}; exits: {self.exits}\n{self.fleet.log_tails()}") from error
        finally:
            settling.close()

    def _settling(self) -> Settling:
        return Settling(self.kafka, self.prefix, partitions_of(self.partitions))

    def committed(self, group: str, topic: str) -> list[int]:
        """What a group has acknowledged of a topic by partition, both by the contracts' names; -1: nothing."""
        consumer = Consumer({**self.kafka, "group.id": f"{self.prefix}wattledger-{group}", "enable.auto.commit": False})
        places = [TopicPartition(self.prefix + topic, p) for p in range(partitions_of(self.partitions)[topic])]
        try:
            return [max(place.offset, -1) for place in consumer.committed(places, 20)]
        finally:
            consumer.close()

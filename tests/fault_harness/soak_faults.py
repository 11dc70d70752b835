"""What can happen to a deployment at any moment, drawn from a seed: each fault does something and can be undone."""

import time
from collections.abc import Callable, Mapping
from random import Random
from signal import SIGKILL, SIGTERM

from tests.fault_harness.cluster import Cluster
from tests.fault_harness.proxy import Proxy
from tests.fault_harness.worker_fleet import PROCESSORS

SESSION_TIMEOUT_S = 2
_HOLD_S = (0.5, 8.0)
_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n"
    b"Connection: close\r\n\r\nnot now.\n"
)
Fault = Callable[["Faults"], str]


class Faults:
    """Draws one fault after the other and does it. `heal` ends whatever may still hold."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.done: dict[str, int] = {}

    def strike(self) -> str:
        """One fault, held for a while and then undone; what it was."""
        name = self.random.choice(sorted(FAULTS))
        told = FAULTS[name](self)
        self.done[name] = self.done.get(name, 0) + 1
        return f"{name}: {told}"

    def hold(self) -> float:
        """Wait as long as the fault is to last."""
        seconds = self.random.uniform(*_HOLD_S)
        time.sleep(seconds)
        return seconds

    def worker(self) -> tuple[str, int]:
        """A worker that is there now."""
        processor = self.random.choice(PROCESSORS)
        return processor, self.random.randrange(len(self.cluster.workers[processor]))

    def heal(self) -> None:
        """Everything passes, every process runs, two workers of each processor."""
        for proxy in self._proxies().values():
            proxy.pass_through()
        for processor in PROCESSORS:
            self.cluster.scale(processor, 2)

    def _proxies(self) -> Mapping[str, Proxy]:
        broker, clickhouse = self.cluster.broker_proxy, self.cluster.clickhouse_proxy
        if broker is None or clickhouse is None:
            raise RuntimeError("a soak needs a cluster with both proxies")
        return {"broker": broker, "clickhouse": clickhouse}

    def through(self, proxy_name: str, mode: Callable[[Proxy], None]) -> str:
        """A mode of a proxy for a while."""
        proxy = self._proxies()[proxy_name]
        mode(proxy)
        seconds = self.hold()
        proxy.pass_through()
        return f"{proxy_name} for {seconds:.1f} s"


def _kill(faults: Faults) -> str:
    processor, i = faults.worker()
    faults.cluster.kill(processor, i, SIGKILL)
    return f"{processor} {i}"


def _terminate(faults: Faults) -> str:
    processor, i = faults.worker()
    faults.cluster.kill(processor, i, SIGTERM)
    return f"{processor} {i}"


def _freeze(faults: Faults) -> str:
    processor, i = faults.worker()
    worker = faults.cluster.workers[processor][i]
    faults.cluster.freeze(processor, i)
    seconds = faults.random.uniform(1.5, 4) * SESSION_TIMEOUT_S
    time.sleep(seconds)
    faults.cluster.thaw(processor, i)
    return f"{worker.name} for {seconds:.1f} s"


def _scale(faults: Faults) -> str:
    processor = faults.random.choice(PROCESSORS)
    count = faults.random.randint(1, 3)
    faults.cluster.scale(processor, count)
    return f"{processor} to {count}"


def _broker_killed(faults: Faults) -> str:
    faults.cluster.kill_broker()
    seconds = faults.hold()
    faults.cluster.start_broker()
    return f"away for {seconds:.1f} s, back on its disk"


def _broker_frozen(faults: Faults) -> str:
    faults.cluster.freeze_broker()
    seconds = faults.hold()
    faults.cluster.thaw_broker()
    return f"for {seconds:.1f} s"


def _clickhouse_killed(faults: Faults) -> str:
    server = faults.cluster.clickhouse
    if server is None:
        raise RuntimeError("a soak needs ClickHouse as a server")
    server.kill()
    seconds = faults.hold()
    server.start()
    return f"away for {seconds:.1f} s, back on its disk"


def _clickhouse_frozen(faults: Faults) -> str:
    server = faults.cluster.clickhouse
    if server is None:
        raise RuntimeError("a soak needs ClickHouse as a server")
    server.freeze()
    seconds = faults.hold()
    server.thaw()
    return f"for {seconds:.1f} s"


FAULTS: Mapping[str, Fault] = {
    "worker killed": _kill,
    "worker terminated": _terminate,
    "worker frozen past its session": _freeze,
    "workers scaled": _scale,
    "broker killed": _broker_killed,
    "broker frozen": _broker_frozen,
    "broker unreachable": lambda faults: faults.through("broker", Proxy.refuse),
    "broker's answers lost": lambda faults: faults.through("broker", lambda proxy: proxy.drop_responses("Produce")),
    "broker slow": lambda faults: faults.through("broker", lambda proxy: proxy.delay(0.3)),
    "broker's connections reset": lambda faults: faults.through("broker", Proxy.reset),
    "ClickHouse killed": _clickhouse_killed,
    "ClickHouse frozen": _clickhouse_frozen,
    "ClickHouse refused": lambda faults: faults.through("clickhouse", Proxy.refuse),
    "ClickHouse slow": lambda faults: faults.through("clickhouse", lambda proxy: proxy.delay(0.5)),
    "ClickHouse stalled": lambda faults: faults.through("clickhouse", Proxy.stall),
    "ClickHouse's answers lost": lambda faults: faults.through("clickhouse", Proxy.drop_responses),
    "ClickHouse cut after an insert": lambda faults: faults.through(
        "clickhouse", lambda proxy: proxy.cut_after_request(1, "INSERT")
    ),
    "ClickHouse answers 503": lambda faults: faults.through("clickhouse", lambda proxy: proxy.answer(_UNAVAILABLE)),
}

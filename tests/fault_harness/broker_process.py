"""Apache Kafka for one test alone: it may be killed, frozen, and reached through a proxy."""

from pathlib import Path

from wattledger_audit.broker import Broker, start_kafka
from wattledger_audit.processes import free_port

from tests.fault_harness.proxy import Proxy
from tests.fault_harness.wire import KafkaWire


def start_private_broker(work_dir: Path, libs: Path, with_proxy: bool = False) -> tuple[Broker, Proxy | None]:
    """Start it on loopback. With a proxy it has a second listener, which names the proxy's address as its own: a
    client that comes in through the proxy stays on it. Raises NoBroker."""
    broker = start_kafka(work_dir, libs)
    if not with_proxy:
        return broker, None
    behind = free_port()
    proxy = Proxy("127.0.0.1", behind, KafkaWire).start()
    _add_listener(work_dir / "kafka" / "server.properties", broker.bootstrap, behind, proxy.port)
    try:
        broker.restart()
    except BaseException:
        proxy.close()
        broker.stop()
        raise
    return broker, proxy


def _add_listener(properties: Path, bootstrap: str, behind: int, proxy_port: int) -> None:
    lines = properties.read_text().splitlines()
    changed = []
    for line in lines:
        name, _, value = line.partition("=")
        if name == "listeners":
            line = f"{line},PROXIED://127.0.0.1:{behind}"
        elif name == "advertised.listeners":
            line = f"{name}=PLAINTEXT://{bootstrap},PROXIED://127.0.0.1:{proxy_port}"
        elif name == "listener.security.protocol.map":
            line = f"{name}={value},PROXIED:PLAINTEXT"
        changed.append(line)
    properties.write_text("\n".join(changed) + "\n")

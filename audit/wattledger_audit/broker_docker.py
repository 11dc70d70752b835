"""Apache Kafka in a container, through testcontainers, where a Docker engine answers."""

import os
import shutil
from pathlib import Path

from wattledger_audit.broker_running import Broker, NoBroker, wait_for_broker
from wattledger_audit.processes import ChildFailed, free_port, run

IMAGE = "apache/kafka:4.3.1"
_INSIDE_PORT = 9092


def docker_answers() -> bool:
    """A Docker engine can be reached."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        run([docker, "info"], Path(os.devnull))
    except ChildFailed:
        return False
    return True


def start_docker_kafka() -> Broker:
    """Start the container, its port on loopback, and wait until it answers. Raises NoBroker where it can't be had."""
    try:
        from testcontainers.core.container import DockerContainer
    except ImportError:
        raise NoBroker("Kafka in Docker needs the extra [test] (testcontainers)") from None
    if not docker_answers():
        raise NoBroker("no Docker engine answers (`docker info` fails): start one, or choose another broker")
    port = free_port()
    container = DockerContainer(IMAGE)
    # Clients must find the broker under the address they were given, so the host's port is fixed, not mapped later.
    # Docker takes an address with it (loopback here); testcontainers' annotation does not know that.
    container.ports[f"{_INSIDE_PORT}/tcp"] = ("127.0.0.1", port)  # type: ignore[assignment]
    for key, value in _environment(port).items():
        container.with_env(key, value)
    container.start()
    bootstrap = f"127.0.0.1:{port}"
    try:
        wait_for_broker(bootstrap)
    except NoBroker:
        container.stop()
        raise
    return Broker(f"{IMAGE} (KRaft, in Docker)", bootstrap, on_stop=container.stop)


def _environment(port: int) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": f"PLAINTEXT://:{_INSIDE_PORT},CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "3",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
        "KAFKA_MESSAGE_MAX_BYTES": "8000000",
    }

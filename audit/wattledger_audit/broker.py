"""Chooses a broker for the embedded stack and the tests. Which one, and what is then untested, is always said.

Nothing falls back silently: only `auto` looks for another, and the chosen broker's `line` names it.
"""

from pathlib import Path

from wattledger_audit.broker_docker import docker_answers, start_docker_kafka
from wattledger_audit.broker_kafka import has_kafka_jars, start_kafka
from wattledger_audit.broker_running import Broker, NoBroker, wait_for_broker
from wattledger_audit.broker_tansu import start_tansu

__all__ = ["Broker", "NoBroker", "choose_broker", "has_kafka_jars", "start_kafka", "start_tansu", "wait_for_broker"]


def choose_broker(preference: str, work_dir: Path, libs: Path) -> Broker:
    """Start or reach a broker, and wait until it answers.

    `preference`: `kafka`, `docker`, `tansu`, `host:port`, or `auto` (Apache Kafka from the jars in `libs`, else in
    Docker, else Tansu). Raises NoBroker when the one asked for can't be had.
    """
    kind = _first_there(libs) if preference == "auto" else preference
    if kind == "kafka":
        return start_kafka(work_dir, libs)
    if kind == "docker":
        return start_docker_kafka()
    if kind == "tansu":
        return start_tansu(work_dir)
    if ":" in kind:
        wait_for_broker(kind)
        return Broker("the broker named", kind)
    raise NoBroker(f"broker {preference!r} is not known: say auto, kafka, docker, tansu or host:port")


def _first_there(libs: Path) -> str:
    if has_kafka_jars(libs):
        return "kafka"
    return "docker" if docker_answers() else "tansu"

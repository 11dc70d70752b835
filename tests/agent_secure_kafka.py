"""Apache Kafka from its jars with listeners for SASL over TLS and for mutual TLS; certificates made for the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from shutil import which

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from wattledger_audit import broker_kafka
from wattledger_audit.broker_running import wait_for_broker
from wattledger_audit.processes import Child, free_port, run

_PROPERTIES = """\
listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{sasl},MTLS://127.0.0.1:{mtls},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},SASL_SSL://127.0.0.1:{sasl},MTLS://127.0.0.1:{mtls}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,MTLS:SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.mtls.ssl.client.auth=required
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={security}.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config={security}.plain.PlainLoginModule required user_agent="right";
connection.failed.authentication.delay.ms=50
"""


@dataclass(frozen=True, slots=True)
class SecureKafka:
    """Bootstrap addresses of the three listeners, and the folder with `ca.pem`, `other_ca.pem`, `client.pem`."""

    plain: str
    sasl: str
    mtls: str
    folder: Path

    def set_password(self, user: str, password: str) -> None:
        """Make or change a user for SCRAM-SHA-512."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        asked = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, password.encode())])
        asked[user].result(20)

    def sasl_config(self, mechanism: str, password: str, ca: str = "ca.pem") -> dict[str, str | int | bool]:
        return {
            "bootstrap.servers": self.sasl, "security.protocol": "sasl_ssl", "sasl.mechanism": mechanism,
            "sasl.username": "agent", "sasl.password": password, "ssl.ca.location": str(self.folder / ca),
            "reconnect.backoff.max.ms": 300,
        }  # fmt: skip

    def mtls_config(self, certificate: str = "client.pem") -> dict[str, str | int | bool]:
        """With `certificate` empty: none is shown."""
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": self.mtls, "security.protocol": "ssl", "ssl.ca.location": str(self.folder / "ca.pem"),
            "reconnect.backoff.max.ms": 300,
        }  # fmt: skip
        if certificate:
            config["ssl.certificate.location"] = config["ssl.key.location"] = str(self.folder / certificate)
        return config


@contextmanager
def secure_kafka(folder: Path, libs: Path) -> Iterator[SecureKafka]:
    """Start it; it ends with the block. Needs Java and the jars."""
    make_certificates(folder)
    plain, sasl, mtls, controller = (free_port() for _ in range(4))
    (folder / "log4j2.properties").write_text(broker_kafka._LOG4J2_PROPERTIES)
    properties = folder / "server.properties"
    base = broker_kafka._SERVER_PROPERTIES.format(port=plain, controller=controller, data=folder / "data")
    places: dict[str, object] = {"plain": plain, "sasl": sasl, "mtls": mtls, "controller": controller, "folder": folder}
    places["security"] = "org.apache.kafka.common.security"
    # of a property that stands twice the last one counts
    properties.write_text(base + _PROPERTIES.format(**places))
    java = [
        which("java") or "java", *broker_kafka._JVM_FLAGS,
        f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", f"{libs.resolve()}/*",
    ]  # fmt: skip
    tool = ["kafka.tools.StorageTool", "format", "-t", broker_kafka._CLUSTER_ID, "-c", str(properties), "--standalone"]
    run([*java, *tool], folder / "format.log")
    child = Child("kafka", [*java, "kafka.Kafka", str(properties)], folder / "kafka.log").start()
    try:
        wait_for_broker(f"127.0.0.1:{plain}", child)
        found = SecureKafka(f"127.0.0.1:{plain}", f"127.0.0.1:{sasl}", f"127.0.0.1:{mtls}", folder)
        found.set_password("agent", "right")
        yield found
    finally:
        child.stop()


def make_certificates(folder: Path) -> None:
    """A certificate authority with certificates for broker and agent, and another authority that signed neither."""
    authority, key = _authority("wattledger test")
    (folder / "ca.pem").write_bytes(authority.public_bytes(Encoding.PEM))
    (folder / "other_ca.pem").write_bytes(_authority("another")[0].public_bytes(Encoding.PEM))
    for name in ("broker", "client"):
        own = ec.generate_private_key(ec.SECP256R1())
        signed = (
            _builder(name, authority.subject, own.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(key, SHA256())
        )
        own_pem = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.pem").write_bytes(own_pem + signed.public_bytes(Encoding.PEM))


def _authority(name: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    constraints = x509.BasicConstraints(ca=True, path_length=None)
    builder = _builder(name, subject, key.public_key()).add_extension(constraints, critical=True)
    return builder.sign(key, SHA256()), key


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
    )

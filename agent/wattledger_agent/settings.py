"""Settings of the agent: environment (prefix WATTLEDGER_AGENT_, `__` between levels) over one optional TOML file."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from wattledger_agent.settings_variables import Variables

DEFAULT_FILE = Path("wattledger-agent.toml")
_GROUP = ConfigDict(frozen=True, extra="forbid")
_BROKER = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,180}")
T = TypeVar("T")


def _brokers(text: str) -> str:
    for part in text.split(","):
        match = _BROKER.fullmatch(part.strip())
        if match is None or not 1 <= int(match[1] or 9092) <= 65_535:
            raise ValueError(f"{part.strip()!r} is no broker: write host:port, several with commas, no protocol")
    return text


def _prefix(text: str) -> str:
    if _PREFIX.fullmatch(text) is None:
        raise ValueError("no start of a topic name: letters, digits, full stops, _ and - only, 180 at most")
    return text


def _name(text: str) -> str:
    if len(text) > 255 or not text.isprintable() or text != text.strip():
        raise ValueError("no name: at most 255 letters that can be printed, and no space at its ends")
    return text


def _node(text: str) -> str:
    if re.search(r"\s", text):
        raise ValueError("no name of a node: no spaces, no line ends")
    return _name(text)


def _file(path: Path) -> Path:
    if not path.name:
        raise ValueError("no name of a file: name one in a folder of the agent's own")
    return path


def _once_each(given: tuple[T, ...]) -> tuple[T, ...]:
    twice = sorted({str(one) for one in given if given.count(one) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} is there twice, and would count twice")
    return given


def _uids(text: str) -> str:
    from wattledger_agent.watchers.tags import Uids

    Uids.parse(text)
    return text


Security = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]
Source = Literal["nvml", "amdsmi", "rapl", "scrape", "trace"]
Scheduler = Literal["slurm", "kubernetes", "containers", "processes"]
Name = Annotated[str, AfterValidator(_name)]
MaybePath = Annotated[Path | None, BeforeValidator(lambda given: None if given == "" else given)]
"""Empty: none. TOML has no other word for it, and an empty path would be the working folder."""


class KafkaSettings(BaseModel):
    """Where records go, and how the agent shows who it is."""

    model_config = _GROUP

    bootstrap: Annotated[str, AfterValidator(_brokers)] = Field(
        default="127.0.0.1:9092", description="Bootstrap servers, host:port, comma-separated"
    )
    topic_prefix: Annotated[str, AfterValidator(_prefix)] = Field(
        default="", description="What the deployment puts before the contracts' topic names"
    )
    security: Security = Field(default="plaintext", description="How the connection is protected")
    sasl_mechanism: Mechanism = Field(default="SCRAM-SHA-512", description="With sasl_ssl or sasl_plaintext")
    username: str = Field(default="", description="SASL user")
    password: SecretStr = Field(default=SecretStr(""), description="SASL password; better: password_file")
    password_file: MaybePath = Field(default=None, description="File with the password, e.g. a systemd credential")
    ca_file: MaybePath = Field(default=None, description="Certificate authority of the broker; none: the system's")
    cert_file: MaybePath = Field(default=None, description="This agent's certificate, for mutual TLS")
    key_file: MaybePath = Field(default=None, description="Its private key")
    in_flight: int = Field(
        default=5000, gt=0, le=1_000_000, description="Records sent and not yet reported by the broker, at most"
    )
    bytes_per_s: int = Field(default=2_000_000, ge=0, description="Bound on publishing, also of a backlog; 0: none")

    @model_validator(mode="after")
    def _connection(self) -> Self:
        """What was meant to protect the connection must not be left out in silence."""
        has_sasl = self.security.startswith("sasl")
        if has_sasl and not self.username:
            raise ValueError(f"security is {self.security}, and username is empty: name the SASL user")
        if self.username and not has_sasl:
            raise ValueError(f"username is set, and security is {self.security}, which shows no user: use sasl_ssl")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file go together: the other one is missing")
        if (self.ca_file or self.cert_file) and not self.security.endswith("ssl"):
            raise ValueError(
                f"ca_file or cert_file is set, and security is {self.security}, without TLS: use ssl or sasl_ssl"
            )
        return self

    def config(self) -> dict[str, str]:
        """librdkafka's connection settings. Raises OSError when the password file can't be read."""
        config = {"bootstrap.servers": self.bootstrap, "security.protocol": self.security}
        if self.security.startswith("sasl"):
            config["sasl.mechanism"] = self.sasl_mechanism
            config["sasl.username"] = self.username
            config["sasl.password"] = self._password()
        for name, file in (("ca", self.ca_file), ("certificate", self.cert_file), ("key", self.key_file)):
            if file is not None and self.security.endswith("ssl"):
                config[f"ssl.{name}.location"] = str(file)
        return config

    def files(self) -> list[tuple[str, Path]]:
        """The files that the connection needs, by setting."""
        names = ("ca_file", "cert_file", "key_file", "password_file")
        return [(name, file) for name in names if (file := getattr(self, name)) is not None]

    def has_password(self) -> bool:
        """Whether a password is given, in a file or not."""
        return self.password_file is not None or bool(self.password.get_secret_value())

    def _password(self) -> str:
        if self.password_file is not None:
            return self.password_file.read_text().rstrip("\n")
        return self.password.get_secret_value()


class WalSettings(BaseModel):
    """The write-ahead log."""

    model_config = _GROUP

    path: Annotated[Path, AfterValidator(_file)] = Field(
        default=Path("wattledger-agent.wal"), description="The log; its folder holds the agent's state"
    )
    cap_bytes: int = Field(
        default=2 << 30, gt=0, le=1 << 50, description="Size of kept records at which the policy applies"
    )
    full: Literal["drop_oldest", "block"] = Field(
        default="drop_oldest", description="A full log: drop_oldest makes room and says what went, block waits"
    )
    key_file: MaybePath = Field(default=None, description="File with a 32-byte key: records are encrypted at rest")
    old_key_files: tuple[Path, ...] = Field(default=(), description="Keys that older records were written with")


class SamplingSettings(BaseModel):
    """What is read, and how often."""

    model_config = _GROUP

    probes: Annotated[tuple[Source, ...], AfterValidator(_once_each)] = Field(
        default=("nvml", "amdsmi", "rapl"),
        description="Where readings come from; hardware that is not here is no error",
    )
    period_ms: int = Field(
        default=1000, ge=100, le=60_000, description="Between two ticks; below 100 the reading disturbs"
    )
    flush_s: int = Field(
        default=30, ge=1, le=300, description="Length of a sample record, and how late readings are published"
    )
    scrape_url: str = Field(
        default="http://127.0.0.1:9400/metrics", description="Page of the exporter, for the probe scrape"
    )
    trace_file: MaybePath = Field(default=None, description="Recorded trace, for the probe trace")
    restart_after_s: int = Field(
        default=600, ge=0, description="End, to be started anew, when a probe that worked is out for so long; 0: never"
    )

    @model_validator(mode="after")
    def _trace(self) -> Self:
        if "trace" in self.probes and self.trace_file is None:
            raise ValueError("the probe trace needs a file: set trace_file")
        return self


class SlurmSettings(BaseModel):
    """The SLURM watcher."""

    model_config = _GROUP

    drop_dir: MaybePath = Field(
        default=Path("/run/wattledger/slurm"), description="Folder that prolog and epilog fill; empty: none"
    )
    files: tuple[str, ...] = Field(
        default=(), description="Output of sacct or scontrol that the site writes: paths, * and ? allowed"
    )
    socket: MaybePath = Field(default=None, description="Unix socket on which the agent takes documents")
    socket_uids: tuple[int, ...] = Field(default=(0,), description="Users who may write to that socket")
    restd: str = Field(default="", description="slurmrestd: unix:/path or http(s)://host:port; empty: not asked")
    jwt_file: MaybePath = Field(default=None, description="File with the token for slurmrestd")
    gres_index: Literal["minor", "index"] = Field(
        default="minor",
        description="What SLURM's GPU numbers are here: minors of device files, or the order of the PCI bus",
    )
    aliases: tuple[str, ...] = Field(default=(), description="Other names of this node in SLURM")
    comment_tags: bool = Field(default=False, description="Whether a job's comment may set tenant and model")
    timezone: str = Field(default="", description="Zone of times without an offset in files; empty: such are refused")


class KubernetesSettings(BaseModel):
    """The Kubernetes watcher."""

    model_config = _GROUP

    pod_resources: Path = Field(
        default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"), description="The kubelet's socket"
    )
    api: bool = Field(default=True, description="Ask the API server for UIDs, labels and times")
    api_url: str = Field(default="https://kubernetes.default.svc", description="Where the API server is")
    tag_namespaces: tuple[str, ...] = Field(default=(), description="Whose pods may tag themselves; empty: all")
    sharing: Literal["time_sliced", "mps"] = Field(default="time_sliced", description="How replicas share a card here")
    dra: bool = Field(default=False, description="Read ResourceClaims and ResourceSlices")
    tenant_label: str = Field(default="wattledger.io/tenant", description="Label or annotation that names the tenant")
    model_label: str = Field(default="wattledger.io/model", description="Label or annotation that names the model")
    plan_label: str = Field(default="wattledger.io/plan", description="Label or annotation that names the plan")


class ProcessSettings(BaseModel):
    """Plain processes and containers without a scheduler."""

    model_config = _GROUP

    tag_uids: Annotated[str, AfterValidator(_uids)] = Field(
        default="", description="Who may set WATTLEDGER_TENANT and _MODEL: `all`, `1000-1999,2001`; empty: nobody"
    )


class AgentSettings(BaseSettings):
    """Read in `__main__`, passed down."""

    model_config = SettingsConfigDict(
        env_prefix="WATTLEDGER_AGENT_",
        env_nested_delimiter="__",
        toml_file=DEFAULT_FILE,
        frozen=True,
        extra="forbid",
    )

    node: Annotated[str, AfterValidator(_node)] = Field(
        default="", description="Name of this node in the scheduler; empty: its host name"
    )
    cluster: Name = Field(default="", description="Scheduler instance that runs jobs here")
    site: Name = Field(default="", description="Site whose prices apply")
    agent_id: Name = Field(default="", description="This agent; empty: one is made and kept beside the log")
    watchers: Annotated[tuple[Scheduler, ...], AfterValidator(_once_each)] = Field(
        default=(), description="Who is asked which jobs hold the devices"
    )
    watch_s: float = Field(default=1.0, gt=0, le=3600, description="Between two looks of a watcher")
    http_host: str = Field(default="127.0.0.1", description="Address of metrics and health")
    http_port: int = Field(default=9478, ge=0, le=65535, description="Their port; 0: none are served")
    kafka: KafkaSettings = Field(default=KafkaSettings(), description="Where records go, and as whom")
    wal: WalSettings = Field(default=WalSettings(), description="The write-ahead log")
    sampling: SamplingSettings = Field(default=SamplingSettings(), description="What is read, and how often")
    slurm: SlurmSettings = Field(default=SlurmSettings(), description="The watcher slurm")
    kubernetes: KubernetesSettings = Field(default=KubernetesSettings(), description="The watcher kubernetes")
    processes: ProcessSettings = Field(
        default=ProcessSettings(), description="The watchers containers and processes: work without a scheduler"
    )
    notify_socket: str = Field(default="", validation_alias="NOTIFY_SOCKET", description="Set by systemd")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is passed wins over the environment, and that over the file."""
        return init_settings, Variables(settings_cls), TomlConfigSettingsSource(settings_cls)


def load_settings(file: Path | None = None, **given: object) -> AgentSettings:
    """Settings from a file of one's own, or else from DEFAULT_FILE in the working folder, where it is; `given` wins
    over all. Raises pydantic's ValidationError, ValueError for a file that is no TOML or a variable that is no
    setting, and OSError for a file that can't be read."""
    if file is None:
        return AgentSettings(**given)  # type: ignore[arg-type]
    with file.open("rb"):
        """A file that is not there would read as an empty one."""

    class FromFile(AgentSettings):
        model_config = SettingsConfigDict(toml_file=file)

    return FromFile(**given)  # type: ignore[arg-type]

"""Settings of the agent: environment (prefix WATTLEDGER_AGENT_, `__` between levels) over one optional TOML file."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

DEFAULT_FILE = Path("wattledger-agent.toml")
_GROUP = ConfigDict(frozen=True, extra="forbid")
Security = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism = Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"]


class KafkaSettings(BaseModel):
    """Where records go, and how the agent shows who it is."""

    model_config = _GROUP

    bootstrap: str = Field(default="127.0.0.1:9092", description="Bootstrap servers, host:port, comma-separated")
    topic_prefix: str = Field(default="", description="What the deployment puts before the contracts' topic names")
    security: Security = Field(default="plaintext", description="How the connection is protected")
    sasl_mechanism: Mechanism = Field(default="SCRAM-SHA-512", description="With sasl_ssl or sasl_plaintext")
    username: str = Field(default="", description="SASL user")
    password: SecretStr = Field(default=SecretStr(""), description="SASL password; better: password_file")
    password_file: Path | None = Field(default=None, description="File with the password, e.g. a systemd credential")
    ca_file: Path | None = Field(default=None, description="Certificate authority of the broker; none: the system's")
    cert_file: Path | None = Field(default=None, description="This agent's certificate, for mutual TLS")
    key_file: Path | None = Field(default=None, description="Its private key")
    in_flight: int = Field(default=5000, gt=0, description="Records sent and not yet reported by the broker, at most")
    bytes_per_s: int = Field(default=2_000_000, ge=0, description="Bound on publishing, also of a backlog; 0: none")

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

    def _password(self) -> str:
        if self.password_file is not None:
            return self.password_file.read_text().rstrip("\n")
        return self.password.get_secret_value()


class WalSettings(BaseModel):
    """The write-ahead log."""

    model_config = _GROUP

    path: Path = Field(default=Path("wattledger-agent.wal"), description="The log; its folder holds the agent's state")
    cap_bytes: int = Field(default=2 << 30, gt=0, description="Size of kept records at which the policy applies")
    full: Literal["drop_oldest", "block"] = Field(default="drop_oldest", description="Policy of a full log")
    key_file: Path | None = Field(default=None, description="32-byte key: records are encrypted at rest")
    old_key_files: tuple[Path, ...] = Field(default=(), description="Keys that older records were written with")


class SamplingSettings(BaseModel):
    """What is read, and how often."""

    model_config = _GROUP

    probes: tuple[Literal["nvml", "amdsmi", "rapl", "scrape", "trace"], ...] = ("nvml", "amdsmi", "rapl")
    period_ms: int = Field(default=1000, ge=100, description="Between two ticks; below 100 the reading disturbs")
    flush_s: int = Field(default=30, ge=1, le=300, description="Length of a sample record")
    scrape_url: str = Field(default="http://127.0.0.1:9400/metrics", description="Exporter, with the probe scrape")
    trace_file: Path | None = Field(default=None, description="Recorded trace, with the probe trace")
    restart_after_s: int = Field(
        default=600, ge=0, description="End, to be started anew, when a probe that worked is out for so long; 0: never"
    )


class SlurmSettings(BaseModel):
    """The SLURM watcher."""

    model_config = _GROUP

    drop_dir: Path | None = Field(default=Path("/run/wattledger/slurm"), description="Folder that prolog/epilog fill")
    files: tuple[str, ...] = Field(default=(), description="sacct, scontrol or JSON output that the site writes; globs")
    socket: Path | None = Field(default=None, description="Unix socket on which the agent takes documents")
    socket_uids: tuple[int, ...] = Field(default=(0,), description="Users who may write to that socket")
    restd: str = Field(default="", description="slurmrestd: unix:/path or http(s)://host:port; empty: not asked")
    jwt_file: Path | None = Field(default=None, description="Token for slurmrestd")
    gres_index: Literal["minor", "index"] = Field(default="minor", description="What SLURM's GPU numbers are here")
    aliases: tuple[str, ...] = Field(default=(), description="Other names of this node in SLURM")
    comment_tags: bool = Field(default=False, description="Whether a job's comment may set tenant and model")
    timezone: str = Field(default="", description="Zone of times without an offset in files; empty: such are refused")


class KubernetesSettings(BaseModel):
    """The Kubernetes watcher."""

    model_config = _GROUP

    pod_resources: Path = Field(default=Path("/var/lib/kubelet/pod-resources/kubelet.sock"))
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

    tag_uids: str = Field(default="", description="Who may set WATTLEDGER_TENANT and _MODEL: `all`, `1000-1999,2001`")
    default_tenant: str = Field(
        default="", description="Tenant of untagged processes; empty: the user's name or number"
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

    node: str = Field(default="", description="Name of this node; empty: its host name")
    cluster: str = Field(default="", description="Scheduler instance that runs jobs here")
    site: str = Field(default="", description="Site whose prices apply")
    agent_id: str = Field(default="", description="This agent; empty: one is made and kept beside the log")
    watchers: tuple[Literal["slurm", "kubernetes", "containers", "processes"], ...] = ()
    watch_s: float = Field(default=1.0, gt=0, description="Between two looks of a watcher")
    http_host: str = Field(default="127.0.0.1", description="Address of metrics and health")
    http_port: int = Field(default=9478, ge=0, le=65535, description="Their port; 0: none")
    kafka: KafkaSettings = KafkaSettings()
    wal: WalSettings = WalSettings()
    sampling: SamplingSettings = SamplingSettings()
    slurm: SlurmSettings = SlurmSettings()
    kubernetes: KubernetesSettings = KubernetesSettings()
    processes: ProcessSettings = ProcessSettings()
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
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_settings(file: Path | None = None, **given: object) -> AgentSettings:
    """Settings from a file of one's own; `given` wins over all. Raises pydantic's ValidationError, and ValueError for
    a file that is no TOML."""
    if file is None:
        return AgentSettings(**given)  # type: ignore[arg-type]

    class FromFile(AgentSettings):
        model_config = SettingsConfigDict(toml_file=file)

    return FromFile(**given)  # type: ignore[arg-type]

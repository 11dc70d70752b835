"""Settings of the agent: environment (prefix WATTLEDGER_AGENT_) over one optional TOML file."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

DEFAULT_FILE = Path("wattledger-agent.toml")


class AgentSettings(BaseSettings):
    """Read in `__main__`, passed down."""

    model_config = SettingsConfigDict(
        env_prefix="WATTLEDGER_AGENT_", toml_file=DEFAULT_FILE, frozen=True, extra="forbid"
    )

    node: str = Field(default="", description="Node whose devices this agent reads; in gap records")
    agent_id: str = Field(default="agent", description="This agent, among those of the node; in gap records")
    bootstrap: str = Field(
        default="127.0.0.1:9092", description="Kafka's bootstrap servers, host:port, comma-separated"
    )
    topic_prefix: str = Field(default="", description="What the deployment puts before the contracts' topic names")
    kafka_username: str = Field(default="", description="SASL SCRAM-SHA-512 over TLS; empty: none")
    kafka_password: SecretStr = SecretStr("")
    kafka_ca_file: str = Field(default="", description="Certificate authority of the broker; empty: the system's")
    wal_path: Path = Field(default=Path("wattledger-agent.wal"), description="The write-ahead log")
    wal_cap_bytes: int = Field(default=2 << 30, gt=0, description="Size of kept records at which the policy applies")
    wal_full: Literal["drop_oldest", "block"] = Field(default="drop_oldest", description="Policy of a full log")
    in_flight: int = Field(default=5000, gt=0, description="Records sent and not yet reported by the broker, at most")
    metrics_port: int = Field(default=0, ge=0, description="Prometheus metrics on loopback; 0: none")

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

    def kafka(self) -> dict[str, str]:
        """librdkafka's connection settings."""
        config = {"bootstrap.servers": self.bootstrap}
        if self.kafka_username:
            config |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": self.kafka_username,
                "sasl.password": self.kafka_password.get_secret_value(),
            }
        elif self.kafka_ca_file:
            config["security.protocol"] = "SSL"
        if self.kafka_ca_file:
            config["ssl.ca.location"] = self.kafka_ca_file
        return config


def load_settings(file: Path | None = None, **given: object) -> AgentSettings:
    """Settings from a file of one's own; `given` wins over all. Raises pydantic's ValidationError."""
    if file is None:
        return AgentSettings(**given)  # type: ignore[arg-type]

    class FromFile(AgentSettings):
        model_config = SettingsConfigDict(toml_file=file)

    return FromFile(**given)  # type: ignore[arg-type]

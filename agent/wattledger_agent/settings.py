"""Settings of the agent, from the environment (prefix WATTLEDGER_AGENT_)."""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class AgentSettings(BaseSettings):
    """Read in `__main__`, passed down."""

    model_config = SettingsConfigDict(env_prefix="WATTLEDGER_AGENT_", frozen=True, extra="forbid")

    bootstrap: str = "127.0.0.1:9092"
    topic_prefix: str = ""
    wal_path: Path = Path("wattledger-agent.wal")
    wal_cap_bytes: int = Field(default=2 << 30, description="Size of kept records at which the policy applies")
    wal_full: Literal["drop_oldest", "block"] = "drop_oldest"
    in_flight: int = 5000
    kafka_username: str = ""
    kafka_password: SecretStr = SecretStr("")
    kafka_ca_file: str = ""

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

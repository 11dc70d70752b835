"""Settings of one worker process, from the environment (prefix WATTLEDGER_) and one optional file."""

from pathlib import Path

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict
from wattledger_core.policy import Policy
from wattledger_core.units import US_PER_S


class WorkerSettings(BaseSettings):
    """Read in `__main__`, passed down. Every field is an environment variable `WATTLEDGER_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="WATTLEDGER_", env_file="wattledger.env", frozen=True, extra="ignore")

    bootstrap: str = "127.0.0.1:9092"
    topic_prefix: str = ""
    group_prefix: str = "wattledger"
    registry_url: str = ""
    kafka_username: str = ""
    kafka_password: SecretStr = SecretStr("")
    kafka_ca_file: str = ""
    session_timeout_s: float = 10.0
    rebalance_timeout_s: float = Field(default=60.0, description="How long a group waits for a live member to let go")
    commit_interval_s: float = 1.0
    take_max: int = 256
    take_within_s: float = 0.05
    sink_take_max: int = 2000
    sink_take_within_s: float = 0.5
    lateness_s: int = 60
    future_limit_s: int = 300
    clickhouse_dsn: str = ""
    clickhouse_path: Path = Path("out/clickhouse")
    clickhouse_database: str = "wattledger"
    endpoint_port: int = Field(default=0, description="Read-only ClickHouse HTTP endpoint on loopback; 0: none")
    metrics_port: int = Field(default=0, description="Prometheus metrics on loopback; 0: none")
    refresh_s: float = 5.0
    watchdog_s: float = 60.0
    dead_letter_ratio_limit: float = Field(default=0.5, description="Stop when more than this share is bad")
    dead_letter_min_records: int = 1000
    work_dir: Path = Path("out/work")
    thresholds_file: str = ""

    def policy(self) -> Policy:
        """The core's frozen rules with this deployment's lateness and future limit."""
        return Policy(lateness_us=self.lateness_s * US_PER_S, future_limit_us=self.future_limit_s * US_PER_S)

    def topic(self, name: str) -> str:
        """The deployment's name of a contract's topic."""
        return self.topic_prefix + name

    def group(self, processor: str) -> str:
        """Consumer group of a processor; with the topic prefix, so that two deployments never share one."""
        return f"{self.topic_prefix}{self.group_prefix}-{processor}"

    def kafka(self) -> dict[str, str]:
        """librdkafka's connection settings, TLS and SASL when given."""
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

"""Topic contracts as data: key, partitions, retention, owner, who writes and reads, which subjects."""

from functools import cache
from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, Field

_MS_PER_HOUR = 3_600_000


class TopicContract(BaseModel):
    """One topic. `retention_hours` -1: for ever. A node's records share one partition number over three topics."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    cleanup_policy: str = Field(pattern="^(delete|compact)$")
    notes: str
    key: str
    partitions: int = Field(gt=0)
    retention_hours: int
    owner: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    subjects: tuple[str, ...]

    @property
    def retention_ms(self) -> int:
        """As Kafka's `retention.ms`."""
        return -1 if self.retention_hours < 0 else self.retention_hours * _MS_PER_HOUR


@cache
def load_contracts() -> dict[str, TopicContract]:
    """Every contract of the package, by topic name."""
    folder = files("wattledger_schemas") / "topics"
    found = [
        TopicContract.model_validate(yaml.safe_load(path.read_text()))
        for path in sorted(folder.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".yaml")
    ]
    return {contract.name: contract for contract in found}

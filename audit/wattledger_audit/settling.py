"""When is a run done? When every consumer group has acknowledged all there is, twice in a row."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from wattledger_schemas import load_contracts
from wattledger_streams.group_view import GroupView
from wattledger_streams.partitions import ACKNOWLEDGED

_POLL_S = 0.5
READERS: Mapping[str, tuple[str, ...]] = {**ACKNOWLEDGED, "meter": (*ACKNOWLEDGED["meter"], "allocations")}
"""Consumer group (without prefix) → topics it acknowledges."""


class NotSettled(TimeoutError):
    """The run did not come to rest in time; says what was behind."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Records not yet acknowledged, by group and topic; empty when all is done."""

    behind: dict[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.behind.items()) or "nothing"


class Settling:
    """Watches lag from outside of the workers, with consumers that join no group."""

    def __init__(self, kafka: Mapping[str, str], topic_prefix: str, partitions: Mapping[str, int]) -> None:
        self._prefix = topic_prefix
        self._partitions = partitions
        self._views = {group: GroupView(kafka, f"{topic_prefix}wattledger-{group}") for group in READERS}

    def lag(self) -> Lag:
        """One look at every group."""
        behind: dict[str, int] = {}
        for group, topics in READERS.items():
            for topic in topics:
                places = {(self._prefix + topic, partition) for partition in range(self._partitions[topic])}
                count = sum(view.lag for view in self._views[group].of(places).values())
                if count > 0:
                    behind[f"{group}:{topic}"] = count
        return Lag(behind)

    def wait(self, within_s: float, progress: Callable[[Lag], None] | None = None) -> None:
        """Return when nothing was behind in two looks; raises NotSettled."""
        until, quiet, last = time.monotonic() + within_s, 0, Lag({"start": 1})
        while time.monotonic() < until:
            try:
                last = self.lag()
            except KafkaException:
                last = Lag({"broker away": 1})
            if progress:
                progress(last)
            quiet = quiet + 1 if not last.behind else 0
            if quiet >= 2:
                return
            time.sleep(_POLL_S)
        raise NotSettled(f"after {within_s:.0f} s still behind: {last}")

    def close(self) -> None:
        for view in self._views.values():
            view.close()


def partitions_of(partitions: int) -> dict[str, int]:
    """Partition counts of a stack that overrides them (see `create_topics`)."""
    return {name: partitions if c.partitions > 1 else c.partitions for name, c in load_contracts().items()}

"""What a worker received and acknowledged, by partition: its stream's loop writes it, the guard's thread reads it."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

Place = tuple[str, int]
"""Topic and partition."""

_BUSY_GRACE_S = 1.0
"""A wait for the next take that is shorter than this is the stream's own pace, not idleness."""


class Message(Protocol):
    """What is used of a Faust message."""

    topic: str
    partition: int
    offset: int
    generation_id: int


@dataclass(frozen=True, slots=True)
class Jump:
    """The first record of a partition in a generation (`expected` is None), or one that does not follow the last."""

    place: Place
    expected: int | None
    offset: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A copy of the state: next offsets by owned partition, and the seconds this worker had nothing to do."""

    generation: int
    owned: frozenset[Place]
    received: Mapping[Place, int]
    acknowledged: Mapping[Place, int]
    idle_s: float


class Progress:
    """Positions of one group generation; a rebalance forgets them, because what was not committed comes again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = -1
        self._owned: frozenset[Place] = frozenset()
        self._received: dict[Place, int] = {}
        self._acknowledged: dict[Place, int] = {}
        self._asking_since_s: float | None = None
        self._idle_s = 0.0

    def assigned(self, generation: int, owned: Iterable[Place]) -> None:
        """A rebalance is over: these partitions are this worker's."""
        with self._lock:
            if generation != self._generation:
                self._renew(generation)
            self._owned = frozenset(owned)

    def revoked(self) -> None:
        """A rebalance has begun: nothing is owned until it is over."""
        with self._lock:
            self._owned = frozenset()

    def asks(self, now_s: float) -> None:
        """The loop waits for its next take."""
        with self._lock:
            self._asking_since_s = now_s

    def received(self, messages: Iterable[Message], now_s: float) -> list[Jump]:
        """A take has come, in order; which of its records do not follow what came before."""
        jumps = []
        with self._lock:
            self._idle_s = self._idle(now_s)
            self._asking_since_s = None
            for message in messages:
                if message.generation_id > self._generation:
                    self._renew(message.generation_id)
                place = (message.topic, message.partition)
                expected = self._received.get(place)
                if message.offset != expected:
                    jumps.append(Jump(place, expected, message.offset))
                    if message.offset < self._acknowledged.get(place, 0):
                        del self._acknowledged[place]
                self._received[place] = message.offset + 1
        return jumps

    def acknowledged(self, messages: Iterable[Message]) -> None:
        """These were acknowledged; of an older generation they come again, here or elsewhere."""
        with self._lock:
            for message in messages:
                if message.generation_id == self._generation:
                    self._acknowledged[(message.topic, message.partition)] = message.offset + 1

    def seen(self, now_s: float) -> Seen:
        """The state now."""
        with self._lock:
            return Seen(
                self._generation, self._owned, dict(self._received), dict(self._acknowledged), self._idle(now_s)
            )  # fmt: skip

    def _renew(self, generation: int) -> None:
        self._generation = generation
        self._received.clear()
        self._acknowledged.clear()

    def _idle(self, now_s: float) -> float:
        if self._asking_since_s is None:
            return self._idle_s
        return self._idle_s + max(now_s - self._asking_since_s - _BUSY_GRACE_S, 0.0)

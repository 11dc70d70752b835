"""A world that knows everything it sent: jobs, prices and samples, in order of emission. Same seed, same bytes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from tests.fault_harness import record_bytes as wire
from tests.fault_harness import records
from tests.fault_harness.facts import Batch
from tests.fault_harness.physics import Physics, device_name, minutes_us, node_name
from tests.fault_harness.plan import MINUTE, Plan, S
from tests.fault_harness.poison import POISONS, Poison
from tests.fault_harness.schedule import CLUSTER, FOREVER_US, Schedule
from tests.fault_harness.tariffs import Tariffs

if TYPE_CHECKING:
    from tests.fault_harness.truth import Truth

__all__ = ["Plan", "Sent", "World"]
_SOON_US = S


@dataclass(frozen=True, slots=True)
class Sent:
    """One emission. `at_us`: event time at which it is sent; `topic`: the contract's name; `partition_key`: what the
    partition is computed from (`record_bytes.EVERY_PARTITION`: into each); `ident`: of the logical record, so that a
    duplicate has the ident of its original."""

    at_us: int
    topic: str
    partition_key: str
    key: bytes
    value: bytes
    ident: str


class World:
    """Jobs and prices are held; samples are made when asked for, so a world may be as long as one likes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.period_us = plan.period_s * S
        self.schedule = Schedule(plan)
        self.physics = Physics(plan, self.schedule.holds.throughout)
        self.tariffs = Tariffs(plan)
        self.nodes = tuple(node_name(i) for i in range(plan.nodes))

    def devices(self, node: str) -> tuple[str, ...]:
        """Every installed card of a node."""
        return tuple(device_name(node, i) for i in range(self.plan.devices))

    def batches(self, node: str, from_us: int = 0, to_us: int = FOREVER_US) -> Iterator[Batch]:
        """The sample records of a node that start in `[from_us, to_us)`, as facts, in order of time."""
        return self.physics.batches(node, from_us, to_us)

    def truth(self) -> "Truth":
        """The right answer, from what was really so."""
        from tests.fault_harness.truth import Truth

        return Truth(self)

    def emissions(self) -> Iterator[Sent]:
        """All that is sent, by `at_us`; in one moment a tick comes last."""
        streams = [self._job_records(), self._price_records()]
        streams += [_in_order(self._sample_records(node)) for node in self.nodes]
        heads = _merged(streams)
        held = next(heads, None)
        for tick_us in range(self.plan.start_us, self.plan.last_tick_us + 1, self.plan.tick_s * S):
            while held is not None and held.at_us <= tick_us:
                yield held
                held = next(heads, None)
            value = wire.encode("tick", records.tick(tick_us))
            for topic in ("job-events", "price-book"):
                yield Sent(tick_us, topic, wire.EVERY_PARTITION, b"tick", value, f"tick/{topic}/{tick_us}")
        if held is not None:
            raise ValueError(f"{held.ident} is sent at {held.at_us}, after the last tick: Plan.last_tick_us is wrong")

    def poisons(self) -> Iterator[tuple[str, Poison]]:
        """Ident and kind of every unusable record."""
        for n in range(self.plan.poison):
            for poison in POISONS:
                yield f"poison/{poison.name}/{n}", poison

    def _job_records(self) -> Iterator[Sent]:
        for node in self.nodes:
            value = wire.encode("node_event", records.inventory(node, self.devices(node), self.plan.start_us))
            yield Sent(self.plan.start_us, "job-events", node, node.encode(), value, f"inventory/{node}")
        for said in self.schedule.said():
            key = f"{CLUSTER}/{said.job}"
            value = wire.encode("job_event", records.job_event(said))
            yield Sent(said.said_us, "job-events", key, key.encode(), value, said.event_id)

    def _price_records(self) -> Iterator[Sent]:
        for n, said in enumerate(self.tariffs.said):
            value = wire.encode("price", records.price(said))
            yield Sent(said.at_us, "price-book", said.name, said.name.encode(), value, f"price/{n}/{said.name}")

    def _sample_records(self, node: str) -> Iterator[tuple[int, Sent]]:
        """With each record the moment before which no later one of the node is sent."""
        plan = self.plan
        dice = Random(f"{plan.seed}/delivery/{node}")
        poison = list(self.poisons()) if node == self.nodes[0] else []
        spacing = max(plan.minutes * 60 // (plan.period_s * plan.ticks_per_record) // (len(poison) + 1), 1)
        for n, batch in enumerate(self.batches(node)):
            at_us = batch.end_us + _SOON_US
            sent_us = at_us + self._delay_us(dice)
            ident = f"batch/{node}/{batch.seq}"
            value = wire.encode("sample_batch", records.sample_batch(batch, self.period_us))
            yield at_us, Sent(sent_us, "gpu-samples", node, node.encode(), value, ident)
            if dice.random() < plan.duplicate_records:
                again_us = sent_us + minutes_us(dice, 0.1, 4)
                yield at_us, Sent(again_us, "gpu-samples", node, node.encode(), value, ident)
            while poison and (n % spacing == spacing - 1 or batch.end_us >= plan.end_us - spacing * self.period_us):
                name, kind = poison.pop(0)
                spoilt = kind.spoil(batch, self.period_us)
                yield at_us, Sent(at_us + 2000, kind.topic, node, node.encode(), spoilt, name)
                if batch.end_us < plan.end_us - spacing * self.period_us:
                    break

    def _delay_us(self, dice: Random) -> int:
        plan = self.plan
        if dice.random() < plan.late_records:
            return minutes_us(dice, plan.late_records_by_min * 0.5, plan.late_records_by_min - 6)
        return minutes_us(dice, 0.2, 5) if dice.random() < plan.shuffled_records else 0


def _order(sent: Sent) -> tuple[int, str, str]:
    return sent.at_us, sent.topic, sent.ident


def _in_order(records_: Iterable[tuple[int, Sent]]) -> Iterator[Sent]:
    """Release records by `at_us`; each comes with a moment that rises and lies before all that follow."""
    waiting: list[tuple[tuple[int, str, str], int, Sent]] = []
    for number, (floor_us, sent) in enumerate(records_):
        while waiting and waiting[0][2].at_us < floor_us:
            yield heappop(waiting)[2]
        heappush(waiting, (_order(sent), number, sent))
    while waiting:
        yield heappop(waiting)[2]


def _merged(streams: Iterable[Iterator[Sent]]) -> Iterator[Sent]:
    heads: list[tuple[tuple[int, str, str], int, Sent, Iterator[Sent]]] = []
    for number, stream in enumerate(streams):
        first = next(stream, None)
        if first is not None:
            heappush(heads, (_order(first), number, first, stream))
    while heads:
        _, number, sent, stream = heappop(heads)
        yield sent
        following = next(stream, None)
        if following is not None:
            heappush(heads, (_order(following), number, following, stream))


def minutes_of(plan: Plan) -> float:
    """Event time from the first to the last tick, minutes."""
    return (plan.last_tick_us - plan.start_us) / MINUTE

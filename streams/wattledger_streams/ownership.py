"""What a worker owns by its group, and the places in its other logs that it keeps there as a member of the group.

The broker takes such a place only from a member of the running generation. A worker that was frozen or cut off, and
whose partitions another has by now, could else say of a late revision that it is dealt with, and the one who works on
would never correct for it. aiokafka commits for assigned partitions only, so the request goes through its coordinator
(0.14; pinned with Faust); it runs in the consumer's own thread.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import faust
import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from wattledger_streams.group_view import GroupView
from wattledger_streams.settings import WorkerSettings

log = structlog.get_logger()
_TIMEOUT_S = 30.0


class Positions(NamedTuple):
    """How far a partition's books are dealt with: the next offset of `allocations` and of `price-book`."""

    book: int = 0
    price: int = 0


class Owned(NamedTuple):
    """The partitions of one generation of the group."""

    generation: int
    partitions: frozenset[int]


Keep = Callable[[int, Positions], Awaitable[bool]]


class Ownership:
    """Asks and tells the group in the name of this worker's consumer of `topic`."""

    def __init__(self, app: faust.App, settings: WorkerSettings, topic: str) -> None:
        self._app = app
        self._topic = settings.topic(topic)
        self._book = settings.topic("allocations")

    async def owned(self) -> Owned | None:
        """What is owned now; None while the group is forming anew."""
        found: Owned | None = await self._in_thread(self._owned)
        return found

    async def keep(self, partition: int, positions: Positions) -> bool:
        """Keep the places of a partition; False when it is not this worker's (any more), or nobody answered: then
        nothing was kept, and what lies above is dealt with again."""
        return bool(await self._in_thread(self._keep, partition, positions))

    async def _in_thread(self, call: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        thread = getattr(self._app.consumer, "_thread", None)
        client = getattr(thread, "_consumer", None)
        if thread is None or client is None:
            return None
        try:
            return await asyncio.wait_for(thread.call_thread(call, client, *given), _TIMEOUT_S)
        except TimeoutError:
            log.warning("group_not_answering", topic=self._topic)
            return None

    async def _owned(self, client: Any) -> Owned | None:
        if _is_forming(client):
            return None
        assigned = client._subscription.assigned_partitions()
        mine = frozenset(place.partition for place in assigned if place.topic == self._topic)
        return Owned(int(client._coordinator.generation), mine)

    async def _keep(self, client: Any, partition: int, positions: Positions) -> bool:
        coordinator = client._coordinator
        try:
            await coordinator.ensure_coordinator_known()
            async with coordinator._commit_lock:
                # No await until the request is made, so generation and ownership belong together.
                owned = client._subscription.assigned_partitions()
                if _is_forming(client) or TopicPartition(self._topic, partition) not in owned:
                    return False
                # Ended by a NUL: librdkafka hands metadata on without one, and its Python client reads to the next.
                said = OffsetAndMetadata(positions.book, json.dumps({"price": positions.price}) + "\0")
                await coordinator._do_commit_offsets(None, {TopicPartition(self._book, partition): said})
        except KafkaError as error:
            log.warning("position_not_kept", partition=partition, error=repr(error))
            return False
        return True


def _is_forming(client: Any) -> bool:
    """Whether it is between two generations; one that the group has put out has none, and its commit would be taken as
    an outsider's while the group is empty."""
    return bool(client._subscription.reassignment_in_progress) or client._coordinator.generation < 0


def kept_positions(group: GroupView, book_topic: str, partition: int) -> Positions:
    """The places that the last owner kept; 0 where there are none."""
    offset, said = group.place((book_topic, partition))
    return Positions(offset, int(json.loads(said).get("price", 0)) if said else 0)

"""Places kept as a member of the group: whoever lost a partition while it was frozen or cut off keeps nothing."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import faust
import pytest
from aiokafka import AIOKafkaConsumer
from wattledger_audit.broker import Broker
from wattledger_streams.group_view import GroupView
from wattledger_streams.ownership import Owned, Ownership, Positions, kept_positions
from wattledger_streams.settings import WorkerSettings
from wattledger_streams.topics import create_topics

pytestmark = pytest.mark.kafka
SESSION_MS = 6000
_WITHIN_S = 60.0


@pytest.fixture
def settings(broker: Broker, topic_prefix: str) -> WorkerSettings:
    """Of a deployment with one partition."""
    found = WorkerSettings(bootstrap=broker.bootstrap, topic_prefix=f"own-{topic_prefix}")
    create_topics(found.kafka(), found.topic_prefix, 1)
    return found


def member(settings: WorkerSettings) -> AIOKafkaConsumer:
    """A consumer of the meter's group, as Faust has one."""
    return AIOKafkaConsumer(
        settings.topic("gpu-samples"), bootstrap_servers=settings.bootstrap, group_id=settings.group("meter"),
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=500, enable_auto_commit=False,
    )  # fmt: skip


def ownership(settings: WorkerSettings, client: AIOKafkaConsumer) -> Ownership:
    """In the name of a consumer that runs in the caller's own loop."""

    async def call_thread(call: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        return await call(*given)

    thread = SimpleNamespace(_consumer=client, call_thread=call_thread)
    app = cast(faust.App, SimpleNamespace(consumer=SimpleNamespace(_thread=thread)))
    return Ownership(app, settings, "gpu-samples")


async def owned_by(member: Ownership, partitions: set[int]) -> Owned:
    """Wait until the group has given it these."""
    until_s = time.monotonic() + _WITHIN_S
    while time.monotonic() < until_s:
        found = await member.owned()
        if found is not None and found.partitions == partitions:
            return found
        await asyncio.sleep(0.05)
    raise TimeoutError(f"never owned {partitions}, at the end: {await member.owned()}")


@contextmanager
def other_owner(settings: WorkerSettings) -> Iterator[None]:
    """Another member that owns the partition by the time the block begins, and keeps it."""
    there, done = threading.Event(), threading.Event()

    async def run() -> None:
        client = member(settings)
        await client.start()
        other = ownership(settings, client)
        await owned_by(other, {0})
        assert await other.keep(0, Positions(7, 1))
        there.set()
        while not done.is_set():
            await asyncio.sleep(0.05)
        await client.stop()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        assert there.wait(_WITHIN_S), "the other member never owned the partition"
        yield
    finally:
        done.set()
        thread.join()


def kept(settings: WorkerSettings) -> Positions:
    """What the broker has, asked from outside."""
    view = GroupView(settings.kafka(), settings.group("meter"))
    try:
        return kept_positions(view, settings.topic("allocations"), 0)
    finally:
        view.close()


def test_an_owner_keeps_its_places(settings: WorkerSettings) -> None:
    async def run() -> None:
        client = member(settings)
        await client.start()
        owner = ownership(settings, client)
        await owned_by(owner, {0})
        assert await owner.keep(0, Positions(12, 5))
        assert not await owner.keep(1, Positions(99, 9)), "a partition that it does not own"
        await client.stop()

    assert kept(settings) == Positions(0, 0)
    asyncio.run(run())
    assert kept(settings) == Positions(12, 5)


def test_a_member_that_lost_the_partition_while_it_was_frozen_keeps_nothing(settings: WorkerSettings) -> None:
    async def run() -> None:
        client = member(settings)
        await client.start()
        frozen = ownership(settings, client)
        before = await owned_by(frozen, {0})
        assert await frozen.keep(0, Positions(3, 0))
        # This loop does not run while the other joins: no heartbeat, as when the process is stopped.
        with other_owner(settings):
            assert client.assignment(), "it must still believe that it owns the partition"
            assert not await frozen.keep(0, Positions(50, 40))
            assert kept(settings) == Positions(7, 1)
        after = await owned_by(frozen, {0})
        assert after.generation > before.generation + 1, "a generation was missed, so what it knew is void"
        await client.stop()

    asyncio.run(run())

"""Thresholds on the running pipeline: raised and cleared once each, in topic and table, remembered by a new sink."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clickhouse_connect.driver.client import Client
from confluent_kafka import Consumer, TopicPartition
from wattledger_audit.broker import Broker
from wattledger_audit.demo import play_into, read_client, settle
from wattledger_audit.stack import Stack, StackSettings
from wattledger_core.batch import Batch
from wattledger_core.event import Tick
from wattledger_core.threshold import ThresholdEvent
from wattledger_schemas import Codec
from wattledger_streams.mapping_threshold import from_wire_threshold_event

from tests.pipeline_day import Emission, at, emissions

pytestmark = pytest.mark.kafka
HOUR_S = 3600
LAST_S = 2 * HOUR_S + 2100
RULES = """\
rules:
  - {name: dark, kind: telemetry_gap, raise_at: "0.05", clear_at: "0.03", unit: share of in-service time}
  - {name: never, kind: telemetry_gap, raise_at: "2", clear_at: "1", unit: share of in-service time}
"""
WITHIN_S = 60.0


def quiet(_: str) -> None:
    """Progress goes nowhere."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A record of `threshold-events`."""

    event: ThresholdEvent
    headers: dict[str, str]


def kept(stack: Stack) -> list[Kept]:
    """All of `threshold-events`, in order, with headers."""
    topic, codec = stack.settings.topic_prefix + "threshold-events", Codec()
    consumer = Consumer({**stack.kafka, "group.id": "test-thresholds", "enable.auto.commit": False})
    try:
        place = TopicPartition(topic, 0, 0)
        consumer.assign([place])
        _, end = consumer.get_watermark_offsets(place, 10)
        found: list[Kept] = []
        while len(found) < end:
            for message in consumer.consume(100, 0.2):
                assert message.error() is None
                record = codec.decode(message.value() or b"").record
                headers = {
                    name: str(text, "utf-8")
                    for name, text in dict(message.headers() or []).items()
                    if isinstance(text, bytes)
                }
                found.append(Kept(from_wire_threshold_event(record), headers))
        return found
    finally:
        consumer.close()


def wait_for(stack: Stack, count: int) -> list[Kept]:
    """Until the topic holds so many events and none comes for a few refreshes."""
    until_s, quiet_since_s, last = time.monotonic() + WITHIN_S, time.monotonic(), -1
    while time.monotonic() < until_s:
        found = kept(stack)
        if len(found) != last:
            quiet_since_s, last = time.monotonic(), len(found)
        if len(found) >= count and time.monotonic() - quiet_since_s > 4:
            return found
        time.sleep(0.5)
    return kept(stack)


def ticks(first_s: int, last_s: int) -> list[Emission]:
    return [Emission(at(second), Tick(at(second))) for second in range(first_s, last_s, 60)]


def steps() -> list[list[Emission]]:
    """The day in three parts: hour 1 whole, hour 2 whole, then the ticks that close it. A part's samples end well
    before its ticks, so that the meter can finish each part."""
    parts: list[list[Emission]] = [[], [], []]
    for emission in emissions():
        item = emission.item
        passed = item.end_us - at(0) if isinstance(item, Batch) else emission.at_us - at(900)
        if emission.at_us <= at(LAST_S):
            parts[min(max(-(-passed // (HOUR_S * 1_000_000)) - 1, 0), 2)].append(emission)
    return parts


@dataclass(frozen=True, slots=True)
class Run:
    stack: Stack
    client: Client
    calm: list[Kept]
    """Before the sink was killed."""
    after: list[Kept]
    """After a new sink has seen the same hours, and one more."""


@pytest.fixture(scope="module")
def run(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Played in steps that each settle, so that an hour is complete in the tables before the tick that closes it."""
    folder = tmp_path_factory.mktemp("thresholds")
    (folder / "rules.yaml").write_text(RULES)
    settings = StackSettings(
        folder / "stack", Path(), broker.bootstrap, 1, "thresholds.", future_limit_s=7200, refresh_s=0.5,
        extra_env={"WATTLEDGER_THRESHOLDS_FILE": str(folder / "rules.yaml"), "WATTLEDGER_SESSION_TIMEOUT_S": "6"},
    )  # fmt: skip
    with Stack(settings) as stack:
        for part in steps():
            play_into(stack, part, quiet)
            settle(stack, quiet)
        calm = wait_for(stack, 2)
        stack.workers["sink"].kill()
        # The new sink sees hours 1 and 2 again, and an hour without any sample.
        play_into(stack, ticks(LAST_S + 60, 3 * HOUR_S + 2400), quiet)
        settle(stack, quiet)
        after = wait_for(stack, len(calm) + 2)
        settle(stack, quiet)
        client = read_client(stack)
        yield Run(stack, client, calm, after)
        client.close()


def told(found: list[Kept]) -> list[tuple[str, str, str, int]]:
    return sorted(
        (k.event.rule, k.event.scope, k.event.transition, (k.event.at_us - at(0)) // 3_600_000_000) for k in found
    )


def test_the_agents_outage_raises_and_the_next_hour_clears(run: Run) -> None:
    # five minutes without samples on alpha: 8 % of hour 1; hour 2 has all but some cells
    assert told(run.calm) == [("dark", "alpha", "cleared", 2), ("dark", "alpha", "raised", 1)]


def test_a_new_sink_raises_nothing_again_and_goes_on(run: Run) -> None:
    assert run.stack.restarts >= 1
    assert run.after[: len(run.calm)] == run.calm
    assert told(run.after[len(run.calm) :]) == [("dark", "alpha", "raised", 3), ("dark", "beta", "raised", 3)]


def test_ids_are_unique_in_the_topic_and_a_rule_never_raises_twice_without_a_clear(run: Run) -> None:
    events = [k.event for k in run.after]
    assert len({event.event_id for event in events}) == len(events)
    for key in {(event.rule, event.scope) for event in events}:
        transitions = [event.transition for event in events if (event.rule, event.scope) == key]
        assert transitions == [("raised", "cleared")[i % 2] for i in range(len(transitions))]


def test_every_event_is_a_cloud_event(run: Run) -> None:
    for found in run.after:
        headers = found.headers
        assert headers["ce_specversion"] == "1.0"
        assert headers["ce_id"] == found.event.event_id
        assert headers["ce_type"] == f"wattledger.threshold.{found.event.transition}"
        assert headers["ce_subject"] == f"{found.event.rule}/{found.event.scope}"
        assert headers["ce_time"].endswith("Z")
        assert headers["content-type"] == "application/avro"


def test_the_table_holds_the_events_of_the_topic(run: Run) -> None:
    rows = run.client.query(
        "SELECT event_id, rule, scope, transition, toUnixTimestamp64Micro(observed_at), node, value "
        "FROM threshold_events FINAL"
    ).result_rows
    expected = [
        (e.event_id, e.rule, e.scope, e.transition, e.at_us, e.scope, e.value) for e in (k.event for k in run.after)
    ]
    assert sorted(tuple(row) for row in rows) == sorted(expected)

"""A machine whose clock is set wrong, which sleeps and is booted anew, and a host that was cloned: through the agent's
own parts and a whole deployment to the ledger."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clickhouse_connect.driver.client import Client
from wattledger_agent.host_identity import Fingerprint, settle_identity
from wattledger_agent.wal_record import BROADCAST
from wattledger_audit.broker import Broker
from wattledger_sql.verify import verify

from tests.agent_life import Lives
from tests.agent_world import DAY, HOUR, T0, Card, Killed, Machine, S
from tests.fault_harness import record_bytes, records
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.world import Plan, Sent
from tests.fault_play import AgentLog, Play, Seen, repeated, until

pytestmark = pytest.mark.kafka
MINUTE = 60 * S
OVER_US = T0 + 34 * MINUTE
PERIOD_US = S
_SLACK_UJ = 5_000
"""A counter is read in steps of 1000 µJ, by a probe that takes 3 ms."""


@dataclass(frozen=True)
class Sample:
    """One batch as the topic has it; `energy_uj` by device, and `unknown_us` where no counter bridges two ticks."""

    boot_id: str
    seq: int
    ticks_us: tuple[int, ...]
    energy_uj: dict[str, int]


def troubled(folder: Path) -> Lives:
    """A node of two cards that draw changing power: its clock goes back an hour and forward a day for three minutes
    each, it sleeps, and it is booted anew, with its cards listed in another order."""
    rng = random.Random(5)
    cards = []
    for number in range(2):
        levels = [(T0 - 41 * DAY, 300_000)]
        levels += [(T0 + n * 37 * S, rng.randrange(80_000, 600_000)) for n in range(1, 60)]
        cards.append(Card(f"GPU-{number:04x}", levels, index=number, minor=number))
    machine = Machine(cards, ["nvml"])
    lives = Lives(machine, folder, rng, PERIOD_US // 1000, 10)
    clock = machine.clock
    for minute, by_us in ((3, -HOUR), (6, HOUR), (9, DAY), (12, -DAY)):
        machine.after(minute * MINUTE, lambda by_us=by_us: clock.step(by_us))  # type: ignore[misc]

    def sleep() -> None:
        clock.asleep_us += 200 * S
        clock.now_us += 200 * S

    def reboot() -> None:
        lives.down_us = 40 * S
        machine.reboot("boot-after", [1, 0], 0)
        raise Killed

    def over() -> None:
        lives.is_over = lives.stop.is_asked = True

    job = machine.begin_job("slurm", "7", 0, cards[0], 1)
    machine.after(8 * MINUTE, lambda: machine.end_job(job))
    machine.after(16 * MINUTE, sleep)
    machine.after(24 * MINUTE, reboot)
    machine.after(OVER_US - T0, over)
    return lives


def emissions(lives: Lives) -> list[Sent]:
    """What the agent's log gave to the broker, and ticks by the true time, in their order."""
    sent = []
    for n, arrived in enumerate(lives.story.arrived):
        record = arrived.record
        key = record_bytes.EVERY_PARTITION if record.partition == BROADCAST else record.key
        sent.append(Sent(arrived.at_us, record.topic, key, record.key.encode(), record.value, f"agent/{n}"))
    for at_us in range(T0 - T0 % MINUTE, OVER_US + 20 * MINUTE, MINUTE):
        value = record_bytes.encode("tick", records.tick(at_us))
        for topic in ("job-events", "price-book"):
            sent.append(Sent(at_us, topic, record_bytes.EVERY_PARTITION, b"tick", value, f"tick/{topic}/{at_us}"))
    return sorted(sent, key=lambda one: one.at_us)


def samples(lives: Lives) -> list[Sample]:
    """Every batch that was sent, once."""
    values = {arrived.record.value for arrived in lives.story.arrived if arrived.record.topic == "gpu-samples"}
    decoded = [record_bytes.decode(value)[1] for value in values]
    return sorted((sample_of(one) for one in decoded), key=lambda sample: sample.ticks_us)


def sample_of(record: dict[str, Any]) -> Sample:
    ticks = tuple(np.frombuffer(record["ticks_us"], "<i8").tolist())
    return Sample(record["boot_id"], record["seq"], ticks, dict(energies(record, ticks)))


def energies(record: dict[str, Any], ticks: tuple[int, ...]) -> Iterator[tuple[str, int]]:
    """Energy of each device: the counter's increases from one reading to the next; over two epochs none is known."""
    for device in record["devices"]:
        column = device["energy_delta_uj"]
        deltas = np.frombuffer(column[: 8 * len(ticks)], "<i8")
        valid = np.unpackbits(np.frombuffer(column[8 * len(ticks) :], np.uint8), bitorder="little")[: len(ticks)]
        epoch_from = device["epoch_from_tick"]
        known = [n for n in range(1, len(ticks)) if valid[n] and n != epoch_from]
        assert epoch_from == 0 or ticks[epoch_from] - ticks[epoch_from - 1] > 5 * S, "no power fills it either"
        yield device["device"], int(deltas[known].sum())


@pytest.fixture
def cluster(broker: Broker, topic_prefix: str, tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, broker=broker, prefix=f"clock-{topic_prefix}") as found:
        yield found


@pytest.mark.quick
@pytest.mark.fault(
    (5, 6),
    "a node's clock an hour back, a day ahead, each for 3 minutes; asleep for 200 s; booted anew",
    "intervals do not overlap, no negative joules, ids unique, each batch's joules exact; a day ahead is put aside",
)
def test_a_wrong_clock_a_sleep_and_a_boot_cost_no_joule_and_count_none_twice(
    cluster: Cluster, tmp_path: Path, seen: Seen
) -> None:
    lives = troubled(tmp_path / "node")
    lives.live()
    cluster.publish(emissions(lives))
    cluster.settle()
    sent = samples(lives)
    ahead = [sample for sample in sent if sample.ticks_us[-1] > OVER_US + HOUR]
    back = [sample for sample in sent if sample.ticks_us[-1] < T0]
    slept = [sample for sample in sent if any(b - a > 100 * S for a, b in pairwise(sample.ticks_us))]
    boots = {sample.boot_id for sample in sent}
    assert ahead and back and slept and len(boots) == 2, "each misfortune left its trace"
    assert len({(sample.boot_id, sample.seq) for sample in sent}) == len(sent)
    billed = [sample for sample in sent if sample not in ahead]
    with closing(cluster.client()) as client:
        ledger = energy_by_device(client)
        assert ledger == totals(billed)
        assert_in_order(client)
        put_aside = client.query("SELECT reason_code, count() FROM dead_letters FINAL GROUP BY 1").result_rows
        assert put_aside == [("too_far_ahead", len(ahead))]
        assert [law for law in verify(client) if not law.ok] == []
    true = {card.uuid: true_energy_uj(lives.machine, card) for card in lives.machine.cards.values()}
    all_sent = totals(sent)
    for device, energy_uj in true.items():
        assert all_sent[device] <= energy_uj + _SLACK_UJ, "more than the card has drawn"
        assert all_sent[device] > energy_uj * 19 // 20, "40 s without the machine and a few steps cost more than that"
    shares = [f"{100 * all_sent[device] / energy_uj:.2f} %" for device, energy_uj in true.items()]
    seen(
        f"{len(sent)} batches of {len(boots)} boots, {len(back)} an hour back, {len(ahead)} a day ahead and put aside; "
        f"the ledger has the other batches' joules exactly, batches hold {', '.join(shares)} of what the cards drew"
    )


def totals(sent: list[Sample]) -> dict[str, int]:
    found: dict[str, int] = {}
    for sample in sent:
        for device, energy_uj in sample.energy_uj.items():
            found[device] = found.get(device, 0) + energy_uj
    return found


def true_energy_uj(machine: Machine, card: Card) -> int:
    return (card.energy_nj(machine.now_us) - card.energy_nj(T0)) // 1000


def energy_by_device(client: Client) -> dict[str, int]:
    found = client.query(
        "SELECT device, sum(energy_uj) FROM usage_lines FINAL WHERE kind = 'energy' AND energy_uj IS NOT NULL"
        " GROUP BY device"
    ).result_rows
    return {str(device): int(energy_uj) for device, energy_uj in found}


def assert_in_order(client: Client) -> None:
    """Batches of a device do not overlap, and nothing in them is negative."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for device, start_us, end_us in client.query(
        "SELECT device, toUnixTimestamp64Micro(group_start_at), toUnixTimestamp64Micro(group_end_at)"
        " FROM device_totals FINAL WHERE kind = 'energy' ORDER BY device, group_start_at"
    ).result_rows:
        spans.setdefault(device, []).append((int(start_us), int(end_us)))
    for found in spans.values():
        assert all(start_us < end_us for start_us, end_us in found)
        assert all(one[1] <= other[0] for one, other in pairwise(found)), "batches overlap"
    below = client.query("SELECT count() FROM usage_lines FINAL WHERE sign * energy_uj < 0 OR sign * span_us < 0")
    assert below.result_rows == [(0,)]


@pytest.mark.fault(
    6,
    "an agent's folder, with records not yet delivered, is cloned to another host; both agents deliver",
    "the clone takes a new id; what both delivered is twice in the topic and billed once",
)
def test_a_cloned_host_is_noticed_and_its_copy_billed_once(cluster: Cluster, tmp_path: Path, seen: Seen) -> None:
    play = Play(cluster, Plan(seed=6, nodes=2, devices=2, minutes=30, ticks_per_record=20), speed=None)
    home, clone = tmp_path / "home", tmp_path / "clone"
    home.mkdir()
    cards = ("GPU-a", "GPU-b")
    before = settle_identity(home, Fingerprint("m1", "4c4c4544-0001", "boot-1", cards))
    log = AgentLog(home / "a.wal", {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, cluster.prefix)
    log.take(play.during)
    log.stop()
    shutil.copytree(home, clone)
    after = settle_identity(clone, Fingerprint("m1", "4c4c4544-0002", "boot-9", ("GPU-x",)))
    assert after.is_new_host and after.identity.agent_id != before.identity.agent_id
    both = [AgentLog(folder / "a.wal", cluster.kafka, cluster.prefix) for folder in (home, clone)]
    for agent in both:
        until(agent.is_delivered, "both have delivered what the folder held")
        agent.stop()
    findings = play.finish(seen)
    twice = {topic: repeated(findings, topic) for topic in ("gpu-samples", "job-events", "price-book")}
    assert twice["gpu-samples"] == sum(record.topic == "gpu-samples" for record in play.during)
    seen(f"{after.note}; records that came twice: {twice}")

"""Workers killed at every step, ended from inside, frozen and thawed, scaled without end: the ledger is the truth."""

import secrets
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
from wattledger_audit.broker import Broker

from tests.fault_harness.aftermath import (
    PARTITIONS,
    READS,
    eventful,
    members,
    owns_all,
    reached,
    settle_exact,
    wait_struck,
)
from tests.fault_harness.cluster import Cluster
from tests.waiting import until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
EXACT = "billed once: ledger and topics are the truth to the last digit"
SMALL_TAKES = {"WATTLEDGER_TAKE_MAX": "16", "WATTLEDGER_SINK_TAKE_MAX": "60"}
KILLED = -signal.SIGKILL
ESCAPED = 70

KILLS = {
    "sessions": (
        "in_body:3", "before_produce:9", "after_produce:12", "after_settle:4", "before_ack:20", "before_commit:1",
        "after_commit:1",
    ),
    "meter": (
        "in_body:20", "before_produce:30", "after_produce:40", "after_settle:3", "before_ack:10", "before_commit:1",
        "after_commit:1", "before_keep:2", "after_keep:2",
    ),
    "sink": (
        "before_insert:2", "after_insert:2", "before_table:3", "after_table:3", "before_ack:70", "before_commit:1",
        "after_commit:1",
    ),
}  # fmt: skip
"""The n-th passing is counted from each start, so that every one of them meets a worker in the middle of its work."""


@pytest.mark.quick
@pytest.mark.fault(11, "sessions and meter killed after a produce, the sink after an insert", EXACT)
def test_a_kill_of_each_processor_after_it_wrote_bills_once(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world = eventful(11)
    launch = {"sessions": "kill:after_produce:12", "meter": "kill:after_produce:40", "sink": "kill:after_insert:3"}
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, launch=launch, env=SMALL_TAKES
    ) as cluster:
        cluster.publish(world.emissions())
        for processor, fault in launch.items():
            wait_struck(cluster, processor, fault)
        told = settle_exact(cluster, world)
        assert sorted(cluster.exits) == [("meter", KILLED), ("sessions", KILLED), ("sink", KILLED)]
    seen(f"each killed once and started again; {told}")


@pytest.mark.fault(11, "every worker killed at every step: in body, produce, settle, insert, ack, commit", EXACT)
def test_killed_at_every_step_it_bills_once(broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen) -> None:
    world = eventful(12)
    launch = {name: ",".join(f"kill:{point}" for point in points) for name, points in KILLS.items()}
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, launch=launch, env=SMALL_TAKES
    ) as cluster:
        publishing = cluster.start_publishing(world.emissions(), speed=100)
        for processor, faults in launch.items():
            wait_struck(cluster, processor, faults, within_s=400)
        publishing.join()
        told = settle_exact(cluster, world)
        assert Counter(cluster.exits) == {(name, KILLED): len(points) for name, points in KILLS.items()}
    points = "; ".join(f"{name} at {', '.join(points)}" for name, points in KILLS.items())
    seen(f"{sum(map(len, KILLS.values()))} kills, {points}; {told}")


@pytest.mark.fault((11, 14), "two workers of each processor, killed one after the other at random moments", EXACT)
def test_killed_beside_another_worker_it_bills_once(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world, seed = eventful(13), secrets.randbelow(10**6)
    print(f"kill seed: {seed}")
    dice, kills = Random(seed), 0
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=SMALL_TAKES, clickhouse="server",
        workers={"sessions": 2, "meter": 2, "sink": 2},
    ) as cluster:  # fmt: skip
        publishing = cluster.start_publishing(world.emissions(), speed=150)
        while publishing.running and kills < 12:
            processor = list(KILLS)[kills % 3]
            until(lambda name=processor: bool(members(cluster, name)), f"{processor} has a member", every_s=0.2)  # type: ignore[misc]
            cluster.kill(processor, dice.randrange(2))
            kills += 1
        publishing.join()
        told = settle_exact(cluster, world)
        assert Counter(code for _, code in cluster.exits) == {KILLED: kills}
        assert kills >= 6
    seen(f"seed {seed}: {kills} kills, the other worker took over or the same came back; {told}")


ESCAPES = {
    "sessions": "raise:in_body:4,cancel:in_body:3,cancel:after_settle:3,raise:before_ack:9",
    "meter": "raise:in_body:14,cancel:in_body:9,cancel:after_settle:3,raise:before_ack:9",
    "sink": "raise:in_body:4,cancel:in_body:3,cancel:before_ack:3,raise:before_table:4,raise:after_insert:2",
}


@pytest.mark.fault(12, "exceptions and cancellations in the body, at an insert, after a settle", f"exit 70; {EXACT}")
def test_what_escapes_a_body_ends_the_worker_and_is_done_again(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world = eventful(14)
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, launch=ESCAPES, env=SMALL_TAKES
    ) as cluster:
        publishing = cluster.start_publishing(world.emissions(), speed=120)
        for processor, faults in ESCAPES.items():
            wait_struck(cluster, processor, faults, within_s=400)
        publishing.join()
        told = settle_exact(cluster, world)
        exits = Counter(cluster.exits)
    # a cancellation strikes where the task next waits: another fault may come before that, and both are one end
    assert {code for _, code in exits} == {ESCAPED}
    assert all(exits[name, ESCAPED] >= faults.count("raise") for name, faults in ESCAPES.items())
    seen(
        f"{sum(faults.count(',') + 1 for faults in ESCAPES.values())} injected, ends by exit 70: {dict(exits)}; {told}"
    )


@pytest.mark.parametrize("action", ["raise", "cancel"])
@pytest.mark.fault((12, 15), "the first body of a new group fails", "exit 70, nothing acknowledged; then all is read")
def test_a_first_body_that_fails_acknowledges_nothing(
    broker: Broker, topic_prefix: str, tmp_path: Path, action: str, seen: Seen
) -> None:
    world = eventful(15)
    launch = dict.fromkeys(READS, f"{action}:in_body:1")
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, launch=launch, supervise=False,
        env=SMALL_TAKES,
    ) as cluster:  # fmt: skip
        publishing = cluster.start_publishing(world.emissions())
        until(lambda: len(cluster.exits) == 3, "each worker ended by itself")
        assert sorted(cluster.exits) == [("meter", ESCAPED), ("sessions", ESCAPED), ("sink", ESCAPED)]
        committed = {processor: cluster.committed(processor, topic) for processor, topic in READS.items()}
        assert committed == dict.fromkeys(READS, [-1] * PARTITIONS), "acknowledged at an exit"
        for processor in READS:
            cluster.workers[processor][0].start()
        publishing.join()
        told = settle_exact(cluster, world)
    seen(f"{action}: each exit 70, nothing committed ({committed}), started again; {told}")


@pytest.mark.parametrize("point", ["before_insert:3", "after_table:9"])
@pytest.mark.fault(12, "SIGTERM while the sink is inside an insert", f"it ends, no row is lost: {EXACT}")
def test_a_stop_in_the_middle_of_an_insert_loses_no_row(
    broker: Broker, topic_prefix: str, tmp_path: Path, point: str, seen: Seen
) -> None:
    world = eventful(21)
    launch = {"sink": f"term:{point}"}
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, launch=launch, supervise=False,
        env=SMALL_TAKES,
    ) as cluster:  # fmt: skip
        publishing = cluster.start_publishing(world.emissions(), speed=600)
        wait_struck(cluster, "sink", launch["sink"])
        until(lambda: bool(cluster.exits), "the sink ended after SIGTERM")
        [(ended, code)] = cluster.exits
        assert ended == "sink" and code in (0, ESCAPED), "it ends by itself, with or without what it had in hand"
        cluster.workers["sink"][0].start()
        publishing.join()
        told = settle_exact(cluster, world)
    seen(f"SIGTERM at {point}: exit {code}; {told}")


FREEZES = [
    {"sessions": "freeze:after_produce:15", "meter": "freeze:after_produce:40", "sink": "freeze:before_insert:3"},
    {"sessions": "freeze:before_commit:2", "meter": "freeze:after_settle:4", "sink": "freeze:before_ack:80"},
]


@pytest.mark.parametrize("launch", FREEZES, ids=["writing", "acknowledging"])
@pytest.mark.fault(13, "frozen with work in hand past its session, another takes over, thawed", f"zombie: {EXACT}")
def test_a_zombie_changes_no_total(
    broker: Broker, topic_prefix: str, tmp_path: Path, launch: dict[str, str], seen: Seen
) -> None:
    world = eventful(17)
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, launch=launch, env=SMALL_TAKES,
        clickhouse="server",
    ) as cluster:  # fmt: skip
        for processor in launch:
            until(partial(owns_all, cluster, processor), f"{processor} 0 owns all", every_s=0.3)
        owners = {processor: members(cluster, processor)[0].name for processor in launch}
        publishing = cluster.start_publishing(world.emissions(), speed=200)
        for processor in launch:
            wait_struck(cluster, processor, launch[processor])
            before = sum(cluster.committed(processor, READS[processor]))
            cluster.fleet.faults.pop(processor)
            cluster.scale(processor, 2)
            until(
                partial(owns_all, cluster, processor, owners[processor]), f"{processor} 0 lost its partitions", 120, 0.3
            )
            until(partial(is_further, cluster, processor, before), f"the other {processor} goes on", 120, 0.3)
        for processor in launch:
            cluster.thaw(processor)
        for processor in launch:
            until(partial(has_noticed, cluster, processor), f"{processor} 0 ended or joined again", every_s=0.3)
        publishing.join()
        told = settle_exact(cluster, world)
        exits = cluster.exits
    seen(f"each frozen ({launch}), lost its partitions, thawed as a zombie; exits {exits}; {told}")


def is_further(cluster: Cluster, processor: str, before: int) -> bool:
    return sum(cluster.committed(processor, READS[processor])) > before


def has_noticed(cluster: Cluster, processor: str) -> bool:
    return processor in {name for name, _ in cluster.exits} or len(members(cluster, processor)) == 2


@pytest.mark.fault(14, "meter and sessions scaled 1, 3, 1 without end while records flow", EXACT)
def test_scaled_up_and_down_without_end_it_bills_once(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world = eventful(18, nodes=5, minutes=90)
    with Cluster(tmp_path, broker=broker, prefix=topic_prefix, partitions=6, env=SMALL_TAKES) as cluster:
        publishing = cluster.start_publishing(world.emissions(), speed=120)
        sizes: dict[str, set[int]] = {"meter": set(), "sessions": set()}
        rounds = 0
        for count in cycle((3, 1)):
            for processor, widths in sizes.items():
                cluster.scale(processor, count)
                widths.add(reached(cluster, processor, count))
            rounds += 1
            if not publishing.running:
                break
        publishing.join()
        told = settle_exact(cluster, world)
        assert rounds >= 4
        assert sizes == {"meter": {1, 3}, "sessions": {1, 3}}
    seen(f"{rounds} times scaled to 3 or 1 of each, every time all partitions owned by that many; {told}")


def test_a_fault_that_never_strikes_fails_its_case(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    marker = tmp_path / "meter-0" / "work" / "faults" / "kill-after_produce-40"
    marker.parent.mkdir(parents=True)
    marker.touch()
    wait_struck(cluster, "meter", "plant:some_bug,kill:after_produce:40", 0)
    with pytest.raises(AssertionError, match=r"not struck .* by .'freeze:before_ack:3'"):
        wait_struck(cluster, "meter", "kill:after_produce:40,freeze:before_ack:3", 0)


@pytest.mark.fault(
    (13, 14), "two meters that fold their partitions for longer than a session; killed, and frozen past it", EXACT
)
def test_meters_that_fold_for_longer_than_a_session_do_not_put_each_other_out(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    world = eventful(15)
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=4, env=SMALL_TAKES,
        workers={"sessions": 1, "meter": 2, "sink": 1}, launch={"meter": "plant:slow_fold"},
    ) as cluster:  # fmt: skip
        cluster.publish(world.emissions())
        reached(cluster, "meter", 2)
        cluster.freeze("meter")
        cluster.kill("meter", 1)
        until(lambda: len(members(cluster, "meter")) == 1, "the frozen one is put out", every_s=0.3)
        cluster.thaw("meter")
        reached(cluster, "meter", 2)
        told = settle_exact(cluster, world)
        folds = sum(
            log.read_text(errors="replace").count('"event": "meter_caught_up"')
            for log in tmp_path.glob("meter-*/worker.log")
        )
        assert folds <= 24, f"{folds} folds of 4 partitions: they took them from each other"
    seen(f"{folds} folds of 4 partitions over two starts, a kill and a freeze; {told}")

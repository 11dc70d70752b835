"""Bugs planted into the real workers: each is caught, in the finding that is about it; without it all is exact."""

import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet
from wattledger_audit.broker import Broker

from tests.fault_harness.aftermath import PARTITIONS, check_settled, eventful, reached, wait_struck
from tests.fault_harness.checker import Finding, assert_exact
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.planted import BUGS
from tests.fault_harness.world import Sent, World
from tests.waiting import until

pytestmark = pytest.mark.kafka
Seen = Callable[[str], None]
SMALL_TAKES = {"WATTLEDGER_TAKE_MAX": "4", "WATTLEDGER_SINK_TAKE_MAX": "150"}
LINES, COSTS, TOTALS = "usage_lines net of reversals", "cost_rows net of reversals", "device_totals net of reversals"
TABLE_AND_TOPIC = "tenant-cost folded by row id is cost_rows FINAL"
FIRST_PRICES = "original cost rows that keep the price known when they were made"
THREE_INSERTS = "kill:before_insert:3,kill:before_insert:4,kill:before_insert:5"
MANY_SETTLES = ",".join(f"kill:after_settle:{n}" for n in range(2, 7))


class Case(NamedTuple):
    """The fault of the list that it is about, a bug, the processor that has it, the faults without which it would not
    show, and what has to be wrong."""

    number: int
    bug: str
    processor: str
    faults: str
    finding: str


CASES = (
    Case(11, "ack_before_insert", "sink", THREE_INSERTS, LINES),
    Case(11, "ack_before_insert", "meter", "kill:before_produce:60", LINES),
    Case(11, "ack_before_insert", "sessions", "kill:before_produce:1", LINES),
    Case(23, "clock_in_row_id", "meter", "kill:after_produce:60", LINES),
    Case(11, "id_made_at_insert", "sink", "kill:after_insert:3,kill:after_insert:4", LINES),
    Case(11, "retry_under_another_id", "meter", MANY_SETTLES, LINES),
    Case(11, "place_kept_before_settled", "meter", "kill:after_keep:2", COSTS),
    Case(24, "unreversed_correction", "meter", "", LINES),
    Case(24, "late_revision_ignored", "meter", "", LINES),
    Case(26, "late_price_in_place", "meter", "", FIRST_PRICES),
    Case(26, "late_price_in_place", "meter", "", "ids with two contents"),
    Case(26, "newest_price", "meter", "", FIRST_PRICES),
    Case(4, "gap_as_zero", "meter", "", "rows that give unmeasured time a value"),
    Case(4, "gap_as_zero", "meter", "", "time without a known energy"),
    Case(25, "float_joules", "meter", "", "joules of all lines"),
    Case(26, "float_money", "meter", "", "tenant-cost: rows whose cost is not quantity × rate × PUE"),
    Case(26, "half_up_rounding", "meter", "", "tenant-cost: rows whose cost is not quantity × rate × PUE"),
    Case(25, "shares_floored_apart", "meter", "", "joules of all lines"),
    Case(25, "last_tick_dropped", "meter", "", TOTALS),
    Case(16, "poison_skipped", "meter", "", "dead-letters net"),
)
WITH_FAULTS = sorted({(case.processor, case.faults) for case in CASES if case.faults})


def planted_world() -> World:
    """Some of every trouble; with this seed 45 costs end in a half, so that rounding them up shows."""
    return eventful(41)


def run_with(broker: Broker, prefix: str, folder: Path, launch: dict[str, str]) -> dict[str, Finding]:
    """What the checker finds, by its name, after a run with these faults and bugs."""
    world = planted_world()
    with Cluster(
        folder, broker=broker, prefix=prefix, partitions=PARTITIONS, launch=launch, env=SMALL_TAKES
    ) as cluster:
        cluster.publish(world.emissions())
        for processor, faults in launch.items():
            wait_struck(cluster, processor, faults)
        return {finding.what: finding for finding in check_settled(cluster, world)}


def wrong(findings: dict[str, Finding], about: str) -> Sequence[Finding]:
    """The failed findings whose name begins so."""
    return [finding for name, finding in findings.items() if name.startswith(about) and not finding.ok]


def told(findings: dict[str, Finding], about: str) -> str:
    """How many findings failed, and the one about the bug in its own words."""
    [finding] = wrong(findings, about)
    failed = sum(not found.ok for found in findings.values())
    return f"{failed} of {len(findings)} findings fail; {finding.what}: {finding.seen.splitlines()[0]}"


def by_bug() -> Iterator[ParameterSet]:
    """One run for each bug, processor and faults, with all findings that have to fail in it."""
    runs: dict[tuple[int, str, str, str], list[str]] = {}
    for case in CASES:
        runs.setdefault(case[:4], []).append(case.finding)
    for (number, bug, processor, faults), findings in runs.items():
        done = f"planted bug {bug} in the {processor}" + (f", {faults}" if faults else "")
        mark = pytest.mark.fault(number, done, "the check fails where it is about that")
        yield pytest.param(bug, processor, faults, findings, marks=mark, id=f"{bug}-{processor}")


@pytest.mark.parametrize(("bug", "processor", "faults", "about"), by_bug())
def test_a_planted_bug_is_caught(
    broker: Broker, topic_prefix: str, tmp_path: Path, bug: str, processor: str, faults: str, about: list[str],
    seen: Seen,
) -> None:  # fmt: skip
    launch = {processor: ",".join(filter(None, (f"plant:{bug}", faults)))}
    findings = run_with(broker, topic_prefix, tmp_path, launch)
    print([name for name, finding in findings.items() if not finding.ok])
    for one in about:
        seen(told(findings, one))


@pytest.mark.fault(11, "the same faults without a bug", "all is exact")
def test_with_the_same_faults_and_no_bug_all_is_exact(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    launch: dict[str, str] = {}
    for processor, faults in WITH_FAULTS:
        launch[processor] = ",".join(filter(None, (launch.get(processor, ""), faults)))
    findings = run_with(broker, topic_prefix, tmp_path, launch)
    assert_exact(list(findings.values()))
    seen(f"all of {len(findings)} findings exact, with {sum(f.count('kill') for f in launch.values())} kills")


@pytest.mark.quick
@pytest.mark.fault(11, "a sink that acknowledges before it inserts, killed between the two", "caught")
def test_an_acknowledgement_before_the_insert_is_caught(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    launch = {"sink": f"plant:ack_before_insert,{THREE_INSERTS}"}
    findings = run_with(broker, topic_prefix, tmp_path, launch)
    seen(told(findings, LINES))
    assert wrong(findings, TABLE_AND_TOPIC) or wrong(findings, TOTALS)


@pytest.mark.parametrize("planted", [True, False])
@pytest.mark.fault(11, "sessions killed with all acknowledged that came so far; folded again, or not", "caught")
def test_a_fold_that_goes_on_from_nothing_is_caught(
    broker: Broker, topic_prefix: str, tmp_path: Path, planted: bool, seen: Seen
) -> None:
    world = planted_world()
    emissions = list(world.emissions())
    half_us = world.plan.start_us + world.plan.minutes * 30_000_000
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=SMALL_TAKES,
        launch={"sessions": "plant:fold_not_rebuilt"} if planted else {},
    ) as cluster:  # fmt: skip
        cluster.publish([sent for sent in emissions if sent.at_us < half_us])
        until(lambda: "sessions:job-events" not in cluster.lag().behind, "sessions acknowledge the first half")
        cluster.kill("sessions")
        cluster.publish([sent for sent in emissions if sent.at_us >= half_us])
        findings = {finding.what: finding for finding in check_settled(cluster, world)}
        assert ("sessions", -signal.SIGKILL) in cluster.exits
    if planted:
        seen(told(findings, LINES))
    else:
        assert_exact(list(findings.values()))
        seen(f"without the bug all of {len(findings)} findings are exact")


def samples_ahead(world: World) -> tuple[list[Sent], list[Sent]]:
    """Half of what is sent, with five minutes of samples more than of anything else; and the rest."""
    half_us = world.plan.start_us + world.plan.minutes * 30_000_000
    first: list[Sent] = []
    rest: list[Sent] = []
    for sent in world.emissions():
        until_us = half_us + (300_000_000 if sent.topic == "gpu-samples" else 0)
        (first if sent.at_us < until_us else rest).append(sent)
    return first, rest


@pytest.mark.fault(24, "planted bug marks_not_waited_for in the meter; its samples are five minutes ahead", "caught")
def test_a_meter_that_does_not_wait_for_marks_is_caught(
    broker: Broker, topic_prefix: str, tmp_path: Path, seen: Seen
) -> None:
    """Without the bug such samples wait, and all is exact: the case below."""
    world = planted_world()
    first, rest = samples_ahead(world)
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=SMALL_TAKES,
        launch={"meter": "plant:marks_not_waited_for"},
    ) as cluster:  # fmt: skip
        cluster.publish(first)
        until(lambda: "meter:gpu-samples" not in cluster.lag().behind, "the meter has metered all", every_s=0.5)
        cluster.publish(rest)
        seen(told({finding.what: finding for finding in check_settled(cluster, world)}, LINES))


def only_samples_wait(cluster: Cluster) -> Callable[[], bool]:
    """Whether the meter alone is behind, and by as much as six looks ago: it has settled all that it can."""
    seen: list[dict[str, int]] = []

    def waits() -> bool:
        seen.append(cluster.lag().behind)
        return set(seen[-1]) == {"meter:gpu-samples"} and seen[-7:] == seen[-1:] * 7

    return waits


@pytest.mark.parametrize("planted", [True, False])
@pytest.mark.fault(
    (11, 14), "rebalanced with a take in hand, then killed; with and without commit on rebalance", "caught"
)
def test_a_commit_on_rebalance_before_the_settle_is_caught(
    broker: Broker, topic_prefix: str, tmp_path: Path, planted: bool, seen: Seen
) -> None:
    """The meter holds a take whose marks have not come; another one joins, the first one is killed."""
    world = planted_world()
    first, rest = samples_ahead(world)
    with Cluster(
        tmp_path, broker=broker, prefix=topic_prefix, partitions=PARTITIONS, env=SMALL_TAKES,
        launch={"meter": "plant:commit_on_rebalance"} if planted else {},
    ) as cluster:  # fmt: skip
        cluster.publish(first)
        until(only_samples_wait(cluster), "the meter waits for marks with a take in hand", every_s=0.5)
        cluster.fleet.faults.clear()
        cluster.scale("meter", 2)
        reached(cluster, "meter", 2)
        cluster.kill("meter", 0)
        cluster.publish(rest)
        findings = {finding.what: finding for finding in check_settled(cluster, world)}
    if planted:
        seen(told(findings, LINES))
    else:
        assert_exact(list(findings.values()))
        seen(f"without the bug all of {len(findings)} findings are exact")


def test_every_bug_has_a_case() -> None:
    assert {case.bug for case in CASES} | {
        "commit_on_rebalance", "fold_not_rebuilt", "marks_not_waited_for",
    } == set(BUGS)  # fmt: skip

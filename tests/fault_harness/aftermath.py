"""What a fault case asks of a cluster: did the fault strike, who owns what, and is the ledger the truth in the end?"""

import time
from dataclasses import dataclass, replace

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.fault_harness.checker import Finding, assert_exact, check
from tests.fault_harness.cluster import Cluster
from tests.fault_harness.world import Plan, World
from tests.waiting import until

PARTITIONS = 3
"""Three nodes of a world then lie in two partitions, and one is empty."""
READS = {"sessions": "job-events", "meter": "gpu-samples", "sink": "usage-lines"}
"""A topic that each processor reads through its group."""


def eventful(seed: int, **changes: int | float) -> World:
    """A world of three nodes and 50 minutes with some of every trouble, so that all kinds of row are at stake. Raises
    ValueError for a seed by which no price comes late."""
    small = {
        "nodes": 3, "devices": 2, "minutes": 50, "job_minutes": 9, "late_by_min": 15, "late_records_by_min": 20,
        "late_prices": 2,
    }  # fmt: skip
    plan = Plan(seed, gap_min=2).with_every_trouble()
    world = World(replace(plan, **{**small, **changes}))  # type: ignore[arg-type]
    if not any(said.reason == "published late" for said in world.tariffs.said):
        raise ValueError(f"seed {seed}: every late price falls on another change; take another seed")
    return world


def struck(cluster: Cluster, processor: str) -> set[str]:
    """The injected faults of a processor that have struck, as they were written."""
    folders = [folder / "work" / "faults" for folder in cluster.work_dir.glob(f"{processor}-*")]
    found = [marker for folder in folders if folder.is_dir() for marker in folder.iterdir()]
    return {marker.name.replace("-", ":") for marker in found}


def wait_struck(cluster: Cluster, processor: str, faults: str, within_s: float = 180) -> None:
    """Wait until every fault of a comma-separated list has struck: one that does not bite shows nothing. Raises
    AssertionError with those that did not."""
    wanted = {fault for fault in faults.split(",") if not fault.startswith("plant:")}
    end_s = time.monotonic() + within_s
    while not struck(cluster, processor) >= wanted:
        missing = sorted(wanted - struck(cluster, processor))
        assert time.monotonic() < end_s, f"{processor} was not struck within {within_s:.0f} s by {missing}"
        time.sleep(0.05)


def check_settled(cluster: Cluster, world: World, within_s: float = 240) -> list[Finding]:
    """Wait until all is acknowledged, then everything that the checker finds, right or wrong."""
    cluster.settle(within_s)
    client = cluster.client()
    try:
        return check(world, cluster.kafka, cluster.prefix, cluster.partitions, client)
    finally:
        client.close()


def settle_exact(cluster: Cluster, world: World, within_s: float = 240) -> str:
    """The same, and all of it has to be right; what stands there in a few words."""
    findings = check_settled(cluster, world, within_s)
    assert_exact(findings)
    return in_short(findings)


def in_short(findings: list[Finding]) -> str:
    """Energy, rows and repeated samples of a run, for the table."""
    seen = {finding.what: finding.seen for finding in findings}
    lines = seen["usage_lines net of reversals, key by key"].split(" as expected")[0]
    repeated = next(what for what in seen if what.startswith("gpu-samples")).partition("(")[2].rstrip(")")
    joules = int(seen["joules of all lines, µJ"]) / 1e6
    return f"{len(findings)} findings exact: {lines} lines, {joules:.6f} J, samples {repeated}"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a consumer group and the partitions assigned to it: topic without prefix, number."""

    name: str
    places: frozenset[tuple[str, int]]


def members(cluster: Cluster, group: str, within_s: float = 60) -> list[Member]:
    """Who is in a consumer group now, by the coordinator's word; asked again while it does not answer."""
    name, end_s = f"{cluster.prefix}wattledger-{group}", time.monotonic() + within_s
    while True:
        admin = AdminClient({**cluster.kafka})  # one that nothing holds takes its answers with it
        [future] = admin.describe_consumer_groups([name], request_timeout=5).values()
        try:
            found = future.result(6).members
            break
        except (TimeoutError, KafkaException):
            if time.monotonic() > end_s:
                raise
    return [
        Member(
            str(member.member_id),
            frozenset(
                (place.topic.removeprefix(cluster.prefix), place.partition)
                for place in (member.assignment.topic_partitions if member.assignment else ())
            ),
        )
        for member in found
    ]


def owns_all(cluster: Cluster, processor: str, gone: str = "") -> bool:
    """Whether every partition that a processor reads has an owner, and `gone` is not in the group."""
    there = members(cluster, processor)
    places = {place for member in there for place in member.places if place[0] == READS[processor]}
    return gone not in {member.name for member in there} and len(places) == PARTITIONS


def reached(cluster: Cluster, processor: str, count: int) -> int:
    """How many members own the partitions, once that many do; a newcomer owns none until the group has formed anew."""

    def owners() -> int:
        there = [member for member in members(cluster, processor) if member.places]
        return len(there) if sum(len(member.places) for member in there) == cluster.partitions else 0

    until(lambda: owners() == count, f"{count} of {processor} own its partitions", every_s=0.3)
    return count

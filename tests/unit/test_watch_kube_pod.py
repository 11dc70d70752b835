"""A pod as the API tells of it: times, tags, requests, outcome; and the kubelet's message table against the proto."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import wattledger_agent.watchers
from wattledger_agent.watchers.kube_pod import PodFacts, TagNames, parse_pod
from wattledger_agent.watchers.kube_proto import FIELDS
from wattledger_agent.watchers.kube_quantity import parse_quantity, stamp_us
from wattledger_agent.watchers.kube_request import split

from tests.kube_api_server import Item, T, api_pod, ran, spec, stamp, status, us

MAIN = ("main",)


def facts(item: Item, tags: TagNames | None = None) -> PodFacts:
    return parse_pod(item, tags or TagNames())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", Fraction(1, 2)), ("2", Fraction(2)), (2, Fraction(2)), ("1.5", Fraction(3, 2)), (".5", Fraction(1, 2)),
        ("64Gi", Fraction(64 * 2**30)), ("1k", Fraction(1000)), ("1e3", Fraction(1000)), ("1E3", Fraction(1000)),
        ("2E", Fraction(2 * 10**18)), ("1Ei", Fraction(2**60)), ("12e-1", Fraction(6, 5)), ("100n", Fraction(1, 10**7)),
        ("0", Fraction(0)), ("-1", None), ("", None), ("1 Gi", None), ("1KiB", None), ("abc", None), (None, None),
        (True, None), (1.5, None), ("1e999999999", None),
    ],
)  # fmt: skip
def test_a_quantity_is_exact_or_none(text: object, value: Fraction | None) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "at_us"),
    [
        ("2026-10-01T08:00:00Z", T * 10**6),
        ("2026-10-01T08:00:00.123456789Z", T * 10**6 + 123_456),
        ("2026-10-01T10:00:00+02:00", T * 10**6),
        ("2026-10-01T08:00:00", None),  # no zone: not the API's
        ("0001-01-01T00:00:00Z", None),
        ("1970-01-01T00:00:00Z", None),
        ("soon", None),
        (None, None),
        (5, None),
    ],
)
def test_a_stamp_is_utc_or_none(text: object, at_us: int | None) -> None:
    assert stamp_us(text) == at_us


RUNNING = status("main", ran(5))
ONCE = status("main", ran(50), last=ran(5, 40, 1), restarts=1)
LOOPING = status("main", {"waiting": {"reason": "CrashLoopBackOff"}}, last=ran(100, 140, 1), restarts=4)
WAITING = status("main", {"waiting": {"reason": "ImagePullBackOff"}})
READY = {"type": "Initialized", "status": "True", "lastTransitionTime": stamp(4)}


@pytest.mark.parametrize(
    ("item", "started_s", "ended_s", "is_over"),
    [
        (api_pod(statuses=[RUNNING]), 5, None, False),
        (api_pod(statuses=[WAITING]), None, None, False),
        (api_pod(statuses=[]), None, None, False),
        # A restart is the same hold; the first start stands in lastState.
        (api_pod(statuses=[ONCE], policy="Always"), 5, None, False),
        # After several, the status has lost the first start: the pod's own start is the best that is left.
        (api_pod(statuses=[LOOPING], policy="Always", conditions=[READY]), 4, None, False),
        (api_pod(statuses=[status("main", ran(5, 65))], phase="Succeeded"), 5, 65, True),
        (api_pod(statuses=[status("main", ran(5, 65, 137))], phase="Failed"), 5, 65, True),
        # Ended, and what the pod is at has not come round to it yet.
        (api_pod(statuses=[status("main", ran(5, 65))]), 5, 65, True),
        (api_pod(statuses=[status("main", ran(5, 65))], policy="OnFailure"), 5, 65, True),
        (api_pod(statuses=[status("main", ran(5, 65, 1))], policy="OnFailure"), 5, None, False),
        (api_pod(statuses=[status("main", ran(5, 65))], policy="Always"), 5, None, False),
        # Being deleted: nothing starts again, whatever the policy.
        (api_pod(statuses=[status("main", ran(5, 65))], policy="Always", deleted_s=90), 5, 65, True),
        # Deleted while it waited to be started again: held until then.
        (api_pod(statuses=[LOOPING], policy="Always", deleted_s=200), 0, 170, True),
        # Evicted: the status lost its containers, but not when the pod stopped being ready.
        (
            api_pod(
                statuses=[], phase="Failed", reason="Evicted",
                conditions=[{"type": "Ready", "status": "False", "lastTransitionTime": stamp(70)}],
            ),
            None, 70, True,
        ),
        (api_pod(statuses=[], phase="Failed", reason="Evicted"), None, None, True),
        (api_pod(statuses=[status("main", ran(-2_000_000_000, 65))], phase="Succeeded"), None, 65, True),
    ],
)  # fmt: skip
def test_a_hold_lasts_from_the_first_start_to_the_end_for_good(
    item: Item, started_s: int | None, ended_s: int | None, is_over: bool
) -> None:
    pod = facts(item)
    assert pod.started_us(MAIN) == (None if started_s is None else us(started_s))
    assert pod.finished_us(MAIN) == (None if ended_s is None else us(ended_s))
    assert pod.is_over(MAIN) is is_over


def test_c08_a_native_sidecar_holds_until_the_pod_ends_and_a_plain_init_container_until_it_succeeds() -> None:
    sidecar = api_pod(
        containers=[spec("main", gpus=0)],
        inits=[spec("server", policy="Always")],
        statuses=[status("main", ran(10))],
        init_statuses=[status("server", ran(2, 60, 0), restarts=0)],
    )
    assert facts(sidecar).finished_us(("server",)) is None
    warm_up = api_pod(
        inits=[spec("warm-up")], init_statuses=[status("warm-up", ran(2, 8))], statuses=[status("main", ran(10))]
    )
    assert facts(warm_up).finished_us(("warm-up",)) == us(8)
    assert (facts(warm_up).started_us(("warm-up", "main")), facts(warm_up).is_over(("warm-up", "main"))) == (
        us(2),
        False,
    )


def test_only_the_containers_that_hold_devices_count() -> None:
    item = api_pod(
        containers=[spec("main"), spec("logs", gpus=0)], statuses=[status("main", ran(5, 65)), status("logs", ran(1))]
    )
    assert (facts(item).started_us(MAIN), facts(item).finished_us(MAIN)) == (us(5), us(65))
    assert facts(item).finished_us(("main", "logs")) is None


def test_deletion_was_asked_for_a_grace_period_before_its_stamp() -> None:
    assert facts(api_pod(deleted_s=100, grace_s=30)).stop_requested_us == us(70)
    assert facts(api_pod(deleted_s=100, grace_s=0)).stop_requested_us == us(100)
    assert facts(api_pod()).stop_requested_us is None


@pytest.mark.parametrize(
    ("item", "outcome"),
    [
        (api_pod(), ""),
        (api_pod(statuses=[status("main", ran(1, 2))], phase="Succeeded"), "COMPLETED"),
        (api_pod(statuses=[status("main", ran(1, 2, 1))], phase="Failed"), "FAILED"),
        (api_pod(statuses=[status("main", ran(1, 2, 137, "OOMKilled"))], phase="Failed"), "OUT_OF_MEMORY"),
        (api_pod(phase="Failed", reason="Evicted"), "PREEMPTED"),
        (api_pod(phase="Failed", reason="NodeShutdown"), "NODE_FAIL"),
        (api_pod(phase="Failed", reason="DeadlineExceeded"), "TIMEOUT"),
        (api_pod(deleted_s=50), "CANCELLED"),
        (api_pod(statuses=[status("main", ran(1, 2, 143))], phase="Failed", deleted_s=50), "CANCELLED"),
    ],
)
def test_an_end_has_the_word_that_all_schedulers_share(item: Item, outcome: str) -> None:
    assert facts(item).outcome == outcome


def test_tags_come_from_labels_then_annotations_then_the_namespace() -> None:
    names = TagNames(project="team")
    item = api_pod(
        labels={"wattledger.io/tenant": "umbrella", "team": "vision"},
        annotations={
            "wattledger.io/model": "org/model-7b:3",
            "wattledger.io/tenant": "other",
            "wattledger.io/plan": "Spot",
        },
        account="trainer",
    )
    pod = facts(item, names)
    assert (pod.tenant, pod.project, pod.model_tag, pod.plan, pod.user) == (
        "umbrella", "vision", "org/model-7b:3", "spot", "trainer",
    )  # fmt: skip
    bare = facts(api_pod(annotations={"wattledger.io/plan": "gold"}))
    assert (bare.tenant, bare.project, bare.model_tag, bare.plan, bare.odd_plan) == ("acme", "acme", "", "", "gold")


def test_a_namespace_that_may_not_tag_itself_is_its_own_tenant() -> None:
    item = api_pod(labels={"wattledger.io/tenant": "umbrella", "wattledger.io/model": "m"})
    pod = facts(item, TagNames(namespaces=frozenset({"trusted"})))
    assert (pod.tenant, pod.model_tag) == ("acme", "")


def test_owner_keys_are_the_uid_in_both_spellings_the_static_hash_and_every_container() -> None:
    item = api_pod(
        uid="ab-cd", annotations={"kubernetes.io/config.hash": "f00d"},
        containers=[spec("main"), spec("logs", gpus=0)],
        statuses=[status("main", ran(1), container_id="aa"), status("logs", ran(1), container_id="bb")],
    )  # fmt: skip
    assert facts(item).owner_keys == ("ab-cd", "ab_cd", "f00d", "aa", "bb")


@pytest.mark.parametrize(
    ("change", "cpus", "memory_bytes"),
    [
        ({"containers": [spec("main", cpu="2500m", memory="1Gi")]}, 3, 2**30),
        ({"containers": [spec("a", cpu="1"), spec("b", gpus=0, cpu="500m", memory="100")]}, 2, 100),
        ({"containers": [spec("a")]}, None, None),
        # A sidecar counts beside the containers, a plain init container only where it is more than they are.
        ({"containers": [spec("a", cpu="2")], "inits": [spec("s", 0, policy="Always", cpu="1")]}, 3, None),
        ({"containers": [spec("a", cpu="2")], "inits": [spec("i", 0, cpu="8")]}, 8, None),
        (
            {"containers": [spec("a", cpu="2")],
             "inits": [spec("s", 0, policy="Always", cpu="1"), spec("i", 0, cpu="8")]},
            9, None,
        ),
    ],
)  # fmt: skip
def test_requests_are_the_schedulers(change: Item, cpus: int | None, memory_bytes: int | None) -> None:
    pod = facts(api_pod(**change))
    assert (pod.cpus, pod.memory_bytes) == (cpus, memory_bytes)


def test_what_the_whole_pod_asks_for_comes_first_and_overhead_is_added() -> None:
    item = api_pod(containers=[spec("main", cpu="1")])
    item["spec"] |= {"resources": {"requests": {"cpu": "6"}}, "overhead": {"cpu": "250m"}}
    assert facts(item).cpus == 7


@pytest.mark.parametrize(("total", "parts"), [(7, 3), (0, 4), (1, 8), (2**40 + 1, 3)])
def test_a_split_sums_exactly(total: int, parts: int) -> None:
    found = split(total, parts)
    assert sum(one or 0 for one in found) == total
    assert max(one or 0 for one in found) - min(one or 0 for one in found) <= 1


@pytest.mark.parametrize(
    ("containers", "asks"),
    [
        ([spec("main")], True),
        ([spec("main", resource="nvidia.com/mig-1g.5gb")], True),
        ([spec("main", resource="amd.com/gpu")], True),
        ([spec("main", gpus=0)], False),
        ([{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "0"}}}], False),
        ([{"name": "main", "resources": None}], False),
    ],
)
def test_a_pod_asks_for_gpus_by_a_limit(containers: list[Item], asks: bool) -> None:
    assert facts(api_pod(containers=containers)).asks_for_gpus is asks


@pytest.mark.parametrize(
    "item",
    [{}, {"metadata": {"name": "x", "namespace": "y"}}, {"metadata": None}, {"metadata": {"uid": 5, "name": "x"}}],
)
def test_what_is_no_pod_is_refused_without_its_content(item: Item) -> None:
    with pytest.raises(ValueError, match="no uid, namespace or name"):
        facts(item)


@pytest.mark.parametrize("odd", [None, [], "text", 7, [None, 5], {"x": 1}])
def test_odd_shapes_of_a_status_are_read_as_absent(odd: Any) -> None:
    item = api_pod()
    item["status"] = dict.fromkeys(("containerStatuses", "initContainerStatuses", "conditions", "startTime"), odd)
    item["spec"]["initContainers"] = odd
    assert facts(item).started_us(MAIN) is None
    item["status"], item["spec"] = odd, odd
    assert facts(item).uid


def test_the_message_table_is_the_proto_file() -> None:
    text = (Path(wattledger_agent.watchers.__file__).parent / "podresources.proto").read_text()
    text = re.sub(r"//.*", "", text)
    written = {}
    for name, body in re.findall(r"message (\w+) \{([^}]*)\}", text):
        fields = re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body)
        written[name] = tuple(
            (field, int(number), ("*" if many else "") + kind) for many, kind, field, number in fields
        )
    assert written == FIELDS

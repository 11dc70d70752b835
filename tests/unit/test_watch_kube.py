"""The Kubernetes watcher over looks: starts, ends, restarts, tags, and life without the API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from wattledger_agent.watchers.run import Run
from wattledger_agent.watchers.watcher import WatcherUnavailable

from tests.kube_api_server import api_pod, ran, spec, status, us
from tests.kube_pod_resources_server import container, devices, gpu_pod, pod
from tests.kube_world import GPU_A, GPU_B, KubeNode, kube_node, seconds, times


@pytest.fixture
def node(tmp_path: Path) -> Iterator[KubeNode]:
    with kube_node(tmp_path) as made:
        yield made


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[KubeNode]:
    with kube_node(tmp_path, with_api=False) as made:
        yield made


def seen(run: Run) -> tuple[str, float | None, float | None]:
    return run.job, *times(run)


def test_a_pods_run_says_who_what_and_when(node: KubeNode) -> None:
    node.kubelet.pods = [
        pod("acme", "train-0", container("main", devices("nvidia.com/gpu", GPU_A, GPU_B), cpu_ids=range(4)))
    ]
    node.api.pods = [
        api_pod(
            "train-0",
            uid="ab-cd",
            containers=[spec("main", cpu="7", memory="3Gi")],
            statuses=[status("main", ran(5), container_id="feed")],
            labels={"wattledger.io/tenant": "umbrella", "wattledger.io/model": "llama"},
            account="trainer",
        )
    ]
    run = node.one(10)
    assert (run.source, run.cluster, run.job, run.attempt) == ("kubernetes", "c1", "acme/train-0/ab-cd", 0)
    assert (run.tenant, run.project, run.user, run.model_tag, run.plan) == ("umbrella", "acme", "trainer", "llama", "")
    assert (times(run), run.outcome, run.stop_requested_us, run.released_us) == ((5, None), "", None, None)
    assert sum(one.cpus or 0 for one in run.held) == 7 and sum(one.memory_bytes or 0 for one in run.held) == 3 << 30
    assert run.owner_keys == ("ab-cd", "ab_cd", "feed")
    assert node.last.reported_to_us == us(10)


def test_a_run_ends_when_the_api_says_and_is_told_once(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p")]
    node.look(10)
    node.kubelet.pods = []
    node.api.pods = [api_pod("p", statuses=[status("main", ran(2, 14, 137, "OOMKilled"))], phase="Failed")]
    run = node.one(20)
    assert (times(run), run.outcome) == ((2, 14), "OUT_OF_MEMORY")
    assert node.look(30) == node.look(40) == []


def test_a_stop_that_was_asked_for_is_told_before_the_end(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p", deleted_s=48, grace_s=30)]
    run = node.one(20)
    assert (seconds(run.stop_requested_us), run.ended_us) == (18, None)
    over = [status("main", ran(2, 25, 143))]
    node.api.pods = [api_pod("p", deleted_s=48, grace_s=30, statuses=over, phase="Failed")]
    run = node.one(30)
    assert (seconds(run.stop_requested_us), times(run), run.outcome) == (18, (2, 25), "CANCELLED")


def test_a_finished_pod_that_is_cleared_away_later_was_not_stopped(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    node.api.pods = [api_pod("p", deleted_s=90, grace_s=30, statuses=[status("main", ran(2, 14))], phase="Succeeded")]
    run = node.one(70)
    assert (run.stop_requested_us, run.outcome, times(run)) == (None, "COMPLETED", (2, 14))


def test_a_restart_is_the_same_run_and_its_first_start_is_kept(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    for restarts, state, last in (
        (0, ran(5), None),
        (1, {"waiting": {"reason": "CrashLoopBackOff"}}, ran(5, 20, 1)),
        (1, ran(50), ran(5, 20, 1)),
        (9, ran(900), ran(700, 800, 1)),
    ):
        boxes = [status("main", state, last, restarts, container_id=f"id{restarts}")]
        node.api.pods = [api_pod("p", policy="Always", statuses=boxes)]
        run = node.one(1000 + restarts)
        assert (times(run), run.attempt) == ((5, None), 0)
    assert run.owner_keys[-3:] == ("id0", "id1", "id9")
    assert node.reasons == []


def test_a_pod_that_has_not_started_is_no_run_and_said_when_it_lasts(node: KubeNode) -> None:
    waiting = [status("main", {"waiting": {"reason": "ImagePullBackOff"}})]
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p", phase="Pending", statuses=waiting)]
    assert (node.look(10), node.look(300), node.reasons) == ([], [], [])
    assert node.look(700) == []
    assert node.reasons == ["held_before_start"]
    assert node.last.reported_to_us == us(700)
    node.api.pods = []
    node.kubelet.pods = []
    assert node.look(710) == []


def test_a_pod_that_lived_between_two_looks_is_said(node: KubeNode) -> None:
    node.api.pods = [api_pod("before", statuses=[status("main", ran(2, 3))], phase="Succeeded")]
    node.look(10)
    brief = [status("main", ran(12, 12.4))]
    node.api.pods.append(api_pod("brief", uid="b-1", created_s=11, statuses=brief, phase="Succeeded"))
    assert node.look(20) == []
    assert [(one.reason, one.source) for one in node.findings] == [("run_without_devices", "kubernetes")]
    assert "acme/brief/b-1 ran 400 ms" in node.findings[0].detail
    node.look(30)
    assert len(node.findings) == 1


def test_a_pod_of_400_ms_that_was_listed_once_has_its_own_times(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("brief", GPU_A)]
    node.api.pods = [api_pod("brief", statuses=[status("main", ran(12, 12.4))], phase="Succeeded")]
    assert times(node.one(12.5)) == (12, 12.4)


def test_an_evicted_pod_whose_status_lost_its_containers_keeps_its_start(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p")]
    node.look(10)
    node.kubelet.pods, node.api.pods = [], [api_pod("p", statuses=[], phase="Failed", reason="Evicted")]
    run = node.one(30)
    assert (times(run), run.outcome) == ((2, 30), "PREEMPTED")


def test_a_kubelet_that_restarts_and_lists_nothing_for_a_while_ends_nothing(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p")]
    node.look(10)
    node.kubelet.stop()
    with pytest.raises(WatcherUnavailable):
        node.look(20)
    node.kubelet.pods = []
    node.kubelet.restart()
    assert times(node.one(30)) == (2, None)
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    assert times(node.one(40)) == (2, None)
    node.kubelet.pods, node.api.pods = [], []
    assert times(node.one(50)) == (2, 50)


def test_a_pod_that_the_api_does_not_know_is_waited_for_then_goes_by_its_name(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("etcd-n1", GPU_A)]
    assert (node.look(10), node.look(60)) == ([], [])
    assert node.last.reported_to_us == 0
    assert seen(node.one(75)) == (f"acme/etcd-n1/seen-{us(10)}", 10, None)
    assert node.reasons == ["pod_not_in_api"]
    node.kubelet.pods = []
    assert seen(node.one(80)) == (f"acme/etcd-n1/seen-{us(10)}", 10, 80)


def test_a_pod_that_goes_while_it_is_waited_for_is_a_run_all_the_same(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    assert node.look(10) == []
    node.kubelet.pods = []
    assert times(node.one(15)) == (10, 15)


def test_a_pod_found_a_moment_later_starts_when_its_container_did(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    assert node.look(10) == []
    node.api.pods = [api_pod("p", uid="u", statuses=[status("main", ran(8))])]
    assert seen(node.one(12)) == ("acme/p/u", 8, None)
    assert node.reasons == []


def test_without_the_api_runs_go_by_name_and_first_sight_and_that_is_said_once(bare: KubeNode) -> None:
    bare.kubelet.pods = [pod("acme", "p", container("main", devices("nvidia.com/gpu", GPU_A), cpu_ids=(0, 1)))]
    run = bare.one(10)
    assert seen(run) == (f"acme/p/seen-{us(10)}", 10, None)
    assert (run.tenant, run.held[0].cpus, run.owner_keys) == ("acme", 2, ())
    assert bare.one(20) == run
    bare.kubelet.pods = [gpu_pod("other", GPU_B)]
    assert {seen(one) for one in bare.look(30)} == {
        (f"acme/p/seen-{us(10)}", 10, 30),
        (f"acme/other/seen-{us(30)}", 30, None),
    }
    assert bare.reasons == ["identity_without_uid"]
    assert bare.last.reported_to_us == us(30)


def test_without_the_api_other_devices_are_another_pod_of_the_same_name(bare: KubeNode) -> None:
    bare.kubelet.pods = [gpu_pod("web-0", GPU_A)]
    bare.look(10)
    bare.kubelet.pods = [gpu_pod("web-0", GPU_B)]
    assert {seen(one) for one in bare.look(20)} == {
        (f"acme/web-0/seen-{us(10)}", 10, 20),
        (f"acme/web-0/seen-{us(20)}", 20, None),
    }


def test_without_the_api_a_kubelet_that_restarts_splits_no_run(bare: KubeNode) -> None:
    bare.kubelet.pods = [gpu_pod("p", GPU_A)]
    bare.look(10)
    bare.kubelet.pods = []
    bare.kubelet.restart()
    assert times(bare.one(20)) == (10, None)
    bare.kubelet.pods = [gpu_pod("p", GPU_A)]
    assert times(bare.one(30)) == (10, None)
    bare.kubelet.pods = []
    assert times(bare.one(75)) == (10, None)
    assert times(bare.one(90)) == (10, 75)  # settled: it was gone at 75


def test_an_agent_that_restarts_goes_on_with_the_names_it_gave(tmp_path: Path) -> None:
    with kube_node(tmp_path, with_api=False) as bare:
        bare.kubelet.pods = [gpu_pod("p", GPU_A)]
        before = bare.one(10)
    (tmp_path / "again").mkdir()
    with kube_node(tmp_path / "again", with_api=False, recalled=[before]) as again:
        again.kubelet.pods = [gpu_pod("p", GPU_A), gpu_pod("q", GPU_B)]
        assert [seen(run) for run in again.look(500)] == [seen(before), (f"acme/q/seen-{us(500)}", 500, None)]


def test_a_right_that_is_missing_is_said_once_and_runs_go_on_under_uids_when_it_is_given(node: KubeNode) -> None:
    node.api.denies = {"pods": 403}
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    assert seen(node.one(10)) == (f"acme/p/seen-{us(10)}", 10, None)
    node.look(20)
    assert node.reasons == ["api_forbidden", "identity_without_uid"]
    assert "get and list on pods" in node.findings[0].detail
    node.api.denies = {}
    node.api.pods = [api_pod("p", uid="u", labels={"wattledger.io/tenant": "umbrella"})]
    runs = node.look(30)
    assert {seen(run) for run in runs} == {(f"acme/p/seen-{us(10)}", 10, 30), ("acme/p/u", 30, None)}
    assert {seen(run) for run in node.look(40)} == {("acme/p/u", 30, None)}


def test_an_api_server_away_changes_no_run_and_new_pods_wait_a_minute_for_it(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p", uid="u")]
    node.look(10)
    node.api.denies = {"pods": 503}
    node.kubelet.pods = [gpu_pod("p", GPU_A), gpu_pod("q", GPU_B)]
    assert [seen(run) for run in node.look(20)] == [("acme/p/u", 2, None)]
    assert node.last.reported_to_us == us(10)
    assert {seen(run) for run in node.look(90)} == {("acme/p/u", 2, None), (f"acme/q/seen-{us(20)}", 20, None)}
    assert node.reasons.count("api_busy") == 1
    node.kubelet.pods = [gpu_pod("q", GPU_B)]
    assert ("acme/p/u", 2, 100) in {seen(run) for run in node.look(100)}


def test_a_successor_on_another_card_is_told_apart_while_the_api_server_is_away(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("web-0", GPU_A)], [api_pod("web-0", uid="one")]
    node.look(10)
    node.api.denies, node.kubelet.pods = {"pods": 503}, [gpu_pod("web-0", GPU_B)]
    (run,) = node.look(20)
    assert (seen(run), run.held[0].ref.value) == (("acme/web-0/one", 2, None), GPU_A)
    node.api.denies, node.api.pods = {}, [api_pod("web-0", uid="two", created_s=12)]
    assert {(*seen(run), run.held[0].ref.value) for run in node.look(30)} == {
        ("acme/web-0/one", 2, 12, GPU_A),
        ("acme/web-0/two", 14, None, GPU_B),
    }


def test_a_run_whose_end_only_the_api_knows_waits_for_it(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p", uid="u")]
    node.look(10)
    node.api.denies, node.kubelet.pods = {"pods": 503}, []
    assert times(node.one(20)) == (2, None)
    node.api.denies = {}
    node.api.pods = [api_pod("p", uid="u", statuses=[status("main", ran(2, 13))], phase="Succeeded")]
    assert times(node.one(30)) == (2, 13)


def test_the_api_is_asked_when_the_list_changes_and_now_and_then(tmp_path: Path) -> None:
    with kube_node(tmp_path, api_period_us=10_000_000) as node:
        node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p")]
        asked = []
        for at_s in (10, 11, 12, 19, 20, 21):
            node.look(at_s)
            asked.append(len(node.api.requests))
        assert asked == [1, 1, 1, 1, 2, 2]
        node.kubelet.pods.append(gpu_pod("q", GPU_B))
        node.look(22)
        assert len(node.api.requests) == 3
        node.api.denies, node.kubelet.pods = {"pods": 503}, []
        for at_s in (23, 24, 25):
            node.look(at_s)
        assert len(node.api.requests) == 4  # a server in trouble is not pressed


def test_a_pod_that_cannot_be_read_hides_no_other(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    node.api.pods = [{"metadata": {"name": "odd"}}, api_pod("p")]
    assert times(node.one(10)) == (2, None)
    assert node.reasons == ["bad_pod"]


def test_no_secret_of_a_pod_is_in_a_finding(node: KubeNode) -> None:
    secret = api_pod("p", uid="u", containers=[spec("main") | {"env": [{"name": "TOKEN", "value": "s3cr3t"}]}])
    node.api.pods = [secret, {"metadata": {"name": "odd"}, "spec": {"env": "s3cr3t"}}]
    node.look(10), node.look(100)
    assert node.findings
    assert not any("s3cr3t" in one.detail or one.raw for one in node.findings)


def test_a_share_is_counted_again_when_a_new_replica_is_held(node: KubeNode) -> None:
    node.kubelet.allocatable = [devices("nvidia.com/gpu", f"{GPU_A}::0", f"{GPU_A}::1")]
    node.kubelet.pods, node.api.pods = [gpu_pod("p", f"{GPU_A}::0")], [api_pod("p"), api_pod("q")]
    assert [(h.share_num, h.share_den) for h in node.one(10).held] == [(1, 2)]
    node.kubelet.allocatable.append(devices("nvidia.com/gpu", *(f"{GPU_B}::{i}" for i in range(4))))
    node.kubelet.pods.append(gpu_pod("q", f"{GPU_B}::3"))
    assert [(h.share_num, h.share_den) for run in node.look(11) for h in run.held] == [(1, 2), (1, 4)]
    assert node.kubelet.calls.count("GetAllocatableResources") == 2


def test_ten_thousand_pods_are_followed_in_good_time(bare: KubeNode) -> None:
    bare.kubelet.pods = [gpu_pod(f"p{i:05}", f"GPU-{i:08x}") for i in range(10_000)]
    assert len(bare.look(10)) == len(bare.look(20)) == 10_000
    bare.kubelet.pods = []
    assert all(run.ended_us == us(30) for run in bare.look(30))
    assert bare.look(40) == []

"""The public reports on pods and GPUs (C1 to C15, B8, D1, D4): each with the runs that are right."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_MINOR, BY_UNKNOWN, BY_UUID, DeviceRef

from tests.kube_api_server import Item, api_pod, ran, spec, status, us
from tests.kube_pod_resources_server import claim, container, devices, gpu_pod, pod
from tests.kube_world import GPU_A, GPU_B, KubeNode, kube_node, seconds, times

DRIVER = "gpu.nvidia.com"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[KubeNode]:
    with kube_node(tmp_path, reads_claims=True) as made:
        yield made


def shares(node: KubeNode) -> list[Fraction]:
    return [Fraction(h.share_num or 1, h.share_den or 1) for run in node.last.runs for h in run.held]


def test_c01_c02_three_pods_on_a_time_sliced_card_hold_thirds_of_one_device(node: KubeNode) -> None:
    ids = [f"{GPU_A}::{i}" for i in range(3)]
    node.kubelet.allocatable = [devices("nvidia.com/gpu", *ids)]
    node.kubelet.pods = [gpu_pod(f"p{i}", one) for i, one in enumerate(ids)]
    node.api.pods = [api_pod(f"p{i}") for i in range(3)]
    runs = node.look(10)
    assert {held.ref for run in runs for held in run.held} == {DeviceRef(BY_UUID, GPU_A)}
    assert shares(node) == [Fraction(1, 3)] * 3


def test_c02_b08_gkes_names_are_minors_instances_and_replicas(node: KubeNode) -> None:
    node.kubelet.allocatable = [devices("nvidia.com/gpu", "nvidia0/vgpu0", "nvidia0/vgpu1", "nvidia1/gi7/vgpu0")]
    node.kubelet.pods = [gpu_pod("a", "nvidia0/vgpu0"), gpu_pod("b", "nvidia0/vgpu1"), gpu_pod("c", "nvidia1/gi7")]
    node.api.pods = [api_pod(name) for name in "abc"]
    held = [run.held[0] for run in node.look(10)]
    assert [one.ref for one in held] == [
        DeviceRef(BY_MINOR, "0"),
        DeviceRef(BY_MINOR, "0"),
        DeviceRef(BY_MINOR, "1", "7"),
    ]
    assert [(one.share_num, one.share_den) for one in held] == [(1, 2), (1, 2), (None, None)]


def test_b08_a_mig_instance_is_held_by_its_own_uuid_and_says_what_was_asked_for(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("p", "MIG-de2d0000-1111-2222-3333-444455556666", resource="nvidia.com/mig-1g.5gb")]
    node.api.pods = [api_pod("p")]
    run = node.one(10)
    assert run.held[0].ref == DeviceRef(BY_MIG_UUID, "MIG-de2d0000-1111-2222-3333-444455556666")
    assert run.requested_profile == "1g.5gb"


def test_c06_a_finished_pod_that_the_kubelet_still_lists_ended_when_its_container_did(node: KubeNode) -> None:
    """Three GPUs listed on a node of two."""
    node.kubelet.pods = [gpu_pod("done", GPU_A), gpu_pod("busy", GPU_B), gpu_pod("next", GPU_A)]
    node.api.pods = [
        api_pod("done", statuses=[status("main", ran(2, 40))], phase="Succeeded"),
        api_pod("busy"),
        api_pod("next", created_s=100),
    ]
    runs = {run.job.split("/")[1]: run for run in node.look(110)}
    assert {name: times(run) for name, run in runs.items()} == {"done": (2, 40), "busy": (2, None), "next": (102, None)}
    assert (runs["done"].outcome, runs["done"].released_us) == ("COMPLETED", None)
    assert {run.job.split("/")[1] for run in node.look(120)} == {"busy", "next"}


def test_c06_devices_of_a_pod_that_lives_on_are_released_when_the_kubelet_lets_go(node: KubeNode) -> None:
    boxes = [spec("main"), spec("logs", gpus=0)]
    over = [status("main", ran(2, 40)), status("logs", ran(2))]
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    node.api.pods = [api_pod("p", containers=boxes, statuses=over)]
    first = node.one(50)
    assert (times(first), first.released_us) == ((2, 40), None)
    assert node.look(60) == []
    node.api.pods, node.kubelet.pods = [], []
    last = node.one(90)
    assert (times(last), seconds(last.released_us)) == ((2, 40), 90)
    assert node.look(100) == []


def test_c06_devices_given_to_another_pod_were_released_when_that_began(node: KubeNode) -> None:
    boxes = [spec("main"), spec("logs", gpus=0)]
    old = api_pod("old", containers=boxes, statuses=[status("main", ran(2, 40)), status("logs", ran(2))])
    node.kubelet.pods, node.api.pods = [gpu_pod("old", GPU_A)], [old]
    node.look(50)
    node.kubelet.pods, node.api.pods = (
        [gpu_pod("old", GPU_A), gpu_pod("new", GPU_A)],
        [old, api_pod("new", created_s=70)],
    )
    runs = {run.job.split("/")[1]: run for run in node.look(80)}
    assert (seconds(runs["old"].released_us), times(runs["new"])) == (72, (72, None))


def dra_pod(name: str, claim_name: str, device: str = "gpu-0", share_id: str = "") -> bytes:
    return pod("acme", name, container("main", claims=[claim("acme", claim_name, DRIVER, "n1", device, share_id)]))


def dra_slice(*named: tuple[str, str], **capacity: str) -> Item:
    offers = [{"name": name, "attributes": {"uuid": {"string": uuid}}, "capacity": capacity} for name, uuid in named]
    return {"spec": {"driver": DRIVER, "pool": {"name": "n1", "generation": 1}, "devices": offers}}


def dra_claim(device: str = "gpu-0", **more: object) -> Item:
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": device, **more}
    return {"metadata": {"uid": "u"}, "status": {"allocation": {"devices": {"results": [result]}}}}


def test_c07_a_forced_deletion_overlaps_its_successor_and_both_are_told_with_their_own_times(node: KubeNode) -> None:
    """The new claim is prepared at 0.42 s, the old one let go at 2.47 s."""
    node.api.slices = [dra_slice(("gpu-0", GPU_A))]
    node.api.claims = {"acme/old-claim": dra_claim(), "acme/new-claim": dra_claim()}
    node.kubelet.pods, node.api.pods = [dra_pod("old", "old-claim")], [api_pod("old", created_s=-500)]
    assert times(node.one(99)) == (-498, None)
    node.api.pods = [api_pod("new", created_s=100, statuses=[status("main", ran(100.42))])]
    node.kubelet.pods = [dra_pod("old", "old-claim"), dra_pod("new", "new-claim")]
    both = {run.job.split("/")[1]: run for run in node.look(101)}
    assert {name: times(run) for name, run in both.items()} == {"old": (-498, None), "new": (100.42, None)}
    assert both["old"].held[0].ref == both["new"].held[0].ref == DeviceRef(BY_UUID, GPU_A)
    assert seconds(both["old"].stop_requested_us) == 101
    node.kubelet.pods = [dra_pod("new", "new-claim")]
    after = {run.job.split("/")[1]: run for run in node.look(102.47)}
    assert {name: times(run) for name, run in after.items()} == {"old": (-498, 102.47), "new": (100.42, None)}
    assert set(shares(node)) == {Fraction(1)}  # an overlap is no sharing: the book decides


def test_c07_a_forced_successor_of_the_same_name_is_told_apart_while_both_are_listed(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("web-0", GPU_A)], [api_pod("web-0", uid="one")]
    node.look(10)
    node.kubelet.pods = [gpu_pod("web-0", GPU_A), gpu_pod("web-0", GPU_B)]
    node.api.pods = [api_pod("web-0", uid="two", created_s=100)]
    runs = {run.job: run for run in node.look(103)}
    assert {job: (run.held[0].ref.value, *times(run)) for job, run in runs.items()} == {
        "acme/web-0/one": (GPU_A, 2, None),
        "acme/web-0/two": (GPU_B, 102, None),
    }
    node.kubelet.pods = [gpu_pod("web-0", GPU_B)]
    assert {run.job: times(run) for run in node.look(105)} == {
        "acme/web-0/one": (2, 105),
        "acme/web-0/two": (102, None),
    }


def test_c07_a_device_that_the_kubelet_never_frees_is_not_billed_for_ever(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p")]
    node.look(10)
    node.api.pods = []
    assert times(node.one(100)) == (2, None)
    assert times(node.one(600)) == (2, None)
    assert times(node.one(701)) == (2, 100)
    assert node.reasons == ["device_kept_after_pod"]
    node.kubelet.pods = []
    assert seconds(node.one(5000).released_us) == 5000


def test_c08_a_native_sidecar_holds_for_its_pod(node: KubeNode) -> None:
    node.kubelet.pods = [pod("acme", "p", container("server", devices("nvidia.com/gpu", GPU_A)))]
    node.api.pods = [
        api_pod(
            "p",
            containers=[spec("main", gpus=0)],
            inits=[spec("server", policy="Always")],
            statuses=[status("main", ran(9))],
            init_statuses=[status("server", ran(4))],
        )
    ]
    assert times(node.one(20)) == (4, None)


def test_c10_a_pod_that_was_given_no_device_has_no_run_but_its_processes_have_an_owner(node: KubeNode) -> None:
    node.api.pods = [
        api_pod(
            "sneaky",
            uid="11-22",
            containers=[spec("main", gpus=0)],
            statuses=[status("main", ran(1), container_id="ab")],
        )
    ]
    assert node.look(200) == []
    assert {node.watcher.owner_of(key) for key in ("11-22", "11_22", "ab")} == {"acme/sneaky/11-22"}
    assert node.watcher.owner_of("other") == ""
    assert node.reasons == []


def test_c14_a_name_that_comes_again_is_another_run(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("web-0", GPU_A)], [api_pod("web-0", uid="one")]
    node.look(10)
    node.api.pods = [api_pod("web-0", uid="two", created_s=20)]  # within one look, on the same card
    runs = {run.job: times(run) for run in node.look(30)}
    assert runs == {"acme/web-0/one": (2, 20), "acme/web-0/two": (22, None)}


def test_c14_a_successor_that_has_not_started_leaves_the_hold_to_the_pod_before(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("web-0", GPU_A)], [api_pod("web-0", uid="one")]
    node.look(10)
    node.api.pods = [api_pod("web-0", uid="two", created_s=20, statuses=[], phase="Pending")]
    assert {run.job: times(run) for run in node.look(21)} == {"acme/web-0/one": (2, None)}


def test_c15_a_card_passed_to_a_virtual_machine_is_an_unknown_device_and_said(node: KubeNode) -> None:
    node.kubelet.pods = [gpu_pod("virt-launcher-vm", "42", resource="nvidia.com/GA102GL_A10")]
    node.api.pods = [api_pod("virt-launcher-vm", containers=[spec("main", resource="nvidia.com/GA102GL_A10")])]
    run = node.one(10)
    assert (run.held[0].ref, times(run)) == (DeviceRef(BY_UNKNOWN, "42"), (2, None))
    assert node.reasons == ["device_unknown"]


def test_d01_a_pod_that_has_a_limit_but_no_device_is_said_not_billed(node: KubeNode) -> None:
    node.api.pods = [api_pod("vm")]
    assert (node.look(30), node.reasons) == ([], [])
    assert (node.look(100), node.reasons) == ([], ["devices_unknown"])
    node.look(110)
    assert node.reasons == ["devices_unknown"]


def test_d04_looking_again_is_no_start(node: KubeNode) -> None:
    node.kubelet.pods, node.api.pods = [gpu_pod("p", GPU_A)], [api_pod("p")]
    assert node.look(10) == node.look(20) == node.look(86_400)


@pytest.mark.parametrize("users", [2, 3])
def test_pods_that_share_a_claim_share_the_card_while_they_are_several(node: KubeNode, users: int) -> None:
    node.api.slices, node.api.claims = [dra_slice(("gpu-0", GPU_A))], {"acme/c": dra_claim()}
    node.kubelet.pods = [dra_pod(f"p{i}", "c") for i in range(users)]
    node.api.pods = [api_pod(f"p{i}") for i in range(users)]
    node.look(10)
    assert shares(node) == [Fraction(1, users)] * users
    node.api.pods[0] = api_pod("p0", statuses=[status("main", ran(2, 15))], phase="Succeeded")
    ended, *going = sorted(node.look(20), key=lambda run: run.ended_us is None)
    assert [(one.share_num, one.share_den) for one in ended.held] == [(1, users)]
    assert {Fraction(h.share_num or 1, h.share_den or 1) for run in going for h in run.held} == {Fraction(1, users - 1)}


def test_a_pod_that_shared_a_claim_is_not_released_by_those_it_shared_with(node: KubeNode) -> None:
    node.api.slices, node.api.claims = [dra_slice(("gpu-0", GPU_A))], {"acme/c": dra_claim()}
    node.kubelet.pods = [dra_pod("p0", "c"), dra_pod("p1", "c")]
    boxes = [spec("main", gpus=0), spec("logs", gpus=0)]
    over = [status("main", ran(2, 40)), status("logs", ran(2))]
    node.api.pods = [api_pod("p0", containers=boxes, statuses=over), api_pod("p1")]
    node.look(50)
    node.kubelet.pods, node.api.pods = [dra_pod("p1", "c")], [api_pod("p1")]
    released = {run.job.split("/")[1]: seconds(run.released_us) for run in node.look(60)}
    assert released == {"p0": 60, "p1": None}


def test_admin_access_to_every_card_is_no_run(node: KubeNode) -> None:
    node.api.slices = [dra_slice(("gpu-0", GPU_A))]
    node.api.claims = {"acme/watch": dra_claim(adminAccess=True), "acme/c": dra_claim()}
    node.kubelet.pods = [dra_pod("exporter", "watch"), dra_pod("train", "c")]
    node.api.pods = [api_pod("exporter"), api_pod("train")]
    assert [run.job.split("/")[1] for run in node.look(10)] == ["train"]
    assert node.reasons == []


def test_claims_are_read_once_and_slices_when_a_device_is_new(node: KubeNode) -> None:
    node.api.slices = [dra_slice(("gpu-0", GPU_A), memory="80Gi")]
    node.api.claims = {"acme/c": dra_claim(shareID="s", consumedCapacity={"memory": "20Gi"})}
    node.kubelet.pods, node.api.pods = [dra_pod("p", "c", share_id="s")], [api_pod("p")]
    for at_s in (10, 20, 30, 500):
        assert [(h.share_num, h.share_den) for h in node.one(at_s).held] == [(1, 4)]
    asked = [path.rsplit("/", 1)[-1] for path, _ in node.api.requests]
    assert (asked.count("c"), asked.count("resourceslices")) == (1, 1)


def test_claims_that_may_not_be_read_are_said_and_billed_to_nobody(node: KubeNode) -> None:
    node.api.denies = {"c": 403}
    node.kubelet.pods, node.api.pods = [dra_pod("p", "c")], [api_pod("p")]
    run = node.one(10)
    assert run.held[0].ref == DeviceRef(BY_UNKNOWN, f"{DRIVER}/n1/gpu-0")
    assert set(node.reasons) == {"api_forbidden", "claim_unread"}
    assert us(10) == run.started_us + 8_000_000

"""Known mistakes about pods, virtual machines and their GPUs (cases C1 to C18, D1 to D4), as a running agent meets
them: a kubelet's socket, an API server and an exporter's page, to who holds what and whose the energy is."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.probes.reading import ProcessReading, Reading
from wattledger_agent.probes.scrape import ScrapeProbe
from wattledger_agent.process_owner import ProcessOwners
from wattledger_agent.run_conflict import Use
from wattledger_agent.watchers.process_table import ProcessTable

from tests.fake_nvml import FakeNvml
from tests.fake_nvml_card import FakeGpu
from tests.fake_scrape import T0_US, URL, Pages, page, sample
from tests.kube_api_server import S, T, api_pod, ran, spec, status
from tests.kube_pod_resources_server import claim, container, devices, gpu_pod, pod
from tests.kube_world import GPU_A, GPU_B, KubeNode, kube_node
from tests.live_path import Hold, LivePath, cards
from tests.measurement_path import J, MeasuredNode
from tests.proc_tree import HZ, ProcTree

DRIVER, WHOLE = "gpu.nvidia.com", Fraction(1)
MIG = "MIG-de2d0000-1111-2222-3333-444455556666"
POWER, UTIL = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[KubeNode]:
    with kube_node(tmp_path, reads_claims=True) as made:
        yield made


def live(node: KubeNode, folder: Path, inventory: Inventory | None = None) -> LivePath:
    return LivePath(folder / "log", inventory or cards(GPU_A, GPU_B), node.watcher, base_us=T * S)


def named(path: LivePath) -> dict[str, tuple[str, float, float | None, Fraction]]:
    """Holds by the pod's name."""
    return {one.job.split("/")[1]: (one.device, one.start_s, one.end_s, one.share) for one in path.holds()}


def test_c1_c2_three_pods_on_a_time_sliced_card_have_a_third_of_one_cards_energy(
    node: KubeNode, tmp_path: Path
) -> None:
    """dcgm-exporter 587, 582, 201: the card's value for each of them made 2.14 of 0.714; `::n` matched no UUID. 3,000 J
    in ten seconds."""
    machine = FakeNvml([FakeGpu(GPU_A, 0, codes={"nvmlDeviceGetComputeRunningProcesses_v3": 3})])
    machine.clock.now_us = (T + 100) * S
    measured = MeasuredNode(tmp_path, machine.clock, machine.probe()).run(machine.advance, 10)
    ids = [f"{GPU_A}::{i}" for i in range(3)]
    node.kubelet.allocatable = [devices("nvidia.com/gpu", *ids)]
    node.kubelet.pods = [gpu_pod(name, one, namespace=name) for name, one in zip("abc", ids, strict=True)]
    node.api.pods = [api_pod(name, namespace=name) for name in "abc"]
    path = live(node, tmp_path).look(10)
    assert [one.share for one in path.holds()] == [Fraction(1, 3)] * 3
    assert measured.energy_uj(*path.job_events()) == {"a": 1000 * J, "b": 1000 * J, "c": 1000 * J}


def test_c2_gkes_names_are_minor_numbers_and_replicas(node: KubeNode, tmp_path: Path) -> None:
    """dcgm-exporter 307: `nvidia1/vgpu0`; the order of a map decided who won."""
    node.kubelet.allocatable = [devices("nvidia.com/gpu", "nvidia1/vgpu0", "nvidia1/vgpu1")]
    node.kubelet.pods = [gpu_pod("a", "nvidia1/vgpu0"), gpu_pod("b", "nvidia1/vgpu1")]
    node.api.pods = [api_pod("a"), api_pod("b")]
    path = live(node, tmp_path).look(10)
    assert named(path) == {name: (GPU_B, 2, None, Fraction(1, 2)) for name in "ab"}


@pytest.mark.parametrize(
    ("resource", "value"),
    [("nvidia.com/mig-3g.20gb", MIG), ("nvidia.com/gpu", f"MIG-{GPU_A}/7/0"), ("nvidia.com/gpu", "nvidia0/gi7")],
    ids=["B8-by-uuid", "B8-by-the-form-of-r450", "B8-by-gkes-name"],
)
def test_a_pod_on_a_mig_instance_holds_that_instance(node: KubeNode, tmp_path: Path, resource: str, value: str) -> None:
    """dcgm-exporter 272, 577, 92."""
    instance = MigInstance("7", MIG, "3g.20gb", 3)
    card = Device(GPU_A, "nvidia", "A100", "550", 0, 0, sharing="mig", is_mig=True, instances=(instance,))
    node.kubelet.pods, node.api.pods = [gpu_pod("p", value, resource=resource)], [api_pod("p")]
    path = live(node, tmp_path, Inventory((card,))).look(10)
    (hold,) = path.holds()
    assert (hold.device, hold.gpu_instance, hold.share) == (GPU_A, "7", Fraction(3, 7))


def scraped(folder: Path, *pages: str | None) -> MeasuredNode:
    clock = ManualClock(T0_US)
    measured = MeasuredNode(folder, clock, ScrapeProbe(URL, Pages(pages[0], *pages), boot="b", clock=clock))
    return measured.run(lambda: clock.sleep(1), len(pages) - 1)


BOTH = page(sample(POWER, "300.0", GPU_A), sample(POWER, "60.0", GPU_B, gpu="1", pci_bus_id="00000000:84:00.0"))
ABSENT: list[tuple[str, str | None]] = [
    # dcgm-exporter 569: with sharing on, and with an empty file of a job, idle cards have no series
    ("C3-a-card-without-a-series", page(sample(POWER, "300.0", GPU_A))),
    ("C4-a-page-without-any-series", page("# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).")),
    # 730: a job id twice in a file makes the whole page an error
    ("C4-a-page-that-is-an-error", None),
]


@pytest.mark.parametrize("gone", [case[1] for case in ABSENT], ids=[case[0] for case in ABSENT])
def test_a_card_without_a_series_draws_an_unknown_power_and_not_0(tmp_path: Path, gone: str | None) -> None:
    """Two seconds known, four unknown (the probe waits a second after an error), then known again."""
    node = scraped(tmp_path, BOTH, BOTH, BOTH, gone, gone, gone, BOTH, BOTH)
    cells = node.column("power_mw", GPU_B)
    assert cells[:3] == [60_000] * 3
    assert cells[3:6] == [None] * 3
    assert 0 not in cells
    assert {one["device"] for one in node.wire()} == {GPU_A, GPU_B}


def test_c12_a_label_that_comes_and_goes_makes_no_second_card(tmp_path: Path) -> None:
    """dcgm-exporter 237, 342, 340: series with and without exported_pod, and both at once."""
    plain, labelled = sample(POWER, "300.0"), sample(POWER, "300.0", exported_pod="train-0", pod="dcgm-exporter-x")
    node = scraped(tmp_path, *(page(*lines) for lines in 3 * [(plain,), (labelled,), (plain, labelled)]))
    assert {one["device"] for one in node.wire()} == {node.wire()[0]["device"]}
    assert (set(node.column("power_mw")), node.total_uj()) == ({300_000}, 8 * 300 * J)


def test_c6_a_finished_pod_that_the_kubelet_still_lists_ended_when_its_container_did(
    node: KubeNode, tmp_path: Path
) -> None:
    """k8s-device-plugin 290: three GPUs seen on a node of two; dcgm-exporter 140: shown for half an hour more."""
    node.kubelet.pods = [gpu_pod("done", GPU_A), gpu_pod("busy", GPU_B)]
    node.api.pods = [api_pod("done"), api_pod("busy")]
    path = live(node, tmp_path).look(10)
    node.api.pods = [
        api_pod("done", statuses=[status("main", ran(2, 40))], phase="Succeeded"), api_pod("busy"),
        api_pod("next", created_s=100),
    ]  # fmt: skip
    node.kubelet.pods.append(gpu_pod("next", GPU_A))
    path.look(110, 1800)
    assert named(path) == {
        "done": (GPU_A, 2, 40, WHOLE), "busy": (GPU_B, 2, None, WHOLE), "next": (GPU_A, 102, None, WHOLE),
    }  # fmt: skip
    assert path.reasons() == []


def dra_pod(name: str, claim_name: str) -> bytes:
    return pod("acme", name, container("main", claims=[claim("acme", claim_name, DRIVER, "n1", "gpu-0")]))


def with_claims(node: KubeNode, *names: str, **more: Any) -> None:
    result = {"request": "r", "driver": DRIVER, "pool": "n1", "device": "gpu-0", **more}
    node.api.claims = {
        f"acme/{name}": {"metadata": {"uid": name}, "status": {"allocation": {"devices": {"results": [result]}}}}
        for name in names
    }
    attributes = {"uuid": {"string": GPU_A}}
    offers = [{"name": "gpu-0", "attributes": attributes, "capacity": {}}]
    pool = {"name": "n1", "generation": 1}
    node.api.slices = [{"spec": {"driver": DRIVER, "pool": pool, "devices": offers}}]


def test_c7_a_forced_deletion_overlaps_for_two_seconds_and_the_energy_is_the_cards(
    node: KubeNode, tmp_path: Path
) -> None:
    """kubernetes 141471: prepared at T+0.42 s, released at T+2.47 s. 300 W from 90 s on: old has them till 100.42 s
    alone, both have half till 102.47 s, then new alone till 110 s: 3,126 + 307.5 and 307.5 + 2,259 J."""
    with_claims(node, "old-claim", "new-claim")
    machine = FakeNvml([FakeGpu(GPU_A, 0)])
    machine.clock.now_us = (T + 90) * S
    measured = MeasuredNode(tmp_path, machine.clock, machine.probe()).run(machine.advance, 20)
    path = live(node, tmp_path)
    node.kubelet.pods, node.api.pods = [dra_pod("old", "old-claim")], [api_pod("old", created_s=-500)]
    path.look(99)
    node.api.pods = [api_pod("new", created_s=100, statuses=[status("main", ran(100.42))])]
    node.kubelet.pods = [dra_pod("old", "old-claim"), dra_pod("new", "new-claim")]
    path.look(101)
    node.kubelet.pods = [dra_pod("new", "new-claim")]
    path.look(102.47)
    assert named(path) == {"old": (GPU_A, -498, 102.47, WHOLE), "new": (GPU_A, 100.42, None, WHOLE)}
    assert path.reasons() == ["watchers_disagree"]
    found = measured.energy_uj(*path.job_events())
    assert sum(found.values()) == 6000 * J
    by_pod = energy_by_job(measured, path)
    # from 101 s on, when it was seen to be stopped, old holds for the provider
    assert by_pod["new"] == 307_500_000 + 2_259_000_000
    assert by_pod["old"] == 3_126_000_000 + 307_500_000


def energy_by_job(measured: MeasuredNode, path: LivePath) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in measured.lines(*path.job_events()):
        name = line.job.split("/")[1] if line.job else ""
        found[name] = found.get(name, 0) + (line.energy_uj or 0)
    return found


def test_c8_a_native_sidecar_holds_for_its_pod(node: KubeNode, tmp_path: Path) -> None:
    """dcgm-exporter 497, 498; volcano 5829."""
    node.kubelet.pods = [pod("acme", "p", container("server", devices("nvidia.com/gpu", GPU_A, GPU_B)))]
    node.api.pods = [
        api_pod(
            "p", containers=[spec("main", gpus=0)], statuses=[status("main", ran(9))],
            inits=[spec("server", gpus=2, policy="Always")], init_statuses=[status("server", ran(4))],
        )
    ]  # fmt: skip
    path = live(node, tmp_path).look(20)
    assert path.holds() == [
        Hold(path.holds()[0].job, GPU_A, 4, None), Hold(path.holds()[0].job, GPU_B, 4, None)
    ]  # fmt: skip
    assert {event["tenant"] for event in path.events()} == {"acme"}


def test_c10_a_pod_without_a_request_that_uses_all_gpus_raises_an_alarm(node: KubeNode, tmp_path: Path) -> None:
    """k8s-device-plugin 61, 87, 195, 1605: an image that says NVIDIA_VISIBLE_DEVICES=all."""
    node.api.pods = [api_pod("sneaky", containers=[spec("main", gpus=0)])]
    path = live(node, tmp_path).look(10)
    use = Use(GPU_A, "", None, "a process of Kubernetes pod sneaky")
    for at_s in (10, 39, 41):
        path.clock.now_us = (T + at_s) * S
        with path.shared.lock:
            observed = path.book.observe_use([use], path.clock.wall_us())
            path.shared.put(observed.events, observed.findings, path.clock.wall_us())
    assert (path.holds(), path.reasons()) == ([], ["use_without_allocation"])


def test_c14_a_name_that_comes_again_is_another_run(node: KubeNode, tmp_path: Path) -> None:
    """dcgm-exporter 718: the same name, one card, made anew within one look."""
    node.kubelet.pods, node.api.pods = [gpu_pod("web-0", GPU_A)], [api_pod("web-0", uid="one")]
    path = live(node, tmp_path).look(10)
    node.api.pods = [api_pod("web-0", uid="two", created_s=20)]
    path.look(30)
    assert path.holds() == [
        Hold("acme/web-0/one", GPU_A, 2, 20), Hold("acme/web-0/two", GPU_A, 22, None)
    ]  # fmt: skip


def test_c15_a_card_passed_to_a_virtual_machine_is_an_unknown_device_and_said(node: KubeNode, tmp_path: Path) -> None:
    """kubevirt 11660: the resource is named after the card, and the id is an IOMMU group, not an index."""
    node.kubelet.pods = [gpu_pod("virt-launcher-vm", "1", resource="nvidia.com/GA102GL_A10")]
    node.api.pods = [api_pod("virt-launcher-vm", containers=[spec("main", resource="nvidia.com/GA102GL_A10")])]
    path = live(node, tmp_path).look(10)
    (started,) = path.events()
    assert (started["claims"], started["tenant"]) == ([], "acme")
    assert set(path.reasons()) == {"device_unknown", "device_unknown_space"}


def test_c18_a_containers_process_is_its_pods_by_the_last_part_of_its_cgroup(node: KubeNode, tmp_path: Path) -> None:
    """nvidia-docker 1483, kepler 923: pids are the host's."""
    uid, box = "1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c", "4f" * 32
    node.kubelet.pods = [gpu_pod("p", GPU_A)]
    node.api.pods = [api_pod("p", uid=uid, statuses=[status("main", ran(2), container_id=box)])]
    path = live(node, tmp_path).look(10)
    owners = path.book.owners(path.clock.wall_us())
    proc = ProcTree(tmp_path / "proc")
    slice_name = f"kubepods-burstable-pod{uid.replace('-', '_')}.slice"
    proc.add(100, cgroup=f"0::/kubepods.slice/kubepods-burstable.slice/{slice_name}/cri-containerd-{box}.scope\n")
    proc.add(101, cgroup=f"0::/kubepods/burstable/pod{uid}/{'5e' * 32}\n")
    proc.add(102, cgroup="0::/system.slice/kubelet.service\n")
    found = ProcessOwners(ProcessTable(proc.root, ticks_per_s=HZ))
    found.follow(owners)
    shares = found.of_device([ProcessReading(pid, Reading(1000 * pid)) for pid in (100, 101, 102)], 0)
    assert shares == {("c1", f"acme/p/{uid}"): Reading(201_000), None: Reading(102_000)}


def test_d1_what_may_have_a_device_and_has_none_is_said_and_not_billed(node: KubeNode, tmp_path: Path) -> None:
    """cubecos 1528, 1530: after a reboot the machine was active and had no device."""
    node.api.pods = [api_pod("vm")]
    path = live(node, tmp_path).look(30, 100, 110)
    assert (path.holds(), path.reasons()) == ([], ["devices_unknown"])


def test_d2_what_was_open_before_a_reboot_ended_with_it(node: KubeNode, tmp_path: Path) -> None:
    """cozystack 70, gpu-passthrough 7: instances and mdevs are gone; the same MIG UUID may come again."""
    before = MigInstance("7", MIG, "3g.20gb", 3)
    card = Device(GPU_A, "nvidia", "A100", "550", 0, 0, sharing="mig", is_mig=True, instances=(before,))
    node.kubelet.pods = [gpu_pod("p", MIG, resource="nvidia.com/mig-3g.20gb")]
    node.api.pods = [api_pod("p", uid="one")]
    path = live(node, tmp_path, Inventory((card,))).look(10)
    observed = path.book.booted("boot-2", (T + 60) * S)
    path.shared.put(observed.events, observed.findings, (T + 90) * S)
    path.inventory = Inventory((Device(GPU_A, "nvidia", "A100", "550", 0, 0),))
    node.kubelet.pods, node.api.pods = [], []
    path.look(100)
    assert path.holds() == [Hold("acme/p/one", GPU_A, 2, 60, Fraction(3, 7), "7")]


def test_d4_looking_again_is_no_start(node: KubeNode, tmp_path: Path) -> None:
    """1,280 of 1,654 events of a machine only said that it exists; and a machine of the same name has the same UUID."""
    node.kubelet.pods, node.api.pods = [gpu_pod("vm", GPU_A)], [api_pod("vm", uid="one")]
    path = live(node, tmp_path).look(*range(10, 600, 10))
    assert [event["kind"] for event in path.events()] == ["start"]
    node.kubelet.pods, node.api.pods = [], []
    path.look(600)
    node.kubelet.pods, node.api.pods = [gpu_pod("vm", GPU_A)], [api_pod("vm", uid="one", created_s=700)]
    path.look(710)
    assert [(one.start_s, one.end_s) for one in path.holds()] == [(2, 600), (702, None)]

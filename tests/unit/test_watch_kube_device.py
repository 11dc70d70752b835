"""Names of devices and resources in Kubernetes: what each is, and what it is not."""

import pytest
from wattledger_agent.watchers.kube_device import is_gpu, is_gpu_resource, parse_device_id, profile_of
from wattledger_agent.watchers.kube_hold import DeviceHold
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_MINOR, BY_PCI, BY_UNKNOWN, BY_UUID, DeviceRef

UUID = "fef8089b-4820-abfc-e83e-94318197576e"


@pytest.mark.parametrize(
    ("text", "ref", "replica"),
    [
        (f"GPU-{UUID}", DeviceRef(BY_UUID, f"GPU-{UUID}"), None),
        (f"GPU-{UUID}::0", DeviceRef(BY_UUID, f"GPU-{UUID}"), 0),
        ("GPU-ABCD::1", DeviceRef(BY_UUID, "GPU-ABCD"), 1),  # C2
        (f"MIG-{UUID}", DeviceRef(BY_MIG_UUID, f"MIG-{UUID}"), None),  # B8
        (f"MIG-{UUID}::12", DeviceRef(BY_MIG_UUID, f"MIG-{UUID}"), 12),
        (f"MIG-GPU-{UUID}/7/0", DeviceRef(BY_MIG_UUID, f"MIG-GPU-{UUID}/7/0", "7"), None),
        (f"GPU-{UUID}/13/0", DeviceRef(BY_MIG_UUID, f"GPU-{UUID}/13/0", "13"), None),
        ("nvidia0", DeviceRef(BY_MINOR, "0"), None),
        ("nvidia10/gi7", DeviceRef(BY_MINOR, "10", "7"), None),  # B8, GKE
        ("nvidia0/vgpu3", DeviceRef(BY_MINOR, "0"), 3),
        ("nvidia0/gi7/vgpu0", DeviceRef(BY_MINOR, "0", "7"), 0),  # C2, GKE
        ("0000:C5:00.0", DeviceRef(BY_PCI, "0000:c5:00.0"), None),
        ("0000:c5:00.0::1", DeviceRef(BY_PCI, "0000:c5:00.0"), 1),
        ("amdgpu_xcp.7", DeviceRef(BY_UNKNOWN, "amdgpu_xcp.7"), None),
        ("42", DeviceRef(BY_UNKNOWN, "42"), None),  # KubeVirt: an IOMMU group, not an index
        (UUID, DeviceRef(BY_UNKNOWN, UUID), None),  # an mdev
        (f"GPU-{UUID}-3", DeviceRef(BY_UNKNOWN, f"GPU-{UUID}-3"), None),  # a plugin that counts in its own way
        ("nvidia", DeviceRef(BY_UNKNOWN, "nvidia"), None),
        ("", DeviceRef(BY_UNKNOWN, ""), None),
    ],
)
def test_a_device_id_names_a_device_and_perhaps_a_replica(text: str, ref: DeviceRef, replica: int | None) -> None:
    name = parse_device_id(text)
    assert (name.ref, name.replica) == (ref, replica)


@pytest.mark.parametrize(
    ("resource", "is_one"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("nvidia.com/mig-3g.20gb.shared", True),
        ("nvidia.com/mig-1g.10gb.me", True),
        ("nvidia.com/GA102GL_A10", True),  # C15: KubeVirt names the card
        ("nvidia.com/GRID_T4-1Q", True),
        ("amd.com/gpu", True),
        ("amd.com/cpx_nps4", True),
        ("nvidia.com/gpumem", False),
        ("nvidia.com/hostdev", False),
        ("rdma/hca_shared", False),
        ("cpu", False),
        ("xnvidia.com/gpu", False),
    ],
)
def test_a_resource_is_gpus_by_its_name(resource: str, is_one: bool) -> None:
    assert is_gpu_resource(resource) is is_one


@pytest.mark.parametrize(
    ("hold", "is_one"),
    [
        (DeviceHold("example.com/a100", (f"GPU-{UUID}",)), True),
        (DeviceHold("example.com/a100", (f"MIG-{UUID}::0", f"MIG-{UUID}::1")), True),
        (DeviceHold("intel.com/sriov", ("0000:3b:02.1",)), False),  # a network card's address
        (DeviceHold("amd.com/gpu", ("0000:3b:00.0",)), True),
        (DeviceHold("smarter-devices/fuse", ("1",)), False),
        (DeviceHold("example.com/none", ()), False),
    ],
)
def test_a_renamed_resource_is_gpus_by_its_ids(hold: DeviceHold, is_one: bool) -> None:
    assert is_gpu(hold) is is_one


def test_a_configured_resource_is_gpus() -> None:
    assert is_gpu(DeviceHold("example.com/card", ("7",)), {"example.com/card"})


@pytest.mark.parametrize(
    ("resource", "profile"),
    [
        ("nvidia.com/mig-1g.5gb", "1g.5gb"),
        ("nvidia.com/mig-3g.20gb.shared", "3g.20gb"),
        ("nvidia.com/mig-1g.10gb.me", "1g.10gb.me"),
        ("nvidia.com/gpu", ""),
        ("nvidia.com/gpu.shared", ""),
    ],
)
def test_a_mig_resource_names_the_profile_asked_for(resource: str, profile: str) -> None:
    assert profile_of(resource) == profile

"""How much of which device a pod holds: replicas, claims, several containers, several pods."""

from fractions import Fraction
from typing import Any

import pytest
from wattledger_agent.watchers.kube_claim import GPU_DRIVERS, parse_claim, parse_slices
from wattledger_agent.watchers.kube_hold import ClaimHold, ContainerHold, DeviceHold, PodHold
from wattledger_agent.watchers.kube_share import (
    NodeShares,
    PodShares,
    count_replicas,
    count_users,
    gpu_hold,
    pod_shares,
)
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_MINOR, BY_PCI, BY_UNKNOWN, BY_UUID, DeviceRef

A, B = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002"
MIG = "MIG-cccccccc-0000-0000-0000-000000000003"
DRIVER = "gpu.nvidia.com"
Item = dict[str, Any]


def pod(*containers: ContainerHold, name: str = "p") -> PodHold:
    return PodHold("acme", name, containers)


def box(resource: str, *ids: str, name: str = "main") -> ContainerHold:
    return ContainerHold(name, (DeviceHold(resource, ids),))


def replicas(device: str, count: int) -> tuple[str, ...]:
    return tuple(f"{device}::{i}" for i in range(count))


def plain(shares: PodShares) -> list[tuple[str, str, int | None, int | None, str]]:
    return [(one.ref.by, one.ref.value, one.share_num, one.share_den, one.sharing) for one in shares.held]


NODE = NodeShares(
    replicas=count_replicas(
        [
            DeviceHold("nvidia.com/gpu.shared", (*replicas(A, 4), *replicas(B, 1))),
            DeviceHold("nvidia.com/mig-1g.5gb.shared", replicas(MIG, 3)),
            DeviceHold("nvidia.com/gpu", ("nvidia0/vgpu0", "nvidia0/vgpu1", "nvidia0/gi7/vgpu0", "nvidia0/gi7/vgpu1")),
        ]
    )
)


@pytest.mark.parametrize(
    ("hold", "expected"),
    [
        (
            pod(box("nvidia.com/gpu", A, B)),
            [(BY_UUID, A, None, None, "exclusive"), (BY_UUID, B, None, None, "exclusive")],
        ),
        (pod(box("nvidia.com/gpu.shared", f"{A}::2")), [(BY_UUID, A, 1, 4, "time_sliced")]),
        # Two replicas of one card are two parts of it, not a second card.
        (pod(box("nvidia.com/gpu.shared", f"{A}::0", f"{A}::3")), [(BY_UUID, A, 1, 2, "time_sliced")]),
        (pod(box("nvidia.com/gpu.shared", *replicas(A, 4))), [(BY_UUID, A, 1, 1, "time_sliced")]),
        (pod(box("nvidia.com/gpu.shared", f"{B}::0")), [(BY_UUID, B, 1, 1, "exclusive")]),
        (pod(box("nvidia.com/mig-1g.5gb", MIG)), [(BY_MIG_UUID, MIG, None, None, "mig")]),
        (pod(box("nvidia.com/mig-1g.5gb.shared", f"{MIG}::1")), [(BY_MIG_UUID, MIG, 1, 3, "time_sliced")]),
        (pod(box("nvidia.com/gpu", "nvidia0/vgpu1")), [(BY_MINOR, "0", 1, 2, "time_sliced")]),
        (pod(box("nvidia.com/gpu", "nvidia0/gi7")), [(BY_MINOR, "0", None, None, "mig")]),
        (pod(box("amd.com/gpu", "0000:c5:00.0")), [(BY_PCI, "0000:c5:00.0", None, None, "exclusive")]),
        # One device in two containers of a pod is one device.
        (pod(box("nvidia.com/gpu", A), box("nvidia.com/gpu", A, name="side")), [(BY_UUID, A, None, None, "exclusive")]),
    ],
)
def test_a_pod_holds_each_device_once_and_a_share_where_it_is_a_replica(hold: PodHold, expected: object) -> None:
    shares = pod_shares(hold, NODE, None, None)
    assert (plain(shares), shares.troubles) == (expected, [])


def test_c01_the_replicas_of_a_card_sum_to_the_card() -> None:
    holds = [pod(box("nvidia.com/gpu.shared", one), name=f"p{i}") for i, one in enumerate(replicas(A, 4))]
    held = [pod_shares(hold, NODE, None, None).held[0] for hold in holds]
    assert sum(Fraction(one.share_num or 0, one.share_den or 1) for one in held) == 1


def test_a_sick_replica_that_is_not_offered_still_counts() -> None:
    offered = [DeviceHold("nvidia.com/gpu", (f"{A}::0", f"{A}::3"))]
    assert count_replicas(offered) == {DeviceRef(BY_UUID, A): 4}


def test_mps_is_said_where_it_is_configured() -> None:
    node = NodeShares(replicas=NODE.replicas, shared_by="mps")
    assert plain(pod_shares(pod(box("nvidia.com/gpu.shared", f"{A}::0")), node, None, None)) == [
        (BY_UUID, A, 1, 4, "mps")
    ]


def test_a_share_that_nobody_tells_is_no_share_and_is_said() -> None:
    hold = pod(box("nvidia.com/gpu.shared", f"{A}::0"))
    shares = pod_shares(hold, NodeShares(), None, None)
    assert plain(shares) == [(BY_UUID, A, None, None, "time_sliced")]
    assert [reason for reason, _, _ in shares.troubles] == ["share_unknown"]
    told = pod_shares(hold, NodeShares(fallback={"nvidia.com/gpu.shared": 8}), None, None)
    assert (plain(told), told.troubles) == ([(BY_UUID, A, 1, 8, "time_sliced")], [])


@pytest.mark.parametrize("text", ["42", "amdgpu_xcp.7", f"{A}-3"])
def test_c15_an_id_that_names_no_gpu_is_held_as_unknown_and_said(text: str) -> None:
    shares = pod_shares(pod(box("nvidia.com/GA102GL_A10", text)), NODE, None, None)
    assert plain(shares) == [(BY_UNKNOWN, text, None, None, "exclusive")]
    assert [reason for reason, _, _ in shares.troubles] == ["device_unknown"]


def test_cpus_and_memory_are_split_over_the_devices_and_sum_to_the_pods() -> None:
    hold = pod(box("nvidia.com/gpu", A, B), box("nvidia.com/mig-1g.5gb", MIG, name="side"))
    held = pod_shares(hold, NODE, 7, 2**33 + 1).held
    assert sorted(one.cpus or 0 for one in held) == [2, 2, 3]
    assert sum(one.memory_bytes or 0 for one in held) == 2**33 + 1
    assert [one.cpus for one in pod_shares(hold, NODE, None, None).held] == [None] * 3


def test_a_profile_is_said_only_where_there_is_one() -> None:
    one = pod(box("nvidia.com/mig-1g.5gb", MIG))
    both = pod(box("nvidia.com/mig-1g.5gb", MIG), box("nvidia.com/gpu", A, name="side"))
    assert [pod_shares(hold, NODE, None, None).requested_profile for hold in (one, both)] == ["1g.5gb", ""]


def test_what_is_no_gpu_is_left_out_of_a_hold() -> None:
    hold = pod(
        ContainerHold("main", (DeviceHold("nvidia.com/gpu", (A,)), DeviceHold("rdma/hca", ("0000:3b:00.1",)))),
        box("smarter-devices/fuse", "1", name="side"),
        ContainerHold("imex", (), (ClaimHold("acme", "c", "compute-domain.nvidia.com", "n1", "channel-0"),)),
    )
    found = gpu_hold(hold, GPU_DRIVERS, ())
    assert found is not None and found.holders == ("main",)
    assert found.containers[0].devices == (DeviceHold("nvidia.com/gpu", (A,)),)
    assert gpu_hold(pod(box("rdma/hca", "0000:3b:00.1")), GPU_DRIVERS, ()) is None


# --- dynamic resource allocation ---


def words(**values: str) -> Item:
    return {key.replace("__", "/"): {"string": value} for key, value in values.items()}


def offer(name: str, attributes: Item, **more: Any) -> Item:
    return {"name": name, "attributes": attributes, **more}


def slice_of(*devices: Item, driver: str = DRIVER, generation: int = 1, pool: str = "n1") -> Item:
    return {"spec": {"driver": driver, "pool": {"name": pool, "generation": generation}, "devices": list(devices)}}


def given(device: str, **more: Any) -> Item:
    return {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device, **more}


def claim_of(*results: Item, uid: str = "claim-uid") -> Item:
    return {"metadata": {"uid": uid}, "status": {"allocation": {"devices": {"results": list(results)}}}}


def held_claim(device: str, name: str = "c", share_id: str = "", pod_name: str = "p") -> PodHold:
    return pod(ContainerHold("main", (), (ClaimHold("acme", name, DRIVER, "n1", device, share_id),)), name=pod_name)


@pytest.mark.parametrize(
    ("driver", "device", "ref"),
    [
        (DRIVER, offer("gpu-0", words(uuid=A, type="gpu")), DeviceRef(BY_UUID, A)),
        (
            DRIVER,
            offer("gpu-0", words(gpu_nvidia_com="x") | {"gpu.nvidia.com/uuid": {"string": A}}),
            DeviceRef(BY_UUID, A),
        ),
        (DRIVER, offer("gpu-0-mig-19-0", words(uuid=MIG, parentUUID=A, type="mig")), DeviceRef(BY_MIG_UUID, MIG)),
        (DRIVER, {"name": "gpu-0", "basic": {"attributes": words(uuid=A)}}, DeviceRef(BY_UUID, A)),  # v1beta1
        (
            "gpu.amd.com",
            offer("gpu-0-128", words(pciAddr="0000:C5:00.0", type="amdgpu")),
            DeviceRef(BY_PCI, "0000:c5:00.0"),
        ),
        (
            "gpu.amd.com",
            offer(
                "gpu-1-129", words(resource__x="y") | {"resource.kubernetes.io/pciBusID": {"string": "0000:05:00.0"}}
            ),
            DeviceRef(BY_PCI, "0000:05:00.0"),
        ),
        # A partition has its card's address, which would name all of them.
        (
            "gpu.amd.com",
            offer("gpu-1-130", words(pciAddr="0000:05:00.0", type="amdgpu-partition")),
            DeviceRef(BY_UNKNOWN, "gpu.amd.com/gpu-1-130"),
        ),
        (DRIVER, offer("gpu-7", {"index": {"int": 7}}), DeviceRef(BY_UNKNOWN, f"{DRIVER}/gpu-7")),
    ],
)
def test_a_slices_device_is_known_by_uuid_or_address_never_by_its_number(
    driver: str, device: Item, ref: DeviceRef
) -> None:
    (found,) = parse_slices([slice_of(device, driver=driver)], GPU_DRIVERS).values()
    assert found.ref == ref


def test_only_the_newest_generation_of_a_pool_and_gpu_drivers_count() -> None:
    found = parse_slices(
        [
            slice_of(offer("gpu-0", words(uuid=A)), generation=1),
            slice_of(offer("gpu-0", words(uuid=B)), generation=2),
            slice_of(offer("gpu-0", words(uuid=A)), offer("gpu-1", words(uuid=A)), generation=1),
            slice_of(offer("nic-0", {}), driver="dra.net"),
        ],
        GPU_DRIVERS,
    )
    assert {key: one.ref.value for key, one in found.items()} == {(DRIVER, "n1", "gpu-0"): B}


SLICES = parse_slices(
    [
        slice_of(
            offer("gpu-0", words(uuid=A), capacity={"memory": {"value": "80Gi"}, "cores": {"value": "100"}}),
            offer("gpu-0-mig", words(uuid=MIG, profile="1g.10gb", type="mig")),
        )
    ],
    GPU_DRIVERS,
)


def dra(*results: Item, users: int = 1, device: str = "gpu-0", share_id: str = "") -> PodShares:
    hold = held_claim(device, share_id=share_id)
    others = [held_claim(device, share_id=share_id, pod_name=f"p{i}") for i in range(1, users)]
    node = NodeShares(
        slices=SLICES, claims={("acme", "c"): parse_claim(claim_of(*results))}, users=count_users([hold, *others])
    )
    return pod_shares(hold, node, None, None)


def test_a_claims_device_is_resolved_by_pool_and_device() -> None:
    assert plain(dra(given("gpu-0"))) == [(BY_UUID, A, None, None, "exclusive")]
    shares = dra(given("gpu-0-mig"), device="gpu-0-mig")
    assert (plain(shares), shares.requested_profile) == ([(BY_MIG_UUID, MIG, None, None, "mig")], "1g.10gb")


def test_admin_access_holds_nothing() -> None:
    shares = dra(given("gpu-0", adminAccess=True))
    assert (shares.held, shares.troubles) == ((), [])


@pytest.mark.parametrize("users", [2, 3, 256])
def test_pods_that_share_a_claim_share_its_device_alike(users: int) -> None:
    assert plain(dra(given("gpu-0"), users=users)) == [(BY_UUID, A, 1, users, "time_sliced")]


def test_consumed_capacity_is_the_share_by_the_scarcest_kind() -> None:
    ask = {"shareID": "s1", "consumedCapacity": {"memory": "20Gi", "cores": "50"}}
    other = {"shareID": "s2", "consumedCapacity": {"memory": "60Gi"}}
    results = given("gpu-0", **ask), given("gpu-0", **other)
    assert plain(dra(*results, share_id="s1")) == [(BY_UUID, A, 1, 2, "time_sliced")]
    assert plain(dra(*results, share_id="s2")) == [(BY_UUID, A, 3, 4, "time_sliced")]
    assert plain(dra(*results, share_id="s2", users=2)) == [(BY_UUID, A, 3, 8, "time_sliced")]


def test_a_claim_that_was_not_read_is_nobodys_since_it_may_be_for_monitoring() -> None:
    for node in (NodeShares(slices=SLICES), NodeShares(slices=SLICES, claims={("acme", "c"): None})):
        shares = pod_shares(held_claim("gpu-0"), node, None, None)
        assert plain(shares) == [(BY_UNKNOWN, f"{DRIVER}/n1/gpu-0", None, None, "exclusive")]
        assert [reason for reason, _, _ in shares.troubles] == ["claim_unread"]


def test_a_device_that_no_slice_offers_is_unknown() -> None:
    assert [reason for reason, _, _ in dra(given("gpu-9"), device="gpu-9").troubles] == ["claim_device_unknown"]


@pytest.mark.parametrize("odd", [{}, {"status": None}, {"status": {"allocation": {"devices": {"results": [None, 7]}}}}])
def test_a_claim_without_an_allocation_gives_nothing(odd: Item) -> None:
    assert parse_claim(odd).given == {}

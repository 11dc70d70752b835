"""References resolved against the inventory, and those that are not."""

from fractions import Fraction
from pathlib import Path

import pytest
from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.run_claim import Resolved, pci_address, read_xcp_minors, refs_of, resolve
from wattledger_agent.watchers.run import (
    BY_INDEX,
    BY_MIG_UUID,
    BY_MINOR,
    BY_PCI,
    BY_UNKNOWN,
    BY_UUID,
    DeviceRef,
    Held,
)

A = "GPU-5e5e1d0a-3f0b-4c8e-9d43-0c1a9b7e2f10"
B = "GPU-5e5e2222-3f0b-4c8e-9d43-0c1a9b7e2f10"
M = "GPU-fef8089b-1111-2222-3333-444455556666"
M3 = "MIG-d9a47cfb-d1f2-d08c-b40e-0812b597ae69"
M1 = "MIG-aaaaaaaa-d1f2-d08c-b40e-0812b597ae69"
C1 = ("MIG-bbbb0001-d1f2-d08c-b40e-0812b597ae69", "MIG-bbbb0002-d1f2-d08c-b40e-0812b597ae69")
AMD = "0000:c5:00.0"

MIG_CARD = Device(
    M, "nvidia", "H100", "550", index=2, minor=2, pci="00000000:C1:00.0", is_mig=True, sharing="mig",
    instances=(
        MigInstance("2", M3, "3g.40gb", 3, minors=(21,)),
        MigInstance("9", M1, "1g.10gb", 1, compute_uuids=(M1,), minors=(84, 85)),
        MigInstance("5", C1[0], "2g.20gb", 2, compute_uuids=C1),
    ),
)  # fmt: skip
NODE = Inventory(
    (
        Device(A, "nvidia", "A100", "550", index=0, minor=4, pci="00000000:3B:00.0"),
        Device(B, "nvidia", "A100", "550", index=6, minor=0, pci="00000000:3C:00.0"),
        MIG_CARD,
        Device(AMD, "amd", "MI300X", "6.8", index=10, minor=128, pci=AMD, socket=AMD, slices=1),
        Device(f"{AMD}/1", "amd", "MI300X", "6.8", index=11, minor=129, pci=AMD, socket=AMD, slices=1),
        Device("0001:05:00.0", "amd", "MI300X", "6.8", index=12, minor=136, pci="0001:05:00.0", slices=1),
    )
)


def found(by: str, value: str, instance: str = "", xcp: dict[int, int] | None = None) -> Resolved:
    return resolve([Held(DeviceRef(by, value, instance))], NODE, "n1", xcp)


RIGHT = {
    "uuid": (BY_UUID, A, "", A, ""),
    "uuid in capitals": (BY_UUID, A.upper(), "", A, ""),
    "uuid without GPU-": (BY_UUID, A.removeprefix("GPU-"), "", A, ""),
    "unique prefix": (BY_UUID, "GPU-fef8089b", "", M, ""),
    "shortest unique prefix": (BY_UUID, "GPU-5e5e1", "", A, ""),
    "AMD identity": (BY_UUID, AMD, "", AMD, ""),
    "AMD partition": (BY_UUID, f"{AMD}/1", "", f"{AMD}/1", ""),
    "uuid and instance": (BY_UUID, M, "9", M, "9"),
    "mig uuid": (BY_MIG_UUID, M3, "", M, "2"),
    "mig uuid prefix": (BY_MIG_UUID, "MIG-d9a4", "", M, "2"),
    "mig uuid of a second compute instance": (BY_MIG_UUID, C1[1], "", M, "5"),
    "mig uuid where a uuid is expected": (BY_UUID, M3, "", M, "2"),
    "R450 form": (BY_MIG_UUID, f"MIG-{M}/9/0", "", M, "9"),
    "R450 form without MIG-": (BY_MIG_UUID, f"{M}/9/0", "9", M, "9"),
    "B1, B39 minor 0 is index 6": (BY_MINOR, "0", "", B, ""),
    "B1, B39 minor 4 is index 0": (BY_MINOR, "4", "", A, ""),
    "minor by its file": (BY_MINOR, "/dev/nvidia4", "", A, ""),
    "GKE's nvidia2/gi2": (BY_MINOR, "nvidia2", "gi2", M, "2"),
    "MIG instance by its capability's minor": (BY_MINOR, "/dev/nvidia-caps/nvidia-cap84", "", M, "9"),
    "AMD render minor": (BY_MINOR, "129", "", f"{AMD}/1", ""),
    "index": (BY_INDEX, "0", "", A, ""),
    "pci as NVML writes it": (BY_PCI, "00000000:3B:00.0", "", A, ""),
    "pci as sysfs writes it": (BY_PCI, "0000:3b:00.0", "", A, ""),
    "pci without a domain": (BY_PCI, "3b:00.0", "", A, ""),
    "pci without a function": (BY_PCI, "3B:00", "", A, ""),
    "pci of an AMD card's first partition": (BY_PCI, "0000:C5:00.0", "", AMD, ""),
    "pci in another domain": (BY_PCI, "00000001:05:00.0", "", "0001:05:00.0", ""),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_reference_names_one_device(name: str) -> None:
    by, value, instance, device, gpu_instance = RIGHT[name]
    result = found(by, value, instance)
    assert result.missed == ()
    assert [(c["node"], c["device"], c["gpu_instance"]) for c in result.claims] == [("n1", device, gpu_instance)]


WRONG = {
    "ambiguous prefix": (BY_UUID, "GPU-5e5e", "", "device_ambiguous", True),
    "a prefix of nothing": (BY_UUID, "GPU-", "", "device_not_found", False),
    "a uuid that is not here": (BY_UUID, "GPU-00000000-3f0b-4c8e-9d43-0c1a9b7e2f10", "", "device_not_found", False),
    "a replica that was not taken off": (BY_UUID, f"{A}::1", "", "device_ambiguous", True),
    "an instance that is not there": (BY_UUID, M, "7", "device_not_found", False),
    "an instance of a card without MIG": (BY_UUID, A, "1", "device_not_found", False),
    "an instance that is no number": (BY_UUID, M, "x", "device_malformed", True),
    "mig uuid not here": (BY_MIG_UUID, "MIG-ffffffff-d1f2-d08c-b40e-0812b597ae69", "", "device_not_found", False),
    "no mig uuid": (BY_MIG_UUID, "GPU-1", "", "device_malformed", True),
    "minor not here": (BY_MINOR, "7", "", "device_not_found", False),
    "negative minor": (BY_MINOR, "-1", "", "device_malformed", True),
    "index not here": (BY_INDEX, "1", "", "device_not_found", False),
    "index that is no number": (BY_INDEX, "a", "", "device_malformed", True),
    "pci not here": (BY_PCI, "0000:99:00.0", "", "device_not_found", False),
    "no pci": (BY_PCI, "nvidia0", "", "device_malformed", True),
    "B2, B3, B38 a number of an unknown space": (BY_UNKNOWN, "0", "", "device_unknown_space", True),
    "an xcp that sysfs does not have": (BY_UNKNOWN, "amdgpu_xcp.7", "", "device_not_found", False),
    "empty": (BY_UUID, "", "", "device_not_found", False),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_reference_that_names_none_or_several_is_not_guessed(name: str) -> None:
    by, value, instance, reason, is_final = WRONG[name]
    result = found(by, value, instance)
    assert result.claims == ()
    (missed,) = result.missed
    assert (missed.reason, missed.is_final) == (reason, is_final)
    assert result.may_come is not is_final
    assert (value or "''") in missed.detail or instance in missed.detail


def test_a_mig_prefix_of_two_compute_instances_of_one_instance_is_ambiguous_between_instances_only() -> None:
    assert [c["gpu_instance"] for c in found(BY_MIG_UUID, "MIG-bbbb").claims] == ["5"]
    assert found(BY_MIG_UUID, "MIG-").missed[0].reason == "device_malformed"


def test_b38_the_uuid_of_the_a5000_is_the_a5000_whatever_the_job_s_own_index_is() -> None:
    p100, a5000 = Device("GPU-00", "nvidia", "P100", "550", 0, 0), Device("GPU-11", "nvidia", "A5000", "550", 1, 1)
    node = Inventory((p100, a5000))
    assert [c["device"] for c in resolve([Held(DeviceRef(BY_UUID, "GPU-11"))], node, "n").claims] == ["GPU-11"]
    assert resolve([Held(DeviceRef(BY_UNKNOWN, "0"))], node, "n").claims == ()


def test_a_number_that_an_nvidia_and_an_amd_card_share_is_ambiguous_unless_the_file_tells() -> None:
    both = Inventory((Device("GPU-1", "nvidia", "A", "1", 0, 0), Device("0000:01:00.0", "amd", "B", "1", 0, 0)))
    assert resolve([Held(DeviceRef(BY_MINOR, "0"))], both, "n").missed[0].reason == "device_ambiguous"
    assert [c["device"] for c in resolve([Held(DeviceRef(BY_MINOR, "nvidia0"))], both, "n").claims] == ["GPU-1"]


def test_minors_and_indexes_that_are_not_known_match_nothing() -> None:
    blind = Inventory((Device("GPU-1", "nvidia", "A", "1"),))
    assert resolve([Held(DeviceRef(BY_MINOR, "1")), Held(DeviceRef(BY_INDEX, "1"))], blind, "n").claims == ()


def test_amd_partitions_are_found_through_sysfs(tmp_path: Path) -> None:
    for number, minor in ((0, 129), (7, 137)):
        (tmp_path / f"devices/platform/amdgpu_xcp.{number}/drm/renderD{minor}").mkdir(parents=True)
    (tmp_path / "devices/platform/amdgpu_xcp_3/drm/renderD133").mkdir(parents=True)
    (tmp_path / "devices/platform/amdgpu_xcp.4/drm/card3").mkdir(parents=True)
    minors = read_xcp_minors(tmp_path)
    assert minors == {0: 129, 7: 137, 3: 133}
    assert [c["device"] for c in found(BY_UNKNOWN, "amdgpu_xcp.0", xcp=minors).claims] == [f"{AMD}/1"]
    assert found(BY_PCI, "amdgpu_xcp.7", xcp=minors).missed[0].reason == "device_not_found"
    assert read_xcp_minors(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("held", "share", "profile"),
    [
        (Held(DeviceRef(BY_UUID, A)), (1, 1), "full"),
        (Held(DeviceRef(BY_UUID, A), 1, 4, "time_sliced"), (1, 4), "full"),
        (Held(DeviceRef(BY_MIG_UUID, M3)), (3, 7), "3g.40gb"),
        (Held(DeviceRef(BY_MIG_UUID, M1)), (1, 7), "1g.10gb"),
        (Held(DeviceRef(BY_MIG_UUID, C1[0])), (2, 14), "2g.20gb"),
        (Held(DeviceRef(BY_MIG_UUID, M3), 1, 2, "time_sliced"), (3, 14), "3g.40gb"),
        (Held(DeviceRef(BY_MIG_UUID, M3), 1, 1, "exclusive"), (3, 7), "3g.40gb"),
        (Held(DeviceRef(BY_UUID, M)), (1, 1), "full"),
    ],
)
def test_shares_are_as_told_or_the_whole_of_what_is_named(held: Held, share: tuple[int, int], profile: str) -> None:
    (claim,) = resolve([held], NODE, "n1").claims
    assert (claim["share_num"], claim["share_den"], claim["delivered_profile"]) == (*share, profile)


@pytest.mark.parametrize("share", [(0, 4), (5, 4), (-1, 4), (1, 0), (None, 4), (1, None)])
def test_a_share_that_is_none_is_no_claim(share: tuple[int | None, int | None]) -> None:
    result = resolve([Held(DeviceRef(BY_UUID, A), *share)], NODE, "n1")
    assert result.claims == ()
    assert [(missed.reason, missed.is_final) for missed in result.missed] == [("share_malformed", True)]


@pytest.mark.parametrize(
    ("held", "share", "cpus"),
    [
        ([Held(DeviceRef(BY_UUID, A), cpus=4)] * 2, Fraction(1), 4),
        ([Held(DeviceRef(BY_UUID, A), cpus=4), Held(DeviceRef(BY_MINOR, "4"), cpus=4)], Fraction(1), 4),
        ([Held(DeviceRef(BY_UUID, A), 1, 4, "time_sliced", 4)] * 2, Fraction(1, 2), 8),
        ([Held(DeviceRef(BY_UUID, A), 3, 4, "mps", 4)] * 2, Fraction(1), 8),
        ([Held(DeviceRef(BY_MIG_UUID, uuid), cpus=4) for uuid in C1], Fraction(2, 7), 8),
        ([Held(DeviceRef(BY_MIG_UUID, M3), cpus=4)] * 3, Fraction(3, 7), 4),
    ],
)
def test_several_holds_of_one_place_are_one_claim(held: list[Held], share: Fraction, cpus: int) -> None:
    (claim,) = resolve(held, NODE, "n1").claims
    assert (Fraction(claim["share_num"], claim["share_den"]), claim["cpus"]) == (share, cpus)


def test_claims_come_in_the_order_of_devices_and_carry_cpus_and_memory() -> None:
    held = [Held(DeviceRef(BY_UUID, M), cpus=3), Held(DeviceRef(BY_UUID, A), memory_bytes=7)]
    claims = resolve(held, NODE, "n1").claims
    assert [(c["device"], c["cpus"], c["memory_bytes"], c["storage_bytes"]) for c in claims] == [
        (A, None, 7, None),
        (M, 3, None, None),
    ]


def test_what_can_be_told_is_told_beside_what_can_not() -> None:
    result = resolve([Held(DeviceRef(BY_UUID, A)), Held(DeviceRef(BY_UNKNOWN, "1"))], NODE, "n1")
    assert [c["device"] for c in result.claims] == [A]
    assert [missed.reason for missed in result.missed] == ["device_unknown_space"]


@pytest.mark.parametrize(
    ("text", "numbers", "refs"),
    [
        (A, BY_UNKNOWN, [(BY_UUID, A)]),
        (f"{M3}, {A}", BY_UNKNOWN, [(BY_MIG_UUID, M3), (BY_UUID, A)]),
        (f"MIG-{M}/9/0", BY_UNKNOWN, [(BY_MIG_UUID, f"MIG-{M}/9/0")]),
        ("0,2", BY_UNKNOWN, [(BY_UNKNOWN, "0"), (BY_UNKNOWN, "2")]),
        ("0,2", BY_MINOR, [(BY_MINOR, "0"), (BY_MINOR, "2")]),
        ("0,-1,2", BY_MINOR, [(BY_MINOR, "0")]),
        ("all", BY_MINOR, [(BY_UNKNOWN, "all")]),
        ("NoDevFiles", BY_MINOR, []),
        ("", BY_MINOR, []),
    ],
)
def test_b41_b4_a_list_of_devices_is_taken_apart(text: str, numbers: str, refs: list[tuple[str, str]]) -> None:
    assert [(ref.by, ref.value) for ref in refs_of(text, numbers)] == refs


@pytest.mark.parametrize("text", ["", "c5", "0000:c5:00.9", "GPU-1", "0000:c5:00.0/x", "c5:zz.0"])
def test_what_is_no_pci_address_has_none(text: str) -> None:
    assert pci_address(text) is None

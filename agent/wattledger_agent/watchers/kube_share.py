"""Which devices a pod holds and how much of each: replicas, claims, CPUs and memory. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from wattledger_agent.watchers.kube_claim import Allotment, ClaimFacts, DeviceKey, SliceDevice, consumed_share
from wattledger_agent.watchers.kube_device import is_gpu, parse_device_id, profile_of
from wattledger_agent.watchers.kube_hold import ClaimHold, ContainerHold, DeviceHold, PodHold
from wattledger_agent.watchers.kube_request import split
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_UNKNOWN, DeviceRef, Held

_LARGEST_DENOMINATOR = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeShares:
    """What sharing depends on. `replicas`: ids that stand for one device, by device. `fallback`: the same by resource,
    as configured, for when the kubelet does not tell. `claims`: None where one could not be read. `shared_by`:
    time_sliced or mps; the ids don't tell which."""

    replicas: Mapping[DeviceRef, int] = field(default_factory=dict)
    fallback: Mapping[str, int] = field(default_factory=dict)
    slices: Mapping[DeviceKey, SliceDevice] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], ClaimFacts | None] = field(default_factory=dict)
    users: Mapping[ClaimHold, int] = field(default_factory=dict)
    shared_by: str = "time_sliced"


@dataclass(slots=True)
class PodShares:
    """What a pod holds. `troubles`: reason code, subject and sentence of each thing that could not be told."""

    held: tuple[Held, ...] = ()
    requested_profile: str = ""
    troubles: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(slots=True)
class _Part:
    """`share` None: as much as the reference names; `replicas`: which ids of a shared device."""

    sharing: str
    share: Fraction | None = None
    replicas: set[int] = field(default_factory=set)
    resource: str = ""


def gpu_hold(hold: PodHold, drivers: Collection[str], extra: Collection[str]) -> PodHold | None:
    """The part of a hold that is GPUs; None: none of it is."""
    containers = []
    for one in hold.containers:
        devices = tuple(device for device in one.devices if is_gpu(device, extra))
        claims = tuple(claim for claim in one.claims if claim.driver in drivers)
        if devices or claims:
            containers.append(ContainerHold(one.name, devices, claims))
    if not containers:
        return None
    return PodHold(hold.namespace, hold.name, tuple(containers), hold.cpus, hold.memory_bytes)


def count_replicas(allocatable: Iterable[DeviceHold]) -> dict[DeviceRef, int]:
    """How many ids stand for each shared device. A device that is unhealthy may lack some ids, so the highest number
    counts too (plugins number from 0)."""
    found: dict[DeviceRef, set[int]] = {}
    for hold in allocatable:
        for one in hold.ids:
            name = parse_device_id(one)
            if name.replica is not None:
                found.setdefault(name.ref, set()).add(name.replica)
    return {ref: max(len(ids), max(ids) + 1) for ref, ids in found.items()}


def count_users(holds: Iterable[PodHold]) -> Counter[ClaimHold]:
    """How many pods use each device of each claim: up to 256 may."""
    return Counter(claim for hold in holds for claim in {one for c in hold.containers for one in c.claims})


def pod_shares(hold: PodHold, node: NodeShares, cpus: int | None, memory_bytes: int | None) -> PodShares:
    """What a pod holds, one entry a device however many of its containers hold it, in the order of the references.
    CPUs and memory are split over the entries and sum to the pod's.

    A share is of what the reference names: a replica of a MIG instance is a part of the instance.
    """
    result = PodShares()
    parts: dict[DeviceRef, _Part] = {}
    profiles = set()
    for container in hold.containers:
        for devices in container.devices:
            profiles.add(profile_of(devices.resource))
            for one in devices.ids:
                _add_device(parts, devices.resource, one, node.shared_by)
    for claim in sorted({one for c in hold.containers for one in c.claims}, key=repr):
        profiles.add(_add_claim(parts, claim, node, result))
    held = list(_held(parts, node, result))
    amounts = zip(split(cpus, len(held)), split(memory_bytes, len(held)), strict=True)
    result.held = tuple(
        Held(one.ref, one.share_num, one.share_den, one.sharing, cpu, memory)
        for one, (cpu, memory) in zip(held, amounts, strict=True)
    )
    result.requested_profile = profiles.pop() if len(profiles) == 1 else ""
    return result


def _add_device(parts: dict[DeviceRef, _Part], resource: str, text: str, shared_by: str) -> None:
    name = parse_device_id(text)
    is_instance = name.ref.by == BY_MIG_UUID or bool(name.ref.gpu_instance)
    if name.replica is None:
        parts[name.ref] = _Part("mig" if is_instance else "exclusive", resource=resource)
        return
    part = parts.setdefault(name.ref, _Part(shared_by, resource=resource))
    if part.sharing == shared_by:
        part.replicas.add(name.replica)


def _add_claim(parts: dict[DeviceRef, _Part], claim: ClaimHold, node: NodeShares, result: PodShares) -> str:
    """Adds one device of a claim and returns its MIG profile."""
    key = (claim.driver, claim.pool, claim.device)
    named = "/".join(key)
    facts = node.claims.get((claim.namespace, claim.claim))
    allotment = _allotment(facts, key, claim.share_id)
    device = node.slices.get(key)
    if allotment is not None and allotment.is_admin:
        return ""
    if allotment is None or device is None:
        # Without the claim nobody knows whether this is access for monitoring, which must not be billed.
        what = f"claim {claim.namespace}/{claim.claim}" if allotment is None else f"ResourceSlice device {named}"
        result.troubles.append(
            (
                "claim_unread" if allotment is None else "claim_device_unknown",
                f"{claim.namespace}/{claim.claim}/{named}",
                f"device {named} is held, but {what} was not read: turn on reading of claims and allow get on "
                "resourceclaims and list on resourceslices",
            )
        )
        parts.setdefault(DeviceRef(BY_UNKNOWN, named), _Part("exclusive"))
        return ""
    consumed = consumed_share(device, allotment)
    users = max(node.users.get(claim, 1), 1)
    if consumed is None and users == 1:
        parts.setdefault(device.ref, _Part("mig" if device.ref.by == BY_MIG_UUID else "exclusive"))
        return device.profile
    share = (Fraction(1) if consumed is None else consumed) / users
    before = parts.get(device.ref)
    if before is None:
        parts[device.ref] = _Part(node.shared_by, share)
    elif before.share is not None:
        before.share = min(Fraction(1), before.share + share)
    return device.profile


def _allotment(facts: ClaimFacts | None, key: DeviceKey, share_id: str) -> Allotment | None:
    if facts is None:
        return None
    found = facts.given.get((key, share_id))
    if found is None and not share_id:  # an older kubelet lists no share ids
        same = [one for (other, _), one in facts.given.items() if other == key]
        return same[0] if len(same) == 1 else None
    return found


def _held(parts: Mapping[DeviceRef, _Part], node: NodeShares, result: PodShares) -> Iterator[Held]:
    for ref in sorted(parts, key=lambda one: (one.by, one.value, one.gpu_instance)):
        part = parts[ref]
        share, sharing = part.share, part.sharing
        if ref.by == BY_UNKNOWN and part.resource:
            result.troubles.append(
                (
                    "device_unknown",
                    f"{part.resource}={ref.value}",
                    f"device id {ref.value!r} of resource {part.resource} names no GPU that can be told: its time "
                    "goes to nobody; a device that is passed through to a virtual machine is measured inside it",
                )
            )
        if part.replicas:
            of = node.replicas.get(ref) or node.fallback.get(part.resource)
            if of is None:
                result.troubles.append(
                    (
                        "share_unknown",
                        f"{part.resource}={ref.value}",
                        f"device {ref.value} of resource {part.resource} is shared, but the kubelet does not tell into "
                        "how many replicas: set the replicas of the resource",
                    )
                )
            else:
                share = min(Fraction(1), Fraction(len(part.replicas), of))
                sharing = "exclusive" if of == 1 else sharing
        if share is None:
            yield Held(ref, sharing=sharing)
        else:
            if share.denominator > _LARGEST_DENOMINATOR:
                share = Fraction(max(1, int(share * _LARGEST_DENOMINATOR)), _LARGEST_DENOMINATOR)
            yield Held(ref, share.numerator, share.denominator, sharing)

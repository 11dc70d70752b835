"""Allocations and node facts as the audit's records: runs, fleet, node states, reservations. Values only."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wattledger_core.capacity import STOP_PENDING
from wattledger_core.interval import FOREVER_US, merge, overlap
from wattledger_core.revision import AllocationRevision, NodeRevision
from wattledger_core.session_life import RESIZED, SUSPENDED

from wattledger_audit.intake.record import FleetNode, NodeState, Reservation, UsageRun

STOP_PENDING_STATE = STOP_PENDING.upper()
"""State of the run that stands for a device between the tenant's stop and its release: the provider pays for it."""
_ORDINARY_MARKS = {RESIZED, SUSPENDED}


@dataclass(slots=True)
class FleetRecords:
    """What node facts say of the fleet, and the time that any of it was in service."""

    nodes: list[FleetNode] = field(default_factory=list)
    states: list[NodeState] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    start_us: int = FOREVER_US
    end_us: int = 0
    """0: still in service."""


def usage_runs(allocations: Sequence[AllocationRevision], facts: Iterable[NodeRevision]) -> Iterator[UsageRun]:
    """A run for each allocation, up to where its tenant pays; what was held beyond is a run of its own."""
    models = {d.device: d.gpu_model for fact in facts for d in fact.devices}
    for line, allocation in enumerate(allocations, start=1):
        model = models.get(allocation.device, "")
        paid_us = allocation.paid_until_us
        if allocation.start_us < paid_us:
            end_us = None if paid_us == FOREVER_US else paid_us
            yield _run(line, allocation, model, allocation.start_us, end_us, allocation.outcome, "")
        if paid_us < allocation.until_us:
            start_us = max(paid_us, allocation.start_us)
            yield _run(line, allocation, model, start_us, allocation.end_us, STOP_PENDING_STATE, f":{STOP_PENDING}")


def _run(
    line: int, a: AllocationRevision, gpu_model: str, start_us: int, end_us: int | None, state: str, suffix: str
) -> UsageRun:
    device = f"{a.device}::{a.gpu_instance}" if a.gpu_instance else a.device
    marks = tuple(mark for mark in a.marks if mark not in _ORDINARY_MARKS)
    return UsageRun(
        line, a.cluster, a.job, a.allocation_id + suffix, a.attempt, a.tenant, a.project, a.user, a.model_tag, a.plan,
        "", a.sku, (a.node,), device, gpu_model, 1, a.share_num, a.share_den, None, None, start_us, end_us, 0, state,
        None, a.exclusive and not suffix, a.cpus, a.memory_bytes, None, "", () if suffix else marks,
    )  # fmt: skip


def fleet_records(facts: Sequence[NodeRevision]) -> FleetRecords:
    """Inventory while in service, states, reservations."""
    found = FleetRecords()
    service: dict[str, list[NodeRevision]] = {}
    for fact in facts:
        if fact.kind == "service":
            service.setdefault(fact.node, []).append(fact)
            found.start_us = min(found.start_us, fact.start_us)
    for line, fact in enumerate(facts, start=1):
        if fact.kind == "inventory":
            found.nodes += _nodes(line, fact, service.get(fact.node, []))
        elif fact.kind == "state":
            found.states.append(
                NodeState(line, fact.cluster, fact.node, fact.state, fact.reason, fact.start_us, fact.end_us)
            )
        elif fact.kind == "reservation":
            found.reservations.append(
                Reservation(
                    line, fact.cluster, fact.reservation_id, fact.tenant, (fact.node,),
                    len(fact.reserved_devices) or None, fact.start_us, fact.end_us, fact.reserved_devices,
                )
            )  # fmt: skip
    ends = [until_us for _, until_us in _service_hull(service)]
    found.end_us = 0 if FOREVER_US in ends else max(ends, default=0)
    return found


def _service_hull(service: dict[str, list[NodeRevision]]) -> list[tuple[int, int]]:
    return merge((fact.start_us, fact.until_us) for facts in service.values() for fact in facts)


def _nodes(line: int, fact: NodeRevision, service: Sequence[NodeRevision]) -> Iterator[FleetNode]:
    """The inventory over each stretch of service."""
    devices = sorted(fact.devices, key=lambda device: device.index)
    models = [device.gpu_model for device in devices]
    for serving in service:
        stretch = overlap(fact.start_us, fact.until_us, serving.start_us, serving.until_us)
        if stretch and devices:
            yield FleetNode(
                line, fact.node, fact.cluster, fact.site, max(sorted(set(models)), key=models.count), len(devices),
                devices[0].slices, stretch[0], None if stretch[1] == FOREVER_US else stretch[1], "active", fact.cpus,
                fact.memory_bytes, (), tuple(device.device for device in devices),
            )  # fmt: skip

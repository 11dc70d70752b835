"""The allocation meter: for every installed device and quarter-hour, which state it was in and who held it.

Needs no telemetry: inventory, node states, reservations and allocations only.
"""

from dataclasses import dataclass
from itertools import pairwise

from wattledger_core.book import Book, View
from wattledger_core.capacity import HELD_STATE, STOP_PENDING, UNAVAILABLE_STATE, Unheld, unheld_state
from wattledger_core.discrepancy import discrepancy, overlap
from wattledger_core.event import InventoryDevice
from wattledger_core.hold import Hold, failed_intervals, holds
from wattledger_core.ids import digest
from wattledger_core.interval import length_us
from wattledger_core.interval import overlap as common
from wattledger_core.line import UNAVAILABLE, DeviceTotal, Discrepancy, Line
from wattledger_core.revision import NodeRevision
from wattledger_core.split import share_weights, split_exactly
from wattledger_core.units import QUARTER_US

TIME = "time"


@dataclass(frozen=True, slots=True)
class _NodeQuarter:
    """What is known of one node over one quarter-hour in one view."""

    node: str
    start_us: int
    end_us: int
    inventories: list[NodeRevision]
    service: list[NodeRevision]
    states: list[NodeRevision]
    reservations: list[NodeRevision]
    holds: dict[str, list[Hold]]

    def points(self) -> set[int]:
        facts = [*self.inventories, *self.service, *self.states, *self.reservations]
        points = {point for fact in facts for point in (fact.start_us, fact.until_us)}
        points |= {point for found in self.holds.values() for hold in found for point in (hold.start_us, hold.end_us)}
        return points


@dataclass(slots=True)
class _Gathered:
    start_us: int
    end_us: int
    hold: Hold | None
    unheld: Unheld | None
    model: str
    site: str
    device_us: int
    marks: set[str]


def time_lines(
    book: Book, node: str, quarter_us: int, view: View
) -> tuple[list[Line], list[DeviceTotal], list[Discrepancy]]:
    """Lines of every device of a node over `[quarter_us, quarter_us + 15 min)`, in device order; ids are empty.

    Σ device_us over a device's lines is its in-service time exactly; the totals are computed apart, from inventory
    and service intervals alone.
    """
    known = _node_quarter(book, node, quarter_us, view)
    points = known.points()
    lines: list[Line] = []
    totals: list[DeviceTotal] = []
    found: list[Discrepancy] = []
    for device in book.devices(node):
        in_service_us = _in_service_us(known, device)
        gathered = _gather(known, device, points, found)
        lines += [_line(known, device, part) for part in gathered]
        if in_service_us or gathered:
            totals.append(
                DeviceTotal(
                    digest("total", TIME, node, device, quarter_us),
                    TIME, known.start_us, known.end_us, node, device, in_service_us, 0, 0, 0, -1, -1,
                )
            )  # fmt: skip
        found += _holds_outside(known, device, in_service_us)
    return lines, totals, found


def _node_quarter(book: Book, node: str, start_us: int, view: View) -> _NodeQuarter:
    end_us = start_us + QUARTER_US
    facts = {
        kind: book.facts(node, kind, start_us, end_us, view)
        for kind in ("inventory", "service", "state", "reservation")
    }
    failures = failed_intervals(book, node, end_us, view)
    held = {device: holds(book, node, device, start_us, end_us, view, failures) for device in book.devices(node)}
    return _NodeQuarter(
        node, start_us, end_us, facts["inventory"], facts["service"], facts["state"], facts["reservation"], held
    )


def _installed(known: _NodeQuarter, device: str, a_us: int, b_us: int) -> tuple[NodeRevision, InventoryDevice] | None:
    """The inventory that lists the device over the whole stretch, while the node is in service."""
    if not any(fact.start_us <= a_us and fact.until_us >= b_us for fact in known.service):
        return None
    for fact in reversed(known.inventories):
        if fact.start_us <= a_us and fact.until_us >= b_us:
            for listed in fact.devices:
                if listed.device == device:
                    return fact, listed
            return None
    return None


def _in_service_us(known: _NodeQuarter, device: str) -> int:
    """In-service time of a device: inventory ∩ service, from the intervals alone."""
    parts = []
    for inventory in known.inventories:
        if any(listed.device == device for listed in inventory.devices):
            for service in known.service:
                part = common(inventory.start_us, inventory.until_us, service.start_us, service.until_us)
                part = part and common(*part, known.start_us, known.end_us)
                if part:
                    parts.append(part)
    return length_us(parts)


def _gather(known: _NodeQuarter, device: str, points: set[int], found: list[Discrepancy]) -> list[_Gathered]:
    parts: dict[tuple[str, str, str, str], _Gathered] = {}
    cuts = sorted({known.start_us, known.end_us, *(p for p in points if known.start_us < p < known.end_us)})
    for a_us, b_us in pairwise(cuts):
        installed = _installed(known, device, a_us, b_us)
        if installed is None:
            continue
        inventory, listed = installed
        active = [h for h in known.holds.get(device, ()) if h.start_us <= a_us and h.end_us >= b_us]
        weights, total, contradicts = share_weights(active)
        marks = {"overlap"} if contradicts else set()
        if contradicts:
            found.append(overlap(known.node, device, active, a_us, b_us))
        shares = split_exactly(b_us - a_us, [*weights, total - sum(weights)]) if active else [b_us - a_us]
        rest = None
        if not active or sum(weights) < total:
            rest = _rest(known, inventory, device, a_us, b_us)
        for hold, device_us in zip([*active, None], shares, strict=True):
            if hold is None and rest is None:
                continue
            key = (
                (hold.revision.allocation_id, "zombie" if hold.zombie else "", "", "")
                if hold
                else ("", rest.state, rest.reason, rest.tenant)  # type: ignore[union-attr]
            )
            part = parts.get(key)
            if part is None:
                part = parts[key] = _Gathered(
                    a_us, b_us, hold, None if hold else rest, listed.gpu_model, inventory.site, 0, set()
                )
            part.end_us = b_us
            part.device_us += device_us
            part.marks |= marks
    return list(parts.values())


def _rest(known: _NodeQuarter, inventory: NodeRevision, device: str, a_us: int, b_us: int) -> Unheld:
    def over(facts: list[NodeRevision]) -> list[NodeRevision]:
        return [fact for fact in facts if fact.start_us <= a_us and fact.until_us >= b_us]

    node_holds = [h for found in known.holds.values() for h in found if h.start_us <= a_us and h.end_us >= b_us]
    return unheld_state(
        device, over(known.states), over(known.reservations), node_holds, inventory.cpus, inventory.memory_bytes
    )


def _line(known: _NodeQuarter, device: str, part: _Gathered) -> Line:
    hold, unheld = part.hold, part.unheld
    instance = ""
    if hold is not None:
        r = hold.revision
        instance = r.gpu_instance
        state, reason, tenant = (
            (UNAVAILABLE_STATE, STOP_PENDING, UNAVAILABLE) if hold.zombie else (HELD_STATE, "", r.tenant)
        )
        who = (tenant, r.project, r.user, r.model_tag, r.cluster, r.job, r.attempt, r.allocation_id, r.plan, r.sku)
    else:
        assert unheld is not None
        state, reason = unheld.state, unheld.reason
        if unheld.exclusive is not None:
            r = unheld.exclusive.revision
            job = (r.project, r.user, r.model_tag, r.cluster, r.job, r.attempt, "", r.plan, "")
        else:
            job = ("", "", "", "", "", 0, "", unheld.plan, "")
        who = (unheld.tenant, *job)
    return Line(
        "", TIME, known.start_us, known.end_us, known.node, device, instance, part.site, part.model, state, reason,
        *who, part.start_us, part.end_us, part.device_us, part.device_us, None, 0, 0, "allocation",
        ",".join(sorted(part.marks)),
    )  # fmt: skip


def _holds_outside(known: _NodeQuarter, device: str, in_service_us: int) -> list[Discrepancy]:
    """Holds that the node cannot have had: on a node that failed, or on a device that is not installed."""
    found = []
    for hold in known.holds.get(device, ()):
        r = hold.revision
        ids = [r.allocation_id]
        if in_service_us == 0:
            found.append(
                discrepancy("hold_out_of_service", known.node, device, hold.start_us, hold.end_us, r.tenant, ids)
            )
        if hold.cut and hold.end_us < known.end_us:
            detail = "the node failed: the hold ends there"
            found.append(
                discrepancy("hold_on_failed_node", known.node, device, hold.end_us, known.end_us, r.tenant, ids, detail)
            )
    return found

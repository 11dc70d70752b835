"""Which devices a reservation of so many of a node's GPUs keeps unused: those that its holder does not hold already.

A reservation of 4 of 8 GPUs whose holder runs on 3 keeps 1, whatever cards the runs stand on. It never keeps a device
that somebody holds, nor one that another reservation keeps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from wattledger_core.sweep import ReservedSpan, Taking


class Counted(NamedTuple):
    """A reservation of `gpus` devices of a node, no matter which."""

    start_us: int
    end_us: int
    reservation_id: str
    tenant: str
    gpus: int


class Held(NamedTuple):
    """A hold of one device, and whose it is."""

    taking: Taking
    tenant: str


def counted_spans(gpus: int, reservations: Sequence[Counted], holds: Iterable[Held]) -> list[ReservedSpan]:
    """What each reservation keeps, over time; the last free devices of the node, in order of reservations."""
    ordered = sorted(reservations)
    standing: dict[int, ReservedSpan] = {}
    spans: list[ReservedSpan] = []
    for start_us, end_us, held in _segments(ordered, holds):
        kept = _kept(gpus, [(n, r) for n, r in enumerate(ordered) if r.start_us <= start_us < r.end_us], held)
        for number, reservation in enumerate(ordered):
            devices, before = kept.get(number, frozenset()), standing.get(number)
            if before is not None and before.devices == devices and before.end_us == start_us:
                standing[number] = before._replace(end_us=end_us)
                continue
            if before is not None:
                spans.append(standing.pop(number))
            if devices:
                standing[number] = ReservedSpan(
                    start_us, end_us, reservation.reservation_id, reservation.tenant, devices
                )  # fmt: skip
    return sorted([*spans, *standing.values()], key=lambda span: span[:4])


def _segments(
    reservations: Sequence[Counted], holds: Iterable[Held]
) -> Iterator[tuple[int, int, Mapping[int, Mapping[str, int]]]]:
    """Stretches in which nothing changes, each with the tenants on every held device."""
    first_us = min(found.start_us for found in reservations)
    last_us = max(found.end_us for found in reservations)
    changes: dict[int, list[tuple[int, str, int]]] = {}
    for found in reservations:
        changes.setdefault(found.start_us, [])
        changes.setdefault(found.end_us, [])
    for taking, tenant in holds:
        if taking.device >= 0 and taking.start_us < taking.end_us:
            changes.setdefault(max(taking.start_us, first_us), []).append((taking.device, tenant, 1))
            changes.setdefault(max(taking.end_us, first_us), []).append((taking.device, tenant, -1))
    held: dict[int, dict[str, int]] = {}
    times = sorted(at_us for at_us in changes if at_us <= last_us)
    for at_us, next_us in pairwise(times):
        for device, tenant, change in changes[at_us]:
            tenants = held.setdefault(device, {})
            tenants[tenant] = tenants.get(tenant, 0) + change
            if not tenants[tenant]:
                del tenants[tenant]
            if not tenants:
                del held[device]
        yield at_us, next_us, held


def _kept(
    gpus: int, reservations: Sequence[tuple[int, Counted]], held: Mapping[int, Mapping[str, int]]
) -> dict[int, frozenset[int]]:
    """Devices that each standing reservation keeps beside what its holder has."""
    own: dict[str, int] = {}
    for tenants in held.values():
        for tenant in tenants:
            own[tenant] = own.get(tenant, 0) + 1
    free = [device for device in range(gpus) if device not in held]
    kept: dict[int, frozenset[int]] = {}
    for number, reservation in reservations:
        used = min(own.get(reservation.tenant, 0), reservation.gpus)
        own[reservation.tenant] = own.get(reservation.tenant, 0) - used
        count = min(reservation.gpus - used, len(free))
        if count:
            kept[number] = frozenset(free[-count:])
            free = free[:-count]
    return kept

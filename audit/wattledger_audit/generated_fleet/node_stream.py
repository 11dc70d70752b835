"""Node events of the demo's day: inventory, service, states, the reservation."""

from collections.abc import Iterator
from dataclasses import replace

from wattledger_core.event import InventoryDevice, NodeEvent
from wattledger_core.ids import digest
from wattledger_core.units import US_PER_S

from wattledger_audit.generated_fleet.day import CLUSTER, DAY_END_US, DAY_START_US, SITE, at
from wattledger_audit.generated_fleet.emission import Emission
from wattledger_audit.generated_fleet.machines import BY_NODE, MACHINES, Machine

STATES = (
    ("l40s-01", "01:00", "draining", "firmware update"),
    ("l40s-01", "03:30", "maintenance", "firmware update"),
    ("l40s-01", "05:00", "active", ""),
    ("mi300x-01", "13:20", "failed", "host unreachable"),
    ("mi300x-01", "15:00", "active", "rebooted"),
)
RESERVATION_ID = "res-delta-h100"
RESERVATION_NODE, RESERVATION_TENANT = "h100-01", "delta-labs"
RESERVED_CARDS = (4, 5)
RESERVED_FROM, RESERVED_TO = "08:00", "20:00"


def node_emissions() -> Iterator[Emission]:
    """Node events in order of arrival. Every machine leaves service at the day's end, so the books close on a day."""
    for machine in MACHINES:
        yield Emission(DAY_START_US, _inventory(machine))
        yield Emission(DAY_START_US, _event(machine.node, "in_service", DAY_START_US))
    yield Emission(DAY_START_US, _reservation())
    for node, clock, state, reason in STATES:
        at_us = at(clock)
        yield Emission(at_us + US_PER_S, replace(_event(node, "node_state", at_us), state=state, reason=reason))
    for machine in MACHINES:
        yield Emission(DAY_END_US + US_PER_S, _event(machine.node, "out_of_service", DAY_END_US))


def _event(node: str, kind: str, at_us: int) -> NodeEvent:
    name = digest("demo-node-event", node, kind, at_us)
    return NodeEvent(name, kind, at_us, node, CLUSTER, SITE, source="inventory-file")


def _inventory(machine: Machine) -> NodeEvent:
    devices = tuple(
        InventoryDevice(card.device, card.index, card.gpu_model, card.slices, card.sharing, card.floor_mw)
        for card in machine.cards
    )
    base = _event(machine.node, "inventory", DAY_START_US)
    return replace(base, devices=devices, cpus=machine.cpus, memory_bytes=machine.memory_bytes)


def _reservation() -> NodeEvent:
    cards = BY_NODE[RESERVATION_NODE].cards
    return replace(
        _event(RESERVATION_NODE, "reservation", DAY_START_US),
        reservation_id=RESERVATION_ID,
        tenant=RESERVATION_TENANT,
        reserved_devices=tuple(cards[index].device for index in RESERVED_CARDS),
        start_us=at(RESERVED_FROM),
        end_us=at(RESERVED_TO),
    )

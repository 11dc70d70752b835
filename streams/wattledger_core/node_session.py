"""The events of one node, as facts that hold over intervals: inventory, service, state, reservations.

Sessions' node side: keeps every event in order of event time, whatever came when. Owns what the kinds mean.
"""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace

from wattledger_core.event import NodeEvent
from wattledger_core.ids import digest
from wattledger_core.interval import FOREVER_US
from wattledger_core.revision import NodeRevision
from wattledger_core.session_standing import ADMITTED, NOWHERE, admit, settle

INVENTORY, SERVICE, STATE, RESERVATION = "inventory", "service", "state", "reservation"
CANCELLED = "cancelled"
CANCELLED_BEFORE_START = "cancelled_before_start"
SERVICE_ASSUMED = "service_assumed"
_ASSUMED = "assumed_in_service"

_FACT_ORDER = {INVENTORY: 0, SERVICE: 1, STATE: 2, RESERVATION: 3}


class EventLine:
    """Events in a total order that does not depend on arrival: time, kind (what ends before what begins), id."""

    def __init__(self) -> None:
        self.events: list[NodeEvent] = []
        self._keys: list[tuple[int, bool, str]] = []

    def put(self, event: NodeEvent) -> bool:
        """Insert; True when its time is after all others', so that nothing known before moves."""
        key = (event.at_us, event.kind in ("in_service", "reservation"), event.event_id)
        place = bisect(self._keys, key)
        newest = place == len(self._keys) and (not self.events or self.events[-1].at_us < event.at_us)
        self._keys.insert(place, key)
        self.events.insert(place, event)
        return newest


@dataclass(slots=True)
class Runs:
    """Facts that hold from an event until the next that says something else. Equal reports in a row are one fact,
    named by its start: a report that comes late cuts a run in two and leaves the others their names."""

    say: Callable[[NodeEvent], NodeRevision]
    line: EventLine
    standing: dict[str, NodeRevision]
    last: NodeRevision | None = None

    def add(self, event: NodeEvent) -> list[NodeRevision]:
        """Changed facts."""
        if self.line.put(event):
            return settle(self.standing, self._extend(event), whole=False)
        self.last = None
        facts: dict[str, NodeRevision] = {}
        for known in _last_of_each_instant(self.line.events):
            facts |= {fact.fact_id: fact for fact in self._extend(known)}
        return settle(self.standing, facts.values(), whole=True)

    def _extend(self, event: NodeEvent) -> list[NodeRevision]:
        opened, last = self.say(event), self.last
        if last is not None and replace(opened, fact_id=last.fact_id, start_us=last.start_us) == last:
            return []
        self.last = opened
        return [opened] if last is None else [replace(last, end_us=event.at_us), opened]


def _last_of_each_instant(events: list[NodeEvent]) -> list[NodeEvent]:
    return list({event.at_us: event for event in events}.values())


class NodeSession:
    """All events of one node and what was last said of it."""

    def __init__(self) -> None:
        self._seen: dict[str, NodeEvent] = {}
        self._inventories = Runs(_inventory, EventLine(), {})
        self._states = Runs(_state, EventLine(), {})
        self._service = EventLine()
        self._said_service: dict[str, NodeRevision] = {}
        self._reservations: dict[str, tuple[EventLine, dict[str, NodeRevision]]] = {}

    def add(self, event: NodeEvent) -> tuple[str, list[NodeRevision]]:
        """`admitted`, `duplicate` or `conflicting_duplicate`, and the facts that changed, in the order to say them."""
        verdict = admit(self._seen, event)
        if verdict != ADMITTED:
            return verdict, []
        return verdict, sorted(self._changed(event), key=_saying_order)

    def _changed(self, event: NodeEvent) -> list[NodeRevision]:
        if event.kind == "node_state":
            return self._states.add(event)
        if event.kind in ("reservation", "reservation_cancelled"):
            line, said = self._reservations.setdefault(event.reservation_id, (EventLine(), {}))
            line.put(event)
            return settle(said, reservation_facts(line.events), whole=True)
        changed: list[NodeRevision] = []
        if event.kind == "inventory":
            changed = self._inventories.add(event)
        else:
            self._service.put(event)
        facts = service_facts(self._service.events, self._inventories.line.events)
        return changed + settle(self._said_service, facts, whole=True)


def service_facts(events: list[NodeEvent], inventories: list[NodeEvent]) -> list[NodeRevision]:
    """In service from each `in_service` to the next `out_of_service`.

    A node whose first word on service is not `in_service` counts as in service from its first inventory on.
    Facts are named by their ordinal: the start of the first is often an assumption that an event replaces.
    """
    ordered = list(events)
    if inventories and _assumes_service(events, inventories[0].at_us):
        assumed = replace(inventories[0], kind=_ASSUMED)
        ordered = sorted([*events, assumed], key=lambda event: (event.at_us, event.kind != "out_of_service"))
    facts: list[NodeRevision] = []
    since: NodeEvent | None = None
    for event in ordered:
        if event.kind != "out_of_service":
            since = since or event
        elif since is not None:
            facts.append(_service(since, len(facts), event.at_us))
            since = None
    return facts if since is None else [*facts, _service(since, len(facts), None)]


def _assumes_service(events: list[NodeEvent], inventory_us: int) -> bool:
    if all(event.kind == "out_of_service" for event in events):
        return True
    return events[0].kind == "out_of_service" and events[0].at_us > inventory_us


def reservation_facts(events: list[NodeEvent]) -> list[NodeRevision]:
    """Each life of one reservation id: its last version, cut at its cancellation. A `reservation` after a cancellation
    begins a new life; a cancellation stamped before any version counts for the first life, if that has none."""
    lives: list[tuple[NodeEvent, int | None]] = []
    early_us: int | None = None
    for event in events:
        if event.kind == "reservation":
            if lives and lives[-1][1] is None:
                lives[-1] = (event, None)
            else:
                lives.append((event, None))
        elif lives:
            version, cancelled_us = lives[-1]
            lives[-1] = (version, event.at_us if cancelled_us is None else cancelled_us)
        elif early_us is None:
            early_us = event.at_us
    if lives and lives[0][1] is None:
        lives[0] = (lives[0][0], early_us)
    return [_reservation(version, ordinal, cancelled_us) for ordinal, (version, cancelled_us) in enumerate(lives)]


def _fact(event: NodeEvent, kind: str, start_us: int, end_us: int | None, *name: str | int) -> NodeRevision:
    fact_id = digest("fact", event.node, kind, *name)
    return NodeRevision("", fact_id, NOWHERE, 0, event.node, event.cluster, kind, start_us, end_us)


def _inventory(event: NodeEvent) -> NodeRevision:
    fact = _fact(event, INVENTORY, event.at_us, None, event.at_us)
    return replace(fact, site=event.site, devices=event.devices, cpus=event.cpus, memory_bytes=event.memory_bytes)


def _state(event: NodeEvent) -> NodeRevision:
    return replace(_fact(event, STATE, event.at_us, None, event.at_us), state=event.state, reason=event.reason)


def _service(since: NodeEvent, ordinal: int, end_us: int | None) -> NodeRevision:
    fact = _fact(since, SERVICE, since.at_us, end_us, ordinal)
    return replace(fact, marks=(SERVICE_ASSUMED,)) if since.kind == _ASSUMED else fact


def _reservation(version: NodeEvent, ordinal: int, cancelled_us: int | None) -> NodeRevision:
    start_us = version.at_us if version.start_us is None else version.start_us
    end_us, void = version.end_us, False
    marks: tuple[str, ...] = ()
    if cancelled_us is not None and cancelled_us < (FOREVER_US if end_us is None else end_us):
        void = cancelled_us <= start_us
        end_us = max(cancelled_us, start_us)
        marks = (CANCELLED_BEFORE_START if void else CANCELLED,)
    fact = _fact(version, RESERVATION, start_us, end_us, version.reservation_id, ordinal)
    return replace(
        fact, reservation_id=version.reservation_id, tenant=version.tenant,
        reserved_devices=version.reserved_devices, marks=marks, void=void,
    )  # fmt: skip


def _saying_order(fact: NodeRevision) -> tuple[bool, bool, int, int, str]:
    """What ends comes before what begins."""
    return not fact.void, fact.end_us is None, _FACT_ORDER[fact.kind], fact.start_us, fact.fact_id

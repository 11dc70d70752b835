"""What stands: the last that sessions said of each allocation or fact, and what differs from it now.

Content carries no name and no place (`revision_id`, `origin`, `known_us` are blank); `session` numbers it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from wattledger_core.event import JobEvent, NodeEvent
from wattledger_core.revision import AllocationRevision, NodeRevision, Origin, Revision

NOWHERE = Origin(0, 0)
ADMITTED = "admitted"
DUPLICATE = "duplicate"
CONFLICTING_DUPLICATE = "conflicting_duplicate"

R = TypeVar("R", AllocationRevision, NodeRevision)
E = TypeVar("E", JobEvent, NodeEvent)


def identity(revision: Revision) -> str:
    """The id that all revisions of one allocation or fact share."""
    return revision.allocation_id if isinstance(revision, AllocationRevision) else revision.fact_id


def settle(standing: dict[str, R], wanted: Iterable[R], whole: bool) -> list[R]:
    """Make `wanted` stand; what changed, in the order given, then what vanished, voided.

    With `whole`, `wanted` is all there is and the rest of `standing` vanished; else the rest is as it was.
    """
    changed: list[R] = []
    named: set[str] = set()
    for content in wanted:
        name = identity(content)
        named.add(name)
        if standing.get(name) != content:
            standing[name] = content
            changed.append(content)
    if whole:
        for name, content in standing.items():
            if name not in named and not content.void:
                standing[name] = _voided(content)
                changed.append(standing[name])
    return changed


def admit(seen: dict[str, E], event: E) -> str:
    """Whether the event is new by its id. The first content of an id is kept."""
    known = seen.get(event.event_id)
    if known is None:
        seen[event.event_id] = event
        return ADMITTED
    return DUPLICATE if known == event else CONFLICTING_DUPLICATE


def _voided(content: R) -> R:
    if isinstance(content, AllocationRevision):
        return replace(content, end_us=content.start_us, stop_requested_us=None, void=True)
    return replace(content, end_us=content.start_us, void=True)

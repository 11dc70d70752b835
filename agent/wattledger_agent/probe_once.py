"""What this machine reports: each probe opened, read twice a second apart, and closed again. Changes nothing."""

from collections.abc import Sequence
from typing import Any

from wattledger_agent.clock import Clock
from wattledger_agent.probe_report import probe_json, probe_text, unavailable_json, unavailable_text
from wattledger_agent.probes.device import Inventory
from wattledger_agent.probes.probe import Probe, ProbeUnavailable
from wattledger_agent.probes.reading import ProbeTick

BETWEEN_S = 1.0
"""Activity and shares are of the time between two reads."""


def read_once(probe: Probe, clock: Clock) -> tuple[Inventory, ProbeTick]:
    """Inventory and second reading. Raises ProbeUnavailable."""
    try:
        probe.open()
        probe.read()
        clock.sleep(BETWEEN_S)
        tick = probe.read()
        return probe.inventory(), tick
    finally:
        probe.close()


def once_json(probes: Sequence[Probe], clock: Clock) -> list[dict[str, Any]]:
    """A document for each probe."""
    found = []
    for probe in probes:
        try:
            found.append(probe_json(probe.name, *read_once(probe, clock)))
        except ProbeUnavailable as error:
            found.append(unavailable_json(probe.name, error))
    return found


def once_text(probes: Sequence[Probe], clock: Clock) -> str:
    """The same for people."""
    parts = []
    for probe in probes:
        try:
            parts.append(probe_text(probe.name, *read_once(probe, clock)))
        except ProbeUnavailable as error:
            parts.append(unavailable_text(probe.name, error))
    return "\n".join(parts)

"""Idle floors: a card's power with no compute process on it, measured, remembered, and watched for the agent's own
effect. Never a first reading under load, never the residue of utilisation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from wattledger_agent.probes.reading import DeviceReading

STILL_US = 60_000_000
SETTLE_US = 10_000_000
"""After the last process a card takes a while to fall back to idle clocks."""
MIN_READINGS = 20
MAX_READINGS = 600
OBSERVER_RATIO_PCT = 150
"""A floor this much above the remembered one: something holds the card awake, perhaps the agent (dcgm-exporter#464:
50 W to 100 W by a newer exporter)."""
BELIEVED_AFTER = 30
"""So many raised stretches in a row (half an hour): then that is what the card draws idle."""


@dataclass(slots=True)
class _Stretch:
    since_us: int
    powers_mw: list[int] = field(default_factory=list)


class IdleFloors:
    """Median power of a stretch of STILL_US without processes and without work. A new stretch replaces the floor,
    unless it lies above OBSERVER_RATIO_PCT of the remembered one: then the device is named in `raised`, and the old
    floor stays for BELIEVED_AFTER stretches."""

    def __init__(self, remembered_mw: dict[str, int] | None = None) -> None:
        self.floors_mw = dict(remembered_mw or {})
        self.raised: dict[str, int] = {}
        self._raised_times: dict[str, int] = {}
        self._stretches: dict[str, _Stretch] = {}

    def see(self, at_us: int, readings: Sequence[DeviceReading]) -> bool:
        """Take one tick; True when a floor changed."""
        changed = False
        for reading in readings:
            if reading.processes != () or reading.busy_ppm.value != 0 or reading.power_mw.value is None:
                self._stretches.pop(reading.device, None)
                continue
            stretch = self._stretches.setdefault(reading.device, _Stretch(at_us))
            if at_us < stretch.since_us:
                # the clock was set back
                stretch = self._stretches[reading.device] = _Stretch(at_us)
            if at_us - stretch.since_us >= SETTLE_US and len(stretch.powers_mw) < MAX_READINGS:
                stretch.powers_mw.append(reading.power_mw.value)
            if at_us - stretch.since_us >= STILL_US + SETTLE_US and len(stretch.powers_mw) >= MIN_READINGS:
                changed |= self._settle(reading.device, stretch.powers_mw)
                self._stretches[reading.device] = _Stretch(at_us - SETTLE_US)
        return changed

    def _settle(self, device: str, powers_mw: list[int]) -> bool:
        floor_mw = sorted(powers_mw)[len(powers_mw) // 2]
        known_mw = self.floors_mw.get(device)
        if known_mw is not None and floor_mw * 100 > known_mw * OBSERVER_RATIO_PCT:
            self.raised[device] = floor_mw
            self._raised_times[device] = self._raised_times.get(device, 0) + 1
            if self._raised_times[device] < BELIEVED_AFTER:
                return False
        self.raised.pop(device, None)
        self._raised_times.pop(device, None)
        self.floors_mw[device] = floor_mw
        return floor_mw != known_mw

    def dump(self) -> bytes:
        """For the log's memory."""
        return json.dumps(self.floors_mw, sort_keys=True).encode()

    @classmethod
    def load(cls, data: bytes | None) -> "IdleFloors":
        """From the log's memory; nothing is remembered when it is not readable."""
        try:
            found = json.loads(data or b"{}")
            return cls({str(device): int(floor_mw) for device, floor_mw in found.items()})
        except (ValueError, TypeError, AttributeError):
            return cls()

"""One AMD device under the probe: its facts, and its reading at one tick. Knows nothing of the other devices."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from wattledger_agent.probes.amd_energy import CounterSample, CounterTrack
from wattledger_agent.probes.amd_library import GROUPS, AmdLibrary, Answer
from wattledger_agent.probes.amd_metrics import NOTHING, Metrics
from wattledger_agent.probes.amd_partition import Place
from wattledger_agent.probes.amd_power import Power, choose_power, limits_of
from wattledger_agent.probes.amd_process import ProcessList, ProcessTrack
from wattledger_agent.probes.amd_throttle import ThrottleTrack
from wattledger_agent.probes.amd_value import DEVICE_CODES, NOT_FOUND, number, text
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_READ,
    NOT_SUPPORTED,
    SENTINEL,
    DeviceReading,
    Reading,
    unknown,
)

_MOST_CELSIUS: Final = 150
_MOST_BYTES: Final = 1 << 50
_MOST_COUNTS: Final = 1 << 59
"""Of 2^-16 J each: a kilowatt for 279 years, and the last that 64 bits of µJ hold."""
_VRAM: Final = ("AmdSmiMemoryType", "VRAM")
_SENSORS: Final = ("HOTSPOT", "EDGE")


@dataclass(frozen=True, slots=True)
class Facts:
    """What does not change while the device is set up as it is. `limit_mw` is in force, `most_mw` the highest that can
    be set."""

    driver: str = ""
    index: int = -1
    minor: int = -1
    memory_bytes: int | None = None
    limit_mw: int | None = None
    most_mw: int | None = None
    partitions: int = 1
    mode: str = ""
    is_guest: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One device's tick. `gone`: every call failed as on a device that is not there; `not_found`: the library said so
    in as many words. `notes` by subject: sentences for people, empty where all is well again."""

    reading: DeviceReading
    notes: Mapping[str, str]
    gone: bool = False
    not_found: bool = False


class AmdDevice:
    """Reads one device. A partition that does not report its socket's power has none of its own: reading it again
    would count the socket many times over."""

    def __init__(self, library: AmdLibrary, place: Place, facts: Facts, track: CounterTrack) -> None:
        self.place = place
        self.facts = facts
        self.track = track
        self.power_field = ""
        self.lost = False
        self._library = library
        self._throttle = ThrottleTrack()
        self._processes = ProcessTrack()

    def read(self, at_us: int, others: Iterable[CounterTrack], socket: Metrics, with_processes: bool) -> Outcome:
        """One tick. `others` are the other devices' counters, `socket` the table of the partition that reports for the
        socket (its own is read if it is empty)."""
        asked: list[Answer] = []
        metrics = socket
        if socket is NOTHING:
            metrics, answer = self._library.metrics(self.place.handle, self.facts.partitions)
            asked.append(answer)
        busy = self._busy(metrics, asked)
        power = self._power(metrics, busy, asked)
        energy = self._energy(metrics, power.reading, at_us, others, asked)
        memory = self._memory(asked)
        listed = ProcessList(None, NOT_READ)
        if with_processes:
            listed = self._processes.read(self._library, self.place.handle, at_us, busy.value)
        self.power_field = power.field or self.power_field
        return Outcome(
            DeviceReading(
                self.place.device,
                power.reading,
                energy,
                busy,
                memory,
                self._temperature(metrics),
                self._throttle.take(metrics),
                (),
                listed.processes,
                listed.reason,
            ),
            {
                "power": power.odd,
                "guest": self._guest(power),
                "permission": GROUPS if NO_PERMISSION in {power.reading.reason, busy.reason, memory.reason} else "",
                **({"processes": listed.told} if with_processes else {}),
            },
            gone=bool(asked) and all(answer.code in DEVICE_CODES for answer in asked),
            not_found=any(answer.code == NOT_FOUND for answer in asked),
        )

    def read_limit(self) -> None:
        """The power limit may be set while the device runs."""
        if self.place.reports_power:
            limit_mw, _ = limits_of(self._library.ask("amdsmi_get_power_cap_info", self.place.handle).value)
            self.facts = replace(self.facts, limit_mw=limit_mw)

    def _busy(self, metrics: Metrics, asked: list[Answer]) -> Reading:
        if self.facts.partitions > 1 and self.place.partition < len(metrics.busy):
            shares = metrics.busy[self.place.partition]
            if shares:
                return Reading(sum(shares) * 10_000 // len(shares))
        percent = metrics.numbers.get("average_gfx_activity") if self.facts.partitions == 1 else None
        reason = SENTINEL
        if percent is None:
            answer = self._library.ask("amdsmi_get_gpu_activity", self.place.handle)
            asked.append(answer)
            percent = number(answer.value.get("gfx_activity")) if isinstance(answer.value, Mapping) else None
            reason = answer.reason or SENTINEL
        if percent is None:
            return unknown(reason)
        return Reading(percent * 10_000) if 0 <= percent <= 100 else unknown(IMPLAUSIBLE)

    def _power(self, metrics: Metrics, busy: Reading, asked: list[Answer]) -> Power:
        if not self.place.reports_power:
            return Power(unknown(NOT_SUPPORTED))
        info, answer = self._library.power(self.place.handle)
        asked.append(answer)
        return choose_power(info, metrics, answer.reason, self.facts.most_mw, busy.value)

    def _energy(
        self, metrics: Metrics, power: Reading, at_us: int, others: Iterable[CounterTrack], asked: list[Answer]
    ) -> Reading:
        if not self.place.reports_power:
            return unknown(NOT_SUPPORTED)
        answer = self._library.ask("amdsmi_get_energy_count", self.place.handle)
        asked.append(answer)
        counts, stamp_ns = _counter(answer.value)
        if counts is None:
            counts = metrics.numbers.get("energy_accumulator")
            stamp_ns = metrics.numbers.get("system_clock_counter")
        if counts is None:
            return unknown(answer.reason or SENTINEL)
        if counts >= _MOST_COUNTS or (counts == 0 and power.value is not None):
            return unknown(IMPLAUSIBLE)  # a device that draws power has counted: a second die, or a dead counter
        return self.track.take(CounterSample(counts, stamp_ns, at_us), power, others)

    def _memory(self, asked: list[Answer]) -> Reading:
        kind = self._library.constant(*_VRAM)
        answer = self._library.ask("amdsmi_get_gpu_memory_usage", self.place.handle, kind)
        asked.append(answer)
        used = number(answer.value, narrow=False)
        if used is None:
            return unknown(answer.reason or SENTINEL)
        most = self.facts.memory_bytes or _MOST_BYTES
        return Reading(used) if 0 <= used <= most else unknown(IMPLAUSIBLE)

    def _temperature(self, metrics: Metrics) -> Reading:
        celsius = [metrics.numbers.get("temperature_hotspot"), metrics.numbers.get("temperature_edge")]
        known = [value for value in celsius if value]
        if not known:
            current = self._library.constant("AmdSmiTemperatureMetric", "CURRENT")
            for sensor in _SENSORS:
                kind = self._library.constant("AmdSmiTemperatureType", sensor)
                answer = self._library.ask("amdsmi_get_temp_metric", self.place.handle, kind, current)
                value = number(answer.value, narrow=False)
                if value:
                    known = [value // 1000 if value >= 1000 else value]
                    break
                if answer.reason:
                    return unknown(answer.reason)
        if not known:
            return unknown(SENTINEL)
        return Reading(known[0]) if 0 < known[0] <= _MOST_CELSIUS else unknown(IMPLAUSIBLE)

    def _guest(self, power: Power) -> str:
        if self.facts.is_guest and power.reading.reason == NOT_SUPPORTED and self.place.reports_power:
            return "a virtual machine's GPU: AMD SMI gives no power or energy here; run the agent on the host"
        return ""


def _counter(value: object) -> tuple[int | None, int | None]:
    """Counts and time stamp in ns. The count was called `power` until 6.3; a stamp of 0 is none."""
    if not isinstance(value, Mapping):
        return None, None
    raw = value.get("energy_accumulator", value.get("power"))
    return number(raw, narrow=False), number(value.get("timestamp"), narrow=False) or None


def facts_of(library: AmdLibrary, place: Place, index: int, partitions: int, mode: str) -> Facts:
    """Ask for what does not change."""
    handle = place.handle
    driver = library.ask("amdsmi_get_gpu_driver_info", handle).value
    numbered = library.ask("amdsmi_get_gpu_enumeration_info", handle).value
    minor = number(numbered.get("drm_render"), narrow=False) if isinstance(numbered, Mapping) else None
    memory = library.ask("amdsmi_get_gpu_memory_total", handle, library.constant(*_VRAM)).value
    cap = library.ask("amdsmi_get_power_cap_info", handle).value if place.reports_power else None
    limit_mw, most_mw = limits_of(cap)
    total = number(memory, narrow=False) or 0
    version = text(driver.get("driver_version")) if isinstance(driver, Mapping) else ""
    return Facts(
        version,
        index,
        -1 if minor is None else minor,
        total if 0 < total <= _MOST_BYTES else None,
        limit_mw,
        most_mw,
        partitions,
        mode,
        _is_guest(library, handle),
    )


def _is_guest(library: AmdLibrary, handle: object) -> bool:
    for function in ("amdsmi_get_gpu_virtualization_mode", "amdsmi_get_gpu_virtualization_mode_info"):
        value = library.ask(function, handle).value
        if isinstance(value, Mapping):
            return getattr(value.get("mode"), "name", "") == "GUEST"
    return False

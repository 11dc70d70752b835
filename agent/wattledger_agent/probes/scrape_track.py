"""One device over many scrapes: what it is, whether a reading is new, and its counter's runs. Pure, time is passed in.

A scrape does not make the exporter read: it hands out what it read last, perhaps half a minute ago and again and again.
What was not renewed is unknown (`stale`), so nothing is counted twice and a dead exporter shows.
"""

import re
from dataclasses import dataclass, field, replace

from wattledger_agent.probes.counter_track import CounterTrack
from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.reading import (
    HARDWARE_SLOWDOWN,
    IMPLAUSIBLE,
    NOT_READ,
    NOT_SUPPORTED,
    OTHER_THROTTLE,
    POWER_BRAKE,
    POWER_CAP,
    STALE,
    THERMAL,
    UNREAD,
    DeviceReading,
    InstanceReading,
    ProcessReading,
    Reading,
    lost_device,
    unknown,
)
from wattledger_agent.probes.scrape_dcgm import FALLEN_OFF_THE_BUS
from wattledger_agent.probes.scrape_facts import DeviceFacts, Facts, PartFacts, best_metric, device_memory, pick
from wattledger_agent.probes.scrape_metric import (
    ACTIVITY,
    BUSY,
    ENERGY,
    LIMIT,
    MAX_LIMIT,
    MAX_POWER_MW,
    MEMORY,
    MEMORY_TOTAL,
    MIG_SLICES,
    POWER,
    PROCESSES,
    TEMPERATURE,
    THROTTLE,
    XID,
)
from wattledger_agent.probes.scrape_mig import instance_profile, profile_slices, slices_of_model

_OLDEST_US = 120_000_000
_AHEAD_US = 1_000_000
_LOW_MW, _HALF_PPM = 1000, 500_000
_REASON_BITS = {
    0x4: POWER_CAP, 0x20: THERMAL, 0x40: THERMAL, 0x8: HARDWARE_SLOWDOWN, 0x80: POWER_BRAKE,
    0x2: OTHER_THROTTLE, 0x10: OTHER_THROTTLE, 0x100: OTHER_THROTTLE,
}  # fmt: skip
"""NVML's clock event reasons; 0x1 is idle, which holds nothing down."""
_SUPERCHIP = re.compile(r"(?<![A-Z0-9])G[HB]\d00(?![0-9])")
_STICKY = (POWER, ENERGY, BUSY, MEMORY)


@dataclass(frozen=True, slots=True)
class ScrapeTime:
    """When a scrape was made."""

    wall_us: int
    monotonic_us: int


@dataclass(slots=True)
class DeviceTrack:
    """Follows one device. `boot` goes into the name of the counter's epoch."""

    identity: str
    boot: str = ""
    scrapes: int = 0
    stale_scrapes: int = 0
    unknown_profiles: set[str] = field(default_factory=set)
    _metrics: dict[str, str] = field(default_factory=dict)
    _counter: CounterTrack = field(default_factory=CounterTrack)
    _known: Device | None = None
    _instances: dict[str, MigInstance] = field(default_factory=dict)
    _is_shared: bool = False
    _last_at_us: int | None = None
    _last_energy_uj: int | None = None
    _last_seen: tuple[Reading, ...] = ()

    @property
    def device(self) -> Device:
        """What is known of it by now: what an exposition leaves out does not go away (dcgm-exporter#569)."""
        known = self._known or Device(self.identity, "nvidia", "", "")
        epoch = f"{self.boot}/{known.driver}/{self._counter.run}".lstrip("/")
        return replace(known, counter_epoch=epoch)

    @property
    def has_counter(self) -> bool:
        return ENERGY in self._metrics

    def describe(self, facts: DeviceFacts) -> None:
        """Takes over what an exposition says of the device itself."""
        for quantity in _STICKY:
            metrics = facts.copies.get(quantity, {})
            if metrics and self._metrics.get(quantity) not in metrics:
                self._metrics[quantity] = best_metric(metrics)
        before = self._known or Device(self.identity, "nvidia", "", "")
        self._is_shared |= facts.has_replicas or len(facts.owners) > 1
        model = facts.gpu_model or before.gpu_model
        is_mig = facts.is_mig
        slices = pick(facts.copies.get(MIG_SLICES, {})).value or (slices_of_model(model) if is_mig else before.slices)
        if is_mig:
            self._follow_instances(facts, slices)
        else:
            self._instances.clear()
        self._known = Device(
            self.identity,
            "nvidia",
            model,
            facts.driver or before.driver,
            facts.index if facts.index >= 0 else before.index,
            facts.minor if facts.minor >= 0 else before.minor,
            facts.pci or before.pci,
            slices=slices,
            sharing="mig" if is_mig else "time_sliced" if self._is_shared else "exclusive",
            instances=tuple(self._instances[name] for name in sorted(self._instances, key=_order)),
            counter_scope=_scope(model) if self.has_counter else "",
            power_field=self._metrics.get(POWER, ""),
            power_limit_mw=_first(pick(facts.copies.get(LIMIT, {})).value, before.power_limit_mw),
            memory_bytes=_first(pick(facts.copies.get(MEMORY_TOTAL, {})).value, before.memory_bytes),
            is_mig=is_mig,
        )

    def _follow_instances(self, facts: DeviceFacts, slices: int) -> None:
        """An instance whose series vanish is kept (an idle one may have none) until the device has no room for it: then
        the geometry is another. The same number with another profile is another instance."""
        for name, part in facts.parts.items():
            size, known = profile_slices(part.profile), self._instances.get(name)
            if size is None:
                if known is None:
                    self.unknown_profiles.add(part.profile)
                continue
            self._instances[name] = _instance(name, part, size, known)
        gone = [name for name in self._instances if name not in facts.parts]
        while gone and sum(one.slices for one in self._instances.values()) > slices:
            del self._instances[gone.pop()]

    def read(self, facts: DeviceFacts | None, whole: Facts, at: ScrapeTime) -> DeviceReading:
        """One tick. `facts` None: no series of it this time, which is no reading and no loss."""
        self.scrapes += 1
        if facts is None:
            silent = tuple(InstanceReading(name, UNREAD) for name in sorted(self._instances, key=_order))
            return DeviceReading(self.identity, instances=silent)
        max_power_mw = self._max_power_mw(facts)
        power, energy, busy, memory, temperature, throttle = seen = self._readings(facts, max_power_mw)
        if pick(facts.copies.get(XID, {})).value == FALLEN_OFF_THE_BUS and power.value is None and energy.value is None:
            return lost_device(self.identity)
        activities = tuple(_activity(facts.parts.get(name)) for name in sorted(self._instances, key=_order))
        reason = self._why_not_new(facts, whole, at, (*seen, *activities))
        if reason:
            power, energy, busy, memory, temperature, throttle = (_but(reason, one) for one in seen)
            activities = tuple(_but(reason, one) for one in activities)
            self.stale_scrapes += 1
        elif energy.value is not None:
            energy = self._energy(energy.value, power, busy, facts.at_us is not None)
            if energy.value is not None:
                energy = self._counter.take(energy.value, at.monotonic_us, max_power_mw)
        instances = zip(sorted(self._instances, key=_order), activities, strict=True)
        processes, processes_reason = _processes(facts, whole)
        return DeviceReading(
            self.identity, power, energy, busy, memory, temperature, throttle,
            tuple(InstanceReading(name, activity) for name, activity in instances),
            None if reason else processes, reason or processes_reason,
        )  # fmt: skip

    def _readings(self, facts: DeviceFacts, max_power_mw: int) -> tuple[Reading, ...]:
        power = pick(facts.copies.get(POWER, {}), self._metrics.get(POWER, ""))
        busy = pick(facts.copies.get(BUSY, {}), self._metrics.get(BUSY, ""))
        if facts.is_mig and BUSY not in facts.copies:
            busy = unknown(NOT_SUPPORTED)
        if power.value is not None and not _is_plausible(power.value, busy, max_power_mw):
            power = unknown(IMPLAUSIBLE)
        bits = pick(facts.copies.get(THROTTLE, {}))
        return (
            power,
            pick(facts.copies.get(ENERGY, {}), self._metrics.get(ENERGY, "")),
            busy,
            device_memory(facts, self._metrics.get(MEMORY, "")),
            pick(facts.copies.get(TEMPERATURE, {})),
            bits if bits.value is None else Reading(_throttle(bits.value)),
        )

    def _max_power_mw(self, facts: DeviceFacts) -> int:
        """1.5 times the highest limit that is known."""
        limit_mw = pick(facts.copies.get(MAX_LIMIT, {})).value or (self._known.power_limit_mw if self._known else None)
        return limit_mw * 3 // 2 if limit_mw else MAX_POWER_MW

    def _why_not_new(self, facts: DeviceFacts, whole: Facts, at: ScrapeTime, seen: tuple[Reading, ...]) -> str:
        """STALE, or IMPLAUSIBLE for a time that has not come yet; empty where the readings may be new."""
        if whole.collected is False:
            return STALE
        if facts.at_us is not None:
            if facts.at_us > at.wall_us + _AHEAD_US:
                return IMPLAUSIBLE
            is_old = facts.at_us < at.wall_us - _OLDEST_US
            is_new = self._last_at_us is None or facts.at_us > self._last_at_us
            self._last_at_us = max(facts.at_us, self._last_at_us or 0)
            return "" if is_new and not is_old else STALE
        # no time of the exporter's own: a counter that stands while power flows, and nothing else that moved
        power, energy = seen[0].value, seen[1].value
        same = energy is not None and energy == self._last_energy_uj and seen == self._last_seen and bool(power)
        self._last_seen = seen
        return STALE if same else ""

    def _energy(self, energy_uj: int, power: Reading, busy: Reading, has_time: bool) -> Reading:
        """The counter alone may stand while the rest moves, or never have counted at all."""
        stands = energy_uj == self._last_energy_uj and bool(power.value) and not has_time
        self._last_energy_uj = energy_uj
        if stands:
            return unknown(STALE)
        return unknown(IMPLAUSIBLE) if energy_uj == 0 and power.value and busy.value else Reading(energy_uj)


def _is_plausible(power_mw: int, busy: Reading, max_power_mw: int) -> bool:
    """Not 0 (a device that answers draws something), not below 1 W while kernels run (MangoHud#1656), not above what
    it may draw."""
    if power_mw < _LOW_MW and busy.value is not None and busy.value > _HALF_PPM:
        return False
    return 0 < power_mw <= max_power_mw


def _scope(gpu_model: str) -> str:
    """What the counter covers: of Grace superchips the whole module, with CPU and memory (ml-energy/zeus#172)."""
    return "module" if _SUPERCHIP.search(gpu_model.upper()) else "gpu"


def _instance(name: str, part: PartFacts, slices: int, known: MigInstance | None) -> MigInstance:
    profile = instance_profile(part.profile)
    computes = tuple(part.compute_uuids[one] for one in sorted(part.compute_uuids, key=_order))
    total = pick(part.copies.get(MEMORY_TOTAL, {})).value
    generation = 0
    if known is not None and known.profile == profile:
        computes, generation = computes or known.compute_uuids, known.generation
        total = _first(total, known.memory_bytes)
    elif known is not None:
        generation = known.generation + 1
    return MigInstance(name, computes[0] if computes else "", profile, slices, total, generation, computes)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _order(name: str) -> tuple[int, str]:
    return (int(name), "") if name.isdecimal() else (1 << 31, name)


def _but(reason: str, reading: Reading) -> Reading:
    """Unknown for this reason, unless it was for a better one."""
    return unknown(reason) if reading.value is not None else reading


def _activity(part: PartFacts | None) -> Reading:
    """Share of the instance's own whole: DCGM's figure already is that (1.0, 0.5 and 0.33 of a 1g, 2g and 3g with one
    loaded GPC each are the same load, DCGM#138), so weights are slices times activity."""
    if part is None:
        return UNREAD
    return pick(part.copies.get(ACTIVITY) or part.copies.get(BUSY, {}))


def _throttle(bits: int) -> int:
    found = 0
    for bit, meaning in _REASON_BITS.items():
        if bits & bit:
            found |= meaning
    return found


def _processes(facts: DeviceFacts, whole: Facts) -> tuple[tuple[ProcessReading, ...] | None, str]:
    """The exporter's list, if it says how many there are and they are all there."""
    told = pick(facts.copies.get(PROCESSES, {})).value
    if told is None or not whole.processes_collected or told != len(facts.pids) or -1 in facts.pids:
        return None, NOT_READ
    listed = (
        ProcessReading(pid, UNREAD, facts.pid_memory.get(pid, UNREAD), facts.pids[pid]) for pid in sorted(facts.pids)
    )
    return tuple(listed), ""

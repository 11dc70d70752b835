"""One exposition as facts by device: every copy of a reading under its device, once. Remembers no earlier one.

dcgm-exporter repeats a device's power for each MIG instance (dcgm-exporter#317) and for each pod that shares it
(#587), with and without pod labels (#237): all are copies of one reading, never to be added.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattledger_agent.probes import scrape_dcgm, scrape_smi
from wattledger_agent.probes.reading import NOT_SUPPORTED, UNREAD, Reading, unknown
from wattledger_agent.probes.scrape_metric import (
    BUSY,
    COLLECTED,
    COLLECTED_AT,
    INDEX,
    INFO,
    MEMORY,
    MIG_INFO,
    MIG_MODE,
    MINOR,
    POWER,
    PROCESS,
    PROCESS_MEMORY,
    PROCESSES_COLLECTED,
    reading_of,
    time_us_of,
)
from wattledger_agent.probes.scrape_series import Series
from wattledger_agent.probes.scrape_text import TextSample

METRICS = {metric.name: metric for metric in scrape_dcgm.METRICS + scrape_smi.METRICS}
UTILISATION = scrape_dcgm.UTILISATION | scrape_smi.UTILISATION
Copies = dict[str, dict[str, list[Reading]]]
"""By quantity and metric: what each copy of the series reads."""


@dataclass(slots=True)
class PartFacts:
    """One MIG instance. `compute_uuids` by compute instance number."""

    profile: str = ""
    copies: Copies = field(default_factory=dict)
    compute_uuids: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class DeviceFacts:
    """All that one exposition says of one device. Empty text and -1: it does not say."""

    device: str = ""
    pci: str = ""
    index: int = -1
    minor: int = -1
    gpu_model: str = ""
    driver: str = ""
    is_mig: bool = False
    is_ambiguous: bool = False
    has_replicas: bool = False
    at_us: int | None = None
    copies: Copies = field(default_factory=dict)
    parts: dict[str, PartFacts] = field(default_factory=dict)
    owners: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    pids: dict[int, str] = field(default_factory=dict)
    pid_memory: dict[int, Reading] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The UUID; where the label is none, the PCI address if only one device can be meant; else empty."""
        return self.device or ("" if self.is_ambiguous else self.pci)


@dataclass(slots=True)
class Facts:
    """One exposition. `collected`: whether the exporter says that its own last reading went well (None: not said)."""

    devices: dict[str, DeviceFacts] = field(default_factory=dict)
    collected: bool | None = None
    processes_collected: bool | None = None
    unplaced: int = 0
    """Series that no device could be found for."""


def gather(samples: Iterable[TextSample[Series]]) -> Facts:
    """Facts of one exposition."""
    facts = Facts()
    listed = list(samples)
    keys = _keys_by_place(listed)
    collected_at_us = None
    for sample in listed:
        series = sample.series
        quantity = series.metric.quantity
        if quantity == COLLECTED:
            facts.collected = sample.value == "1"
        elif quantity == PROCESSES_COLLECTED:
            facts.processes_collected = sample.value == "1"
        elif quantity == COLLECTED_AT:
            collected_at_us = reading_of("s", sample.value).value
        else:
            key = series.key if series.device or not series.mig_uuid else keys.get((series.pci, series.gpu_index), "")
            if key:
                _add(facts.devices.setdefault(key, DeviceFacts()), sample)
            else:
                facts.unplaced += 1
    for device in facts.devices.values():
        _finish(device)
        if collected_at_us is not None and device.at_us is None:
            device.at_us = collected_at_us
    return facts


def _keys_by_place(listed: Iterable[TextSample[Series]]) -> Mapping[tuple[str, int], str]:
    """Devices by PCI address and index: a series that names only a MIG UUID is found by them."""
    return {(one.series.pci, one.series.gpu_index): one.series.key for one in listed if one.series.device}


def _add(device: DeviceFacts, sample: TextSample[Series]) -> None:
    series = sample.series
    _describe(device, series)
    quantity = series.metric.quantity
    if quantity == PROCESS:
        device.pids[series.pid] = series.instance
        return
    if quantity == PROCESS_MEMORY:
        device.pid_memory[series.pid] = reading_of("B", sample.value)
        return
    part = device.parts.setdefault(series.instance, PartFacts()) if _is_part(series) else None
    if part is not None:
        part.profile = series.profile or part.profile
        if series.mig_uuid:
            part.compute_uuids[series.compute or "0"] = series.mig_uuid
    if quantity in (INFO, MIG_INFO):
        return
    copies = part.copies if part is not None and series.metric.of_part else device.copies
    reading = reading_of(series.metric.unit, sample.value)
    copies.setdefault(quantity, {}).setdefault(series.metric.name, []).append(reading)
    at_us = time_us_of(sample.time)
    if at_us is not None:
        device.at_us = max(at_us, device.at_us or 0)


def _is_part(series: Series) -> bool:
    return series.instance != "" and series.metric.quantity not in (PROCESS, PROCESS_MEMORY)


def _describe(device: DeviceFacts, series: Series) -> None:
    device.device = device.device or series.device
    told = (device.pci, series.pci), (device.index, series.gpu_index)
    if any(before not in ("", -1) and now not in ("", -1) and before != now for before, now in told):
        device.is_ambiguous = True
    device.pci = device.pci or series.pci
    device.index = series.gpu_index if device.index < 0 else device.index
    device.gpu_model = device.gpu_model or series.gpu_model
    device.driver = device.driver or series.driver
    device.has_replicas |= series.is_replica
    if series.owner and not series.instance:
        device.owners.add(series.owner)
    if series.host:
        device.hosts.add(series.host)


def _finish(device: DeviceFacts) -> None:
    """MIG mode, and what it takes away."""
    device.is_mig = bool(device.parts) or pick(device.copies.get(MIG_MODE, {})).value == 1
    if device.minor < 0:
        device.minor = _number(device, MINOR)
    if device.index < 0:
        device.index = _number(device, INDEX)
    if device.is_mig and BUSY in device.copies:
        # 0 under full load: no reading at all, whatever it says
        for name in UTILISATION & device.copies[BUSY].keys():
            device.copies[BUSY][name] = [unknown(NOT_SUPPORTED)]
    for part in device.parts.values():
        for name in UTILISATION & part.copies.get(BUSY, {}).keys():
            part.copies[BUSY][name] = [unknown(NOT_SUPPORTED)]


def _number(device: DeviceFacts, quantity: str) -> int:
    value = pick(device.copies.get(quantity, {})).value
    return -1 if value is None else value


def pick(metrics: Mapping[str, list[Reading]], prefer: str = "") -> Reading:
    """One reading of several metrics of one quantity: of the preferred one, else of the best that has a value."""
    if prefer in metrics:
        return _as_one(prefer, metrics[prefer])
    readings = [_as_one(name, metrics[name]) for name in sorted(metrics, key=_rank)]
    return next((one for one in readings if one.value is not None), readings[0] if readings else UNREAD)


def best_metric(metrics: Mapping[str, list[Reading]]) -> str:
    """The metric that `pick` takes; empty: there is none."""
    names = sorted(metrics, key=_rank)
    return next((name for name in names if _as_one(name, metrics[name]).value is not None), names[0] if names else "")


def _rank(name: str) -> int:
    return METRICS[name].rank


def _as_one(name: str, copies: list[Reading]) -> Reading:
    """Copies of one reading, made one after another. Power: the middle one, so that neither the order nor one bad copy
    counts. Anything else: the highest, which of a counter is the newest."""
    if len(copies) == 1:
        return copies[0]
    values = sorted(copy.value for copy in copies if copy.value is not None)
    if not values:
        return copies[0]
    if METRICS[name].quantity != POWER:
        return Reading(values[-1])
    middle = len(values) // 2
    return Reading(values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) // 2)


def device_memory(device: DeviceFacts, prefer: str) -> Reading:
    """Memory in use: the device's own, else of a device in MIG mode the sum of its instances, if each has a value."""
    if MEMORY in device.copies or not device.parts:
        return pick(device.copies.get(MEMORY, {}), prefer)
    each = [pick(part.copies.get(MEMORY, {}), prefer) for part in device.parts.values()]
    values = [one.value for one in each if one.value is not None]
    return Reading(sum(values)) if len(values) == len(each) else next(one for one in each if one.value is None)

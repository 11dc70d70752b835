"""The AMD SMI probe: finds the devices, reads each once a tick, says what changed. Sets nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import structlog

from wattledger_agent.clock import Clock
from wattledger_agent.probes.amd_device import AmdDevice, Outcome, facts_of
from wattledger_agent.probes.amd_energy import CounterTrack
from wattledger_agent.probes.amd_library import GROUPS, KFD, AmdLibrary, load_wrapper, open_library
from wattledger_agent.probes.amd_metrics import NOTHING, Metrics
from wattledger_agent.probes.amd_partition import Place, grouped, partitions_of, places
from wattledger_agent.probes.amd_power import Power, choose_power
from wattledger_agent.probes.amd_value import number, text
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import DeviceReading, ProbeTick, lost_device

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
MODULE: Final = Path("/sys/module/amdgpu")
_GEOMETRY_TICKS: Final = 30


class AmdSmiProbe:
    """`load` imports the wrapper; `boot_id` and `module` are files that name the boot and the driver's load (a reload
    makes a new folder); the process list, which costs most, is read each `processes_every` ticks."""

    name = "amdsmi"

    def __init__(
        self,
        clock: Clock,
        load: Callable[[], ModuleType] = load_wrapper,
        boot_id: Path = BOOT_ID,
        module: Path = MODULE,
        kfd: Path = KFD,
        processes_every: int = 5,
    ) -> None:
        self._clock = clock
        self._load = load
        self._boot_id = boot_id
        self._module = module
        self._kfd = kfd
        self._processes_every = processes_every
        self._library: AmdLibrary | None = None
        self._devices: list[AmdDevice] = []
        self._run = self._opened = ""
        self._modes: dict[str, str] = {}
        self._notes: dict[tuple[str, str], str] = {}
        self._told: list[tuple[str, str, int | None]] = []
        self._tracks: dict[str, CounterTrack] = {}
        self._ticks = 0
        self._log = structlog.get_logger()

    def open(self) -> None:
        """Load and check the library, find the devices. Raises ProbeUnavailable."""
        self.close()
        self._library, handles = open_library(self._load, self._kfd)
        self._run = f"{_line(self._boot_id) or 'boot'}/{_load_mark(self._module)}"
        self._opened = str(self._clock.wall_us())
        self._notes = {}
        self._ticks = 0
        try:
            self._find(self._library, handles)
        except ProbeUnavailable:
            self.close()
            raise
        self._told = self._state()

    def inventory(self) -> Inventory:
        """The devices as they are set up, each with the run of its counter."""
        self._told = self._state()
        notes = tuple(f"{subject}: {said}" for (subject, _), said in self._notes.items() if said)
        return Inventory(self._described(), notes, self._library.name if self._library else "")

    def read(self) -> ProbeTick:
        """Every device once. Raises ProbeUnavailable when the library or the driver does not answer any more."""
        if self._library is None:
            raise ProbeUnavailable("the AMD SMI probe is not open", "it is opened again")
        self._ticks += 1
        if self._ticks % _GEOMETRY_TICKS == 0:
            if self._modes_now() != self._modes:
                self.open()  # handles of another partitioning are stale
                return ProbeTick(self._read_all(), inventory_changed=True)
            for device in self._devices:
                device.read_limit()
        readings = self._read_all()
        return ProbeTick(readings, inventory_changed=self._state() != self._told)

    def close(self) -> None:
        if self._library is not None:
            self._library.shut_down()
        self._library, self._devices = None, []

    def _read_all(self) -> tuple[DeviceReading, ...]:
        at_us = round(self._clock.monotonic_s() * 1_000_000)
        with_processes = self._ticks % self._processes_every == 0 or self._ticks == 1
        tables = self._tables()
        tracks = [device.track for device in self._devices if device.place.reports_power]
        outcomes = []
        for device in self._devices:
            others = (track for track in tracks if track is not device.track)
            outcomes.append(device.read(at_us, others, tables.get(device.place.socket, NOTHING), with_processes))
        if all(outcome.gone and not outcome.not_found for outcome in outcomes):
            raise ProbeUnavailable("no AMD device answers any call", "see `dmesg | grep amdgpu`; the probe tries again")
        return tuple(self._settled(*pair) for pair in zip(self._devices, outcomes, strict=True))

    def _settled(self, device: AmdDevice, outcome: Outcome) -> DeviceReading:
        """What is told of one device. A lost one gives nothing; if it comes back, its counter runs anew."""
        if outcome.gone != device.lost:
            device.lost = outcome.gone
            self._log.warning("amd_device_lost" if device.lost else "amd_device_back", device=device.place.device)
            if device.lost:
                device.track.restart()
        for about, said in outcome.notes.items():
            self._note(device.place.device, about, said)
        return lost_device(device.place.device) if outcome.gone else outcome.reading

    def _tables(self) -> Mapping[str, Metrics]:
        """The gpu_metrics table of each socket that is divided: read once, by the partition that reports for it."""
        tables: dict[str, Metrics] = {}
        assert self._library is not None
        for device in self._devices:
            if device.facts.partitions > 1 and device.place.reports_power:
                tables[device.place.socket], _ = self._library.metrics(device.place.handle, device.facts.partitions)
        return tables

    def _find(self, library: AmdLibrary, handles: list[object]) -> None:
        found = places(library, handles)
        if not found:
            raise ProbeUnavailable("AMD SMI gives no PCI address of any GPU", GROUPS)
        powers = {place.device: _power_now(library, place) for place in found}
        found = grouped(found, lambda place: powers[place.device].reading.value is not None)
        self._modes = {place.socket: _mode(library, place) for place in found if place.reports_power}
        self._devices = [self._device(library, place, index, found) for index, place in enumerate(found)]
        for device in self._devices:
            device.power_field = powers[device.place.device].field if device.place.reports_power else ""
        followed = {id(device.track) for device in self._devices}
        self._tracks = {key: track for key, track in self._tracks.items() if id(track) in followed}

    def _device(self, library: AmdLibrary, place: Place, index: int, found: list[Place]) -> AmdDevice:
        members = sum(one.socket == place.socket and one.pci[:-2] == place.pci[:-2] for one in found)
        mode = self._modes.get(place.socket, "")
        metrics, _ = library.metrics(place.handle)
        engines = None
        if mode.startswith("CPX"):
            engines = number(library.ask("amdsmi_get_gpu_xcd_counter", place.handle).value)
        expected = partitions_of(mode.split("/")[0], metrics.numbers.get("num_partition"), engines) or members
        if members < expected and place.reports_power:
            said = f"{mode} has {expected} partitions, AMD SMI shows {members}: the rest of the socket is not seen"
            self._note(place.device, "partitions", said)
        facts = facts_of(library, place, index, max(expected, members), mode)
        key = f"{self._run}/{place.device}/{facts.driver}/{mode}"
        # A counter that the same driver load goes on with is followed over a close and open.
        track = self._tracks.get(key) or CounterTrack(facts.most_mw, metrics.is_32_bit)
        self._tracks[key] = track
        return AmdDevice(library, place, facts, track)

    def _modes_now(self) -> dict[str, str]:
        assert self._library is not None
        reporting = [device.place for device in self._devices if device.place.reports_power]
        return {place.socket: _mode(self._library, place) or self._modes[place.socket] for place in reporting}

    def _described(self) -> tuple[Device, ...]:
        sockets = [device.place.socket for device in self._devices]
        return tuple(
            _described(device, sockets.count(device.place.socket), self._epoch(device)) for device in self._devices
        )

    def _state(self) -> list[tuple[str, str, int | None]]:
        """What of the inventory may change while the handles stay."""
        return [(self._epoch(device), device.power_field, device.facts.limit_mw) for device in self._devices]

    def _epoch(self, device: AmdDevice) -> str:
        """A 32-bit counter's wraps are counted since `open` only, so that its run begins there."""
        if not device.place.reports_power:
            return ""
        begun = f"/{self._opened}" if device.track.wraps else ""
        return f"{self._run}/{device.facts.driver}/{device.facts.mode}{begun}/{device.track.run}"

    def _note(self, subject: str, about: str, said: str) -> None:
        """Kept while it holds; logged once from one opening to the next, however often it comes and goes."""
        if said and (subject, about) not in self._notes:
            self._log.warning("amd_device_odd", device=subject, about=about, detail=said)
        if said or (subject, about) in self._notes:
            self._notes[subject, about] = said


def _described(device: AmdDevice, members: int, epoch: str) -> Device:
    place, facts = device.place, device.facts
    shared = members > 1 or facts.partitions > 1
    return Device(
        device=place.device,
        vendor="amd",
        gpu_model=place.model,
        driver=facts.driver,
        index=facts.index,
        minor=facts.minor,
        pci=place.pci,
        socket=place.socket if shared else "",
        slices=1,
        counter_epoch=epoch,
        counter_scope=("socket" if shared else "gpu") if place.reports_power else "",
        power_field=f"amdsmi.{device.power_field}" if device.power_field else "",
        power_limit_mw=facts.limit_mw,
        memory_bytes=facts.memory_bytes,
    )


def _power_now(library: AmdLibrary, place: Place) -> Power:
    info, answer = library.power(place.handle)
    metrics, _ = library.metrics(place.handle)
    return choose_power(info, metrics, answer.reason)


def _mode(library: AmdLibrary, place: Place) -> str:
    """Compute and memory partitioning, `CPX/NPS4`; empty where the card knows none."""
    compute = text(library.ask("amdsmi_get_gpu_compute_partition", place.handle).value)
    memory = text(library.ask("amdsmi_get_gpu_memory_partition", place.handle).value)
    return f"{compute}/{memory}" if compute or memory else ""


def _load_mark(module: Path) -> str:
    """Names one load of the driver: the kernel numbers a module's folder anew each time that it is loaded."""
    try:
        return str(module.stat().st_ino)
    except OSError:
        return "driver"


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

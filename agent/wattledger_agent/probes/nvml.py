"""The NVML probe: NVIDIA cards through nvidia-ml-py. Keeps what is known of each card over re-openings; reads only."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from wattledger_agent.clock import Clock
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.nvml_card import Card, CardMemory
from wattledger_agent.probes.nvml_facts import find_facts
from wattledger_agent.probes.nvml_library import (
    NvmlFailure,
    NvmlLibrary,
    close_library,
    import_pynvml,
    load_library,
)
from wattledger_agent.probes.nvml_power import UNMEASURED, power_meaning
from wattledger_agent.probes.nvml_values import DRIVER_NOT_LOADED_CODE, GONE, reason_of
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import GPU_LOST, UNKNOWN_ERROR, DeviceReading, ProbeTick, lost_device

_LOOK_S = 5.0
"""How often what changes seldom is asked for: MIG mode, MPS, limits, lost and unreadable cards."""
_INITIALISE_S = 300.0
"""How often NVML is initialised anew while a card is missing: a card that was reset may need it."""


class NvmlProbe:
    """NVIDIA cards. `machine`: the root under which the host's proc and sys lie. `binding` gives the pynvml module.

    Counter epochs, MIG generations and lost cards outlive `close`, so that one object sees a driver reload.
    """

    name = "nvml"

    def __init__(
        self, clock: Clock, machine: Path = Path("/"), binding: Callable[[], ModuleType] = import_pynvml
    ) -> None:
        self._clock, self._machine, self._binding = clock, machine, binding
        self._library: NvmlLibrary | None = None
        self._cards: list[Card] = []
        self._memories: dict[str, CardMemory] = {}
        self._missing: dict[str, Device] = {}
        self._unreadable: dict[int, str] = {}
        self._changed = False
        self._look_at_s = 0.0
        self._initialise_at_s = 0.0

    def open(self) -> None:
        """Load NVML, find the cards. A card that does not answer is noted and tried again later; raises
        ProbeUnavailable where none does."""
        if self._library is not None:
            return
        try:
            library = load_library(self._binding, self._machine)
        except ProbeUnavailable as failed:
            self._begin_anew_if_unloaded(failed)
            raise
        self._library = library
        try:
            self._find_cards(library)
        except ProbeUnavailable:
            self.close()
            raise
        now_s = self._clock.monotonic_s()
        self._look_at_s, self._initialise_at_s = now_s + _LOOK_S, now_s + _INITIALISE_S
        self._changed = True

    def inventory(self) -> Inventory:
        """Cards that answer and cards that are lost, by NVML's index."""
        library = self._opened()
        self._changed = False
        devices = [card.device(library.driver) for card in self._cards] + list(self._missing.values())
        devices.sort(key=lambda device: (device.index, device.device))
        return Inventory(tuple(devices), self._notes(library), str(library))

    def read(self) -> ProbeTick:
        """Every card once. Raises ProbeUnavailable where the driver is gone or every card fails without a name for
        it."""
        self._opened()
        now_s, now_us = self._clock.monotonic_s(), self._clock.wall_us()
        try:
            if now_s >= self._look_at_s:
                self._look_at_s = now_s + _LOOK_S
                self._look(now_s)
            readings = [self._read_card(card, now_s, now_us) for card in self._cards]
        except ProbeUnavailable as failed:
            self._begin_anew_if_unloaded(failed)
            raise
        alive = [reading for reading in readings if not reading.lost]
        if alive and all(map(_says_nothing, alive)):
            raise ProbeUnavailable("every NVIDIA card answers with an unknown error", "NVML is initialised again")
        readings += [lost_device(device) for device in self._missing]
        return ProbeTick(tuple(readings), (), self._changed)

    def _read_card(self, card: Card, now_s: float, now_us: int) -> DeviceReading:
        reading, differs = card.read(now_s, now_us)
        self._changed |= differs
        return reading

    def close(self) -> None:
        """Give back GPM buffers and the library. What is known of the cards stays."""
        library, self._library = self._library, None
        if library is None:
            return
        try:
            for card in self._cards:
                card.memory.mig.close(library)
        except ProbeUnavailable:
            # The driver is gone, and the buffers with it.
            pass
        # Whoever is not found at the next opening is reported as lost.
        self._missing |= {card.facts.uuid: card.device(library.driver) for card in self._cards}
        self._cards = []
        close_library(library)

    def _opened(self) -> NvmlLibrary:
        if self._library is None:
            raise ProbeUnavailable("the NVML probe is not open", "open it first")
        return self._library

    def _find_cards(self, library: NvmlLibrary) -> None:
        self._unreadable = {}
        try:
            count = library.call("nvmlDeviceGetCount")
        except NvmlFailure as failed:
            raise ProbeUnavailable(f"NVML does not say how many cards there are ({failed})", "see dmesg") from failed
        boot = self._boot_id()
        for index in range(count):
            self._find_card(library, index, f"{boot}/{library.driver}")
        told = "; ".join(f"index {index}: {why}" for index, why in self._unreadable.items())
        lost = self._missing and all(why.startswith(tuple(GONE)) for why in self._unreadable.values())
        if not self._cards and not lost:
            what = f"no NVIDIA card answers ({told})" if told else "NVML finds no NVIDIA card"
            raise ProbeUnavailable(what, "see what `nvidia-smi` and dmesg say", absent=not told)

    def _find_card(self, library: NvmlLibrary, index: int, machine: str) -> None:
        """Add the card at `index`, or note why not."""
        try:
            handle = library.call("nvmlDeviceGetHandleByIndex", index)
            facts = find_facts(library, handle, index)
            if any(card.facts.uuid == facts.uuid for card in self._cards):
                self._unreadable[index] = f"it has the UUID of another card, {facts.uuid}"
                return
            memory = self._memories.get(facts.uuid)
            if memory is None:
                capabilities = self._machine / f"proc/driver/nvidia/capabilities/gpu{facts.minor}/mig"
                memory = self._memories[facts.uuid] = CardMemory(machine, capabilities)
            memory.counter.run_under(machine)
            self._cards.append(Card(library, handle, facts, memory))
        except NvmlFailure as failed:
            self._unreadable[index] = f"{reason_of(failed.code)} ({failed})"
            return
        self._missing.pop(facts.uuid, None)
        self._unreadable.pop(index, None)

    def _look(self, now_s: float) -> None:
        """What changes seldom, and cards that were lost or did not answer."""
        library = self._opened()
        for card in self._cards:
            self._changed |= card.back() if card.lost else card.look_again()
        known = len(self._cards)
        for index in list(self._unreadable):
            self._find_card(library, index, f"{self._boot_id()}/{library.driver}")
        self._changed |= len(self._cards) != known
        if now_s >= self._initialise_at_s and (self._missing or any(card.lost for card in self._cards)):
            self.close()
            self.open()

    def _begin_anew_if_unloaded(self, failed: ProbeUnavailable) -> None:
        """Without a driver no card counts: once it is loaded, each begins anew."""
        if getattr(failed.__cause__, "value", None) == DRIVER_NOT_LOADED_CODE:
            for memory in self._memories.values():
                memory.counter.begin_anew()

    def _boot_id(self) -> str:
        try:
            return (self._machine / "proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            return "unknown-boot"

    def _notes(self, library: NvmlLibrary) -> tuple[str, ...]:
        """What is odd here and what to do about it."""
        notes = [f"The card at NVML index {index} is not read: {why}." for index, why in self._unreadable.items()]
        if not library.binding_version:
            notes.append("The version of nvidia-ml-py is unknown: its package metadata is missing. Install it by pip.")
        for card in self._cards:
            facts = card.facts
            where = f"{facts.model} {facts.uuid}"
            meaning = power_meaning(
                facts.power.power, facts.architecture, facts.pci_device_id, facts.model, library.driver
            )
            if card.lost:
                notes.append(f"{where} is lost ({card.lost}). Drain the node, reset the card or reboot; see dmesg.")
            elif not facts.power.power:
                notes.append(f"{where} tells no power.")
            elif meaning.known_by == UNMEASURED:
                notes.append(f"{where}: over which window {facts.power.power} averages was not measured.")
            if facts.is_module:
                notes.append(
                    f"{where}: its energy counter covers the whole module (CPU, GPU, memory), its power the GPU."
                )
        notes += [f"{uuid} is lost ({GPU_LOST}): NVML no longer lists it." for uuid in self._missing]
        return tuple(notes)


def _says_nothing(reading: DeviceReading) -> bool:
    """Nothing but unknown errors."""
    told = (reading.power_mw, reading.energy_uj, reading.memory_used_bytes, reading.temperature_c)
    return all(each.reason == UNKNOWN_ERROR for each in told)

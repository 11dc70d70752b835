"""One NVIDIA card: what it is, and one reading of all of it. Knows nothing of other cards."""

from pathlib import Path
from typing import Any

from wattledger_agent.probes import nvml_values as values
from wattledger_agent.probes.device import Device
from wattledger_agent.probes.nvml_counter import CounterRun
from wattledger_agent.probes.nvml_facts import GPU_TEMPERATURE, CardFacts
from wattledger_agent.probes.nvml_library import NvmlFailure, NvmlLibrary
from wattledger_agent.probes.nvml_mig import MOST_INSTANCES, MigInstances
from wattledger_agent.probes.nvml_power import power_meaning
from wattledger_agent.probes.nvml_processes import ProcessReader
from wattledger_agent.probes.reading import (
    GPU_LOST,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    DeviceReading,
    Reading,
    lost_device,
    unknown,
)

_WHOLE_CARD_SLICES = 7
_SHARING_MIG, _SHARING_MPS, _SHARING_NONE = "mig", "mps", "exclusive"


class CardMemory:
    """What is known of a card beyond one opening of the library: its counter's run, its instances, its processes."""

    def __init__(self, machine: str, capabilities: Path) -> None:
        self.counter = CounterRun(machine)
        self.mig = MigInstances(capabilities)
        self.processes = ProcessReader()


class Card:
    """A card with its handle. `lost` is the reason once the driver says that it is gone."""

    def __init__(self, library: NvmlLibrary, handle: Any, facts: CardFacts, memory: CardMemory) -> None:
        self.library, self.handle, self.facts, self.memory = library, handle, facts, memory
        self.lost = ""
        self._is_mig = False
        self._slices = _WHOLE_CARD_SLICES
        self._limit_mw: int | None = None
        self.memory.mig.ask_gpm(library, handle)
        self.look()

    def look(self) -> bool:
        """The things that change seldom: MIG mode and geometry, MPS, the limit in force. Returns whether `device()`
        differs. Raises NvmlFailure."""
        before = self._is_mig, self._limit_mw, self.memory.processes.mps
        mig = self.memory.mig
        is_mig = self._mig_mode()
        moved = mig.find(self.library, self.handle) if is_mig else mig.forget(self.library)
        self._is_mig = is_mig
        most = self.library.attempt("nvmlDeviceGetMaxMigDeviceCount", self.handle) if is_mig else None
        self._slices = most if most and most <= MOST_INSTANCES else _WHOLE_CARD_SLICES
        limit = self.library.attempt("nvmlDeviceGetEnforcedPowerLimit", self.handle)
        self._limit_mw = None if limit is None else values.number(limit).value
        self.memory.processes.find_mps(self.library, self.handle)
        return moved or before != (is_mig, self._limit_mw, self.memory.processes.mps)

    def _mig_mode(self) -> bool:
        try:
            return bool(self.library.call("nvmlDeviceGetMigMode", self.handle)[0])
        except NvmlFailure as failed:
            if values.reason_of(failed.code) != NOT_SUPPORTED:
                raise
            return False

    def device(self, driver: str) -> Device:
        """The card as the inventory has it."""
        facts, mig = self.facts, self.memory.mig
        meaning = power_meaning(facts.power.power, facts.architecture, facts.pci_device_id, facts.model, driver)
        shared = _SHARING_MPS if self.memory.processes.mps else _SHARING_NONE
        return Device(
            device=facts.uuid,
            vendor="nvidia",
            gpu_model=facts.model,
            driver=driver,
            index=facts.index,
            minor=facts.minor,
            pci=facts.pci,
            slices=self._slices,
            sharing=_SHARING_MIG if self._is_mig else shared,
            instances=mig.instances if self._is_mig else (),
            counter_epoch=self.memory.counter.epoch,
            counter_scope="module" if facts.is_module else "gpu",
            power_field=facts.power.power,
            power_window_us=meaning.window_us,
            power_refresh_us=meaning.refresh_us,
            power_limit_mw=self._limit_mw,
            memory_bytes=facts.memory_bytes or None,
            is_mig=self._is_mig,
        )

    def read(self, now_s: float, now_us: int) -> tuple[DeviceReading, bool]:
        """(the card now, whether `device()` differs from before). Never raises NvmlFailure."""
        if self.lost:
            return lost_device(self.facts.uuid, self.lost), False
        epoch = self.memory.counter.epoch
        moved = self._is_mig and self.memory.mig.moved() and self.look_again()
        if not self.lost:
            try:
                reading = self._read(now_s, now_us)
                return reading, moved or self.memory.counter.epoch != epoch
            except NvmlFailure as failed:
                self.lose(values.reason_of(failed.code))
        return lost_device(self.facts.uuid, self.lost), moved

    def look_again(self) -> bool:
        """`look`, where a failure leaves everything as it was, or means that the card is gone."""
        try:
            return self.look()
        except NvmlFailure as failed:
            if values.reason_of(failed.code) in values.GONE:
                self.lose(values.reason_of(failed.code))
            return False

    def lose(self, reason: str) -> None:
        """The card is gone, for that reason; once found again it counts anew."""
        self.lost = reason
        self.memory.counter.begin_anew()

    def back(self) -> bool:
        """Whether a lost card answers again."""
        handle = self.library.attempt("nvmlDeviceGetHandleByUUID", self.facts.uuid)
        if handle is None:
            return False
        try:
            readings = self.facts.power.read(self.library, handle)
            if any(reading.reason in values.GONE for reading in readings):
                return False
            self.handle, self.lost = handle, ""
            self.look()
        except NvmlFailure:
            self.lose(GPU_LOST)
        return not self.lost

    def _read(self, now_s: float, now_us: int) -> DeviceReading:
        """Raises NvmlFailure only where the card is gone."""
        facts = self.facts
        try:
            raw_power, raw_energy = facts.power.read(self.library, self.handle)
        except NvmlFailure as failed:
            raw_power = raw_energy = self._reason(failed)
        self._stop_if_gone(raw_power, raw_energy)
        busy = unknown(NOT_SUPPORTED) if self._is_mig else self._busy()
        counted = values.energy_under_load(values.energy_uj(raw_energy), busy)
        processes, reason = self.memory.processes.read(
            self.library, self.handle, self.memory.mig.handles, self._is_mig, facts.memory_bytes, now_us
        )
        if reason in values.GONE:
            raise NvmlFailure("processes", 16 if reason == RESET_REQUIRED else 15)
        return DeviceReading(
            device=facts.uuid,
            power_mw=values.power_under_load(values.power_mw(raw_power, facts.max_limit_mw), busy),
            energy_uj=self.memory.counter.take(counted, now_s, facts.draws_at_most_mw),
            busy_ppm=busy,
            memory_used_bytes=self._memory(),
            temperature_c=self._temperature(),
            throttle=self._throttle(),
            instances=self.memory.mig.read(self.library, self.handle, now_s) if self._is_mig else (),
            processes=processes,
            processes_reason=reason,
        )

    def _busy(self) -> Reading:
        try:
            return values.share_ppm(self.library.call("nvmlDeviceGetUtilizationRates", self.handle).gpu)
        except NvmlFailure as failed:
            return self._reason(failed)

    def _memory(self) -> Reading:
        facts = self.facts
        try:
            found = self.library.call("nvmlDeviceGetMemoryInfo", self.handle, facts.memory_version)
        except NvmlFailure as failed:
            return self._reason(failed)
        return values.memory_bytes(found.used, found.total)

    def _temperature(self) -> Reading:
        try:
            raw = self.library.call(self.facts.temperature_function, self.handle, GPU_TEMPERATURE)
            return values.temperature_c(raw)
        except NvmlFailure as failed:
            return self._reason(failed)

    def _throttle(self) -> Reading:
        try:
            return values.throttle(self.library.call(self.facts.throttle_function, self.handle))
        except NvmlFailure as failed:
            return self._reason(failed)

    @staticmethod
    def _reason(failed: NvmlFailure) -> Reading:
        """The failure as a reading; raises it again where it means that the whole card is gone."""
        reason = values.reason_of(failed.code)
        if reason in values.GONE:
            raise failed
        return unknown(reason)

    @staticmethod
    def _stop_if_gone(*readings: Reading) -> None:
        """A card may be lost between two fields of one call."""
        for reading in readings:
            if reading.reason in values.GONE:
                raise NvmlFailure("field", 16 if reading.reason == RESET_REQUIRED else 15)

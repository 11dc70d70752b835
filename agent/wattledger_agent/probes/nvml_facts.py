"""What an NVIDIA card is: identity, address, model, limits, and by which calls it is read. Asked once an opening."""

from dataclasses import dataclass
from typing import Any

from wattledger_agent.probes.nvml_library import NvmlLibrary
from wattledger_agent.probes.nvml_power import PowerSource, find_power_source
from wattledger_agent.probes.nvml_values import MOST_BYTES, number

GPU_TEMPERATURE = 0
"""NVML_TEMPERATURE_GPU."""
_HIGHEST_MINOR = (1 << 20) - 1
"""Linux' limit; all ones stand for none."""
_DRAWS_AT_MOST_MW = 10_000_000
"""Where no limit is known, and for counters of a whole module: more than any module draws."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What does not change while the library stays open."""

    uuid: str
    index: int
    minor: int
    pci: str
    pci_device_id: int
    model: str
    architecture: int
    is_module: bool
    memory_bytes: int
    memory_version: int | None
    max_limit_mw: int | None
    throttle_function: str
    temperature_function: str
    power: PowerSource

    @property
    def draws_at_most_mw(self) -> int:
        """The counter can't rise faster."""
        if self.max_limit_mw is None or self.is_module:
            return _DRAWS_AT_MOST_MW
        return self.max_limit_mw * 3 // 2


def find_facts(library: NvmlLibrary, handle: Any, index: int) -> CardFacts:
    """Ask a card what it is. Raises NvmlFailure where it can't even be identified or does not answer."""
    pci = library.attempt("nvmlDeviceGetPciInfo", handle)
    address = "" if pci is None else f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"
    uuid = library.attempt("nvmlDeviceGetUUID", handle) or address
    if not uuid:
        uuid = library.call("nvmlDeviceGetUUID", handle)
    minor = library.attempt("nvmlDeviceGetMinorNumber", handle)
    link = library.attempt("nvmlDeviceGetC2cModeInfoV", handle)
    limits = library.attempt("nvmlDeviceGetPowerManagementLimitConstraints", handle)
    version = library.binding.nvmlMemory_v2
    memory = library.attempt("nvmlDeviceGetMemoryInfo", handle, version)
    if memory is None:
        # Drivers before R510 have no second version, and their first one does not count what they reserve.
        version, memory = None, library.attempt("nvmlDeviceGetMemoryInfo", handle)
    throttle = "nvmlDeviceGetCurrentClocksEventReasons"
    if library.attempt(throttle, handle) is None:
        throttle = "nvmlDeviceGetCurrentClocksThrottleReasons"
    temperature = "nvmlDeviceGetTemperatureV"
    if library.attempt(temperature, handle, GPU_TEMPERATURE) is None:
        temperature = "nvmlDeviceGetTemperature"
    total = number(memory.total).value if memory is not None and memory.total <= MOST_BYTES else None
    return CardFacts(
        uuid=uuid,
        index=index,
        minor=-1 if minor is None or minor > _HIGHEST_MINOR else int(minor),
        pci=address,
        pci_device_id=0 if pci is None else int(pci.pciDeviceId),
        model=library.attempt("nvmlDeviceGetName", handle) or "",
        architecture=library.attempt("nvmlDeviceGetArchitecture", handle) or 0,
        is_module=bool(link is not None and link.isC2cEnabled),
        memory_bytes=total or 0,
        memory_version=version if memory is not None else library.binding.nvmlMemory_v2,
        # Virtual and mobile cards may name a limit of 0, which is none.
        max_limit_mw=(number(limits[1]).value if limits else None) or None,
        throttle_function=throttle,
        temperature_function=temperature,
        power=find_power_source(library, handle),
    )

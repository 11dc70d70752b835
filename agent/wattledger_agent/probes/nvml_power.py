"""What a card's power and energy readings are: which field, over which window, renewed how often. Reads them in one
call."""

import re
from dataclasses import dataclass
from typing import Any

from wattledger_agent.probes.nvml_library import NvmlFailure, NvmlLibrary
from wattledger_agent.probes.nvml_values import field_number, number, reason_of
from wattledger_agent.probes.reading import NOT_SUPPORTED, Reading, unknown

AVERAGE, INSTANT, USAGE = "nvml.average", "nvml.instant", "nvml.power_usage"
KEPLER, MAXWELL, PASCAL, VOLTA, TURING, AMPERE, ADA, HOPPER, BLACKWELL = range(2, 11)
MEASURED, DOCUMENTED, UNMEASURED = "measured", "documented", "unmeasured"

POWER_AVERAGE_FIELD, POWER_INSTANT_FIELD, ENERGY_FIELD = 185, 186, 83
_FIELD_IDS = {AVERAGE: POWER_AVERAGE_FIELD, INSTANT: POWER_INSTANT_FIELD}
_GPU_SCOPE = 0
_GA100_IDS = range(0x2080, 0x2100)
_GA100_NAMES = re.compile(r"\b(A100X?|A30X?|A800|CMP 170HX)\b")
_FIELDS, _USAGE, _ENERGY = (
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
)
_ODD_DRIVER = 530
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class PowerMeaning:
    """What a power reading averages over and how often it is renewed, µs; None: unknown. `known_by`: measured on this
    kind of card, documented by the vendor, or unmeasured."""

    window_us: int | None
    refresh_us: int | None
    known_by: str


_UNKNOWN_MEANING = PowerMeaning(None, None, UNMEASURED)
_SECOND = PowerMeaning(_SECOND_US, 100_000, MEASURED)
_SECOND_BY_VENDOR = PowerMeaning(_SECOND_US, None, DOCUMENTED)
_HUNDRED = PowerMeaning(100_000, 100_000, MEASURED)


def power_meaning(field: str, architecture: int, pci_device_id: int, model: str, driver: str) -> PowerMeaning:
    """Window and refresh of `field`.

    Source: the "Result Matrix" of Yang, Adamek, Armour, "Accurate and Convenient Energy Measurements for GPUs" (SC24,
    arXiv 2312.02741), and NVIDIA's text for nvmlDeviceGetPowerUsage (1 s average on Ampere except GA100 and newer).
    Cards outside the matrix have what the vendor documents, or nothing.
    """
    major = _major(driver)
    if is_ga100(pci_device_id, model) and architecture == AMPERE:
        return PowerMeaning(25_000, 100_000, MEASURED) if field != AVERAGE else _UNKNOWN_MEANING
    if architecture in (AMPERE, ADA):
        if field == INSTANT or (field == USAGE and major == _ODD_DRIVER):
            return _HUNDRED if _in_matrix(architecture, model) else _UNKNOWN_MEANING
        return _SECOND if _in_matrix(architecture, model) else _SECOND_BY_VENDOR
    if architecture >= HOPPER:
        return _newer(field, architecture, model, major)
    if field == AVERAGE:
        return _UNKNOWN_MEANING
    if architecture == TURING:
        return PowerMeaning(20_000, 100_000, MEASURED) if "RTX 8000" in model else _HUNDRED
    if architecture in (VOLTA, PASCAL):
        return PowerMeaning(10_000, 20_000, MEASURED)
    # Maxwell and Kepler pass power through a low-pass filter: no window says what they show.
    return _UNKNOWN_MEANING


def _newer(field: str, architecture: int, model: str, major: int) -> PowerMeaning:
    measured = architecture == HOPPER and "H100" in model
    if field == INSTANT:
        return PowerMeaning(25_000, 100_000, MEASURED) if measured else _UNKNOWN_MEANING
    if field == USAGE and major <= _ODD_DRIVER:
        return _UNKNOWN_MEANING
    return _SECOND if measured else _SECOND_BY_VENDOR


def is_ga100(pci_device_id: int, model: str) -> bool:
    """Whether the chip is GA100, whose power differs from all other Amperes: by its PCI device id (upper half of
    NVML's `pciDeviceId`), or by its name where that is unknown."""
    chip = pci_device_id >> 16
    return chip in _GA100_IDS if chip else bool(_GA100_NAMES.search(model))


def _in_matrix(architecture: int, model: str) -> bool:
    """L40S and L40 were not among the Adas that were measured."""
    return not (architecture == ADA and "L40" in model)


def _major(driver: str) -> int:
    head = driver.partition(".")[0]
    return int(head) if head.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class PowerSource:
    """How one card's power (mW) and energy counter (mJ) are read: by field values in one call where it has them.

    `power` is AVERAGE, INSTANT, USAGE or empty (no power at all). `energy_by_field`: field 83 in the same call, else
    the function of its own.
    """

    power: str
    energy_by_field: bool

    def read(self, library: NvmlLibrary, handle: Any) -> tuple[Reading, Reading]:
        """(power in mW, counter in mJ), raw. Raises NvmlFailure where the call as a whole fails."""
        field = _FIELD_IDS.get(self.power)
        wanted = [each for each in (field, ENERGY_FIELD if self.energy_by_field else None) if each]
        values: list[Reading] = []
        if wanted:
            asked = [(each, _GPU_SCOPE) for each in wanted]
            values = [field_number(each) for each in library.call(_FIELDS, handle, asked)]
        power = values[0] if field else self._by_function(library, handle, _USAGE if self.power else "")
        energy = values[-1] if self.energy_by_field else self._by_function(library, handle, _ENERGY)
        return power, energy

    @staticmethod
    def _by_function(library: NvmlLibrary, handle: Any, function: str) -> Reading:
        if not function:
            return unknown(NOT_SUPPORTED)
        try:
            return number(library.call(function, handle))
        except NvmlFailure as failed:
            return unknown(reason_of(failed.code))


def find_power_source(library: NvmlLibrary, handle: Any) -> PowerSource:
    """What the card has. The 1 s average first: over it one reading a second leaves no time unseen, while `instant`
    looks at 25 to 100 ms of it and aliases with periodic loads; then instant, then nvmlDeviceGetPowerUsage."""
    wanted = [(field, _GPU_SCOPE) for field in (POWER_AVERAGE_FIELD, POWER_INSTANT_FIELD, ENERGY_FIELD)]
    try:
        average, instant, energy = (field.nvmlReturn for field in library.call(_FIELDS, handle, wanted))
    except NvmlFailure as failed:
        if reason_of(failed.code) != NOT_SUPPORTED:
            raise
        average = instant = energy = failed.code
    power = AVERAGE if average == 0 else INSTANT if instant == 0 else _usage_if_there(library, handle)
    by_function = energy != 0 and library.attempt(_ENERGY, handle) is not None
    return PowerSource(power, energy == 0 or not (by_function or power in (USAGE, "")))


def _usage_if_there(library: NvmlLibrary, handle: Any) -> str:
    """`not supported` stays so; any other failure may pass."""
    try:
        library.call(_USAGE, handle)
    except NvmlFailure as failed:
        return "" if reason_of(failed.code) == NOT_SUPPORTED else USAGE
    return USAGE

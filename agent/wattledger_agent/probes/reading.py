"""What a probe reads at one tick: numbers with their unit, or the reason why there is none. Values only."""

from dataclasses import dataclass

NOT_SUPPORTED = "not_supported"
"""The library says that this card has no such reading."""
SENTINEL = "sentinel"
"""The library gave one of its marks for "no value": all ones, 65535, "N/A", a DCGM blank."""
IMPLAUSIBLE = "implausible"
"""A number that can't be: share above 1, power far above the limit, a negative counter."""
NO_PERMISSION = "no_permission"
GPU_LOST = "gpu_lost"
RESET_REQUIRED = "reset_required"
STALE = "stale"
"""The source gave the same reading with the same time stamp as before: not renewed."""
FOREIGN = "foreign_value"
"""Another device's value (concurrent calls into an old AMD SMI)."""
ABI_MISMATCH = "abi_mismatch"
TIMED_OUT = "timed_out"
NOT_READ = "not_read"
"""This probe does not read it, or not now."""
UNKNOWN_ERROR = "unknown_error"
"""A return code that none of the above names: `detail` of the probe's log line has it."""

POWER_CAP, THERMAL, HARDWARE_SLOWDOWN, POWER_BRAKE, OTHER_THROTTLE = 1, 2, 4, 8, 16
"""Bits of `throttle`; none set: nothing holds the clocks down."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, or the reason why there is none: never both, never neither. Unknown is never 0."""

    value: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) == (not self.reason):
            raise ValueError(f"a reading has a value or a reason, not {self.value!r} with {self.reason!r}")


def unknown(reason: str) -> Reading:
    """A reading without a value."""
    return Reading(None, reason)


UNREAD = Reading(None, NOT_READ)


@dataclass(frozen=True, slots=True)
class InstanceReading:
    """Activity of one MIG instance: share of the time that its engines were active since the last tick, in ppm of the
    instance's own whole (1g and 3g at full load both read 1,000,000)."""

    gpu_instance: str
    activity_ppm: Reading


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One process on a device, by host pid. Shares of several processes may add up to more than 1,000,000."""

    pid: int
    sm_ppm: Reading
    memory_bytes: Reading = UNREAD
    gpu_instance: str = ""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """One device at one tick.

    `power_mw` is of the whole device, `energy_uj` the raw counter in µJ (non-decreasing within one `counter_epoch`),
    `busy_ppm` the share of time that a kernel was resident. `processes` is None where the driver does not tell
    (`processes_reason` says why); an empty tuple means that nobody is on it.
    """

    device: str
    power_mw: Reading = UNREAD
    energy_uj: Reading = UNREAD
    busy_ppm: Reading = UNREAD
    memory_used_bytes: Reading = UNREAD
    temperature_c: Reading = UNREAD
    throttle: Reading = UNREAD
    instances: tuple[InstanceReading, ...] = ()
    processes: tuple[ProcessReading, ...] | None = None
    processes_reason: str = NOT_READ
    lost: bool = False
    """The driver says that the device is gone: every reading is unknown with that reason."""


def lost_device(device: str, reason: str = GPU_LOST) -> DeviceReading:
    """What is reported of a device that fell off the bus: nothing but that."""
    gone = unknown(reason)
    return DeviceReading(device, gone, gone, gone, gone, gone, gone, (), None, reason, lost=True)


@dataclass(frozen=True, slots=True)
class ZoneReading:
    """One host energy counter: wraps undone, so that it never falls within one `counter_epoch`."""

    zone: str
    energy_uj: Reading
    counter_epoch: str


@dataclass(frozen=True, slots=True)
class ProbeTick:
    """All that one probe read at one tick. `inventory_changed`: geometry, driver or devices differ from what
    `inventory()` said last; the caller asks it again before it uses this tick."""

    devices: tuple[DeviceReading, ...] = ()
    zones: tuple[ZoneReading, ...] = ()
    inventory_changed: bool = False

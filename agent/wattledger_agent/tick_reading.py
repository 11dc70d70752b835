"""What all probes answered becomes one tick: a row for every known device, SM share added up by job."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from wattledger_agent.probe_runner import UNAVAILABLE, ProbeResult
from wattledger_agent.probes.device import Device
from wattledger_agent.probes.reading import IMPLAUSIBLE, NOT_READ, DeviceReading, ProcessReading, Reading, unknown
from wattledger_agent.tick import COLUMNS, DeviceTick, JobKey, Tick

WHOLE_PPM = 1_000_000
_IMPOSSIBLE = unknown(IMPLAUSIBLE)
SharesOf = Callable[[Iterable[ProcessReading], int], Mapping[JobKey | None, Reading]]
"""A device's processes and the time (µs) to SM share by job; None: processes that belong to no known one."""


def build_tick(at_us: int, results: Sequence[ProbeResult], devices: Mapping[str, Device], shares_of: SharesOf) -> Tick:
    """One row for each of the devices. A probe that did not answer gives rows of unknown readings with its reason:
    nothing is repeated from an earlier tick."""
    rows: list[DeviceTick] = []
    zones: list[tuple[str, str, Reading]] = []
    for result in results:
        read = {r.device: r for r in result.tick.devices} if result.tick else {}
        listed = [d.device for d in result.inventory.devices] if result.inventory else list(read)
        missing = unknown(result.reason or NOT_READ)
        for name in listed:
            if name in devices:
                rows.append(_row(devices[name], read.get(name), missing, at_us, shares_of))
        if result.tick:
            zones += [(zone.zone, zone.counter_epoch, zone.energy_uj) for zone in result.tick.zones]
    told = {row.device for row in rows}
    rows += [_row(devices[name], None, unknown(UNAVAILABLE), at_us, shares_of) for name in devices if name not in told]
    return Tick(at_us, tuple(rows), tuple(zones))


def _sound(reading: Reading, most: int | None = None) -> Reading:
    """What can't be is no value: one negative cell would have the whole batch refused downstream."""
    value = reading.value
    return reading if value is None or (value >= 0 and (most is None or value <= most)) else _IMPOSSIBLE


def _row(device: Device, read: DeviceReading | None, missing: Reading, at_us: int, shares_of: SharesOf) -> DeviceTick:
    if read is None:
        return DeviceTick(device.device, device.counter_epoch, (missing,) * len(COLUMNS))
    shares = None if read.processes is None else shares_of(read.processes, at_us)
    return DeviceTick(
        device.device,
        device.counter_epoch,
        (
            _sound(read.power_mw),
            _sound(read.energy_uj),
            _sound(read.busy_ppm, WHOLE_PPM),
            _sound(read.memory_used_bytes),
            read.temperature_c,
            _sound(read.throttle),
        ),
        tuple((instance.gpu_instance, _sound(instance.activity_ppm, WHOLE_PPM)) for instance in read.instances),
        None if shares is None else tuple((job or ("", ""), _sound(share)) for job, share in shares.items()),
        read.lost,
    )

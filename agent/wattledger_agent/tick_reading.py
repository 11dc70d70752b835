"""What all probes answered becomes one tick: a row for every known device, SM share added up by job."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from wattledger_agent.probe_runner import UNAVAILABLE, ProbeResult
from wattledger_agent.probes.device import Device
from wattledger_agent.probes.reading import NOT_READ, DeviceReading, ProcessReading, Reading, unknown
from wattledger_agent.tick import COLUMNS, DeviceTick, JobKey, Tick

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


def _row(device: Device, read: DeviceReading | None, missing: Reading, at_us: int, shares_of: SharesOf) -> DeviceTick:
    if read is None:
        return DeviceTick(device.device, device.counter_epoch, (missing,) * len(COLUMNS))
    shares = None if read.processes is None else shares_of(read.processes, at_us)
    return DeviceTick(
        device.device,
        device.counter_epoch,
        (read.power_mw, read.energy_uj, read.busy_ppm, read.memory_used_bytes, read.temperature_c, read.throttle),
        tuple((instance.gpu_instance, instance.activity_ppm) for instance in read.instances),
        None if shares is None else tuple((job or ("", ""), share) for job, share in shares.items()),
        read.lost,
    )

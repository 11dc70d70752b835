"""The day as Prometheus remote-write requests: a node's devices over 30 s in each, the job a label of the series.

The two messages that it needs are written by hand: no protobuf library for twenty lines.
"""

import struct
from collections.abc import Iterable, Iterator

import cramjam

from benchmarks.ingestion.day import EUR_PER_KWH, HOUR_S, PUE, START_US, Day, Job, S, device_name, node_name

REQUEST_S = 30
SCRAPE_LATE_MS = 500
"""A scrape comes some time after the reading that it finds; the same everywhere, so that windows hold 60 samples."""


def requests(day: Day, from_s: int, to_s: int) -> Iterator[bytes]:
    """Bodies for `[from_s, to_s)` in order of time, compressed."""
    held: dict[tuple[int, int], list[Job]] = {}
    for job in day.jobs:
        for device in range(job.first, job.first + job.size):
            held.setdefault((job.node, device), []).append(job)
    for start_s in range(from_s, to_s, REQUEST_S):
        end_s = min(start_s + REQUEST_S, to_s)
        yield _body([_tariff(start_s)])
        for node in range(day.plan.nodes):
            series: list[bytes] = []
            for device in range(day.plan.devices):
                series += _device(day, node, device, held.get((node, device), []), start_s, end_s)
            yield _body(series)


def _tariff(second: int) -> bytes:
    rate = float(EUR_PER_KWH[second // HOUR_S % len(EUR_PER_KWH)]) * float(PUE)
    return _series({"__name__": "eur_per_kwh"}, [(second, rate)])


def _device(day: Day, node: int, device: int, jobs: list[Job], start_s: int, end_s: int) -> Iterator[bytes]:
    power, _ = day.power_busy(node)
    names = {"__name__": "gpu_power_watts", "gpu": device_name(node, device), "node": node_name(node)}
    free_s = start_s
    for job in jobs:
        first_s, last_s = max(job.start_s, start_s), min(job.end_s, end_s)
        if first_s < last_s:
            if free_s < first_s:
                yield _series(names, _watts(power[device], free_s, first_s))
            labels = {**names, "hpc_job": job.job, "tenant": job.tenant}
            yield _series(labels, _watts(power[device], first_s, last_s))
            free_s = last_s
    if free_s < end_s:
        yield _series(names, _watts(power[device], free_s, end_s))


def _watts(power_mw: Iterable[int], from_s: int, to_s: int) -> list[tuple[int, float]]:
    cut = list(power_mw[from_s:to_s])  # type: ignore[index]
    return [(from_s + k, int(value) / 1000) for k, value in enumerate(cut)]


def _series(labels: dict[str, str], samples: list[tuple[int, float]]) -> bytes:
    """TimeSeries: labels (1, sorted by name) and samples (2: value 1, timestamp in ms 2)."""
    parts = [_field(1, _field(1, k.encode()) + _field(2, v.encode())) for k, v in sorted(labels.items())]
    for second, value in samples:
        at_ms = (START_US + second * S) // 1000 + SCRAPE_LATE_MS
        parts.append(_field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(at_ms)))
    return b"".join(parts)


def _body(series: list[bytes]) -> bytes:
    """WriteRequest: series (1), in snappy's block format."""
    return bytes(cramjam.snappy.compress_raw(b"".join(_field(1, one) for one in series)))


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

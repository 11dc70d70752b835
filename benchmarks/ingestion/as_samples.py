"""The day as most people would send it: JSON, one record a sample and one a job's start or end on a device."""

import json
from collections.abc import Iterator
from pathlib import Path

from wattledger_schemas import partition_for

from benchmarks.ingestion.day import (
    EUR_PER_DEVICE_HOUR,
    EUR_PER_KWH,
    HOUR_S,
    PUE,
    START_US,
    Day,
    S,
    device_name,
    node_name,
)
from benchmarks.ingestion.feed import Record


def sample_messages(day: Day, from_s: int, to_s: int) -> Iterator[Record]:
    """Samples at the seconds `from_s` to `to_s`, both included, keyed by device."""
    for start_s in range(from_s, to_s + 1, 60):
        yield from _minute(day, start_s, min(start_s + 60, to_s + 1))


def _minute(day: Day, from_s: int, to_s: int) -> Iterator[Record]:
    places = [(n, i) for n in range(day.plan.nodes) for i in range(day.plan.devices)]
    heads = []
    for node, i in places:
        device = device_name(node, i)
        head = f'{{"node": "{node_name(node)}", "device": "{device}", "at_us": '
        power, busy = (column[i, from_s:to_s].tolist() for column in day.power_busy(node))
        counter = day.counter_uj(node)[i, from_s:to_s].tolist()
        heads.append((device, partition_for(device, day.plan.partitions), head, power, busy, counter))
    for k in range(to_s - from_s):
        at_us = START_US + (from_s + k) * S
        for device, partition, head, power, busy, counter in heads:
            text = (
                f'{head}{at_us}, "power_mw": {power[k]}, "energy_uj": {counter[k]}, "busy_ppm": {busy[k]}, '
                f'"memory_bytes": 64424509440}}'
            )
            yield Record("samples", partition, device, text.encode())


def job_messages(day: Day) -> Iterator[Record]:
    """Starts and ends in order of time, one for each device that the job holds, keyed by device."""
    events = [(s, kind, job) for job in day.jobs for s, kind in ((job.start_s, "start"), (job.end_s, "end"))]
    for second, kind, job in sorted(events, key=lambda e: (e[0], e[1])):
        for i in range(job.first, job.first + job.size):
            device = device_name(job.node, i)
            event = {
                "kind": kind,
                "device": device,
                "job": job.job,
                "tenant": job.tenant,
                "at_us": START_US + second * S,
            }
            yield Record("jobs", partition_for(device, day.plan.partitions), device, json.dumps(event).encode())


def write_prices(day: Day, path: Path) -> Path:
    """The price list as a file: euros a kWh with PUE by hour, and euros a device-hour."""
    hours = [
        {
            "start_us": START_US + hour * HOUR_S * S,
            "eur_per_kwh": float(EUR_PER_KWH[hour % len(EUR_PER_KWH)]) * float(PUE),
        }
        for hour in range(day.plan.end_s // HOUR_S + 1)
    ]
    path.write_text(json.dumps({"energy": hours, "eur_per_device_hour": float(EUR_PER_DEVICE_HOUR)}))
    return path

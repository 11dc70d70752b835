"""Facts as wire records: what an agent, a watcher, a ticker and a price list would send."""

from collections.abc import Sequence

from tests.fault_harness import record_bytes as wire
from tests.fault_harness.facts import Batch, PriceSaid, Readings
from tests.fault_harness.schedule import CLUSTER, PLAN_NAME, SKU, Said
from tests.fault_harness.tariffs import CURRENCY

SITE, MODEL, SLICES = "fra1", "H100", 7


def job_event(said: Said) -> wire.Record:
    claims = [
        {
            "node": said.node, "device": device, "gpu_instance": "", "share_num": 1, "share_den": 1,
            "delivered_profile": "full", "cpus": None, "memory_bytes": None, "storage_bytes": None,
        }
        for device in said.devices
    ]  # fmt: skip
    return {
        "event_id": said.event_id, "kind": said.kind, "at_us": said.at_us, "cluster": CLUSTER, "job": said.job,
        "attempt": said.attempt, "claims": claims, "tenant": said.tenant, "project": "p", "user": "ada",
        "model_tag": "llama", "plan": PLAN_NAME, "sku": SKU, "requested_profile": "full", "exclusive": False,
        "outcome": "COMPLETED" if said.kind in ("end", "released") else "", "source": "harness", "node": "",
    }  # fmt: skip


def inventory(node: str, devices: Sequence[str], at_us: int) -> wire.Record:
    listed: list[wire.Record] = [
        {
            "device": device, "index": i, "gpu_model": MODEL, "slices": SLICES, "sharing": "exclusive",
            "idle_floor_mw": 70_000, "vendor": "nvidia", "pci": "", "minor": i, "driver": "590", "socket": "",
            "power_limit_mw": None, "memory_bytes": None, "instances": [],
        }
        for i, device in enumerate(devices)
    ]  # fmt: skip
    return {
        "event_id": f"inventory/{node}", "kind": "inventory", "at_us": at_us, "node": node, "cluster": CLUSTER,
        "site": SITE, "devices": listed, "cpus": None, "memory_bytes": None, "state": "", "reason": "",
        "reservation_id": "", "tenant": "", "reserved_devices": [], "start_us": None, "end_us": None,
        "source": "harness", "boot_id": "", "agent": "",
    }  # fmt: skip


def tick(at_us: int) -> wire.Record:
    return {"at_us": at_us, "stale_sources": []}


def price(said: PriceSaid) -> wire.Record:
    return {
        "price_id": said.name, "kind": said.kind, "start_us": said.start_us, "end_us": said.end_us, "rate": said.rate,
        "currency": CURRENCY, "site": "", "gpu_model": "", "tenant": "", "plan": "", "sku": "", "pue": said.pue,
        "pool_name": "", "driver": "", "marginal": False, "author": "harness", "reason": said.reason,
    }  # fmt: skip


def sample_batch(batch: Batch, period_us: int) -> wire.Record:
    return {
        "node": batch.node, "site": SITE, "agent": f"agent-{batch.node}", "boot_id": "boot", "seq": batch.seq,
        "period_us": period_us, "ticks_us": wire.stamps(batch.ticks_us),
        "devices": [_sampled(reading) for reading in batch.readings], "agent_version": "harness", "host_zones": [],
    }  # fmt: skip


def _sampled(reading: Readings) -> wire.Record:
    counter = reading.counter_uj
    deltas: list[int | None] = []
    last: int | None = None
    for value in counter:
        deltas.append(None if value is None else value - (value if last is None else last))
        last = value if value is not None else last
    nothing = [None] * len(counter)
    return {
        "device": reading.device, "index": reading.index, "pci": f"0000:0{reading.index}:00.0", "minor": reading.index,
        "gpu_model": MODEL, "driver": "590", "mig_layout": "", "sharing": "exclusive", "counter_epoch": reading.epoch,
        "epoch_from_tick": reading.epoch_from, "idle_floor_mw": 70_000, "slices": SLICES,
        "power_mw": wire.column(reading.power_mw, wire.NARROW),
        "counter_base_uj": next((value for value in counter if value is not None), None),
        "energy_delta_uj": wire.column(deltas, wire.WIDE),
        "busy_ppm": wire.column(reading.busy_ppm, wire.NARROW),
        "memory_bytes": wire.column(nothing, wire.WIDE),
        "instances": [], "processes": [], "vendor": "nvidia", "socket": "", "power_field": "nvml.instant",
        "power_window_us": None, "power_refresh_us": None, "counter_scope": "gpu", "temperature_c": None,
        "throttle": None, "lost_from_tick": -1, "nulls": [],
    }  # fmt: skip

"""A small day for integration tests: two nodes, late events from two sides, a late price, shared cards, bad records.

Everything the whole pipeline has to get right, in two hours of event time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity, SampledDevice
from wattledger_core.event import Claim, InventoryDevice, JobEvent, NodeEvent, Tick
from wattledger_core.price import Price
from wattledger_core.revision import Origin

S = 1_000_000
T0 = 1_794_182_400 * S
HOURS = 2
NODES = ("alpha", "beta")


@dataclass(frozen=True, slots=True)
class Emission:
    at_us: int
    item: JobEvent | NodeEvent | Tick | Batch | Price


def at(second: float) -> int:
    return T0 + round(second * S)


def device(node: str, i: int) -> str:
    return f"GPU-{node}-{i}"


def _price(kind: str, name: str, rate: str, start_s: int = 0, **changes: object) -> Price:
    base = Price(name, "", Origin(0, -1), 0, kind, at(start_s), None, Decimal(rate), "EUR")
    return replace(base, **changes)  # type: ignore[arg-type]


def _job(job: str, kind: str, second: float, claims: tuple[Claim, ...] = (), **changes: object) -> JobEvent:
    tenant = "acme" if job[0] in "ac" else "borealis"
    base = JobEvent(
        f"{job}-{kind}-{second}", kind, at(second), "c1", job, 0, claims, tenant, "p", "ada", "llama", sku="gpu"
    )  # fmt: skip
    return replace(base, **changes)  # type: ignore[arg-type]


def _claim(node: str, i: int, **changes: object) -> Claim:
    return replace(Claim(node, device(node, i)), **changes)  # type: ignore[arg-type]


def _events() -> list[Emission]:
    quarter = {"share_num": 1, "share_den": 4}
    found = [Emission(at(0), _price("energy", "energy", "0.31", pue=Decimal("1.4")))]
    found += [Emission(at(0), _price("compute", "compute", "2.1")), Emission(at(0), _price("rate", "rate", "2.9"))]
    found.append(Emission(at(0), _price("pool", "fabric", "0.13", pool_name="fabric", driver="installed_gpu_h")))
    for node in NODES:
        listed = tuple(InventoryDevice(device(node, i), i, "H100") for i in range(4))
        found.append(Emission(at(0), NodeEvent(f"i-{node}", "inventory", at(0), node, "c1", "fra1", listed, 64)))
    found.append(Emission(at(0), Tick(at(0))))
    jobs = [
        (10, _job("a1", "start", 5, (_claim("alpha", 0), _claim("alpha", 1)))),
        (12, _job("b1", "start", 10, (_claim("alpha", 2, gpu_instance="1", share_num=3, share_den=7),))),
        (13, _job("b2", "start", 11.5, (_claim("alpha", 2, gpu_instance="2", share_num=2, share_den=7),))),
        (20, _job("c1", "start", 20, (_claim("beta", 0, **quarter),))),
        (21, _job("b3", "start", 21, (_claim("beta", 0, **quarter),))),
        (30, _job("a2", "start", 30, (_claim("beta", 1),))),
        # two jobs claim one device
        (900, _job("b4", "start", 890, (_claim("beta", 1),))),
        (1500, _job("a2", "end", 1490, outcome="COMPLETED")),
        # late stops, from both sources, 40 minutes and more after they happened
        (4000, _job("a1", "end", 1600.25, outcome="COMPLETED")),
        (4400, _job("b1", "suspend", 2000.125)),
        (4410, _job("b1", "resume", 2600)),
        (4500, _job("c1", "stop_requested", 1800)),
        (4501, _job("c1", "released", 2400)),
        (5000, _job("b2", "end", 4990, outcome="FAILED")),
    ]
    found += [Emission(at(second), event) for second, event in jobs]
    failed = NodeEvent("f", "node_state", at(4200), "beta", state="failed", reason="fell off the bus")
    found.append(Emission(at(5400), failed))
    # a price published late, and one taken back
    found.append(Emission(at(5000), _price("compute", "compute", "2.1", end_us=at(1800), reason="mistake")))
    found.append(Emission(at(5001), _price("compute", "compute-2", "2.4", 1800, reason="mistake")))
    return found


def _batch(node: str, seq: int, rng: np.random.Generator) -> Batch:
    """Thirty seconds at 1 Hz; a gap, a card without counter, missing cells, activity columns."""
    start_s = seq * 30
    ticks = T0 + (start_s + np.arange(31, dtype=np.int64)) * S
    power = rng.integers(80_000, 600_000, (4, 31))
    gains = (power[:, 1:] + power[:, :-1]) * S // 2000
    counter = np.concatenate([np.zeros((4, 1), dtype=np.int64), np.cumsum(gains, axis=1)], axis=1)
    good = np.ones((4, 31), dtype=np.bool_)
    counter_good, power_good = good.copy(), good.copy()
    counter_good[3] = False
    if seq % 7 == 0:
        power_good[3, 10:20] = False
    busy = rng.integers(0, 1_000_000, (4, 31))
    devices = []
    for i in range(4):
        found = SampledDevice(device(node, i), i, "", i, "H100", "590", "", "exclusive", "e1", 0, 70_000 if i else None)
        if node == "alpha" and i == 2:
            activity = tuple(
                InstanceActivity(g, s, rng.integers(0, 10**6, 31), good[0]) for g, s in (("1", 3), ("2", 2))
            )
            found = replace(found, instances=activity)
        if node == "beta" and i == 0:
            used = tuple(ProcessActivity("c1", job, rng.integers(0, 10**6, 31), good[0]) for job in ("c1", "b3"))
            found = replace(found, processes=used)
        devices.append(found)
    return Batch(
        node, "fra1", f"agent-{node}", "boot", seq, S, ticks, tuple(devices), power, power_good, counter, counter_good,
        busy, good,
    )  # fmt: skip


def emissions() -> Iterator[Emission]:
    """The day in order of emission: the same every time."""
    rng = np.random.default_rng(11)
    found = _events()
    for seq in range(HOURS * 120):
        for node in NODES:
            if not (node == "alpha" and 60 <= seq < 70):
                batch = _batch(node, seq, rng)
                found.append(Emission(batch.end_us + S, batch))
    found += [Emission(at(60 * i), Tick(at(60 * i))) for i in range(1, HOURS * 60 + 40)]
    yield from sorted(found, key=lambda emission: emission.at_us)

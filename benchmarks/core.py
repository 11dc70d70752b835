"""One core, from Avro bytes to priced rows: samples a second, beside decoding alone and a loop over samples.

    python benchmarks/core.py [--json] [--records N] [--ticks 60]

Everything is measured in one process and one run, best of five, and given as ratios too: machines are noisy.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / name) for name in ("agent", "audit", "schemas", "sql", "streams")]

from wattledger_core.batch import Batch, SampledDevice  # noqa: E402
from wattledger_core.cost import CostRow  # noqa: E402
from wattledger_core.event import Tick  # noqa: E402
from wattledger_core.meter import PartitionMeter  # noqa: E402
from wattledger_core.policy import Policy  # noqa: E402
from wattledger_core.price import Price  # noqa: E402
from wattledger_core.price_log import PriceLog  # noqa: E402
from wattledger_core.pricing import Pricer  # noqa: E402
from wattledger_core.revision import AllocationRevision, Origin  # noqa: E402
from wattledger_core.steady import BatchCurves  # noqa: E402
from wattledger_schemas import Codec  # noqa: E402
from wattledger_streams.mapping import from_wire_batch, to_wire_batch  # noqa: E402

DEVICES = 8
S = 1_000_000
START_US = 1_794_182_400 * S
NODE = "h100-01"


def batches(count: int, new_ticks: int = 60) -> list[Batch]:
    """Consecutive flushes of one node: 8 devices at 1 Hz, `new_ticks` each, one job on every device."""
    size = (DEVICES, new_ticks + 1)
    rng = np.random.default_rng(7)
    devices = tuple(
        SampledDevice(
            f"GPU-{i:08d}", i, f"0000:{i:02x}:00.0", i, "NVIDIA H100 80GB HBM3", "590.48.01", "", "exclusive",
            "boot-1", 0, 70_000,
        )
        for i in range(DEVICES)
    )  # fmt: skip
    good = np.ones(size, dtype=np.bool_)
    made = []
    for seq in range(count):
        ticks = START_US + (seq * new_ticks + np.arange(new_ticks + 1, dtype=np.int64)) * S
        power = rng.integers(550_000, 700_000, size)
        gains = (power[:, 1:] + power[:, :-1]) * S // 2000
        counter = np.concatenate([np.zeros((DEVICES, 1), dtype=np.int64), np.cumsum(gains, axis=1)], axis=1)
        busy = rng.integers(800_000, 1_000_000, size)
        made.append(
            Batch(NODE, "fra1", "agent", "boot-1", seq, S, ticks, devices, power, good, counter, good, busy, good)
        )
    return made


def meter_of_one_job_a_device() -> PartitionMeter:
    meter = PartitionMeter(1, Policy())
    for i in range(DEVICES):
        meter.read(
            AllocationRevision(
                f"revision-{i}", f"allocation-{i}", Origin(0, i), 0, "c1", f"{i}", 0, 0, NODE, f"GPU-{i:08d}", "", 1, 1,
                "acme", "llm", "ada", "llama", "on_demand", "h100", "full", "full", False, 8, None, None,
                START_US - S, None,
            )
        )  # fmt: skip
    return meter


def pricer_of_one_tariff() -> Pricer:
    log = PriceLog()
    log.add(Tick(START_US - S))
    night = Price(
        "energy", "energy-1", Origin(0, 1), 0, "energy", START_US - 3600 * S, None, Decimal("0.18"), "EUR", "fra1",
        pue=Decimal("1.3"),
    )  # fmt: skip
    log.add(night)
    return Pricer(log, Policy())


def best_of_five(work: Callable[[], object]) -> float:
    """Seconds of the fastest of five runs, of this process's own CPU time."""
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


def run(count: int, new_ticks: int) -> dict[str, object]:
    codec = Codec()
    policy = Policy()
    made = batches(count, new_ticks)
    raw = [codec.encode("sample_batch", to_wire_batch(batch)) for batch in made]
    decoded = [from_wire_batch(codec.decode(one).record) for one in raw]
    meter, pricer = meter_of_one_job_a_device(), pricer_of_one_tariff()
    groups = [meter.meter_batch(batch, 0, i) for i, batch in enumerate(decoded)]
    rows: list[CostRow] = [row for group in groups for row in pricer.price(group.lines)]
    assert all(row.cost is not None for row in rows)
    assert len(rows) >= count * DEVICES

    def whole() -> None:
        for offset, one in enumerate(raw):
            batch = from_wire_batch(codec.decode(one).record)
            pricer.price(meter.meter_batch(batch, 0, offset).lines)

    seconds = {
        "whole": best_of_five(whole),
        "avro": best_of_five(lambda: [codec.decode(one) for one in raw]),
        "decode": best_of_five(lambda: [from_wire_batch(codec.decode(one).record) for one in raw]),
        "curves": best_of_five(lambda: [BatchCurves(batch, policy).whole() for batch in decoded]),
        "meter": best_of_five(lambda: [meter.meter_batch(batch, 0, i) for i, batch in enumerate(decoded)]),
        "price": best_of_five(lambda: [pricer.price(group.lines) for group in groups]),
    }
    few = decoded[: max(count // 20, 1)]
    seconds["loop"] = best_of_five(lambda: [_loop(batch) for batch in few]) * count / len(few)
    samples = count * DEVICES * new_ticks
    return {
        "samples_per_s": round(samples / seconds["whole"]),
        "decode_samples_per_s": round(samples / seconds["decode"]),
        "ratio_to_decode": round(seconds["whole"] / seconds["decode"], 2),
        "ratio_of_a_loop_over_samples": round(seconds["loop"] / seconds["whole"], 2),
        "us_per_record": {name: round(spent * 1e6 / count, 1) for name, spent in seconds.items()},
        "profile_percent": {
            "avro_bytes_to_record": round(100 * seconds["avro"] / seconds["whole"], 1),
            "record_to_arrays": round(100 * (seconds["decode"] - seconds["avro"]) / seconds["whole"], 1),
            "curves": round(100 * seconds["curves"] / seconds["whole"], 1),
            "join_and_lines": round(100 * (seconds["meter"] - seconds["curves"]) / seconds["whole"], 1),
            "pricing": round(100 * seconds["price"] / seconds["whole"], 1),
        },
        "records": count,
        "ticks_per_record": new_ticks,
        "rows": len(rows),
    }


def _loop(batch: Batch) -> dict[str, Decimal]:
    """What a first script does: a trapezoid over samples one by one, in plain Python, priced at the end."""
    total: dict[str, int] = {}
    ticks = batch.ticks_us.tolist()
    for device, power in zip(batch.devices, batch.power_mw.tolist(), strict=True):
        for k in range(1, len(ticks)):
            gain = (power[k] + power[k - 1]) * (ticks[k] - ticks[k - 1]) // 2000
            total[device.device] = total.get(device.device, 0) + gain
    return {name: Decimal(energy) * Decimal("0.234") / 3_600_000_000_000 for name, energy in total.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--records", type=int, default=1200)
    parser.add_argument("--ticks", type=int, default=60, help="new ticks a record")
    given = parser.parse_args()
    result = run(given.records, given.ticks)
    if given.json:
        print(json.dumps(result))
        return
    shape = f"{DEVICES} devices × {given.ticks} ticks"
    print(f"{result['samples_per_s']:,} samples/s from Avro bytes to priced rows, {shape}, one core, best of five")
    print(f"  {result['ratio_to_decode']}x the time of decoding alone ({result['decode_samples_per_s']:,} samples/s)")
    print(f"  a plain loop over samples (no join, ids or laws) takes {result['ratio_of_a_loop_over_samples']}x as long")
    print(f"  where the time goes, percent: {result['profile_percent']}")


# Not measured here: Kafka, Faust (about 0.1 ms a record) and ClickHouse; see streams/README.md.
if __name__ == "__main__":
    main()

"""CPU and memory of `wattledger-agent run`, publishing to a real broker, beside an exporter and an nvidia-smi loop.

    python benchmarks/agent.py [--gpus 8,16] [--rates 1,10] [--seconds 30] [--mig] [--broker auto] [--json]

All of them read the same fake NVML at the same time, each in a process of its own; a run of the defaults takes under
three minutes. With gcc the fake is `agent_fake_nvml.c` (built into a temporary folder) and costs next to nothing;
without, it is the tests' Python fake, whose cost each of them then carries, and ratios mean little.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / name) for name in ("agent", "audit", "schemas", "sql", "streams"))]

from wattledger_audit.broker import Broker, choose_broker  # noqa: E402
from wattledger_streams.topics import create_topics  # noqa: E402

from benchmarks.agent_loops import Fake, Loop, Scrape, agent_loop, build_fake, rival_loops  # noqa: E402
from benchmarks.agent_process import Use, delivered_ticks, machine_facts, use_between  # noqa: E402
from benchmarks.ingestion.target import Row  # noqa: E402

LIBS = ROOT / ".cache" / "kafka" / "libs"
WARM_UP_S = 8.0
TARGET_CORE_PCT, TARGET_MB = 1.0, 100.0


def measure(loops: Sequence[Loop], seconds: float) -> dict[str, Use]:
    """Start all, let them warm up, and say what each used per second. Raises RuntimeError when one ended."""
    for loop in loops:
        loop.start()
    try:
        time.sleep(WARM_UP_S)
        scrapes = [Scrape(loop) for loop in loops if loop.port_file or loop.port]
        before = {loop.name: loop.snapshot() for loop in loops}
        time.sleep(seconds)
        found = {loop.name: use_between(before[loop.name], loop.snapshot()) for loop in loops}
        for scrape in scrapes:
            scrape.stop()
    finally:
        for loop in loops:
            loop.stop()
    return found


def scenario(
    broker: Broker, fake: Fake, gpus: int, rate_hz: int, seconds: float, folder: Path, mig: bool
) -> dict[str, object]:
    """One row: so many GPUs at that rate."""
    folder.mkdir()
    prefix = f"b{os.getpid()}.{gpus}x{rate_hz}."
    create_topics({"bootstrap.servers": broker.bootstrap}, prefix, partitions=1)
    with fake.machine(gpus, mig) as machine:
        loops = [
            agent_loop(machine, folder, broker.bootstrap, prefix, rate_hz),
            *rival_loops(machine, folder, 1 / rate_hz),
        ]
        used = measure(loops, seconds)
    ticks = delivered_ticks(broker.bootstrap, prefix, gpus)
    wanted = round((WARM_UP_S + seconds) * rate_hz * 0.8)
    if ticks < wanted:
        raise RuntimeError(f"{gpus} GPUs at {rate_hz} Hz: {ticks} ticks in the topic, at least {wanted} were expected")
    ours = used["wattledger"]
    ratios = {
        name: {"cpu": round(ours.core_pct / use.core_pct, 2), "memory": round(ours.pss_mb / use.pss_mb, 2)}
        for name, use in used.items()
        if name != "wattledger"
    }
    return {
        "gpus": gpus,
        "rate_hz": rate_hz,
        "used": {name: asdict(use) for name, use in used.items()},
        "wattledger_over": ratios,
        "ticks_in_the_topic": ticks,
    }


def table(rows: Sequence[dict[str, object]]) -> str:
    """Markdown: one line a program and scenario."""
    lines = [
        "| GPUs | Hz | | CPU, % of a core | × | RSS, MB | PSS, MB | peak, MB | PSS × | wake-ups/s | threads |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        used, ratios = row["used"], row["wattledger_over"]
        assert isinstance(used, dict)
        assert isinstance(ratios, dict)
        for name, use in used.items():
            over = ratios.get(name, {"cpu": "", "memory": ""})
            lines.append(
                f"| {row['gpus']} | {row['rate_hz']} | {name} | {use['core_pct']:.2f} | {over['cpu']} "
                f"| {use['rss_mb']:.0f} | {use['pss_mb']:.0f} | {use['peak_mb']:.0f} | {over['memory']} "
                f"| {use['wakeups_per_s']:.0f} | {use['threads']} |"
            )
    return "\n".join(lines)


def targets(rows: Sequence[dict[str, object]]) -> list[Row]:
    """Whether eight GPUs at 1 Hz stay under the target; empty when that was not measured."""
    for row in rows:
        if (row["gpus"], row["rate_hz"]) == (8, 1):
            assert isinstance(row["used"], dict)
            ours = row["used"]["wattledger"]
            return [
                Row(
                    f"agent, 8 GPUs at 1 Hz: under {TARGET_CORE_PCT:g} % of a core, {TARGET_MB:g} MB",
                    f"{ours['core_pct']:.2f} % and {ours['peak_mb']:.0f} MB at its peak",
                    ours["core_pct"] < TARGET_CORE_PCT and ours["peak_mb"] < TARGET_MB,
                )
            ]
    return []


def main() -> None:
    """Measure and print a Markdown table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="8,16", help="numbers of cards, up to 16")
    parser.add_argument("--rates", default="1,10", help="ticks a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="measured, after a warm-up; a flush is 30 s")
    parser.add_argument("--mig", action="store_true", help="seven instances on each card")
    parser.add_argument("--broker", default="auto", help="auto, kafka, docker, tansu or host:port")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        fake = build_fake(folder)
        broker = choose_broker(asked.broker, folder / "broker", LIBS)
        try:
            for rate_hz in map(int, asked.rates.split(",")):
                for gpus in map(int, asked.gpus.split(",")):
                    where = folder / f"{gpus}x{rate_hz}"
                    rows.append(scenario(broker, fake, gpus, rate_hz, asked.seconds, where, asked.mig))
                    print(f"measured {gpus} GPUs at {rate_hz} Hz", file=sys.stderr)
        finally:
            broker.stop()
    facts = {
        **machine_facts(),
        "nvml": fake.kind,
        "broker": broker.line.partition(": ")[2],
        "seconds": asked.seconds,
        "mig": asked.mig,
    }
    if asked.json:
        print(
            json.dumps({"machine": facts, "rows": rows, "targets": [row._asdict() for row in targets(rows)]}, indent=1)
        )
        return
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    print(f"\n{table(rows)}\n\n{''.join(map(str, targets(rows)))}")


if __name__ == "__main__":
    main()

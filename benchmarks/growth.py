"""How WattLedger's cost grows: with records, devices, nodes, jobs, partitions and workers, and hours.

    python benchmarks/growth.py [--only ticks,devices,jobs,nodes,workers,memory] [--json PATH] [--markdown PATH]

ticks, devices and jobs are measured on the meter's work in one process (decode, join, integrate, price), best of three;
nodes, workers and memory on the whole stack (broker, workers, ClickHouse), over as many samples at each point.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), *(str(ROOT / name) for name in ("agent", "audit", "schemas", "sql", "streams"))]

from wattledger_audit.broker import start_kafka  # noqa: E402

from benchmarks.ingestion.day import Day, Plan  # noqa: E402
from benchmarks.ingestion.growth_core import cpu_us_per_sample  # noqa: E402
from benchmarks.ingestion.machine import machine_facts, rss_mb  # noqa: E402
from benchmarks.ingestion.target import Row  # noqa: E402
from benchmarks.ingestion.watch import Used  # noqa: E402
from benchmarks.ingestion.wattledger_stack import Workers, check  # noqa: E402
from tests.fault_harness.server_process import ClickhouseProcess  # noqa: E402
from tests.fault_harness.stop_signal import leave_on_sigterm  # noqa: E402

LIBS = ROOT / ".cache" / "kafka" / "libs"
CORE_SAMPLES = 115_200
STACK_SAMPLES = 1_843_200
NODES_WITHIN, MEMORY_MB, MEMORY_WITHIN = 0.10, 400, 0.05
ROUNDS = 2
MINUTES = "event time, min"
CPU, SPREAD = "workers' CPU, µs a sample", "spread of runs, %"
Curve = list[dict[str, object]]


def core_point(name: str, value: int, plan: Plan) -> dict[str, object]:
    spent_us = cpu_us_per_sample(plan)
    return {name: value, "CPU, µs a sample": round(spent_us, 3), "samples per CPU-s": round(1e6 / spent_us)}


def minutes_of(samples: int, nodes: int, devices: int) -> int:
    return samples // (nodes * devices * 60)


def ticks() -> Curve:
    """Samples a record, on 8 devices; the agent's flush."""
    plans = {n: Plan(4, 8, n, minutes_of(CORE_SAMPLES, 4, 8) // (8 if n == 1 else 1)) for n in (1, 10, 30, 60, 120)}
    return [core_point("samples a device and record", n, plan) for n, plan in plans.items()]


def devices() -> Curve:
    """Devices a node, at 60 samples a record."""
    return [
        core_point("devices a node", n, Plan(4, n, 60, min(minutes_of(CORE_SAMPLES, 4, n), 480))) for n in (1, 8, 16)
    ]


def jobs() -> Curve:
    """Jobs a device and hour, on 8 devices at 60 samples a record."""
    minutes = minutes_of(CORE_SAMPLES, 4, 8)
    return [core_point("jobs a device and hour", n, Plan(4, 8, 60, minutes, jobs_per_hour=n)) for n in (1, 4, 16)]


def on_stack(plan: Plan, meters: int) -> Used:
    """The whole day through a stack of its own, held to its sums."""
    with tempfile.TemporaryDirectory() as place:
        broker = start_kafka(Path(place) / "broker", LIBS)
        try:
            with Workers(Day(plan), broker, Path(place) / "stack", meters) as stack:
                used = stack.play(plan.warm_s, plan.end_s)
                check(stack.client, Day(plan))
                return used
        finally:
            broker.stop()


def stack_points(plans: Sequence[tuple[Plan, int]]) -> Curve:
    """Each plan ROUNDS times, in turns, so that a busy spell of the machine does not fall on one point alone.

    The run with the least CPU counts; how far the others were above it says what the machine's noise is.
    """
    rounds = [[on_stack(plan, meters) for plan, meters in plans] for _ in range(ROUNDS)]
    return [_stack_point(plan, runs) for (plan, _), *runs in zip(plans, *rounds, strict=True)]


def _stack_point(plan: Plan, runs: Sequence[Used]) -> dict[str, object]:
    best = min(runs, key=lambda used: used.cpu_s)
    return {
        "samples": plan.samples,
        "samples/s": round(plan.samples / best.wall_s),
        CPU: round(best.cpu_s * 1e6 / plan.samples, 2),
        "with broker": round((best.cpu_s + best.broker_cpu_s) * 1e6 / plan.samples, 2),
        SPREAD: round(100 * (max(used.cpu_s for used in runs) / best.cpu_s - 1), 1),
    }


def nodes() -> Curve:
    """Nodes of 8 devices; fewer nodes play more minutes, so that each point has as many samples."""
    plans = {n: Plan(n, 8, 60, minutes_of(STACK_SAMPLES, n, 8)) for n in (4, 16, 64)}
    points = stack_points([(plan, 1) for plan in plans.values()])
    return [{"nodes": n, MINUTES: plans[n].minutes, **point} for n, point in zip(plans, points, strict=True)]


def workers() -> Curve:
    """Partitions and meter workers, 16 nodes of 8 devices."""
    sizes = ((1, 1), (2, 1), (2, 2))
    minutes = minutes_of(STACK_SAMPLES, 16, 8)
    points = stack_points([(Plan(16, 8, 60, minutes, partitions), meters) for partitions, meters in sizes])
    return [{"partitions": p, "meters": m, **point} for (p, m), point in zip(sizes, points, strict=True)]


def memory() -> Curve:
    """Resident memory of each worker after each quarter of the second of two hours of event time; 16 nodes. The
    engine of ClickHouse runs inside the sink."""
    with tempfile.TemporaryDirectory() as place:
        return _memory_of(Path(place), 0)


def memory_with_server() -> Curve:
    """The same with ClickHouse as a process of its own: its engine behind its HTTP interface."""
    with tempfile.TemporaryDirectory() as place:
        server = ClickhouseProcess(Path(place) / "server").start()
        try:
            return _memory_of(Path(place), server.port)
        finally:
            server.stop()


def _memory_of(place: Path, port: int) -> Curve:
    plan = Plan(16, 8, 60, 120)
    found: Curve = []
    broker = start_kafka(place / "broker", LIBS)
    try:
        with Workers(Day(plan), broker, place / "stack", port=port) as stack:
            stops = [plan.warm_s + 60 * minutes for minutes in (0, 60, 75, 90, 105, 120)]
            for from_s, to_s in pairwise(stops):
                stack.play(from_s, to_s)
                held = {f"{name}, MB": rss_mb(pid) for name, pid in stack.pids().items()}
                found.append({MINUTES: (to_s - plan.warm_s) // 60, **held})
            check(stack.client, Day(plan))
    finally:
        broker.stop()
    return found


CURVES: dict[str, Callable[[], Curve]] = {
    "ticks": ticks,
    "devices": devices,
    "jobs": jobs,
    "nodes": nodes,
    "workers": workers,
    "memory": memory,
    "memory-with-server": memory_with_server,
}


def verdicts(curves: dict[str, Curve]) -> list[Row]:
    """The targets that a curve can miss."""
    rows = []
    if "nodes" in curves:
        costs = [float(str(point[CPU])) for point in curves["nodes"]]
        noise = max(float(str(point[SPREAD])) for point in curves["nodes"]) / 100
        apart = max(costs) / min(costs) - 1
        met = None if noise > NODES_WITHIN else apart <= NODES_WITHIN
        measured = f"{apart:.1%} apart; runs of one point up to {noise:.0%} apart"
        rows += [Row(f"cost a sample from 4 to 64 nodes within {NODES_WITHIN:.0%}", measured, met)]
        rows += [_without_event_time(curves["nodes"])]
    rows += [_memory_verdict(name, curves[name]) for name in ("memory", "memory-with-server") if name in curves]
    return rows


def _without_event_time(curve: Curve) -> Row:
    """Least squares over the points: so much a minute of event time, however many nodes (ticks, hours of the views),
    and so much a sample; how far the points' samples are apart without the first part."""
    minutes, samples, costs = (np.array([float(str(p[name])) for p in curve]) for name in (MINUTES, "samples", CPU))
    (a_minute, a_sample), *_ = np.linalg.lstsq(np.stack([minutes, samples], axis=1), costs * samples, rcond=None)
    alone = costs - a_minute * minutes / samples
    apart = float(alone.max() / alone.min() - 1)
    return Row(
        f"cost a sample from 4 to 64 nodes within {NODES_WITHIN:.0%}, event time apart",
        f"{apart:.1%} apart; {a_minute / 1000:.1f} ms a minute of event time and {a_sample:.2f} µs a sample",
        apart <= NODES_WITHIN,
    )


def _memory_verdict(name: str, curve: Curve) -> Row:
    names = [name for name in curve[0] if name.endswith("MB")]
    held = {name: [float(str(point[name])) for point in curve] for name in names}
    growth = {name: sizes[-1] / sizes[0] - 1 for name, sizes in held.items()}
    return Row(
        f"{name}: a worker under {MEMORY_MB} MB and flat (within {MEMORY_WITHIN:.0%}) over an hour",
        ", ".join(f"{name.removesuffix(', MB')} {max(held[name]):.0f} MB ({by:+.1%})" for name, by in growth.items()),
        max(growth.values()) <= MEMORY_WITHIN and max(map(max, held.values())) < MEMORY_MB,
    )


def table(curve: Curve) -> str:
    lines = [f"| {' | '.join(curve[0])} |", "|---" * len(curve[0]) + "|"]
    lines += [
        f"| {' | '.join(f'{v:,}' if isinstance(v, int) else str(v) for v in point.values())} |" for point in curve
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure the curves asked for and print them as Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CURVES), help="curves, by name, with commas")
    parser.add_argument("--json", type=Path, help="write all of it there")
    parser.add_argument("--markdown", type=Path, help="write facts and tables there")
    asked = parser.parse_args()
    leave_on_sigterm()
    names = asked.only.split(",")
    if unknown := set(names) - set(CURVES):
        parser.error(f"no such curve: {', '.join(sorted(unknown))}; known: {', '.join(CURVES)}")
    facts, curves = machine_facts(), {}
    for name in names:
        curves[name] = CURVES[name]()
        print(f"measured {name}", file=sys.stderr)
    parts = ["\n".join(f"- {name}: {value}" for name, value in facts.items())]
    parts += [f"**{name}** {CURVES[name].__doc__}\n\n{table(curve)}" for name, curve in curves.items()]
    rows = verdicts(curves)
    parts += [str(row) for row in rows]
    text = "\n\n".join(parts) + "\n"
    print(text)
    if asked.markdown:
        asked.markdown.write_text(text)
    if asked.json:
        asked.json.write_text(
            json.dumps({"facts": facts, "curves": curves, "targets": [row._asdict() for row in rows]}, indent=1)
        )


if __name__ == "__main__":
    main()

"""The NVML probe on a real NVIDIA machine: readings beside nvidia-smi's, counter beside integrated power under load,
the observer effect, and the cost of a tick. Prints JSON.

    python benchmarks/gpu_check.py [--load-s 60] [--idle-s 20]

Some three minutes. Exit code: 0 all as expected, 1 something is not (see `findings`), 2 there is nothing to check here.
The load is a child process: torch or cupy where they are, else the CUDA driver itself (no compiler needed), else none.
"""

import argparse
import ctypes
import importlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / name) for name in ("agent", "schemas")]

from wattledger_agent.clock import Clock, SystemClock  # noqa: E402
from wattledger_agent.probes.nvml import NvmlProbe  # noqa: E402
from wattledger_agent.probes.probe import Probe, ProbeUnavailable  # noqa: E402
from wattledger_agent.probes.reading import DeviceReading, Reading  # noqa: E402

NOTHING_HERE = 2
SMI_COLUMNS = ("uuid", "power.draw.average", "power.draw.instant", "power.draw", "memory.used", "temperature.gpu")
_POWER_COLUMN = {"nvml.average": 1, "nvml.instant": 2, "nvml.power_usage": 3}
_RESOLUTION = {"power_mw": 10, "memory_used_bytes": 1 << 20, "temperature_c": 1}
_UNKNOWN = ("[n/a]", "n/a", "[not supported]", "[unknown error]", "[insufficient permissions]", "err!", "")
_WARM_UP_S = 3.0
_DISAGREE_PPM = 100_000
_OBSERVER_MW = 5_000


@dataclass(frozen=True, slots=True)
class SmiCard:
    """One line of nvidia-smi: power by the column that the probe reads, in mW."""

    power_mw: tuple[int | None, ...]
    memory_used_bytes: int | None
    temperature_c: int | None


def parse_smi(text: str) -> dict[str, SmiCard]:
    """Cards by UUID from `--query-gpu=... --format=csv,noheader,nounits` with SMI_COLUMNS. Marks for "no value" and
    columns that the driver does not know are None; lines of other shapes are left out."""
    cards = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(SMI_COLUMNS) or not cells[0].startswith("GPU-"):
            continue
        power = tuple(_scaled(cell, 1000) for cell in cells[1:4])
        cards[cells[0]] = SmiCard(power, _scaled(cells[4], 1 << 20), _scaled(cells[5], 1))
    return cards


def _scaled(cell: str, factor: int) -> int | None:
    if cell.lower() in _UNKNOWN:
        return None
    try:
        return round(float(cell) * factor)
    except ValueError:
        return None


def between(before: Reading, smi: int | None, after: Reading, resolution: int) -> bool | None:
    """Whether nvidia-smi's value lies between the probe's readings before and after it, give or take its resolution.
    None: one of them has no value."""
    if before.value is None or after.value is None or smi is None:
        return None
    low, high = sorted((before.value, after.value))
    return low - resolution <= smi <= high + resolution


def agreement(probe: Probe, smi: Any, rounds: int, clock: Clock) -> dict[str, Any]:
    """Of `rounds` looks at every card, how many of nvidia-smi's values lie between two readings of the probe."""
    fields = {device.device: device.power_field for device in probe.inventory().devices}
    seen: dict[str, dict[str, int]] = {name: {"agree": 0, "differ": 0, "unknown": 0} for name in _RESOLUTION}
    last: list[dict[str, Any]] = []
    for _ in range(rounds):
        before = {reading.device: reading for reading in probe.read().devices}
        told = parse_smi(smi())
        after = {reading.device: reading for reading in probe.read().devices}
        last = []
        for device in before.keys() & told.keys() & after.keys():
            card = told[device]
            row: dict[str, Any] = {"device": device}
            column = _POWER_COLUMN.get(fields.get(device, ""))
            values = {
                "power_mw": None if column is None else card.power_mw[column - 1],
                "memory_used_bytes": card.memory_used_bytes,
                "temperature_c": card.temperature_c,
            }
            for name, value in values.items():
                first, second = getattr(before[device], name), getattr(after[device], name)
                found = between(first, value, second, _RESOLUTION[name])
                seen[name][{True: "agree", False: "differ", None: "unknown"}[found]] += 1
                row |= {name: [first.value, value, second.value]}
            last.append(row)
        clock.sleep(1.0)
    return {"rounds": rounds, "counts": seen, "last_probe_smi_probe": last}


@dataclass(frozen=True, slots=True)
class Watched:
    """Ticks of one card: monotonic µs with its readings."""

    times_us: list[int]
    readings: list[DeviceReading]

    def counter_uj(self) -> tuple[int, int] | None:
        """(energy, time in µs) between the first and the last valid counter."""
        known = [(t, r.energy_uj.value) for t, r in zip(self.times_us, self.readings, strict=True)]
        valid = [(t, value) for t, value in known if value is not None]
        if len(valid) < 2:
            return None
        return valid[-1][1] - valid[0][1], valid[-1][0] - valid[0][0]

    def power_uj(self, step: int = 1) -> int | None:
        """Trapezoid over each `step`-th tick."""
        known = [(t, r.power_mw.value) for t, r in zip(self.times_us[::step], self.readings[::step], strict=True)]
        valid = [(t, value) for t, value in known if value is not None]
        if len(valid) < 2:
            return None
        pairs = itertools.pairwise(valid)
        return sum((p + q) * (u - t) for (t, p), (u, q) in pairs) // 2000


def watch(probe: Probe, clock: Clock, seconds: float, period_s: float) -> dict[str, Watched]:
    """Read at a period for a while; the last tick is as far from the first as was asked for."""
    seen: dict[str, Watched] = {}
    start_s = clock.monotonic_s()
    for number in range(round(seconds / period_s) + 1):
        clock.sleep(max(0.0, start_s + number * period_s - clock.monotonic_s()))
        now_us = round(clock.monotonic_s() * 1_000_000)
        for reading in probe.read().devices:
            card = seen.setdefault(reading.device, Watched([], []))
            card.times_us.append(now_us)
            card.readings.append(reading)
    return seen


def counter_against_power(watched: Watched, ticks_a_second: int) -> dict[str, Any]:
    """Joules by the counter and by integrated power, at full rate and at 1 Hz, with the errors in ppm."""
    counter = watched.counter_uj()
    told: dict[str, Any] = {"counter_uj": None if counter is None else counter[0]}
    for name, step in (("power_uj", 1), ("power_1hz_uj", ticks_a_second)):
        energy = told[name] = watched.power_uj(step)
        told[f"{name}_error_ppm"] = None
        if counter is not None and counter[0] > 0 and energy is not None:
            told[f"{name}_error_ppm"] = (energy - counter[0]) * 1_000_000 // counter[0]
    told["seconds"] = round((watched.times_us[-1] - watched.times_us[0]) / 1_000_000, 3)
    told["busy_ppm_max"] = max((r.busy_ppm.value or 0 for r in watched.readings), default=None)
    return told


def idle_power_mw(probe: Probe, clock: Clock, seconds: float, period_s: float) -> dict[str, int | None]:
    """Mean power by the counter while the probe reads at `period_s`; a period of `seconds` leaves the card alone."""
    told: dict[str, int | None] = {}
    for device, watched in watch(probe, clock, seconds, period_s).items():
        counter = watched.counter_uj()
        told[device] = None if counter is None or not counter[1] else counter[0] * 1000 // counter[1]
    return told


def tick_cost(probe: Probe, ticks: int = 100) -> dict[str, float]:
    """Wall and CPU time of a tick over all cards, in ms, one reading each 20 ms."""
    walls, cpu_s = [], 0.0
    for _ in range(ticks):
        started, cpu = time.perf_counter(), time.process_time()
        probe.read()
        walls.append(time.perf_counter() - started)
        cpu_s += time.process_time() - cpu
        time.sleep(0.02)
    cpu_ms = cpu_s / ticks * 1000
    return {
        "mean_ms": round(sum(walls) / ticks * 1000, 3),
        "p99_ms": round(sorted(walls)[int(ticks * 0.99) - 1] * 1000, 3),
        "cpu_ms": round(cpu_ms, 3),
        "percent_of_a_core_at_1_hz": round(cpu_ms / 10, 4),
    }


def findings(report: dict[str, Any]) -> list[str]:
    """What is not as it should be, as sentences."""
    found = []
    if not any(counts["agree"] for counts in report["agreement"]["counts"].values()):
        found.append("nvidia-smi agreed in nothing: it can't be run, or it names other cards.")
    for name, counts in report["agreement"]["counts"].items():
        if counts["differ"] > counts["agree"]:
            found.append(f"{name}: nvidia-smi's value lay outside of the probe's {counts['differ']} times.")
    for device, told in report["under_load"].items():
        error = told["power_uj_error_ppm"]
        if error is not None and abs(error) > _DISAGREE_PPM:
            found.append(f"{device}: counter and integrated power differ by {error / 10_000:.1f} %.")
    for rate in ("1_hz", "10_hz"):
        for device, alone in report["idle_power_mw"]["alone"].items():
            seen = report["idle_power_mw"][rate].get(device)
            if None not in (alone, seen) and seen - alone > max(_OBSERVER_MW, alone // 10):
                found.append(f"{device}: reading at {rate} raises idle power from {alone} to {seen} mW.")
    return found


def run_smi() -> str:
    """nvidia-smi's answer; empty where it can't be run. Drivers that lack the two newer power columns refuse the whole
    question, so they are asked without them."""
    told = _ask_smi(SMI_COLUMNS)
    if "GPU-" in told:
        return told
    older = [column for column in SMI_COLUMNS if column not in ("power.draw.average", "power.draw.instant")]
    return "\n".join(line.replace(",", ", [N/A], [N/A],", 1) for line in _ask_smi(older).splitlines())


def _ask_smi(columns: Sequence[str]) -> str:
    command = ["nvidia-smi", f"--query-gpu={','.join(columns)}", "--format=csv,noheader,nounits"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def load(seconds: float) -> None:
    """Keep the first card busy; says first with what."""
    until = time.monotonic() + seconds
    for name, start in (("torch", _torch), ("cupy", _cupy), ("cuMemsetD32", _driver)):
        try:
            step = start()
        except (ImportError, OSError, RuntimeError, AssertionError):
            continue
        print(name, flush=True)
        while time.monotonic() < until:
            step()
        return
    print("none", flush=True)


def _torch() -> Any:
    torch: Any = importlib.import_module("torch")
    matrix = torch.rand(8192, 8192, device="cuda", dtype=torch.float16)

    def step() -> None:
        for _ in range(8):
            torch.matmul(matrix, matrix)
        torch.cuda.synchronize()

    return step


def _cupy() -> Any:
    cupy: Any = importlib.import_module("cupy")
    matrix = cupy.random.rand(4096, 4096, dtype=cupy.float32)
    cupy.matmul(matrix, matrix)

    def step() -> None:
        cupy.matmul(matrix, matrix)
        cupy.cuda.Device().synchronize()

    return step


def _driver() -> Any:
    """Fill a gigabyte again and again: loads the memory, not the cores."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, buffer, words = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(1 << 28)
    for code in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device),
        cuda.cuMemAlloc_v2(ctypes.byref(buffer), ctypes.c_size_t(words.value * 4)),
    ):
        if code:
            raise RuntimeError(f"the CUDA driver returned {code}")

    def step() -> None:
        for value in range(32):
            cuda.cuMemsetD32_v2(buffer, ctypes.c_uint(value), words)
        cuda.cuCtxSynchronize()

    return step


def under_load(probe: Probe, clock: Clock, seconds: float) -> tuple[str, dict[str, Any]]:
    """(what loads the card, counter against power by card), without the edges of the load."""
    arguments = [sys.executable, __file__, "--load", str(seconds + 3 * _WARM_UP_S)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        kind = child.stdout.readline().strip() or "none"
        clock.sleep(_WARM_UP_S)
        watched = watch(probe, clock, seconds, 0.1)
        child.terminate()
    return kind, {device: counter_against_power(card, 10) for device, card in watched.items()}


def check(probe: Probe, load_s: float, idle_s: float) -> dict[str, Any]:
    """All of it, on a real machine."""
    clock = SystemClock()
    inventory = probe.inventory()
    devices = [
        {
            "device": device.device,
            "model": device.gpu_model,
            "driver": device.driver,
            "power_field": device.power_field,
            "window_us": device.power_window_us,
            "mig": device.mig_layout,
        }
        for device in inventory.devices
    ]
    report: dict[str, Any] = {"library": inventory.library, "notes": inventory.notes, "devices": devices}
    report["idle_power_mw"] = {
        name: idle_power_mw(probe, clock, idle_s, period_s)
        for name, period_s in (("alone", idle_s), ("1_hz", 1.0), ("10_hz", 0.1))
    }
    report["agreement"] = agreement(probe, run_smi, 5, clock)
    report["tick"] = tick_cost(probe)
    report["load"], report["under_load"] = under_load(probe, clock, load_s)
    report["findings"] = findings(report)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--load-s", type=float, default=60.0)
    parser.add_argument("--idle-s", type=float, default=20.0)
    parser.add_argument("--load", type=float, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.load is not None:
        load(asked.load)
        return 0
    probe = NvmlProbe(SystemClock())
    try:
        probe.open()
    except ProbeUnavailable as failed:
        print(f"Nothing to check here: {failed}.", file=sys.stderr)
        return NOTHING_HERE
    try:
        report = check(probe, asked.load_s, asked.idle_s)
    finally:
        probe.close()
    print(json.dumps(report, indent=1))
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())

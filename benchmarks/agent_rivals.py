"""What the agent is measured beside: an exporter loop and an nvidia-smi loop, as their own users write them.

    python benchmarks/agent_rivals.py exporter --period-s 1 --port-file PORT [--processes]
    python benchmarks/agent_rivals.py smi --period-s 1 --usage-file USAGE

Neither keeps anything durably, ties anything to a job, or sends anything anywhere.
"""

import argparse
import csv
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SMI_FIELDS = (
    "index,uuid,name,power.draw.average,power.draw.instant,utilization.gpu,memory.used,memory.total,temperature.gpu,"
    "clocks_event_reasons.active"
)
_LABELS = ("gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION")
_GAUGES = {
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "Total energy consumption since boot (in mJ).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "Current clock event reasons (bitmask of DCGM_CLOCKS_EVENT_REASON_*)",
}


def exporter(with_processes: bool, port_file: Path) -> Callable[[], None]:
    """Serves what NVML says in dcgm-exporter's names and labels; the returned function renews it."""
    import socket

    import pynvml as nv
    from prometheus_client import Gauge, start_http_server

    nv.nvmlInit()
    gauges = [Gauge(name, text, _LABELS) for name, text in _GAUGES.items()]
    shares = Gauge("process_sm_percent", "SM share of a process", ("gpu", "pid"))
    used = Gauge("process_memory_bytes", "GPU memory of a process", ("gpu", "pid"))
    driver, host = nv.nvmlSystemGetDriverVersion(), socket.gethostname()
    cards = []
    for index in range(nv.nvmlDeviceGetCount()):
        handle = nv.nvmlDeviceGetHandleByIndex(index)
        labels = (
            str(index), nv.nvmlDeviceGetUUID(handle), nv.nvmlDeviceGetPciInfo(handle).busId, f"nvidia{index}",
            nv.nvmlDeviceGetName(handle), host, driver,
        )  # fmt: skip
        cards.append((str(index), handle, [gauge.labels(*labels) for gauge in gauges]))
    server, _ = start_http_server(0, "127.0.0.1")
    port_file.write_text(str(server.server_port))
    fields = [nv.NVML_FI_DEV_POWER_AVERAGE, nv.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION]

    def renew() -> None:
        for index, handle, shown in cards:
            power, energy = nv.nvmlDeviceGetFieldValues(handle, fields)
            shown[0].set(power.value.uiVal / 1000)
            shown[1].set(energy.value.ullVal)
            with suppress(nv.NVMLError_NotSupported):  # a card that is cut into instances
                shown[2].set(nv.nvmlDeviceGetUtilizationRates(handle).gpu)
            memory = nv.nvmlDeviceGetMemoryInfo(handle, nv.nvmlMemory_v2)
            shown[3].set(memory.used >> 20)
            shown[4].set(memory.free >> 20)
            shown[5].set(nv.nvmlDeviceGetTemperatureV(handle, nv.NVML_TEMPERATURE_GPU))
            shown[6].set(nv.nvmlDeviceGetCurrentClocksEventReasons(handle))
            if with_processes:
                for process in nv.nvmlDeviceGetComputeRunningProcesses(handle):
                    used.labels(index, str(process.pid)).set(process.usedGpuMemory)
                since_us = int((time.time() - 1) * 1_000_000)
                with suppress(nv.NVMLError_NotSupported):
                    for sample in nv.nvmlDeviceGetProcessUtilization(handle, since_us):
                        shares.labels(index, str(sample.pid)).set(sample.smUtil)

    return renew


def smi() -> Callable[[], None]:
    """Starts `nvidia-smi` (the first on PATH) and parses what it prints."""
    newest: dict[str, dict[str, str | float]] = {}

    def renew() -> None:
        command = ["nvidia-smi", f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader,nounits"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for cells in csv.reader(said.splitlines(), skipinitialspace=True):
            card: dict[str, str | float] = dict(zip(SMI_FIELDS.split(","), cells, strict=True))
            for name in ("power.draw.average", "utilization.gpu", "memory.used", "temperature.gpu"):
                card[name] = float(card[name])
            newest[str(card["uuid"])] = card

    return renew


def children_cpu_s() -> str:
    """User and system time of the children that have ended, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return str(used.ru_utime + used.ru_stime)


def main() -> None:
    """Renew each period until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("exporter", "smi"))
    parser.add_argument("--period-s", type=float, default=1.0)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--port-file", type=Path, default=Path("port"), help="where the exporter says its port")
    parser.add_argument("--usage-file", type=Path, default=Path("usage"), help="CPU of children, on SIGUSR1")
    asked = parser.parse_args()
    signal.signal(signal.SIGUSR1, lambda *_: asked.usage_file.write_text(children_cpu_s()))
    renew = smi() if asked.kind == "smi" else exporter(asked.processes, asked.port_file)
    due_s = time.monotonic()
    while True:
        renew()
        due_s += asked.period_s
        time.sleep(max(due_s - time.monotonic(), 0))


if __name__ == "__main__":
    main()

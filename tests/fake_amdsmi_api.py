"""Whole `amdsmi` modules of other versions, as Python sees them: the functions, keys and shapes of 6.0, 6.1, 6.2, 6.3,
6.4 and 7.0 over the GPUs of `fake_amdsmi`. No ctypes below, and no structures to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.amd import AmdSmiProbe
from wattledger_agent.probes.reading import DeviceReading

from tests.fake_amdsmi import VERSIONS, FakeAmdSmi, probe_of
from tests.fake_amdsmi_gpu import NA16, NA32, NOT_FOUND, OUT_OF_RESOURCES, FakeGpu

WRAPPERS = ("6.0", "6.1", "6.2", "6.3", "6.4", "7.0")


class AmdSmiMemoryType(IntEnum):
    VRAM = 0


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0
    HOTSPOT = 1


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class AmdSmiVirtualizationMode(IntEnum):
    BAREMETAL = 1
    GUEST = 3


class AmdSmiException(Exception):
    pass


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, err_code: int) -> None:
        super().__init__(err_code)
        self.err_code = err_code


class FakeApi:
    """`module(...)` is what `import amdsmi` gives. `shapes` replaces what a function returns, by (function, device)."""

    def __init__(self, fake: FakeAmdSmi, version: str) -> None:
        self.fake = fake
        self.version = tuple(int(part) for part in version.split("."))
        self.shapes: dict[tuple[str, str], object] = {}

    def module(self) -> ModuleType:
        module = ModuleType("amdsmi")
        members: dict[str, object] = {
            "AmdSmiException": AmdSmiException,
            "AmdSmiLibraryException": AmdSmiLibraryException,
            "AmdSmiMemoryType": AmdSmiMemoryType,
            "AmdSmiTemperatureType": AmdSmiTemperatureType,
            "AmdSmiTemperatureMetric": AmdSmiTemperatureMetric,
            "__version__": ".".join(map(str, self.version)),
            "amdsmi_init": lambda: None,
            "amdsmi_shut_down": lambda: None,
            "amdsmi_get_lib_version": self._lib_version,
            "amdsmi_get_processor_handles": lambda: list(self.fake.gpus),
        }
        for name, answer in self._functions().items():
            members[name] = self._of_device(name, answer)
        module.__dict__.update(members)
        return module

    def _functions(self) -> dict[str, Callable[..., object]]:
        functions: dict[str, Callable[..., object]] = {
            "amdsmi_get_gpu_device_bdf": lambda gpu: gpu.bdf,
            "amdsmi_get_gpu_bdf_id": lambda gpu: gpu.partition << 28 | gpu.bus << 8 | gpu.function,
            "amdsmi_get_gpu_asic_info": lambda gpu: {"market_name": gpu.model, "device_id": hex(gpu.device_id)},
            "amdsmi_get_gpu_driver_info": lambda gpu: {"driver_name": "amdgpu", "driver_version": "6.12.12"},
            "amdsmi_get_gpu_compute_partition": lambda gpu: gpu.mode or "N/A",
            "amdsmi_get_gpu_memory_partition": lambda gpu: gpu.memory_mode or "N/A",
            "amdsmi_get_power_info": self._power,
            "amdsmi_get_power_cap_info": self._cap,
            "amdsmi_get_energy_count": self._energy,
            "amdsmi_get_gpu_activity": lambda gpu: {"gfx_activity": self._na(gpu.activity), "umc_activity": 12},
            "amdsmi_get_gpu_memory_usage": lambda gpu, kind: gpu.used_bytes,
            "amdsmi_get_gpu_memory_total": lambda gpu, kind: gpu.total_bytes,
            "amdsmi_get_temp_metric": lambda gpu, kind, metric: gpu.edge_c if kind == 0 else gpu.hotspot_c,
            "amdsmi_get_gpu_metrics_info": self._metrics,
            "amdsmi_get_gpu_process_list": self._processes,
        }
        if self.version < (6, 2):
            functions["amdsmi_get_gpu_process_info"] = lambda gpu, process: self._process(process)
        if self.version >= (6, 3):
            functions["amdsmi_get_gpu_kfd_info"] = lambda gpu: {"kfd_id": 1, "current_partition_id": gpu.partition}
        if self.version >= (6, 4):
            functions["amdsmi_get_gpu_enumeration_info"] = lambda gpu: {"drm_render": 128, "drm_card": 0}
            functions["amdsmi_get_gpu_virtualization_mode"] = lambda gpu: {
                "mode": AmdSmiVirtualizationMode(gpu.virtualization)
            }
        return functions

    def _of_device(self, name: str, answer: Callable[..., object]) -> Callable[..., object]:
        def called(gpu: FakeGpu, *arguments: Any) -> object:
            if gpu.gone or gpu.status.get(name, 0):
                raise AmdSmiLibraryException(NOT_FOUND if gpu.gone else gpu.status[name])
            shaped = self.shapes.get((name, gpu.device))
            return answer(gpu, *arguments) if shaped is None else shaped

        return called

    def _na(self, value: int) -> int | str:
        """Until 6.1 the dictionary passes the sentinel on; later it says N/A."""
        return "N/A" if value == NA16 and self.version >= (6, 2) else value

    def _lib_version(self) -> Mapping[str, object]:
        numbers = VERSIONS["6.3" if self.version < (6, 4) else "6.4" if self.version < (7, 0) else "7.0"]
        names = ("major", "minor", "release") if self.version >= (7, 0) else ("year", "major", "minor", "release")
        return dict(zip(names, numbers, strict=False)) | {"build": "0"}

    def _power(self, gpu: FakeGpu) -> Mapping[str, object]:
        power: dict[str, object] = {
            "current_socket_power": self._na(gpu.current_w),
            "average_socket_power": self._na(gpu.average_w),
            "gfx_voltage": self._na(gpu.gfx_voltage_mv),
            "soc_voltage": "N/A",
            "mem_voltage": "N/A",
            "power_limit": gpu.cap // 1_000_000,
        }
        if self.version >= (6, 4):
            power["socket_power"] = self._na(gpu.current_w if gpu.current_w != NA16 else gpu.average_w)
        return power

    def _cap(self, gpu: FakeGpu) -> Mapping[str, object]:
        cap = gpu.cap if self.version >= (6, 2) else gpu.cap // 1_000_000
        return {"power_cap": cap, "default_power_cap": cap, "dpm_cap": 0, "min_power_cap": 0, "max_power_cap": cap}

    def _energy(self, gpu: FakeGpu) -> Mapping[str, object]:
        counts, stamp = gpu.foreign or (gpu.counts, gpu.stamp_ns)
        energy: dict[str, object] = {"counter_resolution": 15.300000190734863, "timestamp": stamp}
        if self.version < (6, 4):
            energy["power"] = counts
        if self.version >= (6, 3):
            energy["energy_accumulator"] = counts
        return energy

    def _metrics(self, gpu: FakeGpu) -> Mapping[str, object]:
        table: dict[str, object] = {name: self._na(value) for name, value in gpu.metrics().items()}
        for name in ("throttle_status", "indep_throttle_status"):
            value = gpu.metrics()[name]
            table[name] = "N/A" if value in (NA32, 2**64 - 1) else bool(value)
        if self.version >= (6, 3):
            revision, content = gpu.header
            table |= {"common_header.format_revision": revision, "common_header.content_revision": content}
            table["xcp_stats.gfx_busy_inst"] = gpu.busy
        return table

    def _processes(self, gpu: FakeGpu) -> list[object]:
        if len(gpu.processes) > 1024:
            raise AmdSmiLibraryException(OUT_OF_RESOURCES)
        return [process if self.version < (6, 2) else self._process(process) for process in gpu.processes]

    @staticmethod
    def _process(process: Any) -> Mapping[str, object]:
        return {
            "name": "N/A",
            "pid": process.pid,
            "mem": process.vram_bytes,
            "engine_usage": {"gfx": process.gfx_ns, "enc": 0},
            "memory_usage": {"gtt_mem": 0, "cpu_mem": 0, "vram_mem": process.vram_bytes},
            "cu_occupancy": "N/A",
        }


WALL = 1_767_225_600_000_000


class Bench:
    """A probe, its clock, and the machine below it."""

    def __init__(self, folder: Path, fake: FakeAmdSmi, version: str = "") -> None:
        self.fake = fake
        self.clock = ManualClock(WALL)
        self.api = FakeApi(fake, version or "7.0")
        load = self.api.module if version else fake.loader()
        self.probe: AmdSmiProbe = probe_of(load, self.clock, folder)
        self.probe.open()

    def tick(self, seconds: int = 1) -> dict[str, DeviceReading]:
        self.clock.sleep(seconds)
        self.fake.advance(seconds)
        return {reading.device: reading for reading in self.probe.read().devices}

    def one(self) -> DeviceReading:
        (reading,) = self.tick().values()
        return reading

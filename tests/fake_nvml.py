"""NVML below the real nvidia-ml-py: Python functions in the place of libnvidia-ml.so.1 that fill the binding's own
structs and return codes, so that the binding's code runs as it is. Time moves by `advance` only."""

import importlib.util
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.nvml import NvmlProbe

from tests.fake_nvml_card import (
    AVERAGE,
    ENERGY,
    INSTANT,
    INVALID,
    LOST,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    TOO_SMALL,
    U32,
    U64,
    UNINITIALIZED,
    UNKNOWN,
    FakeGpu,
    FakeInstance,
    FakeProcess,
    address_of,
    point,
    put,
    put_processes,
    put_text,
)
from tests.probe_under_test import ProbeUnderTest

START_US = 1_780_000_000_000_000
_COLUMNS = {
    "busy_ppm": "nvmlDeviceGetUtilizationRates",
    "memory_used_bytes": "nvmlDeviceGetMemoryInfo_v2",
    "temperature_c": "nvmlDeviceGetTemperatureV",
    "throttle": "nvmlDeviceGetCurrentClocksEventReasons",
    "processes": "nvmlDeviceGetComputeRunningProcesses_v3",
}
_copies = itertools.count()


class FakeNvml:
    """A machine with cards. `broken`: the code that every call returns; `absent`: functions the driver lacks."""

    def __init__(self, gpus: list[FakeGpu], driver: str = "590.48.01", root: Path = Path("/nonexistent")) -> None:
        self.gpus, self.driver, self.root = gpus, driver, root
        self.clock = ManualClock(START_US)
        self.broken = 0
        self.codes: dict[str, int] = {}
        self.absent: set[str] = set()
        self.calls = 0
        self.gpm_buffers: dict[int, tuple[float, float, float | None] | None] = {}
        self._opened = 0
        self._handles: dict[int, tuple[FakeGpu, FakeInstance | None, int]] = {}
        self._addresses = itertools.count(0x1000, 16)

    def advance(self, seconds: float = 1.0) -> None:
        """Time passes: counters grow by power, instances are active."""
        self.clock.sleep(seconds)
        for gpu in self.gpus:
            gpu.energy_uj += round(gpu.power_mw * 1000 * seconds)
            for instance in gpu.instances:
                instance.active_s += seconds * instance.activity / 100

    def binding(self) -> ModuleType:
        """A copy of the real binding of its own, with this machine below it."""
        name = f"pynvml_on_fake_{next(_copies)}"
        spec = importlib.util.find_spec("pynvml")
        assert spec is not None
        copied = importlib.util.spec_from_file_location(name, spec.origin)
        assert copied is not None
        assert copied.loader is not None
        module = importlib.util.module_from_spec(copied)
        # The binding builds its error classes by looking itself up there.
        sys.modules[name] = module
        copied.loader.exec_module(module)
        del sys.modules[name]
        module.__dict__["nvmlLib"] = _Library(self)
        return module

    def probe(self) -> NvmlProbe:
        """A probe on this machine, its time included."""
        module = self.binding()
        return NvmlProbe(self.clock, self.root, lambda: module)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Put this machine below the one global `pynvml`, for programs that import it themselves."""
        import pynvml

        before = pynvml.nvmlLib
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml.nvmlLib = _Library(self)
        try:
            yield
        finally:
            pynvml._nvmlGetFunctionPointer_cache.clear()
            pynvml.nvmlLib = before

    def answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        """One call from the binding: a return code, after the arguments were filled."""
        self.calls += 1
        code = self.broken or self.codes.get(name, 0)
        if code:
            return code
        if not self._opened and name != "nvmlInitWithFlags":
            return UNINITIALIZED
        method: Callable[..., int] = getattr(self, name)
        if not name.startswith("nvmlDevice") or name in _BY_NUMBER:
            return method(*arguments)
        known = self._handles.get(address_of(arguments[0]))
        if known is None or (known[1] is not None and known[1] not in known[0].instances):
            return INVALID
        gpu, instance, place = known
        code = gpu.lost or gpu.codes.get(name, 0)
        if code:
            return code
        if name in _OF_INSTANCES:
            return method(gpu, instance, place, *arguments[1:])
        return method(gpu, *arguments[1:])

    def _handle(self, out: Any, gpu: FakeGpu, instance: FakeInstance | None = None, place: int = 0) -> int:
        address = next(self._addresses)
        self._handles[address] = (gpu, instance, place)
        point(out, address)
        return 0

    def nvmlInitWithFlags(self, flags: int) -> int:
        self._opened += 1
        return 0

    def nvmlShutdown(self) -> int:
        self._opened -= 1
        return 0

    def nvmlSystemGetDriverVersion(self, out: Any, size: Any) -> int:
        return put_text(out, self.driver)

    def nvmlSystemGetNVMLVersion(self, out: Any, size: Any) -> int:
        return put_text(out, f"13.{self.driver}")

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:
        return put(out, len(self.gpus))

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> int:
        gpu = self.gpus[index.value]
        return gpu.lost or gpu.codes.get("nvmlDeviceGetHandleByIndex_v2", 0) or self._handle(out, gpu)

    def nvmlDeviceGetHandleByUUID(self, uuid: Any, out: Any) -> int:
        for gpu in self.gpus:
            if gpu.uuid == uuid.value.decode():
                return gpu.lost or self._handle(out, gpu)
        return NOT_FOUND

    def nvmlDeviceGetUUID(self, gpu: FakeGpu, instance: FakeInstance | None, place: int, out: Any, size: Any) -> int:
        return put_text(out, instance.uuids[place] if instance else gpu.uuid)

    def nvmlDeviceGetName(self, gpu: FakeGpu, instance: FakeInstance | None, place: int, out: Any, size: Any) -> int:
        if instance is None:
            return put_text(out, gpu.name)
        prefix = f"{1}c." if len(instance.uuids) > 1 else ""
        return put_text(out, f"{gpu.name} MIG {prefix}{instance.profile}")

    def nvmlDeviceGetMinorNumber(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.minor)

    def nvmlDeviceGetPciInfo_v3(self, gpu: FakeGpu, out: Any) -> int:
        info = out._obj
        info.domain, info.bus, info.device, info.pciDeviceId = 0, gpu.bus, 0, gpu.pci_device_id
        info.busId = f"00000000:{gpu.bus:02X}:00.0"
        return 0

    def nvmlDeviceGetArchitecture(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.architecture)

    def nvmlDeviceGetC2cModeInfoV(self, gpu: FakeGpu, out: Any) -> int:
        out._obj.isC2cEnabled = gpu.c2c
        return 0

    def nvmlDeviceGetPowerManagementLimitConstraints(self, gpu: FakeGpu, low: Any, high: Any) -> int:
        return put(low, 200_000) or put(high, gpu.max_limit_mw)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.limit_mw)

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, count: Any, out: Any) -> int:
        truth = {AVERAGE: (1, gpu.power_mw), INSTANT: (1, gpu.power_mw), ENERGY: (3, gpu.energy_uj // 1000)}
        for place in range(count.value):
            found = out._obj[place]
            kind, raw = truth.get(found.fieldId, (1, 0))
            found.nvmlReturn = gpu.field_codes.get(found.fieldId, 0 if found.fieldId in truth else NOT_SUPPORTED)
            found.valueType, found.timestamp = kind, self.clock.wall_us()
            raw = 0 if found.nvmlReturn else gpu.field_raw.get(found.fieldId, raw)
            setattr(found.value, "uiVal" if kind == 1 else "ullVal", raw)
        return 0

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.power_mw)

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.energy_uj // 1000)

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu, out: Any) -> int:
        out._obj.gpu = gpu.busy
        return 0

    def nvmlDeviceGetMemoryInfo_v2(self, gpu: FakeGpu, out: Any) -> int:
        found = out._obj
        if found.version != 0x0200_0028:
            return 25
        found.total, found.reserved, found.used = gpu.memory
        found.free = (found.total - found.reserved - found.used) & U64
        return 0

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, out: Any) -> int:
        found = out._obj
        found.total, found.used = gpu.memory[0], gpu.memory[1] + gpu.memory[2]
        found.free = found.total - found.used
        return 0

    def nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: Any, out: Any) -> int:
        return put(out, gpu.temperature & U32)

    def nvmlDeviceGetTemperatureV(self, gpu: FakeGpu, out: Any) -> int:
        out._obj.temperature = gpu.temperature
        return 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.throttle)

    nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons

    def nvmlDeviceGetComputeRunningProcesses_v3(
        self, gpu: FakeGpu, instance: FakeInstance | None, place: int, count: Any, out: Any
    ) -> int:
        if instance is None and "privilege" in gpu.codes:
            return NO_PERMISSION
        running = [each for each in gpu.processes if instance is None or (each.gi, each.ci) == (instance.gi, place)]
        return put_processes(running, gpu.process_record, count, out)

    def nvmlDeviceGetMPSComputeRunningProcesses_v3(self, gpu: FakeGpu, count: Any, out: Any) -> int:
        return put_processes(gpu.mps_clients, gpu.process_record, count, out)

    def nvmlDeviceGetProcessUtilization(self, gpu: FakeGpu, out: Any, count: Any, last_seen: Any) -> int:
        if gpu.mig_mode:
            return NOT_SUPPORTED
        stamp = self.clock.wall_us() - 50_000
        made = [(each.pid, stamp, each.sm, 1, 0, 0) for each in gpu.processes if each.sm]
        samples = made if gpu.samples is None else gpu.samples
        if out is None:
            put(count, len(samples))
            return TOO_SMALL if samples else gpu.no_samples_code
        for place, sample in enumerate(samples):
            found = out[place]
            found.pid, found.timeStamp, found.smUtil, found.memUtil, found.encUtil, found.decUtil = sample
        return put(count, len(samples))

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu, current: Any, pending: Any) -> int:
        return put(current, gpu.mig_mode) or put(pending, gpu.mig_mode)

    def nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu, out: Any) -> int:
        return put(out, gpu.most_instances if gpu.mig_mode else 0)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: Any, out: Any) -> int:
        computes = [(each, place) for each in gpu.instances for place in range(len(each.uuids))]
        if index.value >= len(computes):
            return NOT_FOUND
        return self._handle(out, gpu, *computes[index.value])

    def nvmlDeviceGetGpuInstanceId(self, gpu: FakeGpu, instance: FakeInstance | None, place: int, out: Any) -> int:
        return NOT_SUPPORTED if instance is None else put(out, instance.gi)

    def nvmlDeviceGetAttributes_v2(self, gpu: FakeGpu, instance: FakeInstance | None, place: int, out: Any) -> int:
        if instance is None:
            return NOT_SUPPORTED
        out._obj.gpuInstanceSliceCount = int(instance.profile[0])
        out._obj.memorySizeMB = instance.memory_mb
        return 0

    def nvmlGpmQueryDeviceSupport(self, handle: Any, out: Any) -> int:
        out._obj.isSupportedDevice = int(self._handles[address_of(handle)][0].gpm)
        return 0

    def nvmlGpmSampleAlloc(self, out: Any) -> int:
        address = next(self._addresses)
        self.gpm_buffers[address] = None
        point(out, address)
        return 0

    def nvmlGpmSampleFree(self, sample: Any) -> int:
        del self.gpm_buffers[address_of(sample)]
        return 0

    def nvmlGpmMigSampleGet(self, handle: Any, gi: int, sample: Any) -> int:
        gpu = self._handles[address_of(handle)][0]
        code = gpu.lost or gpu.codes.get("nvmlGpmMigSampleGet", 0)
        for instance in () if code else gpu.instances:
            if instance.gi == gi:
                self.gpm_buffers[address_of(sample)] = (self.clock.monotonic_s(), instance.active_s, instance.gpm)
                return 0
        return code or NOT_FOUND

    def nvmlGpmMetricsGet(self, out: Any) -> int:
        asked = out._obj
        first, second = (self.gpm_buffers[address_of(each)] for each in (asked.sample1, asked.sample2))
        assert first is not None
        assert second is not None
        assert (asked.version, asked.numMetrics, asked.metrics[0].metricId) == (1, 1, 1)
        if second[0] <= first[0]:
            return INVALID
        measured = 100 * (second[1] - first[1]) / (second[0] - first[0])
        asked.metrics[0].nvmlReturn = 0
        asked.metrics[0].value = measured if second[2] is None else second[2]
        return 0


_BY_NUMBER = {"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID"}
_OF_INSTANCES = {
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
}


class _Library:
    """What ctypes would have loaded: a name gives a function, or AttributeError where the driver lacks it."""

    def __init__(self, machine: FakeNvml) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name in self._machine.absent or not name.startswith("nvml") or not hasattr(self._machine, name):
            raise AttributeError(name)

        def function(*arguments: Any) -> int:
            return self._machine.answer(name, arguments)

        return function


def fake_fleet(count: int, driver: str = "590.48.01", root: Path = Path("/nonexistent")) -> FakeNvml:
    """A machine with `count` H100s whose minors run against their indices, each with a process."""
    gpus = [
        FakeGpu(
            uuid=f"GPU-00000000-0000-4000-8000-{index:012x}",
            index=index,
            minor=count - 1 - index,
            bus=0x1A + index,
            energy_uj=5_000_000_000 + index * 7_000_000,
            processes=[FakeProcess(4000 + index, sm=40)],
        )
        for index in range(count)
    ]
    return FakeNvml(gpus, driver, root)


def contract_probe() -> ProbeUnderTest:
    """Two cards with all hands on them."""
    fleet = fake_fleet(2)
    by_uuid = {gpu.uuid: gpu for gpu in fleet.gpus}

    def deny(device: str, column: str) -> None:
        gpu = by_uuid[device]
        if column == "power_mw":
            gpu.field_codes |= {AVERAGE: NOT_SUPPORTED, INSTANT: NOT_SUPPORTED}
        elif column == "energy_uj":
            gpu.field_codes[ENERGY] = NOT_SUPPORTED
        else:
            gpu.codes[_COLUMNS[column]] = NOT_SUPPORTED

    return ProbeUnderTest(
        probe=fleet.probe(),
        devices=tuple(by_uuid),
        advance=fleet.advance,
        lose=lambda device: setattr(by_uuid[device], "lost", LOST),
        deny=deny,
        break_library=lambda: setattr(fleet, "broken", UNKNOWN),
        mend_library=lambda: setattr(fleet, "broken", 0),
    )

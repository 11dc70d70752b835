"""A fake AMD SMI. Under the real 7.0.2 wrapper it stands in for libamd_smi.so and writes the bytes that each library
version writes; `FakeApi` stands in for whole wrappers of other versions (6.0 to 7.0), with their dictionaries."""

from __future__ import annotations

import ctypes
import importlib
import struct
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.amd import AmdSmiProbe

from tests.fake_amdsmi_gpu import (
    COLUMN_CALLS,
    COLUMN_FIELDS,
    DRIVER_NOT_LOADED,
    NA16,
    NA32,
    NOT_FOUND,
    NOT_SUPPORTED,
    OUT_OF_RESOURCES,
    FakeGpu,
    FakeProcess,
)
from tests.probe_under_test import ProbeUnderTest

VERSIONS = {"6.3": (24, 7, 1, 0), "6.4": (25, 3, 0, 0), "7.0": (26, 0, 2, 0)}
"""What `amdsmi_get_lib_version` writes: year, major, minor, release; from 26 on major, minor, release."""


class FakeAmdSmi:
    """The machine: its GPUs, and the library's version and state."""

    def __init__(self, *gpus: FakeGpu, library: str = "7.0") -> None:
        self.gpus = list(gpus) or [FakeGpu()]
        self.library = library
        self.broken = 0
        self.calls: list[str] = []
        self.open = False

    def advance(self, seconds: int = 1) -> None:
        for gpu in self.gpus:
            gpu.advance(seconds)

    def find(self, device: str) -> FakeGpu:
        return next(gpu for gpu in self.gpus if gpu.device == device)

    def deny(self, device: str, column: str) -> None:
        gpu = self.find(device)
        gpu.status |= dict.fromkeys(COLUMN_CALLS[column], NOT_SUPPORTED)
        gpu.table |= COLUMN_FIELDS.get(column, {})
        if column == "power_mw":
            gpu.current_w = gpu.average_w = NA16

    def loader(self) -> Callable[[], ModuleType]:
        """For `AmdSmiProbe(load=...)`: the real wrapper, with this fake under it."""

        def load() -> ModuleType:
            module = _wrapper()
            _LIBRARY.fake = self
            return module

        return load

    def probe(self, clock: ManualClock, folder: Path, processes_every: int = 1) -> AmdSmiProbe:
        return probe_of(self.loader(), clock, folder, processes_every)


def probe_of(load: Callable[[], ModuleType], clock: ManualClock, folder: Path, processes_every: int = 1) -> AmdSmiProbe:
    """A probe whose boot id, driver folder and compute device lie in `folder`."""
    (folder / "boot_id").write_text("6f1c0a52-77b1-4c55-9d4e-3a8f2f1b9a10\n", encoding="ascii")
    (folder / "amdgpu").mkdir(exist_ok=True)
    (folder / "kfd").touch()
    return AmdSmiProbe(clock, load, folder / "boot_id", folder / "amdgpu", folder / "kfd", processes_every)


class _Function:
    """What ctypes gives for a library's symbol: callable, with settable argument and result types."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.restype: Any = None
        self.argtypes: Any = None

    def __call__(self, *arguments: Any) -> int:
        assert _LIBRARY.fake is not None
        return _Answers(_LIBRARY.fake).answer(self.name, arguments)


class _Library:
    """libamd_smi.so as `ctypes.CDLL` would give it, for the fake that is in use."""

    def __init__(self) -> None:
        self.fake: FakeAmdSmi | None = None
        self._functions: dict[str, _Function] = {}

    def __getattr__(self, name: str) -> _Function:
        if not name.startswith("amdsmi_"):
            raise AttributeError(name)
        return self._functions.setdefault(name, _Function(name))


_LIBRARY = _Library()


@cache
def _wrapper() -> ModuleType:
    """The real wrapper, imported with the fake library under it, and taken out of the loaded modules again."""
    plain = ctypes.CDLL

    def load_library(location: Any, *rest: Any, **more: Any) -> Any:
        return _LIBRARY if "libamd_smi" in str(location) else plain(location, *rest, **more)

    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "amdsmi"}
    with patch("ctypes.CDLL", load_library):
        module = importlib.import_module("amdsmi")
    for name in [name for name in sys.modules if name.split(".")[0] == "amdsmi"]:
        sys.modules.pop(name)
    sys.modules.update(before)
    return module


def write_bytes(target: Any, payload: bytes) -> None:
    """As a C library writes: whatever the size of the caller's structure. Where that would run over foreign memory,
    the test ends."""
    kept = target._objects or {}
    room = ctypes.sizeof(target) + (1 << 14 if any("memory" in str(value) for value in kept.values()) else 0)
    assert len(payload) <= room, f"the library would write {len(payload)} bytes into {room}"
    ctypes.memmove(ctypes.addressof(target), payload, len(payload))


def power_bytes(gpu: FakeGpu, library: str) -> bytes:
    """The power structure of a library version: 68 bytes until 6.3, 40 in 6.4, 192 in 7.0; unset fields 0xFFFF."""
    limit = gpu.cap // 1_000_000
    volts = (gpu.gfx_voltage_mv, NA16, NA16)
    if library == "6.3":
        return struct.pack("<6I44x", gpu.current_w, gpu.average_w, *volts, limit)
    socket = gpu.current_w if gpu.current_w != NA16 else gpu.average_w
    if library == "6.4":
        return struct.pack("<Q6I8x", socket, gpu.current_w, gpu.average_w, *volts, limit)
    return struct.pack("<Q2I3QI4x144x", socket, gpu.current_w, gpu.average_w, *volts, limit)


class _Answers:
    """The library's functions."""

    def __init__(self, fake: FakeAmdSmi) -> None:
        self.fake = fake

    def answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        self.fake.calls.append(name)
        if self.fake.broken:
            return self.fake.broken
        method = getattr(self, name.removeprefix("amdsmi_"), None)
        if method is None:
            return NOT_SUPPORTED
        if name in _WITHOUT_DEVICE:
            return int(method(*arguments))
        gpu = self.fake.gpus[int(arguments[0].value) - 1]
        if gpu.gone:
            return NOT_FOUND
        status = gpu.status.get(name, 0)
        if status and name != "amdsmi_get_power_info":
            return status
        return int(method(gpu, *arguments[1:]) or status)

    def init(self, _flags: Any) -> int:
        self.fake.open = True
        return 0

    def shut_down(self) -> int:
        self.fake.open = False
        return 0

    def get_lib_version(self, version: Any) -> int:
        numbers = VERSIONS[self.fake.library]
        shape = "<3I4xQ" if self.fake.library == "7.0" else "<4IQ"
        count = 3 if self.fake.library == "7.0" else 4
        write_bytes(version._obj, struct.pack(shape, *numbers[:count], ctypes.addressof(_BUILD)))
        return 0

    def get_socket_handles(self, count: Any, handles: Any) -> int:
        count._obj.value = 1
        if handles:
            handles[0] = 1
        return 0

    def get_processor_handles(self, _socket: Any, count: Any, handles: Any) -> int:
        count._obj.value = len(self.fake.gpus)
        for at in range(len(self.fake.gpus) if handles else 0):
            handles[at] = at + 1
        return 0

    def get_gpu_device_bdf(self, gpu: FakeGpu, bdf: Any) -> None:
        write_bytes(bdf._obj, struct.pack("<Q", gpu.function | gpu.bus << 8))

    def get_gpu_bdf_id(self, gpu: FakeGpu, bdf_id: Any) -> None:
        high = gpu.partition if gpu.high_bits is None else gpu.high_bits
        bdf_id._obj.value = high << 28 | gpu.bus << 8 | gpu.function

    def get_gpu_kfd_info(self, gpu: FakeGpu, info: Any) -> None:
        partition = gpu.partition if gpu.kfd_partition is None else gpu.kfd_partition
        write_bytes(info._obj, struct.pack("<Q2I", 1, 1, partition))

    def get_gpu_asic_info(self, gpu: FakeGpu, info: Any) -> None:
        info._obj.market_name = gpu.model.encode()
        info._obj.vendor_id, info._obj.device_id = 0x1002, gpu.device_id
        info._obj.asic_serial = b"" if gpu.partition else b"ABCDEF0123456789"

    def get_gpu_driver_info(self, _gpu: FakeGpu, info: Any) -> None:
        info._obj.driver_version = b"6.12.12"
        info._obj.driver_name = b"amdgpu"

    def get_gpu_enumeration_info(self, _gpu: FakeGpu, info: Any) -> None:
        info._obj.drm_render = 128 + self.fake.gpus.index(_gpu)

    def get_gpu_compute_partition(self, gpu: FakeGpu, name: Any, _length: Any) -> int:
        name.value = gpu.mode.encode()
        return 0 if gpu.mode else NOT_SUPPORTED

    def get_gpu_memory_partition(self, gpu: FakeGpu, name: Any, _length: Any) -> int:
        name.value = gpu.memory_mode.encode()
        return 0 if gpu.memory_mode else NOT_SUPPORTED

    def get_gpu_xcd_counter(self, gpu: FakeGpu, count: Any) -> None:
        count._obj.value = gpu.engines

    def get_gpu_virtualization_mode(self, gpu: FakeGpu, mode: Any) -> None:
        mode._obj.value = gpu.virtualization

    def get_power_info(self, gpu: FakeGpu, info: Any) -> None:
        write_bytes(info._obj, power_bytes(gpu, self.fake.library))

    def get_power_cap_info(self, gpu: FakeGpu, _sensor: Any, info: Any) -> None:
        write_bytes(info._obj, struct.pack("<5Q", gpu.cap, gpu.cap, gpu.cap, 0, 750_000_000))

    def get_energy_count(self, gpu: FakeGpu, counts: Any, resolution: Any, stamp: Any) -> None:
        counts._obj.value, stamp._obj.value = gpu.foreign or (gpu.counts, gpu.stamp_ns)
        resolution._obj.value = 15.3

    def get_gpu_activity(self, gpu: FakeGpu, usage: Any) -> None:
        write_bytes(usage._obj, struct.pack("<3I", gpu.table.get("average_gfx_activity", gpu.activity), 12, NA16))

    def get_gpu_memory_usage(self, gpu: FakeGpu, _kind: Any, used: Any) -> None:
        used._obj.value = gpu.used_bytes

    def get_gpu_memory_total(self, gpu: FakeGpu, _kind: Any, total: Any) -> None:
        total._obj.value = gpu.total_bytes

    def get_temp_metric(self, gpu: FakeGpu, sensor: Any, _metric: Any, celsius: Any) -> int:
        value = gpu.edge_c if int(sensor) == 0 else gpu.hotspot_c
        celsius._obj.value = value
        return NOT_SUPPORTED if value == NA16 else 0

    def get_gpu_metrics_info(self, gpu: FakeGpu, info: Any) -> None:
        table = info._obj
        ctypes.memset(ctypes.addressof(table), 0xFF, ctypes.sizeof(table))
        table.common_header.format_revision, table.common_header.content_revision = gpu.header
        for name, value in gpu.metrics().items():
            setattr(table, name, value)
        for at, shares in enumerate(gpu.busy):
            for engine, share in enumerate(shares):
                table.xcp_stats[at].gfx_busy_inst[engine] = share

    def get_gpu_process_list(self, gpu: FakeGpu, count: Any, rows: Any) -> int:
        if len(gpu.processes) > count._obj.value:
            return OUT_OF_RESOURCES
        count._obj.value = len(gpu.processes)
        for row, process in zip(rows, gpu.processes, strict=False):
            row.pid, row.mem, row.cu_occupancy = process.pid, process.vram_bytes, NA32
            row.engine_usage.gfx, row.memory_usage.vram_mem = process.gfx_ns, process.vram_bytes
        return 0


_WITHOUT_DEVICE = {
    "amdsmi_init",
    "amdsmi_shut_down",
    "amdsmi_get_lib_version",
    "amdsmi_get_socket_handles",
    "amdsmi_get_processor_handles",
}
_BUILD = ctypes.create_string_buffer(b"2")


def contract_probe() -> ProbeUnderTest:
    """The AMD probe on two MI300X of one socket each, under the real wrapper."""
    fake = FakeAmdSmi(
        FakeGpu(processes=[FakeProcess(4711, grows_ns=900_000_000)], residency={"ppt_residency_acc": 5}),
        FakeGpu(bus=0x22, counts=9_000_000_000, current_w=140, draws_w=140, activity=3),
    )
    clock = ManualClock(1_767_225_600_000_000)

    def advance() -> None:
        clock.sleep(1)
        fake.advance()

    def lose(device: str) -> None:
        fake.find(device).gone = True

    def set_broken(code: int) -> None:
        fake.broken = code

    return ProbeUnderTest(
        probe=fake.probe(clock, Path(tempfile.mkdtemp(prefix="fake-amdsmi-"))),
        devices=tuple(gpu.device for gpu in fake.gpus),
        advance=advance,
        lose=lose,
        deny=fake.deny,
        break_library=lambda: set_broken(DRIVER_NOT_LOADED),
        mend_library=lambda: set_broken(0),
    )

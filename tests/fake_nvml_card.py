"""What the fake NVML is made of: cards, instances, processes, and the writing into the binding's ctypes objects."""

import ctypes
import struct
from dataclasses import dataclass, field
from typing import Any

UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TOO_SMALL = 1, 2, 3, 4, 6, 7
NOT_LOADED, TIMEOUT, LOST, RESET, MISMATCH, UNKNOWN = 9, 10, 15, 16, 18, 999
U32, U64 = 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
AVERAGE, INSTANT, ENERGY = 185, 186, 83
PROCESS_RECORD, PROCESS_RECORD_535 = "<I4xQII", "<I4xQIIQ"
"""Process records: as the binding reads them, and as early 535 drivers wrote them (nvitop#75)."""


@dataclass
class FakeProcess:
    """A compute process; `sm`: its share of the last sample, none where it has no sample."""

    pid: int
    memory: int = 1 << 30
    sm: int | None = None
    gi: int = U32
    ci: int = U32


@dataclass
class FakeInstance:
    """A GPU instance with as many compute instances as it has UUIDs. `gpm`: what GPM says in place of `activity`."""

    gi: int
    profile: str
    uuids: tuple[str, ...]
    memory_mb: int = 20_096
    activity: float = 0.0
    gpm: float | None = None
    active_s: float = 0.0


@dataclass
class FakeGpu:
    """One card. `codes`: function name to the code it returns; `field_codes`, `field_raw`: the same for fields."""

    uuid: str
    index: int
    name: str = "NVIDIA H100 80GB HBM3"
    architecture: int = 9
    pci_device_id: int = 0x2330_10DE
    minor: int = 0
    bus: int = 0
    power_mw: int = 300_000
    energy_uj: int = 5_000_000_000
    busy: int = 40
    memory: tuple[int, int, int] = (85_520_809_984, 640 << 20, 4 << 30)
    temperature: int = 45
    throttle: int = 0
    limit_mw: int = 700_000
    max_limit_mw: int = 700_000
    c2c: int = 0
    gpm: bool = True
    mig_mode: int = 0
    most_instances: int = 7
    instances: list[FakeInstance] = field(default_factory=list)
    processes: list[FakeProcess] = field(default_factory=list)
    mps_clients: list[FakeProcess] = field(default_factory=list)
    process_record: str = PROCESS_RECORD
    samples: list[tuple[int, int, int, int, int, int]] | None = None
    """(pid, timeStamp, smUtil, memUtil, encUtil, decUtil) as they are; None: made from `processes`."""
    no_samples_code: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    field_codes: dict[int, int] = field(default_factory=dict)
    field_raw: dict[int, int] = field(default_factory=dict)
    lost: int = 0


def address_of(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def point(out: Any, address: int) -> None:
    held = ctypes.c_void_p(address)
    ctypes.memmove(ctypes.addressof(out._obj), ctypes.addressof(held), ctypes.sizeof(held))


def put(out: Any, value: int) -> int:
    out._obj.value = value
    return 0


def put_text(out: Any, text: str) -> int:
    out.value = text.encode()
    return 0


def put_processes(running: list[FakeProcess], record: str, count: Any, out: Any) -> int:
    """Size query, then records written as bytes in the driver's own layout, whatever the binding makes of them."""
    put(count, len(running))
    if out is None:
        return TOO_SMALL if running else 0
    more = (0,) if record == PROCESS_RECORD_535 else ()
    written = b"".join(struct.pack(record, each.pid & U32, each.memory, each.gi, each.ci, *more) for each in running)
    ctypes.memmove(out, written, len(written))
    return 0

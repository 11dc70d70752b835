"""Processes on an AMD device: shares from their engine times, and when the list is not to be believed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wattledger_agent.probes.amd_library import AmdLibrary
from wattledger_agent.probes.amd_value import number
from wattledger_agent.probes.reading import (
    ABI_MISMATCH,
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_READ,
    SENTINEL,
    UNKNOWN_ERROR,
    ProcessReading,
    Reading,
    unknown,
)

PID_MAX: Final = 4_194_304
_WHOLE: Final = 1_000_000
_BUSY_PPM: Final = 50_000
_UNDER_LOAD_PPM: Final = 500_000
OUT_OF_RESOURCES: Final = 15


@dataclass(frozen=True, slots=True)
class ProcessList:
    """`processes` None: not known, `reason` says why, `told` says it to people."""

    processes: tuple[ProcessReading, ...] | None
    reason: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    pid: int
    gfx_ns: int | None
    memory_bytes: int | None


class ProcessTrack:
    """Turns engine times, which only grow, into shares since the list was last read."""

    def __init__(self) -> None:
        self._gfx_ns: dict[int, int] = {}
        self._at_us = 0

    def read(self, library: AmdLibrary, handle: object, at_us: int, busy_ppm: int | None) -> ProcessList:
        """The processes on the device now. `at_us` is monotonic, `busy_ppm` the device's busy share (None: unknown)."""
        answer = library.ask("amdsmi_get_gpu_process_list", handle)
        if answer.code == OUT_OF_RESOURCES:
            return ProcessList(None, UNKNOWN_ERROR, "more than 1024 processes: AMD SMI gives no list then")
        if answer.reason:
            return ProcessList(None, answer.reason)
        items = [item if isinstance(item, Mapping) else _info(library, handle, item) for item in answer.value or []]
        rows = [_row(item) for item in items if item is not None]
        rows = [row for row in rows if row.pid != 0 or row.gfx_ns or row.memory_bytes]
        if any(not 0 < row.pid <= PID_MAX for row in rows):
            return ProcessList(None, ABI_MISMATCH, "process ids above 4194304: wrapper and library do not fit")
        if not rows and busy_ppm is not None and busy_ppm > _UNDER_LOAD_PPM:
            told = "busy, yet AMD SMI lists no process: other users' are hidden; run the agent as root or in `render`"
            return ProcessList(None, NO_PERMISSION, told)
        return ProcessList(self._shares(rows, at_us, busy_ppm))

    def _shares(self, rows: list[_Row], at_us: int, busy_ppm: int | None) -> tuple[ProcessReading, ...]:
        before, span_us = self._gfx_ns, at_us - self._at_us
        self._gfx_ns = {row.pid: row.gfx_ns for row in rows if row.gfx_ns is not None}
        self._at_us = at_us
        moved = any(ns > before.get(pid, 0) for pid, ns in self._gfx_ns.items())
        # The driver often counts 0 ns for compute queues: without any movement a share of 0 is believed of an idle
        # device only.
        blind = not moved and (busy_ppm is None or busy_ppm > _BUSY_PPM)
        return tuple(
            ProcessReading(
                row.pid,
                _share(row.gfx_ns, before.get(row.pid), span_us, blind),
                Reading(row.memory_bytes) if row.memory_bytes is not None else unknown(SENTINEL),
            )
            for row in rows
        )


def _share(now_ns: int | None, before_ns: int | None, span_us: int, blind: bool) -> Reading:
    if now_ns is None:
        return unknown(SENTINEL)
    if blind:
        return unknown(IMPLAUSIBLE)
    if before_ns is None or span_us <= 0:
        return unknown(NOT_READ)
    share_ppm = (now_ns - before_ns) * 1000 // span_us
    if not 0 <= share_ppm <= _WHOLE * 3 // 2:
        return unknown(IMPLAUSIBLE)
    return Reading(min(share_ppm, _WHOLE))  # reading takes time: a whole one may come out a little longer


def _info(library: AmdLibrary, handle: object, item: object) -> Mapping[str, object] | None:
    """Before 6.2 the list held handles, each to be asked for."""
    value = library.ask("amdsmi_get_gpu_process_info", handle, item).value
    return value if isinstance(value, Mapping) else None


def _row(item: Mapping[str, object]) -> _Row:
    engines, memory = item.get("engine_usage"), item.get("memory_usage")
    gfx_ns = number(engines.get("gfx"), narrow=False) if isinstance(engines, Mapping) else None
    vram = number(memory.get("vram_mem"), narrow=False) if isinstance(memory, Mapping) else None
    pid = number(item.get("pid"), narrow=False)
    return _Row(-1 if pid is None else pid, gfx_ns, vram if vram else number(item.get("mem"), narrow=False))

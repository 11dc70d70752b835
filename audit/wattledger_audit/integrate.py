"""`wattledger integrate`: the energy of a recorded trace, by the same curves that bill tenants."""

from dataclasses import dataclass

import numpy as np
from wattledger_core.batch import Batch, SampledDevice
from wattledger_core.curve import METHOD_NAMES, Curves, build_curves, mark_text
from wattledger_core.policy import Policy
from wattledger_core.sensor import longest_still_run

from wattledger_audit.nvidia_smi_csv import InputRefused, Trace

_LOW_POWER_MW = 1000
_BUSY_PPM = 500_000


@dataclass(frozen=True, slots=True)
class Integrated:
    """Energy of one device over `[from_us, to_us)`; `energy_uj` is None when nothing could be measured."""

    device: str
    from_us: int
    to_us: int
    energy_uj: int | None
    method: str
    measured_us: int
    gaps: tuple[tuple[int, int], ...]
    quality: tuple[str, ...]
    samples: int
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Plain values for `--json`."""
        return {
            "device": self.device,
            "from_us": self.from_us,
            "to_us": self.to_us,
            "energy_uj": self.energy_uj,
            "method": self.method,
            "measured_us": self.measured_us,
            "gaps": [{"start_us": start, "end_us": end} for start, end in self.gaps],
            "quality": list(self.quality),
            "samples": self.samples,
            "notes": list(self.notes),
        }


def trace_batch(trace: Trace) -> Batch:
    """The whole trace as one batch of one device; the period is the median distance of two readings."""
    if len(trace.ticks_us) < 2:
        raise InputRefused(f"device {trace.device or '(only)'}: one reading; energy needs two")
    period_us = max(int(np.median(np.diff(trace.ticks_us))), 1)
    device = SampledDevice(trace.device or "GPU-0", 0, "", 0, "", "", "", "exclusive", "", 0, None)
    none = np.zeros((1, len(trace.ticks_us)), dtype=np.int64)
    never = np.zeros((1, len(trace.ticks_us)), dtype=np.bool_)
    return Batch(
        "file", "", "file", "", 0, period_us, trace.ticks_us, (device,), trace.power_mw[None, :], trace.valid[None, :],
        none, never, trace.busy_ppm[None, :], trace.busy_valid[None, :],
    )  # fmt: skip


def integrate(trace: Trace, from_us: int | None, to_us: int | None, policy: Policy) -> Integrated:
    """Energy between two stamps (the trace's own ends by default). What the trace does not cover is a gap."""
    batch = trace_batch(trace)
    start_us = batch.start_us if from_us is None else from_us
    end_us = batch.end_us if to_us is None else to_us
    if start_us >= end_us:
        raise InputRefused(f"--from-us {start_us} is not before --to-us {end_us}")
    curves = build_curves(batch, policy)
    inside_start, inside_end = max(start_us, batch.start_us), min(end_us, batch.end_us)
    gaps = _gaps(curves, start_us, end_us)
    notes = []
    if trace.repeated_stamps:
        notes.append(f"{trace.repeated_stamps} readings repeat the stamp before and were left out")
    if trace.falling_stamps:
        notes.append(f"{trace.falling_stamps} readings go back in time and were left out")
    if inside_start >= inside_end:
        quality = ("outside_of_trace",)
        return Integrated(
            trace.device, start_us, end_us, None, "none", 0, gaps, quality, len(trace.ticks_us), tuple(notes)
        )
    part = curves.slice(0, inside_start, inside_end)
    quality_marks = {mark for mark in mark_text(part.marks).split(",") if mark}
    quality_marks |= _quality(trace, inside_start, inside_end, notes)
    if gaps:
        quality_marks.add("gaps")
    energy_uj = part.energy_uj if part.measured_us else None
    return Integrated(
        trace.device, start_us, end_us, energy_uj, METHOD_NAMES[part.method], part.measured_us, gaps,
        tuple(sorted(quality_marks)), len(trace.ticks_us), tuple(notes),
    )  # fmt: skip


def _gaps(curves: Curves, start_us: int, end_us: int) -> tuple[tuple[int, int], ...]:
    """Stretches with no energy: unmeasured pairs, and what lies outside of the trace. Touching ones are one."""
    ticks = curves.ticks
    dark = [(ticks[k], ticks[k + 1]) for k in np.flatnonzero(curves.method[0] == 0).tolist()]
    dark += [(start_us, ticks[0]), (ticks[-1], end_us)]
    merged: list[tuple[int, int]] = []
    for first, last in sorted((max(a, start_us), min(b, end_us)) for a, b in dark):
        if first >= last:
            continue
        if merged and merged[-1][1] == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _quality(trace: Trace, start_us: int, end_us: int, notes: list[str]) -> set[str]:
    inside = (trace.ticks_us >= start_us) & (trace.ticks_us <= end_us)
    run = longest_still_run(trace.ticks_us[inside], trace.power_mw[inside], trace.valid[inside])
    marks: set[str] = set()
    if run.frozen:
        marks.add("frozen_sensor")
        seconds = (run.end_us - run.start_us) // 1_000_000
        notes.append(
            f"the sensor is frozen: {run.readings} readings of {run.value} mW over {seconds} s; the energy is that of "
            "the reading, not of the card"
        )
    low = inside & trace.valid & (trace.power_mw < _LOW_POWER_MW) & trace.busy_valid & (trace.busy_ppm > _BUSY_PPM)
    if low.any():
        marks.add("implausible_low")
        notes.append(f"{int(low.sum())} readings under 1 W while the card was busy")
    return marks

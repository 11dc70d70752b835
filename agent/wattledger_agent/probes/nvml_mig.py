"""The MIG instances of one card: which exist, how often each was made, how active each is (GPM, Hopper and newer).
Power and energy of an instance do not exist; they are the parent's."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattledger_agent.probes.device import MigInstance
from wattledger_agent.probes.nvml_library import NvmlFailure, NvmlLibrary
from wattledger_agent.probes.nvml_values import GONE, NOT_FOUND_CODE, gpm_share_ppm, reason_of
from wattledger_agent.probes.reading import NOT_SUPPORTED, STALE, UNREAD, InstanceReading, Reading, unknown

_GRAPHICS_UTIL = 1
"""GPM: share of the time that engines of the instance were active, in percent of the instance's own whole (with one
compute instance of one slice busy, a 3g instance reads 33 %: DCGM#138)."""
_GPM_GAP_S = 0.1
"""GPM renews its counters each 100 ms; two samples closer than that tell nothing."""
_PROFILE = re.compile(r"(?:^|\s)(?:\d+c\.)?(\d+g\.\S+)$")
MOST_INSTANCES = 16
"""No card is cut into more; a count above it is a mark for "no value"."""
_NOT_THERE = (NOT_FOUND_CODE, 2)
"""What a call says of an instance that does not exist: NOT_FOUND, or INVALID_ARGUMENT for a stale handle."""
_MIB = 1 << 20


@dataclass(slots=True)
class _Activity:
    """Two GPM sample buffers of one instance, written by turns."""

    latest: Any
    spare: Any
    taken_s: float | None = None


class MigInstances:
    """Instances of one card. A generation survives a re-opening of the library, so one object serves all of them."""

    def __init__(self, capabilities: Path) -> None:
        self._capabilities = capabilities
        self._generations: dict[str, tuple[object, int]] = {}
        self._present: frozenset[str] = frozenset()
        self._folders: dict[str, tuple[int, int]] | None = None
        self._doubted = False
        self._activities: dict[str, _Activity] = {}
        self._gpm: Any = None
        self.instances: tuple[MigInstance, ...] = ()
        self.handles: tuple[Any, ...] = ()

    def moved(self) -> bool:
        """Whether an instance was made or destroyed since `find`, by the kernel's own list, where it shows one: cheap
        enough for every tick, and it sees an instance that was made again with the same id."""
        return self._doubted or (self._folders is not None and self._look() != self._folders)

    def find(self, library: NvmlLibrary, handle: Any) -> bool:
        """Ask for the geometry anew; handles of instances that were destroyed must not be used again. Returns whether
        it differs. Raises NvmlFailure, with everything as it was, where the card does not tell."""
        folders, found = self._look(), _handles_by_instance(library, handle)
        self._folders, self._doubted = folders, False
        before = self.instances
        self.handles = tuple(mig for group in found.values() for mig in group)
        self.instances = tuple(self._describe(library, name, group) for name, group in sorted(found.items()))
        self._present = frozenset(found)
        for gone in self._activities.keys() - found.keys():
            self._free(library, self._activities.pop(gone))
        return self.instances != before

    def forget(self, library: NvmlLibrary) -> bool:
        """MIG was switched off. Returns whether there were instances."""
        before, self.instances, self._present = self.instances, (), frozenset()
        self.close(library)
        return bool(before)

    def read(self, library: NvmlLibrary, handle: Any, now_s: float) -> tuple[InstanceReading, ...]:
        """Activity of every instance since the sample before. Raises NvmlFailure only where the card is gone."""
        readings = []
        for instance in self.instances:
            try:
                activity = self._activity(library, handle, instance.gpu_instance, now_s)
            except NvmlFailure as failed:
                activity = unknown(reason_of(failed.code))
                if activity.reason in GONE:
                    raise
                self._doubted |= failed.code in _NOT_THERE
                if (buffers := self._activities.pop(instance.gpu_instance, None)) is not None:
                    self._free(library, buffers)
            readings.append(InstanceReading(instance.gpu_instance, activity))
        return tuple(readings)

    def ask_gpm(self, library: NvmlLibrary, handle: Any) -> None:
        """Whether the card has GPM, and the one struct that its questions use."""
        self._activities.clear()
        support = library.attempt("nvmlGpmQueryDeviceSupport", handle)
        self._gpm = None
        if support is not None and support.isSupportedDevice:
            self._gpm = library.binding.c_nvmlGpmMetricsGet_t()
            self._gpm.version = library.binding.NVML_GPM_METRICS_GET_VERSION
            self._gpm.numMetrics = 1
            self._gpm.metrics[0].metricId = _GRAPHICS_UTIL

    def close(self, library: NvmlLibrary) -> None:
        """Give back the sample buffers."""
        for activity in self._activities.values():
            self._free(library, activity)
        self._activities.clear()
        self.handles = ()

    def _activity(self, library: NvmlLibrary, handle: Any, name: str, now_s: float) -> Reading:
        if self._gpm is None:
            return unknown(NOT_SUPPORTED)
        activity = self._activities.get(name)
        if activity is None:
            buffers = library.call("nvmlGpmSampleAlloc"), library.call("nvmlGpmSampleAlloc")
            activity = self._activities[name] = _Activity(*buffers)
        if activity.taken_s is not None and now_s - activity.taken_s < _GPM_GAP_S:
            return unknown(STALE)
        library.call("nvmlGpmMigSampleGet", handle, int(name), activity.spare)
        activity.latest, activity.spare = activity.spare, activity.latest
        first, activity.taken_s = activity.taken_s is None, now_s
        if first:
            return UNREAD
        self._gpm.sample1, self._gpm.sample2 = activity.spare, activity.latest
        metric = library.call("nvmlGpmMetricsGet", self._gpm).metrics[0]
        return unknown(reason_of(metric.nvmlReturn)) if metric.nvmlReturn else gpm_share_ppm(metric.value)

    def _describe(self, library: NvmlLibrary, name: str, group: list[Any]) -> MigInstance:
        uuids = tuple(uuid for mig in group if (uuid := library.attempt("nvmlDeviceGetUUID", mig)))
        attributes = library.attempt("nvmlDeviceGetAttributes_v2", group[0])
        slices = 0 if attributes is None else int(attributes.gpuInstanceSliceCount)
        size = None if attributes is None else int(attributes.memorySizeMB) * _MIB
        title = _PROFILE.search(library.attempt("nvmlDeviceGetName", group[0]) or "")
        gib = -(-(size or 0) // (1 << 30))
        profile = title.group(1) if title else f"{slices}g.{gib}gb" if slices else ""
        slices = slices or int(profile.partition("g")[0] or 0)
        folder = (self._folders or {}).get(name)
        generation = self._generation(name, (folder and folder[0], profile))
        minors = _minors(self._capabilities / f"gi{name}")
        return MigInstance(name, uuids[0] if uuids else "", profile, slices, size, generation, uuids, minors)

    def _generation(self, name: str, identity: object) -> int:
        """Counts up where the instance was away at the last look, or is another one under the same id."""
        known = self._generations.get(name)
        generation = 0 if known is None else known[1] + (name not in self._present or known[0] != identity)
        self._generations[name] = (identity, generation)
        return generation

    def _look(self) -> dict[str, tuple[int, int]] | None:
        """Folder of each GPU instance in /proc: its inode, a new one for every instance made, and its number of links,
        which counts the compute instances. None: not shown here."""
        try:
            with os.scandir(self._capabilities) as entries:
                states = {entry.name[2:]: entry.stat() for entry in entries if entry.name.startswith("gi")}
        except OSError:
            return None
        return {name: (state.st_ino, state.st_nlink) for name, state in states.items()}

    @staticmethod
    def _free(library: NvmlLibrary, activity: _Activity) -> None:
        for sample in (activity.latest, activity.spare):
            library.attempt("nvmlGpmSampleFree", sample)


def _handles_by_instance(library: NvmlLibrary, handle: Any) -> dict[str, list[Any]]:
    """MIG device handles (one for each compute instance) by GPU instance. Raises NvmlFailure."""
    found: dict[str, list[Any]] = {}
    most = library.attempt("nvmlDeviceGetMaxMigDeviceCount", handle) or MOST_INSTANCES
    for index in range(min(most, MOST_INSTANCES)):
        try:
            mig = library.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
            instance = library.call("nvmlDeviceGetGpuInstanceId", mig)
        except NvmlFailure as failed:
            if failed.code in _NOT_THERE:
                continue
            raise
        found.setdefault(str(instance), []).append(mig)
    return found


def _minors(instance: Path) -> tuple[int, ...]:
    """Minor numbers of the /dev/nvidia-caps nodes of an instance and of its compute instances."""
    minors = []
    for access in sorted(instance.glob("access")) + sorted(instance.glob("ci*/access")):
        try:
            match = re.search(r"DeviceFileMinor:\s*(\d+)", access.read_text())
        except OSError:
            continue
        minors += [int(match.group(1))] if match else []
    return tuple(minors)

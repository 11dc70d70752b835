"""Host energy: RAPL zones of the powercap tree (CPU packages, cores, DRAM, platform). Reads files; attributes nothing.

Zones overlap (psys holds the package, the package its core, DRAM is inside or outside of it by model), so none is added
to another here.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import structlog

from wattledger_agent.clock import Clock
from wattledger_agent.probes.device import Inventory
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NO_PERMISSION,
    STALE,
    UNKNOWN_ERROR,
    ProbeTick,
    Reading,
    ZoneReading,
    unknown,
)

POWERCAP = Path("/sys/class/powercap")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_ZONE = re.compile(r"^[a-z-]*rapl[a-z-]*(:\d+)+$")
_MEMORY_MAPPED = "-mmio"
"""`intel-rapl-mmio:0` is the package of `intel-rapl:0` by another door."""
_MOST_MW = 3_000_000
"""No zone draws more (two full server packages are below 1.5 kW); what exceeds it is a bad reading."""
_SLACK_UJ = 300_000_000
"""What a counter may be ahead of the clock: 0.1 s at that power. It is renewed each millisecond, reading takes time."""
_ABSURD_RANGE_UJ = 1 << 62
_RESCAN_TICKS = 60
FIX = (
    "give the agent CAP_DAC_READ_SEARCH, or let its group read the files: a udev rule or tmpfiles.d line such as "
    "`z /sys/class/powercap/*/energy_uj 0440 root wattledger-agent` (they are root's since CVE-2020-8694)"
)


@dataclass(slots=True)
class _Point:
    raw_uj: int
    at_us: int


class ZoneTrack:
    """One zone's counter made whole: wraps undone, bad reads left out, a reset counted in `run`.

    A raw value below the last is a wrap when the sum with the counter's range is an energy that the time allows;
    otherwise it is left out, and only a second value that goes on from there makes it a reset.
    """

    def __init__(self, range_uj: int | None) -> None:
        self.range_uj = range_uj
        self.run = 0
        self._total_uj = 0
        self._last: _Point | None = None
        self._suspect: _Point | None = None

    def take(self, raw_uj: int, at_us: int) -> Reading:
        """The unwrapped counter in µJ, or why this reading can't be used. `at_us` is monotonic."""
        now = _Point(raw_uj, at_us)
        if self.range_uj is not None and raw_uj > self.range_uj and self._last is None:
            self.range_uj = None  # a counter beyond its own range: the range is not to be believed
        if raw_uj < 0 or (self.range_uj is not None and raw_uj > self.range_uj):
            return unknown(IMPLAUSIBLE)
        if self._last is None:
            return self._start(now)
        if at_us <= self._last.at_us:
            return unknown(STALE)
        if self._may_have_wrapped_unseen(at_us):
            self.run += 1
            return self._start(now)
        grown_uj = self._grown(self._last, now)
        if grown_uj is not None:
            self._total_uj += grown_uj
            self._last, self._suspect = now, None
            return Reading(self._total_uj)
        if self._suspect is not None and self._grown(self._suspect, now) is not None:
            self.run += 1
            return self._start(now)
        self._suspect = now
        return unknown(IMPLAUSIBLE)

    def _start(self, now: _Point) -> Reading:
        self._total_uj, self._last, self._suspect = now.raw_uj, now, None
        return Reading(self._total_uj)

    def _grown(self, before: _Point, now: _Point) -> int | None:
        """Energy from `before` to `now` in µJ; None: no energy that the time allows explains the two values."""
        most_uj = _most_uj(now.at_us - before.at_us)
        grown_uj = now.raw_uj - before.raw_uj
        if grown_uj < 0 and self.range_uj is not None:
            # The counter runs from 0 to its range and starts again (kernel documentation of powercap).
            grown_uj += self.range_uj
        return grown_uj if 0 <= grown_uj <= most_uj else None

    def _may_have_wrapped_unseen(self, at_us: int) -> bool:
        assert self._last is not None
        return self.range_uj is not None and _most_uj(at_us - self._last.at_us) - _SLACK_UJ >= self.range_uj


def _most_uj(span_us: int) -> int:
    return _MOST_MW * span_us // 1000 + _SLACK_UJ


@dataclass(slots=True)
class _Zone:
    name: str
    energy_file: Path
    track: ZoneTrack


class RaplProbe:
    """`root` is the powercap tree, `boot_id` the file with the boot's id. The counter's run (`counter_epoch`) begins
    with `open`: how often it wrapped while nobody looked can't be known, so an outage of the agent is a gap."""

    name = "rapl"

    def __init__(self, clock: Clock, root: Path = POWERCAP, boot_id: Path = BOOT_ID) -> None:
        self._clock = clock
        self._root = root
        self._boot_id = boot_id
        self._zones: dict[str, _Zone] = {}
        self._opened = ""
        self._ticks = 0
        self._notes: dict[str, str] = {}
        self._log = structlog.get_logger()

    def open(self) -> None:
        """Find the zones. Raises ProbeUnavailable (absent) on a machine without any."""
        found = find_zones(self._root)
        if not found:
            raise ProbeUnavailable(
                f"no RAPL zone under {self._root}",
                "load the kernel module intel_rapl_msr; virtual machines and many non-x86 machines have none",
                absent=True,
            )
        self._opened = f"{_text(self._boot_id) or 'boot'}/{self._clock.wall_us()}"
        self._notes = {}
        self._zones = {}
        self._ticks = 0
        self._adopt(found)

    def inventory(self) -> Inventory:
        """No devices: host zones belong to none. The notes name files that can't be read."""
        return Inventory(notes=tuple(self._notes.values()), library="powercap")

    def read(self) -> ProbeTick:
        """Every zone's counter. A zone that went away is looked for again each minute."""
        if not self._zones:
            raise ProbeUnavailable("the RAPL probe is not open or its zones are gone", "it is opened again")
        self._ticks += 1
        readings = tuple(self._read_zone(zone) for zone in self._zones.values())
        dead = all(zone.energy_uj.reason == UNKNOWN_ERROR for zone in readings)
        if dead or self._ticks % _RESCAN_TICKS == 0:
            found = find_zones(self._root)
            if dead and not found:
                raise ProbeUnavailable(f"the RAPL zones under {self._root} are gone", "load the module intel_rapl_msr")
            self._adopt(found)
        return ProbeTick(zones=readings)

    def close(self) -> None:
        self._zones = {}

    def _read_zone(self, zone: _Zone) -> ZoneReading:
        try:
            raw_uj = int(zone.energy_file.read_text(encoding="ascii"))
        except PermissionError:
            reading = unknown(NO_PERMISSION)
            self._tell(zone.name, f"{zone.energy_file}: permission denied, so {zone.name} has no energy: {FIX}")
        except (OSError, ValueError) as error:
            reading = unknown(UNKNOWN_ERROR)
            self._tell(zone.name, f"{zone.energy_file}: {error}: see what the kernel log says of intel_rapl")
        else:
            reading = zone.track.take(raw_uj, round(self._clock.monotonic_s() * 1_000_000))
            self._notes.pop(zone.name, None)
        return ZoneReading(zone.name, reading, f"{self._opened}/{zone.track.run}")

    def _adopt(self, found: dict[str, Path]) -> None:
        """Take up zones that appeared, drop those that went. One that comes back begins a new run: what it counted
        meanwhile may have wrapped."""
        for name in [name for name in self._zones if name not in found]:
            self._zones.pop(name)
            self._notes.pop(name, None)
            self._notes.pop(f"{name} range", None)
        for name, folder in found.items():
            if name not in self._zones:
                track = ZoneTrack(_range_uj(folder))
                track.run = self._ticks
                self._zones[name] = _Zone(name, folder / "energy_uj", track)
                if track.range_uj is None:
                    told = f"{folder}/max_energy_range_uj is unreadable or absurd: at a wrap a reading is left out"
                    self._tell(f"{name} range", told)

    def _tell(self, name: str, sentence: str) -> None:
        if self._notes.get(name) != sentence:
            self._notes[name] = sentence
            self._log.warning("rapl_zone_not_read", zone=name, detail=sentence)


def find_zones(root: Path) -> dict[str, Path]:
    """Folder by zone name (`package-0`, `package-0/dram`), in the tree's order. Sub-zones lie beside their parents as
    links or below them as folders. A memory-mapped twin of a zone is left out; a name that two zones share gets the
    zone's own id behind it."""
    folders: dict[str, Path] = {}
    _collect(root, folders)
    names: dict[str, Path] = {}
    for zone_id in sorted(folders, key=_order):
        name = _path_name(zone_id, folders)
        if name in names and _MEMORY_MAPPED in zone_id:
            continue
        names[f"{name}@{zone_id}" if name in names else name] = folders[zone_id]
    return names


def _collect(folder: Path, found: dict[str, Path], depth: int = 0) -> None:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    inside = [entry for entry in entries if "rapl" in entry.name and entry.is_dir()]
    for entry in inside:
        if _ZONE.match(entry.name) and entry.name not in found and (entry / "name").is_file():
            found[entry.name] = entry
    for entry in inside if depth < 3 else []:
        _collect(entry, found, depth + 1)


def _order(zone_id: str) -> tuple[bool, str, list[int]]:
    kind, *numbers = zone_id.split(":")
    return _MEMORY_MAPPED in kind, kind, [int(number) for number in numbers]


def _path_name(zone_id: str, folders: dict[str, Path]) -> str:
    parts = zone_id.split(":")
    above = [":".join(parts[: n + 1]) for n in range(1, len(parts))]
    return "/".join((_text(folders[one] / "name") if one in folders else "") or one for one in above)


def _range_uj(folder: Path) -> int | None:
    try:
        range_uj = int((folder / "max_energy_range_uj").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return range_uj if 0 < range_uj < _ABSURD_RANGE_UJ else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""

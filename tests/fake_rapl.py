"""A powercap tree in a folder, as the kernel lays it out: zones beside each other as links to nested folders."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.rapl import RaplProbe

from tests.probe_under_test import ProbeUnderTest

RANGE_UJ = 262_143_328_850
"""`max_energy_range_uj` of a package on common Intel servers; 65,712,999,613 of their DRAM."""
DRAM_RANGE_UJ = 65_712_999_613


class FakePowercap:
    """`root` is to be taken for /sys/class/powercap; `boot_id` for /proc/sys/kernel/random/boot_id."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "class" / "powercap"
        self.boot_id = folder / "boot_id"
        self._devices = folder / "devices" / "virtual" / "powercap"
        self.root.mkdir(parents=True)
        self.boot_id.write_text("6f1c0a52-77b1-4c55-9d4e-3a8f2f1b9a10\n", encoding="ascii")

    def folder(self, zone_id: str) -> Path:
        kind, *numbers = zone_id.split(":")
        steps = [":".join([kind, *numbers[: n + 1]]) for n in range(len(numbers))]
        return self._devices.joinpath(kind, *steps)

    def add(self, zone_id: str, name: str, energy_uj: int = 0, range_uj: int | str | None = RANGE_UJ) -> None:
        """A zone such as `intel-rapl:0:1`; `range_uj` None: the file is missing."""
        folder = self.folder(zone_id)
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n", encoding="ascii")
        (folder / "enabled").write_text("1\n", encoding="ascii")
        self.set(zone_id, energy_uj)
        if range_uj is not None:
            (folder / "max_energy_range_uj").write_text(f"{range_uj}\n", encoding="ascii")
        for link, target in ((zone_id, folder), (zone_id.split(":")[0], self._devices / zone_id.split(":")[0])):
            if not (self.root / link).exists():
                (self.root / link).symlink_to(target)

    def set(self, zone_id: str, energy_uj: int | str) -> None:
        (self.folder(zone_id) / "energy_uj").write_text(f"{energy_uj}\n", encoding="ascii")

    def grow(self, zone_id: str, by_uj: int, range_uj: int = RANGE_UJ) -> None:
        """As the hardware counts: past its range it starts again from 0."""
        at = int((self.folder(zone_id) / "energy_uj").read_text(encoding="ascii"))
        self.set(zone_id, (at + by_uj) % range_uj)

    def remove(self, zone_id: str) -> None:
        (self.root / zone_id).unlink()
        for file in self.folder(zone_id).iterdir():
            file.unlink()
        self.folder(zone_id).rmdir()


def two_sockets(folder: Path) -> FakePowercap:
    """A server with two packages, each with its DRAM, and the platform zone."""
    tree = FakePowercap(folder)
    for socket in (0, 1):
        tree.add(f"intel-rapl:{socket}", f"package-{socket}", 1_000_000_000 * (socket + 1))
        tree.add(f"intel-rapl:{socket}:0", "dram", 500_000_000, DRAM_RANGE_UJ)
    tree.add("intel-rapl:2", "psys", 7_000_000_000)
    return tree


def contract_probe() -> ProbeUnderTest:
    """The RAPL probe on two sockets at 150 W and 20 W of DRAM each."""
    tree = two_sockets(Path(tempfile.mkdtemp(prefix="fake-powercap-")))
    clock = ManualClock(1_767_225_600_000_000)

    def advance() -> None:
        clock.sleep(1)
        for socket in (0, 1):
            tree.grow(f"intel-rapl:{socket}", 150_000_000)
            tree.grow(f"intel-rapl:{socket}:0", 20_000_000, DRAM_RANGE_UJ)
        tree.grow("intel-rapl:2", 400_000_000)

    hidden = tree.root.with_name("powercap-away")

    return ProbeUnderTest(
        probe=RaplProbe(clock, tree.root, tree.boot_id),
        devices=(),
        advance=advance,
        break_library=lambda: _move(tree.root, hidden),
        mend_library=lambda: _move(hidden, tree.root),
    )


def _move(here: Path, there: Path) -> None:
    here.rename(there)

"""RAPL: wraps undone, bad reads left out, zones named by path, permission said with what to do."""

from pathlib import Path

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.rapl import RaplProbe, ZoneTrack, find_zones
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NO_PERMISSION,
    STALE,
    UNKNOWN_ERROR,
    Reading,
    ZoneReading,
    unknown,
)

from tests.fake_rapl import DRAM_RANGE_UJ, RANGE_UJ, FakePowercap, two_sockets

S = 1_000_000
NEVER = unknown(IMPLAUSIBLE)


def _probe(tree: FakePowercap) -> tuple[RaplProbe, ManualClock]:
    clock = ManualClock(1_767_225_600_000_000)
    probe = RaplProbe(clock, tree.root, tree.boot_id)
    probe.open()
    return probe, clock


def _values(probe: RaplProbe) -> dict[str, Reading]:
    return {zone.zone: zone.energy_uj for zone in probe.read().zones}


TRACKS: list[tuple[str, int | None, list[tuple[int, int]], list[Reading], int]] = [
    (
        "a counter that passes its range goes on growing",
        RANGE_UJ,
        [(0, RANGE_UJ - 50 * S), (S, 100 * S)],
        [Reading(RANGE_UJ - 50 * S), Reading(RANGE_UJ + 100 * S)],
        0,
    ),
    (
        "a wrap is no licence for another 65 kJ in one second",
        DRAM_RANGE_UJ,
        [(0, DRAM_RANGE_UJ - 1), (S, 5), (2 * S, DRAM_RANGE_UJ - 1), (3 * S, 7)],
        [Reading(DRAM_RANGE_UJ - 1), Reading(DRAM_RANGE_UJ + 5), NEVER, Reading(DRAM_RANGE_UJ + 7)],
        0,
    ),
    (
        "B33: a fall from 4000000000 to 10000 without a range is left out, then counted from where it goes on",
        None,
        [(0, 4_000_000_000), (S, 10_000), (2 * S, 90_010_000), (3 * S, 180_010_000)],
        [Reading(4_000_000_000), NEVER, Reading(90_010_000), Reading(180_010_000)],
        1,
    ),
    (
        "B33: the same fall with the range of a package is no wrap: 258 kJ in a second",
        RANGE_UJ,
        [(0, 4_000_000_000), (S, 10_000)],
        [Reading(4_000_000_000), NEVER],
        0,
    ),
    (
        "B32: one read of 200 J between two of 22 MJ is one bad read",
        None,
        [(0, 22_000_000 * S), (5 * S, 200 * S), (10 * S, 22_000_900 * S)],
        [Reading(22_000_000 * S), NEVER, Reading(22_000_900 * S)],
        0,
    ),
    (
        "B32: 2^64 µJ in 5 s is no energy",
        None,
        [(0, 22_000_000 * S), (5 * S, 1 << 64), (10 * S, 22_000_900 * S)],
        [Reading(22_000_000 * S), NEVER, Reading(22_000_900 * S)],
        0,
    ),
    (
        "B48: a second reading of the same moment is ignored and its energy comes with the next",
        RANGE_UJ,
        [(5 * S, 100 * S), (5 * S, 130 * S), (4 * S, 160 * S), (6 * S, 250 * S)],
        [Reading(100 * S), unknown(STALE), unknown(STALE), Reading(250 * S)],
        0,
    ),
    (
        "B47: 27.35 J in half a millisecond of clock is energy all the same, for no power is made of it",
        RANGE_UJ,
        [(0, 100 * S), (500, 127_350_000)],
        [Reading(100 * S), Reading(127_350_000)],
        0,
    ),
    (
        "B50: after 6200404 s nobody knows how often the counter wrapped: a new run",
        RANGE_UJ,
        [(0, 100 * S), (6_200_404_583_720, 200 * S)],
        [Reading(100 * S), Reading(200 * S)],
        1,
    ),
    (
        "a negative value is no energy",
        RANGE_UJ,
        [(0, 100 * S), (S, -5), (2 * S, 300 * S)],
        [Reading(100 * S), NEVER, Reading(300 * S)],
        0,
    ),
    (
        "a counter beyond its own range shows that the range is wrong",
        1000,
        [(0, 100 * S), (S, 250 * S)],
        [Reading(100 * S), Reading(250 * S)],
        0,
    ),
    (
        "a counter that stands still is 0 J, as an unused graphics part has it",
        RANGE_UJ,
        [(0, 0), (S, 0)],
        [Reading(0), Reading(0)],
        0,
    ),
]


@pytest.mark.parametrize(("range_uj", "raw", "expected", "runs"), [t[1:] for t in TRACKS], ids=[t[0] for t in TRACKS])
def test_zone_track(range_uj: int | None, raw: list[tuple[int, int]], expected: list[Reading], runs: int) -> None:
    track = ZoneTrack(range_uj)
    assert [track.take(value, at_us) for at_us, value in raw] == expected
    assert track.run == runs


def test_zones_are_named_by_their_path_and_each_appears_once(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    tree.add("intel-rapl:0:1", "core")
    tree.add("intel-rapl:0:2", "uncore")
    tree.add("intel-rapl-mmio:0", "package-0")
    (tree.root / "dtpm").mkdir()
    assert list(find_zones(tree.root)) == [
        "package-0",
        "package-0/dram",
        "package-0/core",
        "package-0/uncore",
        "package-1",
        "package-1/dram",
        "psys",
    ]


def test_zones_are_found_where_only_the_nested_folders_are_mounted(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    nested = tmp_path / "devices" / "virtual" / "powercap"
    assert list(find_zones(nested)) == list(find_zones(tree.root))


def test_a_memory_mapped_package_counts_where_it_is_the_only_one(tmp_path: Path) -> None:
    tree = FakePowercap(tmp_path)
    tree.add("intel-rapl-mmio:0", "package-0")
    assert list(find_zones(tree.root)) == ["package-0"]


def test_two_zones_of_one_name_stay_two(tmp_path: Path) -> None:
    tree = FakePowercap(tmp_path)
    tree.add("intel-rapl:0", "psys")
    tree.add("intel-rapl:1", "psys")
    assert list(find_zones(tree.root)) == ["psys", "psys@intel-rapl:1"]


def test_every_socket_is_read_for_itself(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    probe, clock = _probe(tree)
    first = _values(probe)
    clock.sleep(1)
    tree.grow("intel-rapl:0", 151_000_000)
    tree.grow("intel-rapl:1:0", 20_000_000)
    second = _values(probe)
    assert {zone: (second[zone].value or 0) - (first[zone].value or 0) for zone in second} == {
        "package-0": 151_000_000,
        "package-0/dram": 0,
        "package-1": 0,
        "package-1/dram": 20_000_000,
        "psys": 0,
    }


def test_a_reading_never_falls_within_a_run_over_many_wraps(tmp_path: Path) -> None:
    tree = FakePowercap(tmp_path)
    tree.add("intel-rapl:0", "dram", DRAM_RANGE_UJ - 1, DRAM_RANGE_UJ)
    probe, clock = _probe(tree)
    seen = [probe.read().zones[0]]
    for _ in range(300):
        clock.sleep(1)
        tree.grow("intel-rapl:0", 1_499_000_000, DRAM_RANGE_UJ)
        seen.append(probe.read().zones[0])
    values = [zone.energy_uj.value for zone in seen]
    assert values == [DRAM_RANGE_UJ - 1 + 1_499_000_000 * n for n in range(301)]
    assert len({zone.counter_epoch for zone in seen}) == 1


def test_no_permission_says_what_to_do_and_hides_no_other_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = two_sockets(tmp_path)
    denied = tree.root / "intel-rapl:0" / "energy_uj"
    plain = Path.read_text

    def read_text(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if path == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, encoding=encoding, errors=errors)

    monkeypatch.setattr(Path, "read_text", read_text)
    probe, _ = _probe(tree)
    values = _values(probe)
    assert values["package-0"] == unknown(NO_PERMISSION)
    assert values["package-1"] == Reading(2_000_000_000)
    (note,) = probe.inventory().notes
    assert str(denied) in note
    assert "CAP_DAC_READ_SEARCH" in note


@pytest.mark.parametrize("text", ["", "N/A", "12 34", "0x10", "1e9"])
def test_a_text_that_is_no_number_is_no_energy(tmp_path: Path, text: str) -> None:
    tree = two_sockets(tmp_path)
    tree.set("intel-rapl:0", text)
    probe, _ = _probe(tree)
    assert _values(probe)["package-0"] == unknown(UNKNOWN_ERROR)


@pytest.mark.parametrize("range_uj", ["", "0", "-1", "18446744073709551615", None])
def test_a_range_that_is_absurd_is_told_and_a_wrap_then_left_out(tmp_path: Path, range_uj: str | None) -> None:
    tree = FakePowercap(tmp_path)
    tree.add("intel-rapl:0", "package-0", 4_000_000_000, range_uj)
    probe, clock = _probe(tree)
    before = probe.read().zones
    clock.sleep(1)
    tree.set("intel-rapl:0", 10_000)
    after = probe.read().zones
    assert before[0].energy_uj == Reading(4_000_000_000)
    assert after == (ZoneReading("package-0", NEVER, before[0].counter_epoch),)
    assert "max_energy_range_uj" in probe.inventory().notes[0]


def test_a_zone_that_goes_and_comes_back_begins_a_new_run(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    probe, clock = _probe(tree)
    before = probe.read().zones[0]
    tree.remove("intel-rapl:0:0")
    tree.remove("intel-rapl:0")
    clock.sleep(1)
    assert _values(probe)["package-0"] == unknown(UNKNOWN_ERROR)
    for _ in range(60):
        clock.sleep(1)
        probe.read()
    assert "package-0" not in _values(probe)
    tree.add("intel-rapl:0", "package-0", 42)
    for _ in range(60):
        clock.sleep(1)
        zones = probe.read().zones
    (after,) = [zone for zone in zones if zone.zone == "package-0"]
    assert after.energy_uj == Reading(42)
    assert after.counter_epoch != before.counter_epoch


def test_the_run_names_the_boot_and_the_opening(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    probe, clock = _probe(tree)
    first = probe.read().zones[0].counter_epoch
    assert first.startswith("6f1c0a52-77b1-4c55-9d4e-3a8f2f1b9a10/")
    probe.close()
    clock.sleep(1)
    probe.open()
    assert probe.read().zones[0].counter_epoch != first


def test_a_machine_without_zones_is_no_fault(tmp_path: Path) -> None:
    with pytest.raises(ProbeUnavailable) as caught:
        RaplProbe(ManualClock(), tmp_path / "nothing").open()
    assert caught.value.absent
    assert "intel_rapl_msr" in caught.value.fix


def test_a_tree_that_goes_while_open_is_told_and_found_again(tmp_path: Path) -> None:
    tree = two_sockets(tmp_path)
    probe, clock = _probe(tree)
    probe.read()
    tree.root.rename(tmp_path / "away")
    clock.sleep(1)
    with pytest.raises(ProbeUnavailable, match="gone"):
        probe.read()
    probe.close()
    (tmp_path / "away").rename(tree.root)
    probe.open()
    assert _values(probe)["package-1"] == Reading(2_000_000_000)


def test_reading_before_opening_is_refused(tmp_path: Path) -> None:
    probe = RaplProbe(ManualClock(), tmp_path)
    probe.close()
    with pytest.raises(ProbeUnavailable):
        probe.read()

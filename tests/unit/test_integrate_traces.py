"""Recorded traces: their energy to 0.01 % of what is known of them, every shape of the file, and what is refused."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner
from wattledger_audit.__main__ import app
from wattledger_audit.integrate import Integrated, integrate
from wattledger_audit.nvidia_smi_csv import Trace, parse_offset, read_nvidia_smi_csv
from wattledger_core.policy import Policy

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "power-meter"
recorded = pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded traces are not there: {DATA}")
KNOWN = [
    # trace, column, from, to, J between the first and the last marker
    ("A100_TR", "power.draw", 1689325828417687, 1689325840387686, 1_492_795),
    ("A100_TR", "power.draw.instant", 1689325828417687, 1689325840387686, 1_491_018),
    ("3090_TR", "power.draw", 1688840857595627, 1688840869524528, 3_271_999),
    ("3090_TR", "power.draw.instant", 1688840857595627, 1688840869524528, 3_259_159),
    ("4090_TR", "power.draw", 1689858995561243, 1689859007542629, 2_622_301),
]
UTC = parse_offset("Z")
NOON_US = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC
S = 1_000_000


def written(folder: Path, *lines: str) -> Path:
    path = folder / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def read(folder: Path, *lines: str, column: str = "power.draw") -> list[Trace]:
    return read_nvidia_smi_csv(written(folder, *lines), column, UTC)


def stamp(second: float) -> str:
    return f"2026/11/30 12:00:{second:06.3f}"


def energy(trace: Trace, from_us: int | None = None, to_us: int | None = None) -> Integrated:
    return integrate(trace, from_us, to_us, Policy())


@recorded
@pytest.mark.parametrize(("name", "column", "from_us", "to_us", "expected_mj"), KNOWN)
def test_a_recorded_traces_energy_is_known_to_a_hundredth_of_a_percent(
    name: str, column: str, from_us: int, to_us: int, expected_mj: int
) -> None:
    args = ["integrate", "--format", "nvidia-smi-csv", "--column", column, "--utc-offset", "+01:00", "--json"]
    args += ["--from-us", str(from_us), "--to-us", str(to_us), str(DATA / name / "gpudata.csv")]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert abs(found["energy_uj"] - expected_mj * 1000) * 10_000 <= expected_mj * 1000
    assert (found["method"], found["gaps"]) == ("power", [])
    assert "frozen_sensor" not in found["quality"]


@recorded
def test_the_frozen_sensor_is_called_frozen() -> None:
    result = CliRunner().invoke(app, ["integrate", "--utc-offset", "+01:00", "--json", str(DATA / "frozen_sensor.csv")])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert "frozen_sensor" in found["quality"]
    assert any("frozen" in note and "46190 mW" in note for note in found["notes"])


@pytest.mark.parametrize(
    "lines",
    [
        ("timestamp, power.draw [W]", f"{stamp(0)}, 100.00", f"{stamp(1)}, 200.00"),
        ("timestamp, power.draw", f"{stamp(0)}, 100.00 W", f"{stamp(1)}, 200.00 W"),
        ("timestamp, power.draw [W]", f"{stamp(0)}, 100.00 W", f"{stamp(1)}, 200.00 W"),
        ("power.draw [mW], timestamp", f"100000, {stamp(0)}", f"200000, {stamp(1)}"),
        ("timestamp, power.draw", f"{stamp(0)}, 100000 mW", f"{stamp(1)}, 200000 mW"),
        ("pstate, power.draw [W], x, timestamp", f"P0, 100, , {stamp(0)}", f"P0, 200, , {stamp(1)}"),
        ("timestamp,power.draw [W]", f"{stamp(0)},100", f"{stamp(1)},200"),
        ("timestamp, power.draw [W]", "2026-11-30T14:00:00+02:00, 100", "2026-11-30T14:00:01+02:00, 200"),
    ],
)
def test_columns_and_units_may_stand_in_any_order_and_place(tmp_path: Path, lines: tuple[str, ...]) -> None:
    [trace] = read(tmp_path, *lines)
    assert trace.ticks_us.tolist() == [NOON_US, NOON_US + S]
    assert trace.power_mw.tolist() == [100_000, 200_000]
    assert energy(trace).energy_uj == 150 * S  # 1 s between 100 and 200 W


def test_an_offset_places_stamps_without_a_zone(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp, power.draw [W]", f"{stamp(0)}, 1", f"{stamp(1)}, 1")
    [trace] = read_nvidia_smi_csv(path, "power.draw", parse_offset("-05:30"))
    assert trace.ticks_us[0] == NOON_US + 19_800 * S


def test_every_device_has_its_own_trace(tmp_path: Path) -> None:
    rows = [f"{stamp(i)}, GPU-{name}, {watt}" for i in range(3) for name, watt in (("b", 10), ("a", 20))]
    traces = read(tmp_path, "timestamp, uuid, power.draw [W]", *rows)
    assert [(trace.device, energy(trace).energy_uj) for trace in traces] == [("GPU-b", 20 * S), ("GPU-a", 40 * S)]


@pytest.mark.parametrize(("second_power", "total_uj"), [("20", 60 * S), ("N/A", None)])
def test_several_devices_are_summed_and_an_unknown_one_makes_the_sum_unknown(
    tmp_path: Path, second_power: str, total_uj: int | None
) -> None:
    rows = [f"{stamp(i)}, GPU-{name}, {watt}" for i in range(3) for name, watt in (("a", "10"), ("b", second_power))]
    path = written(tmp_path, "timestamp, uuid, power.draw [W]", *rows)
    found = json.loads(CliRunner().invoke(app, ["integrate", "--utc-offset", "Z", "--json", str(path)]).stdout)
    assert (found["energy_uj"], [one["device"] for one in found["devices"]]) == (total_uj, ["GPU-a", "GPU-b"])
    assert found["devices"][0]["energy_uj"] == 20 * S


@pytest.mark.parametrize("header", ["timestamp, power.draw [W]", "power.draw [W], timestamp"])
def test_a_repeated_header_is_no_reading(tmp_path: Path, header: str) -> None:
    def row(second: float) -> str:
        return f"{stamp(second)}, 50" if header.startswith("timestamp") else f"50, {stamp(second)}"

    [trace] = read(tmp_path, header, row(0), header, row(1))
    assert energy(trace).energy_uj == 50 * S


@pytest.mark.parametrize(
    "word", ["N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "", "[GPU is lost]", "-1"]
)
def test_words_for_no_reading_are_gaps_and_not_zero(tmp_path: Path, word: str) -> None:
    powers = ["100", "100", word, "100", "100"]
    rows = [f"{stamp(i)}, {power}" for i, power in enumerate(powers)]
    found = energy(read(tmp_path, "timestamp, power.draw [W]", *rows)[0])
    assert found.energy_uj == 200 * S
    assert found.gaps == ((NOON_US + S, NOON_US + 3 * S),)
    assert "gaps" in found.quality


def test_a_trace_without_any_reading_has_unknown_energy(tmp_path: Path) -> None:
    [trace] = read(tmp_path, "timestamp, power.draw [W]", *[f"{stamp(i)}, N/A" for i in range(3)])
    assert (energy(trace).energy_uj, energy(trace).measured_us) == (None, 0)


def test_a_hole_in_the_middle_is_a_gap(tmp_path: Path) -> None:
    rows = [f"{stamp(i)}, 100" for i in (0, 1, 2, 20, 21)]
    found = energy(read(tmp_path, "timestamp, power.draw [W]", *rows)[0])
    assert (found.gaps, found.energy_uj, found.measured_us) == (((NOON_US + 2 * S, NOON_US + 20 * S),), 300 * S, 3 * S)


def test_what_is_asked_for_beyond_the_trace_is_a_gap(tmp_path: Path) -> None:
    [trace] = read(tmp_path, "timestamp, power.draw [W]", f"{stamp(0)}, 10", f"{stamp(1)}, 10")
    found = energy(trace, NOON_US - S, NOON_US + 3 * S)
    assert found.gaps == ((NOON_US - S, NOON_US), (NOON_US + S, NOON_US + 3 * S))
    assert found.energy_uj == 10 * S


@pytest.mark.parametrize("shift_s", [-100, 100])
def test_outside_of_the_trace_the_energy_is_unknown(tmp_path: Path, shift_s: int) -> None:
    [trace] = read(tmp_path, "timestamp, power.draw [W]", f"{stamp(0)}, 10", f"{stamp(1)}, 10")
    start_us = NOON_US + shift_s * S
    found = energy(trace, start_us, start_us + S)
    assert (found.energy_uj, found.method, found.quality) == (None, "none", ("outside_of_trace",))
    assert found.gaps == ((start_us, start_us + S),)


def test_repeated_and_falling_stamps_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [(0, 100), (1, 100), (1, 900), (0.5, 900), (2, 100)]
    [trace] = read(tmp_path, "timestamp, power.draw [W]", *[f"{stamp(at)}, {watt}" for at, watt in rows])
    found = energy(trace)
    assert (trace.repeated_stamps, trace.falling_stamps, found.energy_uj) == (1, 1, 200 * S)
    assert len(found.notes) == 2


REFUSED = [
    (("timestamp, power.draw [W]", f"{stamp(0)}, 1", f"{stamp(1)}, 1"), [], "--utc-offset"),
    (("power.draw [W], pstate", "1, P0"), ["--utc-offset", "Z"], "found: power.draw, pstate"),
    (("timestamp, power.draw.instant [W]", f"{stamp(0)}, 1"), ["--utc-offset", "Z"], "power.draw.instant"),
    (("timestamp, pstate", f"{stamp(0)}, P0"), ["--utc-offset", "Z"], "no power column"),
    (("timestamp, power.draw [kW]", f"{stamp(0)}, 1"), ["--utc-offset", "Z"], "'kW'"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, lots"), ["--utc-offset", "Z"], "line 2"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, NaN"), ["--utc-offset", "Z"], "line 2"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, Infinity"), ["--utc-offset", "Z"], "line 2"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, 1", "2026/11/3"), ["--utc-offset", "Z"], "line 3"),
    (("timestamp, power.draw [W]", "yesterday, 1"), ["--utc-offset", "Z"], "'yesterday'"),
    (("timestamp, power.draw [W]",), ["--utc-offset", "Z"], "no rows"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, 1"), ["--utc-offset", "Z"], "one reading"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, 1", f"{stamp(1)}, 1"), ["--utc-offset", "CET"], "'CET'"),
    (("timestamp, power.draw [W]", f"{stamp(0)}, 1", f"{stamp(1)}, 1"), ["--utc-offset", "+25:00"], "+25:00"),
    (
        ("timestamp, power.draw [W]", f"{stamp(0)}, 1", f"{stamp(1)}, 1"),
        ["--utc-offset", "Z", "--from-us", "5", "--to-us", "5"],
        "not before",
    ),
]


@pytest.mark.parametrize(("lines", "options", "says"), REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_do(
    tmp_path: Path, lines: tuple[str, ...], options: list[str], says: str
) -> None:
    result = CliRunner().invoke(app, ["integrate", *options, "--json", str(written(tmp_path, *lines))])
    assert result.exit_code == 3, result.output
    assert says in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp, power.draw [W]\n", encoding="utf-16")
    result = CliRunner().invoke(app, ["integrate", str(path)])
    assert result.exit_code == 3
    assert "UTF-8" in result.stderr


def test_the_json_is_one_object_with_what_was_measured(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp, power.draw [W]", f"{stamp(0)}, 10", f"{stamp(1)}, 10")
    result = CliRunner().invoke(app, ["integrate", "--utc-offset", "Z", "--json", str(path)])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert {name: found[name] for name in ("energy_uj", "method", "gaps", "quality")} == {
        "energy_uj": 10 * S,
        "method": "power",
        "gaps": [],
        "quality": [],
    }


def test_an_unknown_format_is_a_usage_error(tmp_path: Path) -> None:
    path = written(tmp_path, "timestamp, power.draw [W]")
    assert CliRunner().invoke(app, ["integrate", "--format", "dcgm", str(path)]).exit_code == 2

"""nvidia-smi traces as an audit reads them: devices, nodes, counters, clock changes; bad cells are listed."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.telemetry_nvidia_smi import IMPORTERS

from tests.telemetry_reading import Told, energy_uj, read_file, valid_values

[IMPORTER] = IMPORTERS
ZONED = ReadOptions(timezone=ZoneInfo("UTC"))
BERLIN = ReadOptions(timezone=ZoneInfo("Europe/Berlin"))
NOON_US = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC
S = 1_000_000


def read(folder: Path, *lines: str, options: ReadOptions = ZONED, encoding: str = "utf-8") -> Told:
    path = folder / "trace.csv"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return read_file(IMPORTER, path, options)


def stamp(second: float) -> str:
    return f"2026/11/30 12:00:{second:06.3f}"


SHAPES = [
    (
        "timestamp, index, uuid, name, driver_version, power.draw [W], utilization.gpu [%], hostname",
        "{at}, 3, GPU-b, NVIDIA H100, 590.48, {watt}, 40, n7",
    ),
    (
        "hostname,utilization.gpu,power.draw,driver_version,gpu_name,gpu_uuid,index,timestamp",
        "n7,40 %,{watt} W,590.48,NVIDIA H100,GPU-b,3,{at}",
    ),
    (
        "timestamp;node;uuid;index;name;driver_version;power.draw.instant [mW];utilization.gpu [%]",
        "{at};n7;GPU-b;3;NVIDIA H100;590.48;{watt}000;40",
    ),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize(("header", "row"), SHAPES)
def test_columns_name_the_device_in_any_order(tmp_path: Path, header: str, row: str, encoding: str) -> None:
    rows = [row.format(at=stamp(k), watt=watt) for k, watt in enumerate(("100", "200"))]
    told = read(tmp_path, header, *rows, encoding=encoding)
    [trace] = told.traces
    assert (trace.node, trace.device, trace.index) == ("n7", "GPU-b", 3)
    assert (trace.gpu_model, trace.driver) == ("NVIDIA H100", "590.48")
    assert trace.ticks_us.tolist() == [NOON_US, NOON_US + S]
    assert valid_values(trace, "power_mw") == [100_000, 200_000]
    assert valid_values(trace, "busy_ppm") == [400_000, 400_000]
    assert told.rejected == []
    found = IMPORTER.detect(open_source(tmp_path / "trace.csv"))
    assert found is not None
    assert found.score > 90


def test_devices_of_one_file_are_told_apart_by_what_names_them(tmp_path: Path) -> None:
    devices = ["a, 0, 1", "a, 1, 2", "b, 0, 3"]
    rows = [f"{stamp(k)}, {device}" for k in (0, 1) for device in devices]
    told = read(tmp_path, "timestamp, node, index, power.draw [W]", *rows)
    assert [(t.node, t.device, t.index, energy_uj([t])[t.device] // S) for t in told.traces] == [
        ("a", "0", 0, 1), ("a", "1", 1, 2), ("b", "0", 0, 3),
    ]  # fmt: skip


def test_without_a_node_column_the_node_is_what_the_user_says_or_open(tmp_path: Path) -> None:
    lines = ("timestamp, power.draw [W]", f"{stamp(0)}, 1")
    assert read(tmp_path, *lines).traces[0].node == ""
    said = cast(ReadOptions, SimpleNamespace(timezone=ZoneInfo("UTC"), delimiter=None, node="n9"))
    assert read(tmp_path, *lines, options=said).traces[0].node == "n9"


def test_a_file_of_one_unnamed_device_is_device_0(tmp_path: Path) -> None:
    [trace] = read(tmp_path, "timestamp, power.draw [W]", f"{stamp(0)}, 1").traces
    assert (trace.device, trace.index) == ("0", -1)


def test_a_counter_column_is_the_energy(tmp_path: Path) -> None:
    told = read(
        tmp_path, "timestamp, uuid, total_energy_consumption [mJ], power.draw [W]",
        f"{stamp(0)}, GPU-b, 5000000, 100", f"{stamp(1)}, GPU-b, [N/A], [N/A]", f"{stamp(2)}, GPU-b, 5000201, 100",
    )  # fmt: skip
    assert valid_values(told.traces[0], "counter_uj") == [5_000_000_000, None, 5_000_201_000]
    assert energy_uj(told.traces) == {"GPU-b": 201_000}


def test_a_counter_alone_is_enough(tmp_path: Path) -> None:
    told = read(tmp_path, "timestamp, total_energy_consumption", f"{stamp(0)}, 5 J", f"{stamp(1)}, 6 J")
    assert energy_uj(told.traces) == {"0": 1_000_000}


def test_a_local_trace_runs_through_the_repeated_hour_of_a_clock_change(tmp_path: Path) -> None:
    """2026-10-25 03:00 in Berlin becomes 02:00 again: 01:30 to 03:30 local are four half hours and two more."""
    local = ["01:30", "02:00", "02:30", "02:00", "02:30", "03:00", "03:30"]
    rows = [f"2026/10/25 {at}:00.000, GPU-{gpu}, 100" for at in local for gpu in "ab"]
    told = read(tmp_path, "timestamp, uuid, power.draw [W]", *rows, options=BERLIN)
    start_us = int(datetime(2026, 10, 24, 23, 30, tzinfo=UTC).timestamp()) * S
    for trace in told.traces:
        assert (trace.ticks_us - start_us).tolist() == [k * 1800 * S for k in range(7)]


def test_a_trace_that_starts_in_the_repeated_hour_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="twice"):
        read(tmp_path, "timestamp, power.draw [W]", "2026/10/25 02:30:00.000, 100", options=BERLIN)


def test_rows_out_of_order_and_twice_count_once_each(tmp_path: Path) -> None:
    rows = [(2, 100), (3, 100), (0, 100), (1, 100), (2, 100), (1, 900)]
    told = read(tmp_path, "timestamp, power.draw [W]", *[f"{stamp(at)}, {watt}" for at, watt in rows])
    assert (told.traces[0].ticks_us - NOON_US).tolist() == [0, S, 2 * S, 3 * S]
    assert energy_uj(told.traces) == {"0": 300 * S}
    assert told.rejected == [(7, "power.draw", "900000 mW", "conflicting_sample")]


def test_bad_cells_are_listed_and_the_file_is_read_on(tmp_path: Path) -> None:
    told = read(
        tmp_path, "timestamp, power.draw [W], utilization.gpu [%]", f"{stamp(0)}, 100, 5", f"{stamp(1)}, lots, 5",
        f"{stamp(2)}, 100, much", "yesterday, 100, 5", f"{stamp(3)}, 100", f"{stamp(4)}, 100, 5",
    )  # fmt: skip
    assert valid_values(told.traces[0], "power_mw") == [100_000, None, 100_000, 100_000]
    assert [(line, column, code) for line, column, _, code in told.rejected] == [
        (3, "power.draw", "not_a_number"), (4, "utilization.gpu", "not_a_number"), (5, "timestamp", "bad_time"),
        (6, "", "row_cut_short"),
    ]  # fmt: skip


NO_READING = ["[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "", "-1", "5000.01", "9223372036854775794"]


@pytest.mark.parametrize("word", NO_READING)
def test_no_reading_is_never_zero(tmp_path: Path, word: str) -> None:
    told = read(tmp_path, "timestamp, power.draw [W], utilization.gpu [%]", f"{stamp(0)}, {word}, {word}")
    assert valid_values(told.traces[0], "power_mw") == [None]
    assert valid_values(told.traces[0], "busy_ppm") == [None]


def test_use_under_mig_is_unknown(tmp_path: Path) -> None:
    header = "timestamp, power.draw [W], utilization.gpu [%], mig.mode.current"
    told = read(tmp_path, header, f"{stamp(0)}, 90, 0, Enabled", f"{stamp(1)}, 90, 0, Disabled")
    assert valid_values(told.traces[0], "busy_ppm") == [None, 0]


def test_a_header_of_another_query_in_the_middle_is_obeyed(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        "timestamp, power.draw [W]",
        f"{stamp(0)}, 100",
        "",
        "power.draw [mW], timestamp",
        f"200000, {stamp(1)}",
    )
    assert valid_values(told.traces[0], "power_mw") == [100_000, 200_000]


REFUSED = [
    (("timestamp, power.draw [W]", f"{stamp(0)}, 1"), ReadOptions(), "--timezone"),
    (("power.draw [W], pstate", "1, P0"), ZONED, "no `timestamp` column"),
    (("timestamp, pstate", f"{stamp(0)}, P0"), ZONED, "no power column"),
    (("timestamp, power.draw [kW]", f"{stamp(0)}, 1"), ZONED, "'kW'"),
    (("timestamp, power.draw [W]",), ZONED, "no rows"),
]


@pytest.mark.parametrize(("lines", "options", "says"), REFUSED)
def test_a_file_that_cannot_be_read_is_refused_with_what_to_do(
    tmp_path: Path, lines: tuple[str, ...], options: ReadOptions, says: str
) -> None:
    with pytest.raises(InputRefused, match=says):
        read(tmp_path, *lines, options=options)


@pytest.mark.parametrize("first", ["tenant,start,end", "timestamp,tenant,amount", ""])
def test_other_tables_are_not_detected(tmp_path: Path, first: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(first + "\n")
    assert IMPORTER.detect(open_source(path)) is None

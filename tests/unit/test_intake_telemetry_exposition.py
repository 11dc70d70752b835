"""Text dumps of exporters: real captures, several scrapes in a file, times in them or beside them."""

import os
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.telemetry_exposition import IMPORTERS

from tests.telemetry_reading import Told, energy_uj, read_file, valid_values

[IMPORTER] = IMPORTERS
CAPTURES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "captures"
captured = pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"the captures are not there: {CAPTURES}")
NOON_US = 1_796_040_000_000_000  # 2026-11-30 12:00:00 UTC
NOON_MS = NOON_US // 1000
US = 1_000_000


def dcgm(value: str, name: str = "DCGM_FI_DEV_POWER_USAGE", at: str = "", host: str = "Hostname", **labels: str) -> str:
    extra = "".join(f',{key}="{text}"' for key, text in labels.items())
    return f'{name}{{gpu="0",UUID="GPU-aaaa",device="nvidia0",modelName="NVIDIA A30",{host}="n1"{extra}}} {value} {at}'


def read(folder: Path, *lines: str, options: ReadOptions | None = None) -> Told:
    path = folder / "dump.prom"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, ns=(NOON_US * 1000, NOON_US * 1000))
    return read_file(IMPORTER, path, options)


@captured
@pytest.mark.parametrize(
    ("name", "model", "driver", "power_mw", "busy_ppm"),
    [
        ("linux-x86_64__nvidia-h200-mig__590.48.01__load.metrics", "NVIDIA H200", "590.48.01", 295_010, None),
        ("linux-x86_64__nvidia-h200__590.48.01__load.metrics", "NVIDIA H200", "590.48.01", 627_400, 1_000_000),
        ("linux-x86_64__nvidia-l40s__595.80__idle.metrics", "NVIDIA L40S", "595.80", 144_970, 1_000_000),
    ],
)
def test_captures_of_nvidia_gpu_exporter_are_read(
    name: str, model: str, driver: str, power_mw: int, busy_ppm: int | None
) -> None:
    told = read_file(IMPORTER, CAPTURES / name, ReadOptions())
    [trace] = told.traces
    assert (trace.device, trace.index) == ("GPU-00000000-0000-0000-0000-000000000000", 0)
    assert (trace.gpu_model, trace.driver, trace.node) == (model, driver, "")
    assert (valid_values(trace, "power_mw"), valid_values(trace, "busy_ppm")) == ([power_mw], [busy_ppm])
    assert set(told.codes()) == {"metric_not_used", "time_of_file"}
    names = [column for _, column, _, code in told.rejected if code == "metric_not_used"]
    assert "nvidia_smi_power_limit_watts" in names
    assert len(names) == len(set(names))
    found = IMPORTER.detect(open_source(CAPTURES / name))
    assert found is not None
    assert found.score > 90


@pytest.mark.parametrize("host", ["Hostname", "hostname"])
def test_samples_own_times_count_in_either_form(tmp_path: Path, host: str) -> None:
    told = read(
        tmp_path,
        "# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).",
        "# TYPE DCGM_FI_DEV_POWER_USAGE gauge",
        dcgm("100", at=str(NOON_MS), host=host),
        dcgm("100.5", at=str(NOON_MS + 1500), host=host),
        dcgm("101", at=f"{NOON_US // US + 3}.250", host=host),
        "# EOF",
    )
    [trace] = told.traces
    assert (trace.node, trace.device, trace.gpu_model) == ("n1", "GPU-aaaa", "NVIDIA A30")
    assert (trace.ticks_us - NOON_US).tolist() == [0, 1_500_000, 3_250_000]
    assert valid_values(trace, "power_mw") == [100_000, 100_500, 101_000]
    assert told.rejected == []


STAMPS = [
    ("2026-11-30T12:00:00Z", "2026-11-30T12:00:10Z"),
    ("# 2026-11-30T13:00:00+01:00", "# 2026-11-30T13:00:10+01:00"),
    ("# time: 2026-11-30T12:00:00Z", "# time: 2026-11-30T12:00:10Z"),
    (str(NOON_US // US), str(NOON_US // US + 10)),
    (str(NOON_MS), str(NOON_MS + 10_000)),
    ("Mon Nov 30 12:00:00 UTC 2026", "Mon Nov 30 12:00:10 UTC 2026"),
    ("Mon Nov 30 12:00:00 PM UTC 2026", "Mon Nov 30 12:00:10 PM UTC 2026"),
]


@pytest.mark.parametrize(("first", "second"), STAMPS)
def test_a_line_with_a_time_places_the_scrape_after_it(tmp_path: Path, first: str, second: str) -> None:
    told = read(tmp_path, first, dcgm("100"), second, dcgm("110"))
    [trace] = told.traces
    assert (trace.ticks_us - NOON_US).tolist() == [0, 10 * US]
    assert energy_uj(told.traces) == {"GPU-aaaa": 1_050 * US}
    assert told.rejected == []


def test_a_line_with_a_time_places_the_scrape_before_it_when_the_file_starts_with_samples(tmp_path: Path) -> None:
    told = read(tmp_path, dcgm("100"), "2026-11-30T12:00:00Z", dcgm("110"), "2026-11-30T12:00:10Z")
    assert (told.traces[0].ticks_us - NOON_US).tolist() == [0, 10 * US]


def test_node_exporters_clock_places_a_scrape(tmp_path: Path) -> None:
    clock = NOON_US // US
    told = read(tmp_path, f"node_time_seconds {clock}.5", dcgm("100"), dcgm("110"), f"node_time_seconds {clock + 10}.5")
    assert (told.traces[0].ticks_us - NOON_US).tolist() == [500_000, 10_500_000]


def test_a_scrape_without_a_time_is_placed_where_the_file_was_written(tmp_path: Path) -> None:
    told = read(tmp_path, dcgm("100"), dcgm("3", name="DCGM_FI_DEV_GPU_UTIL"))
    [trace] = told.traces
    assert trace.ticks_us.tolist() == [NOON_US]
    assert told.codes() == ["time_of_file"]


def test_several_scrapes_without_a_time_leave_the_last_one_and_list_the_others(tmp_path: Path) -> None:
    told = read(tmp_path, dcgm("100"), dcgm("110"), dcgm("120"))
    assert valid_values(told.traces[0], "power_mw") == [120_000]
    assert told.rejected == [(1, "", "", "no_time"), (2, "", "", "no_time"), (3, "", "", "time_of_file")]


def test_dumps_of_several_exporters_are_one_scrape(tmp_path: Path) -> None:
    other = 'gpu_package_power{gpu_id="0",hostname="m1",serial_number="S1",card_model="MI300X"} 717'
    told = read(tmp_path, "2026-11-30T12:00:00Z", dcgm("100"), other)
    assert [(t.node, t.device, t.ticks_us.tolist()) for t in told.traces] == [
        ("n1", "GPU-aaaa", [NOON_US]), ("m1", "S1", [NOON_US]),
    ]  # fmt: skip


def test_times_without_a_zone_need_one(tmp_path: Path) -> None:
    lines = ("2026-11-30 13:00:00", dcgm("100"))
    with pytest.raises(InputRefused, match="--timezone"):
        read(tmp_path, *lines)
    told = read(tmp_path, *lines, options=ReadOptions(timezone=ZoneInfo("Europe/Berlin")))
    assert told.traces[0].ticks_us.tolist() == [NOON_US]


def test_mig_and_pod_lines_are_one_card(tmp_path: Path) -> None:
    first = dcgm("52.636", GPU_I_PROFILE="1g.6gb", GPU_I_ID="3", pod="a")
    second = dcgm("52.746", GPU_I_PROFILE="1g.6gb", GPU_I_ID="4", pod="b")
    told = read(tmp_path, "2026-11-30T12:00:00Z", first, second)
    assert [valid_values(trace, "power_mw") for trace in told.traces] == [[52_636]]
    assert told.rejected == []


def test_energy_in_joules_of_the_nvml_backend_is_a_counter(tmp_path: Path) -> None:
    def scrape(at: str, joules: str) -> list[str]:
        return [
            f"# {at}",
            'nvidia_smi_gpu_info{driver_version="590.48.01",index="2",name="NVIDIA H200",uuid="ab12"} 1',
            f'nvidia_smi_energy_joules_total{{uuid="ab12"}} {joules}',
            'nvidia_smi_power_draw_watts{uuid="ab12"} 100',
        ]

    told = read(
        tmp_path, *scrape("2026-11-30T12:00:00Z", "1.5e+06"), *scrape("2026-11-30T12:01:00Z", "1.506000125e+06")
    )
    [trace] = told.traces
    assert (trace.device, trace.index, trace.driver) == ("GPU-ab12", 2, "590.48.01")
    assert energy_uj(told.traces) == {"GPU-ab12": 6_000_125_000}


def test_labels_may_hold_anything(tmp_path: Path) -> None:
    line = dcgm("5", at=str(NOON_MS), pod='a} 7 \\"x\\" {', container="c\\\\,d=")
    told = read(tmp_path, line)
    assert valid_values(told.traces[0], "power_mw") == [5_000]
    assert told.rejected == []


def test_lines_that_are_no_samples_are_listed(tmp_path: Path) -> None:
    told = read(
        tmp_path, dcgm("100", at=str(NOON_MS)), dcgm("lots"), dcgm("1", at="9" * 30), 'DCGM_FI_DEV_GPU_UTIL{gpu="0"',
        "<html>", "up 1", "up 1",
    )  # fmt: skip
    assert [(line, code) for line, _, _, code in told.rejected] == [
        (2, "not_a_number"), (3, "not_a_time"), (4, "not_a_sample"), (5, "not_a_sample"), (6, "metric_not_used"),
    ]  # fmt: skip


def test_omnistat_and_the_amd_smi_exporter_are_read(tmp_path: Path) -> None:
    told = read(
        tmp_path, "2026-11-30T12:00:00Z",
        'rocm_average_socket_power_watts{card="3"} 35.0', 'rocm_energy_joules{card="3"} 2.6181130255356e+07',
        'rocm_utilization_percentage{card="3"} 12.5', 'amd_gpu_power{gpu_power="1",productname="MI210"} 4.2e+07',
    )  # fmt: skip
    first, second = told.traces
    assert (first.device, first.power_mw[0], first.counter_uj[0], first.busy_ppm[0]) == (
        "3", 35_000, 26_181_130_255_356, 125_000,
    )  # fmt: skip
    assert (second.device, second.gpu_model, second.power_mw[0]) == ("1", "MI210", 42_000)


def test_a_dump_without_gpu_metrics_is_refused_and_not_detected(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="found: go_goroutines"):
        read(tmp_path, "# HELP go_goroutines Goroutines.", "# TYPE go_goroutines gauge", "go_goroutines 9")
    assert IMPORTER.detect(open_source(tmp_path / "dump.prom")) is None


def test_a_table_is_not_detected(tmp_path: Path) -> None:
    path = tmp_path / "bill.csv"
    path.write_text("tenant,gpu_package_power\nacme,3\n")
    assert IMPORTER.detect(open_source(path)) is None


def test_a_long_dump_is_detected_by_its_family_before_a_used_metric_comes(tmp_path: Path) -> None:
    path = tmp_path / "dump.prom"
    path.write_text('gpu_ecc_correct_total{gpu_id="0",hostname="m1"} 0\n' * 2000 + 'gpu_package_power{gpu_id="0"} 5\n')
    found = IMPORTER.detect(open_source(path))
    assert found is not None
    assert "gpu_ecc_correct_total" in found.why

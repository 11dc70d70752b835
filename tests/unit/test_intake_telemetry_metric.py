"""Metrics, units, blanks: what a written value is worth in whole mW, µJ and ppm."""

import pytest
from wattledger_audit.intake.telemetry_metric import KNOWN_NAME, believed, is_number, metric_of, reading

READINGS = [
    ("W", "52.636000", 52_636),
    ("W", "8.61", 8_610),
    ("W", "1e+02", 100_000),
    ("W", "0", 0),
    ("W", "0.0005", 0),  # half to even
    ("W", "0.0015", 2),
    ("W", "5000", 5_000_000),
    ("W", "5000.001", None),
    ("W", "-1", None),
    ("W", "NaN", None),
    ("W", "+Inf", None),
    ("W", "N/A", None),
    ("W", "1_0", None),
    ("W", "٤٢", None),
    ("W", "1e999999", None),
    ("W", "1e-999999", 0),
    ("W", "9223372036854775794", None),
    ("uW", "136000000", 136_000),
    ("mJ", "126272101025", 126_272_101_025_000),
    ("mJ", "1.26272101025e+11", 126_272_101_025_000),
    ("mJ", "9223372036854775794", None),
    ("mJ", "9.223372036854776e+18", None),
    ("mJ", "140737488355328", None),
    ("mJ", "1.4073748835532800e16", None),
    ("mJ", "18446744073447456768", None),
    ("mJ", "18446744073709551615", None),
    ("mJ", "4294967295", None),
    ("J", "1234567.891", 1_234_567_891_000),
    ("uJ", "65628.9", 65_629),
    ("%", "97", 970_000),
    ("%", "100", 1_000_000),
    ("%", "101", None),
    ("%", "4294967295", None),
    ("%", "1.4073748835532800e16", None),
    ("%", "65535", None),
    ("ratio", "0.714", 714_000),
    ("ratio", "1", 1_000_000),
    ("ratio", "1.294", None),
]


@pytest.mark.parametrize(("unit", "text", "expected"), READINGS)
def test_a_written_value_is_a_whole_number_of_its_unit_or_no_reading(
    unit: str, text: str, expected: int | None
) -> None:
    assert reading(unit, text) == expected


def test_a_zero_is_no_reading_where_the_exporter_writes_it_for_none() -> None:
    assert (reading("W", "0"), reading("W", "0", True), reading("W", "136", True)) == (0, None, 136_000)


NAMES = [
    ("DCGM_FI_DEV_POWER_USAGE", "power", "W"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "mJ"),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION_total", "counter", "mJ"),
    ("DCGM_FI_DEV_GPU_UTIL", "busy", "%"),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "busy", "ratio"),
    ("nvidia_smi_power_draw_watts", "power", "W"),
    ("nvidia_smi_energy_joules_total", "counter", "J"),
    ("nvidia_smi_utilization_gpu_ratio", "busy", "ratio"),
    ("gpu_package_power", "power", "W"),
    ("amd_gpu_package_power", "power", "W"),
    ("GPU_AVERAGE_PACKAGE_POWER", "power", "W"),
    ("gpu_energy_consumed", "counter", "uJ"),
    ("gpu_gfx_activity", "busy", "%"),
    ("amd_gpu_power", "power", "uW"),
    ("rocm_average_socket_power_watts", "power", "W"),
    ("rocm_energy_joules", "counter", "J"),
]


@pytest.mark.parametrize(("name", "channel", "unit"), NAMES)
def test_a_metrics_name_says_its_quantity_and_unit(name: str, channel: str, unit: str) -> None:
    metric = metric_of(name)
    assert metric is not None
    assert (metric.channel, metric.unit) == (channel, unit)


@pytest.mark.parametrize(
    "name", ["DCGM_FI_DEV_FB_USED", "nvidia_smi_power_limit_watts", "gpu_clock", "go_goroutines", "kube_pod_info", ""]
)
def test_other_metrics_mean_nothing_here(name: str) -> None:
    assert metric_of(name) is None


def test_known_names_are_found_only_whole() -> None:
    assert KNOWN_NAME.search('{"__name__": "DCGM_FI_DEV_POWER_USAGE"}') is not None
    assert KNOWN_NAME.search("amd_gpu_package_power{}") is not None
    assert KNOWN_NAME.search("workload_gpu_package_power gpu_package_power_limit") is None


def test_what_is_no_number_is_told_from_what_is_no_reading() -> None:
    assert [text for text in ("1", "NaN", "-Inf", "+Inf", "1e3", "N/A", "1,5", "") if is_number(text)] == [
        "1", "NaN", "-Inf", "+Inf", "1e3",
    ]  # fmt: skip


def test_only_what_a_device_can_have_is_believed() -> None:
    assert [believed("power", value) for value in (5_000_000, 5_000_001, -1, None)] == [5_000_000, None, None, None]

"""Prometheus range JSON: labels to devices, duplicated series, chunks that overlap, and the energy that follows."""

from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.telemetry_prometheus import IMPORTERS

from tests.telemetry_reading import (
    Sample,
    Told,
    answer,
    energy_uj,
    read_file,
    series,
    unknown_us,
    valid_values,
    written_json,
)  # fmt: skip

[IMPORTER] = IMPORTERS
T = 1_790_000_000
US = 1_000_000
POWER, ENERGY, UTIL = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL"
ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def gpu(number: int = 0, **labels: str) -> dict[str, str]:
    """Labels of dcgm-exporter."""
    return {
        "gpu": str(number), "UUID": f"GPU-aaaa-{number}", "device": f"nvidia{number}", "modelName": "NVIDIA A30",
        "Hostname": "n1", **labels,
    }  # fmt: skip


def every_15s(*values: str, start: int = 0) -> list[Sample]:
    return [(T + 15 * (start + k), value) for k, value in enumerate(values)]


def read(folder: Path, *documents: object, options: ReadOptions | None = None) -> Told:
    return read_file(IMPORTER, written_json(folder, *documents), options)


def only(told: Told) -> DeviceTrace:
    [trace] = told.traces
    return trace


def test_a_device_is_told_by_its_labels(tmp_path: Path) -> None:
    labels = gpu(3, DCGM_FI_DRIVER_VERSION="590.48.01")
    told = read(tmp_path, answer(series(POWER, labels, [(T, "52.636"), (T + 0.5, "52.746"), (T + 1, "53")])))
    trace = only(told)
    assert (trace.node, trace.device, trace.index) == ("n1", "GPU-aaaa-3", 3)
    assert (trace.gpu_model, trace.driver) == ("NVIDIA A30", "590.48.01")
    assert trace.ticks_us.tolist() == [T * US, T * US + 500_000, (T + 1) * US]
    assert valid_values(trace, "power_mw") == [52_636, 52_746, 53_000]
    assert valid_values(trace, "counter_uj") == [None] * 3
    assert told.rejected == []


NODES = [
    ({"Hostname": "n1"}, "n1"),
    ({"hostname": "n1"}, "n1"),
    ({"exported_hostname": "n1", "instance": "10.0.0.1:9400"}, "n1"),
    ({"instance": "gpu-7:9400"}, "gpu-7"),
    ({"instance": "[fd00::7]:9400"}, "fd00::7"),
    ({"instance": "localhost:9400"}, ""),
    ({"Hostname": "n1", "instance": "10.0.0.1:9400", "node": "n1.example"}, "n1"),
    ({"Hostname": "dcgm-exporter-x2k9p", "pod": "dcgm-exporter-x2k9p", "node": "n1"}, "n1"),
    ({}, ""),
]


@pytest.mark.parametrize(("labels", "node"), NODES)
def test_the_node_is_the_label_that_names_it(tmp_path: Path, labels: dict[str, str], node: str) -> None:
    told = read(tmp_path, answer(series(POWER, {"UUID": "GPU-aaaa", "gpu": "0", **labels}, every_15s("10"))))
    assert only(told).node == node


def test_mig_lines_carry_the_cards_power_and_energy_once(tmp_path: Path) -> None:
    """An A30 in four instances: each repeats the card's counter and power (the power read a moment later)."""
    powers = {"3": "52.636", "4": "52.636", "5": "52.746", "6": "52.746"}
    lines = []
    for instance, power in powers.items():
        labels = gpu(0, GPU_I_ID=instance, GPU_I_PROFILE="1g.6gb")
        energy = "126272106318" if instance == "5" else "126272101025"
        lines += [series(POWER, labels, every_15s(power)), series(ENERGY, labels, every_15s(energy))]
    told = read(tmp_path, answer(*lines))
    trace = only(told)
    assert valid_values(trace, "power_mw") == [52_636]
    assert valid_values(trace, "counter_uj") == [126_272_101_025_000]
    assert trace.counter_uj[0] * 10_000 // 3_600_000_000_000 == 350_755  # 35.0755 kWh, and not four times as much
    assert told.rejected == []


def test_a_mig_instance_that_goes_leaves_the_card_to_the_others(tmp_path: Path) -> None:
    first, second = (gpu(0, GPU_I_ID=part, GPU_I_PROFILE="1g.6gb") for part in ("3", "4"))
    short, long = series(POWER, first, every_15s("50", "51")), series(POWER, second, every_15s("50", "51", "52"))
    told = read(tmp_path, answer(short, long))
    assert valid_values(only(told), "power_mw") == [50_000, 51_000, 52_000]


def test_use_under_mig_is_each_instances_own_weighted_by_slices(tmp_path: Path) -> None:
    big, small = gpu(0, GPU_I_ID="1", GPU_I_PROFILE="4g.20gb"), gpu(0, GPU_I_ID="5", GPU_I_PROFILE="2g.10gb")
    for labels in (big, small):
        labels["modelName"] = "NVIDIA A100-SXM4-40GB"
    told = read(
        tmp_path,
        answer(
            series(UTIL, big, every_15s("0", "0")),  # not supported under MIG: no 0 %
            series(ACTIVE, big, every_15s("1.0", "0")),
            series(ACTIVE, small, every_15s("0.5", "0")),
            series(POWER, big, every_15s("200", "60")),
        ),
    )
    assert valid_values(only(told), "busy_ppm") == [(4 * 1_000_000 + 2 * 500_000) // 7, 0]


def test_use_is_unknown_under_mig_without_activity(tmp_path: Path) -> None:
    labels = gpu(0, GPU_I_ID="1", GPU_I_PROFILE="1g.6gb")
    told = read(tmp_path, answer(series(POWER, labels, every_15s("60")), series(UTIL, labels, every_15s("0"))))
    assert valid_values(only(told), "busy_ppm") == [None]


def test_series_with_and_without_pods_are_one_gpu(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        answer(
            series(POWER, gpu(), every_15s("100", "100")),
            series(POWER, gpu(exported_pod="a", exported_namespace="x"), every_15s("100", "110", start=1)),
            series(POWER, gpu(pod="b", container="c"), every_15s("120", start=3)),
        ),
    )
    assert valid_values(only(told), "power_mw") == [100_000, 100_000, 110_000, 120_000]
    assert told.rejected == []


def test_the_same_value_for_four_time_sliced_pods_counts_once(tmp_path: Path) -> None:
    pods = [series(ACTIVE, gpu(pod=pod), every_15s("0.714")) for pod in "abcd"]
    pods += [series(POWER, gpu(pod=pod), every_15s("71.4")) for pod in "abcd"]
    told = read(tmp_path, answer(*pods))
    assert valid_values(only(told), "busy_ppm") == [714_000]
    assert valid_values(only(told), "power_mw") == [71_400]
    assert told.rejected == []


def test_overlapping_chunks_count_each_sample_once(tmp_path: Path) -> None:
    first = answer(series(POWER, gpu(), every_15s("100", "101", "102")))
    second = answer(series(POWER, gpu(), every_15s("101", "102", "103", start=1)))
    for documents in ([first, second], [second, first], [[first, second]]):
        told = read(tmp_path, *documents)
        assert valid_values(only(told), "power_mw") == [100_000, 101_000, 102_000, 103_000]
        assert told.rejected == []


def test_of_two_values_at_one_tick_the_first_stays_and_the_other_is_counted(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        answer(series(POWER, gpu(), every_15s("100", "101")), series(POWER, gpu(pod="a"), every_15s("100", "150"))),
    )
    assert valid_values(only(told), "power_mw") == [100_000, 101_000]
    assert told.rejected == [(2, POWER, "150000 mW", "conflicting_sample")]


def test_a_blank_beside_a_reading_is_no_conflict(tmp_path: Path) -> None:
    told = read(tmp_path, answer(series(POWER, gpu(), every_15s("NaN")), series(POWER, gpu(pod="a"), every_15s("7"))))
    assert valid_values(only(told), "power_mw") == [7_000]
    assert told.rejected == []


BLANKS = ["NaN", "-1", "9223372036854775794", "1.4073748835532800e16", "1.8446744073447457e+19", "+Inf", "6000"]


@pytest.mark.parametrize("blank", BLANKS)
def test_blanks_are_no_readings_and_never_zero(tmp_path: Path, blank: str) -> None:
    told = read(
        tmp_path,
        answer(series(POWER, gpu(), every_15s("45", blank, "47")), series(UTIL, gpu(), every_15s("45", blank, "47"))),
    )
    assert valid_values(only(told), "power_mw") == [45_000, None, 47_000]
    assert valid_values(only(told), "busy_ppm") == [450_000, None, 470_000]


def test_a_blank_use_leaves_the_power_of_that_tick(tmp_path: Path) -> None:
    util = series(UTIL, gpu(), every_15s("45", "4294967295", "47"))
    told = read(tmp_path, answer(series(POWER, gpu(), every_15s("69.437", "69.437", "69.437")), util))
    assert valid_values(only(told), "power_mw") == [69_437] * 3
    assert valid_values(only(told), "busy_ppm") == [450_000, None, 470_000]


def test_metrics_that_are_not_used_are_counted_once_a_name(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        answer(
            series("DCGM_FI_DEV_FB_USED", gpu(0), every_15s("1", "2")),
            series("DCGM_FI_DEV_FB_USED", gpu(1), every_15s("1", "2")),
            series(POWER, gpu(0), every_15s("1")),
            {"metric": {"UUID": "GPU-aaaa-0"}, "values": [[T, "1"]]},
        ),
    )
    assert told.rejected == [
        (1, "DCGM_FI_DEV_FB_USED", "", "metric_not_used"),
        (4, "__name__", "", "metric_not_used"),
    ]


def test_samples_that_are_none_are_listed(tmp_path: Path) -> None:
    labels: dict[str, str] = {"__name__": POWER, **gpu()}
    values: list[object] = [[T, "1"], [T + 1], ["x", "2"], [T + 2, "N/A"], [T + 3, 4]]
    told = read(tmp_path, answer({"metric": labels, "values": values}))
    assert valid_values(only(told), "power_mw") == [1_000, 4_000]
    assert told.codes() == ["not_a_sample"] * 3


def test_a_vector_answer_is_one_tick(tmp_path: Path) -> None:
    item = {"metric": {"__name__": POWER, **gpu()}, "value": [T + 0.781, "12.5"]}
    told = read(tmp_path, {"status": "success", "data": {"resultType": "vector", "result": [item]}})
    assert only(told).ticks_us.tolist() == [T * US + 781_000]
    assert energy_uj(told.traces) == {}


def test_average_and_instant_power_are_one_reading_a_tick(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        answer(series(POWER + "_INSTANT", gpu(), every_15s("90", "91")), series(POWER, gpu(), every_15s("100", "NaN"))),
    )
    assert valid_values(only(told), "power_mw") == [100_000, 91_000]
    assert told.rejected == []


def test_two_exporters_of_one_card_are_not_mixed(tmp_path: Path) -> None:
    """They are asked at different times: mixed, each would break the other's pairs."""
    other = {"uuid": "aaaa-0", "instance": "n1:9835"}
    told = read(
        tmp_path,
        answer(
            series(POWER, gpu(), [(T + k, "100") for k in range(4)]),
            series("nvidia_smi_power_draw_watts", other, [(T + k + 0.4, "90") for k in range(3)]),
        ),
    )
    assert (only(told).device, valid_values(only(told), "power_mw")) == ("GPU-aaaa-0", [100_000] * 4)
    assert told.codes() == ["other_exporter"]


def test_a_gpu_that_changes_its_node_stays_one_gpu_and_is_named(tmp_path: Path) -> None:
    moved = gpu(Hostname="n2")
    told = read(tmp_path, answer(series(POWER, gpu(), every_15s("1")), series(POWER, moved, every_15s("2", start=1))))
    assert (only(told).node, valid_values(only(told), "power_mw")) == ("n1", [1_000, 2_000])
    assert told.rejected == [(2, "node", "n2", "node_changed")]


def test_gpus_without_a_uuid_are_told_by_node_and_index(tmp_path: Path) -> None:
    found = [("a", "0", "1"), ("b", "0", "2"), ("a", "1", "3")]
    lines = [series(POWER, {"gpu": index, "Hostname": node}, every_15s(watt)) for node, index, watt in found]
    told = read(tmp_path, answer(*lines))
    assert [(t.node, t.device, valid_values(t, "power_mw")) for t in told.traces] == [
        ("a", "0", [1_000]), ("b", "0", [2_000]), ("a", "1", [3_000]),
    ]  # fmt: skip


def amd(number: int, partition: int | None = None, **labels: str) -> dict[str, str]:
    found = {"gpu_id": str(number), "hostname": "m1", "card_model": "MI300X", "serial_number": "", **labels}
    if partition is not None:
        found |= {"gpu_partition_id": str(partition), "gpu_compute_partition_type": "cpx"}
    return found


PARTITIONS = [
    # eight partitions of a socket repeat the socket's reading; by newer exporters all but the first say 0
    ([amd(k, k) for k in range(8)], ["136"] * 7 + ["137"], {"0": 136_000}),
    ([amd(k, k, serial_number="S1") for k in range(8)], ["136"] * 8, {"S1": 136_000}),
    ([amd(k, k) for k in range(8)], ["136"] + ["0"] * 7, {"0": 136_000}),
    ([amd(k, k % 8) for k in range(16)], ["136"] * 8 + ["140"] * 8, {"0": 136_000, "8": 140_000}),
    ([amd(k, k % 8, serial_number="N/A") for k in range(16)], ["136"] * 16, {"0": 136_000, "8": 136_000}),
    ([amd(0, serial_number="A"), amd(1, serial_number="B")], ["748", "751"], {"A": 748_000, "B": 751_000}),
    ([amd(0), amd(1)], ["748", "751"], {"0": 748_000, "1": 751_000}),
]


@pytest.mark.parametrize(("labels", "watts", "expected"), PARTITIONS)
def test_partitions_of_a_socket_are_one_device(
    tmp_path: Path, labels: list[dict[str, str]], watts: list[str], expected: dict[str, int]
) -> None:
    lines = [series("gpu_package_power", one, every_15s(w)) for one, w in zip(labels, watts, strict=True)]
    told = read(tmp_path, answer(*lines))
    assert {trace.device: trace.power_mw[0] for trace in told.traces} == expected
    assert told.rejected == []


def test_amd_power_is_what_the_platform_reports_and_energy_is_in_microjoules(tmp_path: Path) -> None:
    told = read(
        tmp_path,
        answer(
            series("gpu_average_package_power", amd(0), every_15s("0", "0")),
            series("gpu_package_power", amd(0), every_15s("717", "718")),
            series("gpu_energy_consumed", amd(0), every_15s("1.4e+15", "1.400010755e+15")),
            series("gpu_gfx_activity", amd(0), every_15s("97", "65535")),
        ),
    )
    trace = only(told)
    assert valid_values(trace, "power_mw") == [717_000, 718_000]
    assert valid_values(trace, "counter_uj") == [1_400_000_000_000_000, 1_400_010_755_000_000]
    assert valid_values(trace, "busy_ppm") == [970_000, None]
    assert energy_uj([trace]) == {"0": 10_755_000_000}  # 717 W for 15 s


def test_energy_of_two_cards_with_gap_reset_mig_and_overlap_is_what_the_hand_computes(tmp_path: Path) -> None:
    """15 s apart. Card 0 is one A30 in MIG with a counter: 1500 J a step, away for 20 steps (the counter tells), then
    a driver reload (counter from 0; the step across it only by power: 100 W for 15 s). Card 1 has power only: 200 W,
    away for 20 steps (unknown)."""
    steps = [*range(10), *range(30, 40), *range(40, 50)]
    counter = {k: 5_000_000 + 1_500_000 * k for k in range(40)} | {k: 1_500_000 * (k - 40) for k in range(40, 50)}

    def chunk(wanted: list[int], start: int = 0) -> dict[str, object]:
        at = [k for k in wanted if k in steps]
        lines = []
        for instance in ("3", "4"):
            labels = gpu(0, GPU_I_ID=instance, GPU_I_PROFILE="2g.12gb")
            lines.append(series(POWER, labels, [(T + 15 * k, "100") for k in at]))
            lines.append(series(ENERGY, labels, [(T + 15 * k, str(counter[k])) for k in at]))
        lines.append(series(POWER, gpu(1), [(T + 15 * k, "200.0") for k in at]))
        return answer(*lines)

    told = read(tmp_path, chunk(list(range(36))), chunk(list(range(32, 45))), chunk(list(range(44, 50))))
    assert told.rejected == []
    expected_0 = 39 * 1_500_000_000 + 1_500_000_000 + 9 * 1_500_000_000
    expected_1 = (9 + 19) * 15 * 200_000_000
    for batch_ticks in (600, 7, 2):
        assert energy_uj(told.traces, batch_ticks) == {"GPU-aaaa-0": expected_0, "GPU-aaaa-1": expected_1}
    assert unknown_us(told.traces) == {"GPU-aaaa-0": 0, "GPU-aaaa-1": 21 * 15 * US}


REFUSED = [
    ('{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution"}', "exceeded maximum resolution"),
    ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"DCGM_FI', "cut short"),
    ('{"status":"success","data":{"resultType":"matrix","result":[]}}', "no metric of power"),
    ('{"status":"success","data":{"result":[{"metric":{"__name__":"up"},"values":[[1,"1"]]}]}}', "found: up"),
    ('{"status":"success","data":null}', "no series"),
    ('{"kind":"Pod"}', "no answer of Prometheus"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_what_is_no_answer_is_refused_with_what_to_do(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "range.json"
    path.write_text(text)
    with pytest.raises(InputRefused, match=says):
        read_file(IMPORTER, path)


def test_it_is_detected_by_a_gpu_metric_and_not_by_others(tmp_path: Path) -> None:
    gpus = written_json(tmp_path, answer(series(POWER, gpu(), every_15s("1"))))
    found = IMPORTER.detect(open_source(gpus))
    assert found is not None
    assert found.score > 90
    assert POWER in found.why
    pods = written_json(tmp_path, answer(series("kube_pod_info", {}, every_15s("1"))), name="pods.json")
    assert IMPORTER.detect(open_source(pods)) is None
    text = tmp_path / "text.csv"
    text.write_text(f"timestamp,{POWER}\n")
    assert IMPORTER.detect(open_source(text)) is None


def test_it_is_detected_by_the_exporters_other_metrics_too(tmp_path: Path) -> None:
    long = series("DCGM_FI_DEV_DEC_UTIL", gpu(), every_15s(*["0"] * 5000))
    path = written_json(tmp_path, answer(long, series(POWER, gpu(), every_15s("1"))))
    found = IMPORTER.detect(open_source(path))
    assert found is not None
    assert "DCGM_FI_DEV_DEC_UTIL" in found.why

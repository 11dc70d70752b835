"""Traces of one device from several files: one trace, each sample once, contradictions counted."""

import io
from collections.abc import Sequence

import numpy as np
import pytest
from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.trace_merge import Homes, file_names, merge_traces

from tests.telemetry_reading import energy_uj, rejected_rows, valid_values

S = 1_000_000
Values = Sequence[int | None]


def trace(
    ticks_s: Sequence[float], power: Values = (), counter: Values = (), busy: Values = (), node: str = "n1",
    device: str = "GPU-aaaa", index: int = 0, model: str = "H100",
) -> DeviceTrace:  # fmt: skip
    def column(values: Values) -> tuple[np.ndarray, np.ndarray]:
        given = list(values) or [None] * len(ticks_s)
        return np.array([v or 0 for v in given], dtype=np.int64), np.array(
            [v is not None for v in given], dtype=np.bool_
        )

    ticks = np.array([round(at * S) for at in ticks_s], dtype=np.int64)
    return DeviceTrace(node, device, index, model, "", ticks, *column(power), *column(counter), *column(busy))


def merged(*traces: tuple[str, DeviceTrace]) -> tuple[list[DeviceTrace], list[tuple[int, str, str, str]]]:
    out = io.StringIO()
    return merge_traces(traces, Rejections(out)), rejected_rows(out)


@pytest.mark.parametrize("turned", [False, True])
def test_overlapping_files_are_one_trace_with_rising_ticks(turned: bool) -> None:
    parts = [("a", trace([0, 1, 2], [10, 11, 12])), ("b", trace([2, 3], [12, 13]))]
    [one], rejected = merged(*(reversed(parts) if turned else parts))
    assert one.ticks_us.tolist() == [0, S, 2 * S, 3 * S]
    assert valid_values(one, "power_mw") == [10, 11, 12, 13]
    assert rejected == []


def test_power_energy_and_use_may_come_in_files_of_their_own() -> None:
    """The file of the use was queried at other times: they would tear the power's pairs apart."""
    power = trace([0, 15, 30], [100_000] * 3, node="", model="")
    counter = trace([0, 15, 30], counter=[0, 1_500_000_000, 3_000_000_000])
    busy = trace([7, 22, 37], busy=[1_000_000, 0, 500_000], index=-1)
    [one], rejected = merged(("p.json", power), ("c.json", counter), ("u.json", busy))
    assert (one.node, one.index, one.gpu_model) == ("n1", 0, "H100")
    assert one.ticks_us.tolist() == [0, 15 * S, 30 * S]
    assert valid_values(one, "counter_uj") == [0, 1_500_000_000, 3_000_000_000]
    assert valid_values(one, "busy_ppm") == [None, 1_000_000, 0]
    assert energy_uj([one]) == {"GPU-aaaa": 3_000_000_000}
    assert rejected == []


def test_use_alone_keeps_its_ticks() -> None:
    [one], _ = merged(("a", trace([0, 1], busy=[5, 6])), ("b", trace([2], busy=[7])))
    assert (one.ticks_us.tolist(), valid_values(one, "busy_ppm")) == ([0, S, 2 * S], [5, 6, 7])
    assert valid_values(one, "power_mw") == [None] * 3


def test_of_two_readings_the_first_files_stays_and_the_other_is_counted() -> None:
    [one], rejected = merged(("a", trace([0, 1], [10, None])), ("b", trace([0, 1], [99, 11])))
    assert valid_values(one, "power_mw") == [10, 11]
    assert rejected == [(0, "power", "99 mW", "conflicting_sample")]


def test_a_uuid_is_one_device_and_an_index_is_its_nodes_own() -> None:
    found, rejected = merged(
        ("day-1.csv", trace([0], [1], node="", device="GPU-aaaa")),
        ("day-2.csv", trace([1], [2], node="", device="GPU-aaaa")),
        ("m1.csv", trace([0], [3], node="", device="0")),
        ("m2.csv", trace([0], [4], node="", device="0")),
    )
    assert [(t.node, t.device, t.power_mw.tolist()) for t in found] == [
        ("day-1", "GPU-aaaa", [1, 2]), ("m1", "0", [3]), ("m2", "0", [4]),
    ]  # fmt: skip
    assert rejected == []


def test_a_device_that_moved_is_counted_where_it_was_first() -> None:
    [one], rejected = merged(("a", trace([0], [1])), ("b", trace([1], [2], node="n2")))
    assert (one.node, one.power_mw.tolist()) == ("n1", [1, 2])
    assert rejected == [(0, "node", "n2", "node_changed")]


def test_uuids_of_zeros_tell_nothing_apart() -> None:
    zeros = "GPU-00000000-0000-0000-0000-000000000000"
    found, _ = merged(
        ("a.prom", trace([0], [1], node="", device=zeros)), ("b.prom", trace([0], [2], node="", device=zeros))
    )
    assert [t.node for t in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("file", "node"),
    [
        ("gpu-07.csv", "gpu-07"),
        ("smi-gpu-07.csv", "gpu-07"),
        ("oct/nvidia-smi.GPU-07.2026-10-01.csv.gz", "gpu-07"),
        ("gpu-07_day2.log", "gpu-07"),
        ("gpu-071.csv", "gpu-071"),
        ("smi-gpu-0711.csv", "smi-gpu-0711"),
        ("dump.gpu-07.example.com.prom", "gpu-07.example.com"),
        ("gpu-07-to-gpu-071.csv", "gpu-07-to-gpu-071"),
        ("12.csv", "12"),
        ("trace-12.csv", "trace-12"),
        ("telemetry.csv", "telemetry"),
    ],
)
def test_a_file_that_is_called_after_a_machine_is_of_that_machine(file: str, node: str) -> None:
    assert file_names({"gpu-07", "gpu-071", "gpu-07.example.com", "12"})(file) == node
    [one], _ = merged((file, trace([0, 1], [1, 1], node="")))
    assert one.node == file_names(())(file)


def test_parts_of_an_index_trace_belong_to_the_machine_that_their_files_name() -> None:
    parts = [(f"smi-n1-day{day}.csv", trace([day, day + 1], [1, 1], node="", device="0")) for day in (0, 5)]
    out = io.StringIO()
    [one] = merge_traces(parts, Rejections(out), Homes({"n1", "n2"}))
    assert (one.node, len(one.ticks_us)) == ("n1", 4)


def test_a_device_whose_machine_another_file_says_stands_there() -> None:
    homes = Homes({"n1", "n2"}, {"GPU-aaaa": "n2"})
    out = io.StringIO()
    nodes = [
        merge_traces([("smi-n1.csv", trace([0], [1], node=node))], Rejections(out), homes)[0].node
        for node in ("", "n1")
    ]
    assert nodes == ["n2", "n1"]


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_readings_the_one_of_the_file_that_comes_first_by_name_stays(turned: bool) -> None:
    parts = [("a.csv", trace([0], [10])), ("b.csv", trace([0], [11], node="n2"))]
    [one], rejected = merged(*(reversed(parts) if turned else parts))
    assert (one.node, valid_values(one, "power_mw")) == ("n1", [10])
    assert [(code, value) for _, _, value, code in rejected] == [
        ("node_changed", "n2"), ("conflicting_sample", "11 mW"),
    ]  # fmt: skip

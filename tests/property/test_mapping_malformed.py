"""Records that decode but can't be used: each gives BadRecord with its reason code, and names the value."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from wattledger_core.cost import CostRow
from wattledger_core.event import NodeEvent
from wattledger_core.line import Line
from wattledger_schemas import BadRecord
from wattledger_streams import mapping

from tests.builders import allocation, batch, fact, mark
from tests.pipeline_day import _claim, _job, _price

Wire = dict[str, Any]
JOB = mapping.to_wire_job_event(_job("a1", "start", 5, (_claim("alpha", 0),)))
NODE = mapping.to_wire_node_event(NodeEvent("e", "reservation", 1, "n1", start_us=5, end_us=9))
ALLOCATION = mapping.to_wire_allocation_revision(allocation("a", 1, 2, offset=0, known_s=0))
FACT = mapping.to_wire_node_revision(fact("service", 1, 2, offset=0, known_s=0))
MARK = mapping.to_wire_mark(mark(1, offset=0))
PRICE = mapping.to_wire_price(_price("energy", "p", "0.31"))
BATCH = mapping.to_wire_batch(
    batch([1, 2, 3], [1, 2, 3], processes=[("j", [1, 2, 3])], instances=[("1", 3, [1, 2, 3])])
)


def ticks(*stamps: int) -> bytes:
    return np.array(stamps, dtype="<i8").tobytes()


READERS: dict[str, tuple[Wire, Callable[[Wire], object]]] = {
    "job_event": (JOB, mapping.from_wire_job_event),
    "node_event": (NODE, mapping.from_wire_node_event),
    "tick": ({"at_us": 0, "stale_sources": []}, mapping.from_wire_tick),
    "allocation_revision": (ALLOCATION, lambda r: mapping.from_wire_allocation_record("allocation_revision", r)),
    "node_revision": (FACT, lambda r: mapping.from_wire_allocation_record("node_revision", r)),
    "mark": (MARK, lambda r: mapping.from_wire_allocation_record("mark", r)),
    "price": (PRICE, lambda r: mapping.from_wire_price(r, 0, 0)),
    "sample_batch": (BATCH, mapping.from_wire_batch),
}
DEVICE = {"device": "GPU-1", "index": 0, "gpu_model": "H100", "slices": 7, "sharing": "mig", "idle_floor_mw": None}
FIRST = BATCH["devices"][0]
CASES: list[tuple[str, Wire, str, str]] = [
    ("job_event", {"kind": "vanished"}, "unknown_kind", "vanished"),
    ("job_event", {"at_us": -1}, "time_out_of_range", "-1"),
    ("job_event", {"at_us": 1 << 53}, "time_out_of_range", str(1 << 53)),
    ("job_event", {"job": ""}, "missing_identity", ""),
    ("job_event", {"event_id": ""}, "missing_identity", "a1"),
    ("job_event", {"attempt": -1}, "missing_identity", "-1"),
    *[
        (
            "job_event",
            {"claims": [{**JOB["claims"][0], "share_num": num, "share_den": den}]},
            "bad_share",
            f"{num}/{den}",
        )
        for num, den in [(0, 1), (-1, 7), (8, 7), (1, 0), (-1, -1)]
    ],
    ("job_event", {"claims": [{**JOB["claims"][0], "device": ""}]}, "missing_identity", "a1"),
    ("job_event", {"claims": [{**JOB["claims"][0], "node": ""}]}, "missing_identity", "a1"),
    ("node_event", {"kind": "vanished"}, "unknown_kind", "vanished"),
    ("node_event", {"node": ""}, "missing_identity", ""),
    ("node_event", {"start_us": 9, "end_us": 8}, "negative_interval", "8"),
    ("node_event", {"end_us": 1 << 60}, "time_out_of_range", str(1 << 60)),
    ("node_event", {"devices": [{**DEVICE, "slices": 0}]}, "bad_inventory", "0 slices"),
    ("node_event", {"devices": [{**DEVICE, "device": ""}]}, "bad_inventory", "''"),
    ("tick", {"at_us": 1 << 60}, "time_out_of_range", str(1 << 60)),
    ("allocation_revision", {"end_us": 0}, "negative_interval", "0"),
    ("allocation_revision", {"share_num": 2}, "bad_share", "2/1"),
    ("allocation_revision", {"start_us": -5}, "time_out_of_range", "-5"),
    ("node_revision", {"end_us": 0}, "negative_interval", "0"),
    ("node_revision", {"devices": [{**DEVICE, "slices": -7}]}, "bad_inventory", "-7"),
    ("mark", {"at_us": -1}, "time_out_of_range", "-1"),
    ("price", {"kind": "tax"}, "unknown_kind", "tax"),
    ("price", {"rate": "0,31"}, "bad_decimal", "0,31"),
    ("price", {"rate": ""}, "bad_decimal", "rate"),
    ("price", {"rate": "NaN"}, "bad_decimal", "NaN"),
    ("price", {"rate": "sNaN"}, "bad_decimal", "sNaN"),
    ("price", {"pue": "Infinity"}, "bad_decimal", "Infinity"),
    ("price", {"end_us": 0}, "negative_interval", "0"),
    ("sample_batch", {"ticks_us": b""}, "bad_ticks", "0 bytes"),
    ("sample_batch", {"ticks_us": ticks(1)}, "bad_ticks", "8 bytes"),
    ("sample_batch", {"ticks_us": ticks(1, 2, 3)[:-1]}, "bad_ticks", "23 bytes"),
    ("sample_batch", {"ticks_us": ticks(1, 3, 3)}, "bad_ticks", "increase"),
    ("sample_batch", {"ticks_us": ticks(3, 2, 4)}, "bad_ticks", "increase"),
    ("sample_batch", {"ticks_us": ticks(-1, 2, 3)}, "bad_ticks", "-1"),
    ("sample_batch", {"ticks_us": ticks(1, 2, 1 << 53)}, "bad_ticks", str(1 << 53)),
    ("sample_batch", {"ticks_us": ticks(1, 2)}, "column_length", "power_mw"),
    ("sample_batch", {"devices": []}, "no_devices", "n1"),
    ("sample_batch", {"devices": [FIRST, FIRST]}, "device_repeated", "twice"),
    ("sample_batch", {"period_us": 0}, "bad_period", "0"),
    ("sample_batch", {"period_us": -1}, "bad_period", "-1"),
    *[
        ("sample_batch", {"devices": [{**FIRST, name: b"\0"}]}, "column_length", name)
        for name in ("power_mw", "busy_ppm", "energy_delta_uj")
    ],
    (
        "sample_batch",
        {"devices": [{**FIRST, "processes": [{"cluster": "c", "job": "j", "sm_ppm": b""}]}]},
        "column_length",
        "sm_ppm",
    ),
    (
        "sample_batch",
        {"devices": [{**FIRST, "instances": [{"gpu_instance": "1", "slices": 1, "activity_ppm": b""}]}]},
        "column_length",
        "activity_ppm",
    ),
]


@pytest.mark.parametrize("subject", READERS)
def test_the_record_that_the_cases_change_is_a_good_one(subject: str) -> None:
    record, read = READERS[subject]
    read(deepcopy(record))


@pytest.mark.parametrize(("subject", "change", "reason", "named"), CASES)
def test_a_malformed_record_is_refused_with_its_reason(subject: str, change: Wire, reason: str, named: str) -> None:
    record, read = READERS[subject]
    with pytest.raises(BadRecord) as caught:
        read({**deepcopy(record), **deepcopy(change)})
    assert caught.value.reason_code == reason
    assert named in caught.value.detail


def test_a_record_in_the_wrong_topic_is_refused() -> None:
    with pytest.raises(BadRecord, match="wrong_subject: tick does not belong in allocations"):
        mapping.from_wire_allocation_record("tick", {"at_us": 0, "stale_sources": []})
    with pytest.raises(BadRecord, match="wrong_subject: mark does not belong in price-book"):
        mapping.from_wire_price_record("mark", MARK, 0, 0)


@pytest.mark.parametrize("name", ["rate", "pue", "cost"])
def test_a_cost_row_with_no_number_is_refused(name: str) -> None:
    row = {**dict.fromkeys(CostRow._fields), "sign": 1, "attempt": 0}
    with pytest.raises(BadRecord, match=f"bad_decimal: {name} is 'x'"):
        mapping.from_wire_tenant_cost({"rows": [{**row, name: "x"}]})


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"sign": 300}, "bad_sign"), ({"sign": -129}, "bad_sign"), ({"attempt": 1 << 31}, "bad_attempt")],
)
def test_a_line_or_cost_row_that_no_table_can_hold_is_refused(change: Wire, reason: str) -> None:
    numbers = dict.fromkeys(("attempt", "start_us", "end_us", "span_us", "device_us", "energy_uj"), 0)
    line = {**dict.fromkeys(Line._fields, ""), **numbers, "line_id": "l", "sign": 1}
    lines = {
        "kind": "energy", "node": "n", "start_us": 0, "end_us": 1, "partition": 0, "offset": 0, "cause_id": "",
        "lines": [line], "totals": [], "discrepancies": [],
    }  # fmt: skip
    assert mapping.from_wire_usage_lines(lines).lines[0].line_id == "l"
    with pytest.raises(BadRecord) as caught:
        mapping.from_wire_usage_lines({**lines, "lines": [{**line, **change}]})
    assert caught.value.reason_code == reason


def test_a_void_allocation_may_be_empty() -> None:
    revision = replace(allocation("a", 1, 1, offset=0, known_s=0), void=True)
    record = mapping.to_wire_allocation_revision(revision)
    assert mapping.from_wire_allocation_record("allocation_revision", record) == revision

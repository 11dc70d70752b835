"""Sample records that decode but would bill wrongly or stop the meter: refused, or read without what means nothing."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from wattledger_core.cost import CostRow
from wattledger_schemas import BadRecord
from wattledger_schemas.columns import pack_column
from wattledger_streams import mapping

from tests.builders import batch

Wire = dict[str, Any]
BATCH = mapping.to_wire_batch(
    batch([1, 2, 3], [1, 2, 3], processes=[("j", [1, 2, 3])], instances=[("1", 3, [1, 2, 3])])
)
BELOW = pack_column(np.array([1, -5, 3]), np.array([True, True, True]), 4)
BELOW_INVALID = BELOW[:12] + np.packbits([True, False, True], bitorder="little").tobytes()


def changed(place: str, name: str, value: object) -> Wire:
    record = deepcopy(BATCH)
    device = record["devices"][0]
    (device if place == "device" else device[place][0])[name] = value
    return record


@pytest.mark.parametrize(
    ("place", "name"),
    [("device", "power_mw"), ("device", "busy_ppm"), ("instances", "activity_ppm"), ("processes", "sm_ppm")],
)
def test_a_reading_below_zero_is_refused_unless_it_is_invalid(place: str, name: str) -> None:
    with pytest.raises(BadRecord, match=f"negative_reading: {name} of .* is -5 at tick 1"):
        mapping.from_wire_batch(changed(place, name, BELOW))
    mapping.from_wire_batch(changed(place, name, BELOW_INVALID))


def test_a_refused_reading_names_its_device() -> None:
    record = deepcopy(BATCH)
    second = {**deepcopy(record["devices"][0]), "device": "GPU-second", "busy_ppm": BELOW}
    with pytest.raises(BadRecord, match="busy_ppm of 'GPU-second' is -5 at tick 1"):
        mapping.from_wire_batch({**record, "devices": [record["devices"][0], second]})


@pytest.mark.parametrize("place", ["device", "instances"])
@pytest.mark.parametrize("slices", [0, -7])
def test_a_card_or_instance_without_slices_is_refused(place: str, slices: int) -> None:
    with pytest.raises(BadRecord, match=f"bad_slices: .* has {slices} slices"):
        mapping.from_wire_batch(changed(place, "slices", slices))


@pytest.mark.parametrize("junk", [3_000_000, -(1 << 63), (1 << 63) - 1])
def test_what_an_invalid_counter_cell_holds_moves_no_reading(junk: int) -> None:
    deltas = np.array([0, junk, 700], dtype="<i8").tobytes()
    bitmap = np.packbits([True, False, True], bitorder="little").tobytes()
    found = mapping.from_wire_batch(changed("device", "energy_delta_uj", deltas + bitmap))
    assert found.counter_uj[0][found.counter_valid[0]].tolist() == [0, 700]


@pytest.mark.parametrize("text", ["1E+25", "1E+999", "-1E+60"])
def test_an_amount_too_long_to_round_is_refused(text: str) -> None:
    row = {**dict.fromkeys(CostRow._fields), "sign": 1, "attempt": 0}
    with pytest.raises(BadRecord, match=r"bad_decimal: rate is .* digits before the point"):
        mapping.from_wire_tenant_cost({"rows": [{**row, "rate": text}]})

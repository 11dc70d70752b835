"""What a price must be, and what may change once it has started."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from wattledger_core.pricing_check import PriceFrozen, PriceRefused, check_change, check_price

from tests.pricing_builders import QUARTER, S, price

POOL = {"pool_name": "fabric", "driver": "installed_gpu_h"}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("compute", {"site": "fra1", "gpu_model": "H100"}),
        ("energy", {"site": "fra1", "rate": Decimal("-0.02"), "pue": Decimal("1.25")}),
        ("rate", {"tenant": "acme", "plan": "spot", "sku": "h100", "gpu_model": "H100", "site": "fra1"}),
        ("pool", POOL),
        ("compute", {"start_us": QUARTER, "end_us": QUARTER}),
    ],
)
def test_a_well_formed_price_is_accepted(kind: str, changes: dict[str, Any]) -> None:
    check_price(replace(price(kind, "1.5", offset=0), **changes))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("discount", {}, "kind 'discount' is unknown"),
        ("compute", {"start_us": 1}, "start_us 1 is not on the UTC quarter-hour grid: move it to 0 or 900000000"),
        ("compute", {"end_us": QUARTER + S}, "end_us 901000000 is not on the UTC quarter-hour grid"),
        ("compute", {"start_us": -QUARTER}, "before 1970"),
        ("compute", {"start_us": 2 * QUARTER, "end_us": QUARTER}, "end_us 900000000 is before start_us"),
        ("compute", {"rate": Decimal("-1")}, "rate -1 is negative"),
        ("compute", {"rate": Decimal("NaN")}, "rate NaN is not a number"),
        ("compute", {"rate": Decimal("0.0000000000001")}, "more than 12 decimals"),
        ("compute", {"tenant": "acme"}, "tenant 'acme' does not narrow a compute price"),
        ("energy", {"gpu_model": "H100"}, "gpu_model 'H100' does not narrow a energy price"),
        ("compute", {"currency": ""}, "no currency"),
        ("energy", {"pue": Decimal("0.9")}, "pue 0.9"),
        ("compute", {"pue": Decimal("1.2")}, "pue 1.2"),
        ("pool", {**POOL, "driver": "node_h"}, "driver 'node_h' is unknown"),
        ("pool", {"driver": "kwh"}, "have a name"),
        ("compute", {"pool_name": "fabric"}, "have a name"),
    ],
)
def test_a_malformed_price_is_refused_with_the_field_and_the_value(
    kind: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PriceRefused, match=message.replace("(", r"\(")):
        check_price(replace(price(kind, "1.5", offset=0), **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"rate": Decimal(3)},
        {"start_us": QUARTER},
        {"gpu_model": "A100"},
        {"currency": "USD"},
        {"site": "fra2"},
    ],
)
def test_a_started_price_is_frozen_but_for_its_end(changes: dict[str, Any]) -> None:
    old = price("compute", "2", offset=0, gpu_model="H100", site="fra1")
    with pytest.raises(PriceFrozen, match="end it and publish a new price"):
        check_change(old, replace(old, **changes), now_us=0)
    waiting = replace(old, start_us=2 * QUARTER)
    check_change(waiting, replace(waiting, **changes), now_us=0)


def test_the_end_the_author_and_the_reason_may_always_change() -> None:
    old = price("compute", "2", offset=0)
    check_change(old, replace(old, end_us=QUARTER, author="ann", reason="contract ended"), now_us=10 * QUARTER)


def test_a_backdated_new_price_needs_a_reason() -> None:
    late = price("compute", "2", offset=0, start_us=QUARTER)
    with pytest.raises(PriceFrozen, match="give a reason"):
        check_change(None, late, now_us=2 * QUARTER)
    check_change(None, replace(late, reason="supplier was late"), now_us=2 * QUARTER)
    check_change(None, late, now_us=QUARTER)


def test_a_revision_of_another_price_is_refused() -> None:
    with pytest.raises(PriceFrozen, match="is no revision of"):
        check_change(price("compute", "2", offset=0, name="a"), price("compute", "2", offset=1, name="b"), now_us=0)


def test_a_price_id_keeps_its_kind_even_before_it_starts() -> None:
    old = price("compute", "2", offset=0, name="a", start_us=QUARTER)
    with pytest.raises(PriceFrozen, match="is no revision of"):
        check_change(old, replace(old, kind="rate"), now_us=0)

"""Price sheets: what a YAML file becomes, and what each mistake in one is told."""

from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_streams.tariff_file import load_price_sheet
from wattledger_streams.tariff_file_text import PriceSheetError

from tests.pricing_builders import at

SHEET = """\
currency: EUR
timezone: Europe/Berlin
sites:
  - site: fra1
    timezone: Europe/Berlin
    pue: 1.25
    from: 2026-03-02
    to: 2026-03-03
    default_per_kwh: 0.30
    periods:
      - days: [mon..fri]
        from: 22:00
        to: 06:00
        per_kwh: 0.1
  - site: ash1
    timezone: America/New_York
    pue: 1.4
    pue_included: true
    from: 2026-03-02
    default_per_kwh: 0.08
compute:
  - {site: fra1, gpu_model: H100, per_gpu_hour: 1.90, from: 2026-03-02}
  - {site: ash1, gpu_model: H100, per_gpu_hour: 1.70, from: 2026-03-02, to: 2026-03-02T12:00}
rates:
  - {gpu_model: H100, plan: on_demand, per_gpu_hour: 2.60, from: 2026-03-02T00:00Z}
  - {tenant: acme, sku: h100, per_gpu_hour: 2.10, from: 2026-03-02, author: ann, reason: contract 7}
pools:
  - {name: fabric, driver: installed_gpu_h, per_unit: 0.15, from: 2026-03-02}
  - {name: water, driver: kwh, per_unit: 0.004, marginal: true, site: fra1, from: 2026-03-02}
"""


def load(folder: Path, text: str) -> list[Price]:
    path = folder / "prices.yaml"
    path.write_text(text)
    return load_price_sheet(path)


def the(prices: list[Price], kind: str, **fields: str) -> list[Price]:
    return [p for p in prices if p.kind == kind and all(getattr(p, name) == value for name, value in fields.items())]


def test_a_time_of_use_tariff_becomes_utc_segments(tmp_path: Path) -> None:
    found = the(load(tmp_path, SHEET), "energy", site="fra1")
    # Monday in Berlin (+01:00); Sunday's night is no period, so midnight to 22:00 is the default
    assert [(p.start_us, p.end_us, p.rate, p.pue) for p in found] == [
        (at("2026-03-01T23:00Z"), at("2026-03-02T21:00Z"), Decimal("0.30"), Decimal("1.25")),
        (at("2026-03-02T21:00Z"), at("2026-03-02T23:00Z"), Decimal("0.1"), Decimal("1.25")),
    ]


def test_a_meter_that_includes_the_overhead_has_a_pue_of_1(tmp_path: Path) -> None:
    (found,) = the(load(tmp_path, SHEET), "energy", site="ash1")
    assert (found.pue, found.rate, found.start_us, found.end_us) == (
        Decimal(1), Decimal("0.08"), at("2026-03-02T00:00-05:00"), None,
    )  # fmt: skip


def test_dates_are_local_to_the_site_or_the_sheet_unless_they_carry_an_offset(tmp_path: Path) -> None:
    prices = load(tmp_path, SHEET)
    (virginia,) = the(prices, "compute", site="ash1")
    (contract,) = the(prices, "rate", tenant="acme")
    (listed,) = the(prices, "rate", plan="on_demand")
    assert (virginia.start_us, virginia.end_us) == (at("2026-03-02T00:00-05:00"), at("2026-03-02T12:00-05:00"))
    assert contract.start_us == at("2026-03-02T00:00+01:00")
    assert listed.start_us == at("2026-03-02T00:00Z")
    assert (contract.author, contract.reason, contract.sku) == ("ann", "contract 7", "h100")


def test_pools_carry_their_driver_and_whether_they_are_marginal(tmp_path: Path) -> None:
    found = {p.pool_name: (p.driver, p.marginal, p.rate, p.site) for p in the(load(tmp_path, SHEET), "pool")}
    assert found == {
        "fabric": ("installed_gpu_h", False, Decimal("0.15"), ""),
        "water": ("kwh", True, Decimal("0.004"), "fra1"),
    }


def test_numbers_are_taken_as_they_are_written(tmp_path: Path) -> None:
    text = SHEET.replace("per_gpu_hour: 1.90", "per_gpu_hour: 0.123456789012")
    (found,) = the(load(tmp_path, text), "compute", site="fra1")
    assert str(found.rate) == "0.123456789012"
    assert str(the(load(tmp_path, SHEET), "compute", site="fra1")[0].rate) == "1.90"


def test_the_same_sheet_gives_the_same_ids_in_the_same_order_and_a_log_takes_all(tmp_path: Path) -> None:
    first, second = load(tmp_path, SHEET), load(tmp_path, "# a comment\n" + SHEET)
    assert first == second
    assert len({p.price_id for p in first}) == len(first) == 9
    log = PriceLog()
    assert all(log.add(p) for p in first)
    assert log.refused == {}


def test_a_changed_rate_keeps_the_price_id(tmp_path: Path) -> None:
    changed = load(tmp_path, SHEET.replace("1.90", "2.00"))
    assert [p.price_id for p in changed] == [p.price_id for p in load(tmp_path, SHEET)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("currency: EUR", "currency: euro", ":1: currency: a currency is three capital letters.*got 'euro'"),
        ("currency: EUR\n", "", ":1: currency: Field required: add it"),
        ("per_gpu_hour: 1.90", "per_gpu_hour: cheap", ":22: compute.0.per_gpu_hour: .*'cheap': write a plain decimal"),
        ("per_gpu_hour: 1.90", "per_gpu_hour: -1", ":22: compute.0.per_gpu_hour: .*got '-1'"),
        ("per_gpu_hour: 1.90", "per_hour: 1.90", ":22: compute.0.per_gpu_hour: Field required"),
        ("pue: 1.25", "pue: 0.8", ":6: sites.0.pue: .*got '0.8'"),
        ("from: 22:00", "from: 22:10", ":12: sites.0.periods.0.from: .*on a quarter-hour.*got '22:10'"),
        ("[mon..fri]", "[monday]", ":11: sites.0.periods.0.days"),
        ("timezone: America/New_York", "timezone: America/Nowhere", ":16: sites.1.timezone: time zone 'America/No"),
        ("timezone: America/New_York", "timezone: ../../etc", "time zone '../../etc' is not in tzdata"),
        ("    to: 2026-03-03\n", "", ":4: sites.0.to: a tariff with periods has no end"),
        ("to: 2026-03-03", "to: 2026-03-01", ":8: sites.0.to: 2026-03-01 is not after from"),
        ("from: 2026-03-02T00:00Z", "from: soon", ":25: rates.0.from: 'soon' is no date"),
        ("to: 2026-03-02T12:00", "to: 2026-03-08T02:30", ":23: compute.1.to: .*comes twice or never in America/New"),
        ("to: 2026-03-02T12:00", "to: 2026-03-02T12:10", ":23: compute.1: .*not on the UTC quarter-hour grid"),
        ("plan: on_demand", "plan: gold", ":25: rates.0.plan: .*got 'gold'"),
        ("driver: kwh", "driver: litres", ":29: pools.1.driver: .*got 'litres'"),
        ("sites:", "locations:", ":3: locations: Extra inputs are not permitted: remove it"),
        ("timezone: Europe/Berlin\nsites", "currency: USD\nsites", ":1: currency: given again on line 2: keep one"),
        ("compute:", "compute: [", ": not YAML: "),
        ("{site: ash1, gpu_model: H100, per_gpu_hour: 1.70,", "{site: fra1, gpu_model: H100, per_gpu_hour: 1.70,",
         ":2[23]: compute.[01]: .*overlaps the one of the same scope on line 2[23]"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_line_field_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert SHEET.count(old) >= 1
    with pytest.raises(PriceSheetError, match=r"prices\.yaml.*" + message):
        load(tmp_path, SHEET.replace(old, new, 1))


def test_a_sheet_that_is_missing_or_empty_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(PriceSheetError, match="can't be read: No such file"):
        load_price_sheet(tmp_path / "none.yaml")
    with pytest.raises(PriceSheetError, match="the file is empty"):
        load(tmp_path, "# nothing\n")


def test_an_alias_of_itself_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceSheetError, match="nested too deeply"):
        load(tmp_path, "currency: EUR\ncompute: &again\n  - *again\n")

"""Billing files of real clouds are read in full: totals to the last digit, no row lost, none counted twice."""

from collections import Counter
from decimal import Decimal

import pytest
from wattledger_audit.intake import (
    billing_aws_cur,
    billing_azure,
    billing_canonical,
    billing_focus,
    billing_gcp,
    billing_lago,
    billing_nerc,
    billing_oci,
    billing_stripe,
)
from wattledger_audit.intake.importer import Importer
from wattledger_audit.intake.source import open_source

from tests.unit.billing_reading import DATA, at, read_file

real = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real billing files are not there: {DATA}")
MODULES = (
    billing_aws_cur, billing_azure, billing_canonical, billing_focus, billing_gcp, billing_lago, billing_nerc,
    billing_oci, billing_stripe,
)  # fmt: skip
ALL = [importer for module in MODULES for importer in module.IMPORTERS]
FILES = [
    # file, importer, rows, total, currency
    ("focus_1_0_sample.csv", billing_focus, 1000, "20.52022672899", "USD"),
    ("oci_reports_cost.csv", billing_oci, 506, "2.523589325400648027", "USD"),
    ("azure_ea_sample-anonymous.csv", billing_azure, 27, "1.26136926505726", "CAD"),
    ("azure_azure_camelCased.csv", billing_azure, 3, "0.00011016", "USD"),
    ("aws_2023-06-01.csv", billing_aws_cur, 3, "30", "NOK"),
    ("aws_2023-06-01-not-final.csv", billing_aws_cur, 3, "30", "NOK"),
    ("gcp_2022-08-01_5.csv", billing_gcp, 9, "0.000012", "USD"),
]


@real
@pytest.mark.parametrize(("name", "module", "rows", "total", "currency"), FILES)
def test_a_real_file_is_read_in_full_to_the_last_digit(
    name: str, module: object, rows: int, total: str, currency: str
) -> None:
    importers: tuple[Importer, ...] = module.IMPORTERS  # type: ignore[attr-defined]
    found = read_file(DATA / name, importers)
    assert (len(found.lines), found.total, found.rejected) == (rows, Decimal(total), [])
    assert {line.currency for line in found.lines} == {currency}
    assert all(line.start_us < line.end_us for line in found.lines)


@real
@pytest.mark.parametrize(("name", "module"), [(file[0], file[1]) for file in FILES])
def test_a_real_file_is_taken_by_its_own_importer(name: str, module: object) -> None:
    source = open_source(DATA / name)
    scores = {importer: found.score for importer in ALL if (found := importer.detect(source))}
    assert max(scores, key=scores.__getitem__) in module.IMPORTERS  # type: ignore[attr-defined]


@real
def test_focus_totals_by_provider_are_those_of_billed_cost() -> None:
    totals: Counter[str] = Counter()
    for line in read_file(DATA / "focus_1_0_sample.csv", billing_focus.IMPORTERS).lines:
        totals[line.delivery.split("/")[1]] += line.amount  # type: ignore[assignment]
    assert totals == {
        "AWS": Decimal("18.00663861840"), "Microsoft": Decimal("1.97651418586"), "Oracle": Decimal("0.53707392473"),
    }  # fmt: skip


@real
def test_azure_dates_are_month_first_because_the_billing_period_proves_it() -> None:
    lines = read_file(DATA / "azure_ea_sample-anonymous.csv", billing_azure.IMPORTERS).lines
    assert {(line.start_us, line.end_us) for line in lines} == {(at("2023-09-02"), at("2023-09-03"))}


@real
def test_one_azure_name_on_several_subscriptions_stays_several_tenants() -> None:
    lines = read_file(DATA / "azure_ea_sample-anonymous.csv", billing_azure.IMPORTERS).lines
    assert len({line.tenant for line in lines}) > 1
    assert all(line.tenant.startswith("sub-example (") for line in lines)


@real
def test_only_the_final_aws_month_is_final_and_account_ids_keep_their_zeros() -> None:
    final = read_file(DATA / "aws_2023-06-01.csv", billing_aws_cur.IMPORTERS).lines
    draft = read_file(DATA / "aws_2023-06-01-not-final.csv", billing_aws_cur.IMPORTERS).lines
    assert {(line.delivery, line.delivery_rank, line.tenant) for line in final} == {
        ("cur/0099999999999/2023-06", 1, "0099999999999")
    }
    assert {(line.delivery, line.delivery_rank) for line in draft} == {("cur/9999999999999/2023-06", 0)}


@real
def test_a_rate_history_is_no_billing() -> None:
    source = open_source(DATA / "nerc_rates_history.csv")
    assert [importer.name for importer in ALL if importer.detect(source)] == []

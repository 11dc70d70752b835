"""Cost files: what a YAML becomes over the audited period, and what each mistake in one is told."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.assessment.cost_book import (
    DEFAULT_BEARERS,
    ContractRate,
    CostBook,
    FxRate,
    NodePrice,
    SkuRule,
)
from wattledger_audit.assessment.cost_file import fleet_file_of
from wattledger_audit.assessment.cost_file_tree import CostFileRefused
from wattledger_audit.intake.costs_yaml import detect
from wattledger_audit.intake.record import FleetNode
from wattledger_audit.intake.source import Source
from wattledger_core.interval import FOREVER_US
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog

from tests.cost_file_sample import END, FILE, START, book
from tests.pricing_builders import at


def the(found: CostBook, kind: str, **fields: str) -> list[Price]:
    return [p for p in found.prices if p.kind == kind and all(getattr(p, name) == v for name, v in fields.items())]


def with_lines(*lines: str) -> str:
    return "\n".join(("currency: EUR", "timezone: Europe/Berlin", *lines)) + "\n"


def test_the_whole_file_says_what_it_says(tmp_path: Path) -> None:
    found = book(tmp_path, FILE)
    assert (found.currency, found.timezone.key, found.has_energy) == ("EUR", "Europe/Berlin", True)
    assert (found.idle_policy, found.normal_utilisation_ppm) == ("normal", 850_000)
    assert (found.target_margin_ppm, found.price_step) == (250_000, Decimal("0.05"))
    assert [(p.busy_mw, p.idle_mw) for p in found.power.values()] == [(620_000, 72_500)]
    assert found.skus == (SkuRule("h100-node", "H100", gpus_per_unit=8), SkuRule("storage", gpu=False))
    assert found.fx == (FxRate("USD", Decimal("0.9"), START, END, "ECB"),)
    (meter,) = found.meters
    assert (meter.kwh, meter.committed_kw, meter.peak_kw, meter.amount, meter.currency) == (
        Decimal("12000.5"), Decimal(60), None, Decimal(3300), "EUR",
    )  # fmt: skip
    assert (meter.start_us, meter.end_us, found.assumptions) == (START, END, ())


def test_host_lists_become_machines_with_their_time_and_state(tmp_path: Path) -> None:
    fleet = book(tmp_path, FILE).fleet
    assert [node.node for node in fleet] == ["gpu08", "gpu09", "gpu10", "spare1", "spare2", "spare3"]
    assert fleet[0] == FleetNode(
        4, "gpu08", "", "fra1", "H100", 8, 7, None, None, "active", 128, 2 * 1024**4, ("gpu", "long"), ()
    )
    assert (fleet[3].start_us, fleet[3].end_us, fleet[3].status, fleet[3].line) == (
        at("2026-10-15T00:00+02:00"), at("2026-10-20T12:00+02:00"), "spare", 5,
    )  # fmt: skip


def test_machines_that_left_before_the_period_are_no_part_of_it(tmp_path: Path) -> None:
    text = with_lines(
        "fleet:", "  - {node: old1, gpus: 8, to: 2026-10-01}", "  - {node: old1, gpus: 4, from: 2026-10-01}"
    )
    assert [(node.node, node.gpus) for node in book(tmp_path, text).fleet] == [("old1", 4)]


def test_a_purchase_is_a_spread_of_its_month_and_rates_are_prices_of_the_period(tmp_path: Path) -> None:
    found = book(tmp_path, FILE)
    (bought,) = [spread for spread in found.spreads if spread.component == "compute"]
    assert (bought.amount, bought.per_device, bought.gpu_model, bought.driver) == (
        Decimal(100), True, "H100", "installed_gpu_h",
    )  # fmt: skip
    assert (bought.start_us, bought.end_us) == (START, END)
    change = at("2026-10-10T00:00+02:00")
    assert [(p.start_us, p.end_us, str(p.rate)) for p in the(found, "compute")] == [
        (START, change, "1.10"), (change, END, "0.90"),
    ]  # fmt: skip


def test_a_price_per_node_is_kept_whole_with_its_weights_and_place(tmp_path: Path) -> None:
    text = with_lines(
        "compute:",
        "  - {gpu_model: H100, per_node_hour: 10.5, weights: {gpu: 8, cpu: 0.5}, from: 2026-09-01, to: 2026-10-10}",
        "  - {site: fra1, per_node_hour: 9, from: 2026-10-10}",
        "  - {per_node_hour: 8, to: 2026-09-01}",
    )
    found = book(tmp_path, text)
    change = at("2026-10-10T00:00+02:00")
    eight, half, none = Decimal(8), Decimal("0.5"), Decimal(0)
    assert found.node_prices == (
        NodePrice(Decimal("10.5"), "EUR", at("2026-09-01T00:00+02:00"), change, eight, half, none, "", "H100",
                  "costs.yaml line 4"),
        NodePrice(Decimal(9), "EUR", change, FOREVER_US, Decimal(9), Decimal("0.9"), Decimal("0.1"), "fra1", "",
                  "costs.yaml line 5"),
    )  # fmt: skip
    assert found.assumptions == (
        "The per_node_hour of all nodes at fra1 names no weights: 9 / 0.9 / 0.1 for a GPU, a CPU and a GB are taken, "
        "as AWS does.",
    )


def test_prices_are_known_from_the_start_carry_their_line_and_enter_a_log(tmp_path: Path) -> None:
    found = book(tmp_path, FILE)
    assert {price.known_us for price in found.prices} == {0}
    assert len({price.revision_id for price in found.prices}) == len(found.prices)
    assert the(found, "pool")[0].reason == "costs.yaml line 27"
    log = PriceLog()
    assert all(log.add(price) for price in found.prices)
    assert log.refused == {}


def test_a_tariff_is_expanded_over_the_period_widened_to_the_quarter_hour(tmp_path: Path) -> None:
    start_us, end_us = at("2026-10-23T18:07+02:00"), at("2026-10-26T00:20+01:00")
    found = the(book(tmp_path, FILE, start_us, end_us), "energy", site="fra1")
    # Friday's night ends on Saturday; Sunday's is no period, Monday's would start at 22:00; 25 October has 25 hours
    assert [(p.start_us, p.end_us, str(p.rate)) for p in found] == [
        (at("2026-10-23T18:00+02:00"), at("2026-10-23T22:00+02:00"), "0.30"),
        (at("2026-10-23T22:00+02:00"), at("2026-10-24T06:00+02:00"), "0.1"),
        (at("2026-10-24T06:00+02:00"), at("2026-10-26T00:30+01:00"), "0.30"),
    ]
    assert {p.pue for p in found} == {Decimal("1.25")}


def test_a_flat_tariff_is_one_price_and_a_meter_that_includes_the_overhead_has_a_pue_of_1(tmp_path: Path) -> None:
    (found,) = the(book(tmp_path, FILE), "energy", site="ash1")
    assert (found.start_us, found.end_us, found.rate, found.pue) == (START, END, Decimal("0.08"), Decimal(1))


def test_one_mapping_will_do_for_a_list_and_its_errors_keep_their_line(tmp_path: Path) -> None:
    text = with_lines("energy:", "  pue: 1.2", "  default_per_kwh: 0.2")
    assert [p.rate for p in the(book(tmp_path, text), "energy")] == [Decimal("0.2")]
    with pytest.raises(CostFileRefused, match=r"costs\.yaml:4: energy\.0\.pue: .*got '0\.9'"):
        book(tmp_path, text.replace("1.2", "0.9"))


def test_months_are_local_to_the_site(tmp_path: Path) -> None:
    text = with_lines(
        "compute: {site: ash1, purchase: {price: 120, months: 12}}",
        "energy: {site: ash1, timezone: America/New_York, default_per_kwh: 0.1}",
    )
    spreads = book(tmp_path, text).spreads
    # the period starts at 18:00 on 30 September there
    assert [spread.start_us for spread in spreads] == [at("2026-09-01T00:00-04:00"), at("2026-10-01T00:00-04:00")]


def test_pools_are_spread_whole_over_their_service_or_priced_per_unit(tmp_path: Path) -> None:
    found = book(tmp_path, FILE)
    (fabric,) = [spread for spread in found.spreads if spread.component == "pool:fabric"]
    assert (fabric.amount, fabric.driver, fabric.per_device, fabric.start_us, fabric.end_us) == (
        Decimal(1200), "node_h", False, START, END,
    )  # fmt: skip
    (water,) = the(found, "pool")
    assert (water.pool_name, water.driver, water.marginal, water.site, str(water.rate)) == (
        "water", "kwh", True, "fra1", "0.004",
    )  # fmt: skip


def test_a_service_interval_longer_than_the_period_stays_whole_and_one_outside_is_said(tmp_path: Path) -> None:
    text = with_lines(
        "pools:",
        "  - {name: support, amount: 365, driver: held_gpu_h, service_from: 2026-01-01, service_to: 2027-01-01}",
        "  - {name: support, amount: 9, driver: held_gpu_h, service_from: 2025-01-01, service_to: 2026-10-01}",
    )
    found = book(tmp_path, text)
    assert [(s.amount, s.start_us, s.end_us) for s in found.spreads] == [
        (Decimal(365), at("2026-01-01T00:00+01:00"), at("2027-01-01T00:00+01:00"))
    ]
    assert found.assumptions == (
        "Pool support (costs.yaml line 5) is for a time outside the period: not counted.",
    )  # fmt: skip


def test_another_currency_is_exchanged_by_date(tmp_path: Path) -> None:
    text = with_lines(
        "pools:",
        "  - {name: lab, amount: 365, currency: USD, driver: kwh, service_from: 2026-01-01, service_to: 2027-01-01}",
        "  - {name: use, per_unit: 0.3, currency: USD, driver: kwh}",
        "fx:",
        "  - {currency: USD, to: 2026-10-16, from: 2026-10-01, rate: 0.9, source: ECB, date: 2026-10-01}",
        "  - {currency: USD, from: 2026-10-16, rate: 0.8}",
    )
    found = book(tmp_path, text)
    middle_us, year_end_us = at("2026-10-16T00:00+02:00"), at("2027-01-01T00:00+01:00")
    # one a day: fifteen days at 0.9, then 77 days and the hour that the clock change adds, at 0.8
    assert [(s.start_us, s.end_us, s.amount, s.currency) for s in found.spreads] == [
        (START, middle_us, Decimal("13.5"), "EUR"),
        (middle_us, year_end_us, Decimal("61.633333333333"), "EUR"),
    ]
    assert [(p.start_us, p.end_us, p.rate) for p in the(found, "pool")] == [
        (START, middle_us, Decimal("0.27")), (middle_us, END, Decimal("0.24")),
    ]  # fmt: skip
    assert "lab is in USD: one USD is taken as 0.9 EUR (ECB (2026-10-01))." in found.assumptions
    assert "The exchange rate of USD, 0.8, names no source." in found.assumptions


def test_tenants_have_names_terms_and_rates(tmp_path: Path) -> None:
    acme, globex = book(tmp_path, FILE).tenants
    assert acme.aliases == {"billing": ("Acme Inc.", "ACME"), "usage": ("acme-lab",)}
    assert acme.contract == (ContractRate(Decimal("2.10"), "EUR"),)
    assert (acme.plan, acme.increment_us, acme.minimum_us, acme.billed_by) == (
        "reserved", 60_000_000, 90_000_000, "overlap",
    )  # fmt: skip
    assert (globex.aliases, globex.billed_by, globex.bearers) == ({"": ("Globex GmbH",)}, "end", {"FAILED": "provider"})
    assert globex.billing_timezone is not None
    change = at("2026-10-10T00:00-04:00")
    assert globex.contract == (
        ContractRate(Decimal("2.0"), "EUR", "h100", end_us=change),
        ContractRate(Decimal("2.2"), "EUR", "h100", start_us=change),
    )


@pytest.mark.parametrize(
    ("bearer", "expected"),
    [
        ("{NODE_FAIL: tenant}", {"NODE_FAIL": "tenant"}),
        ("{out of memory: provider}", {"OUT_OF_MEMORY": "provider"}),
        ("{Evicted: provider}", {"EVICTED": "provider"}),
    ],
)
def test_bearers_go_by_end_state(tmp_path: Path, bearer: str, expected: dict[str, str]) -> None:
    (tenant,) = book(tmp_path, with_lines(f"tenants: {{name: a, bearer: {bearer}}}")).tenants
    assert tenant.bearers == expected


def test_one_bearer_is_for_everything_that_is_a_fault(tmp_path: Path) -> None:
    (tenant,) = book(tmp_path, with_lines("tenants: {name: a, bearer: tenant}")).tenants
    assert {*DEFAULT_BEARERS, "FAILED", "TIMEOUT", "OUT_OF_MEMORY"} <= set(tenant.bearers)
    assert not {"COMPLETED", "CANCELLED"} & set(tenant.bearers)
    assert set(tenant.bearers.values()) == {"tenant"}


@pytest.mark.parametrize(
    ("written", "expected_us"),
    [("1m", 60), ("15 min", 900), ("1h", 3600), ("60s", 60), ("60", 60), ("0", 0), ("1d", 86_400)],
)
def test_time_spans_are_read_with_their_unit(tmp_path: Path, written: str, expected_us: int) -> None:
    (tenant,) = book(tmp_path, with_lines(f"tenants: {{name: a, increment: {written}}}")).tenants
    assert tenant.increment_us == expected_us * 1_000_000


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("separate", ("apart", 800_000)),
        ("weighted", ("weighted", 800_000)),
        ("even", ("even", 800_000)),
        ("normal", ("normal", 800_000)),
        ("normal(0.7)", ("normal", 700_000)),
        ("normal( 65% )", ("normal", 650_000)),
        ("{normal: 0.75}", ("normal", 750_000)),
    ],
)
def test_idle_policies_are_read(tmp_path: Path, written: str, expected: tuple[str, int]) -> None:
    found = book(tmp_path, with_lines(f"idle: {written}"))
    assert (found.idle_policy, found.normal_utilisation_ppm) == expected


@pytest.mark.parametrize(("written", "ppm"), [("0.25", 250_000), ("25%", 250_000), ("12.5%", 125_000), ("0", 0)])
def test_shares_are_fractions_or_percent(tmp_path: Path, written: str, ppm: int) -> None:
    assert book(tmp_path, with_lines(f"target_margin: {written}")).target_margin_ppm == ppm


def test_numbers_never_pass_through_float(tmp_path: Path) -> None:
    text = with_lines("compute: {gpu_model: H100, per_gpu_hour: 0.123456789012}", "price_step: 0.1")
    found = book(tmp_path, text)
    assert (str(found.prices[0].rate), str(found.price_step)) == ("0.123456789012", "0.1")


def test_what_is_assumed_is_said(tmp_path: Path) -> None:
    text = (
        "currency: USD\ncompute: {gpu_model: H100, purchase: {price: 3600, months: 36}}\n"
        "energy: {default_per_kwh: 0.1}\npools: {name: p, amount: 5, driver: kwh}\n"
    )
    found = book(tmp_path, text)
    assert found.timezone.key == "UTC"
    assert found.assumptions == (
        "No timezone is given: months and dates without an offset are taken in UTC.",
        "No PUE is given for energy: 1 is assumed, so cooling and losses cost nothing here.",
        "The purchase of H100 names no residual value: 0 is assumed.",
        "The purchase of H100 names no interest rate: 0 is assumed, so its price is spread in equal parts.",
        "The purchase of H100 names no date in_service: its payments are taken to run over the whole period.",
        "Pool p names no service interval: its amount is taken as the audited period's.",
    )


def test_blank_keys_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    text = with_lines("compute:", "energy:", "tenants:", "  - name: a", "    contract:", "    plan:")
    found = book(tmp_path, text)
    assert (found.prices, found.spreads, found.has_energy) == ((), (), False)
    assert [(tenant.name, tenant.contract) for tenant in found.tenants] == [("a", ())]


def test_the_same_file_gives_the_same_book_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    first, second = book(tmp_path, FILE), book(tmp_path / "other", FILE)
    zones = [replace(t, billing_timezone=None) for t in first.tenants]
    assert zones == [replace(t, billing_timezone=None) for t in second.tenants]
    assert (first.prices, first.spreads, first.fleet) == (second.prices, second.spreads, second.fleet)


def test_a_fleet_file_lies_beside_the_cost_file(tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    path.write_text(with_lines("fleet_file: sub/fleet.csv"))
    assert fleet_file_of(path) == tmp_path / "sub" / "fleet.csv"
    path.write_text(FILE)
    assert fleet_file_of(path) is None
    path.write_text("currency: euro\n")
    with pytest.raises(CostFileRefused, match="three capital letters"):
        fleet_file_of(path)


@pytest.mark.parametrize(
    ("name", "head", "score"),
    [
        ("costs.yaml", FILE, 95),
        ("costs.txt", "# a comment\n---\ncurrency: EUR\ncompute:\n  - {per_gpu_hour: 1}\n", 95),
        ("x.yaml", "energy:\n  default_per_kwh: 0.1\n", 70),
        ("prices.yaml", "currency: EUR\nsites:\n  - site: a\ncompute: []\n", 40),
        ("docker.yaml", "services:\n  a: 1\nvolumes: {}\n", None),
        ("usage.csv", "job_id,tenant,start,end\n1,a,2026-10-01,2026-10-02\n", None),
        ("fees.json", '{"fees": [{"currency": "EUR"}]}', None),
        ("log.txt", "2026-10-01T00:00:00Z power: 12\n", None),
    ],
)
def test_a_cost_file_is_recognised_by_its_keys(name: str, head: str, score: int | None) -> None:
    found = detect(Source(Path(name), name, "text", "utf-8-sig", head))
    assert (found.score if found else None) == score


def test_only_text_is_looked_at() -> None:
    assert detect(Source(Path("a.xlsx"), "a.xlsx", "xlsx", "", "")) is None

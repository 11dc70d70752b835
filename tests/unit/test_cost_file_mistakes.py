"""What each mistake in a cost file is told: file, line, field, value, and what to do."""

from pathlib import Path

import pytest
from wattledger_audit.assessment.cost_file import read_cost_file
from wattledger_audit.assessment.cost_file_tree import CostFileRefused

from tests.cost_file_sample import END, FILE, START, book


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("currency: EUR\n", "", ":1: currency: Field required: add it"),
        ("currency: EUR\n", "curency: EUR\n", ":1: curency: 'curency' is no key here: did you mean currency?"),
        ("per_gpu_hour: 1.10", "per_hour: 1.10", ":9: compute.1.per_hour: .*did you mean per_gpu_hour"),
        ("months: 36", "month: 36", ":8: compute.0.purchase.month: .*did you mean months"),
        ("service_to", "service_end", ":26: pools.0.service_end: .*did you mean service_to"),
        ("scope: {site", "scope: {place", ":27: pools.1.scope.place: .*use one of site, gpu_model"),
        ("{sku: h100, per_gpu_hour: 2.0", "{skus: h100, per_gpu_hour: 2.0", ":45: tenants.1.contract.0.skus: .*sku?"),
        ("days: [mon..fri]", "day: [mon..fri]", ":17: energy.0.periods.0.day: .*did you mean days"),
        ("per_gpu_hour: 1.10", "per_gpu_hour: '1,10'", ":9: compute.1.per_gpu_hour: .*got '1,10': write a"),
        ("per_gpu_hour: 1.10", "per_gpu_hour: -1", ":9: compute.1.per_gpu_hour: .*got '-1'"),
        ("per_gpu_hour: 1.10", "per_gpu_hour: nan", ":9: compute.1.per_gpu_hour: .*got 'nan'"),
        ("per_gpu_hour: 1.10", "per_gpu_hour: 1e-13", ":9: compute.1.per_gpu_hour: .*12 decimal places.*got '1e-13'"),
        ("price: 28800", "price: 1e999999", ":8: compute.0.purchase.price: .*got '1e999999'"),
        ("per_gpu_hour: 1.10, ", "", ":9: compute.1: it needs either per_gpu_hour, purchase or per_node_hour"),
        ("per_gpu_hour: 1.10", "per_gpu_hour: 1.10, per_node_hour: 9", ":9: compute.1: .*give one of them"),
        ("per_gpu_hour: 1.10", "per_gpu_hour: 1.10, weights: {gpu: 9}", ":9: compute.1: weights split a per_node_hour"),
        ("per_gpu_hour: 1.10", "per_node_hour: 9, weights: {cpu: 0}", ":9: compute.1.weights: all weights are 0"),
        ("per_gpu_hour: 1.10", "per_node_hour: 9, weights: {gpu: -1}", ":9: compute.1.weights.gpu: .*got '-1'"),
        ("per_gpu_hour: 1.10", "per_node_hour: 9, weights: {memory: 1}", ":9: .*did you mean memory_gb"),
        ("{gpu_model: A100, per_gpu_hour: 1.10", "{gpu_model: H100, per_node_hour: 9",
         ":9: compute.1: this and the cost on line 7 would both count"),
        ("per_gpu_hour: 0.90, from: 2026-10-10", "per_node_hour: 9, from: 2026-10-09",
         ":10: compute.2: this and the cost on line 9 would both count"),
        ("residual: 0", "residual: 30000", ":8: compute.0.purchase: residual 30000 is more than the price 28800"),
        ("months: 36", "months: 0", ":8: compute.0.purchase.months: .*got '0'"),
        ("interest_rate: 0", "interest_rate: 6", ":8: compute.0.purchase.interest_rate: .*write 0.25 or 25%, got '6'"),
        ("in_service: 2026-01-01", "in_service: soon", ":8: compute.0.purchase.in_service: 'soon' is no date"),
        ("{gpu_model: A100, per_gpu_hour: 1.10", "{gpu_model: H100, per_gpu_hour: 1.10",
         ":9: compute.1: this and the cost on line 7 would both count"),
        ("per_gpu_hour: 0.90, from: 2026-10-10", "per_gpu_hour: 0.90, from: 2026-10-09",
         ":10: compute.2: .*overlaps the one of the same scope on line 9"),
        ("per_gpu_hour: 1.10, to: 2026-10-10", "per_gpu_hour: 1.10, to: 2026-10-10T00:10",
         ":9: compute.1.to: 2026-10-10T00:10 is not on a quarter-hour"),
        ("pue: 1.25", "pue: 0.8", ":14: energy.0.pue: .*got '0.8'"),
        ("    default_per_kwh: 0.08\n", "", ":21: energy.1: it has neither periods nor default_per_kwh"),
        ("    default_per_kwh: 0.30\n", "", ":15: energy.0.periods: no period holds at mon 00:00"),
        ("timezone: America/New_York\n    pue", "timezone: New_York\n    pue", ":22: energy.1.timezone: .*'New_York'"),
        ("site: ash1", "site: fra1", ":22: energy.1.timezone: America/New_York, but fra1 was in Europe/Berlin"),
        ("driver: node_h", "driver: node_hours", ":26: pools.0.driver: .*got 'node_hours'.*did you mean node_h"),
        ("amount: 1200", "per_unit: 1200", ":26: pools.0: per_unit goes with the drivers.*for node_h, give an amount"),
        ("amount: 1200, ", "", ":26: pools.0: it needs either amount or per_unit"),
        (", service_to: 2026-11-01", "", ":26: pools.0: .*give both service_from and service_to"),
        ("service_to: 2026-11-01", "service_to: 2026-10-01", ":26: pools.0.service_to: 2026-10-01 is not after"),
        ("amount: 1200", "amount: 1200, currency: CHF", ":26: pools.0.currency: fabric is in CHF, the file in EUR"),
        ("{name: water, per_unit: 0.004", "{name: water, currency: CHF, per_unit: 0.004", ":27: pools.1.currency: "),
        ("  - {name: water, per_unit: 0.004, driver: kwh, marginal: true, scope: {site: fra1}}",
         "  - {name: fabric, amount: 1, driver: node_h, service_from: 2026-10-01, service_to: 2026-11-01}",
         ":27: pools.1: pool fabric has an amount for this very interval and scope on line 26"),
        ("idle: normal(0.85)", "idle: fair", ":28: idle: idle is separate, weighted, even.*got 'fair'"),
        ("idle: normal(0.85)", "idle: normal(85)", ":28: idle: it is a share below 1: .*got 'normal\\(85\\)'"),
        ("target_margin: 25%", "target_margin: 25", ":29: target_margin: .*write 0.25 or 25%, got '25'"),
        ("target_margin: 25%", "target_margin: 0.1234567", ":29: target_margin: it has more than 6 decimals"),
        ("price_step: 0.05", "price_step: 0", ":30: price_step: .*got '0'"),
        ("{currency: USD", "{currency: EUR", ":32: fx.0.currency: EUR is the file's own currency"),
        ("source: ECB}", "source: ECB}\n  - {currency: USD, from: 2026-10-31, rate: 1}",
         ":33: fx.1: USD has a rate for this time on line 32"),
        ("busy_w: 620", "busy_w: 62", ":34: power.0: idle_w is more than busy_w"),
        ("busy_w: 620", "busy_w: lots", ":34: power.0.busy_w: it is in watts.*got 'lots'"),
        ("name: globex", "name: acme", ":42: tenants.1.name: 'acme' is a name of tenant acme on line 36 too"),
        ("[Globex GmbH]", "[ACME]", ":43: tenants.1.aliases: 'ACME' is a name of tenant acme on line 37 too"),
        ("billing: [Acme Inc., ACME]", "invoices: [Acme]", ":37: tenants.0.aliases: 'invoices' is no source"),
        ("plan: reserved", "plan: reservd", ":38: tenants.0.plan: .*did you mean reserved"),
        ("increment: 1m", "increment: 1 fortnight", ":40: tenants.0.increment: a time span is.*got '1 fortnight'"),
        ("2.2, from: 2026-10-10", "2.2, from: 2026-10-09", ":46: tenants.1.contract.1: 2.0 and 2.2 are agreed"),
        ("billed_by: end", "billed_by: start", ":48: tenants.1.billed_by: .*got 'start'"),
        ("{failed: provider}", "{failed: nobody}", ":49: tenants.1.bearer: failed: 'nobody' bears no cost"),
        ("{failed: provider}", "{node_fial: tenant}", ":49: tenants.1.bearer: .*mean NODE_FAIL"),
        ("sku: storage", "sku: h100-node", ":52: skus.1: sku h100-node is on line 51 already"),
        ("kwh: 12000.5", "kwh: a lot", ":54: meter.0.kwh: .*got 'a lot'"),
        ("node: \"gpu[08-10]\"", "node: \"gpu[08-\"", ":4: fleet.0.node: .*write one name, or a host list"),
        ("node: \"gpu[08-10]\"", "node: \"gpu[10-08]\"", ":4: fleet.0.node: .*runs backwards"),
        ("\"spare[2-3]\"", "\"gpu[10-11]\"", ":5: fleet.1.node: gpu10 is in the fleet at this time on line 4 already"),
        ("mem: 2T", "mem: 2048", ":4: fleet.0.mem: memory is a number with its unit.*got '2048'"),
        ("gpus: 8, site", "gpus: eight, site", ":4: fleet.0.gpus: .*got 'eight'"),
        ("fleet:", "fleet_file: a.csv\nfleet:", ":1: fleet and fleet_file are both given"),
        ("to: 2026-10-20T12:00", "to: 2026-10-25T02:30", ":5: fleet.1.to: .*comes twice or never in Europe/Berlin"),
        ("meter:\n", "meter:\n  - {site: fra1, from: 2026-10-31, to: 2026-11-02, kwh: 1}\n",
         ":55: meter.1: its time overlaps the reading on line 54"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_line_field_and_value(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert FILE.count(old) >= 1
    with pytest.raises(CostFileRefused, match=r"costs\.yaml" + message):
        book(tmp_path, FILE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# nothing\n", "the file is empty"),
        (b"- currency: EUR\n", ":1: it is no cost file"),
        (b"currency: EUR\nfleet: [\n", ":3: not YAML"),
        (b"currency: EUR\x00\n", "not YAML: .*save it as plain text"),
        ("currency: EUR # €\n".encode("utf-16"), "is not UTF-8"),
    ],
)
def test_what_is_no_cost_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "costs.yaml"
    path.write_bytes(content)
    with pytest.raises(CostFileRefused, match=message):
        read_cost_file(path, START, END)


def test_a_file_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(CostFileRefused, match="can't be read: No such file"):
        read_cost_file(tmp_path / "none.yaml", START, END)

"""A cost file for tests: every section once, and the book that a text becomes."""

from pathlib import Path

from wattledger_audit.assessment.cost_book import CostBook
from wattledger_audit.assessment.cost_file import read_cost_file

from tests.pricing_builders import at

START, END = at("2026-10-01T00:00+02:00"), at("2026-11-01T00:00+01:00")
FILE = """\
currency: EUR
timezone: Europe/Berlin
fleet:
  - {node: "gpu[08-10]", gpu_model: H100, gpus: 8, site: fra1, cpus: 128, mem: 2T, partitions: [gpu, long]}
  - {node: [spare1, "spare[2-3]"], gpu_model: H100, gpus: 8, status: spare, from: 2026-10-15, to: 2026-10-20T12:00}
compute:
  - gpu_model: H100
    purchase: {price: 28800, gpus: 8, months: 36, residual: 0, interest_rate: 0, in_service: 2026-01-01}
  - {gpu_model: A100, per_gpu_hour: 1.10, to: 2026-10-10}
  - {gpu_model: A100, per_gpu_hour: 0.90, from: 2026-10-10}
energy:
  - site: fra1
    timezone: Europe/Berlin
    pue: 1.25
    default_per_kwh: 0.30
    periods:
      - days: [mon..fri]
        from: 22:00
        to: 06:00
        per_kwh: 0.1
  - site: ash1
    timezone: America/New_York
    pue_included: true
    default_per_kwh: 0.08
pools:
  - {name: fabric, amount: 1200, driver: node_h, service_from: 2026-10-01, service_to: 2026-11-01}
  - {name: water, per_unit: 0.004, driver: kwh, marginal: true, scope: {site: fra1}}
idle: normal(0.85)
target_margin: 25%
price_step: 0.05
fx:
  - {currency: USD, from: 2026-10-01, to: 2026-11-01, rate: 0.9, source: ECB}
power:
  - {gpu_model: H100, busy_w: 620, idle_w: 72.5}
tenants:
  - name: acme
    aliases: {billing: [Acme Inc., ACME], usage: acme-lab}
    plan: reserved
    contract: 2.10
    increment: 1m
    minimum: 90
  - name: globex
    aliases: [Globex GmbH]
    contract:
      - {sku: h100, per_gpu_hour: 2.0, to: 2026-10-10}
      - {sku: h100, per_gpu_hour: 2.2, from: 2026-10-10}
    billing_timezone: America/New_York
    billed_by: end
    bearer: {failed: provider}
skus:
  - {sku: h100-node, gpu_model: H100, gpus_per_unit: 8}
  - {sku: storage, gpu: false}
meter:
  - {site: fra1, from: 2026-10-01, to: 2026-11-01, kwh: 12000.5, committed_kw: 60, amount: 3300}
"""


def book(folder: Path, text: str, start_us: int = START, end_us: int = END) -> CostBook:
    path = folder / "costs.yaml"
    path.write_text(text)
    return read_cost_file(path, start_us, end_us)

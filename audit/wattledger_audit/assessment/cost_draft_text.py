"""The words of a drafted cost file. Every commented entry is valid once its # is gone; the figures are placeholders."""

HEAD = """\
# What the fleet costs and what was agreed, for `wattledger audit --costs`. Drafted for the period: {period}.
# Fill in the rates: take the # away from an entry and replace its figure. The figures in comments are placeholders.
# Left out means: not known. What is then assumed is said in the report.
#
# Dates are local to the site's timezone, else to the file's, unless they carry an offset (2026-03-01T12:00+01:00).
# Intervals are half-open: `to` is the first moment after. A date alone is the START of that day, so the whole of a
# month is from: {month}, to: {next_month}.
# Numbers are plain decimals (1234.5), shares are 0.25 or 25%.
"""
CURRENCY_UNKNOWN = "  # not said in the files: correct it"
FLEET = """\
# Machines, by name or host list (in quotes). `gpus` is what was seen in use: correct it to what is installed.
# Also: site, slices (7), from, to, status (active, spare, repair), cpus, mem (2048G), partitions, cluster.
# An inventory of its own instead: fleet_file: inventory.csv (beside this file).
{key}
{lines}"""
COMPUTE = """\
# Cost of a GPU in service. Either a rate, or what was paid: `price` and `residual` for `gpus` GPUs, over `months` from
# `in_service`, level payments with `interest_rate` (a year's) or equal ones without; `hosting` and `staff` are a month
# and GPU, and go on after the last payment. A month's amount is the same whether it has 743 or 745 hours.
#compute:
#  - {{gpu_model: {model}, per_gpu_hour: 1.20}}
#  - gpu_model: {model}
#    purchase:
#      price: 280000
#      gpus: 8
#      months: 48
#      residual: 28000
#      interest_rate: 6%
#      in_service: {year_before}
#      hosting: 60
#      staff: 25
"""
ENERGY = """\
# Energy by site (one mapping, or a list of them with `site`). Periods go by the local clock, on quarter-hours; over
# midnight they belong to the day on which they start. Without `pue`, 1 is assumed; pue_included: true where the meter
# counts cooling and losses already.
#energy:
#  timezone: {timezone}
#  pue: 1.30
#  default_per_kwh: 0.12
#  periods:
#    - {{days: [mon..fri], from: "22:00", to: "06:00", per_kwh: 0.08}}
"""
POWER = """\
# Watts of one GPU where there is no telemetry: its energy is then marked `modelled`.
#power:
{models}"""
POOLS = """\
# Everything else: an amount for a service interval, spread by its driver (installed_gpu_h, held_gpu_h, node_h, kwh,
# committed_kw, gb_month), or per_unit of installed_gpu_h, held_gpu_h or kwh. `marginal`: paid in cash per use.
# `service_to` is the first moment after; a date alone is the start of that day.
#pools:
#  - {{name: fabric, amount: 12000, driver: installed_gpu_h, service_from: {month}, service_to: {next_month}}}
#  - {{name: licences, per_unit: 0.05, driver: held_gpu_h, marginal: true}}
"""
METER = """\
# The power bill, set against modelled and measured kWh.
#meter:
#  - {{from: {month}, to: {next_month}, kwh: 90000, amount: 10800}}
"""
POLICIES = """\
# Who bears idle time: separate (nobody), weighted (by held time), even (by tenant), or normal(0.8).
idle: weighted
target_margin: 20%
price_step: 0.01
"""
FX = """\
# What one unit of another currency is in {currency}, by date. Amounts in a currency without a rate are refused.
#fx:
{rows}"""
TENANTS = """\
# Tenants: names elsewhere (`aliases`: a list, or by source: usage, billing, telemetry), and terms:
#    plan: on_demand           # reserved, on_demand, spot, internal, trial
#    contract: 2.10            # per GPU-hour; or a list: [{{sku: h100, per_gpu_hour: 2.10, from: {month}}}]
#    billing_timezone: UTC     # of its contract's dates and its period
#    increment: 1m             # each run's time is rounded up to it
#    minimum: 1m
#    billed_by: overlap        # or end: a run counts whole in the period in which it ends
#    bearer: {{FAILED: provider}}  # who pays by end state, where it differs from the rule
{key}
{lines}"""
UNMAPPED = """\
# Billed, but no usage is known under this name, largest first ({total} in all).
# Add each to the `aliases` of the tenant that it is:
{rows}"""
SKUS = """\
# What a billed SKU is, where its name does not say: the model, the plan, how many GPUs a unit is; gpu: false if none.
#skus:
#  - {{sku: h100-node-hour, gpu_model: {model}, plan: on_demand, gpus_per_unit: 8}}
#  - {{sku: storage-tb-month, gpu: false}}
"""

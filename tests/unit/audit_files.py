"""Files of one audit with everything in it, for tests of commands over files: tenants, prices, amounts, invoices."""

from collections.abc import Callable
from pathlib import Path

import typer
from typer.testing import CliRunner, Result

from tests.audit_runner import BILLING_HEADER, USAGE_HEADER

PERIOD = "2026-10"
USAGE = USAGE_HEADER + (
    # H100: node n1 and n2 at fra; a price change on the 16th, a tariff by night
    "j1,0,acme,vision,n1,,H100,8,1,1,2026-10-01T00:00:00Z,2026-10-11T00:00:00Z,COMPLETED,,\n"
    "j2,0,bravo,llm,n1,,H100,4,1,1,2026-10-12T00:20:00Z,2026-10-22T12:00:00Z,COMPLETED,1000000,\n"
    "j3,0,bravo,llm,n2,,H100,4,1,1,2026-10-12T00:00:00Z,2026-10-22T12:00:00Z,NODE_FAIL,,\n"
    "j4,0,Carolus,,n2,,H100,1,1,1,2026-10-01T00:00:00Z,2026-10-31T00:00:07Z,COMPLETED,,\n"
    # A100: sevenths
    "j5,0,acme,vision,a1,,A100,1,4,7,2026-10-03T00:00:00Z,2026-10-03T02:00:00Z,FAILED,,\n"
    "j6,0,delphi,,a1,,A100,1,2,7,2026-10-03T00:00:00Z,2026-10-03T05:00:00Z,COMPLETED,,\n"
    # one tenant with sold and internal use
    "j7,0,acme,lab,n2,,H100,2,1,1,2026-10-02T00:00:00Z,2026-10-02T10:00:00Z,COMPLETED,,internal\n"
)
BILLING = BILLING_HEADER + (
    "I1,acme,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,H100 on-demand,1900,GPU-hours,3800.00,EUR\n"
    "I1,acme,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,SLA credit,,,-33.33,EUR\n"
    "I1,acme,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,H100 on-demand internal,20,GPU-hours,1.00,EUR\n"
    "I2,bravo,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,H100 on-demand,1008,GPU-hours,1512.00,EUR\n"
    "I2,bravo,2026-09-16T00:00:00+02:00,2026-10-16T00:00:00+02:00,H100 bravo special,100,GPU-hours,77.77,EUR\n"
    "I0,bravo,2026-09-01T00:00:00+02:00,2026-10-01T00:00:00+02:00,H100 on-demand,10,GPU-hours,15.00,EUR\n"
    "I3,Echo Labs,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,H100 on-demand,10,GPU-hours,20.00,EUR\n"
)
COSTS = """\
currency: EUR
timezone: Europe/Berlin
fleet:
  - {node: "n[1-2]", gpu_model: H100, gpus: 8, site: fra}
  - {node: a1, gpu_model: A100, gpus: 1, site: fra}
compute:
  - {gpu_model: H100, per_gpu_hour: 1.51, to: 2026-10-16}
  - {gpu_model: H100, per_gpu_hour: 1.37, from: 2026-10-16}
  - gpu_model: A100
    purchase: {price: 28801, gpus: 8, months: 36, residual: 0, interest_rate: 0, in_service: 2026-01-01}
energy:
  site: fra
  timezone: Europe/Berlin
  pue: 1.31
  default_per_kwh: 0.2113
  periods:
    - {days: [mon..fri], from: "22:00", to: "06:00", per_kwh: 0.0807}
power:
  - {gpu_model: H100, busy_w: 613, idle_w: 79}
  - {gpu_model: A100, busy_w: 317, idle_w: 53}
pools:
  - {name: fabric, amount: 1201.07, driver: installed_gpu_h, service_from: 2026-10-01, service_to: 2026-11-01}
  - {name: racks, amount: 707.77, driver: node_h, service_from: 2026-09-15, service_to: 2026-11-15}
  - {name: demand, amount: 333.31, driver: committed_kw, service_from: 2026-10-01, service_to: 2026-11-01}
  - {name: cooling, amount: 91.93, driver: kwh, service_from: 2026-10-01, service_to: 2026-11-01, marginal: true}
  - {name: support, amount: 57.13, driver: held_gpu_h, service_from: 2026-10-01, service_to: 2026-11-01}
  - {name: licences, per_unit: 0.0503, driver: held_gpu_h, marginal: true}
idle: weighted
target_margin: 20%
price_step: 0.05
tenants:
  - {name: acme, increment: 1h}
  - name: bravo
    contract: 1.4999
"""
FIGURES_OF_THE_COST_FILE = (
    "1.51", "1.37", "28801", "1.31", "0.2113", "0.0807", "613", "317", "1201.07", "707.77", "333.31", "91.93", "57.13",
    "0.0503", "1.4999",
)  # fmt: skip
OTHERS_OF_BRAVO = ("acme", "Carolus", "delphi", "Echo Labs")


def write(folder: Path, **texts: str) -> list[str]:
    """Writes `usage`, `billing`, `costs` or others as files of these names; their paths as arguments."""
    suffixes = {"costs": "yaml"}
    paths = []
    for name, text in texts.items():
        path = folder / f"{name}.{suffixes.get(name, 'csv')}"
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return paths


def run(command: Callable[..., None], *args: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, args)

"""`wattledger statement`: one tenant's usage adds up, and nothing of costs or of anybody else is in it."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.command_statement import statement_command

from tests.audit_runner import USAGE_HEADER
from tests.unit.audit_files import (
    BILLING,
    COSTS,
    FIGURES_OF_THE_COST_FILE,
    OTHERS_OF_BRAVO,
    PERIOD,
    USAGE,
    run,
    write,
)

FORMS: tuple[tuple[str, ...], ...] = ((), ("--json",))


def given(folder: Path) -> list[str]:
    return [*write(folder, usage=USAGE, billing=BILLING, costs=COSTS), "--period", PERIOD]


def statement(folder: Path, tenant: str, *files: str) -> Any:
    done = run(statement_command, "--tenant", tenant, "--json", *(files or given(folder)))
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def hours(rows: list[Any], field: str = "gpu_hours") -> Decimal:
    return sum((Decimal(row[field]) for row in rows), Decimal(0))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("where", ["stdout", "file"])
def test_nobody_else_and_no_cost_is_in_it(tmp_path: Path, form: tuple[str, ...], where: str) -> None:
    out = tmp_path / "out.txt"
    to = ("--out", str(out)) if where == "file" else ()
    done = run(statement_command, "--tenant", "bravo", *form, *given(tmp_path), *to)
    text = done.output + (out.read_text() if to else "")
    assert done.exit_code == 0
    assert "j2" in text
    for name in OTHERS_OF_BRAVO:
        assert name.casefold() not in text.casefold()
    for word in ("cost", "margin", "break-even", "break_even", "floor", "idle", "verdict", "EUR "):
        assert word.casefold() not in text.casefold(), word
    for figure in FIGURES_OF_THE_COST_FILE:
        assert figure not in text, figure
    for job in ("j1", "j4", "j5", "j6", "j7"):
        assert job not in text
    for amount in ("1512", "77.77", "3800"):
        assert amount not in text


@pytest.mark.parametrize("tenant", ["acme", "Carolus", "delphi"])
def test_a_sku_that_is_named_after_somebody_else_is_not_shown(tmp_path: Path, tenant: str) -> None:
    billing = BILLING.replace("H100 on-demand", "H100 bravo deal").replace("I1,acme", "I1,bravo")
    files = [*write(tmp_path, usage=USAGE, billing=billing), "--period", PERIOD]
    for form in FORMS:
        text = run(statement_command, "--tenant", tenant, *form, *files).output
        assert "bravo" not in text
        assert "H100" in text or "A100" in text


def test_runs_projects_skus_and_days_sum_to_the_same_hours(tmp_path: Path) -> None:
    found = statement(tmp_path, "acme")
    whole = Decimal(found["gpu_hours"])
    assert whole == 8 * 240 + round(Decimal(8) / 7, 6) + 20
    for part in ("runs", "projects", "skus", "days"):
        assert abs(hours(found[part]) - whole) < Decimal("0.00001"), part
    assert {row["project"]: row["runs"] for row in found["projects"]} == {"vision": 2, "lab": 1}
    assert sorted(row["plan"] for row in found["skus"]) == ["internal", "on_demand", "on_demand"]


def test_a_run_is_cut_at_local_midnights_of_the_month(tmp_path: Path) -> None:
    """j2 starts at 02:20 in Berlin on 12 October on 4 GPUs, and ends at 14:00 on the 22nd."""
    days = {
        row["day"]: Decimal(row["gpu_hours"]) - Decimal(row["not_charged_gpu_hours"])
        for row in statement(tmp_path, "bravo")["days"]
    }
    assert days["2026-10-12"] == round(Decimal(4) * (21 * 60 + 40) / 60, 6)
    assert days["2026-10-13"] == 96
    assert days["2026-10-22"] == 56
    assert sorted(days) == [f"2026-10-{day}" for day in range(12, 23)]


def test_the_day_of_a_clock_change_has_25_hours(tmp_path: Path) -> None:
    days = {row["day"]: row["gpu_hours"] for row in statement(tmp_path, "Carolus")["days"]}
    assert days["2026-10-25"] == "25.000000"
    assert days["2026-10-24"] == "24.000000"


def test_what_the_provider_bears_is_listed_and_not_charged(tmp_path: Path) -> None:
    found = statement(tmp_path, "bravo")
    runs = {row["job"]: row for row in found["runs"]}
    assert (runs["j3"]["charged"], runs["j2"]["charged"]) == (False, True)
    assert "not charged" in runs["j3"]["note"]
    assert found["not_charged_gpu_hours"] == "1008.000000"
    charged = hours([row for row in found["runs"] if row["charged"]])
    assert charged == Decimal(found["gpu_hours"]) - 1008


def test_billed_quantities_are_its_own_lines(tmp_path: Path) -> None:
    found = statement(tmp_path, "bravo")
    lines = [(line["invoice_id"], line["quantity"], line["gpu_hours"], line["prorated"]) for line in found["billed"]]
    # 360 of the 720 hours from 16 September to 16 October lie in October
    assert lines == [("I2", "1008", "1008.000000", False), ("I2", "100", "50.000000", True)]
    assert found["depth"] == {"time": "scheduler", "energy": "not measured", "billed quantity": "invoice"}


def test_without_billing_there_are_no_billed_quantities(tmp_path: Path) -> None:
    found = statement(tmp_path, "bravo", *write(tmp_path, usage=USAGE))
    assert found["billed"] is None
    assert "billed quantity" not in found["depth"]


@pytest.mark.parametrize("tenant", ["brav", "nobody", "__idle__", "Echo", ""])
def test_an_unknown_tenant_is_refused_without_naming_one_that_is_there(tmp_path: Path, tenant: str) -> None:
    done = run(statement_command, "--tenant", tenant, *given(tmp_path))
    assert done.exit_code == 2
    assert "there is no such tenant in the files" in done.output
    for name in ("acme", "bravo", "Carolus", "delphi", "Labs"):
        assert name not in done.output


def test_another_spelling_or_an_alias_is_the_tenant(tmp_path: Path) -> None:
    assert statement(tmp_path, "BRAVO")["tenant"] == "bravo"
    costs = COSTS.replace("  - name: bravo\n", "  - name: bravo\n    aliases: {billing: [Bravo Incorporated]}\n")
    files = [*write(tmp_path, usage=USAGE, billing=BILLING, costs=costs), "--period", PERIOD]
    assert statement(tmp_path, "Bravo Incorporated", *files)["tenant"] == "bravo"


def test_measured_energy_is_shown_by_run_and_day(tmp_path: Path) -> None:
    usage = USAGE_HEADER + "a,0,t,p,n1,0,H100,1,1,1,2026-10-01T00:00:00Z,2026-10-01T02:00:00Z,COMPLETED,,\n"
    rows = [
        f"2026/10/01 {minute // 60:02}:{minute % 60:02}:00.000, 0, GPU-0, NVIDIA H100, 500.00 W"
        for minute in range(121)
    ]
    smi = "\n".join(["timestamp, index, uuid, name, power.draw [W]", *rows]) + "\n"
    files = write(tmp_path, usage=usage, smi=smi)
    found = statement(tmp_path, "t", *files, "--timezone", "UTC", "--node", "n1")
    assert found["depth"]["energy"] == "counter"
    assert abs(Decimal(found["energy_kwh"]) - 1) < Decimal("0.001")
    (held,) = found["runs"]
    assert held["energy_kwh"] == found["energy_kwh"] == found["days"][0]["energy_kwh"] == found["skus"][0]["energy_kwh"]


def test_a_run_whose_gpus_are_not_known_has_no_hours_and_says_so(tmp_path: Path) -> None:
    usage = "job_id,tenant,node,gpus,start,end\nx,t,n1,,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z\n"
    usage += "y,t,n1,2,2026-10-01T00:00:00Z,2026-10-01T01:00:00Z\n"
    found = statement(tmp_path, "t", *write(tmp_path, usage=usage))
    runs = {row["job"]: row for row in found["runs"]}
    assert runs["x"]["gpu_hours"] is None
    assert "how many GPUs" in runs["x"]["note"]
    assert found["gpu_hours"] == "2.000000"


def test_the_statement_never_overwrites_a_file_that_it_reads(tmp_path: Path) -> None:
    files = given(tmp_path)
    done = run(statement_command, "--tenant", "bravo", *files, "--out", files[0])
    assert done.exit_code == 2
    assert Path(files[0]).read_text() == USAGE


def test_lines_that_were_not_used_are_told_apart_from_the_statement(tmp_path: Path) -> None:
    bad = "j9,0,bravo,llm,n1,,H100,1,1,1,2026-10-05T00:00:00Z,2026-10-04T00:00:00Z,COMPLETED,,\n"
    (path,) = write(tmp_path, usage=USAGE + bad)
    done = run(statement_command, "--tenant", "bravo", path, "--json")
    assert "usage.csv: lines not used: 1 end_before_start" in done.stderr
    assert "j9" not in done.stdout

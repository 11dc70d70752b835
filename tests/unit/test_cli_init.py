"""`wattledger init costs`: its draft loads and audits; a file that is there is kept; what is unmapped is listed."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result
from wattledger_audit.assessment.cost_file import read_cost_file
from wattledger_audit.command_audit import audit_command
from wattledger_audit.command_init import init_app

from tests.audit_runner import BILLING_HEADER
from tests.unit.audit_files import BILLING, PERIOD, USAGE, run, write

INVENTORY = "node,site,gpu_model,gpus\nn1,fra,H100,8\nn2,fra,H100,8\na1,fra,A100,2\nspare1,fra,H100,8\n"


def init(*args: str) -> Result:
    return CliRunner().invoke(init_app, ["costs", *args])


def drafted(*args: str) -> str:
    done = init(*args, "--out", "-", "--timezone", "Europe/Berlin")
    assert done.exit_code == 0, done.output
    return done.stdout


def fleet(text: str) -> dict[str, tuple[str, int]]:
    return {row["node"]: (row["gpu_model"], row["gpus"]) for row in yaml.safe_load(text)["fleet"]}


def test_the_draft_loads_and_the_audit_runs_with_it(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE, billing=BILLING)
    out = tmp_path / "costs.yaml"
    done = init(*files, "--period", PERIOD, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    book = read_cost_file(out, 1790812800000000, 1793494800000000)
    assert (book.currency, [node.node for node in book.fleet]) == ("EUR", ["a1", "n2", "n1"])
    assert {terms.name for terms in book.tenants} == {"acme", "bravo", "Carolus", "delphi"}
    audited = run(audit_command, *files, "--costs", str(out), "--out", str(tmp_path / "report"), "--period", PERIOD)
    assert audited.exit_code == 0, audited.output


def test_a_draft_with_its_first_rates_filled_in_gives_margins(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE, billing=BILLING)
    text = drafted(*files, "--period", PERIOD)
    rates = "compute:\n  - {gpu_model: H100, per_gpu_hour: 1.20}\n  - {gpu_model: A100, per_gpu_hour: 0.8}\n"
    (costs,) = write(tmp_path, costs=text + rates)
    audited = run(
        audit_command, *files, costs, "--out", str(tmp_path / "r"), "--period", PERIOD, "--fail-on", "unpriced"
    )
    assert audited.exit_code == 0, audited.output


def test_machines_are_as_seen_in_use_without_an_inventory(tmp_path: Path) -> None:
    assert fleet(drafted(*write(tmp_path, usage=USAGE))) == {"a1": ("A100", 1), "n1": ("H100", 8), "n2": ("H100", 5)}


def test_an_inventory_says_what_is_installed(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE, inventory=INVENTORY)
    done = init(*files, "--out", "-")
    assert fleet(done.stdout) == {"a1": ("A100", 2), "n[1-2],spare1": ("H100", 8)}
    assert "4 machines with 26 GPUs, as listed" in done.stderr


def test_an_inventory_alone_is_enough(tmp_path: Path) -> None:
    assert fleet(drafted(*write(tmp_path, inventory=INVENTORY))) == {"a1": ("A100", 2), "n[1-2],spare1": ("H100", 8)}


def test_who_is_billed_without_usage_is_listed_with_the_amount(tmp_path: Path) -> None:
    text = drafted(*write(tmp_path, usage=USAGE, billing=BILLING), "--period", PERIOD)
    assert '20.00 EUR  "Echo Labs"' in text
    assert "largest first (20.00 EUR in all)" in text


def test_a_billed_name_that_is_like_a_tenant_becomes_an_alias_to_check(tmp_path: Path) -> None:
    billing = BILLING.replace("I2,bravo", "I2,Bravo Inc.")
    text = drafted(*write(tmp_path, usage=USAGE, billing=billing), "--period", PERIOD)
    assert 'aliases: {billing: ["Bravo Inc."]}  # drafted: check, billed 1550.88 EUR' in text


def test_several_currencies_are_drafted_as_fx_and_not_refused(tmp_path: Path) -> None:
    more = "I9,Foreign,2026-10-01T00:00:00+02:00,2026-11-01T00:00:00+01:00,H100 on-demand,10,GPU-hours,55.00,CHF\n"
    files = write(tmp_path, usage=USAGE, billing=BILLING + more)
    text = drafted(*files, "--period", PERIOD)
    assert "currency: EUR" in text
    assert '55.00 CHF  "Foreign"' in text
    assert "#  - {currency: CHF, from: 2026-10-01" in text
    assert run(audit_command, *files, "--out", str(tmp_path / "r"), "--period", PERIOD).exit_code == 3


def test_the_period_narrows_what_was_billed(tmp_path: Path) -> None:
    other = BILLING_HEADER + "I0,Gone,2026-09-01T00:00:00+02:00,2026-10-01T00:00:00+02:00,H100,10,GPU-hours,15.00,EUR\n"
    text = drafted(*write(tmp_path, usage=USAGE, billing=BILLING, older=other), "--period", PERIOD)
    assert "Gone" not in text


def test_an_existing_file_is_kept_unless_it_is_said(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE)
    out = tmp_path / "mine.yaml"
    out.write_text("currency: USD  # my own rates\n")
    kept = init(*files, "--out", str(out))
    assert kept.exit_code == 2
    assert "--force" in kept.output
    assert out.read_text() == "currency: USD  # my own rates\n"
    assert init(*files, "--out", str(out), "--force").exit_code == 0
    assert "fleet:" in out.read_text()


def test_a_cost_file_among_the_files_is_not_looked_at(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE, costs="currency: USD\ncompute: [{per_gpu_hour: 3}]\n")
    done = init(*files, "--out", "-")
    assert done.exit_code == 0
    assert "costs.yaml is a cost file" in done.stderr


def test_the_same_files_give_the_same_text(tmp_path: Path) -> None:
    files = write(tmp_path, usage=USAGE, billing=BILLING, inventory=INVENTORY)
    assert drafted(*files, "--period", PERIOD) == drafted(*files, "--period", PERIOD)


@pytest.mark.parametrize("text", ["hello\n", "a,b\n1,2\n"])
def test_a_file_that_nothing_takes_is_refused(tmp_path: Path, text: str) -> None:
    assert init(*write(tmp_path, odd=text), "--out", "-").exit_code == 3

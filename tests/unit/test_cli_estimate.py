"""`wattledger estimate`: the envelope's figures by hand, and what it refuses."""

import json
from decimal import Decimal
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result
from wattledger_audit.command_estimate import estimate_command
from wattledger_audit.estimate import PERIODS

GIVEN = ("--gpus", "512", "--per-gpu-hour", "1.9", "--idle-ratio", "0.35", "--per-kwh", "0.12")


def run(*args: str) -> Result:
    app = typer.Typer()
    app.command()(estimate_command)
    return CliRunner().invoke(app, args)


def found(*args: str) -> Any:
    done = run(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def amounts(*args: str) -> dict[str, str | None]:
    return {name: one["amount"] for name, one in found(*args)["figures"].items()}


def test_the_figures_are_those_of_a_calculation_by_hand() -> None:
    # 512 x 0.35 = 179.2 idle GPUs; 0.1 kW x 1.3 x 0.12 = 0.0156; (0.035 + 0.455) kW x 1.3 x 0.12 = 0.07644.
    assert amounts(*GIVEN) == {
        "idle_capacity_per_hour": "340.48",
        "idle_energy_per_hour": "2.79552",
        "leak_per_hour": "343.27552",
        "energy_per_installed_gpu_hour": "0.07644",
        "break_even_per_sold_gpu_hour": "3.040676923077",  # 1.97644 / 0.65
    }


def test_the_leak_is_given_per_hour_day_month_and_year() -> None:
    leak = found(*GIVEN)["leak"]
    assert {name: one["hours"] for name, one in leak.items()} == {
        "hour": "1", "day": "24", "month": "730.5", "year": "8766",
    }  # fmt: skip
    assert leak["month"] == {
        "hours": "730.5", "idle_capacity": "248720.64", "idle_energy": "2042.12736", "total": "250762.76736",
    }  # fmt: skip
    hours = dict(PERIODS)
    assert hours["year"] == 12 * hours["month"] == Decimal("365.25") * hours["day"]


def test_what_is_billed_gives_the_margin() -> None:
    with_price = amounts(*GIVEN, "--billed-per-gpu-hour", "3")
    assert with_price["billed_per_hour"] == "998.4"  # 512 x 0.65 x 3
    assert with_price["cost_per_hour"] == "1011.93728"  # 512 x 1.97644
    assert with_price["margin_per_hour"] == "-13.53728"
    break_even = with_price["break_even_per_sold_gpu_hour"]
    assert break_even is not None
    at_break_even = amounts(*GIVEN, "--billed-per-gpu-hour", break_even)["margin_per_hour"]
    assert at_break_even is not None
    assert abs(Decimal(at_break_even)) < Decimal("0.000000001")


def test_power_and_pue_can_be_said() -> None:
    changed = amounts(*GIVEN, "--idle-watts", "70", "--busy-watts", "350", "--pue", "1")
    assert changed["idle_energy_per_hour"] == "1.50528"  # 179.2 x 0.07 x 0.12
    assert changed["energy_per_installed_gpu_hour"] == "0.03024"  # (0.0245 + 0.2275) x 0.12


@pytest.mark.parametrize(("ratio", "leak", "break_even"), [("0", "0", "1.9"), ("1", "972.8", None)])
def test_the_ends_of_the_idle_ratio_have_an_answer(ratio: str, leak: str, break_even: str | None) -> None:
    ends = ("--gpus", "512", "--per-gpu-hour", "1.9", "--idle-ratio", ratio, "--per-kwh", "0")
    assert (amounts(*ends)["leak_per_hour"], amounts(*ends)["break_even_per_sold_gpu_hour"]) == (leak, break_even)
    if break_even is None:
        formula = found(*ends)["figures"]["break_even_per_sold_gpu_hour"]["formula"]
        assert formula == "nothing is sold at an idle ratio of 1"


def test_no_digit_is_lost() -> None:
    many = amounts("--gpus", "3", "--per-gpu-hour", "0.1", "--idle-ratio", "0.1", "--per-kwh", "0")
    assert many["idle_capacity_per_hour"] == "0.03"


def test_each_figure_is_printed_with_its_formula_and_the_month_with_its_hours() -> None:
    text = run(*GIVEN, "--billed-per-gpu-hour", "3").stdout
    figures = found(*GIVEN, "--billed-per-gpu-hour", "3")["figures"]
    assert len(figures) == 8
    for one in figures.values():
        assert f"    {one['formula']}\n" in text
    assert "per month (730.5 h)" in text
    assert "250,762.77" in text
    assert "idle_watts 100, busy_watts 700, pue 1.3" in text


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--idle-ratio", "1.01", "above 1"),
        ("--idle-ratio", "35", "such as 0.35"),
        ("--idle-ratio", "-0.1", "below 0"),
        ("--idle-ratio", "35%", "no plain number"),
        ("--gpus", "-1", "greater than or equal to 1"),
        ("--gpus", "0", "greater than or equal to 1"),
        ("--per-gpu-hour", "-1", "below 0"),
        ("--per-gpu-hour", "1,9", "no plain number"),
        ("--per-gpu-hour", "nan", "no plain number"),
        ("--per-gpu-hour", "1e999999", "no plain number"),
        ("--per-gpu-hour", "", "no plain number"),
        ("--per-kwh", "-0.1", "below 0"),
        ("--per-kwh", "inf", "no plain number"),
        ("--idle-watts", "-1", "below 0"),
        ("--busy-watts", "-1", "below 0"),
        ("--pue", "0.9", "below 1"),
        ("--billed-per-gpu-hour", "-1", "below 0"),
    ],
)
def test_a_value_out_of_bounds_is_a_usage_error_that_names_it(option: str, value: str, says: str) -> None:
    done = run(*GIVEN, option, value)
    assert (done.exit_code, done.stdout) == (2, "")
    assert option in done.stderr
    assert says in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("option", GIVEN[::2])
def test_each_of_the_four_must_be_said(option: str) -> None:
    place = GIVEN.index(option)
    assert run(*GIVEN[:place], *GIVEN[place + 2 :]).exit_code == 2

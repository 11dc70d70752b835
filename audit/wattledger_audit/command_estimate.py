"""`wattledger estimate`: the back-of-envelope leak of a fleet, each figure with its formula."""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated

import typer
from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.estimate import HOURS_PER_MONTH, Estimate, Fleet, Leak, estimate

_DECIMAL = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})")
MAX_GPUS = 100_000_000


def _number(at_least: str = "0", at_most: str | None = None, hint: str = "") -> Callable[[str | Decimal], Decimal]:
    """A reader of decimal text within bounds. What it refuses ends with exit code 2."""

    def read(given: str | Decimal) -> Decimal:
        text = str(given).strip()  # defaults come by here too
        if not _DECIMAL.fullmatch(text):
            raise typer.BadParameter(f"{text!r} is no plain number: write digits with a point, such as 2.50")
        value = Decimal(text)
        if value < Decimal(at_least):
            raise typer.BadParameter(f"{text} is below {at_least}{hint}")
        if at_most is not None and value > Decimal(at_most):
            raise typer.BadParameter(f"{text} is above {at_most}{hint}")
        return value

    return read


_amount = _number()
_ratio = _number(at_most="1", hint=": it is a share from 0 to 1, such as 0.35 for 35 %")
_pue = _number(at_least="1", hint=": a PUE is the site's energy over the machines', so 1 or more")


def estimate_command(
    gpus: Annotated[int, typer.Option(min=1, max=MAX_GPUS, help="Installed GPUs")],
    per_gpu_hour: Annotated[Decimal, typer.Option(parser=_amount, help="Cost of an installed GPU-hour, no energy")],
    idle_ratio: Annotated[Decimal, typer.Option(parser=_ratio, help="Share of GPU-hours nobody holds, 0 to 1")],
    per_kwh: Annotated[Decimal, typer.Option(parser=_amount, help="Price of a kWh, same currency")],
    idle_watts: Annotated[Decimal, typer.Option(parser=_amount, help="Power of an idle GPU, W")] = Decimal(100),
    busy_watts: Annotated[Decimal, typer.Option(parser=_amount, help="Power of a held GPU, W")] = Decimal(700),
    pue: Annotated[Decimal, typer.Option(parser=_pue, help="Power usage effectiveness of the site")] = Decimal("1.3"),
    billed_per_gpu_hour: Annotated[
        Decimal | None, typer.Option(parser=_amount, help="What a held GPU-hour is billed at: gives the margin too")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout")] = False,
) -> None:
    """What a fleet leaks by standing idle, and the price that would cover it: no files, a minute on an envelope."""
    fleet = Fleet(gpus, per_gpu_hour, idle_ratio, per_kwh, idle_watts, busy_watts, pue, billed_per_gpu_hour)
    found = estimate(fleet)
    if as_json:
        typer.echo(json.dumps(_as_json(fleet, found)))
    else:
        _show(fleet, found)


def _as_json(fleet: Fleet, found: Estimate) -> dict[str, object]:
    given = {name: getattr(fleet, name) for name in Fleet.__slots__}
    return {
        "given": {
            name: value if value is None or isinstance(value, int) else _plain(value) for name, value in given.items()
        },
        "figures": {
            one.name: {"amount": None if one.amount is None else _plain(one.amount), "formula": one.formula}
            for one in found.figures
        },
        "leak": {one.period: {name: _plain(getattr(one, name)) for name in Leak._fields[1:]} for one in found.leak},
    }


def _plain(value: Decimal) -> str:
    """In full, without zeros at the end."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _money(value: Decimal, places: int = 2) -> str:
    return format(value.quantize(Decimal(1).scaleb(-places), context=MONEY_CONTEXT), ",f")


def _show(fleet: Fleet, found: Estimate) -> None:
    typer.echo(f"{'leak':20}{'idle capacity':>20}{'idle energy':>20}{'both':>20}")
    for one in found.leak:
        label = f"per {one.period}" + (f" ({one.hours} h)" if one.hours == HOURS_PER_MONTH else "")
        amounts = "".join(f"{_money(amount):>20}" for amount in one[2:])
        typer.echo(f"{label:20}{amounts}")
    typer.echo("")
    for figure in found.figures:
        amount = "none" if figure.amount is None else _money(figure.amount, 4)
        typer.echo(f"{figure.name.replace('_', ' ')}: {amount}")
        typer.echo(f"    {figure.formula}")
    given = ", ".join(
        f"{name} {_plain(value) if isinstance(value, Decimal) else value}"
        for name in Fleet.__slots__
        if (value := getattr(fleet, name)) is not None
    )
    typer.echo(f"\nwith {given}; money in the currency that was given")

"""`wattledger integrate`: the energy of a recorded trace between two stamps."""

import json
from pathlib import Path
from typing import Annotated

import typer
from wattledger_core.policy import Policy

from wattledger_audit.integrate import Integrated, integrate
from wattledger_audit.nvidia_smi_csv import InputRefused, parse_offset, read_nvidia_smi_csv

EXIT_USAGE = 2
EXIT_REFUSED = 3
FORMATS = ("nvidia-smi-csv",)


def integrate_command(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trace file")],
    format_: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMATS)}")] = "nvidia-smi-csv",
    column: Annotated[str, typer.Option(help="Power column, e.g. power.draw or power.draw.instant")] = "power.draw",
    utc_offset: Annotated[str | None, typer.Option(help="Offset of stamps without a zone, e.g. +01:00")] = None,
    from_us: Annotated[int | None, typer.Option(help="Start, µs since the epoch; default: first reading")] = None,
    to_us: Annotated[int | None, typer.Option(help="End, exclusive; default: last reading")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout")] = False,
) -> None:
    """Energy of a trace by the curves that bill tenants: method, gaps and quality said."""
    if format_ not in FORMATS:
        typer.echo(f"wattledger integrate: format {format_!r} is not known: {', '.join(FORMATS)}", err=True)
        raise typer.Exit(EXIT_USAGE)
    try:
        offset = parse_offset(utc_offset) if utc_offset is not None else None
        traces = read_nvidia_smi_csv(file, column, offset)
        found = [integrate(trace, from_us, to_us, Policy()) for trace in traces]
    except InputRefused as error:
        typer.echo(f"wattledger integrate: {error}", err=True)
        raise typer.Exit(EXIT_REFUSED) from None
    if as_json:
        typer.echo(json.dumps(_as_json(file, column, found)))
        return
    for one in found:
        _show(one)


def _as_json(file: Path, column: str, found: list[Integrated]) -> dict[str, object]:
    """One device: its figures at the top. Several: their sum, unknown when one is unknown, and each apart."""
    head: dict[str, object] = {"file": file.name, "column": column}
    if len(found) == 1:
        return {**head, **found[0].as_json()}
    energies = [one.energy_uj for one in found]
    known = [energy for energy in energies if energy is not None]
    return {
        **head,
        "energy_uj": sum(known) if len(known) == len(energies) else None,
        "method": "+".join(sorted({one.method for one in found})),
        "gaps": [gap for one in found for gap in one.as_json()["gaps"]],  # type: ignore[attr-defined]
        "quality": sorted({mark for one in found for mark in one.quality}),
        "devices": [one.as_json() for one in found],
    }


def _show(one: Integrated) -> None:
    name = one.device or "device"
    if one.energy_uj is None:
        typer.echo(f"{name}: energy unknown ({', '.join(one.quality)})")
    else:
        joules = f"{one.energy_uj // 1_000_000}.{one.energy_uj % 1_000_000:06d}"
        typer.echo(f"{name}: {joules} J by {one.method}, {one.samples} readings, {len(one.gaps)} gaps")
    for note in one.notes:
        typer.echo(f"  note: {note}")
    if one.quality:
        typer.echo(f"  quality: {', '.join(one.quality)}")

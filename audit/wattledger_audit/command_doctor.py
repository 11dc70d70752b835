"""`wattledger doctor`: what works here, what does not, and the command that fixes it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wattledger_audit.doctor_check import examine
from wattledger_audit.doctor_trial import OK, Check

EXIT_CONDITION = 1


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 when anything is not ok")] = False,
    kafka_libs: Annotated[Path, typer.Option(help="Folder with Apache Kafka's jars")] = Path(".cache/kafka/libs"),
) -> None:
    """Check this machine: Python, libraries, drivers, engines, brokers, room. Nothing is changed."""
    checks = examine(kafka_libs, Path())
    all_ok = all(check.status == OK for check in checks)
    if as_json:
        typer.echo(json.dumps({"ok": all_ok, "checks": [check._asdict() for check in checks]}))
    else:
        for check in checks:
            _show(check)
        typer.echo(f"{sum(check.status == OK for check in checks)} of {len(checks)} ok. No browser is needed to audit.")
    if strict and not all_ok:
        raise typer.Exit(EXIT_CONDITION)


def _show(check: Check) -> None:
    typer.echo(f"{check.status:8}{check.name}: {check.what}")
    if check.fix:
        typer.echo(f"{'':8}fix: {check.fix}")

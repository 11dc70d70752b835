"""The `wattledger` command. Commands live in `command_*.py`, imported when called; only this file exits."""

from collections.abc import Mapping
from typing import ClassVar

import typer

from wattledger_audit.lazy_commands import LazyCommands


class Commands(LazyCommands):
    """Every command there is, and where."""

    places: ClassVar[Mapping[str, str]] = {
        "audit": "wattledger_audit.command_audit:audit_command",
        "inspect": "wattledger_audit.command_inspect:inspect_command",
        "init": "wattledger_audit.command_init:init_app",
        "explain": "wattledger_audit.command_explain:explain_command",
        "statement": "wattledger_audit.command_statement:statement_command",
        "estimate": "wattledger_audit.command_estimate:estimate_command",
        "doctor": "wattledger_audit.command_doctor:doctor_command",
        "demo": "wattledger_audit.command_demo:demo_command",
        "up": "wattledger_audit.command_stack:up_command",
        "integrate": "wattledger_audit.command_integrate:integrate_command",
        "verify": "wattledger_audit.command_manage:verify_command",
        "migrate": "wattledger_audit.command_manage:migrate_command",
        "topics": "wattledger_audit.command_manage:topics_app",
        "prices": "wattledger_audit.command_manage:prices_app",
    }
    extras: ClassVar[Mapping[str, str]] = {
        "demo": "audit,embedded", "up": "embedded", "verify": "embedded", "migrate": "streams", "prices": "streams",
    }  # fmt: skip


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What each tenant of a shared GPU fleet really costs, set beside what was billed.",
)


@app.callback()
def _root() -> None:
    """What each tenant of a shared GPU fleet really costs, set beside what was billed."""


def main() -> None:
    """Entry point. Exit codes: 0, 1 a condition failed, 2 usage, 3 input refused, 4 configuration."""
    app()


if __name__ == "__main__":
    main()

"""The `wattledger` command. Commands live in `command_*.py`; only this file exits."""

import typer

from wattledger_audit.command_audit import audit_command
from wattledger_audit.command_doctor import doctor_command
from wattledger_audit.command_estimate import estimate_command
from wattledger_audit.command_integrate import integrate_command
from wattledger_audit.command_manage import migrate_command, prices_app, topics_app, verify_command
from wattledger_audit.command_stack import demo_command, up_command

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="What each tenant of a shared GPU fleet really costs, set beside what was billed.",
)
app.command("audit")(audit_command)
app.command("estimate")(estimate_command)
app.command("doctor")(doctor_command)
app.command("demo")(demo_command)
app.command("up")(up_command)
app.command("integrate")(integrate_command)
app.command("verify")(verify_command)
app.command("migrate")(migrate_command)
app.add_typer(topics_app, name="topics")
app.add_typer(prices_app, name="prices")


def main() -> None:
    """Entry point. Exit codes: 0, 1 a condition failed, 2 usage, 3 input refused, 4 configuration."""
    app()


if __name__ == "__main__":
    main()

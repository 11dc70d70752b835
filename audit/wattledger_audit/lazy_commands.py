"""Commands that are imported when called, so that one whose parts are not installed does not stop the others."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import click
import typer
from typer.core import TyperGroup


class LazyCommands(TyperGroup):
    """A group whose commands are named as `module:attribute`, each a function or a Typer app."""

    places: ClassVar[Mapping[str, str]] = {}
    extras: ClassVar[Mapping[str, str]] = {}
    """Command → the extra that brings its parts; `audit` where it is not here."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are declared."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command; where a part of it is not installed, one that says what to install."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, attribute = place.partition(":")
        try:
            found: Any = getattr(import_module(module), attribute)
        except ModuleNotFoundError as missing:
            if (missing.name or "").startswith("wattledger"):
                raise
            return self._lacking(cmd_name, missing.name or "a part")
        if isinstance(found, typer.Typer):
            command: click.Command = typer.main.get_group(found)
        else:
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            single.command(cmd_name)(found)
            command = typer.main.get_command(single)
        command.name = cmd_name
        return command

    def _lacking(self, name: str, part: str) -> click.Command:
        extra = self.extras.get(name, "audit")

        def refuse(*_: object, **__: object) -> None:
            message = f"`wattledger {name}` needs {part}, which is not installed: pip install 'wattledger[{extra}]'"
            raise click.ClickException(message)

        return click.Command(
            name, callback=refuse, help=f"Not installed: pip install 'wattledger[{extra}]'.",
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )  # fmt: skip

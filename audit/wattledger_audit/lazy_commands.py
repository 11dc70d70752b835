"""Commands that are imported when called, so that one whose parts are not installed does not stop the others."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup


class LazyCommands(TyperGroup):
    """A group whose commands are named as `module:attribute`, each a function or a Typer app."""

    places: ClassVar[Mapping[str, str]] = {}
    extras: ClassVar[Mapping[str, str]] = {}
    """Command → the extra that brings its parts; `audit` where it is not here."""

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which they are declared."""
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
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
        return typer.main.get_group(found) if isinstance(found, typer.Typer) else _single(cmd_name, found)

    def _lacking(self, name: str, part: str) -> Any:
        extra = self.extras.get(name, "audit")

        def refuse() -> None:
            said = f"`wattledger {name}` needs {part}, which is not installed: pip install 'wattledger[{extra}]'"
            typer.echo(said, err=True)
            raise typer.Exit(1)

        refuse.__doc__ = f"Not installed: pip install 'wattledger[{extra}]'."
        return _single(name, refuse, {"ignore_unknown_options": True, "allow_extra_args": True})


def _single(name: str, function: Callable[..., None], settings: dict[str, Any] | None = None) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, context_settings=settings)(function)
    return typer.main.get_command(app)

"""Options of every command over files: which files, in which role, how they are read; and what a refusal exits with."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from wattledger_audit.assessment.cost_file_tree import CostFileRefused
from wattledger_audit.assessment.period import PeriodRefused
from wattledger_audit.audit_run import zone_named
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import BILLING, COSTS, EVENTS, FLEET, TELEMETRY, USAGE
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.report.terminal_line import clean

USAGE_ERROR, INPUT_REFUSED, CONFIGURATION = 2, 3, 4
Command = Callable[..., None]
Files = list[Path] | None
Given = typer.Option(exists=True, dir_okay=False)
Period = Annotated[str | None, typer.Option(help="2026-10, or 2026-10-01..2026-10-15")]
_PANEL = "How files are read"
_WIDE = 160


class OptionRefused(ValueError):
    """What was asked for can't be done as asked; the message says what to say instead. Exit code 2."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of one command with the role each was named for (None: by content), and how they are read.

    `said` is what was said of reading, as it was given, by the options' names."""

    files: tuple[tuple[Path, str | None], ...]
    options: ReadOptions
    said: Mapping[str, object]


def reads_files(command: str, lacking: str) -> Callable[[Command], Command]:
    """Gives a command the options of files and reading: it takes their `Inputs` first, the rest is its own.

    `lacking` is what is said where no file is given. Refusals end with their message on stderr and exit code 2 (how
    it was asked), 3 (a file) or 4 (the cost file).
    """

    def wrap(body: Command) -> Command:
        own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
        shared = list(inspect.signature(_inputs, eval_str=True).parameters.values())
        names = [each.name for each in shared]

        def run(**given: object) -> None:
            with refusing(command):
                inputs = _inputs(**{name: given.pop(name) for name in names})  # type: ignore[arg-type]
                if not inputs.files:
                    raise OptionRefused(lacking)
                body(inputs, **given)

        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        run.__name__, run.__doc__ = body.__name__, body.__doc__
        run.__annotations__ = {each.name: each.annotation for each in every}
        run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        return run

    return wrap


def _inputs(
    files: Annotated[Files, typer.Argument(exists=True, dir_okay=False, help="Files, each taken by content")] = None,
    usage: Annotated[Files, Given] = None,
    billing: Annotated[Files, Given] = None,
    costs: Annotated[Files, Given] = None,
    fleet: Annotated[Files, Given] = None,
    events: Annotated[Files, Given] = None,
    telemetry: Annotated[Files, Given] = None,
    timezone: Annotated[
        str | None, typer.Option(help="IANA zone of stamps that name none", rich_help_panel=_PANEL)
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark of the files: . or ,", rich_help_panel=_PANEL)
    ] = None,
    date_order: Annotated[str | None, typer.Option(help="dmy, mdy or ymd", rich_help_panel=_PANEL)] = None,
    delimiter: Annotated[str | None, typer.Option(help="Column delimiter of the files", rich_help_panel=_PANEL)] = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of the files", rich_help_panel=_PANEL)] = None,
    fields: Annotated[
        str | None, typer.Option(help="Columns of sacct dumps without a header", rich_help_panel=_PANEL)
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Currency of amounts that name none", rich_help_panel=_PANEL)
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster of runs that name none", rich_help_panel=_PANEL)] = None,
    period_end: Annotated[
        str | None, typer.Option(help="Dates that end a period: inclusive or exclusive", rich_help_panel=_PANEL)
    ] = None,
    node: Annotated[
        str | None, typer.Option(help="Machine of telemetry that names none", rich_help_panel=_PANEL)
    ] = None,
) -> Inputs:
    """The signature is what the commands share. Raises `OptionRefused` and `PeriodRefused`."""
    by_role = ((USAGE, usage), (BILLING, billing), (COSTS, costs), (FLEET, fleet), (EVENTS, events),
               (TELEMETRY, telemetry))  # fmt: skip
    named = [
        *((path, None) for path in files or []),
        *((path, role) for role, given in by_role for path in given or []),
    ]
    options = ReadOptions(
        zone_named(timezone), _one_of("--decimal", decimal, (".", ",")),
        _one_of("--date-order", date_order, ("dmy", "mdy", "ymd")), delimiter, encoding,
        None if fields is None else tuple(part.strip() for part in fields.split(",")), currency, cluster,
        _one_of("--period-end", period_end, ("inclusive", "exclusive")), node,
    )  # fmt: skip
    said = {
        "timezone": timezone, "decimal": decimal, "date_order": date_order, "delimiter": delimiter,
        "encoding": encoding, "fields": fields, "currency": currency, "cluster": cluster, "period_end": period_end,
        "node": node,
    }  # fmt: skip
    return Inputs(tuple(named), options, said)


def plain_amount(text: str) -> Decimal:
    """The parser of an option that holds an amount."""
    if not (text.isascii() and text.replace(".", "", 1).isdigit()):
        raise typer.BadParameter(f"{text!r} is no amount: write digits with a point, such as 2.40")
    return Decimal(text)


def refuse(command: str, message: str, code: int) -> NoReturn:
    """Ends a command: the message on stderr, without what would move the cursor, and the exit code."""
    shown = "\n".join(clean(line) for line in message.splitlines())
    sys.stderr.write(f"wattledger {command}: {shown}\n")
    raise typer.Exit(code)


@contextmanager
def refusing(command: str) -> Iterator[None]:
    """Turns what reading and assessing raise into an exit code with its message."""
    try:
        yield
    except (OptionRefused, PeriodRefused) as error:
        refuse(command, str(error), USAGE_ERROR)
    except CostFileRefused as error:
        refuse(command, str(error), CONFIGURATION)
    except InputRefused as error:
        refuse(command, str(error), INPUT_REFUSED)
    except BrokenPipeError:
        raise
    except OSError as error:
        refuse(command, f"{error.filename}: {error.strerror}: check the path and the disk", INPUT_REFUSED)


def out_console() -> Console:
    """Stdout for tables; wide where it is no terminal, so that what reads it gets whole rows."""
    return Console(highlight=False, soft_wrap=False, width=None if sys.stdout.isatty() else _WIDE)


class Progress:
    """Progress on stderr, on one line of a terminal; nothing where stderr is a file."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\033[K{text[:100]}")
            sys.stderr.flush()

    def done(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _one_of(flag: str, given: str | None, known: tuple[str, ...]) -> str | None:
    if given is not None and given not in known:
        raise OptionRefused(f"{flag} {given!r}: use one of {', '.join(known)}")
    return given

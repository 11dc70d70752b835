"""`wattledger init`: writes what a new user would have to write by hand; so far, the cost file."""

import sys
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from wattledger_streams.tariff_file_zone import load_zone

from wattledger_audit.assessment.cost_draft import draft_costs
from wattledger_audit.command_options import Inputs, OptionRefused, Period, Progress, reads_files
from wattledger_audit.drafting import UNKNOWN_ZONE, Drafted, draft_facts
from wattledger_audit.gathering import gather
from wattledger_audit.rejection_examples import RejectionExamples
from wattledger_audit.report.terminal_line import clean

STDOUT = Path("-")
NO_FILE = "no file: give what there is, such as `wattledger init costs usage.csv invoices.csv`"
init_app = typer.Typer(no_args_is_help=True, help="Write first versions of the files that WattLedger needs.")


@init_app.callback()
def init() -> None:
    """Write first versions of the files that WattLedger needs."""


@init_app.command("costs")
@reads_files("init costs", NO_FILE)
def costs_command(
    inputs: Inputs,
    out: Annotated[Path, typer.Option(dir_okay=False, help="The file to write; - for stdout")] = Path("costs.yaml"),
    period: Period = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file where it is there")] = False,
) -> None:
    """Draft a commented cost file: machines and tenants as the files have them, rates to fill in, what is unmapped."""
    if out != STDOUT and out.exists() and not force:
        raise OptionRefused(f"{out} is there already, and may hold rates: name another with --out, or say --force")
    progress, rejections = Progress(), RejectionExamples()
    gathered = gather(
        inputs.files, inputs.options, rejections, lambda name, count: progress(f"{name}: {count} records")
    )
    zone: ZoneInfo = inputs.options.timezone or load_zone(UNKNOWN_ZONE)
    drafted = draft_facts(gathered, period, zone, rejections, progress)
    text = draft_costs(drafted.facts)
    progress.done()
    if out == STDOUT:
        sys.stdout.write(text)
    else:
        with out.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    for said in _told(drafted, out, gathered.costs, rejections):
        sys.stderr.write(f"{clean(said)}\n")


def _told(drafted: Drafted, out: Path, costs: Path | None, rejections: RejectionExamples) -> list[str]:
    """What was found, and what to do next."""
    facts = drafted.facts
    seen = "listed" if drafted.listed else "seen in use: correct it to what is installed"
    told = [
        f"{drafted.nodes} machines with {drafted.gpus} GPUs, as {seen}; {len(facts.tenants.get('usage', ()))} tenants"
    ]
    if facts.unmapped:
        names = {name for name, _, _ in facts.unmapped}
        told.append(f"{len(names)} billed names have no usage: see the aliases and the list at the end of `tenants`")
    if costs is not None:
        told.append(f"{costs.name} is a cost file: it was not looked at, this drafts a new one")
    told += rejections.told()
    if out != STDOUT:
        told.append(f"{out} is written: fill in the rates, then add it to the files of `wattledger audit`")
    return told

"""`wattledger inspect`: what files are taken for and why, and their first rows as understood; exit code 3 if not."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from wattledger_audit.command_options import CONFIGURATION, INPUT_REFUSED, Inputs, out_console, reads_files
from wattledger_audit.exact_json import json_text, plain
from wattledger_audit.inspecting import BAD_COST_FILE, REFUSED, UNTAKEN, Inspected, inspect_file
from wattledger_audit.intake.record import ROLES
from wattledger_audit.mapping_draft import MappingDraft, canonical_header
from wattledger_audit.plain_table import plain_line, show_table

_SIDE_BY_SIDE = 9
NO_FILE = "no file: give one, such as `wattledger inspect usage.csv`"


@reads_files("inspect", NO_FILE)
def inspect_command(
    inputs: Inputs,
    rows: Annotated[int, typer.Option(min=0, max=1000, help="How many first rows are shown")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout")] = False,
) -> None:
    """Say what each file is taken for and why, and what its first rows mean; draft what it would need to look like."""
    found = [inspect_file(path, role, inputs.options, rows) for path, role in inputs.files]
    if as_json:
        sys.stdout.write(json_text({"files": [_as_json(one) for one in found]}))
    else:
        console = out_console()
        for one in found:
            _show(console, one)
    statuses = {one.status for one in found}
    if statuses & {REFUSED, UNTAKEN}:
        raise typer.Exit(INPUT_REFUSED)
    if BAD_COST_FILE in statuses:
        raise typer.Exit(CONFIGURATION)


def _as_json(one: Inspected) -> dict[str, object]:
    return {
        "file": one.name, "status": one.status, "message": one.message, "kind": one.kind, "encoding": one.encoding,
        "taken": plain(one.taken), "others": plain(one.others), "table": plain(one.table), "rows": one.rows,
        "records": one.records, "first": plain(one.first), "rejected": plain(one.rejected),
        "sections": plain(one.sections), "cells": plain(one.cells), "drafts": plain(one.drafts),
    }  # fmt: skip


def _show(console: Console, one: Inspected) -> None:
    taken = one.taken
    head = f"{one.name}: {taken.role}, {taken.format} ({taken.score} of 100): {taken.why}" if taken else one.name
    console.print(plain_line(head), style="bold")
    if one.message:
        console.print(plain_line(f"{one.status}: {one.message}"), style="bold")
    for other in one.others:
        words = f"could also be {other.role}, {other.format} ({other.score}): {other.why}" if taken else ""
        console.print(plain_line(words or f"could be {other.role}, {other.format} ({other.score}): {other.why}"))
    _show_form(console, one)
    for name, words in one.sections.items():
        console.print(plain_line(f"  {name}: {words}"))
    for number, record in enumerate(one.first, start=1):
        rows = [(name, words) for name, words in record.items() if name != "line"]
        line = f", line {record['line']}" if "line" in record else ""
        show_table(console, f"Record {number}{line}", ("field", "value"), rows, 2)
    if one.taken and not one.sections:
        rows_told = "" if one.rows is None else f"{one.rows:,} rows: "
        refused = sum(each.count for each in one.rejected)
        console.print(plain_line(f"{rows_told}{one.records:,} records, {refused:,} lines not used"))
    if one.rejected:
        refusals = [
            (str(each.count), each.code, f"line {each.line}", each.column, each.value, each.words)
            for each in one.rejected
        ]
        headers = ("count", "reason", "first on", "column", "value", "why, and what to do")
        show_table(console, "Lines not used", headers, refusals, 6)
    _show_cells(console, one)
    console.print()


def _show_form(console: Console, one: Inspected) -> None:
    told = [part for part in (one.kind, one.encoding, one.table.how if one.table else "") if part]
    if one.table is not None:
        told.append(f"header on line {one.table.header_line}" if one.table.header_line else "no header line")
    if told:
        console.print(plain_line(f"  read as: {', '.join(told)}"))
    if one.table is None:
        return
    for what, words in one.table.decided.items():
        console.print(plain_line(f"  {what}: {words}"))
    used = [f"{title} → {meaning}" for title, meaning in one.table.columns.items() if meaning]
    unused = [title for title, meaning in one.table.columns.items() if title and not meaning]
    if used:
        console.print(plain_line(f"  columns: {', '.join(used)}"))
    if unused:
        console.print(plain_line(f"  columns not used: {', '.join(unused)}"))


def _show_cells(console: Console, one: Inspected) -> None:
    if one.cells:
        width = max(len(row) for row in one.cells)
        rows = [[*row, *[""] * (width - len(row))] for row in one.cells]
        if width > _SIDE_BY_SIDE:  # a column a line: more of them side by side can't be read
            rows = [list(column) for column in zip(*rows, strict=True)]
        show_table(console, "First rows as they stand", [""] * len(rows[0]), rows, len(rows[0]))
    for draft in one.drafts:
        _show_draft(console, draft)
    if one.status == UNTAKEN and not one.drafts:
        for role in ROLES[:2]:
            console.print(plain_line(f"  As {role} it would need a header such as: {canonical_header(role)}"))


def _show_draft(console: Console, draft: MappingDraft) -> None:
    rows = [(header, name, f"{percent} %") for header, name, percent in draft.guesses]
    show_table(console, f"As {draft.role}: columns that look like", ("column", "looks like", "alike"), rows, 2)
    if draft.missing:
        console.print(plain_line(f"  nothing looks like: {', '.join(draft.missing)}: add it"))
    verb = "With this header line it is read" if draft.would_be_read else "A header line to start from"
    console.print(plain_line(f"  {verb} as {draft.role}:"))
    console.print(plain_line(draft.header_line), soft_wrap=True)

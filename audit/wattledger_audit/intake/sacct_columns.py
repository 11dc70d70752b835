"""The columns of a sacct dump that are read, picked out of a record in one go; blank where the dump lacks one."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import NamedTuple

from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.sacct_layout import Layout

RESOURCE_FIELDS = ("alloctres", "reqtres", "allocgres", "reqgres", "gresused")


class SacctCells(NamedTuple):
    """The texts of one record by sacct's names in lower case."""

    jobid: str
    jobidraw: str
    sluid: str
    cluster: str
    account: str
    wckey: str
    user: str
    qos: str
    partition: str
    submit: str
    eligible: str
    start: str
    end: str
    elapsed: str
    elapsedraw: str
    suspended: str
    state: str
    restarts: str
    nodelist: str
    alloccpus: str
    ncpus: str
    alloctres: str
    reqtres: str
    allocgres: str
    reqgres: str
    gresused: str
    timelimit: str
    timelimitraw: str
    reason: str
    exclusive: str
    oversubscribe: str


class SacctPicker(NamedTuple):
    """`pick` takes a record's cells with one blank added at their end, which is what a missing column reads."""

    pick: Callable[[Sequence[str]], tuple[str, ...]]
    has_exclusive: bool
    has_limit: bool
    has_suspended: bool


def picker_of(layout: Layout, source_name: str) -> SacctPicker:
    """How to read a layout. Raises InputRefused when it lacks what a hold needs: a start, and an end or elapsed."""
    names = layout.fields
    has = set(names)
    missing = "" if "start" in has else "Start"
    if not has & {"end", "elapsed", "elapsedraw"}:
        missing = "End or ElapsedRaw"
    if missing:
        raise InputRefused(
            f"{source_name}: this sacct dump has no column {missing}, so nobody can say when a job held its nodes: "
            "export with -o JobIDRaw,JobID,Account,User,Submit,Start,End,ElapsedRaw,Suspended,State,NodeList,AllocTRES"
        )
    indexes = [names.index(name) if name in has else -1 for name in SacctCells._fields]
    return SacctPicker(
        itemgetter(*indexes),
        has_exclusive=bool(has & {"exclusive", "oversubscribe"}),
        has_limit=bool(has & {"timelimit", "timelimitraw"}),
        has_suspended="suspended" in has,
    )

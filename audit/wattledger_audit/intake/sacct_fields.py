"""What sacct's columns are called and what a cell of each can look like: the proof that a layout fits."""

import re
from collections.abc import Callable, Sequence

from wattledger_audit.intake.slurm_job_id import is_job_id
from wattledger_audit.intake.slurm_state import state_word

_NAMES = """
account admincomment alloccpus allocgres allocnodes alloctres associd avecpu avecpufreq avediskread avediskwrite
avepages averss avevmsize blockid cluster comment constraints consumedenergy consumedenergyraw container cputime
cputimeraw dbindex derivedexitcode derivedexitstr elapsed elapsedraw eligible end exclusive exitcode extra
failednode flags gid gresused group jobid jobidraw jobname layout licenses maxdiskread maxdiskreadnode
maxdiskreadtask maxdiskwrite maxdiskwritenode maxdiskwritetask maxpages maxpagesnode maxpagestask maxrss
maxrssnode maxrsstask maxvmsize maxvmsizenode maxvmsizetask mcslabel mincpu mincpunode mincputask ncpus nnodes
nodelist ntasks originalsluid oversubscribe partition planned plannedcpu plannedcpuraw priority qos qosraw
qosreq reason reqcpufreq reqcpufreqgov reqcpufreqmax reqcpufreqmin reqcpus reqgres reqmem reqnodes reqtres
reservation reservationid reserved restarts resvcpu resvcpuraw segmentsize sluid start state stderr stdin stdout
submit submitline suspended systemcomment systemcpu timelimit timelimitraw totalcpu tresusageinave
tresusageinmax tresusageinmaxnode tresusageinmaxtask tresusageinmin tresusageinminnode tresusageinmintask
tresusageintot tresusageoutave tresusageoutmax tresusageoutmaxnode tresusageoutmaxtask tresusageoutmin
tresusageoutminnode tresusageoutmintask tresusageouttot uid user usercpu wckey wckeyid workdir"""
FIELDS = frozenset(_NAMES.split())
FREE_TEXT = frozenset(
    {"jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "extra", "container", "stdin"}
    | {"stdout", "stderr", "constraints", "derivedexitstr"}
)
"""Columns that people fill: the delimiter and newlines come through raw in them."""
ID_FIELDS = ("jobid", "jobidraw")

_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*|\d{9,10}|Unknown|None|N/A|#+|(?:Ystday|Tomorr|Today) .*|\w{3} \d\d:\d\d"
)
_DURATION = re.compile(r"(?:\d+-)?(?:\d+:)?\d+:\d\d(?:\.\d+)?|INVALID|UNLIMITED|Partition_Limit|Unknown")
_WHOLE = re.compile(r"\d+")
_EXIT = re.compile(r"\d+:\d+")
_TRES = re.compile(r"(?:[\w/:.+()\- ]+=[^=,|]*)(?:,[\w/:.+()\- ]+=[^=,|]*)*")
_LIMIT_RAW = re.compile(r"\d+|UNLIMITED|Partition_Limit|INVALID")


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_is_stamp, _is_duration, _is_whole = _matches(_STAMP), _matches(_DURATION), _matches(_WHOLE)
PROOFS: dict[str, Callable[[str], bool]] = {
    "jobid": is_job_id,
    "jobidraw": is_job_id,
    "state": lambda text: state_word(text) is not None,
    **dict.fromkeys(("submit", "eligible", "start", "end"), _is_stamp),
    **dict.fromkeys(
        ("elapsed", "suspended", "cputime", "usercpu", "systemcpu", "totalcpu", "timelimit", "planned"), _is_duration
    ),
    **dict.fromkeys(
        ("elapsedraw", "alloccpus", "ncpus", "reqcpus", "nnodes", "allocnodes", "cputimeraw", "uid", "gid", "restarts"),
        _is_whole,
    ),
    **dict.fromkeys(("exitcode", "derivedexitcode"), _matches(_EXIT)),
    **dict.fromkeys(("alloctres", "reqtres"), _matches(_TRES)),
    "timelimitraw": _matches(_LIMIT_RAW),
}


def field_name(text: str) -> str:
    """The column's name as compared: `JobID%20` and ` jobid ` are jobid."""
    return text.strip().lstrip("\ufeff#").strip().partition("%")[0].lower()


def misfit(fields: Sequence[str], cells: Sequence[str]) -> str | None:
    """The first column whose cell can't be one of it (blank cells can be any); None: all fit."""
    for name, cell in zip(fields, cells, strict=False):
        proof = PROOFS.get(name)
        if proof is not None and cell != "" and not proof(cell):
            return name
    return None


def starts_record(fields: Sequence[str], cells: Sequence[str]) -> bool:
    """Whether a line of too few cells is the beginning of a record: its id or state is there and nothing misfits.

    The last cell may be cut by the break, so it proves nothing."""
    whole = cells[:-1]
    named = {name for name, cell in zip(fields, whole, strict=False) if cell}
    return bool(named & {"jobid", "jobidraw", "state"}) and misfit(fields, whole) is None

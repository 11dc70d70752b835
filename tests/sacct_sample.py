"""A sacct dump of a usual job, column by column, and reading what a test makes of it."""

from pathlib import Path

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.usage_sacct import IMPORTERS

from tests.sacct_reading import BERLIN, ReadBack, read_lines

(SACCT,) = IMPORTERS
HEADER = (
    "JobIDRaw|JobID|Cluster|Account|User|Partition|QOS|WCKey|Submit|Eligible|Start|End|ElapsedRaw|Suspended|State|"
    "Restarts|NodeList|ReqTRES|AllocTRES|JobName"
)
FIELDS = HEADER.split("|")
T0 = 1_790_769_600
USUAL = {
    "JobIDRaw": "123", "JobID": "123", "Cluster": "alpha", "Account": "acme", "User": "ann", "Partition": "gpu",
    "QOS": "normal", "WCKey": "proj", "Submit": f"{T0}", "Eligible": f"{T0}", "Start": f"{T0 + 60}",
    "End": f"{T0 + 3660}", "ElapsedRaw": "3600", "Suspended": "00:00:00", "State": "COMPLETED", "Restarts": "0",
    "NodeList": "gpu01", "ReqTRES": "", "AllocTRES": "cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=64G,node=1",
    "JobName": "train",
}  # fmt: skip
PENDING = {"Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "State": "PENDING", "NodeList": "None assigned"}


def row(**changed: str) -> str:
    return "|".join({**USUAL, **changed}[field] for field in FIELDS)


def read(folder: Path, *rows: str, options: ReadOptions = BERLIN, header: str = HEADER) -> ReadBack:
    return read_lines(SACCT, folder, [header, *rows], options)


def one(folder: Path, **changed: str) -> UsageRun:
    return read(folder, row(**changed)).run()

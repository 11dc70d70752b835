"""SLURM records as the live watcher meets them: a job of two GPUs on node gpu01, in each of the forms."""

from collections.abc import Sequence
from pathlib import Path

from wattledger_agent.watchers.run import Held, Run, Sighting
from wattledger_agent.watchers.slurm import SlurmWatcher
from wattledger_agent.watchers.slurm_fact import Document, Fact
from wattledger_agent.watchers.slurm_site import SlurmSite

S = 1_000_000
T0 = 1_790_769_600
NOW_US = (T0 + 7200) * S
SITE = SlurmSite("gpu01", aliases=("gpu01.cluster.local",), cluster="alpha")
HEADER = (
    "JobIDRaw|JobID|Cluster|Account|User|UID|Partition|QOS|WCKey|Submit|Eligible|Start|End|ElapsedRaw|Suspended|State|"
    "ExitCode|Restarts|NNodes|NodeList|ReqTRES|AllocTRES|DBIndex|SLUID|OriginalSLUID|Flags|JobName"
)
SACCT_FIELDS = HEADER.split("|")
USUAL = {
    "JobIDRaw": "123", "JobID": "123", "Cluster": "alpha", "Account": "acme", "User": "ann", "UID": "1000",
    "Partition": "gpu", "QOS": "normal", "Submit": f"{T0}", "Eligible": f"{T0}", "Start": f"{T0 + 60}",
    "End": f"{T0 + 3660}", "ElapsedRaw": "3600", "Suspended": "00:00:00", "State": "COMPLETED", "ExitCode": "0:0",
    "Restarts": "0", "NNodes": "1", "NodeList": "gpu01", "AllocTRES": "billing=8,cpu=8,gres/gpu=2,mem=64G,node=1",
    "JobName": "train",
}  # fmt: skip
RUNNING = {"State": "RUNNING", "End": "Unknown"}


def sacct_row(**changed: str) -> str:
    """One line of the recommended export."""
    row = {**USUAL, **changed}
    return "|".join(row.get(name, "") for name in SACCT_FIELDS)


def sacct_file(*rows: str, header: bool = False) -> bytes:
    lines = ([HEADER] if header else []) + list(rows)
    return "".join(f"{line}\n" for line in lines).encode()


def drop_text(kind: str = "prolog", at: str = f"{T0 + 60}200000000", **values: str) -> bytes:
    """A record as the script writes it. A value of `-` leaves the key out."""
    usual = {
        "WATTLEDGER_DROP": "1", "WATTLEDGER_KIND": kind, "WATTLEDGER_AT": at, "SLURM_JOB_ID": "123",
        "SLURM_JOB_ACCOUNT": "acme", "SLURM_JOB_USER": "ann", "SLURM_JOB_UID": "1000", "SLURM_CLUSTER_NAME": "alpha",
        "SLURMD_NODENAME": "gpu01", "SLURM_JOB_GPUS": "0,1", "SLURM_JOB_START_TIME": f"{T0 + 60}",
        "SLURM_JOB_RESTART_COUNT": "0",
    }  # fmt: skip
    told = {name: value for name, value in {**usual, **values}.items() if value != "-"}
    return "".join(f"{name}={value}\n" for name, value in {**told, "WATTLEDGER_END": "1"}.items()).encode()


def put_drop(folder: Path, data: bytes, mode: int = 0o600) -> Path:
    """The record as a file of the name that its content says."""
    values = dict(line.split("=", 1) for line in data.decode().splitlines())
    at = values["WATTLEDGER_AT"] if len(values["WATTLEDGER_AT"]) > 12 else values["WATTLEDGER_AT"] + "0" * 9
    restarts = values.get("SLURM_JOB_RESTART_COUNT", "0")
    path = folder / f"{values['WATTLEDGER_KIND']}-{values['SLURM_JOB_ID']}-{restarts}-{at}"
    path.write_bytes(data)
    path.chmod(mode)
    return path


SCONTROL = """\
JobId={job} JobName={name}
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=4294901735 Nice=0 Account={account} QOS=normal WCKey=*
   JobState={state} Reason=None Dependency=(null)
   Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=01:00:00 TimeLimit={limit} TimeMin=N/A
   SubmitTime={start} EligibleTime={start}
   AccrueTime={start}
   StartTime={start} EndTime={end} Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval={start} Scheduler=Main
   Partition=gpu AllocNode:Sid=login1:12345
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList={nodes}
   BatchHost=gpu01
   NumNodes=1 NumCPUs=8 NumTasks=1 CPUs/Task=8 ReqB:S:C:T=0:0:*:*
   ReqTRES={tres}
   AllocTRES={tres}
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES={gres}
{detail}   MinCPUsNode=8 MinMemoryNode=64G MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/ann/run.sh
   WorkDir=/home/ann
   Comment={comment}
   StdErr=/home/ann/slurm-{job}.out
"""


def scontrol_job(one_line: bool = False, **changed: str) -> str:
    usual = {
        "job": "123", "name": "train", "account": "acme", "state": "RUNNING", "restarts": "0", "limit": "1-00:00:00",
        "start": f"{T0 + 60}", "end": f"{T0 + 86_460}", "nodes": "gpu01",
        "tres": "cpu=8,mem=64G,node=1,billing=8,gres/gpu=2", "gres": "gpu:2", "comment": "(null)",
        "detail": "     Nodes=gpu01 CPU_IDs=0-7 Mem=65536 GRES=gpu:2(IDX:0-1)\n",
    }  # fmt: skip
    text = SCONTROL.format(**{**usual, **changed})
    return " ".join(line.strip() for line in text.split("\n")).strip() + "\n" if one_line else text + "\n"


class Told:
    """A reader that gives what a test puts into it."""

    def __init__(self, is_snapshot: bool = False) -> None:
        self.name = "told"
        self.is_snapshot = is_snapshot
        self.reported_to_us = 0
        self.removed: list[str] = []
        self.documents: list[Document] = []

    def read(self, now_us: int) -> tuple[Document, ...]:
        told, self.documents = tuple(self.documents), []
        self.reported_to_us = now_us
        return told

    def tell(self, *facts: Fact, is_whole: bool = True, at_us: int = NOW_US) -> None:
        self.documents.append(Document(facts, (), is_whole, source=self.name, at_us=at_us))

    def remove(self, names: list[str]) -> None:
        self.removed.extend(names)

    def close(self) -> None:
        pass


def refs(held: Sequence[Held] | None) -> list[str]:
    """`minor:0` and so on."""
    return [f"{one.ref.by}:{one.ref.value}" for one in held or ()]


def only(sighting: Sighting) -> Run:
    (run,) = sighting.runs
    return run


def watch(*readers: Told, site: SlurmSite = SITE, events: Told | None = None, **told: int) -> SlurmWatcher:
    return SlurmWatcher(site, readers, events, **told)

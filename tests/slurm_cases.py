"""Dumps of `sacct` that programs were seen to read wrong, and what they hold: the table of test_cases_slurm.py.

The comment names the public project that it was reported against. A name's first part is the case's number; several
rows of one number are of the same kind in other shapes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from wattledger_audit.intake.options import ReadOptions

from tests.case_files import BERLIN, PLAIN, UTC

HEADER = "JobID|JobIDRaw|Cluster|Account|User|Submit|Start|End|ElapsedRaw|Suspended|State|NodeList|AllocTRES|JobName"
PENDING = "Unknown|Unknown|0|00:00:00|PENDING|None assigned||"
Ran = tuple[str, str, int | None, int | None]
"""Job, state, GPUs (None: unknown), GPU-seconds (None: open or unknown)."""


def sacct(*rows: str, header: str = HEADER, end: str = "\n") -> str:
    return "".join(f"{line}{end}" for line in (header, *rows))


def job(
    number: str = "7", start: str = "2026-03-02T10:00:00", end: str = "2026-03-02T11:00:00", elapsed: str = "3600",
    state: str = "COMPLETED", tres: str = "billing=8,cpu=8,gres/gpu=2,mem=64G,node=1", name: str = "train",
    suspended: str = "00:00:00", raw: str = "", submit: str = "2026-03-02T09:00:00", node: str = "g1",
) -> str:  # fmt: skip
    """A usual row: 2 GPUs for an hour, which is 7,200 GPU-seconds."""
    return (
        f"{number}|{raw or number.split('_')[0].split('+')[0]}|hpc|acme|ann|{submit}|{start}|{end}|{elapsed}|"
        f"{suspended}|{state}|{node}|{tres}|{name}"
    )


class Case(NamedTuple):
    name: str
    text: str | bytes
    runs: list[Ran]
    codes: Sequence[str] = ()
    options: ReadOptions = UTC
    taken_as: str = "sacct"


MAIL = (
    "JobId|User|Group|Partition|Start|End|State|ReqMem|MaxRSS|NCPUS|TotalCPU|NNodes|WorkDir|Elapsed|ExitCode|Comment|"
    "Cluster|NodeList|TimeLimit|TimelimitRaw|JobIdRaw|JobName"
)
HPC = (
    "State|JobID|ReqCPUS|ReqMem|ReqNodes|Constraints|Submit|Eligible|Start|Elapsed|Suspended|End|ExitCode|"
    "DerivedExitCode|AllocNodes|NCPUS|MaxDiskRead|MaxDiskWrite|MaxPages|MaxRSS|MaxVMSize|CPUTime|UserCPU|SystemCPU|"
    "TotalCPU"
)


def hpc(state: str, number: str, memory: str, start: str, elapsed: str, end: str, exit_code: str = "0:0") -> str:
    stamp = "2021-08-25T10:14:05"
    return (
        f"{state}|{number}|1|{memory}|1||{stamp}|{stamp}|{start}|{elapsed}|00:00:00|{end}|{exit_code}|{exit_code}|1|1|"
        "|||||00:00:00|00:00:00|00:00:00|00:00:00"
    )


REQUEUES = sacct(
    # one id, four runs that were requeued and a fifth that ended: 3,889 + 4,473 + 6,122 + 2,153 + 7,200 s of one GPU
    *(
        job("235929", f"2026-03-{day:02d}T00:00:00", f"2026-03-{day:02d}T{length}", str(seconds), state,
            "cpu=4,gres/gpu=1,node=1", submit=f"2026-03-{day:02d}T00:00:00")
        for day, length, seconds, state in [
            (1, "01:04:49", 3889, "REQUEUED"), (2, "01:14:33", 4473, "REQUEUED"), (3, "01:42:02", 6122, "REQUEUED"),
            (4, "00:35:53", 2153, "REQUEUED"), (5, "02:00:00", 7200, "COMPLETED"),
        ]
    )
)  # fmt: skip
STEPPED = "JobID|Account|Start|End|Elapsed|State|AllocTRES|NodeList"
TWICE = "JobID|Account|Submit|Start|End|ElapsedRaw|State|AllocTRES|NodeList"


CASES = [
    # slurm-mail 58, 63; hpc-cost-simulator 61
    Case(
        "A1-cancelled-before-it-started",
        sacct(
            "31114|u|grp|part|None|2022-11-01T12:58:39|CANCELLED by 1060117917|32G||2|00:00:00|1|/home/u|00:00:00|0:0||"
            "hpc|None assigned|Partition_Limit|Partition_Limit|31114|name",
            header=MAIL,
        ),
        [("31114", "CANCELLED", None, 0)],
    ),
    Case(
        "A1-in-a-dump-with-tabs-and-epochs",
        "JobID\tJobIDRaw\tAccount\tStart\tEnd\tElapsedRaw\tState\tTimelimitRaw\tTimelimit\tNodeList\tReqTRES\tAllocTRES\n"
        "88\t88\tacme\tUnknown\t1760000000\t0\tCANCELLED\tPartition_Limit\tUNLIMITED\tNone assigned\tgres/gpu=8\t\n"
        "89\t89\tacme\t1760000000\t1760000090\t90\tCANCELLED by 0\t60\t01:00:00\tg1\t\tgres/gpu=8,node=1\n",
        [("88", "CANCELLED", 8, 0), ("89", "CANCELLED", 8, 720)],
        options=PLAIN,
    ),
    # hpc-cost-simulator 5
    Case(
        "A2-pending-is-open-and-uses-nothing",
        sacct(hpc("PENDING", "31259618", "4G", "Unknown", "00:00:00", "Unknown"), header=HPC),
        [("31259618", "PENDING", None, 0)],
    ),
    Case(
        "A2-without-a-header",
        hpc("PENDING", "31259618", "4G", "Unknown", "00:00:00", "Unknown") + "\n"
        + hpc("COMPLETED", "31259619", "4G", "2021-08-25T10:20:00", "00:30:00", "2021-08-25T10:50:00") + "\n",
        [("31259618", "PENDING", None, 0), ("31259619", "COMPLETED", None, None)],
    ),
    Case(
        "A2-with-the-start-that-backfill-expects",
        sacct(f"41|41|hpc|acme|ann|2026-03-02T09:00:00|2026-03-09T00:00:00|{PENDING.split('|', 1)[1]}x"),
        [("41", "PENDING", None, 0)],
    ),
    # reportseff 63
    Case(
        "A4-a-newline-in-a-submit-line",
        sacct(
            "7|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|srun bash -c \"echo hello &&",
            "echo goodbye\"|COMPLETED|gres/gpu=2",
            "8|2026-03-02T10:00:00|2026-03-02T10:30:00|1800|sbatch x.sh|COMPLETED|gres/gpu=2",
            header="JobID|Start|End|ElapsedRaw|SubmitLine|State|AllocTRES",
        ),
        [("7", "COMPLETED", 2, 7200), ("8", "COMPLETED", 2, 3600)],
    ),
    Case(
        "A4-newlines-and-delimiters-in-the-name-at-the-end",
        sacct(job("7", name="a|b\n\nsrun x | tee y\nlast"), job("8", name="plain")),
        [("7", "COMPLETED", 2, 7200), ("8", "COMPLETED", 2, 7200)],
        ["blank_line"],
    ),
    Case(
        "A4-in-a-comment-with-an-ending-delimiter",
        "JobID|Start|End|Elapsed|Comment|State|AllocTRES|\n"
        "7|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|first\n7 is my\nlucky number|FAILED|gres/gpu=4|\n"
        "8|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00||FAILED|gres/gpu=4|\n",
        [("7", "FAILED", 4, 14400), ("8", "FAILED", 4, 14400)],
    ),
    # slurm2sql 26, AUDITOR 1966
    Case(
        "A6-components-of-a-heterogeneous-job",
        sacct(job("9380968+0"), job("9380968+1", raw="9380969", tres="cpu=1,gres/gpu=6,node=1"), job("9380970")),
        [("9380968+0", "COMPLETED", 2, 7200), ("9380968+1", "COMPLETED", 6, 21600), ("9380970", "COMPLETED", 2, 7200)],
    ),
    Case(
        "A6-with-steps-of-components",
        sacct(
            "93+0|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gres/gpu=1|g1",
            "93+0.batch|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gres/gpu=1|g1",
            "93+1|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gres/gpu=1|g2",
            "93+1.0|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gres/gpu=1|g2",
            header=STEPPED,
        ),
        [("93+0", "COMPLETED", 1, 3600), ("93+1", "COMPLETED", 1, 3600)],
        ["step_of_job", "step_of_job"],
    ),
    # seff-array 15; XDMoD
    Case(
        "A7-nine-waiting-tasks-of-an-array",
        sacct(f"4103947_[9-11,13,16-20]|4103947|hpc|acme|ann|2026-03-02T09:00:00|{PENDING}x"),
        [(f"4103947_{task}", "PENDING", None, 0) for task in (9, 10, 11, 13, 16, 17, 18, 19, 20)],
    ),
    Case(
        "A7-800-waiting-tasks-with-a-throttle",
        sacct(f"123456_[9201-10000%500]|123456|hpc|acme|ann|2026-03-02T09:00:00|{PENDING}x", job("123456_9200")),
        [*((f"123456_{task}", "PENDING", 0, 0) for task in range(9201, 10001)), ("123456_9200", "COMPLETED", 2, 7200)],
    ),
    Case(
        "A7-a-list-that-slurm-cut",
        sacct(f"55_[1,3,5,7,9,11,...]|55|hpc|acme|ann|2026-03-02T09:00:00|{PENDING}x", job("55_2")),
        [("55_[1,3,5,7,9,11,...]", "PENDING", 0, 0), ("55_2", "COMPLETED", 2, 7200)],
    ),
    # ood_core 870, jobstats 53, slurm2sql 12, SkyPilot 10285
    Case(
        "A9-a-typed-count-is-a-breakdown",
        sacct(job(tres="billing=10,cpu=10,gres/gpu=1,gres/gpu:a100=1,mem=100G,node=1")),
        [("7", "COMPLETED", 1, 3600)],
    ),
    Case(
        "A9-two-types-without-a-total",
        sacct(job(tres="cpu=10,gres/gpu:a100=2,gres/gpu:v100=2,node=1")),
        [("7", "COMPLETED", 2, 7200), ("7", "COMPLETED", 2, 7200)],
    ),
    Case(
        "A9-typed-first-and-the-total-last",
        sacct(job(tres="gres/gpu:h100=3,gres/gpu:l40s=1,cpu=10,node=2,gres/gpu=4")),
        [("7", "COMPLETED", 3, 10800), ("7", "COMPLETED", 1, 3600)],
    ),
    Case(
        "A9-a-total-larger-than-its-types",
        sacct(job(tres="cpu=10,gres/gpu=4,gres/gpu:a100=1,node=2")),
        [("7", "COMPLETED", 1, 3600), ("7", "COMPLETED", 3, 10800)],
    ),
    # SkyPilot 10319
    Case(
        "A10-gpus-that-only-the-used-gres-names",
        sacct(
            "7|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|cpu=192,mem=800G,billing=192|"
            "gpu:h100:5(IDX:0-4)|g1",
            header="JobID|Account|Start|End|Elapsed|State|AllocTRES|GresUsed|NodeList",
        ),
        [("7", "COMPLETED", 5, 18000)],
    ),
    Case(
        "A10-no-row-names-a-gpu",
        sacct(job(tres="billing=192,cpu=192,mem=800G,node=1"), job("8", tres="cpu=1,mem=4G,node=1")),
        [("7", "COMPLETED", None, None), ("8", "COMPLETED", None, None)],
    ),
    Case(
        "A10-other-rows-name-gpus-so-none-is-none",
        sacct(job(tres="billing=192,cpu=192,mem=800G,node=1"), job("8")),
        [("7", "COMPLETED", 0, 0), ("8", "COMPLETED", 2, 7200)],
    ),
    # slurm_exporter 35, 36
    Case(
        "A11-the-request-says-nothing-the-allocation-does",
        sacct(
            "7|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|N/A|cpu=2,mem=512M,node=1,gres/gpu=1|g1",
            header="JobID|Account|Start|End|Elapsed|State|ReqGRES|AllocTRES|NodeList",
        ),
        [("7", "COMPLETED", 1, 3600)],
    ),
    Case(
        "A11-a-value-cut-at-twenty-signs",
        sacct(
            "7|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|cpu=2,mem=512M,node=|g1",
            "8|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gres/gpu=1,cpu=2|g1",
            header="JobID|Account|Start|End|Elapsed|State|AllocTRES|NodeList",
        ),
        [("7", "COMPLETED", None, None), ("8", "COMPLETED", 1, 3600)],
    ),
    # slurm_gpustat 23; Slurm-web 769
    Case(
        "A12-none-of-a-type-and-two-of-no-type",
        sacct(
            "7|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gpu:titanrtx:0|g1",
            "8|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gpu:(null):2|g1",
            "9|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|01:00:00|COMPLETED|gpu:(null):1,gpu:a100:2(IDX:0-1)|g1",
            header="JobID|Account|Start|End|Elapsed|State|AllocGRES|NodeList",
        ),
        [("7", "COMPLETED", 0, 0), ("8", "COMPLETED", 2, 7200), ("9", "COMPLETED", 2, 7200),
         ("9", "COMPLETED", 1, 3600)],
    ),
    # reportseff 25; XDMoD drops rows in state REQUEUED
    Case(
        "A13-requeues-all-count",
        REQUEUES,
        [("235929", state, 1, seconds) for state, seconds in [
            ("REQUEUED", 3889), ("REQUEUED", 4473), ("REQUEUED", 6122), ("REQUEUED", 2153), ("COMPLETED", 7200)]],
    ),
    Case(
        "A13-told-apart-by-sluid-alone",
        sacct(
            "44|sEKNKTV3WPV500|acme|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|NODE_FAIL|gres/gpu=8|g1",
            "44|sEKNKTV3WPV501|acme|2026-03-02T10:00:00|2026-03-02T10:30:00|1800|PREEMPTED|gres/gpu=8|g2",
            header="JobIDRaw|SLUID|Account|Start|End|ElapsedRaw|State|AllocTRES|NodeList",
        ),
        [("44", "NODE_FAIL", 8, 28800), ("44", "PREEMPTED", 8, 14400)],
    ),
    Case(
        "A13-requeued-and-waiting-again",
        sacct(
            job("5", "2026-03-01T00:00:00", "2026-03-01T00:10:00", "600", "REQUEUED", submit="2026-03-01T00:00:00"),
            f"5|5|hpc|acme|ann|2026-03-01T00:10:00|{PENDING}x",
        ),
        [("5", "REQUEUED", 2, 1200), ("5", "PENDING", 0, 0)],
    ),
    # hpc-cost-simulator 59
    Case(
        "A15-a-node-failure-with-a-step-without-an-exit-code",
        sacct(
            hpc("NODE_FAIL", "12", "512Mn", "2021-08-25T10:14:05", "00:20:32", "2021-08-25T10:34:37", "1:0"),
            hpc("CANCELLED", "12.0", "512Mn", "2021-08-25T10:14:05", "00:20:32", "2021-08-25T10:34:37", ""),
            header=HPC + "|AllocTRES",
        ).replace("00:00:00\n", "00:00:00|cpu=1,gres/gpu=1,node=1\n"),
        [("12", "NODE_FAIL", 1, 1232)],
        ["step_of_job"],
    ),
    Case(
        "A15-the-step-first-and-as-one-task",
        sacct(
            "12.extern|acme|2026-03-02T10:00:00|2026-03-02T10:20:32|00:20:32|CANCELLED||g1",
            "12|acme|2026-03-02T10:00:00|2026-03-02T10:20:32|00:20:32|NODE_FAIL|gres/gpu=3|g1",
            "12_7|acme|2026-03-02T10:00:00|2026-03-02T10:20:32|00:20:32|NODE_FAIL|gres/gpu=3|g1",
            "12_7.batch|acme|2026-03-02T10:00:00|2026-03-02T10:20:32|00:20:32|CANCELLED||g1",
            header=STEPPED,
        ),
        [("12", "NODE_FAIL", 3, 3696), ("12_7", "NODE_FAIL", 3, 3696)],
        ["step_of_job", "step_of_job"],
    ),
    # hpc-cost-simulator 17, 63; its file with several nodes
    Case(
        "A16-steps-repeat-their-jobs-time",
        sacct(
            *(
                f"17{step}|acme|2026-03-02T10:00:00|2026-03-02T10:20:04|00:20:04|COMPLETED|gres/gpu=4|g[1-2]"
                for step in ("", ".extern", ".batch", ".interactive", ".0", ".12")
            ),
            header=STEPPED,
        ),
        [("17", "COMPLETED", 4, 4816)],
        ["step_of_job"] * 5,
    ),
    # sas-jobmon 6, sonar 430: the clocks of Berlin go back at 3:00 on 26 October 2025
    Case(
        "A22-a-start-in-the-hour-that-comes-twice",
        sacct(
            # 02:30 summer time to 03:10 is 100 minutes, 02:30 winter time is 40
            "7|acme|2025-10-25T20:00:00|2025-10-26T02:30:00|2025-10-26T03:10:00|6000|COMPLETED|gres/gpu=1|g1",
            "8|acme|2025-10-25T20:00:00|2025-10-26T02:30:00|2025-10-26T03:10:00|2400|COMPLETED|gres/gpu=1|g1",
            header=TWICE,
        ),
        [("7", "COMPLETED", 1, 6000), ("8", "COMPLETED", 1, 2400)],
        options=BERLIN,
    ),
    Case(
        "A22-that-no-elapsed-time-settles-is-refused",
        sacct(
            "7|acme|2025-10-25T20:00:00|2025-10-26T02:30:00|2025-10-26T02:50:00|1200|COMPLETED|gres/gpu=1|g1",
            "8|acme|2025-10-25T20:00:00|2025-10-26T01:30:00|2025-10-26T03:30:00|10800|COMPLETED|gres/gpu=1|g1",
            header=TWICE,
        ),
        [("8", "COMPLETED", 1, 10800)],
        ["ambiguous_local_time"],
        options=BERLIN,
    ),
    # hpc-cost-simulator 17; its data of older releases
    Case(
        "A26-memory-as-old-releases-wrote-it",
        sacct(*(
            f"{number}|acme|2026-03-02T10:00:00|2026-03-02T10:01:00|00:01:00|COMPLETED|{memory}|gres/gpu=1|g1"
            for number, memory in enumerate(
                ["0n", "100Mc", "3000Mn", "2T", "100Mcd", "2147486648Mn", "", "?", "-1"], 1
            )
        ), header="JobID|Account|Start|End|Elapsed|State|ReqMem|AllocTRES|NodeList"),
        [(str(number), "COMPLETED", 1, 60) for number in range(1, 10)],
    ),
    # ood_core 838, pyslurm 33, 71; XDMoD's file
    Case(
        "A28-names-in-utf-8",
        sacct(job("7", name="aàb"), job("8", name="日本")),
        [("7", "COMPLETED", 2, 7200), ("8", "COMPLETED", 2, 7200)],
    ),
    Case(
        "A28-bytes-of-latin-1",
        sacct(job("7", name="f\xfcr"), job("8"), job("9", name="caf\xe9")).encode("latin-1"),
        [("7", "COMPLETED", 2, 7200), ("8", "COMPLETED", 2, 7200), ("9", "COMPLETED", 2, 7200)],
    ),
    Case(
        "A28-both-in-one-file",
        sacct(job("7", name="aàb")).encode() + (job("8", name="f\xfcr") + "\n").encode("latin-1"),
        [("7", "COMPLETED", 2, 7200), ("8", "COMPLETED", 2, 7200)],
    ),
    # OSC ondemand 938
    Case(
        "A29-sacct-stopped-in-the-middle",
        sacct(job("7")) + "sacct: error: slurmdbd: Getting response to message type\n",
        [("7", "COMPLETED", 2, 7200)],
        ["sacct_message"],
    ),
    # what slurm's change log of 25.11 names: extra records of no length, the same record twice
    Case(
        "A33-records-of-no-length-and-the-same-record-twice",
        sacct(
            job("7", "2026-03-02T10:00:00", "2026-03-02T10:00:00", "0", "REQUEUED"),
            job("7", "2026-03-02T10:00:05", "2026-03-02T10:00:05", "0", "REQUEUED"),
            job("7", "2026-03-02T10:01:00", "2026-03-02T11:01:00", "3600"),
            job("7", "2026-03-02T10:01:00", "2026-03-02T11:01:00", "3600"),
        ),
        [("7", "REQUEUED", 2, 0), ("7", "REQUEUED", 2, 0), ("7", "COMPLETED", 2, 7200)],
        ["duplicate_row"],
    ),
]  # fmt: skip

"""Known mistakes of programs that read SLURM's accounting (cases A1 to A34), as files with the right figures.

Each case was reported against a public project; the comment names it. Rows of a letter after the case's number are of
the same kind in another shape.
"""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused

from tests.audit_cases import DAY, costs, events, fleet, found, hours, machine, own_costs
from tests.audit_runner import audit_texts, unexplained
from tests.case_files import BERLIN, PLAIN, UTC, at, gpu_seconds, ids_of, read_case

ALL_CASES = {
    "A1", "A2", "A4", "A6", "A7", "A9", "A10", "A11", "A12", "A13", "A15", "A16", "A18", "A20", "A21", "A22", "A23",
    "A26", "A28", "A29", "A31", "A33", "A34",
}  # fmt: skip
NOT_ABOUT_FILES = {
    "A20": "a suspended job that leaves no row can only be seen by a live sampler; a file has nothing to read",
}

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
    codes: list[str] = []
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
        [("7", "COMPLETED", 0, 0), ("8", "COMPLETED", 2, 7200), ("9", "COMPLETED", 2, 7200), ("9", "COMPLETED", 1, 3600)],
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


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_dump_gives_the_right_runs(tmp_path: Path, case: Case) -> None:
    told = read_case(tmp_path, "jobs.txt", case.text, case.options)
    found_runs = [(run.job, run.state, run.gpus, gpu_seconds(run)) for run in told.runs]
    assert (told.taken_as, found_runs, told.codes) == (case.taken_as, case.runs, case.codes)


REFUSED = [
    # ceems 432
    ("A23-local-stamps-and-no-zone", sacct(job()), "--timezone"),
    ("A23-in-a-table-of-ones-own", "job_id,tenant,node,gpus,start,end\n7,acme,g1,2,2026-03-02 10:00,2026-03-02 11:00\n",
     "--timezone"),
    # OSC ondemand 938
    ("A29-a-dump-that-is-an-error", "sacct: fatal: ReqGRES is deprecated, please use ReqTRES\n", "ReqGRES"),
    ("A29-a-window-that-ends-before-it-starts",
     "sacct: error: Start time (2022-01-10T00:00:00) requested is after end time (2022-01-09T19:00:00).\n", "after"),
    ("A29-an-answer-that-is-an-error",
     '{"meta":{"Slurm":{"release":"24.05"}},"jobs":[],"errors":[{"description":"Invalid option","error_number":1}]}\n',
     "Invalid option"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_dump_that_can_not_be_read_says_why(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        read_case(tmp_path, "jobs.txt", text)


def test_types_of_one_job_keep_their_models(tmp_path: Path) -> None:
    """A9."""
    row = job(tres="cpu=10,gres/gpu:a100=1,gres/gpu:v100=4,node=1")
    runs = read_case(tmp_path, "jobs.txt", sacct(row), UTC).runs
    assert [(run.gpu_model, run.gpus) for run in runs] == [("a100", 1), ("v100", 4)]


SUSPENDED = [
    # -T makes an end of the window's end and leaves the suspension in the elapsed time: an hour was held, not two
    ("A21-clipped-by-T-while-it-was-suspended", "2026-03-02T12:00:00", "7200", "01:00:00", "SUSPENDED", 7200),
    # without -T: suspended time lies inside, elapsed leaves it out
    ("A21-resumed-and-ended", "2026-03-02T13:00:00", "7200", "01:00:00", "COMPLETED", 14400),
    ("A21-with-days-of-suspension", "2026-03-05T10:00:00", "86400", "2-00:00:00", "TIMEOUT", 172800),
    ("A21-still-suspended-has-no-end", "Unknown", "3600", "01:00:00", "SUSPENDED", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("end", "elapsed", "suspended", "state", "held"), [case[1:] for case in SUSPENDED], ids=[c[0] for c in SUSPENDED]
)
def test_suspended_time_is_not_held(
    tmp_path: Path, end: str, elapsed: str, suspended: str, state: str, held: int | None
) -> None:
    told = read_case(tmp_path, "jobs.txt", sacct(job("7", end=end, elapsed=elapsed, suspended=suspended, state=state)), UTC)
    assert gpu_seconds(told.run()) == held
    assert ("elapsed_disagrees" in told.run().marks) == (end == "2026-03-02T12:00:00")


ZONES = [
    # sonar 430: 22:16 in September is summer time in Berlin, +02:00
    ("A22-summer-time-in-september", "2025-09-07T22:16:06", "2025-09-07T23:16:06", BERLIN, "2025-09-07T20:16:06+00:00"),
    ("A22-winter-time-in-december", "2025-12-07T22:16:06", "2025-12-07T23:16:06", BERLIN, "2025-12-07T21:16:06+00:00"),
    ("A22-the-same-clock-read-as-utc", "2025-09-07T22:16:06", "2025-09-07T23:16:06", UTC, "2025-09-07T22:16:06+00:00"),
    ("A23-offsets-in-the-stamps", "2025-09-07T22:16:06+0200", "2025-09-07T23:16:06+0200", PLAIN,
     "2025-09-07T20:16:06+00:00"),
    ("A23-epochs", "1757276166", "1757279766", PLAIN, "2025-09-07T20:16:06+00:00"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "end", "options", "instant"), [case[1:] for case in ZONES], ids=[case[0] for case in ZONES]
)
def test_a_stamp_is_the_instant_that_its_zone_says(
    tmp_path: Path, start: str, end: str, options: ReadOptions, instant: str
) -> None:
    run = read_case(tmp_path, "jobs.txt", sacct(job(start=start, end=end, submit=start)), options).run()
    assert (run.start_us, run.marks, gpu_seconds(run)) == (at(instant), (), 7200)


DISAGREE = [
    ("A22-an-hour-off", "2026-03-02T11:00:00", "7200", True),
    ("A22-two-seconds-off", "2026-03-02T11:00:00", "3602", True),
    ("A22-one-second-off", "2026-03-02T11:00:00", "3601", False),
]


@pytest.mark.parametrize(("end", "elapsed", "marked"), [case[1:] for case in DISAGREE], ids=[c[0] for c in DISAGREE])
def test_an_elapsed_time_that_disagrees_is_flagged(tmp_path: Path, end: str, elapsed: str, marked: bool) -> None:
    run = read_case(tmp_path, "jobs.txt", sacct(job(end=end, elapsed=elapsed)), UTC).run()
    assert (run.marks, gpu_seconds(run)) == (("elapsed_disagrees",) if marked else (), 7200)


TIMES = '"time":{"submission":1772442000,"eligible":1772442000,"start":1772445600,"end":1772449200,"elapsed":3600}'
ELAPSED = TIMES.replace("3600", '{"set":true,"infinite":false,"number":3600}')
TRES = '[{"type":"cpu","name":"","id":1,"count":8},{"type":"gres","name":"gpu","id":1001,"count":2}]'
JSON_SHAPES = [
    # jobperf 4, airavata-custos 534, slurm's change logs
    ("A31-plain-values-of-old-releases",
     f'{{"jobs":[{{"job_id":7,"account":"acme","state":{{"current":"COMPLETED","reason":"None"}},"nodes":"g[1-2]",{TIMES},'
     f'"tres":{{"allocated":{TRES},"requested":{TRES}}},"array":{{"job_id":0,"task_id":null}}}}]}}'),
    ("A31-structs-and-lists-of-new-releases",
     f'{{"meta":{{"slurm":{{"release":"24.11"}}}},"jobs":[{{"job_id":7,"account":"acme","state":{{"current":["COMPLETED"],'
     f'"reason":"None"}},"nodes":"g1,g2",{ELAPSED},'
     f'"array":{{"job_id":0,"task_id":{{"set":false,"infinite":false,"number":0}}}},"het":null,"comment":null,'
     f'"tres":{{"allocated":{TRES},"requested":null}}}}]}}'),
    ("A31-nodes-as-an-object",
     '{"jobs":[{"job_id":7,"account":"acme","job_state":["COMPLETED"],"job_resources":{"nodes":{"list":"g1,g2","count":2}},'
     '"nodes":"g1,g2","submit_time":{"set":true,"infinite":false,"number":1772442000},'
     '"start_time":{"set":true,"infinite":false,"number":1772445600},'
     '"end_time":{"set":true,"infinite":false,"number":1772449200},"tres_alloc_str":"cpu=8,gres/gpu=2,node=2"}]}'),
    ("A31-numbers-in-quotes-and-no-array",
     '{"jobs":[{"job_id":"7","account":"acme","state":"COMPLETED","nodes":{"nodes":"g[1-2]"},"time":{"start":"1772445600",'
     f'"end":"1772449200","elapsed":"3600"}},"tres":{{"allocated":{TRES}}}}}]}}'),
]  # fmt: skip


@pytest.mark.parametrize("text", [case[1] for case in JSON_SHAPES], ids=[case[0] for case in JSON_SHAPES])
def test_every_shape_of_a_json_job_is_the_same_run(tmp_path: Path, text: str) -> None:
    told = read_case(tmp_path, "jobs.json", text)
    run = told.run()
    assert told.taken_as == "sacct-json"
    assert (run.job, run.tenant, run.state, run.nodes) == ("7", "acme", "COMPLETED", ("g1", "g2"))
    assert (run.start_us, run.end_us, gpu_seconds(run)) == (1772445600_000000, 1772449200_000000, 7200)


def test_a_waiting_request_in_squeue_json_is_no_account_without_gpus(tmp_path: Path) -> None:
    """A11: what was asked per node says nothing; what is allocated does."""
    text = (
        '{"jobs":[{"job_id":7,"account":"acme","job_state":["RUNNING"],"tres_per_node":"N/A","nodes":"g1",'
        '"start_time":{"set":true,"number":1772445600},"end_time":{"set":true,"number":1772999999},'
        '"submit_time":{"set":true,"number":1772445000},"tres_alloc_str":"cpu=2,mem=512M,node=1,gres/gpu=1"}]}'
    )
    run = read_case(tmp_path, "squeue.json", text).run()
    assert (run.tenant, run.gpus, run.start_us, run.end_us) == ("acme", 1, 1772445600_000000, None)


def audited_job(number: str, start: int, end: int | None, state: str, gpus: int = 8, tenant: str = "acme") -> str:
    """A row of 10 February 2026 in hours of the day."""
    stop = "Unknown" if end is None else f"2026-02-10T{end:02d}:00:00"
    return (
        f"{number}|hpc|{tenant}|2026-02-10T00:00:00|2026-02-10T{start:02d}:00:00|{stop}|"
        f"{'' if end is None else (end - start) * 3600}|{state}|gres/gpu={gpus}|n1"
    )


AUDITED = "JobIDRaw|Cluster|Account|Submit|Start|End|ElapsedRaw|State|AllocTRES|NodeList"


def test_a_requeued_job_sent_twice_is_two_runs_each_once(tmp_path: Path) -> None:
    """A18 (cc-backend 30): one id in one cluster, two starts; a later dump repeats the first and ends the second."""
    first = sacct(audited_job("5", 0, 2, "REQUEUED"), audited_job("5", 3, None, "RUNNING"), header=AUDITED)
    later = sacct(audited_job("5", 0, 2, "REQUEUED"), audited_job("5", 3, 4, "COMPLETED"), header=AUDITED)
    files = {"1.txt": first, "2.txt": later, "f.csv": fleet(machine(cluster="hpc")), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert hours(audited) == {"installed": 192, "held": 24, "free": 168}
    assert own_costs(audited) == {"acme": Decimal(24)}


def test_ids_of_two_clusters_are_two_jobs(tmp_path: Path) -> None:
    """A18 in another shape."""
    row = audited_job("5", 0, 2, "COMPLETED")
    text = sacct(row, row.replace("hpc", "ai").replace("n1", "n2"), header=AUDITED)
    audited = audit_texts(tmp_path, {"1.txt": text, "costs.yaml": costs()}, DAY, "UTC")
    assert own_costs(audited) == {"acme": Decimal(32)}


def test_a_runaway_job_ends_when_its_node_was_down(tmp_path: Path) -> None:
    """A33: its end stays unknown for ever; the node was down from 5:00, and later ran somebody else's job."""
    text = sacct(
        audited_job("5", 0, None, "RUNNING"), audited_job("6", 10, 12, "COMPLETED", tenant="bravo"), header=AUDITED
    )
    down = events(("n1", 5, 8, "DOWN")).replace("c|n1", "hpc|n1")
    files = {"1.txt": text, "e.txt": down, "f.csv": fleet(machine(cluster="hpc")), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert own_costs(audited) == {"acme": Decimal(40), "bravo": Decimal(16)}
    assert hours(audited) == {"installed": 192, "held": 56, "unavailable": 24, "free": 112}
    assert found(audited)["hold_on_failed_node"] == 8
    assert unexplained(audited) == []


OVERLAPS = [
    # slurm's change logs of 25.05 and 23.11: two jobs were given one GPU, or a GPU and a shard of it
    ("A34-two-jobs-on-all-gpus-of-a-node", 8, 8, {"acme": Decimal(32), "bravo": Decimal(32)}),
    # four GPUs are shared alike, the other four are the second job's alone
    ("A34-four-and-eight-of-eight", 4, 8, {"acme": Decimal(16), "bravo": Decimal(48)}),
]


@pytest.mark.parametrize(("first", "second", "owed"), [case[1:] for case in OVERLAPS], ids=[c[0] for c in OVERLAPS])
def test_two_claims_on_one_gpu_are_never_more_than_the_gpu(
    tmp_path: Path, first: int, second: int, owed: dict[str, Decimal]
) -> None:
    text = sacct(
        audited_job("5", 0, 8, "COMPLETED", first), audited_job("6", 0, 8, "COMPLETED", second, "bravo"), header=AUDITED
    )
    files = {"1.txt": text, "f.csv": fleet(machine(cluster="hpc")), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert hours(audited) == {"installed": 192, "held": 64, "free": 128}
    assert sum(own_costs(audited).values()) == 64
    assert own_costs(audited) == owed
    assert "overlap" in found(audited)


RESIZED = [
    # gpustack 6054, recomputed: 30 minutes of four and 20 of one; 10 of one and 25 of four; half an hour of an A100, then
    # 20 minutes of an H100
    ("resized-down", [("00:00:00", "00:30:00", "1800", "gres/gpu=4"), ("00:30:00", "00:50:00", "1200", "gres/gpu=1")],
     Fraction(7, 3)),
    ("resized-up", [("00:00:00", "00:10:00", "600", "gres/gpu=1"), ("00:10:00", "00:35:00", "1500", "gres/gpu=4")],
     Fraction(11, 6)),
    ("resized-to-another-model",
     [("00:00:00", "00:30:00", "1800", "gres/gpu:a100=1"), ("00:30:00", "00:50:00", "1200", "gres/gpu:h100=1")],
     Fraction(5, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "gpu_hours"), [case[1:] for case in RESIZED], ids=[case[0] for case in RESIZED])
def test_a_job_resized_within_an_hour_holds_what_it_had_when(
    tmp_path: Path, parts: list[tuple[str, str, str, str]], gpu_hours: Fraction
) -> None:
    rows = [
        f"5|hpc|acme|2026-02-10T00:00:00|2026-02-10T{start}|2026-02-10T{end}|{length}|"
        f"{'RESIZING' if number < len(parts) else 'COMPLETED'}|{tres}|n1"
        for number, (start, end, length, tres) in enumerate(parts, 1)
    ]
    files = {"1.txt": sacct(*rows, header=AUDITED), "costs.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY, "UTC")
    assert abs(hours(audited)["held"] - gpu_hours) < Fraction(1, 10**6)
    assert round(own_costs(audited)["acme"], 9) == round(Decimal(gpu_hours.numerator) / gpu_hours.denominator, 9)


def test_an_hour_is_an_hour_whenever_it_starts(tmp_path: Path) -> None:
    """gpustack 5710: 3,600 s whatever the second of its start is."""
    rows = [
        f"{second}|hpc|acme|2026-02-10T00:00:00|2026-02-10T01:00:{second:02d}|2026-02-10T02:00:{second:02d}|3600|COMPLETED|"
        f"gres/gpu=1|n{second}"
        for second in range(60)
    ]
    audited = audit_texts(tmp_path, {"1.txt": sacct(*rows, header=AUDITED), "costs.yaml": costs()}, DAY, "UTC")
    assert (hours(audited)["held"], own_costs(audited)) == (60, {"acme": Decimal(60)})


def test_every_case_has_a_test_or_a_reason() -> None:
    tables = (CASES, REFUSED, SUSPENDED, ZONES, DISAGREE, JSON_SHAPES, OVERLAPS)
    tested = ids_of(*(str(row[0]) for table in tables for row in table)) | {"A18"}
    assert tested | NOT_ABOUT_FILES.keys() == ALL_CASES
    assert not tested & NOT_ABOUT_FILES.keys()

"""sacct rows: what each column says of a run, in every form that clusters write it."""

from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.slurm_run import held_us

from tests.sacct_reading import S
from tests.sacct_sample import PENDING, T0, USUAL, one, read, row


def test_a_row_is_a_run_with_all_its_facts(tmp_path: Path) -> None:
    assert one(tmp_path) == UsageRun(
        line=2, cluster="alpha", job="123", run_key=f"from {T0 + 60}", attempt=0, tenant="acme", project="proj",
        user="ann", model_tag="", plan="", partition="gpu", sku="", nodes=("gpu01",), device="", gpu_model="a100",
        gpus=2, share_num=1, share_den=1, submit_us=T0 * S, eligible_us=T0 * S, start_us=(T0 + 60) * S,
        end_us=(T0 + 3660) * S, suspended_us=0, state="COMPLETED", tokens=None, exclusive=False, cpus=8,
        memory_bytes=64 << 30, limit_us=None, waits_for="", marks=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "word"), [("CANCELLED by 123", "CANCELLED"), ("NODE_FAIL", "NODE_FAIL"), ("OUT_OF_ME+", "OUT_OF_MEMORY")]
)
def test_states_are_words(tmp_path: Path, state: str, word: str) -> None:
    assert one(tmp_path, State=state).state == word


def test_a_state_that_nobody_knows_is_kept_and_marked(tmp_path: Path) -> None:
    run = one(tmp_path, State="DREAMING")
    assert (run.state, run.marks, held_us(run)) == ("DREAMING", ("unknown_state",), 3600 * S)


def test_cancelled_before_start_holds_nothing(tmp_path: Path) -> None:
    run = one(tmp_path, **PENDING | {"State": "CANCELLED by 1060117917", "Start": "None", "End": f"{T0 + 9}"})
    assert (run.state, run.start_us, run.end_us, held_us(run), run.nodes) == ("CANCELLED", None, (T0 + 9) * S, 0, ())
    run = one(tmp_path, **PENDING | {"State": "CANCELLED", "Start": f"{T0 + 9}", "End": f"{T0 + 9}"})
    assert (run.start_us, run.end_us) == (None, (T0 + 9) * S)


def test_a_limit_that_is_the_partitions_is_unknown_and_breaks_nothing(tmp_path: Path) -> None:
    header = "JobID|State|Start|End|Timelimit|TimelimitRaw|Elapsed"
    lines = [
        f"1|CANCELLED by 5|None|{T0}|Partition_Limit|Partition_Limit|00:00:00",
        f"2|COMPLETED|{T0}|{T0 + 60}|01:30:00|90|00:01:00",
        f"3|COMPLETED|{T0}|{T0 + 60}|UNLIMITED|UNLIMITED|00:01:00",
    ]
    assert [run.limit_us for run in read(tmp_path, *lines, header=header).runs] == [None, 5400 * S, None]


def test_a_pending_job_is_open_asks_for_gpus_and_says_what_it_waits_for(tmp_path: Path) -> None:
    header = "JobID|State|Start|End|Elapsed|ReqTRES|AllocTRES|Reason|NodeList"
    lines = [
        "1|PENDING|Unknown|Unknown|00:00:00|cpu=4,gres/gpu=2,mem=8G||Priority|None assigned",
        f"2|PENDING|{T0 + 500}|Unknown|00:00:00|cpu=4,gres/gpu:h100=8||Dependency|None assigned",
    ]
    runs = read(tmp_path, *lines, header=header).runs
    assert [(run.start_us, run.end_us, run.gpus, run.gpu_model, run.waits_for, run.marks) for run in runs] == [
        (None, None, 2, "", "", ()), (None, None, 8, "h100", "Dependency", ())
    ]  # fmt: skip
    assert (runs[0].cpus, runs[0].memory_bytes) == (4, 8 << 30)


def test_a_running_job_is_open(tmp_path: Path) -> None:
    run = one(tmp_path, State="RUNNING", End="Unknown")
    assert (run.start_us, run.end_us, run.marks) == ((T0 + 60) * S, None, ())


def test_an_end_that_was_lost_comes_from_elapsed(tmp_path: Path) -> None:
    run = one(tmp_path, State="COMPLETED", End="Unknown", Suspended="00:01:00")
    assert (held_us(run), run.marks) == (3600 * S, ("end_from_elapsed",))
    assert run.end_us == (T0 + 60 + 3660) * S


def test_suspended_time_is_inside_and_not_held(tmp_path: Path) -> None:
    run = one(tmp_path, ElapsedRaw="3000", Suspended="00:10:00")
    assert (run.suspended_us, held_us(run), run.marks) == (600 * S, 3000 * S, ())


@pytest.mark.parametrize(
    ("elapsed", "suspended", "marks"),
    [
        ("3600", "00:00:00", ()),
        ("3599", "00:00:00", ()),
        ("3601", "00:00:00", ()),
        ("3598", "00:00:00", ("elapsed_disagrees",)),
        ("7200", "00:00:00", ("elapsed_disagrees",)),
        ("0", "2-00:00:00", ("elapsed_disagrees", "suspended_too_long")),
    ],
)
def test_elapsed_is_checked_to_a_second(tmp_path: Path, elapsed: str, suspended: str, marks: tuple[str, ...]) -> None:
    assert one(tmp_path, ElapsedRaw=elapsed, Suspended=suspended).marks == marks


@pytest.mark.parametrize(
    ("elapsed", "held", "marks"),
    [
        ("3600", 3600, ()), ("3599", 3600, ()), ("2400", 2400, ("suspended_from_elapsed",)),
        ("7200", 3600, ("elapsed_disagrees",)), ("0", 3600, ("elapsed_disagrees",)), ("", 3600, ()),
    ],
)  # fmt: skip
def test_without_a_column_suspended_what_elapsed_leaves_out_was_suspended(
    tmp_path: Path, elapsed: str, held: int, marks: tuple[str, ...]
) -> None:
    header = "JobID|State|Start|End|ElapsedRaw|NodeList"
    run = read(tmp_path, f"7|COMPLETED|{T0}|{T0 + 3600}|{elapsed}|n1", header=header).run()
    assert (held_us(run), run.marks) == (held * S, marks)


def test_a_run_that_ends_before_it_starts_is_a_reject(tmp_path: Path) -> None:
    read_back = read(tmp_path, row(Start="2026-10-01T12:00:00", End="2026-10-01T11:00:00"))
    assert [(column, value, code) for _, column, value, code in read_back.rejected] == [
        ("End", "2026-10-01T11:00:00", "end_before_start")
    ]


def test_the_repeated_hour_is_settled_by_elapsed_or_rejected(tmp_path: Path) -> None:
    before = {"Submit": "2025-10-25T12:00:00", "Eligible": "2025-10-25T12:00:00"}
    start, end = "2025-10-26T02:30:00", "2025-10-26T04:30:00"
    runs = read(
        tmp_path,
        row(**before, JobID="1", Start=start, End=end, ElapsedRaw="10800"),
        row(**before, JobID="2", Start=start, End=end, ElapsedRaw="7200"),
        row(**before, JobID="3", Start=start, End=end, ElapsedRaw="7000", Suspended="00:03:20"),
    ).runs
    assert [(run.start_us, held_us(run)) for run in runs] == [
        (1_761_438_600 * S, 10_800 * S), (1_761_442_200 * S, 7_200 * S), (1_761_442_200 * S, 7_000 * S)
    ]  # fmt: skip
    unsettled = read(
        tmp_path,
        row(**before, Start=start, End=end, ElapsedRaw=""),
        row(**before, Start=start, End="Unknown", State="RUNNING"),
        row(**before, Start="2026-03-29T02:30:00", End="2026-03-29T05:30:00"),
    )
    assert [(line, column, code) for line, column, _, code in unsettled.rejected] == [
        (2, "Start", "ambiguous_local_time"),
        (3, "Start", "ambiguous_local_time"),
        (4, "Start", "nonexistent_local_time"),
    ]
    assert unsettled.runs == []


def test_a_submit_time_that_came_twice_is_unknown_and_moves_no_usage(tmp_path: Path) -> None:
    run = one(tmp_path, Submit="2025-10-26T02:30:00", Start="2025-10-26T06:00:00", End="2025-10-26T07:00:00")
    assert (run.submit_us, held_us(run), run.marks) == (None, 3600 * S, ("submit_ambiguous",))


def test_elapsed_in_the_wrong_zone_is_marked(tmp_path: Path) -> None:
    run = one(tmp_path, Start="2025-10-26T01:30:00", End="2025-10-26T04:30:00", ElapsedRaw="10800")
    assert (held_us(run), run.marks) == (4 * 3600 * S, ("elapsed_disagrees",))


@pytest.mark.parametrize(
    ("tres", "holds"),
    [
        ("cpu=1,gres/gpu=1,gres/gpu:a100=1", [("a100", 1, 1, 1)]),
        ("cpu=1,gres/gpu:a100=2", [("a100", 2, 1, 1)]),
        ("cpu=1,gres/gpu=5,gres/gpu:a100=1,gres/gpu:v100=4", [("a100", 1, 1, 1), ("v100", 4, 1, 1)]),
        ("cpu=1,gres/gpu=2,gres/gpu:a100_3g.20gb=2", [("a100", 2, 3, 7)]),
        (
            "cpu=1,gres/gpu=3,gres/gpu:a100_3g.20gb=1,gres/gpu:a100_1g.5gb=2",
            [("a100", 1, 3, 7), ("a100", 2, 1, 7)],
        ),
        ("cpu=1,mem=1G", [("", 0, 1, 1)]),
    ],
)
def test_gpus_by_model_and_share(tmp_path: Path, tres: str, holds: list[tuple[str, int, int, int]]) -> None:
    runs = read(tmp_path, row(AllocTRES=tres), row(JobID="9", JobIDRaw="9")).runs[:-1]
    assert [(run.gpu_model, run.gpus, run.share_num, run.share_den) for run in runs] == holds
    assert len({run.run_key for run in runs}) == len(holds)
    assert sum(run.cpus or 0 for run in runs) == 1


def test_no_gpu_key_means_none_only_where_the_cluster_lists_gpus(tmp_path: Path) -> None:
    bare = "billing=192,cpu=192,mem=800G"
    runs = read(
        tmp_path,
        row(JobID="1", AllocTRES=bare),
        row(JobID="2"),
        row(JobID="3", Cluster="beta", AllocTRES=bare),
        row(JobID="4", Cluster="beta", AllocTRES=bare, JobName="--tres=gres/gpu:2"),
    ).runs
    assert [(run.cluster, run.gpus) for run in runs] == [("alpha", 0), ("alpha", 2), ("beta", None), ("beta", None)]


@pytest.mark.parametrize(
    ("column", "text", "model", "gpus"),
    [
        ("GresUsed", "gpu:h100:5(IDX:0-4)", "h100", 5),
        ("AllocGRES", "gpu:2", "", 2),
        ("AllocGRES", "gpu:a100:2(IDX:0-1)", "a100", 2),
        ("AllocGRES", "gpu:(null):2", "", 2),
        ("ReqGRES", "gpu:4", "", 4),
        ("ReqTRES", "cpu=1,gres/gpu=3", "", 3),
    ],
)
def test_gpus_that_only_another_column_names_are_taken_and_marked(
    tmp_path: Path, column: str, text: str, model: str, gpus: int
) -> None:
    line = f"7|COMPLETED|{T0}|{T0 + 5}|cpu=192,mem=800G|{text}"
    run = read(tmp_path, line, header=f"JobID|State|Start|End|AllocTRES|{column}").run()
    assert (run.gpu_model, run.gpus, run.marks) == (model, gpus, ("gpus_from_gres_used",))


def test_shards_are_an_unknown_part(tmp_path: Path) -> None:
    run = one(tmp_path, AllocTRES="cpu=1,gres/shard=5")
    assert (run.gpus, run.marks) == (None, ("shard_share_unknown",))


def test_every_run_of_a_requeued_job_counts(tmp_path: Path) -> None:
    elapsed = [3889, 4473, 6122, 2153]
    starts = [T0 + 10_000 * index for index in range(5)]
    rows = [
        row(Submit=f"{start}", Start=f"{start + 5}", End=f"{start + 5 + held}", ElapsedRaw=f"{held}", State=state)
        for start, held, state in zip(starts, [*elapsed, 60], [*["REQUEUED"] * 4, "COMPLETED"], strict=True)
    ]
    runs = read(tmp_path, *rows).runs
    assert sum(held_us(run) or 0 for run in runs[:4]) == 16_637 * S
    assert len({run.run_key for run in runs}) == 5
    assert {run.job for run in runs} == {"123"}


def test_restarts_are_the_attempt_and_a_sluid_is_a_run_that_never_got_nodes(tmp_path: Path) -> None:
    header = "JobIDRaw|SLUID|Restarts|State|Start|End"
    run = read(tmp_path, f"67108865|sEKNKTV3WPV500|2|COMPLETED|{T0}|{T0 + 5}", header=header).run()
    assert (run.job, run.attempt) == ("67108865", 2)
    assert read(tmp_path, "7|sEKNKTV3WPV500|0|PENDING|Unknown|Unknown", header=header).run().run_key == "sEKNKTV3WPV500"


@pytest.mark.parametrize(
    "header",
    [
        "JobIDRaw|JobID|Cluster|Submit|Start|End|State|AllocTRES",
        "JobID|Cluster|Start|End|State|AllocTRES",
        "JobID|Cluster|SLUID|Submit|Start|End|State|AllocTRES",
        "JobIDRaw|Cluster|Start|ElapsedRaw|State|AllocTRES",
        "AllocTRES|State|ElapsedRaw|Start|Cluster|JobID",
    ],
)
def test_a_run_has_one_key_whatever_columns_an_export_has(tmp_path: Path, header: str) -> None:
    cells = {**USUAL, "SLUID": "sEKNKTV3WPV500"}
    found = read(tmp_path, "|".join(cells[name] for name in header.split("|")), header=header).run()
    usual = one(tmp_path)
    assert (found.cluster, found.job, found.run_key) == (usual.cluster, usual.job, usual.run_key)
    again = "|".join({**cells, "Start": f"{T0 + 90}"}[name] for name in header.split("|"))
    assert read(tmp_path, again, header=header).run().run_key != usual.run_key


def test_array_tasks_and_het_components_are_jobs_of_their_own(tmp_path: Path) -> None:
    lines = [
        row(JobID="36_3", JobIDRaw="36"),
        row(JobID="36_1", JobIDRaw="37"),
        row(JobID="93+0", JobIDRaw="93"),
        row(JobID="93+1", JobIDRaw="94"),
    ]
    runs = read(tmp_path, *lines).runs
    assert [run.job for run in runs] == ["36_3", "36_1", "93+0", "93+1"]


def test_a_pending_array_record_is_one_waiting_run_per_task(tmp_path: Path) -> None:
    read_back = read(tmp_path, row(**PENDING, JobID="123_[1-3,7%2]", ReqTRES="cpu=4,gres/gpu=1", AllocTRES=""))
    assert [(run.job, run.gpus, run.start_us) for run in read_back.runs] == [
        (f"123_{task}", 1, None) for task in (1, 2, 3, 7)
    ]
    assert len({run.run_key for run in read_back.runs}) == 4
    cut = read(tmp_path, row(**PENDING, JobID="123_[1,3,5,...]")).run()
    assert (cut.job, cut.marks) == ("123_[1,3,5,...]", ("array_tasks_cut",))


def test_memory_that_no_parser_knows_breaks_no_row(tmp_path: Path) -> None:
    header = "JobID|ReqMem|State|Start|End"
    sizes = ["0n", "100Mc", "3000Mn", "48000Mn", "2T", "2147486648Mn", "100Mcd"]
    lines = [f"{at}|{size}|COMPLETED|{T0}|{T0 + 5}" for at, size in enumerate(sizes, 1)]
    read_back = read(tmp_path, *lines, header=header)
    assert (len(read_back.runs), read_back.rejected) == (len(sizes), [])


def test_a_host_list_that_was_cut_is_marked(tmp_path: Path) -> None:
    run = one(tmp_path, NodeList="n[01-04,+")
    assert (run.nodes, run.marks, run.gpus) == ((), ("nodes_unreadable",), 2)


def test_columns_that_say_plan_and_exclusivity(tmp_path: Path) -> None:
    header = "JobID|State|Start|End|QOS|OverSubscribe"
    runs = read(
        tmp_path, f"1|COMPLETED|{T0}|{T0}|gpu-preemptible|NO", f"2|COMPLETED|{T0}|{T0}|normal|OK", header=header
    ).runs
    assert [(run.plan, run.exclusive) for run in runs] == [("spot", True), ("", False)]


def test_a_cluster_can_be_told(tmp_path: Path) -> None:
    run = read(
        tmp_path, f"1|COMPLETED|{T0}|{T0}", header="JobID|State|Start|End", options=ReadOptions(cluster="gamma")
    ).run()
    assert run.cluster == "gamma"


def test_energy_in_the_tres_is_no_gpu_and_no_cpu(tmp_path: Path) -> None:
    texts = [
        "cpu=8,energy=5,gres/gpu=2,mem=1G",
        "energy=77,cpu=8,gres/gpu=2,mem=1G",
        "cpu=8,gres/gpu=2,mem=1G,energy=9",
    ]
    runs = read(
        tmp_path, *(row(JobIDRaw=f"{at}", JobID=f"{at}", AllocTRES=text) for at, text in enumerate(texts, 1))
    ).runs
    assert {(run.cpus, run.gpus, run.memory_bytes, run.marks) for run in runs} == {(8, 2, 1 << 30, ())}

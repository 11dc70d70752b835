"""`sacct -P` as the live watcher reads it: what runs here, since when, and what is no run at all."""

from pathlib import Path

import pytest
from wattledger_agent.watchers.slurm_fact import Document, Fact
from wattledger_agent.watchers.slurm_sacct import parse_sacct
from wattledger_agent.watchers.slurm_site import SlurmSite

from tests.slurm_watch_case import HEADER, NOW_US, RUNNING, SITE, T0, S, sacct_file, sacct_row

MAIL = (
    "JobId|User|Group|Partition|Start|End|State|ReqMem|MaxRSS|NCPUS|TotalCPU|NNodes|WorkDir|Elapsed|ExitCode|Comment|"
    "Cluster|NodeList|TimeLimit|TimelimitRaw|JobIdRaw|JobName"
)
PENDING = {
    "State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0", "NodeList": "None assigned",
    "AllocTRES": "",
}  # fmt: skip


def read(data: bytes, site: SlurmSite = SITE) -> Document:
    return parse_sacct(data, site, NOW_US)


def one(**changed: str) -> Fact:
    document = read(sacct_file(sacct_row(**changed)))
    assert document.findings == ()
    (fact,) = document.facts
    return fact


def test_a_running_job_has_a_start_and_no_end() -> None:
    fact = one(**RUNNING, SLUID="sEKNKTV3WPV500")
    assert (fact.job, fact.attempt, fact.sluid) == ("123", 0, "sEKNKTV3WPV500")
    assert (fact.start_us, fact.end_us, fact.state) == ((T0 + 60) * S, None, "RUNNING")
    assert (fact.gpus, fact.cpus, fact.memory_bytes) == (2, 8, 64 << 30)
    assert (fact.account, fact.user, fact.cluster, fact.at_us) == ("acme", "ann", "alpha", NOW_US)


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "COMPLETING"])
def test_an_end_that_comes_with_an_open_state_is_only_expected(state: str) -> None:
    assert one(State=state, End=f"{T0 + 90_000}").end_us is None


def test_a_finished_job_has_both_ends() -> None:
    fact = one()
    assert (fact.start_us, fact.end_us, fact.state) == ((T0 + 60) * S, (T0 + 3660) * S, "COMPLETED")


@pytest.mark.parametrize(
    ("case", "row"),
    [
        ("A1", {"State": "CANCELLED by 1060117917", "Start": "None", "NodeList": "None assigned", "AllocTRES": ""}),
        ("A1 without a node", {"State": "CANCELLED by 0", "Start": "Unknown", "NodeList": "None assigned"}),
        ("A2", PENDING),
        ("A2 with the start that backfill expects", {**PENDING, "Start": f"{T0 + 9000}"}),
        ("A7", {**PENDING, "JobID": "123456_[9201-10000%500]"}),
        ("A7 cut", {**PENDING, "JobID": "123456_[1,3,5,7,9,11,...]"}),
        ("A16", {"JobID": "123.batch", "JobIDRaw": "123.batch"}),
        ("A16", {"JobID": "123.extern", "JobIDRaw": "123.extern"}),
        ("A16", {"JobID": "123.interactive", "JobIDRaw": "123.interactive"}),
        ("A16", {"JobID": "123_4.0", "JobIDRaw": "127.0"}),
        ("another node", {"NodeList": "gpu[02-09]"}),
        ("another cluster", {"Cluster": "beta"}),
    ],
)
def test_a_row_that_is_no_run_here_is_left_out_without_a_word(case: str, row: dict[str, str]) -> None:
    assert read(sacct_file(sacct_row(**row))) == Document((), ()), case


def test_a1_the_row_as_reported_gives_nothing_and_no_error() -> None:
    row = (
        "31114|u|grp|part|None|2022-11-01T12:58:39|CANCELLED by 1060117917|32G||2|00:00:00|1|/home/u|00:00:00|0:0||"
        "hpc|None assigned|Partition_Limit|Partition_Limit|31114|name"
    )
    assert read(f"{MAIL}\n{row}\n".encode(), SlurmSite("gpu01")) == Document((), ())


@pytest.mark.parametrize(
    ("case", "row", "job"),
    [
        ("A6 a component is a job of its own, by its raw id", {"JobID": "9380968+1", "JobIDRaw": "9380969"}, "9380969"),
        ("an array task, by its raw id", {"JobID": "36_3", "JobIDRaw": "36"}, "36"),
        ("federated", {"JobID": "67108865", "JobIDRaw": "67108865"}, "67108865"),
    ],
)
def test_a_job_goes_by_its_raw_id_as_text(case: str, row: dict[str, str], job: str) -> None:
    assert one(**row).job == job, case


def test_a6_without_raw_ids_the_label_is_the_job() -> None:
    header = "JobID|Start|End|ElapsedRaw|State|NodeList"
    rows = [f"9380968+{n}|{T0}|{T0 + 60}|60|COMPLETED|gpu01" for n in (0, 1)]
    assert [fact.job for fact in read("\n".join([header, *rows, ""]).encode()).facts] == ["9380968+0", "9380968+1"]


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("A4", 'srun bash -c "echo hello &&\necho goodbye"'),
        ("A4 blank lines and delimiters", "a|b\n\nsrun x | tee y\nlast"),
        ("A4 a line like a number", "first\n7 is my\nlucky number"),
        ("A28", "aàb"),
        ("a tab and a unit separator", "a\tb\x1fc"),
    ],
)
def test_a_name_with_anything_in_it_hides_no_row(case: str, name: str) -> None:
    data = sacct_file(sacct_row(JobName=name, JobIDRaw="7"), sacct_row(JobIDRaw="8"))
    document = read(data)
    assert [fact.job for fact in document.facts] == ["7", "8"], case
    assert document.findings == ()


def test_a4_a_newline_in_a_column_before_the_state() -> None:
    header = "JobID|Start|End|ElapsedRaw|SubmitLine|State|NodeList|AllocTRES"
    rows = (
        f'7|{T0}|{T0 + 60}|60|srun bash -c "echo hello &&\necho goodbye"|COMPLETED|gpu01|gres/gpu=2\n'
        f"8|{T0}|{T0 + 30}|30|sbatch a|b|COMPLETED|gpu01|gres/gpu=2\n"
    )
    document = read(f"{header}\n{rows}".encode())
    assert [(fact.job, fact.gpus, (fact.end_us or 0) // S - T0) for fact in document.facts] == [
        ("7", 2, 60),
        ("8", 2, 30),
    ]


def test_a28_latin_1_spoils_no_other_row() -> None:
    data = sacct_file(sacct_row(JobIDRaw="7", JobName="XX")).replace(b"XX", b"f\xfcr")
    data += sacct_file(sacct_row(JobIDRaw="8", Account="aàb"))
    document = read(data)
    assert [(fact.job, fact.account) for fact in document.facts] == [("7", "acme"), ("8", "aàb")]


@pytest.mark.parametrize(
    ("case", "tres", "gpus", "kind", "profile"),
    [
        ("A9", "cpu=10,gres/gpu=1,gres/gpu:a100=1,node=1", 1, "a100", ""),
        ("A9", "cpu=10,gres/gpu:a100=2,gres/gpu:v100=2,node=1", 4, "", ""),
        ("A12", "cpu=1,gres/gpu:titanrtx=0,node=1", 0, "titanrtx", ""),
        ("MIG", "cpu=1,gres/gpu=2,gres/gpu:a100_3g.20gb=2,node=1", 2, "a100_3g.20gb", "3g.20gb"),
        ("shards", "cpu=1,gres/shard=4,node=1", None, "", ""),
        ("A11 cut", "cpu=2,mem=512M,node=", None, "", ""),
    ],
)  # fmt: skip
def test_tres_say_how_many_gpus(case: str, tres: str, gpus: int | None, kind: str, profile: str) -> None:
    fact = one(AllocTRES=tres)
    assert (fact.gpus, fact.gpu_kind, fact.requested_profile) == (gpus, kind, profile), case


def test_a_job_of_several_nodes_does_not_say_what_it_took_of_this_one() -> None:
    fact = one(NodeList="gpu[01-02]", AllocTRES="cpu=16,gres/gpu=16,mem=128G,node=2", NNodes="2")
    assert (fact.gpus, fact.cpus, fact.memory_bytes) == (None, None, None)


def test_a10_a_cluster_that_does_not_track_gpus_says_nothing_of_them() -> None:
    assert one(AllocTRES="billing=192,cpu=192,mem=800G,node=1").gpus is None


def test_a10_where_other_rows_have_gpus_no_key_is_none() -> None:
    data = sacct_file(sacct_row(JobIDRaw="7", AllocTRES="cpu=4,mem=4G,node=1"), sacct_row(JobIDRaw="8"))
    assert [fact.gpus for fact in read(data).facts] == [0, 2]


def test_a10_the_gres_column_of_older_releases_tells() -> None:
    header = "JobID|Start|End|Elapsed|State|AllocTRES|GresUsed|NodeList"
    row = f"7|{T0}|{T0 + 3600}|01:00:00|COMPLETED|cpu=192,mem=800G,billing=192|gpu:h100:5(IDX:0-4)|gpu01"
    (fact,) = read(f"{header}\n{row}\n".encode()).facts
    assert (fact.gpus, fact.gpu_kind) == (5, "h100")


def test_a13_each_requeue_is_a_run_and_the_hours_are_their_sum() -> None:
    lengths, at, rows = [3889, 4473, 6122, 2153, 7200], T0 - 200_000, []
    for length in lengths:
        state = "COMPLETED" if length == 7200 else "REQUEUED"
        rows.append(sacct_row(Start=f"{at}", End=f"{at + length}", ElapsedRaw=f"{length}", State=state, Restarts=""))
        at += 30_000
    facts = read(sacct_file(*rows)).facts
    spans = [((fact.end_us or 0) - (fact.start_us or 0)) // S for fact in facts]
    assert (spans, sum(spans[:4])) == (lengths, 16_637)
    assert [fact.state for fact in facts] == ["REQUEUED"] * 4 + ["COMPLETED"]


def test_a15_a_node_failure_counts_once_though_its_step_has_no_exit_code() -> None:
    header = "State|JobID|Start|Elapsed|Suspended|End|ExitCode|NodeList"
    rows = [
        f"NODE_FAIL|12|{T0}|00:20:32|00:00:00|{T0 + 1232}|1:0|gpu01",
        f"CANCELLED|12.0|{T0}|00:20:32|00:00:00|{T0 + 1232}||gpu01",
    ]
    (fact,) = read("\n".join([header, *rows, ""]).encode()).facts
    assert ((fact.end_us or 0) - (fact.start_us or 0), fact.state) == (1232 * S, "NODE_FAIL")


def test_a22_a_time_that_came_twice_is_told_apart_by_the_elapsed_time_or_refused() -> None:
    berlin = SlurmSite("gpu01", zone="Europe/Berlin")
    row = {"Start": "2025-10-26T01:30:00", "End": "2025-10-26T02:30:00", "Cluster": ""}
    (fact,) = read(sacct_file(sacct_row(**row, ElapsedRaw="7200")), berlin).facts
    assert ((fact.end_us or 0) - (fact.start_us or 0)) // S == 7200
    document = read(sacct_file(sacct_row(**row, ElapsedRaw="")), berlin)
    assert ([one.reason for one in document.findings], document.facts) == (["ambiguous_local_time"], ())


def test_a23_local_time_without_a_zone_is_refused_and_says_what_to_do() -> None:
    document = read(sacct_file(sacct_row(Start="2025-09-07T22:16:06"), sacct_row(JobIDRaw="8")))
    (finding,) = document.findings
    assert finding.reason == "zone_needed"
    assert "job 123" in finding.detail and "TZ=UTC SLURM_TIME_FORMAT=%s" in finding.detail
    assert [fact.job for fact in document.facts] == ["8"]


@pytest.mark.parametrize("memory", ["0n", "100Mc", "3000Mn", "2T", "100Mcd"])
def test_a26_what_memory_was_asked_for_does_not_matter(memory: str) -> None:
    header = "JobID|ReqMem|Start|End|Elapsed|State|NodeList"
    row = f"7|{memory}|{T0}|{T0 + 60}|00:01:00|COMPLETED|gpu01"
    assert len(read(f"{header}\n{row}\n".encode()).facts) == 1


@pytest.mark.parametrize(
    "message",
    [
        "sacct: fatal: ReqGRES is deprecated, please use ReqTRES",
        "sacct: error: Start time requested is after end time",
        "slurmdbd: error: connection refused",
    ],
)
def test_a29_a_message_of_sacct_is_told(message: str) -> None:
    document = read(f"{message}\n".encode())
    assert [one.reason for one in document.findings] == ["sacct_message"]
    assert message in document.findings[0].detail
    assert not document.is_whole


def test_a33_a_row_of_no_length_is_seen_as_one() -> None:
    assert one(End=f"{T0 + 60}", ElapsedRaw="0", State="REQUEUED").is_of_no_length


def test_a_row_that_ends_without_saying_when_is_refused() -> None:
    document = read(sacct_file(sacct_row(State="FAILED", End="Unknown", ElapsedRaw="")))
    assert [one.reason for one in document.findings] == ["end_missing"]
    assert one(State="FAILED", End="Unknown").end_us == (T0 + 3660) * S
    document = read(sacct_file(sacct_row(End=f"{T0}")))
    assert [one.reason for one in document.findings] == ["end_before_start"]


def test_a_resize_goes_on_as_the_same_hold() -> None:
    first = sacct_row(State="RESIZING", End=f"{T0 + 600}", NodeList="gpu[01-04]", SLUID="s1", OriginalSLUID="s1")
    second = sacct_row(**RUNNING, Start=f"{T0 + 600}", SLUID="s2", OriginalSLUID="s1")
    (fact,) = read(sacct_file(first, second)).facts
    assert (fact.start_us, fact.end_us, fact.gpus) == ((T0 + 60) * S, None, 2)


def test_a_node_that_a_resize_gave_up_is_free_then() -> None:
    first = sacct_row(State="RESIZING", End=f"{T0 + 600}", NodeList="gpu[01-04]")
    second = sacct_row(**RUNNING, Start=f"{T0 + 600}", NodeList="gpu02")
    (fact,) = read(sacct_file(first, second)).facts
    assert (fact.end_us, fact.state) == ((T0 + 600) * S, "RESIZING")


@pytest.mark.parametrize("delimiter", ["|", "\x1f", "\t", "^", "@@"])
def test_any_delimiter_is_found_from_the_header(delimiter: str) -> None:
    data = sacct_file(sacct_row(), header=True).replace(b"|", delimiter.encode())
    assert [fact.job for fact in read(data).facts] == ["123"]


def test_the_recommended_export_needs_no_header_and_no_new_columns() -> None:
    newer = [HEADER.split("|").index(name) for name in ("Restarts", "SLUID", "OriginalSLUID")]
    cells = [cell for at, cell in enumerate(sacct_row().split("|")) if at not in newer]
    (fact,) = read(("|".join(cells) + "\n").encode()).facts
    assert (fact.job, fact.attempt, fact.gpus) == ("123", None, 2)
    (fact,) = read((sacct_row() + "|\n").encode()).facts
    assert fact.job == "123"


def test_a_dump_that_was_cut_in_the_middle_is_not_whole_and_not_complained_of() -> None:
    data = sacct_file(sacct_row(JobIDRaw="7"), sacct_row(JobIDRaw="8"))
    for size in range(len(sacct_row()) + 2, len(data) - 1, 7):
        document = read(data[:size])
        assert (document.findings, document.is_whole) == ((), False)
        assert document.facts[0].job == "7"


def test_a_broken_record_in_the_middle_hides_no_other() -> None:
    rows = [sacct_row(JobIDRaw="7"), sacct_row(JobIDRaw="8")[:120], sacct_row(JobIDRaw="9")]
    document = read(sacct_file(*rows))
    assert [fact.job for fact in document.facts] == ["7", "9"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("JobID|State|Start|End\n7|RUNNING|1790769600|Unknown\n", "column_missing"),
        ("some|other|table\n1|2|3\n", "unknown_layout"),
        ("       JobID      State      Start\n------------ ---------- -----\n", "unknown_layout"),
    ],
)
def test_a_table_that_cannot_serve_says_what_it_lacks(text: str, reason: str) -> None:
    document = read(text.encode())
    assert ([one.reason for one in document.findings], document.is_whole) == ([reason], False)


def test_no_finding_carries_what_people_wrote() -> None:
    document = read(sacct_file(sacct_row(JobName="secret-model", Start="####")))
    assert len(document.findings) == 1
    assert all(one.raw == b"" and "secret-model" not in one.detail for one in document.findings)


def test_the_real_dumps_are_read_without_a_failure() -> None:
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "slurm"
    if not folder.is_dir():
        pytest.skip("the real dumps are not beside the project")
    for path in sorted(folder.glob("*sacct-output*.txt")):
        document = parse_sacct(path.read_bytes(), SITE, NOW_US, path.name)
        assert not document.facts
        assert {one.reason for one in document.findings} <= {"column_missing", "unknown_layout", "broken_record"}

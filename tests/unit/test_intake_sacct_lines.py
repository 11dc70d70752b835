"""sacct dumps as lines: their layout, and records that people's texts broke or that are none."""

from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.slurm_run import held_us
from wattledger_audit.intake.source import open_source

from tests.sacct_reading import BERLIN, S, read_lines, read_text
from tests.sacct_sample import HEADER, SACCT, T0, read, row


def test_the_header_proves_itself(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    for header, score in [(HEADER, 97), ("JobID,State,Start,End", 97), ("job_id,attempt,tenant,start,end", None)]:
        path.write_text(f"{header}\n")
        found = SACCT.detect(open_source(path))
        assert (None if found is None else found.score) == score, header


@pytest.mark.parametrize("mark", ["|", ",", ";", "\t", "^", "@@@", " | "])
def test_the_header_proves_any_delimiter(tmp_path: Path, mark: str) -> None:
    fields = ["JobIDRaw", "State", "Start", "End", "User"]
    line = mark.join(["7", "COMPLETED", f"{T0}", f"{T0 + 10}", "ann"])
    run = read(tmp_path, line, header=mark.join(fields)).run()
    assert (run.job, held_us(run), run.user) == ("7", 10 * S, "ann")


def test_columns_come_in_any_order_and_unknown_ones_are_passed_over(tmp_path: Path) -> None:
    run = read(tmp_path, "x|ann|COMPLETED|1790769610|7|1790769600", header="NewColumn|User|State|End|JobID|Start").run()
    assert (run.job, run.user, held_us(run), run.gpus) == ("7", "ann", 10 * S, None)


def test_a_trailing_delimiter_is_no_column(tmp_path: Path) -> None:
    read_back = read(
        tmp_path, row() + "|", row(JobIDRaw="124", JobID="124", JobName="two\nlines") + "|", header=HEADER + "|"
    )
    assert ([run.job for run in read_back.runs], read_back.rejected) == (["123", "124"], [])


def test_without_a_header_the_fields_are_told(tmp_path: Path) -> None:
    options = ReadOptions(fields=("State", "JobID", "-", "Start", "End"))
    run = read_lines(SACCT, tmp_path, [f"COMPLETED|7|x|{T0}|{T0 + 10}"], options).run()
    assert (run.job, run.state, held_us(run)) == ("7", "COMPLETED", 10 * S)


@pytest.mark.parametrize(
    ("lines", "options", "says"),
    [
        ([f"COMPLETED|7|x|{T0}|{T0}"], ReadOptions(), "--fields"),
        ([f"COMPLETED|7|x|{T0}|{T0}"], ReadOptions(fields=("JobID", "Start")), r"2 columns of --fields.*COMPLETED\|7"),
        (["JobID|State|End", f"7|COMPLETED|{T0}"], ReadOptions(), "no column Start"),
        (["JobID|State|Start", f"7|COMPLETED|{T0}"], ReadOptions(), "no column End or ElapsedRaw"),
        (["sacct: fatal: ReqGRES is deprecated"], ReadOptions(), "sacct itself failed.*ReqGRES"),
        (["JobID        State  ", "------------ -------", "7 COMPLETED"], ReadOptions(), "sacct -P"),
        (
            ["JobID|State|Start|End", "7|COMPLETED|2026-10-01T00:00:00|2026-10-01T01:00:00"],
            ReadOptions(),
            "line 2.*--timezone",
        ),
    ],
)
def test_a_dump_that_cannot_be_read_says_what_settles_it(
    tmp_path: Path, lines: list[str], options: ReadOptions, says: str
) -> None:
    with pytest.raises(InputRefused, match=f"given.txt.*{says}"):
        read_lines(SACCT, tmp_path, lines, options)


def test_messages_of_sacct_inside_a_dump_are_listed(tmp_path: Path) -> None:
    read_back = read(tmp_path, row(), "sacct: error: slurmdbd: connection lost")
    assert (len(read_back.runs), read_back.codes) == (1, ["sacct_message"])


def test_steps_comments_blanks_and_a_second_header_are_listed_with_their_line(tmp_path: Path) -> None:
    steps = [row(JobID=f"123{step}", JobIDRaw=f"123{step}") for step in (".batch", ".extern", ".0", ".interactive")]
    read_back = read(tmp_path, row(), *steps, "# by hand", "", HEADER)
    assert [(line, code) for line, _, _, code in read_back.rejected] == [
        *((line, "step_of_job") for line in (3, 4, 5, 6)), (7, "comment"), (8, "blank_line"), (9, "repeated_header")
    ]  # fmt: skip
    assert len(read_back.runs) == 1


def test_a_second_header_may_name_other_columns(tmp_path: Path) -> None:
    read_back = read(tmp_path, row(), "State|JobID|Start|End", f"FAILED|8|{T0}|{T0 + 5}")
    assert [(run.job, run.state, held_us(run)) for run in read_back.runs] == [
        ("123", "COMPLETED", 3600 * S), ("8", "FAILED", 5 * S)
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["a|b", "a|b|c", "|", "one\ntwo", "one\ntwo|three\n\nfour", "#SBATCH\n#x"])
def test_what_stands_in_the_last_free_text_moves_nothing(tmp_path: Path, name: str) -> None:
    read_back = read(tmp_path, row(JobName=name), row(JobIDRaw="124", JobID="124"))
    assert [(run.job, held_us(run), run.gpus) for run in read_back.runs] == [
        ("123", 3600 * S, 2), ("124", 3600 * S, 2)
    ]  # fmt: skip
    assert set(read_back.codes) <= {"comment", "blank_line"}


def test_a_newline_inside_a_middle_column_is_joined_by_the_field_count(tmp_path: Path) -> None:
    header = "JobID|SubmitLine|JobName|State|Start|End"
    line = f'7|srun bash -c "echo hello &&\necho goodbye"|first\n# second|COMPLETED|{T0}|{T0 + 10}'
    read_back = read(tmp_path, line, f"8|x|y|FAILED|{T0}|{T0 + 20}", header=header)
    assert [(run.line, run.job, run.state, held_us(run)) for run in read_back.runs] == [
        (2, "7", "COMPLETED", 10 * S), (5, "8", "FAILED", 20 * S)
    ]  # fmt: skip
    assert read_back.rejected == []


@pytest.mark.parametrize("name", ["a|b", "|", "a|b|c|d", "|||x", "one\ntwo|three"])
@pytest.mark.parametrize("header", ["JobID|JobName|State|Start|End", "JobID|Account|JobName|User|State|Start|End"])
def test_a_delimiter_inside_the_one_free_text_moves_nothing(tmp_path: Path, header: str, name: str) -> None:
    cells = {"JobName": name, "Account": "acme", "User": "ann", "State": "FAILED", "Start": f"{T0}", "End": f"{T0 + 5}"}
    rows = ["|".join({**cells, "JobID": job}[column] for column in header.split("|")) for job in ("7", "8")]
    read_back = read(tmp_path, *rows, header=header)
    found = [(run.job, run.state, held_us(run)) for run in read_back.runs]
    assert (found, read_back.rejected) == ([("7", "FAILED", 5 * S), ("8", "FAILED", 5 * S)], [])


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("JobID|Start|End|Comment|JobName", f"7|{T0}|{T0}|a|b|c"),
        ("JobID|JobName|Comment|Start|End", f"7|a|b|c|{T0}|{T0}"),
        ("JobID|JobName|NewColumn|Start|End", f"7|a|b|c|{T0}|{T0}"),
        ("JobID,JobName,NodeList,AllocTRES,Start,End", f"7,a,n[1,3],cpu=1,gres/gpu=2,{T0},{T0}"),
        ("JobID|Account|State|Start|End", f"7|a|b|FAILED|{T0}|{T0}"),
    ],
)
def test_extra_delimiters_that_two_columns_could_have_are_a_reject(tmp_path: Path, header: str, line: str) -> None:
    read_back = read(tmp_path, line, header=header)
    assert (read_back.runs, read_back.codes) == ([], ["extra_delimiters"])


def test_a_cut_record_is_listed_and_takes_no_neighbour_with_it(tmp_path: Path) -> None:
    header = "JobID|SubmitLine|State|Start|End"
    read_back = read(tmp_path, "7|srun", f"8|x|COMPLETED|{T0}|{T0 + 5}", "9|x|COMPL", header=header)
    assert [run.job for run in read_back.runs] == ["8"]
    assert [(line, code) for line, _, _, code in read_back.rejected] == [(2, "broken_record"), (4, "broken_record")]


def test_quotes_that_a_data_frame_added_are_taken_off(tmp_path: Path) -> None:
    line = f'7,COMPLETED,{T0},{T0 + 5},"n[1-2],m1","cpu=4,gres/gpu=3"'
    run = read(tmp_path, line, header="JobID,State,Start,End,NodeList,AllocTRES").run()
    assert (run.nodes, run.gpus, run.cpus) == (("n1", "n2", "m1"), 3, 4)


def test_latin_1_names_survive(tmp_path: Path) -> None:
    text = f"{HEADER}\n{row(User='fxr', JobName='aab')}\n"
    odd = text.encode().replace(b"fxr", b"f\xfcr")
    assert read_text(SACCT, tmp_path, odd, BERLIN).run().user == "für"
    mixed = odd.replace(b"aab", "aàbéèü".encode())
    assert read_text(SACCT, tmp_path, mixed, BERLIN).run().user == "für"


def test_an_identical_line_is_a_duplicate(tmp_path: Path) -> None:
    read_back = read(tmp_path, row(), row(JobID="9", JobIDRaw="9"), row())
    assert [(line, code) for line, _, _, code in read_back.rejected] == [(4, "duplicate_row")]
    assert len(read_back.runs) == 2


def test_lines_in_are_records_out_and_rejections(tmp_path: Path) -> None:
    lines = [row(JobID=f"{n}{'.batch' if n % 3 == 0 else ''}", JobIDRaw=f"{n}") for n in range(1, 200)]
    lines[50:50] = ["", "# note", "|" * 19, row(Start="rubbish"), row(ElapsedRaw="", JobID="x")]
    read_back = read(tmp_path, *lines)
    assert len(read_back.runs) + len(read_back.rejected) == len(lines)


def test_the_recommended_pull_needs_no_header(tmp_path: Path) -> None:
    head = f"7|7|alpha|acme|ann|1000|gpu|normal||{T0}|{T0}|{T0}|{T0 + 60}|60|00:00:00|COMPLETED|0:0"
    short = f"{head}|1|n1|cpu=1|cpu=1,gres/gpu=1|99|SchedMain|train"
    long = f"{head}|2|1|n1|cpu=1|cpu=1,gres/gpu=1|99|sEKNKTV3WPV500|sEKNKTV3WPV500|SchedMain|train"
    run = read_lines(SACCT, tmp_path, [short, f"{short}|more"], BERLIN).runs[0]
    assert read_lines(SACCT, tmp_path, [long], BERLIN).run().attempt == 2
    assert (run.tenant, run.gpus, run.nodes, held_us(run)) == ("acme", 1, ("n1",), 60 * S)


def test_a_line_of_free_text_that_looks_like_a_record_takes_no_neighbour_with_it(tmp_path: Path) -> None:
    rows = [row(JobIDRaw="1", JobID="1", JobName="x\n8|y"), row(JobIDRaw="2", JobID="2", JobName="a|b")]
    read_back = read(tmp_path, *rows)
    assert [run.job for run in read_back.runs] == ["1", "2"]
    assert [(line, code) for line, _, _, code in read_back.rejected] == [(3, "broken_record")]

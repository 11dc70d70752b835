"""The canonical usage table: every column, how people really write it, and what is refused with its reason."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import xlsxwriter
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_canonical import detect, read

from tests.unit.usage_tables import (
    BERLIN,
    EIGHT,
    EIGHT_US,
    HEADER,
    NINE,
    NINE_US,
    NONE,
    code_of,
    read_cells,
    read_path,
    read_row,
    read_text,
    us,
)


def test_every_canonical_column_arrives(tmp_path: Path) -> None:
    runs, rejected = read_text(
        tmp_path,
        HEADER + ",cluster,submit,eligible,partition,plan,model,user,exclusive,cpus,mem,sku,suspended,limit,waits_for",
        f"0042,1,acme,vision,gpu1,GPU-aa,H100,1,1,4,{EIGHT},{NINE},COMPLETED,1000,east,2026-10-01T07:00:00Z,"
        "2026-10-01T07:30:00Z,batch,reserved,llama,ann,yes,16,64G,h100-hour,60,7200,",
    )
    assert rejected == []
    assert runs == [
        UsageRun(
            line=2, cluster="east", job="0042", run_key=f"1|gpu1|GPU-aa|{EIGHT_US}", attempt=1, tenant="acme",
            project="vision", user="ann", model_tag="llama", plan="reserved", partition="batch", sku="h100-hour",
            nodes=("gpu1",), device="GPU-aa", gpu_model="H100", gpus=1, share_num=1, share_den=4,
            submit_us=us("2026-10-01T07:00:00+00:00"), eligible_us=us("2026-10-01T07:30:00+00:00"), start_us=EIGHT_US,
            end_us=NINE_US, suspended_us=60_000_000, state="COMPLETED", tokens=1000, exclusive=True, cpus=16,
            memory_bytes=64 << 30, limit_us=7_200_000_000, waits_for="", marks=(),
        )
    ]  # fmt: skip


def test_a_file_of_only_what_is_needed_is_read(tmp_path: Path) -> None:
    runs, rejected = read_text(tmp_path, "job_id,tenant,start,end", f"a,acme,{EIGHT},")
    assert rejected == []
    assert (runs[0].start_us, runs[0].end_us, runs[0].gpus, runs[0].nodes) == (EIGHT_US, None, None, ())
    assert runs[0].marks == ("gpus_unknown",)


@pytest.mark.parametrize(
    "header",
    [
        "job_id,tenant,node,gpus,start,end",
        "JobID,Customer,Host,GPUs,Started_At,Finished_At",
        "job,account,hostname,Num GPUs,Start Time,End Time",
        "Job Id,tenantId,nodeName,gpuCount,startTime,endTime",
        "\ufeffjob_id,TENANT,NODE,# GPUs,start_time,ended_at",
    ],
)
def test_the_usual_names_of_columns_are_known(tmp_path: Path, header: str) -> None:
    runs, rejected = read_text(tmp_path, header, f"7,acme,n1,2,{EIGHT},{NINE}")
    assert rejected == []
    run = runs[0]
    assert (run.job, run.tenant, run.nodes, run.gpus, run.start_us, run.end_us) == (
        "7", "acme", ("n1",), 2, EIGHT_US, NINE_US,
    )  # fmt: skip


def test_columns_come_in_any_order_and_delimiter(tmp_path: Path) -> None:
    runs, _ = read_text(tmp_path, "end;gpus;start;tenant;job_id", f"{NINE};2;{EIGHT};acme;7")
    assert (runs[0].job, runs[0].gpus, runs[0].end_us) == ("7", 2, NINE_US)


def test_of_two_names_for_one_thing_the_canonical_one_counts(tmp_path: Path) -> None:
    runs, _ = read_text(tmp_path, "account,job_id,tenant,start,end", f"acc-1,7,acme,{EIGHT},{NINE}")
    assert runs[0].tenant == "acme"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-10-01T08:00:00+00:00", EIGHT_US),
        ("2026-10-01T08:00:00Z", EIGHT_US),
        ("2026-10-01T10:00:00+02:00", EIGHT_US),
        ("2026-10-01T10:00:00+0200", EIGHT_US),
        ("2026-10-01 10:00:00 +0200", EIGHT_US),
        ("2026-10-01 08:00:00 UTC", EIGHT_US),
        ("2026-10-01T08:00Z", EIGHT_US),
        ("2026-10-01T08:00:00.250Z", EIGHT_US + 250_000),
        ("1790841600", EIGHT_US),
        ("1790841600000", EIGHT_US),
        ("1790841600.5", EIGHT_US + 500_000),
        ("1790841600000000", EIGHT_US),
    ],
)
def test_a_stamp_that_says_its_zone_is_that_instant(tmp_path: Path, text: str, at: int) -> None:
    assert read_row(tmp_path, start=text).start_us == at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-10-01T10:00:00", EIGHT_US),  # summer: +02:00
        ("2026-12-01 10:00:00", us("2026-12-01T09:00:00+00:00")),
        ("2026-10-25T01:59:59", us("2026-10-24T23:59:59+00:00")),
        ("2026-10-25T03:00:00", us("2026-10-25T02:00:00+00:00")),
    ],
)
def test_a_stamp_without_offset_is_in_the_zone_that_was_said(tmp_path: Path, text: str, at: int) -> None:
    assert read_row(tmp_path, BERLIN, start=text, end="").start_us == at


def test_a_stamp_without_offset_is_refused_until_a_zone_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"usage\.csv, line 2: start '2026-10-01T10:00:00' .*--timezone"):
        read_row(tmp_path, start="2026-10-01T10:00:00")


def test_a_column_that_is_called_utc_needs_no_zone(tmp_path: Path) -> None:
    runs, _ = read_text(tmp_path, "job_id,tenant,start_utc,end_utc", "7,acme,2026-10-01 08:00:00,2026-10-01 09:00:00")
    assert (runs[0].start_us, runs[0].end_us) == (EIGHT_US, NINE_US)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("2026-10-25T02:30:00", "ambiguous_time"),
        ("2026-03-29T02:30:00", "nonexistent_time"),
        ("2026-13-01T00:00:00Z", "bad_time"),
        ("2026-10-01", "date_without_time"),
    ],
)
def test_a_stamp_that_is_no_instant_rejects_its_row(tmp_path: Path, text: str, code: str) -> None:
    runs, rejected = read_cells(tmp_path, BERLIN, start=text, end="")
    assert runs == []
    assert code_of(rejected) == [code]
    assert (rejected[0]["line"], rejected[0]["column"], rejected[0]["value"]) == ("2", "start", text)


def test_epochs_of_two_units_in_one_column_are_not_mixed(tmp_path: Path) -> None:
    runs, rejected = read_text(
        tmp_path, "job_id,tenant,start,end", "1,acme,1790841600,1790845200", "2,acme,1790841600000,1790845200"
    )
    assert [run.job for run in runs] == ["1"]
    assert code_of(rejected) == ["mixed_epoch"]


def test_dates_of_another_form_are_settled_by_the_whole_file(tmp_path: Path) -> None:
    lines = ["job_id,tenant,start,end", "1,acme,01/10/2026 10:00,01/10/2026 11:00"]
    with pytest.raises(InputRefused, match="--date-order"):
        read_text(tmp_path, *lines, options=BERLIN)
    runs, rejected = read_text(tmp_path, *lines, "2,acme,25/10/2026 10:00,25/10/2026 11:00", options=BERLIN)
    assert rejected == []
    assert [run.start_us for run in runs] == [EIGHT_US, us("2026-10-25T09:00:00+00:00")]


def test_never_started_and_still_running_are_unknown_times(tmp_path: Path) -> None:
    runs, rejected = read_text(
        tmp_path, "job_id,tenant,gpus,start,end,state", "1,acme,1,,,PENDING", f"2,acme,1,{EIGHT},,RUNNING",
        f"3,acme,1,None,{NINE},CANCELLED",
    )  # fmt: skip
    assert rejected == []
    assert [(run.start_us, run.end_us) for run in runs] == [(None, None), (EIGHT_US, None), (None, NINE_US)]
    assert runs[2].marks == ("never_started",)


def test_a_duration_stands_in_for_a_missing_end_and_checks_one_that_is_there(tmp_path: Path) -> None:
    runs, _ = read_text(
        tmp_path, "job_id,tenant,gpus,start,end,duration_s,state", f"1,acme,1,{EIGHT},,3600,COMPLETED",
        f"2,acme,1,{EIGHT},{NINE},3600,COMPLETED", f"3,acme,1,{EIGHT},{NINE},1800,COMPLETED",
        f"4,acme,1,{EIGHT},,600,RUNNING", f"5,acme,1,{EIGHT},{NINE},1:00:00,COMPLETED",
    )  # fmt: skip
    assert [run.end_us for run in runs] == [NINE_US, NINE_US, NINE_US, None, NINE_US]
    assert [run.marks for run in runs] == [("end_from_duration",), (), ("elapsed_disagrees",), (), ()]


@pytest.mark.parametrize("column", ["job_id", "tenant", "project"])
def test_an_id_that_a_spreadsheet_made_a_number_refuses_the_file(tmp_path: Path, column: str) -> None:
    with pytest.raises(InputRefused, match=rf"line 2: {column} '1.67683E\+15'"):
        read_row(tmp_path, NONE, **{column: "1.67683E+15"})


@pytest.mark.parametrize("job", ["000123", "012345678910", "123_4", "123+0", "1e5", "=1+1", "-7"])
def test_an_id_stays_the_text_that_it_is(tmp_path: Path, job: str) -> None:
    assert read_row(tmp_path, job_id=job).job == job


def test_a_row_without_a_tenant_is_kept_and_marked(tmp_path: Path) -> None:
    run = read_row(tmp_path, tenant="", gpus="1")
    assert (run.tenant, run.marks) == ("", ("no_tenant",))


def test_the_cluster_is_the_rows_own_or_the_one_that_was_said(tmp_path: Path) -> None:
    options = ReadOptions(cluster="west")
    assert read_row(tmp_path, options).cluster == "west"
    assert read_row(tmp_path, options, cluster="east").cluster == "east"


def test_short_rows_lack_their_last_cells_and_long_ones_are_rejected(tmp_path: Path) -> None:
    runs, rejected = read_text(
        tmp_path,
        "job_id,tenant,start,end,gpus",
        f"1,acme,{EIGHT}",
        f"2,acme,{EIGHT},{NINE},1,,",
        f"3,acme,{EIGHT},,1,x",
    )
    assert [(run.job, run.end_us, run.gpus) for run in runs] == [("1", None, None), ("2", NINE_US, 1)]
    assert code_of(rejected) == ["wrong_cell_count"]


def test_lines_in_are_runs_and_rejections(tmp_path: Path) -> None:
    lines = [f"{i},acme,{i % 3 - 1},{EIGHT},{NINE}" for i in range(30)]
    runs, rejected = read_text(tmp_path, "job_id,tenant,gpus,start,end", *lines)
    assert (len(runs), len(rejected)) == (20, 10)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_names_survive_any_encoding(tmp_path: Path, encoding: str) -> None:
    runs, _ = read_text(tmp_path, "job_id,tenant,start,end", f"7,Müller,{EIGHT},{NINE}", encoding=encoding)
    assert runs[0].tenant == "Müller"


def test_a_workbook_reads_as_the_csv_does(tmp_path: Path) -> None:
    path = tmp_path / "usage.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet()
    day = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
    for column, title in enumerate(["job_id", "tenant", "gpus", "start", "end", "tokens"]):
        sheet.write(0, column, title)
    sheet.write_row(1, 0, ["007", "acme", 0.5])
    sheet.write_datetime(1, 3, datetime(2026, 10, 1, 10), day)
    sheet.write_datetime(1, 4, datetime(2026, 10, 1, 11), day)
    sheet.write(1, 5, 1200)
    book.close()
    runs, rejected = read_path(path, BERLIN)
    assert rejected == []
    run = runs[0]
    assert (run.job, run.gpus, run.share_den, run.start_us, run.end_us, run.tokens) == (
        "007", 1, 2, EIGHT_US, NINE_US, 1200,
    )  # fmt: skip


def detected(folder: Path, header: str) -> int:
    path = folder / "any.csv"
    path.write_text(header + "\n")
    found = detect(open_source(path))
    return 0 if found is None else found.score


def test_a_usage_table_is_known_by_its_header(tmp_path: Path) -> None:
    assert detected(tmp_path, HEADER) == 95
    assert detected(tmp_path, "Job,Customer,Started,Finished,GPU count") == 60


@pytest.mark.parametrize(
    "header",
    [
        "JobID|Account|State|Start|End|NNodes|NodeList|AllocTRES",
        "invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency",
        "reservation_id,tenant,nodes,gpus,start,end",
        "node,site,gpu_model,gpus",
        "{",
        "",
        "job_id,tenant,start",
    ],
)
def test_another_table_is_not_taken_for_usage(tmp_path: Path, header: str) -> None:
    assert detected(tmp_path, header + "\nx") == 0


def test_times_are_utc(tmp_path: Path) -> None:
    at = read_row(tmp_path).start_us
    assert at is not None
    assert datetime.fromtimestamp(at // 1_000_000, UTC).isoformat() == EIGHT


def streamed(path: Path) -> Iterator[UsageRun]:
    with Rejections.into(path.parent / "rejected.csv") as rejections:
        yield from read(open_source(path), NONE, rejections)


def test_rows_stream(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text(f"job_id,tenant,start,end\n1,acme,{EIGHT},{NINE}\n2,acme,2026-10-01T08:00:00,\n")
    runs = streamed(path)
    assert next(runs).job == "1"
    with pytest.raises(InputRefused, match="line 3"):
        next(runs)

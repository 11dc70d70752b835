"""Files of which nothing can be used, files that nothing takes, and in whose days a bill's dates are."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.registry import take

from tests.audit_cases import bill, billing, costs, run, usage
from tests.audit_runner import audit_texts, bridge_amounts

HEADER = "JobID|Account|State|Start|End|NodeList|AllocTRES"
BILLING = "invoice_id,tenant,period_start,period_end,sku,quantity,unit,amount,currency"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", f"{HEADER}\n1|acme|COMPLETED|Ystday 10:11|Ystday 11:11|n1|gres/gpu=1\n",
         "a.txt: not one record could be used, 1 line was refused; the first is line 2: Start 'Ystday 10:11': not an "
         "epoch"),
        ("b.txt", f"{HEADER.replace('|', ',')}\n" + 2 * "1,acme,COMPLETED,1790769600,1790773200,n1,cpu=1,gres/gpu=1\n",
         "b.txt: not one record could be used, 2 lines were refused; the first is line 2: '1,acme,COMPLETED,"),
        ("c.csv", f"{BILLING}\nI1,acme,2026-10-01,2026-10-31,h100,1,h,,USD\n",
         "c.csv: not one record could be used, 1 line was refused; the first is line 2: amount"),
    ],
)  # fmt: skip
def test_a_file_of_which_nothing_can_be_used_is_refused_with_its_first_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(InputRefused) as refused:
        audit_texts(tmp_path, {name: text, "used.csv": usage(run("1", "acme", 0, 1))}, timezone="UTC")
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "text",
    [
        f"{HEADER}\n", f"{HEADER}\n1.batch|acme|COMPLETED|1790769600|1790773200|n1|gres/gpu=1\n",
        f"{BILLING}\n", f"{BILLING},status\nI1,acme,2026-10-01,2026-10-31,h100,1,h,5,USD,draft\n",
    ],
)  # fmt: skip
def test_a_file_that_holds_nothing_to_lose_is_read_and_noted(tmp_path: Path, text: str) -> None:
    files = audit_texts(tmp_path, {"a.csv": text, "used.csv": usage(run("1", "acme", 0, 1))}).report.files
    assert [file.why.partition("; ")[2] for file in files] == ["it holds no record", ""]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"jobs": [{"job_id": 1, "state": {"current": ["COMPLETED"]}', "it starts like JSON and is none, line 1"),
        ('[{"a": 1},\n {"b": "never clo', "it starts like JSON and is none, line 2, column 8: it ends in the middle"),
        ('{"foo": [1]}', "no format that is known has its columns"),
        ('{"a": 1}\n{"a": 2}\n', "no format that is known has its columns"),
        ("Dear all,\nplease find attached\n", "no format that is known has its columns"),
        ("title\n\nSKU;From;To;Amount\na;b;c;1\n", "SKU, From, To, Amount: that could be a bill, but no column says"),
        ("Customer,From,To,Hours,Rate\na,b,c,1,2\n", "that could be a bill, but no column says what was billed"),
        ("job_id,tenant,gpus,started\n1,a,1,2\n", "that could be a usage log, but no column says when it ended"),
    ],
)  # fmt: skip
def test_a_file_that_nothing_takes_is_told_what_it_lacks(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputRefused) as refused:
        audit_texts(tmp_path, {"a.txt": text})
    assert str(refused.value).startswith(
        "a.txt: it can't be taken as usage, billing, fleet, events, costs or telemetry: "
    )
    assert said in str(refused.value)
    assert "wattledger inspect" in str(refused.value)


@pytest.mark.parametrize(
    ("zone", "said", "start", "end"),
    [
        ("Europe/Berlin", None, "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"),
        ("Asia/Tokyo", None, "2026-09-30T15:00:00Z", "2026-10-31T15:00:00Z"),
        ("UTC", None, "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"),
        ("Europe/Berlin", "UTC", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"),
    ],
)
@pytest.mark.parametrize(
    "days", [("2026-10-01", "2026-10-31"), ("01.10.2026", "31.10.2026"), ("2026-10-01", "2026-11-01")]
)
def test_billed_days_are_days_of_the_cost_files_zone_unless_the_flag_says(
    tmp_path: Path, zone: str, said: str | None, start: str, end: str, days: tuple[str, str]
) -> None:
    """Used all month: then nothing is left unbilled, and nothing is prorated."""
    files: Mapping[str, str] = {
        "used.csv": usage({**run("1", "acme", 0, 1), "start": start, "end": end}),
        "billed.csv": billing(bill("acme", "H100", "745", "745.00", period_start=days[0], period_end=days[1])),
        "costs.yaml": costs(timezone=zone),
    }
    audited = audit_texts(tmp_path, files, timezone=said)
    line, used = audited.assessment.gathered.billing[0][1][0], audited.assessment.runs
    assert (line.start_us, line.end_us) == (used.start_us[0], used.end_us[0])
    assert bridge_amounts(audited)["unbilled_usage"] == 0


def test_one_run_in_exports_of_other_columns_and_forms_counts_once(tmp_path: Path) -> None:
    start, end = 1_790_769_600, 1_790_776_800
    job = {
        "job_id": 7, "account": "acme", "cluster": "c", "state": {"current": ["COMPLETED"]}, "nodes": "n1",
        "time": {"submission": start - 60, "start": start, "end": end, "elapsed": 7200},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}]}, "steps": [],
    }  # fmt: skip
    files = {
        "a.txt": f"{HEADER}|Cluster\n7|acme|RUNNING|{start}|Unknown|n1|gres/gpu=2|c\n",
        "b.txt": f"Submit|{HEADER}|Cluster|SLUID\n{start - 60}|7|acme|COMPLETED|{start}|{end}|n1|gres/gpu=2|c|sX\n",
        "c.json": json.dumps({"jobs": [job], "meta": {"Slurm": {}}, "errors": []}),
    }
    for names in (("a.txt", "b.txt", "c.json"), ("c.json", "b.txt", "a.txt")):
        audited = audit_texts(tmp_path, {name: files[name] for name in names}, timezone="UTC")
        assert audited.report.fleet["held"] == "4.000000"
        assert audited.assessment.runs.redelivered == 2


def test_a_run_that_one_file_puts_in_a_cluster_and_another_in_none_is_asked_about(tmp_path: Path) -> None:
    rows = (
        "7|acme|COMPLETED|1790769600|1790776800|n1|gres/gpu=2\n8|acme|COMPLETED|1790769600|1790776800|{}|gres/gpu=2\n"
    )
    with_cluster = f"{HEADER}|Cluster\n" + rows.format("n2").replace("\n", "|alpha\n")
    without = f"{HEADER}\n" + rows.format("n2")
    files = {"a.txt": with_cluster, "b.txt": without}
    with pytest.raises(InputRefused) as refused:
        audit_texts(tmp_path, files)
    assert str(refused.value) == (
        "b.txt, line 2: run 7 names no cluster and is the one of cluster 'alpha' in a.txt, line 2: say --cluster alpha"
    )
    assert audit_texts(tmp_path, files, cluster="alpha").report.fleet["held"] == "8.000000"
    elsewhere = {"a.txt": with_cluster, "b.txt": without.replace("n1", "m1").replace("n2", "m2")}
    assert audit_texts(tmp_path, elsewhere).report.fleet["held"] == "16.000000"


def test_a_file_named_for_another_role_is_told_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "bills.csv").write_text(billing(bill("acme", "H100", "1", "2.00")))
    with pytest.raises(
        InputRefused, match=r"can't be taken as usage: it is billing table: name it with --billing, or with"
    ):
        take(tmp_path / "bills.csv", "usage")
    assert take(tmp_path / "bills.csv", "billing").importer.role == "billing"

"""Usage logs of other systems: their columns' names, counts beside models, GPU-hours and durations with a unit."""

from pathlib import Path

import pytest
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source
from wattledger_audit.intake.usage_canonical import detect

from tests.unit.usage_tables import EIGHT, EIGHT_US, NINE, NINE_US, NONE, code_of, read_cells, read_row, read_text


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("Project,Job name,User,Node pool,GPU compute request,Start time,Completion time", "acme,7,bob,h100,2,S,E"),
        ("namespace,pod,container,node,requested_gpus,started_at,finished_at", "acme,7,main,n1,2,S,E"),
        ("Organization,VM ID,Flavor,Launched At (UTC),Terminated At (UTC),Host,# GPUs", "acme,7,g.2,S,E,n1,2"),
        ("Customer,Rental ID,GPU,Start,End,Cost", "acme,7,2x H100,S,E,4.00"),
        ("company_name,instance,gpu_type,launch_time,termination_time", "acme,7,NVIDIA H100 x 2,S,E"),
        ("workspace,deployment,accelerator,start_iso,end_iso", "acme,7,H100:2,S,E"),
    ],
)
def test_the_columns_of_other_systems_are_known(tmp_path: Path, header: str, row: str) -> None:
    runs, rejected = read_text(tmp_path, header, row.replace("S", EIGHT).replace("E", NINE))
    assert rejected == []
    run = runs[0]
    assert (run.tenant, run.job, run.gpus, run.start_us, run.end_us) == ("acme", "7", 2, EIGHT_US, NINE_US)
    assert detect(open_source(tmp_path / "usage.csv")) is not None


@pytest.mark.parametrize("names", [("start_ms", "end_ms"), ("Start Epoch (ms)", "End Epoch (ms)"), ("start", "end")])
def test_epochs_are_read_whatever_their_column_says_of_their_unit(tmp_path: Path, names: tuple[str, str]) -> None:
    runs, _ = read_text(
        tmp_path, f"job_id,tenant,{names[0]},{names[1]}", f"7,acme,{EIGHT_US // 1000},{NINE_US // 1000}"
    )
    assert (runs[0].start_us, runs[0].end_us) == (EIGHT_US, NINE_US)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("Duration (h)", "1"), ("hours", "1.0"), ("runtime_hours", "1,0"), ("duration_minutes", "60"),
        ("elapsed_sec", "3600"), ("duration_ms", "3600000"), ("duration", "1 h"), ("duration", "60 min"),
        ("duration", "01:00:00"), ("elapsed", "3600s"), ("runtime", "0-01:00:00"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_unit_that_its_column_or_cell_says(tmp_path: Path, column: str, text: str) -> None:
    runs, rejected = read_text(tmp_path, f"job_id;tenant;gpus;start;{column}", f"7;acme;1;{EIGHT};{text}")
    assert rejected == []
    assert (runs[0].end_us, runs[0].marks) == (NINE_US, ("end_from_duration",))


@pytest.mark.parametrize("text", ["60", "3600", "1.0", "10:30"])
def test_a_duration_without_a_unit_is_refused_where_the_end_hangs_on_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputRefused, match=rf"line 2: Runtime '{text}' says no unit: .*duration_h"):
        read_text(tmp_path, "job_id,tenant,gpus,start,Runtime", f"7,acme,1,{EIGHT},{text}")


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("60", ()),
        ("3600", ()),
        ("1", ()),
        ("1:00", ()),
        ("2", ("elapsed_disagrees",)),
        ("2:00", ("elapsed_disagrees",)),
    ],
)
def test_a_duration_without_a_unit_only_has_to_fit_the_end(tmp_path: Path, text: str, marks: tuple[str, ...]) -> None:
    assert read_row(tmp_path, gpus="1", duration=text).marks == marks


@pytest.mark.parametrize(
    ("hours", "cells", "held"),
    [
        ("8", {}, (8, 1, 1)),
        ("8.00", {"gpus": "", "node": "n1"}, (8, 1, 1)),
        ("0.5", {}, (1, 1, 2)),
        ("1.5", {}, (3, 1, 2)),
        ("0.33", {}, (1, 1, 3)),
        ("0.8", {}, (1, 4, 5)),
        ("0.14", {"profile": "1g.10gb"}, (1, 1, 7)),
        ("0", {}, (0, 1, 1)),
    ],
)
def test_gpu_hours_tell_the_gpus_where_no_count_does(
    tmp_path: Path, hours: str, cells: dict[str, str], held: tuple[int, int, int]
) -> None:
    run = read_row(tmp_path, NONE, **{"GPU Hours": hours, **cells})
    assert (run.gpus, run.share_num, run.share_den) == held
    assert "gpus_from_gpu_hours" in run.marks
    assert "gpus_unknown" not in run.marks


@pytest.mark.parametrize(("hours", "marks"), [("8", ()), ("8.04", ()), ("16", ("gpu_hours_disagree",))])
def test_gpu_hours_beside_a_count_are_checked(tmp_path: Path, hours: str, marks: tuple[str, ...]) -> None:
    run = read_row(tmp_path, gpus="8", gpu_hours=hours)
    assert (run.gpus, run.marks) == (8, marks)


def test_gpu_hours_of_a_run_that_goes_on_say_nothing_yet(tmp_path: Path) -> None:
    assert read_row(tmp_path, end="", state="RUNNING", gpu_hours="8").gpus is None


@pytest.mark.parametrize("hours", ["many", "-8"])
def test_gpu_hours_that_are_no_number_reject_the_row(tmp_path: Path, hours: str) -> None:
    runs, rejected = read_cells(tmp_path, gpu_hours=hours)
    assert (runs, rejected[0]["column"], rejected[0]["value"].lstrip("'")) == ([], "gpu_hours", hours)


def test_a_gpu_column_of_numbers_is_refused_for_it_can_be_a_count_or_an_index(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"line 2: gpu '8' can be how many GPUs or which one: .* gpus or gpu_index"):
        read_row(tmp_path, gpu="8")
    assert read_row(tmp_path, gpu="3", gpus="1").device == "3"


def test_a_model_in_the_gpu_column_is_no_device(tmp_path: Path) -> None:
    run = read_row(tmp_path, gpu="NVIDIA H100 80GB HBM3", gpus="4")
    assert (run.gpu_model, run.device, run.gpus, run.marks) == ("NVIDIA H100 80GB HBM3", "", 4, ())


@pytest.mark.parametrize(
    ("text", "model", "gpus"),
    [("8x H100", "H100", 8), ("H100 x 4", "H100", 4), ("4×A100", "A100", 4), ("L40S:2", "L40S", 2)],
)
def test_a_count_beside_the_model_counts(tmp_path: Path, text: str, model: str, gpus: int) -> None:
    assert (read_row(tmp_path, gpu_type=text).gpu_model, read_row(tmp_path, gpu_type=text).gpus) == (model, gpus)
    assert read_row(tmp_path, gpu_type=text, gpus="1").gpus == 1


@pytest.mark.parametrize(
    "text", ["RTX 4090", "MI300X", "A100-SXM4-40GB", "GeForce RTX 3090", "H100 80GB HBM3", "RTX A6000"]
)
def test_a_number_in_a_models_name_is_no_count(tmp_path: Path, text: str) -> None:
    run = read_row(tmp_path, gpu_type=text)
    assert (run.gpu_model, run.gpus) == (text, None)


@pytest.mark.parametrize(("column", "mark"), [("project", "tenant_from_project"), ("user", "tenant_from_user")])
def test_without_a_column_for_tenants_the_next_best_one_names_them(tmp_path: Path, column: str, mark: str) -> None:
    runs, _ = read_text(tmp_path, f"job_id,{column},gpus,start,end", f"7,acme,1,{EIGHT},{NINE}")
    assert (runs[0].tenant, runs[0].marks) == ("acme", (mark,))


def test_an_empty_tenant_beside_a_project_stays_unknown(tmp_path: Path) -> None:
    rows = read_cells(tmp_path, NONE, tenant="", project="vision", gpus="1")
    assert (rows[0][0].tenant, rows[0][0].marks, code_of(rows[1])) == ("", ("no_tenant",), [])


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ({"gpus": "1790841600"}, "gpus"),
        ({"gpus": "1025", "node": "n1"}, "gpus"),
        ({"gpus": "2049", "node": "n[1-2]"}, "gpus"),
        ({"gpu_hours": "1790841600"}, "gpu_hours"),
    ],
)
def test_more_gpus_than_machines_have_are_another_columns_value(
    tmp_path: Path, cells: dict[str, str], column: str
) -> None:
    runs, rejected = read_cells(tmp_path, NONE, **cells)
    assert (runs, code_of(rejected), rejected[0]["column"]) == ([], ["too_many_gpus"], column)


def test_a_rack_or_a_whole_fleet_is_not_too_many(tmp_path: Path) -> None:
    assert read_row(tmp_path, gpus="1024", node="nvl").gpus == 1024
    assert read_row(tmp_path, gpus="100000").gpus == 100_000


@pytest.mark.parametrize(
    ("row", "code"), [("Total,,,,12", "total_row"), ("acme,,,,12", "no_job"), (",Total,,,12", "total_row")]
)
def test_a_row_that_sums_up_is_told_from_one_without_its_job(tmp_path: Path, row: str, code: str) -> None:
    runs, rejected = read_text(tmp_path, "tenant,job_id,start,end,gpus", f"acme,7,{EIGHT},{NINE},12", row)
    assert (len(runs), code_of(rejected)) == (1, [code])

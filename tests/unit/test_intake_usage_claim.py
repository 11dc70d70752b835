"""What one row of a usage table holds: devices, shares, places, tokens, words; which rows are the same run."""

from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused

from tests.unit.usage_tables import (
    EIGHT,
    NINE,
    NINE_US,
    NONE,
    code_of,
    read_cells,
    read_row,
    read_text,
)


@pytest.mark.parametrize(
    ("cells", "gpus", "share", "marks"),
    [
        ({"gpus": "8"}, 8, (1, 1), ()),
        ({"gpus": "8.0"}, 8, (1, 1), ()),
        ({"gpus": "0"}, 0, (1, 1), ()),
        ({"gpus": "0.5"}, 1, (1, 2), ("gpus_fractional",)),
        ({"gpus": "0,25"}, 1, (1, 4), ("gpus_fractional",)),
        ({"gpus": "0.75"}, 1, (3, 4), ("gpus_fractional",)),
        ({"gpus": "1.5"}, 3, (1, 2), ("gpus_fractional",)),
        ({"gpus": "0.25", "share_num": "1", "share_den": "4"}, 1, (1, 4), ("gpus_fractional",)),
        ({"gpus": ""}, None, (1, 1), ("gpus_unknown",)),
        ({"gpus": "1", "share": "0.25"}, 1, (1, 4), ()),
        ({"gpus": "1", "share": "25%"}, 1, (1, 4), ()),
        ({"gpus": "1", "share": "25 %"}, 1, (1, 4), ()),
        ({"gpus": "1", "share": "1/7"}, 1, (1, 7), ()),
        ({"gpus": "1", "share": "0,125"}, 1, (1, 8), ()),
        ({"gpus": "2", "share": "1g.10gb"}, 2, (1, 7), ()),
        ({"gpus": "1", "share": "100%"}, 1, (1, 1), ()),
        ({"gpus": "1", "share": "", "share_num": "3", "share_den": "7"}, 1, (3, 7), ()),
        ({"gpus": "1", "share_num": "0.5"}, 1, (1, 2), ()),
        ({"gpus": "1", "mig_profile": "3g.40gb"}, 1, (3, 7), ("share_from_profile",)),
        ({"gpus": "1", "mig_profile": "2g.12gb", "gpu_model": "A30"}, 1, (2, 4), ("share_from_profile",)),
        ({"gpus": "1", "gpu_model": "A100 MIG 1g.5gb"}, 1, (1, 7), ("share_from_profile",)),
        ({"gpus": "1", "gpu_model": "A100 MIG 1g.5gb", "share": "1"}, 1, (1, 1), ()),
    ],
)
def test_gpus_and_share_are_exact(
    tmp_path: Path, cells: dict[str, str], gpus: int | None, share: tuple[int, int], marks: tuple[str, ...]
) -> None:
    run = read_row(tmp_path, NONE, **cells)
    assert run.gpus == gpus
    assert run.share_num * share[1] == run.share_den * share[0]
    assert run.marks == marks


def test_four_quarter_shares_of_an_hour_are_one_gpu_hour(tmp_path: Path) -> None:
    rows = [f"{job},acme,n1,0,1,25%,{EIGHT},{NINE}" for job in range(4)]
    runs, _ = read_text(tmp_path, "job_id,tenant,node,device,gpus,share,start,end", *rows)
    held = [Decimal(r.share_num) / r.share_den * ((r.end_us or 0) - (r.start_us or 0)) for r in runs]
    assert sum(held) == 3_600_000_000


@pytest.mark.parametrize(
    ("cells", "code", "column"),
    [
        ({"gpus": "-1"}, "negative_gpus", "gpus"),
        ({"gpus": "many"}, "bad_gpus", "gpus"),
        ({"gpus": "0.3333333333"}, "bad_gpus", "gpus"),
        ({"gpus": "0.5", "share": "1/4"}, "share_disagrees", "gpus"),
        ({"share": "1.5"}, "share_over_one", "share"),
        ({"share": "150%"}, "share_over_one", "share"),
        ({"share": "25"}, "share_over_one", "share"),
        ({"share": "0"}, "bad_share", "share"),
        ({"share": "-0.5"}, "bad_share", "share"),
        ({"share": "half"}, "bad_share", "share"),
        ({"share": "1/0"}, "bad_share", "share"),
        ({"share_num": "1", "share_den": "0"}, "bad_share", "share_num"),
        ({"share_num": "8", "share_den": "7"}, "share_over_one", "share_num"),
        ({"share_num": "", "share_den": "7"}, "bad_share", "share_num"),
        ({"end": "2026-10-01T07:59:59Z"}, "end_before_start", "end"),
        ({"attempt": "first"}, "bad_attempt", "attempt"),
        ({"job_id": ""}, "no_job", "job_id"),
        ({"job_id": "Total", "start": "", "end": ""}, "total_row", "job_id"),
        ({"node": "n[01-"}, "bad_node", "node"),
        ({"suspended": "3601"}, "suspended_over_run", "suspended"),
    ],
)
def test_a_row_that_can_not_be_is_rejected(tmp_path: Path, cells: dict[str, str], code: str, column: str) -> None:
    runs, rejected = read_cells(tmp_path, NONE, **cells)
    assert runs == []
    assert code_of(rejected) == [code]
    assert rejected[0]["column"] == column


@pytest.mark.parametrize(
    ("cells", "nodes", "device", "gpus", "marks"),
    [
        ({"node": "n1", "device": "GPU-aa", "gpus": ""}, ("n1",), "GPU-aa", 1, ()),
        ({"node": "n1", "device": "GPU-aa", "gpus": "1"}, ("n1",), "GPU-aa", 1, ()),
        ({"node": "n1", "gpu_index": "3"}, ("n1",), "3", 1, ()),
        ({"node": "n1", "gpu": "GPU-aa"}, ("n1",), "GPU-aa", 1, ()),
        ({"node": "n1", "device": "", "gpus": "8"}, ("n1",), "", 8, ()),
        ({"node": "n[01-02,07]", "gpus": "24"}, ("n01", "n02", "n07"), "", 24, ()),
        ({"node": "a,b", "gpus": "16"}, ("a", "b"), "", 16, ()),
        ({"node": "a;b c", "gpus": "24"}, ("a", "b", "c"), "", 24, ()),
        ({"node": "gpu-1.example.com", "gpus": "1"}, ("gpu-1.example.com",), "", 1, ()),
        ({"node": "n1", "device": "0,1", "gpus": ""}, ("n1",), "", 2, ("several_devices",)),
        ({"node": "n1", "device": "GPU-a;GPU-b", "gpus": "2"}, ("n1",), "", 2, ("several_devices",)),
        ({"node": "n[1-2]", "device": "0,1", "gpus": "4"}, ("n1", "n2"), "", 4, ("several_devices",)),
        ({"node": "n1", "device": "GPU-aa", "gpus": "8"}, ("n1",), "", 8, ("gpus_disagree",)),
        ({"node": "n1", "device": "GPU-aa::2", "share": "1/4"}, ("n1",), "GPU-aa", 1, ()),
        ({"node": "n1", "device": "GPU-aa::2"}, ("n1",), "GPU-aa", 1, ("share_unknown",)),
        ({"node": "n1", "device": "MIG-GPU-aa/7/0", "share": "1g.5gb"}, ("n1",), "GPU-aa", 1, ()),
        ({"node": "n1", "device": "MIG-1234"}, ("n1",), "MIG-1234", 1, ("share_unknown",)),
    ],
)
def test_where_a_job_ran_is_a_device_a_node_or_many(
    tmp_path: Path, cells: dict[str, str], nodes: tuple[str, ...], device: str, gpus: int, marks: tuple[str, ...]
) -> None:
    run = read_row(tmp_path, NONE, **cells)
    assert (run.nodes, run.device, run.gpus, run.marks) == (nodes, device, gpus, marks)


def test_a_count_that_can_be_one_or_a_thousand_is_settled_by_the_file_or_refused(tmp_path: Path) -> None:
    head, one = "job_id,tenant,gpus,start,end", f"1,acme,8.000,{EIGHT},{NINE}"
    with pytest.raises(InputRefused, match=r"line 2: gpus '8\.000'.*--decimal"):
        read_text(tmp_path, head, one)
    runs, _ = read_text(tmp_path, head, one, f"2,acme,0.5,{EIGHT},{NINE}")
    assert [(run.gpus, run.share_den) for run in runs] == [(8, 1), (1, 2)]
    runs, _ = read_text(tmp_path, head, one, options=ReadOptions(decimal="."))
    assert runs[0].gpus == 8


def test_tokens_count_once_an_attempt(tmp_path: Path) -> None:
    runs, rejected = read_text(
        tmp_path, "job_id,attempt,tenant,node,device,start,end,tokens,cluster",
        f"1,0,acme,n1,0,{EIGHT},{NINE},500,east", f"1,0,acme,n1,1,{EIGHT},{NINE},500,east",
        f"1,0,acme,n1,2,{EIGHT},{NINE},600,east", f"1,1,acme,n1,0,{NINE},,70,east",
        f"1,0,acme,n1,0,{EIGHT},{NINE},9,west",
    )  # fmt: skip
    assert rejected == []
    assert [run.tokens for run in runs] == [500, None, None, 70, 9]
    assert [run.marks for run in runs] == [(), (), ("tokens_differ",), (), ()]


@pytest.mark.parametrize(
    ("text", "tokens", "marks"),
    [
        ("", None, ()), ("null", None, ()), ("1234567", 1_234_567, ()), ("1,234,567", 1_234_567, ()), ("12.0", 12, ()),
        ("-5", None, ("tokens_unreadable",)), ("lots", None, ("tokens_unreadable",)), ("1.5e9", 1_500_000_000, ()),
    ],
)  # fmt: skip
def test_tokens_are_a_whole_number_or_unknown(
    tmp_path: Path, text: str, tokens: int | None, marks: tuple[str, ...]
) -> None:
    run = read_row(tmp_path, gpus="1", tokens=text)
    assert (run.tokens, run.marks) == (tokens, marks)


def test_the_same_row_counts_once_and_another_row_of_the_job_counts_too(tmp_path: Path) -> None:
    one, other = f"1,acme,n1,0,{EIGHT},{NINE}", f"1,acme,n1,1,{EIGHT},{NINE}"
    runs, rejected = read_text(tmp_path, "job_id,tenant,node,device,start,end", one, other, one)
    assert [run.device for run in runs] == ["0", "1"]
    assert code_of(rejected) == ["duplicate_row"]
    assert rejected[0]["line"] == "4"


def test_run_keys_tell_apart_all_that_a_job_holds(tmp_path: Path) -> None:
    lines = [
        f"1,0,acme,n1,0,,{EIGHT},{NINE}", f"1,0,acme,n1,1,,{EIGHT},{NINE}", f"1,0,acme,n2,0,,{EIGHT},{NINE}",
        f"1,1,acme,n1,0,,{EIGHT},{NINE}", f"1,0,acme,n1,0,,{NINE},", f"1,0,acme,n1,,1g.5gb,{EIGHT},{NINE}",
        f"1,0,acme,n1,,2g.10gb,{EIGHT},{NINE}", f"1,0,acme,n1,,,{EIGHT},{NINE}",
    ]  # fmt: skip
    runs, _ = read_text(tmp_path, "job_id,attempt,tenant,node,device,profile,start,end", *lines)
    assert len({run.run_key for run in runs}) == len(lines) == len(runs)


def test_a_run_told_again_with_its_end_keeps_its_key(tmp_path: Path) -> None:
    runs, _ = read_text(
        tmp_path, "job_id,tenant,node,gpus,start,end", f"1,acme,n1,8,{EIGHT},", f"1,acme,n1,8,{EIGHT},{NINE}"
    )
    assert runs[0].run_key == runs[1].run_key
    assert [run.end_us for run in runs] == [None, NINE_US]


@pytest.mark.parametrize(
    ("text", "plan", "marks"),
    [
        ("reserved", "reserved", ()), ("Committed", "reserved", ()), ("on_demand", "on_demand", ()),
        ("On-Demand", "on_demand", ()), ("ondemand", "on_demand", ()), ("spot", "spot", ()),
        ("Preemptible", "spot", ()), ("internal", "internal", ()), ("trial", "trial", ()), ("", "", ()),
        ("gold", "on_demand", ("plan_unknown",)),
    ],
)  # fmt: skip
def test_a_plan_is_one_of_five_words(tmp_path: Path, text: str, plan: str, marks: tuple[str, ...]) -> None:
    run = read_row(tmp_path, gpus="1", plan=text)
    assert (run.plan, run.marks) == (plan, marks)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("COMPLETED", "COMPLETED"), ("succeeded", "COMPLETED"), ("Completed", "COMPLETED"), ("evicted", "PREEMPTED"),
        ("preempted", "PREEMPTED"), ("OOMKilled", "OUT_OF_MEMORY"), ("out of memory", "OUT_OF_MEMORY"),
        ("CANCELLED by 1060117917", "CANCELLED"), ("node_fail", "NODE_FAIL"), ("Node-Failure", "NODE_FAIL"),
        ("failed", "FAILED"), ("weird", "WEIRD"), ("", ""), ("timeout", "TIMEOUT"), ("running", "RUNNING"),
    ],
)  # fmt: skip
def test_a_state_is_in_slurms_words(tmp_path: Path, text: str, state: str) -> None:
    assert read_row(tmp_path, state=text).state == state


@pytest.mark.parametrize(
    ("cells", "memory", "marks"),
    [
        ({"mem": "64G"}, 64 << 30, ()),
        ({"mem": "64 GiB"}, 64 << 30, ()),
        ({"mem": "62.5G"}, 125 << 29, ()),
        ({"mem": "512000M"}, 512_000 << 20, ()),
        ({"mem": "68719476736"}, 64 << 30, ()),
        ({"mem_gb": "64"}, 64 << 30, ()),
        ({"mem": "64"}, None, ("memory_unreadable",)),  # of what?
        ({"mem": ""}, None, ()),
    ],
)
def test_memory_says_its_unit_or_is_unknown(
    tmp_path: Path, cells: dict[str, str], memory: int | None, marks: tuple[str, ...]
) -> None:
    run = read_row(tmp_path, NONE, **({"gpus": "1"} | cells))
    assert (run.memory_bytes, run.marks) == (memory, marks)


def test_a_model_column_that_holds_gpus_is_the_gpus_model(tmp_path: Path) -> None:
    assert read_row(tmp_path, model="NVIDIA H100 80GB").gpu_model == "NVIDIA H100 80GB"
    tagged = read_row(tmp_path, model="nvidia/nemotron-4-340b")
    assert (tagged.gpu_model, tagged.model_tag) == ("", "nvidia/nemotron-4-340b")
    both = read_row(tmp_path, model="llama-70b", gpu_model="H200")
    assert (both.gpu_model, both.model_tag) == ("H200", "llama-70b")

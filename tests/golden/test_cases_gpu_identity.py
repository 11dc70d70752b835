"""Known mistakes about which GPU is which (cases B1 to B13), as files with the right figures.

Four index spaces (SLURM's IDX and the minor number, NVML's, CUDA's, a cgroup's own) are never taken for one another: a
GPU is its UUID. Each case was reported against a public project; the comment names it.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from wattledger_audit.audit_run import Audited
from wattledger_audit.intake.record import DeviceTrace

from tests.audit_cases import DAY, costs, fleet, found, hours, machine, own_costs, run, usage
from tests.audit_runner import audit_texts, tenant_row, unexplained
from tests.case_files import UTC, gpu_seconds, ids_in_words, ids_of, read_case

ALL_CASES = {"B1", "B2", "B3", "B4", "B6", "B7", "B8", "B9", "B10", "B11", "B13"}
NOT_ABOUT_FILES = {
    "B6": "the names of cgroup folders on a node: no accounting or telemetry file has them",
    "B11": "SLURM gave a job other MIG devices than it noted: what its own records say is all that a file has",
}
P, Q = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
DAY_START_S = 1_770_681_600
"""10 February 2026, 0:00 UTC."""
MINUTES = range(0, 24 * 60 + 1, 5)


def steady(name: str, value: str, minutes: Sequence[int] = MINUTES, **labels: str) -> dict[str, object]:
    """A series of the day that always reads the same."""
    values = [[DAY_START_S + 60 * minute, value] for minute in minutes]
    return {"metric": {"__name__": name, **labels}, "values": values}


def answer(*series: dict[str, object]) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": list(series)}})


def dcgm(uuid: str, watts: str, gpu: str, device: str, **labels: str) -> dict[str, object]:
    return steady(
        "DCGM_FI_DEV_POWER_USAGE", watts, MINUTES, UUID=uuid, gpu=gpu, device=device, Hostname="n1",
        modelName="NVIDIA A100",
        **labels,
    )  # fmt: skip


def audited_day(folder: Path, telemetry: str, log: str, **node: str) -> Audited:
    """The day of one machine with two GPUs; energy costs one a kWh."""
    files = {
        "t.json": telemetry, "u.csv": log, "f.csv": fleet(machine(gpus=2, gpu_model="A100", **node)),
        "c.yaml": costs("energy: {pue: 1, default_per_kwh: 1}"),
    }  # fmt: skip
    return audit_texts(folder, files, DAY, "UTC")


def kwh(audited: Audited, tenant: str) -> Decimal:
    return Decimal(tenant_row(audited, tenant).energy_kwh or -1)


CROSSED = [
    # jobstats 34: /dev/nvidia0 is the GPU that nvidia-smi calls 6; its minor number is not its index
    ("B1-the-minor-number-is-another-index", ("6", "nvidia0"), ("0", "nvidia4")),
    # Device-SMI 40, gpustack 1633: CUDA counts fastest first
    ("B7-cuda-counts-the-other-way-round", ("1", "nvidia1"), ("0", "nvidia0")),
    ("B7-no-index-at-all", ("", ""), ("", "")),
]


@pytest.mark.parametrize(("first", "second"), [case[1:] for case in CROSSED], ids=[case[0] for case in CROSSED])
def test_energy_goes_to_the_gpu_of_that_uuid(tmp_path: Path, first: tuple[str, str], second: tuple[str, str]) -> None:
    """P draws 300 W and Q 100 W; a had P for ten hours, b had Q for ten: 3 and 1 kWh."""
    telemetry = answer(dcgm(P, "300", *first), dcgm(Q, "100", *second))
    log = usage(run("j", "a", 0, 10, device=P, gpu_model="A100"), run("k", "b", 0, 10, device=Q, gpu_model="A100"))
    audited = audited_day(tmp_path, telemetry, log)
    assert (kwh(audited, "a"), kwh(audited, "b")) == (Decimal(3), Decimal(1))
    assert unexplained(audited) == []


def test_the_idx_of_a_gres_is_a_count_and_names_no_device(tmp_path: Path) -> None:
    """B1: IDX is a place in SLURM's own list."""
    text = (
        "JobID|Account|Start|End|Elapsed|State|GresUsed|NodeList\n"
        "7|acme|2026-02-10T00:00:00|2026-02-10T01:00:00|01:00:00|COMPLETED|gpu:a100:1(IDX:0)|n1\n"
    )
    (job,) = read_case(tmp_path, "jobs.txt", text, UTC).runs
    assert (job.device, job.gpus, gpu_seconds(job)) == ("", 1, Fraction(3600))


SMI = "timestamp, index, uuid, name, power.draw [W], utilization.gpu [%]\n"


def smi(*rows: tuple[str, str, str, str], name: str = "NVIDIA RTX A5000") -> str:
    return SMI + "".join(
        f"2026/02/10 00:{minute}:00.000, {index}, {uuid}, {name}, {watts} W, 50 %\n"
        for minute, index, uuid, watts in rows
    )


def powers(traces: Sequence[DeviceTrace]) -> dict[str, list[int]]:
    return {trace.device: trace.power_mw.tolist() for trace in traces}


def test_two_gpus_that_each_call_themselves_0_are_two(tmp_path: Path) -> None:
    """B2 (slurm-job-exporter 63): nvidia-smi inside two jobs' cgroups; an A5000 and a P100."""
    one = smi(("00", "0", P, "210.00"), ("01", "0", P, "210.00"))
    both = one + smi(("00", "0", Q, "31.50"), ("01", "0", Q, "31.50"), name="Tesla P100-PCIE-16GB").split("\n", 1)[1]
    told = read_case(tmp_path, "smi.csv", both, UTC)
    assert powers(told.traces) == {P: [210_000, 210_000], Q: [31_500, 31_500]}
    assert [trace.gpu_model for trace in told.traces] == ["NVIDIA RTX A5000", "Tesla P100-PCIE-16GB"]
    assert told.rejected == []


def test_an_index_that_changed_at_a_reboot_is_the_same_gpu(tmp_path: Path) -> None:
    """B7 (tensorflow 32881): NVML's order need not last."""
    text = smi(
        ("00", "0", P, "300.00"), ("00", "1", Q, "100.00"), ("01", "1", P, "300.00"), ("01", "0", Q, "100.00")
    )  # fmt: skip
    assert powers(read_case(tmp_path, "smi.csv", text, UTC).traces) == {P: [300_000, 300_000], Q: [100_000, 100_000]}


HOUR = "2026-02-10T00:00:00Z,2026-02-10T01:00:00Z"
VISIBLE = [
    # determined 7648, deepops 1102: two jobs of one node say 0,1,2 and 0
    ("B3-two-jobs-that-both-have-0", "CUDA_VISIBLE_DEVICES", ('"0,1,2"', "0"), [(3, ""), (1, "")]),
    ("B3-semicolons-and-the-ordinals-of-rocm", "ROCR_VISIBLE_DEVICES", ("0;1;2", "0"), [(3, ""), (1, "")]),
    ("B3-slurms-own-list", "SLURM_JOB_GPUS", ('"4,5,6"', "4"), [(3, ""), (1, "")]),
    # Slinky slurm-operator 112: env_uuid
    ("B4-uuids-in-the-environment", "CUDA_VISIBLE_DEVICES", (f'"{P},{Q},GPU-33"', "GPU-44"), [(3, ""), (1, "GPU-44")]),
    ("B4-the-start-of-a-uuid", "NVIDIA_VISIBLE_DEVICES", ("GPU-fef8089b", "all"), [(1, "GPU-fef8089b"), (None, "")]),
    ("B4-uuids-of-both-kinds", "gpu_uuid", (f"{P}", "MIG-5c9a"), [(1, P), (1, "MIG-5c9a")]),
    ("B4-no-gpu-to-be-seen", "CUDA_VISIBLE_DEVICES", ("NoDevFiles", "0"), [(0, ""), (1, "")]),
]


@pytest.mark.parametrize(
    ("column", "cells", "devices"), [case[1:] for case in VISIBLE], ids=[case[0] for case in VISIBLE]
)
def test_what_a_job_saw_is_counted_and_only_uuids_name_a_gpu(
    tmp_path: Path, column: str, cells: tuple[str, str], devices: list[tuple[int | None, str]]
) -> None:
    text = f"job_id,tenant,node,gpu_model,{column},start,end\n" + "".join(
        f"{number},acme,node010,A100,{cell},{HOUR}\n" for number, cell in enumerate(cells)
    )
    assert [(job.gpus, job.device) for job in read_case(tmp_path, "u.csv", text).runs] == devices


def test_two_jobs_that_both_saw_0_held_two_gpus(tmp_path: Path) -> None:
    """B3: no overlap is made of it."""
    log = f"job_id,tenant,node,gpu_model,CUDA_VISIBLE_DEVICES,start,end\n1,a,n1,A100,0,{HOUR}\n2,b,n1,A100,0,{HOUR}\n"
    audited = audit_texts(tmp_path, {"u.csv": log, "f.csv": fleet(machine(gpu_model="A100")), "c.yaml": costs()}, DAY)
    assert own_costs(audited) == {"a": Decimal(1), "b": Decimal(1)}
    assert "overlap" not in found(audited)


SLICED = [
    # dcgm-exporter 272, 577: the metric is keyed by gpu and instance, the job by the instance's UUID
    ("B8-an-instance-by-its-parent", [f"MIG-{P}/2/0", f"MIG-{P}/1/0"]),
    # dcgm-exporter 92: GKE's plugin
    ("B8-an-instance-by-the-nodes-own-name", ["nvidia0/gi2", "nvidia0/gi1"]),
    ("B8-time-slices-of-instances", [f"MIG-{P}/2/0::0", f"MIG-{P}/1/0::3"]),
]


@pytest.mark.parametrize("devices", [case[1] for case in SLICED], ids=[case[0] for case in SLICED])
def test_an_instance_has_its_part_of_its_gpu(tmp_path: Path, devices: list[str]) -> None:
    """P draws 350 W all day and has instances of 2/7 and 4/7 in use for ten hours: 1 and 2 kWh."""
    instances = [("2", "2g.10gb"), ("1", "4g.20gb")]
    telemetry = answer(*(dcgm(P, "350", "0", "nvidia0", GPU_I_ID=i, GPU_I_PROFILE=p) for i, p in instances))
    log = usage(
        run("j", "a", 0, 10, device=devices[0], gpu_model="A100", share_num="2", share_den="7"),
        run("k", "b", 0, 10, device=devices[1], gpu_model="A100", share_num="4", share_den="7"),
    )
    audited = audited_day(tmp_path, telemetry, log, devices="nvidia0" if devices[0].startswith("nvidia") else "")
    assert (kwh(audited, "a"), kwh(audited, "b")) == (Decimal(1), Decimal(2))
    assert unexplained(audited) == []


WAYS = [
    ("B8-seven-instances-by-uuid-are-one-gpu", [f"MIG-5c9a{k}" for k in range(7)], 1),
    ("B8-fourteen-are-two", [f"MIG-5c9a{k}" for k in range(14)], 2),
]


@pytest.mark.parametrize(("devices", "gpus"), [case[1:] for case in WAYS], ids=[case[0] for case in WAYS])
def test_instances_whose_gpu_nothing_tells_fit_on_their_machine(tmp_path: Path, devices: list[str], gpus: int) -> None:
    rows = [run(f"j{d}", "a", 0, 10, device=d, gpu_model="A100", share_num="1", share_den="7") for d in devices]
    files = {"u.csv": usage(*rows), "f.csv": fleet(machine(gpus=gpus, gpu_model="A100")), "c.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY)
    assert hours(audited) == {"installed": 24 * gpus, "held": 10 * gpus, "free": 14 * gpus}
    assert own_costs(audited) == {"a": Decimal(10 * gpus)}
    assert found(audited) == {}


def test_every_job_on_every_instance_counts_the_card_once(tmp_path: Path) -> None:
    """B9 (dcgm-exporter 369): two jobs on two instances, a series for each of each, all with the card's 350 W."""
    series = [
        dcgm(P, "350", "0", "nvidia0", GPU_I_ID=i, GPU_I_PROFILE="3g.20gb", hpc_job=job)
        for i in ("1", "2") for job in ("101", "102")
    ]  # fmt: skip
    (trace,) = read_case(tmp_path, "t.json", answer(*series)).traces
    assert (trace.device, set(trace.power_mw.tolist())) == (P, {350_000})
    log = usage(run("101", "a", 0, 24, device=P, gpu_model="A100"))
    assert kwh(audited_day(tmp_path / "a", answer(*series), log), "a") == Decimal("8.4")


def text_dump(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


BUSY = [
    # jobstats 52: unknown is not 0 %, and one exporter says 0.85 where another says 85
    ("B10-unknown-under-mig", "DCGM_FI_DEV_GPU_UTIL", "0", {"GPU_I_ID": "1", "GPU_I_PROFILE": "7g.40gb"}, None),
    ("B10-not-a-number", "DCGM_FI_DEV_GPU_UTIL", "NaN", {}, None),
    ("B10-dcgms-blank", "DCGM_FI_DEV_GPU_UTIL", "9223372036854775794", {}, None),
    ("B10-in-percent", "DCGM_FI_DEV_GPU_UTIL", "85", {}, 850_000),
    ("B10-as-a-ratio", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.85", {}, 850_000),
    ("B10-as-a-ratio-of-one-instance", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.85",
     {"GPU_I_ID": "1", "GPU_I_PROFILE": "7g.40gb"}, 850_000),
    ("B10-idle-is-0", "DCGM_FI_DEV_GPU_UTIL", "0", {}, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "value", "labels", "ppm"), [case[1:] for case in BUSY], ids=[case[0] for case in BUSY]
)
def test_a_use_that_is_unknown_is_not_nothing(
    tmp_path: Path, metric: str, value: str, labels: dict[str, str], ppm: int | None
) -> None:
    about = {"UUID": P, "gpu": "0", "Hostname": "n1", "modelName": "NVIDIA A100"} | labels
    minutes = [0, 5, 10]
    text = answer(
        steady("DCGM_FI_DEV_POWER_USAGE", "100", minutes, **about), steady(metric, value, minutes, **about)
    )  # fmt: skip
    (trace,) = read_case(tmp_path, "t.json", text).traces
    assert trace.power_valid.tolist() == [True, True, True]
    assert trace.busy_valid.tolist() == [ppm is not None] * 3
    assert set(trace.busy_ppm[trace.busy_valid].tolist()) == ({ppm} if ppm is not None else set())


def test_a_use_that_nvidia_smi_can_not_tell_is_unknown(tmp_path: Path) -> None:
    """B10 in another file: `[N/A]` under MIG."""
    text = smi(("00", "0", P, "100.00"), ("01", "0", P, "100.00")).replace("50 %", "[N/A]")
    (trace,) = read_case(tmp_path, "smi.csv", text, UTC).traces
    assert (trace.busy_valid.tolist(), trace.power_mw.tolist()) == ([False, False], [100_000, 100_000])


HELD = [
    # ceems 380: the folder of an ended job stayed, and the exporter went on naming it
    ("B13-the-log-says-when-it-ended", 4, MINUTES, 4),
    # slurm-job-exporter 65: the crashed rank's GPU has no process, so no series
    ("B13-a-gpu-without-a-series-was-held-all-the-same", 10, range(0, 61, 5), 10),
]


@pytest.mark.parametrize(("end", "minutes", "held"), [case[1:] for case in HELD], ids=[case[0] for case in HELD])
def test_the_allocation_is_what_was_held_not_what_was_seen(
    tmp_path: Path, end: int, minutes: Sequence[int], held: int
) -> None:
    telemetry = answer(
        steady("DCGM_FI_DEV_POWER_USAGE", "100", minutes, UUID=P, gpu="0", Hostname="n1", hpc_job="7"),
        steady("DCGM_FI_DEV_GPU_UTIL", "99", minutes, UUID=P, gpu="0", Hostname="n1", hpc_job="7"),
    )
    log = usage(run("7", "a", 0, end, 2, gpu_model="A100"))
    audited = audited_day(tmp_path, telemetry, log)
    assert hours(audited) == {"installed": 48, "held": 2 * held, "free": 48 - 2 * held}


def test_every_case_has_a_test_or_a_reason() -> None:
    tables = (CROSSED, VISIBLE, SLICED, WAYS, BUSY, HELD)
    tested = ids_of(*(str(row[0]) for table in tables for row in table)) | ids_in_words(globals())
    assert tested | NOT_ABOUT_FILES.keys() == ALL_CASES
    assert not tested & NOT_ABOUT_FILES.keys()

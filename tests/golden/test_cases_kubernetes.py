"""Known mistakes about who held which GPU in Kubernetes (cases C1 to C18), as files with the right figures.

Each case was reported against a public project; the comment names it.
"""

import json
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.intake.record import UsageRun

from tests.audit_cases import DAY, costs, fleet, found, hours, machine, own_costs, run, usage
from tests.audit_runner import audit_texts, tenant_row, unexplained
from tests.case_files import S, all_gpu_seconds, gpu_seconds, ids_in_words, ids_of, read_case
from tests.kube_cases import DAY_START_S, HOUR, STEP, Item, P, answer, device, of_pod, requests, series

ALL_CASES = {"C1", "C2", "C3", "C4", "C6", "C7", "C8", "C10", "C12", "C14", "C15", "C17", "C18"}
NOT_ABOUT_FILES = {"C18": "process ids and cgroups of a container on its node: no file of an audit has them"}


def held(runs: Sequence[UsageRun]) -> list[tuple[str, Fraction | None]]:
    return sorted((each.job, gpu_seconds(each)) for each in runs)


POWER, ACTIVE = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
REPLICAS = [
    # dcgm-exporter 587: the device's value for each pod; 582: so is its power
    ("C1-three-pods-of-one-gpu", ["a", "b", "c"], {}, Fraction(1200)),
    ("C1-four-pods-of-one-gpu", ["a", "b", "c", "d"], {}, Fraction(900)),
    ("C1-three-pods-of-one-mig-instance", ["a", "b", "c"], {"GPU_I_ID": "3", "GPU_I_PROFILE": "3g.20gb"},
     Fraction(3 * 3600, 7 * 3)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pods", "labels", "seconds"), [case[1:] for case in REPLICAS], ids=[case[0] for case in REPLICAS]
)
def test_pods_that_share_a_gpu_have_it_once_together(
    tmp_path: Path, pods: list[str], labels: dict[str, str], seconds: Fraction
) -> None:
    text = answer(
        *(device(name, value, pod, part=labels) for name, value in ((ACTIVE, "0.714"), (POWER, "200")) for pod in pods)
    )
    told = read_case(tmp_path, "range.json", text, role="usage")
    assert held(told.runs) == [(f"acme/{pod}", seconds) for pod in pods]
    (trace,) = read_case(tmp_path, "range.json", text, role="telemetry").traces
    assert set(trace.power_mw.tolist()) == {200_000}
    busy = 714_000 if not labels else 714_000 * 3 // 7
    assert set(trace.busy_ppm[trace.busy_valid].tolist()) == {busy}


def test_a_pod_shares_only_while_another_is_there(tmp_path: Path) -> None:
    """C1 in another shape: a has the GPU for ten hours and b for the last of them, so 9.5 and 0.5 of its 10 hours."""
    b = device(POWER, "200", "b", 10 * HOUR)
    b["values"] = [each for each in b["values"] if each[0] >= DAY_START_S + 9 * HOUR]
    text = answer(device(POWER, "200", "a", 10 * HOUR), b)
    runs = read_case(tmp_path, "range.json", text, role="usage").runs
    by_pod = {job: sum(s or 0 for name, s in held(runs) if name == job) for job in ("acme/a", "acme/b")}
    assert by_pod == {"acme/a": 9 * HOUR + HOUR // 2, "acme/b": HOUR // 2}


NAMES = [
    # dcgm-exporter 201, 151, 307
    ("C2-a-replicas-name-is-its-gpus", f"{P}::1", P, ""),
    ("C2-the-tenth-replica", f"{P}::10", P, ""),
    ("C2-gkes-slice", "nvidia0/vgpu3", P, "nvidia0"),
    ("C2-in-lower-case", P.lower().replace("gpu-", "GPU-"), P.upper(), ""),
]


@pytest.mark.parametrize(("named", "uuid", "listed"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_a_share_finds_the_energy_of_its_gpu(tmp_path: Path, named: str, uuid: str, listed: str) -> None:
    """Half of a GPU that draws 300 W for two hours: 0.3 kWh, and b's other half too."""
    other = named.replace("::1", "::2").replace("vgpu3", "vgpu1")
    files = {
        "t.json": answer(device(POWER, "300", until_s=2 * HOUR + STEP, UUID=uuid)),
        "u.csv": usage(
            run("j", "a", 0, 2, device=named, gpu_model="A100", share_den="2"),
            run("k", "b", 0, 2, device=other, gpu_model="A100", share_den="2"),
        ),
        "f.csv": fleet(machine(gpus=1, gpu_model="A100", devices=listed)),
        "c.yaml": costs("energy: {pue: 1, default_per_kwh: 1}"),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    assert [Decimal(tenant_row(audited, name).energy_kwh or -1) for name in "ab"] == [Decimal("0.3"), Decimal("0.3")]
    assert own_costs(audited) == {"a": Decimal("1.3"), "b": Decimal("1.3")}
    assert found(audited) == {}


def test_an_idle_gpu_without_a_series_is_no_gpu_of_0_watts(tmp_path: Path) -> None:
    """C3 (its code, and 569): the exporter names a GPU only while a pod has it. 200 W for two hours are 0.4 kWh; of the
    other 22 hours nobody knows."""
    files = {
        "t.json": answer(device(POWER, "200", "a", until_s=2 * HOUR + STEP)),
        "u.csv": usage(run("j", "acme", 0, 2, device=P, gpu_model="A100")),
        "f.csv": fleet(machine(gpus=1, gpu_model="A100")),
        "c.yaml": costs("energy: {pue: 1, default_per_kwh: 1}"),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    assert Decimal(tenant_row(audited, "acme").energy_kwh or -1) == Decimal("0.4")
    assert audited.report.coverage.unknown_energy_ratio == "0.9167"
    assert audited.report.coverage.measured_ratio == "0.0833"


def scrape(at_s: int, watts: str, pods: str = "") -> str:
    labels = f'UUID="{P}",gpu="0",Hostname="n1"{pods}'
    return f"# time: {DAY_START_S + at_s}\nDCGM_FI_DEV_POWER_USAGE{{{labels}}} {watts}\n"


SCRAPES = [
    # dcgm-exporter PR 533, PR 730
    ("C4-the-idle-gpus-series-is-gone-from-a-scrape", f"# time: {DAY_START_S + 60}\n# HELP x y\n", []),
    ("C4-the-whole-scrape-failed", "Internal Server Error\n", ["not_a_sample"]),
    ("C4-a-page-instead-of-a-scrape", "<html><body>500</body></html>\n", ["not_a_sample"]),
]


@pytest.mark.parametrize(("middle", "codes"), [case[1:] for case in SCRAPES], ids=[case[0] for case in SCRAPES])
def test_a_scrape_that_is_missing_leaves_the_others(tmp_path: Path, middle: str, codes: list[str]) -> None:
    text = scrape(0, "200", ',hpc_job="7"') + middle + scrape(120, "210") + scrape(180, "210", ',hpc_job="8"')
    told = read_case(tmp_path, "scrapes.txt", text)
    (trace,) = told.traces
    assert (trace.power_mw.tolist(), told.codes) == ([200_000, 210_000, 210_000], codes)
    assert [(at - trace.ticks_us[0]) // S for at in trace.ticks_us.tolist()] == [0, 120, 180]


ENDED = str(DAY_START_S + HOUR)
LATE = [
    # k8s-device-plugin 290, dcgm-exporter 140: the request and the metrics stay for half an hour
    ("C6-its-completion-time", [of_pod("kube_pod_completion_time", HOUR, 2 * HOUR, value=ENDED)]),
    ("C6-its-phase", [
        of_pod("kube_pod_status_phase", 0, HOUR, phase="Running"),
        of_pod("kube_pod_status_phase", HOUR, HOUR + 1800, phase="Running", value="0"),
        of_pod("kube_pod_status_phase", HOUR, HOUR + 1800, phase="Succeeded"),
    ]),
    ("C6-its-container-has-ended", [
        of_pod("kube_pod_container_status_terminated", 0, HOUR, value="0", container="main"),
        of_pod("kube_pod_container_status_terminated", HOUR, HOUR + 1800, container="main"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("facts", [case[1] for case in LATE], ids=[case[0] for case in LATE])
def test_a_gpu_is_held_until_its_container_ended(tmp_path: Path, facts: list[Item]) -> None:
    text = answer(
        requests(0, HOUR + 1800, count="2"), of_pod("kube_pod_start_time", 0, HOUR, value=str(DAY_START_S)), *facts
    )  # fmt: skip
    assert held(read_case(tmp_path, "range.json", text).runs) == [("acme/train-0", Fraction(7200))]


OVERLAPS = [
    # kubernetes 141471: the new claim stands at T+0.42 s, the old one went at T+2.47 s; 130145
    ("C7-two-seconds-of-two-claims", "2026-02-10T01:00:02.470Z", "2026-02-10T01:00:00.420Z"),
    ("C7-a-claim-that-was-never-released", "2026-02-10T02:00:00Z", "2026-02-10T01:00:00Z"),
]


@pytest.mark.parametrize(("old_end", "new_start"), [case[1:] for case in OVERLAPS], ids=[case[0] for case in OVERLAPS])
def test_two_claims_on_one_gpu_are_one_gpu(tmp_path: Path, old_end: str, new_start: str) -> None:
    log = usage(
        run("old", "a", 0, 1, device=P, gpu_model="A100") | {"end": old_end},
        run("new", "b", 1, 2, device=P, gpu_model="A100") | {"start": new_start},
    )
    files = {"u.csv": log, "f.csv": fleet(machine(gpus=1, gpu_model="A100")), "c.yaml": costs()}
    audited = audit_texts(tmp_path, files, DAY)
    assert hours(audited) == {"installed": 24, "held": 2, "free": 22}
    assert sum(own_costs(audited).values()) == 2
    assert found(audited)["overlap"] >= 1
    assert unexplained(audited) == []


INIT = "kube_pod_init_container_resource_requests"
SIDECARS = [
    # volcano 5829: 8, not the larger of the two; dcgm-exporter 497
    ("C8-a-native-sidecar-holds-beside-its-pod", "Always", Fraction(8 * HOUR)),
    ("C8-an-init-container-holds-what-the-pod-has", "", Fraction(4 * HOUR)),
]


@pytest.mark.parametrize(("policy", "seconds"), [case[1:] for case in SIDECARS], ids=[case[0] for case in SIDECARS])
def test_a_sidecar_adds_and_an_init_container_does_not(tmp_path: Path, policy: str, seconds: Fraction) -> None:
    info = {"restart_policy": policy} if policy else {}
    text = answer(
        requests(0, HOUR, count="4"),
        requests(0, HOUR, count="4", container="side", metric=INIT),
        of_pod("kube_pod_init_container_info", 0, HOUR, container="side", **info),
        of_pod("kube_pod_status_phase", 0, HOUR, phase="Running"),
    )
    assert all_gpu_seconds(read_case(tmp_path, "range.json", text).runs) == seconds


UNASKED = [
    # k8s-device-plugin 61, 87, 195: a pod that asked for none sees all GPUs
    ("C10-use-that-no-request-explains", "99", "0.40", True),
    ("C10-a-little-use-is-use", "3", "0.40", True),
    ("C10-no-use-is-idle", "0", "0.00", False),
]


@pytest.mark.parametrize(("use", "cost", "flagged"), [case[1:] for case in UNASKED], ids=[case[0] for case in UNASKED])
def test_a_gpu_that_works_for_nobody_is_named(tmp_path: Path, use: str, cost: str, flagged: bool) -> None:
    """Of two GPUs one is acme's for an hour; the other draws 400 W in it."""
    q = P.replace("1", "2")
    files = {
        "t.json": answer(
            device(POWER, "300", until_s=HOUR + STEP),
            device(POWER, "400", until_s=HOUR + STEP, UUID=q, gpu="1"),
            device("DCGM_FI_DEV_GPU_UTIL", use, until_s=HOUR + STEP, UUID=q, gpu="1"),
        ),
        "u.csv": usage(run("j", "acme", 0, 1, device=P, gpu_model="A100")),
        "f.csv": fleet(machine(gpus=2, gpu_model="A100")),
        "c.yaml": costs("energy: {pue: 1, default_per_kwh: 1}"),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    assert Decimal(tenant_row(audited, "acme").energy_kwh or -1) == Decimal("0.3")
    cost_of = {state.step: Decimal(state.cost or 0) for state in audited.report.waterfall}
    assert cost_of.get("unattributed", 0) == Decimal(cost)
    assert cost_of["installed"] == 48 + Decimal("0.7")
    assert ("usage_without_holder" in found(audited)) == flagged


FLIPS = [
    # dcgm-exporter 237, 342, 340
    ("C12-with-and-without-a-pod", ["train-0", ""]),
    ("C12-from-pod-to-pod-and-back", ["train-0", "", "train-0"]),
]


@pytest.mark.parametrize("pods", [case[1] for case in FLIPS], ids=[case[0] for case in FLIPS])
def test_a_gpu_with_and_without_a_pods_name_is_one_gpu(tmp_path: Path, pods: list[str]) -> None:
    text = answer(*(device(POWER, "250", pod) for pod in pods))
    told = read_case(tmp_path, "range.json", text)
    (trace,) = told.traces
    assert (trace.device, len(trace.ticks_us), set(trace.power_mw.tolist())) == (P, 60, {250_000})
    assert "conflicting_sample" not in told.codes
    assert held(read_case(tmp_path, "range.json", text, role="usage").runs) == [("acme/train-0", Fraction(3600))]


def test_requests_of_renamed_labels_are_the_pods_not_the_exporters(tmp_path: Path) -> None:
    """C12 in kube-state-metrics: with honorLabels=false the true names are the exported ones."""
    item = series(
        0, HOUR, "2", __name__="kube_pod_container_resource_requests", exported_pod="train-0",
        exported_namespace="acme", exported_container="main", exported_node="n1", pod="kube-state-metrics-x",
        namespace="monitoring", container="ksm", node="n9", resource="nvidia_com_gpu", unit="integer",
    )  # fmt: skip
    (found_run,) = read_case(tmp_path, "range.json", answer(item)).runs
    assert (found_run.job, found_run.tenant, found_run.nodes) == ("acme/train-0", "acme", ("n1",))
    assert gpu_seconds(found_run) == 7200


def test_a_pods_name_that_came_again_is_another_pod(tmp_path: Path) -> None:
    """C14 (dcgm-exporter 718): no uid; the first lived from 0:00 to 1:00, the second from 3:00 to 5:00."""
    parts = [(0, HOUR), (3 * HOUR, 5 * HOUR)]
    items = [requests(*part, uid="") for part in parts]
    items += [of_pod("kube_pod_start_time", *part, value=str(DAY_START_S + part[0]), uid="") for part in parts]
    items += [of_pod("kube_pod_status_phase", *part, phase="Running", uid="") for part in parts]
    runs = read_case(tmp_path, "range.json", answer(*items)).runs
    assert held(runs) == [("acme/train-0", Fraction(3600)), ("acme/train-0", Fraction(7200))]
    assert len({each.run_key for each in runs}) == 2


def test_two_uids_of_one_name_are_two_pods(tmp_path: Path) -> None:
    """C14 with uids, one after the other without a gap."""
    items = [requests(0, HOUR, uid="u1"), requests(HOUR, 2 * HOUR, uid="u2")]
    runs = read_case(tmp_path, "range.json", answer(*items)).runs
    assert held(runs) == [("acme/train-0", Fraction(3600)), ("acme/train-0", Fraction(3600))]
    assert {each.run_key.split("|")[0] for each in runs} == {"u1", "u2"}


VIRTUAL = [
    # kubevirt 11660: the resource is called after the card
    ("C15-a-card-passed-through", "nvidia_com_GA102GL_A10", "2", "GA102GL_A10", Fraction(2 * HOUR)),
    ("C15-written-as-kubernetes-does", "nvidia.com/GH100_H100_SXM5_80GB", "1", "GH100_H100_SXM5_80GB", Fraction(HOUR)),
    ("C15-no-gpu-at-all", "nvidia_com_gpumem", "8000", "", None),
]


@pytest.mark.parametrize(
    ("resource", "count", "model", "seconds"), [case[1:] for case in VIRTUAL], ids=[case[0] for case in VIRTUAL]
)
def test_a_card_of_a_virtual_machine_is_a_gpu(
    tmp_path: Path, resource: str, count: str, model: str, seconds: Fraction | None
) -> None:
    items = [requests(0, HOUR, "virt-launcher-vm1", count, resource, container="compute")]
    runs = read_case(tmp_path, "range.json", answer(*items)).runs
    assert [(each.gpu_model, gpu_seconds(each)) for each in runs] == ([(model, seconds)] if seconds else [])


def test_a_card_that_the_host_can_not_see_has_unknown_energy(tmp_path: Path) -> None:
    """C15 (dcgm-exporter 314): n1's card is passed through, so the host's exporter tells of n2's only."""
    text = answer(device(POWER, "200", until_s=DAY_S + STEP, Hostname="n2"))
    files = {
        "t.json": text,
        "u.csv": usage(
            run("vm1", "acme", 0, 24, gpu_model="A100"), run("j", "bravo", 0, 24, node="n2", gpu_model="A100")
        ),
        "f.csv": fleet(machine(gpus=1, gpu_model="A100"), machine("n2", gpus=1, gpu_model="A100")),
        "c.yaml": costs("energy: {pue: 1, default_per_kwh: 1}"),
    }  # fmt: skip
    audited = audit_texts(tmp_path, files, DAY)
    assert tenant_row(audited, "acme").energy_kwh is None
    assert Decimal(tenant_row(audited, "bravo").energy_kwh or -1) == Decimal("4.8")


DAY_S = 24 * HOUR


def allocation(pod: str, **fields: Any) -> Item:
    start, end = "2026-02-10T00:00:00Z", "2026-02-10T10:00:00Z"
    where = {"cluster": "eks", "node": "g4", "namespace": pod, "pod": pod, "container": "main"}
    return {
        "name": f"eks/g4/{pod}/{pod}/main", "properties": where, "window": {"start": start, "end": end},
        "start": start, "end": end, "minutes": 600, "gpuCount": 1, "gpuHours": 10, "gpuCost": 9.5, "cpuCost": 0.9,
        "totalCost": 10.4,
    } | fields  # fmt: skip


def test_the_parts_of_a_node_come_to_its_bill_and_no_more(tmp_path: Path) -> None:
    """C17 (opencost PR 2862): a g4dn.xlarge at 0.526 an hour, its GPU alone priced 0.95. Ten hours: 5.26, not 10.4."""
    text = json.dumps({"code": 200, "data": [{"x": allocation("acme")}]})
    sheet = (
        "currency: USD\ntimezone: UTC\nfleet:\n  - {node: g4, gpu_model: T4, gpus: 1, cpus: 4, mem: 16G}\n"
        "compute:\n  - {gpu_model: T4, per_node_hour: 0.526, weights: {gpu: 9, cpu: 0.9, memory_gb: 0.1}}\n"
    )
    audited = audit_texts(tmp_path, {"a.json": text, "costs.yaml": sheet}, "2026-02-10T00:00..2026-02-10T10:00")
    parts = sum((Decimal(row.cost_own or 0) for row in audited.report.tenants), Decimal(0))
    idle = sum((Decimal(row.cost or 0) for row in audited.report.idle), Decimal(0))
    assert parts + idle == Decimal("5.26")
    assert 0 < parts <= Decimal("5.26")


COUNTS = [
    # opencost PR 2987, 3900
    ("C17-a-doubled-count-beside-its-hours", {"gpuCount": 2, "gpuHours": 10}, ("gpu_hours_disagree",), Fraction(72000)),
    ("C17-hours-alone", {"gpuCount": None, "gpuHours": 5}, (), Fraction(18000)),
    ("C17-an-average-of-a-part", {"gpuCount": 0.25, "gpuHours": 2.5}, (), Fraction(9000)),
]


@pytest.mark.parametrize(
    ("fields", "marks", "seconds"), [case[1:] for case in COUNTS], ids=[case[0] for case in COUNTS]
)
def test_a_count_that_disagrees_with_its_hours_is_marked(
    tmp_path: Path, fields: dict[str, Any], marks: tuple[str, ...], seconds: Fraction
) -> None:
    text = json.dumps({"code": 200, "data": [{"x": allocation("acme", **fields)}]})
    found_run = read_case(tmp_path, "a.json", text).run()
    assert (found_run.marks, gpu_seconds(found_run)) == (marks, seconds)


def test_every_case_has_a_test_or_a_reason() -> None:
    tables = (REPLICAS, NAMES, UNASKED, SCRAPES, LATE, OVERLAPS, SIDECARS, FLIPS, VIRTUAL, COUNTS)
    tested = ids_of(*(str(row[0]) for table in tables for row in table)) | ids_in_words(globals())
    assert tested | NOT_ABOUT_FILES.keys() == ALL_CASES
    assert not tested & NOT_ABOUT_FILES.keys()

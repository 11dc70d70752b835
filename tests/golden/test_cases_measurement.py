"""Known mistakes of measuring (cases B01 to B63 of the reports): whose energy it is, from the names that schedulers and
exporters give to the joules of each job. What a reading means, by vendor and kind, stands in the files beside this one.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from wattledger_agent.probes.device import Inventory
from wattledger_agent.probes.scrape import ScrapeProbe
from wattledger_agent.process_owner import ProcessOwners
from wattledger_agent.watchers.process_table import ProcessTable
from wattledger_agent.watchers.slurm import SlurmWatcher
from wattledger_agent.watchers.slurm_document import parse_document
from wattledger_agent.watchers.slurm_folder import DropFolder
from wattledger_agent.watchers.slurm_site import SlurmSite

from tests.fake_nvml import START_US, FakeNvml
from tests.fake_nvml_card import FakeGpu, FakeInstance, FakeProcess
from tests.fake_scrape import GPU_A, URL, Pages, page, sample
from tests.kube_api_server import T, api_pod
from tests.kube_pod_resources_server import devices, gpu_pod
from tests.kube_world import kube_node
from tests.live_path import LivePath
from tests.measurement_path import J, MeasuredNode, held
from tests.proc_tree import HZ, ProcTree
from tests.slurm_watch_case import Told, drop_text, put_drop, watch

ALL_CASES = {
    "B01", "B02", "B03", "B04", "B05", "B06", "B07", "B09", "B11", "B12", "B14", "B15", "B18", "B19", "B20", "B22",
    "B23", "B24", "B25", "B27", "B29", "B30", "B32", "B33", "B35", "B36", "B38", "B39", "B41", "B42", "B43", "B44",
    "B47", "B48", "B50", "B52", "B53", "B54", "B55", "B56", "B57", "B59", "B62", "B63",
}  # fmt: skip
NOT_ABOUT_THE_AGENT = {
    "B63": "zeus infers how often a sensor is renewed from its polling; the agent infers nothing and has a table",
}
SENTINELS = {
    "4294967295", "18446744073709551615", "65535", "255", "[N/A]", "[Not Supported]", "[Unknown Error]",
    "[Insufficient Permissions]", "ERR!", "9223372036854775792", "9223372036854775795", "140737488355328.0",
    "2147483632", "18446744073709551614", "4294967294", "0-mw-of-a-field-that-failed", "0-counter-with-a-busy",
    "B09-success-with-none", "util-above-100", "power-above-1.5", "pid above 4194304", "ts-1.5-s-ahead",
}  # fmt: skip
P100, A5000 = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
MIG = "MIG-33333333-3333-3333-3333-333333333333"
NOW_S = START_US // 1_000_000
SITE = SlurmSite("n1", cluster="c1")


class SlurmNode:
    """Cards on a node of SLURM whose prolog drops records; time and energy start at NOW_S."""

    def __init__(self, folder: Path, *gpus: FakeGpu) -> None:
        self.machine = FakeNvml(list(gpus))
        self.node = MeasuredNode(folder, self.machine.clock, self.machine.probe())
        self.node.tick()
        self._drops = folder / "drops"
        self._drops.mkdir(mode=0o700)
        watcher = SlurmWatcher(SITE, (), DropFolder(self._drops, SITE, frozenset({self._drops.stat().st_uid})))
        inventory = Inventory(tuple(self.node.sampler.devices.values()))
        self.path = LivePath(folder / "watch", inventory, watcher, base_us=START_US)

    def prolog(self, job: str = "7", account: str = "acme", **values: str) -> None:
        """A record of now. What is not given of the devices is not there."""
        told = {
            "SLURM_JOB_ID": job, "SLURM_JOB_ACCOUNT": account, "SLURM_CLUSTER_NAME": "c1", "SLURMD_NODENAME": "n1",
            "SLURM_JOB_GPUS": "-", "SLURM_JOB_START_TIME": f"{NOW_S}", **values,
        }  # fmt: skip
        put_drop(self._drops, drop_text("prolog", f"{NOW_S}000000001", **told))

    def run(self, seconds: int = 10) -> dict[str, int]:
        """Energy by tenant after so many seconds; whose is not known is `__unattributed__` or `__idle__`."""
        self.path.look(1)
        self.node.run(self.machine.advance, seconds)
        return self.node.energy_uj(*self.path.job_events())


def two_cards() -> tuple[FakeGpu, FakeGpu]:
    return (
        FakeGpu(P100, 0, "Tesla P100-PCIE-16GB", 4, minor=0, bus=0x1A, power_mw=30_000),
        FakeGpu(A5000, 1, "NVIDIA RTX A5000", 7, 0x2231_10DE, minor=1, bus=0x1B, power_mw=210_000),
    )


B38: list[tuple[str, Mapping[str, str], dict[str, int]]] = [
    # slurm-job-exporter 63: the job sees its card as 0
    ("B38-by-uuid-whatever-the-cgroup-calls-it", {"CUDA_VISIBLE_DEVICES": A5000}, {"acme": 2100 * J}),
    ("B38-by-slurms-own-number", {"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"}, {"acme": 2100 * J}),
    ("B38-by-the-start-of-a-uuid", {"CUDA_VISIBLE_DEVICES": "GPU-2222"}, {"acme": 2100 * J}),
    ("B38-by-the-cgroups-number-alone-it-is-nobodys", {"CUDA_VISIBLE_DEVICES": "0"}, {}),
]


@pytest.mark.parametrize(("values", "energy"), [case[1:] for case in B38], ids=[case[0] for case in B38])
def test_a_job_has_the_energy_of_the_card_that_it_was_given(
    tmp_path: Path, values: dict[str, str], energy: dict[str, int]
) -> None:
    """A P100 of 30 W and an A5000 of 210 W for ten seconds."""
    site = SlurmNode(tmp_path, *two_cards())
    site.prolog(**values)
    found = site.run()
    rest = {"__unattributed__": 2400 * J - sum(energy.values())}
    assert found == {**energy, **rest}
    assert site.path.reasons() == ([] if energy else ["device_unknown_space"])


def test_b39_slurms_number_is_the_minor_and_not_nvmls_index(tmp_path: Path) -> None:
    """jobstats 34: /dev/nvidia0 is NVML's 6, NVML's 0 is /dev/nvidia4. Cards draw 100 W and their index."""
    minors = {0: 4, 1: 5, 2: 6, 3: 7, 4: 1, 5: 2, 6: 0, 7: 3}
    gpus = [
        FakeGpu(
            f"GPU-{n}0000000-0000-0000-0000-000000000000", n, minor=minors[n], bus=0x1A + n, power_mw=100_000 + n * 1000
        )
        for n in range(8)
    ]
    site = SlurmNode(tmp_path, *gpus)
    site.prolog(SLURM_JOB_GPUS="0")
    site.prolog("8", "umbrella", SLURM_JOB_GPUS="4")
    found = site.run()
    assert (found["acme"], found["umbrella"]) == (1060 * J, 1000 * J)


LISTS: list[tuple[str, Mapping[str, str], list[tuple[str, str]]]] = [
    ("B41-a-uuid", {"CUDA_VISIBLE_DEVICES": P100}, [(P100, "")]),
    ("B41-a-mig-uuid", {"CUDA_VISIBLE_DEVICES": MIG}, [(A5000, "2")]),
    ("B41-two-numbers-of-slurms", {"SLURM_JOB_GPUS": "0,1"}, [(P100, ""), (A5000, "")]),
    ("B41-a-range", {"SLURM_JOB_GPUS": "0-1"}, [(P100, ""), (A5000, "")]),
    ("B41-uuids-in-slurms-list", {"SLURM_JOB_GPUS": f"{P100},{MIG}"}, [(P100, ""), (A5000, "2")]),
    ("B41-two-numbers-of-cudas-name-nothing", {"CUDA_VISIBLE_DEVICES": "0,2"}, []),
    ("B41-no-devices", {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
]


@pytest.mark.parametrize(("values", "claims"), [case[1:] for case in LISTS], ids=[case[0] for case in LISTS])
def test_every_form_of_a_list_of_devices_is_read(
    tmp_path: Path, values: dict[str, str], claims: list[tuple[str, str]]
) -> None:
    """slurm-operator 112."""
    first, second = two_cards()
    second.mig_mode, second.instances = 1, [FakeInstance(2, "3g.20gb", (MIG,))]
    site = SlurmNode(tmp_path, first, second)
    site.prolog(**values)
    site.path.look(1)
    (started,) = site.path.events()
    assert [(claim["device"], claim["gpu_instance"]) for claim in started["claims"]] == claims
    is_numbered = values.get("CUDA_VISIBLE_DEVICES") == "0,2"
    assert site.path.reasons() == ["device_unknown_space"] * (2 if is_numbered else 0)


SQUEUE = {
    "job_id": 7, "account": "acme", "job_state": ["RUNNING"], "nodes": "n1", "start_time": NOW_S, "cluster": "c1",
    "tres_per_node": "N/A", "tres_alloc_str": "cpu=2,mem=512M,node=1,billing=2,gres/gpu=1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("detail", "claims", "reasons"),
    [(["gpu:1(IDX:1)"], [A5000], []), ([], [], ["device_unknown_space"])],
    ids=["B42-which-one-is-told", "B42-only-that-it-is-one"],
)
def test_what_was_asked_per_node_says_nothing_and_what_is_allocated_does(
    tmp_path: Path, detail: list[str], claims: list[str], reasons: list[str]
) -> None:
    """slurm_exporter 35: %b is N/A, tres-alloc has gres/gpu=1."""
    told = Told()
    site = SlurmNode(tmp_path, *two_cards())
    path = LivePath(tmp_path / "squeue", site.path.inventory, watch(told, site=SITE), base_us=START_US)
    data = json.dumps({"jobs": [{**SQUEUE, "gres_detail": detail}]}).encode()
    told.documents.append(parse_document(data, SITE, START_US, "squeue"))
    path.look(1)
    (started,) = path.events()
    assert ([claim["device"] for claim in started["claims"]], path.reasons()) == (claims, reasons)
    assert claims or "gpu:any#0" in path.details()


def test_b43_a_card_that_is_held_and_not_used_is_its_holders_idle_energy(tmp_path: Path) -> None:
    """slurm-job-exporter 65: 600 s at 70 W without a process are 42,000 J, held and idle."""
    site = SlurmNode(tmp_path, FakeGpu(P100, 0, power_mw=70_000, busy=0))
    site.prolog(SLURM_JOB_GPUS="0")
    assert site.run(600) == {"acme": 42_000 * J}
    lines = site.node.lines(*site.path.job_events())
    assert {line.state for line in lines} == {"held"}
    assert (sum(line.idle_energy_uj for line in lines), sum(line.busy_us for line in lines)) == (42_000 * J, 0)


POD, OTHER_POD = "1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c", "2f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c"
KUBE = "0::/kubepods/pod{}/" + "4f" * 32 + "\n"


@pytest.mark.parametrize(
    ("inner", "energy"),
    [((324,), {"p": 2250 * J, "q": 750 * J}), ((), {"q": 750 * J, "__unattributed__": 2250 * J})],
    ids=["B11-the-same-process-in-its-own-namespace", "B11-a-process-of-nobody"],
)
def test_pids_of_two_namespaces_are_joined_by_the_kernel_or_not_at_all(
    tmp_path: Path, inner: tuple[int, ...], energy: dict[str, int]
) -> None:
    """HAMi-core 112: one list says 324, the other 645400. 60 to 20 of 3,000 J; the first second is not told yet."""
    proc = ProcTree(tmp_path / "proc")
    proc.add(645_400, inner=inner, cgroup=KUBE.format(POD) if inner else "0::/\n")
    proc.add(777, cgroup=KUBE.format(OTHER_POD))
    owners = ProcessOwners(ProcessTable(proc.root, ticks_per_s=HZ))
    owners.follow({POD: ("c1", "p"), OTHER_POD: ("c1", "q")})
    gpu = FakeGpu("GPU-a", 0, processes=[FakeProcess(324), FakeProcess(777)])
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe(), shares_of=owners.of_device)

    def advance() -> None:
        machine.advance()
        stamp = machine.clock.wall_us() - 50_000
        gpu.samples = [(645_400, stamp, 60, 1, 0, 0), (777, stamp, 20, 1, 0, 0)]

    node.run(advance, 10)
    assert node.energy_uj(held("p", "GPU-a", den=2), held("q", "GPU-a", den=2)) == energy


CARD = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
SHARED: list[tuple[str, list[str], dict[str, int]]] = [
    # dcgm-exporter 307, 151, 201: one map of devices to pods, where the last one wins
    ("B14-uuid-and-colons", [f"{CARD}::{n}" for n in range(4)], dict.fromkeys("abcd", 750 * J)),
    ("B14-gkes-names", [f"nvidia0/vgpu{n}" for n in range(4)], dict.fromkeys("abcd", 750 * J)),
    # a whole card, its only replica and a half of it: 1 : 1 : ½ of 3,000 J. A plugin that counts `-0` in a way of its
    # own may have given d another card than it says (HAMi does): d is an owner, of a device that nobody knows
    ("B14-all-at-once", [CARD, f"{CARD}::0", "nvidia0/vgpu1", f"{CARD}-0"],
     {"a": 1200 * J, "b": 1200 * J, "c": 600 * J}),
]  # fmt: skip


@pytest.mark.parametrize(("ids", "energy"), [case[1:] for case in SHARED], ids=[case[0] for case in SHARED])
def test_all_four_pods_of_a_shared_card_are_its_owners(tmp_path: Path, ids: list[str], energy: dict[str, int]) -> None:
    """3,000 J of one card among four pods; no list of processes, so each has a quarter."""
    machine = FakeNvml([FakeGpu(CARD, 0, codes={"nvmlDeviceGetComputeRunningProcesses_v3": 3})])
    machine.clock.now_us = (T + 100) * 1_000_000
    node = MeasuredNode(tmp_path, machine.clock, machine.probe())
    node.run(machine.advance, 10)
    with kube_node(tmp_path) as site:
        inventory = Inventory(tuple(node.sampler.devices.values()))
        path = LivePath(tmp_path / "watch", inventory, site.watcher, base_us=T * 1_000_000)
        site.kubelet.allocatable = [devices("nvidia.com/gpu", *ids)]
        site.kubelet.pods = [gpu_pod(name, one, namespace=name) for name, one in zip("abcd", ids, strict=True)]
        site.api.pods = [api_pod(name, namespace=name) for name in "abcd"]
        path.look(10)
    assert sorted(event["tenant"] for event in path.events()) == ["a", "b", "c", "d"]
    assert ("device_unknown" in path.reasons()) == ("d" not in energy)
    assert node.energy_uj(*path.job_events()) == energy


def test_b14_an_exporters_page_that_names_four_pods_has_one_shared_card(tmp_path: Path) -> None:
    machine = FakeNvml([])
    names = [("", "a"), ("-0", "b"), ("::1", "c"), ("/vgpu1", "d")]
    lines = [sample("DCGM_FI_DEV_POWER_USAGE", "300.0", f"{GPU_A}{tail}", pod=pod) for tail, pod in names]
    probe = ScrapeProbe(URL, Pages(page(*lines)), boot="b", clock=machine.clock)
    node = MeasuredNode(tmp_path, machine.clock, probe)
    node.run(lambda: machine.clock.sleep(1), 10)
    assert [(one["device"], one["sharing"]) for one in node.wire()] == [(GPU_A, "time_sliced")]
    assert node.total_uj() == 3000 * J


def sources() -> str:
    return "".join(
        path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_cases_measurement*.py"))
    )


def test_every_case_has_a_test_or_a_reason() -> None:
    names = re.findall(r"def test_((?:b\d\d_)+)|\"(B\d\d)-", sources())
    tested = {number.upper() for words, one in names for number in (one or words).strip("_").split("_")}
    assert tested | NOT_ABOUT_THE_AGENT.keys() == ALL_CASES
    assert not tested & NOT_ABOUT_THE_AGENT.keys()


def test_every_mark_of_the_sentinel_table_has_a_test() -> None:
    text = sources().replace(Path(__file__).read_text(encoding="utf-8"), "")
    assert {mark for mark in SENTINELS if mark not in text} == set()


REPORTS = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "measurement.md"


@pytest.mark.skipif(not REPORTS.is_file(), reason=f"the reports are not there: {REPORTS}")
def test_the_cases_are_those_of_the_reports() -> None:
    assert set(re.findall(r"^\| (B\d\d) \|", REPORTS.read_text(encoding="utf-8"), re.MULTILINE)) == ALL_CASES

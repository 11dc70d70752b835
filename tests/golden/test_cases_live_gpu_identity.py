"""Known mistakes about which GPU is which (cases B1 to B13), as a running agent meets them: four index spaces (SLURM's
positions and minor numbers, NVML's, CUDA's, a cgroup's own) are never taken for one another."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.probes.reading import ProcessReading, Reading
from wattledger_agent.process_owner import ProcessOwners
from wattledger_agent.watchers.cgroup import CgroupTree
from wattledger_agent.watchers.container import ContainerWatcher
from wattledger_agent.watchers.process import ProcessWatcher
from wattledger_agent.watchers.process_table import ProcessTable

from tests.fake_nvml import FakeNvml
from tests.fake_nvml_card import FakeGpu, FakeInstance
from tests.live_path import Hold, LivePath, S, cards
from tests.live_slurm_path import GPUS, SlurmPath
from tests.measurement_path import J, MeasuredNode, held
from tests.proc_tree import BOOT_S, HZ, ProcTree
from tests.slurm_watch_case import scontrol_job

P100, A5000 = "GPU-11111111-1111-1111-1111-111111111111", "GPU-22222222-2222-2222-2222-222222222222"
MIG_ONE, MIG_TWO = "MIG-33333333-3333-3333-3333-333333333333", "MIG-44444444-4444-4444-4444-444444444444"
PARENT = "GPU-55555555-5555-5555-5555-555555555555"
DIVIDED = Inventory(
    (
        Device(
            PARENT, "nvidia", "A100", "550", 0, 0, "0000:1a:00.0", sharing="mig", is_mig=True,
            instances=(
                MigInstance("1", MIG_ONE, "3g.20gb", 3, minors=(30, 31)),
                MigInstance("2", MIG_TWO, "3g.20gb", 3, minors=(39, 40)),
            ),
        ),
    )
)  # fmt: skip
CROSSED = Inventory(
    (
        Device(P100, "nvidia", "P100", "550", index=6, minor=0, pci="0000:1a:00.0"),
        Device(A5000, "nvidia", "A5000", "550", index=0, minor=4, pci="0000:1b:00.0"),
    )
)
"""jobstats 34: minor 0 is index 6, minor 4 is index 0."""


def slurm(folder: Path, inventory: Inventory = CROSSED, **site: Any) -> SlurmPath:
    return SlurmPath(folder, has_files=False, inventory=inventory, **site)


NAMED: list[tuple[str, str, dict[str, str], object, list[str]]] = [
    # case, SLURM_JOB_GPUS, other variables, the site's setting, devices
    ("B1-slurms-number-is-the-minor", "0", {}, "minor", [P100]),
    ("B1-where-a-site-says-that-it-is-the-index", "0", {}, "index", [A5000]),
    ("B1-where-a-site-has-a-list-of-files", "1,0", {}, ["/dev/nvidia0", "/dev/nvidia4"], [P100, A5000]),
    ("B1-a-number-that-no-card-has", "3", {}, "minor", []),
    ("B2-the-jobs-own-0-is-not-the-nodes", "4", {"CUDA_VISIBLE_DEVICES": "0"}, "minor", [A5000]),
    ("B3-cudas-numbers-alone-name-nothing", "-", {"CUDA_VISIBLE_DEVICES": "0"}, "minor", []),
    ("B3-rocms-neither", "-", {"ROCR_VISIBLE_DEVICES": "0;1"}, "minor", []),
    ("B4-a-uuid-in-the-environment", "0", {"CUDA_VISIBLE_DEVICES": A5000}, "minor", [A5000]),
    ("B4-a-uuid-in-slurms-own-list", A5000, {}, "minor", [A5000]),
    ("B4-the-start-of-a-uuid", "-", {"CUDA_VISIBLE_DEVICES": "GPU-2222"}, "minor", [A5000]),
    ("B4-the-start-of-both", "-", {"CUDA_VISIBLE_DEVICES": "GPU-"}, "minor", []),
    ("B7-cudas-order-is-never-joined-on", "0,4", {"CUDA_VISIBLE_DEVICES": "1,0"}, "minor", [P100, A5000]),
]


@pytest.mark.parametrize(
    ("gpus", "values", "order", "held_devices"), [case[1:] for case in NAMED], ids=[case[0] for case in NAMED]
)
def test_a_job_holds_the_card_that_is_meant_or_one_that_is_unknown(
    tmp_path: Path, gpus: str, values: dict[str, str], order: object, held_devices: list[str]
) -> None:
    path = slurm(tmp_path, gres_index=order)
    path.prolog(60, gpus=gpus, values=values)
    path.look(100, 800)
    assert [one.device for one in path.holds()] == sorted(held_devices)
    assert bool(path.reasons()) == (not held_devices)


def test_b3_two_jobs_of_one_node_that_both_say_0_have_two_cards(tmp_path: Path) -> None:
    """determined 7648, deepops 1102: 0,1,2 and 0."""
    path = SlurmPath(tmp_path, has_files=False)
    path.prolog(60, gpus="0,1,2", values={"CUDA_VISIBLE_DEVICES": "0,1,2"})
    path.prolog(70, job="124", gpus="3", values={"CUDA_VISIBLE_DEVICES": "0"})
    path.look(100)
    assert path.holds() == [*(Hold("123", gpu, 60, None) for gpu in GPUS[:3]), Hold("124", GPUS[3], 70, None)]
    assert path.reasons() == []


def test_b7_cards_that_change_places_at_a_reboot_are_what_their_uuids_say(tmp_path: Path) -> None:
    """tensorflow 32881: NVML's order need not last. A job by minor number before and one after."""
    path = slurm(tmp_path)
    path.prolog(60, gpus="0")
    path.look(100)
    first, second = CROSSED.devices
    path.inventory = Inventory((replace(first, index=0, minor=4), replace(second, index=6, minor=0)))
    path.epilog(150, gpus="0")
    path.prolog(200, job="124", gpus="0")
    path.look(300)
    assert path.holds() == [Hold("123", P100, 60, 150), Hold("124", A5000, 200, None)]


THREE_SEVENTHS = Fraction(3, 7)
DETAIL = "     Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=gpu:a100_3g.20gb:1(IDX:{})\n"


@pytest.mark.parametrize(
    "value",
    [MIG_TWO, f"MIG-{PARENT}/2/0", f"{PARENT}/2/0", "MIG-4444"],
    ids=["B8-its-uuid", "B8-the-form-of-r450", "B8-without-the-prefix", "B8-the-start-of-it"],
)
def test_a_mig_instance_is_found_by_each_of_its_names(tmp_path: Path, value: str) -> None:
    path = slurm(tmp_path, DIVIDED)
    path.prolog(60, gpus="-", values={"CUDA_VISIBLE_DEVICES": value})
    path.look(100)
    assert path.holds() == [Hold("123", PARENT, 60, None, THREE_SEVENTHS, "2")]


LISTED: list[tuple[str, object]] = [
    ("B9-a-list-of-uuids", [MIG_ONE, MIG_TWO]),
    ("B9-a-list-of-device-files",
     ["/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30,/dev/nvidia-caps/nvidia-cap31",
      "/dev/nvidia0,/dev/nvidia-caps/nvidia-cap39,/dev/nvidia-caps/nvidia-cap40"]),
]  # fmt: skip


@pytest.mark.parametrize("order", [case[1] for case in LISTED], ids=[case[0] for case in LISTED])
def test_two_jobs_on_one_card_hold_an_instance_each(tmp_path: Path, order: object) -> None:
    """dcgm-exporter 369: every instance of the card got every job on it."""
    path = SlurmPath(tmp_path, True, inventory=DIVIDED, gres_index=order)
    path.write("".join(scontrol_job(job=f"{10 + n}", detail=DETAIL.format(n)) for n in (0, 1)), 500).look(600)
    assert path.holds() == [
        Hold("10", PARENT, 60, None, THREE_SEVENTHS, "1"),
        Hold("11", PARENT, 60, None, THREE_SEVENTHS, "2"),
    ]
    assert path.reasons() == []


def test_b11_a_position_of_a_mig_instance_is_never_a_minor_number(tmp_path: Path) -> None:
    """Slurm 23.02, 22.05: wrong devices constrained, minor taken for index. Without a list nobody knows which it is."""
    path = SlurmPath(tmp_path, True, inventory=DIVIDED)
    path.write(scontrol_job(detail=DETAIL.format(0), tres="cpu=8,gres/gpu:a100_3g.20gb=1"), 500).look(600)
    assert (path.holds(), path.reasons()) == ([], ["device_unknown_space"])
    (started,) = path.events()
    assert started["requested_profile"] == "3g.20gb"


@pytest.mark.parametrize("raw", [0, 4294967295])
def test_b10_a_use_that_is_unknown_is_no_idleness(tmp_path: Path, raw: int) -> None:
    """jobstats 52: NVML says nothing of a card in MIG mode; its energy is not idle for that."""
    gpu = FakeGpu(PARENT, 0, busy=raw, mig_mode=1, instances=[FakeInstance(2, "3g.20gb", (MIG_TWO,), activity=90.0)])
    machine = FakeNvml([gpu])
    node = MeasuredNode(tmp_path, machine.clock, machine.probe())
    node.run(machine.advance, 10)
    (line,) = node.lines(held("j", PARENT, 0, "2", 7, 7))
    assert (line.energy_uj, line.idle_energy_uj, line.busy_us) == (3000 * J, 0, 0)


TREES = [
    # slurm-job-exporter 66
    ("B6-a-job-of-slurm-25", "0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n"),
    ("B6-a-job-of-slurm-26", "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n"),
    ("B6-several-slurmd-on-one-host", "0::/system.slice/gamba1_slurmstepd.scope/job_123/step_batch\n"),
    ("B6-version-1", "5:devices:/slurm/uid_1000/job_123/step_0/task_0\n4:memory:/slurm/uid_1000/job_123/step_0\n"),
]


@pytest.mark.parametrize("cgroup", [case[1] for case in TREES], ids=[case[0] for case in TREES])
def test_a_process_is_its_jobs_by_the_cgroup_of_each_version(tmp_path: Path, cgroup: str) -> None:
    path = SlurmPath(tmp_path, has_files=False)
    path.prolog(60, gpus="0", values={"SLURM_JOB_SLUID": "sEKNKTV3WPV500"})
    path.look(100)
    proc = ProcTree(tmp_path / "proc")
    proc.add(4000, cgroup=cgroup)
    owners = ProcessOwners(ProcessTable(proc.root, ticks_per_s=HZ))
    owners.follow(path.book.owners(path.clock.wall_us()))
    shares = owners.of_device([ProcessReading(4000, Reading(400_000))], path.clock.wall_us())
    assert shares == {("alpha", "123"): Reading(400_000)}


def test_b13_a_cgroup_that_stayed_holds_nothing_after_the_job_ended(tmp_path: Path) -> None:
    """ceems 380: the folder of an ended job stayed. The other way round (slurm-job-exporter 65): a job that has no
    process holds its card all the same."""
    path = SlurmPath(tmp_path, has_files=False)
    path.prolog(60, gpus="0")
    path.prolog(60.5, job="124", gpus="1")
    path.epilog(100, gpus="0")
    (tmp_path / "cgroup/system.slice/slurmstepd.scope/job_123").mkdir(parents=True)
    path.look(110, 4000)
    assert path.holds() == [Hold("123", GPUS[0], 60, 100), Hold("124", GPUS[1], 60.5, None)]
    assert path.book.owners(path.clock.wall_us()).keys() == {"job_124"}


def test_b13_a_container_whose_cgroup_stayed_without_processes_has_ended(tmp_path: Path) -> None:
    container = "4f" * 32
    proc = ProcTree(tmp_path / "proc")
    proc.add(10, 100, cgroup=f"0::/system.slice/docker-{container}.scope\n")
    scope = tmp_path / f"cg/system.slice/docker-{container}.scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    seen = [(GPUS[0], "", 10)]
    table = ProcessTable(proc.root, ticks_per_s=HZ)
    watcher = ContainerWatcher(lambda: seen, table, "n1", None, CgroupTree(tmp_path / "cg"), BOOT_S * S, str)
    path = LivePath(tmp_path / "log", cards(*GPUS), watcher, base_us=BOOT_S * S)
    path.look(10, 20)
    seen.clear()
    (scope / "cgroup.events").write_text("populated 0\nfrozen 0\n")
    proc.remove(10)
    path.look(30, 40)
    assert path.holds() == [Hold(container, GPUS[0], 1, 30)]


def test_a_reused_pid_is_another_process(tmp_path: Path) -> None:
    """Keyed by pid and start time: 7 from 1 s to 20 s, and another 7 from 15 s on."""
    proc = ProcTree(tmp_path / "proc")
    proc.add(7, 100)
    table = ProcessTable(proc.root, ticks_per_s=HZ)
    watcher = ProcessWatcher(lambda: [(GPUS[0], "", 7)], table, "n1", looked_us=BOOT_S * S, name_of=str)
    path = LivePath(tmp_path / "log", cards(*GPUS), watcher, base_us=BOOT_S * S)
    path.look(10)
    proc.add(7, 1500)
    path.look(20)
    assert [(one.start_s, one.end_s) for one in path.holds()] == [(1, 20), (15, None)]

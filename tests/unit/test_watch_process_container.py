"""Containers without a scheduler as runs."""

from pathlib import Path

import pytest
from wattledger_agent.watchers.cgroup import CgroupTree
from wattledger_agent.watchers.container import ContainerWatcher
from wattledger_agent.watchers.process_table import ProcessTable
from wattledger_agent.watchers.run import BY_UUID, DeviceRef, Held
from wattledger_agent.watchers.tags import TagRule, Uids
from wattledger_agent.watchers.watcher import Watcher

from tests.proc_tree import BOOT_S, HZ, ProcTree

S = 1_000_000
BOOT = BOOT_S * S
A, B = "4f" * 32, "9e" * 32
DOCKER = f"system.slice/docker-{A}.scope"


class Site:
    def __init__(self, tmp_path: Path) -> None:
        self.proc = ProcTree(tmp_path / "proc")
        self.cgroups = tmp_path / "cgroup"
        self.seen: list[tuple[str, str, int]] = []

    def watcher(self, uids: str = "all") -> ContainerWatcher:
        table = ProcessTable(self.proc.root, ticks_per_s=HZ)
        rule = TagRule(Uids.parse(uids))
        return ContainerWatcher(lambda: self.seen, table, "gpu-1", rule, CgroupTree(self.cgroups), BOOT, str)

    def populate(self, path: str, is_populated: bool) -> None:
        self.cgroups.mkdir(exist_ok=True)
        (self.cgroups / "cgroup.controllers").touch()
        (self.cgroups / path).mkdir(parents=True, exist_ok=True)
        (self.cgroups / path / "cgroup.events").write_text(f"populated {int(is_populated)}\n")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_it_is_a_watcher(site: Site) -> None:
    watcher: Watcher = site.watcher()
    assert watcher.name == "containers"
    watcher.close()


def test_a_container_is_one_run_whatever_processes_it_has(site: Site) -> None:
    site.proc.add(50, 900, 0, f"0::/{DOCKER}\n", {"WATTLEDGER_TENANT": "acme"})
    site.proc.add(51, 950, 0, f"0::/{DOCKER}\n", {"WATTLEDGER_TENANT": "other"})
    site.proc.add(60, 900, 1000, f"0::/machine.slice/libpod-{B}.scope\n")
    site.seen = [("GPU-a", "", 51), ("GPU-b", "", 50), ("GPU-c", "", 60)]
    sighting = site.watcher().look(BOOT + 20 * S)
    assert sighting.is_snapshot
    first, second = sighting.runs
    assert (first.source, first.cluster, first.job, first.attempt) == ("containers", "gpu-1", A, 0)
    assert first.held == (Held(DeviceRef(BY_UUID, "GPU-a")), Held(DeviceRef(BY_UUID, "GPU-b")))
    assert (first.tenant, first.user, first.owner_keys, first.started_us) == ("acme", "0", (A,), BOOT + 9 * S)
    assert (second.job, second.tenant) == (B, "1000")


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/slurmstepd.scope/job_1/step_0\n",
        f"0::/kubepods/pod1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c/{A}\n",
        "0::/user.slice/user-1000.slice/session-3.scope\n",
        f"0::/system.slice/slurmstepd.scope/job_1/step_0/libpod-{A}.scope\n",
    ],
)
def test_what_a_scheduler_owns_and_what_is_in_no_container_is_no_run(site: Site, cgroup: str) -> None:
    site.proc.add(5, cgroup=cgroup)
    site.seen = [("GPU-a", "", 5)]
    assert site.watcher().look(BOOT + S).runs == ()


def test_a_run_lasts_as_long_as_the_container_has_processes(site: Site) -> None:
    site.populate(DOCKER, True)
    site.proc.add(50, cgroup=f"0::/{DOCKER}\n")
    site.seen = [("GPU-a", "", 50)]
    watcher = site.watcher()
    watcher.look(BOOT + 20 * S)
    site.seen = []
    site.proc.remove(50)
    (idle,) = watcher.look(BOOT + 21 * S).runs
    assert (idle.job, idle.held) == (A, ())
    site.proc.add(77, 2150, cgroup=f"0::/{DOCKER}\n")
    site.seen = [("GPU-b", "", 77)]
    (again,) = watcher.look(BOOT + 22 * S).runs
    assert (again.job, again.started_us) == (A, idle.started_us)
    site.seen = []
    site.populate(DOCKER, False)
    assert watcher.look(BOOT + 23 * S).runs == ()


def test_without_the_cgroup_tree_it_lasts_as_long_as_the_first_process(site: Site) -> None:
    site.proc.add(50, cgroup=f"0::/{DOCKER}\n")
    site.seen = [("GPU-a", "", 50)]
    watcher = site.watcher()
    watcher.look(BOOT + 20 * S)
    site.seen = []
    assert len(watcher.look(BOOT + 21 * S).runs) == 1
    site.proc.remove(50)
    assert watcher.look(BOOT + 22 * S).runs == ()


def test_a_container_in_a_container_counts_for_the_outer_one(site: Site) -> None:
    site.proc.add(50, cgroup=f"4:devices:/docker/{A}/docker/{B}\n")
    site.seen = [("GPU-a", "", 50)]
    assert [run.job for run in site.watcher().look(BOOT + S).runs] == [A]


def test_a_rootless_container_is_its_user_s(site: Site) -> None:
    path = f"user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope"
    site.proc.add(50, uid=1000, cgroup=f"0::/{path}/container\n", environ={"WATTLEDGER_TENANT": "x"})
    site.seen = [("GPU-a", "", 50)]
    sighting = site.watcher("none").look(BOOT + S)
    assert [(run.job, run.tenant) for run in sighting.runs] == [(f"user_1000/{A}", "1000")]
    assert [finding.reason for finding in sighting.findings] == ["tag_not_allowed"]


def test_containers_that_share_a_card_hold_even_parts(site: Site) -> None:
    site.proc.add(50, cgroup=f"0::/docker/{A}\n")
    site.proc.add(60, cgroup=f"0::/docker/{B}\n")
    site.seen = [("GPU-a", "3", 50), ("GPU-a", "3", 60)]
    half = Held(DeviceRef(BY_UUID, "GPU-a", "3"), 1, 2, "time_sliced")
    assert [run.held for run in site.watcher().look(BOOT + S).runs] == [(half,), (half,)]

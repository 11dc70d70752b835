"""Pids on devices tied to jobs, and their use summed by job."""

from pathlib import Path

import pytest
from wattledger_agent.probes.reading import DeviceReading, ProcessReading, Reading, unknown
from wattledger_agent.process_owner import Ownership, ProcessOwners
from wattledger_agent.watchers.process_table import ProcessTable

from tests.proc_tree import HZ, ProcTree

S = 1_000_000
CID, POD = "4f" * 32, "1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c"
SLURM = "0::/system.slice/slurmstepd.scope/job_{}/step_0\n"
KUBE = f"0::/kubepods/pod{POD}/{CID}\n"


class Site:
    def __init__(self, tmp_path: Path, namespace: str = "pid:[4026531836]") -> None:
        self.proc = ProcTree(tmp_path / "proc", namespace)
        self.table = ProcessTable(self.proc.root, ticks_per_s=HZ)
        self.owners = ProcessOwners(self.table)

    def job(self, pid: int, now_us: int = 0) -> tuple[str, str] | None:
        return self.owners.owner(pid, now_us).job


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def on(*pids: int) -> list[ProcessReading]:
    return [ProcessReading(pid, Reading(100_000)) for pid in pids]


def test_a_process_is_tied_by_its_cgroup_or_its_own_key(site: Site) -> None:
    site.proc.add(10, cgroup=SLURM.format(123))
    site.proc.add(11, cgroup="0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0\n")
    site.proc.add(12, cgroup=KUBE)
    site.proc.add(13, 500)
    site.owners.follow(
        {"job_123": ("c", "123"), "sEKNKTV3WPV500": ("c", "9"), POD: ("k", "ns/p"), "13:500": ("n", "1000/13:500")}
    )
    assert [site.job(pid) for pid in (10, 11, 12, 13)] == [
        ("c", "123"),
        ("c", "9"),
        ("k", "ns/p"),
        ("n", "1000/13:500"),
    ]


def test_c18_the_container_s_own_id_is_more_exact_than_its_pod_s(site: Site) -> None:
    site.proc.add(12, cgroup=KUBE)
    site.owners.follow({POD: ("k", "pod"), CID: ("k", "container")})
    assert site.job(12) == ("k", "container")


def test_a_reused_pid_is_not_the_job_s_any_more(site: Site) -> None:
    site.owners.follow({"job_1": ("c", "1"), "job_2": ("c", "2")})
    site.proc.add(10, 100, cgroup=SLURM.format(1))
    assert site.job(10, 0) == ("c", "1")
    site.proc.add(10, 200, cgroup=SLURM.format(2))
    assert site.job(10, 1) == ("c", "2")
    site.proc.remove(10)
    assert site.owners.owner(10, 2) == Ownership(None, "gone")


def test_a_process_that_is_moved_into_its_job_s_cgroup_is_found_there_soon(site: Site) -> None:
    site.owners.follow({"job_1": ("c", "1")})
    site.proc.add(10, cgroup="0::/system.slice/slurmd.service\n")
    assert site.job(10, 0) is None
    site.proc.add(10, cgroup=SLURM.format(1))
    assert site.job(10, 1 * S) is None
    assert site.job(10, 2 * S) == ("c", "1")


def test_a_run_that_becomes_known_later_owns_its_processes_at_once(site: Site) -> None:
    site.proc.add(10, cgroup=SLURM.format(1))
    assert site.owners.owner(10, 0).reason == "no_run"
    site.owners.follow({"job_1": ("c", "1")})
    assert site.job(10, 1) == ("c", "1")
    site.owners.follow({})
    assert site.owners.owner(10, 2).reason == "no_run"


def test_a_key_that_two_jobs_claim_is_nobody_s(site: Site) -> None:
    site.proc.add(10, cgroup=SLURM.format(1))
    site.owners.follow({"job_1": None})
    assert site.owners.owner(10, 0) == Ownership(None, "ambiguous")


def test_b11_an_inner_pid_is_not_taken_for_the_host_s_process_of_that_number(site: Site) -> None:
    site.proc.add(324, flags=0x00208040, cgroup="0::/\n")
    site.proc.add(645400, inner=(324,), cgroup=KUBE)
    site.owners.follow({POD: ("k", "p")})
    assert site.job(324) == ("k", "p")
    assert site.job(645400) == ("k", "p")


def test_b11_both_pids_of_one_process_in_one_list_are_that_process(site: Site) -> None:
    site.proc.add(324, cgroup="0::/system.slice/cron.service\n")
    site.proc.add(645400, inner=(324,), cgroup=KUBE)
    site.owners.follow({POD: ("k", "p")})
    assert site.owners.of_device(on(324, 645400), 0) == {("k", "p"): Reading(200_000)}
    assert {use.job for use in site.owners.uses([DeviceReading("GPU-a", processes=tuple(on(324, 645400)))], 0)} == {
        ("k", "p")
    }


def test_b11_an_inner_pid_of_two_processes_is_nobody_s(site: Site) -> None:
    site.proc.add(645400, inner=(324,), cgroup=KUBE)
    site.proc.add(645401, inner=(324,), cgroup=KUBE)
    site.owners.follow({POD: ("k", "p")})
    assert site.owners.owner(324, 0) == Ownership(None, "ambiguous")


def test_b11_outside_the_host_s_namespace_no_pid_is_tied(tmp_path: Path) -> None:
    site = Site(tmp_path, "pid:[4026532201]")
    site.proc.add(10, cgroup=SLURM.format(1))
    site.owners.follow({"job_1": ("c", "1")})
    assert site.owners.owner(10, 0) == Ownership(None, "foreign_pid_namespace")
    assert site.owners.of_device(on(10), 0) == {None: Reading(100_000)}


@pytest.mark.parametrize(
    "pids", [(1184, 0, 4294967295, 4294967295, 16040, 0), (10, 6498025472), (10, 4_194_305), (10, -1)]
)
def test_b06_b07_one_impossible_pid_spoils_the_list(site: Site, pids: tuple[int, ...]) -> None:
    site.proc.add(10, cgroup=SLURM.format(1))
    site.owners.follow({"job_1": ("c", "1")})
    assert site.owners.of_device(on(*pids), 0) == {None: unknown("abi_mismatch")}
    assert site.owners.uses([DeviceReading("GPU-a", processes=tuple(on(*pids)))], 0) == []


def test_shares_are_summed_by_job_and_the_rest_by_nobody(site: Site) -> None:
    for pid, job in ((10, 1), (11, 1), (12, 2), (13, 3)):
        site.proc.add(pid, cgroup=SLURM.format(job))
    site.owners.follow({"job_1": ("c", "1"), "job_2": ("c", "2")})
    shares = site.owners.of_device([*on(10, 11, 12, 13), ProcessReading(99, Reading(5))], 0)
    assert shares == {("c", "1"): Reading(200_000), ("c", "2"): Reading(100_000), None: Reading(100_005)}


def test_b57_a_share_that_one_process_lacks_makes_the_job_s_unknown_not_smaller(site: Site) -> None:
    site.proc.add(10, cgroup=SLURM.format(1))
    site.proc.add(11, cgroup=SLURM.format(1))
    site.owners.follow({"job_1": ("c", "1")})
    for order in ((10, 11), (11, 10)):
        readings = {10: Reading(100_000), 11: unknown("not_supported")}
        shares = site.owners.of_device([ProcessReading(pid, readings[pid]) for pid in order], 0)
        assert shares == {("c", "1"): unknown("not_supported")}


def test_no_process_is_no_share(site: Site) -> None:
    assert site.owners.of_device([], 0) == {}


def test_an_mps_server_is_its_job_s_or_nobody_s(site: Site) -> None:
    site.proc.add(10, comm="nvidia-cuda-mps", cgroup=SLURM.format(1))
    site.proc.add(11, comm="nvidia-cuda-mps", cgroup="0::/system.slice/mps.service\n")
    site.owners.follow({"job_1": ("c", "1")})
    assert site.job(10) == ("c", "1")
    assert site.owners.owner(11, 0) == Ownership(None, "mps_server")


def test_uses_name_what_is_known_and_leave_out_what_can_t_be_judged(site: Site) -> None:
    site.proc.add(10, cgroup=SLURM.format(1))
    site.proc.add(11, cgroup=SLURM.format(7))
    site.proc.add(12, cgroup=KUBE)
    site.proc.add(13, uid=1000)
    site.proc.add(14, uid=1000)
    site.proc.add(15, comm="nvidia-cuda-mps", cgroup="0::/system.slice/mps.service\n")
    site.proc.add(16)
    (site.proc.root / "16/cgroup").unlink()
    site.owners.follow({"job_1": ("c", "1")})
    devices = [DeviceReading("GPU-a", processes=tuple(on(10, 11, 12, 13, 14, 15, 16, 17))), DeviceReading("GPU-b")]
    assert [(use.device, use.job, use.label) for use in site.owners.uses(devices, 0)] == [
        ("GPU-a", ("c", "1"), "a process of c/1"),
        ("GPU-a", None, "a process of SLURM job job_7"),
        ("GPU-a", None, f"a process of Kubernetes pod {POD}"),
        ("GPU-a", None, "a process of uid 1000 outside any job"),
    ]


def test_this_machine_s_own_process_can_be_asked_for() -> None:
    import os

    found = ProcessOwners(ProcessTable()).owner(os.getpid(), 0)
    assert found.job is None
    assert found.reason in ("no_run", "foreign_pid_namespace")

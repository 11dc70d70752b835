"""Processes without a scheduler as runs of their own."""

from pathlib import Path

import pytest
from wattledger_agent.watchers.process import ProcessWatcher, user_name
from wattledger_agent.watchers.process_table import ProcessTable
from wattledger_agent.watchers.run import BY_UUID, DeviceRef, Held
from wattledger_agent.watchers.tags import TagRule, Uids
from wattledger_agent.watchers.watcher import Watcher

from tests.proc_tree import BOOT_S, HZ, ProcTree

S = 1_000_000
BOOT = BOOT_S * S
CID = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"


class Site:
    """A machine whose devices show the processes in `seen`."""

    def __init__(self, tmp_path: Path) -> None:
        self.proc = ProcTree(tmp_path / "proc")
        self.table = ProcessTable(self.proc.root, ticks_per_s=HZ)
        self.seen: list[tuple[str, str, int]] = []

    def watcher(self, uids: str = "none", looked_us: int | None = None) -> ProcessWatcher:
        return ProcessWatcher(
            lambda: self.seen,
            self.table,
            "gpu-1",
            TagRule(Uids.parse(uids)),
            looked_us,
            {1000: "ada", 1001: "bo"}.__getitem__,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def whole(device: str, instance: str = "") -> Held:
    return Held(DeviceRef(BY_UUID, device, instance))


def test_it_is_a_watcher(site: Site) -> None:
    watcher: Watcher = site.watcher()
    assert watcher.name == "processes"
    watcher.close()


def test_a_process_on_a_device_is_a_run(site: Site) -> None:
    site.proc.add(4711, start_ticks=5000)
    site.seen = [("GPU-a", "", 4711), ("GPU-b", "", 4711)]
    sighting = site.watcher(looked_us=BOOT).look(BOOT + 60 * S)
    assert sighting.is_snapshot
    assert sighting.reported_to_us == BOOT + 60 * S
    (run,) = sighting.runs
    assert (run.source, run.cluster, run.job, run.attempt) == ("processes", "gpu-1", "1000/4711:5000@46a22e07", 0)
    assert run.started_us == BOOT + 50 * S
    assert run.held == (whole("GPU-a"), whole("GPU-b"))
    assert (run.tenant, run.user, run.owner_keys) == ("ada", "ada", ("4711:5000",))


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/slurmstepd.scope/job_1/step_0\n",
        f"0::/kubepods/pod1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c/{CID}\n",
        f"0::/system.slice/docker-{CID}.scope\n",
    ],
)
def test_what_a_scheduler_or_a_container_owns_is_no_run_of_its_own(site: Site, cgroup: str) -> None:
    site.proc.add(5, cgroup=cgroup)
    site.seen = [("GPU-a", "", 5)]
    assert site.watcher().look(BOOT + S).runs == ()


def test_c10_a_service_on_a_device_is_a_run_of_its_user(site: Site) -> None:
    site.proc.add(5, cgroup="0::/system.slice/llm.service\n")
    site.seen = [("GPU-a", "", 5)]
    assert [run.user for run in site.watcher().look(BOOT + S).runs] == ["ada"]


def test_kernel_threads_mps_servers_the_unreadable_and_the_gone_are_no_runs(site: Site) -> None:
    site.proc.add(2, flags=0x00208040)
    site.proc.add(3, comm="nvidia-cuda-mps-server"[:15])
    site.proc.add(4)
    (site.proc.root / "4/cgroup").unlink()
    site.seen = [("GPU-a", "", pid) for pid in (2, 3, 4, 5, 0, 4294967295)]
    assert site.watcher().look(BOOT + S).runs == ()


def test_who_share_a_card_hold_even_parts_of_it(site: Site) -> None:
    for pid, uid in ((5, 1000), (6, 1001), (7, 1001)):
        site.proc.add(pid, uid=uid)
    site.seen = [("GPU-a", "", 5), ("GPU-a", "", 6), ("GPU-a", "", 7), ("GPU-b", "2", 7)]
    third = Held(DeviceRef(BY_UUID, "GPU-a", ""), 1, 3, "time_sliced")
    assert [run.held for run in site.watcher().look(BOOT + S).runs] == [
        (third,),
        (third,),
        (third, whole("GPU-b", "2")),
    ]


def test_a_run_lasts_as_long_as_its_process_and_holds_what_it_is_on(site: Site) -> None:
    site.proc.add(5, start_ticks=100)
    site.seen = [("GPU-a", "", 5)]
    watcher = site.watcher(looked_us=BOOT)
    first = watcher.look(BOOT + 2 * S).runs[0]
    site.seen = []
    (idle,) = watcher.look(BOOT + 3 * S).runs
    assert (idle.job, idle.started_us, idle.held) == (first.job, first.started_us, ())
    site.seen = [("GPU-b", "", 5)]
    assert [run.held for run in watcher.look(BOOT + 4 * S).runs] == [(whole("GPU-b"),)]
    site.proc.remove(5)
    assert watcher.look(BOOT + 5 * S).runs == ()


def test_a_reused_pid_is_another_run(site: Site) -> None:
    site.proc.add(5, start_ticks=100)
    site.seen = [("GPU-a", "", 5)]
    watcher = site.watcher()
    (before,) = watcher.look(BOOT + 2 * S).runs
    site.proc.add(5, start_ticks=250)
    (after,) = watcher.look(BOOT + 3 * S).runs
    assert before.job != after.job
    assert after.started_us == BOOT + 2_500_000


def test_nothing_is_claimed_of_a_time_in_which_nobody_looked(site: Site) -> None:
    site.proc.add(5, start_ticks=100)
    site.seen = [("GPU-a", "", 5)]
    assert site.watcher().look(BOOT + 3600 * S).runs[0].started_us == BOOT + 3600 * S
    assert site.watcher(looked_us=BOOT + 2 * S).look(BOOT + 3600 * S).runs[0].started_us == BOOT + 3600 * S
    assert site.watcher(looked_us=BOOT).look(BOOT + 3600 * S).runs[0].started_us == BOOT + S


def test_a_process_that_turns_to_the_card_late_holds_it_from_then(site: Site) -> None:
    watcher = site.watcher()
    watcher.look(BOOT + 50 * S)
    site.proc.add(5, start_ticks=100)
    site.seen = [("GPU-a", "", 5)]
    assert watcher.look(BOOT + 51 * S).runs[0].started_us == BOOT + 51 * S


def test_an_allowed_tag_is_the_tenant_and_a_refused_one_is_told_once(site: Site) -> None:
    tags = {"WATTLEDGER_TENANT": "acme", "WATTLEDGER_MODEL": "llama"}
    site.proc.add(5, uid=1000, environ=tags)
    site.proc.add(6, uid=1001, environ=tags)
    site.seen = [("GPU-a", "", 5), ("GPU-b", "", 6)]
    watcher = site.watcher("1000")
    sighting = watcher.look(BOOT + 20 * S)
    assert [(run.tenant, run.model_tag, run.user) for run in sighting.runs] == [
        ("acme", "llama", "ada"),
        ("bo", "", "bo"),
    ]
    assert [finding.reason for finding in sighting.findings] == ["tag_not_allowed", "tag_not_allowed"]
    assert watcher.look(BOOT + 21 * S).findings == ()


def test_an_unreadable_uid_gives_an_unknown_user(site: Site) -> None:
    site.proc.add(5, environ={"WATTLEDGER_TENANT": "acme"})
    (site.proc.root / "5/status").unlink()
    site.seen = [("GPU-a", "", 5)]
    (run,) = site.watcher("all").look(BOOT + S).runs
    assert (run.user, run.tenant, run.job) == ("unknown", "unknown", "unknown/5:1000@46a22e07")


def test_a_uid_without_a_name_is_shown_as_a_number() -> None:
    assert user_name(0) == "root"
    assert user_name(3_999_999_999) == "uid:3999999999"

"""Walking cgroup trees of both layouts, made in a folder."""

from pathlib import Path

from wattledger_agent.watchers.cgroup import CgroupTree
from wattledger_agent.watchers.cgroup_path import owner_of

CID = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
POD = "1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c"


def v2(root: Path, populated: dict[str, bool]) -> CgroupTree:
    root.mkdir(parents=True, exist_ok=True)
    (root / "cgroup.controllers").write_text("cpu memory\n")
    for path, is_populated in populated.items():
        (root / path).mkdir(parents=True)
        for place in [root / path, *(root / path).parents]:
            if place.is_relative_to(root) and place != root and not (place / "cgroup.events").exists():
                (place / "cgroup.events").write_text(f"populated {int(is_populated)}\nfrozen 0\n")
    return CgroupTree(root)


def v1(root: Path, controllers: tuple[str, ...], pids: dict[str, str]) -> CgroupTree:
    for controller in controllers:
        for path, text in pids.items():
            (root / controller / path).mkdir(parents=True)
            (root / controller / path / "cgroup.procs").write_text(text)
    return CgroupTree(root)


def found(tree: CgroupTree) -> dict[str, bool]:
    return {"+".join(one.owner.keys): one.is_populated for one in tree.owners()}


def test_jobs_and_containers_of_a_unified_tree(tmp_path: Path) -> None:
    tree = v2(
        tmp_path,
        {
            "system.slice/slurmstepd.scope/job_123/step_0/user/task_0": True,
            "system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0": True,
            "system.slice/slurmstepd.scope/system": True,
            f"kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{CID}.scope": True,
            "user.slice/user-1000.slice/session-3.scope": True,
        },
    )
    assert tree.is_unified
    assert found(tree) == {"job_123": True, "sEKNKTV3WPV500": True, POD: True, f"{CID}+{POD}": True}


def test_b13_a_cgroup_that_is_left_over_after_its_job_is_not_populated(tmp_path: Path) -> None:
    tree = v2(
        tmp_path,
        {"system.slice/a_slurmstepd.scope/job_1/step_0": False, "system.slice/b_slurmstepd.scope/job_2/step_0": True},
    )
    assert found(tree) == {"job_1": False, "job_2": True}


def test_jobs_of_a_v1_tree_live_where_any_controller_has_a_pid(tmp_path: Path) -> None:
    tree = v1(
        tmp_path,
        ("freezer", "memory"),
        {"slurm/uid_1000/job_5/step_0/task_0": "4711\n", "slurm/uid_1000/job_6/step_batch": "", f"docker/{CID}": "9\n"},
    )
    assert not tree.is_unified
    assert found(tree) == {"job_5": True, "job_6": False, CID: True}


def test_a_v1_job_that_is_empty_in_one_controller_and_not_in_another_lives(tmp_path: Path) -> None:
    v1(tmp_path, ("devices",), {"slurm/uid_1/job_5/step_0": ""})
    tree = v1(tmp_path, ("freezer",), {"slurm/uid_1/job_5/step_0": "12\n"})
    assert found(tree) == {"job_5": True}


def test_whether_an_owner_still_lives_is_asked_of_its_own_directory(tmp_path: Path) -> None:
    owner = owner_of(f"0::/system.slice/docker-{CID}.scope/app\n")
    assert CgroupTree(tmp_path / "nowhere").is_populated(owner, CID) is None
    tree = v2(tmp_path / "cg", {f"system.slice/docker-{CID}.scope": True})
    assert tree.is_populated(owner, CID) is True
    (tmp_path / "cg" / f"system.slice/docker-{CID}.scope/cgroup.events").write_text("populated 0\n")
    assert tree.is_populated(owner, CID) is False
    elsewhere = owner_of(f"0::/../../system.slice/docker-{CID}.scope\n")
    assert tree.is_populated(elsewhere, CID) is None


def test_a_tree_that_is_not_there_has_no_owners(tmp_path: Path) -> None:
    assert CgroupTree(tmp_path / "nowhere").owners() == ()


def test_the_tree_of_this_machine_can_be_walked() -> None:
    assert isinstance(CgroupTree().owners(), tuple)

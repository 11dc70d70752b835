"""Whose a process is by the text of its cgroup file."""

import pytest
from wattledger_agent.watchers.cgroup_path import Owner, owner_of

CID = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
CID2 = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
POD = "1f0c8a52-93aa-4c1e-9a3e-0f6c1d2b3a4c"
POD_ = POD.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
BURSTABLE = f"kubepods-burstable-pod{POD_}.slice"

CASES = {
    "slurm v1, all controllers": (
        "".join(f"{n}:{c}:/slurm/uid_1000/job_123/step_0/task_0\n" for n, c in ((4, "devices"), (3, "cpu"), (1, ""))),
        "slurm", ("job_123",), "",
    ),
    "slurm v1 puts the process into some controllers only": (
        "9:name=systemd:/system.slice/slurmd.service\n8:pids:/system.slice/slurmd.service\n"
        "5:freezer:/slurm/uid_1000/job_7/step_batch\n",
        "slurm", ("job_7",), "",
    ),
    "slurm v1 with the node's name": ("4:memory:/slurm_gamba1/uid_0/job_9/step_extern\n", "slurm", ("job_9",), ""),
    "slurm v2": (
        "0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n", "slurm", ("job_123",), "",
    ),
    "B6 slurm 26.05 names the directory by SLUID": (
        "0::/system.slice/slurmstepd.scope/sEKNKTV3WPV500/step_0/user/task_0\n", "slurm", ("sEKNKTV3WPV500",), "",
    ),
    "several slurmd on one host": (
        "0::/system.slice/gamba1_slurmstepd.scope/job_5/step_batch/user/task_0\n", "slurm", ("job_5",), "",
    ),
    "slurm in a pod": (
        f"0::/kubepods.slice/kubepods-pod{POD_}.slice/cri-containerd-{CID}.scope"
        "/system.slice/slurmstepd.scope/job_3/step_0\n",
        "slurm", ("job_3", CID, POD), "containerd",
    ),
    "slurm's own daemon is no job": ("0::/system.slice/slurmstepd.scope/system\n", "nothing", (), ""),
    "a job below a job is made up": (
        "0::/system.slice/slurmstepd.scope/job_5/step_0/slurm/job_6\n", "slurm", ("job_5",), "",
    ),
    "a user's own tree can't name a job": (
        "0::/user.slice/user-1000.slice/user@1000.service/slurm/job_6\n", "session", ("uid_1000",), "",
    ),
    "a directory called job_1 outside slurm is none": ("0::/system.slice/cron.service/job_1\n", "nothing", (), ""),
    "kubernetes, cgroupfs": (f"3:memory:/kubepods/burstable/pod{POD}/{CID}\n", "kubernetes", (CID, POD), "container"),
    "kubernetes, guaranteed": (f"3:memory:/kubepods/pod{POD}/{CID}\n", "kubernetes", (CID, POD), "container"),
    "kubernetes, systemd, containerd": (
        f"0::/kubepods.slice/kubepods-burstable.slice/{BURSTABLE}/cri-containerd-{CID}.scope\n",
        "kubernetes", (CID, POD), "containerd",
    ),
    "kubernetes, systemd, crio": (
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{POD_}.slice/crio-{CID}.scope\n",
        "kubernetes", (CID, POD), "crio",
    ),
    "kubernetes, crio with its inner directory": (
        f"0::/kubepods.slice/kubepods-pod{POD_}.slice/crio-{CID}.scope/container\n", "kubernetes", (CID, POD), "crio",
    ),
    "kubernetes, docker": (
        f"11:devices:/kubepods.slice/{BURSTABLE}/docker-{CID}.scope\n", "kubernetes", (CID, POD), "docker",
    ),
    "kubernetes in docker": (
        f"0::/docker/{CID2}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-{BURSTABLE}"
        f"/cri-containerd-{CID}.scope\n",
        "kubernetes", (CID, POD, CID2), "containerd",
    ),
    "containerd without a systemd parent": (
        f"8:memory:/system.slice/containerd.service/{BURSTABLE}:cri-containerd:{CID}\n",
        "kubernetes", (CID, POD), "containerd",
    ),
    "a static pod's hash": (
        f"0::/kubepods.slice/kubepods-burstable-pod{STATIC}.slice/cri-containerd-{CID}.scope\n",
        "kubernetes", (CID, STATIC), "containerd",
    ),
    "seen from another cgroup namespace": (
        f"0::/../../../kubepods-besteffort.slice/kubepods-besteffort-pod{POD_}.slice/cri-containerd-{CID}.scope\n",
        "kubernetes", (CID, POD), "containerd",
    ),
    "docker in a pod belongs to the pod": (
        f"4:memory:/kubepods/pod{POD}/{CID2}/docker/{CID}\n", "kubernetes", (CID, CID2, POD), "docker",
    ),
    "docker, cgroupfs": (f"4:memory:/docker/{CID}\n", "container", (CID,), "docker"),
    "docker, systemd": (f"0::/system.slice/docker-{CID}.scope\n", "container", (CID,), "docker"),
    "docker below a parent of one's own": (f"4:memory:/lab/{CID}\n", "container", (CID,), "container"),
    "C18 the id is the last element": (f"10:net_prio:/{CID}\n9:devices:/{CID}\n", "container", (CID,), "container"),
    "hybrid: v2 still names the service": (
        f"5:devices:/docker/{CID}\n1:name=systemd:/docker/{CID}\n0::/system.slice/containerd.service\n",
        "container", (CID,), "docker",
    ),
    "two containers in one file: the one that confines devices": (
        f"7:memory:/docker/{CID2}\n5:devices:/docker/{CID}\n", "container", (CID,), "docker",
    ),
    "podman, root": (f"0::/machine.slice/libpod-{CID}.scope/container\n", "container", (CID,), "podman"),
    "podman, rootless": (
        f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{CID}.scope/container\n",
        "container", (f"user_1000/{CID}",), "podman",
    ),
    "podman's monitor is not in the container": (f"0::/machine.slice/libpod-conmon-{CID}.scope\n", "nothing", (), ""),
    "podman, split": (f"0::/system.slice/llm.service/libpod-payload-{CID}\n", "container", (CID,), "podman"),
    "nerdctl": (f"0::/system.slice/nerdctl-{CID}.scope\n", "container", (CID,), "containerd"),
    "lxc": ("0::/lxc.payload.lab1/init.scope\n", "container", ("lxc/lab1",), "lxc"),
    "lxc, v1": ("3:memory:/lxc/lab1/init.scope\n", "container", ("lxc/lab1",), "lxc"),
    "lxc's monitor is not in it": ("0::/lxc.monitor.lab1\n", "nothing", (), ""),
    "a login": ("0::/user.slice/user-1000.slice/session-3.scope\n", "session", ("session_3", "uid_1000"), ""),
    "a user's service": (
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n", "session", ("uid_1000",), "",
    ),
    "a service": ("0::/system.slice/cron.service\n", "nothing", (), ""),
    "B13 a cgroup that was removed": (
        "0::/system.slice/slurmstepd.scope/job_4/step_0 (deleted)\n", "slurm", ("job_4",), "",
    ),
    "the root": ("0::/\n", "nothing", (), ""),
    "empty": ("", "nothing", (), ""),
    "no cgroup line at all": ("garbage\n1:2\n", "nothing", (), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_cgroup_file_names_its_owner(name: str) -> None:
    text, kind, keys, runtime = CASES[name]
    found = owner_of(text)
    assert (found.kind, found.keys, found.runtime) == (kind, keys, runtime)


def test_the_node_prefix_is_kept_where_several_slurmd_run() -> None:
    assert owner_of("0::/system.slice/gamba1_slurmstepd.scope/job_5/step_0\n").slurm_node == "gamba1"
    assert owner_of("0::/system.slice/slurmstepd.scope/job_5/step_0\n").slurm_node == ""


def test_the_innermost_container_is_told() -> None:
    assert owner_of(f"0::/docker/{CID2}/docker/{CID}\n").container_id == CID
    assert owner_of("0::/lxc.payload.lab1\n").container_id == "lxc/lab1"
    assert owner_of("0::/system.slice/slurmstepd.scope/job_5\n").container_id == ""
    assert Owner().container_id == ""

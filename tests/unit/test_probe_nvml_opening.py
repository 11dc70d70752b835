"""What keeps the NVML probe from opening, told with what to do about it; no NVIDIA hardware is no fault."""

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.nvml import NvmlProbe
from wattledger_agent.probes.probe import ProbeUnavailable

from tests.fake_nvml import FakeNvml, fake_fleet
from tests.fake_nvml_card import (
    LOST,
    MISMATCH,
    NOT_LOADED,
    UNKNOWN,
)


def _open(fleet: FakeNvml) -> NvmlProbe:
    probe = fleet.probe()
    probe.open()
    probe.inventory()
    return probe


def _nvidia_on_bus(root: Path) -> None:
    for address, vendor, kind in (("0000:00:01.0", "0x8086", "0x060000"), ("0000:1a:00.0", "0x10de", "0x030200")):
        folder = root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text(kind + "\n")


def _refusal(root: Path, binding: Callable[[], ModuleType]) -> ProbeUnavailable:
    with pytest.raises(ProbeUnavailable) as refused:
        NvmlProbe(ManualClock(), root, binding).open()
    return refused.value


def _fail_import() -> ModuleType:
    raise ImportError("No module named 'pynvml'")


def _without_library() -> ModuleType:
    module = fake_fleet(1).binding()

    def load(name: str) -> object:
        raise OSError(f"{name}: cannot open shared object file")

    module.__dict__.update(nvmlLib=None, CDLL=load)
    return module


@pytest.mark.parametrize(
    ("binding", "says"),
    [
        (_fail_import, "nvidia-ml-py>=12.535.77"),
        (_without_library, "libnvidia-ml.so.1 was not found"),
    ],
)
def test_a_missing_library_is_a_fault_only_where_nvidia_hardware_is(
    tmp_path: Path, binding: Callable[[], ModuleType], says: str
) -> None:
    refused = _refusal(tmp_path, binding)
    assert refused.absent
    _nvidia_on_bus(tmp_path)
    refused = _refusal(tmp_path, binding)
    assert (refused.absent, says in str(refused)) == (False, True)


def test_a_loaded_driver_alone_makes_a_missing_library_a_fault(tmp_path: Path) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.48.01\n")
    refused = _refusal(tmp_path, _without_library)
    assert not refused.absent
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in refused.fix


def test_a_package_that_shadows_nvidia_ml_py_is_refused_with_the_fix(tmp_path: Path) -> None:
    def shadowed() -> ModuleType:
        module = ModuleType("pynvml")
        module.__file__ = "/usr/lib/python3/dist-packages/pynvml/__init__.py"
        return module

    refused = _refusal(tmp_path, shadowed)
    assert "/usr/lib/python3/dist-packages/pynvml/__init__.py" in str(refused)
    assert "pip uninstall pynvml" in refused.fix


@pytest.mark.parametrize(
    ("version", "refused"),
    [("11.525.150", True), ("12.535.43", True), ("12.535.77", False), ("13.615.71", False)],
)
def test_bindings_whose_structs_scramble_process_lists_are_refused(
    monkeypatch: pytest.MonkeyPatch, version: str, refused: bool
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    probe = fake_fleet(1).probe()
    if refused:
        with pytest.raises(ProbeUnavailable, match=version):
            probe.open()
    else:
        probe.open()
        assert version in probe.inventory().library


def test_a_binding_without_package_metadata_is_used_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert any("version of nvidia-ml-py is unknown" in note for note in _open(fake_fleet(1)).inventory().notes)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (MISMATCH, "reload the nvidia kernel modules or reboot"),
        (NOT_LOADED, "modprobe nvidia"),
        (4, "/dev/nvidiactl"),
        (UNKNOWN, "code 999"),
    ],
)
def test_why_nvml_can_not_be_initialised_is_said_with_what_to_do(code: int, says: str) -> None:
    fleet = fake_fleet(1)
    fleet.codes["nvmlInitWithFlags"] = code
    with pytest.raises(ProbeUnavailable) as refused:
        fleet.probe().open()
    assert says in str(refused.value)


def test_a_machine_where_no_card_answers_is_refused_with_the_reasons() -> None:
    fleet = fake_fleet(2)
    for gpu in fleet.gpus:
        gpu.lost = LOST
    with pytest.raises(ProbeUnavailable, match=r"index 0: gpu_lost.*index 1: gpu_lost") as refused:
        fleet.probe().open()
    assert not refused.value.absent
    with pytest.raises(ProbeUnavailable, match="finds no NVIDIA card") as none:
        FakeNvml([]).probe().open()
    assert none.value.absent


def test_importing_the_probe_imports_no_vendor_library() -> None:
    import subprocess

    code = "import sys, wattledger_agent.probes.nvml; print([m for m in ('pynvml', 'numpy') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"

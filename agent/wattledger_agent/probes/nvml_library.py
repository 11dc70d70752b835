"""Loads NVML through nvidia-ml-py and checks that both are what the agent can trust. Reads no device."""

import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from wattledger_agent.probes.nvml_values import (
    DRIVER_GONE,
    DRIVER_NOT_LOADED_CODE,
    FUNCTION_NOT_FOUND_CODE,
    LIBRARY_NOT_FOUND_CODE,
    MISMATCH_CODE,
    NO_PERMISSION_CODE,
    UNKNOWN_CODE,
)
from wattledger_agent.probes.probe import ProbeUnavailable

OLDEST_BINDING = (12, 535, 77)
_INSTALL = "install 'nvidia-ml-py>=12.535.77' (the extra wattledger[nvidia] has it)"
_DISPLAY_CLASS, _NVIDIA_VENDOR = "0x03", "0x10de"

_FIXES = {
    LIBRARY_NOT_FOUND_CODE: (
        "libnvidia-ml.so.1 was not found",
        "install the NVIDIA driver's user-space libraries; in a container, run it with the NVIDIA runtime and "
        "NVIDIA_DRIVER_CAPABILITIES=utility",
    ),
    DRIVER_NOT_LOADED_CODE: ("the NVIDIA kernel driver is not loaded", "load it (modprobe nvidia) and see dmesg"),
    MISMATCH_CODE: (
        "the loaded NVIDIA kernel driver and libnvidia-ml.so.1 are of different versions",
        "the driver was upgraded while loaded: reload the nvidia kernel modules or reboot; in a container, "
        "recreate it so that it gets the new library",
    ),
    NO_PERMISSION_CODE: (
        "no permission to use /dev/nvidiactl",
        "let the agent's user open /dev/nvidiactl and /dev/nvidia*",
    ),
}


class NvmlFailure(Exception):
    """One NVML call returned `code`, which concerns that call or that device only."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function} returned {code}")
        self.code = code


class NvmlLibrary:
    """NVML, initialised. `binding` is the pynvml module; versions are texts, empty where unknown."""

    def __init__(self, binding: Any, binding_version: str) -> None:
        self.binding = binding
        self.binding_version = binding_version
        self.driver = ""
        self.nvml_version = ""
        self._failures = (binding.NVMLError, binding.NVMLLibraryMismatchError, UnicodeDecodeError)

    def call(self, function: str, *arguments: Any) -> Any:
        """One call. Raises NvmlFailure, or ProbeUnavailable where no further call can succeed."""
        try:
            return getattr(self.binding, function)(*arguments)
        except AttributeError:
            # Only a binding older than the function lacks it: same meaning as a driver that lacks it.
            raise NvmlFailure(function, FUNCTION_NOT_FOUND_CODE) from None
        except self._failures as failed:
            code = self._code(failed)
            if code in DRIVER_GONE:
                what, fix = _FIXES.get(code, ("NVML is no longer initialised", "the agent initialises it again"))
                raise ProbeUnavailable(what, fix) from failed
            raise NvmlFailure(function, code) from failed

    def attempt(self, function: str, *arguments: Any) -> Any:
        """One call of which a failure matters to nobody: None then."""
        try:
            return self.call(function, *arguments)
        except NvmlFailure:
            return None

    def _code(self, failed: Exception) -> int:
        if isinstance(failed, self.binding.NVMLError):
            return int(failed.value)
        return UNKNOWN_CODE if isinstance(failed, UnicodeDecodeError) else FUNCTION_NOT_FOUND_CODE

    def __str__(self) -> str:
        return f"nvml {self.driver or 'unknown'} (nvidia-ml-py {self.binding_version or 'unknown'})"


def import_pynvml() -> ModuleType:
    """The module `pynvml`, whoever ships it."""
    import pynvml

    module: ModuleType = pynvml
    return module


def load_library(binding: Callable[[], ModuleType], machine: Path) -> NvmlLibrary:
    """Import the binding, check it, initialise NVML. Raises ProbeUnavailable with what to do.

    `machine` is the root under which `proc` and `sys` lie: they tell a machine without NVIDIA hardware (no fault)
    from one whose driver or library is missing (a fault).
    """
    absent = not _nvidia_here(machine)
    try:
        module = binding()
    except ImportError as failed:
        raise ProbeUnavailable(f"the Python module pynvml can't be imported ({failed})", _INSTALL, absent) from failed
    library = NvmlLibrary(module, _checked_version(module, absent))
    try:
        module.nvmlInit()
        library.driver = library.attempt("nvmlSystemGetDriverVersion") or ""
        library.nvml_version = library.attempt("nvmlSystemGetNVMLVersion") or ""
    except module.NVMLError as failed:
        what, fix = _FIXES.get(
            failed.value,
            (f"NVML can't be initialised: {failed} (code {failed.value})", "see what `nvidia-smi` and dmesg say"),
        )
        raise ProbeUnavailable(what, fix, absent) from failed
    return library


def close_library(library: NvmlLibrary) -> None:
    """Let go of NVML; what it answers to that matters to nobody."""
    try:
        library.attempt("nvmlShutdown")
    except ProbeUnavailable:
        return


def _nvidia_here(machine: Path) -> bool:
    """Whether a driver is loaded or an NVIDIA display controller is on the PCI bus."""
    if (machine / "proc/driver/nvidia/version").exists():
        return True
    for folder in (machine / "sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = (folder / "vendor").read_text(), (folder / "class").read_text()
        except OSError:
            continue
        if vendor.startswith(_NVIDIA_VENDOR) and kind.startswith(_DISPLAY_CLASS):
            return True
    return False


def _checked_version(module: ModuleType, absent: bool) -> str:
    """The binding's version. Raises ProbeUnavailable where another package shadows it or where it is too old."""
    path = Path(module.__file__ or "")
    if path.name != "pynvml.py":
        # The package `pynvml` up to 11.x wins over nvidia-ml-py's single file when both are installed.
        raise ProbeUnavailable(
            f"the module pynvml is not nvidia-ml-py's: it comes from {path}",
            f"another package shadows it: uninstall pynvml (pip uninstall pynvml), then {_INSTALL}",
            absent,
        )
    try:
        version = importlib.metadata.version("nvidia-ml-py")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    # Older structs are shorter or longer than the driver's, which scrambles process lists (nvitop#75, pynvml#50).
    known = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    if (known and known < OLDEST_BINDING) or not hasattr(module, "nvmlDeviceGetComputeRunningProcesses_v3"):
        raise ProbeUnavailable(f"nvidia-ml-py {version or 'of unknown version'} is too old", _INSTALL, absent)
    return version

"""The AMD SMI library as the probe calls it: loading it, the check that wrapper and library fit, one call at a time."""

import contextlib
import ctypes
import importlib
import io
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from wattledger_agent.probes.amd_metrics import Metrics, from_mapping, from_structure
from wattledger_agent.probes.amd_structure import FilledStructure
from wattledger_agent.probes.amd_value import NO_LIBRARY_CODES, number, reason_of
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import ABI_MISMATCH, NOT_SUPPORTED, UNKNOWN_ERROR

SHIPPED_WRAPPER: Final = Path("/opt/rocm/share/amd_smi")
KFD: Final = Path("/dev/kfd")
USE_SHIPPED: Final = (
    f"use the Python wrapper that came with the library: `pip install {SHIPPED_WRAPPER}`, or put that folder first on "
    "PYTHONPATH, and restart the agent"
)
GROUPS: Final = "add the agent's user to the groups `render` and `video` (in a container: mount /dev/kfd and /dev/dri)"
_FITTING: Final = {68: (23, 24), 40: (25,)}
"""Which libraries write a power structure of so many bytes (wrappers 6.0-6.3 and 6.4); 192 bytes from 26 on."""
_SIZE_FROM_26: Final = 192


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call gave: a value, or the reason why there is none and the library's status code (-1: no code)."""

    value: Any = None
    reason: str = ""
    code: int = 0


def load_wrapper(folder: Path = SHIPPED_WRAPPER) -> ModuleType:
    """Import `amdsmi`, the one shipped with the library where there is one. The import prints to stdout when it finds
    no library; that is swallowed here. Raises what the import raises."""
    shipped = str(folder) if (folder / "amdsmi").is_dir() and "amdsmi" not in sys.modules else ""
    if shipped:
        sys.path.insert(0, shipped)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return importlib.import_module("amdsmi")
    finally:
        if shipped:
            sys.path.remove(shipped)


class AmdLibrary:
    """The initialised library. Every call is made by the thread that opened it (concurrent calls into versions before
    26.2 crash or give another GPU's values). Raises ProbeUnavailable when nothing can be read any more."""

    def __init__(self, module: Any) -> None:
        self._module = module
        # AttributeError, KeyError: wrapper and library of unlike versions. ValueError: serials and texts that the
        # wrapper can't parse. The rest is what ctypes and the wrapper's own argument checks raise.
        self._errors: tuple[type[BaseException], ...] = (
            getattr(module, "AmdSmiException", OSError),
            AttributeError,
            KeyError,
            IndexError,
            OSError,
            TypeError,
            ValueError,
            ctypes.ArgumentError,
        )
        self._power = FilledStructure.of(module, "amdsmi_power_info_t", "amdsmi_get_power_info")
        self._metrics = FilledStructure.of(module, "amdsmi_gpu_metrics_t", "amdsmi_get_gpu_metrics_info")
        self.version: tuple[int, ...] = ()

    @property
    def power_bytes(self) -> int | None:
        """Size of the wrapper's power structure; None: it shows none."""
        return self._power.size if self._power is not None else None

    @property
    def name(self) -> str:
        wrapper = getattr(self._module, "__version__", "") or "of unknown version"
        return f"amdsmi {'.'.join(map(str, self.version)) or 'of unknown version'} (wrapper {wrapper})"

    def ask(self, function: str, *arguments: object) -> Answer:
        """Call one function of the wrapper by its name. A function that this version lacks is not supported."""
        called = getattr(self._module, function, None)
        if called is None:
            return Answer(reason=NOT_SUPPORTED, code=2)
        try:
            return Answer(called(*arguments))
        except self._errors as error:
            return self._failed(function, error)

    def constant(self, kind: str, name: str) -> Any:
        """A member of one of the wrapper's enumerations; None where it lacks it."""
        return getattr(getattr(self._module, kind, None), name, None)

    def power(self, handle: object) -> tuple[Mapping[str, object], Answer]:
        """The power structure's fields, and how the call ended. Its status is that of the power cap, read last: the
        fields may be good although it is an error."""
        if self._power is None:
            answer = self.ask("amdsmi_get_power_info", handle)
            return (answer.value if isinstance(answer.value, Mapping) else {}), answer
        answer = self._filled(self._power, handle)
        return {name: getattr(self._power.value, name) for name in self._power.names}, answer

    def metrics(self, handle: object, partitions: int = 1) -> tuple[Metrics, Answer]:
        """What the probe reads of the gpu_metrics table, and how the call ended. `partitions`: of how many the busy
        shares are read, too."""
        if self._metrics is None:
            answer = self.ask("amdsmi_get_gpu_metrics_info", handle)
            return from_mapping(answer.value if isinstance(answer.value, Mapping) else {}, partitions), answer
        answer = self._filled(self._metrics, handle)
        return from_structure(self._metrics.value, partitions), answer

    def writes_beyond(self, handle: object) -> str:
        """The structure behind whose end the library writes; empty: none does."""
        for structure in (self._power, self._metrics):
            if structure is not None and structure.is_overrun(handle):
                return structure.name
        return ""

    def shut_down(self) -> None:
        # Whatever a dying library says here, there is nothing left to do with it.
        with contextlib.suppress(ProbeUnavailable):
            self.ask("amdsmi_shut_down")

    def _filled(self, structure: FilledStructure, handle: object) -> Answer:
        try:
            code = structure.fill(handle)
        except self._errors as error:
            return self._failed(structure.name, error)
        if code in NO_LIBRARY_CODES:
            raise _gone(structure.name, code)
        return Answer(reason=reason_of(code) if code else "", code=code)

    def _failed(self, function: str, error: BaseException) -> Answer:
        code = getattr(error, "err_code", None)
        if isinstance(code, int):
            if code in NO_LIBRARY_CODES:
                raise _gone(function, code)
            return Answer(reason=reason_of(code), code=code)
        return Answer(reason=ABI_MISMATCH if isinstance(error, AttributeError) else UNKNOWN_ERROR, code=-1)


def _gone(function: str, code: int) -> ProbeUnavailable:
    return ProbeUnavailable(
        f"{function} ended with status {code}: the AMD driver or library is not there any more",
        "look whether the amdgpu module is loaded (`dmesg | grep amdgpu`); the probe tries again",
    )


def open_library(load: Callable[[], ModuleType] = load_wrapper, kfd: Path = KFD) -> tuple[AmdLibrary, list[Any]]:
    """Load, initialise and check the library; gives it with the handles of its GPUs. Raises ProbeUnavailable:
    `absent` where neither ROCm nor a compute device is there."""
    library = AmdLibrary(_imported(load, kfd))
    started = library.ask("amdsmi_init")
    if started.reason:
        raise _not_started(started, kfd)
    try:
        library.version, first = _version(library)
        told = misfit(first, library.power_bytes)
        if told:
            raise ProbeUnavailable(f"{library.name}: {told}", USE_SHIPPED)
        handles = library.ask("amdsmi_get_processor_handles")
        found = list(handles.value or [])
        if not found:
            raise _nothing_found(handles, kfd)
        beyond = library.writes_beyond(found[0])
        if beyond:
            raise ProbeUnavailable(f"{library.name}: the library writes behind the end of {beyond}", USE_SHIPPED)
    except ProbeUnavailable:
        library.shut_down()
        raise
    return library, found


def _imported(load: Callable[[], ModuleType], kfd: Path) -> ModuleType:
    try:
        return load()
    except AttributeError as error:
        told = f"the amdsmi wrapper asks the library for what it lacks ({error})"
        raise ProbeUnavailable(told, USE_SHIPPED) from error
    except (KeyError, OSError, ImportError) as error:
        # Without ROCm the wrapper raises KeyError('libamd_smi.so'), not ImportError.
        raise ProbeUnavailable(
            f"AMD SMI can't be loaded ({error})",
            f"install amd-smi-lib and the `amd` extra of the agent ({kfd} is there)"
            if kfd.exists()
            else "install ROCm's amd-smi-lib if this machine has AMD GPUs",
            absent=not kfd.exists(),
        ) from error


def misfit(library_first: int | None, power_bytes: int | None) -> str:
    """Why this wrapper must not read that library; empty: they fit, or nothing is known of one of them.

    `library_first` is the first number of the library's version (23-24: ROCm 6.0-6.3, 25: 6.4, 26: 7.x), `power_bytes`
    the size of the wrapper's power structure, which differs by version: a wrapper of another version reads one field
    as another, or hands the library too small a buffer.
    """
    if library_first is None or power_bytes is None:
        return ""
    if power_bytes in _FITTING:
        fits = library_first in _FITTING[power_bytes]
    else:
        fits = library_first >= 26 or power_bytes != _SIZE_FROM_26
    return "" if fits else f"library {library_first}.x does not write the {power_bytes} bytes that this wrapper reads"


def _version(library: AmdLibrary) -> tuple[tuple[int, ...], int | None]:
    """The library's version. The number that tells releases apart comes first in every layout of the structure: it was
    called `year` until 6.4."""
    said = library.ask("amdsmi_get_lib_version").value
    if not isinstance(said, Mapping):
        return (), None
    numbers = [number(said.get(part), narrow=False) for part in ("year", "major", "minor", "release")]
    known = tuple(part for part in numbers if part is not None)
    return known, known[0] if known else None


def _not_started(started: Answer, kfd: Path) -> ProbeUnavailable:
    what = f"amdsmi_init ended with status {started.code}"
    if kfd.exists() and not _may_use(kfd):
        return ProbeUnavailable(f"{what} and {kfd} may not be opened", GROUPS)
    if not kfd.exists():
        return ProbeUnavailable(f"{what}: there is no {kfd}", "load the amdgpu driver", absent=True)
    return ProbeUnavailable(what, "look at `dmesg | grep amdgpu`; the probe tries again")


def _nothing_found(handles: Answer, kfd: Path) -> ProbeUnavailable:
    if kfd.exists() and not _may_use(kfd):
        return ProbeUnavailable(f"AMD SMI shows no GPU and {kfd} may not be opened", GROUPS)
    fix = "nothing to do if none is built in; otherwise load the amdgpu driver"
    return ProbeUnavailable(f"AMD SMI shows no GPU (status {handles.code})", fix, absent=True)


def _may_use(kfd: Path) -> bool:
    return os.access(kfd, os.R_OK | os.W_OK)

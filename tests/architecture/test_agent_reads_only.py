"""The agent only reads: over every module that it can load, and each rule is shown to find what it is for."""

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from tests.architecture import rules, rules_agent
from tests.architecture.layout import PACKAGES, modules, short_name

START = "wattledger_agent.__main__"
OURS = sorted({*modules("wattledger_agent"), *modules("wattledger_schemas")})
LOADS = {"wattledger_agent/probes/amd_library.py": {"importlib.import_module('amdsmi')"}}
COMPUTED = {
    "wattledger_agent/probes/amd_library.py": {
        "sys.modules",
        "getattr(self._module, function, None)",
        "getattr(self._module, kind, None)",
        "getattr(getattr(self._module, kind, None), name, None)",
        "getattr(self._power.value, name)",
    },
    "wattledger_agent/probes/amd_metrics.py": {"getattr(table, name, None)", "getattr(header, name, None)"},
    "wattledger_agent/probes/amd_structure.py": {
        "getattr(wrapper, structure, None)",
        "getattr(wrapper, function, None)",
    },
    "wattledger_agent/probes/nvml_library.py": {"getattr(self.binding, function)"},
    "wattledger_agent/probes/nvml_values.py": {"getattr(field.value, _UNION_MEMBERS[kind])"},
}
"""Into what a vendor's library gave, by name: functions, whose names are looked at below, and fields of structures."""
NAMED = {
    "wattledger_agent/probes/nvml_library.py": {"self.call(function, *arguments)"},
    "wattledger_agent/probes/nvml_card.py": {
        "self.library.call(self.facts.temperature_function, self.handle, GPU_TEMPERATURE)",
        "self.library.call(self.facts.throttle_function, self.handle)",
    },
    "wattledger_agent/probes/nvml_power.py": {"library.call(function, handle)"},
}
"""Functions that are named by a field or an argument, which one of two literals filled."""
IMPORTERS = {
    "pynvml": {"wattledger_agent/probes/nvml_library.py"},
    "amdsmi": set[str](),  # loaded by name: LOADS
    "ctypes": {"wattledger_agent/probes/amd_library.py", "wattledger_agent/probes/amd_structure.py"},
}
WRITERS = {
    "doctor", "host_identity", "running", "trace", "wal_export", "wal_file", "wal_reserve", "wal_schema", "wal_store",
    "watchers/slurm_folder", "watchers/slurm_socket",
}  # fmt: skip
"""The log, the identity, a recording, and two places that SLURM's own scripts fill: all in folders of the agent."""


def found(rule: Callable[[str], Collection[str]]) -> dict[str, set[str]]:
    """What a rule finds, by module."""
    told = {short_name(path): set(rule(path.read_text())) for path in OURS}
    return {name: what for name, what in told.items() if what}


def test_all_that_the_agent_can_load_of_ours_is_looked_at() -> None:
    reached = rules_agent.reachable(START)
    assert reached <= set(OURS)
    # nothing lies beside: what is never loaded would be looked at in vain
    assert {short_name(path) for path in set(modules("wattledger_agent")) - reached} == set()


def test_every_module_that_it_imports_is_known() -> None:
    assert found(rules_agent.unexpected_imports) == {}


def test_nothing_starts_a_process() -> None:
    assert found(rules.process_starts) == {}


def test_nothing_acts_on_other_processes_or_the_machine() -> None:
    assert found(rules_agent.acts_elsewhere) == {}


def test_code_is_loaded_by_name_in_one_known_place() -> None:
    assert found(rules_agent.computed_imports) == LOADS


def test_no_library_is_loaded_past_the_bindings() -> None:
    assert found(rules_agent.foreign_ctypes) == {}


@pytest.mark.parametrize("module", IMPORTERS)
def test_a_vendors_binding_is_imported_in_known_places(module: str) -> None:
    importing = {short_name(path) for path in OURS if module in rules_agent.named_modules(path.read_text())}
    assert importing == IMPORTERS[module]


def test_vendors_functions_are_getters_start_and_end() -> None:
    assert found(rules_agent.vendor_writes) == {}


def test_vendors_functions_are_named_by_literals() -> None:
    assert found(rules_agent.names_called) == NAMED


def test_attributes_of_what_vendors_give_are_computed_in_known_places() -> None:
    computed = found(rules_agent.computed_attributes)
    assert {name: what for name, what in computed.items() if "/probes/" in name} == COMPUTED
    # the others look up fields of our own values: they have no vendor's library at hand
    for name in set(computed) - set(COMPUTED):
        package, _, inner = name.partition("/")
        named = rules_agent.named_modules((PACKAGES[package] / inner).read_text())
        assert {
            module
            for module in named
            if module.startswith(("wattledger_agent.probes.nvml", "wattledger_agent.probes.amd"))
        } == set(), name


def test_files_are_written_by_what_keeps_the_agents_own() -> None:
    writing = {
        Path(name).with_suffix("").as_posix().removeprefix("wattledger_agent/")
        for name in found(rules_agent.file_writes)
    }
    assert writing == WRITERS


WRONG: list[tuple[Callable[[str], Collection[str]], str]] = [
    (rules_agent.unexpected_imports, "import asyncio"),
    (rules_agent.unexpected_imports, "def f():\n    from concurrent.futures import ProcessPoolExecutor"),
    (rules_agent.unexpected_imports, "import numpy.f2py"),
    (rules_agent.unexpected_imports, "from importlib.util import spec_from_file_location"),
    (rules_agent.unexpected_imports, "from . import wal"),
    (rules_agent.unexpected_imports, "import wattledger_core"),
    (rules.process_starts, "import pty"),
    (rules.process_starts, "def f():\n    os.posix_spawn('x', [], {})"),
    (rules.process_starts, "os.forkpty()"),
    (rules.process_starts, "os.popen('nvidia-smi')"),
    (rules_agent.acts_elsewhere, "os.kill(pid, 9)"),
    (rules_agent.acts_elsewhere, "from os import setpriority"),
    (rules_agent.acts_elsewhere, "os.sched_setaffinity(pid, {0})"),
    (rules_agent.acts_elsewhere, "typer.launch('x')"),
    (rules_agent.acts_elsewhere, "uuid.getnode()"),
    (rules_agent.computed_imports, "importlib.import_module(name)"),
    (rules_agent.computed_imports, "from importlib import import_module\nimport_module('x')"),
    (rules_agent.computed_imports, "__import__('sub' + 'process')"),
    (rules_agent.computed_imports, "exec('import subprocess')"),
    (rules_agent.foreign_ctypes, "import ctypes\nctypes.CDLL('libc.so.6')"),
    (rules_agent.foreign_ctypes, "from ctypes import cdll"),
    (rules_agent.foreign_ctypes, "import ctypes.util"),
    (rules_agent.foreign_ctypes, "import ctypes as c\nc.CDLL('x')"),
    (rules_agent.vendor_writes, "pynvml.nvmlDeviceSetPowerManagementLimit(handle, 1)"),
    (rules_agent.vendor_writes, "library.call('nvmlDeviceClearFieldValues', handle, fields)"),
    (rules_agent.vendor_writes, "nvmlDeviceResetApplicationsClocks(handle)"),
    (rules_agent.vendor_writes, "nvmlDeviceCreateGpuInstance(handle, profile)"),
    (rules_agent.vendor_writes, "nvmlGpuInstanceDestroy(instance)"),
    (rules_agent.vendor_writes, "nvmlGpuInstanceCreateComputeInstance(instance, profile)"),
    (rules_agent.vendor_writes, "nvmlDeviceModifyDrainState(pci, 1)"),
    (rules_agent.vendor_writes, "nvmlDeviceFreezeNvLinkUtilizationCounter(handle, 0, 0, 1)"),
    (rules_agent.vendor_writes, "nvmlDeviceReadWritePRM_v1(handle, buffer)"),
    (rules_agent.vendor_writes, "nvmlGpmSetStreamingEnabled(handle, 1)"),
    (rules_agent.vendor_writes, "nvmlSystemSetConfComputeGpusReadyState(1)"),
    (rules_agent.vendor_writes, "nvmlUnitSetLedState(unit, 0)"),
    (rules_agent.vendor_writes, "'nvmlDevice' + 'SetPersistenceMode'"),
    (rules_agent.vendor_writes, "f'nvmlDevice{what}PersistenceMode'"),
    (rules_agent.vendor_writes, "amdsmi.amdsmi_set_power_cap(handle, 0, 1)"),
    (rules_agent.vendor_writes, "library.ask('amdsmi_reset_gpu', handle)"),
    (rules_agent.vendor_writes, "amdsmi_clean_gpu_local_data(handle)"),
    (rules_agent.vendor_writes, "'amdsmi_' + what"),
    (rules_agent.vendor_writes, "rsmi_dev_power_cap_set(0, 0, 1)"),
    (rules_agent.names_called, "library.call(name)"),
    (rules_agent.names_called, "def f(name='nvmlInit'):\n    library.attempt(name)"),
    (rules_agent.names_called, "library.call('nvml' + what)"),
    (rules_agent.names_called, "library.ask(f'amdsmi_get_{what}', handle)"),
    (rules_agent.names_called, "name = 'nvmlInit'\nname = what\nlibrary.call(name)"),
    (rules_agent.names_called, "for name in names:\n    library.ask(name)"),
    (rules_agent.names_called, "FilledStructure.of(module, 'amdsmi_power_info_t', function)"),
    (rules_agent.computed_attributes, "getattr(pynvml, name)()"),
    (rules_agent.computed_attributes, "pynvml.__dict__[name]()"),
    (rules_agent.computed_attributes, "vars(pynvml)[name]()"),
    (rules_agent.computed_attributes, "from operator import attrgetter"),
    (rules_agent.computed_attributes, "sys.modules['pynvml']"),
    (rules_agent.file_writes, "path.open('w')"),
    (rules_agent.file_writes, "open(path, mode='ab')"),
    (rules_agent.file_writes, "os.open(path, os.O_RDWR)"),
    (rules_agent.file_writes, "path.write_text('1')"),
    (rules_agent.file_writes, "(root / name).unlink()"),
    (rules_agent.file_writes, "part.replace(path)"),
    (rules_agent.file_writes, "shutil.rmtree(path)"),
    (rules_agent.file_writes, "sqlite3.connect(path)"),
]
RIGHT: list[tuple[Callable[[str], Collection[str]], str]] = [
    (rules_agent.unexpected_imports, "import numpy as np\nimport http.client\nfrom confluent_kafka import Producer"),
    (rules_agent.acts_elsewhere, "os.fsync(number)\nsignal.signal(15, stop)\nrun.edit()\nuuid.uuid4()"),
    (rules_agent.computed_imports, "importlib.metadata.version('x')\nre.compile('x')\nwal.reload_sums()"),
    (rules_agent.foreign_ctypes, "import ctypes\nctypes.byref(value)"),
    (rules_agent.vendor_writes, "library.call('nvmlDeviceGetPowerUsage', handle)\nnvmlInitWithFlags(0)"),
    (rules_agent.vendor_writes, "field.nvmlReturn\nnvmlGpmMigSampleGet(handle, 1, sample)\nlibrary.ask('amdsmi_init')"),
    (rules_agent.names_called, "library.call('nvmlInit')\nA, B = 'nvmlInit', 'x'\nlibrary.call(A)\nrunner.ask()"),
    (rules_agent.names_called, "for f in ('amdsmi_init', 'amdsmi_shut_down'):\n    library.ask(f, handle)"),
    (rules_agent.names_called, "name = 'nvmlA' if new else 'nvmlB'\nlibrary.attempt(name, handle)"),
    (rules_agent.computed_attributes, "getattr(error, 'value', None)"),
    (rules_agent.file_writes, "path.open('rb')\nopen(path)\ntext.replace('a', 'b')\nreplace(value, name='w')"),
    (rules_agent.file_writes, "sqlite3.connect(f'{path}?mode=ro', uri=True)\nos.open(path, os.O_RDONLY)"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "source"), WRONG, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_more_than_reading_is_found(rule: Callable[[str], Collection[str]], source: str) -> None:
    assert rule(source)


@pytest.mark.parametrize(("rule", "source"), RIGHT, ids=lambda value: getattr(value, "__name__", None))
def test_what_only_reads_passes(rule: Callable[[str], Collection[str]], source: str) -> None:
    assert not rule(source)


def test_an_import_inside_a_function_is_followed() -> None:
    # `run` imports what it runs only when it is called
    assert rules_agent.module_path("wattledger_agent.probes.amd_structure") in rules_agent.reachable(START)
    assert rules_agent.module_path("wattledger_agent.running") not in rules_agent.reachable("wattledger_agent.clock")


def test_every_setter_of_the_binding_is_refused_and_every_getter_that_is_used_is_there() -> None:
    pynvml = pytest.importorskip("pynvml")
    functions = {name for name in dir(pynvml) if name.startswith("nvml") and callable(getattr(pynvml, name))}
    changing = {
        name
        for name in functions
        if any(
            word in name
            for word in ("Set", "Clear", "Reset", "Create", "Destroy", "Modify", "Freeze", "Remove", "Write")
        )
        and "Get" not in name
    }
    assert len(changing) > 30
    assert {name for name in changing if rules_agent.READS.fullmatch(name)} == set()
    used = {
        name for path in OURS for name in rules_agent.VENDOR_NAME.findall(path.read_text()) if name.startswith("nvml")
    }
    assert {name for name in used if rules_agent.READS.fullmatch(name)} <= functions

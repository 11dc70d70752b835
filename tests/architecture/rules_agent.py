"""Rules for an agent that only reads: each takes a source and returns what in it could reach further."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.layout import PACKAGES

MAY_IMPORT = {
    # what a program is made of
    "bisect", "collections", "contextlib", "dataclasses", "datetime", "decimal", "difflib", "errno", "fractions",
    "functools", "itertools", "math", "re", "textwrap", "threading", "types", "typing", "sys",
    # bytes and texts
    "base64", "binascii", "hashlib", "io", "json", "struct", "uuid", "yaml", "zlib", "zoneinfo",
    # the machine
    "ctypes", "fcntl", "glob", "importlib", "importlib.metadata", "importlib.resources", "os", "pathlib", "pwd",
    "shutil", "signal", "socket", "sqlite3", "ssl", "stat", "time",
    # others' services
    "confluent_kafka", "confluent_kafka.admin", "google.protobuf", "grpc", "http.client", "http.server", "httpx",
    "stamina", "urllib.parse",
    # libraries
    "cryptography", "fastavro", "numpy", "numpy.typing", "prometheus_client", "pydantic", "pydantic_settings", "pynvml",
    "structlog", "typer", "wattledger_agent", "wattledger_schemas",
}  # fmt: skip
"""With their submodules, unless some of these are named. Of any other somebody first says what it can do."""

READING_CTYPES = {"Structure", "sizeof", "addressof", "memset", "byref", "ArgumentError"}
VENDOR_NAME = re.compile(r"(?<![A-Za-z0-9_])(?:nvml[A-Z]\w*|amdsmi_\w*|rsmi_\w*)")
READS = re.compile(
    r"nvml(?:Init\w*|Shutdown|ErrorString|(?:Device|System|GpuInstance|ComputeInstance|Unit)Get\w+"
    r"|Gpm(?:Query\w+|MetricsGet|(?:Mig)?SampleGet|Sample(?:Alloc|Free)))"
    r"|amdsmi_(?:init|shut_down|get_\w+)"
)
NO_FUNCTIONS = {"nvmlReturn", "nvmlMemory_v2", "amdsmi_wrapper", "amdsmi_power_info_t", "amdsmi_gpu_metrics_t"}
"""A field, a version, a module and two structures."""
NO_FUNCTIONS |= {"amdsmi_status_t"}
_LOADERS = {
    "__import__",
    "import_module",
    "run_path",
    "run_module",
    "exec_module",
    "load_module",
    "find_spec",
    "reload",
}
_INSIDES = {"__dict__", "__getattribute__", "__getattr__", "attrgetter", "methodcaller", "modules"}
CALLS_BY_NAME = {"call": 0, "attempt": 0, "ask": 0, "of": 2}
"""The probes' own ways to call a vendor's function, and which argument names it."""

ELSEWHERE = re.compile(
    r"kill|killpg|pidfd_\w+|pthread_kill|nice|setpriority|sched_set\w+|prlimit|ptrace|mount|umount\d?|reboot|chroot"
    r"|set(?:res|re|e)?[ug]id|setgroups|setns|unshare|clock_settime\w*|sethostname|launch|startfile|edit|uuid1|getnode"
)
"""Of _OWNERS: what acts on other processes or on the machine, or starts a program to find something out."""
_OWNERS = {"os", "signal", "resource", "time", "typer", "click", "uuid"}
_WRITING_MODE = re.compile(r"[rb+t]*[wax+][bt+]*")
_WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}
_WRITING_CALLS = {
    "write_text", "write_bytes", "mkdir", "makedirs", "mkfifo", "mknod", "unlink", "rmdir", "removedirs", "rename",
    "touch", "chmod", "fchmod", "lchmod", "chown", "lchown", "symlink", "symlink_to", "link", "hardlink_to", "truncate",
    "utime", "copyfile", "copy2", "copytree", "rmtree",
}  # fmt: skip


@cache
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def module_path(name: str) -> Path | None:
    """The file of a module of ours; None: none of ours."""
    package, *rest = name.split(".")
    if package not in PACKAGES:
        return None
    path = PACKAGES[package].joinpath(*rest)
    found = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return found if found.exists() else None


def named_modules(source: str) -> set[str]:
    """Every module that a source imports, dotted, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def reachable(start: str) -> set[Path]:
    """Our modules that importing `start`, and running what it imports later, can load."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        path = module_path(name)
        if path is None or path in found:
            continue
        found.add(path)
        parts = name.split(".")
        waiting += [".".join(parts[:count]) for count in range(1, len(parts))]
        waiting += named_modules(path.read_text())
    return found


def unexpected_imports(source: str) -> set[str]:
    """Modules of which nobody said what they can do; relative imports are unexpected too."""
    nodes = [node for node in ast.walk(_tree(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    named = {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    named |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {"." for node in nodes if isinstance(node, ast.ImportFrom) and node.level}
    whole = {name for name in MAY_IMPORT if not any(other.startswith(f"{name}.") for other in MAY_IMPORT)}
    return {
        name
        for name in named
        if name not in MAY_IMPORT and not any(name.startswith(f"{allowed}.") for allowed in whole)
    }


def computed_imports(source: str) -> set[str]:
    """Calls that load code by a name, or run a text as code, as they are written."""
    found = set()
    for call in _calls(source):
        name = ast.unparse(call.func)
        if name in ("eval", "exec", "compile") or name.rpartition(".")[2] in _LOADERS:
            found.add(ast.unparse(call))
    return found


def computed_attributes(source: str) -> set[str]:
    """Where an attribute's name is no literal, as it is written."""
    found = set()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            by_name = node.func.id in ("getattr", "setattr", "delattr", "hasattr") and len(node.args) > 1
            if (by_name and not isinstance(node.args[1], ast.Constant)) or node.func.id in ("vars", "globals"):
                found.add(ast.unparse(node))
        elif (isinstance(node, ast.Attribute) and node.attr in _INSIDES) or (
            isinstance(node, ast.ImportFrom) and node.module == "operator"
        ):
            found.add(ast.unparse(node))
    return found


def vendor_writes(source: str) -> set[str]:
    """Names of a vendor's functions, called, mentioned or begun in a text, that are no getter, start or end."""
    named = set(VENDOR_NAME.findall(source))
    return {name for name in named - NO_FUNCTIONS if not READS.fullmatch(name)}


def names_called(source: str) -> set[str]:
    """Where the name of a vendor's function is neither a literal nor a variable that only ever is one."""
    tree = _tree(source)
    literals = _literal_variables(tree)
    found = set()
    for call in _calls(source):
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in CALLS_BY_NAME:
            continue
        place = CALLS_BY_NAME[call.func.attr]
        given = call.args[place] if len(call.args) > place else None
        known = isinstance(given, ast.Constant) or (isinstance(given, ast.Name) and given.id in literals)
        if given is not None and not known:
            found.add(ast.unparse(call))
    return found


def _literal_variables(tree: ast.AST) -> set[str]:
    """Variables of which every assignment, loop included, is a text or one of several texts."""
    values: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value):
                    values.setdefault(name, []).append(value)
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            values.setdefault(ast.unparse(node.target), []).append(None)
        elif isinstance(node, ast.For | ast.comprehension):
            for name, value in _pairs(node.target, node.iter):
                values.setdefault(name, []).append(value)
        elif isinstance(node, ast.arg):
            values.setdefault(node.arg, []).append(None)
    return {name for name, given in values.items() if all(value is not None and _is_text(value) for value in given)}


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, given in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, given)
    elif isinstance(target, ast.Name):
        yield target.id, value
    else:
        yield from ((node.id, None) for node in ast.walk(target) if isinstance(node, ast.Name))


def _is_text(value: ast.expr) -> bool:
    if isinstance(value, ast.IfExp):
        return _is_text(value.body) and _is_text(value.orelse)
    if isinstance(value, ast.Tuple):
        return all(map(_is_text, value.elts))
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def foreign_ctypes(source: str) -> set[str]:
    """What of `ctypes` could load a library or call into one."""
    found: set[str] = set()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ctypes":
            found |= {node.attr} - READING_CTYPES
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ctypes":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name for alias in node.names if alias.name.startswith("ctypes.")}
            found |= {alias.asname for alias in node.names if alias.name == "ctypes" and alias.asname}
    return found


def acts_elsewhere(source: str) -> set[str]:
    """What acts on other processes or on the machine."""
    found: set[str] = set()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _OWNERS:
            found |= {ast.unparse(node)} if ELSEWHERE.fullmatch(node.attr) else set()
        elif isinstance(node, ast.ImportFrom) and node.module in _OWNERS:
            found |= {alias.name for alias in node.names if ELSEWHERE.fullmatch(alias.name)}
    return found


def file_writes(source: str) -> set[str]:
    """Calls that write, make, rename or remove files, or open a database to write, as they are written."""
    return {ast.unparse(call) for call in _calls(source) if _writes(call)}


def _writes(call: ast.Call) -> bool:
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "open":
        flags = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)} & _WRITING_FLAGS
        modes = [*call.args[:2], *(word.value for word in call.keywords if word.arg == "mode")]
        given = [mode.value for mode in modes if isinstance(mode, ast.Constant) and isinstance(mode.value, str)]
        return bool(flags) or any(_WRITING_MODE.fullmatch(mode) for mode in given)
    if name == "connect" and ast.unparse(call.func) == "sqlite3.connect":
        return "mode=ro" not in ast.unparse(call)
    if name == "replace":
        # a path's takes one argument, a text's two, dataclasses.replace names its own
        return isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
    return name in _WRITING_CALLS and isinstance(call.func, ast.Attribute)


def _calls(source: str) -> list[ast.Call]:
    return [node for node in ast.walk(_tree(source)) if isinstance(node, ast.Call)]

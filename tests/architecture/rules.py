"""The rules themselves: each takes a source and returns what is wrong in it, so that each can be shown to find it."""

import ast
import re
import sys

from tests.architecture.layout import imported, names_used

OUTSIDE_WORLD = {"os", "socket", "subprocess", "asyncio", "threading", "random", "logging", "time"}
# Other doors of the standard library to the same rooms.
OUTSIDE_WORLD |= {"_thread", "concurrent", "http", "importlib", "io", "multiprocessing", "pathlib", "secrets", "select"}
OUTSIDE_WORLD |= {"shutil", "signal", "ssl", "tempfile", "urllib", "uuid"}
OUTSIDE_CALLS = {"open", "print", "input", "eval", "exec", "__import__"}
CORE_MAY_IMPORT = (set(sys.stdlib_module_names) - OUTSIDE_WORLD) | {"numpy", "wattledger_core"}

INEXACT_NAMES = re.compile(r"float\w*|complex\w*|double|longdouble|truediv|true_divide|mean|average|fsum")
SETTER = re.compile(r"nvmlDeviceSet\w*|amdsmi_set_\w*")
PROCESS_MODULES = {"subprocess", "multiprocessing", "pty"}
PROCESS_NAMES = re.compile(
    r"system|popen\w*|fork\w*|exec[lv]\w*|spawn[lv]\w*|posix_spawnp?|create_subprocess_\w+|ProcessPoolExecutor"
)
CLOCKS = re.compile(r"\btime\.time(?:_ns)?\(|\bfrom time import .*\btime\b|\b(?:now|utcnow|today)\(")
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}

MACHINE = re.compile(r"(?<![\w.~])/(?:work|root|opt/wheels)\b")
REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|maven\.org|repo\.maven\.apache\.org|npmjs\.(?:org|com)|crates\.io|"
    r"docker\.io|ghcr\.io|quay\.io|proxy\.golang\.org)\b|^\s*--(?:extra-)?(?:index-url|find-links)\b",
    re.MULTILINE,
)


def impure(source: str) -> set[str]:
    """What a source of the core imports or calls that reaches outside."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    called = {func.id for func in calls if isinstance(func, ast.Name)}
    return (imported(source) - CORE_MAY_IMPORT) | (called & OUTSIDE_CALLS) | (names_used(source) & {"random"})


def inexact(source: str) -> list[str]:
    """Float literals, true divisions, names that make floats. A Decimal context's `divide` rounds as it is told."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, float | complex):
            found.append(f"line {node.lineno}: {node.value!r}")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            found.append(f"line {node.lineno}: /")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("np.divide", "numpy.divide"):
            found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found + sorted(name for name in names_used(source) if INEXACT_NAMES.fullmatch(name))


def setters(source: str) -> list[str]:
    """Calls, or mentions by name, of a vendor library's setters."""
    return SETTER.findall(source)


def process_starts(source: str) -> set[str]:
    """What of a source can start a process."""
    used = {name for name in names_used(source) if PROCESS_NAMES.fullmatch(name)}
    return (imported(source) & PROCESS_MODULES) | used


def clock_reads(source: str) -> list[str]:
    """Where a source asks the wall clock."""
    return CLOCKS.findall(source)


def environment_reads(source: str) -> set[str]:
    return names_used(source) & ENVIRONMENT


def places(text: str) -> list[str]:
    """Paths of one machine, and registries' hosts or options."""
    return MACHINE.findall(text) + REGISTRY.findall(text)

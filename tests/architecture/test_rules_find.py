"""Each rule finds what it is for, and lets pass what is right: a check that finds nothing would stay green for ever."""

from collections.abc import Callable, Collection

import pytest

from tests.architecture import rules

WRONG: list[tuple[Callable[[str], Collection[str]], str]] = [
    (rules.impure, "import os"),
    (rules.impure, "import os.path"),
    (rules.impure, "def f():\n    from time import monotonic"),
    (rules.impure, "import httpx"),
    (rules.impure, "import wattledger_schemas"),
    (rules.impure, "from numpy import random"),
    (rules.impure, "import numpy as np\nnp.random.default_rng()"),
    (rules.impure, "open('x')"),
    (rules.inexact, "x = 1.0"),
    (rules.inexact, "x = 1e6"),
    (rules.inexact, "x = a / b"),
    (rules.inexact, "x /= b"),
    (rules.inexact, "x = float(a)"),
    (rules.inexact, "x = a.astype(np.float64)"),
    (rules.inexact, "x = np.true_divide(a, b)"),
    (rules.inexact, "x = np.divide(a, b)"),
    (rules.inexact, "x = a.mean()"),
    (rules.setters, "pynvml.nvmlDeviceSetPowerManagementLimit(handle, 1)"),
    (rules.setters, "getattr(amdsmi, 'amdsmi_set_power_cap')(handle)"),
    (rules.process_starts, "import subprocess"),
    (rules.process_starts, "from multiprocessing import Process"),
    (rules.process_starts, "os.system('x')"),
    (rules.process_starts, "from os import execvp"),
    (rules.process_starts, "await asyncio.create_subprocess_exec('x')"),
    (rules.clock_reads, "time.time()"),
    (rules.clock_reads, "time.time_ns()"),
    (rules.clock_reads, "from time import monotonic, time"),
    (rules.clock_reads, "datetime.now(UTC)"),
    (rules.clock_reads, "date.today()"),
    (rules.environment_reads, "os.environ['X']"),
    (rules.environment_reads, "from os import getenv"),
    (rules.places, "see /wo" + "rk/main"),
    (rules.places, "file:///ro" + "ot/.m2"),
    (rules.places, "https://" + "pypi" + ".org/simple"),
    (rules.places, "https://repo1." + "maven" + ".org/maven2"),
    (rules.places, "numpy==2.1\n--extra-" + "index-url x"),
    (rules.places, "image: ghcr" + ".io/x/y"),
]
RIGHT: list[tuple[Callable[[str], Collection[str]], str]] = [
    (rules.impure, "import datetime\nimport numpy as np\nfrom . import units\nself.open = 1"),
    (rules.inexact, "x = a // b\ny = Fraction(a, b)\nz = MONEY_CONTEXT.divide(a, Decimal('1.5'))\n'a / b'"),
    (rules.setters, "pynvml.nvmlDeviceGetPowerUsage(handle)"),
    (rules.process_starts, "import threading\nos.fsync(fd)"),
    (rules.clock_reads, "time.monotonic()\nclock.now_us()"),
    (rules.environment_reads, "env = {'environ': 1}"),
    (rules.places, '<project xmlns="http://maven.apache.org/POM/4.0.0">'),
    (rules.places, "uv pip compile --no-emit-index-url; cp streams/work/a b; ~/work/x; its/root"),
]


@pytest.mark.parametrize(("rule", "source"), WRONG, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_wrong_is_found(rule: Callable[[str], Collection[str]], source: str) -> None:
    assert rule(source)


@pytest.mark.parametrize(("rule", "source"), RIGHT, ids=lambda value: getattr(value, "__name__", None))
def test_what_is_right_passes(rule: Callable[[str], Collection[str]], source: str) -> None:
    assert not rule(source)

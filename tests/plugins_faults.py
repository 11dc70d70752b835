"""Fault cases of a test run: which of them run, what each has seen, and the table at the end.

A case is marked `fault(number, done, expected)` and says what it saw with the fixture `seen`. Without `--faults` only
cases marked `quick` run.
"""

from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from wattledger_audit.broker import has_kafka_jars

from tests.fault_harness.fault_list import FAULTS
from tests.fault_harness.fault_report import FAILED, NOT_RUN, OK, Case, write_report
from tests.plugins_broker import LIBS

OUT = Path("out")
_seen = pytest.StashKey[list[str]]()
_cases = pytest.StashKey[dict[str, Case]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", action="store_true", help="run every fault case, not only the quick ones")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_cases] = {}
    for line in (
        "fault(number, done, expected): a fault case; `number` is its number in the list, or several",
        "quick: a fault case for every run, not only for those with --faults",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a mark that the table can't show; skip long cases unless asked for."""
    long = pytest.mark.skip(reason="a long fault case: `make faults`, or pytest --faults")
    for item in items:
        mark = item.get_closest_marker("fault")
        if mark is None:
            continue
        problem = mark_problem(mark)
        if problem:
            raise pytest.UsageError(f"{item.nodeid}: {problem}: say fault(number, 'what was done', 'what is expected')")
        if item.get_closest_marker("quick") is None and not config.getoption("--faults"):
            item.add_marker(long)


def mark_problem(mark: pytest.Mark) -> str:
    """Why the table could not show a case with this mark; empty when it can."""
    if mark.kwargs or len(mark.args) != 3:
        return "the mark `fault` takes three values"
    numbers, done, expected = mark.args
    if not all(number in FAULTS for number in _numbers(numbers)) or not _numbers(numbers):
        return f"{numbers!r} is not in the list of faults, 1 to {max(FAULTS)}"
    return "" if done and expected else "what was done and what is expected have to be said"


def _numbers(given: int | tuple[int, ...]) -> tuple[int, ...]:
    return given if isinstance(given, tuple) else (given,)


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Say what a fault case saw, once or several times: it is in the table, also when the case fails afterwards."""
    texts = request.node.stash.setdefault(_seen, [])

    def record(text: str) -> None:
        print(f"seen: {text}")
        texts.append(text)

    return record


@pytest.fixture
def apache_kafka() -> Path:
    """Apache Kafka's jars, for a case that needs a broker of its own (to kill it, or a proxy before it)."""
    if not has_kafka_jars(LIBS):
        pytest.skip("needs Java and Apache Kafka's jars (`make jars`): only a broker of our own can be killed")
    return LIBS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note a case's outcome: its call's, unless setting up or cleaning up failed."""
    report = yield
    mark = item.get_closest_marker("fault")
    if mark is not None:
        _note(item, mark, report)
    return report


def _note(item: pytest.Item, mark: pytest.Mark, report: pytest.TestReport) -> None:
    cases = item.config.stash[_cases]
    if report.when != "call" and report.passed:
        return
    before = cases.get(item.nodeid)
    outcome = {"passed": OK, "failed": FAILED, "skipped": NOT_RUN}[report.outcome]
    texts = item.stash.get(_seen, [])
    if outcome == NOT_RUN and isinstance(report.longrepr, tuple):
        texts = [report.longrepr[2].removeprefix("Skipped: ")]
    elif outcome == FAILED and call_error(report):
        texts = [*texts, call_error(report)]
    seconds = report.duration if report.when == "call" or before is None else before.seconds
    cases[item.nodeid] = Case(
        _numbers(mark.args[0]), item.nodeid, mark.args[1], mark.args[2], "; ".join(texts), round(seconds, 2), outcome
    )


def call_error(report: pytest.TestReport) -> str:
    """The first line of a failure's own message."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message).splitlines()[0][:300] if crash is not None and crash.message else ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the table and say where it is: `out/faults.md` of a run with --faults, else `out/faults-quick.md`."""
    cases = list(config.stash[_cases].values())
    if not any(case.outcome != NOT_RUN for case in cases):
        return
    name = "faults" if config.getoption("--faults") else "faults-quick"
    path = write_report(cases, config.rootpath / OUT, name)
    ran = [case for case in cases if case.outcome != NOT_RUN]
    failed = sum(case.outcome != OK for case in ran)
    terminalreporter.write_line(f"fault cases: {len(ran)} ran, {failed} failed; the table is in {path}")

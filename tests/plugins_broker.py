"""The broker of a test run: chosen once, said in the header and again at the end, with what is then untested."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from wattledger_audit.broker import Broker, choose_broker

LIBS = Path(__file__).resolve().parent.parent / ".cache" / "kafka" / "libs"
VARIABLE = "WATTLEDGER_TEST_BROKER"
_numbers = count(1)
_used: list[Broker] = []


def _preference() -> str:
    return os.environ.get(VARIABLE, "auto")


def pytest_report_header() -> str:
    """What will be asked for; which one it was is said at the end."""
    return f"broker asked for: {_preference()} ({VARIABLE}=auto|kafka|docker|tansu|host:port)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which broker the run used."""
    for broker in _used:
        terminalreporter.write_line(broker.line)
    if not _used:
        terminalreporter.write_line("broker: none was needed by the tests that ran")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the session."""
    found = choose_broker(_preference(), tmp_path_factory.mktemp("broker"), LIBS)
    _used.append(found)
    yield found
    found.stop()


@pytest.fixture
def topic_prefix() -> str:
    """A prefix that no other test uses."""
    return f"t{next(_numbers)}."

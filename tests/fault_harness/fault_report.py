"""The table of a run of fault cases: what was done, expected and seen, and which promises that tests."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.fault_harness.fault_list import FAULTS, PROMISES

OK, FAILED, NOT_RUN = "ok", "FAILED", "not run"


@dataclass(frozen=True, slots=True)
class Case:
    """One fault case of a run; `seconds` is its call, without its fixtures."""

    numbers: tuple[int, ...]
    test: str
    done: str
    expected: str
    seen: str
    seconds: float
    outcome: str


def as_markdown(cases: Sequence[Case]) -> str:
    """The cases by number, then the promises, then the numbers that no case of the run has shown."""
    rows = [(number, case) for number in FAULTS for case in cases if number in case.numbers]
    lines = ["# Faults", "", _counted(cases), "", "| # | fault | done | expected | seen | s | ok |"]
    lines.append("|---|---|---|---|---|---|---|")
    for number, case in rows:
        cells = (FAULTS[number], case.done, case.expected, case.seen or "(nothing recorded)")
        shown = " | ".join(_cell(cell) for cell in cells)
        lines.append(f"| {number} | {shown} | {case.seconds:.1f} | {case.outcome} |")
    lines += ["", "| promise | faults | cases | ok |", "|---|---|---|---|"]
    for promise in PROMISES:
        found = _of(cases, promise.faults)
        numbers = ", ".join(map(str, promise.faults))
        lines.append(f"| {_cell(promise.text)} | {numbers} | {len(found)} | {_together(found)} |")
    missing = [number for number in FAULTS if not any(_ran(case) and number in case.numbers for case in cases)]
    lines += ["", f"Not shown in this run: {', '.join(map(str, missing)) or 'none'}.", ""]
    return "\n".join(lines)


def as_json(cases: Sequence[Case]) -> str:
    """The same for programs."""
    promises = [
        {"promise": promise.text, "faults": promise.faults, "outcome": _together(_of(cases, promise.faults))}
        for promise in PROMISES
    ]
    found = [asdict(case) for case in sorted(cases, key=lambda case: (case.numbers, case.test))]
    return json.dumps({"cases": found, "promises": promises}, indent=1) + "\n"


def write_report(cases: Sequence[Case], folder: Path, name: str) -> Path:
    """Write NAME.md and NAME.json; the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(as_json(cases))
    path = folder / f"{name}.md"
    path.write_text(as_markdown(cases))
    return path


def _of(cases: Sequence[Case], numbers: Sequence[int]) -> list[Case]:
    return [case for case in cases if set(case.numbers) & set(numbers)]


def _ran(case: Case) -> bool:
    return case.outcome != NOT_RUN


def _together(cases: Sequence[Case]) -> str:
    ran = [case for case in cases if _ran(case)]
    if not ran:
        return NOT_RUN
    return FAILED if any(case.outcome != OK for case in ran) else OK


def _counted(cases: Sequence[Case]) -> str:
    ran = [case for case in cases if _ran(case)]
    failed = sum(case.outcome != OK for case in ran)
    return f"{len(ran)} cases ran in {sum(case.seconds for case in ran):.0f} s, {failed} failed."


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())

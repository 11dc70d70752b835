"""SLURM job ids: plain, array task, heterogeneous component, step, and the record of tasks that still wait."""

import re
from typing import NamedTuple

_JOB_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\]]*\]?(?:\.\.\.)?))?(?:\+\d+)?(?:\.[\w+.\-]+)?")
_TASKS = re.compile(r"(\d+)_\[([^\]%]*)(?:%\d+)?\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
MOST_TASKS = 100_000


def is_job_id(text: str) -> bool:
    """Whether the text has the form of a job id, step ids (`123.batch`) included."""
    return _JOB_ID.fullmatch(text) is not None


def is_step(text: str) -> bool:
    """Whether the id has a step behind it: `123.batch`; not the dots of a list that was cut, `123_[1,3,...]`."""
    if "[" in text:
        text = text.rpartition("]")[2] if "]" in text else ""
    return "." in text


class Waiting(NamedTuple):
    """The ids of the tasks of a pending array record; `cut` when the record does not list them all."""

    tasks: tuple[str, ...]
    cut: bool


def waiting_tasks(job: str) -> Waiting:
    """`123_[1-3,7%2]` -> 123_1, 123_2, 123_3, 123_7; the record itself, cut, where SLURM cut its list."""
    found = _TASKS.fullmatch(job)
    parts = found.group(2).split(",") if found else []
    numbers: list[str] = []
    for part in parts:
        bounds = _RANGE.fullmatch(part)
        if bounds is None:
            return Waiting((job,), cut=True)
        low, high, step = int(bounds.group(1)), int(bounds.group(2) or bounds.group(1)), int(bounds.group(3) or 1) or 1
        if high < low or (high - low) // step + len(numbers) >= MOST_TASKS:
            return Waiting((job,), cut=True)
        numbers.extend(map(str, range(low, high + 1, step)))
    if found is None or not numbers:
        return Waiting((job,), cut=True)
    return Waiting(tuple(f"{found.group(1)}_{number}" for number in numbers), cut=False)

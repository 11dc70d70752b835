"""All runs of the usage logs in columns, each run once: a million of them fit in memory. Owns what a redelivery is."""

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wattledger_audit.intake.record import UsageRun

NONE_US = -(1 << 62)
"""Stands for an unknown time in the columns."""


class Who(NamedTuple):
    """What many runs share: whose they are and how they ended, as the source wrote it."""

    cluster: str
    tenant: str
    project: str
    user: str
    model_tag: str
    plan: str
    partition: str
    sku: str
    gpu_model: str
    state: str
    waits_for: str
    exclusive: bool


class Shape(NamedTuple):
    """What many runs share: how much they took, and where. `cpus` and `memory_bytes` are the whole run's."""

    nodes: tuple[str, ...]
    device: str
    gpus: int | None
    share_num: int
    share_den: int
    cpus: int | None
    memory_bytes: int | None


_COLUMNS = (
    "who", "shape", "file", "line", "start_us", "end_us", "suspended_us", "submit_us", "eligible_us", "limit_us",
)  # fmt: skip


class RunBook:
    """Columns by run number, in order of first occurrence. Times are µs, NONE_US where unknown."""

    def __init__(self) -> None:
        self.whos: list[Who] = []
        self.shapes: list[Shape] = []
        self.jobs: list[str] = []
        self.who = array("l")
        self.shape = array("l")
        self.file = array("l")
        self.line = array("q")
        self.start_us = array("q")
        self.end_us = array("q")
        self.suspended_us = array("q")
        self.submit_us = array("q")
        self.eligible_us = array("q")
        self.limit_us = array("q")
        self.tokens: dict[int, int] = {}
        self.marks: Counter[str] = Counter()
        self.redelivered = 0
        self._who_numbers: dict[Who, int] = {}
        self._shape_numbers: dict[Shape, int] = {}
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, run: UsageRun, file: int, observed: bool = False) -> int:
        """Take one run; its number. The same run delivered again (another month's dump, an overlapping chunk) is one
        run, not two.

        A log's later word on a run replaces its earlier one, but never an end by no end. What is only `observed`
        (samples over a range) is the union of what each file saw, and two runs where a hole lies between.
        """
        key = f"{run.cluster}\0{run.job}\0{run.run_key}"
        number = self._numbers.get(key)
        while number is not None and observed and not self._meets(number, run):
            key += "\0+"
            number = self._numbers.get(key)
        if number is not None:
            self._again(number, run, observed)
            return number
        number = self._numbers[key] = len(self.jobs)
        for mark in run.marks:
            self.marks[mark] += 1
        who = Who(
            run.cluster, run.tenant, run.project, run.user, run.model_tag, run.plan, run.partition, run.sku,
            run.gpu_model, run.state, run.waits_for, run.exclusive,
        )  # fmt: skip
        shape = Shape(run.nodes, run.device, run.gpus, run.share_num, run.share_den, run.cpus, run.memory_bytes)
        self.who.append(self._who_number(who))
        self.shape.append(self._shape_number(shape))
        self.jobs.append(run.job)
        self.file.append(file)
        self.line.append(run.line)
        for column, value in (
            (self.start_us, run.start_us), (self.end_us, run.end_us), (self.submit_us, run.submit_us),
            (self.eligible_us, run.eligible_us), (self.limit_us, run.limit_us),
        ):  # fmt: skip
            column.append(NONE_US if value is None else value)
        self.suspended_us.append(run.suspended_us)
        if run.tokens is not None:
            self.tokens[number] = run.tokens
        return number

    def node_names(self) -> Iterator[tuple[str, str]]:
        """Every node that a run names, with its cluster."""
        for who, shape in set(zip(self.who, self.shape, strict=True)):
            for text in self.shapes[shape].nodes:
                yield self.whos[who].cluster, text

    def order_by(self, files: Sequence[str]) -> None:
        """Number the runs by their files' names, so that no order in which files are given matters. Call it once all
        is read."""
        if len(set(self.file)) < 2:
            return
        order = sorted(range(len(self.jobs)), key=lambda number: (files[self.file[number]], number))
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, array(column.typecode, (column[number] for number in order)))
        self.jobs = [self.jobs[number] for number in order]
        self.tokens = {new: self.tokens[old] for new, old in enumerate(order) if old in self.tokens}

    def _meets(self, number: int, run: UsageRun) -> bool:
        """Whether a run overlaps or touches what is known of it."""
        start_us, end_us = self.start_us[number], self.end_us[number]
        if start_us == NONE_US or run.start_us is None:
            return True
        return (run.end_us is None or start_us <= run.end_us) and (end_us == NONE_US or run.start_us <= end_us)

    def _again(self, number: int, run: UsageRun, observed: bool) -> None:
        self.redelivered += 1
        start_us, end_us = self.start_us[number], self.end_us[number]
        if run.start_us is not None:
            later = start_us == NONE_US or not observed
            self.start_us[number] = run.start_us if later else min(start_us, run.start_us)
        if run.end_us is not None and (end_us == NONE_US or not observed or run.end_us > end_us):
            self.end_us[number] = run.end_us
            self.suspended_us[number] = run.suspended_us
            who = self.whos[self.who[number]]
            self.who[number] = self._who_number(who._replace(state=run.state, waits_for=run.waits_for))
            shape = self.shapes[self.shape[number]]
            if not observed and run.nodes and not shape.nodes:
                self.shape[number] = self._shape_number(shape._replace(nodes=run.nodes))
        if run.tokens is not None:
            self.tokens.setdefault(number, run.tokens)

    def _who_number(self, who: Who) -> int:
        number = self._who_numbers.get(who)
        if number is None:
            number = self._who_numbers[who] = len(self.whos)
            self.whos.append(who)
        return number

    def _shape_number(self, shape: Shape) -> int:
        number = self._shape_numbers.get(shape)
        if number is None:
            number = self._shape_numbers[shape] = len(self.shapes)
            self.shapes.append(shape)
        return number

    def seal(self) -> None:
        """Forget what only reading needs."""
        self._numbers.clear()

    def held_numbers(self, start_us: int, end_us: int) -> Iterator[int]:
        """Runs that held something inside `[start_us, end_us)`."""
        starts, ends = self.start_us, self.end_us
        for number in range(len(self.jobs)):
            if starts[number] != NONE_US and starts[number] < end_us and not NONE_US < ends[number] <= start_us:
                yield number

    def held_until_us(self, number: int, open_until_us: int) -> int:
        """End of what it held: suspended time is taken off at the end (when it was is not known)."""
        end_us = self.end_us[number]
        until_us = open_until_us if end_us == NONE_US else end_us
        return max(until_us - self.suspended_us[number], self.start_us[number])

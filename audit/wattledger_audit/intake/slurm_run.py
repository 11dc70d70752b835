"""What becomes of one SLURM record: its hold in time, and one UsageRun per GPU type and per waiting array task."""

from typing import NamedTuple

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.slurm_gpus import GpuHold
from wattledger_audit.intake.slurm_job_id import waiting_tasks
from wattledger_audit.intake.slurm_state import OPEN, WAITING
from wattledger_audit.intake.slurm_time import Twice, settle

ELAPSED_DISAGREES = "elapsed_disagrees"
SUSPENDED_FROM_ELAPSED = "suspended_from_elapsed"
SUSPENDED_TOO_LONG = "suspended_too_long"
END_FROM_ELAPSED = "end_from_elapsed"
END_MISSING = "end_missing"
END_WHILE_RUNNING = "end_while_running"
ARRAY_TASKS_CUT = "array_tasks_cut"
NOTHING: tuple[str, ...] = ()


class RowRejected(ValueError):
    """A row that can't be used: where, which value, and `code: words`."""

    def __init__(self, column: str, value: str, reason: str) -> None:
        super().__init__(reason)
        self.column, self.value, self.reason = column, value, reason


class Hold(NamedTuple):
    """When a run held its nodes: `suspended_us` lies inside `[start_us, end_us)` and is not held."""

    start_us: int | None
    end_us: int | None
    suspended_us: int
    marks: tuple[str, ...]


def hold_of(
    state: str,
    start: int | Twice | None,
    end: int | Twice | None,
    elapsed_us: int | None,
    suspended_us: int | None,
    not_before_us: int | None,
    never_placed: bool,
) -> Hold:
    """The hold that the columns of one record say.

    Elapsed leaves suspended time out, end minus start does not. A pending record and one that was cancelled before it
    got nodes (`never_placed`) has no start. `suspended_us` None: the export has no such column; then what elapsed
    lacks of an end that is known was suspended. Raises BadStamp and RowRejected."""
    if state in WAITING:
        return Hold(None, None, 0, NOTHING)
    is_said, suspended_us = suspended_us is not None, suspended_us or 0
    if isinstance(start, Twice) or isinstance(end, Twice):
        held_us = None if elapsed_us is None else elapsed_us + suspended_us
        start, end = settle(start, end, held_us, not_before_us)
    if start is None or (never_placed and not elapsed_us):
        if elapsed_us:
            raise RowRejected("Start", "", "start_missing: the run has elapsed time but no start; export Start too")
        return Hold(None, end, 0, NOTHING)
    if end is None:
        return _without_end(state, start, elapsed_us, suspended_us)
    if end < start:
        raise RowRejected("End", str(end // US_PER_S), "end_before_start: the run ends before it starts; look it up")
    marks = NOTHING
    if elapsed_us is not None and not -US_PER_S <= end - start - suspended_us - elapsed_us <= US_PER_S:
        if not is_said and 0 < elapsed_us < end - start:
            return Hold(start, end, end - start - elapsed_us, (SUSPENDED_FROM_ELAPSED,))
        marks = (ELAPSED_DISAGREES,)
    if suspended_us > end - start:
        suspended_us, marks = end - start, (*marks, SUSPENDED_TOO_LONG)
    if state in OPEN and state != "RESIZING":
        marks = (*marks, END_WHILE_RUNNING)
    return Hold(start, end, suspended_us, marks)


def _without_end(state: str, start_us: int, elapsed_us: int | None, suspended_us: int) -> Hold:
    if state in OPEN:
        return Hold(start_us, None, suspended_us, NOTHING)
    if elapsed_us is None:
        return Hold(start_us, None, suspended_us, (END_MISSING,))
    return Hold(start_us, start_us + elapsed_us + suspended_us, suspended_us, (END_FROM_ELAPSED,))


def run_key(hold: Hold, job: str, submit_us: int | None, sluid: str) -> str:
    """Tells a run from the others of its job, alike whatever columns an export has: by when it got its nodes.

    One that never did, or for no time, holds nothing that could count twice: it goes by SLUID, or by raw id and
    submission."""
    start_us, end_us = hold.start_us, hold.end_us
    if start_us is not None and (end_us is None or end_us > start_us):
        return f"from {start_us // US_PER_S}"
    submit = "" if submit_us is None else submit_us // US_PER_S
    return sluid or f"{job}|{submit}|{'' if start_us is None else start_us // US_PER_S}"


def spread(run: UsageRun, holds: tuple[GpuHold, ...]) -> tuple[UsageRun, ...]:
    """The run as it is, or one per GPU type of the job, or one per task of a pending array record.

    `run` carries `holds[0]` already. CPUs and memory stay with the first of several types, so that sums hold."""
    if "[" in run.job:
        waiting = waiting_tasks(run.job)
        marks = (*run.marks, ARRAY_TASKS_CUT) if waiting.cut else run.marks
        tasks = [run._replace(job=task, run_key=f"{run.run_key}|{task}", marks=marks) for task in waiting.tasks]
        return tuple(part for task in tasks for part in _by_type(task, holds))
    return _by_type(run, holds)


def _by_type(run: UsageRun, holds: tuple[GpuHold, ...]) -> tuple[UsageRun, ...]:
    if len(holds) == 1:
        return (run,)
    first = run._replace(run_key=f"{run.run_key}|{holds[0].label}")
    rest = (
        run._replace(
            run_key=f"{run.run_key}|{hold.label}",
            gpu_model=hold.gpu_model,
            gpus=hold.gpus,
            share_num=hold.share_num,
            share_den=hold.share_den,
            cpus=None if run.cpus is None else 0,
            memory_bytes=None if run.memory_bytes is None else 0,
        )
        for hold in holds[1:]
    )
    return (first, *rest)


def held_us(run: UsageRun) -> int | None:
    """The time the run held its nodes: end minus start minus suspended; None while it runs, 0 if it never started."""
    if run.start_us is None:
        return 0
    return None if run.end_us is None else run.end_us - run.start_us - run.suspended_us


def cpu_us(run: UsageRun) -> int | None:
    """CPUs times held time in µs; None where either is unknown."""
    held = held_us(run)
    return None if held is None or run.cpus is None else held * run.cpus

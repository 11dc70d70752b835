"""One record of a sacct dump to usage runs: which column says what, and what settles it when two disagree."""

from typing import NoReturn

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.sacct_columns import SacctCells, SacctPicker
from wattledger_audit.intake.sacct_records import SacctRecord
from wattledger_audit.intake.sacct_texts import SacctTexts
from wattledger_audit.intake.slurm_job_id import is_step
from wattledger_audit.intake.slurm_run import Hold, RowRejected, hold_of, run_key, spread
from wattledger_audit.intake.slurm_state import is_exclusive, waits_for
from wattledger_audit.intake.slurm_time import BadStamp, StampClock, Twice, ZoneNeeded, limit_us

UNPLACED = frozenset({"None assigned", "None", "(null)"})
SUBMIT_AMBIGUOUS = "submit_ambiguous"


class SacctRows:
    """Turns records into runs. `tracked` holds the clusters whose rows name GPUs in their TRES."""

    def __init__(self, source_name: str, options: ReadOptions, tracked: frozenset[str]) -> None:
        self._name = source_name
        self._clock = StampClock(options.timezone)
        self._cluster = options.cluster or ""
        self._texts = SacctTexts(tracked)

    def runs(self, record: SacctRecord, picker: SacctPicker) -> tuple[UsageRun, ...]:
        """The record's runs; RowRejected when it can't be used, InputRefused where local stamps have no zone."""
        record.cells.append("")
        cells = SacctCells._make(picker.pick(record.cells))
        job = cells.jobid or cells.jobidraw
        if ("." in job and is_step(job)) or "." in cells.jobidraw:
            raise RowRejected("JobID", job, "step_of_job: a step; its job's own row has the time")
        texts = self._texts
        state, marks = texts.state(cells.state)
        submit_us, eligible_us, hold = self._times(record.line, cells, state, picker.has_suspended)
        if hold.marks:
            marks = (*marks, *hold.marks)
        started = hold.start_us is not None
        cluster = cells.cluster or self._cluster
        taken = texts.taken(cells, started, cluster)
        nodes, node_marks = texts.nodes(cells.nodelist)
        gpu = taken.holds[0]
        if node_marks or gpu.marks:
            marks = (*marks, *node_marks, *gpu.marks)
        run = UsageRun(  # by position: thirty keywords would be a sixth of the whole row's time
            record.line,
            cluster,
            job,
            run_key(hold, cells.jobidraw or job, submit_us, cells.sluid),
            int(cells.restarts) if cells.restarts.isdecimal() else 0,  # attempt
            cells.account,  # tenant
            cells.wckey,  # project
            cells.user,
            "",  # model_tag
            texts.plan(cells.qos),  # plan
            cells.partition,
            "",  # sku
            nodes if started else (),  # nodes
            "",  # device
            gpu.gpu_model,
            gpu.gpus,
            gpu.share_num,
            gpu.share_den,
            submit_us,
            eligible_us,
            hold.start_us,
            hold.end_us,
            hold.suspended_us,
            state,
            None,  # tokens
            picker.has_exclusive and is_exclusive(cells.exclusive, cells.oversubscribe),  # exclusive
            taken.cpus,
            taken.memory_bytes,
            _limit(cells) if picker.has_limit else None,  # limit_us
            "" if started else waits_for(cells.reason),  # waits_for
            marks,
        )
        return (run,) if len(taken.holds) == 1 and "[" not in job else spread(run, taken.holds)

    def _times(
        self, line: int, cells: SacctCells, state: str, has_suspended: bool
    ) -> tuple[int | None, int | None, Hold]:  # fmt: skip
        """Submit, Eligible and the hold. The first two move no money: one that came twice is unknown and marked."""
        read = self._clock.read
        try:
            submit, start, end = read(cells.submit), read(cells.start), read(cells.end)
            eligible = submit if cells.eligible == cells.submit else read(cells.eligible)
        except (BadStamp, ZoneNeeded):
            self._refuse_stamp(line, cells)
        ambiguous = isinstance(submit, Twice) or isinstance(eligible, Twice)
        submit_us = None if isinstance(submit, Twice) else submit
        eligible_us = None if isinstance(eligible, Twice) else eligible
        raw = cells.elapsedraw
        elapsed_us = int(raw) * US_PER_S if raw.isdecimal() else self._texts.duration("Elapsed", cells.elapsed)
        suspended_us = (self._texts.duration("Suspended", cells.suspended) or 0) if has_suspended else None
        not_before_us = submit_us if eligible_us is None else eligible_us
        never_placed = cells.nodelist in UNPLACED
        try:
            hold = hold_of(state, start, end, elapsed_us, suspended_us, not_before_us, never_placed)
        except BadStamp as error:
            column = "Start" if isinstance(start, Twice) else "End"
            raise RowRejected(column, cells.start if column == "Start" else cells.end, str(error)) from error
        except RowRejected as error:
            raise RowRejected(error.column, cells.end if error.column == "End" else cells.start, error.reason) from None
        return submit_us, eligible_us, hold._replace(marks=(*hold.marks, SUBMIT_AMBIGUOUS)) if ambiguous else hold

    def _refuse_stamp(self, line: int, cells: SacctCells) -> NoReturn:
        """Finds the stamp that can't be read and says so."""
        stamps = {"Submit": cells.submit, "Eligible": cells.eligible, "Start": cells.start, "End": cells.end}
        for column, text in stamps.items():
            try:
                self._clock.read(text)
            except BadStamp as error:
                raise RowRejected(column, text, str(error)) from error
            except ZoneNeeded as error:
                raise InputRefused(
                    f"{self._name}, line {line}: {column} {text!r} is local time without an offset: say --timezone "
                    "with the zone of the host that ran sacct (such as Europe/Berlin or UTC)"
                ) from error
        raise AssertionError("a stamp that could not be read can be read now")


def _limit(cells: SacctCells) -> int | None:
    """The time limit; one that is no duration is unknown."""
    try:
        return limit_us(cells.timelimitraw, cells.timelimit)
    except ValueError:
        return None

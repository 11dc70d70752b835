"""`sacct --json`, slurmrestd and `squeue --json` documents as usage runs, through all the shapes of their releases.

Where a document lists jobs, the line of a run is the job's place in its list, from 1.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.json_documents import Document, documents
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import USAGE, Record
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.slurm_json_job import cluster_of, is_job, job_runs, names_gpus
from wattledger_audit.intake.slurm_json_values import Json, struct, text
from wattledger_audit.intake.slurm_run import RowRejected
from wattledger_audit.intake.source import TEXT, Source

_JOB_ID = re.compile(r'"job_id"\s*:')
_STATE = re.compile(r'"(?:state|job_state)"\s*:')
_TIMES = re.compile(r'"(?:submission|elapsed|submit_time|start_time|eligible_time)"\s*:')
_NO_JOBS = re.compile(r'"jobs"\s*:\s*\[\s*\]')
_SLURM = re.compile(r'"(?:[Ss]lurm|data_parser|plugin)"\s*:')


class _Place(NamedTuple):
    """A job object and where it stands: its line or place, and the column that rejections name."""

    line: int
    column: str
    value: object


def detect(source: Source) -> Detection | None:
    """Job objects with SLURM's keys, in a `jobs` list, a bare list, or one a line."""
    head = source.head.lstrip("\ufeff \r\n\t")
    if source.kind != TEXT or head[:1] not in ("{", "["):
        return None
    if _JOB_ID.search(head) and _STATE.search(head) and _TIMES.search(head):
        return Detection(95, "JSON with SLURM's job objects (job_id, state, times), as sacct --json writes")
    if '"jobs"' in head and _SLURM.search(head) and (_NO_JOBS.search(head) or len(source.head) > 30_000):
        return Detection(70, "a SLURM JSON document with a list of jobs")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Every job object as a run (or one per GPU type, or per waiting array task), in file order."""
    found = documents(source)
    first = next(found, None)
    if first is None:
        raise InputRefused(f"{source.name}: no JSON document in it; export again")
    cluster = options.cluster or ""
    if is_job(first.value):  # one job a line: not kept, so read twice
        tracked = _tracked((place for document in documents(source) for place in _places(document)), cluster)
        again: Iterable[Document] = documents(source)
    else:
        again = [first, *found]
        _refuse_errors(source.name, again)
        tracked = _tracked((place for document in again for place in _places(document)), cluster)
    seen: set[int] = set()
    for document in again:
        for place in _places(document):
            yield from _runs(source.name, place, cluster, tracked, seen, rejections)


def _runs(
    name: str, place: _Place, cluster: str, tracked: frozenset[str], seen: set[int], rejections: Rejections
) -> Iterator[Record]:
    job = struct(place.value)
    if "job_id" not in job:
        rejections.add(name, place.line, place.column, str(place.value), "not_a_job: no object with a job_id")
        return
    for step in _steps(job):
        rejections.add(name, place.line, "steps", step, "step_of_job: a step; its job has the time")
    mark = hash(repr(job))
    if mark in seen:
        reason = "duplicate_row: the same job object stands earlier in the file; it counts once"
        rejections.add(name, place.line, place.column, text(job.get("job_id")), reason)
        return
    try:
        runs = job_runs(job, place.line, cluster, tracked)
    except RowRejected as error:
        value = f"{text(job.get('job_id'))}: {error.value}" if error.value else text(job.get("job_id"))
        rejections.add(name, place.line, error.column, value, error.reason)
        return
    seen.add(mark)
    yield from runs


def _steps(job: Json) -> Iterator[str]:
    steps = job.get("steps")
    for step in steps if isinstance(steps, list) else []:
        named = struct(step).get("step")
        inner = struct(named).get("id") if isinstance(named, dict) else named
        if isinstance(inner, dict):
            inner = f"{text(inner.get('job_id'))}.{text(inner.get('step_id'))}"
        yield text(inner) or text(job.get("job_id"))


def _places(document: Document) -> Iterator[_Place]:
    """The job objects of a document, and what stands where one should."""
    value = document.value
    jobs = value if isinstance(value, list) else struct(value).get("jobs")
    if isinstance(jobs, dict):  # one job by id, as some wrappers write
        jobs = [jobs] if "job_id" in jobs else list(jobs.values())
    if isinstance(jobs, list):
        for index, job in enumerate(jobs):
            yield _Place(index + 1, f"jobs[{index}]", job)
    else:
        yield _Place(document.line, "", value)


def _tracked(places: Iterable[_Place], cluster: str) -> frozenset[str]:
    """The clusters of which some job names GPUs: there, a job that names none has none."""
    jobs = (struct(place.value) for place in places)
    return frozenset(cluster_of(job, cluster) for job in jobs if names_gpus(job))


def _refuse_errors(name: str, found: Iterable[Document]) -> None:
    """A document that holds SLURM's errors and no job says that the export failed."""
    for document in found:
        value = struct(document.value)
        errors = value.get("errors")
        if not value.get("jobs") and isinstance(errors, list) and errors:
            said = text(struct(errors[0]).get("description")) or text(struct(errors[0]).get("error")) or str(errors[0])
            raise InputRefused(
                f"{name}: SLURM answered with an error and no jobs, {said!r}: correct it and export again"
            )


IMPORTERS: tuple[Importer, ...] = (Importer("sacct-json", USAGE, detect, read),)

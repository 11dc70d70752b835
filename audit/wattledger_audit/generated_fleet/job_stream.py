"""The job events of the demo's day, each with when it arrives. Owns what is late and what never comes."""

from collections.abc import Iterator

from wattledger_core.event import JobEvent
from wattledger_core.ids import digest
from wattledger_core.units import US_PER_S

from wattledger_audit.generated_fleet.day import CLUSTER, MINUTE_US, at
from wattledger_audit.generated_fleet.emission import Emission
from wattledger_audit.generated_fleet.job_row import Job, claims_of
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import BY_NODE

REPORT_DELAY_US = US_PER_S
"""How long a watcher takes to report what it saw."""
SOURCE = "slurm-watcher"
_MODEL_TAGS = {"train": "llm-70b", "infer": "chat-8b", "notebook": "explore"}


def job_emissions() -> Iterator[Emission]:
    """Job events in order of arrival."""
    found = [emission for job in JOBS for emission in _life(job)]
    return iter(sorted(found, key=lambda emission: emission.at_us))


def _life(job: Job) -> Iterator[Emission]:
    yield _arriving(_start(job, at(job.start), 0))
    attempt, end_us = 0, at(job.end)
    if job.kind == "requeue":
        stop_us, again_us = map(at, job.details)
        attempt = 1
        yield _arriving(_event(job, "requeue", stop_us, 0, outcome="PREEMPTED"))
        yield _arriving(_start(job, again_us, 1))
    elif job.kind == "suspend":
        yield _arriving(_event(job, "suspend", at(job.details[0]), 0))
        yield _arriving(_event(job, "resume", at(job.details[1]), 0))
    elif job.kind == "resize":
        yield _arriving(_event(job, "resize", at(job.details[0]), 0, devices=job.details[1]))
    elif job.kind == "zombie":
        yield _arriving(_event(job, "stop_requested", end_us, 0))
        yield _arriving(_event(job, "released", job.released_us, 0, outcome="CANCELLED"))
    if job.kind not in ("zombie", "never_ends"):
        late_us = int(job.details[0]) * MINUTE_US if job.kind == "late_stop" else 0
        yield _arriving(_event(job, "end", end_us, attempt, outcome="COMPLETED"), late_us)


def _arriving(event: JobEvent, late_us: int = 0) -> Emission:
    return Emission(event.at_us + (late_us or REPORT_DELAY_US), event)


def _start(job: Job, at_us: int, attempt: int) -> JobEvent:
    claims = claims_of(job.node, job.devices)
    cards = {card.device: card for card in BY_NODE[job.node].cards}
    return JobEvent(
        _id(job, "start", at_us, attempt), "start", at_us, CLUSTER, job.job, attempt, claims, job.tenant,
        f"{job.tenant}-{job.load}", f"{job.tenant}-user", _MODEL_TAGS.get(job.load, "embed-1b"), job.plan,
        cards[claims[0].device].sku, claims[0].delivered_profile, job.kind == "exclusive", source=SOURCE,
    )  # fmt: skip


def _event(job: Job, kind: str, at_us: int, attempt: int, outcome: str = "", devices: str = "") -> JobEvent:
    claims = claims_of(job.node, devices) if devices else ()
    return JobEvent(
        _id(job, kind, at_us, attempt), kind, at_us, CLUSTER, job.job, attempt, claims, outcome=outcome, source=SOURCE
    )


def _id(job: Job, kind: str, at_us: int, attempt: int) -> str:
    return digest("demo-job-event", job.job, attempt, kind, at_us)

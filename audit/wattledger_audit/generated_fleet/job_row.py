"""A row of the job table, and what it says: claims, and when each device was really used. Owns the row's notation.

Special: `exclusive` · `requeue STOP START` · `suspend FROM TO` · `resize AT DEVICES` · `late_stop MINUTES` (the end's
event comes that much later) · `zombie MINUTES` (stop requested at the end, released that much later) · `never_ends`
(the node fails at the end; no event) · `overlap` (another job claims the same card).
"""

from dataclasses import dataclass
from typing import NamedTuple

from wattledger_core.event import Claim

from wattledger_audit.generated_fleet.day import MINUTE_US, at
from wattledger_audit.generated_fleet.machines import BY_NODE, MIG_SLICES, Machine


@dataclass(frozen=True, slots=True)
class Job:
    """One job. `start` and `end` are clock times of the day; `end` is when the tenant's hold ends."""

    job: str
    tenant: str
    plan: str
    node: str
    devices: str
    start: str
    end: str
    load: str
    special: str = ""

    @property
    def kind(self) -> str:
        """Which special it is; empty for a plain job."""
        return self.special.partition(" ")[0]

    @property
    def details(self) -> list[str]:
        """What the special says after its kind."""
        return self.special.split()[1:]

    @property
    def released_us(self) -> int:
        """When its devices were really free."""
        return at(self.end) + (int(self.details[0]) * MINUTE_US if self.kind == "zombie" else 0)


class Span(NamedTuple):
    """One unbroken use of one claim: held by the tenant until `end_us`, and by nobody else until `released_us`."""

    job: Job
    attempt: int
    claim: Claim
    start_us: int
    end_us: int
    released_us: int


def claims_of(node: str, devices: str) -> tuple[Claim, ...]:
    """Claims of a devices cell, each with its part of the machine's CPUs and memory."""
    return tuple(claim for part in devices.split(",") for claim in _claims(BY_NODE[node], part))


def _claims(machine: Machine, part: str) -> list[Claim]:
    if ":" in part:
        index, _, instance = part.partition(":")
        slices = MIG_SLICES[instance]
        profile = instance.partition("-")[0]
        return [_claim(machine, int(index), instance, slices, 7, profile)]
    if "/" in part:
        index, _, replicas = part.partition("/")
        return [_claim(machine, int(index), "", 1, int(replicas), "shared")]
    first, _, last = part.partition("-")
    return [_claim(machine, index, "", 1, 1, "full") for index in range(int(first), int(last or first) + 1)]


def _claim(machine: Machine, index: int, instance: str, num: int, den: int, profile: str) -> Claim:
    cpus, memory_bytes = machine.cpus_per_gpu * num // den, machine.memory_per_gpu * num // den
    return Claim(machine.node, machine.cards[index].device, instance, num, den, profile, cpus, memory_bytes)


def spans_of(job: Job) -> list[Span]:
    """Every unbroken use of the job's claims, in order of start."""
    claims, start_us, end_us = claims_of(job.node, job.devices), at(job.start), at(job.end)
    if job.kind in ("requeue", "suspend"):
        stop_us, again_us = map(at, job.details)
        again = int(job.kind == "requeue")
        first = [Span(job, 0, claim, start_us, stop_us, stop_us) for claim in claims]
        return first + [Span(job, again, claim, again_us, end_us, end_us) for claim in claims]
    if job.kind == "resize":
        resized_us, later = at(job.details[0]), claims_of(job.node, job.details[1])
        kept = [Span(job, 0, claim, start_us, end_us if claim in later else resized_us, end_us) for claim in claims]
        return kept + [Span(job, 0, claim, resized_us, end_us, end_us) for claim in later if claim not in claims]
    return [Span(job, 0, claim, start_us, end_us, job.released_us) for claim in claims]

"""What the job table of the demo's day says by arithmetic alone: who held how much. No meter is asked."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from wattledger_core.interval import overlap

from wattledger_audit.fleet_special_case import SpecialCase, special_cases
from wattledger_audit.generated_fleet.job_row import Span, spans_of
from wattledger_audit.generated_fleet.job_table import JOBS


@dataclass(frozen=True, slots=True)
class FleetTruth:
    """Held device-time in µs, by job and by tenant, as exact fractions: a MIG instance holds sevenths.

    A meter in whole µs may be off by less than 1 µs for each quarter-hour that a MIG instance is held, and must
    agree exactly elsewhere.
    """

    held_us_by_job: dict[str, Fraction]
    held_us_by_tenant: dict[str, Fraction]
    special_cases: tuple[SpecialCase, ...]


def fleet_truth() -> FleetTruth:
    """The day's truth, once every event has arrived.

    Held = Σ share × (end − start) until the tenant's end: the stop request of a zombie, the failure of the node
    where no end comes. Two claims of one whole card have half each while both last.
    """
    by_job = _held_by_job([span for job in JOBS for span in spans_of(job)])
    by_tenant: dict[str, Fraction] = {}
    for job in JOBS:
        by_tenant[job.tenant] = by_tenant.get(job.tenant, Fraction(0)) + by_job[job.job]
    return FleetTruth(by_job, by_tenant, special_cases())


def _held_by_job(spans: list[Span]) -> dict[str, Fraction]:
    held: dict[str, Fraction] = {}
    for span in spans:
        share = Fraction(span.claim.share_num, span.claim.share_den)
        held[span.job.job] = held.get(span.job.job, Fraction(0)) + share * (span.end_us - span.start_us)
    whole = [span for span in spans if span.claim.share_num == span.claim.share_den]
    for one, other in combinations(whole, 2):
        both = overlap(one.start_us, one.end_us, other.start_us, other.end_us)
        if both is not None and one.claim.device == other.claim.device:
            for span in (one, other):
                held[span.job.job] -= Fraction(both[1] - both[0], 2)
    return held

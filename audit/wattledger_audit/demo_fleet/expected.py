"""What the job table says each tenant held, by arithmetic that a reader can follow; no meter is asked."""

from fractions import Fraction
from itertools import combinations

from wattledger_core.interval import overlap

from wattledger_audit.demo_fleet.job_row import Span, spans_of
from wattledger_audit.demo_fleet.job_table import JOBS


def expected_held_us() -> dict[str, int]:
    """Held device-µs by tenant: Σ share × (end − start), where two claims of one whole card have half each.

    Exact but for MIG's sevenths, which the meter rounds once a quarter-hour: within 1 µs for each quarter-hour that
    an instance is held.
    """
    spans = [span for job in JOBS for span in spans_of(job)]
    held: dict[str, Fraction] = {}
    for span in spans:
        _add(held, span, span.end_us - span.start_us)
    whole = [span for span in spans if span.claim.share_num == span.claim.share_den]
    for one, other in combinations(whole, 2):
        both = overlap(one.start_us, one.end_us, other.start_us, other.end_us)
        if both is not None and one.claim.device == other.claim.device:
            for span in (one, other):
                _add(held, span, Fraction(both[0] - both[1], 2))
    return {tenant: int(amount) for tenant, amount in sorted(held.items())}


def _add(held: dict[str, Fraction], span: Span, amount: int | Fraction) -> None:
    part = Fraction(span.claim.share_num, span.claim.share_den) * amount
    held[span.job.tenant] = held.get(span.job.tenant, Fraction(0)) + part

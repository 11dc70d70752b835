"""Signs of sacct output that can't be read as it is: fixed width, errors, no header and no proof of the columns."""

from collections.abc import Sequence
from itertools import pairwise

from wattledger_audit.intake.sacct_fields import FIELDS
from wattledger_audit.intake.slurm_job_id import is_job_id
from wattledger_audit.intake.slurm_state import state_word


def sacct_failure(lines: Sequence[str]) -> str:
    """The first error that sacct wrote among the lines, empty for none."""
    return next((line.strip() for line in lines if line.startswith(("sacct: fatal", "sacct: error"))), "")


def is_fixed_width(lines: Sequence[str]) -> bool:
    """A line of sacct's names between blanks with a line of dashes below."""
    for line, below in pairwise(lines[:20]):
        names = line.split()
        if len(names) >= 2 and set(below.strip()) == {"-", " "} and any(name.lower() in FIELDS for name in names):
            return True
    return False


def looks_headerless(records: Sequence[str]) -> bool:
    """Rows split at | that mostly hold a job id and a state word each, in the same places."""
    rows = [line.split("|") for line in records[:50]]
    rows = [row for row in rows if len(row) >= 3]
    if not rows or len(rows) * 2 < min(len(records), 50):
        return False
    width = len(rows[0])
    alike = [row for row in rows if len(row) == width]
    ids = any(all(is_job_id(row[at]) for row in alike) for at in range(width))
    states = any(all(state_word(row[at]) is not None and not row[at].isdigit() for row in alike) for at in range(width))
    return ids and states

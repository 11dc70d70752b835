"""What the texts of sacct's cells mean, each distinct one read once: a million rows repeat a few thousand of them."""

from typing import NamedTuple

from wattledger_audit.intake.sacct_columns import SacctCells
from wattledger_audit.intake.slurm_gpus import GpuHold, hold_gpus
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.slurm_run import RowRejected
from wattledger_audit.intake.slurm_state import plan_of_qos, state_word
from wattledger_audit.intake.slurm_time import duration_us
from wattledger_audit.intake.slurm_tres import NO_TRES, parse_gres, parse_tres

MOST_TEXTS = 100_000
"""Distinct texts remembered of a kind."""
NODES_UNREADABLE = "nodes_unreadable"
UNKNOWN_STATE = "unknown_state"
_NO_DURATION = frozenset({"", "0", "Unknown", "None", "INVALID", "N/A"})
Marks = tuple[str, ...]


class Taken(NamedTuple):
    """What a job took in all: GPUs by type, CPUs, bytes of memory. None: unknown."""

    holds: tuple[GpuHold, ...]
    cpus: int | None
    memory_bytes: int | None


class SacctTexts:
    """Remembers what texts mean. `tracked` holds the clusters whose rows name GPUs in their TRES."""

    def __init__(self, tracked: frozenset[str]) -> None:
        self._tracked = tracked
        self._states: dict[str, tuple[str, Marks]] = {}
        self._plans: dict[str, str] = {}
        self._nodes: dict[str, tuple[tuple[str, ...], Marks]] = {}
        self._durations: dict[str, int | None] = {}
        self._taken: dict[tuple[object, ...], Taken] = {}

    def state(self, text: str) -> tuple[str, Marks]:
        """The state's word; what is none stays as it is, marked."""
        known = self._states.get(text)
        if known is None:
            word = state_word(text)
            known = (word, ()) if word else (text.strip().upper(), (UNKNOWN_STATE,) if text.strip() else ())
            self._states[text] = known
        return known

    def plan(self, qos: str) -> str:
        """The plan that a QOS names, or nothing."""
        known = self._plans.get(qos)
        if known is None:
            known = self._plans[qos] = plan_of_qos(qos)
        return known

    def nodes(self, text: str) -> tuple[tuple[str, ...], Marks]:
        """The nodes of a host list; none, marked, for one that can't be read."""
        known = self._nodes.get(text)
        if known is None:
            try:
                known = (expand_hostlist(text), ())
            except BadHostlist:
                known = ((), (NODES_UNREADABLE,))
            if len(self._nodes) >= MOST_TEXTS:
                self._nodes.clear()
            self._nodes[text] = known
        return known

    def duration(self, column: str, text: str) -> int | None:
        """µs, None for what SLURM does not know; RowRejected for what is no duration."""
        if text in self._durations:
            return self._durations[text]
        try:
            span_us = None if text in _NO_DURATION else duration_us(text)
        except ValueError as error:
            raise RowRejected(column, text, "unreadable_duration: not [D-]HH:MM:SS; export ElapsedRaw too") from error
        if len(self._durations) < MOST_TEXTS:
            self._durations[text] = span_us
        return span_us

    def taken(self, cells: SacctCells, started: bool, cluster: str) -> Taken:
        """What the row's resource columns name; AllocTRES first, then the others by nearness to what was held."""
        allocated, requested = _without_energy(cells.alloctres), _without_energy(cells.reqtres)
        key = (
            allocated, requested, cells.allocgres, cells.gresused, cells.reqgres, cells.alloccpus,
            cells.ncpus, started, cluster,
        )  # fmt: skip
        known = self._taken.get(key)
        if known is not None:
            return known
        got = parse_tres(allocated)
        asked = parse_tres(requested)
        others = [parse_gres(text) if text else NO_TRES for text in (cells.allocgres, cells.gresused, cells.reqgres)]
        holds = hold_gpus(got, (others[0], others[1], asked, others[2]), started, cluster in self._tracked)
        source = got if started or got.cpus is not None else asked
        cpus = source.cpus if source.cpus is not None else _whole(cells.alloccpus or cells.ncpus)
        known = Taken(holds, cpus, source.memory_bytes)
        if len(self._taken) >= MOST_TEXTS:
            self._taken.clear()
        self._taken[key] = known
        return known


def _without_energy(tres: str) -> str:
    """The TRES without their joules, which are other ones on every row and are not read here."""
    start = tres.find("energy=")
    if start < 0:
        return tres
    end = tres.find(",", start)
    return tres[:start] + tres[end + 1 :] if end >= 0 else tres[:start].rstrip(",")


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None

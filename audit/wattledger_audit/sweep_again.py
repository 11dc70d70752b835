"""The held time and energy of an assessment by other windows or holders: the same sweep, looked at more closely."""

from collections.abc import Sequence
from typing import NamedTuple

from wattledger_core.span_lines import Holder, SpanLedger

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.energy_lines import MeasuredEnergy
from wattledger_audit.assessment.holding import Swept, hold
from wattledger_audit.assessment.measuring import measure, measured_nodes
from wattledger_audit.assessment.run_book import RunBook
from wattledger_audit.assessment.terms import Terms


class Closer(NamedTuple):
    """What the sweep found, by the windows and holders asked for."""

    swept: Swept
    measured: MeasuredEnergy


class TermsByRun(Terms):
    """The terms of an assessment with some runs told apart: their lines carry the job, all others stay summed."""

    def __init__(self, terms: Terms, runs: Sequence[int]) -> None:
        super().__init__(terms.tenants.values(), terms.names, terms.models, terms.skus)
        self._apart = frozenset(runs)

    def holder(self, runs: RunBook, number: int, gpu_model: str) -> Holder:
        """Who a run is charged to, its job named where it is one of those told apart."""
        found = super().holder(runs, number, gpu_model)
        return found._replace(job=runs.jobs[number]) if number in self._apart else found


def sweep_again(assessment: Assessment, edges: Sequence[int], terms: Terms) -> Closer:
    """Sweep every node once more, into windows between `edges` (ascending, from the period's start to its end)."""
    gathered, fleet = assessment.gathered, assessment.fleet
    keep = measured_nodes(gathered.traces, fleet)
    swept = hold(gathered.runs, fleet, SpanLedger(edges), terms, keep)
    floors = {name: model.idle_mw for name, model in assessment.book.power.items()}
    return Closer(swept, measure(gathered.traces, fleet, swept, gathered.runs, terms, floors))

"""What cannot be as two files say it together: more billed than there was, another model than the machine has."""

from collections.abc import Iterable
from fractions import Fraction

from wattledger_core.units import US_PER_HOUR

from wattledger_audit.assessment.fleet_book import FleetBook
from wattledger_audit.assessment.names import model_family
from wattledger_audit.assessment.revenue import Revenue, gpu_sales
from wattledger_audit.assessment.run_book import RunBook

Contradicting = tuple[str, str, int, str]
"""Kind, where, count, example."""


def beyond_capacity(revenue: Iterable[Revenue], fleet: FleetBook) -> list[Contradicting]:
    """GPU models of which more hours were billed than an inventory had in service (8 GPUs in April have 5,760)."""
    if not fleet.listed:
        return []
    installed: dict[str, Fraction] = {}
    for node in fleet.nodes.values():
        family = model_family(node.gpu_model)
        installed[family] = installed.get(family, Fraction(0)) + Fraction(node.installed_us, US_PER_HOUR)
    billed: dict[str, tuple[Fraction, int]] = {}
    for line in gpu_sales(revenue):
        family = model_family(f"{line.sku} {line.line.description}")
        if line.gpu_hours is not None and family in installed:
            hours, lines = billed.get(family, (Fraction(0), 0))
            billed[family] = (hours + line.gpu_hours, lines + 1)
    return [
        ("billed_beyond_capacity", family.upper(), lines,
         f"{_hours(hours)} GPU-hours of {family.upper()} were billed, and {_hours(installed[family])} were in service")
        for family, (hours, lines) in sorted(billed.items())
        if hours > installed[family]
    ]  # fmt: skip


def _hours(hours: Fraction) -> str:
    return f"{round(hours * 100) // 100:,}"


def other_models(runs: RunBook, numbers: Iterable[int], fleet: FleetBook) -> list[Contradicting]:
    """Nodes on which runs say another GPU model than the node's; `numbers` are the runs that held anything."""
    found: dict[str, tuple[int, str]] = {}
    for number in numbers:
        who, shape = runs.whos[runs.who[number]], runs.shapes[runs.shape[number]]
        if not who.gpu_model:
            continue
        for text in shape.nodes:
            name = fleet.name_of(who.cluster, text)
            node = fleet.nodes.get(name)
            if node is not None and node.gpu_model and node.gpu_model != who.gpu_model:
                count, example = found.get(name, (0, f"job {runs.jobs[number]} says {who.gpu_model}"))
                found[name] = (count + 1, example)
    return [("model_differs", name, count, example) for name, (count, example) in sorted(found.items())]

"""The demo's fleet: one generated day of four machines, six tenants and some sixty jobs, the same every time."""

from collections.abc import Iterator
from heapq import merge

from wattledger_core.event import Tick

from wattledger_audit.generated_fleet.day import DAY_START_US, MINUTE_US, TAIL_END_US
from wattledger_audit.generated_fleet.emission import Emission
from wattledger_audit.generated_fleet.job_stream import job_emissions
from wattledger_audit.generated_fleet.machines import MACHINES
from wattledger_audit.generated_fleet.node_stream import node_emissions
from wattledger_audit.generated_fleet.price_stream import price_emissions
from wattledger_audit.generated_fleet.sample_stream import sample_emissions
from wattledger_audit.generated_fleet.specials import SPECIAL_CASES

__all__ = ["SPECIAL_CASES", "Emission", "demo_day"]


def demo_day() -> Iterator[Emission]:
    """Everything that reaches the pipeline, in order of arrival; at the very start prices, inventory, then a tick."""
    streams = [price_emissions(), node_emissions(), _ticks(), job_emissions(), *map(sample_emissions, MACHINES)]
    return merge(*streams, key=lambda emission: emission.at_us)


def _ticks() -> Iterator[Emission]:
    """A tick each minute: the trace's own time."""
    for at_us in range(DAY_START_US, TAIL_END_US + 1, MINUTE_US):
        yield Emission(at_us, Tick(at_us))

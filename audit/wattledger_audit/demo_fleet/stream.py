"""The whole day in order of arrival, lazily. The same every time: nothing here reads a clock or draws a number."""

import heapq
from collections.abc import Iterator
from operator import attrgetter

from wattledger_core.event import Tick

from wattledger_audit.demo_fleet.day import DAY_START_US, MINUTE_US, TAIL_END_US
from wattledger_audit.demo_fleet.emission import Emission
from wattledger_audit.demo_fleet.job_stream import job_emissions
from wattledger_audit.demo_fleet.machines import MACHINES
from wattledger_audit.demo_fleet.node_stream import node_emissions
from wattledger_audit.demo_fleet.price_stream import price_emissions
from wattledger_audit.demo_fleet.sample_stream import sample_emissions


def demo_day() -> Iterator[Emission]:
    """Everything that reaches the pipeline, by `at_us`; at one moment prices first, then node events, then the tick.

    A tick goes to every partition of `job-events` and to the price book.
    """
    samples = [sample_emissions(machine) for machine in MACHINES]
    streams = (price_emissions(), node_emissions(), tick_emissions(), job_emissions(), *samples)
    return heapq.merge(*streams, key=attrgetter("at_us"))


def tick_emissions() -> Iterator[Emission]:
    """A tick each minute from the day's start to an hour past its end."""
    for at_us in range(DAY_START_US, TAIL_END_US + 1, MINUTE_US):
        yield Emission(at_us, Tick(at_us))

"""What the demo's day is made of: a value of the core, and when it reaches the pipeline."""

from typing import NamedTuple

from wattledger_core.batch import Batch
from wattledger_core.event import JobEvent, NodeEvent, Tick
from wattledger_core.price import Price

DemoItem = JobEvent | NodeEvent | Tick | Batch | Price


class Emission(NamedTuple):
    """`item` arrives at `at_us` (µs since the epoch, UTC), which is not when it says that it happened."""

    at_us: int
    item: DemoItem

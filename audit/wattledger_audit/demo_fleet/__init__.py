"""The demo's fleet: one generated day of four machines and six tenants, the same every time."""

from wattledger_audit.demo_fleet.day import CLUSTER, DAY_END_US, DAY_START_US, SITE, TAIL_END_US
from wattledger_audit.demo_fleet.emission import DemoItem, Emission
from wattledger_audit.demo_fleet.expected import expected_held_us
from wattledger_audit.demo_fleet.job_table import JOBS
from wattledger_audit.demo_fleet.machines import MACHINES
from wattledger_audit.demo_fleet.special_case import SPECIAL_CASES, SpecialCase
from wattledger_audit.demo_fleet.stream import demo_day

__all__ = [
    "CLUSTER", "DAY_END_US", "DAY_START_US", "JOBS", "MACHINES", "SITE", "SPECIAL_CASES", "TAIL_END_US", "DemoItem",
    "Emission", "SpecialCase", "demo_day", "expected_held_us",
]  # fmt: skip

"""What is special about the demo's day, by name: for tests, and for people who check its figures."""

from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import MACHINES
from wattledger_audit.generated_fleet.node_stream import RESERVATION_ID, STATES
from wattledger_audit.generated_fleet.price_stream import LATE_PRICE_ARRIVES, LATE_PRICE_FROM, LATE_PRICE_ID, NOON
from wattledger_audit.generated_fleet.sample_day import IMPLAUSIBLE, RESET, SENTINELS, UNTAGGED
from wattledger_audit.generated_fleet.sample_stream import OUTAGE

SPECIAL_CASES: dict[str, str] = {
    "reservation partly unused": f"{RESERVATION_ID}: h100-01 cards 4,5 08:00-20:00, held 10:00-17:00 only",
    "drained machine": "; ".join(f"{n} {state} from {clock}" for n, clock, state, _ in STATES if n == "l40s-01"),
    **{
        {"exclusive": "exclusive job that strands GPUs", "requeue": "requeue", "suspend": "suspend and resume",
         "resize": "resize", "late_stop": "stop that comes late", "zombie": "zombie",
         "never_ends": "stop that never comes", "overlap": "two jobs claim one GPU"}[kind]:
        ", ".join(f"{job.job} ({job.special})" for job in JOBS if job.kind == kind)
        for kind in ("exclusive", "requeue", "suspend", "resize", "late_stop", "zombie", "never_ends", "overlap")
    },
    "counter reset": f"{RESET[0]} card {RESET[1]} at {RESET[2]}",
    "sentinel readings": f"{SENTINELS[0]} card {SENTINELS[1]} {SENTINELS[2]}-{SENTINELS[3]}",
    "implausible readings": f"{IMPLAUSIBLE[0]} card {IMPLAUSIBLE[1]} {IMPLAUSIBLE[2]}-{IMPLAUSIBLE[3]}",
    "agent outage bridged by the counter": f"{OUTAGE[0]} {OUTAGE[1]}-{OUTAGE[2]}",
    "machine without an agent": ", ".join(machine.node for machine in MACHINES if not machine.has_agent),
    "card without a counter": ", ".join(c.device for m in MACHINES for c in m.cards if not c.has_counter),
    "price change at noon": f"H100 on demand, 3.90 to 4.15 at {NOON}",
    "price published late": f"{LATE_PRICE_ID} from {LATE_PRICE_FROM}, published at {LATE_PRICE_ARRIVES}",
    "night tariff": "22:00-06:00 Berlin, 21:00-05:00 UTC",
    "untagged process": f"{UNTAGGED[0]} card {UNTAGGED[1]} {UNTAGGED[2]}-{UNTAGGED[3]}",
}  # fmt: skip

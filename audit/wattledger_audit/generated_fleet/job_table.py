"""The jobs of the demo's day, one row each; times are UTC. Who held what follows from this table alone.

Devices: `0-3` or `0,1` whole cards · `6:3g` a MIG instance · `0/4` one of four time-sliced replicas of a card.
Load: how busy the job keeps its device (power.py). Special: what is unusual about it (job_row.py).
"""

from wattledger_audit.generated_fleet.job_row import Job

JOBS = (
    # h100-01: eight whole cards; a reservation of 4,5 for delta-labs from 08:00 to 20:00
    Job("acme-101", "acme-ai", "on_demand", "h100-01", "0-3", "00:00", "01:00", "train"),
    Job("bor-101", "borealis", "on_demand", "h100-01", "4-6", "00:00", "00:55", "train"),
    Job("del-101", "delta-labs", "on_demand", "h100-01", "0,1", "01:00", "04:00", "train", "exclusive"),
    Job("acme-102", "acme-ai", "on_demand", "h100-01", "0-3", "04:05", "08:30", "train"),
    Job("bor-102", "borealis", "on_demand", "h100-01", "4,5", "04:00", "07:45", "train"),
    Job("cin-101", "cinder", "spot", "h100-01", "6", "04:30", "10:20", "infer"),
    Job("acme-105", "acme-ai", "on_demand", "h100-01", "7", "07:00", "09:17:23.500000", "infer"),
    Job("acme-103", "acme-ai", "on_demand", "h100-01", "2,3", "08:40", "15:10", "train", "late_stop 40"),
    Job("bor-103", "borealis", "on_demand", "h100-01", "0,1", "08:45", "13:30", "train", "requeue 10:50 11:05"),
    Job("bor-104", "borealis", "on_demand", "h100-01", "7", "09:21:10.250000", "14:45", "infer", "overlap"),
    Job("del-102", "delta-labs", "reserved", "h100-01", "4,5", "10:00", "17:00", "train"),
    Job("acme-104", "acme-ai", "on_demand", "h100-01", "6", "10:30", "12:00", "notebook", "zombie 15"),
    Job("acme-107", "acme-ai", "on_demand", "h100-01", "6", "12:30", "19:30", "infer"),
    Job("acme-106", "acme-ai", "on_demand", "h100-01", "0,1", "13:45", "15:50", "train"),
    Job("cin-102", "cinder", "spot", "h100-01", "7", "14:00", "15:30", "infer", "overlap"),
    Job("acme-108", "acme-ai", "on_demand", "h100-01", "7", "15:45", "23:10", "infer"),
    Job("bor-105", "borealis", "on_demand", "h100-01", "0-3", "16:00", "22:00", "train"),
    Job("del-103", "delta-labs", "on_demand", "h100-01", "6", "19:45", "23:30", "notebook"),
    Job("bor-106", "borealis", "on_demand", "h100-01", "4,5", "20:10", "24:00", "train"),
    Job("acme-109", "acme-ai", "on_demand", "h100-01", "0-3", "22:10", "23:50", "train"),
    # a100-01: six whole cards
    Job("cin-201", "cinder", "spot", "a100-01", "0-3", "00:00", "06:00", "train"),
    Job("ech-201", "echo", "on_demand", "a100-01", "4", "00:00", "09:00", "infer"),
    Job("res-201", "research", "internal", "a100-01", "5", "00:00", "23:45", "notebook"),
    Job("cin-202", "cinder", "spot", "a100-01", "0,1", "06:10", "14:00", "train"),
    Job("bor-201", "borealis", "on_demand", "a100-01", "2,3", "06:30", "16:30", "infer", "suspend 11:30 12:10"),
    Job("cin-203", "cinder", "spot", "a100-01", "4", "09:20", "15:20", "train"),
    Job("del-201", "delta-labs", "on_demand", "a100-01", "0,1", "14:15", "22:00", "train", "resize 17:00 0-3"),
    Job("cin-204", "cinder", "spot", "a100-01", "4", "15:30", "24:00", "train"),
    Job("acme-201", "acme-ai", "on_demand", "a100-01", "0,1", "22:10", "24:00", "train"),
    Job("cin-205", "cinder", "spot", "a100-01", "2,3", "22:15", "24:00", "train"),
    # a100-01, card 6: MIG whose instances report activity
    Job("res-211", "research", "internal", "a100-01", "6:3g", "00:00", "12:00", "infer"),
    Job("acme-211", "acme-ai", "on_demand", "a100-01", "6:2g", "01:00", "20:00", "heavy"),
    Job("ech-211", "echo", "on_demand", "a100-01", "6:1g-a", "02:00", "10:00", "steady"),
    Job("del-211", "delta-labs", "on_demand", "a100-01", "6:1g-b", "02:30", "18:00", "light"),
    Job("ech-212", "echo", "on_demand", "a100-01", "6:1g-a", "11:00", "23:00", "heavy"),
    Job("cin-211", "cinder", "spot", "a100-01", "6:3g", "12:15", "22:00", "train"),
    # a100-01, card 7: MIG without activity, so split by slices
    Job("acme-212", "acme-ai", "on_demand", "a100-01", "7:3g", "00:00", "16:00", "infer"),
    Job("bor-211", "borealis", "on_demand", "a100-01", "7:2g", "04:00", "24:00", "heavy"),
    Job("res-212", "research", "internal", "a100-01", "7:1g-a", "06:00", "18:00", "light"),
    Job("del-212", "delta-labs", "on_demand", "a100-01", "7:1g-b", "08:00", "14:20", "steady"),
    Job("cin-212", "cinder", "spot", "a100-01", "7:3g", "16:30", "23:00", "train"),
    # l40s-01: four replicas a card; drained from 01:00, in maintenance from 03:30, back at 05:00
    Job("ech-301", "echo", "on_demand", "l40s-01", "0/4", "00:00", "03:30", "heavy"),
    Job("cin-301", "cinder", "spot", "l40s-01", "1/4", "00:00", "00:58", "steady"),
    Job("acme-301", "acme-ai", "on_demand", "l40s-01", "0/4", "05:10", "23:00", "heavy"),
    Job("ech-302", "echo", "on_demand", "l40s-01", "0/4", "05:30", "20:00", "steady"),
    Job("cin-302", "cinder", "spot", "l40s-01", "0/4", "06:00", "16:00", "light"),
    Job("ech-303", "echo", "on_demand", "l40s-01", "1/4", "05:15", "22:00", "steady"),
    Job("bor-301", "borealis", "on_demand", "l40s-01", "1/4", "07:00", "21:00", "heavy"),
    Job("del-302", "delta-labs", "on_demand", "l40s-01", "1/4", "09:30", "17:45", "light"),
    Job("res-301", "research", "internal", "l40s-01", "2/4", "05:30", "20:00", "notebook"),
    Job("acme-302", "acme-ai", "on_demand", "l40s-01", "2/4", "06:00", "18:00", "heavy"),
    Job("ech-304", "echo", "on_demand", "l40s-01", "2/4", "08:00", "22:00", "light"),
    Job("cin-303", "cinder", "spot", "l40s-01", "2/4", "10:00", "23:00", "steady"),
    Job("del-301", "delta-labs", "on_demand", "l40s-01", "3/4", "05:05", "19:00", "heavy"),
    Job("bor-302", "borealis", "on_demand", "l40s-01", "3/4", "09:00", "23:30", "steady"),
    # mi300x-01: no agent; it fails at 13:20 under two jobs that never report an end, and is back at 15:00
    Job("res-401", "research", "internal", "mi300x-01", "0-3", "00:00", "13:20", "train", "never_ends"),
    Job("ech-401", "echo", "on_demand", "mi300x-01", "4,5", "02:00", "13:20", "train", "never_ends"),
    Job("res-402", "research", "internal", "mi300x-01", "6,7", "05:00", "12:00", "infer"),
    Job("res-403", "research", "internal", "mi300x-01", "0-3", "15:10", "23:00", "train"),
    Job("ech-402", "echo", "on_demand", "mi300x-01", "4-7", "15:20", "21:00", "infer"),
)

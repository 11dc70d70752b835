"""The faults that the product has to survive, by number, and what is promised under them."""

from dataclasses import dataclass

FAULTS = {
    1: "agent killed at every point of its loop",
    2: "agent's log torn, cut or flipped, as after a power loss",
    3: "agent's disk full, read-only or failing",
    4: "agent's log at its cap in a long outage",
    5: "clock set back and forward, machine suspended",
    6: "machine rebooted, host id cloned, sequence numbers used again",
    7: "broker out of reach for an hour",
    8: "broker took a write, its answer was lost",
    9: "broker killed and started again on its disk",
    10: "broker slow, connections reset",
    11: "worker killed before and after insert, produce and commit",
    12: "exception or cancellation in a body, stop in the middle of an insert",
    13: "worker frozen past its session and thawed",
    14: "workers scaled up and down without end",
    15: "first batch of a new consumer group fails",
    16: "record that can't be used: damaged, unknown schema, oversize",
    17: "output refused after ClickHouse took the rows",
    18: "ClickHouse down, refusing, timing out, answering 503",
    19: "connection cut after the insert was applied",
    20: "ClickHouse killed",
    21: "materialized view fails in the middle of an insert",
    22: "replay beyond the deduplication window",
    23: "replay from the beginning, with other batch sizes too",
    24: "samples late and shuffled, job facts after their samples, corrected",
    25: "events twice, jobs that overlap, ends that never come",
    26: "price changed within a window, and for the past",
    27: "commit stalled: the group's coordinator is frozen",
    28: "log cut off below what was acknowledged",
    29: "partition count changed",
    30: "everything at random, for long",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise, and the numbers of the faults under which it is tested."""

    text: str
    faults: tuple[int, ...]


PROMISES = (
    Promise("A tick that the agent's log holds durably is delivered, and is deleted there only then", (1, 7, 8, 9, 10)),
    Promise("What a full disk, a cap or a damaged file costs the agent is named by gap records; it goes on", (2, 3, 4)),
    Promise("Intervals come from the monotonic clock and ids are unique, whatever clock and host do", (5, 6)),
    Promise(
        "Processors acknowledge only what is persisted; what escapes ends the process", (11, 12, 13, 14, 15, 17, 27)
    ),
    Promise("The log is the state: folded again from its start, and no hole in it is passed in silence", (23, 28, 29)),
    Promise(
        "Rows are in ClickHouse before they are acknowledged, and once by their id",
        (8, 11, 13, 14, 18, 19, 20, 21, 22, 23),
    ),
    Promise("What comes late or is corrected is a new row beside the old one; totals are exact", (24, 25, 26)),
    Promise("A record that can't be used goes to `dead-letters` and the stream goes on", (16,)),
    Promise("What is not available is waited for, and the data kept", (7, 9, 10, 18, 20, 27)),
    Promise("All of it at once: what was sent comes out once, and after the faults work goes on", (30,)),
)

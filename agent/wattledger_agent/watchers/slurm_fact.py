"""What one SLURM record says of one run on this node, and what one document holds. Values only."""

from dataclasses import dataclass

from wattledger_agent.watchers.run import Finding, Held

SOURCE = "slurm"
PROLOG, EPILOG, LIVE, ACCOUNTING = "prolog", "epilog", "live", "accounting"
"""Kinds of facts: seen on the node itself, the controller's view, and the accounting database's."""
MOST_RAW_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Fact:
    """One record. `at_us` is when it was true: of the event on the node, else of the file.

    `start_us` and `end_us` are the scheduler's stamps in whole seconds; an expected end is none. `held` is what it
    holds on this node, () nothing, None: not said; then `gpus` says how many, None: unknown too. `is_cut_off`: the
    record is of no length (a requeue that came twice)."""

    kind: str
    job: str
    at_us: int
    cluster: str = ""
    attempt: int | None = None
    sluid: str = ""
    original_sluid: str = ""
    start_us: int | None = None
    end_us: int | None = None
    stop_us: int | None = None
    state: str = ""
    held: tuple[Held, ...] | None = None
    gpus: int | None = None
    gpu_kind: str = ""
    cpus: int | None = None
    memory_bytes: int | None = None
    account: str = ""
    user: str = ""
    plan: str = ""
    tenant_tag: str = ""
    model_tag: str = ""
    requested_profile: str = ""
    exclusive: bool | None = None
    file: str = ""

    @property
    def is_of_no_length(self) -> bool:
        return self.start_us is not None and self.start_us == self.end_us


@dataclass(frozen=True, slots=True)
class Document:
    """All that one file, connection or answer says. `is_whole`: it was read to its end and holds no words of failure,
    so what it leaves out is not there. `shards`: capacity of one GPU in shards, where it tells. `source` and `at_us`:
    where it came from, and when what it says was true."""

    facts: tuple[Fact, ...] = ()
    findings: tuple[Finding, ...] = ()
    is_whole: bool = True
    shards: int | None = None
    source: str = ""
    at_us: int = 0


def finding(reason: str, detail: str, raw: bytes = b"") -> Finding:
    """A finding of this watcher; `raw` is cut to 4 KiB."""
    return Finding(SOURCE, reason, detail, raw[:MOST_RAW_BYTES])

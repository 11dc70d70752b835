"""Which of SLURM's forms a document has, and its facts: a drop, scontrol, JSON or sacct. Values only."""

from collections.abc import Sequence

from wattledger_agent.watchers.slurm_drop import BadDrop, drop_fact, drop_values
from wattledger_agent.watchers.slurm_fact import Document, finding
from wattledger_agent.watchers.slurm_json import parse_json
from wattledger_agent.watchers.slurm_sacct import parse_sacct
from wattledger_agent.watchers.slurm_sacct_layout import RECOMMENDED
from wattledger_agent.watchers.slurm_scontrol import NO_JOBS, parse_scontrol
from wattledger_agent.watchers.slurm_site import SlurmSite


def parse_document(
    data: bytes, site: SlurmSite, at_us: int, name: str, fields: Sequence[str] = RECOMMENDED,
    shards: int | None = None,
) -> Document:  # fmt: skip
    """Facts of a document by its own form, whatever its file is called. `at_us` is when it was written, `fields` the
    columns of a sacct dump without a header, `shards` the capacity of one GPU where another document told it."""
    head = data.lstrip()[:4096]
    if not head:
        return Document(is_whole=False)
    if head[:1] in (b"{", b"["):
        return parse_json(data, site, at_us, name, shards)
    if head.startswith((b"WATTLEDGER_", b"SLURM_")):
        try:
            fact = drop_fact(drop_values(data), site, at_us)
        except BadDrop as error:
            return Document((), (finding(error.reason, f"{name}: {error}"),), is_whole=False)
        return Document(() if fact is None else (fact,), is_whole=False)
    if head.startswith((b"JobId=", b"NodeName=", NO_JOBS.encode())) or b"\nJobId=" in head or b"\nNodeName=" in head:
        return parse_scontrol(data, site, at_us, name, shards)
    return parse_sacct(data, site, at_us, name, fields)

"""`sacct -P` output as facts about this node's runs. Text only; owns which rows count: allocations, never steps."""

import re
from collections.abc import Sequence
from dataclasses import replace

from wattledger_agent.watchers.run import Finding
from wattledger_agent.watchers.slurm_device import mig_profile
from wattledger_agent.watchers.slurm_fact import ACCOUNTING, Document, Fact, finding
from wattledger_agent.watchers.slurm_gres import gpus_here, parse_gres, parse_tres
from wattledger_agent.watchers.slurm_hostlist import BadHostlist, find_node
from wattledger_agent.watchers.slurm_number import whole_number
from wattledger_agent.watchers.slurm_sacct_layout import RECOMMENDED, find_layout, records
from wattledger_agent.watchers.slurm_site import SlurmSite, one_line
from wattledger_agent.watchers.slurm_state import OPEN, WAITING, plan_of_qos, state_word
from wattledger_agent.watchers.slurm_time import BadStamp, duration_us

_MESSAGE = re.compile(r"(?:sacct|slurmdbd|slurm_load\w*)(?: error)?: ")
HOW_TO_EXPORT = "export as infra/slurm/README.md says"


def parse_sacct(
    data: bytes, site: SlurmSite, at_us: int, name: str = "sacct", fields: Sequence[str] = RECOMMENDED
) -> Document:
    """Facts of the rows whose NodeList has this node. A row that can't be used becomes a finding and hides no other.

    A dump that ends in the middle of a line is not whole; its last row counts when it is read again."""
    text = _decoded(data)
    is_whole = text.endswith("\n") or text == ""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    messages = [line for line in lines[:50] + lines[-5:] if _MESSAGE.match(line)]
    found = [finding("sacct_message", f"{name}: {one_line(line)}: look at the job that exports it") for line in
             dict.fromkeys(messages)]  # fmt: skip
    records_only = [line for line in lines if not _MESSAGE.match(line)]
    if not any(line.strip() for line in records_only):
        return Document((), tuple(found), is_whole=not found)
    layout_at = find_layout(records_only, fields)
    if layout_at is None:
        words = f"{name}: no header and no line that fits the columns {','.join(fields)}: {HOW_TO_EXPORT}"
        return Document((), (*found, finding("unknown_layout", words)) if is_whole else tuple(found), is_whole=False)
    layout, header = layout_at
    for column in ("nodelist", "start", "state"):
        if column not in layout.fields:
            words = f"{name}: no column {column}, so nobody can say what ran here and when: {HOW_TO_EXPORT}"
            return Document((), (*found, finding("column_missing", words)), is_whole=False)
    facts: list[Fact] = []
    broken = 0
    is_tracked = "gres/gpu" in text
    for _, cells in records(records_only, layout, header):
        if cells is None:
            broken += 1
            continue
        made = _row(dict(zip(layout.fields, cells, strict=False)), site, at_us, name, is_tracked)
        if isinstance(made, Finding):
            found.append(made)
        elif made is not None:
            facts.append(made)
    if broken and is_whole:
        found.append(finding("broken_record", f"{name}: {broken} records lack columns: {HOW_TO_EXPORT}"))
    return Document(tuple(_resized(facts)), tuple(found), is_whole and not messages)


def _decoded(data: bytes) -> str:
    """UTF-8, else Latin-1 line by line, so that one odd name spoils no other row."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(_decoded_line(line) for line in data.split(b"\n"))


def _decoded_line(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _row(row: dict[str, str], site: SlurmSite, at_us: int, name: str, is_tracked: bool) -> Fact | Finding | None:
    raw, label, state = row.get("jobidraw", ""), row.get("jobid", ""), state_word(row["state"])
    job = raw or label
    outside_list = label.partition("[")[0] if "[" in label else label
    if "." in raw or "." in outside_list or state in WAITING or not site.is_ours(row.get("cluster", "")):
        return None
    try:
        place, nodes = find_node(row["nodelist"], site.names)
        if place is None:
            return None
        held_us = _held_us(row)
        start_us, end_us = site.stamps.span(row["start"], row.get("end", ""), held_us)
    except BadHostlist as error:
        return finding("nodes_unreadable", f"{name}: job {job}: NodeList {error}")
    except BadStamp as error:
        return finding(error.reason, f"{name}: job {job}: {error}")
    if start_us is None:
        return None
    if state in OPEN and state != "RESIZING":
        end_us = None
    elif end_us is None and held_us is not None and state not in OPEN:
        end_us = start_us + held_us
    elif end_us is None and state not in OPEN:
        return finding("end_missing", f"{name}: job {job} is {state} and has neither End nor Elapsed: {HOW_TO_EXPORT}")
    if end_us is not None and end_us < start_us:
        return finding("end_before_start", f"{name}: job {job}: it ends before it starts: {HOW_TO_EXPORT}")
    return _counted(_fact(row, site, at_us, job, state, start_us, end_us), row, nodes == 1, is_tracked)


def _fact(
    row: dict[str, str], site: SlurmSite, at_us: int, job: str, state: str, start_us: int, end_us: int | None
) -> Fact:
    restarts, uid = row.get("restarts", ""), row.get("uid", "")
    comments = (row.get("admincomment", ""), row.get("comment", ""), row.get("extra", ""))
    tenant, model = site.tags(int(uid) if uid.isdecimal() and len(uid) <= 10 else None, *comments)
    sharing = row.get("oversubscribe", "") or row.get("exclusive", "")
    return Fact(
        ACCOUNTING, job, at_us, row.get("cluster", ""),
        attempt=whole_number(restarts),
        sluid=row.get("sluid", ""),
        original_sluid=row.get("originalsluid", ""),
        start_us=start_us,
        end_us=end_us,
        state=state,
        account=one_line(row.get("account", "")),
        user=one_line(row.get("user", "")),
        plan=plan_of_qos(row.get("qos", "")),
        tenant_tag=tenant,
        model_tag=model,
        exclusive=sharing.upper() in ("NO", "EXCLUSIVE", "1", "YES", "TRUE") if sharing else None,
    )  # fmt: skip


def _held_us(row: dict[str, str]) -> int | None:
    """Elapsed leaves suspended time out, end minus start does not."""
    elapsed_us = duration_us(row.get("elapsedraw", "") or row.get("elapsed", ""))
    return None if elapsed_us is None else elapsed_us + (duration_us(row.get("suspended", "")) or 0)


def _counted(fact: Fact, row: dict[str, str], is_alone: bool, is_tracked: bool) -> Fact:
    """With how many GPUs it has here; where the TRES do not say, the GRES columns of older releases may."""
    tres = parse_tres(row.get("alloctres", ""))
    gpus = gpus_here(tres, is_alone, is_tracked)
    kinds = [kind for kind, _ in tres.kinds]
    if tres.gpu_count is None:
        gres = parse_gres(row.get("allocgres", "") or row.get("gresused", ""))
        items = [item for item in gres or () if item.name == "gpu"]
        kinds = [item.kind for item in items if item.kind]
        gpus = sum(item.count for item in items) if items and is_alone else None if items else gpus
    profiles = sorted({profile for profile in map(mig_profile, kinds) if profile})
    return replace(
        fact,
        gpus=gpus,
        gpu_kind=kinds[0] if len(kinds) == 1 else "",
        cpus=tres.cpus if is_alone else None,
        memory_bytes=tres.memory_bytes if is_alone else None,
        requested_profile=profiles[0] if len(profiles) == 1 else "",
    )


def _resized(facts: list[Fact]) -> list[Fact]:
    """A resize closes one row and opens the next at the same moment: here they are one hold that goes on."""
    begun: dict[tuple[str, int], Fact] = {}
    joined: list[Fact] = []
    for fact in sorted(facts, key=lambda fact: (fact.start_us or 0, fact.end_us is None)):
        before = begun.pop((fact.job, fact.start_us or 0), None)
        if before is not None:
            joined.remove(before)
            fact = replace(fact, start_us=before.start_us)
        joined.append(fact)
        if fact.state == "RESIZING" and fact.end_us is not None:
            begun[fact.job, fact.end_us] = fact
    return joined

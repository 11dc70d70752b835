"""`scontrol show job -d` and `show node -d`, with or without -o, as facts about this node's runs. Text only."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from wattledger_agent.watchers.run import Finding, Held
from wattledger_agent.watchers.slurm_device import held_of_gres, mig_profile
from wattledger_agent.watchers.slurm_fact import LIVE, Document, Fact, finding
from wattledger_agent.watchers.slurm_gres import (
    GresItem,
    gpus_here,
    memory_bytes,
    number_list,
    parse_gres,
    parse_tres,
)
from wattledger_agent.watchers.slurm_hostlist import NO_NODES, BadHostlist, find_node
from wattledger_agent.watchers.slurm_number import whole_number
from wattledger_agent.watchers.slurm_site import SlurmSite, one_line
from wattledger_agent.watchers.slurm_state import OPEN, WAITING, plan_of_qos, state_of
from wattledger_agent.watchers.slurm_time import BadStamp

_PAIR = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_]*(?:/[A-Za-z]+)?)=")
_DETAIL = re.compile(r"\bNodes=(\S+)\s+CPU_IDs=(\S*)\s+Mem=(\S*)\s+GRES(?:_IDX)?=(\S*)")
_OLD_IDX = re.compile(r"gpu(?::([^:()]+))?\(IDX:([^()]*)\)")
_USER = re.compile(r"(.*)\((\d{1,10})\)")
_ONCE = ("UserId", "Account", "JobState", "StartTime", "EndTime", "NodeList", "Restarts", "SLUID", "MinCPUsNode")
"""Keys that decide. One that comes twice was put into a name or a comment, so that nothing of the record is sure."""
_MESSAGE = re.compile(r"(?:slurm_load\w*|scontrol|slurm_\w+) ?(?:error)?: ", re.IGNORECASE)
NO_JOBS = "No jobs in the system"


@dataclass(frozen=True, slots=True)
class NodeView:
    """What `show node` says: shards of one GPU, and what is used of the node by all its jobs together."""

    shards: int | None = None
    used: tuple[GresItem, ...] = ()


def parse_scontrol(
    data: bytes, site: SlurmSite, at_us: int, name: str = "scontrol", shards: int | None = None
) -> Document:
    """Facts of the jobs that hold this node. Times that come with an open state are expected, never an end.

    `shards`: the capacity of one GPU, where another document told it."""
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
    found = [
        finding("scontrol_message", f"{name}: {one_line(line)}: look at the job that exports it")
        for line in text.split("\n")[:20]
        if _MESSAGE.match(line)
    ]
    views = [_node_view(_values(block)) for block in _blocks(text, "NodeName=") if _is_this_node(block, site)]
    view = views[-1] if views else NodeView()
    shards = shards if view.shards is None else view.shards
    is_tracked = "gres/gpu" in text
    facts: list[Fact] = []
    jobs = list(_blocks(text, "JobId="))
    is_whole = text.endswith("\n") and not found and bool(jobs or views or NO_JOBS in text)
    for place, block in enumerate(jobs):
        made = _fact(block, site, at_us, name, (shards, is_tracked))
        if isinstance(made, Fact):
            facts.append(made)
        elif made is not None and (is_whole or place < len(jobs) - 1):
            found.append(made)
    return Document(tuple(_with_view(facts, view, site)), tuple(found), is_whole, view.shards)


def _blocks(text: str, opening: str) -> Iterator[str]:
    """The objects that begin with a line of `opening`; what stands before the first is left out."""
    starts = [match.start() for match in re.finditer(rf"^(?:{opening}|JobId=|NodeName=)", text, re.MULTILINE)]
    for start, end in pairwise([*starts, len(text)]):
        if text.startswith(opening, start):
            yield text[start:end]


def _values(block: str) -> dict[str, str]:
    """The first value of each key, blank where SLURM says that there is none."""
    found = list(_PAIR.finditer(block))
    ends = [match.start() for match in found[1:]] + [len(block)]
    values: dict[str, str] = {}
    for match, end in zip(found, ends, strict=False):
        value = block[match.end() : end].strip()
        values.setdefault(match.group(1), "" if value in ("(null)", "None", "N/A") else value)
    return values


def _fact(block: str, site: SlurmSite, at_us: int, name: str, known: tuple[int | None, bool]) -> Fact | Finding | None:
    values = _values(block)
    job = values["JobId"].split(" ")[0]
    counts = Counter(match.group(1) for match in _PAIR.finditer(block))
    twice = [key for key in _ONCE if counts[key] > 1]
    if twice:
        words = f"{name}: job {one_line(job, 40)}: {twice[0]} comes twice: the job's name or comment holds it"
        return finding("ambiguous_record", words)
    state = state_of([values.get("JobState", "")])
    if not job.isdecimal() or not state or "NodeList" not in values:
        return finding("broken_record", f"{name}: job {one_line(job, 40)}: the record lacks its state or its nodes")
    if state in WAITING or values["NodeList"].lower() in NO_NODES:
        return None
    try:
        place, nodes = find_node(values["NodeList"], site.names)
        if place is None:
            return None
        start_us = site.stamps.moment(values.get("StartTime", ""))
        end_us = site.stamps.moment(values.get("EndTime", ""))
        detail = _detail(block, site)
    except (BadHostlist, BadStamp) as error:
        reason = error.reason if isinstance(error, BadStamp) else "nodes_unreadable"
        return finding(reason, f"{name}: job {job}: {error}")
    if start_us is None:
        return None
    return _made(values, job, state, site, at_us, (start_us, end_us), detail, nodes == 1, known)


def _made(
    values: dict[str, str], job: str, state: str, site: SlurmSite, at_us: int, span: tuple[int, int | None],
    detail: tuple[str, str, str] | None, is_alone: bool, known: tuple[int | None, bool],
) -> Fact:  # fmt: skip
    (start_us, end_us), (shards, is_tracked) = span, known
    is_over = state not in OPEN
    restarts = values.get("Restarts", "")
    user = _USER.fullmatch(values.get("UserId", ""))
    comments = (values.get("AdminComment", ""), values.get("Comment", ""), values.get("Extra", ""))
    tenant, model = site.tags(int(user.group(2)) if user else None, *comments)
    tres = parse_tres(values.get("AllocTRES", "") or values.get("TRES", ""))
    held, kinds = _held(detail, site, shards)
    kinds = kinds or [kind for kind, _ in tres.kinds]
    profiles = sorted({profile for profile in map(mig_profile, kinds) if profile})
    sharing = values.get("OverSubscribe", "")
    cpus = number_list(detail[0]) if detail else None
    own_memory = memory_bytes(detail[1]) if detail and detail[1] != "0" else None
    return Fact(
        LIVE, job, at_us,
        attempt=whole_number(restarts),
        sluid=values.get("SLUID", ""),
        start_us=start_us,
        end_us=end_us if is_over else None,
        stop_us=end_us if state == "COMPLETING" and end_us is not None and end_us <= at_us else None,
        state=state,
        held=held,
        gpus=gpus_here(tres, is_alone, is_tracked),
        gpu_kind=kinds[0] if len(set(kinds)) == 1 else "",
        cpus=len(cpus) if cpus else tres.cpus if is_alone else None,
        memory_bytes=tres.memory_bytes if own_memory is None and is_alone else own_memory,
        account=one_line(values.get("Account", "")),
        user=one_line(user.group(1)) if user else "",
        plan=plan_of_qos(values.get("QOS", "")),
        tenant_tag=tenant,
        model_tag=model,
        requested_profile=profiles[0] if len(profiles) == 1 else "",
        exclusive=sharing.upper() in ("NO", "EXCLUSIVE") if sharing else None,
    )  # fmt: skip


def _detail(block: str, site: SlurmSite) -> tuple[str, str, str] | None:
    """CPU_IDs, Mem and GRES of this node's detail line. It stands between NodeList and MinCPUsNode; what looks like
    one in a comment further down is none. Raises BadHostlist."""
    start, end = block.find("NodeList="), block.find("MinCPUsNode=")
    for nodes, cpus, memory, gres in _DETAIL.findall(block[start : end if end > start else len(block)]):
        if find_node(nodes, site.names)[0] is not None:
            return cpus, memory, gres
    return None


def _held(
    detail: tuple[str, str, str] | None, site: SlurmSite, shards: int | None
) -> tuple[tuple[Held, ...] | None, list[str]]:
    if detail is None:
        return None, []
    items = parse_gres(_OLD_IDX.sub(_with_count, detail[2]))
    if items is None:
        return None, []
    return held_of_gres(items, site.numbers, shards), [item.kind for item in items if item.kind]


def _with_count(match: re.Match[str]) -> str:
    """`gpu(IDX:0-1)` of old releases with its count: gpu:2(IDX:0-1)."""
    kind, positions = match.groups()
    if kind is not None and kind.isdecimal():
        return match.group()
    count = len(number_list(positions) or ())
    return f"gpu:{kind + ':' if kind else ''}{count}(IDX:{positions})"


def _is_this_node(block: str, site: SlurmSite) -> bool:
    return site.is_here(block.partition("=")[2].split(maxsplit=1)[0])


def _node_view(values: dict[str, str]) -> NodeView:
    configured = parse_gres(values.get("Gres", "")) or ()
    gpus = sum(item.count for item in configured if item.name == "gpu")
    units = sum(item.count for item in configured if item.name == "shard")
    used = parse_gres(values.get("GresUsed", "")) or ()
    return NodeView(units // gpus if gpus and units and units % gpus == 0 else None, used)


def _with_view(facts: list[Fact], view: NodeView, site: SlurmSite) -> list[Fact]:
    """What the node's view shows as used belongs to the only open job of the node, where its record does not tell."""
    open_at = [at for at, fact in enumerate(facts) if fact.end_us is None]
    used = held_of_gres(view.used, site.numbers, view.shards)
    if len(open_at) == 1 and used:
        only = facts[open_at[0]]
        if only.held is None and only.gpus in (None, len(used)):
            facts[open_at[0]] = replace(only, held=used)
    return facts

"""Job objects of slurmrestd, `sacct --json`, `squeue --json` and `scontrol --json` as facts. Values only.

One fact has several shapes over the releases: numbers in structs, lists or texts, null or {}. All are taken."""

import json
import re
from collections.abc import Iterable

from wattledger_agent.watchers.run import Finding, Held
from wattledger_agent.watchers.slurm_device import held_of_gres, mig_profile
from wattledger_agent.watchers.slurm_fact import ACCOUNTING, LIVE, Document, Fact, finding
from wattledger_agent.watchers.slurm_gres import Tres, gpus_here, parse_gres, parse_tres
from wattledger_agent.watchers.slurm_hostlist import BadHostlist, find_node
from wattledger_agent.watchers.slurm_json_shape import Json, epoch_us, host_names, struct, text, whole, words
from wattledger_agent.watchers.slurm_number import whole_number
from wattledger_agent.watchers.slurm_site import SlurmSite, one_line
from wattledger_agent.watchers.slurm_state import OPEN, WAITING, plan_of_qos, state_of
from wattledger_agent.watchers.slurm_time import US_PER_S

_NAMES_GPUS = re.compile(rb'gres/gpu|"gpu[":]')


def parse_json(data: bytes, site: SlurmSite, at_us: int, name: str = "json", shards: int | None = None) -> Document:
    """Facts of the jobs that hold this node. A text that is no JSON is a finding: it may be half written, so it is
    not whole. `shards`: the capacity of one GPU, where another document told it."""
    try:
        tree = json.loads(data.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        return Document((), (finding("broken_json", f"{name}: {error}: was it cut?"),), is_whole=False)
    said = struct(tree).get("errors")
    errors = [one_line(text(struct(item).get("description")) or text(struct(item).get("error")) or text(item))
              for item in (said if isinstance(said, list) else [])]  # fmt: skip
    found = [finding("slurm_error", f"{name}: SLURM answered with an error: {word}") for word in errors]
    jobs = struct(tree).get("jobs") if isinstance(tree, dict) else tree
    own_shards = _shards(struct(tree).get("nodes"), site)
    shards = shards if own_shards is None else own_shards
    if not isinstance(jobs, list):
        if "nodes" not in struct(tree) and not found:
            found.append(finding("foreign_json", f"{name}: no list of jobs or nodes in it"))
        return Document((), tuple(found), False, own_shards)
    facts = []
    known = (shards, _NAMES_GPUS.search(data) is not None)
    for item in jobs:
        made = _fact(struct(item), site, at_us, name, known)
        if isinstance(made, Fact):
            facts.append(made)
        elif made is not None:
            found.append(made)
    return Document(tuple(facts), tuple(found), not errors, own_shards)


def _fact(job: Json, site: SlurmSite, at_us: int, name: str, known: tuple[int | None, bool]) -> Fact | Finding | None:
    number = text(job.get("job_id"))
    given = job.get("job_state") if job.get("job_state") is not None else job.get("state")
    state = state_of([part for word in words(given) for part in word.split(",")])
    cluster = text(job.get("cluster")) or text(struct(job.get("association")).get("cluster"))
    if not number.isdecimal() or number == "0" or not state:
        return finding("foreign_json", f"{name}: an object without job_id or state among the jobs")
    nodes_text = host_names(job.get("nodes")) or host_names(struct(job.get("job_resources")).get("nodes"))
    if state in WAITING or not site.is_ours(cluster):
        return None
    try:
        place, nodes = find_node(nodes_text, site.names)
    except BadHostlist as error:
        return finding("nodes_unreadable", f"{name}: job {number}: nodes {error}")
    start_us, end_us = _span(job, state)
    if place is None or start_us is None:
        return None
    if end_us is not None and end_us < start_us:
        return finding("end_before_start", f"{name}: job {number}: it ends before it starts")
    if end_us is None and state not in OPEN:
        return finding("end_missing", f"{name}: job {number} is {state} and has no end")
    return _made(job, (number, state, cluster), site, at_us, (start_us, end_us), (place, nodes), known)


def _made(
    job: Json, said: tuple[str, str, str], site: SlurmSite, at_us: int, span: tuple[int, int | None],
    where: tuple[int, int], known: tuple[int | None, bool],
) -> Fact:  # fmt: skip
    (number, state, cluster), (shards, is_tracked) = said, known
    (start_us, end_us), (place, nodes) = span, where
    time, owner = struct(job.get("time")), struct(job.get("association"))
    comment = job.get("comment")
    comments = [text(job.get("admin_comment")), text(job.get("extra")), text(comment)]
    comments = [text(struct(comment).get(key)) for key in ("administrator", "job")] + comments
    uid = whole(job.get("user_id"))
    tenant, model = site.tags(whole(job.get("uid")) if uid is None else uid, *comments)
    tres = job_tres(job)
    held, kinds = _held(job, site, place, nodes, shards)
    kinds = kinds or [kind for kind, _ in tres.kinds]
    profiles = sorted({profile for profile in map(mig_profile, kinds) if profile})
    stop_us = epoch_us(job.get("end_time")) if state == "COMPLETING" and not time else None
    return Fact(
        ACCOUNTING if time else LIVE, number, at_us, cluster,
        attempt=whole_number(text(job.get("restart_cnt"))),
        sluid=text(job.get("sluid")),
        original_sluid=text(job.get("original_sluid")),
        start_us=start_us,
        end_us=end_us if state not in OPEN or state == "RESIZING" else None,
        stop_us=stop_us if stop_us is not None and stop_us <= at_us else None,
        state=state,
        held=held,
        gpus=gpus_here(tres, nodes == 1, is_tracked),
        gpu_kind=kinds[0] if len(set(kinds)) == 1 else "",
        cpus=tres.cpus if nodes == 1 else None,
        memory_bytes=tres.memory_bytes if nodes == 1 else None,
        account=one_line(text(job.get("account")) or text(owner.get("account"))),
        user=one_line(text(job.get("user")) or text(job.get("user_name")) or text(owner.get("user"))),
        plan=plan_of_qos(text(job.get("qos"))),
        tenant_tag=tenant,
        model_tag=model,
        requested_profile=profiles[0] if len(profiles) == 1 else "",
        exclusive=_is_exclusive(job),
    )  # fmt: skip


def job_tres(job: Json) -> Tres:
    """What was allocated, from a `tres` list or a text. Memory counts in lists are MB."""
    listed = struct(job.get("tres")).get("allocated")
    if isinstance(listed, list) and listed:
        return parse_tres(",".join(_tres_items(map(struct, listed))))
    return parse_tres(listed if isinstance(listed, str) else text(job.get("tres_alloc_str")))


def _tres_items(items: Iterable[Json]) -> Iterable[str]:
    for item in items:
        kind, name, count = text(item.get("type")), text(item.get("name")), whole(item.get("count"))
        if kind and count is not None:
            yield f"{kind}/{name}={count}" if name else f"{kind}={count}{'M' if kind == 'mem' else ''}"


def _span(job: Json, state: str) -> tuple[int | None, int | None]:
    """Accounting documents have `time`; the controller's have flat stamps, whose end is expected while a job runs."""
    time = struct(job.get("time"))
    if not time:
        end_us = epoch_us(job.get("end_time"))
        return epoch_us(job.get("start_time")), None if state in OPEN else end_us
    start_us, end_us, elapsed = epoch_us(time.get("start")), epoch_us(time.get("end")), whole(time.get("elapsed"))
    if end_us is None and state not in OPEN and start_us is not None and elapsed is not None:
        end_us = start_us + (elapsed + (whole(time.get("suspended")) or 0)) * US_PER_S
    return start_us, end_us


def _held(
    job: Json, site: SlurmSite, place: int, nodes: int, shards: int | None
) -> tuple[tuple[Held, ...] | None, list[str]]:
    """`gres_detail` has one text a node, in the nodes' order; another count of texts belongs to nobody knows whom."""
    details = job.get("gres_detail")
    texts = [text(item) for item in details] if isinstance(details, list) else words(details)
    if nodes == 1 and not texts:
        texts = words(job.get("used_gres"))
    items = parse_gres(texts[place]) if len(texts) == nodes and texts else None
    if items is None:
        return None, []
    return held_of_gres(items, site.numbers, shards), [item.kind for item in items if item.kind]


def _is_exclusive(job: Json) -> bool | None:
    said = {word.lower() for word in [*words(job.get("exclusive")), *words(job.get("shared"))]}
    if job.get("exclusive") is True or said & {"true", "yes", "exclusive", "none"}:
        return True
    return False if said or job.get("exclusive") is False else None


def _shards(nodes: object, site: SlurmSite) -> int | None:
    """Shards of one GPU of this node, from its configured GRES."""
    for node in map(struct, nodes if isinstance(nodes, list) else []):
        if site.is_here(text(node.get("name"))):
            items = parse_gres(text(node.get("gres"))) or ()
            gpus = sum(item.count for item in items if item.name == "gpu")
            units = sum(item.count for item in items if item.name == "shard")
            return units // gpus if gpus and units and units % gpus == 0 else None
    return None

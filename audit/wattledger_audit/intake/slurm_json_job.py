"""One job object of `sacct --json`, slurmrestd or `squeue --json` as usage runs."""

from collections.abc import Iterable

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.slurm_gpus import hold_gpus
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.slurm_json_values import Json, epoch_us, host_names, span_us, struct, text, whole, words
from wattledger_audit.intake.slurm_run import Hold, RowRejected, hold_of, run_key, spread
from wattledger_audit.intake.slurm_state import OPEN, WAITING, plan_of_qos, state_word, waits_for
from wattledger_audit.intake.slurm_tres import NO_TRES, Tres, parse_gres, parse_tres

_FLAGS = ("REQUEUED", "RESIZING", "REVOKED")
"""Flags that sacct shows in place of the base state once the run is over."""
_PASSING = frozenset({"COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "POWER_UP_NODE", "EXPEDITING"})
NODES_UNREADABLE = "nodes_unreadable"
UNKNOWN_STATE = "unknown_state"


def is_job(value: object) -> bool:
    """Whether a JSON value is a job object: an id, and a state or a time."""
    job = struct(value)
    return "job_id" in job and any(key in job for key in ("state", "job_state", "time", "start_time"))


def job_state(job: Json) -> tuple[str, tuple[str, ...]]:
    """The state's word out of base state and flags (list or text), and a mark when it is none that is known."""
    given = job.get("job_state") if job.get("job_state") is not None else job.get("state")
    said = words(given)
    known = [word for word in map(state_word, (part for item in said for part in item.split(","))) if word]
    waiting = [word for word in known if word in WAITING]
    flags = [word for word in known if word in _FLAGS]
    base = [word for word in known if word not in _PASSING and word not in _FLAGS]
    chosen = [*(waiting or flags), *base, *known]
    if chosen:
        return chosen[0], ()
    return " ".join(said).upper(), (UNKNOWN_STATE,) if said else ()


def job_tres(job: Json, kind: str) -> Tres:
    """`allocated` or `requested` resources, from `tres` lists or the `tres_alloc_str` texts. Memory counts are MB."""
    listed = struct(job.get("tres")).get(kind)
    if isinstance(listed, str):
        return parse_tres(listed)
    if isinstance(listed, list) and listed:
        return parse_tres(",".join(_tres_items(map(struct, listed))))
    short = {"allocated": "tres_alloc_str", "requested": "tres_req_str"}[kind]
    return parse_tres(text(job.get(short)))


def _tres_items(items: Iterable[Json]) -> Iterable[str]:
    for item in items:
        kind, name, count = text(item.get("type")), text(item.get("name")), whole(item.get("count"))
        if kind and count is not None:
            yield f"{kind}/{name}={count}" if name else f"{kind}={count}{'M' if kind == 'mem' else ''}"


def _other_gres(job: Json) -> list[Tres]:
    detail = [parse_gres(item) for item in words(job.get("gres_detail"))]
    per_node = Tres(
        gpus=sum(part.gpus or 0 for part in detail) if any(part.gpus is not None for part in detail) else None,
        types=tuple(kind for part in detail for kind in part.types),
    )
    return [per_node if detail else NO_TRES, parse_gres(text(job.get("used_gres")))]


def names_gpus(job: Json) -> bool:
    """Whether the job's allocated or requested TRES name GPUs, be it none."""
    return job_tres(job, "allocated").names_gpus or job_tres(job, "requested").names_gpus


def cluster_of(job: Json, fallback: str) -> str:
    """The job's cluster, else what was said for the run of the audit."""
    return text(job.get("cluster")) or text(struct(job.get("association")).get("cluster")) or fallback


def job_label(job: Json) -> str:
    """The id as sacct's JobID shows it: `123`, `123_4`, `123_[5-7%2]`, `123+1`."""
    own = text(job.get("job_id"))
    array, het = struct(job.get("array")), struct(job.get("het"))
    parent = whole(array.get("job_id") if array else job.get("array_job_id"))
    task = whole(array.get("task_id") if array else job.get("array_task_id"))
    listed = text(array.get("task") if array else job.get("array_task_string"))
    if parent and listed and task is None:
        return f"{parent}_{listed if listed.startswith('[') else f'[{listed}]'}"
    if parent and task is not None:
        return f"{parent}_{task}"
    leader = whole(het.get("job_id") if het else job.get("het_job_id"))
    offset = whole(het.get("job_offset") if het else job.get("het_job_offset"))
    return f"{leader}+{offset}" if leader and offset is not None else own


def _hold(job: Json, state: str) -> Hold:
    """Accounting documents have `time`; slurmctld's have flat stamps whose end is the expected one of a run."""
    time = struct(job.get("time"))
    if time:
        start_us, end_us = epoch_us(time.get("start")), epoch_us(time.get("end"))
        elapsed_us, suspended_us = span_us(time.get("elapsed")), span_us(time.get("suspended")) or 0
    else:
        start_us, end_us = epoch_us(job.get("start_time")), epoch_us(job.get("end_time"))
        elapsed_us, suspended_us = None, 0
        last_us, ran_us = epoch_us(job.get("suspend_time")), span_us(job.get("pre_sus_time"))
        if start_us is not None and last_us is not None and ran_us is not None:
            suspended_us = max(0, last_us - start_us - ran_us)
        if state in OPEN or start_us is None:
            end_us = None if state in OPEN or state in WAITING else end_us
    placed = host_names(job.get("nodes")) not in ("", "None assigned")
    return hold_of(state, start_us, end_us, elapsed_us, suspended_us, None, not placed and elapsed_us == 0)


def _limit_us(job: Json) -> int | None:
    """Both kinds of documents give the limit in minutes."""
    time = struct(job.get("time"))
    minutes = whole(time.get("limit") if time else job.get("time_limit"))
    return None if minutes is None else minutes * 60 * US_PER_S


def _is_exclusive(job: Json) -> bool:
    said = {word.lower() for word in words(job.get("exclusive"))}
    shared = {word.lower() for word in words(job.get("shared"))}
    return job.get("exclusive") is True or bool(said & {"true", "yes", "exclusive"}) or "none" in shared


def _nodes(job: Json) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = host_names(job.get("nodes")) or host_names(struct(job.get("job_resources")).get("nodes"))
    try:
        return expand_hostlist(names), ()
    except BadHostlist:
        return (), (NODES_UNREADABLE,)


def job_runs(job: Json, line: int, fallback_cluster: str, tracked: frozenset[str]) -> tuple[UsageRun, ...]:
    """The job's runs. Raises RowRejected for one that can't be used."""
    own, label = text(job.get("job_id")), job_label(job)
    if not own or own == "0":
        raise RowRejected("job_id", own, "not_a_job_id: the object has no job id")
    state, marks = job_state(job)
    time = struct(job.get("time"))
    submit_us = epoch_us(time.get("submission") if time else job.get("submit_time"))
    hold = _hold(job, state)
    started = hold.start_us is not None
    cluster = cluster_of(job, fallback_cluster)
    got, asked = job_tres(job, "allocated"), job_tres(job, "requested")
    holds = hold_gpus(got, (*_other_gres(job), asked), started, cluster in tracked)
    nodes, node_marks = _nodes(job) if started else ((), ())
    counts = got if started or got.cpus is not None else asked
    gpu = holds[0]
    reason = text(struct(job.get("state")).get("reason")) or text(job.get("state_reason"))
    run = UsageRun(
        line=line,
        cluster=cluster,
        job=label,
        run_key=run_key(hold, own, submit_us, text(job.get("sluid"))),
        attempt=whole(job.get("restart_cnt")) or 0,
        tenant=text(job.get("account")) or text(struct(job.get("association")).get("account")),
        project=text(job.get("wckey")),
        user=text(job.get("user")) or text(job.get("user_name")) or text(struct(job.get("association")).get("user")),
        model_tag="",
        plan=plan_of_qos(text(job.get("qos"))),
        partition=text(job.get("partition")),
        sku="",
        nodes=nodes,
        device="",
        gpu_model=gpu.gpu_model,
        gpus=gpu.gpus,
        share_num=gpu.share_num,
        share_den=gpu.share_den,
        submit_us=submit_us,
        eligible_us=epoch_us(time.get("eligible") if time else job.get("eligible_time")),
        start_us=hold.start_us,
        end_us=hold.end_us,
        suspended_us=hold.suspended_us,
        state=state,
        tokens=None,
        exclusive=_is_exclusive(job),
        cpus=counts.cpus if counts.cpus is not None else _cpus(job),
        memory_bytes=counts.memory_bytes,
        limit_us=_limit_us(job),
        waits_for="" if started else waits_for(reason),
        marks=(*marks, *hold.marks, *node_marks, *gpu.marks),
    )
    return spread(run, holds)


def _cpus(job: Json) -> int | None:
    """Allocated CPUs where no TRES say: slurmctld's `cpus`, else what was required."""
    count = whole(job.get("cpus"))
    return whole(struct(job.get("required")).get("CPUs")) if count is None else count

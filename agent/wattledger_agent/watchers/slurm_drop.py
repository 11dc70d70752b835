"""The records that prolog and epilog drop: KEY=VALUE lines of an allow-list, with the time of the event. Text only."""

import re

from wattledger_agent.watchers.run import BY_MIG_UUID, BY_UNKNOWN, BY_UUID, DeviceRef, Held
from wattledger_agent.watchers.slurm_device import named_device, visible_devices
from wattledger_agent.watchers.slurm_fact import EPILOG, PROLOG, Fact
from wattledger_agent.watchers.slurm_gres import number_list
from wattledger_agent.watchers.slurm_number import NO_TIMES, whole_number
from wattledger_agent.watchers.slurm_site import SlurmSite, one_line
from wattledger_agent.watchers.slurm_time import US_PER_S

READ_KEYS = frozenset({
    "WATTLEDGER_DROP", "WATTLEDGER_KIND", "WATTLEDGER_AT", "WATTLEDGER_END", "WATTLEDGER_LEFT_OUT",
    "SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_ACCOUNT", "SLURM_JOB_USER",
    "SLURM_JOB_UID", "SLURM_CLUSTER_NAME", "SLURMD_NODENAME", "SLURM_JOB_GPUS", "SLURM_JOB_START_TIME",
    "SLURM_JOB_RESTART_COUNT", "SLURM_JOB_SLUID", "SLURM_JOB_COMMENT", "SLURM_JOB_EXTRA", "SLURM_WCKEY",
    "SLURM_JOB_PARTITION", "SLURM_JOB_OVERSUBSCRIBE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_SCRIPT_CONTEXT",
    "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
})  # fmt: skip
"""What the scripts write. SLURM_JOB_END_TIME is not among it: it is the expected end."""
_KEY = re.compile(r"[A-Z][A-Z0-9_]*")
_UNIFORM_CPUS = re.compile(r"(\d{1,6})(?:\(x\d+\))?")
_CONTEXTS = {"prolog_slurmd": PROLOG, "epilog_slurmd": EPILOG, "prolog": PROLOG, "epilog": EPILOG}


class BadDrop(ValueError):
    """A record that can't be taken; `reason` is a code, the message what was wrong and what to do."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


def drop_values(data: bytes) -> dict[str, str]:
    """The values of a record. Raises BadDrop for one that was torn or is none, and for a key that comes twice."""
    text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")
    if lines[-1] != "" or not any(line == "WATTLEDGER_END=1" for line in lines[-2:]):
        raise BadDrop("torn_drop", "the record does not end with WATTLEDGER_END=1: it was cut, or is no record")
    values: dict[str, str] = {}
    for line in lines[:-1]:
        key, equals, value = line.partition("=")
        if not equals or _KEY.fullmatch(key) is None:
            raise BadDrop("foreign_drop", f"{one_line(key, 40)!r} is no KEY=VALUE line of a prolog or epilog record")
        if key in values and key != "WATTLEDGER_LEFT_OUT":
            raise BadDrop("foreign_drop", f"{key} comes twice: the record was not written by the prolog or epilog")
        if key in READ_KEYS:
            values[key] = one_line(value, 1024)
    return values


def drop_fact(values: dict[str, str], site: SlurmSite, received_us: int, file: str = "") -> Fact | None:
    """The event, None where it is of another cluster. `received_us` stands in for a time that it lacks, and for the
    fraction of one in whole seconds. Raises BadDrop."""
    kind = _CONTEXTS.get(values.get("WATTLEDGER_KIND", "") or values.get("SLURM_SCRIPT_CONTEXT", ""), "")
    job = values.get("SLURM_JOB_ID", "")
    if not kind or not job.isdecimal():
        raise BadDrop("foreign_drop", f"kind {kind!r}, job {job!r}: a record needs WATTLEDGER_KIND and SLURM_JOB_ID")
    node, cluster = values.get("SLURMD_NODENAME", ""), values.get("SLURM_CLUSTER_NAME", "")
    if node and not site.is_here(node):
        raise BadDrop("other_node", f"job {job}: SLURMD_NODENAME {node!r} is not this node: if it is, add the alias")
    if not site.is_ours(cluster):
        return None
    restarts, uid = values.get("SLURM_JOB_RESTART_COUNT", ""), values.get("SLURM_JOB_UID", "")
    comments = (values.get("SLURM_JOB_COMMENT", ""), values.get("SLURM_JOB_EXTRA", ""))
    tenant, model = site.tags(int(uid) if uid.isdecimal() else None, *comments)
    cpus = _UNIFORM_CPUS.fullmatch(values.get("SLURM_JOB_CPUS_PER_NODE", ""))
    sharing = values.get("SLURM_JOB_OVERSUBSCRIBE", "")
    return Fact(
        kind, job, event_us(values.get("WATTLEDGER_AT", ""), received_us), cluster,
        attempt=whole_number(restarts),
        sluid=values.get("SLURM_JOB_SLUID", ""),
        start_us=_epoch_us(values.get("SLURM_JOB_START_TIME", "")),
        held=drop_held(values, site),
        cpus=int(cpus.group(1)) if cpus else None,
        account=values.get("SLURM_JOB_ACCOUNT", ""),
        user=values.get("SLURM_JOB_USER", ""),
        tenant_tag=tenant,
        model_tag=model,
        exclusive=sharing.upper() in ("NO", "EXCLUSIVE") if sharing else None,
        file=file,
    )  # fmt: skip


def event_us(text: str, received_us: int) -> int:
    """`date +%s%N`, or whole seconds where the machine's date has no more: then `received_us`, if it lies within two
    seconds of them, has the fraction."""
    if text.isdecimal() and len(text) > 15:
        return int(text) // 1000
    if not text.isdecimal() or int(text) == 0:
        return received_us
    second_us = int(text) * US_PER_S
    return received_us if second_us <= received_us < second_us + 2 * US_PER_S else second_us


def drop_held(values: dict[str, str], site: SlurmSite) -> tuple[Held, ...]:
    """Devices by UUID where the environment has them, else by SLURM's global numbers; a bare number of
    CUDA_VISIBLE_DEVICES counts in a view that nobody knows. A job without any of them holds no GPU."""
    lists = [values.get(name, "") for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")]
    visible = list(dict.fromkeys(ref for text in lists for ref in visible_devices(text)))
    refs = [ref for ref in visible if ref.by in (BY_UUID, BY_MIG_UUID)]
    refs = refs or _numbered(values.get("SLURM_JOB_GPUS", ""), site) or visible
    percent = values.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "")
    if percent.isdecimal() and 0 < int(percent) <= 100:
        return tuple(Held(ref, int(percent), 100, "mps") for ref in refs)
    return tuple(Held(ref) for ref in refs)


def _numbered(text: str, site: SlurmSite) -> list[DeviceRef]:
    if not text:
        return []
    numbers = number_list(text)
    if numbers is not None:
        return [site.numbers.ref(number) for number in dict.fromkeys(numbers)]
    words = [word.strip() for word in text.split(",")]
    return [named_device(word) or DeviceRef(BY_UNKNOWN, word) for word in words if word]


def _epoch_us(text: str) -> int | None:
    is_told = text.isdecimal() and len(text) <= 11 and text not in NO_TIMES
    return int(text) * US_PER_S if is_told and int(text) > 0 else None

"""The fleet as a plain list of hosts: lines such as `gpu[01-16] H100 8` (host list, GPU model, GPUs a node)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.mig_profile import slices_of_model
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FLEET, FleetNode
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.source import TEXT, Source, text_lines
from wattledger_audit.intake.usage_claim import names_a_gpu

_HEAD_LINES = 40
_HOSTS = re.compile(r"[A-Za-z0-9][\w.\-]*(?:\[[\d,\-:]+\][\w.\-]*)*(?:,[A-Za-z0-9][\w.\-]*(?:\[[\d,\-:]+\][\w.\-]*)*)*")
_COUNT_LAST = re.compile(r"(?P<model>.*?)\s*(?<![A-Za-z\d-])[x×]?\s*(?P<gpus>\d{1,3})")
_COUNT_FIRST = re.compile(r"(?P<gpus>\d{1,3})\s*[x×]\s*(?P<model>\S.*)")
_TITLES = frozenset({"node", "nodes", "host", "hosts", "hostname", "hostnames", "nodename", "name"})


class _Line(NamedTuple):
    """A line taken apart; `gpus` None: it does not say how many."""

    hosts: str
    gpu_model: str
    gpus: int | None


def detect(source: Source) -> Detection | None:
    """Every line starts with a host list, and some have ranges in brackets or name a GPU."""
    if source.kind != TEXT:
        return None
    lines = [bare for text in source.head.splitlines()[:_HEAD_LINES] if (bare := _bare(text))]
    parts = [found for line in lines if (found := _taken_apart(line))]
    if not lines or len(parts) != len(lines):
        return None
    ranges = sum("[" in part.hosts for part in parts)
    named = sum(part.gpus is not None and names_a_gpu(part.gpu_model) for part in parts)
    if not ranges and not named:
        return None
    return Detection(55 if named else 35, f"list of hosts: {ranges} ranges, {named} lines with GPU model and count")


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[FleetNode]:
    """Nodes in file order, active and in service all the time. A node that comes again is rejected; so is a line that
    does not say how many GPUs its nodes have."""
    seen: set[str] = set()
    for number, text in enumerate(text_lines(source), 1):
        bare = _bare(text)
        if not bare or (number == 1 and bare.lower() in _TITLES):
            continue
        line = _taken_apart(bare)
        if line is None:
            rejections.add(source.name, number, "node", bare, "bad_node: no host list; write it as gpu[01-16] H100 8")
            continue
        if line.gpus is None:
            reason = "no_gpus: how many GPUs a node has is not said; write it after the name, as gpu[01-16] H100 8"
            rejections.add(source.name, number, "gpus", bare, reason)
            continue
        for node in expand_hostlist(line.hosts):
            if node in seen:
                rejections.add(
                    source.name, number, "node", node, "node_twice: a line above has this node; leave one out"
                )
                continue
            seen.add(node)
            yield FleetNode(
                number, node, options.cluster or "", "", line.gpu_model, line.gpus, slices_of_model(line.gpu_model),
                None, None, "active", None, None, (), (),
            )  # fmt: skip


def _bare(text: str) -> str:
    return text.partition("#")[0].strip()


def _taken_apart(bare: str) -> _Line | None:
    hosts, _, rest = bare.replace("\t", " ").partition(" ")
    if not _HOSTS.fullmatch(hosts) or "," in rest or ";" in rest:
        return None
    try:
        expand_hostlist(hosts)
    except BadHostlist:
        return None
    rest = rest.strip()
    if not rest:
        return _Line(hosts, "", None)
    found = _COUNT_FIRST.fullmatch(rest) or _COUNT_LAST.fullmatch(rest)
    if found is None:
        return _Line(hosts, rest, None)
    return _Line(hosts, found["model"].strip(), int(found["gpus"]))


HOST_LIST = Importer("host list", FLEET, detect, read)

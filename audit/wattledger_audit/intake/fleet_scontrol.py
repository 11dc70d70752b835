"""`scontrol show node` (`-o` too) as fleet nodes. Node states are of one moment there, so they are not read."""

import re
from collections.abc import Iterator

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.mig_profile import slices_of_model
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FLEET, FleetNode, Record
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.scontrol_blocks import Block, blocks, said
from wattledger_audit.intake.slurm_installed import Installed, installed_gpus
from wattledger_audit.intake.slurm_tres import memory_bytes, parse_gres, parse_tres
from wattledger_audit.intake.source import TEXT, Source, text_lines

_NODE = re.compile(r"^NodeName=\S+ .*?(?:Arch|CPUAlloc|CPUTot|CoresPerSocket)=", re.MULTILINE | re.DOTALL)


def detect(source: Source) -> Detection | None:
    """Blocks that begin with NodeName= and go on with SLURM's node keys."""
    if source.kind == TEXT and _NODE.search(source.head):
        return Detection(96, "blocks of NodeName=… with SLURM's node keys, as scontrol show node writes them")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Each node that has GPUs, in file order, as in service at all times: the output is of one moment.

    A node with several GPU models comes once for each; its CPUs and memory are with the first."""
    seen: set[str] = set()
    for block in blocks(text_lines(source), "NodeName"):
        node = said(block, "nodename")
        if node in seen:
            reason = "duplicate_row: the node stands earlier in the file; the first counts"
            rejections.add(source.name, block.line, "NodeName", node, reason)
            continue
        seen.add(node)
        found = installed_gpus(parse_gres(said(block, "gres")), parse_tres(said(block, "cfgtres")))
        if not found:
            reason = "node_without_gpus: Gres and CfgTRES name none; it takes no part in GPU capacity"
            rejections.add(source.name, block.line, "Gres", node, reason)
        for index, installed in enumerate(found):
            yield _fleet_node(block, node, installed, options.cluster or "", first=index == 0)


def _fleet_node(block: Block, node: str, installed: Installed, cluster: str, first: bool) -> FleetNode:
    cpus, memory = said(block, "cputot"), said(block, "realmemory")
    return FleetNode(
        line=block.line,
        node=node,
        cluster=cluster,
        site="",
        gpu_model=installed.gpu_model,
        gpus=installed.gpus,
        slices=slices_of_model(installed.gpu_model),
        start_us=None,
        end_us=None,
        status="active",
        cpus=(int(cpus) if first else 0) if cpus.isdecimal() else None,
        memory_bytes=(memory_bytes(memory) if first else 0) if memory.isdecimal() else None,
        partitions=tuple(part for part in said(block, "partitions").split(",") if part),
        devices=(),
    )


IMPORTERS: tuple[Importer, ...] = (Importer("scontrol-nodes", FLEET, detect, read),)

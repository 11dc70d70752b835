"""`scontrol show node`: the physical GPUs that nodes have, whatever way SLURM counts them."""

from pathlib import Path

import pytest
from wattledger_audit.intake.fleet_scontrol import IMPORTERS
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FleetNode
from wattledger_audit.intake.source import open_source

from tests.sacct_reading import read_text

(NODES,) = IMPORTERS
NODE = """\
NodeName=gpu01 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=128 CPUTot=128 CPULoad=0.01
   AvailableFeatures=a100,ib
   Gres={gres}
   NodeAddr=gpu01 NodeHostName=gpu01 Version=24.05.1
   OS=Linux 5.14.0 #1 SMP PREEMPT_DYNAMIC
   RealMemory=1031000 AllocMem=0 FreeMem=900000 Sockets=2 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu,debug
   BootTime=2026-09-01T00:00:00 SlurmdStartTime=2026-09-01T00:01:00
   CfgTRES=cpu=128,mem=1031000M,billing=128,gres/gpu=8
   AllocTRES=
   Reason=bad dimm A=1 [root@2026-09-30T00:00:00]

"""


@pytest.mark.parametrize(
    ("gres", "model", "gpus", "slices"),
    [
        ("gpu:a100:8(S:0-1)", "a100", 8, 7),
        ("gpu:8", "", 8, 1),
        ("gpu:(null):4", "", 4, 1),
        ("(null)", "", 8, 1),
        ("gpu:a100_3g.20gb:14(S:0-1)", "a100", 7, 7),
        ("gpu:a100_1g.5gb:7(S:0)", "a100", 1, 7),
        ("gpu:a100_4g.20gb:1,gpu:a100_3g.20gb:1", "a100", 1, 7),
        ("gpu:a30_2g.12gb:4", "a30", 2, 4),
    ],
)
def test_a_node_has_its_physical_gpus(tmp_path: Path, gres: str, model: str, gpus: int, slices: int) -> None:
    read_back = read_text(NODES, tmp_path, NODE.format(gres=gres))
    assert read_back.records == [
        FleetNode(
            line=1, node="gpu01", cluster="", site="", gpu_model=model, gpus=gpus, slices=slices, start_us=None,
            end_us=None, status="active", cpus=128, memory_bytes=1_031_000 << 20, partitions=("gpu", "debug"),
            devices=(),
        )
    ]  # fmt: skip


def test_several_models_on_one_node_come_once_each(tmp_path: Path) -> None:
    records = read_text(NODES, tmp_path, NODE.format(gres="gpu:a100:4(S:0),gpu:v100:2(S:1)")).records
    found = [(node.gpu_model, node.gpus, node.cpus) for node in records if isinstance(node, FleetNode)]
    assert found == [("a100", 4, 128), ("v100", 2, 0)]


def test_one_line_output_repeats_and_cpu_nodes(tmp_path: Path) -> None:
    line = " ".join(NODE.format(gres="gpu:h100:8(S:0-1)").split("\n")).strip()
    cpu = "NodeName=cpu01 Arch=x86_64 CPUTot=64 Gres=(null) CfgTRES=cpu=64,mem=1G"
    read_back = read_text(NODES, tmp_path, f"{line}\n{line}\n{cpu}\n", ReadOptions(cluster="alpha"))
    assert [(node.cluster, node.gpus) for node in read_back.records if isinstance(node, FleetNode)] == [("alpha", 8)]
    assert [(line, code) for line, _, _, code in read_back.rejected] == [(2, "duplicate_row"), (3, "node_without_gpus")]


@pytest.mark.parametrize(
    ("text", "score"),
    [(NODE.format(gres="gpu:1"), 96), ("NodeName|State\n", None), ("ReservationName=a StartTime=1\n", None)],
)
def test_scontrol_nodes_are_recognised(tmp_path: Path, text: str, score: int | None) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    found = NODES.detect(open_source(path))
    assert (None if found is None else found.score) == score

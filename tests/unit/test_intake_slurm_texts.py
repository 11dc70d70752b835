"""SLURM's texts: host lists, TRES and GRES, MIG types, states, reasons, plans, job ids."""

import pytest
from wattledger_audit.intake.slurm_gpus import GpuHold, hold_gpus
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.slurm_job_id import is_job_id, waiting_tasks
from wattledger_audit.intake.slurm_mig import GpuType, gpu_type
from wattledger_audit.intake.slurm_node_state import node_state
from wattledger_audit.intake.slurm_state import is_exclusive, plan_of_qos, state_word, waits_for
from wattledger_audit.intake.slurm_tres import NO_TRES, Tres, memory_bytes, parse_gres, parse_tres

GB = 1024**3


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[01-04,07],gpu-a", "n01 n02 n03 n04 n07 gpu-a"),
        ("n[1-3]x[0-1]", "n1x0 n1x1 n2x0 n2x1 n3x0 n3x1"),
        ("gpu-001", "gpu-001"),
        ("n[8-11]", "n8 n9 n10 n11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("rack[1-2]n[01,03]-ib", "rack1n01-ib rack1n03-ib rack2n01-ib rack2n03-ib"),
        ("[1-2]", "1 2"),
        ("a,b[1],c", "a b1 c"),
        ("None assigned", ""),
        ("", ""),
    ],
)
def test_a_host_list_is_its_names_in_order_with_their_padding(text: str, hosts: str) -> None:
    assert expand_hostlist(text) == tuple(hosts.split())


@pytest.mark.parametrize(
    "text", ["n[01-04,07", "n[1-[2-3]]", "n[4-1]", "n[a-b]", "n[1-99999999]", "a,,b", "n1]", "a b"]
)
def test_what_is_no_host_list_is_said_to_be_none(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand_hostlist(text)


@pytest.mark.parametrize(
    ("text", "tres"),
    [
        (
            "billing=10,cpu=10,gres/gpu=1,gres/gpu:a100=1,mem=100G,node=1",
            Tres(10, 100 * GB, 1, (("a100", 1),)),
        ),
        ("gres/gpu:a100=1,gres/gpu:v100=4", Tres(types=(("a100", 1), ("v100", 4)))),
        ("billing=80,cpu=8,energy=123,gres/gpu=0,mem=320.5G", Tres(8, 320 * GB + GB // 2, 0)),
        ("cpu=2,mem=512M,node=", Tres(2, 512 * 1024**2, cut=True)),
        ("gres/shard=5,cpu=1", Tres(cpus=1, shared="shard")),
        ("gres/mps:a100=50", Tres(shared="mps")),
        ("gres/gpumem=36266M,gres/gpuutil=100", NO_TRES),
        ("1=4,2=2048,4=1,1001=2", Tres(4, 2 * GB, cut=True)),
        ("", NO_TRES),
    ],
)
def test_tres_counts(text: str, tres: Tres) -> None:
    assert parse_tres(text) == tres


@pytest.mark.parametrize(
    ("text", "gpus", "types"),
    [
        ("gpu:2", 2, ()),
        ("gpu", 1, ()),
        ("gpu:a100:2(IDX:0-1)", None, (("a100", 2),)),
        ("gpu:a100:2(IDX:0-1),gpu:v100:3(IDX:0,2-3)", None, (("a100", 2), ("v100", 3))),
        ("gpu:(null):2", 2, ()),
        ("gpu:(null):2(IDX:0-1)", 2, ()),
        ("gpu:titanrtx:0", None, (("titanrtx", 0),)),
        ("gpu:a100:0(IDX:N/A)", None, (("a100", 0),)),
        ("gres:gpu:1", 1, ()),
        ("gres/gpu=3", 3, ()),
        ("gpu:2,craynetwork:1", 2, ()),
        ("craynetwork:1", None, ()),
        ("N/A", None, ()),
        ("", None, ()),
    ],
)
def test_old_gres_counts(text: str, gpus: int | None, types: tuple[tuple[str, int], ...]) -> None:
    tres = parse_gres(text)
    assert (tres.gpus, tres.types, tres.cut) == (gpus, types, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a100", GpuType("a100", 1, 1)),
        ("a100_3g.20gb", GpuType("a100", 3, 7)),
        ("nvidia_a100-sxm4-40gb_1g.5gb", GpuType("a100-sxm4-40gb", 1, 7)),
        ("h100_7g.80gb", GpuType("h100", 7, 7)),
        ("1g.5gb", GpuType("A100", 1, 7)),
        ("a30_2g.12gb", GpuType("a30", 2, 4)),
        ("1g.6gb", GpuType("A30", 1, 4)),
        ("(null)", GpuType("", 1, 1)),
        ("1g.24gb", GpuType("1g.24gb", 1, 1, known=False)),
        ("rtx3090", GpuType("rtx3090", 1, 1)),
    ],
)
def test_a_gpu_type_says_model_and_share(text: str, expected: GpuType) -> None:
    assert gpu_type(text) == expected


@pytest.mark.parametrize(
    ("allocated", "others", "started", "tracked", "holds"),
    [
        ("gres/gpu=8,gres/gpu:a100=8", "", True, True, [GpuHold("a100", "a100", 8)]),
        ("gres/gpu=2", "", True, True, [GpuHold("untyped", "", 2)]),
        ("gres/gpu:a100=1,gres/gpu:v100=4", "", True, True, [GpuHold("a100", "a100", 1), GpuHold("v100", "v100", 4)]),
        ("gres/gpu=4,gres/gpu:a100=1", "", True, True, [GpuHold("a100", "a100", 1), GpuHold("untyped", "", 3)]),
        ("gres/gpu=1,gres/gpu:a100=2", "", True, True, [GpuHold("a100", "a100", 1, marks=("gpu_types_disagree",))]),
        ("gres/gpu=2,gres/gpu:a100_3g.20gb=2", "", True, True, [GpuHold("a100_3g.20gb", "a100", 2, 3, 7)]),
        ("gres/gpu=0", "gpu:4", True, True, [GpuHold("", "", 0)]),
        ("cpu=4", "", True, True, [GpuHold("", "", 0)]),
        ("cpu=4", "", True, False, [GpuHold("", "", None)]),
        (
            "cpu=192",
            "gpu:h100:5(IDX:0-4)",
            True,
            False,
            [GpuHold("h100", "h100", 5, marks=("gpus_from_gres_used",))],
        ),
        ("", "gpu:2", False, True, [GpuHold("untyped", "", 2)]),
        ("cpu=1,gres/shard=5", "", True, True, [GpuHold("", "", None, marks=("shard_share_unknown",))]),
        ("gres/gpu=0,gres/shard=5", "", True, True, [GpuHold("", "", None, marks=("shard_share_unknown",))]),
        ("gres/gpu=1,gres/shard=5", "", True, True, [GpuHold("untyped", "", 1)]),
        ("cpu=2,mem=512M,node=", "", True, True, [GpuHold("", "", None, marks=("tres_cut",))]),
        ("cpu=2", "gpu:titanrtx:0", True, True, [GpuHold("titanrtx", "titanrtx", 0)]),
    ],
)
def test_gpus_are_counted_once_whatever_column_names_them(
    allocated: str, others: str, started: bool, tracked: bool, holds: list[GpuHold]
) -> None:
    assert list(hold_gpus(parse_tres(allocated), [parse_gres(others)], started, tracked)) == holds


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("COMPLETED", "COMPLETED"),
        ("CANCELLED by 1060117917", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("CD", "COMPLETED"),
        ("RUNNING", "RUNNING"),
        ("COMPLET+", None),
        ("123", None),
        ("", None),
    ],
)
def test_a_state_is_one_word(text: str, word: str | None) -> None:
    assert state_word(text) == word


@pytest.mark.parametrize(
    ("reason", "waiting"),
    [
        ("Priority", ""),
        ("(Resources)", ""),
        ("None", ""),
        ("Dependency", "Dependency"),
        ("JobHeldUser", "JobHeldUser"),
        ("QOSMaxGRESPerUser", "QOSMaxGRESPerUser"),
        ("AssocGrpGRES", "AssocGrpGRES"),
    ],
)
def test_only_turn_and_free_nodes_are_no_reason_to_wait(reason: str, waiting: str) -> None:
    assert waits_for(reason) == waiting


@pytest.mark.parametrize(
    ("qos", "plan"),
    [
        ("on-demand", "on_demand"),
        ("Reserved", "reserved"),
        ("gpu_preemptible", "spot"),
        ("spot", "spot"),
        ("normal", ""),
        ("spotlight", ""),
        ("", ""),
    ],
)
def test_a_qos_is_a_plan_only_where_it_names_one(qos: str, plan: str) -> None:
    assert plan_of_qos(qos) == plan


@pytest.mark.parametrize(
    ("exclusive", "oversubscribe", "expected"),
    [("yes", "", True), ("", "NO", True), ("", "OK", False), ("", "", False), ("0", "YES", False)],
)
def test_exclusive_is_what_slurm_shows_for_it(exclusive: str, oversubscribe: str, expected: bool) -> None:
    assert is_exclusive(exclusive, oversubscribe) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("62.50G", 62 * GB + GB // 2), ("512", 512 * 1024**2), ("1.5T", 1536 * GB), ("3000Mc", 3000 * 1024**2)],
)
def test_memory_is_bytes(text: str, expected: int) -> None:
    assert memory_bytes(text) == expected


@pytest.mark.parametrize(
    "text",
    ["123", "123_4", "123_[1-3,7%2]", "123+0", "123.batch", "123_4.0", "67108865", "123_[1,3,5,...]", "9+1.extern"],
)
def test_these_are_job_ids(text: str) -> None:
    assert is_job_id(text)


@pytest.mark.parametrize("text", ["", "job", "12a", "2022-07-05T16:19:59", "1:2", "5G", "cpu=1"])
def test_these_are_no_job_ids(text: str) -> None:
    assert not is_job_id(text)


@pytest.mark.parametrize(
    ("job", "tasks", "cut"),
    [
        ("123_[1-3,7%2]", "123_1 123_2 123_3 123_7", False),
        (
            "4103947_[9-11,13,16-20]",
            "4103947_9 4103947_10 4103947_11 4103947_13 4103947_16 4103947_17 4103947_18 4103947_19 4103947_20",
            False,
        ),
        ("7_[0-8:4]", "7_0 7_4 7_8", False),
        ("7_[1,3,5,...]", "7_[1,3,5,...]", True),
        ("7_[1-", "7_[1-", True),
        ("7_[0-999999999]", "7_[0-999999999]", True),
    ],
)
def test_a_pending_array_record_stands_for_its_tasks(job: str, tasks: str, cut: bool) -> None:
    waiting = waiting_tasks(job)
    assert (waiting.tasks, waiting.cut) == (tuple(tasks.split()), cut)


def test_a_throttle_limits_how_many_run_and_not_how_many_wait() -> None:
    assert len(waiting_tasks("123456_[9201-10000%500]").tasks) == 800


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("DOWN*", "failed"),
        ("DOWN", "failed"),
        ("FAIL", "failed"),
        ("IDLE*", "failed"),
        ("DRAINED", "draining"),
        ("DRAINED*", "failed"),
        ("IDLE+DRAIN", "draining"),
        ("DOWN+DRAIN", "failed"),
        ("MAINT", "maintenance"),
        ("DOWN+MAINT", "maintenance"),
        ("IDLE$", "maintenance"),
        ("UNKNOWN", "failed"),
        ("POWERED_DOWN", None),
        ("RESERVED", None),
        ("IDLE", None),
    ],
)
def test_node_states_are_the_cores(said: str, state: str | None) -> None:
    assert node_state(said) == state

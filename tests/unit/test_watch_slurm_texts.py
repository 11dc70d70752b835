"""SLURM's texts one by one: host lists, TRES and GRES, positions as devices, stamps, states."""

import pytest
from wattledger_agent.watchers.run import BY_INDEX, BY_MIG_UUID, BY_MINOR, BY_UNKNOWN, BY_UUID, DeviceRef, Held
from wattledger_agent.watchers.slurm_device import (
    GresNumbers,
    held_of_gres,
    mig_profile,
    spread,
    unknown_devices,
    visible_devices,
)
from wattledger_agent.watchers.slurm_gres import GresItem, gpus_here, memory_bytes, number_list, parse_gres, parse_tres
from wattledger_agent.watchers.slurm_hostlist import BadHostlist, expand_hostlist, find_node
from wattledger_agent.watchers.slurm_site import SlurmSite
from wattledger_agent.watchers.slurm_state import plan_of_qos, state_of, state_word
from wattledger_agent.watchers.slurm_time import BadStamp, Stamps, duration_us

S = 1_000_000


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu-a", ["gpu-a"]),
        ("n[01-04,07],gpu-a", ["n01", "n02", "n03", "n04", "n07", "gpu-a"]),
        ("rack[1-2]n[08-10]", ["rack1n08", "rack1n09", "rack1n10", "rack2n08", "rack2n09", "rack2n10"]),
        ("None assigned", []),
        ("(null)", []),
        ("", []),
    ],
)
def test_a_host_list_stands_for_these_names(text: str, names: list[str]) -> None:
    assert list(expand_hostlist(text)) == names


@pytest.mark.parametrize(
    "text", ["n[01-04", "n[4-1]", "n[a-b]", "n[1-99999999]", "n 1", "n[[1]]", "a,,b", "n[1-300]m[1-300]"]
)
def test_a_host_list_that_was_cut_or_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand_hostlist(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n[1-3]", (1, 3)),
        ("N[1-3]", (1, 3)),
        ("n2.site.org,n9", (0, 2)),
        ("n[10-20]", (None, 11)),
        ("None assigned", (None, 0)),
    ],
)
def test_this_node_is_found_whatever_the_case_and_domain(text: str, found: tuple[int | None, int]) -> None:
    assert find_node(text, frozenset({"n2"})) == found


@pytest.mark.parametrize(
    ("case", "text", "gpus"),
    [
        ("A9", "billing=10,cpu=10,gres/gpu=1,gres/gpu:a100=1,mem=100G,node=1", 1),
        ("A9", "gres/gpu:a100=2,gres/gpu:v100=2", 4),
        ("A9", "gres/gpu:h100=3,gres/gpu:l40s=1,cpu=10,node=2,gres/gpu=4", 4),
        ("A10", "cpu=192,mem=800G,billing=192", None),
        ("A11", "cpu=2,mem=512M,node=", None),
        ("A11", "cpu=1,mem=1G,node=1,billing=1,gres/gpu=1", 1),
        ("A12", "gres/gpu:titanrtx=0", 0),
        ("MIG", "cpu=4,gres/gpu:a100_3g.20gb=2,gres/gpu=2", 2),
        ("blank", "", None),
    ],
)  # fmt: skip
def test_a_tres_text_counts_so_many_gpus(case: str, text: str, gpus: int | None) -> None:
    assert parse_tres(text).gpu_count == gpus, case


def test_a_tres_text_tells_cpus_and_memory() -> None:
    tres = parse_tres("cpu=8,mem=62.50G,node=2")
    assert (tres.cpus, tres.memory_bytes) == (8, 67_108_864_000)
    assert memory_bytes("2147486648Mn") == 2_147_486_648 << 20
    assert memory_bytes("0n") == 0
    assert [memory_bytes(text) for text in ("100Mcd", "x", "")] == [None, None, None]


@pytest.mark.parametrize(
    ("case", "text", "is_alone", "is_tracked", "gpus"),
    [
        ("one node", "gres/gpu=2,node=1", True, True, 2),
        ("the total of several nodes says nothing of one", "gres/gpu=16,node=2", False, True, None),
        ("none on several nodes is none on each", "gres/gpu=0,node=2", False, True, 0),
        ("A10: not tracked", "cpu=192,node=1", True, False, None),
        ("A10: tracked, so none", "cpu=192,node=1", True, True, 0),
        ("shards are a part that nobody counts as a GPU", "cpu=1,gres/shard=4,node=1", True, True, None),
        ("cut", "cpu=2,mem=512M,node=", True, True, None),
    ],
)  # fmt: skip
def test_gpus_of_this_node_are_known_or_unknown(
    case: str, text: str, is_alone: bool, is_tracked: bool, gpus: int | None
) -> None:
    assert gpus_here(parse_tres(text), is_alone, is_tracked) == gpus, case


@pytest.mark.parametrize(
    ("case", "text", "items"),
    [
        ("plain", "gpu:2", [GresItem("gpu", "", 2)]),
        ("old", "gres:gpu:1", [GresItem("gpu", "", 1)]),
        ("positions", "gpu:a100:4(IDX:0-1,3-4)", [GresItem("gpu", "a100", 4, (0, 1, 3, 4))]),
        ("A12", "gpu:(null):2", [GresItem("gpu", "", 2)]),
        ("A12", "gpu:(null):2(IDX:0-1)", [GresItem("gpu", "", 2, (0, 1))]),
        ("A12", "gpu:titanrtx:0", [GresItem("gpu", "titanrtx", 0)]),
        ("none used", "gpu:a100:0(IDX:N/A)", [GresItem("gpu", "a100", 0, ())]),
        ("sockets", "gpu:a100:4(S:0-1)", [GresItem("gpu", "a100", 4)]),
        ("MIG", "gpu:a100_3g.20gb:1(IDX:2)", [GresItem("gpu", "a100_3g.20gb", 1, (2,))]),
        ("two types", "gpu:a100:1(IDX:0),gpu:v100:1(IDX:3)",
         [GresItem("gpu", "a100", 1, (0,)), GresItem("gpu", "v100", 1, (3,))]),
        ("shards", "shard:8(-/5,5/5,3/5,0/5)", [GresItem("shard", "", 8, None, (None, (5, 5), (3, 5), (0, 5)))]),
        ("others", "nic:2,gpu:1,craynetwork:1", [GresItem("gpu", "", 1)]),
        ("A11", "N/A", []),
        ("blank", "", []),
    ],
)  # fmt: skip
def test_a_gres_text_has_these_entries(case: str, text: str, items: list[GresItem]) -> None:
    assert list(parse_gres(text) or ()) == items, case


@pytest.mark.parametrize("text", ["gpu:a100:x(IDX:0)", "gpu:1(IDX:a)", "gpu:1(IDX:0-99999)", "gpu:1(IDX:3-1)", "((gpu"])
def test_a_gres_text_that_cannot_be_read_is_unknown_and_not_none(text: str) -> None:
    assert parse_gres(text) is None


def test_number_lists() -> None:
    assert number_list("0-1,3") == (0, 1, 3)
    assert [number_list(text) for text in ("", "a", "3-1", "0-5000", "GPU-1")] == [None] * 5


NUMBERS = GresNumbers()


@pytest.mark.parametrize(
    ("case", "text", "shards", "held"),
    [
        ("B1 minor", "gpu:2(IDX:0-1)", None, [Held(DeviceRef(BY_MINOR, "0")), Held(DeviceRef(BY_MINOR, "1"))]),
        ("a count alone is never made into positions", "gpu:a100:2", None,
         [Held(DeviceRef(BY_UNKNOWN, "gpu:a100#0")), Held(DeviceRef(BY_UNKNOWN, "gpu:a100#1"))]),
        ("B11 a MIG position is no minor of a card", "gpu:a100_1g.5gb:1(IDX:5)", None,
         [Held(DeviceRef(BY_UNKNOWN, "gres:a100_1g.5gb#5"))]),
        ("A12", "gpu:titanrtx:0", None, []),
        ("shards by GPU", "shard:8(-/5,5/5,3/5,0/5)", None,
         [Held(DeviceRef(BY_MINOR, "1"), 5, 5, "time_sliced"), Held(DeviceRef(BY_MINOR, "2"), 3, 5, "time_sliced")]),
        ("shards at a position, capacity known", "shard:2(IDX:1)", 8,
         [Held(DeviceRef(BY_MINOR, "1"), 2, 8, "time_sliced")]),
        ("shards at a position, capacity unknown", "shard:2(IDX:1)", None,
         [Held(DeviceRef(BY_MINOR, "1"), None, None, "time_sliced")]),
        ("shards over two GPUs sum to their count", "shard:3(IDX:0-1)", 4,
         [Held(DeviceRef(BY_MINOR, "0"), 3, 8, "time_sliced"), Held(DeviceRef(BY_MINOR, "1"), 3, 8, "time_sliced")]),
        ("mps", "mps:50(50/100)", None, [Held(DeviceRef(BY_MINOR, "0"), 50, 100, "mps")]),
    ],
)  # fmt: skip
def test_gres_entries_hold_these_devices(case: str, text: str, shards: int | None, held: list[Held]) -> None:
    assert list(held_of_gres(parse_gres(text) or (), NUMBERS, shards)) == held, case


def test_b1_a_position_is_what_the_site_says_it_is() -> None:
    order = [
        "/dev/nvidia4", "/dev/dri/renderD129",
        "/dev/nvidia1,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22",
        "MIG-5a", "GPU-1f", "/dev/odd",
    ]  # fmt: skip
    by_files = GresNumbers(order)
    assert [by_files.ref(at) for at in range(7)] == [
        DeviceRef(BY_MINOR, "4"), DeviceRef(BY_MINOR, "129"), DeviceRef(BY_MINOR, "nvidia-cap22"),
        DeviceRef(BY_MIG_UUID, "MIG-5a"), DeviceRef(BY_UUID, "GPU-1f"), DeviceRef(BY_UNKNOWN, "/dev/odd"),
        DeviceRef(BY_UNKNOWN, "gres#6"),
    ]  # fmt: skip
    assert GresNumbers("index").ref(3) == DeviceRef(BY_INDEX, "3")
    assert GresNumbers("minor").ref(3) == DeviceRef(BY_MINOR, "3")
    with pytest.raises(ValueError, match="minor, index, or a list"):
        GresNumbers("cuda")


@pytest.mark.parametrize(
    ("case", "text", "refs"),
    [
        ("B3, B7: a number of CUDA's is of nobody knows which space", "0,1", [(BY_UNKNOWN, "0"), (BY_UNKNOWN, "1")]),
        ("B4 env_uuid", "GPU-8a5f,GPU-11c2", [(BY_UUID, "GPU-8a5f"), (BY_UUID, "GPU-11c2")]),
        ("B8 MIG", "MIG-de2d", [(BY_MIG_UUID, "MIG-de2d")]),
        ("B8 MIG of R450", "MIG-GPU-8a5f/7/0", [(BY_MIG_UUID, "MIG-GPU-8a5f/7/0")]),
        ("MIG named by its card", "GPU-8a5f/7/0", [(BY_MIG_UUID, "GPU-8a5f/7/0")]),
        ("AMD", "GPU-ff0123456789abcd", [(BY_UUID, "GPU-ff0123456789abcd")]),
        ("none", "NoDevFiles", []),
        ("none", "-1", []),
        ("blank", "", []),
    ],
)
def test_visible_devices_are_known_by_uuid_only(case: str, text: str, refs: list[tuple[str, str]]) -> None:
    assert [(ref.by, ref.value) for ref in visible_devices(text)] == refs, case


def test_mig_profiles_in_types() -> None:
    assert mig_profile("a100_3g.20gb") == "3g.20gb"
    assert mig_profile("1g.10gb+me") == "1g.10gb+me"
    assert mig_profile("nvidia_h100_80gb_hbm3_2g.20gb") == "2g.20gb"
    assert [mig_profile(kind) for kind in ("a100", "h100_80gb", "")] == ["", "", ""]


def test_what_a_job_took_on_the_node_is_spread_without_rest() -> None:
    held = spread(unknown_devices(3, "a100"), 8, 100)
    assert [(one.cpus, one.memory_bytes) for one in held] == [(2, 33), (3, 33), (3, 34)]
    assert [one.cpus for one in spread(unknown_devices(2, ""), None, None)] == [None, None]


UTC_STAMPS, BERLIN = Stamps(), Stamps("Europe/Berlin")


@pytest.mark.parametrize(
    ("case", "stamps", "text", "moment_us"),
    [
        ("epoch", UTC_STAMPS, "1790769600", 1_790_769_600 * S),
        ("offset without a colon", UTC_STAMPS, "2022-11-01T12:58:39+0100", 1_667_303_919 * S),
        ("offset with one", UTC_STAMPS, "2022-11-01T12:58:39+01:00", 1_667_303_919 * S),
        ("UTC", UTC_STAMPS, "2022-11-01T11:58:39Z", 1_667_303_919 * S),
        ("A22 summer is +02:00", BERLIN, "2025-09-07T22:16:06", 1_757_276_166 * S),
        ("winter is +01:00", BERLIN, "2025-12-07T22:16:06", 1_765_142_166 * S),
        ("A1", UTC_STAMPS, "None", None),
        ("A2", UTC_STAMPS, "Unknown", None),
        ("A1", UTC_STAMPS, "Partition_Limit", None),
        ("unset", UTC_STAMPS, "0", None),
    ],
)  # fmt: skip
def test_a_stamp_means_this_moment(case: str, stamps: Stamps, text: str, moment_us: int | None) -> None:
    assert stamps.moment(text) == moment_us, case


@pytest.mark.parametrize(
    ("case", "stamps", "text", "reason"),
    [
        ("A23", UTC_STAMPS, "2025-09-07T22:16:06", "zone_needed"),
        ("A22 comes twice", BERLIN, "2025-10-26T02:30:00", "ambiguous_local_time"),
        ("skipped", BERLIN, "2025-03-30T02:30:00", "nonexistent_local_time"),
        ("relative", UTC_STAMPS, "Ystday 10:11", "unreadable_time"),
        ("cut", UTC_STAMPS, "####", "unreadable_time"),
        ("no date", UTC_STAMPS, "2025-13-41T00:00:00", "unreadable_time"),
    ],
)
def test_a_stamp_that_could_mean_two_things_is_refused(case: str, stamps: Stamps, text: str, reason: str) -> None:
    with pytest.raises(BadStamp) as refused:
        stamps.moment(text)
    assert refused.value.reason == reason, case
    assert text in str(refused.value) or case == "no date"


def test_a22_the_elapsed_time_tells_which_of_the_two_hours() -> None:
    first, second = 1_761_438_600 * S, 1_761_442_200 * S
    assert BERLIN.moments("2025-10-26T02:30:00") == (first, second)
    assert BERLIN.span("2025-10-26T01:30:00", "2025-10-26T02:30:00", 2 * 3600 * S) == (first - 3600 * S, second)
    assert BERLIN.span("2025-10-26T01:30:00", "2025-10-26T02:30:00", 3600 * S) == (first - 3600 * S, first)
    with pytest.raises(BadStamp):
        BERLIN.span("2025-10-26T01:30:00", "2025-10-26T02:30:00", None)


def test_durations() -> None:
    texts = ["37-14:00:00", "01:07.402", "00:20:32", "90", "INVALID", "Partition_Limit"]
    assert [duration_us(text) for text in texts] == [3_247_200 * S, 67 * S, 1232 * S, 90 * S, None, None]


def test_states_have_one_word_each() -> None:
    assert state_word("CANCELLED by 1060117917") == "CANCELLED"
    assert state_word("CANCELLED+") == "CANCELLED"
    assert [state_word(text) for text in ("OUT_OF_ME+", "CD", "NF", "")] == [
        "OUT_OF_MEMORY",
        "COMPLETED",
        "NODE_FAIL",
        "",
    ]
    assert state_of(["RUNNING"]) == "RUNNING"
    assert state_of(["COMPLETED", "COMPLETING"]) == "COMPLETING"
    assert state_of(["RUNNING", "CONFIGURING"]) == "RUNNING"
    assert state_of(["COMPLETED", "REQUEUED"]) == "REQUEUED"
    assert state_of(["PENDING", "REQUEUED"]) == "PENDING"
    assert state_of(["NEW_WORD"]) == ""


def test_a_qos_can_name_a_plan() -> None:
    assert [plan_of_qos(qos) for qos in ("preempt", "on-demand", "gpu_spot", "normal", "")] == [
        "spot", "on_demand", "spot", "", "",
    ]  # fmt: skip


def test_a_comment_tags_only_where_that_is_allowed() -> None:
    text = "note; wattledger.tenant=acme;wattledger.model=llama-70b wattledger.tenant=other"
    assert SlurmSite("n1").tags(7, text) == ("", "")
    assert SlurmSite("n1", comment_tags=True).tags(7, text) == ("acme", "llama-70b")
    some = SlurmSite("n1", comment_tags=True, tag_uids=frozenset({7}))
    assert (some.tags(7, text), some.tags(8, text), some.tags(None, text)) == (
        ("acme", "llama-70b"),
        ("", ""),
        ("", ""),
    )


def test_a_watcher_needs_the_nodes_name() -> None:
    with pytest.raises(ValueError, match="node's name"):
        SlurmSite("")

"""The fleet's files: inventory tables, host lists, reservations as tables and as scontrol prints them."""

import csv
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import xlsxwriter
from wattledger_audit.intake import fleet_inventory, fleet_reservations, usage_canonical
from wattledger_audit.intake.importer import Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FleetNode, Record, Reservation
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import open_source
from wattledger_core.interval import FOREVER_US

INVENTORY, HOST_LIST = fleet_inventory.IMPORTERS
RESERVATIONS, SLURM_RESERVATIONS = fleet_reservations.IMPORTERS
ALL = (INVENTORY, HOST_LIST, RESERVATIONS, SLURM_RESERVATIONS, *usage_canonical.IMPORTERS)
UTC = ReadOptions(timezone=ZoneInfo("UTC"))
BERLIN = ReadOptions(timezone=ZoneInfo("Europe/Berlin"))
NONE = ReadOptions()
HEADER = "node,site,gpu_model,gpus,slices,in_service_from,in_service_to,status,cpus,mem,cluster,partitions,devices"


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1_000_000


def read_path(importer: Importer, path: Path, options: ReadOptions) -> tuple[list[Record], list[dict[str, str]]]:
    rejected = path.parent / "rejected.csv"
    with Rejections.into(rejected) as rejections:
        records = list(importer.read(open_source(path), options, rejections))
    with rejected.open(newline="") as file:
        return records, list(csv.DictReader(file))


def read_text(
    importer: Importer, folder: Path, *lines: str, options: ReadOptions = NONE
) -> tuple[list[Record], list[dict[str, str]]]:
    path = folder / "fleet.csv"
    path.write_text("\n".join(lines) + "\n")
    return read_path(importer, path, options)


def nodes_of(folder: Path, *lines: str, options: ReadOptions = NONE) -> list[FleetNode]:
    records, rejected = read_text(INVENTORY, folder, *lines, options=options)
    assert rejected == []
    return [record for record in records if isinstance(record, FleetNode)]


def codes(rejected: list[dict[str, str]]) -> list[tuple[str, str]]:
    return [(each["line"], each["reason"].split(":")[0]) for each in rejected]


def test_every_column_of_an_inventory_arrives(tmp_path: Path) -> None:
    (node,) = nodes_of(
        tmp_path,
        HEADER,
        "gpu1,fra,NVIDIA H100 80GB HBM3,2,7,2026-01-01T00:00:00Z,2026-11-01T00:00:00Z,spare,128,2048G,east,a;b c,"
        "GPU-aa;GPU-bb",
    )
    assert node == FleetNode(
        line=2, node="gpu1", cluster="east", site="fra", gpu_model="NVIDIA H100 80GB HBM3", gpus=2, slices=7,
        start_us=us("2026-01-01T00:00:00+00:00"), end_us=us("2026-11-01T00:00:00+00:00"), status="spare", cpus=128,
        memory_bytes=2048 << 30, partitions=("a", "b", "c"), devices=("GPU-aa", "GPU-bb"),
    )  # fmt: skip


def test_a_node_and_its_gpus_are_enough(tmp_path: Path) -> None:
    (node,) = nodes_of(tmp_path, "Hostname;GPUs", "gpu1;8")
    assert (node.node, node.gpus, node.status, node.start_us, node.end_us) == ("gpu1", 8, "active", None, None)
    assert (node.cpus, node.memory_bytes, node.slices) == (None, None, 1)


def test_a_host_list_in_a_row_is_a_node_each(tmp_path: Path) -> None:
    nodes = nodes_of(tmp_path, "node,gpu_model,gpus", '"gpu[01-03,07]",A30,4', "x1 x2,A100,8")
    assert [(node.node, node.gpus, node.slices) for node in nodes] == [
        ("gpu01", 4, 4), ("gpu02", 4, 4), ("gpu03", 4, 4), ("gpu07", 4, 4), ("x1", 8, 7), ("x2", 8, 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "said", "slices"),
    [("H100", "", 7), ("A30", "", 4), ("L40S", "", 1), ("H200", "1", 1), ("A100", "7.0", 7), ("", "", 1)],
)
def test_slices_are_what_is_said_or_what_the_model_has(tmp_path: Path, model: str, said: str, slices: int) -> None:
    assert nodes_of(tmp_path, "node,gpu_model,gpus,slices", f"n1,{model},8,{said}")[0].slices == slices


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("active", "active"), ("In Service", "active"), ("production", "active"), ("", "active"),
        ("spare", "spare"),
        ("cold-spare", "spare"), ("repair", "repair"), ("maintenance", "repair"), ("FAILED", "repair"),
        ("RMA", "repair"),
    ],
)  # fmt: skip
def test_a_status_is_active_spare_or_repair(tmp_path: Path, word: str, status: str) -> None:
    assert nodes_of(tmp_path, "node,gpus,status", f"n1,8,{word}")[0].status == status


@pytest.mark.parametrize("word", ["decommissioned", "Retired", "sold", "removed"])
def test_a_machine_that_left_service_was_active_until_then(tmp_path: Path, word: str) -> None:
    (node,) = nodes_of(tmp_path, "node,gpus,status,retired_at", f"n1,8,{word},2026-10-03T00:00:00Z")
    assert (node.status, node.end_us) == ("active", us("2026-10-03T00:00:00+00:00"))
    found, rejected = read_text(INVENTORY, tmp_path, "node,gpus,status,retired_at", f"n1,8,{word},")
    assert (found, codes(rejected)) == ([], [("2", "retired")])


@pytest.mark.parametrize("header", ["Host name,# GPUs", "FQDN;GPU count", "server_name,gpus", "name,gpus"])
def test_a_machine_is_called_many_things(tmp_path: Path, header: str) -> None:
    (node,) = nodes_of(tmp_path, header, "gpu-07.example.com,8".replace(",", ";" if ";" in header else ","))
    assert (node.node, node.gpus) == ("gpu-07.example.com", 8)


@pytest.mark.parametrize(
    "header", ["Instance ID,Customer,Host,GPU Count,Start,End,Status", "vm_id,namespace,node,gpus,start,hours,state"]
)
def test_instances_that_are_somebodys_are_no_inventory(tmp_path: Path, header: str) -> None:
    path = tmp_path / "instances.csv"
    path.write_text(header + "\n")
    assert INVENTORY.detect(open_source(path)) is None


@pytest.mark.parametrize(
    ("text", "options", "at"),
    [
        ("2026-10-01", UTC, us("2026-10-01T00:00:00+00:00")),
        ("2026-10-01", BERLIN, us("2026-09-30T22:00:00+00:00")),
        ("2026-10-01T08:00:00+02:00", NONE, us("2026-10-01T06:00:00+00:00")),
        ("2026-10-01 08:00", BERLIN, us("2026-10-01T06:00:00+00:00")),
        ("25.10.2026", UTC, us("2026-10-25T00:00:00+00:00")),
        ("1790841600", NONE, 1_790_841_600_000_000),
        ("", NONE, None),
    ],
)
def test_service_times_are_days_or_instants(tmp_path: Path, text: str, options: ReadOptions, at: int | None) -> None:
    node = nodes_of(tmp_path, "node,gpus,in_service_from", f"n1,8,{text}", options=options)[0]
    assert node.start_us == at


def test_a_day_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"fleet\.csv, line 2: in_service_from '2026-10-01' .*--timezone"):
        nodes_of(tmp_path, "node,gpus,in_service_from", "n1,8,2026-10-01")


def test_a_day_that_can_be_two_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="--date-order"):
        nodes_of(tmp_path, "node,gpus,in_service_from", "n1,8,01/02/2026", options=UTC)


@pytest.mark.parametrize(
    ("header", "row", "code"),
    [
        ("node,gpus", ",8", "no_node"),
        ("node,gpus", "Total,16", "no_node"),
        ("node,gpus", "n1,", "no_gpus"),
        ("node,gpus", "n1,eight", "bad_gpus"),
        ("node,gpus", "n1,-8", "bad_gpus"),
        ("node,gpus,status", "n1,8,purple", "bad_status"),
        ("node,gpus,devices", "n1,8,GPU-a;GPU-b", "devices_disagree"),
        ("node,gpus,devices", "n[1-2],1,GPU-a", "devices_of_several"),
        ("node,gpus,slices", "n1,8,0", "bad_slices"),
        ("node,gpus,mem", "n1,8,512", "bad_memory"),
        ("node,gpus,cpus", "n1,8,many", "bad_cpus"),
        ("node,gpus", "n[1-,8", "bad_node"),
        ("node,gpus,from,to", "n1,8,2026-10-02,2026-10-01", "end_before_start"),
    ],
)
def test_a_row_that_can_not_be_is_rejected(tmp_path: Path, header: str, row: str, code: str) -> None:
    records, rejected = read_text(INVENTORY, tmp_path, header, row, "other,8", options=UTC)
    assert [record.node for record in records if isinstance(record, FleetNode)] == ["other"]
    assert codes(rejected) == [("2", code)]


def test_devices_are_counted_where_the_count_is_not_said(tmp_path: Path) -> None:
    (node,) = nodes_of(tmp_path, "node,devices", "n1,GPU-a;GPU-b;GPU-c")
    assert (node.gpus, node.devices) == (3, ("GPU-a", "GPU-b", "GPU-c"))


def test_a_node_counts_once_at_a_time(tmp_path: Path) -> None:
    records, rejected = read_text(
        INVENTORY, tmp_path, "node,gpus,from,to,status,cluster", "n1,8,,2026-10-10,active,", "n1,8,2026-10-10,,repair,",
        "n1,8,2026-10-09,,active,", "n1,8,,,active,west", options=UTC,
    )  # fmt: skip
    assert len(records) == 3
    assert codes(rejected) == [("4", "node_twice")]


def test_a_workbook_of_nodes_reads_as_the_table_does(tmp_path: Path) -> None:
    path = tmp_path / "fleet.xlsx"
    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet()
    sheet.write_row(0, 0, ["Our fleet"])
    sheet.write_row(2, 0, ["Node", "GPU model", "GPUs", "In service from"])
    sheet.write_row(3, 0, ["gpu[1-2]", "H100", 8])
    sheet.write_datetime(3, 3, datetime(2026, 10, 1), book.add_format({"num_format": "dd.mm.yyyy"}))
    book.close()
    records, rejected = read_path(INVENTORY, path, BERLIN)
    assert rejected == []
    assert [(n.node, n.gpus, n.start_us) for n in records if isinstance(n, FleetNode)] == [
        ("gpu1", 8, us("2026-09-30T22:00:00+00:00")), ("gpu2", 8, us("2026-09-30T22:00:00+00:00")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "nodes", "model", "gpus"),
    [
        ("gpu[01-02] H100 8", ["gpu01", "gpu02"], "H100", 8),
        ("gpu[01-02]\tNVIDIA H100 80GB HBM3 8", ["gpu01", "gpu02"], "NVIDIA H100 80GB HBM3", 8),
        ("gpu[1,3] 8x H100", ["gpu1", "gpu3"], "H100", 8),
        ("gpu[1,3] H100 x8", ["gpu1", "gpu3"], "H100", 8),
        ("a[1-2],b7 A30 4   # rack 3", ["a1", "a2", "b7"], "A30", 4),
        ("gpu[1-2] 8", ["gpu1", "gpu2"], "", 8),
        ("n1.example.com A100 4", ["n1.example.com"], "A100", 4),
    ],
)
def test_a_line_of_a_host_list_is_its_hosts(tmp_path: Path, line: str, nodes: list[str], model: str, gpus: int) -> None:
    records, rejected = read_text(HOST_LIST, tmp_path, "# our fleet", "", line)
    assert rejected == []
    found = [record for record in records if isinstance(record, FleetNode)]
    assert [node.node for node in found] == nodes
    assert {(node.gpu_model, node.gpus, node.status, node.line) for node in found} == {(model, gpus, "active", 3)}


def test_a_host_list_does_not_guess(tmp_path: Path) -> None:
    records, rejected = read_text(
        HOST_LIST, tmp_path, "hostname", "gpu[1-2]", "gpu3 H100", "gpu4 H100 8", "gpu4 H100 8", "g[3"
    )
    assert [node.node for node in records if isinstance(node, FleetNode)] == ["gpu4"]
    assert codes(rejected) == [("2", "no_gpus"), ("3", "no_gpus"), ("5", "node_twice"), ("6", "bad_node")]


def test_every_column_of_a_reservation_arrives(tmp_path: Path) -> None:
    records, rejected = read_text(
        RESERVATIONS, tmp_path, "reservation_id,tenant,nodes,gpus,start,end,cluster",
        "r1,acme,gpu[1-2],12,2026-10-01T00:00:00Z,2026-10-08T00:00:00Z,east", "r2,globex,gpu3,,2026-10-01T00:00:00Z,,",
        "r3,globex,,4,2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,",
    )  # fmt: skip
    assert rejected == []
    first, second = us("2026-10-01T00:00:00+00:00"), us("2026-10-02T00:00:00+00:00")
    assert records == [
        Reservation(2, "east", "r1", "acme", ("gpu1", "gpu2"), 12, first, us("2026-10-08T00:00:00+00:00")),
        Reservation(3, "", "r2", "globex", ("gpu3",), None, first, FOREVER_US),
        Reservation(4, "", "r3", "globex", (), 4, first, second),
    ]


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (",acme,n1,,2026-10-01T00:00:00Z,,", "no_reservation"),
        ("r1,,n1,,2026-10-01T00:00:00Z,,", "no_tenant"),
        ("r1,acme,,,2026-10-01T00:00:00Z,,", "nothing_reserved"),
        ("r1,acme,n1,,,,", "no_start"),
        ("r1,acme,n1,0,2026-10-01T00:00:00Z,,", "bad_gpus"),
        ("r1,acme,n1,,2026-10-02T00:00:00Z,2026-10-01T00:00:00Z,", "end_before_start"),
        ("r1,acme,n1,,2026-10-01T00:00:00Z,,cancelled", "cancelled"),
        ("r1,acme,n1,,soon,,", "not_a_date"),
        ("r0,acme,n0,8,2026-10-01T00:00:00Z,,", "duplicate_row"),
    ],
)
def test_a_reservation_that_can_not_be_is_rejected(tmp_path: Path, row: str, code: str) -> None:
    lines = ["reservation_id,tenant,nodes,gpus,start,end,state", "r0,acme,n0,8,2026-10-01T00:00:00Z,,", row]
    records, rejected = read_text(RESERVATIONS, tmp_path, *lines)
    assert len(records) == 1
    assert codes(rejected) == [("3", code)]


SCONTROL = """ReservationName=acme_oct StartTime=2026-10-01T00:00:00 EndTime=2026-10-08T00:00:00 Duration=7-00:00:00
   Nodes=gpu[01-02] NodeCnt=2 CoreCnt=256 Features=(null) PartitionName=gpu Flags=SPEC_NODES
   TRES=cpu=256,gres/gpu=16,gres/gpu:h100=16
   Users=(null) Groups=(null) Accounts=acme Licenses=(null) State=ACTIVE BurstBuffer=(null)
   MaxStartDelay=(null)

ReservationName=fix StartTime=2026-10-02T00:00:00 EndTime=2026-10-03T00:00:00 Duration=1-00:00:00
   Nodes=gpu03 NodeCnt=1 CoreCnt=128 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES
   TRES=cpu=128
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)

ReservationName=bob StartTime=2026-10-02T00:00:00 EndTime=2026-10-03T00:00:00 Duration=1-00:00:00
   Nodes=gpu04 NodeCnt=1 CoreCnt=64 Features=(null) PartitionName=gpu Flags=
   TRES=cpu=64
   Users=bob,-eve Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)

ReservationName=most StartTime=2026-10-02T00:00:00 EndTime=2026-10-03T00:00:00 Duration=1-00:00:00
   Nodes=gpu05 NodeCnt=1 Flags=
   Users=(null) Accounts=-globex
"""


@pytest.mark.parametrize("one_line", [False, True])
def test_what_scontrol_prints_is_read(tmp_path: Path, one_line: bool) -> None:
    text = "\n".join(" ".join(block.split()) for block in SCONTROL.split("\n\n")) if one_line else SCONTROL
    records, rejected = read_text(SLURM_RESERVATIONS, tmp_path, text, options=BERLIN)
    assert not any(record.devices for record in records if isinstance(record, Reservation))
    assert [record[1:8] for record in records if isinstance(record, Reservation)] == [
        (
            "",
            "acme_oct",
            "acme",
            ("gpu01", "gpu02"),
            16,
            us("2026-09-30T22:00:00+00:00"),
            us("2026-10-07T22:00:00+00:00"),
        ),
        ("", "bob", "bob", ("gpu04",), None, us("2026-10-01T22:00:00+00:00"), us("2026-10-02T22:00:00+00:00")),
    ]
    assert [code for _, code in codes(rejected)] == ["maintenance", "no_tenant"]


def test_what_scontrol_prints_needs_a_zone(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"line 1: StartTime '2026-10-01T00:00:00' .*--timezone"):
        read_text(SLURM_RESERVATIONS, tmp_path, SCONTROL)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        (HEADER + "\ngpu1,fra,H100,8,,,,,,,,,", INVENTORY),
        ("Hostname,GPU count\nn1,8", INVENTORY),
        ("node,gpus\ngpu[01-04],8", INVENTORY),
        ("gpu[01-16] H100 8\ngpu17 H100 8", HOST_LIST),
        ("gpu1 H100 8\ngpu2 H100 8", HOST_LIST),
        ("gpu[01-16]", HOST_LIST),
        ("reservation_id,tenant,nodes,gpus,start,end\nr,a,n,1,2026-10-01,", RESERVATIONS),
        (SCONTROL, SLURM_RESERVATIONS),
        ("job_id,tenant,node,gpus,start,end\n1,a,n1,8,,", ALL[-1]),
        ("timestamp, name, uuid, power.draw [W]\n2026/10/01 00:00:00.000, H100, GPU-a, 300", None),
        ("invoice_id,tenant,sku,amount\n1,a,b,2", None),
        ("just words in a text\nmore words", None),
        ('{"code":200}', None),
    ],
)
def test_each_file_is_taken_for_what_it_is(tmp_path: Path, text: str, taken: Importer | None) -> None:
    path = tmp_path / "any.txt"
    path.write_text(text + "\n")
    source = open_source(path)
    scores = {each.name: found.score for each in ALL if (found := each.detect(source)) is not None}
    best = max(scores, key=lambda name: scores[name], default=None)
    assert best == (None if taken is None else taken.name)

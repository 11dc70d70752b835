"""The fleet as an inventory table (CSV, xlsx, Parquet): one row a machine, or a host list of machines that are alike.

Columns: `node,site,gpu_model,gpus,slices,in_service_from,in_service_to,status,cpus,mem,cluster,partitions,devices`,
by name, in any order. `in_service_to` is the first moment out of service; a date alone is the start of its day.
"""

import re
from collections.abc import Iterator, Sequence

from wattledger_core.interval import FOREVER_US

from wattledger_audit.intake.column_names import Columns, bare_name, find_columns
from wattledger_audit.intake.file_proof import FileProof
from wattledger_audit.intake.fleet_host_list import HOST_LIST
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.iso_stamp import NO_TIME, BadTime, IsoStamps, NotIso
from wattledger_audit.intake.mig_profile import slices_of_model
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FLEET, FleetNode
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import head_rows, open_table
from wattledger_audit.intake.total_row import is_total_word
from wattledger_audit.intake.usage_claim import MOST_GPUS_A_NODE, read_nodes
from wattledger_audit.intake.usage_columns import is_usage_header, names_a_holder
from wattledger_audit.intake.usage_words import UNSAID, size_bytes

NAMES: dict[str, tuple[str, ...]] = {
    "from": ("in_service_from", "in_service_since", "service_from", "valid_from", "from", "start", "start_date",
             "in_service", "commissioned", "commissioned_at", "installed", "installed_at", "launch_time", "launched_at",
             "provisioned_at", "deployed", "deployed_at", "online_since", "go_live", "created_at"),
    "to": ("in_service_to", "in_service_until", "service_to", "valid_to", "to", "until", "end", "end_date",
           "decommissioned", "decommissioned_at", "retired", "retired_at", "terminated_at", "removed", "removed_at"),
    "node": ("node", "nodes", "node_name", "hostname", "host", "hosts", "server", "machine", "host_list", "hostlist",
             "host_name", "server_name", "machine_name", "instance_name", "fqdn", "name"),
    "site": ("site", "datacenter", "data_center", "dc", "location", "region"),
    "gpu_model": ("gpu_model", "gpu_type", "gpu_name", "gpu", "accelerator", "model", "card"),
    "gpus": ("gpus", "gpu_count", "num_gpus", "n_gpus", "number_of_gpus", "gpus_per_node", "accelerators"),
    "slices": ("slices", "mig_slices", "slices_per_gpu"),
    "status": ("status", "state", "condition"),
    "cpus": ("cpus", "cpu", "cpu_count", "num_cpus", "vcpus", "cores", "cpu_cores"),
    "memory": ("mem", "memory", "mem_bytes", "memory_bytes", "ram"),
    "memory_gb": ("mem_gb", "memory_gb", "ram_gb", "mem_gib", "memory_gib", "ram_gib"),
    "memory_mb": ("mem_mb", "memory_mb", "ram_mb", "mem_mib", "memory_mib", "real_memory"),
    "cluster": ("cluster", "cluster_name", "cluster_id"),
    "partitions": ("partitions", "partition", "queues", "queue"),
    "devices": ("devices", "device_ids", "gpu_uuids", "uuids", "gpu_ids", "device", "gpu_uuid"),
}  # fmt: skip
_OTHERS = frozenset(
    {"jobid", "job", "tenant", "customer", "amount", "cost", "invoiceid", "reservationid", "reservation", "alloctres",
     "timestamp", "uuid", "powerdraw", "starttime", "reason"}
)  # fmt: skip
_RETIRED = "retired"
"""Left service: it was active until the date that says when."""
_STATUS_WORDS = {
    "active": "active inservice production prod up ok live online running idle allocated mixed",
    "spare": "spare standby coldspare hotspare reserve",
    _RETIRED: "retired decommissioned removed sold returned scrapped deleted terminated",
    "repair": "repair inrepair maintenance maint failed failure broken down offline rma drained outofservice",
}
_STATUSES = {word: status for status, words in _STATUS_WORDS.items() for word in words.split()}
_SEPARATORS = re.compile(r"[;,\s]+")


def is_inventory_header(headers: Sequence[str]) -> bool:
    """A node and its GPUs, and nothing that makes it usage, a bill, reservations or readings. Instances with a start,
    an end and whose they are are usage, whatever their columns are called."""
    columns = find_columns(headers, NAMES)
    names = {bare_name(header) for header in headers}
    if not columns.has("node") or not (columns.has("gpus") or columns.has("devices")) or names & _OTHERS:
        return False
    return not (is_usage_header(headers) and names_a_holder(headers))


def detect(source: Source) -> Detection | None:
    """By its header."""
    for cells in head_rows(source):
        if is_inventory_header(cells):
            columns = find_columns(cells, NAMES)
            named = [m for m in ("node", "gpus", "gpu_model", "site", "from", "status") if columns.has(m)]
            return Detection(60 + 5 * len(named), f"node inventory: columns for {', '.join(named)}")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[FleetNode]:
    """Nodes in file order, a row with a host list one after the other.

    A node may come several times, for times that do not overlap. Raises InputRefused for dates whose order or zone
    nothing settles."""
    table = open_table(source, options, is_inventory_header)
    reader = _NodeReader(source, options, table.headers)
    for line, cells in table.rows:
        try:
            yield from reader.read(line, [*cells, *[""] * (len(table.headers) + 1 - len(cells))])
        except RowRefused as refused:
            column = reader.columns.title.get(refused.column, refused.column)
            rejections.add(source.name, line, column, refused.value, refused.reason)


class _NodeReader:
    def __init__(self, source: Source, options: ReadOptions, headers: list[str]) -> None:
        self.columns: Columns = find_columns(headers, NAMES)
        self._cluster = options.cluster or ""
        self._stamps = IsoStamps(source.name, options.timezone)
        self._proof = FileProof(source, options, is_inventory_header)
        self._seen: dict[tuple[str, str, str], list[tuple[int, int]]] = {}

    def read(self, line: int, cells: list[str]) -> list[FleetNode]:
        cell = {
            meaning: cells[at] if cells[at].lower() not in UNSAID else "" for meaning, at in self.columns.at.items()
        }
        nodes = read_nodes(cell["node"])
        if not nodes or is_total_word(cell["node"]):
            raise RowRefused("node", cell["node"], "no_node: a row needs its node's name; fill it in")
        devices = tuple(part for part in _SEPARATORS.split(cell["devices"]) if part)
        if devices and len(nodes) > 1:
            raise RowRefused(
                "devices", cell["devices"], "devices_of_several: devices belong to one node; write a row each"
            )
        gpus = self._gpus(cell["gpus"], devices)
        start_us, end_us = self._edge("from", cells), self._edge("to", cells)
        if start_us is not None and end_us is not None and end_us <= start_us:
            raise RowRefused(
                "to", cell["to"], "end_before_start: it leaves service before it enters it; correct the row"
            )
        slices = self._whole("slices", cell["slices"]) or slices_of_model(cell["gpu_model"])
        first = FleetNode(
            line=line, node="", cluster=cell["cluster"] or self._cluster, site=cell["site"],
            gpu_model=cell["gpu_model"], gpus=gpus, slices=slices, start_us=start_us, end_us=end_us,
            status=_status(cell["status"], end_us), cpus=self._whole("cpus", cell["cpus"]),
            memory_bytes=self._memory(cell), devices=devices,
            partitions=tuple(part for part in _SEPARATORS.split(cell["partitions"]) if part),
        )  # fmt: skip
        found = [first._replace(node=node) for node in nodes]
        self._check_new(found)
        return found

    def _gpus(self, text: str, devices: tuple[str, ...]) -> int:
        gpus = self._whole("gpus", text)
        if gpus is None and not devices:
            raise RowRefused("gpus", text, "no_gpus: how many GPUs the node has is not said; fill it in")
        if gpus is not None and devices and gpus != len(devices):
            raise RowRefused("gpus", text, f"devices_disagree: {len(devices)} devices are listed; correct one of them")
        if gpus is not None and gpus > MOST_GPUS_A_NODE:
            raise RowRefused("gpus", text, "too_many_gpus: no machine has so many; is it another column's value?")
        return len(devices) if gpus is None else gpus

    def _whole(self, meaning: str, text: str) -> int | None:
        if not text:
            return None
        bare = re.sub(r"\.0+$", "", text)
        if not bare.isdecimal() or (meaning == "slices" and int(bare) == 0):
            raise RowRefused(meaning, text, f"bad_{meaning}: not a count; write a whole number")
        return int(bare)

    def _memory(self, cell: dict[str, str]) -> int | None:
        for meaning, unit in (("memory", ""), ("memory_gb", "gb"), ("memory_mb", "mb")):
            if text := cell[meaning]:
                size = size_bytes(text, unit)
                if size is None:
                    raise RowRefused(meaning, text, "bad_memory: say the unit, such as 2048G or a column mem_gb")
                return size
        return None

    def _edge(self, meaning: str, cells: list[str]) -> int | None:
        text = cells[self.columns.at[meaning]]
        if text in NO_TIME:
            return None
        places = [self.columns.at["from"], self.columns.at["to"]]
        try:
            if text.isdecimal() and len(text) > 8:
                return self._stamps.read(text, 0, meaning)
            return self._proof.edge(places, text)
        except (BadTime, NotIso) as bad:
            raise RowRefused(meaning, text, str(bad)) from bad

    def _check_new(self, found: list[FleetNode]) -> None:
        """A node stands once for each time: the same again would double the fleet."""
        for each in found:
            taken = self._seen.setdefault((each.cluster, each.node, each.gpu_model), [])
            start_us = each.start_us or 0
            end_us = FOREVER_US if each.end_us is None else each.end_us
            if any(a_us < end_us and start_us < b_us for a_us, b_us in taken):
                raise RowRefused("node", each.node, "node_twice: a row above has this node at that time; leave one out")
        for each in found:
            span = (each.start_us or 0, FOREVER_US if each.end_us is None else each.end_us)
            self._seen[each.cluster, each.node, each.gpu_model].append(span)


def _status(text: str, end_us: int | None) -> str:
    word = re.sub(r"[^a-z]", "", text.lower())
    if not word:
        return "active"
    if word not in _STATUSES:
        raise RowRefused("status", text, "bad_status: not known; write active, spare or repair")
    if _STATUSES[word] == _RETIRED and end_us is None:
        raise RowRefused("status", text, "retired: it left service, and no in_service_to says when; fill it in")
    return "active" if _STATUSES[word] == _RETIRED else _STATUSES[word]


IMPORTERS = (Importer("node inventory", FLEET, detect, read), HOST_LIST)

"""Reservations, which a tenant pays for used or not: a table (CSV, xlsx), or what `scontrol show reservation` prints.

Table columns: `reservation_id,tenant,nodes,gpus,start,end`, `cluster` too. An empty `gpus` is all devices of the
nodes; an empty `end` has none. A date alone is the start of its day, so `end` is the first moment after.
"""

from collections.abc import Iterator, Sequence

from wattledger_core.interval import FOREVER_US

from wattledger_audit.intake.column_names import bare_name, find_columns
from wattledger_audit.intake.file_proof import FileProof
from wattledger_audit.intake.fleet_slurm_reservations import SLURM_RESERVATIONS
from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.iso_stamp import NO_TIME, BadTime, IsoStamps, NotIso
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FLEET, Reservation
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import head_rows, open_table
from wattledger_audit.intake.usage_claim import read_nodes
from wattledger_audit.intake.usage_words import UNSAID

NAMES: dict[str, tuple[str, ...]] = {
    "start": ("start", "start_time", "starts_at", "from", "valid_from", "start_date", "begin"),
    "end": ("end", "end_time", "ends_at", "to", "until", "valid_to", "end_date"),
    "id": ("reservation_id", "reservation", "reservation_name", "reserved_id", "commitment_id", "capacity_block_id"),
    "tenant": ("tenant", "tenant_id", "tenant_name", "customer", "account", "holder", "project"),
    "nodes": ("nodes", "node", "node_list", "hosts", "hostname", "host", "servers"),
    "gpus": ("gpus", "gpu_count", "num_gpus", "n_gpus", "quantity"),
    "cluster": ("cluster", "cluster_name", "cluster_id"),
    "state": ("state", "status"),
}
_OTHERS = frozenset({"jobid", "job", "amount", "cost", "invoiceid", "unitprice"})
_CANCELLED = frozenset({"cancelled", "canceled", "deleted", "revoked", "expired_unused"})


def is_reservation_header(headers: Sequence[str]) -> bool:
    """An id, a holder, a time, and what is reserved."""
    columns = find_columns(headers, NAMES)
    needed = all(columns.has(meaning) for meaning in ("id", "tenant", "start", "end"))
    return needed and (columns.has("nodes") or columns.has("gpus")) and not {bare_name(h) for h in headers} & _OTHERS


def detect(source: Source) -> Detection | None:
    """By its header."""
    if any(is_reservation_header(cells) for cells in head_rows(source)):
        return Detection(90, "reservations: columns for id, tenant, start, end and what is reserved")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Reservation]:
    """Reservations in file order. Raises InputRefused for times whose zone or order nothing settles."""
    table = open_table(source, options, is_reservation_header)
    reader = _ReservationReader(source, options, table.headers)
    for line, cells in table.rows:
        try:
            yield reader.read(line, [*cells, *[""] * (len(table.headers) + 1 - len(cells))])
        except RowRefused as refused:
            column = reader.columns.title.get(refused.column, refused.column)
            rejections.add(source.name, line, column, refused.value, refused.reason)


class _ReservationReader:
    def __init__(self, source: Source, options: ReadOptions, headers: list[str]) -> None:
        self.columns = find_columns(headers, NAMES)
        self._cluster = options.cluster or ""
        self._stamps = IsoStamps(source.name, options.timezone)
        self._proof = FileProof(source, options, is_reservation_header)
        self._seen: set[tuple[object, ...]] = set()

    def read(self, line: int, cells: list[str]) -> Reservation:
        cell = {
            meaning: cells[at] if cells[at].lower() not in UNSAID else "" for meaning, at in self.columns.at.items()
        }
        if not cell["id"]:
            raise RowRefused("id", "", "no_reservation: a row needs its reservation's id; fill it in")
        if not cell["tenant"]:
            raise RowRefused("tenant", "", "no_tenant: whose reservation it is is not said; fill it in")
        if cell["state"].lower() in _CANCELLED:
            raise RowRefused("state", cell["state"], "cancelled: it was called off, so nobody held it")
        nodes = read_nodes(cell["nodes"])
        gpus = self._gpus(cell["gpus"])
        if not nodes and not gpus:
            raise RowRefused("nodes", cell["nodes"], "nothing_reserved: neither nodes nor GPUs are said; fill in one")
        start_us, end_us = self._edge("start", cells), self._edge("end", cells)
        if start_us is None:
            raise RowRefused("start", "", "no_start: when it starts is not said; fill it in")
        end_us = FOREVER_US if end_us is None else end_us
        if end_us <= start_us:
            raise RowRefused("end", cell["end"], "end_before_start: it ends before it starts; correct the row")
        found = Reservation(
            line, cell["cluster"] or self._cluster, cell["id"], cell["tenant"], nodes, gpus, start_us, end_us
        )
        if found[1:] in self._seen:
            raise RowRefused("id", cell["id"], "duplicate_row: the same reservation stands above; counted once")
        self._seen.add(found[1:])
        return found

    def _gpus(self, text: str) -> int | None:
        if not text:
            return None
        bare = text.removesuffix(".0")
        if not bare.isdecimal() or int(bare) == 0:
            raise RowRefused("gpus", text, "bad_gpus: not a count; write a whole number from 1, or leave it empty")
        return int(bare)

    def _edge(self, meaning: str, cells: list[str]) -> int | None:
        text = cells[self.columns.at[meaning]]
        if text in NO_TIME:
            return None
        try:
            if text.isdecimal() and len(text) > 8:
                return self._stamps.read(text, 0, meaning)
            return self._proof.edge([self.columns.at["start"], self.columns.at["end"]], text)
        except (BadTime, NotIso) as bad:
            raise RowRefused(meaning, text, str(bad)) from bad


IMPORTERS = (Importer("reservations", FLEET, detect, read), SLURM_RESERVATIONS)

"""Reservations as `scontrol show reservation` prints them (`-o` too). Maintenance is nobody's and is not taken."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import FLEET, Reservation
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.slurm_time import BadStamp, StampClock, Twice, ZoneNeeded
from wattledger_audit.intake.source import TEXT, Source, text_lines

_FIRST = "ReservationName="
_FIELD = re.compile(r"(?:^|\s)([A-Z]\w*)=(\S*)")
_GPUS = re.compile(r"(?:^|,)gres/gpu(:[^=,]+)?=(\d+)")
_UNSET = frozenset({"", "(null)", "None", "N/A"})


class _Block(NamedTuple):
    line: int
    fields: dict[str, str]


def detect(source: Source) -> Detection | None:
    """By the field that every block starts with."""
    if source.kind == TEXT and re.search(rf"^\s*{_FIRST}\S+\s+StartTime=", source.head, re.MULTILINE):
        return Detection(95, "scontrol show reservation: blocks of ReservationName=… StartTime=…")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Reservation]:
    """Reservations in file order. Raises InputRefused where times need a zone (they carry none)."""
    clock = StampClock(options.timezone)
    for block in _blocks(source):
        try:
            yield _reservation(block, options.cluster or "", clock)
        except RowRefused as refused:
            rejections.add(source.name, block.line, refused.column, refused.value, refused.reason)
        except ZoneNeeded as error:
            raise InputRefused(
                f"{source.name}, line {block.line}: StartTime {str(error)!r} does not say its time zone: "
                "say --timezone, the zone of the host that ran scontrol"
            ) from error


def _blocks(source: Source) -> Iterator[_Block]:
    block: _Block | None = None
    for number, text in enumerate(text_lines(source), 1):
        if text.lstrip().startswith(_FIRST):
            if block:
                yield block
            block = _Block(number, {})
        if block:
            block.fields.update(_FIELD.findall(text))
    if block:
        yield block


def _reservation(block: _Block, cluster: str, clock: StampClock) -> Reservation:
    fields = block.fields
    name = fields.get("ReservationName", "")
    if "MAINT" in fields.get("Flags", "").split(","):
        raise RowRefused(
            "Flags", fields["Flags"], f"maintenance: {name} is no tenant's; its nodes belong in node events"
        )
    tenant = _tenant(fields)
    if not tenant:
        raise RowRefused(
            "Accounts", fields.get("Accounts", ""), f"no_tenant: {name} names no account or user that holds it"
        )
    try:
        nodes = expand_hostlist(fields.get("Nodes", ""))
    except BadHostlist as error:
        raise RowRefused("Nodes", fields["Nodes"], f"bad_node: {error}; export again with -o") from error
    gpus = _gpus(fields.get("TRES", ""))
    if not nodes and not gpus:
        raise RowRefused("Nodes", fields.get("Nodes", ""), f"nothing_reserved: {name} holds neither nodes nor GPUs")
    start_us, end_us = (_stamp(fields, key, clock) for key in ("StartTime", "EndTime"))
    if end_us <= start_us:
        raise RowRefused("EndTime", fields["EndTime"], f"end_before_start: {name} ends before it starts; export again")
    return Reservation(block.line, cluster, name, tenant, nodes, gpus, start_us, end_us)


def _tenant(fields: dict[str, str]) -> str:
    """The accounts that may use it, else the users; names with a minus in front are kept out, so hold nothing."""
    for key in ("Accounts", "Users"):
        names = [name for name in fields.get(key, "").split(",") if name not in _UNSET and not name.startswith("-")]
        if names:
            return ",".join(names)
    return ""


def _gpus(tres: str) -> int | None:
    """GPUs of a TRES list: the untyped count, else the sum of the typed ones; None where it lists none."""
    found = _GPUS.findall(tres)
    whole = [int(count) for kind, count in found if not kind]
    typed = [int(count) for kind, count in found if kind]
    return whole[0] if whole else sum(typed) if typed else None


def _stamp(fields: dict[str, str], key: str, clock: StampClock) -> int:
    text = fields.get(key, "")
    try:
        at = clock.read(text)
    except BadStamp as error:
        raise RowRefused(key, text, str(error)) from error
    if at is None:
        raise RowRefused(key, text, f"bad_time: {key} is not set")
    if isinstance(at, Twice):
        raise RowRefused(key, text, "ambiguous_time: the clocks show this time twice; export with TZ=UTC")
    return at


SLURM_RESERVATIONS = Importer("scontrol reservations", FLEET, detect, read)

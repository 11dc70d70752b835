"""`sacctmgr -P show event` as node states: when a node was down, draining or in maintenance, and why."""

from collections.abc import Iterator, Sequence
from itertools import islice

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import EVENTS, NodeState, Record
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.sacct_layout import Layout, layout_of_fields, layout_of_header, without_comments
from wattledger_audit.intake.sacctmgr_rows import EventRow, event_rows
from wattledger_audit.intake.slurm_hostlist import BadHostlist, expand_hostlist
from wattledger_audit.intake.slurm_node_state import is_node_state, node_state
from wattledger_audit.intake.slurm_run import RowRejected
from wattledger_audit.intake.slurm_time import BadStamp, StampClock, Twice, ZoneNeeded, duration_us, settle
from wattledger_audit.intake.source import TEXT, Source, text_lines

HEAD_LINES = 200
FIELDS = frozenset(
    {"cluster", "clusternodes", "cpus", "duration", "timestart", "timeend", "start", "end", "event", "eventraw"}
    | {"nodename", "node", "state", "stateraw", "tres", "user", "reason", "count"}
)
NODE_FIELDS = ("nodename", "node")
USUAL = ("cluster", "nodename", "timestart", "timeend", "state", "reason", "user")
"""The columns of `sacctmgr -P show event` without a format."""


def detect(source: Source) -> Detection | None:
    """A header of sacctmgr's event columns, or rows without one that are laid out as it does."""
    if source.kind != TEXT:
        return None
    lines = source.head.split("\n")
    lines = lines[:-1] if len(lines) > 1 else lines
    found = _find(lines[:HEAD_LINES], ReadOptions())
    if found is None:
        return None
    if found[1] > 0:
        return Detection(96, "a header of sacctmgr's event columns (NodeName, TimeStart, State)")
    return Detection(75, "rows of cluster, node, two times and a node state, as sacctmgr -nP show event writes them")


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[Record]:
    """Each node event whose state says something about availability, in file order."""
    found = _find(list(islice(text_lines(source), HEAD_LINES)), options)
    if found is None:
        raise InputRefused(
            f"{source.name}: no columns NodeName, TimeStart, TimeEnd and State: export with sacctmgr -P show event "
            "format=Cluster,NodeName,Start,End,State,Reason,User"
        )
    layout, header_line = found
    clock = StampClock(options.timezone)
    seen: set[tuple[str, ...]] = set()
    for row in event_rows(text_lines(source), layout, header_line, source.name, rejections):
        try:
            if row.cells in seen:
                raise RowRejected("NodeName", row.get("nodename"), "duplicate_row: the same event stands earlier")
            states = list(_states(row, clock, options))
        except RowRejected as error:
            rejections.add(source.name, row.line, error.column, error.value, error.reason)
            continue
        except ZoneNeeded as error:
            raise InputRefused(
                f"{source.name}, line {row.line}: TimeStart or TimeEnd {str(error)!r} is local time without an offset: "
                "say --timezone with the zone of the host that ran sacctmgr"
            ) from error
        seen.add(row.cells)
        yield from states


def _find(lines: Sequence[str], options: ReadOptions) -> tuple[Layout, int] | None:
    """The layout and the line of its header (0: none)."""
    for line, text in enumerate(lines[:50], 1):
        layout = layout_of_header(text, options.delimiter, FIELDS, NODE_FIELDS)
        if layout is not None:
            times = {"timestart", "start"} & set(layout.fields)
            return (layout, line) if times and {"state", "stateraw"} & set(layout.fields) else None
    records = without_comments(lines)
    named = (
        options.fields if options.fields and {"nodename", "timestart"} <= set(map(str.lower, options.fields)) else None
    )
    layout = layout_of_fields(named or USUAL, records, options.delimiter or "|")
    if layout is None:
        return None
    rows = [parts for parts in map(layout.split, records) if len(parts) == layout.pieces]
    fits = rows and len(rows) * 10 >= len(records) * 8 and (named or all(map(_is_usual, rows)))
    return (layout, 0) if fits else None


def _is_usual(parts: Sequence[str]) -> bool:
    clock = StampClock(None)
    try:
        for text in parts[2:4]:
            clock.read(text)
    except ZoneNeeded:
        pass
    except BadStamp:
        return False
    return parts[2] != "" and (parts[1] == "" or is_node_state(parts[4]))


def _states(row: EventRow, clock: StampClock, options: ReadOptions) -> Iterator[NodeState]:
    name = row.get("nodename", "node")
    if not name:
        reason = "cluster_event: about the whole cluster and no node; node events say when nodes were away"
        raise RowRejected("NodeName", row.get("cluster"), reason)
    said = row.get("state", "stateraw")
    state = node_state(said)
    if state is None:
        reason = "state_not_used: does not say that the node was down, draining or in maintenance"
        raise RowRejected("State", said, reason)
    start_us, end_us = _interval(row, clock)
    try:
        nodes = expand_hostlist(name)
    except BadHostlist as error:
        raise RowRejected("NodeName", name, f"unreadable_node_list: {error}") from error
    for node in nodes:
        cluster = row.get("cluster") or options.cluster or ""
        yield NodeState(row.line, cluster, node, state, row.get("reason"), start_us, end_us)


def _interval(row: EventRow, clock: StampClock) -> tuple[int, int | None]:
    """Start and end (None: still so). A stamp that came twice is settled by Duration, where that is exported."""
    start_text, end_text = row.get("timestart", "start"), row.get("timeend", "end")
    column, text = "TimeStart", start_text
    try:
        start = clock.read(start_text)
        column, text = "TimeEnd", end_text
        end = clock.read(end_text)
        if isinstance(start, Twice) or isinstance(end, Twice):
            column, text = ("TimeStart", start_text) if isinstance(start, Twice) else ("TimeEnd", end_text)
            start, end = settle(start, end, _duration(row), None)
    except BadStamp as error:
        raise RowRejected(column, text, str(error)) from error
    if start is None:
        raise RowRejected("TimeStart", start_text, "start_missing: the event has no start; export TimeStart")
    if end is not None and end <= start:
        reason = "end_before_start: the event ends before it starts, or lasts no second"
        raise RowRejected("TimeEnd", str(end // US_PER_S), reason)
    return start, end


def _duration(row: EventRow) -> int | None:
    try:
        return duration_us(row.get("duration"))
    except ValueError:
        return None


IMPORTERS: tuple[Importer, ...] = (Importer("sacctmgr-events", EVENTS, detect, read),)

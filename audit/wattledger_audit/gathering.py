"""Reads every file of an audit into records: which file is what, each run once, each file once."""

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from wattledger_audit.assessment.cost_file import timezone_of
from wattledger_audit.assessment.run_book import NONE_US, RunBook
from wattledger_audit.intake.billing_parts import names_by, parts_told_apart
from wattledger_audit.intake.billing_void import voided_in, without_void
from wattledger_audit.intake.file_group import GROUPS
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import (
    BILLING,
    COSTS,
    USAGE,
    BillingLine,
    DeviceTrace,
    FleetNode,
    NodeState,
    Record,
    Reservation,
    UsageRun,
)
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.registry import Taken, take
from wattledger_audit.intake.telemetry_labels import is_worldwide
from wattledger_audit.intake.trace_merge import Homes, merge_traces
from wattledger_audit.rejection_examples import RejectionExamples

BLOCK_BYTES = 1 << 20
Say = Callable[[str, int], None]
"""Called with a file's name and the records read so far, now and then."""
TOLD_EACH = 50_000
LOSES_NOTHING = frozenset({
    "blank_line", "cancelled", "comment", "duplicate_line", "duplicate_row", "duplicate_window", "idle_capacity",
    "not_final", "repeated_header", "status_not_told", "step_of_job", "total_row", "voided",
})  # fmt: skip
"""Codes of lines that hold no use and no money of their own."""
SHOWN = 80
OBSERVED = "kube-state-metrics ranges"
"""The format whose runs are what was seen over a range, not what a log says of them."""


@dataclass(slots=True)
class FileTaken:
    """One input and what it gave."""

    name: str
    path: Path
    role: str
    format: str
    why: str
    sha256: str
    size_bytes: int
    records: int = 0
    runs: int = 0
    note: str = ""


@dataclass(slots=True)
class Gathered:
    """All records of an audit's files. `billing` keeps each file's lines apart, in the order given."""

    runs: RunBook = field(default_factory=RunBook)
    billing: list[tuple[str, list[BillingLine]]] = field(default_factory=list)
    fleet: list[FleetNode] = field(default_factory=list)
    states: list[NodeState] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    readings: list[tuple[str, DeviceTrace]] = field(default_factory=list)
    """Traces by the file that they came from; `traces` is one for each device."""
    traces: list[DeviceTrace] = field(default_factory=list)
    files: list[FileTaken] = field(default_factory=list)
    costs: Path | None = None

    @property
    def run_files(self) -> list[str]:
        """Names by the file numbers that runs carry."""
        return [file.name for file in self.files]


def gather(
    named: Sequence[tuple[Path, str | None]], options: ReadOptions, rejections: Rejections, say: Say | None = None
) -> Gathered:
    """Read files in the order given, each with the role that it was named for (None: by content).

    Raises `InputRefused` for a file that can't be read, or that nothing takes.
    """
    gathered = Gathered()
    taken = [take(path, role, options.encoding) for path, role in named]
    names = _names([path for path, _ in named])
    taken = [item._replace(source=replace(item.source, name=name)) for item, name in zip(taken, names, strict=True)]
    options = _with_days(options, taken)
    seen: dict[tuple[str, str], str] = {}
    reading: list[tuple[Taken, int]] = []
    for item, name in zip(taken, names, strict=True):
        source = item.source
        digest = _sha256(source.path)
        file = FileTaken(
            name, source.path, item.importer.role, item.importer.name, item.found.why, digest,
            source.path.stat().st_size,
        )  # fmt: skip
        gathered.files.append(file)
        if (digest, file.role) in seen:
            file.note = f"the same bytes as {seen[digest, file.role]}: read once"
            continue
        seen[digest, file.role] = name
        if file.role == COSTS:
            if gathered.costs is not None:
                raise InputRefused(f"{name}: a second cost file beside {gathered.costs.name}: give one")
            gathered.costs = source.path
            continue
        reading.append((item, len(gathered.files) - 1))
    _read_all(reading, gathered, options, rejections, say)
    if len(gathered.billing) > 1:
        bills = [(item.importer.name, item.source) for item, _ in reading if item.importer.role == BILLING]
        gathered.billing = without_void(gathered.billing, voided_in(bills), rejections)
        gathered.billing = parts_told_apart(gathered.billing, names_by(bills), options)
    _refuse_unnamed_twins(gathered)
    gathered.traces = merge_traces(gathered.readings, rejections, _homes(gathered))
    gathered.runs.seal()
    return gathered


def _read_all(
    reading: Sequence[tuple[Taken, int]], gathered: Gathered, options: ReadOptions, rejections: Rejections,
    say: Say | None,
) -> None:  # fmt: skip
    """Read the files in the order given; those that are parts of one whole together, where the first of them stands."""
    parts: dict[str, list[tuple[Taken, int]]] = {}
    for item, number in reading:
        if item.importer.name in GROUPS:
            parts.setdefault(item.importer.name, []).append((item, number))
    for item, number in reading:
        format_name = item.importer.name
        if format_name not in GROUPS:
            _read(item, number, gathered, options, rejections, say)
        elif group := parts.pop(format_name, None):
            _read_group(
                format_name, sorted(group, key=lambda part: part[0].source.path.name), gathered, options, rejections
            )


def _read_group(
    format_name: str, group: Sequence[tuple[Taken, int]], gathered: Gathered, options: ReadOptions,
    rejections: Rejections,
) -> None:  # fmt: skip
    for part, run in GROUPS[format_name]([item.source for item, _ in group], options, rejections):
        number = group[part][1]
        before = len(gathered.runs)
        gathered.runs.add(run, number, format_name == OBSERVED)
        gathered.files[number].records += 1
        gathered.files[number].runs += len(gathered.runs) - before


def _read(
    item: Taken, number: int, gathered: Gathered, options: ReadOptions, rejections: Rejections, say: Say | None
) -> None:
    file = gathered.files[number]
    lines: list[BillingLine] = []
    before = len(gathered.runs)
    for record in item.importer.read(item.source, options, rejections):
        file.records += 1
        if isinstance(record, UsageRun):
            gathered.runs.add(record, number)
        elif isinstance(record, BillingLine):
            lines.append(record)
        else:
            _put(record, item.source.name, gathered)
        if say is not None and file.records % TOLD_EACH == 0:
            say(file.name, file.records)
    if not file.records:
        _told_empty(item, file, options)
    if lines or file.role == "billing":
        gathered.billing.append((file.name, lines))
    file.runs = len(gathered.runs) - before


def _told_empty(item: Taken, file: FileTaken, options: ReadOptions) -> None:
    """A file that gives nothing: noted where there was nothing in it, refused where none of it could be used."""
    examples = RejectionExamples()
    deque(item.importer.read(item.source, options, examples), maxlen=0)
    lost = [first for (_, code), first in examples.first.items() if code not in LOSES_NOTHING]
    if not lost or file.role not in (USAGE, BILLING):
        file.note = "it holds no record"
        return
    first = min(lost, key=lambda rejection: rejection.line)
    count = sum(count for (_, code), count in examples.counts.items() if code not in LOSES_NOTHING)
    value = first.value if len(first.value) <= SHOWN else f"{first.value[:SHOWN]}…"
    lines = "1 line was" if count == 1 else f"{count:,} lines were"
    raise InputRefused(
        f"{item.source.name}: not one record could be used, {lines} refused; the first is line "
        f"{first.line}: {f'{first.column} ' if first.column else ''}{value!r}: {first.reason.partition(': ')[2]}"
    )


def _refuse_unnamed_twins(gathered: Gathered) -> None:
    """The same run in a file that names its cluster and in one that does not would count twice."""
    runs = gathered.runs
    named = [bool(who.cluster) for who in runs.whos]
    if all(named) or not any(named):
        return
    unnamed = {
        (job, runs.start_us[number]): number
        for number, job in enumerate(runs.jobs)
        if not named[runs.who[number]] and runs.start_us[number] != NONE_US
    }
    for number, job in enumerate(runs.jobs):
        twin = unnamed.get((job, runs.start_us[number])) if named[runs.who[number]] else None
        if twin is None or not set(runs.shapes[runs.shape[twin]].nodes) & set(runs.shapes[runs.shape[number]].nodes):
            continue
        without, cluster = gathered.files[runs.file[twin]].name, runs.whos[runs.who[number]].cluster
        raise InputRefused(
            f"{without}, line {runs.line[twin]}: run {job} names no cluster and is the one of cluster {cluster!r} in "
            f"{gathered.files[runs.file[number]].name}, line {runs.line[number]}: say --cluster {cluster}"
        )


def _homes(gathered: Gathered) -> Homes:
    """Where inventories and usage logs say that machines and devices are."""
    shapes = gathered.runs.shapes
    nodes = {node.node for node in gathered.fleet} | {name for shape in shapes for name in shape.nodes}
    of_device = {shape.device: shape.nodes[0] for shape in shapes if shape.device and len(shape.nodes) == 1}
    of_device |= {device: node.node for node in gathered.fleet for device in node.devices}
    return Homes(nodes, {device: node for device, node in of_device.items() if is_worldwide(device)})


def _put(record: Record, file: str, gathered: Gathered) -> None:
    if isinstance(record, FleetNode):
        gathered.fleet.append(record)
    elif isinstance(record, NodeState):
        gathered.states.append(record)
    elif isinstance(record, Reservation):
        gathered.reservations.append(record)
    elif isinstance(record, DeviceTrace):
        gathered.readings.append((file, record))


def _with_days(options: ReadOptions, taken: Sequence[Taken]) -> ReadOptions:
    """Billed days are days of the cost file's zone. Raises `CostFileRefused` where it can't be read."""
    costs = next((item.source.path for item in taken if item.importer.role == COSTS), None)
    return options if costs is None else replace(options, days_in=timezone_of(costs))


def _names(paths: Sequence[Path]) -> list[str]:
    """What reports call the files: their names, with as many folders as tell two of one name apart."""
    parts = {path: path.resolve().parts for path in paths}
    names = []
    for path in paths:
        own = parts[path]
        others = {other for other in parts.values() if other != own and other[-1] == own[-1]}
        some = next((n for n in range(1, len(own)) if all(other[-n:] != own[-n:] for other in others)), len(own))
        names.append("/".join(own[-some:]))
    return names


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()

"""Reads every file of an audit into records: which file is what, each run once, each file once."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattledger_audit.assessment.run_book import RunBook
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import (
    COSTS,
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
from wattledger_audit.intake.trace_merge import merge_traces

BLOCK_BYTES = 1 << 20
Say = Callable[[str, int], None]
"""Called with a file's name and the records read so far, now and then."""
TOLD_EACH = 50_000
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
    names = _names(taken)
    seen: dict[str, str] = {}
    for item, name in zip(taken, names, strict=True):
        source = item.source
        digest = _sha256(source.path)
        file = FileTaken(
            name, source.path, item.importer.role, item.importer.name, item.found.why, digest,
            source.path.stat().st_size,
        )  # fmt: skip
        gathered.files.append(file)
        if digest in seen:
            file.note = f"the same bytes as {seen[digest]}: read once"
            continue
        seen[digest] = name
        if file.role == COSTS:
            if gathered.costs is not None:
                raise InputRefused(f"{name}: a second cost file beside {gathered.costs.name}: give one")
            gathered.costs = source.path
            continue
        _read(item, file, gathered, options, rejections, say)
    gathered.traces = merge_traces(gathered.readings, rejections)
    gathered.runs.seal()
    return gathered


def _read(
    item: Taken, file: FileTaken, gathered: Gathered, options: ReadOptions, rejections: Rejections, say: Say | None
) -> None:
    number = len(gathered.files) - 1
    lines: list[BillingLine] = []
    before = len(gathered.runs)
    observed = item.importer.name == OBSERVED
    add = gathered.runs.add
    for record in item.importer.read(item.source, options, rejections):
        file.records += 1
        if isinstance(record, UsageRun):
            add(record, number, observed)
        elif isinstance(record, BillingLine):
            lines.append(record)
        else:
            _put(record, item.source.name, gathered)
        if say is not None and file.records % TOLD_EACH == 0:
            say(file.name, file.records)
    if lines or file.role == "billing":
        gathered.billing.append((file.name, lines))
    file.runs = len(gathered.runs) - before


def _put(record: Record, file: str, gathered: Gathered) -> None:
    if isinstance(record, FleetNode):
        gathered.fleet.append(record)
    elif isinstance(record, NodeState):
        gathered.states.append(record)
    elif isinstance(record, Reservation):
        gathered.reservations.append(record)
    elif isinstance(record, DeviceTrace):
        gathered.readings.append((file, record))


def _names(taken: Sequence[Taken]) -> list[str]:
    """What reports call the files: their names, with the folder where two are alike."""
    plain = [item.source.path.name for item in taken]
    return [
        f"{item.source.path.parent.name}/{name}" if plain.count(name) > 1 else name
        for item, name in zip(taken, plain, strict=True)
    ]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()

"""Usage in WattLedger's own table (CSV, xlsx, Parquet): one row a run, on one device or over many. Reads, no meaning.

Columns: `job_id,attempt,tenant,project,node,device,gpu_model,gpus,share_num,share_den,start,end,state,tokens` and more
(usage_columns.py), by name, in any order. An empty end: it still runs; an empty start: it never started.
"""

from collections.abc import Iterator
from hashlib import blake2b

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import USAGE, UsageRun
from wattledger_audit.intake.refusal import Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.table import head_rows, open_table
from wattledger_audit.intake.usage_columns import (
    belongs_to_others,
    canonical_share,
    is_usage_header,
    usage_columns,
)
from wattledger_audit.intake.usage_row import UsageRowReader

_HEADER_ROWS = 60


def detect(source: Source) -> Detection | None:
    """By its header: canonical names are nearly certain, other people's names for them likely."""
    for cells in head_rows(source, _HEADER_ROWS):
        if not is_usage_header(cells) or belongs_to_others(cells):
            continue
        known, all_named = canonical_share(cells)
        if known >= 6:
            return Detection(95, f"usage table: {known} of its {all_named} columns have canonical names")
        columns = usage_columns(cells)
        named = ", ".join(f"{columns.title[m]} as {m}" for m in ("job", "tenant", "start", "end") if columns.has(m))
        return Detection(60, f"usage table by its columns: {named}")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[UsageRun]:
    """Runs in file order. Identical rows count once; tokens stand on the first row of an attempt only.

    Rows of one attempt with the same node, device and start have one `run_key` (a later one is the same run told
    again); where no device is named, the model and share tell apart what a job holds on one node.
    Raises InputRefused for stamps without a zone, ids that a spreadsheet spoilt, numbers and dates that nothing in
    the file settles."""
    table = open_table(source, options, is_usage_header)
    reader = UsageRowReader(source, options, table.headers)
    repeats = _Repeats()
    width = len(table.headers)
    for line, cells in table.rows:
        try:
            if len(cells) != width:
                cells = _fitted(cells, width)
            if repeats.seen(cells):
                raise RowRefused("", ",".join(cells), "duplicate_row: the same row stands above; counted once")
            run = reader.read(line, cells)
        except RowRefused as refused:
            column = reader.columns.title.get(refused.column, refused.column)
            rejections.add(source.name, line, column, refused.value, refused.reason)
        else:
            yield repeats.with_tokens_once(run)


def _fitted(cells: list[str], width: int) -> list[str]:
    """A row as wide as the header: short rows lack empty cells at their end, spare ones must be empty."""
    if any(cells[width:]):
        raise RowRefused("", ",".join(cells), f"wrong_cell_count: {len(cells)} cells under {width} headers; quote it")
    return [*cells[:width], *[""] * (width - len(cells))]


class _Repeats:
    """Rows and attempts already seen, as digests (16 bytes each, so a million rows fit in little memory)."""

    def __init__(self) -> None:
        self._rows: set[bytes] = set()
        self._tokens: dict[bytes, int] = {}

    def seen(self, cells: list[str]) -> bool:
        before = len(self._rows)
        self._rows.add(blake2b("\x1f".join(cells).encode(), digest_size=16).digest())
        return len(self._rows) == before

    def with_tokens_once(self, run: UsageRun) -> UsageRun:
        """The run without its tokens if another row of its attempt has brought them."""
        if run.tokens is None:
            return run
        key = blake2b(f"{run.cluster}\x1f{run.job}\x1f{run.attempt}".encode(), digest_size=16).digest()
        first = self._tokens.get(key)
        if first is None:
            self._tokens[key] = run.tokens
            return run
        differ = () if first == run.tokens else ("tokens_differ",)
        return run._replace(tokens=None, marks=run.marks + differ)


IMPORTERS = (Importer("canonical usage table", USAGE, detect, read),)

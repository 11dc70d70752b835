"""`tables/runs`: every run that held anything in the period, with its hours, terms and place in its file.

Written from columns, so a million runs need no million objects. Times are UTC; hours have six decimals.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from wattledger_core.batch import Int64Array

from wattledger_audit.assessment.assess import Assessment
from wattledger_audit.assessment.billable import PARTS_PER_HOUR
from wattledger_audit.assessment.run_book import NONE_US, Shape, Who
from wattledger_audit.intake.safe_cell import safe_cell

MICRO_HOURS = 1_000_000
CSV_ROWS = 50_000
"""Rows turned into text at a time."""
_WORDS: tuple[tuple[str, Callable[[Who], str]], ...] = (
    ("cluster", lambda who: who.cluster), ("tenant_as_written", lambda who: who.tenant),
    ("project", lambda who: who.project), ("user", lambda who: who.user), ("model", lambda who: who.model_tag),
    ("partition", lambda who: who.partition), ("state", lambda who: who.state),
)  # fmt: skip
_SHAPES: tuple[tuple[str, Callable[[Shape], str]], ...] = (
    ("nodes", lambda shape: " ".join(shape.nodes)), ("device", lambda shape: shape.device),
    ("gpus", lambda shape: "" if shape.gpus is None else str(shape.gpus)),
    ("share", lambda shape: f"{shape.share_num}/{shape.share_den}"),
)  # fmt: skip


def write_runs(assessment: Assessment, folder: Path) -> list[Path]:
    """Write `runs.csv` and `runs.parquet`, in order of the files' rows."""
    folder.mkdir(parents=True, exist_ok=True)
    table = run_table(assessment)
    paths = [folder / "runs.csv", folder / "runs.parquet"]
    texts = pa.schema([(name, pa.string()) for name in table.column_names])
    with pyarrow.csv.CSVWriter(paths[0], texts, write_options=pyarrow.csv.WriteOptions(quoting_style="needed")) as out:
        for rows in table.to_batches(max_chunksize=CSV_ROWS):
            out.write(pa.table([column.cast(pa.string()) for column in rows.columns], schema=texts))
    pyarrow.parquet.write_table(table, paths[1], compression="zstd", store_schema=False)
    return paths


def run_table(assessment: Assessment) -> pa.Table:
    """One row for each run that held anything in the period."""
    runs, swept = assessment.runs, assessment.swept
    numbers = np.array(sorted(swept.run_holder), dtype=np.int64)
    who, shape = np.asarray(runs.who)[numbers], np.asarray(runs.shape)[numbers]
    by_id = {id(holder): holder for holder in swept.run_holder.values()}
    holders, place = list(by_id.values()), {at: n for n, at in enumerate(by_id)}
    charged = np.array([place[id(swept.run_holder[number])] for number in numbers.tolist()], dtype=np.int64)
    unbilled = {number for group in assessment.bridge for number in group.unbilled_runs}
    columns: dict[str, pa.Array] = {
        "job": pa.array([safe_cell(runs.jobs[number]) for number in numbers.tolist()], pa.string()),
        "tenant": _words([holder.tenant for holder in holders], charged),
        "sku": _words([holder.sku for holder in holders], charged),
        "plan": _words([holder.plan for holder in holders], charged),
        "charged_as": _words([holder.reason or holder.state for holder in holders], charged),
    }
    for name, of in _WORDS:
        columns[name] = _words([of(one) for one in runs.whos], who)
    for name, shaped in _SHAPES:
        columns[name] = _words([shaped(one) for one in runs.shapes], shape)
    columns["start_utc"] = _times(np.asarray(runs.start_us)[numbers])
    columns["end_utc"] = _times(np.asarray(runs.end_us)[numbers])
    columns["gpu_hours_in_period"] = _hours([swept.run_parts[number] for number in numbers.tolist()])
    columns["has_unbilled_time"] = _words(["no", "yes"], np.isin(numbers, sorted(unbilled)).astype(np.int64))
    columns["file"] = _words(assessment.gathered.run_files, np.asarray(runs.file)[numbers])
    columns["line"] = pa.array(np.asarray(runs.line)[numbers])
    return pa.table(columns)


def _words(words: Sequence[str], places: Int64Array) -> pa.Array:
    """Texts that many runs share, by their places; safe for spreadsheets."""
    safe = pa.array([safe_cell(word) for word in words], pa.string())
    return safe.take(pa.array(places))


def _times(times_us: Int64Array) -> pa.Array:
    return pa.array(times_us, pa.timestamp("us", tz="UTC"), mask=times_us == NONE_US)


def _hours(parts: Sequence[int]) -> pa.Array:
    """Parts as hours with six decimals, half up: 128-bit decimals made from their integers."""
    micro = np.array([(2 * part * MICRO_HOURS // PARTS_PER_HOUR + 1) // 2 for part in parts], dtype=np.int64)
    words = np.zeros((len(micro), 2), dtype=np.int64)
    words[:, 0] = micro
    return pa.Array.from_buffers(pa.decimal128(18, 6), len(micro), [None, pa.py_buffer(words.tobytes())])

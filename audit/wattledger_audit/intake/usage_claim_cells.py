"""What the rows of one usage table hold: their claim's cells, read once for each that is alike. Owns what only the
whole file can settle: how counts are written, and whether a `gpu` column counts or names."""

import re
from decimal import Decimal
from operator import itemgetter

from wattledger_audit.intake.column_names import Columns, bare_name
from wattledger_audit.intake.file_proof import FileProof
from wattledger_audit.intake.number_form import NotANumber
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.usage_claim import (
    ClaimCells,
    UsageClaim,
    is_ambiguous_count,
    names_a_gpu,
    read_claim,
    with_counted_model,
)
from wattledger_audit.intake.usage_length import with_gpu_hours
from wattledger_audit.intake.usage_words import UNSAID

_MOST_CLAIMS = 200_000
_PLAIN = re.compile(r"\d+(?:\.\d*)?")


class ClaimReader:
    """Reads the claims of one table's rows, which are padded with an empty cell for columns that it lacks."""

    def __init__(self, name: str, columns: Columns, proof: FileProof) -> None:
        self._name, self._columns, self._proof = name, columns, proof
        self._cells = itemgetter(*(columns.at[meaning] for meaning in (*ClaimCells._fields, "model")))
        self._one_gpu_column = bare_name(columns.title["device"]) == "gpu" and not columns.has("gpus")
        self._gpu_hours = columns.at["gpu_hours"]
        self._known: dict[tuple[str, ...], UsageClaim] = {}

    def read(self, line: int, cells: list[str], held_us: int | None) -> UsageClaim:
        """The row's claim; `held_us` None: it still runs. Raises RowRefused, and InputRefused for the whole file."""
        texts = self._cells(cells)
        claim = self._known.get(texts)
        if claim is None:
            if len(self._known) >= _MOST_CLAIMS:
                self._known.clear()
            claim = self._known[texts] = self._claim(line, ClaimCells(*texts[:-1]), texts[-1])
        hours = cells[self._gpu_hours]
        return self._with_hours(claim, hours, held_us) if hours and held_us is not None else claim

    def _claim(self, line: int, cells: ClaimCells, model: str) -> UsageClaim:
        told = with_counted_model(cells)
        if self._one_gpu_column and told.device.isdecimal():
            raise InputRefused(
                f"{self._name}, line {line}: {self._columns.title['device']} {told.device!r} can be how many GPUs or "
                "which one: call the column gpus or gpu_index"
            )
        if is_ambiguous_count(told.gpus):
            told = told._replace(gpus=str(self._proven("gpus", told.gpus)))
        if not told.gpu_model and names_a_gpu(model):
            told = told._replace(gpu_model=model)
        return read_claim(told)

    def _with_hours(self, claim: UsageClaim, text: str, held_us: int) -> UsageClaim:
        """GPU-hours tell the count where there is none; beside one they are only held against it."""
        plain = _PLAIN.fullmatch(text) is not None
        if text.lower() in UNSAID or (claim.gpus is not None and not plain):
            return claim
        hours = Decimal(text) if claim.gpus is not None else self._proven("gpu_hours", text)
        if hours < 0:
            raise RowRefused("gpu_hours", text, "negative_gpu_hours: a run can't hold less than nothing; correct it")
        return with_gpu_hours(claim, hours, held_us)

    def _proven(self, meaning: str, text: str) -> Decimal:
        columns = [self._columns.at[m] for m in ("gpus", "tokens", "gpu_hours") if self._columns.has(m)]
        try:
            return self._proof.number(columns, text)
        except NotANumber as error:
            raise RowRefused(meaning, text, str(error)) from error

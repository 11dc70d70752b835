"""Turns one row of a usage table into a run. Owns the order in which its cells are judged."""

from wattledger_audit.intake.file_proof import FileProof
from wattledger_audit.intake.iso_stamp import NO_TIME, BadTime, IsoStamps, NotIso
from wattledger_audit.intake.number_form import NotANumber, is_exponent_id
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.source import Source
from wattledger_audit.intake.total_row import is_total_word
from wattledger_audit.intake.usage_claim_cells import ClaimReader
from wattledger_audit.intake.usage_columns import DURATIONS, TIMES, is_usage_header, usage_columns, zones
from wattledger_audit.intake.usage_length import UnitNeeded, end_of, is_unclear, needs_a_unit
from wattledger_audit.intake.usage_words import UNSAID, plan_of, size_bytes, span_us, state_of, yes_or_no

_MOST_SHEET_DIGITS = 15
_CLAIM = ("node", "device", "gpu_model", "gpus", "share_num", "share_den", "share", "profile", "sku", "visible")
_SIZES = (("memory", ""), ("memory_gb", "gb"), ("memory_gib", "gb"), ("memory_mb", "mb"), ("memory_mib", "mb"))


class UsageRowReader:
    """Reads the rows of one table. `columns` is where its cells are."""

    def __init__(self, source: Source, options: ReadOptions, headers: list[str]) -> None:
        self.columns = usage_columns(headers)
        at, missing = self.columns.at, self.columns.width
        self._name = source.name
        self._cluster = options.cluster or ""
        self._stamps = IsoStamps(source.name, options.timezone)
        self._proof = FileProof(source, options, is_usage_header)
        self._claims = ClaimReader(source.name, self.columns, self._proof)
        self._job, self._project, self._cluster_at = (at[m] for m in ("job", "project", "cluster"))
        self._state, self._plan, self._attempt, self._tokens = (at[m] for m in ("state", "plan", "attempt", "tokens"))
        self._user, self._model, self._partition = at["user"], at["model"], at["partition"]
        self._sku, self._gpu_model, self._waits_for = at["sku"], at["gpu_model"], at["waits_for"]
        self._times = [(meaning, at[meaning]) for meaning in TIMES]
        self._zones = zones(self.columns)
        self._whose = next((m for m in ("tenant", "project", "user") if self.columns.has(m)), "tenant")
        self._tenant = at[self._whose]
        self._duration = at["duration"]
        rare = ("exclusive", "cpus", "suspended", *DURATIONS, "duration", "limit")
        self._rare = [m for m in rare if at[m] != missing]
        self._rare += [meaning for meaning, _ in _SIZES if at[meaning] != missing]

    def read(self, line: int, cells: list[str]) -> UsageRun:
        """The row's run. Raises RowRefused for a row that can't be used, InputRefused for the whole file."""
        cells = [*cells, ""]
        job = cells[self._job]
        if job.lower() in UNSAID or (not any(cells[at] for _, at in self._times) and is_total_word(job)):
            raise self._without_job(job, next(filter(None, cells), ""))
        tenant, project = cells[self._tenant], cells[self._project]
        for column, text in (("job", job), ("tenant", tenant), ("project", project)):
            if "+" in text or len(text) > _MOST_SHEET_DIGITS:
                self._check_id(line, column, text)
        marks: list[str] = []
        if not tenant:
            marks.append("no_tenant")
        elif self._whose != "tenant":
            marks.append(f"tenant_from_{self._whose}")
        submit_us, eligible_us, start_us, end_us = [
            self._time(line, meaning, cells[at]) if cells[at] else None for meaning, at in self._times
        ]
        state = state_of(cells[self._state])
        rare = self._rare_values(cells, marks) if self._rare else {}
        if start_us is not None:
            end_us = self._end(line, cells, start_us, end_us, rare, marks, state)
        elif end_us is not None:
            marks.append("never_started")
        suspended_us = rare.get("suspended") or 0
        held_us = None if start_us is None or end_us is None else end_us - start_us - suspended_us
        claim = self._claims.read(line, cells, held_us)
        plan = plan_of(cells[self._plan])
        if plan is None:
            marks.append("plan_unknown")
            plan = "on_demand"
        gpu_model = claim.gpu_model
        model_tag = cells[self._model] if cells[self._model] != gpu_model else ""
        attempt = self._whole("attempt", cells[self._attempt])
        device_text = cells[self.columns.at["device"]]
        kind = device_text or f"{gpu_model} {claim.share_num}/{claim.share_den}"
        run_key = f"{attempt}|{','.join(claim.nodes)}|{kind}|{'' if start_us is None else start_us}"
        return UsageRun(
            line, cells[self._cluster_at] or self._cluster, job, run_key, attempt, tenant, project, cells[self._user],
            model_tag, plan, cells[self._partition], cells[self._sku], claim.nodes, claim.device, gpu_model, claim.gpus,
            claim.share_num, claim.share_den, submit_us, eligible_us, start_us, end_us, suspended_us,
            state, self._token_count(line, cells[self._tokens], marks), bool(rare.get("exclusive")), rare.get("cpus"),
            rare.get("memory"), rare.get("limit"), cells[self._waits_for], (*claim.marks, *marks),
        )  # fmt: skip

    def _without_job(self, job: str, first: str) -> RowRefused:
        """Why a row without a job can't be used; `first` is its first filled cell."""
        for word in (job, first):
            if is_total_word(word):
                return RowRefused("job", word, "total_row: it sums up the rows above and must not count once more")
        return RowRefused("job", job, "no_job: a run needs its job's id; fill it in")

    def _check_id(self, line: int, column: str, text: str) -> None:
        if is_exponent_id(text):
            raise InputRefused(
                f"{self._name}, line {line}: {self.columns.title[column]} {text!r} was an id before a spreadsheet "
                "made a number of it, and different ids become one: export it again with ids as text"
            )

    def _time(self, line: int, meaning: str, text: str) -> int | None:
        if text in NO_TIME:
            return None
        title = self.columns.title[meaning]
        try:
            try:
                return self._stamps.read(text, line, title, self._zones[meaning])
            except NotIso:
                return self._proof.instant([at for _, at in self._times], text)
        except BadTime as bad:
            raise RowRefused(meaning, text, str(bad)) from bad

    def _end(
        self, line: int, cells: list[str], start_us: int, end_us: int | None, rare: dict[str, int], marks: list[str],
        state: str,
    ) -> int | None:  # fmt: skip
        text = cells[self._duration]
        unclear = text if "duration" not in rare and is_unclear(text) else ""
        if needs_a_unit(unclear, end_us, state):
            raise UnitNeeded(self._name, line, self.columns.title["duration"], text)
        return end_of(cells[self._times[3][1]], start_us, end_us, rare, unclear, marks, state)

    def _whole(self, meaning: str, text: str) -> int:
        if text.lower() in UNSAID:
            return 0
        if text.isdecimal():
            return int(text)
        raise RowRefused(meaning, text, "bad_attempt: attempts are counted 0, 1, 2; write the number")

    def _token_count(self, line: int, text: str, marks: list[str]) -> int | None:
        if not text or text.lower() in UNSAID:
            return None
        if text.isdecimal():
            return int(text)
        columns = [self.columns.at[m] for m in ("gpus", "tokens") if self.columns.has(m)]
        try:
            count = self._proof.number(columns, text)
        except NotANumber:
            count = None
        if count is None or count < 0 or count != int(count):
            marks.append("tokens_unreadable")
            return None
        return int(count)

    def _rare_values(self, cells: list[str], marks: list[str]) -> dict[str, int]:
        """What few tables have. A cell that can't be read leaves its value unknown, with a mark."""
        values: dict[str, int] = {}
        for meaning in self._rare:
            text = cells[self.columns.at[meaning]]
            if text.lower() in UNSAID or (meaning == "limit" and text.upper() in ("UNLIMITED", "PARTITION_LIMIT")):
                continue
            if meaning == "duration" and is_unclear(text):
                continue
            value = _rare_value(meaning, text)
            name = meaning.partition("_")[0]
            if value is None:
                marks.append(f"{name}_unreadable")
            else:
                values[name] = value
        return values


def _rare_value(meaning: str, text: str) -> int | None:
    if meaning == "exclusive":
        return yes_or_no(text)
    if meaning == "cpus":
        return int(text) if text.isdecimal() else None
    if meaning in DURATIONS:
        return span_us(text, meaning.removeprefix("duration_"))
    unit = dict(_SIZES).get(meaning)
    return span_us(text) if unit is None else size_bytes(text, unit)

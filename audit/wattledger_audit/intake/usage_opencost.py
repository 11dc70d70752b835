"""Usage from OpenCost or Kubecost: the allocation API's JSON. One run for each pod, container and window. Its costs
are not read: prices are the cost file's."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wattledger_core.interval import Interval, clip, merge

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.json_documents import documents, looks_like_json
from wattledger_audit.intake.opencost_numbers import gpus_held, number
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import USAGE, UsageRun
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.row_refused import RowRefused
from wattledger_audit.intake.slurm_time import BadStamp, StampClock, Twice, ZoneNeeded
from wattledger_audit.intake.source import Source

TENANT_LABELS = ("wattledger_tenant", "wattledger.io/tenant", "wattledger_io_tenant", "tenant")
PROJECT_LABELS = ("wattledger_project", "wattledger.io/project", "wattledger_io_project", "project")
_US_PER_MINUTE = 60_000_000
_SLACK_US = 60_000_000
_IDLE = "__idle__"
_REFUSAL = re.compile(r'\{\s*"code"\s*:\s*[45]\d\d\s*,')


class _Found(NamedTuple):
    """An allocation as it stands in the file: its set's number, its name, its fields."""

    place: int
    name: str
    fields: Mapping[str, object]


def detect(source: Source) -> Detection | None:
    """By the fields that only an allocation has."""
    head = source.head
    if looks_like_json(source) and _REFUSAL.match(head.lstrip()) and '"message"' in head:
        return Detection(20, "an error that the allocation API answered")
    if not looks_like_json(source) or not all(f'"{word}"' in head for word in ("properties", "window", "minutes")):
        return None
    if '"gpuHours"' in head or '"gpuCount"' in head or '"cpuCoreHours"' in head:
        return Detection(95, "OpenCost allocations: properties, window, minutes, gpuHours")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[UsageRun]:
    """Runs in file order; `line` is the number of the allocation in the file, from 1.

    The windows of one pod are consecutive parts of one run, each with its own `run_key`; of a window that overlaps
    those above it only the rest counts, and one without a rest is rejected. So are the reserved names (`__idle__`,
    `__unallocated__`, `__unmounted__`): they are no tenants. Raises InputRefused for an API error and broken JSON."""
    yield from (run for _, run in read_together([source], options, rejections))


def read_together(
    sources: Sequence[Source], options: ReadOptions, rejections: Rejections
) -> Iterator[tuple[int, UsageRun]]:
    """Runs of several files, each with the number of its file: windows that overlap from file to file count once."""
    reader = _AllocationReader(options)
    for part, source in enumerate(sources):
        for place, found in enumerate(_allocations(source), 1):
            try:
                runs = reader.read(place, found)
            except RowRefused as refused:
                rejections.add(source.name, place, refused.column, refused.value, refused.reason)
            else:
                yield from ((part, run) for run in runs)


def _allocations(source: Source) -> Iterator[_Found]:
    for document in documents(source):
        value = document.value
        if isinstance(value, dict):
            code = value.get("code", 200)
            if code != 200 or ("data" not in value and "message" in value):
                words = value.get("message", "no words")
                raise InputRefused(
                    f"{source.name}, line {document.line}: the API answered {code} ({words}), so "
                    "the allocations are missing: ask it again"
                )
            value = value.get("data", value)
        if isinstance(value, dict) and isinstance(value.get("sets"), list):
            value = value["sets"]
        for place, each in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(each, dict):
                inner = each.get("allocations")
                named = inner if isinstance(inner, dict) else each
                yield from (_Found(place, name, f) for name, f in named.items() if isinstance(f, dict))


class _AllocationReader:
    def __init__(self, options: ReadOptions) -> None:
        self._cluster = options.cluster or ""
        self._clock = StampClock(None)
        self._covered: dict[tuple[str, ...], list[tuple[int, int]]] = {}

    def read(self, place: int, found: _Found) -> list[UsageRun]:
        """The allocation's run, in several parts where windows above cover the middle of it. Raises RowRefused."""
        fields, name = found.fields, str(found.fields.get("name") or found.name)
        properties = fields.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        self._check_tenant(name, fields)
        start_us, end_us = self._times(name, fields)
        marks: list[str] = []
        minutes = number(fields.get("minutes"))
        if minutes is not None:
            if minutes < 0:
                raise RowRefused(
                    "minutes", str(minutes), f"negative_minutes: {name} ran less than no time; export again"
                )
            if abs(int(minutes * _US_PER_MINUTE) - (end_us - start_us)) > _SLACK_US:
                marks.append("elapsed_disagrees")
        held = gpus_held(fields, end_us - start_us)
        marks += held.marks
        word = {key: str(properties.get(key) or "") for key in ("cluster", "node", "namespace", "pod", "container")}
        cluster = word["cluster"] or self._cluster
        who = (cluster, word["node"], word["namespace"], word["pod"], word["container"], name)
        parts = self._uncovered(who, start_us, end_us, name, f"{fields.get('start')} to {fields.get('end')}")
        if parts != [(start_us, end_us)]:
            marks.append("overlap_clipped")
        labels = properties.get("labels")
        labels = labels if isinstance(labels, dict) else {}
        tenant = _label(labels, TENANT_LABELS) or word["namespace"]
        if not tenant:
            marks.append("no_tenant")
        job = f"{word['namespace']}/{word['pod']}" if word["pod"] else name
        key = f"{word['container'] or name}|{word['node']}"
        run = UsageRun(
            place, cluster, job, key, 0,
            tenant, _label(labels, PROJECT_LABELS), "", "", "", "", "",
            (word["node"],) if word["node"] else (), "", held.model, held.gpus, held.share_num, held.share_den,
            None, None, start_us, end_us, 0, "", None, False, None, None, None, "",
            tuple(marks),
        )  # fmt: skip
        return [run._replace(run_key=f"{key}|{a_us}", start_us=a_us, end_us=b_us) for a_us, b_us in parts]

    def _check_tenant(self, name: str, fields: Mapping[str, object]) -> None:
        for part in name.split("/"):
            if part.startswith("__") and part.endswith("__"):
                hours = number(fields.get("gpuHours"))
                if part == _IDLE:
                    raise RowRefused("name", name, f"idle_capacity: nobody held it ({hours or 0} GPU-hours)")
                raise RowRefused(
                    "name",
                    name,
                    f"not_a_tenant: {part} is nobody's name ({hours or 0} GPU-hours); export by pod to see whose",
                )

    def _times(self, name: str, fields: Mapping[str, object]) -> tuple[int, int]:
        window = fields.get("window")
        window = window if isinstance(window, dict) else {}
        start_us = self._stamp("start", fields.get("start") or window.get("start"), name)
        end_us = self._stamp("end", fields.get("end") or window.get("end"), name)
        if end_us < start_us:
            raise RowRefused(
                "end", str(fields.get("end")), f"end_before_start: {name} ends before it starts; export again"
            )
        if end_us == start_us:
            raise RowRefused("end", str(fields.get("end")), f"no_time: {name} starts and ends at once; it held nothing")
        return start_us, end_us

    def _stamp(self, column: str, text: object, name: str) -> int:
        try:
            at = self._clock.read(text) if isinstance(text, str) else None
        except ZoneNeeded as error:
            raise RowRefused(
                column, str(text), f"bad_time: {name} has a time without an offset; export again"
            ) from error
        except BadStamp as error:
            raise RowRefused(column, str(text), f"bad_time: {name} has a time that is none; export again") from error
        if at is None or isinstance(at, Twice):
            raise RowRefused(column, str(text), f"bad_time: {name} has no {column}; export again")
        return at

    def _uncovered(self, who: tuple[str, ...], start_us: int, end_us: int, name: str, found: str) -> list[Interval]:
        """The parts of a window that earlier windows of the same container have not covered, in order."""
        spans = self._covered.setdefault(who, [])
        if not spans or start_us > spans[-1][1]:
            spans.append((start_us, end_us))
            return [(start_us, end_us)]
        parts, at_us = [], start_us
        for a_us, b_us in clip(spans, start_us, end_us):
            parts.append((at_us, a_us))
            at_us = b_us
        parts = [part for part in [*parts, (at_us, end_us)] if part[0] < part[1]]
        if not parts:
            raise RowRefused("window", found, f"duplicate_window: {name} at that time stands above; counted once")
        if start_us == spans[-1][1]:
            spans[-1] = (spans[-1][0], end_us)
        else:
            self._covered[who] = merge([*spans, (start_us, end_us)])
        return parts


def _label(labels: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((str(labels[name]) for name in names if labels.get(name)), "")


IMPORTERS = (Importer("OpenCost allocations", USAGE, detect, read),)

"""Answers of Prometheus' HTTP API (`query_range`, `query`) as JSON: one, a list, or several put together in a file."""

import json
from collections.abc import Iterator
from decimal import Decimal

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import TELEMETRY, DeviceTrace
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import TEXT, Source, open_text
from wattledger_audit.intake.telemetry_gather import Gathered, Series
from wattledger_audit.intake.telemetry_metric import FAMILY_NAME, KNOWN_NAME

NAME = "prometheus-range-json"
Json = dict[str, object]


def detect(source: Source) -> Detection | None:
    """Looks for series of metrics that say something about a GPU."""
    head = source.head.lstrip()
    if source.kind != TEXT or head[:1] not in ("{", "["):
        return None
    if '"metric"' not in head:
        empty = '"resultType"' in head or ('"status"' in head and '"errorType"' in head)
        return Detection(20, "a Prometheus answer without any series") if empty else None
    if '"values"' not in head and '"value"' not in head:
        return None
    if known := KNOWN_NAME.search(head):
        return Detection(95, f"a Prometheus answer in JSON with series of {known[0]}")
    if family := FAMILY_NAME.search(head):
        return Detection(80, f"a Prometheus answer in JSON with series of a GPU exporter, such as {family[0]}")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[DeviceTrace]:
    """One trace a device. Chunks may overlap: a sample that comes twice counts once. Rejections name a series by its
    number in the file. Raises InputRefused for what is no such JSON, or has no metric that is used."""
    gathered = Gathered(source.name, options, rejections)
    number = 0
    for document in _documents(source):
        for item in _series_of(source.name, document):
            number += 1
            _take(source.name, item, number, gathered, rejections)
    yield from gathered.traces()


def _documents(source: Source) -> Iterator[object]:
    """The JSON values of a file, one after another."""
    with open_text(source) as file:
        text = file.read().lstrip("\ufeff")
    decoder = json.JSONDecoder(parse_float=Decimal)
    at = 0
    while True:
        while at < len(text) and (text[at].isspace() or text[at] in "\ufeff\x1e,"):
            at += 1
        if at == len(text):
            return
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise InputRefused(
                f"{source.name}, line {error.lineno}, column {error.colno}: no JSON ({error.msg}); cut short? Save the "
                "answer of /api/v1/query_range again"
            ) from None
        yield document


def _series_of(file: str, document: object) -> Iterator[Json]:
    """The series of an answer, of a list of answers, or of a bare list of series."""
    if isinstance(document, list):
        for item in document:
            yield from _series_of(file, item)
    elif isinstance(document, dict) and "metric" in document:
        yield document
    elif isinstance(document, dict) and document.get("status") == "error":
        raise InputRefused(f"{file}: Prometheus answered with an error: {document.get('error')}; ask again")
    elif isinstance(document, dict) and ("data" in document or "result" in document):
        inner = document["data"] if "data" in document else document["result"]
        if not isinstance(inner, dict | list):
            raise InputRefused(f"{file}: `data` holds no series; save the whole answer of /api/v1/query_range")
        yield from _series_of(file, inner)
    else:
        raise InputRefused(f"{file}: no answer of Prometheus; save the whole answer of /api/v1/query_range")


def _take(file: str, item: Json, number: int, gathered: Gathered, rejections: Rejections) -> None:
    labels = item["metric"]
    if not isinstance(labels, dict):
        rejections.add(file, number, "metric", str(labels), "not_a_series: its labels are no JSON object")
        return
    name = str(labels.get("__name__", ""))
    series = gathered.series(name, {str(key): str(value) for key, value in labels.items()}, number)
    if series is None:
        return
    samples = item["values"] if "values" in item else [item.get("value")]
    for sample in samples if isinstance(samples, list) else [samples]:
        if not _add(series, sample, number):
            reason = "not_a_sample: a sample is a pair of a time in seconds and a number in quotes"
            rejections.add(file, number, name, str(sample), reason)


def _add(series: Series, sample: object, number: int) -> bool:
    if not isinstance(sample, list) or len(sample) != 2:
        return False
    at, text = sample
    if type(at) is int:
        at_us = at * US_PER_S
    elif isinstance(at, Decimal) and at.is_finite():
        at_us = round(at * US_PER_S)
    else:
        return False
    if not -(1 << 62) < at_us < 1 << 62:
        return False
    if type(text) is str:
        return series.add(at_us, text, number)
    return isinstance(text, int | Decimal) and not isinstance(text, bool) and series.add(at_us, str(text), number)


IMPORTERS: tuple[Importer, ...] = (Importer(NAME, TELEMETRY, detect, read),)

"""Series of Prometheus range answers (and VictoriaMetrics exports): labels and samples, document by document."""

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

from wattledger_core.units import US_PER_S

from wattledger_audit.intake.json_documents import Document, documents
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import Source

_GAPS_A_SERIES = 500


class Series(NamedTuple):
    """`place` is the series' number in the file, from 1. `samples` are (µs, value), rising; what is no number (NaN,
    a staleness mark) is left out. `step_us` is the step of its document, None where nothing in it tells."""

    place: int
    labels: Mapping[str, str]
    samples: list[tuple[int, Decimal]]
    step_us: int | None


def series_of(source: Source) -> Iterator[Series]:
    """All series in file order, each document's step decided over all of its series.

    Raises InputRefused for broken JSON and for an answer that is an error: its samples are missing."""
    place = 0
    texts: dict[str, Decimal | None] = {}
    for document in documents(source):
        found = []
        for raw in _results(source, document):
            labels = raw.get("metric")
            if isinstance(labels, dict):
                place += 1
                words = {key: str(value) for key, value in labels.items()}
                found.append(Series(place, words, _samples(raw, texts), None))
        step_us = _step_us(found)
        yield from (each._replace(step_us=step_us) for each in found)


def _results(source: Source, document: Document) -> list[Mapping[str, object]]:
    value = document.value
    if isinstance(value, dict) and "metric" in value:
        return [value]
    if isinstance(value, dict) and value.get("status", "success") != "success":
        why = value.get("error", "no words")
        raise InputRefused(
            f"{source.name}, line {document.line}: the query failed ({why}), so its samples are missing: ask for this "
            "range again"
        )
    data = value.get("data", value) if isinstance(value, dict) else value
    results = data.get("result") if isinstance(data, dict) else data
    if not isinstance(results, list):
        raise InputRefused(
            f"{source.name}, line {document.line}: no Prometheus answer (data.result is missing): save what "
            "query_range answers"
        )
    return [each for each in results if isinstance(each, dict)]


def _samples(raw: Mapping[str, object], texts: dict[str, Decimal | None]) -> list[tuple[int, Decimal]]:
    values, stamps = raw.get("values"), raw.get("timestamps")
    if isinstance(values, list) and isinstance(stamps, list):
        pairs = [(at, value, 1000) for at, value in zip(stamps, values, strict=False)]
    else:
        several = values if isinstance(values, list) else [raw.get("value")]
        pairs = [(each[0], each[1], US_PER_S) for each in several if isinstance(each, list) and len(each) == 2]
    samples: dict[int, Decimal] = {}
    for at, value, us in pairs:
        text = str(value)
        if text not in texts:
            texts[text] = _number(text)
        number = texts[text]
        if number is not None and isinstance(at, int | Decimal) and not isinstance(at, bool):
            samples.setdefault(int(at * us), number)
    return sorted(samples.items())


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None


def _step_us(found: list[Series]) -> int | None:
    gaps: Counter[int] = Counter()
    for each in found:
        stamps = [at for at, _ in each.samples[: _GAPS_A_SERIES + 1]]
        gaps.update(later - earlier for earlier, later in pairwise(stamps))
    return commonest(gaps)


def commonest(gaps: Counter[int]) -> int | None:
    """The gap seen most often, the smallest of equals."""
    return min(gaps, key=lambda gap: (-gaps[gap], gap)) if gaps else None

"""Lines of a Prometheus exposition: series, value, time, all as text. Knows no metric and makes no number."""

import re
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

Known = TypeVar("Known")

_MAX_LINE = 16_384
_MAX_KNOWN = 20_000
"""Series remembered at once: pods come and go, and with them label sets."""
_LINE = re.compile(
    r"(?P<series>(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)"
    r"(?:[ \t]*+\{(?P<labels>(?:[^\"}]|\"(?:[^\"\\]|\\.)*+\")*+)\})?+)[ \t]*+(?<=[ \t}])(?P<rest>[^\s{].*)"
)
"""Possessive: a long line that is no sample fails at once."""
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_TIME = re.compile(r"-?\d+(?:\.\d+)?")


class TextSample(NamedTuple, Generic[Known]):
    """One sample: what its series was learned to be, the value as written, the time as written (empty: none)."""

    series: Known
    value: str
    time: str


class SampleReader(Generic[Known]):
    """Reads exposition after exposition of one exporter. `learn(name, labels)` says what a series is, None for one that
    is not wanted; it is asked once a series, so that a scrape costs one look-up a line."""

    def __init__(self, prefixes: tuple[str, ...], learn: Callable[[str, dict[str, str]], Known | None]) -> None:
        self._prefixes = prefixes
        self._learn = learn
        self._known: dict[str, Known | None] = {}
        self.bad_lines = 0
        """Lines of the last exposition that begin like a wanted series and are no sample."""

    def read(self, text: str) -> list[TextSample[Known]]:
        """Every wanted sample, in the order of the text. A line that is none is counted and left out."""
        self.bad_lines = 0
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        found = []
        for line in text.splitlines():
            if line.startswith(self._prefixes) and (sample := self._sample(line)) is not None:
                found.append(sample)
        return found

    def _sample(self, line: str) -> TextSample[Known] | None:
        series, _, value = line.rpartition(" ")
        if series in self._known:
            known = self._known[series]
            return None if known is None else TextSample(known, value, "")
        parts = _LINE.fullmatch(line.rstrip()) if len(line) <= _MAX_LINE else None
        if parts is None:
            self.bad_lines += 1
            return None
        series = parts["series"].rstrip()
        if series not in self._known:
            self._known[series] = self._learn(parts["name"], _labels(parts["labels"] or ""))
        known = self._known[series]
        if known is None:
            return None
        value, time = _value_and_time(parts["rest"])
        return TextSample(known, value, time)


def _labels(text: str) -> dict[str, str]:
    return {name: _ESCAPED.sub(_unescaped, value) for name, value in _LABEL.findall(text)}


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]


def _value_and_time(rest: str) -> tuple[str, str]:
    """`295.01`, `295.01 1700000000123`, with an exemplar behind `#`; words such as `[Not Supported]` stay whole."""
    rest = rest.partition(" # ")[0].rstrip()
    if rest.startswith("["):
        return rest, ""
    value, _, time = rest.replace("\t", " ").partition(" ")
    time = time.strip()
    return (value, time) if not time or _TIME.fullmatch(time) else (rest, "")

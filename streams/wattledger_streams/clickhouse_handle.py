"""One query on one read-only chDB handle, blocking: opened, run, closed. Which thread and how many: clickhouse_engine.

What isolates in chDB 4.4 (found by trying): `SET`, `USE` and `readonly` belong to a handle, and a handle opens in a
millisecond. `readonly=1` stops every write and every change of a setting, SETTINGS clauses included, but not INTO
OUTFILE, KILL, SYSTEM STOP, file() or DESCRIBE url(): those are refused before. A failed statement leaves its output
on its handle for the next one to return: hence a handle a query. A streamed result drops WITH TOTALS.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from wattledger_streams.clickhouse_guard import Token, refused_write

T = TypeVar("T")
_CODE = re.compile(r"Code: (\d+)\. DB::Exception: ")
_STD_EXCEPTION = 1001
_TOKENS = (
    "SELECT arrayMap(token -> [toString(token.1), toString(token.2), toString(token.3)], tokenizeQuery({text:String})) "
    "FORMAT JSONCompactEachRow"
)


class QueryFailed(Exception):
    """The engine's own error: `code` is ClickHouse's number, the text is the engine's."""

    def __init__(self, text: str) -> None:
        start = _CODE.search(text)
        super().__init__(text[start.start() :] if start else text)
        self.code = int(start[1]) if start else _STD_EXCEPTION


@dataclass(frozen=True, slots=True)
class ReadQuery:
    """One judged query as it was asked; `settings` have checked names, values as text; parameters are TSV-escaped."""

    text: str
    output_format: str
    database: str
    parameters: Mapping[str, str]
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole result and the engine's count of what it took."""

    body: bytes
    read_rows: int
    read_bytes: int
    elapsed_s: float


def with_handle(path: Path, call: Callable[[Any], T]) -> T:
    """`call` on a fresh, writable handle. Raises `QueryFailed`."""
    handle = _connect(path)
    try:
        return call(handle)
    except RuntimeError as error:
        raise QueryFailed(str(error)) from error
    finally:
        handle.close()


def read_whole(path: Path, query: ReadQuery) -> Answer:
    """The result in one piece. Raises `QueryFailed`."""

    def run(handle: Any) -> Answer:
        _make_read_only(handle, query)
        result = handle.query(query.text, query.output_format, params=dict(query.parameters))
        return Answer(result.bytes(), result.storage_rows_read(), result.storage_bytes_read(), result.elapsed())

    return with_handle(path, run)


class ReadStream:
    """The result of one SELECT block by block. Calls may come from several threads, one at a time."""

    def __init__(self, path: Path, query: ReadQuery) -> None:
        self._path, self._query = path, query
        self._one_call = threading.Lock()
        self._handle: Any = None
        self._result: Any = None

    def next_block(self) -> bytes:
        """The next bytes, empty at the end. Raises `QueryFailed`."""
        with self._one_call:
            try:
                if self._handle is None:
                    self._start()
                block = self._handle.streaming_fetch_result(self._result)
                return bytes(block.bytes()) if block is not None and block.rows_read() else b""
            except RuntimeError as error:
                raise QueryFailed(str(error)) from error

    def close(self) -> None:
        """Give the handle back, whether or not the end was reached; waits for a call that is under way."""
        with self._one_call:
            if self._handle is not None:
                self._handle.close()

    def _start(self) -> None:
        query = self._query
        self._handle = _connect(self._path)
        _make_read_only(self._handle, query)
        self._result = self._handle.send_query(query.text, query.output_format, params=dict(query.parameters))


def text_of(handle: Any, sql: str, **parameters: str) -> str:
    """A result as raw TSV."""
    return str(handle.query(sql, "TabSeparatedRaw", params=parameters).bytes().decode())


def tokens_of(handle: Any, text: str) -> list[Token]:
    """The engine's own tokens of `text`, blanks included. Nothing of it is run."""
    raw = text.encode()
    escaped = text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\0", "\\0")
    [places] = json.loads(text_of(handle, _TOKENS, text=escaped))
    return [Token(kind, raw[int(start) : int(end)].decode(errors="replace")) for start, end, kind in places]


def check_class(handle: Any, text: str) -> None:
    """Raises `Refused` unless the engine's parser calls it one statement that leaves no trace; `QueryFailed` when it
    does not parse."""
    report = handle.classify_query(text)
    kind = report["query_class"].name
    if kind == "UNKNOWN":
        handle.query("SET readonly = 1", "Null")
        handle.query("EXPLAIN AST " + text, "Null")  # for the parser's message: it raises, or the next line does
    if kind != "READ_ONLY" or report["statement_count"] != 1:
        raise refused_write(f"the statement is {kind} to the engine's parser")


def _connect(path: Path) -> Any:
    engine: Any = import_module("chdb._chdb")  # 500 MB: loaded only where it is used
    return engine.connect(str(path))


def _make_read_only(handle: Any, query: ReadQuery) -> None:
    if query.database:
        handle.query(f"USE {_quoted(query.database, '`')}", "Null")
    settings = ", ".join(f"{name} = {_quoted(value)}" for name, value in query.settings.items())
    handle.query(f"SET {settings}, readonly = 1" if settings else "SET readonly = 1", "Null")


def _quoted(value: str, quote: str = "'") -> str:
    return quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote

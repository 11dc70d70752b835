"""Reads of the chDB engine of this process, a few at a time on threads of their own. Knows no HTTP, writes nothing."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from wattledger_streams.clickhouse_guard import (
    INSIDE_TABLE_FUNCTIONS,
    OUTSIDE_FUNCTIONS,
    SYNTAX_ERROR,
    ReadStatement,
    Refused,
    judge,
    opening_keyword,
)
from wattledger_streams.clickhouse_handle import (
    Answer,
    QueryFailed,
    ReadQuery,
    ReadStream,
    check_class,
    read_whole,
    text_of,
    tokens_of,
    with_handle,
)

T = TypeVar("T")
TOO_MANY_QUERIES = 202
MAX_QUERY_BYTES = 262_144
_OUTSIDE = (
    "SELECT lower(name) FROM system.table_functions UNION DISTINCT "
    "SELECT lower(name) FROM system.functions WHERE categories = 'AI'"
)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What one query may take. A result over `result_bytes` (in the engine's memory) is an error unless streamed."""

    time_s: float = 30.0
    memory_bytes: int = 1 << 30
    result_bytes: int = 128 << 20
    threads: int = 2
    at_once: int = 4
    queue_s: float = 10.0


class ReadEngine:
    """Judges and runs reads; the engine at `path` must be open in this process before, and stay open for as long."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._path, self._limits = path, limits
        self._readers = ThreadPoolExecutor(limits.at_once, "clickhouse-read")
        self._control = ThreadPoolExecutor(1, "clickhouse-control")
        self._free = asyncio.Semaphore(limits.at_once)
        self._numbers = itertools.count(1)
        self._running: set[str] = set()
        self._outside: frozenset[str] = OUTSIDE_FUNCTIONS
        self.version = ""
        self.timezone = ""

    async def open(self) -> None:
        """Learn the engine's version and its own list of functions that reach outside."""
        await self._on(self._control, lambda: with_handle(self._path, self._learn))

    async def close(self) -> None:
        """Stop what runs (a second or so), then end the threads."""
        for mark in tuple(self._running):
            await self._kill(mark)
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._control.shutdown)

    async def judge(self, text: str) -> ReadStatement:
        """The statement's shape. Raises `Refused` unless it is one read of the database by the engine's own tokens and
        parser, `QueryFailed` when it does not parse."""
        return await self._on(self._control, lambda: with_handle(self._path, lambda handle: self._judge(handle, text)))

    async def read(self, query: ReadQuery) -> Answer:
        """Run a judged statement to its end. Raises `QueryFailed`, or `Refused` when no reader comes free."""
        async with self._reader() as mark:
            limited = self._limited(query, mark, self._limits.result_bytes)
            return await self._on(self._readers, lambda: read_whole(self._path, limited))

    async def stream(self, query: ReadQuery) -> AsyncGenerator[bytes, None]:
        """Run a judged SELECT, block by block, as fast as the caller takes them. Raises as `read`, also midway."""
        mark = ""
        result: ReadStream | None = None
        try:
            async with self._reader() as mark:
                result = ReadStream(self._path, self._limited(query, mark, result_bytes=0))
                while block := await self._on(self._readers, result.next_block):
                    yield block
        finally:
            if result is not None:  # after the kill, so that the wait for a block under way is short
                await asyncio.shield(self._on(self._readers, result.close))

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[str]:
        """A free reader for the time of one query; a caller that goes away takes its query with it."""
        mark = f"wattledger-read-{next(self._numbers)}"
        try:
            await asyncio.wait_for(self._free.acquire(), self._limits.queue_s)
        except TimeoutError:
            problem = f"no reader came free in {self._limits.queue_s:g} s: try again"
            raise Refused(TOO_MANY_QUERIES, "TOO_MANY_SIMULTANEOUS_QUERIES", problem) from None
        self._running.add(mark)
        try:
            yield mark
        except (asyncio.CancelledError, GeneratorExit):
            with suppress(QueryFailed):
                await asyncio.shield(self._kill(mark))
            raise
        finally:
            self._running.discard(mark)
            self._free.release()

    async def _kill(self, mark: str) -> None:
        sql = f"KILL QUERY WHERE Settings['log_comment'] = '{mark}' ASYNC"
        await self._on(self._control, lambda: with_handle(self._path, lambda handle: handle.query(sql, "Null")))

    async def _on(self, threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, call)

    def _learn(self, handle: Any) -> None:
        names = frozenset(text_of(handle, _OUTSIDE).split())
        self._outside = OUTSIDE_FUNCTIONS | (names - INSIDE_TABLE_FUNCTIONS)
        self.version, self.timezone = text_of(handle, "SELECT version(), timezone()").split()

    def _judge(self, handle: Any, text: str) -> ReadStatement:
        size_bytes = len(text.encode())
        tokens = tokens_of(handle, text[:MAX_QUERY_BYTES])
        opening_keyword(tokens)
        if size_bytes > MAX_QUERY_BYTES:
            problem = f"Max query size exceeded: {size_bytes} bytes, at most {MAX_QUERY_BYTES}"
            raise Refused(SYNTAX_ERROR, "SYNTAX_ERROR", problem)
        statement = judge(tokens, self._outside)
        check_class(handle, text)
        return statement

    def _limited(self, query: ReadQuery, mark: str, result_bytes: int) -> ReadQuery:
        asked, limits = query.settings, self._limits
        ours = {
            "max_execution_time": _lower(asked.get("max_execution_time"), limits.time_s),
            "max_threads": _lower(asked.get("max_threads"), limits.threads),
            "max_memory_usage": str(limits.memory_bytes),
            "max_result_bytes": str(result_bytes),
            "result_overflow_mode": "throw",
            "log_comment": mark,
        }
        return replace(query, settings={**asked, **ours})


def _lower(asked: str | None, most: float) -> str:
    """The caller may ask for less, never for more; nothing (or 0, ClickHouse's `no limit`) is the most."""
    try:
        value = float(asked or 0)
    except ValueError:
        value = 0.0
    return f"{min(value, most) if value > 0 else most:g}"

"""`python -m tests.fault_harness.clickhouse_server FOLDER PORT`: ClickHouse's engine behind ClickHouse's HTTP
interface, reads and writes, in a process that may be killed. One handle a request, or a session: settings are the
request's own, temporary tables the session's.

Left out: users, external data, compressed answers. HARNESS_SERVER_FAULT injects `action:point:n` around
inserts (`before_insert`, `after_insert`: applied, not answered).
"""

import asyncio
import os
import re
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import cramjam
from aiohttp import web
from wattledger_streams.clickhouse_handle import QueryFailed
from wattledger_streams.clickhouse_protocol import content_type_of, status_of

from tests.fault_harness.fault_point import FaultPoints, read_faults

POINTS = ("before_insert", "after_insert")
_MOST_BODY_BYTES = 1 << 30
_THREADS = 8
_MOST_SESSIONS = 32
_NO_SETTINGS = frozenset(
    {"query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check", "quota_key"}
    | {"user", "password", "role", "wait_end_of_query", "buffer_size", "client_protocol_version", "compress"}
    | {"decompress", "enable_http_compression", "send_progress_in_http_headers", "http_headers_progress_interval_ms"}
)
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INSERT_DATA = re.compile(rb"\s*INSERT\s+INTO\s+(?P<target>[^\n]+?)\s+FORMAT\s+(?P<format>\w+)[ \t]*\n?", re.IGNORECASE)
_TRAILING_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_ANSWERS = ("SELECT", "WITH", "SHOW", "DESC", "EXPLAIN", "EXISTS", "CHECK", "(")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `data` with the statement's target and format when it is an insert that brings its rows."""

    text: str
    output_format: str
    database: str
    parameters: dict[str, str]
    settings: dict[str, str]
    insert: tuple[str, str, bytes] | None
    session: str


@dataclass(frozen=True, slots=True)
class Answered:
    body: bytes
    rows: int
    size_bytes: int
    elapsed_s: float


class Engine:
    """chDB over one folder, on a few threads."""

    def __init__(self, folder: Path, points: FaultPoints) -> None:
        self._folder, self._points = folder, points
        self._threads = ThreadPoolExecutor(_THREADS, "engine")
        self._library: Any = import_module("chdb._chdb")
        self._keeper: Any = None
        self._sessions: dict[str, Any] = {}
        self.version = self.timezone = ""

    def open(self) -> None:
        """Open the folder and keep it open."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._keeper = self._library.connect(str(self._folder))
        found = self._keeper.query("SELECT version(), timezone()", "TabSeparatedRaw").bytes()
        self.version, self.timezone = found.decode().split()

    async def run(self, asked: Asked) -> Answered:
        """Raises QueryFailed."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, asked)

    def _run(self, asked: Asked) -> Answered:
        handle = self._sessions.pop(asked.session, None) or self._library.connect(str(self._folder))
        try:
            if asked.database:
                handle.query(f"USE {_quoted(asked.database, '`')}", "Null")
            if asked.settings:
                pairs = ", ".join(f"{name} = {_quoted(value)}" for name, value in asked.settings.items())
                handle.query(f"SET {pairs}", "Null")
            if asked.insert is not None:
                return self._insert(handle, *asked.insert)
            writes = asked.text.lstrip()[:6].upper() == "INSERT"
            if writes:
                self._points.hit("before_insert")
            found = _answered(handle.query(asked.text, asked.output_format, params=asked.parameters))
            if writes:
                self._points.hit("after_insert")
            return found
        except RuntimeError as error:
            raise QueryFailed(str(error)) from error
        finally:
            self._leave(handle, asked)

    def _leave(self, handle: Any, asked: Asked) -> None:
        """A session's handle stays, without the request's settings; of the sessions, the newest."""
        if not asked.session:
            handle.close()
            return
        for name in asked.settings:
            with suppress(RuntimeError):
                handle.query(f"SET {name} = DEFAULT", "Null")
        self._sessions[asked.session] = handle
        if len(self._sessions) > _MOST_SESSIONS:
            oldest = self._sessions.pop(next(iter(self._sessions)), None)
            if oldest is not None:
                oldest.close()

    def _insert(self, handle: Any, target: str, data_format: str, data: bytes) -> Answered:
        """chDB takes rows from a file only; they are the one block or the few that the client sent."""
        self._points.hit("before_insert")
        with tempfile.NamedTemporaryFile(dir=self._folder.parent, suffix=".insert") as file:
            file.write(data)
            file.flush()
            sql = f"INSERT INTO {target} FROM INFILE {_quoted(file.name)} FORMAT {data_format}"
            found = _answered(handle.query(sql, "TabSeparated"))
        self._points.hit("after_insert")
        return found


def _answered(result: Any) -> Answered:
    return Answered(result.bytes() or b"", result.rows_read(), result.bytes_read(), result.elapsed())


def _quoted(value: str, quote: str = "'") -> str:
    return quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def _plain(body: bytes, encoding: str) -> bytes:
    """A request's body as it was before `Content-Encoding`."""
    if not body or encoding in ("", "identity"):
        return body
    codec = {"lz4": cramjam.lz4, "zstd": cramjam.zstd, "gzip": cramjam.gzip, "deflate": cramjam.zlib}[encoding]
    return bytes(codec.decompress(body))


async def _asked(request: web.Request) -> Asked:
    fields: dict[str, str] = dict(request.query)
    body = b""
    if request.content_type.startswith(("multipart/form-data", "application/x-www-form-urlencoded")):
        fields |= {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    else:
        body = _plain(await request.read(), request.headers.get("Content-Encoding", ""))
    query = fields.get("query", "")
    whole = f"{query}\n".encode() + body if query else body
    match = _INSERT_DATA.match(whole)
    insert = None
    if match is not None and not re.search(rb"\bSELECT\b|\bVALUES\b", match["target"], re.IGNORECASE):
        insert = match["target"].decode(), match["format"].decode(), whole[match.end() :]
    text = "" if insert else whole.decode(errors="surrogateescape")
    parameters = {name.removeprefix("param_"): value for name, value in fields.items() if name.startswith("param_")}
    settings = {
        name: value
        for name, value in fields.items()
        if name not in _NO_SETTINGS and not name.startswith("param_") and _SETTING.fullmatch(name)
    }
    database = fields.get("database", "") or request.headers.get("X-ClickHouse-Database", "")
    output_format = fields.get("default_format", "") or request.headers.get("X-ClickHouse-Format", "TabSeparated")
    return Asked(text, output_format, database, parameters, settings, insert, fields.get("session_id", ""))


class Server:
    """ClickHouse's HTTP conventions around the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def answer(self, request: web.Request) -> web.Response:
        headers = {
            "X-ClickHouse-Query-Id": request.query.get("query_id", ""),
            "X-ClickHouse-Server-Display-Name": "fault-harness",
            "X-ClickHouse-Timezone": self._engine.timezone,
        }
        asked = await _asked(request)
        if not asked.text.strip() and asked.insert is None:
            return web.Response(text="Ok.\n")
        try:
            found = await self._engine.run(asked)
        except QueryFailed as error:
            headers |= {"X-ClickHouse-Exception-Code": str(error.code), "Content-Type": "text/plain; charset=UTF-8"}
            text = f"{error} (version {self._engine.version})\n"
            return web.Response(status=status_of(error.code), text=text, headers=headers)
        kind = "written" if asked.insert is not None else "read"
        summary = (
            f'{{"{kind}_rows":"{found.rows}","{kind}_bytes":"{found.size_bytes}",'
            f'"elapsed_ns":"{int(found.elapsed_s * 1e9)}"}}'
        )
        headers["X-ClickHouse-Summary"] = summary
        if found.body or asked.text.lstrip().upper().startswith(_ANSWERS):
            embedded = _TRAILING_FORMAT.search(asked.text)
            headers["X-ClickHouse-Format"] = embedded[1] if embedded else asked.output_format
            headers["Content-Type"] = content_type_of(headers["X-ClickHouse-Format"])
        return web.Response(body=found.body, headers=headers)


async def _ping(_: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


async def serve(folder: Path, port: int) -> None:
    """Until SIGTERM."""
    faults = read_faults(os.environ.get("HARNESS_SERVER_FAULT", ""), POINTS)
    engine = Engine(folder / "data", FaultPoints(faults, folder / "faults"))
    await asyncio.to_thread(engine.open)
    app = web.Application(client_max_size=_MOST_BODY_BYTES)
    app.add_routes([web.get("/ping", _ping), web.route("*", "/", Server(engine).answer)])
    runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))

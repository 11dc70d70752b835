"""The read-only ClickHouse HTTP endpoint on loopback, for BI tools and clients while rows come in. Stores nothing.

No sessions, no users, no compression: every caller on this machine may read everything, as one reader.
"""

import json
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

import structlog
from aiohttp import HttpVersion11, web

from wattledger_streams.clickhouse_engine import ReadEngine, ReadLimits
from wattledger_streams.clickhouse_guard import ReadStatement, Refused, refused_write
from wattledger_streams.clickhouse_handle import QueryFailed, ReadQuery
from wattledger_streams.clickhouse_protocol import (
    STREAM_FORMATS,
    check_host,
    content_type_of,
    error_text,
    exception_block,
    query_asked,
    status_of,
)
from wattledger_streams.clickhouse_store import Store, StoreRefused

log = structlog.get_logger()
LOOPBACK = "127.0.0.1"
_MAX_BODY_BYTES = 1 << 20


class ReadEndpoint:
    """A running endpoint; `port` is the real one. Close it before the store."""

    def __init__(self, engine: ReadEngine, runner: web.AppRunner, port: int) -> None:
        self._engine, self._runner, self.port = engine, runner, port

    async def close(self) -> None:
        """Take no more queries, stop those that run, end the threads."""
        await self._runner.cleanup()
        await self._engine.close()


async def open_endpoint(store: Store, port: int, limits: ReadLimits | None = None) -> ReadEndpoint:
    """Serve the embedded `store` on 127.0.0.1:`port` (0: any free one). Raises `StoreRefused` when it can't."""
    if store.embedded_path is None:
        raise StoreRefused("the read-only endpoint is for the embedded engine: point clients at the ClickHouse server")
    engine = ReadEngine(store.embedded_path, limits or ReadLimits())
    await engine.open()
    app = web.Application(client_max_size=_MAX_BODY_BYTES)
    app.add_routes([web.get("/ping", _ping), web.route("*", "/", _Queries(engine, store.database).answer)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, auto_decompress=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
    except OSError as error:
        await runner.cleanup()
        await engine.close()
        raise StoreRefused(
            f"port {port} on {LOOPBACK} can't be used ({error}): choose another endpoint port"
        ) from error
    bound = int(runner.addresses[0][1])
    log.info("clickhouse_endpoint_open", port=bound, database=store.database)
    return ReadEndpoint(engine, runner, bound)


async def _ping(_: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


class _Queries:
    def __init__(self, engine: ReadEngine, database: str) -> None:
        self._engine, self._database = engine, database

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = {
            "X-ClickHouse-Query-Id": request.query.get("query_id") or str(uuid.uuid4()),
            "X-ClickHouse-Server-Display-Name": "wattledger",
            "X-ClickHouse-Timezone": self._engine.timezone,
        }
        try:
            return await self._answer(request, headers)
        except Refused as refusal:
            log.info("clickhouse_query_refused", code=refusal.code, reason=refusal.message)
            return self._failed(refusal.code, error_text(refusal), headers)
        except QueryFailed as failure:
            return self._failed(failure.code, str(failure), headers)

    async def _answer(self, request: web.Request, headers: dict[str, str]) -> web.StreamResponse:
        check_host(request.headers.get("Host", ""))
        fields, body = await _fields(request)
        if not body and not fields.get("query") and request.method in ("GET", "HEAD"):
            return web.Response(text="Ok.\n")
        asked = query_asked(fields, request.headers, body, self._database)
        statement = await self._engine.judge(asked.query.text)
        query = replace(asked.query, output_format=statement.output_format or asked.query.output_format)
        headers |= {
            "X-ClickHouse-Format": query.output_format,
            "Content-Type": content_type_of(query.output_format),
        }
        if request.method == "HEAD":
            return web.Response(headers=headers)
        if _streams(statement, query) and not asked.wait_end and request.version >= HttpVersion11:
            return await self._stream(request, query, headers)
        answer = await self._engine.read(query)
        summary = {"read_rows": answer.read_rows, "read_bytes": answer.read_bytes}
        summary |= {"elapsed_ns": int(answer.elapsed_s * 1_000_000_000)}
        headers["X-ClickHouse-Summary"] = json.dumps({name: str(value) for name, value in summary.items()})
        return web.Response(body=answer.body, headers=headers)

    async def _stream(self, request: web.Request, query: ReadQuery, headers: dict[str, str]) -> web.StreamResponse:
        """The status goes out with the first block; a query that fails later ends in an exception block and a broken
        transfer, so that no client can take what it has for all there is."""
        tag = secrets.token_hex(8)
        response = web.StreamResponse(headers={**headers, "X-ClickHouse-Exception-Tag": tag})
        async with aclosing(self._engine.stream(query)) as blocks:
            first = await anext(blocks, b"")
            await response.prepare(request)
            try:
                await _write(response, first, blocks)
            except QueryFailed as failure:
                log.info("clickhouse_query_failed_midway", code=failure.code)
                await response.write(exception_block(tag, str(failure)))
                if request.transport is not None:
                    request.transport.close()  # what is written goes out, the end of the transfer never does
        return response

    def _failed(self, code: int, text: str, headers: dict[str, str]) -> web.Response:
        headers = {**headers, "X-ClickHouse-Exception-Code": str(code), "Content-Type": "text/plain; charset=UTF-8"}
        return web.Response(status=status_of(code), text=f"{text} (version {self._engine.version})\n", headers=headers)


async def _write(response: web.StreamResponse, first: bytes, blocks: AsyncIterator[bytes]) -> None:
    if first:
        await response.write(first)
    async for block in blocks:
        await response.write(block)


def _streams(statement: ReadStatement, query: ReadQuery) -> bool:
    return statement.streamable and query.output_format in STREAM_FORMATS


async def _fields(request: web.Request) -> tuple[dict[str, str], str]:
    """Parameters (of the address and of a form) and the body as text."""
    fields = dict(request.query)
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise refused_write(f"a body in {encoding} is not a query")
    try:
        return await _read_body(request, fields)
    except web.HTTPRequestEntityTooLarge as error:
        raise refused_write(f"a body over {_MAX_BODY_BYTES} bytes is not a query") from error


async def _read_body(request: web.Request, fields: dict[str, str]) -> tuple[dict[str, str], str]:
    if not request.content_type.startswith(("multipart/form-data", "application/x-www-form-urlencoded")):
        return fields, (await request.read()).decode(errors="replace")
    form = await request.post()
    for name, value in form.items():
        if not isinstance(value, str):
            raise Refused(48, "NOT_IMPLEMENTED", f"external data ({name}) is not offered here: join it on your side")
        fields[name] = value
    return fields, ""

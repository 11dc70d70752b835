"""A TCP proxy of our own, on loopback, in a thread: what a network does to connections, switched while they run."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.fault_harness.wire import RawWire, Wire

PASS, REFUSE, STALL, ANSWER = "pass", "refuse", "stall", "answer"
_READ_BYTES = 65536
_QUEUED = 256
_POLL_S = 0.01
_RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Losing:
    """Which answers are lost: of requests whose name holds `match`, after `skip` of them, `times` (None: all)."""

    match: str
    skip: int
    times: int | None

    def takes(self, name: str) -> bool:
        if self.match not in name or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


@dataclass(slots=True)
class Counters:
    """What went through since the start."""

    accepted: int = 0
    refused: int = 0
    requests: int = 0
    lost_answers: int = 0
    cut: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class Proxy:
    """Listens on `port` and forwards to one address. A mode holds until another is set; all may be called at any
    time, from any thread. `wire` (KafkaWire, HttpWire) tells requests apart for `lose_answers` and `answer`."""

    def __init__(self, target_host: str, target_port: int, wire: Callable[[], Wire] = RawWire) -> None:
        self.port = 0
        self.counters = Counters()
        self.wire = wire
        self.mode = PASS
        self.delay_s = 0.0
        self.bytes_per_s = 0
        self.losing: Losing | None = None
        self.canned = b""
        self._target = (target_host, target_port)
        self._loop = asyncio.new_event_loop()
        self._open: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def start(self) -> "Proxy":
        """Listen on a free port."""
        self._thread.start()
        self._call(self._listen())
        return self

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        """Cut every connection and stop listening."""
        if self._thread.is_alive():
            self._call(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
            self._loop.close()

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut_all()
        if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(tasks, timeout=5)

    def _call(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    # modes

    def pass_through(self) -> None:
        """As if the proxy were not there; ends every other mode."""
        self.losing, self.delay_s, self.bytes_per_s, self.mode = None, 0.0, 0, PASS

    def refuse(self) -> None:
        """The server is away: open connections are reset, new ones closed as soon as they are accepted."""
        self.mode = REFUSE
        self.reset()

    def stall(self) -> None:
        """Connections are accepted and kept, and nothing goes through; what was sent goes on at `pass_through`."""
        self.mode = STALL

    def delay(self, seconds: float) -> None:
        """Every byte takes so long, in each direction; the rate stays."""
        self.delay_s = seconds

    def throttle(self, bytes_per_s: int) -> None:
        """So many bytes a second in each direction of each connection; 0: no limit."""
        self.bytes_per_s = bytes_per_s

    def drop_responses(self, match: str = "") -> None:
        """Requests (those whose name holds `match`) reach the server; their answers never come: at an answer's first
        byte the connection is cut."""
        self.losing = Losing(match, 0, None)

    def cut_after_request(self, n: int = 1, match: str = "") -> None:
        """The n-th request from now (of those whose name holds `match`) is done by the server and its answer lost, as
        in `drop_responses`; what comes after goes through again."""
        self.losing = Losing(match, n - 1, 1)

    def answer(self, canned: bytes) -> None:
        """Every request is answered with these bytes, here, and the connection closed; nothing reaches the server."""
        self.canned, self.mode = canned, ANSWER

    def reset(self) -> None:
        """Cut the connections that are open now, with RST."""
        done = threading.Event()

        def cut() -> None:
            self._cut_all()
            done.set()

        self._loop.call_soon_threadsafe(cut)
        done.wait(10)

    @property
    def connections(self) -> int:
        """How many are open now."""
        return len(self._open)

    def _cut_all(self) -> None:
        for connection in tuple(self._open):
            connection.cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == REFUSE:
            self.counters.refused += 1
            _reset(writer)
            return
        self.counters.accepted += 1
        connection = _Connection(self, reader, writer)
        self._open.add(connection)
        try:
            await connection.run(*self._target)
        finally:
            self._open.discard(connection)


class _Connection:
    """One client's connection and its twin to the server."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._wire = proxy.wire()
        self._doomed: set[int] = set()
        self._server_writer: asyncio.StreamWriter | None = None
        self._pumps: list[asyncio.Task[None]] = []
        self._is_cut = False

    async def run(self, host: str, port: int) -> None:
        try:
            server_reader, self._server_writer = await asyncio.open_connection(host, port)
        except OSError:
            self.cut()
            return
        up: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED)
        down: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED)
        self._pumps = [
            asyncio.create_task(self._read(self._reader, up)),
            asyncio.create_task(self._read(server_reader, down)),
            asyncio.create_task(self._write_up(up, self._server_writer)),
            asyncio.create_task(self._write_down(down)),
        ]
        if self._is_cut:
            self.cut()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for writer in (self._writer, self._server_writer):
            writer.close()

    def cut(self) -> None:
        """End both sides at once: RST to the client, and to the server."""
        if not self._is_cut:
            self._proxy.counters.cut += 1
        self._is_cut = True
        for writer in (self._writer, self._server_writer):
            if writer is not None:
                _reset(writer)
        for pump in self._pumps:
            pump.cancel()

    async def _read(self, reader: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                data = await reader.read(_READ_BYTES)
            except OSError:
                self.cut()
                return
            await queue.put((loop.time(), data))
            if not data:
                return

    async def _next(self, queue: asyncio.Queue[tuple[float, bytes]]) -> bytes:
        """The next piece, when it is due and nothing is stalled."""
        came_s, data = await queue.get()
        while self._proxy.mode == STALL or asyncio.get_running_loop().time() < came_s + self._proxy.delay_s:
            await asyncio.sleep(_POLL_S)
        if self._proxy.bytes_per_s:
            await asyncio.sleep(len(data) / self._proxy.bytes_per_s)
        return data

    async def _write_up(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        counters = self._proxy.counters
        while data := await self._next(queue):
            ended = self._wire.requests(data)
            counters.requests += len(ended)
            if self._proxy.mode == ANSWER:
                if ended:
                    await self._answer_here()
                    return
                continue
            losing = self._proxy.losing
            self._doomed |= {number for number, name in ended if losing is not None and losing.takes(name)}
            counters.bytes_up += len(data)
            await self._write(writer, data)
        with suppress(OSError):
            writer.write_eof()

    async def _answer_here(self) -> None:
        await self._write(self._writer, self._proxy.canned)
        self._writer.close()
        self.cut()

    async def _write_down(self, queue: asyncio.Queue[tuple[float, bytes]]) -> None:
        while data := await self._next(queue):
            for number, piece in self._wire.answers(data):
                if number in self._doomed:
                    self._proxy.counters.lost_answers += 1
                    self.cut()
                    return
                self._proxy.counters.bytes_down += len(piece)
                await self._write(self._writer, piece)
        with suppress(OSError):
            self._writer.write_eof()

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        try:
            writer.write(data)
            await writer.drain()
        except OSError:
            self.cut()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    found = writer.get_extra_info("socket")
    with suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()

"""Where requests and answers begin and end on a connection: Kafka's frames, and HTTP as ClickHouse's clients speak it.

Owns framing only: nothing is changed or answered here.
"""

from typing import Protocol
from urllib.parse import unquote_plus

PRODUCE = "produce"
_KAFKA_NAMES = {
    0: PRODUCE, 1: "fetch", 2: "list_offsets", 3: "metadata", 8: "offset_commit", 9: "offset_fetch",
    10: "find_coordinator", 11: "join_group", 12: "heartbeat", 13: "leave_group", 14: "sync_group", 18: "api_versions",
}  # fmt: skip
_NAME_BYTES = 400


class Wire(Protocol):
    """The state of one connection. Requests are numbered by the wire; an answer carries its request's number."""

    def requests(self, data: bytes) -> list[tuple[int, str]]:
        """Number and name of every request whose last byte is in `data`."""
        ...

    def answers(self, data: bytes) -> list[tuple[int, bytes]]:
        """`data` cut into pieces of one answer each; what is too short to tell is kept for the next call."""
        ...


class RawWire:
    """Any protocol: every piece from the client is a request without a name, every piece back answers the last."""

    def __init__(self) -> None:
        self._number = 0

    def requests(self, data: bytes) -> list[tuple[int, str]]:
        self._number += 1
        return [(self._number, "")]

    def answers(self, data: bytes) -> list[tuple[int, bytes]]:
        return [(self._number, data)]


class KafkaWire:
    """Kafka's frames: four bytes of length, then api key, version and correlation id; an answer starts with the id.
    A request's name is its api (`produce`, `offset_commit`, ...)."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._request = (0, "")
        self._answer_head = b""
        self._answer_left = 0
        self._answer = 0

    def requests(self, data: bytes) -> list[tuple[int, str]]:
        ended = []
        while data:
            if not self._left:
                take = 12 - len(self._head)
                self._head, data = self._head + data[:take], data[take:]
                if len(self._head) < 12:
                    break
                api = int.from_bytes(self._head[4:6], "big")
                self._request = (int.from_bytes(self._head[8:12], "big"), _KAFKA_NAMES.get(api, f"api_{api}"))
                self._left = int.from_bytes(self._head[:4], "big") - 8
                self._head = b""
            take = min(self._left, len(data))
            data, self._left = data[take:], self._left - take
            if not self._left:
                ended.append(self._request)
        return ended

    def answers(self, data: bytes) -> list[tuple[int, bytes]]:
        pieces = []
        while data:
            begun = b""
            if not self._answer_left:
                take = 8 - len(self._answer_head)
                self._answer_head, data = self._answer_head + data[:take], data[take:]
                if len(self._answer_head) < 8:
                    break
                begun, self._answer_head = self._answer_head, b""
                self._answer = int.from_bytes(begun[4:8], "big")
                self._answer_left = int.from_bytes(begun[:4], "big") - 4
            take = min(self._answer_left, len(data))
            pieces.append((self._answer, begun + data[:take]))
            data, self._answer_left = data[take:], self._answer_left - take
        return pieces


class HttpWire:
    """HTTP/1.1 without pipelining. A request's name is its method, address (unquoted) and the body's first bytes."""

    def __init__(self) -> None:
        self._number = 0
        self._buffer = b""
        self._name = ""
        self._left: int | None = None
        self._chunked = False

    def requests(self, data: bytes) -> list[tuple[int, str]]:
        ended = []
        self._buffer += data
        while self._buffer:
            if self._left is None and not self._begin():
                break
            if not (self._skip_chunks() if self._chunked else self._skip_body()):
                break
            self._number += 1
            self._left = None
            ended.append((self._number, self._name))
        return ended

    def _begin(self) -> bool:
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return False
        lines = head.decode("latin-1").split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self._chunked = "chunked" in fields.get("transfer-encoding", "")
        self._left = int(fields.get("content-length", "0"))
        self._name = unquote_plus(lines[0])[:4000] + "\n"
        self._buffer = rest
        return True

    def _add_to_name(self, body: bytes) -> None:
        room = _NAME_BYTES - len(self._name.partition("\n")[2])
        self._name += body[: max(room, 0)].decode("latin-1")

    def _skip_body(self) -> bool:
        left = self._left or 0
        take = min(left, len(self._buffer))
        self._add_to_name(self._buffer[:take])
        self._buffer, self._left = self._buffer[take:], left - take
        return self._left == 0

    def _skip_chunks(self) -> bool:
        """Past whole chunks only; True at the last one."""
        while True:
            size_text, found, rest = self._buffer.partition(b"\r\n")
            size = int(size_text.split(b";")[0] or b"0", 16) if found else 0
            if not found or len(rest) < size + 2:
                return False
            self._add_to_name(rest[:size])
            self._buffer = rest[size + 2 :]
            if size == 0:
                return True

    def answers(self, data: bytes) -> list[tuple[int, bytes]]:
        return [(self._number, data)]


def http_answer(status: int, text: str, code: int | None = None) -> bytes:
    """A whole answer for `Proxy.answer`, as ClickHouse would give it; `code` is ClickHouse's number of the error."""
    body = f"{text}\n".encode()
    coded = f"X-ClickHouse-Exception-Code: {code}\r\n" if code is not None else ""
    head = f"HTTP/1.1 {status} Fault\r\nContent-Length: {len(body)}\r\n{coded}Connection: close\r\n\r\n"
    return head.encode() + body

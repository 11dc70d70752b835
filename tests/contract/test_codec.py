"""The wire format: only BadRecord comes out of bad bytes; fixed ids, and ids from a registry over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_schemas import BadRecord, Codec
from wattledger_schemas.catalogue import catalogue, newest
from wattledger_schemas.registry import Registry

TICK = {"at_us": 1_794_182_400_000_000, "stale_sources": ["a", "b"]}
RAW = Codec().encode("tick", TICK)


def test_a_record_starts_with_a_zero_byte_and_its_fixed_id() -> None:
    assert RAW[0] == 0
    assert int.from_bytes(RAW[1:5], "big") == newest("tick").schema_id == 4_000_201


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "too_short"),
        (RAW[:4], "too_short"),
        (b"{" + RAW[1:], "bad_magic"),
        (RAW[:1] + b"\0\0\0\7" + RAW[5:], "unknown_schema_id"),
        (RAW + b"x", "trailing_bytes"),
        *((RAW[:length], "undecodable") for length in range(5, len(RAW))),
    ],
)
def test_bad_bytes_are_refused_with_a_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(BadRecord) as caught:
        Codec().decode(raw)
    assert caught.value.reason_code == reason


CODEC = Codec()


def test_the_body_is_given_of_records_of_the_newest_version_only() -> None:
    assert bytes(CODEC.newest_body(RAW, "tick") or b"") == RAW[5:]
    assert CODEC.newest_body(RAW, "mark") is None
    for raw in (b"", RAW[:4], b"{" + RAW[1:], RAW[:1] + b"\0\0\0\7" + RAW[5:]):
        assert CODEC.newest_body(raw, "tick") is None
    versions = [entry for entry in catalogue() if entry.subject == "job_event"]
    found = [CODEC.newest_body(b"\0" + entry.schema_id.to_bytes(4, "big"), "job_event") for entry in versions]
    assert [body is not None for body in found] == [False] * (len(versions) - 1) + [True]


@given(st.binary(max_size=200), st.sampled_from(catalogue()))
def test_no_bytes_give_anything_but_a_record_or_a_bad_record(body: bytes, entry: object) -> None:
    header = b"\0" + entry.schema_id.to_bytes(4, "big")  # type: ignore[attr-defined]
    try:
        CODEC.decode(header + body)
    except BadRecord as error:
        assert error.reason_code in ("undecodable", "trailing_bytes")


def test_what_does_not_fit_the_schema_is_not_encoded() -> None:
    with pytest.raises(BadRecord, match="not_encodable"):
        Codec().encode("tick", {"at_us": "noon", "stale_sources": []})


class RegistryServer(ThreadingHTTPServer):
    """A schema registry in memory, with ids of its own; `failures` answers 503 that many times first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.schemas: list[str] = []
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    def answer(self, status: int, body: dict[str, object]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in self.server.schemas:
            self.server.schemas.append(schema)
        self.answer(200, {"id": 100 + self.server.schemas.index(schema)})

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        number = int(self.path.rsplit("/", 1)[1]) - 100
        if 0 <= number < len(self.server.schemas):
            self.answer(200, {"schema": self.server.schemas[number]})
        else:
            self.answer(404, {"error_code": 40403})


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    server = RegistryServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def url(server: RegistryServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_with_a_registry_ids_are_its_own_and_a_stranger_reads_them(registry: RegistryServer) -> None:
    writer, reader = Codec.for_url(url(registry)), Codec.for_url(url(registry))
    writer.encode("mark", {"origin_partition": 0, "origin_offset": 1, "origin_seq": 0, "at_us": 5, "stale_sources": []})
    raw = writer.encode("tick", TICK)
    assert int.from_bytes(raw[1:5], "big") == 101
    assert reader.newest_body(raw, "tick") is None, "no id is asked for to say so"
    assert reader.decode(raw) == ("tick", 1, TICK)
    assert bytes(reader.newest_body(raw, "tick") or b"") == raw[5:]
    assert registry.asked[-1] == "/schemas/ids/101"
    reader.decode(raw)
    assert len([path for path in registry.asked if path.startswith("/schemas")]) == 1, "an id is asked for once"


def test_an_id_that_the_registry_does_not_know_is_a_bad_record(registry: RegistryServer) -> None:
    with pytest.raises(BadRecord, match="unknown_schema_id"):
        Codec.for_url(url(registry)).decode(b"\0" + (999).to_bytes(4, "big") + RAW[5:])


def test_a_schema_that_is_none_of_ours_is_a_bad_record(registry: RegistryServer) -> None:
    registry.schemas.append(json.dumps({"type": "record", "name": "Stranger", "fields": []}))
    with pytest.raises(BadRecord, match="none of ours"):
        Codec.for_url(url(registry)).decode(b"\0" + (100).to_bytes(4, "big"))


def test_a_registry_that_comes_late_is_waited_for() -> None:
    server = RegistryServer()
    found = Registry(url(server), timeout_s=0.3)
    thread = threading.Timer(0.5, server.serve_forever)
    thread.start()
    assert found.register("tick", newest("tick").schema) == 100
    server.shutdown()
    server.server_close()

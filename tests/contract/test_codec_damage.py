"""Damage on the way: every kept example, cut at each length or with a byte flipped, gives a record or BadRecord."""

import json
import random
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_schemas import BadRecord, Codec
from wattledger_schemas.catalogue import catalogue, newest
from wattledger_schemas.codec import Decoded

CODEC = Codec()
FOLDER = Path(str(files("wattledger_schemas") / "examples"))
SUBJECTS = sorted({entry.subject for entry in catalogue()})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if set(value) == {"hex"} else {k: _plain(v) for k, v in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def encoded(subject: str) -> bytes:
    text = (FOLDER / subject / f"v{newest(subject).version}" / "rich.json").read_text()
    return CODEC.encode(subject, _plain(json.loads(text)))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_record_cut_at_any_length_is_a_bad_record(subject: str) -> None:
    raw = encoded(subject)
    for length in range(len(raw)):
        with pytest.raises(BadRecord) as caught:
            CODEC.decode(raw[:length])
        assert caught.value.reason_code == ("too_short" if length < 5 else "undecodable")


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_flipped_byte_gives_a_record_or_a_bad_record(subject: str) -> None:
    raw = encoded(subject)
    draw = random.Random(subject)
    for _ in range(300):
        damaged = bytearray(raw)
        damaged[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        try:
            assert isinstance(CODEC.decode(bytes(damaged)), Decoded)
        except BadRecord as error:
            assert error.reason_code and error.detail


@given(st.binary(max_size=64))
def test_bytes_that_are_no_record_give_only_bad_record(raw: bytes) -> None:
    try:
        CODEC.decode(raw)
    except BadRecord as error:
        known = ("too_short", "bad_magic", "unknown_schema_id", "undecodable", "trailing_bytes")
        assert error.reason_code in known


class Answer(BaseHTTPRequestHandler):
    """Gives every id the body that the server holds."""

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    def do_GET(self) -> None:
        raw: bytes = self.server.body  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@pytest.fixture
def answering() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Answer)
    server.body, server.status = b"{}", 200  # type: ignore[attr-defined]
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_an_older_form_of_our_schema_is_read_into_the_newest(answering: HTTPServer) -> None:
    older = json.loads(json.dumps(newest("price").schema))
    older["fields"] = [{**field, "doc": "old words"} for field in older["fields"]]
    answering.body = json.dumps({"schema": json.dumps(older)}).encode()  # type: ignore[attr-defined]
    raw = encoded("price")
    found = Codec.for_url(f"http://127.0.0.1:{answering.server_address[1]}").decode(b"\0\0\0\0\7" + raw[5:])
    assert (found.subject, found.record) == ("price", CODEC.decode(raw).record)


@pytest.mark.parametrize(
    "schema",
    ['"string"', '["null", "string"]', "not json", '{"type": "record", "name": "Tick", "fields": [{"name": "x"}]}'],
)
def test_a_registry_that_answers_with_no_schema_of_ours_gives_a_bad_record(answering: HTTPServer, schema: str) -> None:
    answering.body = json.dumps({"schema": schema}).encode()  # type: ignore[attr-defined]
    with pytest.raises(BadRecord, match="unknown_schema_id"):
        Codec.for_url(f"http://127.0.0.1:{answering.server_address[1]}").decode(encoded("tick")[:1] + b"\0\0\0\7\0\0")


def test_trouble_of_the_registry_is_not_the_records(answering: HTTPServer) -> None:
    """A good record must not become a dead letter because the registry refuses or is out of order for a while."""
    answering.status = 403  # type: ignore[attr-defined]
    codec = Codec.for_url(f"http://127.0.0.1:{answering.server_address[1]}")
    with pytest.raises(httpx.HTTPStatusError):
        codec.decode(b"\0\0\0\0\7\0\0")
    answering.status = 503  # type: ignore[attr-defined]
    answering.body = json.dumps({"schema": json.dumps(newest("tick").schema)}).encode()  # type: ignore[attr-defined]
    well_again = Timer(0.3, setattr, (answering, "status", 200))
    well_again.start()
    assert codec.decode(b"\0\0\0\0\7" + encoded("tick")[5:]).subject == "tick"
    well_again.join()

"""The harness's proxy: each mode does to a connection what it says, to Kafka's and ClickHouse's protocols too."""

import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaError, Message, Producer
from wattledger_streams.log_reader import LogReader
from wattledger_streams.topics import create_topics

from tests import waiting
from tests.fault_harness.broker_process import start_private_broker
from tests.fault_harness.proxy import Proxy
from tests.fault_harness.wire import PRODUCE, HttpWire, KafkaWire, http_answer


class Echo:
    """A server that sends back what it gets, and remembers it."""

    def __init__(self) -> None:
        self.got = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                self.got += data
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    found = Proxy("127.0.0.1", echo.port).start()
    yield found
    found.close()


def connected(proxy: Proxy) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
    found.settimeout(5)
    return found


def received(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := client.recv(65536)):
        data += piece
    return data


until = partial(waiting.until, within_s=5, every_s=0.01)


def test_it_passes_bytes_both_ways_unchanged_and_counts_them(proxy: Proxy) -> None:
    payload = bytes(range(256)) * 4000
    with connected(proxy) as client:
        threading.Thread(target=client.sendall, args=(payload,)).start()
        assert received(client, len(payload)) == payload
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert (proxy.counters.bytes_up, proxy.counters.bytes_down) == (len(payload), len(payload))
    until(lambda: proxy.connections == 0, "connection closed")


def test_refused_connections_end_at_once_and_open_ones_are_reset(proxy: Proxy) -> None:
    with connected(proxy) as client:
        client.sendall(b"a")
        assert client.recv(1) == b"a"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    # the reset may come before or after the connection is made for the client
    with pytest.raises(ConnectionError), connected(proxy) as client:
        client.recv(1)
    assert proxy.counters.refused == 1
    proxy.pass_through()
    with connected(proxy) as client:
        client.sendall(b"b")
        assert client.recv(1) == b"b"


def test_stalled_it_keeps_what_was_sent_and_hands_it_on_afterwards(proxy: Proxy, echo: Echo) -> None:
    proxy.stall()
    with connected(proxy) as client:
        client.sendall(b"held")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert echo.got == b""
        client.settimeout(5)
        proxy.pass_through()
        assert received(client, 4) == b"held"


def test_a_delay_adds_to_each_way_and_does_not_queue_up(proxy: Proxy) -> None:
    proxy.delay(0.2)
    with connected(proxy) as client:
        began_s = time.monotonic()
        for _ in range(10):
            client.sendall(b"x")
            time.sleep(0.01)
        assert received(client, 10) == b"x" * 10
        took_s = time.monotonic() - began_s
    assert 0.4 <= took_s < 1.5


def test_throttled_it_keeps_to_the_rate(proxy: Proxy) -> None:
    proxy.throttle(20_000)
    with connected(proxy) as client:
        began_s = time.monotonic()
        client.sendall(bytes(5_000))
        assert len(received(client, 5_000)) == 5_000
        assert time.monotonic() - began_s >= 0.45


def test_with_dropped_answers_the_server_has_the_request_and_the_client_a_reset(proxy: Proxy, echo: Echo) -> None:
    proxy.drop_responses()
    with connected(proxy) as client:
        client.sendall(b"done")
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert echo.got == b"done" and proxy.counters.lost_answers == 1


@pytest.fixture
def web_server() -> Iterator[tuple[int, list[str]]]:
    """An HTTP server that keeps connections open, and the bodies it was sent."""
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers["Content-Length"]))
            bodies.append(body.decode())
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, bodies
    server.shutdown()
    server.server_close()


def chunks(text: str) -> Iterator[bytes]:
    for at in range(0, len(text), 5):
        yield text[at : at + 5].encode()


def test_the_nth_insert_is_done_and_its_answer_lost_while_others_pass(web_server: tuple[int, list[str]]) -> None:
    port, bodies = web_server
    proxy = Proxy("127.0.0.1", port, HttpWire).start()
    try:
        proxy.cut_after_request(2, match="INSERT")
        with httpx.Client(base_url=f"http://127.0.0.1:{proxy.port}", trust_env=False) as client:
            assert client.post("/", content=chunks("INSERT 1")).text == "ok"
            assert client.post("/", content="SELECT 1").text == "ok"
            with pytest.raises(httpx.TransportError):
                client.post("/", content=chunks("INSERT 2"))
            assert client.post("/?query=INSERT+INTO+t", content="3").text == "ok"
        assert bodies == ["INSERT 1", "SELECT 1", "INSERT 2", "3"]
        assert (proxy.counters.requests, proxy.counters.lost_answers) == (4, 1)
    finally:
        proxy.close()


def test_it_can_answer_itself_and_nothing_reaches_the_server(web_server: tuple[int, list[str]]) -> None:
    port, bodies = web_server
    proxy = Proxy("127.0.0.1", port, HttpWire).start()
    try:
        proxy.answer(http_answer(503, "Code: 202. DB::Exception: too many. (TOO_MANY_SIMULTANEOUS_QUERIES)", 202))
        with httpx.Client(base_url=f"http://127.0.0.1:{proxy.port}", trust_env=False) as client:
            for _ in range(2):
                answer = client.post("/", content="INSERT 1")
                assert (answer.status_code, answer.headers["X-ClickHouse-Exception-Code"]) == (503, "202")
            proxy.pass_through()
            assert client.post("/", content="INSERT 2").text == "ok"
        assert bodies == ["INSERT 2"]
    finally:
        proxy.close()


def test_kafka_frames_are_told_apart_however_they_are_cut() -> None:
    def frame(api: int, correlation: int, size: int) -> bytes:
        body = api.to_bytes(2, "big") + b"\0\x07" + correlation.to_bytes(4, "big") + bytes(size)
        return len(body).to_bytes(4, "big") + body

    def answer(correlation: int, size: int) -> bytes:
        return (4 + size).to_bytes(4, "big") + correlation.to_bytes(4, "big") + bytes(size)

    sent = frame(18, 1, 30) + frame(0, 2, 5000) + frame(3, 3, 0) + frame(0, 4, 1)
    back = answer(1, 9) + answer(2, 0) + answer(3, 777)
    for step in (1, 7, 100, 10_000):
        wire = KafkaWire()
        named = [found for at in range(0, len(sent), step) for found in wire.requests(sent[at : at + step])]
        assert named == [(1, "api_versions"), (2, PRODUCE), (3, "metadata"), (4, PRODUCE)]
        pieces = [piece for at in range(0, len(back), step) for piece in wire.answers(back[at : at + step])]
        assert b"".join(data for _, data in pieces) == back
        whole = {number: b"".join(data for n, data in pieces if n == number) for number in (1, 2, 3)}
        assert whole == {1: answer(1, 9), 2: answer(2, 0), 3: answer(3, 777)}


@pytest.mark.kafka
def test_a_produce_whose_answer_is_lost_reached_the_broker_and_is_sent_again(
    apache_kafka: Path, tmp_path: Path
) -> None:
    broker, proxy = start_private_broker(tmp_path, apache_kafka, with_proxy=True)
    assert proxy is not None
    try:
        create_topics({"bootstrap.servers": broker.bootstrap}, "", 1)
        # no idempotence: what was sent twice shows
        config = {"bootstrap.servers": f"127.0.0.1:{proxy.port}", "acks": "all", "reconnect.backoff.max.ms": 200}
        producer = Producer({**config, "log_level": 0})
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            errors.extend([error] if error else [])

        producer.produce("price-book", b"first", partition=0, on_delivery=delivered)
        assert producer.flush(20) == 0
        proxy.cut_after_request(1, match=PRODUCE)
        producer.produce("price-book", b"second", partition=0, on_delivery=delivered)
        assert producer.flush(20) == 0
        assert errors == [] and proxy.counters.lost_answers == 1
        reader = LogReader({"bootstrap.servers": broker.bootstrap}, "price-book", 0, "reader")
        values = [record.value for record in reader.read_until(reader.end_offset())]
        reader.close()
        assert values == [b"first", b"second", b"second"], "the first sending reached the broker, its answer did not"
        broker.kill()
        broker.restart()
        producer.produce("price-book", b"third", partition=0, on_delivery=delivered)
        assert producer.flush(30) == 0 and errors == []
    finally:
        proxy.close()
        broker.stop()

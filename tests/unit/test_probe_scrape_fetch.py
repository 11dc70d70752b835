"""Fetching a page over real HTTP: whole or not at all, bounded, on one connection, and messages that help."""

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import Reading
from wattledger_agent.probes.scrape import ScrapeProbe
from wattledger_agent.probes.scrape_fetch import HttpFetch

from tests.fake_scrape import page, sample

PAGE = page(sample("DCGM_FI_DEV_POWER_USAGE", "52.636"))
Answer = Callable[[BaseHTTPRequestHandler], None]


class Served:
    """A server that answers as told; which requests and connections it saw."""

    def __init__(self) -> None:
        self.answer: Answer = framed
        self.requests: list[tuple[str, str]] = []
        self.connections: set[object] = set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, self.headers.get("Authorization", "")))
                outer.connections.add(self.client_address)
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.stop()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def framed(handler: BaseHTTPRequestHandler) -> None:
    send(handler, PAGE.encode(), Content_Length=str(len(PAGE.encode())))


def framed_and_closed(handler: BaseHTTPRequestHandler) -> None:
    framed(handler)
    handler.close_connection = True


def no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"hello\n")
    handler.close_connection = True


def chunked(handler: BaseHTTPRequestHandler) -> None:
    pieces = [PAGE[:30].encode(), PAGE[30:].encode(), b""]
    send(handler, b"".join(b"%x\r\n%s\r\n" % (len(one), one) for one in pieces), Transfer_Encoding="chunked")


def until_closed(handler: BaseHTTPRequestHandler) -> None:
    send(handler, PAGE.encode(), Connection="close")


@pytest.mark.parametrize("answer", [framed, chunked, until_closed])
def test_a_page_comes_whole_however_it_is_framed(served: Served, answer: Answer) -> None:
    served.answer = answer
    fetch = HttpFetch(served.url)
    assert [fetch(), fetch()] == [PAGE, PAGE]
    fetch.close()


def test_one_connection_serves_many_scrapes_and_a_lost_one_is_made_again(served: Served) -> None:
    fetch = HttpFetch(served.url, headers={"Authorization": "Bearer t"})
    assert [fetch() for _ in range(5)] == [PAGE] * 5
    assert len(served.connections) == 1
    served.answer = framed_and_closed
    assert [fetch() for _ in range(3)] == [PAGE] * 3
    assert len(served.connections) == 3
    assert served.requests == [("/metrics", "Bearer t")] * 8
    fetch.close()


def cut(handler: BaseHTTPRequestHandler) -> None:
    send(handler, PAGE[:40].encode(), Content_Length=str(len(PAGE)), Connection="close")
    handler.close_connection = True


def cut_chunk(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"ff\r\n" + PAGE[:40].encode(), Transfer_Encoding="chunked", Connection="close")
    handler.close_connection = True


def cut_line(handler: BaseHTTPRequestHandler) -> None:
    send(handler, PAGE[:-2].encode(), Connection="close")


def endless(handler: BaseHTTPRequestHandler) -> None:
    send(handler, b"", Connection="close")
    try:
        while True:
            handler.wfile.write(b"x" * 65_536)
    except OSError:
        handler.close_connection = True


REFUSED: list[tuple[str, Answer, str]] = [
    ("cut short", cut, "broke off after 40 bytes"),
    ("a chunk cut short", cut_chunk, "does not answer"),
    ("cut in a line", cut_line, "broke off after"),
    ("endless", endless, "serves more than 1000000 bytes"),
    (
        "500",
        lambda h: send(h, b"duplicate", 500, Content_Length="9"),
        "answers 500 .*: look into the exporter's own log",
    ),
    ("404", lambda h: send(h, b"", 404, Content_Length="0"), "answers 404 Not Found: the page is usually /metrics"),
    (
        "401",
        lambda h: send(h, b"", 401, Content_Length="0"),
        "answers 401 .*: give the probe the exporter's credentials",
    ),
    ("302", lambda h: send(h, b"", 302, Location="http://x/m", Content_Length="0"), "set the address to http://x/m"),
    ("gzip", lambda h: send(h, b"", 200, Content_Encoding="gzip", Content_Length="0"), "answers in gzip"),
    ("no HTTP", no_http, "does not answer"),
]


@pytest.mark.parametrize(("answer", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_no_whole_page_is_refused_with_the_address_and_the_next_scrape_works(
    served: Served, answer: Answer, message: str
) -> None:
    fetch = HttpFetch(served.url, max_bytes=1_000_000)
    served.answer = answer
    with pytest.raises(ProbeUnavailable, match=message) as caught:
        fetch()
    assert str(caught.value).startswith(served.url) and caught.value.fix
    served.answer = framed
    assert fetch() == PAGE
    fetch.close()


def test_an_exporter_that_hangs_is_given_up(served: Served) -> None:
    hold = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        hold.wait(5)
        handler.close_connection = True

    served.answer = hang
    with pytest.raises(ProbeUnavailable, match=r"does not answer .*timed out"):
        HttpFetch(served.url, timeout_s=0.1)()
    hold.set()


def test_an_exporter_that_drips_is_given_up(served: Served) -> None:
    clock = ManualClock()
    gone_on = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        send(handler, b"DCGM", Connection="close")
        handler.wfile.flush()
        clock.sleep(10)
        gone_on.set()
        handler.wfile.write(b"_A 1\n")
        handler.close_connection = True

    served.answer = drip
    with pytest.raises(ProbeUnavailable, match="takes longer than 3 s"):
        HttpFetch(served.url, clock=clock)()
    assert gone_on.is_set()


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/metrics"
    probe = ScrapeProbe(url)
    with pytest.raises(ProbeUnavailable, match=f"{url} does not answer .*: is the exporter running"):
        probe.open()
    probe.close()


ADDRESSES = [
    ("127.0.0.1:9400", "write http://host:port/metrics"),
    ("ftp://x/metrics", "write http://host:port/metrics"),
    ("http://:9400/metrics", "write http://host:port/metrics"),
    ("http://x:99999/metrics", "write http://host:port/metrics"),
    ("http://me:secret@x:9400/metrics", "send them as a header instead"),
]


@pytest.mark.parametrize(("url", "message"), ADDRESSES)
def test_an_address_that_is_none_is_refused_without_its_secrets(url: str, message: str) -> None:
    with pytest.raises(ProbeUnavailable, match=message) as caught:
        HttpFetch(url)()
    assert "secret" not in str(caught.value)


def test_the_probe_reads_over_http(served: Served) -> None:
    probe = ScrapeProbe(served.url.removesuffix("/metrics"))
    probe.open()
    assert probe.read().devices[0].power_mw == Reading(52_636)
    served.answer = lambda handler: send(handler, b"", 500, Content_Length="0")
    with pytest.raises(ProbeUnavailable):
        probe.read()
    probe.close()
    served.answer = framed
    probe.open()
    assert probe.read().devices[0].power_mw == Reading(52_636)
    probe.close()
    assert served.requests == [("/metrics", "")] * 5

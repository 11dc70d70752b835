"""One GET of an exporter's page over the standard library's HTTP client: short, bounded, on a kept connection."""

import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from wattledger_agent.clock import Clock, SystemClock
from wattledger_agent.probes.probe import ProbeUnavailable

MAX_BYTES = 8 << 20
_PIECE = 1 << 16
_ACCEPT = "text/plain;version=0.0.4;q=1, */*;q=0.1"
_FIX_BY_STATUS = {
    401: "give the probe the exporter's credentials",
    403: "give the probe the exporter's credentials",
    404: "the page is usually /metrics: check the path",
}


class HttpFetch:
    """Fetches one URL again and again; all calls from one thread. `timeout_s` bounds each step and, roughly, the whole;
    `headers` are sent along (`Authorization`). Raises ProbeUnavailable with the URL and what to do."""

    def __init__(
        self,
        url: str,
        timeout_s: float = 3.0,
        max_bytes: int = MAX_BYTES,
        headers: Mapping[str, str] | None = None,
        ca_file: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._headers = {"Accept": _ACCEPT, "Accept-Encoding": "identity", **(headers or {})}
        self._ca_file = ca_file
        self._clock = clock or SystemClock()
        self._connection: HTTPConnection | None = None

    def __call__(self) -> str:
        """The page, complete. Raises ProbeUnavailable."""
        parts = _checked(self._url)
        due_s = self._clock.monotonic_s() + self._timeout_s
        is_reused = self._connection is not None
        try:
            try:
                return self._get(parts, due_s)
            except (ConnectionError, HTTPException):
                if not is_reused:
                    raise
                # the exporter closed the kept connection, or was restarted
                self.close()
                return self._get(parts, due_s)
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            said = str(error) or type(error).__name__
            raise ProbeUnavailable(
                f"{self._url} does not answer ({said})", "is the exporter running, and is this its address?"
            ) from error
        except ProbeUnavailable:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _get(self, parts: SplitResult, due_s: float) -> str:
        connection = self._connection = self._connection or self._connect(parts)
        connection.request(
            "GET", (parts.path or "/metrics") + (f"?{parts.query}" if parts.query else ""), headers=self._headers
        )
        response = connection.getresponse()
        if response.status != 200:
            self._refuse(response)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ProbeUnavailable(f"{self._url} answers in {response.headers['Content-Encoding']}", "serve it plain")
        body = self._body(response, due_s)
        if response.will_close:
            self.close()
        return body.decode("utf-8", errors="replace")

    def _connect(self, parts: SplitResult) -> HTTPConnection:
        if parts.scheme == "http":
            return HTTPConnection(parts.hostname or "", parts.port, timeout=self._timeout_s)
        context = ssl.create_default_context(cafile=self._ca_file or None)
        return HTTPSConnection(parts.hostname or "", parts.port, timeout=self._timeout_s, context=context)

    def _refuse(self, response: HTTPResponse) -> None:
        status = response.status
        where = response.headers.get("Location", "")
        if 300 <= status < 400 and where:
            raise ProbeUnavailable(f"{self._url} answers {status}: it has moved", f"set the address to {where}")
        fix = _FIX_BY_STATUS.get(status, "look into the exporter's own log")
        raise ProbeUnavailable(f"{self._url} answers {status} {response.reason}", fix)

    def _body(self, response: HTTPResponse, due_s: float) -> bytes:
        body = bytearray()
        is_framed = response.length is not None or response.chunked
        while piece := response.read1(_PIECE):
            body += piece
            if len(body) > self._max_bytes:
                raise ProbeUnavailable(
                    f"{self._url} serves more than {self._max_bytes} bytes",
                    "point the probe at the GPU exporter itself",
                )
            if self._clock.monotonic_s() > due_s:
                raise ProbeUnavailable(
                    f"{self._url} takes longer than {self._timeout_s:g} s", "let the exporter collect fewer fields"
                )
        is_cut = response.length not in (None, 0) if is_framed else not body.endswith(b"\n")
        if is_cut:
            raise ProbeUnavailable(f"{self._url} broke off after {len(body)} bytes", "look into the exporter's own log")
        response.close()  # or the kept connection takes no next request
        return bytes(body)


def _checked(url: str) -> SplitResult:
    """The URL's parts. Raises ProbeUnavailable; a URL with a password in it is not repeated in the message."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ProbeUnavailable(f"the exporter's address is none ({error})", "write http://host:port/metrics") from None
    if parts.username is not None or parts.password is not None:
        raise ProbeUnavailable("the exporter's address holds credentials", "send them as a header instead")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise ProbeUnavailable(f"the exporter's address is {url!r}", "write http://host:port/metrics")
    return parts

"""HTTP for whoever watches the agent: metrics, and whether it lives and is ready. Says nothing of tenants or jobs."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from wattledger_agent.clock import Clock


class Pulse:
    """When the loops last came round. Alive means that they turn, whatever they could read: a driver that fails is
    seen in the metrics and must not have the agent restarted for ever."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._beats: dict[str, float] = {}
        self.ready = False

    def beat(self, loop: str) -> None:
        self._beats[loop] = self._clock.monotonic_s()

    def silent(self) -> list[str]:
        """Loops that have not come round within the limit."""
        now_s = self._clock.monotonic_s()
        return sorted(loop for loop, at_s in self._beats.items() if now_s - at_s > self._limit_s)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, content type and body of one page."""

    status: int
    kind: str
    body: bytes


def answer(path: str, pulse: Pulse, version: str) -> Answer:
    """The page at a path. `/-/healthy` (also `/healthz`), `/-/ready` (also `/readyz`), `/metrics`, `/version`."""
    if path == "/metrics":
        return Answer(200, CONTENT_TYPE_LATEST, generate_latest())
    if path in ("/-/healthy", "/healthz"):
        silent = pulse.silent()
        text = f"not turning: {', '.join(silent)}\n" if silent else "healthy\n"
        return Answer(503 if silent else 200, "text/plain; charset=utf-8", text.encode())
    if path in ("/-/ready", "/readyz"):
        return Answer(
            200 if pulse.ready else 503,
            "text/plain; charset=utf-8",
            b"ready\n" if pulse.ready else b"the first tick is yet to come\n",
        )
    if path == "/version":
        return Answer(200, "application/json", json.dumps({"version": version}).encode())
    return Answer(404, "text/plain; charset=utf-8", b"try /metrics, /-/healthy, /-/ready or /version\n")


class HealthServer:
    """Serves in a thread of its own; `port` 0 takes a free one."""

    def __init__(self, host: str, port: int, page: Callable[[str], Answer]) -> None:
        class Handler(BaseHTTPRequestHandler):
            """GET only."""

            timeout = 10

            def do_GET(self) -> None:
                found = page(self.path.partition("?")[0])
                self.send_response(found.status)
                self.send_header("Content-Type", found.kind)
                self.send_header("Content-Length", str(len(found.body)))
                self.end_headers()
                self.wfile.write(found.body)

            def log_message(self, format: str, *args: object) -> None:
                """No line per request."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

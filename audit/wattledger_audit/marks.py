"""How far sessions have marked, read from `allocations`: what keeps an accelerated player from running ahead."""

import threading
from collections.abc import Mapping

from wattledger_schemas import Codec
from wattledger_streams.log_reader import LogReader


class MarkWatch:
    """Follows one partition of `allocations` in a thread; every mark is in every partition."""

    def __init__(self, kafka: Mapping[str, str], topic: str, sources: int) -> None:
        self._codec = Codec()
        self._sources = sources
        self._newest: dict[int, int] = {}
        self._reader = LogReader(kafka, topic, 0, "wattledger-mark-watch")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            for record in self._reader.poll(timeout_s=0.1):
                decoded = self._codec.decode(record.value)
                if decoded.subject == "mark":
                    source = decoded.record["origin_partition"]
                    self._newest[source] = max(decoded.record["at_us"], self._newest.get(source, 0))
        self._reader.close()

    def confirmed_us(self) -> int | None:
        """The event time up to which every source has marked; None before that."""
        return min(self._newest.values()) if len(self._newest) >= self._sources else None

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

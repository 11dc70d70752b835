"""What the ticker knows of the sources: a pure fold of `gpu-samples` and `job-events`."""

from typing import Any

_LEFT = "out_of_service"


class SourceBook:
    """Watermarks by node: the end of its newest batch. Agents put events into their log before the batch that covers
    them, so a batch that has arrived says that what came before is on its way, within the lateness allowed.

    A node that never sent a batch is not waited for, nor one that went out of service, until it sends a later batch.
    """

    def __init__(self) -> None:
        self.newest_tick_us = 0
        self._end_us: dict[str, int] = {}
        self._left_us: dict[str, int] = {}

    def take(self, subject: str, record: dict[str, Any]) -> None:
        """Fold one decoded record. Order between topics does not matter."""
        if subject == "sample_batch":
            end_us = int.from_bytes(record["ticks_us"][-8:], "little", signed=True)
            self._end_us[record["node"]] = max(end_us, self._end_us.get(record["node"], 0))
        elif subject == "node_event" and record["kind"] == _LEFT:
            self._left_us[record["node"]] = max(record["at_us"], self._left_us.get(record["node"], 0))
        elif subject == "tick":
            self.newest_tick_us = max(self.newest_tick_us, record["at_us"])

    def marks(self) -> dict[str, int]:
        """Watermarks of the nodes that are waited for."""
        return {node: end_us for node, end_us in self._end_us.items() if end_us > self._left_us.get(node, 0)}

    def forget(self, before_us: int) -> None:
        """Drop nodes whose newest batch is older: long gone, not worth naming in every tick."""
        self._end_us = {node: end_us for node, end_us in self._end_us.items() if end_us >= before_us}

"""What feeds the agent: probes give sample records, watchers give events. The player is one of each kind."""

from collections.abc import Iterator
from typing import Protocol

from wattledger_agent.trace import TraceItem


class Source(Protocol):
    """A probe (samples) or a watcher (job and node events); a failing one never stops another."""

    name: str

    def items(self) -> Iterator[TraceItem]:
        """Records with their emission times, in order."""
        ...

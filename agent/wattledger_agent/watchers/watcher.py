"""The one protocol that every watcher keeps. A watcher reads files and sockets; it starts nothing, changes nothing."""

from typing import Protocol

from wattledger_agent.watchers.run import Sighting


class WatcherUnavailable(RuntimeError):
    """The source does not answer: the message says what and what to do. The caller tries again later; nothing is
    taken to have ended meanwhile."""


class Watcher(Protocol):
    """Follows one source. All calls come from one thread."""

    @property
    def name(self) -> str:
        """`slurm`, `kubernetes`, `containers` or `processes`."""
        ...

    def look(self, now_us: int) -> Sighting:
        """What is there now. Raises WatcherUnavailable."""
        ...

    def close(self) -> None:
        """Let go of sockets and files."""
        ...

"""What a log file holds, read without touching it: also while an agent writes it."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.wal_schema import connect_to_read


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """Records of one topic not yet delivered."""

    topic: str
    count: int
    size_bytes: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class WalStatus:
    """A log file: what waits by topic, what was set aside by reason, corrupt files beside it."""

    topics: tuple[TopicStatus, ...]
    set_aside: tuple[tuple[str, int], ...]
    files_put_aside: tuple[Path, ...]


def read_status(path: Path) -> WalStatus:
    """Read a log file. Raises WalUnavailable when it can't be read as one."""
    try:
        db = connect_to_read(path)
        try:
            topics = db.execute(
                "SELECT topic, count(*), sum(size), min(at_us), max(at_us) FROM records GROUP BY topic ORDER BY topic"
            ).fetchall()
            aside = db.execute("SELECT reason, count(*) FROM set_aside GROUP BY reason ORDER BY reason").fetchall()
        finally:
            db.close()
    except sqlite3.Error as error:
        raise WalUnavailable(f"{path} can't be read as a log: {error}") from error
    files = sorted(path.parent.glob(f"{path.name}.corrupt-*"))
    return WalStatus(tuple(TopicStatus(*row) for row in topics), tuple(aside), tuple(files))

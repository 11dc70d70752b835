"""Damage in SQLite's journal (`-wal`): SQLite stops at the first bad frame and says nothing. Here it is counted."""

import sqlite3
import struct
from pathlib import Path

_HEADER = 32
_FRAME_HEADER = 24
_WORD = 0xFFFFFFFF


def lost_commits(db: sqlite3.Connection, path: Path) -> int:
    """Commits that lie in the journal beyond what SQLite recovered from it: call before the first write.

    A torn last write has no commit frame behind it and counts nothing. Format: https://www.sqlite.org/walformat.html
    """
    [page_bytes] = db.execute("PRAGMA page_size").fetchone()
    [_, recovered, _] = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    try:
        content = Path(f"{path}-wal").read_bytes()
    except FileNotFoundError:
        return 0
    frames = _frames(content, page_bytes)
    if not frames:
        return 0
    salts = content[16:24] if _has_sound_header(content) else frames[0][1]
    return sum(1 for commits, salt in frames[max(recovered, 0) :] if commits and salt == salts)


def _frames(content: bytes, page_bytes: int) -> list[tuple[bool, bytes]]:
    """Of each whole frame: whether it ends a commit, and its salts."""
    found = []
    step = _FRAME_HEADER + page_bytes
    for start in range(_HEADER, len(content) - step + 1, step):
        [pages_after_commit] = struct.unpack_from(">I", content, start + 4)
        found.append((pages_after_commit > 0, content[start + 8 : start + 16]))
    return found


def _has_sound_header(content: bytes) -> bool:
    """Whether the journal's header has its own checksum right."""
    [magic] = struct.unpack_from(">I", content)
    if magic not in (0x377F0682, 0x377F0683):
        return False
    words = struct.unpack_from(">6I" if magic & 1 else "<6I", content)
    first = second = 0
    for i in range(0, 6, 2):
        first = (first + words[i] + second) & _WORD
        second = (second + words[i + 1] + first) & _WORD
    return (first, second) == struct.unpack_from(">2I", content, 24)

"""What a log file holds, as a trace that the player plays: from a log in use, one put aside, or a corrupt one."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wattledger_agent.trace import TraceItem, write_trace
from wattledger_agent.wal_cipher import WalCipher
from wattledger_agent.wal_record import BROADCAST, WalKeyMissing, WalUnavailable
from wattledger_agent.wal_rows import Rows
from wattledger_agent.wal_salvage import Hole, Salvage


@dataclass(slots=True)
class Exported:
    """What was written. `unsealed_not`: encrypted records that are not what was sealed for their row. `moved`: their
    time was behind that of a record before them, and they are emitted with it. `pinned`: had a partition of their own,
    which a trace can't say, and will go by their key. `missing`: numbers at which a corrupt file could not be read."""

    records: int = 0
    unsealed_not: int = 0
    moved: int = 0
    pinned: int = 0
    missing: int = 0
    ticks: int = 0


def export_log(path: Path, out: Path, cipher: WalCipher | None = None) -> Exported:
    """Write the records of a log file to `out`, in the log's order; the log is not changed.

    Raises WalKeyMissing when a record is encrypted with a key that was not given, WalUnavailable when nothing can be
    read, OSError when `out` can't be written. `out` is there afterwards only if all of it was written.
    """
    found = Exported()
    salvage = Salvage(path)
    part = out.with_name(f"{out.name}.part")
    try:
        found.records = write_trace(part, _items(salvage, Rows(cipher), found))
        if not salvage.readable:
            raise WalUnavailable(f"{path} holds no table of a log that can be read: there is nothing to export")
        found.ticks = len(salvage.ticks)
        part.rename(out)
    finally:
        part.unlink(missing_ok=True)
    return found


def _items(salvage: Salvage, rows: Rows, found: Exported) -> Iterator[TraceItem]:
    last_us = 0
    for stored in salvage.records():
        if isinstance(stored, Hole):
            found.missing += stored.to_seq - stored.from_seq + 1
            continue
        if stored.key_id and stored.key_id not in rows.key_ids:
            raise WalKeyMissing(
                f"{salvage.path}: record {stored.seq} is encrypted with key {stored.key_id}: "
                "give the key file that has it"
            )
        kept = rows.kept(stored)
        if kept is None:
            found.unsealed_not += 1
            continue
        record = kept.record
        found.moved += record.at_us < last_us
        found.pinned += record.partition >= 0
        # a trace's time never falls, and order counts more than time: the records themselves know theirs
        last_us = max(last_us, record.at_us)
        yield TraceItem(last_us, record.topic, record.key, record.value, record.partition == BROADCAST)

"""Whether a log holds what it should: checksums, keys, numbers against gap records, batches that tile. Reads only."""

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from wattledger_schemas import BadRecord, Codec

from wattledger_agent.wal_cipher import WalCipher
from wattledger_agent.wal_gap import GAP_TOPIC, STATE, TICKS
from wattledger_agent.wal_record import Kept, WalUnavailable, sound_row
from wattledger_agent.wal_rows import RECORD_COLUMNS, STATE_COLUMNS, TICK_COLUMNS, Rows, sound_state, sound_tick
from wattledger_agent.wal_schema import GENERATION_BITS, connect_to_read, how_to_read, is_version_1

_MOST_TOLD = 100


@dataclass(slots=True)
class Verdict:
    """What was looked at, and what is wrong, as sentences. `sealed`: rows of which only the checksum could be checked,
    for want of a key."""

    records: int = 0
    batches: int = 0
    ticks: int = 0
    gaps: int = 0
    sealed: int = 0
    problems: list[str] = field(default_factory=list)
    problem_count: int = 0

    def blame(self, problem: str) -> None:
        self.problem_count += 1
        if len(self.problems) < _MOST_TOLD:
            self.problems.append(problem)


@dataclass(slots=True)
class _Run:
    """One run of an agent on a node: the time that its batches cover."""

    first_us: int
    last_us: int


@dataclass(slots=True)
class _Last:
    """A node's batch before: where it ended, and how many numbers were missing by then."""

    seq: int
    end_us: int
    missing: int


def verify_log(path: Path, cipher: WalCipher | None = None, codec: Codec | None = None) -> Verdict:
    """Check a log file, also one that an agent is writing. Raises WalUnavailable when it can't be read as a log."""
    verdict = Verdict()
    try:
        db = connect_to_read(path)
        try:
            db.execute("BEGIN")
            for (said,) in db.execute("PRAGMA quick_check(20)"):
                if said != "ok":
                    verdict.blame(f"SQLite: {said}")
            _Check(db, Rows(cipher), codec or Codec(), verdict).run()
        finally:
            db.close()
    except sqlite3.Error as error:
        raise WalUnavailable(f"{path} can't be read as a log: {error}. {how_to_read(error)}") from error
    return verdict


class _Check:
    """One pass over one file."""

    def __init__(self, db: sqlite3.Connection, rows: Rows, codec: Codec, verdict: Verdict) -> None:
        self._db = db
        self._rows = rows
        self._codec = codec
        self._verdict = verdict
        self._explained: list[tuple[int, int]] = []
        self._holes: list[tuple[int, int]] = []
        self._last: dict[str, _Last] = {}
        self._runs: dict[tuple[str, str, str], _Run] = {}
        self._missing = 0
        self._has_unread_gaps = False

    def run(self) -> None:
        self._records()
        self._numbers()
        self._twins()
        if not is_version_1(self._db):
            self._journal()
            self._state()

    def _records(self) -> None:
        columns = RECORD_COLUMNS.replace("key_id", "'' AS key_id") if is_version_1(self._db) else RECORD_COLUMNS
        before = 0
        for row in self._db.execute(f"SELECT {columns} FROM records ORDER BY seq"):
            seq = row[0]
            self._verdict.records += 1
            if seq != before + 1:
                self._missing += 1
                self._holes.append((before + 1, seq - 1))
            before = seq
            kept = self._read(row)
            if kept is not None and kept.record.topic in (GAP_TOPIC, "gpu-samples"):
                self._look_into(kept)
        [given] = self._db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name='records'").fetchone()
        if isinstance(given, int) and given > before:
            self._holes.append((before + 1, given))

    def _read(self, row: tuple[object, ...]) -> Kept | None:
        stored = sound_row(*row)
        if stored is None:
            self._verdict.blame(f"record {row[0]} (topic {row[1]}): its checksum is wrong; the agent will set it aside")
            return None
        if stored.key_id and stored.key_id not in self._rows.key_ids:
            self._verdict.sealed += 1
            self._has_unread_gaps = self._has_unread_gaps or stored.record.topic == GAP_TOPIC
            return None
        kept = self._rows.kept(stored)
        if kept is None:
            self._verdict.blame(f"record {stored.seq}: not what was encrypted for this row with key {stored.key_id}")
        return kept

    def _look_into(self, kept: Kept) -> None:
        try:
            subject, _, record = self._codec.decode(kept.record.value)
        except BadRecord as error:
            self._verdict.blame(f"record {kept.seq} (topic {kept.record.topic}) can't be decoded: {error}")
            return
        if subject == "gap":
            self._verdict.gaps += 1
            if record["topic"] not in (TICKS, STATE):
                self._explained.append((record["from_seq"], record["to_seq"]))
            # an agent that began anew (a clock set back, a long outage) says so before its next batch
            self._last.pop(record["node"], None)
        if subject == "sample_batch":
            self._verdict.batches += 1
            ticks = record["ticks_us"]
            self._tile(kept.seq, record["node"], _moment(ticks[:8]), _moment(ticks[-8:]))
            run = self._runs.setdefault(
                (record["node"], record["agent"], record["boot_id"]), _Run(_moment(ticks[:8]), _moment(ticks[-8:]))
            )
            run.last_us = max(run.last_us, _moment(ticks[-8:]))

    def _tile(self, seq: int, node: str, first_us: int, end_us: int) -> None:
        """Batches of a node with nothing missing between them follow each other without gap or overlap."""
        last = self._last.get(node)
        if last is not None and last.missing == self._missing and last.end_us != first_us:
            how = "overlaps" if first_us < last.end_us else "leaves a hole after"
            self._verdict.blame(
                f"record {seq}: the batch of {node} that begins at {first_us} us {how} the one before it (record "
                f"{last.seq}), which ends at {last.end_us} us"
            )
        self._last[node] = _Last(seq, end_us, self._missing)

    def _numbers(self) -> None:
        """A number above all that was ever handed to the producer can't have been delivered: a gap record, or the
        table of what was set aside, has to say where it went."""
        if self._has_unread_gaps:
            return
        sent = self._db.execute("SELECT value FROM progress WHERE name='sent_through'").fetchone()
        sent_through = int(sent[0]) if sent else 0
        self._explained += [(seq, seq) for (seq,) in self._db.execute("SELECT seq FROM set_aside")]
        self._explained.sort()
        for first, last in _within_generations(self._holes):
            for lost in _unexplained(max(first, sent_through + 1), last, self._explained):
                self._verdict.blame(f"records {lost[0]} to {lost[1]} are missing, and no gap record says so")

    def _twins(self) -> None:
        """Two runs of one agent at one time are two agents with one id: a cloned disk."""
        by_agent: dict[tuple[str, str], list[tuple[_Run, str]]] = {}
        for (node, agent, boot_id), run in self._runs.items():
            by_agent.setdefault((node, agent), []).append((run, boot_id))
        for (node, agent), runs in by_agent.items():
            runs.sort(key=lambda pair: pair[0].first_us)
            for (one, first), (other, second) in pairwise(runs):
                if other.first_us < one.last_us:
                    self._verdict.blame(
                        f"two runs of agent {agent} on {node} overlap in time, {first} and {second}: "
                        "two agents have one id, give one of them a new one"
                    )

    def _journal(self) -> None:
        for row in self._db.execute(f"SELECT {TICK_COLUMNS} FROM ticks ORDER BY number"):
            self._verdict.ticks += 1
            stored = sound_tick(*row)
            if stored is None:
                self._verdict.blame(f"tick {row[0]} of the journal: its checksum is wrong")
            elif stored.key_id and stored.key_id not in self._rows.key_ids:
                self._verdict.sealed += 1
            elif self._rows.tick(stored) is None:
                self._verdict.blame(f"tick {stored.number} of the journal: not what was encrypted for this row")

    def _state(self) -> None:
        for row in self._db.execute(f"SELECT {STATE_COLUMNS} FROM state ORDER BY name"):
            stored = sound_state(*row)
            if stored is None:
                self._verdict.blame(f"named value {row[0]!r}: its checksum is wrong")
            elif stored.key_id and stored.key_id not in self._rows.key_ids:
                self._verdict.sealed += 1
            elif self._rows.state(row) is None:
                self._verdict.blame(f"named value {stored.name!r}: not what was encrypted for it")


def _moment(packed: bytes) -> int:
    return int.from_bytes(packed, "little", signed=True)


def _within_generations(holes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Holes cut at the ends of generations: between an old file's last number and the new one's first none were used,
    and what the old file may have had at its end was told when it was put aside."""
    for first, last in holes:
        begun = (last >> GENERATION_BITS << GENERATION_BITS) + 1
        if max(first, begun) <= last:
            yield max(first, begun), last


def _unexplained(first: int, last: int, explained: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Parts of `[first, last]` that no interval covers; intervals are sorted and inclusive."""
    at = bisect_right(explained, (first,))
    reached = max((to for _, to in explained[:at]), default=0)
    first = max(first, reached + 1)
    for begin, end in explained[at:]:
        if begin > last or first > last:
            break
        if begin > first:
            yield first, begin - 1
        first = max(first, end + 1)
    if first <= last:
        yield first, last

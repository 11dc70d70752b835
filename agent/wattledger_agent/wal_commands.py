"""Bodies of `wattledger-agent wal status|export|verify`: a text for people and an exit code. They change no log."""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from wattledger_agent.wal_cipher import KeyRefused, WalCipher
from wattledger_agent.wal_export import export_log
from wattledger_agent.wal_record import WalUnavailable
from wattledger_agent.wal_status import WalStatus, read_status
from wattledger_agent.wal_verify import verify_log

OK = 0
FOUND_WRONG = 1
REFUSED = 3
"""The input can't be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to print (to standard error when `exit_code` is REFUSED) and how to end."""

    text: str
    exit_code: int = OK


def status_answer(path: Path, as_json: bool = False) -> Answer:
    """What a log holds that is not delivered; also beside a running agent."""
    try:
        found = read_status(path)
    except WalUnavailable as error:
        return Answer(str(error), REFUSED)
    return Answer(_status_json(path, found) if as_json else "\n".join(_status_lines(found)))


def export_answer(path: Path, out: Path, key_file: Path | None = None) -> Answer:
    """Write what a log holds to a trace file that `wattledger-agent play` plays; also of a file that was put aside."""
    if out.exists():
        return Answer(f"{out} is there already: give another name, nothing is overwritten", REFUSED)
    try:
        found = export_log(path, out, _cipher(key_file))
    except (WalUnavailable, KeyRefused) as error:
        return Answer(str(error), REFUSED)
    except OSError as error:
        return Answer(f"{out} can't be written: {error.strerror}", REFUSED)
    lines = [f"{found.records} records written to {out}"]
    if found.missing:
        lines.append(f"at {found.missing} numbers nothing could be read; some of those may have been delivered before")
    if found.unsealed_not:
        lines.append(f"{found.unsealed_not} encrypted records are not what was encrypted for their row: left out")
    if found.moved:
        lines.append(f"{found.moved} records are emitted later than their own time, because order counts more")
    if found.pinned:
        lines.append(
            f"{found.pinned} records had a partition of their own; a trace has none: they will go by their key"
        )
    if found.ticks:
        lines.append(f"{found.ticks} ticks of the journal are no records: an agent on this log makes a batch of them")
    return Answer("\n".join(lines))


def verify_answer(path: Path, key_file: Path | None = None, as_json: bool = False) -> Answer:
    """Check a log: exit code 0 when all is as it should be, 1 when something is wrong."""
    try:
        found = verify_log(path, _cipher(key_file))
    except (WalUnavailable, KeyRefused) as error:
        return Answer(str(error), REFUSED)
    code = FOUND_WRONG if found.problem_count else OK
    if as_json:
        return Answer(json.dumps({"path": str(path), **asdict(found)}, indent=2), code)
    lines = [
        f"{found.records} records ({found.batches} sample batches, {found.gaps} gap records), {found.ticks} ticks "
        f"in the journal: {'nothing is wrong' if code == OK else f'{found.problem_count} problems'}",
        *found.problems,
    ]
    if found.problem_count > len(found.problems):
        lines.append(f"… and {found.problem_count - len(found.problems)} more")
    if found.sealed:
        lines.append(
            f"{found.sealed} rows are encrypted: only their checksums were checked; give --key-file for the rest"
        )
    return Answer("\n".join(lines), code)


def _cipher(key_file: Path | None) -> WalCipher | None:
    return None if key_file is None else WalCipher.from_files(key_file)


def _status_lines(found: WalStatus) -> list[str]:
    lines = [f"{found.records} records, {found.size_bytes} bytes not yet delivered"]
    for topic in found.topics:
        span = f"{_moment(topic.first_us)} to {_moment(topic.last_us)}"
        lines.append(f"  {topic.topic}: {topic.count} records, {topic.size_bytes} bytes, {span}")
    if found.first_seq is not None:
        lines.append(f"numbers {found.first_seq} to {found.last_seq}")
    lines.append(f"handed to the producer up to {found.sent_through}; generation {found.generation} of the log")
    journal = found.journal
    if journal.count and journal.first_us is not None and journal.last_us is not None:
        span = f"{_moment(journal.first_us)} to {_moment(journal.last_us)}"
        lines.append(f"{journal.count} ticks that no batch holds yet, {journal.size_bytes} bytes, {span}")
    for key_id, count in found.rows_by_key:
        if key_id:
            lines.append(f"{count} rows encrypted with key {key_id}")
        elif found.key_ids and count:
            lines.append(f"{count} rows not encrypted")
    if not found.key_ids:
        lines.append("not encrypted")
    lines += [
        f"{count} records set aside ({reason}); they stay in the table set_aside" for reason, count in found.set_aside
    ]
    lines += [f"corrupt file put aside: {file}" for file in found.files_put_aside]
    return lines


def _status_json(path: Path, found: WalStatus) -> str:
    said = {
        "path": str(path),
        "records": found.records,
        "bytes": found.size_bytes,
        "first_us": min((topic.first_us for topic in found.topics), default=None),
        "last_us": max((topic.last_us for topic in found.topics), default=None),
        **asdict(found),
        "set_aside": dict(found.set_aside),
        "files_put_aside": [str(file) for file in found.files_put_aside],
        "rows_by_key": dict(found.rows_by_key),
        "is_encrypted": bool(found.key_ids),
    }
    return json.dumps(said, indent=2)


def _moment(at_us: int) -> str:
    """Times that are no calendar times are shown as they are: a record's time is its writer's."""
    try:
        return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_us} us"

"""Trace files: both ways of writing a record, and what is refused, with file and line."""

import json
from pathlib import Path

import pytest
from wattledger_agent.trace import TraceItem, TraceRefused, read_trace, write_trace
from wattledger_schemas import Codec

from tests.unit.agent_batches import wire_batch

CODEC = Codec()
TICK = CODEC.encode("tick", {"at_us": 5, "stale_sources": ["x"]})
ITEMS = [
    TraceItem(5, "job-events", "tick", TICK, broadcast=True),
    TraceItem(7, "gpu-samples", "n1", CODEC.encode("sample_batch", wire_batch())),
    TraceItem(7, "price-book", "tick", TICK, broadcast=True),
]


@pytest.mark.parametrize("codec", [None, CODEC], ids=["wire format", "readable records"])
def test_a_trace_is_read_as_it_was_written(tmp_path: Path, codec: Codec | None) -> None:
    assert write_trace(tmp_path / "t.jsonl", ITEMS, codec) == 3
    assert list(read_trace(tmp_path / "t.jsonl")) == ITEMS


GOOD = {"at_us": 9, "topic": "job-events", "key": "k", "value": ""}
REFUSED = [
    ("not json", "{", "line 2: the line: Invalid JSON"),
    ("a field too many", json.dumps({**GOOD, "when": 1}), "line 2: when: Extra inputs"),
    ("no time", json.dumps({"topic": "t", "key": "k", "value": ""}), "line 2: at_us: Field required"),
    ("time as text", json.dumps({**GOOD, "at_us": "9"}), "line 2: at_us: Input should be a valid integer"),
    ("bad base64", json.dumps({**GOOD, "value": "=!"}), "line 2: "),
    ("time running backwards", json.dumps({**GOOD, "at_us": 1}), "line 2: at_us 1 is before 5"),
    ("neither value nor record", json.dumps({"at_us": 9, "topic": "t", "key": "k"}), "give either value"),
    ("unknown subject", json.dumps({"at_us": 9, "topic": "t", "key": "k", "subject": "tock", "record": {}}), "'tock'"),
    ("a record without its field", json.dumps({"at_us": 9, "topic": "t", "key": "k", "subject": "tick", "record": {}}),
     "not_encodable"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_bad_line_is_refused_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps({**GOOD, "at_us": 5}) + "\n" + line + "\n")
    with pytest.raises(TraceRefused) as caught:
        list(read_trace(path))
    assert "t.jsonl, line 2: " in str(caught.value) and message in str(caught.value)

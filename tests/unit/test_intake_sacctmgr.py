"""`sacctmgr show event`: when nodes were away, and every row that says nothing of that listed."""

from pathlib import Path

import pytest
from wattledger_audit.intake.events_sacctmgr import IMPORTERS
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import EVENTS, NodeState
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import open_source

from tests.sacct_reading import BERLIN, UTC, ReadBack, S, read_lines

(SACCTMGR,) = IMPORTERS
HEADER = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User"
START, END = "2026-10-01T00:00:00", "2026-10-01T06:00:00"
START_US = 1_790_812_800 * S


def read(folder: Path, *lines: str, options: ReadOptions = UTC) -> ReadBack:
    return read_lines(SACCTMGR, folder, lines, options)


def test_an_event_is_a_state_over_an_interval(tmp_path: Path) -> None:
    read_back = read(tmp_path, HEADER, f"alpha|gpu01|{START}|{END}|DOWN*|Not responding|slurm(64030)")
    assert read_back.states == [
        NodeState(2, "alpha", "gpu01", "failed", "Not responding", START_US, START_US + 6 * 3600 * S)
    ]
    assert (SACCTMGR.role, read_back.rejected) == (EVENTS, [])


@pytest.mark.parametrize("end", ["Unknown", "None", ""])
def test_an_unknown_end_is_open(tmp_path: Path, end: str) -> None:
    (state,) = read(tmp_path, HEADER, f"alpha|gpu01|{START}|{end}|DRAIN|bad dimm|root").states
    assert (state.state, state.end_us) == ("draining", None)


def test_rows_that_are_no_node_being_away_are_listed(tmp_path: Path) -> None:
    read_back = read(
        tmp_path,
        f"{HEADER}|",
        f"alpha||{START}|{END}||Cluster Registered TRES|slurm|",
        f"alpha|n1|{START}|{END}|POWERED_DOWN||root|",
        f"alpha|n1|{START}|{END}|MAINT|planned|root|",
        f"alpha|n1|{START}|{END}|MAINT|planned|root|",
        f"alpha|n1|Unknown|{END}|DOWN||root|",
        f"alpha|n1|{END}|{START}|DOWN||root|",
        f"alpha|n1|yesterday|{END}|DOWN||root|",
        "# note",
        "",
        "alpha|n1",
        f"{HEADER}|",
    )
    assert [(line, code) for line, _, _, code in read_back.rejected] == [
        (2, "cluster_event"), (3, "state_not_used"), (5, "duplicate_row"), (6, "start_missing"),
        (7, "end_before_start"), (8, "unreadable_time"), (9, "comment"), (10, "blank_line"), (11, "broken_record"),
        (12, "repeated_header"),
    ]  # fmt: skip
    assert [state.state for state in read_back.states] == ["maintenance"]


def test_a_reason_may_hold_the_delimiter_and_newlines(tmp_path: Path) -> None:
    lines = [f"alpha|n1|{START}|{END}|DOWN|fan|psu|root", f"alpha|n2|{START}|{END}|DOWN|two\nlines|root"]
    read_back = read(tmp_path, HEADER, *lines)
    assert [state.reason for state in read_back.states] == ["fan|psu", "two\nlines"]
    assert read_back.rejected == []


def test_columns_may_come_in_another_order(tmp_path: Path) -> None:
    (state,) = read(tmp_path, "State,NodeName,TimeStart,TimeEnd", f"DOWN,n1,{START},{END}").states
    assert (state.node, state.cluster, state.start_us) == ("n1", "", START_US)
    (told,) = read(
        tmp_path, "State,NodeName,TimeStart,TimeEnd", f"DOWN,n1,{START}Z,{END}Z", options=ReadOptions(cluster="beta")
    ).states
    assert told.cluster == "beta"


def test_the_usual_columns_need_no_header(tmp_path: Path) -> None:
    line = f"alpha|n1|{START}|Unknown|IDLE+DRAIN|x|root"
    assert [state.state for state in read(tmp_path, line).states] == ["draining"]
    path = tmp_path / "dump"
    for text, score in [(line, 75), (HEADER, 96), ("JobID|State|Start|End", None), ("a|b|c|d|e|f|g", None)]:
        path.write_text(f"{text}\n")
        found = SACCTMGR.detect(open_source(path))
        assert (None if found is None else found.score) == score, text


def test_a_local_stamp_needs_a_zone(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"given.txt, line 2.*--timezone"):
        read(tmp_path, HEADER, f"alpha|n1|{START}|{END}|DOWN||root", options=ReadOptions())


def test_the_repeated_hour_is_settled_by_the_duration_or_rejected(tmp_path: Path) -> None:
    header = "NodeName|TimeStart|TimeEnd|Duration|State"
    line = "n1|2025-10-26T02:30:00|2025-10-26T04:30:00|{}|DOWN"
    (state,) = read(tmp_path, header, line.format("03:00:00"), options=BERLIN).states
    assert state.start_us == 1_761_438_600 * S
    assert read(tmp_path, header, line.format(""), options=BERLIN).codes == ["ambiguous_local_time"]


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="sacctmgr -P show event"):
        read(tmp_path, "NodeName|Reason", "n1|x")

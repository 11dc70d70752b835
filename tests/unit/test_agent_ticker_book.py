"""Who is waited for: nodes that sent a batch and are in service."""

from typing import Any

import pytest
from wattledger_agent.ticker_book import SourceBook


def batch(node: str, end_us: int) -> tuple[str, dict[str, Any]]:
    return "sample_batch", {"node": node, "ticks_us": bytes(8) + end_us.to_bytes(8, "little", signed=True)}


def event(node: str, kind: str, at_us: int) -> tuple[str, dict[str, Any]]:
    return "node_event", {"node": node, "kind": kind, "at_us": at_us}


CASES: list[tuple[str, list[tuple[str, dict[str, Any]]], dict[str, int]]] = [
    ("nothing was read", [], {}),
    ("the newest end counts, whatever comes last", [batch("n1", 30), batch("n1", 60), batch("n1", 45)], {"n1": 60}),
    ("a node of which only events are known is not waited for", [event("n1", "inventory", 5)], {}),
    ("a node that left is not waited for", [batch("n1", 60), event("n1", "out_of_service", 60)], {}),
    ("in whichever order that comes", [event("n1", "out_of_service", 60), batch("n1", 60)], {}),
    ("until it sends a later batch", [event("n1", "out_of_service", 60), batch("n1", 61)], {"n1": 61}),
    ("an older leaving is no leaving", [batch("n1", 61), event("n1", "out_of_service", 60)], {"n1": 61}),
    ("other states are no leaving", [batch("n1", 60), event("n1", "node_state", 99)], {"n1": 60}),
]


@pytest.mark.parametrize(("records", "marks"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_marks(records: list[tuple[str, dict[str, Any]]], marks: dict[str, int]) -> None:
    book = SourceBook()
    for subject, record in records:
        book.take(subject, record)
    assert book.marks() == marks


def test_the_newest_tick_of_whichever_ticker_is_known_and_the_long_gone_are_forgotten() -> None:
    book = SourceBook()
    for record in (("tick", {"at_us": 50}), ("tick", {"at_us": 40}), batch("old", 10), batch("new", 60)):
        book.take(*record)
    book.forget(before_us=11)
    assert (book.newest_tick_us, book.marks()) == (50, {"new": 60})

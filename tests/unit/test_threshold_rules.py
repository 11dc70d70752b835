"""Rules with hysteresis: what raises, what clears, and that a restart at any point changes nothing."""

from decimal import Decimal

import pytest
from wattledger_core.ids import digest
from wattledger_core.threshold import (
    Observation,
    Rule,
    RuleRefused,
    ThresholdEvent,
    evaluate,
    state_from_events,
)

HOUR_US = 3_600_000_000
BURN = Rule("burn", "idle_burn", Decimal(10), Decimal(5), "EUR an hour", "critical")
MARGIN = Rule("margin", "tenant_below_cost", Decimal(0), Decimal("0.05"), "margin ratio")


def seen(rule: Rule, *values: Decimal | int | str | None, scope: str = "n1", first_hour: int = 1) -> list[Observation]:
    return [
        Observation(rule.kind, scope, (first_hour + n) * HOUR_US, Decimal(v) if isinstance(v, str) else v)
        for n, v in enumerate(values)
    ]


def transitions(events: list[ThresholdEvent]) -> list[tuple[int, str]]:
    return [(event.at_us // HOUR_US, event.transition) for event in events]


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (BURN, [9, 10, 12], [(2, "raised")]),
        (BURN, ["9.999999999999"], []),
        (BURN, [10, 6, 9, 11, 6], [(1, "raised")]),
        (BURN, [10, 5], [(1, "raised"), (2, "cleared")]),
        (BURN, [10, "5.000000000001"], [(1, "raised")]),
        (BURN, [1, 0], []),
        (BURN, [10, 4, 9, 10], [(1, "raised"), (2, "cleared"), (4, "raised")]),
        (BURN, [10, None, 6, None, 5], [(1, "raised"), (5, "cleared")]),
        (BURN, [None, None], []),
        (MARGIN, ["0.01", "0", "-0.2"], [(2, "raised")]),
        (MARGIN, ["-0.1", "0.04", "0.05"], [(1, "raised"), (3, "cleared")]),
        (MARGIN, ["0.3"], []),
    ],
)
def test_a_rule_raises_at_one_level_and_clears_at_the_other(
    rule: Rule, values: list[Decimal | int | str | None], expected: list[tuple[int, str]]
) -> None:
    assert transitions(evaluate([rule], {}, seen(rule, *values))) == expected


def test_an_event_says_what_was_seen_and_by_which_limits_it_was_judged() -> None:
    (event,) = evaluate([BURN], {}, seen(BURN, 12))
    assert event == ThresholdEvent(
        digest("threshold", "burn", "n1", HOUR_US, "raised"), "burn", "idle_burn", "n1", "raised", HOUR_US,
        Decimal(12), Decimal(10), Decimal(5), "EUR an hour", "critical",
    )  # fmt: skip


@pytest.mark.parametrize("cut", range(7))
def test_a_restart_at_any_point_gives_the_same_events(cut: int) -> None:
    observations = seen(BURN, 11, 7, 4, 9, 15, 6, 5)
    whole = evaluate([BURN], {}, observations)
    assert transitions(whole) == [(1, "raised"), (3, "cleared"), (5, "raised"), (7, "cleared")]
    before = evaluate([BURN], {}, observations[:cut])
    after = evaluate([BURN], state_from_events(before), observations[cut:])
    assert before + after == whole
    again = evaluate([BURN], state_from_events(before), observations)
    assert before + again == whole


def test_a_restart_between_the_levels_does_not_forget_that_the_rule_is_raised() -> None:
    before = evaluate([BURN], {}, seen(BURN, 11))
    assert evaluate([BURN], state_from_events(before), seen(BURN, 7, 9, first_hour=2)) == []
    assert transitions(evaluate([BURN], state_from_events(before), seen(BURN, 5, first_hour=2))) == [(2, "cleared")]


def test_state_is_the_same_in_whatever_order_and_however_often_events_are_read_back() -> None:
    events = evaluate([BURN], {}, [*seen(BURN, 11, 4, 12), *seen(BURN, 11, scope="n2")])
    assert state_from_events(events) == state_from_events([*reversed(events), *events])
    assert {scope: e.transition for (_, scope), e in state_from_events(events).items()} == {
        "n1": "raised", "n2": "raised",
    }  # fmt: skip


def test_observations_are_taken_in_order_of_event_time() -> None:
    observations = seen(BURN, 11, 4, 12)
    assert evaluate([BURN], {}, observations[::-1]) == evaluate([BURN], {}, observations)


def test_a_repeated_observation_of_what_was_settled_changes_nothing() -> None:
    events = evaluate([BURN], {}, seen(BURN, 11))
    assert evaluate([BURN], state_from_events(events), seen(BURN, 1)) == []


def test_scopes_are_apart_and_a_rule_may_be_for_one_only() -> None:
    only = Rule("only", "idle_burn", Decimal(10), Decimal(5), "EUR an hour", scope="n2")
    observations = [*seen(BURN, 11), *seen(BURN, 11, scope="n2")]
    assert [(e.rule, e.scope) for e in evaluate([BURN, only], {}, observations)] == [
        ("burn", "n1"), ("burn", "n2"), ("only", "n2"),
    ]  # fmt: skip


def test_a_rule_looks_at_its_own_kind_only() -> None:
    assert evaluate([BURN], {}, seen(MARGIN, 100)) == []


@pytest.mark.parametrize(
    ("kind", "raise_at", "severity", "message"),
    [
        ("heat", 10, "warning", "kind 'heat' is unknown"),
        ("idle_burn", 5, "warning", "set them apart, or it flaps"),
        ("idle_burn", 10, "loud", "severity 'loud' is unknown"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(kind: str, raise_at: int, severity: str, message: str) -> None:
    with pytest.raises(RuleRefused, match=message):
        Rule("r", kind, Decimal(raise_at), Decimal(5), "EUR", severity)

"""Thresholds: rules with hysteresis over observed values, as a pure fold whose state is its own past events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from wattledger_core.ids import digest

TENANT_BELOW_COST = "tenant_below_cost"
BUDGET_USED = "budget_used"
IDLE_BURN = "idle_burn"
TELEMETRY_GAP = "telemetry_gap"
USAGE_WITHOUT_HOLDER = "usage_without_holder"
RULE_KINDS = (TENANT_BELOW_COST, BUDGET_USED, IDLE_BURN, TELEMETRY_GAP, USAGE_WITHOUT_HOLDER)
SEVERITIES = ("info", "warning", "critical")

RAISED = "raised"
CLEARED = "cleared"

State = Mapping[tuple[str, str], "ThresholdEvent"]
"""The last event of each rule and scope: whether it is raised, and since when."""


class RuleRefused(ValueError):
    """A rule that can't be evaluated as it is written."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Raise at `raise_at`, clear at `clear_at`, both in `unit`; between them nothing changes.

    `raise_at > clear_at`: high is bad (share of a budget, idle cost, seconds of gap). `raise_at < clear_at`: low is
    bad (a tenant's margin ratio). Equal limits would flap, so they are refused. `scope` narrows the rule to one
    scope; empty is every scope.
    """

    name: str
    kind: str
    raise_at: Decimal
    clear_at: Decimal
    unit: str
    severity: str = "warning"
    scope: str = ""

    def __post_init__(self) -> None:
        if self.kind not in RULE_KINDS:
            raise RuleRefused(f"rule {self.name}: kind {self.kind!r} is unknown: use one of {RULE_KINDS}")
        if self.severity not in SEVERITIES:
            raise RuleRefused(f"rule {self.name}: severity {self.severity!r} is unknown: use one of {SEVERITIES}")
        if self.raise_at == self.clear_at:
            raise RuleRefused(f"rule {self.name}: it raises and clears at {self.raise_at}: set them apart, or it flaps")

    def transition(self, value: Decimal, raised: bool) -> str:
        """`raised`, `cleared`, or empty when the value changes nothing."""
        sign = 1 if self.raise_at > self.clear_at else -1
        if not raised and sign * value >= sign * self.raise_at:
            return RAISED
        if raised and sign * value <= sign * self.clear_at:
            return CLEARED
        return ""


@dataclass(frozen=True, slots=True)
class Observation:
    """A value of one kind of rule for one scope (tenant, node, budget) at an event time; None is unknown."""

    kind: str
    scope: str
    at_us: int
    value: Decimal | int | None


@dataclass(frozen=True, slots=True)
class ThresholdEvent:
    """A rule raised or cleared for a scope, with what it saw and the limits that it was judged by."""

    event_id: str
    rule: str
    kind: str
    scope: str
    transition: str
    at_us: int
    value: Decimal
    raise_at: Decimal
    clear_at: Decimal
    unit: str
    severity: str


def evaluate(rules: Sequence[Rule], state: State, observations: Iterable[Observation]) -> list[ThresholdEvent]:
    """The events of the observations, taken in order of event time, then scope; nothing where nothing changes.

    An observation at or before the last event of its rule and scope says nothing new (a repeat, or a late view of
    what was settled), so a rule has at most one event per scope and moment, and a repeated run makes the same ids.
    An unknown value neither raises nor clears.
    """
    last = dict(state)
    events: list[ThresholdEvent] = []
    for seen in sorted(observations, key=lambda o: (o.at_us, o.scope, o.kind)):
        for rule in rules:
            if seen.value is None or rule.kind != seen.kind or rule.scope not in ("", seen.scope):
                continue
            key = (rule.name, seen.scope)
            before = last.get(key)
            if before is not None and seen.at_us <= before.at_us:
                continue
            value = Decimal(seen.value)
            transition = rule.transition(value, before is not None and before.transition == RAISED)
            if transition:
                last[key] = _event(rule, seen, value, transition)
                events.append(last[key])
    return events


def state_from_events(events: Iterable[ThresholdEvent]) -> dict[tuple[str, str], ThresholdEvent]:
    """The state that past events leave, in whatever order and however often they are read back."""
    last: dict[tuple[str, str], ThresholdEvent] = {}
    for event in events:
        key = (event.rule, event.scope)
        if key not in last or event.at_us > last[key].at_us:
            last[key] = event
    return last


def _event(rule: Rule, seen: Observation, value: Decimal, transition: str) -> ThresholdEvent:
    event_id = digest("threshold", rule.name, seen.scope, seen.at_us, transition)
    return ThresholdEvent(
        event_id, rule.name, rule.kind, seen.scope, transition, seen.at_us, value, rule.raise_at, rule.clear_at,
        rule.unit, rule.severity,
    )  # fmt: skip

"""The thresholds evaluator: values from the views, the core's rules, events to `threshold-events`.

Its state is read back from that topic at start, so a restart does not forget what is raised.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import yaml
from clickhouse_connect.driver.client import Client
from pydantic import BaseModel, ConfigDict
from wattledger_core.threshold import (
    BUDGET_USED,
    Observation,
    Rule,
    ThresholdEvent,
    evaluate,
    state_from_events,
)
from wattledger_schemas import BadRecord, Codec
from wattledger_sql.query import query

from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping_threshold import from_wire_threshold_event, to_wire_threshold_event
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings

TOPIC = "threshold-events"


class RuleEntry(BaseModel):
    """A rule as written in YAML; levels are text, so that they stay exact."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: str
    raise_at: str
    clear_at: str
    unit: str
    severity: str = "warning"
    scope: str = ""


class RuleFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: tuple[RuleEntry, ...]
    budgets: dict[str, str] = {}


def load_rules(path: str) -> tuple[list[Rule], dict[str, Decimal]]:
    """Rules and budgets of a file, or the package's own when the path is empty."""
    text = Path(path).read_text() if path else (files("wattledger_streams") / "threshold_rules.yaml").read_text()
    given = RuleFile.model_validate(yaml.safe_load(text))
    rules = [
        Rule(r.name, r.kind, Decimal(r.raise_at), Decimal(r.clear_at), r.unit, r.severity, r.scope) for r in given.rules
    ]
    return rules, {tenant: Decimal(amount) for tenant, amount in given.budgets.items()}


def observe(client: Client, closed_us: int, budgets: Mapping[str, Decimal]) -> list[Observation]:
    """Values of every closed hour up to `closed_us`."""
    rows = client.query(query("threshold_observations"), parameters={"closed_us": closed_us}).result_rows
    found = [
        Observation(str(kind), str(scope), int(at_us), None if value is None else Decimal(value))
        for kind, scope, at_us, value in rows
    ]
    for tenant, budget in budgets.items():
        spent = client.query(
            "SELECT sum(m.billed) FROM v_tenant_margin_hour AS m WHERE tenant_id = {tenant:String}",
            parameters={"tenant": tenant},
        ).result_rows[0][0]
        found.append(Observation(BUDGET_USED, tenant, closed_us, Decimal(spent) / budget))
    return found


class Thresholds:
    """Evaluates over what the views show and writes what changed."""

    def __init__(self, settings: WorkerSettings, codec: Codec, outbox: Outbox) -> None:
        self._topic = settings.topic(TOPIC)
        self._kafka = settings.kafka()
        self._codec = codec
        self._outbox = outbox
        self.rules, self.budgets = load_rules(settings.thresholds_file)
        self._state = state_from_events(self._past_events())

    def _past_events(self) -> list[ThresholdEvent]:
        reader = LogReader(self._kafka, self._topic, 0, "wattledger-thresholds")
        try:
            records = list(reader.read_until(reader.end_offset()))
        finally:
            reader.close()
        found = []
        for record in records:
            try:
                decoded = self._codec.decode(record.value)
            except BadRecord:
                continue  # it goes to dead-letters where the topic is read
            if decoded.subject == "threshold_event":
                found.append(from_wire_threshold_event(decoded.record))
        return found

    def write(self, observations: Sequence[Observation]) -> list[ThresholdEvent]:
        """Queue the events of the observations; the caller settles."""
        events = evaluate(self.rules, self._state, observations)
        for event in events:
            value = self._codec.encode("threshold_event", to_wire_threshold_event(event))
            self._outbox.send(self._topic, 0, f"{event.rule}/{event.scope}", value, cloud_headers(event))
        self._state = state_from_events([*self._state.values(), *events])
        return events


def cloud_headers(event: ThresholdEvent) -> dict[str, str]:
    """CloudEvents 1.0 in Kafka's binary mode."""
    at = datetime.fromtimestamp(event.at_us // 1_000_000, UTC)
    return {
        "ce_specversion": "1.0",
        "ce_id": event.event_id,
        "ce_source": "wattledger/thresholds",
        "ce_type": f"wattledger.threshold.{event.transition}",
        "ce_subject": f"{event.rule}/{event.scope}",
        "ce_time": at.isoformat().replace("+00:00", "Z"),
        "content-type": "application/avro",
    }

"""`wattledger topics create` and `wattledger prices apply` on a broker: once is enough, and what started is frozen."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result
from wattledger_audit.__main__ import app
from wattledger_audit.broker import Broker
from wattledger_audit.price_changes import published_prices
from wattledger_core.event import Tick
from wattledger_schemas import Codec, load_contracts
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import to_wire_tick
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings

pytestmark = pytest.mark.kafka
START_US = 1_772_409_600_000_000  # 2026-03-02 00:00 UTC
DAY_US = 86_400_000_000
SHEET = """\
currency: EUR
compute:
  - {gpu_model: H100, per_gpu_hour: 1.90, from: 2026-03-02}
rates:
  - {plan: on_demand, per_gpu_hour: 2.60, from: 2026-03-02}
pools:
  - {name: fabric, driver: installed_gpu_h, per_unit: 0.15, from: 2026-03-10}
"""


class Deployment:
    """The command line against one prefix of the broker."""

    def __init__(self, broker: Broker, prefix: str, folder: Path) -> None:
        self.settings = WorkerSettings(bootstrap=broker.bootstrap, topic_prefix=prefix)
        self._where = ["--bootstrap", broker.bootstrap, "--prefix", prefix]
        self._sheet = folder / "prices.yaml"

    def create(self, *options: str) -> Result:
        return CliRunner().invoke(app, ["topics", "create", *self._where, "--replication", "1", *options])

    def apply(self, sheet: str, *options: str) -> Result:
        self._sheet.write_text(sheet)
        return CliRunner().invoke(app, ["prices", "apply", str(self._sheet), *self._where, *options])

    def tick(self, at_us: int) -> None:
        outbox = Outbox(self.settings.kafka())
        value = Codec().encode("tick", to_wire_tick(Tick(at_us)))
        outbox.send(self.settings.topic("price-book"), 0, "tick", value)
        outbox.settle_blocking()

    def records(self) -> int:
        """How many records the price book has."""
        reader = LogReader(self.settings.kafka(), self.settings.topic("price-book"), 0, "test")
        try:
            return reader.end_offset()
        finally:
            reader.close()


@pytest.fixture
def deployment(broker: Broker, topic_prefix: str, tmp_path: Path) -> Deployment:
    found = Deployment(broker, f"prices-{topic_prefix}", tmp_path)
    assert found.create().exit_code == 0
    return found


def said(result: Result) -> str:
    return result.output.strip().splitlines()[-1]


def test_topics_are_made_once(broker: Broker, topic_prefix: str, tmp_path: Path) -> None:
    found = Deployment(broker, f"made-{topic_prefix}", tmp_path)
    first, second = found.create("--partitions", "2"), found.create("--partitions", "2")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert all(found.settings.topic(name) in first.output for name in load_contracts())
    assert "nothing, all there" in second.output


def test_another_number_of_partitions_is_refused(deployment: Deployment) -> None:
    result = deployment.create("--partitions", "7")
    assert result.exit_code == 4
    assert "7" in result.stderr


def test_a_sheet_is_published_once(deployment: Deployment) -> None:
    first = deployment.apply(SHEET)
    assert (first.exit_code, said(first)) == (0, "3 of 3 prices published")
    second = deployment.apply(SHEET)
    assert (second.exit_code, said(second)) == (0, "0 of 3 prices published")
    assert deployment.records() == 3
    rates = sorted(str(price.rate) for price in published_prices(deployment.settings).prices.values())
    assert rates == ["0.15", "1.90", "2.60"]


def test_a_dry_run_says_what_would_be_and_publishes_nothing(deployment: Deployment) -> None:
    result = deployment.apply(SHEET, "--dry-run")
    assert (result.exit_code, said(result)) == (0, "3 of 3 prices would be published")
    assert "2.60 EUR" in result.output
    assert deployment.records() == 0


def test_what_has_not_started_may_change(deployment: Deployment) -> None:
    assert deployment.apply(SHEET).exit_code == 0
    deployment.tick(START_US + DAY_US)
    result = deployment.apply(SHEET.replace("0.15", "0.17"))
    assert (result.exit_code, said(result)) == (0, "1 of 3 prices published")


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--backdate-reason", "a mistake"]])
def test_a_change_of_a_price_that_has_started_is_refused(deployment: Deployment, options: list[str]) -> None:
    assert deployment.apply(SHEET).exit_code == 0
    deployment.tick(START_US + DAY_US)
    before = deployment.records()
    result = deployment.apply(SHEET.replace("2.60", "2.10").replace("0.15", "0.17"), *options)
    assert result.exit_code == 3
    assert "rate may not change from 2.60 to 2.10" in result.stderr
    assert deployment.records() == before, "a sheet is published as a whole or not at all"


def test_the_end_of_a_price_that_has_started_may_change(deployment: Deployment) -> None:
    assert deployment.apply(SHEET).exit_code == 0
    deployment.tick(START_US + DAY_US)
    ended = SHEET.replace("2.60, from: 2026-03-02", "2.60, from: 2026-03-02, to: 2026-03-05")
    assert said(deployment.apply(ended)) == "1 of 3 prices published"


def test_a_new_price_in_the_past_needs_a_reason(deployment: Deployment) -> None:
    deployment.tick(START_US + DAY_US)
    refused = deployment.apply(SHEET)
    assert (refused.exit_code, deployment.records()) == (3, 1)
    assert "reason" in refused.stderr
    assert said(deployment.apply(SHEET, "--backdate-reason", "contract came late")) == "3 of 3 prices published"


def test_a_sheet_with_a_mistake_is_refused_with_its_line(deployment: Deployment) -> None:
    result = deployment.apply(SHEET.replace("per_unit: 0.15", "per_unit: lots"))
    assert result.exit_code == 3
    assert "prices.yaml:7: " in result.stderr

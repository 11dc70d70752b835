"""Everything at random for some minutes: the short form of `make soak`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fault_harness.soak import Soak

pytestmark = pytest.mark.kafka
MINUTES, SEED = 4.0, 20261130


@pytest.mark.fault(
    30,
    f"all faults of the soak at random for {MINUTES:g} minutes, seed {SEED}",
    "conservation: every sum exact; liveness: caught up after each storm",
)
def test_after_minutes_of_faults_at_random_everything_is_there_once_and_work_goes_on(
    apache_kafka: Path, tmp_path: Path, seen: Callable[[str], None]
) -> None:
    outcome = Soak(SEED, MINUTES, tmp_path / "soak").run()
    slowest_s = max(calm.caught_up_s for calm in outcome.calms)
    seen(
        f"{outcome.records} records, {sum(outcome.faults.values())} faults, {outcome.exits} ends of workers;"
        f" {sum(finding.ok for finding in outcome.findings)} of {len(outcome.findings)} findings exact;"
        f" caught up {len(outcome.calms)} times, after {slowest_s:.1f} s at most"
    )
    assert [finding for finding in outcome.findings if not finding.ok] == []
    assert outcome.conserved
    assert outcome.lived
    assert outcome.faults

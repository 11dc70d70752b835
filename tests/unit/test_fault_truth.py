"""The fault harness's truth against `replay`: two computations that share no code, to the last digit."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from tests.fault_harness.checker import assert_exact, check_sources
from tests.fault_harness.plan import MIDNIGHT_US, S
from tests.fault_harness.world import Plan, World
from tests.replay_world import emptied_ledger, fill, run

pytestmark = pytest.mark.chdb
HARNESS = Path(__file__).resolve().parents[1] / "fault_harness"
INDEPENDENT = (
    "world", "plan", "facts", "physics", "schedule", "tariffs", "records", "record_bytes", "poison", "answers",
    "curve_truth", "truth", "findings", "topic_reading", "ledger", "check_topics", "checker",
)  # fmt: skip
PLAIN = Plan(1, nodes=2, minutes=30)
TROUBLED = Plan(2, minutes=75).with_every_trouble()
ALONE: dict[str, dict[str, Any]] = {
    "late jobs": {"late_jobs": 0.8},
    "shuffled jobs": {"shuffled_jobs": 0.8},
    "corrected jobs": {"corrected_jobs": 1.0},
    "duplicate events": {"duplicate_events": 0.8},
    "missing stops": {"missing_stops": 0.5},
    "zombies": {"zombies": 0.8},
    "suspends": {"suspends": 0.8},
    "overlaps": {"overlaps": 0.9},
    "price changes": {"price_changes": 3},
    "late prices": {"late_prices": 3},
    "gaps": {"gaps": 2, "gap_min": 6},
    "gaps with resets": {"gaps": 2, "resets": 1.0},
    "missing cells": {"missing_cells": 0.2},
    "duplicate records": {"duplicate_records": 0.4},
    "shuffled records": {"shuffled_records": 0.5},
    "late records": {"late_records": 0.2},
    "poison": {"poison": 1},
    "over midnight": {"start_us": MIDNIGHT_US - 1800 * S, "late_jobs": 0.5, "missing_stops": 0.3},
    "four ticks a minute": {"period_s": 15, "ticks_per_record": 8, "late_jobs": 0.5, "gaps": 1},
}


@pytest.fixture(scope="module")
def emptied(chdb_path: Path) -> Iterator[Callable[[], Client]]:
    """One database for all, its tables empty again at each call."""
    with emptied_ledger(chdb_path) as make:
        yield make


@pytest.fixture
def client(emptied: Callable[[], Client]) -> Client:
    return emptied()


def check_replayed(world: World, client: Client) -> list[Any]:
    found = run(world)
    fill(client, found)

    def query(sql: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = client.query(sql).result_rows
        return rows

    return check_sources(world, found.topics, query)


def test_a_plain_world_is_exact(client: Client) -> None:
    findings = check_replayed(World(PLAIN), client)
    assert_exact(findings)
    assert len(findings) > 15


@pytest.mark.parametrize("trouble", ALONE)
def test_each_trouble_alone_is_exact(trouble: str, client: Client) -> None:
    plan = Plan(3, nodes=2, devices=3, minutes=60, job_minutes=8)
    assert_exact(check_replayed(World(replace(plan, **ALONE[trouble])), client))


@pytest.mark.parametrize("seed", [11, 13])
def test_every_trouble_together_is_exact(seed: int, client: Client) -> None:
    assert_exact(check_replayed(World(replace(TROUBLED, seed=seed)), client))


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    first, again, other = (
        list(World(replace(TROUBLED, seed=seed, minutes=60)).emissions()) for seed in (5, 5, 6)
    )  # fmt: skip
    assert first == again
    assert first != other
    assert [sent.at_us for sent in first] == sorted(sent.at_us for sent in first)


@pytest.mark.parametrize("module", INDEPENDENT)
def test_truth_and_checker_import_nothing_of_the_pipeline(module: str) -> None:
    tree = ast.parse((HARNESS / f"{module}.py").read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {name.removeprefix("tests.fault_harness.") for name in imported if name.startswith("tests.")}
    assert not {name for name in imported if name.startswith("wattledger")}
    assert own <= {*INDEPENDENT, "tests.fault_harness"}, "what these import is held to the same rule"

"""The demo's generated day: the same every time, batches that tile, and every special case in it."""

from collections import Counter
from hashlib import sha256
from itertools import islice, pairwise

from wattledger_audit.generated_fleet import SPECIAL_CASES, demo_day
from wattledger_audit.generated_fleet.job_table import JOBS
from wattledger_audit.generated_fleet.machines import BY_NODE
from wattledger_audit.generated_fleet.sample_stream import sample_emissions
from wattledger_core.batch import Batch
from wattledger_schemas import Codec
from wattledger_streams.mapping import to_wire_batch


def batches(node: str) -> list[Batch]:
    return [e.item for e in sample_emissions(BY_NODE[node]) if isinstance(e.item, Batch)]


def test_two_generations_give_the_same_bytes() -> None:
    def digest() -> str:
        hasher, codec = sha256(), Codec()
        for emission in islice(demo_day(), 3000):
            item = emission.item
            raw = codec.encode("sample_batch", to_wire_batch(item)) if isinstance(item, Batch) else repr(item).encode()
            hasher.update(raw)
        return hasher.hexdigest()

    assert digest() == digest()


def test_emissions_come_in_order_and_the_day_has_what_it_should() -> None:
    last, kinds = 0, Counter[str]()
    for emission in demo_day():
        assert emission.at_us >= last
        last = emission.at_us
        kinds[type(emission.item).__name__] += 1
    assert kinds["Batch"] == 3 * 2880 - 40, "three agents, one of them away for twenty minutes"
    assert kinds["Tick"] == 25 * 60 + 1
    assert len(JOBS) == 60
    assert len({job.tenant for job in JOBS}) == 6


def test_batches_of_a_node_tile_the_day() -> None:
    for node in ("h100-01", "a100-01", "l40s-01"):
        found = batches(node)
        for before, after in pairwise(found):
            assert before.end_us == after.start_us
        assert found[-1].end_us - found[0].start_us == 86_400_000_000


def test_counters_never_fall_but_at_the_reset() -> None:
    falls = [
        (batch.node, d)
        for node in ("h100-01", "a100-01", "l40s-01")
        for batch in batches(node)
        for d, row in enumerate(batch.counter_uj)
        if (row[1:] < row[:-1]).any()
    ]
    assert falls == [("a100-01", 4)]


def test_every_special_case_says_where_it_is() -> None:
    assert len(SPECIAL_CASES) == 20
    assert all(SPECIAL_CASES.values())


def test_the_machine_without_an_agent_has_no_samples() -> None:
    assert batches("mi300x-01") == []

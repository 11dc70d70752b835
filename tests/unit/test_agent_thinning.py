"""A thinned batch says the same with less detail, or says that it does not know: never another energy."""

from dataclasses import replace

import numpy as np
import pytest
from wattledger_agent.thinning import batch_thinner
from wattledger_agent.wal_record import WalRecord
from wattledger_core.batch import Batch
from wattledger_schemas import Codec
from wattledger_streams.mapping import from_wire_batch, to_wire_batch

from tests.unit.agent_batches import N, batch

CODEC = Codec()
THIN = batch_thinner(CODEC)


def thinned(full: Batch) -> Batch:
    record = WalRecord("gpu-samples", "n1", CODEC.encode("sample_batch", to_wire_batch(full)), at_us=3)
    found = THIN(record)
    assert found is not None and found.size_bytes < record.size_bytes // 2
    assert (found.topic, found.key, found.partition, found.at_us) == ("gpu-samples", "n1", record.partition, 3)
    return from_wire_batch(CODEC.decode(found.value).record)


def test_it_still_tiles_time_and_keeps_its_identity() -> None:
    full, thin = batch(), thinned(batch())
    assert thin.ticks_us.tolist() == [full.ticks_us[0], full.ticks_us[-1]]
    assert (thin.node, thin.agent, thin.boot_id, thin.seq) == (full.node, full.agent, full.boot_id, full.seq)
    assert [device.device for device in thin.devices] == [device.device for device in full.devices]


def test_the_counter_bridges_to_the_microjoule() -> None:
    full, thin = batch(), thinned(batch())
    assert thin.counter_valid.all()
    assert (thin.counter_uj[:, 1] - thin.counter_uj[:, 0]).tolist() == full.counter_uj[:, -1].tolist()


def test_busy_shares_become_the_mean_over_the_batch_not_the_last_reading() -> None:
    full, thin = batch(), thinned(batch())
    means = [round(int(row[1:].sum()) / (N - 1)) for row in full.busy_ppm]
    assert np.abs(thin.busy_ppm[:, 1] - means).max() <= 1
    [process] = thin.devices[0].processes
    assert abs(int(process.sm_ppm[1]) - full.devices[0].processes[0].sm_ppm[1:].sum() / (N - 1)) <= 1
    assert len(thin.devices[0].instances) == 1


def test_one_unknown_busy_share_makes_the_whole_share_unknown() -> None:
    full = batch()
    full.busy_valid[1, 12] = False
    assert thinned(full).busy_valid[:, 1].tolist() == [True, False]


def counters(kind: str) -> Batch:
    """A batch whose first device's counter has a fault."""
    full = batch()
    if kind == "reset":
        full.counter_uj[0, 15:] -= full.counter_uj[0, 15] - 5
    elif kind == "bad read":
        full.counter_uj[0, 15] += 10**12
    elif kind == "frozen":
        full.counter_uj[0] = 0
    elif kind == "last missing":
        full.counter_valid[0, -1] = False
    return full


@pytest.mark.parametrize("kind", ["reset", "bad read", "frozen", "last missing"])
def test_a_counter_that_can_not_be_trusted_over_the_batch_gives_no_energy(kind: str) -> None:
    thin = thinned(counters(kind))
    assert not (thin.counter_valid[0, 0] and thin.counter_valid[0, 1])
    assert thin.counter_valid[1].all()


def test_a_missing_first_reading_keeps_the_absolute_counter() -> None:
    full = batch()
    full.counter_valid[0, :3] = False
    record = to_wire_batch(full)
    found = THIN(WalRecord("gpu-samples", "n1", CODEC.encode("sample_batch", record)))
    assert found is not None
    device = CODEC.decode(found.value).record["devices"][0]
    assert device["counter_base_uj"] == int(full.counter_uj[0, -1])
    assert from_wire_batch(CODEC.decode(found.value).record).counter_valid[0].tolist() == [False, True]


def test_an_epoch_that_began_in_between_still_separates_the_two_ticks() -> None:
    full = batch()
    later = replace(full.devices[0], epoch_from_tick=9)
    thin = thinned(replace(full, devices=(later, full.devices[1])))
    assert [device.epoch_from_tick for device in thin.devices] == [1, 0]


def test_what_is_no_batch_or_already_thin_stays() -> None:
    value = CODEC.encode("sample_batch", to_wire_batch(batch()))
    once = THIN(WalRecord("gpu-samples", "n1", value))
    assert once is not None and THIN(once) is None
    assert THIN(WalRecord("job-events", "n1", value)) is None
    assert THIN(WalRecord("gpu-samples", "n1", b"rubbish")) is None

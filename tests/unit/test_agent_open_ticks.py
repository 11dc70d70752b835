"""Open ticks as they are cut into batches and thinned: batches tile time, say one thing of each device, stay small."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from wattledger_agent.device_memory import dump_devices, load_devices
from wattledger_agent.open_ticks import OpenTicks
from wattledger_agent.pending_records import PendingRecords
from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.reading import Reading, unknown
from wattledger_agent.tick import DeviceTick, JobKey, Tick
from wattledger_agent.wal_gap import GapNote, gap_encoder
from wattledger_agent.wal_record import WalRecord
from wattledger_schemas import Codec

S = 1_000_000
JOB: JobKey = ("c1", "7")
CARDS = {"A": Device("A", "nvidia", "H100", "590", counter_epoch="e1")}


def tick(at_s: float, epoch: str = "e1", busy: int | None = 0, energy: int | None = 1, begins: bool = False) -> Tick:
    readings = (
        Reading(300_000), Reading(energy) if energy is not None else unknown("timed_out"),
        Reading(busy) if busy is not None else unknown("stale"), Reading(1), Reading(40), Reading(0),
    )  # fmt: skip
    shares = ((JOB, Reading(busy)),) if busy else ()
    row = DeviceTick("A", epoch, readings, (("1", readings[2]),), None if busy is None else shares)
    return Tick(round(at_s * S), (row,), begins=begins)


def opened(ticks: Sequence[Tick], devices: Sequence[dict[str, Device]] = ()) -> OpenTicks:
    found = OpenTicks()
    for number, one in enumerate(ticks):
        found.add(number, one, devices[number] if devices else CARDS)
    return found


def spans(ticks: OpenTicks) -> list[list[float]]:
    return [[one.at_us / S for one in cut.ticks] for cut in ticks.cuts()]


def test_one_batch_holds_all_and_its_last_tick_begins_the_next() -> None:
    ticks = opened([tick(t) for t in range(4)])
    assert spans(ticks) == [[0, 1, 2, 3]]
    ticks.close()
    ticks.add(4, tick(4), CARDS)
    assert spans(ticks) == [[3, 4]]


def test_other_devices_or_another_epoch_begin_a_batch_that_tiles() -> None:
    others = {**CARDS, "B": Device("B", "nvidia", "H100", "590")}
    changed = opened([tick(t) for t in range(5)], [CARDS, CARDS, CARDS, others, others])
    assert spans(changed) == [[0, 1, 2], [2, 3, 4]]
    assert [sorted(cut.devices) for cut in changed.cuts()] == [["A"], ["A", "B"]]
    assert spans(opened([tick(0), tick(1), tick(2, "e2"), tick(3, "e3"), tick(4, "e3")])) == [[0, 1], [1, 2], [2, 3, 4]]


def test_a_tick_that_does_not_follow_on_is_in_no_batch_with_the_one_before() -> None:
    assert spans(opened([tick(0), tick(1), tick(9, begins=True), tick(10)])) == [[0, 1], [9, 10]]
    assert spans(opened([tick(1), tick(9, begins=True), tick(10, begins=True), tick(11)])) == [[10, 11]]


def test_many_ticks_are_several_records_none_too_large_for_a_broker() -> None:
    cut = spans(opened([tick(t) for t in range(20_000)]))
    assert all(before[-1] == after[0] for before, after in pairwise(cut))
    assert max(map(len, cut)) * (8 + 46) <= 410_000 and len(cut) == 3


def test_a_batch_ends_well_where_every_counter_is_read_that_it_had() -> None:
    assert opened([tick(0), tick(1)]).end_well
    assert not opened([tick(0), tick(1, energy=None)]).end_well
    assert opened([tick(0, energy=None), tick(1, energy=None)]).end_well, "a card without a counter"
    assert opened([tick(0), tick(1, "e2", energy=None)]).end_well, "no counter of another epoch can bridge"


def test_thinned_ticks_keep_the_time_that_was_busy() -> None:
    ticks = opened([tick(0), tick(1, busy=800_000), tick(3, busy=200_000), tick(4, busy=None), tick(5), tick(6)])
    assert ticks.thin() == 2
    [cut] = ticks.cuts()
    assert [one.at_us / S for one in cut.ticks] == [0, 3, 5, 6]
    rows = [one.devices[0] for one in cut.ticks]
    busy = [row.readings[2] for row in rows]
    assert busy == [Reading(0), Reading(400_000), unknown("stale"), Reading(0)]
    assert [row.instances[0][1] for row in rows] == busy
    assert [row.jobs for row in rows] == [(), ((JOB, Reading(400_000)),), None, ()]
    assert ticks.last is not None and ticks.last.number == 5


def test_thinning_keeps_where_batches_begin_and_epochs_change() -> None:
    ticks = opened([tick(0), tick(1), tick(2, begins=True), tick(3), tick(4, "e2"), tick(5, "e2")])
    assert ticks.thin() == 0
    assert spans(ticks) == [[0, 1], [2, 3], [3, 4, 5]]
    assert ticks.give_up_half() == (0, 3 * S)
    assert spans(ticks) == [[3, 4, 5]]


def test_ticks_of_unknown_devices_wait_for_the_inventory() -> None:
    ticks = OpenTicks()
    for at in range(3):
        ticks.add(at, tick(at), None)
    assert not ticks.are_known and spans(ticks) == []
    ticks.know(CARDS)
    assert ticks.are_known and spans(ticks) == [[0, 1, 2]]


def test_devices_come_back_from_the_log_as_they_were() -> None:
    instance = MigInstance("2", "MIG-1", "3g.40gb", 3, 1 << 35, 2, ("MIG-1", "MIG-2"), (21, 22))
    card = Device("A", "nvidia", "H100", "590", 1, 2, "0000:c5:00.0", instances=(instance,), is_mig=True)
    assert load_devices(dump_devices({"A": card})) == {"A": card}


@pytest.mark.parametrize(
    "data", [None, b"", b"{", b"[2,[]]", b'[1,[{"device":"A"}]]', b'[1,[{"instances":[]}]]', b"[]"]
)
def test_devices_of_another_form_are_not_remembered(data: bytes | None) -> None:
    assert load_devices(data) == {}


def test_what_waits_for_the_log_is_bounded_and_what_goes_leaves_a_gap() -> None:
    codec = Codec()
    pending = PendingRecords(gap_encoder("n1", "a1", codec))
    pending.note(GapNote("gpu-samples", 0, 0, 0, 1, 2, "outage"))
    for at_us in range(10, 1010):
        pending.add([WalRecord("job-events", "n1", b"inventory", at_us=at_us)])
    assert len(pending.records) <= 501
    gaps = [codec.decode(one.value).record for one in pending.records if one.topic == "dead-letters"]
    kept = [one.at_us for one in pending.records if one.topic == "job-events"]
    assert sum(gap["count"] for gap in gaps if gap["topic"] == "job-events") + len(kept) == 1000
    assert kept[-1] == 1009 and kept == list(range(kept[0], 1010))
    assert [gap["reason"] for gap in gaps] == ["log_not_taking", "outage"]

"""The sampler on a real log: batches tile time over flushes, restarts, outages, new inventories and wrong clocks."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wattledger_agent.batch_record import BatchHead
from wattledger_agent.clock import ManualClock
from wattledger_agent.probe_runner import ProbeResult
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.reading import DeviceReading, ProbeTick, Reading, lost_device
from wattledger_agent.sampler import MOST_BRIDGED_US, Sampler, SamplerRule
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import gap_encoder
from wattledger_agent.wal_record import WalRecord, WalUnavailable
from wattledger_schemas import Codec

S = 1_000_000
T0 = 1_767_225_600 * S
CODEC = Codec()
CARD = Device("GPU-a", "nvidia", "H100", "590", counter_epoch="e1")


class Machine:
    """A machine with cards of 300 W each, an agent that can be stopped and started, and its log."""

    def __init__(self, path: Path, cap_bytes: int = 1 << 30) -> None:
        self.path = path
        self.cap_bytes = cap_bytes
        self.clock = ManualClock(T0)
        self.devices: tuple[Device, ...] = (CARD,)
        self.lost: set[str] = set()
        self.answers = self.is_known = True
        self.sleeps_s = 0.0
        """How long the machine sleeps while the next tick is read."""
        self.name = "machine"
        self.absent = False
        self.began_us = T0
        self.start()

    def start(self) -> None:
        self.wal = Wal(self.path, self.cap_bytes, "drop_oldest", None, gap_encoder("n1", "a1", CODEC))
        head = BatchHead("n1", "fra1", "a1", f"run-{self.clock.now_us}", "0.1.0", S)
        self.sampler = Sampler(
            self.wal, [self], head, SamplerRule(S, 10 * S), self.clock, CODEC, lambda processes, at_us: {},  # type: ignore[list-item]
            self._said, gap_encoder("n1", "a1", CODEC),
        )  # fmt: skip

    def kill(self) -> None:
        """The process is gone: nothing is flushed."""
        self.wal.close()

    def _said(self, at_us: int, devices: Any, floors: Any) -> list[WalRecord]:
        return [WalRecord("job-events", "n1", ",".join(d.device for d in devices).encode(), at_us=at_us)]

    def ask(self) -> None:
        """As a runner."""

    def take(self, until_s: float) -> ProbeResult:
        self.clock.sleep(self.sleeps_s)
        self.sleeps_s = 0.0
        if not self.answers:
            return ProbeResult(None, Inventory(self.devices) if self.is_known else None, "timed_out")
        uj = (self.clock.now_us - self.began_us) * 300
        read = [
            lost_device(d.device)
            if d.device in self.lost
            else DeviceReading(d.device, Reading(300_000), Reading(uj), Reading(1_000_000), Reading(1), Reading(40))
            for d in self.devices
        ]
        return ProbeResult(ProbeTick(tuple(read)), Inventory(self.devices))

    def run(self, ticks: int) -> "Machine":
        for _ in range(ticks):
            self.clock.sleep(1)
            self.sampler.step()
        return self

    def records(self) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for kept in self.wal.pending(0, 10_000):
            if kept.record.topic == "job-events":
                found.append(("inventory", {"at_us": kept.record.at_us, "devices": kept.record.value.decode()}))
            else:
                found.append((CODEC.decode(kept.record.value).subject, CODEC.decode(kept.record.value).record))
        return found

    def batches(self) -> list[list[int]]:
        """Tick times of each sample record, in seconds after T0."""
        found = [r for subject, r in self.records() if subject == "sample_batch"]
        return [((np.frombuffer(r["ticks_us"], "<i8") - T0) / S).tolist() for r in found]

    def devices_of_batches(self) -> list[list[str]]:
        found = [r for subject, r in self.records() if subject == "sample_batch"]
        return [[device["device"] for device in record["devices"]] for record in found]

    def energy_uj(self) -> int:
        """Sum of the counter's increase over all records."""
        total = 0
        for subject, record in self.records():
            if subject == "sample_batch":
                ticks = len(record["ticks_us"]) // 8
                for device in record["devices"]:
                    total += int(np.frombuffer(device["energy_delta_uj"][: 8 * ticks], "<i8").sum())
        return total


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "w.wal")


def test_batches_tile_time_and_the_first_tick_repeats_the_last(machine: Machine) -> None:
    machine.run(31)
    assert machine.batches() == [
        [float(t) for t in range(1, 12)],
        [float(t) for t in range(11, 22)],
        [float(t) for t in range(21, 32)],
    ]
    assert machine.energy_uj() == 30 * 300 * S


def test_an_agent_that_is_killed_loses_no_tick_and_the_counter_bridges_its_absence(machine: Machine) -> None:
    machine.run(17).kill()
    machine.clock.sleep(3600)
    machine.start()
    machine.run(3)
    machine.sampler.flush()
    assert machine.batches() == [
        [float(t) for t in range(1, 12)],
        [float(t) for t in range(11, 18)],
        [17.0, 3618.0],
        [3618.0, 3619.0, 3620.0],
    ]
    assert machine.energy_uj() == 3619 * 300 * S


@pytest.mark.parametrize("kill_after", range(1, 24))
def test_wherever_it_is_killed_ticks_are_said_once(machine: Machine, kill_after: int) -> None:
    machine.run(kill_after).kill()
    machine.start()
    machine.run(24 - kill_after)
    machine.sampler.flush()
    batches = machine.batches()
    assert [t for batch in batches for t in batch[1:]] == [float(t) for t in range(2, 25)]
    assert all(before[-1] == after[0] for before, after in pairwise(batches))
    assert machine.energy_uj() == 23 * 300 * S


def test_a_changed_inventory_closes_the_batch_and_is_said(machine: Machine) -> None:
    machine.run(4)
    machine.devices = (replace(CARD, driver="595", counter_epoch="e2"), replace(CARD, device="GPU-b"))
    machine.began_us = machine.clock.now_us
    machine.run(3)
    machine.sampler.flush()
    assert machine.batches() == [[1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 6.0, 7.0]]
    second = [r for subject, r in machine.records() if subject == "sample_batch"][1]
    assert [(d["device"], d["counter_epoch"], d["epoch_from_tick"], d["driver"]) for d in second["devices"]] == [
        ("GPU-a", "e2", 1, "595"),
        ("GPU-b", "e1", 0, "590"),
    ]
    inventories = [r for subject, r in machine.records() if subject == "inventory"]
    assert [(r["at_us"] - T0, r["devices"]) for r in inventories] == [(S, "GPU-a"), (5 * S, "GPU-a,GPU-b")]


def test_a_lost_device_and_a_probe_that_hangs_give_unknown_cells_never_a_repetition(machine: Machine) -> None:
    machine.run(2)
    machine.lost = {"GPU-a"}
    machine.run(2)
    machine.lost, machine.answers = set(), False
    machine.run(2)
    machine.answers = True
    machine.run(2)
    machine.sampler.flush()
    [batch] = [r for subject, r in machine.records() if subject == "sample_batch"]
    [device] = batch["devices"]
    assert device["lost_from_tick"] == 2
    power = [n for n in device["nulls"] if n["column"] == "power_mw"]
    assert power == [
        {"column": "power_mw", "reason": "gpu_lost", "ticks": 2},
        {"column": "power_mw", "reason": "timed_out", "ticks": 2},
    ]
    assert machine.energy_uj() == 7 * 300 * S


def test_a_clock_set_back_says_no_time_twice_and_leaves_a_gap_record(machine: Machine) -> None:
    machine.run(75)
    machine.clock.step(-60 * S)
    machine.run(90)
    machine.sampler.flush()
    ticks = [t for batch in machine.batches() for t in batch]
    assert ticks == sorted(ticks)
    [gap] = [r for subject, r in machine.records() if subject == "gap"]
    assert (gap["reason"], gap["topic"], gap["from_us"]) == ("clock_set_back", "gpu-samples", T0 + 85 * S)
    # what was drawn while the clock was wrong is in no batch: unknown, not guessed
    resumed = [batch for batch in machine.batches() if batch[0] > 85]
    assert resumed[0][0] == 86.0


def test_an_agent_killed_after_a_step_back_does_not_tile_across_it(machine: Machine) -> None:
    machine.run(75)
    machine.clock.step(-60 * S)
    machine.run(72)
    before = machine.batches()
    machine.kill()
    machine.start()
    machine.run(3)
    machine.sampler.flush()
    assert before[-1][-1] == 85.0
    assert [batch[0] for batch in machine.batches()[len(before) :]] == [86.0, 87.0]


def test_a_clock_set_back_while_the_agent_is_down_gives_no_tick_out_of_order(machine: Machine) -> None:
    machine.run(75).kill()
    machine.clock.step(-3600 * S)
    machine.start()
    machine.run(20)
    machine.clock.step(3600 * S)
    machine.run(20)
    machine.sampler.flush()
    batches = machine.batches()
    assert all(list(batch) == sorted(set(batch)) for batch in batches)
    spans = sorted((batch[0], batch[-1]) for batch in batches)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert [t for t in sorted({t for batch in batches for t in batch}) if t < 0] == [
        float(t) for t in range(-3524, -3494)
    ]
    assert spans[-1] == (106.0, 115.0), "no batch spans what was said before the restart"
    gaps = [r for subject, r in machine.records() if subject == "gap"]
    assert [gap["reason"] for gap in gaps] == ["clock_set_back", "clock_set_back"]


def test_ticks_of_a_batch_are_in_no_other_batch_when_the_last_could_not_be_noted_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise WalUnavailable("the disk is full")

    machine.run(10)
    with monkeypatch.context() as patched:
        patched.setattr(machine.wal, "note_tick", refuse)
        machine.run(1)
    machine.run(1)
    machine.kill()
    machine.start()
    machine.run(2)
    machine.sampler.flush()
    assert [t for batch in machine.batches() for t in batch[1:]] == [float(t) for t in range(2, 15)]
    assert machine.energy_uj() == 13 * 300 * S


def test_a_machine_without_devices_fills_no_log_and_begins_when_they_come(machine: Machine) -> None:
    machine.devices = ()
    machine.run(40)
    assert machine.records() == [] and machine.wal.open_ticks() == []
    machine.devices = (CARD,)
    machine.run(12)
    assert machine.batches() == [[float(t) for t in range(41, 52)]]


def test_a_clock_set_forward_is_a_gap_that_the_counter_bridges(machine: Machine) -> None:
    machine.run(5)
    machine.clock.step(290 * S)
    machine.run(20)
    machine.sampler.flush()
    batches = machine.batches()
    assert all(before[-1] == after[0] for before, after in pairwise(batches))
    assert machine.energy_uj() == 24 * 300 * S


def test_a_clock_set_an_hour_forward_and_back_claims_only_the_time_that_passed(machine: Machine) -> None:
    machine.run(5)
    machine.clock.step(3600 * S)
    machine.run(20)
    machine.clock.step(-3600 * S)
    machine.run(30)
    machine.sampler.flush()
    said = sorted({at for batch in machine.batches() for at in batch})
    # a step is believed after ten seconds; till then time goes on as before
    assert said == [*range(1, 16), *range(36, 56), *range(3616, 3636)]
    gaps = [r["reason"] for subject, r in machine.records() if subject == "gap"]
    assert gaps == ["clock_set_forward", "clock_set_back"]


def test_after_more_than_a_week_a_batch_begins_anew_and_a_gap_says_so(machine: Machine) -> None:
    machine.run(5).kill()
    machine.clock.sleep(MOST_BRIDGED_US / S + 10)
    machine.start()
    machine.run(3)
    machine.sampler.flush()
    assert [len(batch) for batch in machine.batches()] == [5, 3]
    [gap] = [r for subject, r in machine.records() if subject == "gap"]
    assert gap["reason"] == "outage" and gap["to_us"] - gap["from_us"] > MOST_BRIDGED_US


def test_a_log_that_takes_nothing_for_a_while_costs_resolution_and_no_energy(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **more: object) -> int:
        raise WalUnavailable("the disk is full")

    machine.run(5)
    append: Callable[..., None] = machine.wal.append
    with monkeypatch.context() as patched:
        patched.setattr(machine.wal, "append", refuse)
        patched.setattr(machine.wal, "note_tick", refuse)
        machine.run(40)
    assert machine.wal.append == append
    machine.run(3)
    machine.sampler.flush()
    assert [t for batch in machine.batches() for t in batch][-1] == 48.0
    assert machine.energy_uj() == 47 * 300 * S


def test_ticks_of_before_a_restart_are_said_of_the_devices_that_they_are_of(machine: Machine) -> None:
    machine.devices = (CARD, replace(CARD, device="GPU-b", driver="580"))
    machine.run(5).kill()
    machine.devices = (replace(CARD, driver="595"),)
    machine.start()
    machine.run(5)
    machine.sampler.flush()
    records = [r for subject, r in machine.records() if subject == "sample_batch"]
    told = [[(d["device"], d["driver"]) for d in r["devices"]] for r in records]
    assert told == [[("GPU-a", "590"), ("GPU-b", "580")], [("GPU-a", "595")]]
    assert machine.energy_uj() == (4 + 4 + 5) * 300 * S


def test_a_probe_that_is_silent_after_a_restart_loses_none_of_its_cards(machine: Machine) -> None:
    machine.run(5).kill()
    machine.start()
    machine.answers, machine.is_known = False, False
    machine.run(15)
    machine.answers = machine.is_known = True
    machine.run(5)
    machine.sampler.flush()
    assert set(map(tuple, machine.devices_of_batches())) == {("GPU-a",)}
    assert machine.batches()[1] == [float(t) for t in range(5, 22)]
    assert machine.energy_uj() == 24 * 300 * S


def test_a_changed_inventory_is_in_the_log_before_the_batch_is_closed(machine: Machine) -> None:
    machine.run(2).kill()
    machine.start()
    assert [r["devices"] for subject, r in machine.records() if subject == "inventory"] == ["GPU-a"]


def test_batches_are_closed_where_counters_are_read_so_that_they_bridge(machine: Machine) -> None:
    machine.run(10)
    machine.answers = False
    machine.run(90)
    machine.answers = True
    machine.run(3)
    machine.sampler.flush()
    assert machine.batches()[0][-1] == 101.0, "nothing was readable at 11 s"
    assert machine.energy_uj() == 102 * 300 * S


def test_a_batch_waits_five_minutes_at_most_for_a_counter(machine: Machine) -> None:
    machine.run(10)
    machine.answers = False
    machine.run(400)
    assert machine.batches() == [[float(t) for t in range(1, 302)], *machine.batches()[1:]]


def test_what_is_read_after_the_machine_slept_is_no_reading_of_before(machine: Machine) -> None:
    machine.run(3)
    machine.sleeps_s = 3600
    machine.run(1)
    machine.run(3)
    machine.sampler.flush()
    batch = next(r for subject, r in machine.records() if subject == "sample_batch")
    assert [n for n in batch["devices"][0]["nulls"] if n["column"] == "energy_delta_uj"] == [
        {"column": "energy_delta_uj", "reason": "timed_out", "ticks": 1}
    ]
    assert machine.batches() == [[1.0, 2.0, 3.0, 4.0, 3605.0], [3605.0, 3606.0, 3607.0]]
    assert machine.energy_uj() == 3606 * 300 * S


def test_a_break_while_the_log_takes_nothing_loses_no_tick(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **more: object) -> int:
        raise WalUnavailable("the disk is full")

    machine.run(5)
    with monkeypatch.context() as patched:
        patched.setattr(machine.wal, "append", refuse)
        patched.setattr(machine.wal, "note_tick", refuse)
        machine.clock.step(-86_400 * S)
        machine.run(20)
    machine.run(3)
    machine.sampler.flush()
    hour = [t + 86_400 if t < 0 else t for batch in machine.batches() for t in batch]
    assert sorted(set(hour)) == [float(t) for t in range(1, 29)]
    assert [r["reason"] for subject, r in machine.records() if subject == "gap"] == ["clock_set_back"]


def test_ticks_of_a_damaged_log_are_given_up_for_they_may_be_in_a_batch_that_is_delivered(machine: Machine) -> None:
    machine.run(15).kill()
    machine.path.write_bytes(b"no database" * 1000)
    machine.start()
    machine.run(12)
    machine.sampler.flush()
    assert machine.batches()[0][0] >= 16.0
    assert {r["reason"] for subject, r in machine.records() if subject == "gap"} != set()

"""Ticks to one sample record: validity, deltas, epochs, jobs, reasons; read back as the meter reads it."""

from typing import Any

import pytest
from wattledger_agent.batch_record import BatchHead, batch_record
from wattledger_agent.probes.device import Device, MigInstance
from wattledger_agent.probes.reading import Reading, unknown
from wattledger_agent.tick import BadTick, DeviceTick, Tick, decode_tick, encode_tick
from wattledger_schemas import Codec
from wattledger_streams.mapping_batch import from_wire_batch

S = 1_000_000
T0 = 1_767_225_600 * S
HEAD = BatchHead("n1", "fra1", "a1", "run-1", "0.1.0", S)
CARD = Device("GPU-a", "nvidia", "H100", "590", index=3, minor=1, pci="0000:1b:00.0", power_field="nvml.instant")
MIG = Device("GPU-m", "nvidia", "H100", "590", sharing="mig", is_mig=True,
             instances=(MigInstance("1", "MIG-1", "3g.40gb", 3), MigInstance("2", "MIG-2", "4g.40gb", 4)))  # fmt: skip
NO = unknown("not_supported")


def row(device: str, power: Reading, energy: Reading, epoch: str = "e1", **more: object) -> DeviceTick:
    readings = (power, energy, Reading(500_000), Reading(1 << 33), Reading(41), Reading(0))
    return DeviceTick(device, epoch, readings, **more)  # type: ignore[arg-type]


def made(*rows: tuple[DeviceTick, ...], devices: tuple[Device, ...] = (CARD, MIG)) -> dict[str, Any]:
    ticks = [Tick(T0 + i * S, found, (("package-0", "b", Reading(10 + i)),)) for i, found in enumerate(rows)]
    record = batch_record(HEAD, 4, ticks, {d.device: d for d in devices}, {"GPU-a": 70_000})
    codec = Codec()
    decoded = codec.decode(codec.encode("sample_batch", record))
    assert decoded.record == record
    return record


def test_readings_become_columns_and_a_missing_one_is_invalid_with_its_reason() -> None:
    record = made(
        (row("GPU-a", Reading(300_000), Reading(1000)),),
        (row("GPU-a", NO, unknown("timed_out")),),
        (row("GPU-a", Reading(0), Reading(1700)),),
    )
    batch = from_wire_batch(record)
    assert batch.power_mw[0].tolist() == [300_000, 0, 0] and batch.power_valid[0].tolist() == [True, False, True]
    assert batch.counter_uj[0].tolist() == [0, 0, 700] and batch.counter_valid[0].tolist() == [True, False, True]
    [device] = record["devices"]
    assert device["counter_base_uj"] == 1000 and device["idle_floor_mw"] == 70_000
    assert device["nulls"] == [
        {"column": "power_mw", "reason": "not_supported", "ticks": 1},
        {"column": "energy_delta_uj", "reason": "timed_out", "ticks": 1},
    ]
    [zone] = record["host_zones"]
    assert zone["counter_base_uj"] == 10


def test_the_first_tick_of_the_newest_epoch_is_named() -> None:
    one, other = Reading(5), Reading(3)
    record = made(
        (row("GPU-a", NO, one, "e1"),), (row("GPU-a", NO, one, "e1"),), (row("GPU-a", NO, other, "e2"),)
    )  # fmt: skip
    batch = from_wire_batch(record)
    assert (batch.devices[0].counter_epoch, batch.devices[0].epoch_from_tick) == ("e2", 2)
    # the fall is left in: what it means is the meter's to say
    assert batch.counter_uj[0].tolist() == [0, 0, -2]


def test_a_device_that_is_away_at_some_ticks_is_unknown_there() -> None:
    batch = from_wire_batch(made((row("GPU-a", Reading(1), Reading(1)),), (), (row("GPU-a", Reading(2), Reading(9)),)))
    assert batch.power_valid[0].tolist() == [True, False, True]
    assert batch.counter_uj[0].tolist()[-1] == 8


def test_share_by_job_is_zero_where_the_driver_told_of_others_and_unknown_where_it_told_nothing() -> None:
    def with_jobs(jobs: object) -> tuple[DeviceTick, ...]:
        return (row("GPU-a", Reading(1), Reading(1), jobs=jobs),)

    batch = from_wire_batch(
        made(
            with_jobs(((("c", "j1"), Reading(400_000)), (("", ""), Reading(100_000)))),
            with_jobs(((("c", "j2"), Reading(900_000)),)),
            with_jobs(None),
            with_jobs(((("c", "j1"), unknown("stale")),)),
        )
    )
    found = {(p.cluster, p.job): (p.sm_ppm.tolist(), p.valid.tolist()) for p in batch.devices[0].processes}
    assert found == {
        ("c", "j1"): ([400_000, 0, 0, 0], [True, True, False, False]),
        ("", ""): ([100_000, 0, 0, 0], [True, True, False, True]),
        ("c", "j2"): ([0, 900_000, 0, 0], [True, True, False, True]),
    }


def test_activity_is_kept_for_instances_that_exist() -> None:
    def active(*pairs: tuple[str, int]) -> tuple[DeviceTick, ...]:
        instances = tuple((name, Reading(value)) for name, value in pairs)
        return (row("GPU-m", Reading(1), Reading(1), instances=instances),)

    batch = from_wire_batch(made(active(("1", 10), ("9", 5)), active(("1", 20), ("2", 30))))
    found = {i.gpu_instance: (i.slices, i.activity_ppm.tolist(), i.valid.tolist()) for i in batch.devices[0].instances}
    assert found == {"1": (3, [10, 20], [True, True]), "2": (4, [0, 30], [False, True])}


def test_a_lost_device_says_since_when() -> None:
    record = made((row("GPU-a", Reading(1), Reading(1)),), (row("GPU-a", unknown("gpu_lost"), NO, lost=True),))
    [device] = record["devices"]
    assert device["lost_from_tick"] == 1


def test_a_tick_comes_back_from_the_log_as_it_was() -> None:
    tick = Tick(
        T0,
        (row("GPU-a", Reading(1), NO, jobs=((("c", "j"), Reading(7)),), instances=(("1", unknown("stale")),)),
         row("GPU-m", Reading(1), NO, jobs=None, lost=True)),
        (("package-0", "boot", Reading(12)),),
    )  # fmt: skip
    assert decode_tick(encode_tick(tick)) == tick


@pytest.mark.parametrize("data", [b"", b"[9,1,[],[]]", b"[1,1,[[]],[]]", b"[1,1,[],[[1]]]", b"{}"])
def test_a_tick_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(BadTick):
        decode_tick(data)

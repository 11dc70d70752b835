"""Idle floors: measured without processes only, remembered, and not taken from a card that something holds awake."""

from wattledger_agent.idle_floor import BELIEVED_AFTER, IdleFloors
from wattledger_agent.probes.reading import DeviceReading, ProcessReading, Reading, unknown

S = 1_000_000
BUSY = (ProcessReading(1, Reading(500_000)),)


def idle(power_mw: int | None) -> DeviceReading:
    power = unknown("not_supported") if power_mw is None else Reading(power_mw)
    return DeviceReading("A", power, busy_ppm=Reading(0), processes=())


def seen(floors: IdleFloors, readings: list[DeviceReading], from_s: int = 0) -> int:
    for place, reading in enumerate(readings):
        floors.see((from_s + place) * S, [reading])
    return from_s + len(readings)


def test_no_floor_is_known_of_a_card_that_was_never_seen_idle() -> None:
    floors = IdleFloors()
    loaded = DeviceReading("A", Reading(300_000), busy_ppm=Reading(1_000_000), processes=BUSY)
    held = DeviceReading("A", Reading(146_660), busy_ppm=Reading(0), processes=BUSY)
    untold = DeviceReading("A", Reading(70_000), busy_ppm=Reading(0), processes=None)
    for reading in (loaded, held, untold, idle(None)):
        seen(floors, [reading] * 200)
    assert floors.floors_mw == {}


def test_the_floor_is_the_median_after_the_card_has_settled() -> None:
    floors = IdleFloors()
    seen(floors, [idle(200_000)] * 10 + [idle(70_000), idle(71_000), idle(72_000)] * 21)
    assert floors.floors_mw == {"A": 71_000}


def test_a_process_in_between_begins_the_stretch_anew() -> None:
    floors = IdleFloors()
    held = DeviceReading("A", Reading(90_000), busy_ppm=Reading(0), processes=BUSY)
    seen(floors, [idle(70_000)] * 60 + [held] + [idle(70_000)] * 60)
    assert floors.floors_mw == {}


def test_a_floor_far_above_the_remembered_one_is_told_and_believed_only_when_it_lasts() -> None:
    floors = IdleFloors.load(IdleFloors({"A": 50_000}).dump())
    at_s = seen(floors, [idle(100_000)] * 75)
    assert floors.floors_mw == {"A": 50_000} and floors.raised == {"A": 100_000}
    at_s = seen(floors, [idle(51_000)] * 140, at_s)
    assert floors.raised == {} and floors.floors_mw == {"A": 51_000}
    seen(floors, [idle(100_000)] * 62 * (BELIEVED_AFTER + 2), at_s)
    assert floors.raised == {} and floors.floors_mw == {"A": 100_000}


def test_what_is_not_readable_in_memory_is_forgotten() -> None:
    assert [IdleFloors.load(data).floors_mw for data in (None, b"{", b"[]", b'{"A":"x"}')] == [{}] * 4

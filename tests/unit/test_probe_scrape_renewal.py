"""Scrape after scrape: what was not renewed is unknown, and a counter's resets are told from bad reads."""

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.counter_track import SLACK_US, CounterTrack
from wattledger_agent.probes.reading import IMPLAUSIBLE, SENTINEL, STALE, UNREAD, Reading, unknown
from wattledger_agent.probes.scrape import ScrapeProbe

from tests.fake_scrape import BLANK, GPU_A, T0_US, URL, Pages, page, sample

POWER, ENERGY, UTIL = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_UTIL"
TEMP = "DCGM_FI_DEV_GPU_TEMP"
T0_MS = T0_US // 1000
S = 1_000_000


class Scraped:
    """A probe on pages, read once a second."""

    def __init__(self, *pages: str) -> None:
        self.clock = ManualClock(T0_US)
        self.probe = ScrapeProbe(URL, Pages(pages[0], *pages), boot="b", clock=self.clock)
        self.probe.open()
        self.probe.inventory()

    def read(self) -> tuple[Reading, Reading, Reading]:
        """Power, energy and busy."""
        (device,) = self.probe.read().devices
        self.clock.sleep(1)
        return device.power_mw, device.energy_uj, device.busy_ppm


def card(watts: object, millijoules: object, util: object = 45, temp: object = 40, at: str = "") -> str:
    values = ((POWER, watts), (ENERGY, millijoules), (UTIL, util), (TEMP, temp))
    return page(*(f"{sample(name, value)}{at}" for name, value in values))


def test_a_page_that_comes_again_while_power_flows_is_stale_until_it_is_renewed() -> None:
    """dcgm-exporter reads every 30 s where nobody changed it, and hands the same page out in between."""
    first, second = card(300, 1_000_000), card(310, 10_000_000)
    scraped = Scraped(first, first, first, second)
    assert scraped.read() == (Reading(300_000), Reading(1_000_000_000), Reading(450_000))
    assert [scraped.read(), scraped.read()] == [(unknown(STALE),) * 3] * 2
    assert scraped.read() == (Reading(310_000), Reading(10_000_000_000), Reading(450_000))


def test_a_counter_that_stands_while_the_rest_moves_is_stale_alone() -> None:
    scraped = Scraped(card(300, 1000), card(301, 1000), card(302, 303_000))
    assert scraped.read()[1] == Reading(1_000_000)
    assert scraped.read() == (Reading(301_000), unknown(STALE), Reading(450_000))
    assert scraped.read()[1] == Reading(303_000_000)


def test_a_counter_that_stands_where_no_power_flows_says_nothing_against_it() -> None:
    scraped = Scraped(card(BLANK, 1000), card(BLANK, 1000))
    assert [scraped.read(), scraped.read()] == [(unknown(SENTINEL), Reading(1_000_000), Reading(450_000))] * 2


def test_readings_without_a_counter_may_repeat() -> None:
    steady = page(sample(POWER, 300), sample(UTIL, 45))
    scraped = Scraped(steady, steady)
    assert [scraped.read(), scraped.read()] == [(Reading(300_000), UNREAD, Reading(450_000))] * 2


def test_the_exporters_own_times_say_what_is_new() -> None:
    pages = [card(300, 1000, at=f" {T0_MS + offset}") for offset in (0, 0, 1000, 500, 3000, 5001, 6000)]
    scraped = Scraped(*pages)
    fresh, stale = (Reading(300_000), Reading(1_000_000), Reading(450_000)), (unknown(STALE),) * 3
    # the same time again; a new one, with the same values; an older one; newer ones, one 1 ms ahead of the clock
    assert [scraped.read() for _ in range(7)] == [fresh, stale, fresh, stale, fresh, fresh, fresh]


def test_a_time_ahead_of_the_clock_is_implausible_and_one_long_past_is_stale() -> None:
    ahead, behind = card(300, 1000, at=f" {T0_MS + 2001}"), card(300, 1000, at=f" {T0_MS - 121_000}")
    assert Scraped(ahead).read() == (unknown(IMPLAUSIBLE),) * 3
    assert Scraped(behind).read() == (unknown(STALE),) * 3


def test_instances_of_a_page_that_was_not_renewed_are_stale_too() -> None:
    part = {"GPU_I_ID": "1", "GPU_I_PROFILE": "3g.40gb"}
    again = page(
        sample(POWER, 300, **part), sample(ENERGY, 5000, **part), sample("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "0.5", **part)
    )
    probe = ScrapeProbe(URL, Pages(again))
    probe.open()
    assert [one.activity_ppm for one in probe.read().devices[0].instances] == [Reading(500_000)]
    assert [one.activity_ppm for one in probe.read().devices[0].instances] == [unknown(STALE)]


def test_an_exporter_slower_than_its_scrapes_is_said_with_what_to_do() -> None:
    scraped = Scraped(card(300, 1000))
    for _ in range(20):
        scraped.read()
    assert [note for note in scraped.probe.inventory().notes if "brought nothing new" in note] == [
        f"{GPU_A}: 19 of 20 scrapes brought nothing new: let the exporter collect as often as it is scraped "
        "(dcgm-exporter: DCGM_EXPORTER_INTERVAL=1000)"
    ]


def test_b01_a_reset_counter_begins_a_new_epoch_and_never_runs_backwards() -> None:
    scraped = Scraped(card(300, 123_456_789), card(301, 42), card(302, 302_042), card(303, 605_042))
    epoch = scraped.probe.inventory().devices[0].counter_epoch
    assert scraped.read()[1] == Reading(123_456_789_000)
    assert scraped.read()[1] == unknown(IMPLAUSIBLE)
    tick = scraped.probe.read()
    assert (tick.devices[0].energy_uj, tick.inventory_changed) == (Reading(302_042_000), True)
    assert (epoch, scraped.probe.inventory().devices[0].counter_epoch) == ("b/550.90.07/0", "b/550.90.07/1")
    assert scraped.read()[1] == Reading(605_042_000)


def test_b32_one_bad_read_is_left_out_and_the_epoch_stays() -> None:
    """xpumanager#130: 22 MJ, then 200 J, then 22 MJ."""
    scraped = Scraped(card(300, 22_000_000_000), card(301, 200_000), card(302, 22_000_602_000))
    assert [scraped.read()[1] for _ in range(3)] == [
        Reading(22_000_000_000_000), unknown(IMPLAUSIBLE), Reading(22_000_602_000_000),
    ]  # fmt: skip
    assert scraped.probe.inventory().devices[0].counter_epoch == "b/550.90.07/0"


def test_a_counter_of_zero_on_a_busy_card_counts_nothing() -> None:
    assert Scraped(card(300, 0)).read()[1] == unknown(IMPLAUSIBLE)
    assert Scraped(card(30, 0, util=0)).read()[1] == Reading(0)


MOST_MW = 700_000
STEPS = [
    # name, (µJ, at µs) one after another, what is let through, runs in the end
    ("rises", [(10, 0), (20, S), (20, 2 * S), (30, 3 * S)], [10, 20, 20, 30], 0),
    ("falls and rises from there", [(1000, 0), (5, S), (6, 2 * S)], [1000, None, 6], 1),
    ("falls once", [(1000, 0), (5, S), (1001, 2 * S)], [1000, None, 1001], 0),
    ("falls and repeats itself", [(1000, 0), (5, S), (5, 2 * S), (5, 3 * S)], [1000, None, None, None], 0),
    ("jumps once", [(0, 0), (10**15, S), (700, 2 * S)], [0, None, 700], 0),
    ("jumps and goes on", [(0, 0), (10**15, S), (10**15 + 1, 2 * S)], [0, None, 10**15 + 1], 1),
    ("two bad reads that do not fit", [(1000, 0), (5, S), (3, 2 * S), (1001, 3 * S)], [1000, None, None, 1001], 0),
    ("as much as can be", [(0, 0), (700 * (S + SLACK_US), S)], [0, 700 * (S + SLACK_US)], 0),
    ("a little more than can be", [(0, 0), (700 * (S + SLACK_US) + 1, S)], [0, None], 0),
    ("a long gap", [(0, 0), (700 * 3600 * S, 3600 * S)], [0, 700 * 3600 * S], 0),
    ("stands, then all of it at once", [(5, 0), (5, 3000 * S), (5 + 700 * 3000 * S, 3001 * S)],
     [5, 5, 5 + 700 * 3000 * S], 0),
]  # fmt: skip


@pytest.mark.parametrize(("steps", "passed", "runs"), [case[1:] for case in STEPS], ids=[case[0] for case in STEPS])
def test_a_counter_goes_on_or_begins_anew(steps: list[tuple[int, int]], passed: list[int | None], runs: int) -> None:
    track = CounterTrack()
    assert [track.take(value, at_us, MOST_MW).value for value, at_us in steps] == passed
    assert track.run == runs

"""Clock-change days priced hour by hour in Europe/Berlin: night 22:00-06:00 at 0.12, day at 0.30, 1 kWh each hour.

2026-10-25 has 25 hours, 02:00 twice: 9 at night (00 01 02 02 03 04 05 22 23), 16 by day: 1.08 + 4.80 = 5.88.
2026-03-29 has 23 hours, no 02:00: 7 at night (00 01 03 04 05 22 23), 16 by day: 0.84 + 4.80 = 5.64.
"""

from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_core.pricing import Pricer
from wattledger_streams.tariff_file import load_price_sheet

from tests.pricing_builders import KWH_UJ, QUARTER, at, costs, energy_line, pricer, tick

NIGHT, DAY = Decimal("0.12"), Decimal("0.30")
SHEET = """\
currency: EUR
sites:
  - site: fra1
    timezone: {zone}
    pue: 1
    from: {first}
    to: {last}
    default_per_kwh: 0.30
    periods:
      - {{from: 22:00, to: 06:00, per_kwh: 0.12}}
"""


def pricer_of(folder: Path, zone: str, first: str, last: str) -> Pricer:
    path = folder / "prices.yaml"
    path.write_text(SHEET.format(zone=zone, first=first, last=last))
    return pricer(*load_price_sheet(path), tick(10_000_000_000))


def hourly_costs(found: Pricer, start_us: int, hours: int) -> list[Decimal]:
    """What each hour of 1 kWh costs, from four lines of 0.25 kWh."""
    hourly = []
    for hour in range(hours):
        quarters = [energy_line((start_us // QUARTER) + 4 * hour + step, energy_uj=KWH_UJ // 4) for step in range(4)]
        hourly.append(sum((cost or Decimal(0) for cost in costs(found.price(quarters))), Decimal(0)))
    return hourly


@pytest.mark.parametrize(
    ("first", "last", "midnight", "nights_first", "total"),
    [
        ("2026-10-25", "2026-10-26", "2026-10-25T00:00+02:00", 7, "5.88"),
        ("2026-03-29", "2026-03-30", "2026-03-29T00:00+01:00", 5, "5.64"),
        ("2026-06-10", "2026-06-11", "2026-06-10T00:00+02:00", 6, "5.76"),
    ],
)
def test_each_hour_of_the_local_day_has_the_rate_of_its_wall_clock(
    tmp_path: Path, first: str, last: str, midnight: str, nights_first: int, total: str
) -> None:
    hourly = hourly_costs(pricer_of(tmp_path, "Europe/Berlin", first, last), at(midnight), nights_first + 18)
    assert hourly == [NIGHT] * nights_first + [DAY] * 16 + [NIGHT] * 2
    assert sum(hourly) == Decimal(total)


def test_nothing_is_priced_before_the_first_midnight_or_from_the_last_on(tmp_path: Path) -> None:
    found = pricer_of(tmp_path, "Europe/Berlin", "2026-10-25", "2026-10-26")
    first, last = at("2026-10-25T00:00+02:00") // QUARTER, at("2026-10-26T00:00+01:00") // QUARTER
    rows = found.price([energy_line(quarter) for quarter in (first - 1, first, last - 1, last)])
    assert [row.status for row in rows] == ["unpriced", "priced", "priced", "unpriced"]


def test_a_zone_that_shifts_by_half_an_hour_has_a_day_of_24_and_a_half(tmp_path: Path) -> None:
    # Lord Howe, 2026-04-05: at 02:00 (+11:00) clocks go back to 01:30 (+10:30). Night: 6.5 h + 2 h, day: 16 h.
    found = pricer_of(tmp_path, "Australia/Lord_Howe", "2026-04-05", "2026-04-06")
    start_us = at("2026-04-05T00:00+11:00")
    quarters = [energy_line(start_us // QUARTER + step, energy_uj=KWH_UJ) for step in range(98)]
    assert costs(found.price(quarters)) == [NIGHT] * 26 + [DAY] * 64 + [NIGHT] * 8
    assert at("2026-04-06T00:00+10:30") - start_us == 98 * QUARTER

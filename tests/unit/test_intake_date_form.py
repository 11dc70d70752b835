"""A file's date order and zone are proven by all its dates or refused; moments are exact µs UTC."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_audit.intake.date_form import DateForm, DateProof, UnclearDate
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact
from wattledger_streams.tariff_file_zone import load_zone

BERLIN, UTC_ZONE, HAVANA, SAO_PAULO = (
    load_zone(name) for name in ("Europe/Berlin", "UTC", "America/Havana", "America/Sao_Paulo")
)


def form_of(texts: Sequence[str], order: str | None = None, zone: ZoneInfo | None = UTC_ZONE) -> DateForm:
    proof = DateProof()
    for line, text in enumerate(texts, start=2):
        proof.add(line, "start", text)
    return proof.decide("in.csv", ReadOptions(timezone=zone, date_order=order))


def utc_us(iso: str) -> int:
    return (datetime.fromisoformat(iso).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-09-01", "2026-09-01"), ("2026-09-01T10:00:00Z", "2026-09-01T10:00"),
        ("2023-11-13T10:00Z", "2023-11-13T10:00"),
        ("2018-06-18 01:00:00", "2018-06-18T01:00"), ("2026-09-01T10:00:00.000Z", "2026-09-01T10:00"),
        ("2026-09-01T10:00:00+00:00", "2026-09-01T10:00"), ("2026-09-01T10:00:00+0100", "2026-09-01T09:00"),
        ("2026-09-01T10:00:00-05:30", "2026-09-01T15:30"), ("2026-09-01 10:00:00 UTC", "2026-09-01T10:00"),
        ("2026-09-01 10:00:00 +0000 UTC", "2026-09-01T10:00"), ("2026-09-01T10:00:00+01", "2026-09-01T09:00"),
        ("2026-09-01T10:00:00.123456789Z", "2026-09-01T10:00:00.123456"),
        ("2026-09-01T10:00:00,5Z", "2026-09-01T10:00:00.5"),
        ("2026-09-01t10:00z", "2026-09-01T10:00"), ("2026-09-01T24:00:00", "2026-09-02"),
        ("2026/09/01 10:00", "2026-09-01T10:00"),
        ("2026.09.01", "2026-09-01"), ("20260901", "2026-09-01"), ("20260901T103000Z", "2026-09-01T10:30"),
        ("2026-9-1 8:05", "2026-09-01T08:05"), ("01.09.2026", "2026-09-01"), ("1.9.2026 13:45", "2026-09-01T13:45"),
        ("01.09.26", "2026-09-01"), ("1. September 2026", "2026-09-01"), ("1. März 2026", "2026-03-01"),
        ("01-Okt-2026", "2026-10-01"),
        ("01 SEP 26", "2026-09-01"), ("1 Sept 2026", "2026-09-01"), ("1 September 2026", "2026-09-01"),
        ("Sep 1, 2026", "2026-09-01"),
        ("September 1, 2026", "2026-09-01"), ("Sept. 1st, 2026 10:00 PM", "2026-09-01T22:00"),
        ("1-Sep-2026", "2026-09-01"),
        ("2026-Sep-01", "2026-09-01"), ("Tue, 01 Sep 2026 10:00:00 GMT", "2026-09-01T10:00"),
        ("Tuesday 1 May 2026", "2026-05-01"),
        ("13/09/2026", "2026-09-13"), ("9/13/2026", "2026-09-13"), ("9/13/2026 1:05 PM", "2026-09-13T13:05"),
        ("9/13/2026 12:05:10 AM", "2026-09-13T00:05:10"), ("13-09-2026 12:00 pm", "2026-09-13T12:00"),
        ("05/05/2026", "2026-05-05"),
        ("26/09/01", "2026-09-01"), ("13/09/09", "2013-09-09"), ("09/13/09", None),
        ("45231", "2023-11-01"), ("45231.5", "2023-11-01T12:00"),
        ("45231,041666667", "2023-11-01T01:00"), ("45231.99999999", "2023-11-02"),
        (Exact("45231.25"), "2023-11-01T06:00"),
        (Exact("2026-09-01T10:30:00"), "2026-09-01T10:30"), (Exact("2026-09-01"), "2026-09-01"),
        ("9999-12-31", "9999-12-31"), ("9999-12-31T23:59:59", "9999-12-31T23:59:59"),
    ],
)  # fmt: skip
def test_a_date_that_proves_itself_is_read_exactly(text: str, iso: str | None) -> None:
    form = form_of([text])
    if iso is None:
        with pytest.raises(UnclearDate, match=r"^not_a_date: "):
            form.parse(text)
    else:
        assert form.parse(text) == utc_us(iso)


@pytest.mark.parametrize(
    "text",
    [
        "", "hello", "2026-13-01", "2026-02-30", "31/02/2026", "32/13/2026", "12345", "99999", "2026-10", "Oct 2026",
        "2026",
        "2026-09-01T25:00", "2026-09-01T10:60", "2026-09-01T24:01", "9/13/2026 13:00 PM", "9/13/2026 0:10 AM",
        "0001-01-01T00:00:00Z",
        "1899-12-30", "2026-09-01T10:00:00 CET 5", "2026-09-01T10:00:00 Europe/Berlin", "2026-09-01T10:00+25:00",
        "2026-W36-1",
        "01 Foo 2026", "1/2/3", "1/2/026", "2026-09/01", "01/09-2026", "2026-09-01T10:00:00 2026-09-02", "Unknown",
        "1.5", "-45231",
        "2026-09-01T10:00:00ZZ", "12:00", "Exact", "٢٠٢٦-٠٩-٠١", "99991231T240000",
    ],
)  # fmt: skip
def test_what_is_no_date_is_refused_and_proves_nothing(text: str) -> None:
    form = form_of([text, "13/09/2026"])
    assert form.orders == {"/": "dmy"}
    with pytest.raises(UnclearDate, match=r"^not_a_date: "):
        form.parse(text)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["05/05/2026", "01/02/2026"],
         "in.csv, line 3: start '01/02/2026' can be more than one day: say --date-order dmy (day first) or "
         "--date-order mdy (month first)"),
        (["9-2-2023 10:00"],
         "in.csv, line 2: start '9-2-2023 10:00' can be more than one day: say --date-order dmy (day first) or "
         "--date-order mdy (month first)"),
        (["13/09/26"],
         "in.csv, line 2: start '13/09/26' can be more than one day: say --date-order dmy (day first) or "
         "--date-order ymd (year first)"),
        (["13/09/2026", "01/02/2026", "9/13/2026"],
         "in.csv, line 2: start '13/09/2026' and line 4: start '9/13/2026' do not go together in one order of day and "
         "month: make them alike, or say --date-order and the rows written otherwise are left out"),
    ],
)  # fmt: skip
def test_an_order_that_nothing_proves_is_refused_with_line_value_and_flag(texts: list[str], message: str) -> None:
    with pytest.raises(InputRefused) as refused:
        form_of(texts)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("texts", "text", "iso"),
    [
        (["9/1/2023", "9/30/2023"], "9/2/2023", "2023-09-02"),
        (["1/9/2023", "30/9/2023"], "9/2/2023", "2023-02-09"),
        (["01/09/26", "13/09/26"], "10/09/26", "2026-09-10"),
        (["01-02-2026", "31-01-2026"], "01-02-2026", "2026-02-01"),
        (["01.02.2026"], "01.02.2026", "2026-02-01"),
    ],
)
def test_one_date_decides_for_every_other_of_the_file(texts: list[str], text: str, iso: str) -> None:
    assert form_of([text, *texts]).parse(text) == utc_us(iso)


def test_a_said_order_settles_what_is_ambiguous_or_contradicts() -> None:
    assert form_of(["01/02/2026"], "dmy").parse("01/02/2026") == utc_us("2026-02-01")
    assert form_of(["01/02/2026"], "mdy").parse("01/02/2026") == utc_us("2026-01-02")
    assert form_of(["11/12/13"], "ymd").parse("11/12/13") == utc_us("2011-12-13")
    form = form_of(["13/01/2026", "01/13/2026"], "mdy")
    assert form.parse("01/13/2026") == utc_us("2026-01-13")
    with pytest.raises(
        UnclearDate, match=r"^not_a_date: '13/01/2026' is no date with the month first, as this file has it"
    ):
        form.parse("13/01/2026")


def test_a_said_order_never_turns_against_what_the_file_proves() -> None:
    assert form_of(["13/01/2026"], "mdy").parse("13/01/2026") == utc_us("2026-01-13")
    assert form_of(["01.02.2026"], "mdy").parse("01.02.2026") == utc_us("2026-02-01")
    with pytest.raises(
        InputRefused, match=r"line 2: start '13/01/2026' has the day first, --date-order mdy says otherwise"
    ):
        form_of(["13/01/2026", "01/02/2026"], "mdy")


def test_iso_and_named_dates_prove_no_order_for_others() -> None:
    with pytest.raises(InputRefused, match=r"--date-order dmy"):
        form_of(["2026-09-13", "13 Sep 2026", "13.09.2026", "01/02/2026"])


@pytest.mark.parametrize(
    "text", ["2026-09-01T10:00:00", "2026-09-01", "01.09.2026", "45231", Exact("2026-09-01T10:00:00")]
)
def test_a_time_without_a_zone_is_refused_with_the_flag(text: str) -> None:
    with pytest.raises(InputRefused, match=rf"^in.csv, line 3: start '{text}' has no offset.*say --timezone"):
        form_of(["2026-09-01T10:00:00Z", text], zone=None)
    with pytest.raises(UnclearDate, match=r"^no_timezone: .*say --timezone"):
        form_of(["2026-09-01T10:00:00Z"], zone=None).parse(text)


def test_a_file_whose_times_all_have_offsets_needs_no_zone() -> None:
    form = form_of(["2026-09-01T10:00:00Z", "2026-09-01 10:00:00 UTC", "2026-09-01T10:00+0200"], zone=None)
    assert form.parse("2026-09-01T10:00+0200") == utc_us("2026-09-01T08:00")


def test_the_said_zone_goes_before_the_default_one() -> None:
    proof = DateProof()
    proof.add(2, "start", "2026-07-01")
    assert proof.decide("in.csv", ReadOptions(), UTC_ZONE).parse("2026-07-01") == utc_us("2026-07-01")
    said = proof.decide("in.csv", ReadOptions(timezone=BERLIN), UTC_ZONE)
    assert said.parse("2026-07-01") == utc_us("2026-06-30T22:00")


@pytest.mark.parametrize(
    ("text", "moments"),
    [
        ("2026-10-25T01:59:59", ["2026-10-24T23:59:59"]),
        ("2026-10-25T02:30:00", ["2026-10-25T00:30", "2026-10-25T01:30"]),
        ("25.10.2026 02:00", ["2026-10-25T00:00", "2026-10-25T01:00"]),
        ("2026-10-25T03:00:00", ["2026-10-25T02:00"]),
        ("2026-03-29T01:59:59", ["2026-03-29T00:59:59"]),
        ("2026-03-29T02:00:00", []),
        ("2026-03-29 02:59:59", []),
        ("2026-03-29T03:00:00", ["2026-03-29T01:00"]),
        ("2026-10-25T02:30:00+02:00", ["2026-10-25T00:30"]),
        ("2026-10-24T24:00", ["2026-10-24T22:00"]),
    ],
)
def test_clock_changes_show_a_time_twice_or_never(text: str, moments: list[str]) -> None:
    form = form_of([text], zone=BERLIN)
    assert form.moments_us(text) == tuple(map(utc_us, moments))
    if len(moments) != 1:
        with pytest.raises(UnclearDate, match=r"^repeated_hour: " if moments else r"^skipped_hour: "):
            form.parse(text)
    else:
        assert form.parse(text) == utc_us(moments[0])


@pytest.mark.parametrize(
    ("day", "zone", "iso"),
    [
        (date(2026, 10, 1), BERLIN, "2026-09-30T22:00"),
        (date(2026, 11, 1), BERLIN, "2026-10-31T23:00"),
        (date(2026, 11, 1), HAVANA, "2026-11-01T04:00"),
        (date(2018, 11, 4), SAO_PAULO, "2018-11-04T03:00"),
    ],
)
def test_a_day_starts_at_its_first_moment(day: date, zone: ZoneInfo, iso: str) -> None:
    assert form_of([], zone=None).day_start_us(day, zone) == utc_us(iso)
    assert form_of([day.isoformat()], zone=zone).parse(day.isoformat()) == utc_us(iso)


def test_october_2026_in_berlin_has_745_hours() -> None:
    form = form_of(["01.10.2026"], zone=BERLIN)
    assert form.parse("01.11.2026") - form.parse("01.10.2026") == 745 * 3_600_000_000


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-09-30", date(2026, 9, 30)), ("30.09.2026", date(2026, 9, 30)), ("45231", date(2023, 11, 1)),
        ("45231.0", date(2023, 11, 1)), ("45231.5", None), ("2026-09-30T00:00", None),
        ("30 Sep 2026", date(2026, 9, 30)),
        (Exact("2026-09-30"), date(2026, 9, 30)), (Exact("2026-09-30T00:00:00"), None),
    ],
)  # fmt: skip
def test_a_date_without_a_time_is_told_from_one_with(text: str, day: date | None) -> None:
    assert form_of([text]).parse_day(text) == day


@given(st.datetimes(datetime(2000, 1, 1), datetime(2049, 12, 31)), st.integers(-14 * 60, 14 * 60))
def test_any_stamp_with_an_offset_comes_back_exactly(moment: datetime, minutes: int) -> None:
    offset = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    form = form_of([], zone=None)
    wanted = utc_us(moment.isoformat()) - minutes * 60_000_000
    for text in (f"{moment.isoformat()}{offset}", f"{moment.isoformat(' ')} {offset.replace(':', '')}"):
        assert form.parse(text) == wanted


@given(st.datetimes(datetime(2010, 1, 1), datetime(2049, 12, 31)))
def test_any_local_stamp_reads_alike_in_every_way_of_writing(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    days = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%d %b %Y", "%d-%B-%y", "%b %d, %Y")
    times = (" %H:%M:%S", " %I:%M:%S %p")
    ways = [
        f"{moment:%Y-%m-%dT%H:%M:%S}",
        f"{moment:%Y%m%dT%H%M%S}",
        *(moment.strftime(d + t) for d in days for t in times),
    ]
    form = form_of(ways, zone=BERLIN)
    assert len({form.moments_us(way) for way in ways}) == 1
    for found in form.moments_us(ways[0]):
        shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=found)
        assert shown.astimezone(BERLIN).replace(tzinfo=None, fold=0) == moment

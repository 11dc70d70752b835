"""A file's decimal mark is proven by all its numbers or refused; every number is exact."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wattledger_audit.intake.currency_sign import currency_in
from wattledger_audit.intake.number_form import NotANumber, NumberForm, NumberProof, is_exponent_id
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.row import Exact


def form_of(texts: Sequence[str], decimal: str | None = None) -> NumberForm:
    proof = NumberProof()
    for line, text in enumerate(texts, start=2):
        proof.add(line, "cost", text)
    return proof.decide("in.csv", ReadOptions(decimal=decimal))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.355,90€", "1355.90"), ("10,00 €", "10.00"), ("-110.7 €", "-110.7"), ("-2,40", "-2.40"),
        ("0.125", "0.125"),
        ("0,125", "0.125"), ("12", "12"), ("+12", "12"), ("-0.5", "-0.5"), (".5", "0.5"), ("5.", "5"),
        ("-,5", "-0.5"),
        ("1'000'000,00", "1000000.00"), ("1’000’000.00", "1000000.00"), ("1'000", "1000"), ("1'000.500", "1000.500"),
        ("1 234 567,5", "1234567.5"), ("1\u00a0234,5", "1234.5"), ("1\u202f234,5", "1234.5"),
        ("1\u2009234.5", "1234.5"),
        ("12,34,567.89", "1234567.89"), ("1,23,456", "123456"), ("12,34,567", "1234567"), ("1.234.567", "1234567"),
        ("1,234,567", "1234567"), ("1,234.5", "1234.5"), ("1234.567", "1234.567"), ("1234,567", "1234.567"),
        ("3.5e-7", "0.00000035"), ("3,5E-7", "0.00000035"), ("1e3", "1000"), ("1.234e3", "1234"),
        ("0.00012000000000000002", "0.00012000000000000002"), ("(1,234.50)", "-1234.50"), ("(5)", "-5"),
        ("$(5.00)", "-5.00"),
        ("(5,00 €)", "-5.00"), ("1,234.50-", "-1234.50"), ("5-", "-5"), ("5,00- €", "-5.00"), ("-$5", "-5"),
        ("$-5", "-5"),
        ("- $ 5", "-5"), ("$5-", "-5"), ("5-$", "-5"), ("USD 5", "5"), ("5 usd", "5"), ("US$1.5", "1.5"),
        ("USD -1.5", "-1.5"),
        ("CHF 1'000.-", "1000"), ("Fr. 5.--", "5"), ("5,–", "5"), ("R$ 1.000,00", "1000.00"), ("zł 5,00", "5.00"),
        ("−5", "-5"), ("−1.234,50", "-1234.50"), ("1.000.000,5", "1000000.5"), ("123456789012345678901234567890.01",
        "123456789012345678901234567890.01"),
        ("-123456789012345678901234567890,01", "-123456789012345678901234567890.01"),
        ("£1,234.00", "1234.00"), ("₹12,34,567.00", "1234567.00"), (" 5 ", "5"),
    ],
)  # fmt: skip
def test_a_number_that_proves_itself_is_read_exactly(text: str, value: str) -> None:
    parsed = form_of([text]).parse(text)
    assert parsed == Decimal(value)
    assert parsed.as_tuple().exponent == Decimal(value).as_tuple().exponent or "e" in text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "abc", "1.2.3", "1,23,4.5", "1,234,5", "1.23.456", "0.123.456", "1,2345.6", "1,234.567.890", "1'00",
        "1 2",
        "1 234 56", "1  234", "1 000'000", "--5", "-(5)", "(5", "5)", "((5))", "-5-", "(5)-", "15%", "5.00 CR",
        "ABC 5", "1 € 5",
        "１２", "٣", "1e", "1e999", "NaN", "Infinity", "1" * 80, "173,900;", "5 5", "#REF!", "0x10", "1/2",
        "2026-09-01", "$", "€",
        "1'234,56'7", "TRUE",
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused_and_proves_nothing(text: str) -> None:
    form = form_of([text, "1.5", "1,000"])
    assert form == NumberForm(".")
    with pytest.raises(NotANumber, match=r"^not_a_number: "):
        form.parse(text)


@pytest.mark.parametrize(
    "text", ["1.000", "25,000", "-3.000", "173,900", "(1.000)", "1.000 €", "999.999", "EUR 1,000", "1,000-"]
)
def test_a_mark_with_three_digits_is_ambiguous_and_refused_with_the_flag(text: str) -> None:
    with pytest.raises(InputRefused) as refused:
        form_of(["5", text, "7"])
    assert str(refused.value) == (
        f"in.csv, line 3: cost {text!r} can be one or a thousand: say --decimal . or --decimal ,"
    )


@pytest.mark.parametrize(
    ("proof", "values"),
    [
        ("1.355,90€", {"1.000": "1000", "25,000": "25", "-3.000": "-3000"}),
        ("1.5", {"1.000": "1", "25,000": "25000"}),
        ("1,5", {"1.000": "1000", "173,900": "173.9"}),
        ("1.234.567", {"1.000": "1000", "1,000": "1"}),
        ("1,234,567", {"1.000": "1", "1,000": "1000"}),
        ("0.125", {"1.000": "1"}),
        ("0,125", {"1.000": "1000"}),
        ("1234.567", {"1,000": "1000"}),
        ("1.5000", {"1,000": "1000"}),
        ("5,- €", {"1.000": "1000"}),
        ("1'000.500", {"1,000": "1000"}),
    ],
)
def test_one_proof_decides_for_every_ambiguous_number_of_the_file(proof: str, values: dict[str, str]) -> None:
    form = form_of([*values, proof])
    assert {text: form.parse(text) for text in values} == {text: Decimal(value) for text, value in values.items()}


def test_contradicting_proofs_are_refused_with_both_lines() -> None:
    with pytest.raises(
        InputRefused, match=r"^in\.csv, line 4: cost '1.5' has a decimal point and line 3: cost '1,5' a decimal comma"
    ):
        form_of(["12", "1,5", "1.5"])


def test_a_said_mark_settles_what_is_ambiguous_or_contradicts() -> None:
    assert form_of(["1.000"], ",").parse("1.000") == 1000
    assert form_of(["1.000"], ".").parse("1.000") == 1
    form = form_of(["1,5", "1.5"], ",")
    assert form.parse("1,5") == Decimal("1.5")
    with pytest.raises(NotANumber, match=r"^wrong_decimal_mark: '1.5'"):
        form.parse("1.5")


def test_a_said_mark_never_turns_against_what_the_file_proves() -> None:
    assert form_of(["1.5", "12"], ",").parse("1.5") == Decimal("1.5")
    with pytest.raises(InputRefused, match=r"line 2: cost '1.5' shows '.' as decimal mark, --decimal , says otherwise"):
        form_of(["1.5", "1.000"], ",")


def test_whole_numbers_prove_nothing_and_read_alike() -> None:
    assert form_of(["1000", "-5"]) == NumberForm(None)
    assert form_of(["1000", "1 000", "1'000"]).parse("1'000") == 1000
    for decimal in (None, ".", ","):
        assert NumberForm(decimal).parse("1000") == 1000


def test_a_number_that_was_not_shown_to_the_proof_is_refused_if_unclear() -> None:
    with pytest.raises(NotANumber, match=r"^unclear_decimal_mark: "):
        NumberForm(None).parse("1.000")
    assert NumberForm(None).parse("1,5") == Decimal("1.5")


@pytest.mark.parametrize("decimal", [None, ".", ","])
def test_typed_numbers_are_taken_as_they_are_and_prove_nothing(decimal: str | None) -> None:
    proof = NumberProof()
    for line, text in enumerate([Exact("1.5"), Exact("1.000"), "12"]):
        proof.add(line, "cost", text)
    assert proof.decide("in.xlsx", ReadOptions()) == NumberForm(None)
    assert NumberForm(decimal).parse(Exact("1.000")) == 1
    assert NumberForm(decimal).parse(Exact("-1234.5")) == Decimal("-1234.5")
    with pytest.raises(NotANumber, match=r"is a date or a word"):
        NumberForm(decimal).parse(Exact("2026-09-01"))


@given(
    st.decimals(min_value=-(10**9), max_value=10**9, places=2, allow_nan=False),
    st.sampled_from([(",", "."), (".", ","), ("'", "."), (" ", ","), ("\u202f", ","), ("", ".")]),
    st.sampled_from(["{}", "{} €", "$ {}", "EUR {}", "{}CHF"]),
)
def test_any_amount_in_any_form_comes_back_exactly(value: Decimal, marks: tuple[str, str], frame: str) -> None:
    group, decimal = marks
    text = frame.format(f"{value:,.2f}".replace(",", "g").replace(".", decimal).replace("g", group))
    assert form_of([text]).parse(text) == value


@pytest.mark.parametrize(
    ("text", "spoilt"),
    [
        ("1.67683E+15", True), ("1,67683E+15", True), ("2E+11", True), ("1.6e+09", True), ("1E5", False),
        ("12e4", False),
        ("012345678910", False), ("1676830000000000", False), ("job-1.6E+15", False), ("", False), ("5", False),
        (Exact("1676830000000000"), True), (Exact("123456789012345"), False), (Exact("1.5"), False),
        (Exact("2026-09-01"), False),
    ],
)  # fmt: skip
def test_ids_that_a_spreadsheet_spoilt_are_seen(text: str, spoilt: bool) -> None:
    assert is_exponent_id(text) is spoilt


@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("1.355,90€", "EUR"), ("CHF 1'000.-", "CHF"), ("5 usd", "USD"), ("$5", ""), ("US$5", "USD"),
        ("(5 €)", "EUR"), ("-£5", "GBP"),
        ("5- €", "EUR"), ("5", ""), ("", ""), ("ABC 5", ""), ("Fr. 5", "CHF"), ("₹ 5", "INR"), ("$5 CAD", "CAD"),
    ],
)  # fmt: skip
def test_the_currency_beside_an_amount_is_known(text: str, currency: str) -> None:
    assert currency_in(text) == currency

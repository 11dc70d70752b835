"""Names of months and weekdays as exports write them: English and German, in full or short."""

_MONTHS = (
    "jan january januar jän jänner jaenner",
    "feb february februar feber",
    "mar march mär märz maerz mrz",
    "apr april",
    "may mai",
    "jun june juni",
    "jul july juli",
    "aug august",
    "sep sept september",
    "oct october okt oktober",
    "nov november",
    "dec december dez dezember",
)
_NUMBERS = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names.split()}

WEEKDAY = (
    r"(?:mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|mo|di|mi|do|fr|sa|so|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)"
)
"""A pattern for a weekday's name, lower case; a weekday before a date says nothing that the date does not."""


def month_number(name: str) -> int | None:
    """1 to 12, or None for a word that is no month."""
    return _NUMBERS.get(name.lower().rstrip("."))

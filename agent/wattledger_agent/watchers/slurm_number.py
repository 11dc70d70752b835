"""SLURM's numbers in its texts: which of them stand for none. Owns no unit."""

MOST = (1 << 31) - 1
"""No count of SLURM's is above it; its marks for "not set" and "without end" (NO_VAL and INFINITE of slurm.h, all ones
and one less, of 32 and of 64 bits) are."""
NO_TIMES = frozenset({"4294967294", "4294967295", "18446744073709551614", "18446744073709551615"})
"""The same marks where a time is expected, which may lie beyond 2038."""
_MOST_DIGITS = 10


def whole_number(text: str) -> int | None:
    """The count that digits stand for; None for anything else, and for what is no count but one of SLURM's marks."""
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > _MOST_DIGITS:
        return None
    number = int(digits)
    return number if number <= MOST else None

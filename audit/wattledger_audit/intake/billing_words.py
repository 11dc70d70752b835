"""Words in billing texts: made comparable, and patterns of whole words."""

import re

_WORD_EDGE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def plain_words(*texts: str) -> str:
    """Texts in lower case, as written and with `DataTransfer` taken apart: `MwSt` must stay one word."""
    joined = " ".join(texts).replace("_", " ")
    return f"{joined} {_WORD_EDGE.sub(' ', joined)}".casefold()


def any_word(*patterns: str) -> re.Pattern[str]:
    """A pattern for any of these as a whole word."""
    return re.compile(rf"(?<![a-z])(?:{'|'.join(patterns)})(?![a-z])")

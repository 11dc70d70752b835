"""SLURM host lists: `n[01-04,07],gpu-a` as the single names it stands for. Zero padding is kept."""

import re
from itertools import product

NO_NODES = frozenset({"", "None assigned", "None", "(null)", "N/A", "Unknown", "(None)"})
MOST_HOSTS = 1_000_000
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


class BadHostlist(ValueError):
    """Not a host list, or one that was cut."""


def expand_hostlist(text: str) -> tuple[str, ...]:
    """The names in the order written, `n[1-3]x[0-1]` with the last range turning fastest.

    Raises BadHostlist for brackets that do not match (a cut list), ranges that run backwards and lists beyond
    MOST_HOSTS."""
    if text in NO_NODES:
        return ()
    if text.isalnum():
        return (text,)
    names: list[str] = []
    for item in _items(text):
        names.extend(_expand_item(item, MOST_HOSTS - len(names)))
    return tuple(names)


def _items(text: str) -> list[str]:
    """Split at the commas outside brackets."""
    items, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
        if depth not in (0, 1):
            break
    if depth != 0:
        raise BadHostlist(f"{text!r}: the brackets do not match; was the list cut?")
    return [item.strip() for item in [*items, text[start:]]]


def _expand_item(item: str, room: int) -> list[str]:
    if item == "" or any(letter.isspace() for letter in item):
        raise BadHostlist(f"{item!r} is no host name")
    choices: list[list[str]] = []
    size = 1
    for ranges, plain in _PART.findall(item):
        choices.append([plain] if plain else _expand_ranges(ranges, room))
        size *= len(choices[-1])
        if size > room:
            raise BadHostlist(f"{item!r} stands for more than {MOST_HOSTS} hosts")
    return ["".join(parts) for parts in product(*choices)]


def _expand_ranges(text: str, room: int) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise BadHostlist(f"[{text}]: {part!r} is no number or range")
        low, high, step = found.groups()
        last = int(high or low)
        if last < int(low) or (last - int(low)) // int(step or 1) >= room:
            raise BadHostlist(f"[{text}]: {part!r} runs backwards or stands for too many hosts")
        numbers.extend(str(n).zfill(len(low)) for n in range(int(low), last + 1, int(step or 1) or 1))
    return numbers

"""SLURM host lists (`n[01-04,07],gpu-a`): the names they stand for, and where in one this node is. Text only."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

NO_NODES = frozenset({"", "none assigned", "none", "(null)", "n/a", "unknown", "(none)"})
MOST_HOSTS = 65_536
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class BadHostlist(ValueError):
    """Not a host list, or one that was cut."""


def expand_hostlist(text: str) -> tuple[str, ...]:
    """The names in the order written, zero padding kept. Raises BadHostlist, also beyond MOST_HOSTS."""
    if text.strip().lower() in NO_NODES:
        return ()
    names: list[str] = []
    for item in _items(text):
        names.extend(_expand(item))
        if len(names) > MOST_HOSTS:
            raise BadHostlist(f"{text[:80]!r} stands for more than {MOST_HOSTS} hosts")
    return tuple(names)


@lru_cache(maxsize=1024)
def find_node(text: str, names: frozenset[str]) -> tuple[int | None, int]:
    """Place of the first host that is one of `names` (lower case), None without one, and how many hosts there are.

    Accounting keeps text in lower case and nodes are known by short and full names: case is ignored, and so is what
    follows the first dot. Raises BadHostlist."""
    hosts = [host.lower() for host in expand_hostlist(text)]
    short = {name.partition(".")[0] for name in names}
    for place, host in enumerate(hosts):
        if host in names or host.partition(".")[0] in short:
            return place, len(hosts)
    return None, len(hosts)


def _items(text: str) -> Iterator[str]:
    """Split at the commas outside brackets."""
    depth = start = 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            break
        if letter == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if depth != 0:
        raise BadHostlist(f"{text[:80]!r}: the brackets do not match; was the list cut?")
    yield text[start:].strip()


def _expand(item: str) -> list[str]:
    if item == "" or any(letter.isspace() for letter in item):
        raise BadHostlist(f"{item[:80]!r} is no host name")
    choices: list[list[str]] = []
    size = 1
    for ranges, plain in _PART.findall(item):
        choices.append([plain] if plain else _numbers(ranges))
        size *= len(choices[-1])
        if size > MOST_HOSTS:
            raise BadHostlist(f"{item[:80]!r} stands for more than {MOST_HOSTS} hosts")
    return ["".join(parts) for parts in product(*choices)]


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise BadHostlist(f"[{text[:80]}]: {part!r} is no number or range")
        low, high = found.group(1), found.group(2) or found.group(1)
        if int(high) < int(low) or int(high) - int(low) >= MOST_HOSTS:
            raise BadHostlist(f"[{text[:80]}]: {part!r} runs backwards or stands for too many hosts")
        numbers.extend(str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))
    return numbers

"""SLURM's resource texts as counts and positions: TRES (`gres/gpu:a100=2`) and GRES (`gpu:a100:2(IDX:0-1)`)."""

import re
from dataclasses import dataclass, field

from wattledger_agent.watchers.slurm_number import whole_number

NOTHING = frozenset({"", "n/a", "(null)", "none", "unknown", "0"})
SHARED = ("shard", "mps")
"""GRES that are a part of a GPU."""
MOST_POSITIONS = 1024
_UNITS = {"": 2, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_AMOUNT = re.compile(r"(\d{1,18})(?:\.(\d+))?([KMGTPE]?)(?:i?B)?[cn]?", re.IGNORECASE)
_ITEM = re.compile(r"(?:gres[:/])?(\w+)(?::([^:()=]+))?(?:[:=]([^:()=]+))?(?:\(([^()]*)\))?", re.IGNORECASE)
_PART = re.compile(r"(\d{1,9}|-)/(\d{1,9})")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_BYTES = 1 << 56


@dataclass(frozen=True, slots=True)
class Tres:
    """What a TRES text counts, of the whole job. `gpus` is the untyped total, None without such a key; `kinds` the
    breakdown by type, which is never added to it. `shared`: units of shard or mps. `is_cut`: its end is missing."""

    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    kinds: tuple[tuple[str, int], ...] = ()
    shared: tuple[tuple[str, int], ...] = ()
    is_cut: bool = False

    @property
    def gpu_count(self) -> int | None:
        """GPUs in all; None: the text does not say, which is not 0."""
        if self.gpus is not None or self.is_cut or not self.kinds:
            return self.gpus
        return sum(count for _, count in self.kinds)


@dataclass(frozen=True, slots=True)
class GresItem:
    """One entry of a GRES text. `positions`: bits of SLURM's GRES list (`IDX`), None where it has none. `parts`: of
    a shared GRES, one a GPU in list order: (used, capacity), or None for a GPU that is taken as a whole."""

    name: str
    kind: str
    count: int
    positions: tuple[int, ...] | None = None
    parts: tuple[tuple[int, int] | None, ...] | None = field(default=None)


def memory_bytes(text: str) -> int | None:
    """`62.50G`, `512M` and bare MB in bytes, rounded down; None for anything else, and for more than any job has."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        return None
    whole, fraction, unit = found.groups()
    size = 1 << 10 * _UNITS[unit.upper()]
    digits = fraction or ""
    amount = int(whole) * size + (int(digits) * size // 10 ** len(digits) if digits else 0)
    return amount if amount < _MOST_BYTES else None


def parse_tres(text: str) -> Tres:
    """Counts of a TRES text; a key without a number means that the text was cut. Never raises."""
    if text.strip().lower() in NOTHING:
        return Tres()
    cpus = memory = gpus = None
    kinds: list[tuple[str, int]] = []
    shared: list[tuple[str, int]] = []
    is_cut = False
    for item in text.split(","):
        name, _, value = item.strip().partition("=")
        key = name.lower()
        count = whole_number(value)
        if key == "cpu":
            cpus, is_cut = count, is_cut or count is None
        elif key == "mem":
            memory = memory_bytes(value)
        elif key == "gres/gpu":
            gpus, is_cut = count, is_cut or count is None
        elif key.startswith("gres/gpu:") and count is not None:
            kinds.append((name[len("gres/gpu:") :], count))
        elif key.startswith(("gres/shard", "gres/mps")) and count is not None:
            shared.append((key[len("gres/") :].partition(":")[0], count))
        else:
            is_cut = is_cut or value == ""
    return Tres(cpus, memory, gpus, tuple(kinds), tuple(shared), is_cut)


def gpus_here(tres: Tres, is_alone: bool, is_tracked: bool) -> int | None:
    """GPUs of a job on this node, None: unknown. A TRES text is of the whole job, so it tells of a node only when the
    job has no other (`is_alone`). No key for GPUs is none where the cluster's TRES list them (`is_tracked`)."""
    count = tres.gpu_count
    if tres.shared and not count:
        return None
    if count is None:
        return 0 if is_tracked and not tres.is_cut else None
    return count if (is_alone or count == 0) and count <= MOST_POSITIONS else None


def parse_gres(text: str) -> tuple[GresItem, ...] | None:
    """The entries for GPUs of a GRES text, `gpu:(null):2` and `gpu:titanrtx:0` too; () when it says none, None when
    it cannot be read. Other resources are left out."""
    if text.strip().lower() in NOTHING:
        return ()
    items = []
    for part in _split(text.replace(":(null)", "")):
        found = _ITEM.fullmatch(part)
        if found is None:
            return None
        name, kind, count, inside = found.groups()
        if count is None and kind is not None and kind.isdecimal():
            kind, count = "", kind
        name = name.lower()
        if name != "gpu" and name not in SHARED:
            continue
        number = 1 if count is None else whole_number(count)
        if number is None or (name == "gpu" and number > MOST_POSITIONS):
            return None
        item = _with_inside(GresItem(name, kind or "", number), inside or "")
        if item is None:
            return None
        items.append(item)
    return tuple(items)


def number_list(text: str) -> tuple[int, ...] | None:
    """`0-1,3` -> 0, 1, 3; None for anything else, and for more than MOST_POSITIONS."""
    numbers: list[int] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            return None
        low, high = int(found.group(1)), int(found.group(2) or found.group(1))
        if high < low or high - low + len(numbers) >= MOST_POSITIONS:
            return None
        numbers.extend(range(low, high + 1))
    return tuple(numbers)


def _with_inside(item: GresItem, inside: str) -> GresItem | None:
    """The entry with what stands in its brackets: `IDX:0-1`, `IDX:N/A`, `-/5,3/5`; sockets (`S:0`) say nothing."""
    if inside.upper().startswith("IDX:"):
        numbers = inside[4:].strip()
        positions = () if numbers.lower() in NOTHING - {"0"} else number_list(numbers)
        return None if positions is None else GresItem(item.name, item.kind, item.count, positions)
    parts = [_PART.fullmatch(part.strip()) for part in inside.split(",")]
    if not inside or None in parts:
        return item
    found = [part.groups() for part in parts if part is not None]
    shares = tuple(None if used == "-" else (int(used), int(capacity)) for used, capacity in found)
    return GresItem(item.name, item.kind, item.count, None, shares)


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    items, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            items.append(text[start:at].strip())
            start = at + 1
    return [item for item in [*items, text[start:].strip()] if item]

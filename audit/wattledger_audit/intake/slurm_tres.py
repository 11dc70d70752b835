"""SLURM's resource texts: TRES (`cpu=8,gres/gpu=2,mem=320.5G`) and old GRES (`gpu:a100:2(IDX:0-1)`). Counts only."""

import re
from decimal import Decimal
from typing import NamedTuple

_UNITS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)(?:i?B)?[cn]?", re.IGNORECASE)
_GRES = re.compile(r"(?:gres[:/])?(\w+)(?::([^,:=()]+|\(null\)))?(?:[:=]([^,:=()]+))?(?:\([^()]*\))?", re.IGNORECASE)
_NOTHING = frozenset({"", "N/A", "(null)", "None", "none", "NONE", "Unknown", "0"})
SHARED = ("shard", "mps")
"""GRES that are an unknown part of a GPU."""


class Tres(NamedTuple):
    """What a resource text counts. `gpus` is the untyped total (None: no such key), `types` the breakdown by GPU type
    as written. `shared` names shard or mps when the job has some. `cut`: part of the text is missing."""

    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    types: tuple[tuple[str, int], ...] = ()
    shared: str = ""
    cut: bool = False

    @property
    def names_gpus(self) -> bool:
        """The text says how many GPUs, be it none."""
        return self.gpus is not None or bool(self.types)


NO_TRES = Tres()


def memory_bytes(text: str) -> int:
    """`62.50G`, `512M` and bare MB in bytes, rounded down; ValueError for anything else."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory")
    return int(Decimal(found.group(1)) * 1024 ** _UNITS[found.group(2).upper() or "M"])


def parse_tres(text: str) -> Tres:
    """Counts of a TRES text. A key without a number means that the text was cut. Never raises."""
    if text in _NOTHING:
        return NO_TRES
    cpus = memory = gpus = None
    types: list[tuple[str, int]] = []
    shared, cut = "", False
    for item in text.split(","):
        key, _, value = item.partition("=")
        key = key.strip().lower()
        try:
            if key in ("cpu", "1"):
                cpus = _count(value)
            elif key in ("mem", "2"):
                memory = memory_bytes(value)
            elif key == "gres/gpu":
                gpus = _count(value)
            elif key.startswith("gres/gpu:"):
                types.append((item.partition("=")[0].strip()[len("gres/gpu:") :], _count(value)))
            elif key.startswith(("gres/shard", "gres/mps")):
                shared = shared or _shared_name(key, _count(value))
            elif key.isdecimal():
                cut = cut or int(key) > 1000  # numbered GRES, as the database stores them: which one is not said
            elif not value:
                cut = True
        except ValueError:
            cut = True
    return Tres(cpus, memory, gpus, tuple(types), shared, cut)


def parse_gres(text: str) -> Tres:
    """Counts of an old GRES text: `gpu:2`, `gpu:a100:2(IDX:0-1)`, `gpu:(null):2`, `gres:gpu:1`. Never raises."""
    if text in _NOTHING:
        return NO_TRES
    if "=" in text and "gres/" in text.lower():
        return parse_tres(text)
    gpus: int | None = None
    types: list[tuple[str, int]] = []
    shared, cut = "", False
    for item in _gres_items(text):
        found = _GRES.fullmatch(item)
        if found is None:
            cut = True
            continue
        name, kind, number = found.group(1).lower(), found.group(2), found.group(3)
        if number is None and kind is not None and kind[:1].isdigit() and kind.isdecimal():
            kind, number = None, kind
        count = int(number) if number is not None and number.isdecimal() else 1 if number is None else -1
        if count < 0:
            cut = True
        elif name in SHARED:
            shared = shared or _shared_name(f"gres/{name}", count)
        elif name == "gpu" and kind is None:
            gpus = (gpus or 0) + count
        elif name == "gpu" and kind is not None:
            types.append((kind, count))
    return _untyped_null(Tres(gpus=gpus, types=tuple(types), shared=shared, cut=cut))


def _count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no count")
    unit = found.group(2).upper()
    return int(Decimal(found.group(1)) * (1000 ** _UNITS[unit] if unit else 1))


def _shared_name(key: str, count: int) -> str:
    return key.removeprefix("gres/").partition(":")[0] if count > 0 else ""


def _gres_items(text: str) -> list[str]:
    """Split at commas outside the parentheses of `(IDX:0-1,3)`."""
    items, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            items.append(text[start:at].strip())
            start = at + 1
    return [item for item in [*items, text[start:].strip()] if item]


def _untyped_null(tres: Tres) -> Tres:
    """`(null)` as a type is how some releases print an untyped GPU; and old texts list parts, never a total too."""
    nulls = sum(count for kind, count in tres.types if kind == "(null)")
    types = tuple((kind, count) for kind, count in tres.types if kind != "(null)")
    had_null = len(types) != len(tres.types)
    gpus = (tres.gpus or 0) + nulls if had_null or tres.gpus is not None else None
    if gpus is not None and types:
        gpus += sum(count for _, count in types)
    return tres._replace(gpus=gpus, types=types)

"""Reads the header of an .rpm: files with their modes and flags, dependencies, scripts. The rpm program is not needed.

Layout: lead of 96 bytes, signature header padded to 8, main header (the rpm project's "Package format V4").
"""

import struct
from dataclasses import dataclass
from pathlib import Path

_LEAD_BYTES = 96
_MAGIC = b"\x8e\xad\xe8\x01"
_INTEGERS = {3: "H", 4: "I"}
_TEXT, _TEXTS, _TRANSLATED = 6, 8, 9
NAME, VERSION, RELEASE, LICENSE, ARCH = 1000, 1001, 1002, 1014, 1022
POST_INSTALL, PRE_REMOVE, POST_REMOVE = 1024, 1025, 1026
_MODES, _FLAGS, _REQUIRES = 1030, 1037, 1049
_FOLDER_OF, _BASENAMES, _FOLDERS = 1116, 1117, 1118
CONFIG, NO_REPLACE = 1, 16
Value = list[int] | list[str] | str


@dataclass(frozen=True)
class RpmFile:
    """`mode` with the kind of file, `flags` of CONFIG and NO_REPLACE."""

    mode: int
    flags: int


def _header(data: bytes, start: int) -> tuple[dict[int, Value], int]:
    """Values by tag, and where the header ends."""
    assert data[start : start + 4] == _MAGIC, "no rpm header here"
    entries, size = struct.unpack_from(">II", data, start + 8)
    store = start + 16 + entries * 16
    values: dict[int, Value] = {}
    for number in range(entries):
        tag, kind, offset, count = struct.unpack_from(">IIII", data, start + 16 + number * 16)
        at = store + offset
        if kind in _INTEGERS:
            values[tag] = list(struct.unpack_from(f">{count}{_INTEGERS[kind]}", data, at))
        elif kind in (_TEXT, _TEXTS, _TRANSLATED):
            texts = data[at : store + size].split(b"\0", count)[:count]
            values[tag] = texts[0].decode() if kind == _TEXT else [text.decode() for text in texts]
    return values, store + size


def read_header(rpm: Path) -> dict[int, Value]:
    data = rpm.read_bytes()
    _, end = _header(data, _LEAD_BYTES)
    return _header(data, (end + 7) // 8 * 8)[0]


def text_of(header: dict[int, Value], tag: int) -> str:
    value = header[tag]
    assert isinstance(value, str)
    return value


def _numbers(header: dict[int, Value], tag: int) -> list[int]:
    return [int(value) for value in header[tag]]


def requires(header: dict[int, Value]) -> set[str]:
    return {str(name) for name in header[_REQUIRES] if not str(name).startswith("rpmlib(")}


def files(header: dict[int, Value]) -> dict[str, RpmFile]:
    names = zip(_numbers(header, _FOLDER_OF), header[_BASENAMES], strict=True)
    paths = [f"{header[_FOLDERS][folder]}{base}" for folder, base in names]
    both = zip(_numbers(header, _MODES), _numbers(header, _FLAGS), strict=True)
    return {path: RpmFile(mode, flags) for path, (mode, flags) in zip(paths, both, strict=True)}

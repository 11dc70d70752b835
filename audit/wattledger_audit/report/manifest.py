"""`manifest.json`: what went in, with what, and what came out, so that anyone can make it again. No clock, no paths."""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from typing import NamedTuple

MANIFEST = "manifest.json"
LIBRARIES = (
    "chdb",
    "chdb-core",
    "jinja2",
    "numpy",
    "openpyxl",
    "pyarrow",
    "pydantic",
    "pyyaml",
    "tzdata",
    "xlsxwriter",
)
"""Those whose version can change a figure or a byte."""


class InputFile(NamedTuple):
    """One file that was read, under the name that messages call it by."""

    name: str
    role: str
    format: str
    size_bytes: int
    sha256: str


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def input_file(name: str, role: str, format_: str, path: Path) -> InputFile:
    """What the manifest says of a file on disk."""
    return InputFile(name, role, format_, path.stat().st_size, sha256_of(path))


def write_manifest(
    out: Path,
    product_version: str,
    parameters: Mapping[str, object],
    inputs: Iterable[InputFile],
    outputs: Iterable[Path],
) -> Path:
    """Write `out/manifest.json`. `outputs` lie under `out` and are named from there; `parameters` are as given, where
    a path only by its name. The same run gives the same bytes, in whichever folder."""
    document = {
        "product": "wattledger",
        "version": product_version,
        "python": platform.python_version(),
        "libraries": {name: _installed(name) for name in LIBRARIES},
        "parameters": {name: _plain(value) for name, value in parameters.items()},
        "inputs": [one._asdict() for one in sorted(inputs)],
        "outputs": [
            {"name": path.relative_to(out).as_posix(), "size_bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(set(outputs))
        ],
    }
    target = out / MANIFEST
    text = json.dumps(document, ensure_ascii=False, indent=1, sort_keys=True)
    target.write_bytes(text.encode() + b"\n")
    return target


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _plain(value: object) -> object:
    """A value that JSON has; a path, also as text, by its name only."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, PurePath):
        return value.name
    text = str(value)
    for kind in (PurePosixPath, PureWindowsPath):
        if kind(text).is_absolute() and kind(text).name:
            return kind(text).name
    return text

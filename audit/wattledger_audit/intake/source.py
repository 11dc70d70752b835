"""One input file: its path, kind, encoding and head, decided by content. Owns no format's meaning."""

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from wattledger_audit.intake.file_magic import GZIP, sheet_or_parquet
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.text_encoding import UnreadableText, decide_encoding, decoding_errors

TEXT, XLSX, PARQUET, BINARY = "text", "xlsx", "parquet", "binary"
HEAD_BYTES = 65_536
_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Source:
    """`kind` is text, xlsx, parquet or binary; `encoding` the text's (utf-8-sig, utf-16, cp1252); `head` the decoded
    first 64 KiB of a text (empty otherwise; may end inside a line). `name` is what messages call the file."""

    path: Path
    name: str
    kind: str
    encoding: str
    head: str


def open_source(path: Path, encoding: str | None = None) -> Source:
    """Looks at a file, all of it where it is text: the encoding is right to its last byte. `encoding` is `--encoding`.

    Gzip is looked through. Raises `InputRefused` for what is missing, empty, binary or of a kind that isn't read, so
    a source of kind `binary` never comes from here.
    """
    name = path.name
    try:
        with _plain_bytes(path) as file:
            first = file.read(HEAD_BYTES)
            if not first:
                raise InputRefused(f"{name} is empty: export it again")
            kind = sheet_or_parquet(file, name, first)
            if kind and isinstance(file, gzip.GzipFile):
                raise InputRefused(f"{name} is a packed {kind} file: unpack it and give the file inside")
            if kind:
                return Source(path, name, kind, "", "")
            file.seek(0)
            decided = decide_encoding(file, first, encoding)
    except UnreadableText as error:
        raise InputRefused(f"{name}{error}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputRefused(f"{name} is a damaged gzip file ({error}): get it once more") from error
    except OSError as error:
        raise InputRefused(f"{name} can't be read: {error.strerror or error}") from error
    return Source(path, name, TEXT, decided, _head_text(first, decided))


def open_text(source: Source) -> io.TextIOWrapper:
    """The file's text from its start, line ends made `\\n`; the caller closes it."""
    if source.kind != TEXT:
        raise InputRefused(f"{source.name} is {source.kind}, and a text is needed here: export it as CSV or JSON")
    return io.TextIOWrapper(_plain_bytes(source.path), source.encoding, decoding_errors(source.encoding), newline=None)


def text_lines(source: Source) -> Iterator[str]:
    """The text's lines without their ends; byte order marks at the start of any line (files put together) are gone."""
    with open_text(source) as text:
        for line in text:
            bare = line[:-1] if line.endswith("\n") else line
            yield bare.lstrip(_BOM) if bare.startswith(_BOM) else bare


def _plain_bytes(path: Path) -> BinaryIO:
    file = path.open("rb")
    try:
        packed = file.read(2) == GZIP
        file.seek(0)
    except OSError:
        file.close()
        raise
    if not packed:
        return file
    file.close()
    return cast(BinaryIO, gzip.open(path, "rb"))


def _head_text(first: bytes, encoding: str) -> str:
    """All that decodes: the head of a larger file may end inside a character."""
    text = codecs.getincrementaldecoder(encoding)(decoding_errors(encoding)).decode(first, len(first) < HEAD_BYTES)
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip(_BOM)

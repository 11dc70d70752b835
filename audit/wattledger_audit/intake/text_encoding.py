"""Decides a text's encoding from all its bytes, streaming: what is decided here decodes to the last byte.

Wrong bytes in a text that is UTF-8 otherwise are read as cp1252, so one odd name does not spoil the others.
"""

import codecs
from typing import BinaryIO, NoReturn

CHUNK_BYTES = 1 << 20
UTF8, CP1252 = "utf-8-sig", "cp1252"
_LENIENT = "wattledger-cp1252"
_BOMS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = bytes(set(range(28)) - set(b"\t\n\r\f\v\x1a\x1b"))
"""Bytes that no text has many of; the separators 0x1c to 0x1f are what careful people export `sacct` with."""


class UnreadableText(ValueError):
    """Not a text, or not in the encoding that was asked for. The message goes right behind the file's name."""


def decoding_errors(encoding: str) -> str:
    """The `errors` argument with which a text of a decided encoding is read."""
    return _LENIENT if encoding == UTF8 else "strict"


def decide_encoding(file: BinaryIO, first: bytes, asked: str | None) -> str:
    """The encoding of a file whose first bytes are `first`; `asked` counts where no byte order mark says otherwise.

    Raises `UnreadableText`.
    """
    marked = next((name for bom, name in _BOMS if first.startswith(bom)), None)
    if marked == UTF8 or (marked is None and asked is None):
        wide = None if marked else _wide(first)
        if wide is None:
            return _decide_narrow(file, first)
        marked = wide
    encoding = marked or _known(asked or UTF8)
    _check_all(file, encoding)
    return encoding


def _known(asked: str) -> str:
    try:
        name = codecs.lookup(asked).name
        "".encode(name)
    except LookupError as error:
        raise UnreadableText(f": --encoding {asked} is no encoding: use utf-8, utf-16, cp1252, ...") from error
    return UTF8 if name == "utf-8" else name


def _wide(first: bytes) -> str | None:
    """UTF-16 without a mark, by clear proof: zeros on one side of nearly all pairs and never on the other."""
    even, odd = first[0::2].count(0), first[1::2].count(0)
    pairs = len(first) // 2
    if pairs == 0 or max(even, odd) * 10 < pairs * 7 or min(even, odd) > 0:
        return None
    return "utf-16-be" if even else "utf-16-le"


def _decide_narrow(file: BinaryIO, first: bytes) -> str:
    if len(first) - len(first.translate(None, _CONTROLS)) > len(first) // 100:
        _refuse_binary(first, 0)
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = 0
    try:
        while chunk := file.read(CHUNK_BYTES):
            if b"\0" in chunk:
                _refuse_binary(chunk, lines)
            decoder.decode(chunk)
            lines += chunk.count(b"\n")
        decoder.decode(b"", True)
    except UnicodeDecodeError:
        file.seek(0)
        return _decide_broken(file)
    return UTF8


def _refuse_binary(chunk: bytes, lines: int) -> NoReturn:
    at = chunk.find(b"\0")
    where = f", line {lines + chunk[: max(at, 0)].count(10) + 1}: has a zero byte, which no text has" if at >= 0 else ""
    raise UnreadableText(f"{where or ' is binary data'}: export it as CSV (UTF-8), JSON, xlsx or Parquet")


def _decide_broken(file: BinaryIO) -> str:
    """UTF-8 with some wrong bytes, or cp1252: whichever more of the bytes above ASCII speak for."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    right = wrong = lines = 0
    undefined: tuple[int, int] | None = None
    while True:
        chunk = file.read(CHUNK_BYTES)
        if b"\0" in chunk:
            _refuse_binary(chunk, lines)
        for line in decoder.decode(chunk, not chunk).splitlines(keepends=True):
            if not line.isascii():
                odd = [ord(char) - 0xDC00 for char in line if "\udc80" <= char <= "\udcff"]
                wrong += len(odd)
                right += sum(not char.isascii() for char in line) - len(odd)
                bad = next((byte for byte in odd if byte in _UNDEFINED), None)
                undefined = undefined or (None if bad is None else (lines + 1, bad))
            lines += line.endswith("\n")
        if not chunk:
            break
    if right > wrong:
        return UTF8
    if undefined:
        line_number, byte = undefined
        raise UnreadableText(
            f", line {line_number}: byte 0x{byte:02X} is neither UTF-8 nor cp1252: say --encoding, or save it as UTF-8"
        )
    return CP1252


_UNDEFINED = frozenset((0x81, 0x8D, 0x8F, 0x90, 0x9D))


def _check_all(file: BinaryIO, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 0
    try:
        while chunk := file.read(CHUNK_BYTES):
            text = decoder.decode(chunk)
            if "\0" in text:
                line = lines + text[: text.find("\0")].count("\n") + 1
                raise UnreadableText(f", line {line}: has a zero character in {encoding}: save it as UTF-8")
            lines += text.count("\n")
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        lines += error.object[: error.start].decode(encoding, "ignore").count("\n")
        raise UnreadableText(
            f", line {lines + 1}: is not {encoding.removesuffix('-sig')} ({error.reason}): "
            "say another --encoding, or save it as UTF-8"
        ) from error


def _as_cp1252(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode(CP1252, "replace"), error.end


codecs.register_error(_LENIENT, _as_cp1252)

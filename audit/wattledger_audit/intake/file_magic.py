"""What a file is by its first bytes: a sheet, Parquet, text, or something that has to be saved otherwise first."""

import zipfile
from typing import BinaryIO

from wattledger_audit.intake.refusal import InputRefused

GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_TO_TEXT = "save it as xlsx or CSV and give that"
_PACKED = "unpack it and give the file inside"

_REFUSED: tuple[tuple[bytes, str], ...] = (
    (b"%PDF", "is a PDF: get the table as xlsx or CSV from where it was printed"),
    (b"{\\rtf", f"is a text document (RTF): {_TO_TEXT}"),
    (b"\x89PNG", "is a picture: give the table itself, as xlsx or CSV"),
    (b"\xff\xd8\xff", "is a picture: give the table itself, as xlsx or CSV"),
    (b"\x28\xb5\x2f\xfd", f"is packed with zstd: {_PACKED}"),
    (b"BZh", f"is packed with bzip2: {_PACKED}"),
    (b"\xfd7zXZ\x00", f"is packed with xz: {_PACKED}"),
    (b"7z\xbc\xaf\x27\x1c", f"is a 7-Zip archive: {_PACKED}"),
    (b"Rar!", f"is a RAR archive: {_PACKED}"),
    (b"PARE", "is an encrypted Parquet file: save it without encryption"),
    (b"ORC", "is an ORC file: save it as Parquet or CSV and give that"),
    (b"Obj\x01", "is an Avro file: save it as Parquet or CSV and give that"),
    (b"SQLite format 3\x00", "is an SQLite database: export the table as CSV and give that"),
)
_MARKUP = (b"<!doctype", b"<html", b"<table", b"<?xml", b"<style", b"<meta")


def sheet_or_parquet(file: BinaryIO, name: str, first: bytes) -> str:
    """`xlsx`, `parquet`, or `` for what may be text. Raises `InputRefused` for a kind that is known and not read."""
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith(_ZIP):
        return _zip_kind(file, name)
    if first.startswith(_OLE):
        raise InputRefused(_legacy_office(file, name))
    for magic, words in _REFUSED:
        if first.startswith(magic):
            raise InputRefused(f"{name} {words}")
    if first.lstrip(b"\xef\xbb\xbf \t\r\n")[:16].lower().startswith(_MARKUP):
        raise InputRefused(
            f"{name} is a web page or XML, whatever its name says: open it in a spreadsheet and {_TO_TEXT}"
        )
    return ""


def _zip_kind(file: BinaryIO, name: str) -> str:
    try:
        with zipfile.ZipFile(file) as archive:
            members = set(archive.namelist())
    except (zipfile.BadZipFile, OSError) as error:
        raise InputRefused(f"{name} is a damaged xlsx or zip file ({error}): get it once more") from error
    if "xl/workbook.xml" in members:
        return "xlsx"
    if "xl/workbook.bin" in members:
        raise InputRefused(f"{name} is a binary workbook (xlsb): {_TO_TEXT}")
    if "mimetype" in members:
        raise InputRefused(f"{name} is an OpenDocument file (ods): {_TO_TEXT}")
    raise InputRefused(f"{name} is a zip archive: {_PACKED}")


def _legacy_office(file: BinaryIO, name: str) -> str:
    file.seek(0)
    head = file.read(1 << 20)
    if _ENCRYPTED in head:
        return f"{name} is protected by a password: save it without one, as xlsx or CSV, and give that"
    return f"{name} is an old workbook (xls): {_TO_TEXT}"

"""A file's kind and encoding are decided from all its bytes; what can't be read is refused with what to do."""

import gzip
import zipfile
from pathlib import Path

import pytest
from wattledger_audit.intake.refusal import InputRefused
from wattledger_audit.intake.source import HEAD_BYTES, TEXT, open_source, text_lines

TEXT_IN = "tenant,cost\nMüller & Søn,5 €\nacme,1\n"


def written(folder: Path, data: bytes, name: str = "in.csv") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT_IN.encode(), "utf-8-sig"),
        (TEXT_IN.encode("utf-8-sig"), "utf-8-sig"),
        (TEXT_IN.encode("utf-16"), "utf-16"),
        (b"\xff\xfe" + TEXT_IN.encode("utf-16-le"), "utf-16"),
        (b"\xfe\xff" + TEXT_IN.encode("utf-16-be"), "utf-16"),
        (TEXT_IN.encode("utf-16-le"), "utf-16-le"),
        (TEXT_IN.encode("utf-16-be"), "utf-16-be"),
        (TEXT_IN.encode("utf-32"), "utf-32"),
        (TEXT_IN.encode("cp1252"), "cp1252"),
        (TEXT_IN.replace("\n", "\r\n").encode(), "utf-8-sig"),
        (TEXT_IN.replace("\n", "\r").encode(), "utf-8-sig"),
        (gzip.compress(TEXT_IN.encode("utf-16")), "utf-16"),
    ],
)
def test_every_encoding_gives_the_same_lines(tmp_path: Path, data: bytes, encoding: str) -> None:
    source = open_source(written(tmp_path, data))
    assert (source.kind, source.encoding, source.name) == (TEXT, encoding, "in.csv")
    assert list(text_lines(source)) == ["tenant,cost", "Müller & Søn,5 €", "acme,1"]
    assert source.head == TEXT_IN


def test_a_wrong_byte_behind_a_big_head_is_seen_before_reading_starts(tmp_path: Path) -> None:
    lines = b"acme,1\n" * 500_000
    source = open_source(written(tmp_path, lines + b"M\xfcller,2\n"))
    assert source.encoding == "cp1252"
    assert list(text_lines(source))[-1] == "Müller,2"
    assert len(source.head) == HEAD_BYTES


def test_a_character_cut_by_the_end_of_a_chunk_or_of_the_head_is_whole(tmp_path: Path) -> None:
    text = "a" + "é" * (1 << 20)
    source = open_source(written(tmp_path, text.encode()))
    assert source.encoding == "utf-8-sig"
    assert source.head == text[: len(source.head)] and len(source.head) > HEAD_BYTES // 2 - 2
    assert list(text_lines(source)) == [text]


def test_one_latin_name_does_not_spoil_the_other_names_of_a_utf8_file(tmp_path: Path) -> None:
    data = "job|aàb\njob|Zürich\n".encode() + b"job|f\xfcr\n"
    assert list(text_lines(open_source(written(tmp_path, data)))) == ["job|aàb", "job|Zürich", "job|für"]


def test_byte_order_marks_inside_are_gone(tmp_path: Path) -> None:
    data = "\ufeff\ufeffa,b\n\ufeff1,2\n3,\ufeff4\n".encode()
    assert list(text_lines(open_source(written(tmp_path, data)))) == ["a,b", "1,2", "3,\ufeff4"]


@pytest.mark.parametrize(
    ("data", "asked", "lines"),
    [
        ("é".encode("cp850"), "cp850", ["é"]),
        ("é".encode("latin-1"), "latin-1", ["é"]),
        ("é".encode(), "UTF8", ["é"]),
        ("é".encode("utf-8-sig"), "cp1252", ["é"]),
        ("é".encode("utf-16"), "cp1252", ["é"]),
        ("顧客".encode("shift_jis"), "shift_jis", ["顧客"]),
    ],
)
def test_a_said_encoding_counts_unless_a_mark_proves_another(
    tmp_path: Path, data: bytes, asked: str, lines: list[str]
) -> None:
    assert list(text_lines(open_source(written(tmp_path, data), asked))) == lines


def ods_bytes(folder: Path) -> bytes:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
    return (folder / "x.zip").read_bytes()


def zip_bytes(folder: Path) -> bytes:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("a.csv", "a,b\n")
    return (folder / "x.zip").read_bytes()


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (OLE, "old workbook (xls): save it as xlsx or CSV"),
        (OLE + "EncryptedPackage".encode("utf-16-le"), "protected by a password"),
        (b"%PDF-1.7\n%\xe2\xe3", "is a PDF"),
        (b"PK\x03\x04 half a file", "damaged xlsx or zip"),
        (b"<!DOCTYPE html><html>", "web page or XML"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>", "web page or XML"),
        (b"a,b\n1,2\n3,\x004\n", "line 3: has a zero byte"),
        (b"a,b\n" + b"1,2\n" * 300_000 + b"\x00", "line 300002: has a zero byte"),
        (bytes(range(1, 256)) * 9, "is binary data"),
        (b"\x28\xb5\x2f\xfdxxxx", "packed with zstd: unpack it"),
        (gzip.compress(b"a,b\n" * 9999)[:-20], "damaged gzip file"),
        (gzip.compress(b"PAR1xxxxPAR1"), "packed parquet file: unpack it"),
        (b"\xff\xfea\x00b\x00c", "line 1: is not utf-16"),
        (b"a,b\n1,\x81\n", "line 2: byte 0x81 is neither UTF-8 nor cp1252: say --encoding"),
    ],
)
def test_what_cannot_be_read_is_refused_with_advice(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(InputRefused) as refused:
        open_source(written(tmp_path, data))
    assert str(refused.value).startswith("in.csv") and says in str(refused.value)


def test_open_document_and_zip_are_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"OpenDocument file .ods.: save it as xlsx or CSV"):
        open_source(written(tmp_path, ods_bytes(tmp_path)))
    with pytest.raises(InputRefused, match=r"zip archive: unpack it"):
        open_source(written(tmp_path, zip_bytes(tmp_path)))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("utf-9", "--encoding utf-9 is no encoding"),
        ("utf-8", "line 2: is not utf-8 "),
        ("ascii", "line 2: is not ascii"),
        ("hex", "no enc"),
    ],
)
def test_a_said_encoding_that_does_not_fit_is_refused(tmp_path: Path, asked: str, says: str) -> None:
    with pytest.raises(InputRefused, match=says):
        open_source(written(tmp_path, b"abc\nf\xfcr\n"), asked)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match=r"nowhere.csv can't be read: No such file"):
        open_source(tmp_path / "nowhere.csv")
    with pytest.raises(InputRefused, match=r"can't be read"):
        open_source(tmp_path)

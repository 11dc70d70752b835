"""The manifest, and the promise that it stands for: the same report gives the same bytes in every file."""

import json
import re
import time
from decimal import Decimal
from hashlib import sha256
from pathlib import Path, PureWindowsPath

from wattledger_audit.report.manifest import input_file, write_manifest
from wattledger_audit.report.model import Report
from wattledger_audit.report.report_json import write_report_json
from wattledger_audit.report.table_files import write_tables
from wattledger_audit.report.tables import build_tables
from wattledger_audit.report.workbook import write_workbook

from tests.unit.report_small import small_report

PARAMETERS = {
    "out": Path("/somewhere/else/out"), "usage": ["/home/me/u.csv", "b.csv"],
    "costs": PureWindowsPath("C:\\x\\costs.yaml"),
    "theirs": "D:\\data\\t.csv", "per_gpu_hour": Decimal("1.50"), "period": None, "strict": True, "limit": 3,
    "delimiter": "/", "decimal": ",",
}  # fmt: skip


def all_files(report: Report, out: Path, inputs: Path) -> Path:
    """Everything that is written from a report, in a folder of its own."""
    tables = build_tables(report)
    outputs = [
        write_report_json(report, out / "report.json"),
        *write_tables(tables, out),
        write_workbook(report, tables, out / "tables" / "audit.xlsx"),
    ]
    read = [
        input_file("u.csv", "usage", "sacct", inputs / "u.csv"),
        input_file("b.csv", "billing", "x", inputs / "b.csv"),
    ]
    return write_manifest(out, report.version, PARAMETERS, read, outputs)


def given(tmp_path: Path) -> Path:
    (tmp_path / "u.csv").write_bytes(b"usage")
    (tmp_path / "b.csv").write_bytes(b"")
    return tmp_path


def test_the_same_report_gives_the_same_bytes_in_every_file_at_another_time_in_another_folder(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "other" / "two"
    inputs = given(tmp_path)
    all_files(small_report(), one, inputs)
    time.sleep(2.1)  # a zip's own stamps have a step of two seconds
    all_files(small_report(), two, inputs)
    names = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    assert names == {path.relative_to(two) for path in two.rglob("*") if path.is_file()}
    assert len(names) > 30
    assert {name for name in names if (one / name).read_bytes() != (two / name).read_bytes()} == set()


def test_it_names_inputs_outputs_and_libraries_by_content(tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = json.loads(all_files(small_report(), out, given(tmp_path)).read_text())
    assert found["version"] == "1.2.3"
    assert re.fullmatch(r"3\.\d+\.\d+.*", found["python"])
    assert found["libraries"]["pyarrow"] and found["libraries"]["tzdata"]
    assert found["inputs"] == [
        {"name": "b.csv", "role": "billing", "format": "x", "size_bytes": 0, "sha256": sha256(b"").hexdigest()},
        {"name": "u.csv", "role": "usage", "format": "sacct", "size_bytes": 5, "sha256": sha256(b"usage").hexdigest()},
    ]
    on_disk = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} - {"manifest.json"}
    assert {one["name"] for one in found["outputs"]} == on_disk
    for one in found["outputs"]:
        content = (out / one["name"]).read_bytes()
        assert (one["sha256"], one["size_bytes"]) == (sha256(content).hexdigest(), len(content))


def test_parameters_are_as_given_and_paths_are_names_only(tmp_path: Path) -> None:
    text = write_manifest(tmp_path, "1", PARAMETERS, [], []).read_text()
    assert json.loads(text)["parameters"] == {
        "out": "out", "usage": ["u.csv", "b.csv"], "costs": "costs.yaml", "theirs": "t.csv", "per_gpu_hour": "1.50",
        "period": None, "strict": True, "limit": 3, "delimiter": "/", "decimal": ",",
    }  # fmt: skip
    assert str(tmp_path) not in text


def test_keys_are_sorted_and_the_order_of_what_is_given_does_not_matter(tmp_path: Path) -> None:
    inputs, out = given(tmp_path), tmp_path / "out"
    manifest = all_files(small_report(), out, inputs)
    first = manifest.read_bytes()
    read = [
        input_file("b.csv", "billing", "x", inputs / "b.csv"),
        input_file("u.csv", "usage", "sacct", inputs / "u.csv"),
    ]
    outputs = [path for path in out.rglob("*") if path.is_file() and path != manifest]
    shuffled = dict(reversed(PARAMETERS.items()))
    assert write_manifest(out, "1.2.3", shuffled, read, [*reversed(outputs), outputs[0]]).read_bytes() == first
    keys = re.findall(r'^ "(\w+)"', first.decode(), re.MULTILINE)
    assert keys == sorted(keys)

"""Kept examples of every schema version, and the rules that keep old and new records readable by each other."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib.resources import files
from itertools import permutations
from pathlib import Path
from typing import Any

import fastavro
import pytest
from wattledger_core.revision import Mark
from wattledger_schemas import Codec, load_contracts
from wattledger_schemas.catalogue import Entry, catalogue, newest
from wattledger_schemas.compatibility import Incompatible, check_compatible
from wattledger_streams.mapping import (
    from_wire_allocation_record,
    from_wire_batch,
    from_wire_job_event,
    from_wire_node_event,
    from_wire_price_record,
    from_wire_tenant_cost,
    from_wire_usage_lines,
)
from wattledger_streams.mapping_threshold import from_wire_threshold_event

FOLDER = Path(str(files("wattledger_schemas") / "examples"))
Record = dict[str, Any]
Planted = Callable[[Record], None]
SUBJECTS = sorted({entry.subject for entry in catalogue()})


def _plain(value: Any) -> Any:
    """JSON to a record: {"hex": …} is bytes."""
    if isinstance(value, dict):
        if set(value) == {"hex"}:
            return bytes.fromhex(value["hex"])
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _examples(entry: Entry) -> list[Record]:
    paths = sorted((FOLDER / entry.subject / f"v{entry.version}").glob("*.json"))
    return [_plain(json.loads(path.read_text())) for path in paths]


def _every_example() -> list[Any]:
    return [
        pytest.param(entry, record, id=f"{entry.subject}-v{entry.version}-{number}")
        for entry in catalogue()
        for number, record in enumerate(_examples(entry))
    ]


def _fields(schema: Any, path: str) -> Iterator[tuple[str, Record]]:
    """Each record and field of a schema, nested ones too, with its path."""
    for part in schema if isinstance(schema, list) else [schema]:
        if not isinstance(part, dict):
            continue
        if part["type"] == "array":
            yield from _fields(part["items"], path)
        if part["type"] == "record":
            yield path, part
            for field in part["fields"]:
                yield f"{path}.{field['name']}", field
                yield from _fields(field["type"], f"{path}.{field['name']}")


def test_every_version_has_two_examples_and_no_folder_is_a_stranger() -> None:
    few = [f"{e.subject} v{e.version}" for e in catalogue() if len(_examples(e)) < 2]
    assert few == []
    known = {(e.subject, f"v{e.version}") for e in catalogue()}
    assert {(path.parent.name, path.name) for path in FOLDER.glob("*/*")} == known


def test_every_schema_file_is_in_the_catalogue() -> None:
    avro = Path(str(files("wattledger_schemas") / "avro"))
    found = {(path.parent.name, path.stem) for path in avro.glob("*/*.avsc")}
    assert found == {(e.subject, f"v{e.version}") for e in catalogue()}


@pytest.mark.parametrize(("entry", "record"), _every_example())
def test_an_example_sets_exactly_the_fields_of_its_schema(entry: Entry, record: Record) -> None:
    assert set(record) == {field["name"] for field in entry.schema["fields"]}
    fastavro.validate(record, entry.schema, strict=True)


@pytest.mark.parametrize(("entry", "record"), _every_example())
def test_an_example_of_the_newest_version_decodes_to_itself(entry: Entry, record: Record) -> None:
    if entry != newest(entry.subject):
        pytest.skip("an older version: read through compatibility")
    codec = Codec()
    decoded = codec.decode(codec.encode(entry.subject, record))
    assert decoded == (entry.subject, entry.version, record)


READERS: dict[str, Callable[[Record], object]] = {
    "job_event": from_wire_job_event,
    "node_event": from_wire_node_event,
    "sample_batch": from_wire_batch,
    "usage_lines": from_wire_usage_lines,
    "tenant_cost": from_wire_tenant_cost,
    "threshold_event": from_wire_threshold_event,
    "tick": lambda record: from_wire_price_record("tick", record, 0, 0),
    "price": lambda record: from_wire_price_record("price", record, 0, 0),
    "mark": lambda record: from_wire_allocation_record("mark", record),
    "node_revision": lambda record: from_wire_allocation_record("node_revision", record),
    "allocation_revision": lambda record: from_wire_allocation_record("allocation_revision", record),
}


@pytest.mark.parametrize(("entry", "record"), _every_example())
def test_an_example_is_a_record_that_processors_accept(entry: Entry, record: Record) -> None:
    if entry.subject in ("dead_letter", "gap"):
        pytest.skip("for people: nothing reads it back into core values")
    READERS[entry.subject](deepcopy(record))


def test_a_mark_example_keeps_what_it_says() -> None:
    [rich] = [record for record in _examples(newest("mark")) if record["stale_sources"]]
    found = from_wire_allocation_record("mark", rich)
    assert isinstance(found, Mark)
    assert (found.origin.partition, found.at_us, found.stale_sources) == (3, 1_794_182_460_000_000, ("slurm-b",))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_version_reads_the_examples_of_every_other(subject: str) -> None:
    versions = [entry for entry in catalogue() if entry.subject == subject]
    pairs = list(permutations(versions, 2)) or [(versions[0], versions[0])]
    for old, new in pairs:
        check_compatible(old.schema, new.schema, _examples(old), _examples(new))


def _add_without_default(schema: Record) -> None:
    schema["fields"].append({"name": "added", "type": "string", "doc": "New."})


def _type_changed(schema: Record) -> None:
    schema["fields"][0]["type"] = "long"


def _renamed(schema: Record) -> None:
    schema["fields"][0]["name"] = "renamed"


def _removed(schema: Record) -> None:
    del schema["fields"][0]


@pytest.mark.parametrize("subject", ["job_event", "price", "dead_letter"])
@pytest.mark.parametrize(
    ("planted", "direction"),
    [
        (_add_without_default, "backward"),
        (_type_changed, "backward"),
        (_renamed, "backward"),
        (_removed, "forward"),
    ],
)
def test_a_planted_incompatible_change_is_refused(planted: Planted, direction: str, subject: str) -> None:
    entry = newest(subject)
    changed = deepcopy(entry.schema)
    planted(changed)
    examples = _examples(entry)
    written = [{**record, "added": "x", "renamed": "x", entry.schema["fields"][0]["name"]: 1} for record in examples]
    if planted is _removed:
        written = examples
    with pytest.raises(Incompatible, match=direction):
        check_compatible(entry.schema, changed, examples, written)


def test_a_planted_change_only_forward_readers_notice_is_refused() -> None:
    """Every new field has a default, but a type was widened: old readers can't narrow it back."""
    entry = newest("mark")
    changed = deepcopy(entry.schema)
    [offset] = [field for field in changed["fields"] if field["name"] == "origin_seq"]
    offset["type"] = "long"
    with pytest.raises(Incompatible, match="forward"):
        check_compatible(entry.schema, changed, _examples(entry), _examples(entry))


def test_a_new_field_with_a_default_is_compatible() -> None:
    entry = newest("price")
    changed = deepcopy(entry.schema)
    changed["fields"].append({"name": "added", "type": "string", "default": "", "doc": "New."})
    written = [{**record, "added": "x"} for record in _examples(entry)]
    check_compatible(entry.schema, changed, _examples(entry), written)


@pytest.mark.parametrize("entry", catalogue(), ids=lambda entry: f"{entry.subject}-v{entry.version}")
def test_every_record_and_field_has_a_doc(entry: Entry) -> None:
    assert [path for path, part in _fields(entry.schema, entry.subject) if not part.get("doc", "").strip()] == []


def test_the_doc_walk_reaches_nested_fields() -> None:
    paths = {path for path, _ in _fields(newest("sample_batch").schema, "b")}
    assert "b.devices.instances.activity_ppm" in paths


def test_every_nullable_field_defaults_to_null() -> None:
    parts = [(path, part) for entry in catalogue() for path, part in _fields(entry.schema, entry.subject)]
    nullable = [(path, part) for path, part in parts if isinstance(part["type"], list)]
    assert len(nullable) > 10
    assert [path for path, part in nullable if part["type"][0] != "null" or part.get("default", 0) is not None] == []


def test_every_fixed_id_is_unique() -> None:
    counted = Counter(entry.schema_id for entry in catalogue())
    assert [number for number, times in counted.items() if times > 1] == []


def test_every_record_name_belongs_to_one_subject() -> None:
    names = {(entry.schema["name"], entry.subject) for entry in catalogue()}
    assert len(names) == len({name for name, _ in names}) == len(SUBJECTS)


def test_contracts_name_existing_subjects_and_every_subject_has_a_topic() -> None:
    named = {subject for contract in load_contracts().values() for subject in contract.subjects}
    assert named == set(SUBJECTS)


def test_a_node_keeps_its_partition_number_over_three_topics() -> None:
    contracts = load_contracts()
    counts = {contracts[name].partitions for name in ("gpu-samples", "allocations", "usage-lines")}
    assert len(counts) == 1

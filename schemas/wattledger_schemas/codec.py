"""Records to and from the Confluent wire format: a zero byte, a four-byte id, the Avro body.

Ids come from a registry when one is given, else from the fixed catalogue, so that a record is always readable.
"""

from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
from fastavro.read import SchemaResolutionError

from wattledger_schemas.bad_record import BadRecord
from wattledger_schemas.catalogue import Entry, catalogue, newest

if TYPE_CHECKING:
    # an HTTP client: only who asks a registry pays for it
    from wattledger_schemas.registry import Registry

_HEADER = 5
_BODY_ERRORS = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, UnicodeDecodeError, MemoryError,
    SchemaResolutionError,
)  # fmt: skip


class Decoded(NamedTuple):
    """A record with the subject and version it was written with."""

    subject: str
    version: int
    record: dict[str, Any]


class _Writer(NamedTuple):
    header: bytes
    schema: Any


class _Reader(NamedTuple):
    subject: str
    version: int
    writer_schema: Any
    reader_schema: Any


class Codec:
    """Encodes with the newest version of a subject; decodes any known version into the newest one's shape."""

    def __init__(self, registry: "Registry | None" = None) -> None:
        self._registry = registry
        self._parsed = {(e.subject, e.version): fastavro.parse_schema(e.schema) for e in catalogue()}
        self._writers: dict[str, _Writer] = {}
        self._readers: dict[bytes, _Reader] = {}
        if registry is None:
            for entry in catalogue():
                self._know(entry.schema_id, entry)

    @classmethod
    def for_url(cls, registry_url: str) -> "Codec":
        """A codec with the registry at the URL, or the fixed ids when it is empty."""
        if not registry_url:
            return cls()
        from wattledger_schemas.registry import Registry

        return cls(Registry(registry_url))

    def encode(self, subject: str, record: dict[str, Any]) -> bytes:
        """A record in wire format. Raises BadRecord `not_encodable` naming the field that does not fit."""
        writer = self._writers.get(subject) or self._writer(subject)
        out = BytesIO(writer.header)
        out.seek(_HEADER)
        try:
            fastavro.schemaless_writer(out, writer.schema, record)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise BadRecord("not_encodable", f"{subject}: {error}") from error
        return out.getvalue()

    def decode(self, data: bytes) -> Decoded:
        """Decode wire bytes.

        Raises BadRecord: `too_short`, `bad_magic` (not the wire format), `unknown_schema_id`, `undecodable`,
        `trailing_bytes`.
        """
        if len(data) < _HEADER:
            raise BadRecord("too_short", f"{len(data)} bytes; the header alone has {_HEADER}")
        header = data[:_HEADER]
        reader = self._readers.get(header) or self._reader(header)
        body = BytesIO(data)
        body.seek(_HEADER)
        try:
            record: Any = fastavro.schemaless_reader(body, reader.writer_schema, reader.reader_schema)
        except _BODY_ERRORS as error:
            raise BadRecord(
                "undecodable", f"{reader.subject} v{reader.version}: {type(error).__name__} {error}"
            ) from error
        if body.tell() != len(data):
            raise BadRecord("trailing_bytes", f"{reader.subject}: {len(data) - body.tell()} bytes after the record")
        return Decoded(reader.subject, reader.version, record)

    def newest_body(self, data: bytes, subject: str) -> memoryview | None:
        """The Avro body of wire bytes that were written with the subject's newest version; None for all others. The
        body is not looked at. No registry is asked: an id is known once a record with it was decoded.
        """
        reader = self._readers.get(data[:_HEADER])
        if reader is None or reader.subject != subject or reader.reader_schema is not None:
            return None
        return memoryview(data)[_HEADER:]

    def _writer(self, subject: str) -> _Writer:
        entry = newest(subject)
        schema_id = entry.schema_id if self._registry is None else self._registry.register(subject, entry.schema)
        self._know(schema_id, entry)
        writer = _Writer(_header(schema_id), self._parsed[(entry.subject, entry.version)])
        self._writers[subject] = writer
        return writer

    def _know(self, schema_id: int, entry: Entry) -> None:
        newest_version = newest(entry.subject).version
        reader_schema = None if entry.version == newest_version else self._parsed[(entry.subject, newest_version)]
        self._readers[_header(schema_id)] = _Reader(
            entry.subject, entry.version, self._parsed[(entry.subject, entry.version)], reader_schema
        )

    def _reader(self, header: bytes) -> _Reader:
        """Look an id up in the registry; there the schema's own name says which subject it is."""
        if header[0] != 0:
            raise BadRecord("bad_magic", f"first byte is {header[0]}, not 0: not in the Confluent wire format")
        schema_id = int.from_bytes(header[1:], "big")
        if self._registry is None:
            raise BadRecord("unknown_schema_id", f"schema id {schema_id} is not in the catalogue")
        from wattledger_schemas.registry import NoSuchSchema

        try:
            schema = self._registry.schema(schema_id)
        except NoSuchSchema as error:
            raise BadRecord("unknown_schema_id", str(error)) from error
        if not isinstance(schema, dict):
            raise BadRecord("unknown_schema_id", f"schema id {schema_id} is {schema!r}, which is no record of ours")
        for entry in catalogue():
            if entry.schema.get("name") == schema.get("name"):
                same = entry.schema == schema
                writer_schema = self._parsed[(entry.subject, entry.version)] if same else _parse(schema_id, schema)
                latest = newest(entry.subject)
                reader_schema = None if same and entry == latest else self._parsed[(latest.subject, latest.version)]
                reader = _Reader(entry.subject, entry.version, writer_schema, reader_schema)
                self._readers[header] = reader
                return reader
        raise BadRecord("unknown_schema_id", f"schema id {schema_id} is {schema.get('name')!r}, which is none of ours")


def _parse(schema_id: int, schema: dict[str, Any]) -> Any:
    try:
        return fastavro.parse_schema(schema)
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError, TypeError) as error:
        raise BadRecord("unknown_schema_id", f"schema id {schema_id} is no Avro schema: {error}") from error


def _header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")

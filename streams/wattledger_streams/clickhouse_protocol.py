"""ClickHouse's HTTP conventions, both ways, without a server: parameters and headers in, status and headers out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from wattledger_streams.clickhouse_guard import READONLY, Refused
from wattledger_streams.clickhouse_handle import ReadQuery

STREAM_FORMATS = frozenset({"Native", "TabSeparated", "TSV", "CSV", "RowBinary", "JSONEachRow"})
_DEFAULT_FORMAT = "TabSeparated"

_ANSWERED_HERE = frozenset(
    {"query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check", "quota_key"}
    | {"user", "password", "role", "wait_end_of_query", "buffer_size", "client_protocol_version", "compress"}
    | {"decompress", "enable_http_compression", "send_progress_in_http_headers", "http_headers_progress_interval_ms"}
    | {"cancel_http_readonly_queries_on_client_close", "add_http_cors_header", "log_comment"}
)
"""Parameters that change no value of an answer: obeyed here, or without an effect on loopback and without sessions."""

_PASSED = re.compile(
    r"max_execution_time|max_threads|max_block_size|max_result_rows|max_rows_to_read|limit|offset|join_use_nulls"
    r"|final|session_timezone|date_time_output_format|bool_true_representation|bool_false_representation"
    r"|output_format_(json|csv|tsv|pretty|arrow|parquet|native|binary|decimal)_\w+"
)
"""Settings that go to the engine: none reads or writes a file, none cuts an answer short in silence."""

_STATUS = {
    36: 400, 43: 400, 46: 404, 47: 404, 48: 501, 53: 400, 60: 404, 62: 400, 73: 400, 81: 404, 115: 404, 164: 403,
    202: 503, 456: 400, 457: 400, 497: 403,
}  # fmt: skip
_CONTENT_TYPES = {
    "JSON": "application/json; charset=UTF-8",
    "JSONCompact": "application/json; charset=UTF-8",
    "CSV": "text/csv; charset=UTF-8; header=absent",
    "CSVWithNames": "text/csv; charset=UTF-8; header=present",
    "TabSeparated": "text/tab-separated-values; charset=UTF-8",
    "TSV": "text/tab-separated-values; charset=UTF-8",
    "XML": "application/xml; charset=UTF-8",
}
_FORMAT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LOOPBACK_HOST = re.compile(r"(127(\.\d+){3}|localhost|\[::1\])(:\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the query, and whether the status line has to wait for the end of it."""

    query: ReadQuery
    wait_end: bool


def query_asked(fields: Mapping[str, str], headers: Mapping[str, str], body: str, database: str) -> Asked:
    """A request's meaning; `database` is the one used when it names none. Raises `Refused` for what is not offered."""
    for name in ("compress", "decompress"):
        if fields.get(name, "0") not in ("0", "", "false"):
            raise Refused(48, "NOT_IMPLEMENTED", f"{name}=1 is not offered here: leave the parameter out")
    output_format = fields.get("default_format") or headers.get("X-ClickHouse-Format") or _DEFAULT_FORMAT
    if not _FORMAT_NAME.fullmatch(output_format):
        raise Refused(73, "UNKNOWN_FORMAT", f"Unknown format {output_format!r}")
    parameters, settings = {}, {}
    for name, value in fields.items():
        if name.startswith("param_"):
            parameters[name.removeprefix("param_")] = value
        elif _PASSED.fullmatch(name):
            settings[name] = value
        elif name not in _ANSWERED_HERE:
            raise Refused(READONLY, "READONLY", f"Cannot modify '{name}' setting in readonly mode: leave it out")
    text = "\n".join(part for part in (fields.get("query", ""), body) if part)
    asked_database = fields.get("database") or headers.get("X-ClickHouse-Database") or database
    query = ReadQuery(text, output_format, asked_database, parameters, settings)
    return Asked(query, fields.get("wait_end_of_query", "0") not in ("0", "", "false"))


def check_host(host: str) -> None:
    """A web page that points its own name at this machine is not a caller from this machine. Raises `Refused`."""
    if host and not _LOOPBACK_HOST.fullmatch(host):
        raise Refused(497, "ACCESS_DENIED", f"Host {host!r} is not this machine: call 127.0.0.1 or localhost")


def status_of(code: int) -> int:
    """The HTTP status for a ClickHouse error code; 503 only where trying again helps, as clients do."""
    return _STATUS.get(code, 500)


def content_type_of(output_format: str) -> str:
    """What a browser or a tool should take the body for."""
    if output_format.startswith("Pretty"):
        return "text/plain; charset=UTF-8"
    return _CONTENT_TYPES.get(output_format, "application/octet-stream")


def error_text(error: Refused) -> str:
    """A refusal in the words ClickHouse would use; clients take code and name from it."""
    return f"Code: {error.code}. DB::Exception: {error.message}. ({error.name})"


def exception_block(tag: str, text: str) -> bytes:
    """What ends a body that had begun when the query failed; a client knows `tag` from the headers."""
    message = text + "\n"
    return f"\r\n__exception__\r\n{tag}\r\n{message}{len(message.encode())} {tag}\r\n__exception__\r\n".encode()

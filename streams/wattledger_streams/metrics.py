"""Self-metrics of the workers for Prometheus, declared once. Base units, `_total` for counters."""

from prometheus_client import Counter, Gauge, start_http_server

LAG_RECORDS = Gauge(
    "wattledger_lag_records", "Records of an input partition not yet acknowledged", ["topic", "partition"]
)
RECORDS = Counter("wattledger_records_total", "Records read", ["processor", "topic"])
DEAD_LETTERS = Counter("wattledger_dead_letters_total", "Records put aside", ["processor", "reason_code"])
LATE_REVISIONS = Counter("wattledger_late_revisions_total", "Revisions that came after what they change was settled")
CORRECTIONS = Counter("wattledger_corrections_total", "Rows appended as reversal or correction", ["entry"])
ROWS = Counter("wattledger_rows_total", "Rows written", ["table"])
WHOLE = Counter("wattledger_whole_records_total", "Records that ClickHouse decoded, not the sink")
WHOLE_REFUSED = Counter(
    "wattledger_whole_refused_total", "Takes whose records ClickHouse did not decode, so that the sink did"
)
STALE_SOURCES = Gauge("wattledger_stale_sources", "Sources that the newest mark names as stale", ["partition"])
SETTLED_S = Gauge(
    "wattledger_settled_timestamp_seconds", "Event time up to which a partition is settled", ["partition"]
)
RETRIES = Counter("wattledger_not_available_total", "Waits for a broker or ClickHouse that did not answer", ["what"])
LOST_RECORDS = Counter(
    "wattledger_lost_records_total", "Records that retention deleted before they were read", ["topic", "partition"]
)
UNCORRECTED_BATCHES = Counter(
    "wattledger_uncorrected_batches_total", "Batches that a late revision changes and that are no longer kept"
)
GUARD_WAIT_S = Gauge(
    "wattledger_guard_wait_seconds",
    "How long the worker's offsets are not committed (commit), or records that are there do not arrive (fetch)",
    ["processor", "kind"],
)
VIEWS_REFRESHED_S = Gauge("wattledger_views_refreshed_event_timestamp_seconds", "Event time of the last view refresh")


def serve_metrics(port: int) -> None:
    """Serve on loopback."""
    start_http_server(port, addr="127.0.0.1")

"""The agent's own metrics, each declared once."""

from prometheus_client import Counter, Gauge

PUBLISHED = Counter("wattledger_agent_published_total", "Records that the broker has", ["topic"])
NOT_DELIVERED = Counter(
    "wattledger_agent_not_delivered_total", "Delivery reports with an error; the record stays", ["topic"]
)
BROKER_FAILURES = Counter(
    "wattledger_agent_broker_failures_total", "Times that sending had to wait and start again from the log"
)
SET_ASIDE = Counter("wattledger_agent_set_aside_total", "Records that can't be published, kept aside", ["reason"])
WAL_BYTES = Gauge("wattledger_agent_wal_bytes", "Bytes of records not yet delivered")
WAL_RECORDS = Gauge("wattledger_agent_wal_records", "Records not yet delivered")
WAL_DROPPED = Counter("wattledger_agent_wal_dropped_total", "Records dropped to make room", ["topic", "reason"])
WAL_THINNED = Counter("wattledger_agent_wal_thinned_total", "Sample records cut down to their first and last tick")
WAL_FILES_PUT_ASIDE = Counter("wattledger_agent_wal_files_put_aside_total", "Corrupt log files kept aside")
WAL_NOT_TAKING = Gauge("wattledger_agent_wal_not_taking", "1 while the log takes no records: full, or a disk error")
SOURCE_FAILURES = Counter("wattledger_agent_source_failures_total", "Probes and watchers that failed", ["source"])
LAST_TICK = Gauge("wattledger_agent_last_tick_seconds", "Event time of the last tick written, s since the epoch")
STALE_SOURCES = Gauge("wattledger_agent_stale_sources", "Sources that the last tick did not wait for")

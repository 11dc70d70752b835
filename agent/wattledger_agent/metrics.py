"""The agent's own metrics, each declared once."""

from prometheus_client import Counter, Gauge, Summary

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
PROBE_UP = Gauge("wattledger_agent_probe_up", "1 while the probe's library is open", ["probe"])
PROBE_ABSENT = Gauge("wattledger_agent_probe_absent", "1: its hardware or library is not on this machine", ["probe"])
PROBE_SECONDS = Summary("wattledger_agent_probe_read_seconds", "Time that reading all devices once took", ["probe"])
PROBE_LAST_SUCCESS = Gauge(
    "wattledger_agent_probe_last_success_timestamp_seconds", "When the probe last read, s since the epoch", ["probe"]
)
PROBE_TIMEOUTS = Counter("wattledger_agent_probe_timeouts_total", "Ticks at which the probe did not answer", ["probe"])
PROBE_FAILURES = Counter(
    "wattledger_agent_probe_failures_total", "Times that the probe had to give up", ["probe", "how"]
)
DEVICES = Gauge("wattledger_agent_devices", "Devices by state: ok, lost, unread", ["state"])
TICKS = Counter("wattledger_agent_ticks_total", "Ticks noted in the log")
TICKS_SKIPPED = Counter(
    "wattledger_agent_ticks_skipped_total", "Ticks without a stamp or not taken in time", ["reason"]
)
TICKS_THINNED = Counter("wattledger_agent_ticks_thinned_total", "Ticks given up while the log took nothing")
LAST_SUCCESS = Gauge(
    "wattledger_agent_last_success_timestamp_seconds", "Event time of the last tick in the log, s since the epoch"
)
BATCHES = Counter("wattledger_agent_batches_total", "Sample records put in the log")
CLOCK_STEPS = Counter("wattledger_agent_clock_steps_total", "Times that the wall clock was set", ["direction"])
IDLE_FLOOR_RAISED = Gauge(
    "wattledger_agent_idle_floor_raised",
    "1: idle power is far above what it was before; does this agent hold it awake?",
    ["device"],
)
BUILD_INFO = Gauge("wattledger_agent_build_info", "1, with the version", ["version"])
WAITING_RUNS = Gauge("wattledger_agent_waiting_runs", "Runs not yet said, for a device of theirs is not there (yet)")
WATCHER_UP = Gauge("wattledger_agent_watcher_up", "1 while the source answers", ["watcher"])
WATCHER_LAST_SUCCESS = Gauge(
    "wattledger_agent_watcher_last_success_timestamp_seconds",
    "When the source last answered, s since the epoch",
    ["watcher"],
)
JOB_EVENTS = Counter("wattledger_agent_job_events_total", "Job events put in the log", ["source", "kind"])
FINDINGS = Counter("wattledger_agent_findings_total", "Things that a watcher could not take", ["source", "reason"])
LAST_TICK = Gauge("wattledger_agent_last_tick_seconds", "Event time of the last tick written, s since the epoch")
STALE_SOURCES = Gauge("wattledger_agent_stale_sources", "Sources that the last tick did not wait for")

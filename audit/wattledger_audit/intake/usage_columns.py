"""What the columns of a usage table are called: the canonical names first, then what people call them elsewhere."""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from wattledger_audit.intake.column_names import Columns, bare_name, find_columns
from wattledger_audit.intake.visible_devices import NAMES as VISIBLE_NAMES

_SPANS = ("elapsed", "duration", "runtime", "run_time")
_UNIT_NAMES = {
    "s": ("s", "sec", "secs", "seconds"), "min": ("min", "mins", "minutes"), "h": ("h", "hr", "hrs", "hours"),
    "ms": ("ms", "milliseconds"),
}  # fmt: skip
_DURATION_NAMES = {
    unit: (*(f"{span}_{name}" for name in names for span in _SPANS), *(("hours",) if unit == "h" else ()))
    for unit, names in _UNIT_NAMES.items()
}
DURATIONS = tuple(f"duration_{unit}" for unit in _UNIT_NAMES)
"""Meanings of columns that give a duration in a unit of their own; `duration` is a column that names none."""
_BASE_NAMES: dict[str, tuple[str, ...]] = {
    "job": ("job_id", "job", "run_id", "workload_id", "workload", "task_id", "instance_id", "vm_id", "lease_id", "pod",
            "rental_id", "deployment_id", "session_id", "container_id", "job_name", "workload_name", "pod_name",
            "instance_name", "vm_name", "run_name", "instance", "vm", "deployment"),
    "attempt": ("attempt", "attempt_no", "attempt_id", "retry", "retries", "restarts", "restart_count"),
    "tenant": ("tenant", "tenant_id", "tenant_name", "customer", "customer_id", "customer_name", "account",
               "account_id", "account_name", "client", "client_id", "organisation", "organization", "org", "org_id",
               "org_name", "organisation_name", "organization_name", "company", "company_name", "renter", "renter_id",
               "namespace", "team", "workspace"),
    "project": ("project", "project_id", "project_name", "cost_center", "cost_centre"),
    "node": ("node", "nodes", "node_name", "hostname", "host", "hosts", "node_list", "server", "machine", "node_id",
             "host_name", "hypervisor", "compute_node", "worker"),
    "device": ("device", "device_id", "devices", "gpu_uuid", "gpu_id", "gpu_index", "device_uuid", "uuid", "gpu",
               "gpu_ids"),
    "visible": VISIBLE_NAMES,
    "gpu_model": ("gpu_model", "gpu_type", "gpu_name", "accelerator", "accelerator_type", "device_model", "card",
                  "gpu_product", "gpu_sku"),
    "gpus": ("gpus", "gpu_count", "num_gpus", "n_gpus", "gpu_num", "number_of_gpus", "no_of_gpus", "device_count",
             "gpus_allocated", "allocated_gpus", "gpu_quantity", "requested_gpus", "gpus_requested", "gpu_request",
             "gpu_requests", "gpu_compute_request", "allocated_gpu", "gpu_allocation", "gpus_used"),
    "gpu_hours": ("gpu_hours", "gpu_h", "gpu_hrs", "gpu_hour"),
    "share_num": ("share_num", "share_numerator"),
    "share_den": ("share_den", "share_denominator"),
    "share": ("share", "gpu_share", "gpu_fraction", "fraction", "share_of_gpu", "gpu_percent"),
    "profile": ("profile", "mig_profile", "mig", "mig_type", "gpu_profile"),
    "state": ("state", "status", "job_state", "outcome", "end_state", "phase"),
    "tokens": ("tokens", "token_count", "total_tokens", "tokens_total", "n_tokens", "num_tokens", "tokens_processed"),
    "cluster": ("cluster", "cluster_name", "cluster_id"),
    "partition": ("partition", "queue", "node_pool", "pool"),
    "plan": ("plan", "billing_plan", "pricing_plan", "pricing_model", "purchase_option", "capacity_type", "market"),
    "model": ("model", "model_tag", "model_name", "ml_model"),
    "user": ("user", "user_id", "user_name", "owner", "submitted_by", "username", "email", "user_email"),
    "exclusive": ("exclusive", "is_exclusive", "whole_node", "node_exclusive"),
    "cpus": ("cpus", "cpu", "cpu_count", "num_cpus", "n_cpus", "ncpus", "vcpus", "cores", "cpu_cores"),
    "memory": ("mem", "memory", "mem_bytes", "memory_bytes", "ram", "ram_bytes"),
    "memory_gb": ("mem_gb", "memory_gb", "ram_gb"),
    "memory_gib": ("mem_gib", "memory_gib", "ram_gib"),
    "memory_mb": ("mem_mb", "memory_mb", "ram_mb"),
    "memory_mib": ("mem_mib", "memory_mib", "ram_mib"),
    "sku": ("sku", "sku_id", "product", "product_id", "instance_type", "flavor", "flavour"),
    "suspended": ("suspended", "suspended_s", "suspended_seconds", "suspended_time", "paused", "paused_s"),
    **{f"duration_{unit}": names for unit, names in _DURATION_NAMES.items()},
    "duration": _SPANS,
    "limit": ("limit", "limit_s", "time_limit", "time_limit_s", "walltime_limit", "walltime"),
    "waits_for": ("waits_for", "wait_reason", "pending_reason", "reason"),
}  # fmt: skip
_TIME_NAMES: dict[str, tuple[str, ...]] = {
    "submit": ("submit", "submit_time", "submitted", "submitted_at", "submission_time", "created_at", "queued_at",
               "creation_time", "created", "requested_at"),
    "eligible": ("eligible", "eligible_time", "eligible_at"),
    "start": ("start", "start_time", "started", "started_at", "start_at", "start_timestamp", "start_ts", "start_date",
              "begin", "begin_time", "launched_at", "launch_time", "provisioned_at", "allocated_at", "start_datetime",
              "started_time"),
    "end": ("end", "end_time", "ended", "ended_at", "end_at", "finish", "finished", "finished_at", "finish_time",
            "end_timestamp", "end_ts", "end_date", "stop", "stopped_at", "stop_time", "completed_at", "terminated_at",
            "completion_time", "completed", "termination_time", "terminated", "stopped", "released_at", "deleted_at",
            "end_datetime", "finished_time"),
}  # fmt: skip
TIMES = tuple(_TIME_NAMES)
_CLOCKS = ("utc", "ms", "us", "epoch", "epoch_s", "epoch_ms", "unix", "unix_ms", "iso")
_IN_UTC = {
    meaning: tuple(f"{name}_{clock}" for clock in _CLOCKS for name in names) for meaning, names in _TIME_NAMES.items()
}
NAMES: dict[str, tuple[str, ...]] = {
    **{meaning: (*names, *_IN_UTC[meaning]) for meaning, names in _TIME_NAMES.items()},
    **_BASE_NAMES,
}
"""Meaning -> names, the canonical one first. Times come first, so that `end` is never taken for something else."""

_EXTRA = frozenset(
    {"share", "profile", "sku", "suspended", "duration", "limit", "waits_for", "gpu_hours", "visible", *DURATIONS}
)
_CANONICAL = frozenset(bare_name(NAMES[meaning][0]) for meaning in (*TIMES, *_BASE_NAMES) if meaning not in _EXTRA)
_OTHERS = frozenset(
    {"alloctres", "reqtres", "jobidraw", "elapsedraw", "nodelist", "nnodes", "cputimeraw", "maxrss", "billedcost",
     "effectivecost", "invoiceid", "amount", "unitprice", "chargecategory", "reservationid"}
)  # fmt: skip
"""Columns of sacct dumps, bills and reservations, which have importers of their own."""


def usage_columns(headers: Sequence[str]) -> Columns:
    """Where the columns of a usage table are."""
    return find_columns(headers, NAMES)


def is_usage_header(headers: Sequence[str]) -> bool:
    """A job, a start, an end (or a duration), and somebody or somewhere it ran for."""
    columns = usage_columns(headers)
    return (
        columns.has("job")
        and columns.has("start")
        and any(columns.has(meaning) for meaning in ("end", "duration", *DURATIONS))
        and any(columns.has(meaning) for meaning in ("tenant", "project", "user", "node"))
    )


def names_a_holder(headers: Sequence[str]) -> bool:
    """Whether a column says whose a row is."""
    columns = usage_columns(headers)
    return any(columns.has(meaning) for meaning in ("tenant", "project", "user"))


def canonical_share(headers: Sequence[str]) -> tuple[int, int]:
    """How many headers carry a canonical usage name, and of how many that are not empty."""
    names = [bare_name(header) for header in headers if header]
    return sum(name in _CANONICAL for name in names), len(names)


def belongs_to_others(headers: Sequence[str]) -> bool:
    """Whether a header has columns that only sacct dumps, bills or reservations have."""
    return any(bare_name(header) in _OTHERS for header in headers)


def zones(columns: Columns) -> dict[str, ZoneInfo | None]:
    """What the names of the time columns say of their zone (`start_utc`)."""
    return {
        meaning: ZoneInfo("UTC") if bare_name(columns.title[meaning]).endswith("utc") else None for meaning in TIMES
    }

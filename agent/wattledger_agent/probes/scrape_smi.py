"""nvidia_gpu_exporter's names (utkuozdemir/nvidia_gpu_exporter, docs/METRICS.md): metrics in base units, and labels.

Its UUIDs are without `GPU-`; everything but the UUID stands on one info series a device.
"""

from wattledger_agent.probes.scrape_metric import (
    ACTIVITY,
    BUSY,
    COLLECTED,
    COLLECTED_AT,
    ENERGY,
    INDEX,
    INFO,
    LIMIT,
    MAX_LIMIT,
    MEMORY,
    MEMORY_TOTAL,
    MIG_INFO,
    MIG_MODE,
    POWER,
    PROCESS,
    PROCESS_MEMORY,
    PROCESSES,
    PROCESSES_COLLECTED,
    TEMPERATURE,
    THROTTLE,
    Metric,
)
from wattledger_agent.probes.scrape_series import Series, label, number, pci_address, uuid_name

NAME = "nvidia_gpu_exporter"
PREFIX = "nvidia_smi_"
UTILISATION = frozenset({"nvidia_smi_utilization_gpu_ratio"})
METRICS = (
    Metric("nvidia_smi_power_draw_watts", POWER, "W", 4),
    Metric("nvidia_smi_power_draw_average_watts", POWER, "W", 5),
    Metric("nvidia_smi_power_draw_instant_watts", POWER, "W", 6),
    Metric("nvidia_smi_energy_joules_total", ENERGY, "J", 4),
    Metric("nvidia_smi_utilization_gpu_ratio", BUSY, "ratio", 4, of_part=True),
    Metric("nvidia_smi_memory_used_bytes", MEMORY, "B", 4),
    Metric("nvidia_smi_memory_total_bytes", MEMORY_TOTAL, "B", 4),
    Metric("nvidia_smi_temperature_gpu", TEMPERATURE, "C", 4),
    Metric("nvidia_smi_clocks_event_reasons_active", THROTTLE, "", 4),
    Metric("nvidia_smi_clocks_throttle_reasons_active", THROTTLE, "", 5),
    Metric("nvidia_smi_enforced_power_limit_watts", LIMIT, "W", 4),
    Metric("nvidia_smi_power_limit_watts", LIMIT, "W", 5),
    Metric("nvidia_smi_power_max_limit_watts", MAX_LIMIT, "W", 4),
    Metric("nvidia_smi_mig_mode_current", MIG_MODE, "", 4),
    Metric("nvidia_smi_index", INDEX, "", 4),
    Metric("nvidia_smi_gpu_info", INFO, "", 4),
    Metric("nvidia_smi_mig_info", MIG_INFO, "", 4, of_part=True),
    Metric("nvidia_smi_mig_graphics_activity_ratio", ACTIVITY, "ratio", 4, of_part=True),
    Metric("nvidia_smi_mig_memory_total_bytes", MEMORY_TOTAL, "B", 4, of_part=True),
    Metric("nvidia_smi_compute_apps", PROCESSES, "", 4),
    Metric("nvidia_smi_compute_app_info", PROCESS, "", 4),
    Metric("nvidia_smi_compute_app_used_memory_bytes", PROCESS_MEMORY, "B", 4),
    Metric("nvidia_smi_last_collect_success", COLLECTED, "", 4),
    Metric("nvidia_smi_last_collect_success_timestamp_seconds", COLLECTED_AT, "s", 4),
    Metric("nvidia_smi_compute_apps_last_collect_success", PROCESSES_COLLECTED, "", 4),
)
_BY_NAME = {metric.name: metric for metric in METRICS}


def learn(name: str, labels: dict[str, str]) -> Series | None:
    """What a series is; None for a metric that is not wanted. Process names are not looked at."""
    metric = _BY_NAME.get(name)
    if metric is None:
        return None
    written = label(labels, "uuid", "UUID")
    named = uuid_name(written)
    return Series(
        metric,
        named.device or written,
        named.device,
        label(labels, "gpu_instance_id"),
        label(labels, "profile"),
        label(labels, "mig_uuid"),
        label(labels, "compute_instance_id"),
        number(label(labels, "index")),
        pci_address(label(labels, "pci_bus_id")),
        label(labels, "name"),
        label(labels, "driver_version"),
        label(labels, "hostname", "Hostname"),
        pid=number(label(labels, "pid")),
    )

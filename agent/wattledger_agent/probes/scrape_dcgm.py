"""dcgm-exporter's names: metrics by DCGM field, of both generations, and its labels.

Sources: DCGM's `dcgm_fields.h` and dcgm-exporter's `default-counters.csv`. From exporter 4.9 on the default fields have
new names and base units (joules, ratios, bytes) and the labels `hostname` and DCGM_FI_SYSTEM_DRIVER_VERSION.
"""

from wattledger_agent.probes.scrape_metric import (
    BUSY,
    ENERGY,
    INDEX,
    LIMIT,
    MAX_LIMIT,
    MEMORY,
    MEMORY_TOTAL,
    MIG_MODE,
    MIG_SLICES,
    MINOR,
    POWER,
    TEMPERATURE,
    THROTTLE,
    XID,
    Metric,
)
from wattledger_agent.probes.scrape_series import Series, label, number, pci_address, uuid_name

NAME = "dcgm-exporter"
PREFIX = "DCGM_FI_"
UTILISATION = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"})
"""Not supported on a device in MIG mode: 0 or nothing under full load (dcgm-exporter#50, #216)."""
FALLEN_OFF_THE_BUS = 79
"""The XID that says so."""
METRICS = (
    Metric("DCGM_FI_DEV_POWER_USAGE", POWER, "W", 0),
    Metric("DCGM_FI_DEV_BOARD_POWER_WATTS", POWER, "W", 1),
    Metric("DCGM_FI_DEV_POWER_USAGE_INSTANT", POWER, "W", 2),
    Metric("DCGM_FI_DEV_BOARD_POWER_RAW_WATTS", POWER, "W", 3),
    Metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", ENERGY, "mJ", 0),
    Metric("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", ENERGY, "J", 1),
    Metric("DCGM_FI_DEV_GPU_UTIL", BUSY, "%", 0, of_part=True),
    Metric("DCGM_FI_DEV_GPU_UTIL_RATIO", BUSY, "ratio", 1, of_part=True),
    Metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", BUSY, "ratio", 2, of_part=True),
    Metric("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", BUSY, "ratio", 3, of_part=True),
    Metric("DCGM_FI_DEV_FB_USED", MEMORY, "MiB", 1, of_part=True),
    Metric("DCGM_FI_DEV_FB_USED_BYTES", MEMORY, "B", 0, of_part=True),
    Metric("DCGM_FI_DEV_FB_TOTAL", MEMORY_TOTAL, "MiB", 1, of_part=True),
    Metric("DCGM_FI_DEV_FB_CAPACITY_BYTES", MEMORY_TOTAL, "B", 0, of_part=True),
    Metric("DCGM_FI_DEV_GPU_TEMP", TEMPERATURE, "C", 0),
    Metric("DCGM_FI_DEV_GPU_TEMP_CELSIUS", TEMPERATURE, "C", 1),
    Metric("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", THROTTLE, "", 0),
    Metric("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", THROTTLE, "", 1),
    Metric("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", LIMIT, "W", 0),
    Metric("DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", LIMIT, "W", 1),
    Metric("DCGM_FI_DEV_POWER_MGMT_LIMIT", LIMIT, "W", 2),
    Metric("DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", LIMIT, "W", 3),
    Metric("DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", MAX_LIMIT, "W", 0),
    Metric("DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS", MAX_LIMIT, "W", 1),
    Metric("DCGM_FI_DEV_MIG_MODE", MIG_MODE, "", 0),
    Metric("DCGM_FI_DEV_MIG_MAX_SLICES", MIG_SLICES, "", 0),
    Metric("DCGM_FI_DEV_MINOR_NUMBER", MINOR, "", 0),
    Metric("DCGM_FI_DEV_GPU_MINOR_NUMBER", MINOR, "", 1),
    Metric("DCGM_FI_DEV_NVML_INDEX", INDEX, "", 0),
    Metric("DCGM_FI_DEV_XID_ERRORS", XID, "", 0),
    Metric("DCGM_FI_DEV_XID_ERROR", XID, "", 1),
)
_BY_NAME = {metric.name: metric for metric in METRICS}


def learn(name: str, labels: dict[str, str]) -> Series | None:
    """What a series is; None for a metric that says nothing about power, energy, use or identity.

    The label `device` (`nvidia0`) is the exporter's own number of the GPU in another dress, not the minor number.
    """
    metric = _BY_NAME.get(name) or _BY_NAME.get(name.removesuffix("_total"))
    if metric is None:
        return None
    named = uuid_name(label(labels, "UUID", "uuid", "gpu_uuid", "GPU_UUID"))
    pci, index = pci_address(label(labels, "pci_bus_id", "DCGM_FI_DEV_PCI_BUSID")), number(label(labels, "gpu"))
    pod = label(labels, "pod", "pod_name"), label(labels, "namespace"), label(labels, "container")
    return Series(
        metric,
        named.device or pci or f"gpu {index}",
        named.device,
        label(labels, "GPU_I_ID") or named.instance,
        label(labels, "GPU_I_PROFILE"),
        named.mig_uuid,
        named.compute,
        index,
        pci,
        label(labels, "modelName", "model_name"),
        label(labels, "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"),
        label(labels, "Hostname", "hostname"),
        "/".join(pod) if any(pod) else label(labels, "hpc_job"),
        named.is_replica or "vgpu" in labels,
    )

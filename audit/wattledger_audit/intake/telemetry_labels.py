"""What a series' labels say: which physical device, on which node, which part of it. Owns the exporters' spellings."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from wattledger_audit.intake.device_name import parse_device
from wattledger_audit.intake.mig_profile import mig_share
from wattledger_audit.intake.telemetry_metric import AMD, AMD_SMI, DCGM, NVIDIA_SMI, OMNISTAT, Metric

_UUID_LABELS = ("UUID", "uuid", "gpu_uuid", "GPU_UUID", "exported_UUID", "exported_uuid")
_NODE_LABELS = (
    "Hostname", "hostname", "exported_hostname", "exported_Hostname", "node", "exported_node", "nodename",
    "kubernetes_node", "host",
)  # fmt: skip
_MODEL_LABELS = ("modelName", "model_name", "card_model", "productname", "name", "card_series")
_DRIVER_LABELS = ("DCGM_FI_DRIVER_VERSION", "driver_version", "driver")
_INDEX_LABELS = {DCGM: ("gpu",), NVIDIA_SMI: ("index",), AMD: ("gpu_id",), OMNISTAT: ("card",)}
_PORT = re.compile(r":\d+$")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_NOTHING = re.compile(r"(?:|n/?a|none|unknown|null|[0x-]+|[f-]+)", re.IGNORECASE)
"""What stands where there is no serial number or UUID; a card that passes all checks has others."""


class Seen(NamedTuple):
    """What one series says. `key` is the same for all series of a physical device; empty names are not said, nor is
    a `gpu_index` of -1. `node_rank` is lower for a label that surely names the node.

    `part` is the number of a MIG instance or of an AMD partition, -1 for the whole device; `slices` and `of` are a
    MIG instance's share (0: no instance)."""

    key: tuple[str, ...]
    device: str
    gpu_index: int
    node: str
    node_rank: int
    gpu_model: str
    driver: str
    part: int
    slices: int
    of: int


def is_placeholder(text: str) -> bool:
    """Whether a serial number or a UUID is none (empty, N/A, all zeros): it then tells no two devices apart."""
    return _NOTHING.fullmatch(text.strip().lower().removeprefix("gpu-")) is not None


@lru_cache(maxsize=4096)
def is_worldwide(device: str) -> bool:
    """Whether a device's name is its own wherever it is (a UUID), and no index that each node has."""
    return (device.startswith("GPU-") or _UUID.fullmatch(device) is not None) and not is_placeholder(device)


def seen_in(labels: Mapping[str, str], name: str, metric: Metric) -> Seen:
    """Reads a series' labels. `name` is the metric's name as written, `metric` what it means."""
    node, node_rank = _node(labels)
    index = _index(labels, name, metric)
    model, driver = _first(labels, _MODEL_LABELS), _first(labels, _DRIVER_LABELS)
    if metric.exporter == AMD:
        return _amd(labels, index, node, node_rank, model, driver)
    uuid = parse_device(_first(labels, _UUID_LABELS)).device
    if uuid and metric.exporter == NVIDIA_SMI and not uuid.upper().startswith(("GPU-", "MIG-")):
        uuid = "GPU-" + uuid  # this exporter cuts NVIDIA's prefix off
    key = ("uuid", uuid.lower()) if is_worldwide(uuid) else ("at", node, uuid or str(index))
    instance = labels.get("GPU_I_ID", "")
    profile = labels.get("GPU_I_PROFILE", "")
    if not instance and not profile:
        return Seen(key, uuid, index, node, node_rank, model, driver, -1, 0, 0)
    share = mig_share(profile, model)
    slices, of = (share.slices, share.of) if share else (1, 7)
    part = int(instance) if instance.isdecimal() else 0
    return Seen(key, uuid, index, node, node_rank, model, driver, part, slices, of)


def _amd(labels: Mapping[str, str], index: int, node: str, node_rank: int, model: str, driver: str) -> Seen:
    """Partitions of a socket are counted on as devices: they share the serial number, or stand in a row from the
    primary one, which has number 0."""
    text = labels.get("gpu_partition_id") or labels.get("partition_id") or ""
    mode = labels.get("gpu_compute_partition_type", "").lower()
    divided = text.isdecimal() and int(text) < 64 and mode not in ("spx", "none")
    part = int(text) if divided else -1
    first = max(index - part, 0) if part > 0 and index >= 0 else index
    serial, uuid = labels.get("serial_number", "").strip(), _first(labels, _UUID_LABELS)
    key: tuple[str, ...]
    if not is_placeholder(serial):
        key, device = ("serial", serial), serial
    elif part < 0 and is_worldwide(uuid):
        key, device = ("uuid", uuid.lower()), uuid
    else:
        key, device = ("at", node, str(first)), ""
    return Seen(key, device, first, node, node_rank, model, driver, part, 0, 0)


def _node(labels: Mapping[str, str]) -> tuple[str, int]:
    """A node's name and how sure it is. A host name that is the exporter's own pod is none."""
    pods = {labels.get("pod", ""), labels.get("kubernetes_pod_name", "")}
    for rank, label in enumerate(_NODE_LABELS):
        value = labels.get(label, "")
        if value and not (rank < 4 and value in pods):
            return value, rank
    instance = _PORT.sub("", labels.get("exported_instance") or labels.get("instance", "")).strip("[]")
    if instance and instance not in _LOCAL:
        return instance, len(_NODE_LABELS)
    return "", len(_NODE_LABELS) + 1


def _index(labels: Mapping[str, str], name: str, metric: Metric) -> int:
    wanted = (name.removeprefix("amd_"),) if metric.exporter == AMD_SMI else _INDEX_LABELS[metric.exporter]
    text = _first(labels, wanted) or labels.get("device", "").removeprefix("nvidia")
    return int(text) if text.isdecimal() else -1


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")

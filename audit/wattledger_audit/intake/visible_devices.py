"""What an environment such as CUDA_VISIBLE_DEVICES says that a job had: how many GPUs, and which only by UUID.

An index there counts inside the job's own view (or in the driver's order), and is no GPU's index on the node: two jobs
of one node may both have 0. So indexes are counted and never matched.
"""

import re

NAMES = (
    "cuda_visible_devices", "nvidia_visible_devices", "rocr_visible_devices", "hip_visible_devices",
    "gpu_device_ordinal", "slurm_job_gpus", "slurm_step_gpus",
)  # fmt: skip
_SEPARATORS = re.compile(r"[;,\s]+")
_NOTHING = frozenset({"void", "nodevfiles", "-1"})


def visible_devices(text: str) -> tuple[str, int | None]:
    """The devices by UUID (empty where it lists indexes), and how many there are; None: it does not tell (`all`)."""
    if text.lower() in _NOTHING:
        return "", 0
    parts = [part for part in _SEPARATORS.split(text) if part]
    if parts and all(part.startswith(("GPU-", "MIG-")) for part in parts):
        return ",".join(parts), len(parts)
    return "", len(parts) if parts and all(part.isdecimal() for part in parts) else None

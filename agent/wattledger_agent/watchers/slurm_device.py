"""From SLURM's names of devices to references: GRES positions, UUIDs, and numbers that nothing can tell."""

import re
from collections.abc import Sequence
from dataclasses import replace

from wattledger_agent.watchers.run import (
    BY_INDEX,
    BY_MIG_UUID,
    BY_MINOR,
    BY_UNKNOWN,
    BY_UUID,
    DeviceRef,
    Held,
)
from wattledger_agent.watchers.slurm_gres import GresItem

_MIG_KIND = re.compile(r"(?:^|[^a-z0-9])(\d+g[._]\d+gb(?:[.+_]me)?)", re.IGNORECASE)
_CARD_FILE = re.compile(r"/dev/(?:nvidia|dri/renderD)(\d+)")
_MIG_FILE = re.compile(r"/dev/nvidia-caps/(nvidia-cap\d+)")
_NO_DEVICES = frozenset({"", "nodevfiles", "void", "none", "-1", "(null)", "n/a"})
_SHARINGS = {"shard": "time_sliced", "mps": "mps"}


def mig_profile(kind: str) -> str:
    """The MIG profile in a GRES type (`a100_3g.20gb` -> `3g.20gb`), empty for a type of whole cards."""
    found = _MIG_KIND.search(kind)
    return found.group(1).lower().replace("_", ".", 1) if found else ""


def named_device(word: str) -> DeviceRef | None:
    """A device that is named by UUID; None for anything else."""
    if word.startswith("MIG-") or (word.startswith("GPU-") and "/" in word):
        return DeviceRef(BY_MIG_UUID, word)
    return DeviceRef(BY_UUID, word) if word.startswith("GPU-") else None


def visible_devices(text: str) -> tuple[DeviceRef, ...]:
    """What CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES names. A number there counts inside the job's own view, so
    two jobs of one node may both have 0: it is BY_UNKNOWN."""
    if text.strip().lower() in _NO_DEVICES:
        return ()
    words = [word for word in re.split(r"[,;\s]+", text.strip()) if word]
    return tuple(named_device(word) or DeviceRef(BY_UNKNOWN, word) for word in words)


def unknown_devices(count: int, kind: str) -> tuple[Held, ...]:
    """So many devices of which nothing says which they are."""
    return tuple(Held(DeviceRef(BY_UNKNOWN, f"gpu:{kind or 'any'}#{number}")) for number in range(count))


class GresNumbers:
    """What the numbers in `IDX` and SLURM_JOB_GPUS stand for: `minor` (device files in order of gres.conf are
    /dev/nvidia0, 1, 2 …), `index` (the driver's own), or the list of gres.conf's entries in order: a File=, the
    comma-separated MultipleFiles= of a MIG instance, or a UUID.

    SLURM_JOB_GPUS is the position too: newer releases print a device's index in its GRES list there, older ones the
    number at the end of its file name (source: SchedMD/slurm, src/plugins/gres/common/gres_common.c)."""

    def __init__(self, order: str | Sequence[str] = "minor") -> None:
        if isinstance(order, str) and order not in (BY_MINOR, BY_INDEX):
            raise ValueError(f"gres_index {order!r}: say minor, index, or a list of device files as in gres.conf")
        self._by = order if isinstance(order, str) else BY_MINOR
        self._files = None if isinstance(order, str) else tuple(order)

    def ref(self, position: int, kind: str = "") -> DeviceRef:
        """The device at a position. A MIG instance has no minor of a card: only a list tells which it is."""
        if self._files is not None:
            return self._in_list(position)
        if mig_profile(kind):
            return DeviceRef(BY_UNKNOWN, f"gres:{kind}#{position}")
        return DeviceRef(self._by, str(position))

    def _in_list(self, position: int) -> DeviceRef:
        files = self._files or ()
        if position >= len(files):
            return DeviceRef(BY_UNKNOWN, f"gres#{position}")
        for form in (_MIG_FILE, _CARD_FILE):
            found = [match.group(1) for file in files[position].split(",") if (match := form.fullmatch(file.strip()))]
            if found:
                return DeviceRef(BY_MINOR, found[-1])
        return named_device(files[position]) or DeviceRef(BY_UNKNOWN, files[position])


def held_of_gres(items: tuple[GresItem, ...], numbers: GresNumbers, shards: int | None) -> tuple[Held, ...]:
    """What a job's own GRES text says that it holds. `shards` is the capacity of one GPU where the node's view told.

    A count without positions stands for so many unknown devices; no count is ever guessed into positions."""
    held: list[Held] = []
    for item in items:
        if item.name in _SHARINGS:
            held.extend(_shared(item, numbers, shards))
        elif item.positions:
            held.extend(Held(numbers.ref(position, item.kind)) for position in item.positions)
        else:
            held.extend(unknown_devices(item.count, item.kind))
    return tuple(held)


def _shared(item: GresItem, numbers: GresNumbers, shards: int | None) -> list[Held]:
    """Parts of GPUs. Several positions without a breakdown: the units are spread evenly, so that they sum."""
    sharing = _SHARINGS[item.name]
    if item.parts is not None:
        return [
            Held(numbers.ref(position, item.kind), part[0], part[1], sharing)
            for position, part in enumerate(item.parts)
            if part is not None and part[0] > 0 and part[1] > 0
        ]
    if item.count == 0:
        return []
    positions = item.positions or ()
    refs = [numbers.ref(position, item.kind) for position in positions] or [DeviceRef(BY_UNKNOWN, item.name)]
    if shards is None or not positions:
        return [Held(ref, None, None, sharing) for ref in refs]
    return [Held(ref, item.count, shards * len(refs), sharing) for ref in refs]


def spread(held: tuple[Held, ...], cpus: int | None, memory_bytes: int | None) -> tuple[Held, ...]:
    """The CPUs and memory that the job took on the node, spread evenly over what it holds; the parts sum to it."""
    return tuple(
        replace(one, cpus=_share(cpus, place, len(held)), memory_bytes=_share(memory_bytes, place, len(held)))
        for place, one in enumerate(held)
    )


def _share(whole: int | None, place: int, of: int) -> int | None:
    return None if whole is None else whole * (place + 1) // of - whole * place // of

"""Which device of a node each claim stands on: the one it names, else the first that is free (a count, not a card).

Usage logs mostly say how many GPUs a job had, not which. The placement is the same whatever the order of the files.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from wattledger_core.sweep import NOBODY, PARTS_PER_US, Taking


class Claim(NamedTuple):
    """What one run holds of one node: `devices` of them, or the named one; cpus and memory are this node's part."""

    start_us: int
    end_us: int
    holder: int
    devices: int
    device: str
    share_num: int
    share_den: int
    exclusive: bool
    cpus: int | None
    memory_bytes: int | None


@dataclass(slots=True)
class _Device:
    """What stands on a device while claims are placed in order of their starts."""

    whole_until_us: int = 0
    shares: list[tuple[int, Fraction]] = field(default_factory=list)
    named: list[tuple[int, int]] = field(default_factory=list)

    def used(self, at_us: int) -> Fraction:
        if self.shares:
            self.shares = [(until_us, share) for until_us, share in self.shares if until_us > at_us]
        return sum((share for _, share in self.shares), Fraction(0))

    def free(self, start_us: int, end_us: int) -> bool:
        if self.whole_until_us > start_us or (self.shares and self.used(start_us) > 0):
            return False
        if not self.named:
            return True
        place = bisect_left(self.named, (end_us, 0))
        return place == 0 or self.named[place - 1][1] <= start_us


class DeviceNames:
    """Device names of one node, by index: the inventory's first, then new ones in order of appearance."""

    def __init__(self, listed: Sequence[str], gpus: int) -> None:
        self.names = [listed[k] if k < len(listed) else "" for k in range(max(gpus, len(listed)))]
        self._gpus = gpus
        self._index: dict[str, int] = {}

    def index(self, text: str) -> int:
        """The device of that name: an index, a listed name (or the unique start of one), else the next unnamed."""
        plain = text.split("::", 1)[0]
        found = self._index.get(plain)
        if found is None:
            found = self._index[plain] = self._find(plain)
        return found

    def knows(self, text: str) -> bool:
        """Whether the inventory lists a device of that name."""
        return any(name and name.casefold() == text.split("::", 1)[0].casefold() for name in self.names)

    def _find(self, text: str) -> int:
        if text.isdigit() and int(text) < len(self.names):
            return int(text)
        folded = text.casefold()
        near = [k for k, name in enumerate(self.names) if name and name.casefold().startswith(folded)]
        if len(near) == 1:
            return near[0]
        taken = set(self._index.values())
        for k, name in enumerate(self.names):
            if not name and k not in taken:
                self.names[k] = text
                return k
        self.names.append(text)
        return len(self.names) - 1

    @property
    def extra(self) -> int:
        """How many devices were named beyond those that the node has."""
        return len(self.names) - self._gpus


def place(claims: Sequence[Claim], names: DeviceNames, gpus: int) -> list[Taking]:
    """Takings of a node's claims. A claim that finds too few free devices shares those that are free first, and the
    sweep then shows the overlap. Claims of no device (CPU jobs) come back with the device NOBODY."""
    ordered = sorted(claims, key=lambda claim: (claim.start_us, claim.holder, claim.device))
    devices = [_Device() for _ in range(gpus)]
    takings: list[Taking] = []
    for claim in ordered:
        if claim.device and (not claim.device.startswith("MIG-") or names.knows(claim.device)):
            index = names.index(claim.device)
            while index >= len(devices):
                devices.append(_Device())
            devices[index].named.append((claim.start_us, claim.end_us))
            takings.append(_taking(claim, index, 0, 1, claim.device if claim.device.startswith("MIG-") else ""))
    for device in devices:
        device.named = _running_hull(device.named)
    instances: dict[str, int] = {}
    for claim in ordered:
        if claim.device.startswith("MIG-") and not names.knows(claim.device):
            # nothing tells which GPU the instance is part of: it stands on one by its share, and stays there
            name = claim.device.split("::", 1)[0]
            if name not in instances:
                instances[name] = next(iter(_choose(claim, devices)), NOBODY)
            elif instances[name] != NOBODY:
                share = Fraction(claim.share_num, claim.share_den)
                devices[instances[name]].shares.append((claim.end_us, share))
            takings.append(_taking(claim, instances[name], 0, 1, name))
        elif not claim.device:
            chosen = _choose(claim, devices) if claim.devices else [NOBODY]
            takings += [_taking(claim, index, place, len(chosen), "") for place, index in enumerate(chosen)]
    return takings


def _running_hull(named: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """By start, each with the latest end so far, so that one look tells whether any reaches into an interval."""
    hull: list[tuple[int, int]] = []
    latest_us = 0
    for start_us, end_us in sorted(named):
        latest_us = max(latest_us, end_us)
        hull.append((start_us, latest_us))
    return hull


def _taking(claim: Claim, index: int, place: int, of: int, instance: str) -> Taking:
    """The claim's hold of its `place`-th device of `of`, with that device's part of cpus and memory."""
    cpus = None if claim.cpus is None else part_of(claim.cpus, place, of)
    memory_bytes = None if claim.memory_bytes is None else part_of(claim.memory_bytes, place, of)
    return Taking(
        claim.start_us, claim.end_us, index, claim.holder, claim.share_num, claim.share_den, instance, claim.exclusive,
        cpus, memory_bytes,
    )  # fmt: skip


def part_of(whole: int, place: int, of: int) -> int:
    """The `place`-th of `of` parts that are as even as whole numbers can be, and sum to the whole."""
    return whole * (place + 1) // of - whole * place // of


def _choose(claim: Claim, devices: list[_Device]) -> list[int]:
    if not devices:
        return []
    if claim.share_num < claim.share_den:
        return _choose_shared(claim, devices)
    chosen = [k for k, device in enumerate(devices) if device.free(claim.start_us, claim.end_us)][: claim.devices]
    if len(chosen) < claim.devices:
        rest = sorted((device.whole_until_us, k) for k, device in enumerate(devices) if k not in chosen)
        chosen += [k for _, k in rest[: claim.devices - len(chosen)]]
    for k in chosen:
        devices[k].whole_until_us = max(devices[k].whole_until_us, claim.end_us)
    return chosen


def _choose_shared(claim: Claim, devices: list[_Device]) -> list[int]:
    share = Fraction(claim.share_num, claim.share_den)
    chosen = []
    for _ in range(claim.devices):
        open_ones = [
            (-used, k)
            for k, device in enumerate(devices)
            if device.whole_until_us <= claim.start_us and (used := device.used(claim.start_us)) + share <= 1
            and (used or device.free(claim.start_us, claim.end_us))
        ]  # fmt: skip
        if open_ones:
            k = min(open_ones)[1]
        else:
            k = min(range(len(devices)), key=lambda n: (devices[n].whole_until_us, devices[n].used(claim.start_us), n))
        devices[k].shares.append((claim.end_us, share))
        chosen.append(k)
    return chosen


def peak_devices(claims: Sequence[Claim]) -> int:
    """The most devices that were held at once: what a node must at least have. A share stands on one device only, so
    three of 4/7 need three."""
    least = _peak_parts(claims)
    if all(claim.share_num == claim.share_den for claim in claims):
        return least
    most = sum(claim.devices for claim in claims)
    return next((count for count in range(least, most) if _fit_on(claims, count)), max(most, least))


def _fit_on(claims: Sequence[Claim], count: int) -> bool:
    """Whether the claims stand on so many devices without two on one that is too small for both."""
    by_device: dict[int, list[Taking]] = {}
    for taking in place(claims, DeviceNames((), count), count):
        by_device.setdefault(taking.device, []).append(taking)
    return all(_peak_share(found) <= 1 for device, found in by_device.items() if device != NOBODY)


def _peak_share(takings: Sequence[Taking]) -> Fraction:
    changes: list[tuple[int, Fraction]] = []
    for taking in takings:
        share = Fraction(taking.share_num, taking.share_den)
        changes += [(taking.start_us, share), (taking.end_us, -share)]
    held = peak = Fraction(0)
    for _, share in sorted(changes):
        held += share
        peak = max(peak, held)
    return peak


def _peak_parts(claims: Sequence[Claim]) -> int:
    changes: list[tuple[int, int]] = []
    named: set[str] = set()
    for claim in claims:
        if claim.device and not claim.device.startswith("MIG-"):
            named.add(claim.device.split("::", 1)[0])
            continue
        parts = -(-claim.share_num * claim.devices * PARTS_PER_US // claim.share_den)
        changes.append((claim.start_us, parts))
        changes.append((claim.end_us, -parts))
    changes.sort()
    held = peak = 0
    for _, parts in changes:
        held += parts
        peak = max(peak, held)
    return -(-peak // PARTS_PER_US) + len(named)

"""Which AMD device is which: identity, the socket that partitions and dies share, who reports the socket's power."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wattledger_agent.probes.amd_library import AmdLibrary
from wattledger_agent.probes.amd_value import number, text

_BDF: Final = re.compile(r"^([0-9a-f]{1,8}):([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])$", re.IGNORECASE)
_TWO_DIES: Final = re.compile(r"\bMI250X?\b", re.IGNORECASE)
_TWO_DIE_IDS: Final = {"0x7408", "0x740c"}
"""PCI ids of MI250X and MI250: two dies with addresses of their own, whose power the first one reports."""
_PARTS: Final = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}
_MOST_PARTITIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Place:
    """One handle's device. `socket` is `domain:bus:device`, or that of the first die. `reports_power`: the socket's
    power and counter are read here."""

    handle: Any
    pci: str
    partition: int
    socket: str
    model: str
    two_dies: bool = False
    reports_power: bool = True

    @property
    def device(self) -> str:
        """The identity: serials and UUIDs are "N/A", zero or repeated on partitions and virtual functions."""
        return f"{self.pci}/{self.partition}"


def places(library: AmdLibrary, handles: Sequence[Any]) -> list[Place]:
    """The places of all handles that have a PCI address, in the library's order."""
    found = [place for handle in handles if (place := _place(library, handle)) is not None]
    unique: dict[str, Place] = {}
    for place in found:
        while place.device in unique:  # where the library numbers all partitions alike, their order tells them apart
            place = replace(place, partition=place.partition + 1)
        unique[place.device] = place
    return list(unique.values())


def _place(library: AmdLibrary, handle: Any) -> Place | None:
    matched = _BDF.match(text(library.ask("amdsmi_get_gpu_device_bdf", handle).value))
    if matched is None:
        return None
    domain, bus, device, function = (int(part, 16) for part in matched.groups())
    socket = f"{domain:04x}:{bus:02x}:{device:02x}"
    asic = library.ask("amdsmi_get_gpu_asic_info", handle).value
    facts = asic if isinstance(asic, dict) else {}
    model = text(facts.get("market_name"))
    return Place(
        handle,
        f"{socket}.{function:x}",
        _partition(library, handle, function),
        socket,
        model or text(facts.get("device_id")) or "AMD GPU",
        bool(_TWO_DIES.search(model)) or text(facts.get("device_id")).lower() in _TWO_DIE_IDS,
    )


def _partition(library: AmdLibrary, handle: Any, function: int) -> int:
    """The partition's number: the driver's own, else bits 31:28 of the PCI id, else the function (bits 2:0)."""
    kfd = library.ask("amdsmi_get_gpu_kfd_info", handle).value
    known = number(kfd.get("current_partition_id"), narrow=False) if isinstance(kfd, dict) else None
    if known is not None and 0 <= known < _MOST_PARTITIONS:
        return known
    pci_id = number(library.ask("amdsmi_get_gpu_bdf_id", handle).value, narrow=False)
    high = (pci_id >> 28) & 0xF if pci_id is not None else 0
    return high or function


def grouped(found: Sequence[Place], has_power: Callable[[Place], bool]) -> list[Place]:
    """The same places with the sockets of two-die cards joined and one reporter of power for each socket: the first
    partition that gives one, so that nothing counts a socket's power twice."""
    joined = _join_dies(sorted(found, key=lambda place: (place.pci, place.partition)), has_power)
    sockets: dict[str, list[Place]] = {}
    for place in joined:
        sockets.setdefault(place.socket, []).append(place)
    reporters = set()
    for members in sockets.values():
        first = next((place for place in members if len(members) > 1 and has_power(place)), members[0])
        reporters.add(first.device)
    return [
        replace(place, reports_power=place.device in reporters)
        for known in found
        for place in joined
        if place.device == known.device
    ]


def _join_dies(ordered: Sequence[Place], has_power: Callable[[Place], bool]) -> list[Place]:
    """A die without power right after one with power belongs to its card."""
    joined: list[Place] = []
    for place in ordered:
        before = joined[-1] if joined else None
        alone = before is not None and [one.socket for one in joined].count(before.socket) == 1
        pair = before is not None and alone and place.two_dies and before.two_dies
        if before is not None and pair and not has_power(place) and has_power(before):
            place = replace(place, socket=before.socket)
        joined.append(place)
    return joined


def partitions_of(mode: str, told: int | None, engines: int | None) -> int | None:
    """How many partitions a socket has: by its compute mode (CPX: one for each of `engines`, its XCDs), else as
    gpu_metrics tells, whose number reads 65535 from table 1.9 on. None: not known."""
    if mode in _PARTS:
        return _PARTS[mode]
    if mode == "CPX" and engines is not None and 0 < engines <= _MOST_PARTITIONS:
        return engines
    return told if told is not None and 0 < told <= _MOST_PARTITIONS else None

"""The scrape probe: reads the devices of a site that already runs dcgm-exporter or nvidia_gpu_exporter off its page."""

from collections.abc import Callable
from dataclasses import replace

from wattledger_agent.clock import Clock, SystemClock
from wattledger_agent.probes import scrape_dcgm, scrape_smi
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import ProbeTick
from wattledger_agent.probes.scrape_facts import DeviceFacts, Facts, gather
from wattledger_agent.probes.scrape_fetch import HttpFetch
from wattledger_agent.probes.scrape_series import Series
from wattledger_agent.probes.scrape_text import SampleReader
from wattledger_agent.probes.scrape_track import DeviceTrack, ScrapeTime

_SEEN_OFTEN, _STALE_SHARE = 20, 2
"""From so many scrapes on it is said that half or more of them brought nothing new."""


class ScrapeProbe:
    """Scrapes `url` once a read. `fetch` gives the page instead (it may raise OSError or ProbeUnavailable). `node`
    picks this machine where a page has several; `boot` goes into the names of counter epochs.

    What a page leaves out is unknown, not zero and not gone: devices stay known over `close` and `open`, as do their
    counters.
    """

    def __init__(
        self,
        url: str,
        fetch: Callable[[], str] | None = None,
        node: str = "",
        boot: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._url = url
        self._fetch = fetch or HttpFetch(url)
        self._node = node
        self._boot = boot
        self._clock = clock or SystemClock()
        self._reader: SampleReader[Series] = SampleReader((scrape_dcgm.PREFIX, scrape_smi.PREFIX), _learn)
        self._exporters: set[str] = set()
        self._tracks: dict[str, DeviceTrack] = {}
        self._told: tuple[Device, ...] = ()
        self._skipped: tuple[str, ...] = ()
        self._is_open = False

    @property
    def name(self) -> str:
        return "scrape"

    def open(self) -> None:
        """One scrape, to see which devices are there. Raises ProbeUnavailable: no answer, no GPU in it, other nodes."""
        facts = self._scrape()
        if not self._tracks and not facts.devices:
            raise ProbeUnavailable(
                f"{self._url} answers, but has no series of a GPU exporter",
                "it must be the page of dcgm-exporter or nvidia_gpu_exporter",
            )
        self._take_over(facts)
        if not self._tracks:
            raise ProbeUnavailable(
                f"{self._url} has GPU series, but none says which device it is of",
                "keep the label UUID (or pci_bus_id) when relabelling",
            )
        self._is_open = True

    def inventory(self) -> Inventory:
        """What the pages so far have shown. Raises ProbeUnavailable when not open."""
        self._check_open()
        self._told = self._devices()
        exporters = " and ".join(sorted(self._exporters))
        return Inventory(self._told, tuple(self._notes()), f"{exporters} at {self._url}")

    def read(self) -> ProbeTick:
        """One scrape. Raises ProbeUnavailable when it fails: nothing of the last one is given again."""
        self._check_open()
        facts = self._scrape()
        named = self._take_over(facts)
        at = ScrapeTime(self._clock.wall_us(), round(self._clock.monotonic_s() * 1_000_000))
        readings = tuple(track.read(named.get(identity), facts, at) for identity, track in sorted(self._tracks.items()))
        return ProbeTick(readings, inventory_changed=_geometry(self._devices()) != _geometry(self._told))

    def close(self) -> None:
        self._is_open = False
        if isinstance(self._fetch, HttpFetch):
            self._fetch.close()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ProbeUnavailable("the scrape probe is not open", "open it first")

    def _scrape(self) -> Facts:
        try:
            text = self._fetch()
        except OSError as error:
            raise ProbeUnavailable(
                f"{self._url} does not answer ({error})", "is the exporter running, and is this its address?"
            ) from error
        samples = self._reader.read(text)
        self._exporters |= {_exporter(sample.series) for sample in samples}
        facts = gather(samples)
        hosts = set().union(*(device.hosts for device in facts.devices.values()))
        if len(hosts) > 1:
            facts.devices = {key: one for key, one in facts.devices.items() if self._is_here(one, hosts)}
        return facts

    def _is_here(self, device: DeviceFacts, hosts: set[str]) -> bool:
        """A page of several machines (a federation): only this one's devices."""
        if not any(_same_host(host, self._node) for host in hosts):
            raise ProbeUnavailable(
                f"{self._url} has devices of {len(hosts)} machines, and none is {self._node!r}",
                "set the address to this machine's own exporter",
            )
        return any(_same_host(host, self._node) for host in device.hosts)

    def _take_over(self, facts: Facts) -> dict[str, DeviceFacts]:
        """Devices of a page by identity, known from now on."""
        named = {}
        nameless = 0
        for device in facts.devices.values():
            identity = device.identity
            if not identity:
                nameless += 1
                continue
            named[identity] = device
            if identity not in self._tracks:
                self._tracks[identity] = DeviceTrack(identity, self._boot)
            self._tracks[identity].describe(device)
        self._skipped = _skipped(nameless, facts.unplaced, self._reader.bad_lines)
        return named

    def _devices(self) -> tuple[Device, ...]:
        return tuple(track.device for _, track in sorted(self._tracks.items()))

    def _notes(self) -> list[str]:
        notes = list(self._skipped)
        for identity, track in sorted(self._tracks.items()):
            if not track.has_counter:
                notes.append(
                    f"{identity}: the page has no energy counter, so energy is power over time only: let the exporter "
                    "collect DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION (nvidia_gpu_exporter: use its NVML backend)"
                )
            if track.device.is_mig and not track.device.instances and not track.unknown_profiles:
                notes.append(
                    f"{identity}: MIG mode is on and the page names no instance, so jobs can't be told apart on it: "
                    "use dcgm-exporter, or nvidia_gpu_exporter with its NVML backend"
                )
            if track.unknown_profiles:
                notes.append(
                    f"{identity}: MIG instances without a profile that can be read "
                    f"({', '.join(repr(one) for one in sorted(track.unknown_profiles))}) are left out: "
                    "keep the label GPU_I_PROFILE"
                )
            if track.scrapes >= _SEEN_OFTEN and track.stale_scrapes * _STALE_SHARE >= track.scrapes:
                notes.append(
                    f"{identity}: {track.stale_scrapes} of {track.scrapes} scrapes brought nothing new: let the "
                    "exporter collect as often as it is scraped (dcgm-exporter: DCGM_EXPORTER_INTERVAL=1000)"
                )
        return notes


def _geometry(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Without the power limit, which may be set again and again."""
    return tuple(replace(device, power_limit_mw=None) for device in devices)


def _learn(name: str, labels: dict[str, str]) -> Series | None:
    return scrape_dcgm.learn(name, labels) if name.startswith(scrape_dcgm.PREFIX) else scrape_smi.learn(name, labels)


def _exporter(series: Series) -> str:
    return scrape_dcgm.NAME if series.metric.name.startswith(scrape_dcgm.PREFIX) else scrape_smi.NAME


def _same_host(one: str, other: str) -> bool:
    """Names of one machine, with or without the domain."""
    return bool(other) and one.partition(".")[0].lower() == other.partition(".")[0].lower()


def _skipped(nameless: int, unplaced: int, bad_lines: int) -> tuple[str, ...]:
    said = (
        (nameless, "devices have no UUID of their own and can't be told apart: keep the label UUID when relabelling"),
        (unplaced, "series name a MIG instance and no device that it is in: keep the labels gpu and pci_bus_id"),
        (bad_lines, "lines of GPU metrics are no samples: is something else writing into this page?"),
    )
    return tuple(f"{count} {sentence}" for count, sentence in said if count)

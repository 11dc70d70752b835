"""Wiring: settings become probes, watchers and a daemon. Imports what a configuration needs, and nothing else."""

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog
from wattledger_schemas import Codec

from wattledger_agent.batch_record import BatchHead
from wattledger_agent.clock import Clock
from wattledger_agent.daemon import Daemon
from wattledger_agent.health import Pulse
from wattledger_agent.host import read_host
from wattledger_agent.host_identity import Settled, read_fingerprint, settle_identity
from wattledger_agent.inventory_event import inventory_event
from wattledger_agent.notify import Notifier
from wattledger_agent.probe_runner import ProbeRunner
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.probe import Probe
from wattledger_agent.process_owner import ProcessOwners
from wattledger_agent.run_book import BadRunBook, RunBook
from wattledger_agent.run_claim import read_xcp_minors
from wattledger_agent.sampler import DEVICES_KEPT, FLOORS, SAID, Sampler, SamplerRule
from wattledger_agent.settings import AgentSettings
from wattledger_agent.thinning import batch_thinner
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import gap_encoder
from wattledger_agent.wal_record import WalRecord
from wattledger_agent.watch_loop import BOOK, WatchLog, WatchLoop
from wattledger_agent.watchers.process_table import ProcessTable

log = structlog.get_logger()
_FIRST_ANSWER_S = 10.0
_USE_EVERY_US = 5_000_000
_SILENT_S = 60.0


def agent_version() -> str:
    """Version of the installed package; empty when it runs from a source tree."""
    try:
        return version("wattledger")
    except PackageNotFoundError:
        return ""


def build_probes(settings: AgentSettings, clock: Clock, codec: Codec) -> list[Probe]:
    """The probes that are asked for; constructing them opens nothing."""
    return [_probe(name, settings, clock, codec) for name in settings.sampling.probes]


def _probe(name: str, settings: AgentSettings, clock: Clock, codec: Codec) -> Probe:
    if name == "nvml":
        from wattledger_agent.probes.nvml import NvmlProbe

        return NvmlProbe(clock)
    if name == "amdsmi":
        from wattledger_agent.probes.amd import AmdSmiProbe

        return AmdSmiProbe(clock)
    if name == "rapl":
        from wattledger_agent.probes.rapl import RaplProbe

        return RaplProbe(clock)
    if name == "scrape":
        from wattledger_agent.probes.scrape import ScrapeProbe

        host = read_host(settings.node)
        return ScrapeProbe(settings.sampling.scrape_url, node=host.node, boot=host.boot_id, clock=clock)
    from wattledger_agent.probes.trace_probe import TraceProbe

    if settings.sampling.trace_file is None:
        raise ValueError("the probe trace needs a file: set sampling.trace_file")
    return TraceProbe(settings.sampling.trace_file, codec)


def build_wal(settings: AgentSettings, agent: str, codec: Codec) -> Wal:
    """The log of these settings. Raises WalUnavailable, KeyRefused."""
    cipher = None
    if settings.wal.key_file is not None:
        from wattledger_agent.wal_cipher import WalCipher

        cipher = WalCipher.from_files(settings.wal.key_file, *settings.wal.old_key_files)
    return Wal(
        settings.wal.path,
        settings.wal.cap_bytes,
        settings.wal.full,
        batch_thinner(codec),
        gap_encoder(read_host(settings.node).node, agent, codec),
        cipher,
    )


def merged_inventory(runners: Sequence[ProbeRunner], clock: Clock) -> Inventory:
    """What all probes find when they are asked for the first time."""
    for runner in runners:
        runner.ask()
    until_s = clock.monotonic_s() + _FIRST_ANSWER_S
    found = [runner.take(until_s).inventory for runner in runners]
    return Inventory(tuple(device for inventory in found if inventory for device in inventory.devices))


class Agent:
    """All parts of one agent, ready to run. Building it opens the log and asks the probes once."""

    def __init__(
        self,
        settings: AgentSettings,
        clock: Clock,
        agent_id: str,
        runners: Sequence[ProbeRunner],
        wal: Wal,
        codec: Codec,
        removes: bool = True,
    ) -> None:
        self.settings = settings
        self._removes = removes
        self.agent_id = agent_id
        self.host = read_host(settings.node)
        self.wal = wal
        self.runners = runners
        self._clock = clock
        self._codec = codec
        self.pulse = Pulse(clock, max(_SILENT_S, 3 * settings.sampling.period_ms / 1000))
        self.owners = ProcessOwners(ProcessTable())
        self.shared = WatchLog(wal, self._book(), self.host.node, codec)
        self.sampler = self._sampler()
        # before any watcher takes up what was open: a run of before a reboot is over
        self._booted()
        self.loops = [
            WatchLoop(watcher, self.shared, self.inventory, clock) for watcher in self._watchers(settings.watchers)
        ]
        self._used_us = 0

    def _book(self) -> RunBook:
        book = RunBook(self.host.node, xcp_minors=read_xcp_minors())
        kept = self.wal.state(BOOK)
        if kept:
            try:
                book.load(kept)
            except BadRunBook as error:
                log.warning("run_book_not_used", error=str(error))
        return book

    def _sampler(self) -> Sampler:
        rule = SamplerRule(self.settings.sampling.period_ms * 1000, self.settings.sampling.flush_s * 1_000_000)
        run = f"{self.host.boot_id[:8]}-{self._clock.wall_us():x}"
        head = BatchHead(self.host.node, self.settings.site, self.agent_id, run, agent_version(), rule.period_us)
        sampler = Sampler(
            self.wal,
            self.runners,
            head,
            rule,
            self._clock,
            self._codec,
            self.owners.of_device,
            self._inventory_records,
            gap_encoder(self.host.node, self.agent_id, self._codec),
        )
        sampler.seen = self._seen
        sampler.sharing = self._sharing
        return sampler

    def inventory(self) -> Inventory:
        """All devices of this node as the sampler knows them."""
        return Inventory(tuple(self.sampler.devices.values()))

    def _inventory_records(self, at_us: int, devices: Sequence[Device], floors_mw: Any) -> list[WalRecord]:
        settings = self.settings
        event = inventory_event(self.host, settings.cluster, settings.site, self.agent_id, at_us, devices, floors_mw)
        return [WalRecord("job-events", self.host.node, self._codec.encode("node_event", event), at_us=at_us)]

    def _sharing(self, device: str) -> str:
        with self.shared.lock:
            return self.shared.book.sharing(device)

    def _seen(self, at_us: int) -> None:
        """Who is on which device: ties processes to jobs, and now and then looks for contradictions."""
        with self.shared.lock:
            self.owners.follow(self.shared.book.owners(at_us))
        if not self.loops or 0 <= at_us - self._used_us < _USE_EVERY_US:
            return
        self._used_us = at_us
        readings = [reading for result in self.sampler.results if result.tick for reading in result.tick.devices]
        uses = self.owners.uses(readings, at_us)
        with self.shared.lock:
            observed = self.shared.book.observe_use(uses, at_us)
            self.shared.put(observed.events, observed.findings, at_us)

    def on_devices(self) -> Iterable[tuple[str, str, int]]:
        """Device, GPU instance and host pid of every process that the probes last saw."""
        for result in self.sampler.results:
            for reading in result.tick.devices if result.tick else ():
                for process in reading.processes or ():
                    yield reading.device, process.gpu_instance, process.pid

    def _watchers(self, names: Sequence[str]) -> list[Any]:
        from wattledger_agent.build_watchers import build_watcher

        recalled = self.shared.book.open_runs()
        return [
            build_watcher(name, self.settings, self.host, self._clock, self.on_devices, recalled, self._removes)
            for name in names
        ]

    def _booted(self) -> None:
        """Tell the run book which boot this is: what was open before another one has ended."""
        with self.shared.lock:
            observed = self.shared.book.booted(self.host.boot_id, self.sampler.last_us)
            self.shared.put(observed.events, observed.findings, self._clock.wall_us())

    def daemon(self, publish: bool = True) -> Daemon:
        """What runs all of it; without `publish` the log only fills."""
        publisher = None
        if publish:
            from wattledger_agent.publisher import Publisher

            kafka = self.settings.kafka
            publisher = Publisher(
                self.wal,
                kafka.config,
                kafka.topic_prefix,
                kafka.in_flight,
                kafka.bytes_per_s,
                self.agent_id,
                self._clock,
            )
        return Daemon(
            self.wal,
            self.sampler,
            self.runners,
            self.loops,
            publisher,
            self.pulse,
            Notifier(self.settings.notify_socket),
            self._clock,
            self.settings.watch_s,
            self.settings.sampling.restart_after_s,
        )


def build_agent(settings: AgentSettings, clock: Clock, removes: bool = True) -> Agent:
    """Probes first (an agent's identity looks at its cards), then identity, log and the rest. `removes`: whether it may
    remove what schedulers dropped for it.

    Raises WalUnavailable, KeyRefused, ValueError (settings that contradict each other), OSError (state folder).
    """
    codec = Codec()
    runners = [ProbeRunner(probe, clock) for probe in build_probes(settings, clock, codec)]
    found = merged_inventory(runners, clock)
    settled = _identity(settings, [device.device for device in found.devices])
    agent_id = settings.agent_id or settled.identity.agent_id
    wal = build_wal(settings, agent_id, codec)
    if settled.is_new_host:
        _forget_host(wal)
    return Agent(settings, clock, agent_id, runners, wal, codec, removes)


def _identity(settings: AgentSettings, gpus: Sequence[str]) -> Settled:
    settled = settle_identity(settings.wal.path.parent, read_fingerprint(tuple(gpus)))
    if settled.note:
        log.warning("new_identity", note=settled.note, agent=settled.identity.agent_id)
    return settled


def _forget_host(wal: Wal) -> None:
    """The log comes from another host: its records are still good, and the same ones there; what it remembers of
    devices and runs is not of this host, and must not be continued here."""
    ticks = wal.open_ticks()
    forgotten = dict.fromkeys((BOOK, FLOORS, SAID, DEVICES_KEPT), b"")
    wal.append([], ticks_before=ticks[-1][0] + 1 if ticks else None, state=forgotten)
    log.warning("host_forgotten", ticks=len(ticks))

"""A simulated machine: it knows at each microsecond what each card draws, what its counter reads, who holds it, and
what the wall clock shows. Probes and watchers read it as the agent's would; it shares no rule with the agent."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from wattledger_agent.clock import ManualClock
from wattledger_agent.probe_runner import UNAVAILABLE, ProbeResult, ProbeRunner
from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NOT_SUPPORTED,
    TIMED_OUT,
    DeviceReading,
    ProbeTick,
    Reading,
    ZoneReading,
    lost_device,
    unknown,
)
from wattledger_agent.watchers.run import BY_MIG_UUID, BY_UUID, DeviceRef, Held, Run, Sighting
from wattledger_agent.watchers.watcher import WatcherUnavailable

S = 1_000_000
HOUR = 3600 * S
DAY = 24 * HOUR
T0 = 1_767_225_600 * S
RESOLUTION_UJ = 1000
MOST_MW = 700_000
WILD_UJ = 5 * 10**15
"""A bad read that no outage of a week can explain."""


class Killed(BaseException):
    """The agent's process is gone, wherever it was."""


@dataclass(slots=True)
class Card:
    """Power is `levels`: (since, mW). `epoch` is the true run of the counter, whatever the probe makes of it."""

    uuid: str
    levels: list[tuple[int, int]]
    has_counter: bool = True
    epoch: int = 0
    epoch_us: int = T0 - 40 * DAY
    base_uj: int = 0
    frozen_us: int | None = None
    is_lost: bool = False
    is_missing: bool = False
    bad_read: str = ""
    index: int = 0
    minor: int = 0
    instances: tuple[MigInstance, ...] = ()
    _sums_nj: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._sums_nj = [0]
        for (a_us, mw), (b_us, _) in zip(self.levels, self.levels[1:], strict=False):
            self._sums_nj.append(self._sums_nj[-1] + mw * (b_us - a_us))

    def power_mw(self, at_us: int) -> int:
        return self.levels[bisect_right(self.levels, (at_us, 1 << 62)) - 1][1]

    def energy_nj(self, at_us: int) -> int:
        """All that it drew since the first level, nJ."""
        place = bisect_right(self.levels, (at_us, 1 << 62)) - 1
        since_us, mw = self.levels[place]
        return self._sums_nj[place] + mw * (at_us - since_us)

    def counter_uj(self, at_us: int) -> int:
        until_us = at_us if self.frozen_us is None else min(at_us, self.frozen_us)
        counted_uj = (self.energy_nj(until_us) - self.energy_nj(self.epoch_us)) // 1000
        return self.base_uj + counted_uj - counted_uj % RESOLUTION_UJ

    def begin_epoch(self, at_us: int, base_uj: int = 0) -> None:
        self.epoch, self.epoch_us, self.base_uj, self.frozen_us = self.epoch + 1, at_us, base_uj, None


@dataclass(frozen=True, slots=True)
class TrueRead:
    """What a probe told of a card, and when that was true. `is_true`: the counter is the card's own."""

    at_us: int
    epoch: tuple[int, str]
    """The true one, and what the probe called it."""
    counter_uj: int | None
    is_true: bool


@dataclass(slots=True)
class Job:
    """A run as it was. `start_wall_us` and `end_wall_us` are what the machine's clock said then."""

    source: str
    job: str
    attempt: int
    held: Held
    device: str
    gpu_instance: str
    start_us: int
    start_wall_us: int
    end_us: int | None = None
    end_wall_us: int | None = None
    outcome: str = ""
    cut_us: int | None = None
    """When the machine went down under it."""

    def run(self) -> Run:
        return Run(
            self.source, "c1", self.job, self.attempt, self.start_wall_us, (self.held,), self.end_wall_us,
            outcome=self.outcome, tenant=f"tenant-{self.job}",
        )  # fmt: skip


class WorldClock(ManualClock):
    """`now_us` is true time; the wall clock is off by `stepped_us`, which changes by steps and by slewing."""

    def __init__(self) -> None:
        super().__init__(T0)
        self.booted_us = T0 - 40 * DAY
        self.asleep_us = 0
        self.slew_ppm = 0
        self._slewed_from_us = T0
        self.errors: list[tuple[int, int, int]] = [(0, 0, 0)]
        """Since when the wall clock is off by how much, and how fast that grows (ppm)."""
        self.go_on: Callable[[int], None] = self._jump

    def _jump(self, to_us: int) -> None:
        self.now_us = to_us

    def wall_us(self) -> int:
        slewed_us = (self.now_us - self._slewed_from_us) * self.slew_ppm // S
        return super().wall_us() + slewed_us

    def boot_us(self) -> int:
        return self.now_us - self.booted_us

    def monotonic_s(self) -> float:
        return (self.now_us - self.booted_us - self.asleep_us) / S

    def sleep(self, seconds: float) -> None:
        self.go_on(self.now_us + round(seconds * S))

    def step(self, by_us: int) -> None:
        self.slew(self.slew_ppm)
        super().step(by_us)
        self.errors.append((self.now_us, self.stepped_us, self.slew_ppm))

    def slew(self, ppm: int) -> None:
        self.stepped_us = self.wall_us() - self.now_us
        self._slewed_from_us, self.slew_ppm = self.now_us, ppm
        self.errors.append((self.now_us, self.stepped_us, ppm))


class Machine:
    """The machine with its cards and jobs, and what is due when. Time passes only by `pass_to`."""

    def __init__(self, cards: list[Card], names: list[str]) -> None:
        self.clock = WorldClock()
        self.clock.go_on = self.pass_to
        self.cards = {card.uuid: card for card in cards}
        self.probes = names
        self.of_probe = {name: [c for n, c in enumerate(cards) if n % len(names) == i] for i, name in enumerate(names)}
        self.boot_id = "boot-0"
        self.reboots: list[int] = []
        self.drivers = dict.fromkeys(names, "590")
        self.hung_until_us = dict.fromkeys(names, 0)
        self.away_until_us = dict.fromkeys(names, 0)
        self.loads = dict.fromkeys(names, 0)
        self.bugs: set[str] = set()
        self.latency_us = 3000
        self.disk_full_until_us = 0
        self.watchers_away_until_us = 0
        self.jobs: list[Job] = []
        self.dropped: list[Job] = []
        """Records of prolog and epilog that lie in their folder."""
        self.reads: dict[str, TrueRead] = {}
        self._due: list[tuple[int, int, int, Callable[[], None]]] = []
        self._numbers = count()
        self.life = 0
        """Which life of the agent this is; what is due for an earlier one is not done."""

    @property
    def now_us(self) -> int:
        return self.clock.now_us

    def after(self, delay_us: int, work: Callable[[], None], life: int = -1) -> None:
        """Have something happen; with `life`, only if the agent still lives that one."""
        heappush(self._due, (self.now_us + delay_us, next(self._numbers), life, work))

    def pass_to(self, until_us: int) -> None:
        while self._due and self._due[0][0] <= until_us:
            due_us, _, life, work = heappop(self._due)
            self.clock.now_us = max(self.clock.now_us, due_us)
            if life in (-1, self.life):
                work()
        self.clock.now_us = max(self.clock.now_us, until_us)

    def load_driver(self, name: str, away_us: int, version: str) -> None:
        """The driver of a probe's cards is unloaded and loaded again: counters begin anew."""
        self.drivers[name] = version
        self.loads[name] += 1
        self.away_until_us[name] = max(self.away_until_us[name], self.now_us + away_us)
        for card in self.of_probe[name]:
            card.begin_epoch(self.now_us)

    def reboot(self, boot: str, order: list[int], rtc_us: int) -> None:
        """Down and up again at this moment: counters, jobs and prolog records are gone, cards are listed anew."""
        self.boot_id = boot
        self.reboots.append(self.now_us)
        self.clock.step(rtc_us)
        self.clock.booted_us, self.clock.asleep_us = self.now_us, 0
        for card, place in zip(self.cards.values(), order, strict=True):
            # some counters of a new boot go on from elsewhere, a little above where they were
            card.begin_epoch(self.now_us, card.counter_uj(self.now_us) + 40 * S if place % 2 else 0)
            card.index = card.minor = place
            card.is_lost = card.is_missing = False
        for job in self.jobs:
            if job.end_us is None and job.cut_us is None:
                job.cut_us = self.now_us
        self.dropped = []

    def begin_job(self, source: str, name: str, attempt: int, card: Card, share: int) -> Job:
        """A run on a card, on one of its instances if it has any; of 1/share of a shared card."""
        free = [i for i in card.instances if not any(j.gpu_instance == i.gpu_instance for j in self.holders(card.uuid))]
        if card.instances:
            instance = free[0]
            held = Held(DeviceRef(BY_MIG_UUID, instance.uuid))
        else:
            instance = None
            held = Held(DeviceRef(BY_UUID, card.uuid)) if share == 1 else _shared(card.uuid, share)
        number = "" if instance is None else instance.gpu_instance
        job = Job(source, name, attempt, held, card.uuid, number, self.now_us, self.clock.wall_us())
        self.jobs.append(job)
        if source == "slurm":
            self.dropped.append(job)
        return job

    def end_job(self, job: Job, outcome: str = "COMPLETED") -> None:
        if job.end_us is None and job.cut_us is None:
            job.end_us, job.end_wall_us, job.outcome = self.now_us, self.clock.wall_us(), outcome

    def holders(self, device: str) -> list[Job]:
        return [job for job in self.jobs if job.device == device and job.end_us is None and job.cut_us is None]


def _shared(uuid: str, share: int) -> Held:
    return Held(DeviceRef(BY_UUID, uuid), 1, share, "time_sliced")


class WorldProbe:
    """One vendor's probe. It names epochs as a probe can: by boot, driver and the resets that it saw itself."""

    def __init__(self, machine: Machine, name: str) -> None:
        self.name = name
        self._machine = machine
        self._resets: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._load = machine.loads[name]
        self._told: Inventory | None = None

    def open(self) -> None:
        self._check()

    def close(self) -> None:
        """Nothing is held."""

    def inventory(self) -> Inventory:
        self._told = self._inventory()
        return self._told

    def _inventory(self) -> Inventory:
        return Inventory(tuple(self._device(c) for c in self._machine.of_probe[self.name] if not c.is_missing))

    def _device(self, card: Card) -> Device:
        return Device(
            card.uuid, "nvidia", "H100", self._machine.drivers[self.name], card.index, card.minor, "0000:c5:00.0",
            sharing="mig" if card.instances else "exclusive", instances=card.instances, is_mig=bool(card.instances),
            counter_epoch=self._epoch(card),
        )  # fmt: skip

    def _epoch(self, card: Card) -> str:
        m = self._machine
        return f"{m.boot_id}/{m.drivers[self.name]}/{self._resets.get(card.uuid, 0)}"

    def _check(self) -> None:
        m = self._machine
        if self._load != m.loads[self.name]:
            self._load = m.loads[self.name]
            for card in m.of_probe[self.name]:
                self._resets[card.uuid] = self._resets.get(card.uuid, 0) + 1
                self._last.pop(card.uuid, None)
            raise ProbeUnavailable("the driver was unloaded")
        if m.now_us < m.away_until_us[self.name]:
            raise ProbeUnavailable("the driver is away", "load it")

    def read(self) -> ProbeTick:
        m = self._machine
        m.clock.sleep(m.latency_us / S)
        if self.name in m.bugs:
            m.bugs.discard(self.name)
            raise ZeroDivisionError
        self._check()
        readings = tuple(self._read(card) for card in m.of_probe[self.name] if not card.is_missing)
        zones = (ZoneReading("package-0", Reading((m.now_us - m.clock.booted_us) * 90), m.boot_id),)
        return ProbeTick(readings, zones, self._told != self._inventory())

    def _read(self, card: Card) -> DeviceReading:
        m = self._machine
        if card.is_lost:
            return lost_device(card.uuid)
        energy = self._energy(card)
        busy = m.holders(card.uuid)
        is_true = energy.value == card.counter_uj(m.now_us) and card.frozen_us is None
        m.reads[card.uuid] = TrueRead(m.now_us, (card.epoch, self._epoch(card)), energy.value, is_true)
        return DeviceReading(
            card.uuid, Reading(card.power_mw(m.now_us)), energy, Reading(500_000 if busy else 0), Reading(1 << 30),
            Reading(40), Reading(0), processes=None if busy else (),
        )  # fmt: skip

    def _energy(self, card: Card) -> Reading:
        value_uj = card.counter_uj(self._machine.now_us)
        bad, card.bad_read = card.bad_read, ""
        if not card.has_counter:
            return unknown(NOT_SUPPORTED)
        if bad == "zero" and value_uj > WILD_UJ // 10**4:
            return Reading(0)
        if bad == "wild":
            return Reading(value_uj + WILD_UJ)
        if bad == "none":
            return unknown(IMPLAUSIBLE)
        if value_uj < self._last.get(card.uuid, 0):
            self._resets[card.uuid] = self._resets.get(card.uuid, 0) + 1
        self._last[card.uuid] = value_uj
        return Reading(value_uj)


class InlineRunner(ProbeRunner):
    """The agent's runner without its thread: it reads when it is asked. Time that a call hangs passes on the machine's
    clock."""

    def __init__(self, probe: WorldProbe, machine: Machine) -> None:
        super().__init__(probe, machine.clock)
        self._machine = machine
        self._answer: ProbeResult | None = None

    def ask(self) -> None:
        self._answer = None
        if self._machine.hung_until_us[self.name] > self._machine.now_us:
            return
        try:
            self._answer = self._read()
        except ZeroDivisionError:
            self._is_open = False
            self._probe.close()
            self._answer = ProbeResult(None, self._inventory, UNAVAILABLE)

    def take(self, until_s: float) -> ProbeResult:
        clock = self._machine.clock
        if self._answer is None:
            clock.sleep(max(until_s - clock.monotonic_s(), 0))
            return ProbeResult(None, self._inventory, TIMED_OUT)
        return self._answer


class DropWatcher:
    """SLURM's prolog and epilog records: each run is told until its end was told and the next look began."""

    name = "slurm"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._told: list[Job] = []

    def look(self, now_us: int) -> Sighting:
        m = self._machine
        for job in self._told:
            m.dropped.remove(job) if job in m.dropped else None
        self._told = []
        if m.now_us < m.watchers_away_until_us:
            raise WatcherUnavailable("the folder is gone")
        self._told = [job for job in m.dropped if job.end_us is not None]
        return Sighting(now_us, tuple(job.run() for job in m.dropped))

    def close(self) -> None:
        """Nothing is held."""


class PodWatcher:
    """Pods as the kubelet lists them: those that run now, and nothing of those that ended."""

    name = "kubernetes"

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def look(self, now_us: int) -> Sighting:
        m = self._machine
        if m.now_us < m.watchers_away_until_us:
            raise WatcherUnavailable("the kubelet does not answer")
        runs = [j.run() for j in m.jobs if j.source == self.name and j.end_us is None and j.cut_us is None]
        return Sighting(now_us, tuple(runs), is_snapshot=True)

    def close(self) -> None:
        """Nothing is held."""

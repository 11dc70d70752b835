"""The agent's lives on a simulated machine: its own parts over a real log, misfortunes from a seed, a broker that takes
what the log holds. Says what went on; what is right is judged elsewhere."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from wattledger_agent.build import Agent, build_wal
from wattledger_agent.host import Host
from wattledger_agent.probe_runner import ProbeRunner
from wattledger_agent.settings import AgentSettings, SamplingSettings, WalSettings
from wattledger_agent.wal import Wal
from wattledger_agent.wal_record import WalRecord, WalUnavailable
from wattledger_agent.watch_loop import WatchLoop
from wattledger_schemas import Codec

from tests.agent_world import DropWatcher, InlineRunner, Killed, Machine, PodWatcher, S, TrueRead, WorldProbe

CODEC = Codec()


@dataclass(slots=True)
class Arrived:
    """A record as a topic holds it; `at_us` is the true time at which the broker had it."""

    at_us: int
    seq: int
    record: WalRecord


@dataclass(slots=True)
class Noticed:
    """A tick that the agent took: its stamp, when it was taken, and what the probes told, by device."""

    stamp_us: int
    true_us: int
    reads: dict[str, TrueRead]
    listed: frozenset[str]
    is_durable: bool = False


@dataclass(slots=True)
class Story:
    """All that is known of one run of the simulation."""

    period_us: int
    noticed: list[Noticed] = field(default_factory=list)
    arrived: list[Arrived] = field(default_factory=list)
    looks: list[tuple[str, int, int]] = field(default_factory=list)
    """Watcher, true time, number of the life: looks whose outcome is in the log."""
    deaths: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    corrupted: bool = False
    most_ticks: int = 0
    most_bytes: int = 0
    most_pending: int = 0
    log: list[str] = field(default_factory=list)


class _Stop:
    """What the sampler's loop waits on: waiting lets the machine's time pass."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.is_asked = False

    def is_set(self) -> bool:
        return self.is_asked

    def wait(self, timeout: float) -> bool:
        self._machine.clock.sleep(timeout)
        return self.is_asked


class Lives:
    """One machine, one log, one life of the agent after another."""

    def __init__(
        self,
        machine: Machine,
        folder: Path,
        rng: random.Random,
        period_ms: int,
        flush_s: int,
        cap_bytes: int = 1 << 30,
        full: Literal["drop_oldest", "block"] = "drop_oldest",
    ) -> None:
        self.machine = machine
        self.rng = rng
        self.path = folder / "log"
        self.settings = AgentSettings(
            node="n1", cluster="c1", site="fra1", agent_id="a1",
            sampling=SamplingSettings(period_ms=period_ms, flush_s=flush_s),
            wal=WalSettings(path=self.path, cap_bytes=cap_bytes, full=full),
        )  # fmt: skip
        self.story = Story(period_ms * 1000)
        self.stop = _Stop(machine)
        self.down_us = 0
        self.at_start: list[Callable[[], None]] = []
        """Done to the log's files before the next start."""
        self.broker_away_until_us = 0
        self.kill_at: tuple[str, str] | None = None
        """Die at the next `append` or `note_tick`, before or after it."""
        self.wal: Wal | None = None
        self.agent: Agent | None = None
        self._after_seq = 0
        self._delivered: list[int] = []
        self.is_over = False
        self._when_alive: list[Callable[[], None]] = []

    def when_alive(self, work: Callable[[], None]) -> None:
        """Now, or when the agent has been started again."""
        if self.agent is None:
            self._when_alive.append(work)
        else:
            work()

    def live(self) -> None:
        """Start the agent over and over until it is told that it is over; deliver what is left."""
        while not self.is_over:
            try:
                self._start()
                assert self.agent is not None
                self.agent.sampler.run(self.stop, lambda: None)  # type: ignore[arg-type]
                self.story.log.append(f"{self._at()} stopped")
            except Killed:
                self.story.log.append(f"{self._at()} killed, down for {self.down_us / S} s")
                self.story.deaths.append(self.machine.now_us)
            self._end()
        self.wal = build_wal(self.settings, "a1", CODEC)
        self._after_seq = self.broker_away_until_us = 0
        self._delivered = []
        while self.wal.count():
            self._deliver(500)
        self.wal.close()

    def _at(self) -> str:
        return f"{(self.machine.now_us - 1_767_225_600 * S) / S:.3f}"

    def _start(self) -> None:
        m = self.machine
        m.life += 1
        m.pass_to(m.now_us + self.rng.randrange(1000, 300_000))
        self.stop.is_asked, self.down_us, self.kill_at = False, 0, None
        self._after_seq, self._delivered = 0, []
        self.story.starts.append(m.now_us)
        self.story.log.append(f"{self._at()} started, wall off by {m.clock.wall_us() - m.now_us} us")
        probes: list[ProbeRunner] = [InlineRunner(WorldProbe(m, name), m) for name in m.probes]
        for runner in probes:
            runner.ask()
            runner.take(m.clock.monotonic_s() + 10)
        self.wal = wal = build_wal(self.settings, "a1", CODEC)
        self._guard(wal)
        with patch("wattledger_agent.build.read_host", lambda node: Host(node, m.boot_id, 8, 1 << 40)):
            agent = self.agent = Agent(self.settings, m.clock, "a1", probes, wal, CODEC)
        self.story.starts.append(m.now_us)
        self._listen(agent)
        agent.loops = [
            WatchLoop(watcher, agent.shared, agent.inventory, m.clock) for watcher in (DropWatcher(m), PodWatcher(m))
        ]
        for loop in agent.loops:
            m.after(self.rng.randrange(S), lambda loop=loop: self._look(loop), m.life)  # type: ignore[misc]
        m.after(self.rng.randrange(S), self._publish, m.life)
        waiting, self._when_alive = self._when_alive, []
        for work in waiting:
            work()

    def _guard(self, wal: Wal) -> None:
        """Have the log refuse while the disk is full, and the agent die where it is told."""

        def guarded(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*args: Any, **named: Any) -> Any:
                self._die_at(name, "before")
                if self.machine.now_us < self.machine.disk_full_until_us:
                    raise WalUnavailable("the disk is full")
                found = work(*args, **named)
                self._die_at(name, "after")
                return found

            return wrapped

        def note_tick(value: bytes, at_us: int) -> int:
            number = wal_note_tick(value, at_us)
            for noticed in self.story.noticed[-1:]:
                noticed.is_durable |= noticed.stamp_us == at_us
            return number

        wal_note_tick = wal.note_tick
        wal.note_tick = guarded("note_tick", note_tick)  # type: ignore[method-assign]
        wal.append = guarded("append", wal.append)  # type: ignore[method-assign]

    def _die_at(self, name: str, moment: str) -> None:
        if self.kill_at == (name, moment):
            raise Killed

    def _listen(self, agent: Agent) -> None:
        """Remember what is read at each tick that gets a stamp."""
        seen, step, machine, story = agent.sampler.seen, agent.sampler.step, self.machine, self.story

        began_us = [0]

        def note(at_us: int) -> None:
            listed = frozenset(agent.sampler.devices)
            # what was read later than a period after the stamp is of another time, and must not count
            in_time = {d: r for d, r in machine.reads.items() if r.at_us - began_us[0] <= story.period_us}
            story.noticed.append(Noticed(at_us, began_us[0], in_time, listed))
            seen(at_us)

        def stepped() -> Any:
            machine.reads, began_us[0] = {}, machine.now_us
            found = step()
            story.most_ticks = max(story.most_ticks, len(agent.sampler._open))
            story.most_pending = max(story.most_pending, len(agent.sampler._pending.records))
            story.most_bytes = max(story.most_bytes, agent.wal.kept_bytes)
            return found

        agent.sampler.seen = note
        agent.sampler.step = stepped  # type: ignore[method-assign]

    def _look(self, loop: WatchLoop) -> None:
        assert self.agent is not None
        wait_s = loop.step()
        if not self.agent.shared.is_behind and wait_s == 0:
            self.story.looks.append((loop.name, self.machine.now_us, self.machine.life))
        self.machine.after(round((1 + wait_s) * S), lambda: self._look(loop), self.machine.life)

    def _publish(self) -> None:
        self._deliver(self.rng.choice((1, 20, 500)))
        self.machine.after(self.rng.choice((S // 5, S, 7 * S)), self._publish, self.machine.life)

    def _deliver(self, most: int) -> None:
        """As the publisher: remembered as sent, sent, and deleted some time after the broker's word."""
        if self.machine.now_us < self.broker_away_until_us:
            return
        assert self.wal is not None
        held = set(self._delivered)
        page = [kept for kept in self.wal.pending(self._after_seq, most) if kept.seq not in held]
        self.wal.settle(self._delivered, page[-1].seq if page else 0)
        self._delivered = []
        if not page:
            return
        self.wal.in_hand = self._after_seq = page[-1].seq
        for kept in page:
            self.story.arrived.append(Arrived(self.machine.now_us, kept.seq, kept.record))
        if self.rng.random() < 0.9:
            self._delivered = [kept.seq for kept in page]
        else:
            # reports that never came: all of it is sent again
            self._after_seq = self.wal.in_hand = 0

    def _end(self) -> None:
        """The process is gone; the machine goes on without it."""
        self.machine.life += 1
        if self.wal is not None:
            self.wal.close()
        self.wal = self.agent = None
        self.machine.pass_to(self.machine.now_us + self.down_us)
        for work in self.at_start:
            work()
        self.at_start = []

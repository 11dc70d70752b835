"""What goes wrong on a simulated machine, drawn from a seed: one misfortune after another, then some quiet."""

import random
from collections.abc import Callable
from pathlib import Path

from wattledger_agent.probes.device import MigInstance

from tests.agent_life import Lives
from tests.agent_world import DAY, HOUR, MOST_MW, T0, Card, Job, Killed, Machine, S

MS = 1000
_OUTAGES = (0, 0, 300 * MS, 5 * S, 5 * S, 130 * S, 3 * HOUR, 2 * DAY, 6 * DAY + 23 * HOUR, 8 * DAY)
_STEPS = (
    3 * MS, 300 * MS, 499 * MS, 501 * MS, 2 * S, 9 * S, 61 * S, 299 * S, 301 * S, HOUR, DAY, 30 * DAY, 365 * DAY,
)  # fmt: skip


class Script:
    """The machine of a seed, and its life. `live` runs all of it."""

    def __init__(self, seed: int, folder: Path, only: tuple[str, ...] = ()) -> None:
        self.rng = rng = random.Random(seed)
        self.period_us = rng.choice((100, 250, 1000, 1000, 2000, 5000, 10_000)) * MS
        self.flush_s = rng.choice((1, 5, 10, 30, 60))
        cap = rng.choice((1 << 30, 1 << 30, 1 << 30, 200_000, 40_000))
        full = "block" if rng.random() < 0.15 else "drop_oldest"
        self.machine = Machine(self._cards(), ["nvml", "other"] if rng.random() < 0.4 else ["nvml"])
        self.lives = Lives(self.machine, folder, rng, self.period_us // MS, self.flush_s, cap, full)  # type: ignore[arg-type]
        self._jobs = 0
        self._left = rng.randint(1, 7)
        every: dict[str, Callable[[], None]] = {
            "kill": self._kill, "kill_at": self._kill_at, "stop": self._stop, "hang": self._hang, "away": self._away,
            "bug": self._bug, "driver": self._driver, "reset": self._reset, "lose": self._lose, "miss": self._miss,
            "bad_read": self._bad_read, "freeze": self._freeze, "mig": self._mig, "reboot": self._reboot,
            "suspend": self._suspend, "step": self._step, "glitch": self._glitch, "slew": self._slew,
            "disk": self._disk, "broker": self._broker, "flush": self._flush, "watchers": self._watchers,
            "corrupt": self._corrupt, "latency": self._latency, "vanish": self._vanish, "absent": self._absent,
        }  # fmt: skip
        self._every = {name: every[name] for name in only or every}

    def _cards(self) -> list[Card]:
        """Cards whose power changes now and then; without a counter it does not, so that a trapezoid is exact."""
        cards = []
        for number in range(self.rng.randint(1, 3)):
            has_counter = self.rng.random() < 0.85
            changes = sorted(self.rng.randrange(40 * DAY) for _ in range(60 * has_counter))
            changes += sorted(self.rng.randrange(HOUR) for _ in range(40 * has_counter))
            levels = [(T0 - 41 * DAY, 300_000)]
            levels += [(T0 + at_us, self.rng.randrange(50_000, MOST_MW)) for at_us in sorted(set(changes))]
            cards.append(Card(f"GPU-{number:04x}", levels, has_counter, index=number, minor=number))
        return cards

    def live(self) -> None:
        self.machine.after(self._moment(), self._begin_job)
        self.machine.after(self._moment(), self._next)
        self.lives.live()

    def _say(self, what: str) -> None:
        at_s = (self.machine.now_us - T0) / S
        self.lives.story.log.append(f"{at_s:.3f} {what}")

    def _moment(self) -> int:
        return self.rng.randrange(1, 25) * self.period_us + self.rng.randrange(self.period_us)

    def _next(self) -> None:
        if self._left == 0:
            self.machine.after(max(30 * self.period_us, 30 * S), self._finish)
            return
        self._left -= 1
        self.machine.after(self._moment(), self._next)
        name = self.rng.choice(sorted(self._every))
        self._say(name)
        self._every[name]()

    def _finish(self) -> None:
        """Nothing is broken any more; let it run a little, and once more after a restart, then stop for good."""
        m = self.machine
        m.disk_full_until_us = m.watchers_away_until_us = self.lives.broker_away_until_us = 0
        m.hung_until_us = dict.fromkeys(m.probes, 0)
        m.away_until_us = dict.fromkeys(m.probes, 0)
        for card in m.cards.values():
            card.is_missing = card.is_lost = False
        for job in m.jobs:
            if job.end_us is None and job.cut_us is None and self.rng.random() < 0.7:
                m.end_job(job)
        self._say("quiet")
        self.lives.when_alive(lambda: m.after(max(20 * self.period_us, 75 * S), self._stop_twice))

    def _stop_twice(self) -> None:
        if self.lives.agent is None:
            self.lives.when_alive(self._stop_twice)
            return
        self._say("stop")
        self.lives.down_us, self.lives.kill_at, self.lives.stop.is_asked = 5 * S, None, True
        self.machine.after(S, lambda: self.lives.when_alive(self._last_life))

    def _last_life(self) -> None:
        self.machine.after(max(20 * self.period_us, 75 * S), self._over)

    def _over(self) -> None:
        self.lives.is_over = self.lives.stop.is_asked = True
        self.lives.down_us = 0

    def _begin_job(self) -> None:
        self.machine.after(self._moment(), self._begin_job)
        card = self.rng.choice(list(self.machine.cards.values()))
        holders = self.machine.holders(card.uuid)
        share = 1
        if card.instances:
            if len(holders) >= len(card.instances):
                return
        elif holders:
            share = holders[0].held.share_den or 1
            if share == 1 or len(holders) >= share:
                return
        elif self.rng.random() < 0.3:
            share = 4
        self._jobs += 1
        source = "kubernetes" if share > 1 else self.rng.choice(("slurm", "slurm", "kubernetes"))
        job = self.machine.begin_job(source, f"{source}-{self._jobs}", 0, card, share)
        lasts_us = self.rng.choice((400 * MS, 3 * S, 20 * self.period_us, 60 * self.period_us, HOUR, 3 * DAY))
        self.machine.after(lasts_us, lambda: self._end_job(job, card))

    def _end_job(self, job: Job, card: Card) -> None:
        if job.end_us is not None or job.cut_us is not None:
            return
        is_requeued = job.source == "slurm" and not card.instances and self.rng.random() < 0.25 and job.attempt < 3
        self.machine.end_job(job, "REQUEUED" if is_requeued else "COMPLETED")
        if is_requeued:
            again = self.machine.begin_job(job.source, job.job, job.attempt + 1, card, 1)
            self.machine.after(self.rng.choice((2 * S, 30 * self.period_us)), lambda: self._end_job(again, card))

    def _kill(self) -> None:
        if self.lives.agent is not None:
            self.lives.down_us = self.rng.choice(_OUTAGES)
            raise Killed

    def _kill_at(self) -> None:
        self.lives.down_us = self.rng.choice(_OUTAGES[:6])
        self.lives.kill_at = (self.rng.choice(("append", "note_tick")), self.rng.choice(("before", "after")))

    def _stop(self) -> None:
        self.lives.down_us = self.rng.choice(_OUTAGES)
        self.lives.stop.is_asked = True

    def _probe(self) -> str:
        return self.rng.choice(self.machine.probes)

    def _card(self) -> Card:
        return self.rng.choice(list(self.machine.cards.values()))

    def _a_while(self) -> int:
        return self.rng.choice((1, 3, 12, 40)) * self.period_us + self.rng.randrange(self.period_us)

    def _hang(self) -> None:
        self.machine.hung_until_us[self._probe()] = self.machine.now_us + self._a_while()

    def _away(self) -> None:
        self.machine.away_until_us[self._probe()] = self.machine.now_us + self._a_while()

    def _bug(self) -> None:
        self.machine.bugs.add(self._probe())

    def _driver(self) -> None:
        self.machine.load_driver(self._probe(), self._a_while(), self.rng.choice(("590", "595")))

    def _reset(self) -> None:
        card = self._card()
        card.begin_epoch(self.machine.now_us)
        if self.rng.random() < 0.5:
            self._lose()

    def _lose(self) -> None:
        card = self._card()
        card.is_lost = True
        self.machine.after(self._a_while(), lambda: setattr(card, "is_lost", False))

    def _miss(self) -> None:
        card = self._card()
        for turn in range(self.rng.choice((1, 1, 4))):
            self.machine.after(2 * turn * self.period_us, lambda: setattr(card, "is_missing", True))
            self.machine.after((2 * turn + 1) * self.period_us, lambda: setattr(card, "is_missing", False))

    def _vanish(self) -> None:
        """A card is gone when the agent comes back."""
        card = self._card()
        card.is_missing = True
        self.lives.when_alive(lambda: self.machine.after(self._a_while(), lambda: setattr(card, "is_missing", False)))
        self._kill()

    def _absent(self) -> None:
        """A probe does not answer when the agent comes back."""
        name, for_us = self._probe(), self._a_while()

        def hold() -> None:
            self.machine.away_until_us[name] = self.machine.now_us + for_us

        self.lives.at_start.append(hold)
        self._kill()

    def _bad_read(self) -> None:
        self._card().bad_read = self.rng.choice(("zero", "wild", "none"))

    def _freeze(self) -> None:
        card = self._card()
        card.frozen_us = min(card.frozen_us or self.machine.now_us, self.machine.now_us)

    def _mig(self) -> None:
        card = self._card()
        if self.machine.holders(card.uuid):
            return
        sizes = self.rng.choice(((), (3, 3), (3, 2, 1), (1,) * 7))
        made = self.rng.randrange(1 << 30)
        card.instances = tuple(
            MigInstance(str(place + 1), f"MIG-{made:08x}-{place}", f"{size}g.{size}0gb", size)
            for place, size in enumerate(sizes)
        )

    def _reboot(self) -> None:
        if self.lives.agent is None:
            return
        self.lives.down_us = self.rng.choice((20 * S, 200 * S, HOUR))
        rtc_us = self.rng.choice((0, 0, 5 * MS, -2 * S, 7 * S, 2 * HOUR, -2 * HOUR))
        order = list(range(len(self.machine.cards)))
        self.rng.shuffle(order)
        boot = f"boot-{self.machine.now_us}"
        self.machine.reboot(boot, order, rtc_us)
        if rtc_us and self.rng.random() < 0.8:
            self.machine.after(self.lives.down_us + self._a_while(), lambda: self.machine.clock.step(-rtc_us))
        raise Killed

    def _suspend(self) -> None:
        asleep_us = self.rng.choice((3 * S, 200 * S, 9 * HOUR))
        clock = self.machine.clock
        clock.asleep_us += asleep_us
        clock.now_us += asleep_us

    def _step_us(self) -> int:
        return self.rng.choice(_STEPS) * self.rng.choice((-1, 1))

    def _step(self) -> None:
        self.machine.clock.step(self._step_us())

    def _glitch(self) -> None:
        """A step that is taken back."""
        by_us = self._step_us()
        self.machine.clock.step(by_us)
        for_us = self.rng.choice((self.period_us, 4 * S, 9 * S, 11 * S, 60 * S, HOUR if self.period_us > S else 90 * S))
        self.machine.after(for_us, lambda: self.machine.clock.step(-by_us))

    def _slew(self) -> None:
        clock = self.machine.clock
        clock.slew(self.rng.choice((-500, 500, 50_000, -50_000)))
        self.machine.after(self._a_while(), lambda: clock.slew(0))

    def _disk(self) -> None:
        self.machine.disk_full_until_us = self.machine.now_us + self._a_while()

    def _broker(self) -> None:
        self.lives.broker_away_until_us = self.machine.now_us + self.rng.choice((5 * S, 200 * S, 2 * HOUR))

    def _flush(self) -> None:
        if self.lives.agent is not None:
            self.lives.agent.sampler.flush()

    def _watchers(self) -> None:
        self.machine.watchers_away_until_us = self.machine.now_us + self._a_while()

    def _latency(self) -> None:
        self.machine.latency_us = self.rng.choice((500, 3000, self.period_us // 2))

    def _corrupt(self) -> None:
        """At the next start the log's file, or its journal, is not what it was."""
        rng, path = self.rng, self.lives.path

        def spoil() -> None:
            file = Path(f"{path}{rng.choice(('', '', '-wal'))}")
            if not file.exists() or file.stat().st_size < 200:
                return
            self.lives.story.corrupted = True
            data = bytearray(file.read_bytes())
            if rng.random() < 0.3:
                data = data[: rng.randrange(len(data))]
            else:
                for _ in range(rng.choice((1, 40))):
                    data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(data)

        self.lives.at_start.append(spoil)
        self._kill()

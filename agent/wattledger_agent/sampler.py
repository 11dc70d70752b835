"""The sampler: ticks on a grid, notes each durably, and puts batches of them in the log so that batches tile time."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from wattledger_schemas import Codec

from wattledger_agent.batch_record import BatchHead, batch_record
from wattledger_agent.clock import Clock
from wattledger_agent.idle_floor import IdleFloors
from wattledger_agent.metrics import (
    BATCHES,
    CLOCK_STEPS,
    DEVICES,
    IDLE_FLOOR_RAISED,
    LAST_SUCCESS,
    TICKS,
    TICKS_SKIPPED,
    TICKS_THINNED,
    WAL_NOT_TAKING,
)
from wattledger_agent.probe_runner import ProbeResult, ProbeRunner
from wattledger_agent.probes.device import Device
from wattledger_agent.stamps import StampKeeper
from wattledger_agent.tick import BadTick, Tick, decode_tick, encode_tick
from wattledger_agent.tick_reading import SharesOf, build_tick
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import GapNote, GapRecord
from wattledger_agent.wal_record import WalFull, WalRecord, WalUnavailable

log = structlog.get_logger()
SAMPLE_TOPIC = "gpu-samples"
MOST_BRIDGED_US = 7 * 86_400_000_000
"""Longer outages begin anew: samples are kept for seven days, and nobody bills a week by one counter difference."""
_MOST_IN_MEMORY = 7200
FLOORS = "idle_floors"
InventoryChanged = Callable[[int, Sequence[Device], Mapping[str, int]], list[WalRecord]]
"""Records that say a changed inventory, to go into the log with the tick at which it was seen."""


@dataclass(frozen=True, slots=True)
class SamplerRule:
    """`period_us` between ticks; a batch is closed after `flush_us`; probes get `answer_share_pct` of a period."""

    period_us: int = 1_000_000
    flush_us: int = 30_000_000
    answer_share_pct: int = 80


class Sampler:
    """Owns the open batch. Every tick is in the log's journal before the next is taken; a batch is closed in one
    transaction that appends its record and drops its ticks but the last, which begins the next batch."""

    def __init__(
        self,
        wal: Wal,
        runners: Sequence[ProbeRunner],
        head: BatchHead,
        rule: SamplerRule,
        clock: Clock,
        codec: Codec,
        shares_of: SharesOf,
        inventory_changed: InventoryChanged,
        gap_record: GapRecord,
    ) -> None:
        self._wal = wal
        self._runners = runners
        self._head = head
        self._rule = rule
        self._clock = clock
        self._codec = codec
        self._shares_of = shares_of
        self._inventory_changed = inventory_changed
        self._gap_record = gap_record
        self._floors = IdleFloors.load(wal.state(FLOORS))
        self._devices: dict[str, Device] = {}
        self._pending: list[WalRecord] = []
        self._seq = 0
        self._ticks: list[tuple[int | None, Tick]] = self._recovered()
        last_us = self._ticks[-1][1].at_us if self._ticks else 0
        self._stamps = StampKeeper(clock.wall_us(), clock.boot_us(), last_us)
        self.results: tuple[ProbeResult, ...] = ()
        self.sharing: Callable[[str], str] = lambda device: ""
        """How schedulers share a device now, where they say so: time_sliced or mps; else empty."""
        self.seen: Callable[[int], None] = lambda at_us: None
        """Called at each tick with its time, when `results` are those of the tick."""

    def _recovered(self) -> list[tuple[int | None, Tick]]:
        """Ticks that were noted and in no batch yet when the agent stopped; only those since time last broke off."""
        ticks: list[tuple[int | None, Tick]] = []
        for number, data in self._wal.open_ticks():
            try:
                ticks.append((number, decode_tick(data)))
            except BadTick as error:
                log.error("tick_not_readable", number=number, error=str(error))
        for place in range(len(ticks) - 1, 0, -1):
            apart_us = ticks[place][1].at_us - ticks[place - 1][1].at_us
            if not 0 < apart_us <= MOST_BRIDGED_US:
                self._note_gap("broken_off", ticks[0][1].at_us, ticks[place][1].at_us)
                ticks = ticks[place:]
                break
        if ticks:
            log.info("ticks_recovered", count=len(ticks))
        return ticks

    @property
    def last_us(self) -> int:
        """Time of the newest tick; 0 when there is none."""
        return self._ticks[-1][1].at_us if self._ticks else 0

    @property
    def devices(self) -> dict[str, Device]:
        """The inventory in use, by device."""
        return self._devices

    def step(self) -> Tick | None:
        """Take one tick; None when there is no device, or no stamp (the clock was set back into time that was said)."""
        now_s = self._clock.monotonic_s()
        stamp = self._stamps.stamp(self._clock.wall_us(), self._clock.boot_us())
        for runner in self._runners:
            runner.ask()
        until_s = now_s + self._rule.period_us * self._rule.answer_share_pct / 100_000_000
        results = tuple(runner.take(until_s) for runner in self._runners)
        self.results = results
        if stamp.step:
            self._clock_was_set(stamp.step, stamp.silent_to_us)
        if stamp.at_us is None:
            TICKS_SKIPPED.labels("clock_set_back").inc()
            return None
        self._take_inventory(stamp.at_us, results)
        tick = build_tick(stamp.at_us, results, self._devices, self._shares_of)
        if not tick.devices:
            # a batch is of devices; a machine without any, or whose driver is yet to come, has none
            TICKS_SKIPPED.labels("no_device").inc()
            return None
        self._count(tick)
        self.seen(stamp.at_us)
        self._see_floors(stamp.at_us, results)
        if self._ticks and stamp.at_us - self._ticks[-1][1].at_us > MOST_BRIDGED_US:
            self._begin_anew("outage", self._ticks[-1][1].at_us, stamp.at_us)
        self._note(tick)
        if stamp.at_us - self._ticks[0][1].at_us >= self._rule.flush_us:
            self.flush()
        return tick

    def flush(self) -> bool:
        """Close the batch if it has two ticks; False when the log took nothing and the ticks wait in memory."""
        records = list(self._pending)
        ticks = [tick for _, tick in self._ticks]
        if len(ticks) >= 2 and self._devices:
            devices = {name: self._shared(device) for name, device in self._devices.items()}
            record = batch_record(self._head, self._seq, ticks, devices, self._floors.floors_mw)
            if record["devices"]:
                value = self._codec.encode("sample_batch", record)
                records.append(WalRecord(SAMPLE_TOPIC, self._head.node, value, at_us=ticks[-1].at_us))
        elif not records:
            return True
        try:
            number = self._number_of_last()
            self._wal.append(records, ticks_before=number, state={FLOORS: self._floors.dump()})
        except (WalFull, WalUnavailable) as error:
            WAL_NOT_TAKING.set(1)
            log.warning("wal_not_taking", error=str(error), ticks=len(ticks))
            self._thin()
            return False
        WAL_NOT_TAKING.set(0)
        self._pending = []
        self._ticks = self._ticks[-1:]
        self._seq += 1
        BATCHES.inc()
        return True

    def _number_of_last(self) -> int | None:
        """The journal's number of the newest tick, which is noted now if it could not be before: without it the ticks
        of this batch would stay in the journal, and be in another batch after a kill."""
        if not self._ticks:
            return None
        number, tick = self._ticks[-1]
        if number is None:
            number = self._wal.note_tick(encode_tick(tick), tick.at_us)
            self._ticks[-1] = (number, tick)
        return number

    def _note(self, tick: Tick) -> None:
        number: int | None = None
        try:
            number = self._wal.note_tick(encode_tick(tick), tick.at_us)
            TICKS.inc()
            LAST_SUCCESS.set(tick.at_us / 1_000_000)
        except (WalFull, WalUnavailable) as error:
            WAL_NOT_TAKING.set(1)
            log.warning("tick_not_noted", error=str(error))
        self._ticks.append((number, tick))
        if len(self._ticks) > _MOST_IN_MEMORY:
            self._thin()

    def _thin(self) -> None:
        """While the log takes nothing: of many ticks in memory every other goes, never the first or the newest. The
        counter still bridges; the resolution suffers."""
        if len(self._ticks) > _MOST_IN_MEMORY // 2:
            kept = self._ticks[::2] if len(self._ticks) % 2 else [*self._ticks[::2], self._ticks[-1]]
            TICKS_THINNED.inc(len(self._ticks) - len(kept))
            self._ticks = kept

    def _take_inventory(self, at_us: int, results: Sequence[ProbeResult]) -> None:
        """A changed inventory closes the batch, for a batch says one thing of each device."""
        found = {d.device: d for result in results if result.inventory for d in result.inventory.devices}
        if found == self._devices or not found:
            return
        if self._devices:
            self.flush()
        elif self._ticks:
            # after a restart: what was noted before is of the same devices, as far as they are still there
            self._devices = found
            self.flush()
        self._devices = found
        self._pending += self._inventory_changed(
            at_us, tuple(map(self._shared, found.values())), self._floors.floors_mw
        )
        log.info("inventory", devices=len(found))

    def _shared(self, device: Device) -> Device:
        sharing = self.sharing(device.device)
        return replace(device, sharing=sharing) if sharing and not device.is_mig else device

    def _see_floors(self, at_us: int, results: Sequence[ProbeResult]) -> None:
        readings = [reading for result in results if result.tick for reading in result.tick.devices]
        if self._floors.see(at_us, readings):
            self._pending += self._inventory_changed(
                at_us, tuple(map(self._shared, self._devices.values())), self._floors.floors_mw
            )
        for device in self._devices:
            IDLE_FLOOR_RAISED.labels(device).set(int(device in self._floors.raised))

    def _clock_was_set(self, direction: str, silent_to_us: int) -> None:
        CLOCK_STEPS.labels(direction).inc()
        log.warning("clock_was_set", direction=direction, silent_to_us=silent_to_us)
        if direction == "back" and self._ticks:
            self._begin_anew("clock_set_back", self._ticks[-1][1].at_us, silent_to_us)

    def _begin_anew(self, reason: str, from_us: int, to_us: int) -> None:
        """Close the batch and let the next one begin without its last tick: the time between is unknown, and a gap
        record says so. Counters are not differenced across it."""
        if not self.flush():
            from_us = self._ticks[0][1].at_us
        number, self._ticks = self._ticks[-1][0], []
        self._note_gap(reason, from_us, to_us)
        if number is not None:
            try:
                self._wal.append(self._pending, ticks_before=number + 1)
                self._pending = []
            except (WalFull, WalUnavailable) as error:
                log.warning("wal_not_taking", error=str(error), ticks=0)

    def _note_gap(self, reason: str, from_us: int, to_us: int) -> None:
        self._pending.append(self._gap_record(GapNote(SAMPLE_TOPIC, 0, 0, 0, from_us, to_us, reason)))

    def _count(self, tick: Tick) -> None:
        lost = sum(row.lost for row in tick.devices)
        unread = sum(not row.lost and all(r.value is None for r in row.readings) for row in tick.devices)
        for state, count in (("ok", len(tick.devices) - lost - unread), ("lost", lost), ("unread", unread)):
            DEVICES.labels(state).set(count)

    def run(self, stop: threading.Event, beat: Callable[[], None]) -> None:
        """Tick on the grid until `stop`; then close the batch. `beat` is called once a tick."""
        period_s = self._rule.period_us / 1_000_000
        due_s = self._clock.monotonic_s()
        while not stop.is_set():
            self.step()
            beat()
            due_s += period_s
            left_s = due_s - self._clock.monotonic_s()
            if left_s < -period_s:
                missed = int(-left_s / period_s)
                TICKS_SKIPPED.labels("late").inc(missed)
                due_s += missed * period_s
            stop.wait(max(left_s, 0))
        self.flush()

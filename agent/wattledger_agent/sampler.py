"""The sampler: ticks on a grid, notes each durably, and puts batches of them in the log so that batches tile time."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from wattledger_schemas import Codec

from wattledger_agent.batch_record import BatchHead, batch_record
from wattledger_agent.clock import Clock
from wattledger_agent.device_memory import dump_devices, load_devices
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
from wattledger_agent.pending_records import PendingRecords
from wattledger_agent.probe_runner import ProbeResult, ProbeRunner
from wattledger_agent.probes.device import Device
from wattledger_agent.probes.reading import TIMED_OUT
from wattledger_agent.recovered_ticks import recover_ticks
from wattledger_agent.said_time import SaidTime
from wattledger_agent.stamps import MOST_BRIDGED_US, Break, Stamp, StampKeeper
from wattledger_agent.tick import Tick, encode_tick
from wattledger_agent.tick_reading import SharesOf, build_tick
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import GapNote, GapRecord
from wattledger_agent.wal_record import WalFull, WalRecord, WalUnavailable

__all__ = ["DEVICES_KEPT", "FLOORS", "MOST_BRIDGED_US", "SAID", "SAMPLE_TOPIC", "Sampler", "SamplerRule"]

log = structlog.get_logger()
SAMPLE_TOPIC = "gpu-samples"
FLOORS, SAID, DEVICES_KEPT = "idle_floors", "said_time", "devices"
"""What the log remembers for the sampler."""
_MOST_IN_MEMORY = 3600
_MOST_OPEN_US = 300_000_000
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
        self._floors = IdleFloors.load(wal.state(FLOORS))
        self._said = SaidTime.load(wal.state(SAID))
        self._devices: dict[str, Device] = {}
        self._are_devices_kept = True
        self._pending = PendingRecords(gap_record)
        self._seq = 0
        self._remembered = load_devices(wal.state(DEVICES_KEPT))
        self._open, gaps = recover_ticks(wal, self._said, self._remembered, gap_record)
        for gap in gaps:
            self._pending.note(gap)
        last_us = self._open.last.tick.at_us if self._open.last else None
        self._stamps = StampKeeper(clock.wall_us(), clock.boot_us(), self._said, last_us)
        self._begins = self._is_refused = False
        self.results: tuple[ProbeResult, ...] = ()
        self.sharing: Callable[[str], str] = lambda device: ""
        """How schedulers share a device now, where they say so: time_sliced or mps; else empty."""
        self.seen: Callable[[int], None] = lambda at_us: None
        """Called at each tick with its time, when `results` are those of the tick."""

    @property
    def last_us(self) -> int:
        """Time of the newest tick; 0 when there is none."""
        return self._open.last.tick.at_us if self._open.last else 0

    @property
    def devices(self) -> dict[str, Device]:
        """The inventory in use, by device."""
        return self._devices

    def step(self) -> Tick | None:
        """Take one tick; None when there is no device, or no stamp (the time was said already)."""
        now_s, boot_us = self._clock.monotonic_s(), self._clock.boot_us()
        stamp = self._stamps.stamp(self._clock.wall_us(), boot_us)
        for runner in self._runners:
            runner.ask()
        until_s = now_s + self._rule.period_us * self._rule.answer_share_pct / 100_000_000
        results = tuple(runner.take(until_s) for runner in self._runners)
        if self._clock.boot_us() - boot_us > self._rule.period_us:
            # the machine slept in between: what was read is not of the time of the stamp
            results = tuple(ProbeResult(None, result.inventory, TIMED_OUT) for result in results)
        self.results = results
        self._follow_clock(stamp)
        self._take_inventory(stamp.now_us, results)
        if stamp.at_us is None:
            TICKS_SKIPPED.labels("clock_set_back").inc()
            return None
        tick = build_tick(stamp.at_us, results, self._devices, self._shares_of)
        if not tick.devices:
            # a batch is of devices; a machine without any, or whose driver is yet to come, has none
            TICKS_SKIPPED.labels("no_device").inc()
            return None
        tick, self._begins = replace(tick, begins=self._begins), False
        self._stamps.use(stamp.at_us)
        self._count(tick)
        self.seen(stamp.at_us)
        self._see_floors(stamp.at_us, results)
        if self._note(tick) and self._is_due(stamp.at_us):
            self.flush()
        return tick

    def _is_due(self, at_us: int) -> bool:
        """Whether to close the batch. While a counter is not readable that was, it is left open for a while: only
        within a batch does a counter bridge."""
        open_us = at_us - self._open.first_us
        return open_us >= self._rule.flush_us and (open_us >= _MOST_OPEN_US or self._open.end_well)

    def flush(self) -> bool:
        """Close the batch if it has two ticks; False when the log took nothing and the ticks wait in memory."""
        if not self._open.are_known:
            return self._put_pending()
        try:
            number = self._number_of_last()
            batches = self._records()
            records = [*self._pending.records, *batches]
            if not records:
                return True
            state = {FLOORS: self._floors.dump(), SAID: self._said.dump(), **self._devices_state()}
            self._wal.append(records, ticks_before=number, state=state)
        except (WalFull, WalUnavailable) as error:
            self._not_taken(error)
            return False
        self._taken()
        self._open.close()
        self._seq += len(batches)
        BATCHES.inc(len(batches))
        return True

    def _records(self) -> list[WalRecord]:
        records = []
        for place, cut in enumerate(self._open.cuts()):
            devices = {name: self._shared(device) for name, device in cut.devices.items()}
            record = batch_record(self._head, self._seq + place, cut.ticks, devices, self._floors.floors_mw)
            value = self._codec.encode("sample_batch", record)
            records.append(WalRecord(SAMPLE_TOPIC, self._head.node, value, at_us=cut.ticks[-1].at_us))
        return records

    def _number_of_last(self) -> int | None:
        """The journal's number of the newest tick, which is noted now if it could not be before: without it the ticks
        of this batch would stay in the journal, and be in another batch after a kill."""
        last = self._open.last
        if last is None:
            return None
        if last.number is not None:
            return last.number
        number = self._wal.note_tick(encode_tick(last.tick), last.tick.at_us)
        self._open.number_last(number)
        return number

    def _put_pending(self, ticks_before: int | None = None) -> bool:
        """What is to be said besides batches; False when the log took nothing."""
        if not self._pending.records and ticks_before is None:
            return True
        try:
            self._wal.append(self._pending.records, ticks_before=ticks_before, state=self._devices_state())
        except (WalFull, WalUnavailable) as error:
            self._not_taken(error)
            return False
        self._taken()
        return True

    def _devices_state(self) -> dict[str, bytes]:
        return {} if self._are_devices_kept else {DEVICES_KEPT: dump_devices(self._devices)}

    def _taken(self) -> None:
        WAL_NOT_TAKING.set(0)
        if self._is_refused:
            log.info("wal_taking_again", ticks=len(self._open))
        self._is_refused = False
        self._pending.clear()
        self._are_devices_kept = True

    def _not_taken(self, error: Exception) -> None:
        WAL_NOT_TAKING.set(1)
        if not self._is_refused:
            # once, not at each tick: the metric says how long it lasts
            log.warning("wal_not_taking", error=str(error), ticks=len(self._open))
        self._is_refused = True

    def _note(self, tick: Tick) -> bool:
        """False when the log does not take it: then it waits in memory, thinned when there are many."""
        number: int | None = None
        try:
            number = self._wal.note_tick(encode_tick(tick), tick.at_us)
            TICKS.inc()
            LAST_SUCCESS.set(tick.at_us / 1_000_000)
        except (WalFull, WalUnavailable) as error:
            self._not_taken(error)
        self._open.add(number, tick, self._devices)
        if len(self._open) > _MOST_IN_MEMORY:
            TICKS_THINNED.inc(self._open.thin())
        if len(self._open) > 2 * _MOST_IN_MEMORY:
            self._pending.note(GapNote(SAMPLE_TOPIC, 0, 0, 0, *self._open.give_up_half(), "log_not_taking"))
        return number is not None

    def _take_inventory(self, at_us: int, results: Sequence[ProbeResult]) -> None:
        """A changed inventory closes the batch, for a batch says one thing of each device."""
        found = {d.device: d for result in results if result.inventory for d in result.inventory.devices}
        if any(one.inventory is None and not probe.absent for probe, one in zip(self._runners, results, strict=True)):
            # a probe that has not answered since the agent was started: its devices are those of before
            found = {**self._remembered, **found}
        if found == self._devices or not found:
            return
        if not self._devices:
            self._open.know(found)
        self.flush()
        self._devices, self._are_devices_kept = found, False
        self._say_inventory(at_us)
        self._put_pending()
        log.info("inventory", devices=len(found))

    def _say_inventory(self, at_us: int) -> None:
        devices = tuple(map(self._shared, self._devices.values()))
        self._pending.add(self._inventory_changed(at_us, devices, self._floors.floors_mw))

    def _shared(self, device: Device) -> Device:
        sharing = self.sharing(device.device)
        return replace(device, sharing=sharing) if sharing and not device.is_mig else device

    def _see_floors(self, at_us: int, results: Sequence[ProbeResult]) -> None:
        readings = [reading for result in results if result.tick for reading in result.tick.devices]
        if self._floors.see(at_us, readings):
            self._say_inventory(at_us)
        for device in self._devices:
            IDLE_FLOOR_RAISED.labels(device).set(int(device in self._floors.raised))

    def _follow_clock(self, stamp: Stamp) -> None:
        if stamp.step:
            CLOCK_STEPS.labels(stamp.step).inc()
            log.warning("clock_was_set", direction=stamp.step, silent_to_us=stamp.silent_to_us)
        if stamp.broken is not None:
            self._begin_anew(stamp.broken)

    def _begin_anew(self, broken: Break) -> None:
        """Close the batch and let the next one begin without its last tick: the time between is unknown, and a gap
        record says so. Counters are not differenced across it."""
        is_closed = self.flush()
        self._pending.note(GapNote(SAMPLE_TOPIC, 0, 0, 0, broken.from_us, broken.to_us, broken.reason))
        self._begins = True
        last = self._open.last
        if not is_closed or len(self._open) > 1 or last is None or last.number is None:
            return
        # with the gap record goes the tick from which a restarted agent would go on
        if self._put_pending(ticks_before=last.number + 1):
            self._open.clear()

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

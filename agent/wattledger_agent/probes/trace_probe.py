"""The trace probe: a recorded machine in place of a real one. Gives the ticks of a trace's sample batches one by one.

It keeps no time of its own: whoever reads it stamps the ticks. What the wire does not carry (pids, MIG UUIDs, limits)
it does not have.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattledger_schemas import BadRecord, Codec

from wattledger_agent.probes.counter_track import CounterTrack
from wattledger_agent.probes.device import Device, Inventory
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import ProbeTick, Reading
from wattledger_agent.probes.scrape_metric import MAX_POWER_MW
from wattledger_agent.probes.trace_batch import PlayedBatch
from wattledger_agent.trace import TraceRefused, read_trace

_TOPIC, _SUBJECT = "gpu-samples", "sample_batch"


class TraceProbe:
    """Plays the samples of one node of a trace file: `node`, or the first one in it.

    Closed and opened again it goes on where it was, as a machine would. At the end of the trace a read raises
    ProbeUnavailable, and so does `open` from then on; with `loops` it begins again, in new counter epochs.
    """

    def __init__(self, path: Path, codec: Codec | None = None, node: str = "", loops: bool = False) -> None:
        self._path = path
        self._codec = codec
        self._node = node
        self._loops = loops
        self._counters = _Counters()
        self._given_us = -1
        self._batch: PlayedBatch | None = None
        self._next = 0
        self._batches: Iterator[PlayedBatch] | None = None
        self._shown: Inventory | None = None
        self._told: tuple[Device, ...] | None = None

    @property
    def name(self) -> str:
        return "trace"

    def open(self) -> None:
        """Find the next tick. Raises ProbeUnavailable: no such file, a line that can't be read, no sample, the end."""
        self.close()
        self._batches = self._read_batches()
        self._shown = self._show(self._current())

    def inventory(self) -> Inventory:
        """The devices as recorded with the last tick given, at first with the one that comes. Raises ProbeUnavailable
        when not open."""
        if self._shown is None or self._batches is None:
            raise ProbeUnavailable(f"trace {self._path} is not open", "open it first")
        self._told = self._shown.devices
        return self._shown

    def read(self) -> ProbeTick:
        """The next tick. Raises ProbeUnavailable at the end of the trace."""
        batch, tick = self._current(), self._next
        at_us = batch.ticks_us[tick]
        self._given_us, self._next = at_us, tick + 1
        epochs = {device.device: device.counter_epoch for device in batch.devices()}
        devices = tuple(
            replace(one, energy_uj=self._counters.take(one.device, epochs[one.device], one.energy_uj, at_us))
            for one in batch.readings(tick)
        )
        zones = tuple(
            replace(
                one,
                energy_uj=self._counters.take(one.zone, one.counter_epoch, one.energy_uj, at_us),
                counter_epoch=self._counters.epoch(one.zone, one.counter_epoch),
            )
            for one in batch.zones(tick)
        )
        self._shown = self._show(batch)
        return ProbeTick(devices, zones, self._told is not None and self._shown.devices != self._told)

    def close(self) -> None:
        """Let go of the file; what was given is not given again."""
        self._batches = self._batch = None

    def _current(self) -> PlayedBatch:
        if self._batches is None:
            raise ProbeUnavailable(f"trace {self._path} is not open", "open it first")
        if self._batch is None or self._next >= len(self._batch.ticks_us):
            self._advance()
        assert self._batch is not None
        return self._batch

    def _show(self, batch: PlayedBatch) -> Inventory:
        devices = tuple(
            replace(one, counter_epoch=self._counters.epoch(one.device, one.counter_epoch)) for one in batch.devices()
        )
        return Inventory(devices, batch.notes, f"trace {self._path} (node {batch.node})")

    def _advance(self) -> None:
        """The next batch that has a tick after the last one given: the first tick of a batch repeats the last of the
        one before, and a batch may be there twice."""
        assert self._batches is not None
        try:
            self._batch = next(self._batches, None)
        except (TraceRefused, BadRecord, OSError, UnicodeDecodeError) as error:
            raise ProbeUnavailable(f"trace {self._path} can't be read: {error}", "record it again") from error
        if self._batch is not None:
            self._next = self._batch.first_after(self._given_us)
            return
        if self._given_us < 0:
            whose = f" of node {self._node!r}" if self._node else ""
            raise ProbeUnavailable(
                f"trace {self._path} has no samples{whose}", "record one with wattledger-agent record"
            )
        if not self._loops:
            raise ProbeUnavailable(f"trace {self._path} has been played to its end", "give another one")
        self._counters.begin_again()
        self._given_us = -1
        self._batches = self._read_batches()
        self._advance()

    def _read_batches(self) -> Iterator[PlayedBatch]:
        codec = self._codec or Codec()
        self._codec = codec
        for item in read_trace(self._path, codec):
            if item.topic != _TOPIC:
                continue
            subject, _, record = codec.decode(item.value)
            if subject == _SUBJECT and (batch := self._ours(record)) is not None:
                yield batch

    def _ours(self, record: dict[str, Any]) -> PlayedBatch | None:
        self._node = self._node or record["node"]
        if record["node"] != self._node:
            return None
        batch = PlayedBatch(record)
        return batch if batch.first_after(self._given_us) < len(batch.ticks_us) else None


class _Counters:
    """Recorded counters by what they belong to. A record in which one falls, or a trace played again, gets epochs of
    its own, so that within an epoch none falls."""

    def __init__(self) -> None:
        self._round = 1
        self._tracks: dict[tuple[str, str], CounterTrack] = {}

    def begin_again(self) -> None:
        self._round += 1
        self._tracks.clear()

    def take(self, whose: str, epoch: str, read: Reading, at_us: int) -> Reading:
        if read.value is None:
            return read
        track = self._tracks.setdefault((whose, epoch), CounterTrack())
        return track.take(read.value, at_us, MAX_POWER_MW)

    def epoch(self, whose: str, epoch: str) -> str:
        track = self._tracks.get((whose, epoch))
        marks = (f"/round-{self._round}" if self._round > 1 else "", f"/run-{track.run}" if track and track.run else "")
        return epoch + "".join(marks)

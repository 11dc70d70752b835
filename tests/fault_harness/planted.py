"""Bugs that a hurried engineer would make, planted into a real worker at its start (`plant:NAME` of the launcher).

Each replaces one function of the product in this process only. A name that is no longer there raises: a bug that is
not planted would show nothing.
"""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Context
from importlib import import_module
from typing import Any
from uuid import uuid4


def plant(bug: str) -> None:
    """Plant one of `BUGS` or `BURDENS`. Raises ValueError for a name that there is not."""
    known = BUGS | BURDENS
    if bug not in known:
        raise ValueError(f"bug {bug!r} is not known: {', '.join(known)}")
    known[bug]()


def _replace(owner: Any, name: str, made: Callable[[Any], Any]) -> None:
    """Put `made(real)` in the place of `owner.name`."""
    setattr(owner, name, made(getattr(owner, name)))


def _module(name: str) -> Any:
    return import_module(name)


def ack_before_insert() -> None:
    """Acknowledged and committed when it is read, not when it is written."""
    guard = _module("wattledger_streams.guard").Guard
    acknowledge = guard.acknowledge

    def early(takes: Any) -> Any:
        async def taking(self: Any, stream: Any, most: int, within_s: float) -> AsyncIterator[Sequence[Any]]:
            async for events in takes(self, stream, most, within_s):
                await acknowledge(self, stream, events)
                await stream.app.consumer.commit()
                yield events

        return taking

    async def nothing(self: Any, stream: Any, events: Sequence[Any]) -> None:
        """Done already."""

    _replace(guard, "takes", early)
    guard.acknowledge = nothing


def commit_on_rebalance() -> None:
    """What was received is committed when partitions are revoked, whether its output is out or not."""
    guard, tp = _module("wattledger_streams.guard").Guard, _module("faust.types").TP
    received: dict[Any, int] = {}

    def noting(takes: Any) -> Any:
        async def taking(self: Any, stream: Any, most: int, within_s: float) -> AsyncIterator[Sequence[Any]]:
            async for events in takes(self, stream, most, within_s):
                for event in events:
                    received[tp(event.message.topic, event.message.partition)] = event.message.offset + 1
                yield events

        return taking

    def committing(revoke: Any) -> Any:
        async def revoking(self: Any, revoked: Any) -> None:
            done = {place: offset for place, offset in received.items() if place in revoked}
            await self.consumer._commit_offsets(done)
            await revoke(self, revoked)

        return revoking

    _replace(guard, "takes", noting)
    _replace(_module("faust").App, "_on_partitions_revoked", committing)


def place_kept_before_settled() -> None:
    """The meter keeps its place in the book when quarter-hours and corrections are queued, not when they are out. The
    launcher counts only such places."""
    partition = _module("wattledger_streams.meter_partition").MeterPartition
    too_early: set[int] = set()

    def early(read: Any) -> Any:
        async def reading(self: Any) -> bool:
            emitter = self._emitter
            self._emitter = _NeverSettled(emitter)
            too_early.add(id(self))
            try:
                return bool(await read(self))
            finally:
                too_early.discard(id(self))
                self._emitter = emitter

        return reading

    def uncounted(keep_positions: Any) -> Any:
        async def keeping(self: Any) -> None:
            keep = self._keep
            if id(self) not in too_early or not self._emitter.has_more:
                self._keep = lambda *args: keep.__wrapped__(keep.__self__, *args)
            try:
                await keep_positions(self)
            finally:
                self._keep = keep

        return keeping

    _replace(partition, "read_book", early)
    _replace(partition, "_keep_positions", uncounted)


class _NeverSettled:
    """An emitter that says it has settled."""

    def __init__(self, emitter: Any) -> None:
        self._emitter = emitter
        self._queued = self._count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._emitter, name)

    def _count(self) -> int:
        return sum(map(len, self._emitter._gathered.values()))

    @property
    def has_more(self) -> bool:
        """Whether rows were queued since."""
        return self._count() > self._queued

    async def settle(self) -> None:
        """Not yet."""


def fold_not_rebuilt() -> None:
    """After a start sessions go on from an empty state."""
    sessions, fold = _module("wattledger_streams.sessions").Sessions, _module("wattledger_core.session").SessionFold

    def empty(self: Any, partition: int, offset: int) -> None:
        self._folds[partition] = fold(partition)

    _replace(sessions, "_rebuild", lambda _: empty)


def clock_in_row_id() -> None:
    """Lines are named by what they are about and by when the worker began."""
    began = time.time_ns()

    def named(digest: Any) -> Any:
        return lambda *parts: digest(*parts, began) if parts[0] == "line" else digest(*parts)

    for module in ("late", "energy_meter"):
        _replace(_module(f"wattledger_core.{module}"), "digest", named)


def id_made_at_insert() -> None:
    """Rows get their ids where they are inserted, so an insert that is done again is another row."""

    def renaming(add: Any) -> Any:
        def adding(self: Any, table: str, rows: Sequence[Any], source: Any) -> None:
            if table == "usage_lines":
                rows = [row._replace(line_id=uuid4().hex) if row.sign > 0 else row for row in rows]
            add(self, table, rows, source)

        return adding

    rows = _module("wattledger_streams.sink_rows").Rows
    _replace(rows, "add", renaming)
    # every record is decoded here: what ClickHouse decodes has no place where an id could be made
    _replace(rows, "give_back", lambda give: lambda self, *_: give(self))


def unreversed_correction() -> None:
    """A late revision's correction is written; the row that it corrects is not taken back."""

    def without(step: Any) -> Any:
        def stepping(standing: Any, after: Any, cause_id: str, written: Any) -> Any:
            result = step(standing, after, cause_id, written)
            written.lines = [line for line in written.lines if line.entry != "reversal"]
            return result

        return stepping

    _replace(_module("wattledger_core.late"), "_step", without)


def late_revision_ignored() -> None:
    """What comes after the lateness changes nothing."""
    _replace(_module("wattledger_core.meter").PartitionMeter, "read", lambda read: _then_none(read))
    _replace(_module("wattledger_core.book").Book, "late", lambda _: lambda *_args, **_named: [])


def _then_none(call: Any) -> Any:
    def calling(*args: Any) -> None:
        call(*args)

    return calling


def marks_not_waited_for() -> None:
    """A batch is metered when it comes, by what happens to be known then."""

    def at_once(verdict: Any) -> Any:
        return lambda *args: "ready" if verdict(*args) == "wait" else verdict(*args)

    _replace(_module("wattledger_core.meter").PartitionMeter, "verdict", at_once)


def late_price_in_place() -> None:
    """A late price writes the row again under its id, instead of taking it back and correcting it."""
    digest = _module("wattledger_core.ids").digest

    def rewriting(late_rows: Any) -> Any:
        def rows(line: Any, components: Any, only: Any) -> list[Any]:
            return [
                row._replace(row_id=digest("cost", line.line_id, row.component), entry="original", cause_id="")
                for row in late_rows(line, components, only)
                if row.entry == "correction"
            ]

        return rows

    _replace(_module("wattledger_core.pricing"), "late_rows", rewriting)


def newest_price() -> None:
    """A line is priced by what the book says when it is priced, not by what it said when the line was cut off."""
    log = _module("wattledger_core.price_log").PriceLog
    _replace(log, "known_before", lambda _: lambda self, cutoff_us: len(self.entries))


def _each_line(change: Callable[[Any], Any]) -> None:
    def changing(energy_lines: Any) -> Any:
        def lines(*args: Any) -> Any:
            found, discrepancies = energy_lines(*args)
            return [change(line) for line in found], discrepancies

        return lines

    _replace(_module("wattledger_core.meter"), "energy_lines", changing)


def gap_as_zero() -> None:
    """Energy that nobody measured is 0."""
    _each_line(lambda line: line._replace(energy_uj=0) if line.energy_uj is None else line)


def float_joules() -> None:
    """Energy goes through a float of joules and is cut off to µJ again."""

    def through(line: Any) -> Any:
        return line if line.energy_uj is None else line._replace(energy_uj=int(line.energy_uj / 1e6 * 1e6))

    _each_line(through)


def float_money() -> None:
    """Cost is multiplied out in floats and rounded."""
    row = _module("wattledger_core.pricing_row")

    def multiplied(quantity: Any, factor: Any) -> float:
        return float(quantity) * float(factor)

    def divided(product: float, divisor: Any) -> float:
        return product / float(divisor)

    def rounded(amount: float, quantum: Any) -> Any:
        return type(quantum)(repr(amount)).quantize(quantum)

    row._multiply, row._divide, row._quantize = multiplied, divided, rounded


def half_up_rounding() -> None:
    """Halves are rounded up, as at school."""
    context = Context(prec=60, rounding=ROUND_HALF_UP)
    _replace(_module("wattledger_core.pricing_row"), "_quantize", lambda _: context.quantize)


def shares_floored_apart() -> None:
    """Each holder's share is rounded down by itself, so what is left over is nobody's."""

    def apart(_: Any) -> Any:
        def parts(whole: int, weights: Sequence[int], total: int | None = None) -> list[int]:
            base = (sum(weights) if total is None else total) or len(weights)
            return [whole * weight // base for weight in weights]

        return parts

    for module in ("energy_split", "allocation_meter"):
        _replace(_module(f"wattledger_core.{module}"), "split_exactly", apart)


def last_tick_dropped() -> None:
    """A batch ends with the tick before its last."""
    arrays = ("power_mw", "power_valid", "counter_uj", "counter_valid", "busy_ppm", "busy_valid")

    def shorter(batch: Any) -> Any:
        def cut(self: Any, raw: bytes) -> Any:
            whole = batch(self, raw)
            columns = {name: getattr(whole, name)[:, :-1] for name in arrays}
            return replace(whole, ticks_us=whole.ticks_us[:-1], **columns)

        return cut

    _replace(_module("wattledger_streams.meter_partition").MeterPartition, "batch", shorter)


def poison_skipped() -> None:
    """What can't be read is passed over without a word."""
    _replace(
        _module("wattledger_streams.dead_letter").DeadLetters, "put_aside", lambda _: lambda *_args, **_named: None
    )


def retry_under_another_id() -> None:
    """A late revision's rows are named by the moment of the correction: done again, they are other rows."""
    began = time.time_ns()

    def named(digest: Any) -> Any:
        return lambda *parts: digest(*parts, began) if parts[0] == "correction" else digest(*parts)

    _replace(_module("wattledger_core.late"), "digest", named)


def slow_fold() -> None:
    """No bug: a partition's books take four seconds to fold, as those of a long history do."""

    def slowly(catch_up: Any) -> Any:
        def sleeping(self: Any) -> None:
            time.sleep(4)
            catch_up(self)

        return sleeping

    _replace(_module("wattledger_streams.meter_partition").MeterPartition, "catch_up", slowly)


BURDENS: dict[str, Callable[[], None]] = {"slow_fold": slow_fold}
_FOUND = (
    ack_before_insert, commit_on_rebalance, place_kept_before_settled, fold_not_rebuilt, clock_in_row_id,
    id_made_at_insert, unreversed_correction, late_revision_ignored, marks_not_waited_for, late_price_in_place,
    newest_price, gap_as_zero, float_joules, float_money, half_up_rounding, shares_floored_apart, last_tick_dropped,
    poison_skipped, retry_under_another_id,
)  # fmt: skip
BUGS: dict[str, Callable[[], None]] = {found.__name__: found for found in _FOUND}

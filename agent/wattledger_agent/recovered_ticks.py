"""Ticks that were noted and in no batch yet when the agent stopped: which of them still count. No clock."""

from collections.abc import Mapping
from dataclasses import replace

import structlog

from wattledger_agent.open_ticks import OpenTicks
from wattledger_agent.probes.device import Device
from wattledger_agent.said_time import SaidTime
from wattledger_agent.stamps import MOST_BRIDGED_US
from wattledger_agent.tick import BadTick, Tick, decode_tick
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import TICKS, GapNote, GapRecord

log = structlog.get_logger()
_SAMPLES = "gpu-samples"


def recover_ticks(
    wal: Wal, said: SaidTime, devices: Mapping[str, Device], gap_record: GapRecord
) -> tuple[OpenTicks, list[GapNote]]:
    """The open ticks of the log, of the `devices` that it remembers, and gaps to note. Their time is said from now on.

    Raises WalUnavailable when the log can neither be trusted nor written.
    """
    ticks, gaps = _read(wal)
    opened = OpenTicks()
    if ticks and wal.files_put_aside:
        # what the damage took may have been the batch that holds them: said again they would count twice
        first_us, last_us = ticks[0][1].at_us, ticks[-1][1].at_us
        said.add(min(first_us, last_us), max(first_us, last_us))
        gaps.append(_gap("log_damaged", first_us, last_us))
        wal.append([*map(gap_record, gaps)], ticks_before=ticks[-1][0] + 1)
        log.error("ticks_given_up", count=len(ticks))
        return opened, []
    for number, tick in ticks:
        held_us = said.held_until(tick.at_us)
        if held_us is not None and held_us > tick.at_us and opened.last is None:
            continue  # a batch has it
        before = None if opened.last is None else opened.last.tick
        if before is not None and not 0 < tick.at_us - before.at_us <= MOST_BRIDGED_US:
            tick = replace(tick, begins=True)
        if before is not None and tick.begins:
            gaps.append(_gap("broken_off", before.at_us, tick.at_us))
        said.add(tick.at_us if before is None or tick.begins else before.at_us, tick.at_us)
        opened.add(number, tick, devices or None)
    if opened.last is not None:
        log.info("ticks_recovered", count=len(opened))
    return opened, gaps


def _read(wal: Wal) -> tuple[list[tuple[int, Tick]], list[GapNote]]:
    ticks: list[tuple[int, Tick]] = []
    bad: list[int] = []
    for number, data in wal.open_ticks():
        try:
            ticks.append((number, decode_tick(data)))
        except BadTick as error:
            bad.append(number)
            log.error("tick_not_readable", number=number, error=str(error))
    return ticks, [GapNote(TICKS, bad[0], bad[-1], len(bad), None, None, "not_readable")] if bad else []


def _gap(reason: str, first_us: int, last_us: int) -> GapNote:
    return GapNote(_SAMPLES, 0, 0, 0, min(first_us, last_us), max(first_us, last_us), reason)

"""The agents' batches over the demo's day: 1 Hz, flushed each 30 s, tiled. Owns flushes and what an outage does."""

from collections.abc import Iterator

import numpy as np
from wattledger_core.batch import Batch, InstanceActivity, Int64Array, ProcessActivity, SampledDevice
from wattledger_core.units import US_PER_S

from wattledger_audit.demo_fleet.day import CLUSTER, DAY_START_US, SITE
from wattledger_audit.demo_fleet.emission import Emission
from wattledger_audit.demo_fleet.hour_block import HOUR_S, HourBlock, first_counters, hour_block, spans_by_device
from wattledger_audit.demo_fleet.machines import MIG_SLICES, Card, Machine
from wattledger_audit.demo_fleet.quirks import OUTAGE, RESET

FLUSH_S = 30
FLUSH_DELAY_US = US_PER_S
"""How long after its last tick a batch arrives."""
HOURS = 24


def sample_emissions(machine: Machine) -> Iterator[Emission]:
    """The batches of one machine in order; none for a machine without an agent. One hour of arrays is in memory."""
    if not machine.has_agent:
        return
    spans, counters, seq = spans_by_device(machine.node), first_counters(machine), 0
    for hour in range(HOURS):
        block = hour_block(machine, spans, hour, counters)
        counters = block.counter_uj[:, -1].copy()
        for ticks in flushes(machine.node, hour):
            batch = _batch(machine, block, ticks, seq)
            yield Emission(batch.end_us + FLUSH_DELAY_US, batch)
            seq += 1


def flushes(node: str, hour: int) -> Iterator[Int64Array]:
    """Ticks of each flush, as seconds within the hour. After an outage the first tick is the last one before it."""
    for start in range(0, HOUR_S, FLUSH_S):
        ticks = np.arange(start, start + FLUSH_S + 1, dtype=np.int64)
        second = hour * HOUR_S + start
        if node == OUTAGE.node and OUTAGE.start_s <= second < OUTAGE.end_s:
            continue
        if node == OUTAGE.node and second == OUTAGE.end_s:
            ticks = np.concatenate(([OUTAGE.start_s - hour * HOUR_S], ticks))
        yield ticks


def _batch(machine: Machine, block: HourBlock, ticks: Int64Array, seq: int) -> Batch:
    power, counter = block.power_mw[:, ticks], block.counter_uj[:, ticks]
    counter_valid, busy_valid = np.ones((2, *power.shape), dtype=np.bool_)
    for d, card in enumerate(machine.cards):
        counter_valid[d] = card.has_counter
        busy_valid[d] = card.sharing != "mig"
    return Batch(
        machine.node, SITE, f"agent-{machine.node}", f"boot-{machine.node}", seq, US_PER_S,
        DAY_START_US + block.second[ticks] * US_PER_S,
        tuple([_sampled(machine, card, block, ticks) for card in machine.cards]),
        power, block.power_valid[:, ticks],
        np.where(counter_valid, counter - counter[:, :1], 0), counter_valid,
        np.where(busy_valid, block.busy_ppm[:, ticks], 0), busy_valid,
    )  # fmt: skip


def _sampled(machine: Machine, card: Card, block: HourBlock, ticks: Int64Array) -> SampledDevice:
    epoch, epoch_from_tick = _epoch(machine, card, block.second[ticks])
    return SampledDevice(
        card.device, card.index, f"0000:{card.index + 1:02x}:00.0", card.index, card.gpu_model, machine.driver,
        "+".join(MIG_SLICES) if card.sharing == "mig" else "", card.sharing, epoch, epoch_from_tick, card.floor_mw,
        card.slices, _instances(card, block, ticks), _processes(card, block, ticks),
    )  # fmt: skip


def _epoch(machine: Machine, card: Card, second: Int64Array) -> tuple[str, int]:
    """The counter's epoch at the batch's end, and the first tick read in it."""
    if (machine.node, card.index) != (RESET.node, RESET.index) or second[-1] < RESET.start_s:
        return f"epoch-{machine.node}-1", 0
    return f"epoch-{machine.node}-2", int(np.searchsorted(second, RESET.start_s))


def _instances(card: Card, block: HourBlock, ticks: Int64Array) -> tuple[InstanceActivity, ...]:
    """Activity of every instance of a card in MIG that reports it; 0 where nobody uses the instance."""
    if card.sharing != "mig" or not card.reports_activity:
        return ()
    valid = np.ones(len(ticks), dtype=np.bool_)
    found = []
    for instance, slices in MIG_SLICES.items():
        activity = np.zeros(len(ticks), dtype=np.int64)
        for use in block.uses[card.index]:
            if use.span.claim.gpu_instance == instance:
                activity = activity + use.used_ppm[ticks]
        found.append(InstanceActivity(instance, slices, activity, valid))
    return tuple(found)


def _processes(card: Card, block: HourBlock, ticks: Int64Array) -> tuple[ProcessActivity, ...]:
    """SM shares by job on a time-sliced card, and of what belongs to no job on any card."""
    valid = np.ones(len(ticks), dtype=np.bool_)
    found = []
    untagged = block.untagged[card.index]
    if untagged is not None and untagged[ticks].any():
        found.append(ProcessActivity("", "", untagged[ticks], valid))
    if card.sharing == "time_sliced":
        first, last = int(ticks[0]), int(ticks[-1])
        found += [
            ProcessActivity(CLUSTER, use.span.job.job, use.used_ppm[ticks], valid)
            for use in block.uses[card.index]
            if use.first <= last and use.until > first
        ]
    return tuple(found)

"""The sample batches of the demo's day: 1 Hz, flushed each 30 s, tiling time; and the outage of one agent."""

from collections.abc import Iterator

import numpy as np
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity, SampledDevice
from wattledger_core.units import US_PER_S

from wattledger_audit.generated_fleet.day import CLUSTER, SITE, at, second_of_day
from wattledger_audit.generated_fleet.emission import Emission
from wattledger_audit.generated_fleet.machines import MIG_SLICES, Card, Machine
from wattledger_audit.generated_fleet.power import SECONDS, Int64Array, tick_times
from wattledger_audit.generated_fleet.sample_day import MachineDay, machine_day

FLUSH_S = 30
OUTAGE = ("h100-01", "18:00", "18:20")
"""The agent is away; the first batch after it starts at the last tick before, so the counter bridges the gap."""


def sample_emissions(machine: Machine) -> Iterator[Emission]:
    """Batches of one machine in order; none where it has no agent."""
    if not machine.has_agent:
        return
    day = machine_day(machine)
    times = tick_times()
    for seq, ticks in enumerate(_flushes(machine.node)):
        batch = _batch(machine, day, times, ticks, seq)
        yield Emission(batch.end_us + US_PER_S, batch)


def _flushes(node: str) -> Iterator[Int64Array]:
    """Tick numbers of each batch."""
    away = (0, 0)
    if node == OUTAGE[0]:
        away = (second_of_day(at(OUTAGE[1])), second_of_day(at(OUTAGE[2])))
    for first in range(0, SECONDS, FLUSH_S):
        ticks = np.arange(first, first + FLUSH_S + 1)
        if away[0] <= first < away[1]:
            continue
        if first == away[1] and away[1]:
            ticks = np.concatenate([[away[0]], ticks])
        yield ticks


def _batch(machine: Machine, day: MachineDay, times: Int64Array, ticks: Int64Array, seq: int) -> Batch:
    shape = (len(machine.cards), len(ticks))
    return Batch(
        machine.node, SITE, f"agent-{machine.node}", f"{machine.node}-boot-1", seq, US_PER_S, times[ticks],
        tuple(_sampled(machine, card, day, ticks) for card in machine.cards),
        day.power_mw[:, ticks], day.power_valid[:, ticks], day.counter_uj[:, ticks], day.counter_valid[:, ticks],
        day.busy_ppm[:, ticks], np.ones(shape, dtype=np.bool_),
    )  # fmt: skip


def _sampled(machine: Machine, card: Card, day: MachineDay, ticks: Int64Array) -> SampledDevice:
    reset = day.reset_tick.get(card.index)
    epoch, epoch_from = 1, 0
    if reset is not None and reset <= ticks[-1]:
        epoch = 2
        epoch_from = int(np.searchsorted(ticks, reset)) if reset > ticks[0] else 0
    good = np.ones(len(ticks), dtype=np.bool_)
    instances = tuple(
        InstanceActivity(name, MIG_SLICES[name], np.minimum(column[ticks], 1_000_000), good)
        for (index, name), column in day.instances.items()
        if index == card.index
    )
    processes = tuple(
        ProcessActivity(CLUSTER if job else "", job, column[ticks], good)
        for (index, job), column in day.processes.items()
        if index == card.index and column[ticks].any()
    )
    return SampledDevice(
        card.device, card.index, f"0000:{card.index + 1:02x}:00.0", card.index, card.gpu_model, machine.driver,
        "3g+2g+1g+1g" if card.sharing == "mig" else "", card.sharing, f"epoch-{epoch}", epoch_from, card.floor_mw,
        card.slices, instances, processes,
    )  # fmt: skip

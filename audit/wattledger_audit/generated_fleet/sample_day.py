"""A machine's readings over the whole day as arrays, with everything that goes wrong in them. Owns the troubles."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from wattledger_core.units import PPM, US_PER_S

from wattledger_audit.generated_fleet.day import at, second_of_day
from wattledger_audit.generated_fleet.machines import Machine
from wattledger_audit.generated_fleet.power import TICKS, Int64Array, machine_spans, noise_mw, utilisation

BoolArray = npt.NDArray[np.bool_]
UNTAGGED = ("h100-01", 7, "05:00", "05:25")
"""Node, card, from, to: a process that belongs to no job, on a card that nobody holds."""
SENTINELS = ("l40s-01", 3, "12:00", "12:10")
"""Every third power reading is one of the driver's words for none, on a card without a counter: energy is unknown."""
IMPLAUSIBLE = ("l40s-01", 1, "12:20", "12:21")
IMPLAUSIBLE_MW = 2_000_000_000
"""A minute of readings that no card can have, and that the driver calls valid."""
RESET = ("a100-01", 4, "13:00:17")
"""The driver is reloaded: the energy counter starts again from 0."""


@dataclass(frozen=True, slots=True)
class MachineDay:
    """Arrays of (cards, ticks); activity of MIG instances by (card, instance), SM share by (card, job)."""

    power_mw: Int64Array
    power_valid: BoolArray
    counter_uj: Int64Array
    counter_valid: BoolArray
    busy_ppm: Int64Array
    reset_tick: dict[int, int]
    instances: dict[tuple[int, str], Int64Array]
    processes: dict[tuple[int, str], Int64Array]


def machine_day(machine: Machine) -> MachineDay:
    """The machine's day: utilisation from the job table, power from it, counters from the power."""
    cards = len(machine.cards)
    index = {card.device: card.index for card in machine.cards}
    used = np.zeros((cards, TICKS), dtype=np.int64)
    instances = {
        (card.index, name): np.zeros(TICKS, dtype=np.int64)
        for card in machine.cards
        if card.sharing == "mig" and card.reports_activity
        for name in ("3g", "2g", "1g-a", "1g-b")
    }
    processes: dict[tuple[int, str], Int64Array] = {}
    for span in machine_spans(machine):
        card = index[span.claim.device]
        first, ppm = utilisation(span)
        stretch = slice(first, first + len(ppm))
        used[card, stretch] += ppm * span.claim.share_num // span.claim.share_den
        if (card, span.claim.gpu_instance) in instances:
            instances[(card, span.claim.gpu_instance)][stretch] += ppm
        if machine.cards[card].sharing == "time_sliced":
            column = processes.setdefault((card, span.job.job), np.zeros(TICKS, dtype=np.int64))
            column[stretch] += ppm // span.claim.share_den
    if machine.node == UNTAGGED[0]:
        stretch = _stretch(UNTAGGED[2], UNTAGGED[3])
        used[UNTAGGED[1], stretch] = 640_000
        column = processes.setdefault((UNTAGGED[1], ""), np.zeros(TICKS, dtype=np.int64))
        column[stretch] = 640_000
    return _readings(machine, np.minimum(used, PPM), instances, processes)


def _stretch(first: str, last: str) -> slice:
    return slice(second_of_day(at(first)), second_of_day(at(last)))


def _readings(
    machine: Machine, used: Int64Array, instances: dict[tuple[int, str], Int64Array],
    processes: dict[tuple[int, str], Int64Array],
) -> MachineDay:  # fmt: skip
    power = np.empty_like(used)
    for card in machine.cards:
        drawn = (card.peak_mw - card.idle_mw) * used[card.index] // PPM
        power[card.index] = card.idle_mw + drawn + noise_mw(machine, card)
    gains = (power[:, 1:] + power[:, :-1]) * US_PER_S // 2000
    counter = np.zeros_like(power)
    np.cumsum(gains, axis=1, out=counter[:, 1:])
    counter += 1_000_000_000_000
    power_valid = np.ones(power.shape, dtype=np.bool_)
    counter_valid = np.repeat(np.array([[card.has_counter] for card in machine.cards]), TICKS, axis=1)
    reset_tick: dict[int, int] = {}
    if machine.node == SENTINELS[0]:
        power_valid[SENTINELS[1], _stretch(SENTINELS[2], SENTINELS[3])][::3] = False
        power[IMPLAUSIBLE[1], _stretch(IMPLAUSIBLE[2], IMPLAUSIBLE[3])] = IMPLAUSIBLE_MW
    if machine.node == RESET[0]:
        tick = second_of_day(at(RESET[2]))
        counter[RESET[1], tick:] -= counter[RESET[1], tick]
        reset_tick[RESET[1]] = tick
    return MachineDay(power, power_valid, counter, counter_valid, used, reset_tick, instances, processes)

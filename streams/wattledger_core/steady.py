"""The hot path of curves: a batch whose every reading is good needs its ends only; anything else is built in full."""

import numpy as np

from wattledger_core.batch import Batch
from wattledger_core.curve import COUNTER, Curves, Slice, build_curves
from wattledger_core.policy import Policy
from wattledger_core.units import PPM


class BatchCurves:
    """Curves of one batch: `whole` from the ends where it can, `slice` from the full curves, built once when asked."""

    def __init__(self, batch: Batch, policy: Policy) -> None:
        self._batch = batch
        self._policy = policy
        self._full: Curves | None = None
        self._whole = _steady_whole(batch, policy)

    @property
    def full(self) -> Curves:
        if self._full is None:
            self._full = build_curves(self._batch, self._policy)
        return self._full

    def whole(self) -> list[Slice]:
        """Every device over the whole batch, in device order; `static_uj` is left at 0 (ask `slice`)."""
        if self._whole is None:
            self._whole = self.full.whole()
        return self._whole

    def slice(self, device: int, a_us: int, b_us: int) -> Slice:
        """As `Curves.slice`."""
        return self.full.slice(device, a_us, b_us)


def _steady_whole(batch: Batch, policy: Policy) -> list[Slice] | None:
    """The batch's ends when every counter, power and busy reading is valid, believable and agrees; None otherwise.

    Gives exactly what the full curves give (a property test compares them): a counter's gains telescope.
    """
    if not (batch.counter_valid.all() and batch.power_valid.all() and batch.busy_valid.all()):
        return None
    ticks, counter, power = batch.ticks_us, batch.counter_uj, batch.power_mw
    span = ticks[1:] - ticks[:-1]
    gain = counter[:, 1:] - counter[:, :-1]
    gap_limit_us = max(policy.gap_periods * batch.period_us, policy.gap_floor_us)
    if (
        span.max() > gap_limit_us
        or gain.min() < 0
        or power.max() > policy.max_device_power_mw
        or gain.max() * 1000 > policy.max_device_power_mw * span.min()
        or any(device.epoch_from_tick for device in batch.devices)
    ):
        return None
    energy = counter[:, -1] - counter[:, 0]
    integrated = ((power[:, 1:] + power[:, :-1]) * span).sum(axis=1) // 2000
    apart = np.abs(energy - integrated) * PPM > policy.disagree_ppm * np.maximum(integrated, 1)
    if apart.any() or not energy.all():
        return None
    busy = batch.busy_ppm[:, 1:]
    busy_us = (span * busy // PPM).sum(axis=1).tolist()
    idle = [0] * len(busy_us) if busy.all() else np.where(busy == 0, gain, 0).sum(axis=1).tolist()
    span_us = int(ticks[-1] - ticks[0])
    return [
        Slice(energy_uj, idle_uj, 0, used_us, span_us, 0, COUNTER, 0)
        for energy_uj, idle_uj, used_us in zip(energy.tolist(), idle, busy_us, strict=True)
    ]

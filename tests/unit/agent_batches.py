"""One node's sample batch for tests of the agent: a counter that is the exact integral of the power."""

from dataclasses import replace
from typing import Any

import numpy as np
from wattledger_core.batch import Batch, InstanceActivity, ProcessActivity, SampledDevice
from wattledger_streams.mapping import to_wire_batch

S = 1_000_000
T0 = 1_767_225_600 * S
N = 31


def batch() -> Batch:
    """Two devices, 31 ticks at 1 Hz, all readings valid; instances and processes on the first."""
    rng = np.random.default_rng(7)
    ticks = T0 + np.arange(N, dtype=np.int64) * S
    power = rng.integers(80_000, 600_000, (2, N))
    gains = (power[:, 1:] + power[:, :-1]) * S // 2000
    counter = np.concatenate([np.zeros((2, 1), dtype=np.int64), np.cumsum(gains, axis=1)], axis=1)
    good = np.ones((2, N), dtype=np.bool_)
    share = rng.integers(0, 1_000_000, N)
    plain = SampledDevice("GPU-0", 0, "", 0, "H100", "590", "", "exclusive", "e1", 0, 70_000)
    first = replace(
        plain,
        instances=(InstanceActivity("1", 3, share, good[0]),),
        processes=(ProcessActivity("c1", "j1", share, good[0]),),
    )
    devices = (first, replace(plain, device="GPU-1", index=1, minor=1))
    busy = rng.integers(0, 1_000_000, (2, N))
    return Batch("n1", "fra1", "a1", "boot", 4, S, ticks, devices, power, good, counter, good.copy(), busy, good.copy())


def wire_batch() -> dict[str, Any]:
    """The same as a record."""
    return to_wire_batch(batch())

"""What the probes' contract suite needs of a probe on a fake (or captured) device: the probe, and hands on the fake."""

from collections.abc import Callable
from dataclasses import dataclass

from wattledger_agent.probes.probe import Probe


@dataclass(frozen=True, slots=True)
class ProbeUnderTest:
    """`devices` are the identities that `inventory()` must give. `advance()` lets one second pass at the fake, so that
    counters grow. The rest is None where the source can't do it: `lose(device)` takes a device off the bus,
    `deny(device, column)` makes one reading (`power_mw`, `energy_uj`, ...) not supported, `break_library()` makes every
    call fail until `mend_library()`."""

    probe: Probe
    devices: tuple[str, ...]
    advance: Callable[[], None]
    lose: Callable[[str], None] | None = None
    deny: Callable[[str, str], None] | None = None
    break_library: Callable[[], None] | None = None
    mend_library: Callable[[], None] | None = None

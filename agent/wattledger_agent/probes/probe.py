"""The one protocol that every probe keeps. A probe reads; it sets nothing, starts nothing and decides nothing."""

from typing import Protocol

from wattledger_agent.probes.device import Inventory
from wattledger_agent.probes.reading import ProbeTick


class ProbeUnavailable(RuntimeError):
    """The probe can't work here: its message says what is wrong, and `fix` what to do. `absent`: the hardware or
    library simply is not here, which is no fault."""

    def __init__(self, what: str, fix: str = "", absent: bool = False) -> None:
        super().__init__(f"{what}: {fix}" if fix else what)
        self.fix = fix
        self.absent = absent


class Probe(Protocol):
    """Reads one vendor's devices. All calls come from one thread, so a library that is not thread-safe is safe.

    A reading that fails is a `Reading` with a reason; a call that can't go on raises ProbeUnavailable, and the caller
    closes the probe, waits, and opens it again. Constructing does nothing.
    """

    @property
    def name(self) -> str:
        """`nvml`, `amdsmi`, `rapl`, `scrape` or `trace`."""
        ...

    def open(self) -> None:
        """Load the library and find the devices. Raises ProbeUnavailable. After `close` it may be opened again."""
        ...

    def inventory(self) -> Inventory:
        """What is installed now."""
        ...

    def read(self) -> ProbeTick:
        """Read every device once. A device that fails does not hide another."""
        ...

    def close(self) -> None:
        """Let go of the library; harmless when not open."""
        ...

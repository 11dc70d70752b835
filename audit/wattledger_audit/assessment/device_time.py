"""Who had which part of one device over an interval, in parts (1/5040 µs): the time that its readings speak for."""

from collections.abc import Sequence
from itertools import pairwise

from wattledger_core.split import claim_weights, split_exactly
from wattledger_core.sweep import NOBODY, PARTS_PER_US, Taking


class DeviceTime:
    """Takings of one device, by the caller's numbers; shares above the whole are scaled to it, as the sweep does."""

    def __init__(self, takings: Sequence[tuple[int, Taking]]) -> None:
        self._takings = sorted(takings, key=lambda item: (item[1].start_us, item[0]))

    def parts(self, start_us: int, end_us: int) -> dict[int, int]:
        """Parts of each taking over `[start_us, end_us)`, and of NOBODY; they sum to the interval."""
        near = [item for item in self._takings if item[1].start_us < end_us and item[1].end_us > start_us]
        cuts = {start_us, end_us}
        for _, taking in near:
            cuts |= {at for at in (taking.start_us, taking.end_us) if start_us < at < end_us}
        found: dict[int, int] = {}
        for a_us, b_us in pairwise(sorted(cuts)):
            held = [item for item in near if item[1].start_us <= a_us and item[1].end_us >= b_us]
            whole = (b_us - a_us) * PARTS_PER_US
            weights, total, _ = claim_weights([(t.share_num, t.share_den, t.instance) for _, t in held])
            shares = split_exactly(whole, [*weights, total - sum(weights)]) if held else [whole]
            for number, share in zip([*(number for number, _ in held), NOBODY], shares, strict=True):
                found[number] = found.get(number, 0) + share
        return found

"""Contradictions found while metering, as facts with deterministic ids. The rule that resolved each is in its kind."""

from collections.abc import Sequence

from wattledger_core.batch import Batch, SampledDevice
from wattledger_core.counter import COUNTER_FROZEN, IMPLAUSIBLE, RESET
from wattledger_core.curve import DISAGREE, FROZEN_SENSOR, Slice
from wattledger_core.hold import Hold
from wattledger_core.ids import digest
from wattledger_core.line import Discrepancy

_READING_KINDS = (
    (RESET, "counter_reset"),
    (COUNTER_FROZEN, "counter_frozen"),
    (DISAGREE, "counter_disagrees"),
    (FROZEN_SENSOR, "frozen_sensor"),
    (IMPLAUSIBLE, "implausible_reading"),
)


def discrepancy(
    kind: str,
    node: str,
    device: str,
    start_us: int,
    end_us: int,
    tenant: str = "",
    allocation_ids: Sequence[str] = (),
    detail: str = "",
) -> Discrepancy:
    """A discrepancy named by what it is about."""
    ids = ",".join(allocation_ids)
    name = digest("discrepancy", kind, node, device, start_us, end_us, ids)
    return Discrepancy(name, kind, node, device, start_us, end_us, tenant, ids, detail)


def overlap(node: str, device: str, active: Sequence[Hold], start_us: int, end_us: int) -> Discrepancy:
    """More was claimed than there is; the shares were scaled to 1."""
    tenants = ",".join(sorted({hold.revision.tenant for hold in active}))
    ids = [hold.revision.allocation_id for hold in active]
    jobs = ", ".join(sorted(f"{hold.revision.cluster}/{hold.revision.job}" for hold in active))
    return discrepancy(
        "overlap", node, device, start_us, end_us, tenants, ids, f"claimed by {jobs}: shares scaled to 1"
    )


def reading_discrepancies(batch: Batch, device: SampledDevice, whole: Slice) -> list[Discrepancy]:
    """What a batch's readings of one device contradict."""
    return [
        discrepancy(kind, batch.node, device.device, batch.start_us, batch.end_us)
        for bit, kind in _READING_KINDS
        if whole.marks & bit
    ]

"""Sample batches without devices, for tests that are about which time they cover."""

from collections.abc import Sequence
from typing import Any

from wattledger_agent.wal_record import WalRecord
from wattledger_schemas import Codec

from tests.unit.agent_batches import wire_batch

CODEC = Codec()
S = 1_000_000


def batch_of(times_us: Sequence[int], seq: int, boot_id: str, **changes: Any) -> WalRecord:
    """A batch of node n1 with ticks at these times."""
    ticks = b"".join(at_us.to_bytes(8, "little", signed=True) for at_us in times_us)
    batch = {**wire_batch(), "seq": seq, "boot_id": boot_id, "ticks_us": ticks, "devices": [], **changes}
    return WalRecord("gpu-samples", str(batch["node"]), CODEC.encode("sample_batch", batch), at_us=times_us[-1])


def batch_record(seq: int, first_us: int, last_us: int, **changes: Any) -> WalRecord:
    """A batch of node n1 over two ticks."""
    return batch_of((first_us, last_us), seq, **{"boot_id": "boot", **changes})

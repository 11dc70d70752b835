"""The `tenant-cost` topic folded: what its rows sum to, each counted once. For the money law."""

from collections.abc import Mapping
from decimal import Decimal

from wattledger_core.cost import CostRow
from wattledger_core.units import MONEY_CONTEXT
from wattledger_schemas import Codec
from wattledger_streams.log_reader import LogReader
from wattledger_streams.mapping import from_wire_tenant_cost


def fold_topic(
    kafka: Mapping[str, str], topic: str, partitions: int, reliable_offsets: bool = True
) -> dict[str, CostRow]:
    """Every row of the topic by id, read to its end now. Raises ValueError for two contents under one id.

    Without `reliable_offsets` (Tansu) it reads until nothing comes any more: the topic must be at rest.
    """
    codec, rows = Codec(), dict[str, CostRow]()
    for partition in range(partitions):
        reader = LogReader(kafka, topic, partition, "wattledger-fold")
        try:
            found = reader.read_until(reader.end_offset()) if reliable_offsets else reader.read_until_quiet()
            for record in found:
                for row in from_wire_tenant_cost(codec.decode(record.value).record):
                    if rows.setdefault(row.row_id, row) != row:
                        raise ValueError(f"{topic}: two contents under row id {row.row_id}")
        finally:
            reader.close()
    return rows


def amounts_by_component(rows: Mapping[str, CostRow]) -> dict[str, Decimal]:
    """Σ cost by component."""
    total: dict[str, Decimal] = {}
    for row in rows.values():
        if row.cost is not None:
            total[row.component] = MONEY_CONTEXT.add(total.get(row.component, Decimal(0)), row.cost)
    return total

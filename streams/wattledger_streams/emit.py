"""What the meter writes: a group's lines to `usage-lines`, their cost rows to `tenant-cost`. Owns encoding, and how
many rows a record holds."""

from collections.abc import Iterable

from wattledger_core.cost import CostRow
from wattledger_core.line import ORIGINAL
from wattledger_core.meter import Group
from wattledger_schemas import Codec, partition_for, tenant_cost_key

from wattledger_streams.mapping import to_wire_tenant_cost, to_wire_usage_lines
from wattledger_streams.metrics import CORRECTIONS, ROWS
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings

ROWS_A_RECORD = 200
"""About 60 kB: a reader's cost a record is lost in its rows, and its buffer of 4,096 records stays small."""


class Emitter:
    """Queues groups at once, and cost rows gathered by tenant over all that is settled together. Only `settle` makes
    them durable: nothing may be acknowledged or kept as a position before it."""

    def __init__(self, settings: WorkerSettings, codec: Codec, outbox: Outbox, counts: dict[str, int]) -> None:
        self._lines_topic = settings.topic("usage-lines")
        self._cost_topic = settings.topic("tenant-cost")
        self._codec = codec
        self._outbox = outbox
        self._counts = counts
        self._gathered: dict[str, list[CostRow]] = {}

    def group(self, partition: int, group: Group) -> None:
        """One `usage-lines` record in the node's own partition."""
        value = self._codec.encode("usage_lines", to_wire_usage_lines(group))
        self._outbox.send(self._lines_topic, partition, group.node, value)
        ROWS.labels("usage_lines").inc(len(group.lines))
        self._count_corrections(line.entry for line in group.lines)

    def costs(self, rows: Iterable[CostRow]) -> None:
        """Gather rows for the `tenant-cost` record of their tenant: a reader pays by the record, and a node of eight
        tenants would write eight a batch."""
        for row in rows:
            key = tenant_cost_key(row.tenant, row.node)
            gathered = self._gathered.get(key)
            if gathered is None:
                gathered = self._gathered[key] = []
            gathered.append(row)
            if len(gathered) >= ROWS_A_RECORD:
                self._send_costs(key, self._gathered.pop(key))

    async def settle(self) -> None:
        """Send what is gathered and wait until the broker has everything that was sent."""
        gathered, self._gathered = self._gathered, {}
        for key, rows in gathered.items():
            self._send_costs(key, rows)
        await self._outbox.settle()

    def _send_costs(self, key: str, rows: list[CostRow]) -> None:
        start_us, end_us = min(row.group_start_us for row in rows), max(row.group_end_us for row in rows)
        record = to_wire_tenant_cost(rows[0].tenant, start_us, end_us, rows)
        partition = partition_for(key, self._counts["tenant-cost"])
        self._outbox.send(self._cost_topic, partition, key, self._codec.encode("tenant_cost", record))
        ROWS.labels("cost_rows").inc(len(rows))
        self._count_corrections(row.entry for row in rows)

    @staticmethod
    def _count_corrections(entries: Iterable[str]) -> None:
        for entry in entries:
            if entry != ORIGINAL:
                CORRECTIONS.labels(entry).inc()

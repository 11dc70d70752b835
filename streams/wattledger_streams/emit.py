"""What the meter writes: a group's lines to `usage-lines`, their cost rows to `tenant-cost`. Encoding only."""

from collections.abc import Iterable

from wattledger_core.cost import CostRow
from wattledger_core.line import ORIGINAL
from wattledger_core.meter import Group
from wattledger_schemas import Codec, partition_for, tenant_cost_key

from wattledger_streams.mapping import to_wire_tenant_cost, to_wire_usage_lines
from wattledger_streams.metrics import CORRECTIONS, ROWS
from wattledger_streams.outbox import Outbox
from wattledger_streams.settings import WorkerSettings


class Emitter:
    """Queues groups and cost rows on the outbox; the caller settles."""

    def __init__(self, settings: WorkerSettings, codec: Codec, outbox: Outbox, counts: dict[str, int]) -> None:
        self._lines_topic = settings.topic("usage-lines")
        self._cost_topic = settings.topic("tenant-cost")
        self._codec = codec
        self._outbox = outbox
        self._counts = counts

    def group(self, partition: int, group: Group) -> None:
        """One `usage-lines` record in the node's own partition."""
        value = self._codec.encode("usage_lines", to_wire_usage_lines(group))
        self._outbox.send(self._lines_topic, partition, group.node, value)
        ROWS.labels("usage_lines").inc(len(group.lines))
        self._count_corrections(line.entry for line in group.lines)

    def costs(self, rows: Iterable[CostRow]) -> None:
        """One `tenant-cost` record for the rows of one tenant from one batch or quarter-hour."""
        by_key: dict[tuple[str, int, int], list[CostRow]] = {}
        for row in rows:
            key = tenant_cost_key(row.tenant, row.node)
            by_key.setdefault((key, row.group_start_us, row.group_end_us), []).append(row)
        for (key, start_us, end_us), tenant_rows in by_key.items():
            record = to_wire_tenant_cost(tenant_rows[0].tenant, start_us, end_us, tenant_rows)
            partition = partition_for(key, self._counts["tenant-cost"])
            self._outbox.send(self._cost_topic, partition, key, self._codec.encode("tenant_cost", record))
            ROWS.labels("cost_rows").inc(len(tenant_rows))
            self._count_corrections(row.entry for row in tenant_rows)

    @staticmethod
    def _count_corrections(entries: Iterable[str]) -> None:
        for entry in entries:
            if entry != ORIGINAL:
                CORRECTIONS.labels(entry).inc()

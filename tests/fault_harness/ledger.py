"""What stands in the tables, by plain SQL through whoever answers it: nets over sign, and rows that may not be."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from tests.fault_harness.answers import CostKey, LineKey, Money, Total, TotalKey, Usage
from tests.fault_harness.facts import Holder

Row = Sequence[Any]
Query = Callable[[str], Sequence[Row]]
_MICROS = "toUnixTimestamp64Micro"
_QUARTER = "intDiv(toUnixTimestamp64Micro(start_at), 900000000) * 900000000"


class Ledger:
    """The tables, read with FINAL and folded by sign."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self._holders: dict[str, Holder] = {}
        self._ids: dict[tuple[Holder, str], str] = {}
        for name, cluster, job, attempt, segment, device in query(
            "SELECT DISTINCT allocation_id, cluster, job, attempt, segment, device FROM allocation_revisions FINAL"
        ):
            holder = Holder(cluster, job, attempt, segment)
            self._holders[name] = holder
            self._ids[(holder, device)] = name

    def order(self, holder: Holder, device: str) -> str:
        """The ledger's name of a holder's hold of a device; one that it does not know comes first."""
        return self._ids.get((holder, device), "")

    def usage(self, from_us: int, to_us: int) -> dict[LineKey, Usage]:
        """Net of the lines whose batch or quarter-hour starts in the window."""
        found = {}
        for row in self.query(
            f"SELECT kind, node, {_MICROS}(group_start_at), device, {_QUARTER}, state, reason, tenant_id,"
            " allocation_id, method, kind = 'time' OR energy_uj IS NOT NULL AS known,"
            " has(splitByChar(',', marks), 'interpolated') AS bridged,"
            " sum(sign), sum(device_us), sum(span_us), ifNull(sum(energy_uj), 0)"
            f" FROM usage_lines FINAL WHERE {_window(from_us, to_us)}"
            " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"
        ):
            net = Usage(*map(int, row[12:]))
            if any(net):
                values = (*row[:8], self._holder(row[8]), row[9], bool(row[10]), bool(row[11]))
                found[LineKey._make(values)] = net
        return found

    def totals(self, from_us: int, to_us: int) -> dict[TotalKey, Total]:
        """Net of the totals."""
        found = {}
        for row in self.query(
            f"SELECT kind, node, {_MICROS}(group_start_at), device, sum(sign), sum(in_service_us), sum(energy_uj),"
            f" sum(measured_us), sum(unknown_us) FROM device_totals FINAL WHERE {_window(from_us, to_us)}"
            " GROUP BY 1, 2, 3, 4"
        ):
            net = Total(*map(int, row[4:]))
            if any(net):
                found[(row[0], row[1], int(row[2]), row[3])] = net
        return found

    def costs(self, from_us: int, to_us: int) -> dict[CostKey, Money]:
        """Net of the cost rows."""
        found = {}
        for row in self.query(
            f"SELECT component, node, {_MICROS}(group_start_at), device, {_QUARTER}, state, tenant_id, allocation_id,"
            " status, price_id, sum(sign), ifNull(sum(quantity), 0), toString(ifNull(sum(cost), 0))"
            f" FROM cost_rows FINAL WHERE {_window(from_us, to_us)}"
            " GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
        ):
            net = Money(int(row[10]), int(row[11]), Decimal(row[12]))
            if any(net):
                found[CostKey._make((*row[:7], self._holder(row[7]), row[8], row[9]))] = net
        return found

    def cost_rows(self, columns: str) -> Iterator[Row]:
        """Every cost row, month by month of its tables' order."""
        yield from self.query(f"SELECT {columns} FROM cost_rows FINAL")

    def _holder(self, allocation_id: str) -> Holder | None:
        if not allocation_id:
            return None
        # one that no revision in the tables is about is nobody's: what names it is then not true
        return self._holders.get(allocation_id) or Holder("no revision is about", allocation_id, 0, 0)

    def repeated_ids(self) -> dict[str, int]:
        """By table: ids under which more than one row stands."""
        names = {"usage_lines": "line_id", "cost_rows": "row_id", "device_totals": "total_id"}
        return {
            table: int(self.query(f"SELECT count() - uniqExact({name}) FROM {table} FINAL")[0][0])
            for table, name in names.items()
        }

    def lone_reversals(self) -> dict[str, int]:
        """By table: rows that take back a row that is not there, or not with exactly these amounts; of lines also
        those that take back what another took back already (a cost row may be taken back by a late price and again by
        a late event, when the first taking back is itself taken back: the net says whether it was)."""
        used = ("device_us", "span_us", "ifNull(energy_uj, 0)")
        lines = _unpaired("usage_lines", "line_id", "of_line_id", used, "tenant_id, device", once=True)
        paid = ("ifNull(quantity, 0)", "ifNull(cost, 0)")
        costs = _unpaired("cost_rows", "row_id", "of_row_id", paid, "tenant_id, component, price_id", once=False)
        return {"usage_lines": int(self.query(lines)[0][0]), "cost_rows": int(self.query(costs)[0][0])}

    def entries(self, table: str) -> dict[str, int]:
        """Rows by entry: original, reversal, correction."""
        found = self.query(f"SELECT entry, count() FROM {table} FINAL GROUP BY entry")
        return {row[0]: int(row[1]) for row in found}

    def first_prices(self) -> Sequence[Row]:
        """What original rows were priced by: kind of price, quarter, group end, price, rate, PUE, rows."""
        return self.query(
            f"SELECT component, {_QUARTER}, {_MICROS}(group_end_at), status, price_id, toString(rate), toString(pue),"
            " count() FROM cost_rows FINAL WHERE entry = 'original' GROUP BY 1, 2, 3, 4, 5, 6, 7"
        )

    def unknown_energy(self) -> tuple[int, int]:
        """Net µs of energy lines without a value; and how many rows say a value where nothing was measured."""
        [row] = self.query(
            "SELECT ifNull(sumIf(span_us, energy_uj IS NULL), 0), countIf(energy_uj IS NOT NULL AND method = 'none')"
            " FROM usage_lines FINAL WHERE kind = 'energy'"
        )
        return int(row[0]), int(row[1])


def _window(from_us: int, to_us: int) -> str:
    return (
        f"group_start_at >= fromUnixTimestamp64Micro({from_us}, 'UTC')"
        f" AND group_start_at < fromUnixTimestamp64Micro({to_us}, 'UTC')"
    )


def _unpaired(table: str, name: str, of: str, amounts: Sequence[str], same: str, once: bool) -> str:
    columns = ", ".join(f"{amount} AS amount{n}" for n, amount in enumerate(amounts))
    zero = " OR ".join(f"back.amount{n} + first.amount{n} != 0" for n in range(len(amounts)))
    differ = " OR ".join(f"back.{column} != first.{column}" for column in same.split(", "))
    taken = f"SELECT {of} AS of_id, sign, {same}, count() OVER (PARTITION BY {of}) AS times, {columns}"
    given = f"SELECT {name} AS id, sign, {same}, {columns}"
    return (
        f"SELECT count() FROM ({taken} FROM {table} FINAL WHERE {of} != '') AS back"
        f" LEFT JOIN ({given} FROM {table} FINAL) AS first ON back.of_id = first.id"
        f" WHERE first.id = '' OR (back.times > 1 AND {int(once)}) OR back.sign + first.sign != 0 OR {zero} OR {differ}"
    )

"""Laws of pricing: base rows and late steps, in whatever pieces they are written, are the rows of one pass; what they
fold to is what the whole book says; reversals cancel."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st
from wattledger_core.cost import CostRow
from wattledger_core.event import Tick
from wattledger_core.line import Line
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import Pricer
from wattledger_core.pricing_match import matches, rank

from tests.pricing_builders import (
    KWH_UJ,
    QUARTER,
    Item,
    S,
    energy_line,
    folded,
    price,
    price_log,
    reversed_line,
    time_line,
)

QUARTERS = 3
LATENESS_US = Policy().lateness_us
SCOPES: dict[str, list[dict[str, str]]] = {
    "compute": [{}, {"gpu_model": "H100"}, {"site": "fra1"}, {"gpu_model": "A100"}],
    "energy": [{}, {"site": "fra1"}],
    "rate": [{}, {"tenant": "acme"}, {"sku": "h100"}, {"plan": "reserved"}],
    "pool": [
        {"pool_name": "fabric", "driver": "installed_gpu_h"},
        {"pool_name": "fabric", "driver": "held_gpu_h", "site": "fra1"},
        {"pool_name": "cooling", "driver": "kwh"},
    ],
}


@st.composite
def prices(draw: st.DrawFn, offset: int) -> Price:
    kind = draw(st.sampled_from(sorted(SCOPES)))
    start = draw(st.integers(0, QUARTERS))
    end = draw(st.one_of(st.none(), st.integers(start, QUARTERS + 1)))
    rate = draw(st.decimals(min_value=0, max_value=9, places=3))
    made = price(kind, str(rate), offset=offset, **draw(st.sampled_from(SCOPES[kind])))
    return replace(made, start_us=start * QUARTER, end_us=None if end is None else end * QUARTER)


@st.composite
def books(draw: st.DrawFn) -> list[Item]:
    """Prices, ends moved, whole changes (refused where the price has started), and ticks that only rise."""
    items: list[Item] = []
    tick_s = 0
    for offset in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(("price", "price", "tick", "end", "change")))
        earlier = [item for item in items if isinstance(item, Price)]
        if kind == "tick" or (kind in ("end", "change") and not earlier):
            tick_s += draw(st.sampled_from((60, 480, 960, 1860)))
            items.append(Tick(tick_s * S))
        elif kind == "price":
            items.append(draw(prices(offset)))
        else:
            old = draw(st.sampled_from(earlier))
            new = draw(prices(offset))
            if kind == "end":
                new = replace(old, origin=new.origin, end_us=old.start_us + QUARTER * draw(st.integers(0, 2)))
            items.append(replace(new, price_id=old.price_id))
    return items


def lines() -> list[Line]:
    """Lines of every kind over the quarters, and reversals of some."""
    found: list[Line] = []
    for quarter in range(QUARTERS):
        found += [
            time_line(quarter, device_us=QUARTER // 7),
            time_line(quarter, line_id=f"reserved-{quarter}", state="reserved_unused", plan="reserved", sku=""),
            time_line(quarter, line_id=f"free-{quarter}", state="free", tenant="__idle__", gpu_model="A100"),
            energy_line(quarter, energy_uj=KWH_UJ // 7),
            time_line(quarter, line_id=f"bolt-{quarter}", tenant="bolt", sku="a100", gpu_model="A100"),
            energy_line(
                quarter,
                line_id=f"last-{quarter}",
                group_end_us=(quarter + 1) * QUARTER,
                start_us=quarter * QUARTER + 870 * S,
            ),
            energy_line(quarter, line_id=f"unknown-{quarter}", energy_uj=None, reason="gap"),
        ]
    return found + [reversed_line(line) for line in found[::2]]


LINES = lines()
DONE = Tick(100_000 * S)


def arriving(items: list[Item]) -> list[CostRow]:
    """As the live pipeline does it: lines are priced once the book's tick has passed them, late prices reprice."""
    log = PriceLog()
    pricer = Pricer(log, Policy())
    written: list[Line] = []
    rows: list[CostRow] = []
    for item in [*items, DONE]:
        added = log.add(item)
        due = [line for line in LINES if line.group_end_us + LATENESS_US <= log.newest_tick_us and line not in written]
        if isinstance(added, Price):
            rows += pricer.reprice(written, added)
        rows += pricer.price(due)
        written += due
    return rows


@given(books())
@settings(max_examples=150, deadline=None)
def test_base_rows_and_late_steps_are_the_rows_of_one_pass(items: list[Item]) -> None:
    whole = Pricer(price_log(*items, DONE), Policy()).price(LINES)
    live = arriving(items)
    assert sorted(live) == sorted(whole)
    assert len({row.row_id for row in whole}) == len(whole)


@given(books(), st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_repricing_again_after_a_restart_gives_rows_already_written(items: list[Item], place: int) -> None:
    log = price_log(*items, DONE)
    pricer = Pricer(log, Policy())
    whole = set(pricer.price(LINES))
    for entry in log.entries[place:]:
        assert set(pricer.reprice(LINES, entry)) <= whole


def standing_cost(log: PriceLog, line: Line, kind: str, drivers: tuple[str, ...]) -> Decimal | None:
    """What the whole book says of one line, the slow way: latest revisions, best rank, one winner."""
    latest = {entry.price_id: entry for entry in log.entries}
    found: list[Price] = []
    for entry in latest.values():
        fits = entry.start_us <= line.start_us < entry.until_us and matches(entry, line)  # type: ignore[arg-type]
        if entry.kind == kind and fits and (not drivers or entry.driver in drivers):
            found.append(entry)
    best = [entry for entry in found if rank(entry) == max(map(rank, found))]
    quantity = line.device_us if line.kind == "time" else line.energy_uj
    if len(best) != 1 or quantity is None:
        return None
    whole = Decimal(quantity) * best[0].rate * best[0].pue
    unit = 3_600_000_000 if line.kind == "time" else 3_600_000_000_000
    return (whole / unit).quantize(Decimal("1e-12"))


@given(books())
@settings(max_examples=150, deadline=None)
def test_the_rows_fold_to_what_the_whole_book_says(items: list[Item]) -> None:
    log = price_log(*items, DONE)
    rows = Pricer(log, Policy()).price(LINES)
    sums = folded(rows)
    signs = Counter((row.line_id, row.component) for row in rows if row.sign > 0)
    signs.subtract(Counter((row.line_id, row.component) for row in rows if row.sign < 0))
    for line in LINES:
        time = line.kind == "time"
        asked: list[tuple[str, str, tuple[str, ...]]]
        asked = [("compute", "compute", ())] if time else [("energy", "energy", ())]
        drivers = ("installed_gpu_h", "held_gpu_h") if line.state == "held" else ("installed_gpu_h",)
        asked.append(("pool:fabric", "pool", drivers) if time else ("pool:cooling", "pool", ("kwh",)))
        if time and line.state == "held":
            asked.append(("billed", "rate", ()))
        for component, kind, moved in asked:
            key = (line.line_id, component)
            expected = standing_cost(log, line, kind, moved) or Decimal(0)
            assert sums.get(key, Decimal(0)) == expected, key
            required = component in ("compute", "energy", "billed")
            assert signs[key] == line.sign if required else signs[key] in (0, line.sign)


@given(books())
@settings(max_examples=40, deadline=None)
def test_a_line_and_its_reversal_cancel_row_by_row(items: list[Item]) -> None:
    pricer = Pricer(price_log(*items, DONE), Policy())
    for line in LINES[: len(LINES) // 2]:
        original, reversal = pricer.price([line]), pricer.price([reversed_line(line)])
        assert [(r.component, r.quantity, r.cost, r.sign, r.price_id) for r in original] == [
            (r.component, None if r.quantity is None else -r.quantity, None if r.cost is None else -r.cost, -r.sign,
             r.price_id)
            for r in reversal
        ]  # fmt: skip
        assert all((row.entry == "reversal") == (row.sign < 0) for row in [*original, *reversal])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.data())
@settings(max_examples=30, deadline=None)
def test_any_order_of_publishing_folds_to_the_same_costs(knowns: list[int], data: st.DataObject) -> None:
    made = [data.draw(prices(n)) for n in range(len(knowns))]
    sums = set()
    for order in permutations(range(len(made))):
        items: list[Item] = []
        for offset, (place, known) in enumerate(zip(order, sorted(knowns), strict=True)):
            items.append(Tick(known * 1_000 * S))
            original = made[place]
            items.append(replace(original, origin=replace(original.origin, offset=offset)))
        rows = Pricer(price_log(*items, DONE), Policy()).price(LINES)
        sums.add(frozenset((key, amount) for key, amount in folded(rows).items() if amount))
    assert len(sums) == 1

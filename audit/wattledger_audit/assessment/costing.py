"""What the lines cost: priced by the core's book, amounts spread by their drivers. Owns what each driver weighs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from wattledger_core.capacity import HELD_STATE
from wattledger_core.cost import UNPRICED, CostRow
from wattledger_core.ids import digest
from wattledger_core.line import Line
from wattledger_core.policy import Policy
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.pricing import BILLED, COMPUTE, Pricer
from wattledger_core.revision import Origin
from wattledger_core.span_lines import SpanLedger
from wattledger_core.spread import amount_for, spread_rows
from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.units import MONEY_CONTEXT

from wattledger_audit.assessment.cost_book import CostBook, NodePrice, Spread
from wattledger_audit.assessment.energy_lines import MeasuredEnergy, energy_lines
from wattledger_audit.assessment.node_price import node_shares
from wattledger_audit.intake.refusal import InputRefused


@dataclass(slots=True)
class Costed:
    """Lines and rows of the period, and the amounts that were to be spread beside what could be.

    `targets`: component → what its rows must sum to, computed apart (spreads only); `unborne`: component → amount
    that no driver bears, with the reason."""

    lines: list[Line]
    rows: list[CostRow]
    targets: dict[str, Decimal] = field(default_factory=dict)
    unborne: dict[str, tuple[Decimal, str]] = field(default_factory=dict)


def price_edges(book: CostBook, start_us: int, end_us: int, more: Iterable[int] = ()) -> list[int]:
    """Ascending moments between which every price, amount, agreed rate and meter reading is constant."""
    points = {start_us, end_us, *more}
    for price in book.prices:
        points |= {price.start_us, price.until_us}
    for spread in book.spreads:
        points |= {spread.start_us, spread.end_us}
    for node_price in book.node_prices:
        points |= {node_price.start_us, node_price.end_us}
    for meter in book.meters:
        points |= {meter.start_us, meter.end_us}
    return sorted(point for point in points if start_us <= point <= end_us)


def price_log(prices: Sequence[Price]) -> PriceLog:
    """The prices as a book. Raises `InputRefused` for one that the core refuses, or two that contradict."""
    log = PriceLog()
    for seq, price in enumerate(prices):
        item = replace(price, origin=Origin(0, 0, seq))
        if log.add(item) is None:
            raise InputRefused(f"cost file: {log.refused[item.origin]}")
    return log


def cost(ledger: SpanLedger, measured: MeasuredEnergy, book: CostBook) -> Costed:
    """Price every line of the ledger, energy beside time, and spread what is an amount."""
    times = ledger.lines()
    energies = list(energy_lines(ledger, measured, book.power)) if book.has_energy else []
    pricer = Pricer(price_log(book.prices), Policy(), PARTS_PER_US)
    costed = Costed([*times, *energies], [])
    covered: list[Spread | NodePrice] = [
        *(spread for spread in book.spreads if spread.component == COMPUTE),
        *book.node_prices,
    ]
    costed.rows = [
        row
        for row in pricer.price(costed.lines)
        if row.component != BILLED and not (row.component == COMPUTE and row.status == UNPRICED and _in(row, covered))
    ]
    keys = sorted(ledger.parts)
    node_parts = {line.line_id: ledger.node_parts[key] for line, key in zip(times, keys, strict=True)}
    for number, spread in enumerate(book.spreads):
        amount = _inside(spread, times, ledger.edges)
        takers, weights, reason = _weights(spread, times, energies, node_parts, book)
        _book_spread(number, spread, amount, takers, weights, reason, costed)
    for number, price in enumerate(book.node_prices, start=len(book.spreads)):
        shares = node_shares(price, ledger)
        takers = [line for line in times if _in(line, [price])]
        weights = [
            shares.weights.get(key, 0) for key, line in zip(keys, times, strict=True) if _in(line, [price])
        ]  # fmt: skip
        spread = Spread(COMPUTE, price.per_node_hour, price.currency, price.start_us, price.end_us, "node_h")
        _book_spread(number, spread, shares.amount, takers, weights, "no node of its scope was in service", costed)
    return costed


def _in(row: CostRow | Line, spreads: Sequence[Spread | NodePrice]) -> bool:
    return any(
        spread.site in ("", row.site)
        and spread.gpu_model in ("", row.gpu_model)
        and spread.start_us <= row.start_us < spread.end_us
        for spread in spreads
    )


def _inside(spread: Spread, times: Sequence[Line], edges: Sequence[int]) -> Decimal:
    """What an amount comes to inside the period: by the device-time in service, or by the time of its interval."""
    if spread.per_device:
        whole = (spread.end_us - spread.start_us) * PARTS_PER_US
        return amount_for(spread.amount, sum(line.device_us for line in times if _in(line, [spread])), whole)
    inside_us = min(spread.end_us, edges[-1]) - max(spread.start_us, edges[0])
    return amount_for(spread.amount, max(inside_us, 0), spread.end_us - spread.start_us)


def _book_spread(
    number: int, spread: Spread, amount: Decimal, takers: Sequence[Line], weights: Sequence[int], reason: str,
    costed: Costed,
) -> None:  # fmt: skip
    component = spread.component
    if component == COMPUTE:
        _book_nothing(number, spread, takers, weights if amount else [0] * len(takers), costed)
    if not amount:
        return
    if any(weights):
        rows = spread_rows(component, amount, spread.currency, spread.marginal, takers, weights)
        costed.rows += [row._replace(row_id=digest(row.row_id, number)) for row in rows]
        costed.targets[component] = MONEY_CONTEXT.add(costed.targets.get(component, Decimal(0)), amount)
    else:
        before = costed.unborne.get(component, (Decimal(0), ""))[0]
        costed.unborne[component] = (MONEY_CONTEXT.add(before, amount), reason)


def _book_nothing(
    number: int, spread: Spread, takers: Sequence[Line], weights: Sequence[int], costed: Costed
) -> None:  # fmt: skip
    """Device-time that bears none of a compute amount costs 0, and is not without a price."""
    bare = [line for line, weight in zip(takers, weights, strict=True) if not weight and line.device_us]
    if bare:
        rows = spread_rows(spread.component, Decimal(0), spread.currency, spread.marginal, bare, [1] * len(bare))
        costed.rows += [row._replace(row_id=digest(row.row_id, number)) for row in rows]


def _weights(
    spread: Spread, times: Sequence[Line], energies: Sequence[Line], node_parts: dict[str, int], book: CostBook
) -> tuple[Sequence[Line], list[int], str]:
    """Who bears an amount by how much; and why nobody does, where nobody does."""
    lines = [line for line in times if _in(line, [spread])]
    if spread.driver == "installed_gpu_h":
        return lines, [line.device_us for line in lines], "no device of its scope was in service"
    if spread.driver == "held_gpu_h":
        weights = [line.device_us if line.state == HELD_STATE else 0 for line in lines]
        return lines, weights, "nothing of its scope was held"
    if spread.driver == "node_h":
        return lines, [node_parts[line.line_id] for line in lines], "no node of its scope was in service"
    if spread.driver == "kwh":
        inside = [line for line in energies if _in(line, [spread])]
        return inside, [line.energy_uj or 0 for line in inside], "no energy of its scope is known"
    if spread.driver == "committed_kw":
        watts = {name: model.busy_mw for name, model in book.power.items()}
        weights = [line.device_us * watts.get(line.gpu_model, watts.get("", 0)) for line in lines]
        if not any(weights):
            weights = [line.device_us for line in lines]
        return lines, weights, "no device of its scope was in service"
    return lines, [0] * len(lines), f"nothing in the files says who used how much {spread.driver}"

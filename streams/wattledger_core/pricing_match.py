"""Which price applies: the rank order of scopes, exactly one winner or none, and how late revisions change it."""

from decimal import Decimal
from typing import NamedTuple

from wattledger_core.cost import PRICED, UNPRICED
from wattledger_core.price import Price
from wattledger_core.price_log import PriceLog
from wattledger_core.units import MONEY_CONTEXT

NO_PRICE = "no_price"
AMBIGUOUS_PRICE = "ambiguous_price"


class Scope(NamedTuple):
    """What of a line a price may be narrowed to."""

    site: str
    gpu_model: str
    tenant: str = ""
    plan: str = ""
    sku: str = ""


class Wanted(NamedTuple):
    """Which prices of the book are asked for: a kind, and for pools a name and the drivers that the line moves.

    `plan` asks for prices that name that plan themselves. `required`: no match is an unpriced row, not no row.
    """

    kind: str
    required: bool
    pool_name: str = ""
    drivers: tuple[str, ...] = ()
    plan: str = ""


class Choice(NamedTuple):
    """The outcome of one match, in the order of a row's columns; `factor` is rate × PUE, None when unpriced."""

    price_id: str
    price_revision_id: str
    rate: Decimal | None
    pue: Decimal | None
    marginal: bool
    currency: str
    status: str
    reason: str
    factor: Decimal | None

    @property
    def content(self) -> tuple[object, ...]:
        """What a row shows of it, whichever revision said so."""
        return (self.price_id, self.rate, self.pue, self.marginal, self.currency, self.reason)


class Step(NamedTuple):
    """From the log entry at `place` on, `choice` stands (None: no row). The base step has place -1 and no cause."""

    place: int
    cause_id: str
    choice: Choice | None


BASE_PLACE = -1


def rank(price: Price) -> int:
    """How specific a price is: tenant, then sku, plan, gpu_model, site, each worth more than all after it.

    A total order of scope shapes: two prices of one rank that match one line have the same scope, so they contradict.
    """
    return (
        16 * bool(price.tenant) + 8 * bool(price.sku) + 4 * bool(price.plan) + 2 * bool(price.gpu_model)
        + bool(price.site)
    )  # fmt: skip


def matches(price: Price, scope: Scope) -> bool:
    """Whether every scope field that the price names is the line's."""
    return (
        price.site in ("", scope.site)
        and price.gpu_model in ("", scope.gpu_model)
        and price.tenant in ("", scope.tenant)
        and price.plan in ("", scope.plan)
        and price.sku in ("", scope.sku)
    )


def applies(price: Price, wanted: Wanted, scope: Scope, at_us: int) -> bool:
    """Whether the price is one of those wanted, matches the scope and is in effect at `at_us`."""
    return (
        price.kind == wanted.kind
        and price.start_us <= at_us < price.until_us
        and price.pool_name == wanted.pool_name
        and (not wanted.drivers or price.driver in wanted.drivers)
        and (not wanted.plan or price.plan == wanted.plan)
        and matches(price, scope)
    )


def choose(log: PriceLog, wanted: Wanted, scope: Scope, at_us: int, count: int) -> Choice | None:
    """The one price that applies at `at_us` as the first `count` entries of the log know it.

    None of them: unpriced if the row is required, else no row. Two of the highest rank: unpriced, whichever it is.
    """
    best: list[Price] = []
    best_rank = -1
    for history in log.histories(wanted.kind):
        if not history.first_us <= at_us < history.until_us:
            continue
        price = history.standing(count)
        if price is None or not applies(price, wanted, scope, at_us):
            continue
        price_rank = rank(price)
        if price_rank > best_rank:
            best, best_rank = [price], price_rank
        elif price_rank == best_rank:
            best.append(price)
    if len(best) == 1:
        return _priced(best[0])
    if best:
        return _unpriced(wanted, AMBIGUOUS_PRICE)
    return _unpriced(wanted, NO_PRICE) if wanted.required else None


def chain(log: PriceLog, wanted: Wanted, scope: Scope, at_us: int, count: int) -> tuple[Step, ...]:
    """What stands as the first `count` entries know it, then each later entry that changes it, in offset order."""
    standing = choose(log, wanted, scope, at_us, count)
    steps = [Step(BASE_PLACE, "", standing)]
    for index in range(count, len(log.entries)):
        price = log.entries[index]
        if not applies(price, wanted, scope, at_us):
            before = log.before(index)
            if before is None or not applies(before, wanted, scope, at_us):
                continue
        choice = choose(log, wanted, scope, at_us, index + 1)
        if (choice and choice.content) != (standing and standing.content):
            steps.append(Step(index, price.revision_id, choice))
            standing = choice
    return tuple(steps)


def _priced(price: Price) -> Choice:
    energy = price.kind == "energy"
    factor = MONEY_CONTEXT.multiply(price.rate, price.pue) if energy else price.rate
    pue, marginal = (price.pue, True) if energy else (None, price.marginal)
    return Choice(price.price_id, price.revision_id, price.rate, pue, marginal, price.currency, PRICED, "", factor)


def _unpriced(wanted: Wanted, reason: str) -> Choice:
    return Choice("", "", None, None, wanted.kind == "energy", "", UNPRICED, reason, None)

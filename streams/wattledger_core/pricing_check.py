"""What a price must be before it may price anything, and what may still change once it has started."""

from dataclasses import replace

from wattledger_core.price import POOL_DRIVERS, PRICE_KINDS, Price
from wattledger_core.units import QUARTER_US, quarter_floor_us

SCOPE_FIELDS = {
    "compute": ("site", "gpu_model"),
    "energy": ("site",),
    "rate": ("site", "gpu_model", "tenant", "plan", "sku"),
    "pool": ("site", "gpu_model"),
}
"""The scope fields that mean something for each kind; any other must be empty."""
RATE_DECIMALS = 12


class PriceRefused(ValueError):
    """A price that may not enter the book; the message says which field, which value, what to do."""


class PriceFrozen(PriceRefused):
    """A change of a price that has started, other than of its end; or a new price for the past without a reason."""


def describe(price: Price) -> str:
    """The price in words for messages: its id, kind and scope."""
    scope = [f"{name} {getattr(price, name)}" for name in ("site", "gpu_model", "tenant", "plan", "sku")
             if getattr(price, name)]  # fmt: skip
    named = f" {price.pool_name}" if price.pool_name else ""
    return f"price {price.price_id} ({price.kind}{named}, {', '.join(scope) or 'everywhere'})"


def check_price(price: Price) -> None:
    """Raise `PriceRefused` unless the price is well formed and its period lies on the UTC quarter-hour grid.

    `end_us == start_us` is allowed: it withdraws a price. Only energy may have a negative rate or a PUE.
    """
    if price.kind not in PRICE_KINDS:
        raise PriceRefused(f"price {price.price_id}: kind {price.kind!r} is unknown: use one of {PRICE_KINDS}")
    _check_period(price)
    _check_amounts(price)
    for name in ("site", "gpu_model", "tenant", "plan", "sku"):
        if getattr(price, name) and name not in SCOPE_FIELDS[price.kind]:
            raise PriceRefused(
                f"{describe(price)}: {name} {getattr(price, name)!r} does not narrow a {price.kind} price: leave it out"
            )
    if (price.kind == "pool") != bool(price.pool_name):
        raise PriceRefused(f"{describe(price)}: pool_name {price.pool_name!r}: pools, and only pools, have a name")
    if price.kind == "pool" and price.driver not in POOL_DRIVERS:
        raise PriceRefused(f"{describe(price)}: driver {price.driver!r} is unknown: use one of {POOL_DRIVERS}")


def _check_period(price: Price) -> None:
    for name, at_us in (("start_us", price.start_us), ("end_us", price.end_us)):
        if at_us is None:
            continue
        if at_us < 0:
            raise PriceRefused(f"{describe(price)}: {name} {at_us} lies before 1970: use microseconds UTC")
        if at_us % QUARTER_US:
            below_us = quarter_floor_us(at_us)
            raise PriceRefused(
                f"{describe(price)}: {name} {at_us} is not on the UTC quarter-hour grid: "
                f"move it to {below_us} or {below_us + QUARTER_US}"
            )
    if price.until_us < price.start_us:
        raise PriceRefused(f"{describe(price)}: end_us {price.end_us} is before start_us {price.start_us}: swap them")


def _check_amounts(price: Price) -> None:
    if not price.currency:
        raise PriceRefused(f"{describe(price)}: it has no currency: name one, such as EUR")
    for name, amount in (("rate", price.rate), ("pue", price.pue)):
        if not amount.is_finite():
            raise PriceRefused(f"{describe(price)}: {name} {amount} is not a number: give a decimal")
        exponent = amount.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > RATE_DECIMALS:
            raise PriceRefused(f"{describe(price)}: {name} {amount} has more than {RATE_DECIMALS} decimals: round it")
    if price.kind != "energy" and price.rate < 0:
        raise PriceRefused(f"{describe(price)}: rate {price.rate} is negative: only energy may cost less than nothing")
    if price.pue < 1 or (price.kind != "energy" and price.pue != 1):
        raise PriceRefused(f"{describe(price)}: pue {price.pue}: it is at least 1, and 1 for all but energy")


def check_change(old: Price | None, new: Price, now_us: int) -> None:
    """Raise `PriceFrozen` when `new` changes anything but the end of a price that had started at `now_us`.

    A price id keeps its kind even before. Without `old`, the price is new: it may start in the past only with a
    reason, since it corrects rows already written. Who wrote a price and why may always differ.
    """
    if old is None:
        if new.start_us < now_us and not new.reason:
            raise PriceFrozen(
                f"{describe(new)} starts at {new.start_us}, before now ({now_us}): it will correct rows already "
                "written, so give a reason"
            )
        return
    if (old.price_id, old.kind) != (new.price_id, new.kind):
        raise PriceFrozen(f"{describe(new)} is no revision of {describe(old)}: publish it as a price of its own")
    if old.start_us > now_us:
        return
    changed = [name for name in _FROZEN_FIELDS if getattr(old, name) != getattr(new, name)]
    if changed:
        name = changed[0]
        raise PriceFrozen(
            f"{describe(old)} started at {old.start_us}, before now ({now_us}): {name} may not change from "
            f"{getattr(old, name)} to {getattr(new, name)}: end it and publish a new price"
        )


def same_but_end(old: Price, new: Price) -> bool:
    """Whether two revisions price the same things at the same rate, whenever each ends."""
    return all(getattr(old, name) == getattr(new, name) for name in _FROZEN_FIELDS)


_FROZEN_FIELDS = (
    "kind", "start_us", "rate", "currency", "site", "gpu_model", "tenant", "plan", "sku", "pue", "pool_name",
    "driver", "marginal",
)  # fmt: skip


def stamped(price: Price, known_us: int, revision_id: str) -> Price:
    """The price as the log keeps it: with what was known when it came, and an identity of its revision."""
    return replace(price, known_us=known_us, revision_id=price.revision_id or revision_id)

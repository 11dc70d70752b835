"""Prices with effective periods, as records of the `price-book` topic. Matching and rounding live in pricing.py."""

from dataclasses import dataclass
from decimal import Decimal

from wattledger_core.interval import FOREVER_US
from wattledger_core.revision import Origin

PRICE_KINDS = ("compute", "energy", "rate", "pool")
POOL_DRIVERS = ("installed_gpu_h", "held_gpu_h", "kwh")


@dataclass(frozen=True, slots=True)
class Price:
    """One price over `[start_us, end_us)`, on the quarter-hour grid.

    kind `compute`: cost per device-hour of `gpu_model` at `site` · `energy`: per kWh at `site`, times `pue` (1 when
    the meter includes it) · `rate`: what a tenant is billed per device-hour held, by `sku` or `gpu_model`, `plan`,
    and `tenant` for a contract · `pool`: `pool_name` per unit of `driver`, `marginal` when it is paid in cash per
    use. An empty scope field matches all; the most specific price wins, and two of the same rank are ambiguous.

    A later record with the same `price_id` is a revision of it; one that has started may only change its end.
    """

    price_id: str
    revision_id: str
    origin: Origin
    known_us: int
    kind: str
    start_us: int
    end_us: int | None
    rate: Decimal
    currency: str
    site: str = ""
    gpu_model: str = ""
    tenant: str = ""
    plan: str = ""
    sku: str = ""
    pue: Decimal = Decimal(1)
    pool_name: str = ""
    driver: str = ""
    marginal: bool = False
    author: str = ""
    reason: str = ""

    @property
    def until_us(self) -> int:
        """End of the effective period, `FOREVER_US` while open."""
        return FOREVER_US if self.end_us is None else self.end_us

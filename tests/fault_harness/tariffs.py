"""The price book of a world: list prices, changes published ahead, and changes for the past."""

from random import Random

from tests.fault_harness.facts import PriceSaid
from tests.fault_harness.physics import minutes_us
from tests.fault_harness.plan import MINUTE, QUARTER, Plan

CURRENCY = "EUR"
KINDS = ("energy", "compute", "rate")
FIRST_RATES = {"energy": "0.31", "compute": "2.1", "rate": "2.9"}
PUES = ("1.4", "1.35", "1.27")


class Tariffs:
    """What was said of prices, in order; and what stands."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._dice = Random(f"{plan.seed}/prices")
        self._said: list[PriceSaid] = []
        self._standing: dict[str, PriceSaid] = {}
        for kind in KINDS:
            pue = PUES[0] if kind == "energy" else "1"
            self._say(kind, plan.start_us, None, FIRST_RATES[kind], pue, plan.start_us, name=kind)
        quarters = plan.minutes * MINUTE // QUARTER
        changes = [(True, n) for n in range(plan.price_changes)] + [(False, n) for n in range(plan.late_prices)]
        if changes and quarters < 2:
            raise ValueError("a price changes on the quarter-hour grid: a world of 30 minutes or more is needed")
        for ahead, n in changes:
            self._change(KINDS[n % len(KINDS)], n, ahead, quarters)
        self.said = tuple(sorted(self._said, key=lambda said: said.at_us))

    def _change(self, kind: str, n: int, ahead: bool, quarters: int) -> None:
        """End the standing price of a kind at a quarter-hour and begin another one there."""
        plan, dice = self._plan, self._dice
        from_us = plan.start_us + dice.randint(1, quarters - 1) * QUARTER
        old = next(p for p in self._standing.values() if p.kind == kind and _holds(p, from_us))
        if old.start_us == from_us:
            return
        at_us = from_us - 5 * MINUTE if ahead else from_us + minutes_us(dice, 5, max(plan.late_by_min, 6))
        # never in the moment of a tick: what comes first would be a matter of taste
        at_us = max(at_us + 7000, old.at_us + 1000)
        reason = "tariff of the season" if ahead else "published late"
        self._say(kind, old.start_us, from_us, old.rate, old.pue, at_us, name=old.name, reason=reason)
        rate = f"{float(FIRST_RATES[kind]) + dice.randint(1, 900) / 1000:.3f}"
        pue = dice.choice(PUES[1:]) if kind == "energy" else "1"
        name = f"{kind}-{'ahead' if ahead else 'late'}-{n}"
        self._say(kind, from_us, old.end_us, rate, pue, at_us + 1000, name=name, reason=reason)

    def _say(
        self, kind: str, start_us: int, end_us: int | None, rate: str, pue: str, at_us: int, name: str, reason: str = ""
    ) -> None:
        tick_us = self._plan.tick_s * 1_000_000
        # the first tick comes after what is said at the start
        known_us = at_us - (at_us - self._plan.start_us) % tick_us if at_us > self._plan.start_us else 0
        said = PriceSaid(name, kind, start_us, end_us, rate, pue, known_us, at_us, reason)
        self._said.append(said)
        self._standing[name] = said


def _holds(price: PriceSaid, at_us: int) -> bool:
    return price.start_us <= at_us and (price.end_us is None or at_us < price.end_us)

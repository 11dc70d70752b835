"""What a GPU-hour should have been billed at: the contract, else the rate that was billed most, and which it was."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from wattledger_audit.assessment.billable import Sold
from wattledger_audit.assessment.names import model_family
from wattledger_audit.assessment.revenue import Revenue, gpu_sales
from wattledger_audit.assessment.terms import Terms

CONTRACT = "contract"
OWN_RATE = "the rate that it was billed most"
SKU_RATE = "the rate at which the SKU was billed most"
MODEL_RATE = "the rate at which the model was billed most"
NO_RATE = "no rate is known"


_Billed = dict[int, tuple[Fraction, Fraction]]
"""Hours and amount by the rate that they come to, in millionths."""


class Rate(NamedTuple):
    """A rate per GPU-hour and where it is from; None with NO_RATE."""

    per_gpu_hour: Fraction | None
    basis: str


@dataclass(slots=True)
class RateBook:
    """Rates by tenant, SKU, model and plan; observed ones are the mode by quantity of what was billed."""

    terms: Terms
    _own: dict[tuple[str, str], Fraction] = field(default_factory=dict)
    _sku: dict[str, Fraction] = field(default_factory=dict)
    _model: dict[str, Fraction] = field(default_factory=dict)

    def observe(self, lines: Iterable[Revenue]) -> None:
        """Take what was billed."""
        own: dict[tuple[str, str], _Billed] = {}
        sku: dict[str, _Billed] = {}
        model: dict[str, _Billed] = {}
        for line in gpu_sales(lines):
            if line.gpu_hours is None or line.gpu_hours <= 0 or line.amount <= 0:
                continue
            # alike to 1e-6: a cent's rounding of an amount is no rate of its own
            alike = round(Fraction(line.amount) / line.gpu_hours * 1_000_000)
            family = model_family(f"{line.sku} {line.line.description}")
            places: list[_Billed] = [own.setdefault((line.tenant, line.sku), {}), sku.setdefault(line.sku, {})]
            if family:
                places.append(model.setdefault(family, {}))
            for place in places:
                hours, amount = place.get(alike, (Fraction(0), Fraction(0)))
                place[alike] = (hours + line.gpu_hours, amount + Fraction(line.amount))
        self._own = {key: _mode(found) for key, found in own.items()}
        self._sku = {key: _mode(found) for key, found in sku.items()}
        self._model = {key: _mode(found) for key, found in model.items()}

    def rate(self, sold: Sold, at_us: int) -> Rate:
        """What a GPU-hour of it should be billed at, at a moment."""
        agreed = self.terms.contract(sold.tenant, sold.sku, sold.gpu_model, sold.plan, at_us)
        if agreed is not None:
            return Rate(Fraction(agreed.per_gpu_hour), CONTRACT)
        for found, basis in (
            (self._own.get((sold.tenant, sold.sku)), OWN_RATE),
            (self._sku.get(sold.sku), SKU_RATE),
            (self._model.get(model_family(sold.gpu_model)), MODEL_RATE),
        ):
            if found is not None:
                return Rate(found, basis)
        return Rate(None, NO_RATE)

    def contract_price(self, sold: Sold, at_us: int) -> Decimal | None:
        """The agreed rate per GPU-hour, None where none is agreed."""
        agreed = self.terms.contract(sold.tenant, sold.sku, sold.gpu_model, sold.plan, at_us)
        return None if agreed is None else agreed.per_gpu_hour


def _mode(found: _Billed) -> Fraction:
    """The rate of most hours: what was billed at it ÷ its hours, so that one rate explains its lines exactly."""
    hours, amount = found[max(sorted(found), key=lambda alike: found[alike][0])]
    return amount / hours

"""On which terms a run is held: its tenant by the audit's name, plan, SKU, and who pays for how it ended."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from wattledger_core.line import UNATTRIBUTED, UNAVAILABLE
from wattledger_core.span_lines import Holder

from wattledger_audit.assessment.cost_book import DEFAULT_BEARERS, PROVIDER, ContractRate, SkuRule, TenantTerms
from wattledger_audit.assessment.names import (
    ModelNames,
    TenantNames,
    model_family,
    model_forms,
    model_memory,
    squeezed,
)
from wattledger_audit.assessment.run_book import RunBook, Who

ON_DEMAND = "on_demand"
_PLAN_WORDS = (
    ("reserved", ("reserved", "reservation", "committed", "commitment", "dedicated")),
    ("spot", ("spot", "preemptible", "interruptible")),
    (ON_DEMAND, ("on demand", "ondemand", "payg", "pay as you go")),
    ("trial", ("trial",)),
    ("internal", ("internal",)),
)
FAILED_RUN = "failed_run"
_PROFILE = re.compile(r"(?<![a-z0-9])([1-7])g(?![a-z0-9]*b\b)(?=[\s._+-]|$)|(?<![a-z0-9])([1-7])g\.\d+gb")


def mig_profile(text: str) -> str:
    """The MIG profile that a SKU's words name, by its compute slices (`1g`), or empty."""
    found = _PROFILE.search(text.casefold())
    return f"{found.group(1) or found.group(2)}g" if found else ""


def slices_of(text: str) -> int:
    """What MIG divides a device by that a text names: 4 for A30, else 7."""
    return 4 if model_family(text) == "a30" else 7


@lru_cache(maxsize=4096)
def _profile_of_share(share_num: int, share_den: int, gpu_model: str) -> str:
    """The MIG profile that is that share of a device (half of an A30 is `2g`); empty for a share that is none."""
    slices, rest = divmod(share_num * slices_of(gpu_model), share_den)
    return "" if rest else f"{slices}g"


def plan_of_text(text: str) -> str:
    """The plan that a SKU's words name, or empty."""
    words = f" {text.casefold().replace('-', ' ').replace('_', ' ')} "
    return next((plan for plan, names in _PLAN_WORDS if any(f" {name} " in words for name in names)), "")


@dataclass(slots=True)
class SkuBook:
    """Which SKU a use of a model is sold as: by the cost file's rules, else by the words of what was billed."""

    rules: Mapping[str, SkuRule] = field(default_factory=dict)
    billed: dict[str, dict[str, Decimal]] = field(default_factory=dict)
    """tenant → SKU as billed → quantity."""
    words: dict[str, str] = field(default_factory=dict)
    """SKU → its description."""
    _memo: dict[tuple[str, str, str, str, str], str] = field(default_factory=dict)

    def add(self, tenant: str, sku: str, description: str, quantity: Decimal | None) -> None:
        """Take a billed GPU line."""
        found = self.billed.setdefault(tenant, {})
        found[sku] = found.get(sku, Decimal(0)) + (quantity or Decimal(0))
        self.words.setdefault(sku, description)

    def sku_of(self, tenant: str, plan: str, gpu_model: str, written: str, profile: str = "") -> str:
        """The SKU of a use; the model's name where none was billed that fits. `profile` is a MIG slice's (`1g`)."""
        key = (tenant, plan, gpu_model, written, profile)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._find(*key)
        return found

    def _find(self, tenant: str, plan: str, gpu_model: str, written: str, profile: str) -> str:
        own = self.billed.get(tenant, {})
        others: dict[str, Decimal] = {}
        for skus in self.billed.values():
            for sku, quantity in skus.items():
                others[sku] = others.get(sku, Decimal(0)) + quantity
        if written:
            same = [sku for sku in (*own, *others, *self.rules) if squeezed(sku) == squeezed(written)]
            return same[0] if same else written
        for skus in (own, others):
            fits = [sku for sku in skus if self._fits(sku, gpu_model)]
            fits = [sku for sku in fits if mig_profile(self._text(sku)) == profile] or fits
            named = [sku for sku in fits if self._plan(sku) == plan]
            fits = named or [sku for sku in fits if not self._plan(sku)] or (fits if skus is own else [])
            if fits:
                return max(sorted(fits), key=lambda sku: skus[sku])
        silent = [sku for sku in own if not model_family(self._text(sku)) and sku not in self.rules]
        if len(silent) == 1 and len(own) == 1:
            return silent[0]
        ruled = [rule.sku for rule in self.rules.values() if self._fits(rule.sku, gpu_model) and rule.plan == plan]
        return ruled[0] if len(ruled) == 1 else gpu_model

    def _text(self, sku: str) -> str:
        return f"{sku} {self.words.get(sku, '')}"

    def _plan(self, sku: str) -> str:
        rule = self.rules.get(sku)
        return rule.plan if rule and rule.plan else plan_of_text(self._text(sku))

    def _fits(self, sku: str, gpu_model: str) -> bool:
        rule = self.rules.get(sku)
        if rule is not None and (rule.gpu_model or not rule.gpu):
            return rule.gpu and squeezed(rule.gpu_model) == squeezed(gpu_model)
        text = self._text(sku)
        family, named = model_family(gpu_model), model_family(text)
        if not family or not named:
            return bool(squeezed(gpu_model)) and squeezed(gpu_model) in squeezed(text)
        sizes = {model_memory(text), model_memory(gpu_model)} - {""}
        said, forms = model_forms(text), model_forms(gpu_model)
        return family == named and len(sizes) < 2 and (not said or not forms or bool(said & forms))


class Terms:
    """Tenants, plans, SKUs and payers; `holder` is what the sweep charges a run to."""

    def __init__(
        self,
        tenants: Iterable[TenantTerms],
        names: TenantNames,
        models: ModelNames,
        skus: SkuBook,
        by_job: bool = False,
    ) -> None:
        self.tenants = {terms.name: terms for terms in tenants}
        self.names, self.models, self.skus = names, models, skus
        self._by_job = by_job
        self._memo: dict[tuple[int, str, str], Holder] = {}

    def terms_of(self, tenant: str) -> TenantTerms:
        """The tenant's terms; plain ones where the cost file does not name it."""
        return self.tenants.get(tenant) or TenantTerms(tenant)

    def plan_of(self, tenant: str, written: str) -> str:
        """A run's plan: what the log says, else the tenant's, else on demand."""
        return written or self.terms_of(tenant).plan or ON_DEMAND

    def bearer(self, tenant: str, state: str) -> str:
        """Who pays for a run that ended so."""
        return self.terms_of(tenant).bearers.get(state) or DEFAULT_BEARERS.get(state, "tenant")

    def holder(self, runs: RunBook, number: int, gpu_model: str) -> Holder:
        """Who a run is charged to on a node of that model."""
        shape = runs.shapes[runs.shape[number]]
        profile = ""
        if shape.share_num < shape.share_den:
            model = gpu_model or runs.whos[runs.who[number]].gpu_model
            profile = _profile_of_share(shape.share_num, shape.share_den, model)
        key = (runs.who[number], gpu_model, profile)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._holder(runs.whos[runs.who[number]], gpu_model, profile)
        return found._replace(job=runs.jobs[number]) if self._by_job else found

    def _holder(self, who: Who, gpu_model: str, profile: str) -> Holder:
        tenant = self.names.resolve("usage", who.tenant) or UNATTRIBUTED
        plan = self.plan_of(tenant, who.plan)
        model = gpu_model or self.models.resolve(who.gpu_model)
        sku = self.skus.sku_of(tenant, plan, model, who.sku, profile)
        if self.bearer(tenant, who.state) == PROVIDER:
            reason = f"{FAILED_RUN}:{who.state.lower()}"
            return Holder(UNAVAILABLE, tenant, who.model_tag, who.cluster, plan, sku, "unavailable", reason)
        return Holder(tenant, who.project, who.model_tag, who.cluster, plan, sku)

    def model(self, text: str) -> str:
        """A GPU model by the name of the cost file and the fleet."""
        return self.models.resolve(text)

    def reserved(self, tenant: str, gpu_model: str, reservation_id: str) -> Holder:
        """Who an unused reservation is charged to: its holder, on the reserved plan."""
        sku = self.skus.sku_of(tenant, "reserved", gpu_model, "")
        return Holder(tenant, "", "", "", "reserved", sku, "reserved_unused", reservation_id)

    def contract(self, tenant: str, sku: str, gpu_model: str, plan: str, at_us: int) -> ContractRate | None:
        """The agreed rate that holds at a moment: the narrowest that matches."""
        best: tuple[int, ContractRate] | None = None
        for rate in self.terms_of(tenant).contract:
            matched = [
                (rate.sku, squeezed(sku)), (rate.gpu_model, squeezed(gpu_model)), (rate.plan, squeezed(plan)),
            ]  # fmt: skip
            if any(wanted and squeezed(wanted) != given for wanted, given in matched):
                continue
            if (rate.start_us or 0) <= at_us and (rate.end_us is None or at_us < rate.end_us):
                rank = sum(bool(wanted) << place for place, (wanted, _) in enumerate(reversed(matched)))
                if best is None or rank > best[0]:
                    best = (rank, rate)
        return best[1] if best else None

    def contract_edges(self) -> set[int]:
        """Moments at which an agreed rate starts or ends."""
        rates = [rate for terms in self.tenants.values() for rate in terms.contract]
        return {at for rate in rates for at in (rate.start_us, rate.end_us) if at is not None}

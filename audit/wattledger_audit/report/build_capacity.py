"""Where every installed hour went, the idle burn of each machine with the runs that would have fitted, and tokens."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from wattledger_core.capacity import FREE_STATE, HELD_STATE, RESERVED_STATE, STRANDED_STATE, UNAVAILABLE_STATE
from wattledger_core.line import IDLE
from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.units import MONEY_CONTEXT, UJ_PER_KWH, US_PER_HOUR
from wattledger_core.verdict import NOT_REPRICED_PLANS

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.billable import PARTS_PER_HOUR, Sold
from wattledger_audit.assessment.waiting import Match
from wattledger_audit.report.amount_text import fraction_hours, kwh, money, part_hours, ratio, us_hours
from wattledger_audit.report.model import CapacityState, IdleNode, TokenRow, WaitingRun
from wattledger_audit.report.sums import ZERO, StateSum, by_state

SHOWN_RUNS = 10
_LABELS = {
    UNAVAILABLE_STATE: "Unavailable",
    RESERVED_STATE: "Reserved and unused",
    STRANDED_STATE: "Stranded",
    FREE_STATE: "Free",
}


def fleet_hours(assessment: Assessment) -> dict[str, str]:
    """{step: GPU-hours}, as in the demo's summary: installed = the states' sum; billed beside them."""
    states = by_state(assessment)
    parts = {name: states[name].parts if name in states else 0 for name in (*_LABELS, HELD_STATE)}
    billed = sum((line.gpu_hours or Fraction(0) for line in assessment.revenue.lines), Fraction(0))
    found = {"installed": part_hours(sum(parts.values())), **{name: part_hours(n) for name, n in parts.items()}}
    if assessment.has_billing:
        found["billed"] = fraction_hours(billed) or ""
    return found


def build_waterfall(assessment: Assessment) -> list[CapacityState]:
    """Installed, less each state, to held; less what is not sold and what was not billed, to billed."""
    states = by_state(assessment)
    costed = assessment.stage != LEAKAGE
    empty = StateSum()
    named = [states.get(name, empty) for name in (*_LABELS, HELD_STATE)]
    installed, spent = sum(state.parts for state in named), ZERO
    for state in states.values():
        spent = MONEY_CONTEXT.add(spent, state.cost)
    rows = [_state("installed", "Installed", "total", installed, spent if costed else None)]
    for name, label in _LABELS.items():
        state = states.get(name, empty)
        rows.append(_state(name, label, "part", state.parts, state.cost if costed else None, state))
    stray = states.get("unattributed")
    if stray is not None and costed:
        rows.append(_state("unattributed", "Energy without a holder", "part", 0, stray.cost))
    held = states.get(HELD_STATE, empty)
    rows.append(_state(HELD_STATE, "Held", "total", held.parts, held.cost if costed else None))
    return rows + (_to_billed(assessment, held.parts) if assessment.has_billing else [])


def _to_billed(assessment: Assessment, held: int) -> list[CapacityState]:
    """From held to billed hours: internal and trial, then what quantities differ by."""
    unsold = sum(
        parts
        for key, parts in assessment.swept.ledger.parts.items()
        if key.holder.state == HELD_STATE and key.holder.plan in NOT_REPRICED_PLANS
    )
    billed = sum((line.gpu_hours or Fraction(0) for line in assessment.revenue.lines), Fraction(0))
    differs = Fraction(held - unsold, PARTS_PER_HOUR) - billed
    return [
        _state("not_sold", "Internal and trial", "part", unsold, None),
        CapacityState(
            step="not_billed", label="Held and not billed (below 0: billed beyond what was held)", kind="part",
            gpu_hours=fraction_hours(differs) or "", cost=None, reasons=[],
        ),
        CapacityState(
            step="billed", label="Billed", kind="total", gpu_hours=fraction_hours(billed) or "", cost=None, reasons=[]
        ),
    ]  # fmt: skip


def _state(
    step: str, label: str, kind: str, parts: int, cost: Decimal | None, state: StateSum | None = None
) -> CapacityState:
    reasons = [
        (reason or "-", part_hours(found), None if cost is None else money(spent))
        for reason, (found, spent) in sorted((state.reasons if state else {}).items(), key=lambda item: -item[1][0])
    ]
    return CapacityState(
        step=step, label=label, kind=kind, gpu_hours=part_hours(parts), cost=money(cost),
        reasons=reasons if len(reasons) > 1 or (reasons and reasons[0][0] != "-") else [],
    )  # fmt: skip


def build_idle(assessment: Assessment) -> list[IdleNode]:
    """Machines with free time, dearest first (most hours first without costs)."""
    costs: dict[str, Decimal] = {}
    energy: dict[str, int] = {}
    for row in assessment.costed.rows:
        if row.tenant == IDLE and row.cost is not None:
            costs[row.node] = MONEY_CONTEXT.add(costs.get(row.node, ZERO), row.cost)
    for line in assessment.costed.lines:
        if line.kind == "energy" and line.tenant == IDLE and line.energy_uj is not None:
            energy[line.node] = energy.get(line.node, 0) + line.energy_uj
    idle: dict[str, int] = {}
    for key, parts in assessment.swept.ledger.parts.items():
        if key.holder.tenant == IDLE:
            idle[key.node] = idle.get(key.node, 0) + parts
    matches: dict[str, list[Match]] = {}
    for match in assessment.waiting.matches:
        matches.setdefault(match.node, []).append(match)
    rows = []
    for name, parts in idle.items():
        node = assessment.fleet.nodes[name]
        cost = None if assessment.stage == LEAKAGE else costs.get(name, ZERO)
        found = sorted(matches.get(name, []), key=lambda match: (-match.matched_us, match.run))
        rows.append(
            IdleNode(
                node=name, site=node.site, gpu_model=node.gpu_model, gpus=node.gpus, idle_gpu_hours=part_hours(parts),
                idle_ratio=ratio(parts, node.installed_us * PARTS_PER_US), cost=money(cost),
                energy_kwh=kwh(energy.get(name)),
                waiting=[_waiting(assessment, match, parts, cost) for match in found[:SHOWN_RUNS]],
                waiting_more=max(len(found) - SHOWN_RUNS, 0),
            )
        )  # fmt: skip
    return sorted(rows, key=lambda row: (-Decimal(row.cost or 0), -Decimal(row.idle_gpu_hours), row.node))


def _waiting(assessment: Assessment, match: Match, idle_parts: int, cost: Decimal | None) -> WaitingRun:
    runs = assessment.runs
    who = runs.whos[runs.who[match.run]]
    share = Fraction(match.matched_us * PARTS_PER_US, idle_parts)
    capacity = None if cost is None else _portion(cost, share)
    revenue = _lost(assessment, match) if match.cancelled else None
    return WaitingRun(
        job=runs.jobs[match.run], tenant=assessment.terms.names.resolve("usage", who.tenant), gpus=match.gpus,
        waited_hours=us_hours(match.waited_us), matched_gpu_hours=us_hours(match.matched_us),
        capacity_cost=money(capacity), revenue_lost=money(revenue),
    )  # fmt: skip


def _lost(assessment: Assessment, match: Match) -> Decimal | None:
    """What a run that was cancelled while it waited would have been billed for the matched hours; an internal run or
    a trial nothing."""
    node = assessment.fleet.nodes[match.node]
    holder = assessment.terms.holder(assessment.runs, match.run, node.gpu_model)
    if holder.plan in NOT_REPRICED_PLANS:
        return None
    sold = Sold(holder.tenant, holder.sku, holder.plan, node.site, node.gpu_model)
    rate = assessment.rates.rate(sold, assessment.period.start_us).per_gpu_hour
    return None if rate is None else _portion(Decimal(1), rate * Fraction(match.matched_us, US_PER_HOUR))


def _portion(amount: Decimal, share: Fraction) -> Decimal:
    product = MONEY_CONTEXT.multiply(amount, Decimal(share.numerator))
    return MONEY_CONTEXT.divide(product, Decimal(share.denominator)).quantize(
        Decimal("0.000001"), context=MONEY_CONTEXT
    )


def waiting_note(assessment: Assessment) -> str:
    """How many runs waited, and which were not looked at."""
    waiting = assessment.waiting
    if not waiting.waited:
        return "No run says when it was submitted or eligible, or none waited: give a log with submit and start times."
    said = (
        f"{waiting.waited} runs waited; {waiting.looked_at} were matched against idle GPUs, each idle GPU-hour once; "
        f"{len(waiting.matches)} would have fitted on one machine of their partition and model."
    )
    if waiting.blocked:
        said += f" {waiting.blocked} could not have started (dependency, hold or limit)."
    if waiting.unknown_duration:
        said += f" {waiting.unknown_duration} do not say how long they would have run."
    return said


def build_tokens(assessment: Assessment) -> list[TokenRow]:
    """Energy per token of each tenant and model, over the runs of which both are known."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number in assessment.runs.tokens:
        holder = assessment.swept.run_holder.get(number)
        if holder is not None:
            tenant = holder.project if holder.tenant.startswith("__") else holder.tenant
            groups.setdefault((tenant, holder.model_tag), []).append(number)
    return [_tokens(assessment, key, numbers) for key, numbers in sorted(groups.items())]


def _tokens(assessment: Assessment, key: tuple[str, str], numbers: list[int]) -> TokenRow:
    known: list[tuple[int, int, int, str]] = [
        (assessment.runs.tokens[number], energy_uj, assessment.swept.run_parts[number], depth)
        for number in numbers
        for energy_uj, depth in [_run_energy(assessment, number)]
        if energy_uj is not None
    ]
    tokens = sum(item[0] for item in known)
    energy_uj = sum(item[1] for item in known)
    depths = sorted({item[3] for item in known})
    joules = Fraction(energy_uj, 1_000_000)
    return TokenRow(
        tenant=key[0], model=key[1], runs=len(numbers), tokens=sum(assessment.runs.tokens[n] for n in numbers),
        energy_joules=_text(joules) if known else None,
        joules_per_token=_text(joules / tokens) if tokens else None,
        cost_per_million_tokens=_token_cost(assessment, key, energy_uj, tokens),
        depth=" and ".join(depths) or "unknown",
    )  # fmt: skip


def _run_energy(assessment: Assessment, number: int) -> tuple[int | None, str]:
    """Measured energy where nearly all of the run was; else modelled; else unknown."""
    parts = assessment.swept.run_parts[number]
    measured = assessment.measured.run_parts.get(number, 0)
    if measured * 10 >= parts * 9 and measured:
        return assessment.measured.run_uj[number], "counter"
    power: Mapping[str, int] = {name: model.busy_mw for name, model in assessment.book.power.items()}
    milliwatts = power.get(assessment.model_of(number)) or power.get("")
    return (None, "unknown") if milliwatts is None else (parts * milliwatts // (PARTS_PER_US * 1000), "modelled")


def _token_cost(assessment: Assessment, key: tuple[str, str], energy_uj: int, tokens: int) -> str | None:
    """Energy cost of a million tokens, at the mean price of a kWh with PUE in the hours of that tenant's model."""
    energy = [
        row for row in assessment.costed.rows
        if row.component == "energy" and row.cost is not None and (row.tenant, row.model_tag) == key
    ]  # fmt: skip
    priced_uj = sum(row.quantity or 0 for row in energy)
    if not tokens or not priced_uj:
        return None
    spent = ZERO
    for row in energy:
        spent = MONEY_CONTEXT.add(spent, row.cost or ZERO)
    per_kwh = Fraction(spent) * UJ_PER_KWH / priced_uj
    return _text(per_kwh * energy_uj * 1_000_000 / UJ_PER_KWH / tokens)


def _text(amount: Fraction) -> str:
    return format(_portion(Decimal(1), amount), "f")

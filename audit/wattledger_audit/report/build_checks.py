"""What ties out, what could be seen, and what contradicts: two figures of one thing, made apart, side by side."""

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from wattledger_core.cost import CostRow
from wattledger_core.line import RESERVED_TENANTS
from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.units import MONEY_CONTEXT, UJ_PER_KWH, round_money

from wattledger_audit.assessment.assess import LEAKAGE, Assessment
from wattledger_audit.assessment.billable import PARTS_PER_HOUR
from wattledger_audit.assessment.bridge import BILLED, STEPS, totals
from wattledger_audit.assessment.cost_book import MeterReading
from wattledger_audit.assessment.energy_lines import MODELLED
from wattledger_audit.report.amount_text import kwh, money_text, part_hours, ratio
from wattledger_audit.report.mark_rules import MARK_RULES
from wattledger_audit.report.model import Coverage, Found, TieOut
from wattledger_audit.report.sums import ZERO, by_state, total

_RULES = {
    "overlap": "claims above what there is are scaled to it",
    "hold_on_failed_node": "the node failed: the hold ends there",
    "hold_out_of_service": "the device was not in service: the time is not counted",
    "uneven_spread": "GPUs that do not divide by the nodes stand on the first ones",
    "device_not_in_fleet": "a device beyond those of the node is not in service",
    "node_not_in_fleet": "its GPUs are the most that were held at once, in service for the whole period",
    "device_unknown": "energy is shared by the number of GPUs held",
    "telemetry_of_some_devices": "the others' energy is unknown, or modelled",
    "telemetry_of_unknown_node": "its readings are not used",
    "events_of_unknown_node": "they are not used",
    "reservation_of_unknown_node": "it is not used",
    "usage_without_holder": "its energy is nobody's: unattributed",
    "counter_reset": "the counter starts again; power fills in where it can",
    "counter_frozen": "its power readings count instead",
    "counter_disagrees": "the counter counts",
    "implausible_reading": "the reading is not used",
    "frozen_sensor": "the readings count, and are marked",
    "model_differs": "the node's model counts",
    "billed_beyond_capacity": "shown; nothing is changed",
}


def build_tie_out(assessment: Assessment) -> list[TieOut]:
    """The ledger, the energy, the invoices: each against a figure that was made another way."""
    found = [_device_time(assessment)]
    if assessment.stage != LEAKAGE:
        found += _money(assessment)
    found += _energy(assessment)
    if assessment.has_billing:
        found += _invoices(assessment)
    return found


def _tie(name: str, left: tuple[str, Decimal], right: tuple[str, Decimal], unit: str, named: str = "") -> TieOut:
    residual = MONEY_CONTEXT.subtract(left[1], right[1])
    return TieOut(
        name=name, left_label=left[0], left=money_text(left[1]), right_label=right[0], right=money_text(right[1]),
        residual="0" if not residual else money_text(residual), unit=unit, named=named if residual else "",
    )  # fmt: skip


def _device_time(assessment: Assessment) -> TieOut:
    lines = sum(assessment.swept.ledger.parts.values())
    service = sum(node.installed_us for node in assessment.fleet.nodes.values() if not node.floating) * PARTS_PER_US
    if any(node.floating for node in assessment.fleet.nodes.values()):
        # usage without a node is in service only while it is held: it is its own measure
        service += _floating_parts(assessment)
    residual = lines - service
    return TieOut(
        name="device time", left_label="Σ of all states", left=part_hours(lines),
        right_label="inventory × time in service", right=part_hours(service),
        residual="0" if residual == 0 else part_hours(residual), unit="GPU-hours",
        named="" if residual == 0 else "a defect: the states of a device must sum to its time in service",
    )  # fmt: skip


def _floating_parts(assessment: Assessment) -> int:
    runs, swept = assessment.runs, assessment.swept
    return sum(
        swept.run_parts[number] for number in swept.run_holder if not runs.shapes[runs.shape[number]].nodes
    )  # fmt: skip


def _money(assessment: Assessment) -> list[TieOut]:
    costed, currency = assessment.costed, assessment.book.currency
    by_component: dict[str, list[CostRow]] = {}
    for row in costed.rows:
        if row.cost is not None:
            by_component.setdefault(row.component, []).append(row)
    found = []
    for component, rows in sorted(by_component.items()):
        left = total(row.cost for row in rows)
        right, count = _apart(rows)
        right = MONEY_CONTEXT.add(right, costed.targets.get(component, ZERO))
        named = f"{count} rows, each rounded once to 12 decimals"
        label = "quantity × price, rounded once; amounts to spread"
        found.append(_tie(f"cost: {component}", ("Σ of its rows", left), (label, right), currency, named))
    parts = [
        total(row.cost for row in costed.rows if row.tenant not in RESERVED_TENANTS),
        *(total(row.cost for row in costed.rows if row.tenant == name) for name in RESERVED_TENANTS),
    ]
    states = total(state.cost for state in by_state(assessment).values())
    found.append(
        _tie(
            "all costs", ("tenants + idle + reserved + unavailable + stranded + unattributed", total(parts)),
            ("Σ of the capacity states", states), currency,
        )
    )  # fmt: skip
    for component, (amount, reason) in sorted(costed.unborne.items()):
        found.append(
            TieOut(
                name=f"unborne: {component}", left_label="amount", left=money_text(amount), right_label="borne",
                right="0.00", residual=money_text(amount), unit=currency, named=reason,
            )
        )  # fmt: skip
    return found


def _apart(rows: list[CostRow]) -> tuple[Decimal, int]:
    """What priced rows come to when each price is applied to its whole quantity once; and how many rows those are."""
    quantities: dict[tuple[str, Decimal, Decimal, str], int] = {}
    for row in rows:
        if row.rate is not None and row.quantity is not None:
            key = (row.price_id, row.rate, row.pue or Decimal(1), row.unit)
            quantities[key] = quantities.get(key, 0) + row.quantity
    amount = ZERO
    for (_, rate, pue, unit), quantity in sorted(quantities.items()):
        whole = UJ_PER_KWH if unit == "uj" else PARTS_PER_HOUR
        product = MONEY_CONTEXT.multiply(MONEY_CONTEXT.multiply(rate, pue), Decimal(quantity))
        amount = MONEY_CONTEXT.add(amount, round_money(MONEY_CONTEXT.divide(product, Decimal(whole))))
    return amount, sum(row.rate is not None for row in rows)


def _energy(assessment: Assessment) -> list[TieOut]:
    """Metered kWh of each site against what was measured or modelled there."""
    found = []
    for reading in assessment.book.meters:
        found.append(_meter(assessment, reading))
        if reading.amount is not None and assessment.stage != LEAKAGE:
            found.append(_power_bill(assessment, reading, reading.amount))
    return found


def _inside(assessment: Assessment, reading: MeterReading, whole: Decimal, quantum: str) -> Decimal:
    """The part of a reading that lies in the period, by time."""
    start_us, end_us = assessment.period.start_us, assessment.period.end_us
    inside_us = max(min(reading.end_us, end_us) - max(reading.start_us, start_us), 0)
    product = MONEY_CONTEXT.multiply(whole, Decimal(inside_us))
    part = MONEY_CONTEXT.divide(product, Decimal(reading.end_us - reading.start_us))
    return part.quantize(Decimal(quantum), context=MONEY_CONTEXT)


def _power_bill(assessment: Assessment, reading: MeterReading, amount: Decimal) -> TieOut:
    """What the site's power cost, against what the tariff makes of its GPUs' energy."""
    priced = total(
        row.cost for row in assessment.costed.rows
        if row.component == "energy" and reading.site in ("", row.site)
        and reading.start_us <= row.start_us < reading.end_us
    )  # fmt: skip
    named = "energy that no GPU drew, demand charges and taxes, or a tariff that is not the bill's"
    for what, kilowatts in (("committed", reading.committed_kw), ("peak", reading.peak_kw)):
        named += f"; {what} {kilowatts:f} kW" if kilowatts is not None else ""
    return _tie(
        f"power bill{' of ' + reading.site if reading.site else ''}",
        ("the bill, the part in the period", _inside(assessment, reading, amount, "0.000001")),
        ("energy cost by the tariff", priced), reading.currency, named,
    )  # fmt: skip


def _meter(assessment: Assessment, reading: MeterReading) -> TieOut:
    metered = _inside(assessment, reading, reading.kwh, "0.001")
    lines = [
        line for line in assessment.costed.lines
        if line.kind == "energy" and line.energy_uj is not None and reading.site in ("", line.site)
        and reading.start_us <= line.start_us < reading.end_us
    ]  # fmt: skip
    known = sum(line.energy_uj or 0 for line in lines)
    modelled = sum(line.energy_uj or 0 for line in lines if line.method == MODELLED)
    named = "hosts, network, cooling, and devices without readings"
    if known:
        named += f"; the meter is {ratio(metered, Fraction(known, UJ_PER_KWH))} × the GPUs' energy"
        named += f", of which {ratio(modelled, known)} is modelled"
    return _tie(
        f"energy{' of ' + reading.site if reading.site else ''}", ("the meter", metered),
        ("GPUs, measured and modelled", Decimal(kwh(known) or 0)), "kWh", named,
    )  # fmt: skip


def _invoices(assessment: Assessment) -> list[TieOut]:
    book, currency = assessment.revenue, assessment.book.currency
    used = total(line.amount for line in book.lines if line.gpu)
    other = total(line.amount for line in book.lines if not line.gpu)
    left_out = total(book.left_out.values())
    words = ", ".join(
        f"{code.replace('_', ' ')} {money_text(amount)}" for code, amount in sorted(book.left_out.items())
    )
    label = f"GPU revenue {money_text(used)} + other {money_text(other)}" + (f" + left out ({words})" if words else "")
    found = [
        _tie(
            "invoices", ("Σ of the lines read", book.read_total),
            (label, MONEY_CONTEXT.add(MONEY_CONTEXT.add(used, other), left_out)), currency,
            "a defect: every amount read must be somewhere",
        )
    ]  # fmt: skip
    if assessment.bridge:
        sums = totals(assessment.bridge)
        steps = total(sums[step] for step in STEPS if step != BILLED)
        found.append(_tie("bridge", ("Σ of its steps", steps), ("billed", sums[BILLED]), currency, "a defect"))
        found.append(_tie("billed", ("the bridge's end", sums[BILLED]), ("GPU revenue of the lines", used), currency))
    return found


def build_coverage(assessment: Assessment, rejected_rows: int) -> Coverage:
    """Shares of device time whose energy is measured, modelled, unknown; of rows that are priced; and counts."""
    parts = sum(assessment.swept.ledger.parts.values())
    spans = {"measured": 0, "modelled": 0}
    unmeasured = 0
    for line in assessment.costed.lines:
        if line.kind == "energy":
            if line.energy_uj is None:
                unmeasured += 1
            else:
                spans["modelled" if line.method == MODELLED else "measured"] += line.span_us
    if not assessment.book.has_energy:
        spans["measured"] = min(sum(assessment.measured.parts.values()), parts)
    measured, modelled = min(spans["measured"], parts), min(spans["modelled"], parts)
    rows = assessment.costed.rows
    unpriced = sum(row.status == "unpriced" for row in rows)
    runs = assessment.runs
    counted = [shape.gpus for shape in runs.shapes]
    cpu_only = sum(counted[runs.shape[number]] == 0 for number in range(len(runs)))
    return Coverage(
        measured_ratio=ratio(measured, parts),
        modelled_ratio=ratio(modelled, parts),
        unknown_energy_ratio=ratio(max(parts - measured - modelled, 0), parts),
        known_gpus_ratio=ratio(len(runs) - len(assessment.swept.uncounted), len(runs)) if len(runs) else "1.0000",
        priced_ratio=ratio(len(rows) - unpriced, len(rows)) if rows else "0.0000",
        billed_matched_ratio=_matched(assessment),
        unpriced_rows=unpriced,
        unmeasured_rows=unmeasured,
        rejected_rows=rejected_rows,
        runs_without_gpu_count=len(assessment.swept.uncounted),
        cpu_only_runs=cpu_only,
    )


def _matched(assessment: Assessment) -> str | None:
    """The share of GPU revenue that some usage goes with."""
    if not assessment.has_billing:
        return None
    used = {sold.tenant for sold in assessment.billable.parts}
    lines = [line for line in assessment.revenue.lines if line.gpu and line.amount > 0]
    whole = total(line.amount for line in lines)
    return ratio(total(line.amount for line in lines if line.tenant in used), whole) if whole else None


def build_found(assessment: Assessment) -> list[Found]:
    """Contradictions by kind, most first; marks that importers left on runs are among them."""
    kinds: dict[str, list[tuple[str, int, str]]] = {}
    for (kind, node), (count, example) in sorted(assessment.swept.found.items()):
        kinds.setdefault(kind, []).append((node, count, example))
    for kind, where, count, example in assessment.found:
        kinds.setdefault(kind, []).append((where, count, example))
    for mark, count in sorted(assessment.runs.marks.items()):
        kinds.setdefault(mark, []).append(("", count, "marked when the log was read"))
    rows = [_found(kind, places) for kind, places in kinds.items()]
    return sorted(rows, key=lambda row: (-row.count, row.kind))


def _found(kind: str, places: list[tuple[str, int, str]]) -> Found:
    nodes = [node for node, _, _ in places if node]
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return Found(
        kind=kind, count=sum(count for _, count, _ in places), nodes=", ".join(nodes[:3]) + more,
        example=places[0][2], rule=_RULES.get(kind) or MARK_RULES.get(kind, "counted as the source says"),
    )  # fmt: skip


def by_code(counts: Mapping[tuple[str, str], int], money: Mapping[tuple[str, str, str], Decimal]) -> (
    list[tuple[str, str, int, str]]
):  # fmt: skip
    """Rejected lines by file and reason code: how many, and their money."""
    rows = []
    for (file, code), count in sorted(counts.items()):
        amounts = [
            f"{money_text(amount)} {currency}".strip()
            for (name, reason, currency), amount in sorted(money.items())
            if (name, reason) == (file, code)
        ]
        rows.append((file, code, count, ", ".join(amounts)))
    return rows

"""Reports made by hand, for what is written from them: tenants of every verdict, hostile names, figures not known."""

from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal

from wattledger_audit.report.model import (
    IDLE_CHOICES,
    CapacityState,
    Coverage,
    Figures,
    FileUsed,
    Found,
    IdleNode,
    Report,
    Row,
    Step,
    TieOut,
    TokenRow,
    WaitingRun,
    Walk,
)

from tests.report_sample_text import ASSUMPTIONS, LONG_NAME, METHOD, SCRIPT_NAME, SHEET_NAME

INTERNAL = "platform team (internal)"
QUOTED = 'O\'Brien & "Sons" GPU'
UNICODE = "Universität Zürich 量子計算研究室"
REVERSED = "\u202eevil\u202c مختبر"
MICRO = Decimal("0.000001")
PRICE_STEP, TARGET = Decimal("0.05"), Decimal("0.2")


@dataclass
class Made:
    """What a row is made from; amounts in USD. `idle` is the weighted share, the others follow from it."""

    tenant: str
    verdict: str
    hours: str
    billed: str | None
    energy: str | None
    compute: str
    pools: str
    idle: str
    action: str
    plan: str = ""
    sku: str = ""
    reason: str = ""
    contract: str | None = None
    billable: str | None = None
    verdicts: dict[str, str] = field(default_factory=dict)


def _figures(made: Made, policy: str) -> Figures:
    weight = {"apart": "0", "weighted": "1", "even": "1.75", "normal": "0.6"}[policy]
    own = sum(map(Decimal, (made.energy or "0", made.compute, made.pools)), Decimal(0))
    share = Decimal(made.idle) * Decimal(weight)
    cost = own + share
    billed = None if made.billed is None else Decimal(made.billed)
    margin = None if billed is None else billed - cost
    billable = Decimal(made.hours if made.billable is None else made.billable)
    known = not made.reason and billable > 0
    even = (cost / billable).quantize(MICRO) if known else None
    missing = made.reason or ("" if known else "no billable quantity")
    sold = made.plan not in ("internal", "trial")
    suggested = (even / (1 - TARGET) / PRICE_STEP).quantize(Decimal(1), ROUND_UP) * PRICE_STEP if even else None
    return Figures(
        idle_share=str(share),
        cost_total=str(cost),
        margin=None if margin is None else str(margin),
        margin_ratio=None if margin is None or not billed else str((margin / billed).quantize(Decimal("0.0001"))),
        verdict=made.verdicts.get(policy, made.verdict),
        reason=made.reason,
        below_cost=not made.reason and margin is not None and margin < 0,
        break_even_per_gpu_hour=None if even is None else str(even),
        break_even_reason=missing,
        suggested_price_per_gpu_hour=str(suggested) if sold and suggested is not None else None,
        suggested_price_reason=missing if sold else "internal and trial plans are not repriced",
        action=made.action if policy == "weighted" else f"{made.action} ({policy})",
    )


def row(made: Made) -> Row:
    """A whole row, its chosen figures those of `weighted`."""
    by_policy = {policy: _figures(made, policy) for policy in IDLE_CHOICES}
    chosen = by_policy["weighted"]
    energy, billable = Decimal(made.energy or 0), Decimal(made.hours if made.billable is None else made.billable)
    billed = None if made.billed is None else Decimal(made.billed)
    rate = None if billed is None or not billable else (billed / billable).quantize(Decimal("0.0001"))
    return Row(
        tenant=made.tenant,
        sku=made.sku,
        plan=made.plan,
        gpu_hours=made.hours,
        billable_gpu_hours=str(billable),
        billed_gpu_hours=None if billed is None else str((billable * Decimal("0.97")).quantize(MICRO)),
        provider_paid_gpu_hours=str(Decimal(made.hours) - billable),
        energy_kwh=None if made.energy is None else str((energy / Decimal("0.21")).quantize(MICRO)),
        energy_depth="" if made.energy is None else "modelled" if "Zürich" in made.tenant else "counter",
        cost_energy=made.energy,
        cost_compute=made.compute,
        cost_pools=made.pools,
        cost_own=str(energy + Decimal(made.compute) + Decimal(made.pools)),
        marginal_floor=str(energy + Decimal("12.5")),
        billed=made.billed,
        effective_rate_per_gpu_hour=None if rate is None else str(rate),
        contract_price_per_gpu_hour=made.contract,
        measured_ratio="0.4120" if made.reason else "0.9931",
        unpriced_rows=0,
        unmeasured_rows=1204 if made.reason else 3,
        by_policy=by_policy,
        **chosen.model_dump(),
    )


TENANTS = (
    Made(SCRIPT_NAME, "loses cash", "24120.5", "9800.00", "11034.118273", "36180.75", "2412.05", "6210.404",
         "raise the contract from 0.41 to 2.90 per GPU-hour, or end it", contract="0.41"),
    Made(SHEET_NAME, "loses cash", "910.25", "120.004", "310.5", "1365.375", "91.025", "201.1",
         "bill the 880 GPU-hours that were used and not billed", contract="2.10"),
    Made(LONG_NAME, "covers cash, not capital", "15000", "21000", "6300.42", "22500", "1500", "3900.77",
         "reprice to 2.85 at renewal; the reservation alone is 14,200 hours of it", contract="1.40"),
    Made(QUOTED, "depends on the idle policy", "8000", "14500", "3360", "9200", "800", "1800.5",
         "agree who bears idle: under apart it earns, under even it does not", contract="1.80",
         verdicts={"apart": "depends on the idle policy"}),
    Made(UNICODE, "healthy", "31000.125", "98500.5", "13020.0525", "46500.1875", "3100.0125", "8200",
         "nothing to do", contract="3.20"),
    Made(REVERSED, "healthy", "64", "640", "27", "96", "6.4", "17", "nothing to do"),
    Made("Helio Robotics", "insufficient data", "5200", "8320", None, "7800", "520", "1300",
         "read energy counters on gpu-c: 58.8 % of held time is unknown", contract="1.60",
         reason="energy is known for 41.2 % of held time, below the bound of 90 %"),
    Made("Nordlicht (no use)", "healthy", "0", "450", "0", "0", "0", "0", "ask what the 450.00 is for", billable="0"),
    Made(INTERNAL, "loses cash", "4200", None, "1764", "6300", "420", "1100",
         "internal: not repriced; show it in the budget", plan="internal"),
)  # fmt: skip


def _skus() -> list[Row]:
    parts = [
        Made(SCRIPT_NAME, "loses cash", "20000", "7800", "9150.118273", "30000", "2000", "5150", "raise to 2.90",
             "on_demand", "h100-sxm", contract="0.41"),
        Made(SCRIPT_NAME, "healthy", "4120.5", "12000", "1884", "6180.75", "412.05", "1060.404", "nothing to do",
             "spot", 'a100 "MIG" <b>3g</b>'),
        Made(SHEET_NAME, "loses cash", "910.25", "120.004", "310.5", "1365.375", "91.025", "201.1", "bill 880 hours",
             "on_demand", '=HYPERLINK("http://x","sku")', contract="2.10"),
        Made(LONG_NAME, "covers cash, not capital", "15000", "21000", "6300.42", "22500", "1500", "3900.77",
             "reprice to 2.85", "reserved", "h100-sxm", contract="1.40"),
        Made(QUOTED, "depends on the idle policy", "8000", "14500", "3360", "9200", "800", "1800.5",
             "agree who bears idle", "on_demand", "h100-sxm", contract="1.80"),
        Made(UNICODE, "healthy", "31000.125", "98500.5", "13020.0525", "46500.1875", "3100.0125", "8200",
             "nothing to do", "reserved", "h200", contract="3.20"),
        Made("Helio Robotics", "insufficient data", "5200", "8320", None, "7800", "520", "1300", "read the counters",
             "on_demand", "l40s", "energy is known for 41.2 % of held time", "1.60"),
        Made(INTERNAL, "loses cash", "4200", None, "1764", "6300", "420", "1100", "not repriced", "internal",
             "h100-sxm"),
    ]  # fmt: skip
    return [row(made) for made in parts]


def _bridge() -> list[Step]:
    invoices = [f"invoices-2026-10.xlsx:{n} INV-{7000 + n}" for n in range(14, 26)]
    jobs = [f"{481200 + n}" for n in range(40)]
    return [
        Step(step="contract", label="Contract × measured use", kind="total", amount="201450.25", hours="84284.625",
             tenants=[(UNICODE, "99200.4"), (SCRIPT_NAME, "9889.405"), (LONG_NAME, "21000")], invoices=[],
             jobs=jobs[:5], more=84000, note=""),
        Step(step="unbilled", label="Used and not billed", kind="change", amount="-31240.118", hours="-14021.75",
             tenants=[(SHEET_NAME, "-1848"), (SCRIPT_NAME, "-29392.118")], invoices=[], jobs=jobs, more=312,
             note="runs without any invoice line in their service period"),
        Step(step="quantity", label="Wrong quantity", kind="change", amount="-4100.5", hours="-1822.4",
             tenants=[(LONG_NAME, "-4100.5")], invoices=invoices, jobs=[], more=0, note=""),
        Step(step="rate", label="Wrong rate", kind="change", amount="-9022.0044", hours=None,
             tenants=[(QUOTED, "-9022.0044")], invoices=invoices[:3], jobs=[], more=0, note="billed at the 2025 rate"),
        Step(step="credits", label="Credits and refunds", kind="change", amount="-6400", hours=None,
             tenants=[(UNICODE, "-6400")], invoices=invoices[:1], jobs=[], more=0, note=""),
        Step(step="no_use", label="Billed without use", kind="change", amount="2642.877", hours="1010",
             tenants=[("Nordlicht (no use)", "450"), ("Helio Robotics", "2192.877")], invoices=invoices[:2], jobs=[],
             more=0, note=""),
        Step(step="unmatched", label="Not told apart", kind="change", amount=None, hours=None, tenants=[], invoices=[],
             jobs=[], more=0, note="lines without a tenant: no amount is known"),
        Step(step="billed", label="Billed", kind="total", amount="153330.5046", hours="69450.475", tenants=[],
             invoices=invoices[:2], jobs=[], more=118, note=""),
        Step(step="cost_of_use", label="Cost of what tenants held", kind="change", amount="-187202.4", hours=None,
             tenants=[], invoices=[], jobs=[], more=0, note=""),
        Step(step="margin", label="Margin of the fleet", kind="total", amount="-33871.8954", hours=None, tenants=[],
             invoices=[], jobs=[], more=0, note=""),
    ]  # fmt: skip


def _waterfall(costs: bool) -> list[CapacityState]:
    lines: list[tuple[str, str, str, str, str | None, list[tuple[str, str, str | None]]]] = [
        ("installed", "Installed", "total", "133920", "261144.00", []),
        ("unavailable", "Unavailable", "part", "6210.5", "12110.475",
         [("maintenance", "4100", "7995"), ("failed: Xid 79 <b>", "2010.5", None), ("spare", "100", "195")]),
        ("reserved_unused", "Reserved and not used", "part", "8120", "15834", [(LONG_NAME, "8120", "15834")]),
        ("stranded", "Stranded", "part", "2200.25", "4290.4875", [("no CPU left", "2200.25", "4290.4875")]),
        ("free", "Free", "part", "28984.375", "56519.53", []),
        ("held", "Held", "total", "88404.875", "172389.51", []),
        ("provider", "Paid by the provider", "part", "4120.25", "8034.49", [("NODE_FAIL", "4120.25", "8034.49")]),
        ("unbilled", "Held and not billed", "part", "14834.15", None, []),
        ("billed", "Billed", "total", "69450.475", None, []),
    ]  # fmt: skip
    return [
        CapacityState(
            step=step, label=label, kind=kind, gpu_hours=hours, cost=cost if costs else None,
            reasons=[(name, spent, amount if costs else None) for name, spent, amount in reasons],
        )
        for step, label, kind, hours, cost, reasons in lines
    ]  # fmt: skip


def _idle(costs: bool) -> list[IdleNode]:
    waiting = [
        WaitingRun(job=f"4825{n:02}", tenant=(UNICODE, SCRIPT_NAME)[n % 2], gpus=8 - n, waited_hours=f"{6 - n}.25",
                   matched_gpu_hours=f"{48 - 8 * n}", capacity_cost=f"{93 - 9 * n}.6" if costs else None,
                   revenue_lost="153.6" if n == 1 else None)
        for n in range(4)
    ]  # fmt: skip
    return [
        IdleNode(node=f"gpu-{'ab'[n % 2]}{n:02}", site=("zrh1", "fra2")[n % 2], gpu_model=("H100-SXM", "L40S")[n % 2],
                 gpus=8 if n % 2 == 0 else 4, idle_gpu_hours=f"{5000 - 612 * n}.5", idle_ratio=f"0.{84 - 9 * n:02}",
                 cost=f"{9750 - 1193 * n}.975" if costs else None, energy_kwh=None if n == 3 else f"{410 - 40 * n}.125",
                 waiting=waiting[: 4 - n] if n < 2 else [], waiting_more=37 if n == 0 else 0)
        for n in range(8)
    ]  # fmt: skip


def _files() -> list[FileUsed]:
    return [
        FileUsed(name="sacct-2026-10.txt", role="usage", format="sacct -P",
                 why="the header names JobIDRaw, AllocTRES, ElapsedRaw",
                 records=184220, rejected=412, gpu_hours="88404.875", money={}, refused_money={}, sha256="9f" * 32),
        FileUsed(name="invoices-2026-10 (final) <b>.xlsx", role="billing", format="canonical billing",
                 why="columns invoice_id, tenant, amount, currency", records=1310, rejected=3, gpu_hours=None,
                 money={"USD": "148210.5046", "EUR": "4740.74"}, refused_money={"USD": "620"}, sha256="a1" * 32),
        FileUsed(name="costs.yaml", role="costs", format="cost file", why="the key compute", records=14, rejected=0,
                 gpu_hours=None, money={}, refused_money={}, sha256="0c" * 32),
    ]  # fmt: skip


def _tie_out() -> list[TieOut]:
    return [
        TieOut(name="Ledger against cost pools", left_label="Σ cost rows", left="261144.00", right_label="Σ cost pools",
               right="261144.00", residual="0.00", unit="USD", named=""),
        TieOut(name="Energy against the grid meter", left_label="measured + modelled", left="148210.4",
               right_label="meter, site zrh1", right="151300", residual="-3089.6", unit="kWh",
               named="2.04 %: network and storage that no agent reads"),
        TieOut(name="Invoices", left_label="invoice lines", left="153330.5046", right_label="bridge, last step",
               right="153330.5046", residual="0", unit="USD", named=""),
        TieOut(name="Power bill", left_label="energy cost", left="31122.09", right_label="amount on the bill",
               right=None, residual=None, unit="USD", named="no amount was given for site fra2"),
        TieOut(name="GPU-hours", left_label="sacct", left="88404.875", right_label="ledger", right="88404.8746",
               residual="0.0004", unit="GPU-h", named=""),
    ]  # fmt: skip


def _walks() -> list[Walk]:
    return [
        Walk(tenant=made.tenant, steps=[
            ("Mean power while held", "412.20 W", "energy ÷ held time", "counter"),
            ("Energy of the devices", "35,790,480,000 J", "Σ joules of its allocations", "counter"),
            ("Energy with overhead", "12,427.25 kWh", "× PUE 1.25, once", "counter"),
            ("Energy cost", f"{made.energy or 'unknown'} USD", "× the tariff of each quarter-hour", "counter"),
            ("Compute", f"{made.compute} USD", "GPU-hours × 1.50", "scheduler"),
            ("Full floor", f"{made.compute} USD", "energy + compute + pools + share of idle", "scheduler"),
            ("Billed", f"{made.billed or 'nothing'} USD", "Σ invoice lines by service period", "invoice"),
            ("Price", "2.90 USD per GPU-hour", "break-even ÷ (1 − 20 %), up to 0.05", ""),
        ])
        for made in TENANTS
    ]  # fmt: skip


def _tokens() -> list[TokenRow]:
    return [
        TokenRow(tenant=UNICODE, model="llama-3.1-70b", runs=412, tokens=18_200_450_000, energy_joules="9100225000.5",
                 joules_per_token="0.500000", cost_per_million_tokens="0.18", depth="counter"),
        TokenRow(tenant=QUOTED, model="mixtral <8x7b>", runs=31, tokens=900_100_000, energy_joules="1350150000",
                 joules_per_token="1.500000", cost_per_million_tokens="0.61", depth="counter"),
        TokenRow(tenant="Helio Robotics", model="", runs=5, tokens=1_000, energy_joules=None, joules_per_token=None,
                 cost_per_million_tokens=None, depth=""),
        TokenRow(tenant=SCRIPT_NAME, model="tiny", runs=5, tokens=90_000_000_000, energy_joules="270000000",
                 joules_per_token="0.003", cost_per_million_tokens="0.001", depth="counter"),
    ]  # fmt: skip


def full_report() -> Report:
    """A month with costs, energy, invoices and tokens; chosen idle policy: weighted."""
    skus = _skus()
    sold = [line for line in skus if line.below_cost and line.plan != "internal"]
    return Report(
        product="WattLedger", version="0.1.0", title="Audit of October 2026: Alpenrechner GPU cloud", stage="full",
        period_start="2026-10-01T00:00:00+02:00", period_end="2026-11-01T00:00:00+01:00", timezone="Europe/Zurich",
        hours="745", currency="USD", idle_policy="weighted", normal_utilisation="0.8", target_margin="0.2",
        price_step="0.05", depth=["invoice", "scheduler", "counter"],
        headline="Three tenants are billed 61,021.24 USD below cost; 31,240.12 USD was used and never billed.",
        verdict_lines=[
            f"{SCRIPT_NAME} loses cash on every GPU-hour: billed 0.41, energy alone is 0.46.",
            "Capacity billed ÷ installed is 51.9 %; 21.6 % of installed time was free, at 56,519.53 USD.",
            "Energy is measured for 93.1 % of held time; the grid meter agrees to 2.04 %.",
        ],
        next_answer="Energy of gpu-c (5,200 GPU-hours of Helio Robotics): with its counters, one verdict more.",
        below_cost_tenants=3, below_cost_by="61021.2402", unbilled="31240.118", billed_over_installed="0.5186",
        files=_files(), bridge=_bridge(), tenants=[row(made) for made in TENANTS], skus=skus,
        repricing=sorted(sold, key=lambda line: Decimal(line.margin or 0)), walk=_walks(),
        fleet={state.step: state.gpu_hours for state in _waterfall(True)}, waterfall=_waterfall(True), idle=_idle(True),
        waiting_note="Memory of 214 runs is not known: they were matched on GPUs and CPUs alone.", tokens=_tokens(),
        tie_out=_tie_out(),
        coverage=Coverage(
            measured_ratio="0.9310", modelled_ratio="0.0101", unknown_energy_ratio="0.0589", known_gpus_ratio="0.9987",
            priced_ratio="1", billed_matched_ratio="0.9821", unpriced_rows=0, unmeasured_rows=1231, rejected_rows=415,
            runs_without_gpu_count=17, cpu_only_runs=90210,
        ),
        rejected=[
            ("sacct-2026-10.txt", "time_unknown", 12, ""), ("sacct-2026-10.txt", "never_started", 400, ""),
            ("invoices-2026-10 (final) <b>.xlsx", "amount_unreadable", 3, "1620.50 USD"),
        ],
        discrepancies=[
            Found(kind="overlapping_holds", count=4, nodes="gpu-a01, gpu-a02",
                  example="jobs 481210 and 481233 hold gpu-a01:3", rule="the earlier start keeps the device"),
            Found(kind="elapsed_disagrees", count=1190, nodes="",
                  example="job 481377: 3600 s by stamps, 3597 s by Elapsed", rule="stamps count"),
        ],
        method=list(METHOD), assumptions=list(ASSUMPTIONS),
    )  # fmt: skip


def leakage_report() -> Report:
    """The same month from a usage log and a billing export alone."""
    full = full_report()

    def bare(line: Row) -> Row:
        unknown = (
            "margin", "margin_ratio", "idle_share", "cost_total", "break_even_per_gpu_hour",
            "suggested_price_per_gpu_hour",
        )  # fmt: skip
        words = dict.fromkeys(("reason", "break_even_reason", "suggested_price_reason"), "no costs: give --costs FILE")
        update = {**dict.fromkeys(unknown), **words, "verdict": "insufficient data", "below_cost": False}
        figures = {name: part.model_copy(update=update) for name, part in line.by_policy.items()}
        own = dict.fromkeys(("cost_energy", "cost_compute", "cost_pools", "cost_own", "marginal_floor", "energy_kwh"))
        return line.model_copy(update={**update, **own, "energy_depth": "unknown", "by_policy": figures})

    return full.model_copy(
        update={
            "stage": "leakage",
            "depth": ["invoice", "scheduler"],
            "headline": "31,240.12 USD was used and never billed; 2,642.88 USD was billed without use.",
            "verdict_lines": ["No cost was given: nothing is said of margins."],
            "next_answer": "Name the tenant of account 4471: 12,410.00 USD of invoice lines have none.",
            "below_cost_tenants": 0, "below_cost_by": "0",
            "tenants": [bare(line) for line in full.tenants], "skus": [bare(line) for line in full.skus],
            "repricing": [], "walk": [], "tokens": [], "waterfall": _waterfall(False), "idle": _idle(False),
            "bridge": full.bridge[:-2], "tie_out": full.tie_out[2:3], "files": full.files[:2],
        }
    )  # fmt: skip


def usage_only_report() -> Report:
    """Usage and costs, nothing billed, and a fleet that nobody named."""
    full = full_report()

    def unbilled(line: Row) -> Row:
        none = {"margin": None, "margin_ratio": None, "verdict": "insufficient data", "below_cost": False}
        none["reason"] = "no billing: give a billing export"
        own = {"billed": None, "billed_gpu_hours": None, "effective_rate_per_gpu_hour": None}
        figures = {name: part.model_copy(update=none) for name, part in line.by_policy.items()}
        return line.model_copy(update={**none, **own, "by_policy": figures})

    return full.model_copy(
        update={
            "tenants": [unbilled(line) for line in full.tenants], "skus": [unbilled(line) for line in full.skus],
            "repricing": [], "bridge": [], "waterfall": [], "idle": [], "unbilled": None, "billed_over_installed": None,
            "below_cost_tenants": 0, "below_cost_by": "0", "discrepancies": [], "rejected": [], "tie_out": [],
            "depth": ["scheduler", "counter"],
        }
    )  # fmt: skip

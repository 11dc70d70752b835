"""The cost file that `wattledger init costs` writes: what the files gave, the rest as comments to fill in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import yaml

from wattledger_audit.assessment import cost_draft_text as words
from wattledger_audit.assessment.host_fold import can_list, fold_hosts
from wattledger_audit.assessment.tenant_likeness import likely_tenants

_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """What the files say that a cost file needs.

    `usage_nodes`: each node's GPU model (empty: unknown) and the most GPUs seen on it. `tenants`: names by source,
    `usage` and `billing`. `unmapped`: billed tenants that no usage goes with, with what they were billed and its
    currency. `period` is the audited one, as given (2026-10).
    """

    usage_nodes: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    tenants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unmapped: Sequence[tuple[str, Decimal, str]] = ()
    currency: str = ""
    timezone: str = "UTC"
    period: str = ""


def draft_costs(facts: DraftFacts) -> str:
    """A commented YAML that loads as it is: fleet and tenants as seen, rates as comments. Same facts, same text."""
    months = _months(facts.period)
    currency = facts.currency if _CURRENCY.fullmatch(facts.currency) else ""
    models = sorted({model for model, gpus in facts.usage_nodes.values() if model and gpus}) or ["H100"]
    parts = [
        words.HEAD.format(period=_comment(facts.period) or "any", **months),
        f"currency: {currency or 'USD'}{'' if currency else words.CURRENCY_UNKNOWN}\n"
        f"timezone: {_quoted(facts.timezone)}\n",
        _fleet(facts.usage_nodes),
        words.COMPUTE.format(model=_quoted(models[0]), **months),
        words.ENERGY.format(timezone=_quoted(facts.timezone)),
        words.POWER.format(
            models="".join(f"#  - {{gpu_model: {_quoted(m)}, busy_w: 600, idle_w: 80}}\n" for m in models)
        ),
        words.POOLS.format(**months),
        words.METER.format(**months),
        words.POLICIES,
        _fx(facts, currency or "USD", months),
        _tenants(facts, months),
        words.SKUS.format(model=_quoted(models[0])),
    ]
    return "\n".join(parts)


def _fleet(nodes: Mapping[str, tuple[str, int]]) -> str:
    groups: dict[tuple[str, int], list[str]] = {}
    unlisted: list[str] = []
    for node, facts in nodes.items():
        if not can_list(node):
            unlisted.append(node)
        elif facts[1] > 0:
            groups.setdefault(facts, []).append(node)
    lines = [
        f"  - {{node: {_quoted(fold_hosts(names))}, gpu_model: {_quoted(model)}, gpus: {gpus}}}"
        f"  # {'' if model else 'model not in the usage: fill it in; '}{len(names)} node{'s' if len(names) > 1 else ''}"
        for (model, gpus), names in sorted(groups.items())
    ]
    lines += [f"#  not a host name: {_quoted(node)}" for node in sorted(unlisted)]
    return words.FLEET.format(lines="".join(f"{line}\n" for line in lines), key="fleet:" if groups else "#fleet:")


def _tenants(facts: DraftFacts, months: Mapping[str, str]) -> str:
    used = sorted(set(facts.tenants.get("usage", ())))
    money = _billed(facts.unmapped)
    names = {*facts.tenants.get("billing", ()), *money} - set(used)
    likely = likely_tenants(names, used)
    lines = []
    for tenant in used:
        lines.append(f"  - name: {_quoted(tenant)}")
        for name in sorted(name for name, like in likely.items() if like == tenant):
            billed = f", billed {', '.join(_amounts(money[name]))}" if name in money else ""
            lines.append(f"    aliases: {{billing: [{_quoted(name)}]}}  # drafted: check{billed}")
    text = words.TENANTS.format(
        key="tenants:" if used else "#tenants:", lines="".join(f"{line}\n" for line in lines), **months
    )
    left = [(name, amounts) for name, amounts in money.items() if name not in likely and name not in used]
    left.sort(key=lambda item: (-max(item[1].values()), item[0]))
    if not left:
        return text
    rows = "".join(f"#   {', '.join(_amounts(amounts)):>20}  {_quoted(name)}\n" for name, amounts in left)
    return text + words.UNMAPPED.format(rows=rows, total=", ".join(_amounts(_total(amounts for _, amounts in left))))


def _billed(unmapped: Sequence[tuple[str, Decimal, str]]) -> dict[str, dict[str, Decimal]]:
    money: dict[str, dict[str, Decimal]] = {}
    for name, amount, currency in unmapped:
        amounts = money.setdefault(name, {})
        amounts[currency] = amounts.get(currency, Decimal(0)) + amount
    return money


def _total(all_amounts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for amounts in all_amounts:
        for currency, amount in amounts.items():
            total[currency] = total.get(currency, Decimal(0)) + amount
    return total


def _amounts(amounts: Mapping[str, Decimal]) -> list[str]:
    return [f"{amount:.2f} {_comment(currency)}".rstrip() for currency, amount in sorted(amounts.items())]


def _fx(facts: DraftFacts, currency: str, months: Mapping[str, str]) -> str:
    others = sorted({other for _, _, other in facts.unmapped if _CURRENCY.fullmatch(other)} - {currency})
    rows = "".join(
        f"#  - {{currency: {other}, from: {months['month']}, to: {months['next_month']}, rate: 1.00, source: ECB}}\n"
        for other in others or ["EUR" if currency != "EUR" else "USD"]
    )
    return words.FX.format(currency=currency, rows=rows)


def _months(period: str) -> dict[str, str]:
    """First days of the period's month, of the next one and of the same a year before: for examples."""
    found = _MONTH.search(period)
    year, month = (int(found[1]), int(found[2])) if found else (2026, 1)
    next_year, next_month = (year + 1, 1) if month == 12 else (year, month + 1)
    return {
        "month": f"{year:04}-{month:02}-01",
        "next_month": f"{next_year:04}-{next_month:02}-01",
        "year_before": f"{max(year - 1, 1):04}-{month:02}-01",
    }


def _quoted(text: str) -> str:
    """The text as one line of YAML, whatever is in it."""
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=1 << 30)).strip()


def _comment(text: str) -> str:
    """The text as it may stand in a comment: one line of what can be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))

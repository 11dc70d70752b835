"""What a price per node-hour comes to, and by how much each line bears it: GPUs, CPUs and memory by their weights."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from wattledger_core.span_lines import NodeSize, SpanKey, SpanLedger
from wattledger_core.spread import amount_for
from wattledger_core.sweep import PARTS_PER_US
from wattledger_core.units import US_PER_HOUR

from wattledger_audit.assessment.cost_book import NodePrice
from wattledger_audit.assessment.cost_purchase import money
from wattledger_audit.assessment.node_sharing import Unsaid

GB = 1 << 30
"""Bytes of a GB, as schedulers count memory."""
_SCALE = 10**12
"""Weights have at most 12 decimals."""
_MICRO = 10**6


class NodeShares(NamedTuple):
    """`amount`: price × time in service of its nodes, rounded once. `weights` of keys sum to that time, in some
    unit."""

    amount: Decimal
    weights: dict[SpanKey, int]


def node_shares(price: NodePrice, ledger: SpanLedger) -> NodeShares:
    """Each key bears of each node (weights × what it took) ÷ (weights × what such a node has)."""
    parts, counted = 0, []
    for size, found in sorted(ledger.sized.items()):
        service = sum(time for place, time in found.node_parts.items() if _is_for(price, ledger, *place))
        if service:
            parts += service
            counted.append((found, _weighed(price, *size)))
    common = lcm(*(whole for _, whole in counted))
    weights: dict[SpanKey, int] = {}
    for found, whole in counted:
        for key in found.takers():
            if _is_for(price, ledger, key.window, key.site, key.gpu_model):
                taken = (found.gpus.parts.get(key, 0), found.cpu.get(key, 0), found.memory.get(key, 0))
                weights[key] = weights.get(key, 0) + _weighed(price, *taken) * (common // whole)
    return NodeShares(amount_for(price.per_node_hour, parts, PARTS_PER_US * US_PER_HOUR), weights)


def _is_for(price: NodePrice, ledger: SpanLedger, window: int, site: str, gpu_model: str) -> bool:
    here = price.site in ("", site) and price.gpu_model in ("", gpu_model)
    return here and price.start_us <= ledger.edges[window] < price.end_us


def _weighed(price: NodePrice, gpus: int, cpus: int, memory_bytes: int) -> int:
    """GPUs, CPUs and memory by their weights, in a unit that makes it whole."""
    per_gpu, per_cpu, per_gb = (
        int(weight * _SCALE) for weight in (price.gpu_weight, price.cpu_weight, price.memory_gb_weight)
    )
    return (per_gpu * gpus + per_cpu * cpus) * GB + per_gb * memory_bytes


def node_words(prices: Sequence[NodePrice], ledger: SpanLedger, unsaid: Unsaid) -> list[str]:
    """What a price per node-hour comes to for one of each, and what was taken for granted, in sentences."""
    said = []
    for price in prices:
        for size, found in sorted(ledger.sized.items()):
            if any(_is_for(price, ledger, *place) for place in found.node_parts):
                said.append(_rates(price, size))
    for what, runs, weight in (
        ("CPUs", unsaid.cpus, any(price.cpu_weight for price in prices)),
        ("memory", unsaid.memory, any(price.memory_gb_weight for price in prices)),
    ):
        if runs and weight:
            said.append(
                f"{len(runs)} runs on nodes with a price per node do not say their {what}: each is taken to have the "
                f"part of its nodes' {what} that goes with its GPUs, a run without GPUs none."
            )
    return list(dict.fromkeys(said))


def _rates(price: NodePrice, size: NodeSize) -> str:
    whole = Fraction(_weighed(price, *size), _SCALE * GB)
    memory_gb = Fraction(size.memory_bytes, GB)
    said = []
    for name, count, weight in (
        ("GPU", Fraction(size.gpus), price.gpu_weight),
        ("CPU", Fraction(size.cpus), price.cpu_weight),
        ("GB", memory_gb, price.memory_gb_weight),
    ):
        if count and weight:
            micros = round(Fraction(price.per_node_hour) * Fraction(weight) / whole * _MICRO)
            said.append((f"{_short(count)} {name} × {weight:f}", f"{Decimal(micros) / _MICRO:.6f} per {name}-hour"))
    return (
        f"{price.said_at}: {price.per_node_hour:f} {price.currency} per node-hour is split by weights: "
        f"{' + '.join(product for product, _ in said)} = {_short(whole)}, so {', '.join(rate for _, rate in said)} "
        "(a GB is 2^30 bytes). CPUs and memory that nobody took go with the GPUs that nobody held."
    )


def _short(amount: Fraction) -> str:
    return format(money(amount).normalize(), "f")

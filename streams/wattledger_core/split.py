"""Splitting one thing (energy, time) among holders so that the parts always sum to the thing itself."""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

from wattledger_core.hold import Hold


def split_exactly(whole: int, weights: Sequence[int], total: int | None = None) -> list[int]:
    """Parts of `whole` in proportion to integer weights, as differences of one rounded cumulative in the order given.

    With `total` above the sum of weights the parts sum to less than `whole`; the caller gives the rest to somebody.
    Weights that sum to 0 (and no total) are taken as equal.
    """
    if not weights:
        return []
    base = sum(weights) if total is None else total
    if base == 0:
        weights, base = [1] * len(weights), len(weights)
    parts, given, upto = [], 0, 0
    for weight in weights:
        upto += weight
        part = whole * upto // base - given
        parts.append(part)
        given += part
    return parts


def share_weights(holders: Sequence[Hold]) -> tuple[list[int], int, bool]:
    """`claim_weights` of holds."""
    return claim_weights(
        [(hold.revision.share_num, hold.revision.share_den, hold.revision.gpu_instance) for hold in holders]
    )


def claim_weights(claims: Sequence[tuple[int, int, str]]) -> tuple[list[int], int, bool]:
    """Integer weights of the holders' shares of the whole device, their denominator, and whether they contradict.

    A claim is (share_num, share_den, MIG instance or ""). Shares over 1, and several holders of one MIG instance, are
    contradictions: an instance's holders share it equally, and shares over 1 are scaled to 1 (two exclusive holders
    have half each).
    """
    by_instance: dict[str, int] = {}
    for _, _, instance in claims:
        if instance:
            by_instance[instance] = by_instance.get(instance, 0) + 1
    contradicts = any(count > 1 for count in by_instance.values())
    shares = [Fraction(num, den) * Fraction(1, by_instance.get(instance, 1)) for num, den, instance in claims]
    denominator = lcm(*(share.denominator for share in shares))
    weights = [share.numerator * (denominator // share.denominator) for share in shares]
    total = sum(weights)
    if total > denominator:
        return weights, total, True
    return weights, denominator, contradicts

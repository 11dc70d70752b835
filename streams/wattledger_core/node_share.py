"""The resources of a node (CPUs, memory) through time: what every claim took of them, and whose the rest is.

Owns the rule for what nobody took: it goes with the devices that nobody held at that moment, by how much of them is
unheld; where none is, with the state of the node itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from wattledger_core.split import split_exactly


class Claimed(NamedTuple):
    """What `owner` (the caller's number) had over an interval: an amount of each resource. `said`: whether the log
    says how much; else it is a guess, and gives way."""

    start_us: int
    end_us: int
    owner: int
    amounts: tuple[int, ...]
    said: tuple[bool, ...]


class Unclaimed(NamedTuple):
    """Whose an unheld device was over an interval, and how much of it (`weight`); or, `node`, the node itself, of
    which there is one at any moment in service, and none out of service."""

    start_us: int
    end_us: int
    owner: int
    weight: int
    node: bool


_ENDS, _EDGE, _STARTS = range(3)
_CLAIM, _UNCLAIMED = range(2)
_Event = tuple[int, int, int, int]
"""Time, ends or starts, of what, number."""


class _Resource:
    """One resource. `plain`: nobody's claim is cut, so claims are counted when they end, not at every change."""

    def __init__(self, place: int, installed: int, claims: Sequence[Claimed]) -> None:
        self.sums: dict[tuple[int, int], int] = {}
        self.exceeded_by: int | None = None
        self.plain = False
        self._place, self._installed, self._claims = place, installed, claims
        self._since: dict[int, int] = {}
        """Claims that stand, each with the moment up to which it was counted."""
        self._said = self._guessed = 0
        self._now: dict[int, int] = {}

    def start(self, number: int, at_us: int) -> None:
        self._since[number] = at_us
        self._change(number, 1)
        if self._said > self._installed and self.exceeded_by is None:
            self.exceeded_by = number

    def end(self, number: int, at_us: int) -> None:
        since_us = self._since.pop(number)
        self._change(number, -1)
        if self.plain:
            self._count(number, at_us - since_us)

    def _change(self, number: int, sign: int) -> None:
        claim = self._claims[number]
        if claim.said[self._place]:
            self._said += sign * claim.amounts[self._place]
        else:
            self._guessed += sign * claim.amounts[self._place]

    def settle(self, at_us: int, serving: bool) -> None:
        """After all that changes at a moment: from here on, are claims whole?"""
        plain = serving and self._said + self._guessed <= self._installed
        if plain != self.plain:
            if self.plain:
                self._count_all(at_us)
            self._since = dict.fromkeys(self._since, at_us)
            self.plain = plain

    def pass_over(self, length_us: int, rest: Mapping[int, int]) -> None:
        """Count a stretch in service: what is left to `rest` (owner → weight); every claim too where some are cut."""
        if self.plain:
            free = (self._installed - self._said - self._guessed) * length_us
            if free:
                parts = split_exactly(free, list(rest.values())) if len(rest) > 1 else [free]
                for owner, part in zip(rest, parts, strict=True):
                    self._now[owner] = self._now.get(owner, 0) + part
            return
        left = self._installed
        for said, wanted in ((True, self._said), (False, self._guessed)):
            numbers = [number for number in self._since if self._claims[number].said[self._place] == said]
            given = min(wanted, left)
            parts = split_exactly(given * length_us, [self._claims[number].amounts[self._place] for number in numbers])
            for number, part in zip(numbers, parts, strict=True):
                owner = self._claims[number].owner
                self._now[owner] = self._now.get(owner, 0) + part
            left -= given

    def close(self, window: int, at_us: int) -> None:
        """A window ends: its sums are kept. What lies outside all windows (`window` below 0) is not."""
        if self.plain:
            self._count_all(at_us)
        if window >= 0:
            self.sums.update(((window, owner), amount) for owner, amount in self._now.items() if amount)
        self._now = {}

    def _count_all(self, at_us: int) -> None:
        for number, since_us in self._since.items():
            self._count(number, at_us - since_us)
        self._since = dict.fromkeys(self._since, at_us)

    def _count(self, number: int, length_us: int) -> None:
        claim = self._claims[number]
        self._now[claim.owner] = self._now.get(claim.owner, 0) + claim.amounts[self._place] * length_us


def share_resources(
    installed: Sequence[int], claims: Sequence[Claimed], unclaimed: Sequence[Unclaimed], edges: Sequence[int]
) -> list[tuple[dict[tuple[int, int], int], int | None]]:
    """For each resource: amount × µs by window and owner, which over a window sum to what is installed × its time in
    service; and the first claim that was for more than there is, if any.

    What is claimed beyond what is installed is scaled to it: guesses first, then what was said.
    """
    resources = [_Resource(place, amount, claims) for place, amount in enumerate(installed)]
    node, loose, window, passed_us = -1, dict[int, int](), -1, 0
    for at_us, events in groupby(_events(claims, unclaimed, edges), itemgetter(0)):
        if node >= 0:
            for resource in resources:
                resource.pass_over(at_us - passed_us, loose or {unclaimed[node].owner: 1})
        passed_us = at_us
        for _, phase, kind, number in events:
            if phase == _EDGE:
                for resource in resources:
                    resource.close(window, at_us)
                window += 1
            elif kind == _CLAIM:
                for resource in resources:
                    (resource.start if phase == _STARTS else resource.end)(number, at_us)
            elif unclaimed[number].node:
                node = number if phase == _STARTS else -1
            else:
                _weigh(loose, unclaimed[number], phase == _STARTS)
        for resource in resources:
            resource.settle(at_us, node >= 0)
    return [(resource.sums, resource.exceeded_by) for resource in resources]


def _weigh(loose: dict[int, int], device: Unclaimed, starts: bool) -> None:
    weight = loose.get(device.owner, 0) + (device.weight if starts else -device.weight)
    if weight:
        loose[device.owner] = weight
    else:
        loose.pop(device.owner, None)


def _events(claims: Sequence[Claimed], unclaimed: Sequence[Unclaimed], edges: Sequence[int]) -> list[_Event]:
    events: list[_Event] = [(at_us, _EDGE, 0, 0) for at_us in edges]
    for number, claim in enumerate(claims):
        if claim.start_us < claim.end_us:
            events += [(claim.start_us, _STARTS, _CLAIM, number), (claim.end_us, _ENDS, _CLAIM, number)]
    for number, device in enumerate(unclaimed):
        if device.start_us < device.end_us:
            events += [(device.start_us, _STARTS, _UNCLAIMED, number), (device.end_us, _ENDS, _UNCLAIMED, number)]
    events.sort()
    return events


def clipped(spans: Sequence[tuple[int, int]], edges: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(window, length in µs) of every part of the spans inside a window."""
    for start_us, end_us in spans:
        for window, (from_us, to_us) in enumerate(pairwise(edges)):
            length_us = min(end_us, to_us) - max(start_us, from_us)
            if length_us > 0:
                yield window, length_us

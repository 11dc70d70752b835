"""Samples of one file gathered by physical device, whatever the series they come in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import DeviceTrace
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.telemetry_card import Card, Samples, card_trace
from wattledger_audit.intake.telemetry_labels import Seen, seen_in
from wattledger_audit.intake.telemetry_metric import (
    CHANNELS,
    INDEX,
    METRICS,
    MIG_MODE,
    Metric,
    is_number,
    metric_of,
    reading,
)  # fmt: skip

_MOST_NAMES = 8


@dataclass(slots=True)
class Series:
    """Where one series' samples go; `samples` is None for one that only describes its device."""

    metric: Metric
    card: Card
    samples: Samples | None

    def add(self, at_us: int, text: str, line: int) -> bool:
        """One sample; False when its value is written as no number at all, and is not used."""
        if self.samples is not None:
            value = reading(self.metric.unit, text, self.metric.zero_is_blank)
            if value is None and not is_number(text):
                return False
            self.samples.add(at_us, value, line)
        else:
            self._describe(text)
        return True

    def _describe(self, text: str) -> None:
        if not text.replace(".", "", 1).isdecimal():
            return
        number = int(text.split(".", 1)[0])
        if self.metric.channel == MIG_MODE and number == 1:
            self.card.mig = True
        elif self.metric.channel == INDEX:
            self.card.index = number


class Gathered:
    """All that one file says. Ask `series` for each series, add its samples, then take `traces`."""

    def __init__(self, file: str, options: ReadOptions, rejections: Rejections) -> None:
        self._file = file
        self._node: str = getattr(options, "node", None) or ""
        self._rejections = rejections
        self._cards: dict[tuple[str, ...], Card] = {}
        self._unused: dict[str, int] = {}

    def series(self, name: str, labels: Mapping[str, str], line: int) -> Series | None:
        """Where a series goes; None when its metric says nothing that is used (counted once per name)."""
        metric = metric_of(name)
        if metric is None:
            self.skip(name, line)
            return None
        seen = seen_in(labels, name, metric)
        card = self._card(seen, line)
        if metric.channel not in CHANNELS:
            return Series(metric, card, None)
        place_of = (metric.exporter, metric.channel, metric.rank, seen.part)
        if place_of not in card.samples:
            card.samples[place_of] = Samples(name)
        return Series(metric, card, card.samples[place_of])

    def skip(self, name: str, line: int) -> None:
        """A metric that is not used."""
        if name in self._unused:
            return
        self._unused[name] = line
        words = "it says nothing about power, energy or use of a device"
        if not name:
            words = "the series has no metric name: query a metric itself, without functions around it"
        self._rejections.add(self._file, line, name or "__name__", "", f"metric_not_used: {words}")

    def _card(self, seen: Seen, line: int) -> Card:
        card = self._cards.get(seen.key)
        if card is None:
            card = self._cards[seen.key] = Card()
        card.device = card.device or seen.device
        card.gpu_model = card.gpu_model or seen.gpu_model
        card.driver = card.driver or seen.driver
        card.index = seen.gpu_index if card.index < 0 else card.index
        if seen.of:
            card.mig = True
            card.shares[seen.part] = (seen.slices, seen.of)
        if seen.node:
            known = card.nodes.setdefault(seen.node_rank, seen.node)
            if known != seen.node and seen.node not in card.other_nodes:
                card.other_nodes.add(seen.node)
                words = f"node_changed: {card.device} stood in {known} before, and all of it is counted there"
                self._rejections.add(self._file, line, "node", seen.node, words)
        return card

    def traces(self) -> Iterator[DeviceTrace]:
        """One trace a device, in order of first mention. Raises InputRefused when there is none at all."""
        cards = [card for card in self._cards.values() if any(len(s.ticks_us) for s in card.samples.values())]
        if not cards:
            found = ", ".join(list(self._unused)[:_MOST_NAMES]) or "none"
            raise InputRefused(
                f"{self._file}: no metric of power, energy or use of a GPU; found: {found}. Understood are "
                f"{', '.join(list(METRICS)[:3])} and those of nvidia_gpu_exporter and AMD's exporters"
            )
        for card in cards:
            node = card.nodes[min(card.nodes)] if card.nodes else self._node
            yield card_trace(card, node, self._file, self._rejections)

"""The four machines: models, cards, how they are shared, and what each draws. Owns names and sizes."""

from dataclasses import dataclass

GIB = 1 << 30
MIG_SLICES = {"3g": 3, "2g": 2, "1g-a": 1, "1g-b": 1}
"""GPU instances of a card in MIG, and their slices of 7."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU. Power in mW, idle and at full use; `floor_mw` is None while nobody has measured it."""

    device: str
    index: int
    gpu_model: str
    sharing: str
    sku: str
    idle_mw: int
    peak_mw: int
    floor_mw: int | None
    has_counter: bool = True
    reports_activity: bool = True

    @property
    def slices(self) -> int:
        return 7


@dataclass(frozen=True, slots=True)
class Machine:
    """One node. `cpus_per_gpu` and `memory_per_gpu` are what a job takes with one whole card."""

    node: str
    gpu_model: str
    cards: tuple[Card, ...]
    cpus: int
    memory_bytes: int
    driver: str
    has_agent: bool = True
    cpus_per_gpu: int = 14
    memory_per_gpu: int = 112 * GIB


def _card(node: str, index: int, model: str, watts: tuple[int, int], sku: str, sharing: str = "exclusive") -> Card:
    idle_mw, peak_mw = watts[0] * 1000, watts[1] * 1000
    return Card(f"GPU-{node}-{index}", index, model, sharing, sku, idle_mw, peak_mw, idle_mw)


def _without(card: Card, floor: bool = False, counter: bool = False, activity: bool = False) -> Card:
    return Card(
        card.device, card.index, card.gpu_model, card.sharing, card.sku, card.idle_mw, card.peak_mw,
        None if floor else card.floor_mw, not counter, not activity,
    )  # fmt: skip


def _h100() -> Machine:
    cards = [_card("h100-01", i, "H100", (72, 690), "h100") for i in range(8)]
    cards[7] = _without(cards[7], floor=True)
    return Machine("h100-01", "H100", tuple(cards), 192, 2048 * GIB, "570.86.15")


def _a100() -> Machine:
    cards = [_card("a100-01", i, "A100", (62, 395), "a100") for i in range(6)]
    cards += [_card("a100-01", i, "A100", (66, 390), "a100-mig", "mig") for i in (6, 7)]
    cards[7] = _without(cards[7], activity=True)
    return Machine("a100-01", "A100", tuple(cards), 128, 1024 * GIB, "570.86.15")


def _l40s() -> Machine:
    cards = [_card("l40s-01", i, "L40S", (70, 335), "l40s-slice", "time_sliced") for i in range(4)]
    cards[2] = _without(cards[2], floor=True)
    cards[3] = _without(cards[3], counter=True)
    return Machine("l40s-01", "L40S", tuple(cards), 96, 768 * GIB, "570.86.15")


def _mi300x() -> Machine:
    cards = [_card("mi300x-01", i, "MI300X", (140, 740), "mi300x") for i in range(8)]
    cards = [_without(card, floor=True) for card in cards]
    return Machine("mi300x-01", "MI300X", tuple(cards), 192, 2048 * GIB, "6.12.12", has_agent=False)


MACHINES = (_h100(), _a100(), _l40s(), _mi300x())
BY_NODE = {machine.node: machine for machine in MACHINES}
REPLICAS = 4
"""Into how many a time-sliced card is advertised."""

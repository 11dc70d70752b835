"""Traces of `nvidia-smi --query-gpu=… --format=csv`. The cells are read by nvidia_smi_csv.py, as `integrate` does."""

from collections.abc import Iterator

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.record import TELEMETRY, DeviceTrace
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import TEXT, Source, text_lines
from wattledger_audit.intake.telemetry_card import WHOLE, Card, Samples, card_trace
from wattledger_audit.intake.telemetry_labels import is_worldwide
from wattledger_audit.intake.telemetry_metric import BUSY, COUNTER, NVIDIA_SMI, POWER, believed
from wattledger_audit.nvidia_smi_csv import BUSY_COLUMN, SmiReader, SmiRow, column_name

NAME = "nvidia-smi-csv"
_DELIMITERS = (",", ";", "\t", "|")
_ASKED = ("power.draw", "total_energy_consumption", "utilization.gpu", "pstate", "uuid", "gpu_uuid", "index")


def detect(source: Source) -> Detection | None:
    """Looks for nvidia-smi's column names in the first row."""
    if source.kind != TEXT:
        return None
    first = next((line for line in source.head.splitlines() if line.strip()), "")
    names = [column_name(cell) for cell in first.split(_delimiter(first))]
    if "timestamp" not in names:
        return None
    power = [name for name in names if name.startswith(("power.draw", "total_energy_consumption"))]
    if power:
        return Detection(98, f"an nvidia-smi trace: columns timestamp and {power[0]}")
    if any(name in _ASKED for name in names) and any("." in name for name in names):
        return Detection(40, "looks like an nvidia-smi trace, without a power column")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[DeviceTrace]:
    """One trace a device; rows may come in any order of time. The node is what a column says, else empty.

    Raises InputRefused for a file without times or power, and for times without a zone and no `--timezone`."""

    def put_aside(line: int, column: str, value: str, code: str, words: str) -> None:
        rejections.add(source.name, line, column, value, f"{code}: {words}")

    reader = SmiReader(source.name, None, options.timezone, "--timezone, e.g. Europe/Berlin or UTC", put_aside)
    delimiter = options.delimiter or _delimiter(source.head.lstrip().split("\n", 1)[0])
    cards: dict[tuple[str, str], Card] = {}
    for row in reader.rows(text_lines(source), delimiter):
        _add(cards, row)
    if not cards:
        raise InputRefused(f"{source.name}: a header and no rows that can be used")
    node = getattr(options, "node", None) or ""
    for card in cards.values():
        yield card_trace(card, card.nodes.get(0, node), source.name, rejections)


def _delimiter(header: str) -> str:
    return max(_DELIMITERS, key=header.count)


def _add(cards: dict[tuple[str, str], Card], row: SmiRow) -> None:
    key = ("", row.device) if is_worldwide(row.device) else (row.node, row.device)
    card = cards.get(key)
    if card is None:
        card = cards[key] = Card(device=row.device, index=row.gpu_index)
    card.gpu_model = card.gpu_model or row.gpu_model
    card.driver = card.driver or row.driver
    card.mig = card.mig or row.mig
    if row.node:
        card.nodes.setdefault(0, row.node)
    _sample(card, POWER, row.power_column, row, row.power_mw)
    _sample(card, COUNTER, "total_energy_consumption", row, row.counter_uj)
    _sample(card, BUSY, BUSY_COLUMN, row, None if row.mig else row.busy_ppm)


def _sample(card: Card, channel: str, column: str, row: SmiRow, value: int | None) -> None:
    place_of = (NVIDIA_SMI, channel, 0, WHOLE)
    samples = card.samples.get(place_of)
    if samples is None:
        samples = card.samples[place_of] = Samples(column)
    samples.add(row.at_us, believed(channel, value), row.line)


IMPORTERS: tuple[Importer, ...] = (Importer(NAME, TELEMETRY, detect, read),)

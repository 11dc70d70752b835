"""Energy lines of an audit: measured where there is telemetry, else modelled, else unknown and said so."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wattledger_core.ids import digest
from wattledger_core.line import Line
from wattledger_core.span_lines import SpanKey, SpanLedger
from wattledger_core.sweep import PARTS_PER_US

from wattledger_audit.assessment.cost_book import PowerModel

ENERGY = "energy"
MEASURED, MODELLED, NO_TELEMETRY = "measured", "modelled", "no_telemetry"


@dataclass(slots=True)
class MeasuredEnergy:
    """What telemetry says, by the same keys as the time lines: energy in µJ and the parts it speaks for."""

    energy_uj: dict[SpanKey, int] = field(default_factory=dict)
    parts: dict[SpanKey, int] = field(default_factory=dict)
    methods: dict[SpanKey, set[str]] = field(default_factory=dict)
    run_uj: dict[int, int] = field(default_factory=dict)
    """Measured energy of runs."""
    run_parts: dict[int, int] = field(default_factory=dict)

    def add(self, key: SpanKey, energy_uj: int, parts: int, method: str) -> None:
        """Take what was measured of one key."""
        self.energy_uj[key] = self.energy_uj.get(key, 0) + energy_uj
        self.parts[key] = self.parts.get(key, 0) + parts
        self.methods.setdefault(key, set()).add(method)

    def add_run(self, run: int, energy_uj: int, parts: int) -> None:
        """Take what was measured of one run."""
        self.run_uj[run] = self.run_uj.get(run, 0) + energy_uj
        self.run_parts[run] = self.run_parts.get(run, 0) + parts


def energy_lines(ledger: SpanLedger, measured: MeasuredEnergy, power: Mapping[str, PowerModel]) -> Iterable[Line]:
    """For every key of the ledger: a line of what was measured, and one for the rest of its time."""
    for key in sorted(set(ledger.parts) | set(measured.energy_uj)):
        parts = ledger.parts.get(key, 0)
        known = min(measured.parts.get(key, 0), parts) if parts else measured.parts.get(key, 0)
        if key in measured.energy_uj:
            method = "+".join(sorted(measured.methods[key]))
            yield _line(ledger, key, MEASURED, method, known, measured.energy_uj[key], "")
        rest = parts - known
        if rest <= 0:
            continue
        model = power.get(key.gpu_model) or power.get("")
        if model is None:
            yield _line(ledger, key, NO_TELEMETRY, "none", rest, None, NO_TELEMETRY)
        else:
            # a held line names no node: also where somebody else pays for it, it was busy
            milliwatts = model.idle_mw if key.node else model.busy_mw
            yield _line(ledger, key, MODELLED, MODELLED, rest, rest * milliwatts // (PARTS_PER_US * 1000), "")


def _line(
    ledger: SpanLedger, key: SpanKey, kind: str, method: str, parts: int, energy_uj: int | None, reason: str
) -> Line:
    time = ledger.line(key, parts)
    name = digest("span", ENERGY, kind, time.line_id)
    return time._replace(
        line_id=name, kind=ENERGY, device_us=0, span_us=parts, energy_uj=energy_uj, method=method,
        reason=reason or time.reason, idle_energy_uj=0 if time.state == "held" else (energy_uj or 0),
    )  # fmt: skip

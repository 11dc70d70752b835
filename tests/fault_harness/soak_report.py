"""What a soak showed, as a page and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tests.fault_harness.checker import Finding


@dataclass(frozen=True, slots=True)
class Calm:
    """One look after the faults had stopped: how long until the ledger had what was published then, and the memory of
    a worker (PSS, bytes) by processor."""

    caught_up_s: float
    in_time: bool
    memory_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that a soak showed. `exits` counts the ends of workers that nobody had asked to stop, kills included."""

    seed: int
    minutes: float
    took_s: float
    records: int
    restarts: int
    exits: int
    faults: dict[str, int]
    calms: Sequence[Calm]
    findings: Sequence[Finding]

    @property
    def conserved(self) -> bool:
        """Everything is there, once, to the last digit."""
        return bool(self.findings) and all(finding.ok for finding in self.findings)

    @property
    def lived(self) -> bool:
        """It worked again after each storm."""
        return bool(self.calms) and all(calm.in_time for calm in self.calms)

    @property
    def ok(self) -> bool:
        return self.conserved and self.lived

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "conserved": self.conserved, "lived": self.lived, "ok": self.ok}


def markdown(outcome: Outcome) -> str:
    """The page."""
    struck = sum(outcome.faults.values())
    slowest = max((calm.caught_up_s for calm in outcome.calms), default=0.0)
    lines = [
        f"# Soak: seed {outcome.seed}, {outcome.minutes:g} minutes of faults, {outcome.took_s / 60:.1f} in all",
        "",
        f"- conservation: {'held' if outcome.conserved else 'BROKEN'}",
        f"- liveness: {'held' if outcome.lived else 'BROKEN'}: {len(outcome.calms)} times the faults stopped, and the "
        f"ledger had caught up after {slowest:.1f} s at most",
        f"- {outcome.records} records published; {struck} faults; {outcome.exits} ends of workers, all started again",
        "",
        "| fault | times |",
        "|---|---|",
        *[f"| {name} | {count} |" for name, count in sorted(outcome.faults.items())],
        "",
        "| checked | expected | seen | |",
        "|---|---|---|---|",
        *[_row(finding) for finding in outcome.findings],
        "",
        "| calm | caught up, s | " + " | ".join(f"{name}, MB" for name in _names(outcome)) + " |",
        "|---|---|" + "---|" * len(_names(outcome)),
    ]
    for number, calm in enumerate(outcome.calms, 1):
        sizes = " | ".join(str(calm.memory_bytes[name] >> 20) for name in _names(outcome))
        lines.append(f"| {number} | {calm.caught_up_s:.1f} | {sizes} |")
    return "\n".join(lines) + "\n"


def _names(outcome: Outcome) -> list[str]:
    return sorted(outcome.calms[0].memory_bytes) if outcome.calms else []


def _row(finding: Finding) -> str:
    cells = (finding.what, finding.expected, finding.seen, "ok" if finding.ok else "WRONG")
    return "| " + " | ".join(cell.replace("\n", "; ").replace("|", "\\|") for cell in cells) + " |"

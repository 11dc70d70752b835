"""What one contestant did, and the table of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.ingestion.watch import Used


class NotRight(AssertionError):
    """A contestant's sums are not the day's: its speed means nothing."""


class Missing(RuntimeError):
    """A contestant can't run here; says what to install. It is left out, with this reason."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One contestant: samples measured, rows written, what it used, and how well its sums agreed."""

    name: str
    samples: int
    rows: int
    used: Used
    agreement: str
    note: str = ""

    @property
    def per_wall_s(self) -> float:
        return self.samples / self.used.wall_s

    @property
    def per_cpu_s(self) -> float:
        """By the CPU of the contestant's own processes."""
        return self.samples / self.used.cpu_s

    @property
    def per_cpu_s_with_broker(self) -> float:
        return self.samples / (self.used.cpu_s + self.used.broker_cpu_s)


_HEAD = (
    "", "samples", "wall, s", "samples/s", "CPU, s", "samples per CPU-s", "broker CPU, s", "with broker", "rows",
    "peak PSS, MB", "sums", "WattLedger ×, per CPU-s", "× wall",
)  # fmt: skip


def as_record(outcome: Outcome, reference: Outcome | None) -> dict[str, object]:
    """Plain values for JSON; ratios are the reference over this one."""
    record: dict[str, object] = {
        "name": outcome.name,
        "samples": outcome.samples,
        "rows": outcome.rows,
        "wall_s": round(outcome.used.wall_s, 2),
        "cpu_s": round(outcome.used.cpu_s, 2),
        "parts_cpu_s": {name: round(spent, 2) for name, spent in outcome.used.parts_cpu_s.items()},
        "broker_cpu_s": round(outcome.used.broker_cpu_s, 2),
        "peak_pss_mb": round(outcome.used.peak_pss_mb),
        "samples_per_s": round(outcome.per_wall_s),
        "samples_per_cpu_s": round(outcome.per_cpu_s),
        "samples_per_cpu_s_with_broker": round(outcome.per_cpu_s_with_broker),
        "sums": outcome.agreement,
        "note": outcome.note,
    }
    if reference is not None:
        record["wattledger_over_per_cpu_s"] = round(reference.per_cpu_s / outcome.per_cpu_s, 2)
        record["wattledger_over_per_s"] = round(reference.per_wall_s / outcome.per_wall_s, 2)
    return record


def table(outcomes: Sequence[Outcome], left_out: Sequence[tuple[str, str]], reference: Outcome | None) -> str:
    """Markdown: one line a contestant, then those left out and why."""
    lines = [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    for outcome in outcomes:
        used = outcome.used
        ratios = ("", "")
        if reference is not None:
            ratios = (
                f"{reference.per_cpu_s / outcome.per_cpu_s:.2f}",
                f"{reference.per_wall_s / outcome.per_wall_s:.2f}",
            )
        cells = (
            outcome.name, f"{outcome.samples:,}", f"{used.wall_s:.1f}", f"{outcome.per_wall_s:,.0f}",
            f"{used.cpu_s:.1f}", f"{outcome.per_cpu_s:,.0f}", f"{used.broker_cpu_s:.1f}",
            f"{outcome.per_cpu_s_with_broker:,.0f}", f"{outcome.rows:,}", f"{used.peak_pss_mb:.0f}",
            outcome.agreement, *ratios,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    notes = [f"- {outcome.name}: {outcome.note}" for outcome in outcomes if outcome.note]
    notes += [f"- {name} is left out: {reason}" for name, reason in left_out]
    return "\n".join([*lines, "", *notes])

"""The gpu_metrics table: the few fields that the probe reads, from the wrapper's structure or its dictionary."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wattledger_agent.probes.amd_value import number

NARROW: Final = (
    "temperature_edge",
    "temperature_hotspot",
    "average_gfx_activity",
    "average_socket_power",
    "current_socket_power",
    "num_partition",
)
"""16-bit fields: 65535 is no value."""
WIDE: Final = (
    "energy_accumulator",
    "system_clock_counter",
    "throttle_status",
    "indep_throttle_status",
    "accumulation_counter",
    "prochot_residency_acc",
    "ppt_residency_acc",
    "socket_thm_residency_acc",
    "vr_thm_residency_acc",
    "hbm_thm_residency_acc",
)
_HEADER: Final = ("format_revision", "content_revision")
_MOST_PARTITIONS: Final = 8


@dataclass(frozen=True, slots=True)
class Metrics:
    """`numbers` has only the fields with a value; `flags` those that the wrapper made a truth value of (throttling, in
    its dictionary); `busy` the percentages of each partition's engines."""

    numbers: Mapping[str, int] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    busy: tuple[tuple[int, ...], ...] = ()

    @property
    def is_apu(self) -> bool:
        """Tables 2.x and 3.x are those of processors with graphics (kernel, kgd_pp_interface.h)."""
        return self.numbers.get("format_revision") in {2, 3}

    @property
    def is_32_bit(self) -> bool | None:
        """Whether the energy accumulator has 32 bits (table 1.0); None: not known."""
        revision = self.numbers.get("format_revision"), self.numbers.get("content_revision")
        return None if None in revision else revision == (1, 0)


NOTHING: Final = Metrics()


def from_structure(table: Any, partitions: int) -> Metrics:
    """From the structure, as the library filled it."""
    raw = {name: getattr(table, name, None) for name in (*NARROW, *WIDE)}
    header = getattr(table, "common_header", None)
    raw |= {name: getattr(header, name, None) for name in _HEADER}
    stats = getattr(table, "xcp_stats", ())
    count = min(partitions, len(stats), _MOST_PARTITIONS) if partitions > 1 else 0
    return _metrics(raw, [list(getattr(stats[at], "gfx_busy_inst", ())) for at in range(count)])


def from_mapping(table: Mapping[str, object], partitions: int) -> Metrics:
    """From the dictionary, as `amdsmi_get_gpu_metrics_info` gives it (6.0 to 7.0)."""
    raw = {name: table.get(name) for name in (*NARROW, *WIDE)}
    raw |= {name: table.get(f"common_header.{name}") for name in _HEADER}
    stats = table.get("xcp_stats.gfx_busy_inst")
    rows = stats if partitions > 1 and isinstance(stats, list) else []
    return _metrics(raw, [row if isinstance(row, list) else [] for row in rows[:partitions]])


def _metrics(raw: Mapping[str, object], busy: list[list[object]]) -> Metrics:
    numbers = {name: number(value, narrow=name not in WIDE) for name, value in raw.items()}
    if numbers.get("format_revision") == 0xFF:  # a header that nothing was written to
        numbers = {}
    shares = [[number(value) for value in row] for row in busy]
    return Metrics(
        {name: value for name, value in numbers.items() if value is not None},
        {name: value for name, value in raw.items() if isinstance(value, bool)},
        tuple(tuple(share for share in row if share is not None and 0 <= share <= 100) for row in shares),
    )

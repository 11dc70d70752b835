"""One GPU of the fake AMD SMI: what it shows and how it counts. Knows no library."""

from __future__ import annotations

from dataclasses import dataclass, field

NA16, NA32, NA64 = 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF
GIB = 1 << 30
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, API_FAILED, OUT_OF_RESOURCES, DRIVER_NOT_LOADED = 2, 10, 31, 7, 15, 34


@dataclass
class FakeProcess:
    pid: int
    gfx_ns: int = 0
    vram_bytes: int = GIB
    grows_ns: int = 0


@dataclass
class FakeGpu:
    """One handle. `draws_w` moves the counter; `status` is what a function ends with (power: after it has filled the
    fields, as the C source does when only the power cap can't be read)."""

    bus: int = 0x0C
    function: int = 0
    partition: int = 0
    model: str = "AMD Instinct MI300X OAM"
    device_id: int = 0x74A1
    current_w: int = 717
    average_w: int = NA16
    gfx_voltage_mv: int = NA16
    draws_w: int = 717
    cap: int = 750_000_000
    counts: int = 4_750_896_266
    stamp_ns: int = 1_712_024_507_665
    counts_move: bool = True
    activity: int = 97
    used_bytes: int = 20 * GIB
    total_bytes: int = 192 * GIB
    hotspot_c: int = 61
    edge_c: int = NA16
    mode: str = "SPX"
    memory_mode: str = "NPS1"
    engines: int = 8
    header: tuple[int, int] = (1, 6)
    num_partition: int = 1
    table: dict[str, int] = field(default_factory=dict)
    busy: list[list[int]] = field(default_factory=list)
    residency: dict[str, int] = field(default_factory=dict)
    accumulation: int = 1000
    processes: list[FakeProcess] = field(default_factory=list)
    status: dict[str, int] = field(default_factory=dict)
    kfd_partition: int | None = None
    high_bits: int | None = None
    foreign: tuple[int, int] | None = None
    virtualization: int = 1
    gone: bool = False

    @property
    def bdf(self) -> str:
        return f"0000:{self.bus:02x}:00.{self.function:x}"

    @property
    def device(self) -> str:
        return f"{self.bdf}/{self.partition}"

    def advance(self, seconds: int = 1) -> None:
        if self.counts_move:
            self.counts += self.draws_w * seconds * 65_536
            self.stamp_ns += seconds * 1_000_000_000
        self.accumulation += seconds
        for process in self.processes:
            process.gfx_ns += process.grows_ns * seconds

    def metrics(self) -> dict[str, int]:
        return {
            "temperature_edge": self.edge_c,
            "temperature_hotspot": self.hotspot_c,
            "average_gfx_activity": self.activity,
            "average_socket_power": self.average_w,
            "current_socket_power": self.current_w,
            "energy_accumulator": self.counts,
            "system_clock_counter": self.stamp_ns,
            "num_partition": self.num_partition,
            "throttle_status": NA32,
            "indep_throttle_status": NA64,
            "accumulation_counter": self.accumulation if self.residency else NA64,
            **self.residency,
            **self.table,
        }


COLUMN_CALLS = {
    "power_mw": ("amdsmi_get_power_info",),
    "energy_uj": ("amdsmi_get_energy_count",),
    "busy_ppm": ("amdsmi_get_gpu_activity",),
    "memory_used_bytes": ("amdsmi_get_gpu_memory_usage",),
    "temperature_c": ("amdsmi_get_temp_metric",),
    "throttle": (),
    "processes": ("amdsmi_get_gpu_process_list",),
}
COLUMN_FIELDS = {
    "power_mw": {"average_socket_power": NA16, "current_socket_power": NA16},
    "energy_uj": {"energy_accumulator": NA64, "system_clock_counter": NA64},
    "busy_ppm": {"average_gfx_activity": NA16},
    "temperature_c": {"temperature_edge": NA16, "temperature_hotspot": NA16},
    "throttle": {"accumulation_counter": NA64, "throttle_status": NA32, "indep_throttle_status": NA64},
}

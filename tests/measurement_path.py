"""The agent's measuring path on fakes: probes, sampler, log, Avro record, batch, and the energy that the core makes of
it. Cases of the golden tests are read off its ends; nothing in between is looked at."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from wattledger_agent.batch_record import BatchHead
from wattledger_agent.clock import ManualClock
from wattledger_agent.host import Host
from wattledger_agent.idle_floor import IdleFloors
from wattledger_agent.inventory_event import inventory_event
from wattledger_agent.probe_runner import ProbeResult, ProbeRunner
from wattledger_agent.probes.device import Device
from wattledger_agent.probes.probe import Probe
from wattledger_agent.probes.reading import DeviceReading, ProcessReading, Reading
from wattledger_agent.sampler import Sampler, SamplerRule
from wattledger_agent.tick_reading import SharesOf
from wattledger_agent.wal import Wal
from wattledger_agent.wal_gap import gap_encoder
from wattledger_agent.wal_record import WalRecord
from wattledger_core.batch import Batch
from wattledger_core.event import Claim, JobEvent, JobTopicEvent, Tick
from wattledger_core.line import Line
from wattledger_core.policy import Policy
from wattledger_core.replay import Logs, Replayed, replay
from wattledger_schemas import Codec
from wattledger_schemas.columns import unpack_column
from wattledger_streams.mapping import from_wire_node_event
from wattledger_streams.mapping_batch import from_wire_batch

from tests.builders import energy_by_tenant

S = J = 1_000_000
CODEC = Codec()
NODE, SITE, CLUSTER, BOOT = "n1", "fra1", "c1", "6f1c0a52"
_WIDTHS = {"power_mw": 4, "busy_ppm": 4, "memory_bytes": 8, "temperature_c": 4, "throttle": 4, "sm_ppm": 4}
Wire = dict[str, Any]
Cells = list[int | None]


class SameThread(ProbeRunner):
    """A runner whose `ask` reads at once: no thread, so no time limit that a busy machine could miss."""

    answer: ProbeResult

    def ask(self) -> None:
        self.answer = self._read()

    def take(self, until_s: float) -> ProbeResult:
        return self.answer


class MeasuredNode:
    """One node's sampler over probes on fakes. `advance` lets time pass at the fakes and on the clock."""

    def __init__(
        self,
        folder: Path,
        clock: ManualClock,
        *probes: Probe,
        period_s: float = 1,
        flush_s: float = 3600,
        shares_of: SharesOf = lambda processes, at_us: {},
        floors_mw: Mapping[str, int] | None = None,
    ) -> None:
        self.clock = clock
        self.runners = [SameThread(probe, clock) for probe in probes]
        self._wal = Wal(folder / "agent.wal", 1 << 30, "drop_oldest", None, gap_encoder(NODE, "a1", CODEC))
        if floors_mw is not None:
            self._wal.append([], state={"idle_floors": IdleFloors(dict(floors_mw)).dump()})
        head = BatchHead(NODE, SITE, "a1", "run-1", "0.1.0", round(period_s * S))
        self.sampler = Sampler(
            self._wal,
            self.runners,
            head,
            SamplerRule(head.period_us, round(flush_s * S)),
            clock,
            CODEC,
            shares_of,
            self._inventory,
            gap_encoder(NODE, "a1", CODEC),
        )

    def _inventory(self, at_us: int, devices: Sequence[Device], floors_mw: Mapping[str, int]) -> list[WalRecord]:
        host = Host(NODE, BOOT, 64, 1 << 40)
        event = inventory_event(host, CLUSTER, SITE, "a1", at_us, devices, floors_mw)
        return [WalRecord("job-events", NODE, CODEC.encode("node_event", event), at_us=at_us)]

    def tick(self) -> "MeasuredNode":
        self.sampler.step()
        return self

    def run(self, advance: Callable[[], object], times: int = 1) -> "MeasuredNode":
        """A tick now, if there is none yet; then so often: time passes, a tick."""
        if not self.sampler.last_us:
            self.tick()
        for _ in range(times):
            advance()
            self.tick()
        return self

    def records(self, subject: str) -> list[Wire]:
        """All that was put in the log, decoded, of one subject."""
        self.sampler.flush()
        found = [CODEC.decode(kept.record.value) for kept in self._wal.pending(0, 100_000)]
        return [one.record for one in found if one.subject == subject]

    def batches(self) -> list[Batch]:
        return [from_wire_batch(record) for record in self.records("sample_batch")]

    def wire(self, device: str = "") -> list[Wire]:
        """A device (the only one) as each batch has it."""
        listed = [one for record in self.records("sample_batch") for one in record["devices"]]
        return [one for one in listed if device in ("", one["device"])]

    def column(self, name: str, device: str = "") -> Cells:
        """A device's cells over all ticks; None: no value. `energy_uj` is the counter, base added."""
        cells: Cells = []
        for record in self.records("sample_batch"):
            for one in record["devices"]:
                if device in ("", one["device"]):
                    cells += _cells(one, name, len(record["ticks_us"]) // 8)[bool(cells) :]
        return cells

    def shares(self, job: str, device: str = "") -> Cells:
        """SM share of a job's processes over all ticks, ppm."""
        cells: Cells = []
        for record in self.records("sample_batch"):
            ticks = len(record["ticks_us"]) // 8
            for one in record["devices"]:
                told = [process for process in one["processes"] if process["job"] == job]
                if told and device in ("", one["device"]):
                    cells += _cells(told[0], "sm_ppm", ticks)[bool(cells) :]
        return cells

    def zone(self, name: str) -> Cells:
        """A host zone's counter over all ticks, µJ."""
        cells: Cells = []
        for record in self.records("sample_batch"):
            for one in record["host_zones"]:
                if one["zone"] == name:
                    cells += _cells(one, "energy_uj", len(record["ticks_us"]) // 8)[bool(cells) :]
        return cells

    def reasons(self, column: str, device: str = "") -> set[str]:
        """Why cells of a column have no value."""
        return {null["reason"] for one in self.wire(device) for null in one["nulls"] if null["column"] == column}

    def reading(self) -> DeviceReading:
        """What the first probe read of its first device at the last tick."""
        tick = self.runners[0].answer.tick
        assert tick is not None
        return tick.devices[0]

    def notes(self) -> str:
        """What the inventories say to people."""
        return " ".join(note for runner in self.runners for note in runner._probe.inventory().notes)

    def replayed(self, *events: JobTopicEvent) -> Replayed:
        """The pipeline over what was sent and the job events given, all settled."""
        sent: list[JobTopicEvent] = [from_wire_node_event(record) for record in self.records("node_event")]
        end = Tick(max(batch.end_us for batch in self.batches()) + 3600 * S)
        logged: list[JobTopicEvent] = [*sent, *sorted(events, key=lambda event: event.at_us), end]
        samples = list(enumerate(self.batches()))
        return replay(Logs({0: list(enumerate(logged))}, {0: samples}, [(0, end)]), Policy(), 1, {NODE: 0})

    def lines(self, *events: JobTopicEvent) -> list[Line]:
        return [line for line in self.replayed(*events).lines if line.kind == "energy"]

    def energy_uj(self, *events: JobTopicEvent) -> dict[str, int]:
        """Energy by tenant; who has none that is known is left out."""
        return energy_by_tenant(self.lines(*events))

    def total_uj(self, device: str = "") -> int:
        """Energy of one device or all, whoever held it."""
        totals = self.replayed().totals
        return sum(one.energy_uj or 0 for one in totals if one.kind == "energy" and device in ("", one.device))

    def marks(self, *events: JobTopicEvent) -> set[str]:
        return {mark for line in self.lines(*events) for mark in line.marks.split(",") if mark}

    def discrepancies(self, *events: JobTopicEvent) -> set[str]:
        return {found.kind for found in self.replayed(*events).discrepancies}


def _cells(one: Wire, name: str, ticks: int) -> Cells:
    if name != "energy_uj":
        values, valid = unpack_column(one[name], ticks, _WIDTHS[name], name)
    else:
        values, valid = unpack_column(one["energy_delta_uj"], ticks, 8, name)
        values = np.cumsum(values * valid) + (one["counter_base_uj"] or 0)
    return [value if ok else None for value, ok in zip(values.tolist(), valid.tolist(), strict=True)]


def held(job: str, device: str, since_us: int = 0, gpu_instance: str = "", num: int = 1, den: int = 1) -> JobEvent:
    """A job of the tenant of its own name that holds a device from a moment on."""
    claim = Claim(NODE, device, gpu_instance, num, den)
    return JobEvent(f"start-{job}", "start", since_us, CLUSTER, job, 0, (claim,), tenant=job)


def processes_of(jobs: Mapping[int, str]) -> SharesOf:
    """In the place of /proc: whose each pid is; others are nobody's."""

    def shares(processes: Iterable[ProcessReading], at_us: int) -> dict[tuple[str, str] | None, Reading]:
        found: dict[tuple[str, str] | None, Reading] = {}
        for one in processes:
            found[(CLUSTER, jobs[one.pid]) if one.pid in jobs else None] = one.sm_ppm
        return found

    return shares

"""What every probe keeps, shown on fake vendor libraries, captured pages and a recorded trace."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pytest
from wattledger_agent.probes.device import Inventory
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import DeviceReading, ProbeTick, Reading
from wattledger_agent.probes.trace_probe import TraceProbe
from wattledger_agent.trace import TraceItem, write_trace
from wattledger_schemas import Codec
from wattledger_schemas.columns import pack_column

from tests import fake_amdsmi, fake_nvml, fake_rapl, fake_scrape
from tests.probe_under_test import ProbeUnderTest
from tests.unit.agent_batches import T0, S, wire_batch

COLUMNS = ("power_mw", "energy_uj", "busy_ppm", "memory_used_bytes", "temperature_c", "throttle")
TICKS = 10
PPM = 1_000_000


def traced(folder: Path) -> ProbeUnderTest:
    """Two devices and a host zone, 31 seconds long."""
    record = wire_batch()
    ticks = len(record["ticks_us"]) // 8
    rising = pack_column(np.arange(ticks, dtype=np.int64), np.ones(ticks, dtype=np.bool_), 8)
    record["host_zones"] = [
        {"zone": "package-0", "counter_epoch": "boot", "counter_base_uj": 5, "energy_delta_uj": rising}
    ]
    item = TraceItem(T0 + 30 * S, "gpu-samples", "n1", Codec().encode("sample_batch", record))
    write_trace(folder / "recorded.jsonl", [item])
    return ProbeUnderTest(TraceProbe(folder / "recorded.jsonl"), ("GPU-0", "GPU-1"), advance=lambda: None)


def captured(name: str) -> Callable[[Path], ProbeUnderTest]:
    return lambda _: fake_scrape.captured_probe(fake_scrape.CAPTURES / f"{name}.metrics", fake_scrape.CAPTURED[name])


@dataclass(frozen=True, slots=True)
class Source:
    make: Callable[[Path], ProbeUnderTest]
    name: str
    counts: bool = True
    """Whether it has energy counters at all."""


SOURCES = {
    "nvml": Source(lambda _: fake_nvml.contract_probe(), "nvml"),
    "amdsmi": Source(lambda _: fake_amdsmi.contract_probe(), "amdsmi"),
    "rapl": Source(lambda _: fake_rapl.contract_probe(), "rapl"),
    "scrape dcgm-exporter": Source(lambda _: fake_scrape.contract_probe(), "scrape"),
    "trace": Source(traced, "trace"),
} | {f"scrape {name}": Source(captured(name), "scrape", counts=False) for name in fake_scrape.CAPTURED}
_NO_CAPTURES = pytest.mark.skipif(
    not fake_scrape.CAPTURES.is_dir(), reason=f"the captures are not there: {fake_scrape.CAPTURES}"
)
every_source = pytest.mark.parametrize(
    "source",
    [
        pytest.param(source, id=name, marks=[_NO_CAPTURES] if name.split()[-1] in fake_scrape.CAPTURED else [])
        for name, source in SOURCES.items()
    ],
)


@pytest.fixture
def opened(source: Source, tmp_path: Path) -> Iterator[ProbeUnderTest]:
    under_test = source.make(tmp_path)
    under_test.probe.open()
    yield under_test
    under_test.probe.close()


def tick(under_test: ProbeUnderTest) -> tuple[ProbeTick, Inventory | None]:
    """One second later: what is read, and the inventory where the probe says that it changed."""
    under_test.advance()
    read = under_test.probe.read()
    return read, under_test.probe.inventory() if read.inventory_changed else None


def warmed_up(under_test: ProbeUnderTest) -> tuple[ProbeTick, Inventory]:
    """A tick that is not the first: shares are of the time since the one before."""
    inventory = under_test.probe.inventory()
    for _ in range(3):
        read, changed = tick(under_test)
        inventory = changed or inventory
    return read, inventory


def readings(device: DeviceReading) -> dict[str, Reading]:
    found = {column: getattr(device, column) for column in COLUMNS}
    found |= {f"instance {one.gpu_instance}": one.activity_ppm for one in device.instances}
    for process in device.processes or ():
        found[f"sm of {process.pid}"] = process.sm_ppm
        found[f"memory of {process.pid}"] = process.memory_bytes
    return found


def valued(device: DeviceReading) -> set[str]:
    return {column for column in COLUMNS if getattr(device, column).value is not None}


def by_name(read: ProbeTick) -> dict[str, DeviceReading]:
    return {device.device: device for device in read.devices}


@every_source
def test_constructing_does_nothing_and_closing_what_is_not_open_is_harmless(source: Source, tmp_path: Path) -> None:
    under_test = source.make(tmp_path)
    assert under_test.probe.name == source.name
    under_test.probe.close()
    if under_test.break_library is not None and under_test.mend_library is not None:
        under_test.break_library()
        with pytest.raises(ProbeUnavailable):
            under_test.probe.open()
        under_test.probe.close()
        under_test.mend_library()
    under_test.probe.open()
    assert under_test.probe.inventory().library
    under_test.probe.close()
    under_test.probe.close()


@every_source
def test_identities_are_unique_and_the_same_every_time(opened: ProbeUnderTest) -> None:
    first = [device.device for device in opened.probe.inventory().devices]
    assert sorted(first) == sorted(opened.devices)
    assert len(set(first)) == len(first)
    read, _ = tick(opened)
    assert sorted(device.device for device in read.devices) == sorted(first)
    opened.probe.close()
    opened.probe.open()
    assert [device.device for device in opened.probe.inventory().devices] == first
    read, _ = tick(opened)
    assert sorted(device.device for device in read.devices) == sorted(first)


@every_source
def test_an_inventory_that_did_not_change_is_the_same_again(opened: ProbeUnderTest) -> None:
    warmed_up(opened)
    before = opened.probe.inventory()
    read, changed = tick(opened)
    assert not read.inventory_changed and changed is None
    assert opened.probe.inventory().devices == before.devices


@every_source
def test_a_source_says_something(opened: ProbeUnderTest) -> None:
    """Or the rest of this suite would say nothing."""
    read, _ = warmed_up(opened)
    assert all("power_mw" in valued(device) for device in read.devices)
    assert all(zone.energy_uj.value is not None for zone in read.zones)
    assert read.devices or read.zones


@every_source
def test_every_reading_is_a_whole_number_or_a_reason(opened: ProbeUnderTest) -> None:
    for _ in range(TICKS):
        read, _ = tick(opened)
        each = [reading for device in read.devices for reading in readings(device).values()]
        for reading in each + [zone.energy_uj for zone in read.zones]:
            assert (reading.value is None) != (reading.reason == "")
            assert reading.value is None or type(reading.value) is int
        assert all(device.processes is not None or device.processes_reason for device in read.devices)


@every_source
def test_nothing_is_negative_and_no_share_is_more_than_the_whole(opened: ProbeUnderTest) -> None:
    for _ in range(TICKS):
        read, _ = tick(opened)
        for device in read.devices:
            for name, reading in readings(device).items():
                if reading.value is not None and name != "temperature_c":
                    assert reading.value >= 0, name
                if reading.value is not None and name.startswith(("busy_ppm", "instance", "sm of")):
                    assert reading.value <= PPM, name
            assert all(process.pid > 0 for process in device.processes or ())
        assert all((zone.energy_uj.value or 0) >= 0 for zone in read.zones)


@every_source
def test_counters_rise_and_never_fall_within_one_epoch(opened: ProbeUnderTest, source: Source) -> None:
    inventory = opened.probe.inventory()
    seen: dict[tuple[str, str], list[int]] = {}
    for _ in range(TICKS):
        read, changed = tick(opened)
        inventory = changed or inventory
        epochs = {device.device: device.counter_epoch for device in inventory.devices}
        counters = [(device.device, epochs[device.device], device.energy_uj) for device in read.devices]
        for name, epoch, reading in counters + [(z.zone, z.counter_epoch, z.energy_uj) for z in read.zones]:
            assert epoch
            if reading.value is not None:
                seen.setdefault((name, epoch), []).append(reading.value)
    assert bool(seen) == source.counts
    for values in seen.values():
        assert values == sorted(values)
        assert values[-1] > values[0]


@every_source
def test_instances_that_are_read_are_in_the_inventory(opened: ProbeUnderTest) -> None:
    inventory = opened.probe.inventory()
    for _ in range(TICKS):
        read, changed = tick(opened)
        inventory = changed or inventory
        known = {device.device: {one.gpu_instance for one in device.instances} for device in inventory.devices}
        for device in read.devices:
            named = [one.gpu_instance for one in device.instances]
            assert set(named) <= known[device.device]
            assert len(set(named)) == len(named)


def _denials() -> list[object]:
    return [
        pytest.param(source, column, id=f"{name} {column}",
                     marks=[_NO_CAPTURES] if name.split()[-1] in fake_scrape.CAPTURED else [])
        for name, source in SOURCES.items() if name not in ("trace", "rapl") for column in COLUMNS
    ]  # fmt: skip


@pytest.mark.parametrize(("source", "column"), _denials())
def test_a_reading_that_is_refused_has_a_reason_and_hides_no_other(opened: ProbeUnderTest, column: str) -> None:
    before, _ = warmed_up(opened)
    assert opened.deny is not None
    denied, *others = opened.devices
    had = {name: valued(device) for name, device in by_name(before).items()}
    if column not in had[denied]:
        pytest.skip("this source has no such reading to refuse")
    opened.deny(denied, column)
    for _ in range(3):
        read, _ = tick(opened)
        after = by_name(read)
        assert getattr(after[denied], column).value is None
        assert getattr(after[denied], column).reason
        assert valued(after[denied]) == had[denied] - {column}
        assert not after[denied].lost
        assert all(valued(after[other]) == had[other] for other in others)


LOSING = [name for name in SOURCES if name in ("nvml", "amdsmi", "scrape dcgm-exporter")]


@pytest.mark.parametrize("source", [SOURCES[name] for name in LOSING], ids=LOSING)
def test_a_lost_device_is_reported_lost_and_nothing_of_it_is_repeated(opened: ProbeUnderTest) -> None:
    before, _ = warmed_up(opened)
    gone, *others = opened.devices
    had = {name: valued(device) for name, device in by_name(before).items()}
    assert opened.lose is not None and had[gone] and others
    opened.lose(gone)
    for _ in range(3):
        read, _ = tick(opened)
        after = by_name(read)
        assert after[gone].lost
        assert all(reading.value is None and reading.reason for reading in readings(after[gone]).values())
        assert after[gone].processes is None and after[gone].processes_reason
        assert all(valued(after[other]) == had[other] and not after[other].lost for other in others)
    assert set(opened.devices) >= {device.device for device in opened.probe.inventory().devices}


BREAKING = [name for name in SOURCES if name != "trace"]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(SOURCES[n], id=n, marks=[_NO_CAPTURES] if n.split()[-1] in fake_scrape.CAPTURED else [])
        for n in BREAKING
    ],
)
def test_a_broken_library_makes_the_probe_unavailable_until_it_is_mended_and_opened(opened: ProbeUnderTest) -> None:
    before, inventory = warmed_up(opened)
    assert opened.break_library is not None and opened.mend_library is not None
    opened.break_library()
    opened.advance()
    with pytest.raises(ProbeUnavailable) as caught:
        opened.probe.read()
    assert str(caught.value)
    opened.probe.close()
    with pytest.raises(ProbeUnavailable):
        opened.probe.open()
    opened.mend_library()
    opened.probe.close()
    opened.probe.open()
    after, again = warmed_up(opened)
    assert [device.device for device in again.devices] == [device.device for device in inventory.devices]
    assert {name: valued(one) for name, one in by_name(after).items()} == {
        name: valued(one) for name, one in by_name(before).items()
    }
    assert len(after.zones) == len(before.zones)


@every_source
def test_a_probe_works_in_the_one_thread_that_calls_it_and_starts_none(source: Source, tmp_path: Path) -> None:
    under_test = source.make(tmp_path)
    others = set(threading.enumerate())
    started: list[set[threading.Thread]] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            under_test.probe.open()
            for _ in range(3):
                tick(under_test)
            started.append(set(threading.enumerate()) - others - {threading.current_thread()})
            under_test.probe.close()
        except (AssertionError, RuntimeError, OSError) as error:
            failed.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert failed == []
    assert started == [set()]


@every_source
def test_a_probe_writes_nothing_to_the_output(opened: ProbeUnderTest, capfd: pytest.CaptureFixture[str]) -> None:
    """It may be a document for another program."""
    warmed_up(opened)
    opened.probe.close()
    opened.probe.open()
    opened.probe.inventory()
    assert capfd.readouterr().out == ""


def test_the_columns_of_this_suite_are_all_that_a_device_reads() -> None:
    assert {field.name for field in fields(DeviceReading)} == {
        "device", *COLUMNS, "instances", "processes", "processes_reason", "lost",
    }  # fmt: skip

"""AMD partitions, dies and sockets: identities, and each socket's power once."""

from pathlib import Path

import pytest
from wattledger_agent.probes.amd_partition import partitions_of
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NOT_SUPPORTED,
    SENTINEL,
    Reading,
    unknown,
)

from tests.fake_amdsmi import FakeAmdSmi
from tests.fake_amdsmi_api import Bench
from tests.fake_amdsmi_gpu import NA16, NA32, FakeGpu


def _sockets(watts: list[list[int]], mode: str = "QPX") -> list[FakeGpu]:
    return [
        FakeGpu(
            bus=0x0C + 0x10 * socket, partition=at, current_w=power, draws_w=row[0], mode=mode, counts=10**10 + socket
        )
        for socket, row in enumerate(watts)
        for at, power in enumerate(row)
    ]


CHANGELOG_ROWS = [
    [248, 247, 247, 247],
    [221, 221, 222, 221],
    [239] * 4,
    [219] * 4,
    [222] * 4,
    [241, 241, 241, 240],
    [211] * 4,
    [227] * 4,
]


@pytest.mark.parametrize("version", ["6.3", "6.4", "7.0", ""])
def test_b27_32_rows_of_8_sockets_are_1828_watts(tmp_path: Path, version: str) -> None:
    bench = Bench(tmp_path, FakeAmdSmi(*_sockets(CHANGELOG_ROWS)), version)
    bench.tick()
    readings = bench.tick()
    assert len(readings) == 32
    assert sum(reading.power_mw.value or 0 for reading in readings.values()) == 1_828_000
    assert sum(reading.energy_uj.value is not None for reading in readings.values()) == 8
    others = [reading for device, reading in readings.items() if not device.endswith("/0")]
    assert {reading.power_mw for reading in others} == {unknown(NOT_SUPPORTED)}
    assert {reading.energy_uj for reading in others} == {unknown(NOT_SUPPORTED)}
    devices = bench.probe.inventory().devices
    assert len({device.socket for device in devices}) == 8
    assert [device.counter_scope for device in devices] == ["socket", "", "", ""] * 8


def test_partitions_told_by_the_function_of_their_address_share_a_socket(tmp_path: Path) -> None:
    gpus = [
        FakeGpu(function=at, partition=at, kfd_partition=NA32, high_bits=0, mode="DPX", current_w=136, draws_w=136)
        for at in (0, 1)
    ]
    bench = Bench(tmp_path, FakeAmdSmi(*gpus))
    assert [(device.device, device.socket) for device in bench.probe.inventory().devices] == [
        ("0000:0c:00.0/0", "0000:0c:00"),
        ("0000:0c:00.1/1", "0000:0c:00"),
    ]
    assert [reading.power_mw.value for reading in bench.tick().values()] == [136_000, None]


NUMBERED = [(3, 0, 0, 3), (NA32, 5, 0, 5), (NA32, 5, 1, 5), (NA32, 0, 2, 2), (0, 5, 2, 0)]


@pytest.mark.parametrize(("kfd", "high_bits", "function", "expected"), NUMBERED)
def test_a_partitions_number(tmp_path: Path, kfd: int, high_bits: int, function: int, expected: int) -> None:
    gpu = FakeGpu(kfd_partition=kfd, high_bits=high_bits, function=function)
    (device,) = Bench(tmp_path, FakeAmdSmi(gpu)).probe.inventory().devices
    assert device.device == f"0000:0c:00.{function}/{expected}"


def test_partitions_that_the_library_numbers_alike_stay_apart(tmp_path: Path) -> None:
    gpus = [FakeGpu(mode="DPX", kfd_partition=NA32, high_bits=0, current_w=140, draws_w=140) for _ in range(2)]
    bench = Bench(tmp_path, FakeAmdSmi(*gpus))
    assert [device.device for device in bench.probe.inventory().devices] == ["0000:0c:00.0/0", "0000:0c:00.0/1"]


def test_two_dies_of_an_mi250_have_one_power(tmp_path: Path) -> None:
    watts = [237, NA16, 230, NA16, 220, 0, 235, NA16]
    gpus = [
        FakeGpu(bus=0xC1 + 4 * at, model="AMD INSTINCT MI250 (MCM) OAM AC MBA", device_id=0x740C, mode="",
                memory_mode="", current_w=NA16, average_w=power, draws_w=power if power not in (0, NA16) else 0,
                counts=10**9 if power not in (0, NA16) else 0, header=(1, 3))
        for at, power in enumerate(watts)
    ]  # fmt: skip
    bench = Bench(tmp_path, FakeAmdSmi(*gpus))
    bench.tick()
    readings = list(bench.tick().values())
    assert [reading.power_mw.value for reading in readings] == [
        237_000,
        None,
        230_000,
        None,
        220_000,
        None,
        235_000,
        None,
    ]
    assert [reading.energy_uj.value is not None for reading in readings] == [True, False] * 4
    devices = bench.probe.inventory().devices
    assert [device.socket for device in devices[:4]] == ["0000:c1:00", "0000:c1:00", "0000:c9:00", "0000:c9:00"]
    assert [device.counter_scope for device in devices[:2]] == ["socket", ""]


def test_b25_an_mi300x_is_no_two_die_card(tmp_path: Path) -> None:
    gpus = [FakeGpu(bus=0x0C), FakeGpu(bus=0x22, counts=0, counts_move=False)]
    bench = Bench(tmp_path, FakeAmdSmi(*gpus))
    bench.tick()
    first, second = bench.tick().values()
    assert first.energy_uj.value is not None
    assert (second.power_mw, second.energy_uj) == (Reading(717_000), unknown(IMPLAUSIBLE))
    assert [device.socket for device in bench.probe.inventory().devices] == ["", ""]


def test_b29_partitions_of_unlike_shapes(tmp_path: Path) -> None:
    gpus = [FakeGpu(partition=at, mode="DPX", current_w=300, draws_w=300) for at in (0, 1)]
    bench = Bench(tmp_path, FakeAmdSmi(*gpus), "7.0")
    name = "amdsmi_get_gpu_activity"
    bench.api.shapes[name, gpus[0].device] = {"gfx_activity": {"value": 0, "unit": "%"}}
    bench.api.shapes[name, gpus[1].device] = "N/A"
    first, second = bench.tick().values()
    assert first.busy_ppm == Reading(0)
    assert second.busy_ppm == unknown(SENTINEL)


COUNTS = [
    ("CPX", 65535, 8, 8),
    ("CPX", 8, None, 8),
    ("CPX", 65535, 6, 6),
    ("SPX", 65535, 8, 1),
    ("DPX", 65535, 8, 2),
    ("TPX", None, 6, 3),
    ("QPX", 4, 8, 4),
    ("CPX", None, None, None),
    ("", 4, None, 4),
    ("", 65535, None, None),
]


@pytest.mark.parametrize(("mode", "told", "engines", "expected"), COUNTS)
def test_b30_partitions_by_mode(mode: str, told: int | None, engines: int | None, expected: int | None) -> None:
    assert partitions_of(mode, told, engines) == expected


def test_b30_a_socket_of_which_only_one_partition_is_shown_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeAmdSmi(FakeGpu(mode="CPX", memory_mode="NPS4", num_partition=NA16)))
    (note,) = bench.probe.inventory().notes
    assert "CPX/NPS4 has 8 partitions, AMD SMI shows 1" in note
    assert bench.probe.inventory().devices[0].socket == "0000:0c:00"


def test_each_partition_is_as_busy_as_its_own_engines(tmp_path: Path) -> None:
    busy = [[100, 90, NA32], [0, 0], [255]]
    gpus = [FakeGpu(partition=at, mode="TPX", current_w=400, draws_w=400, activity=NA16, busy=busy) for at in range(3)]
    readings = list(Bench(tmp_path, FakeAmdSmi(*gpus)).tick().values())
    assert [reading.busy_ppm for reading in readings] == [Reading(950_000), Reading(0), unknown(SENTINEL)]


def test_another_partitioning_is_found_and_changes_the_inventory(tmp_path: Path) -> None:
    gpu = FakeGpu()
    fake = FakeAmdSmi(gpu)
    bench = Bench(tmp_path, fake)
    bench.tick()
    epoch = bench.probe.inventory().devices[0].counter_epoch
    gpu.mode, gpu.memory_mode = "DPX", "NPS2"
    fake.gpus.append(FakeGpu(partition=1, mode="DPX", memory_mode="NPS2"))
    changed = False
    for _ in range(40):
        bench.clock.sleep(1)
        fake.advance()
        tick = bench.probe.read()
        if tick.inventory_changed:
            changed = True
            assert [reading.device for reading in tick.devices] == ["0000:0c:00.0/0", "0000:0c:00.0/1"]
            devices = bench.probe.inventory().devices
    assert changed
    assert [device.socket for device in devices] == ["0000:0c:00", "0000:0c:00"]
    assert devices[0].counter_epoch != epoch

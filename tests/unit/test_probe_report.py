"""What `probe --once` shows: every attribute and reading, or why there is none, as JSON and for people."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from wattledger_agent import probe_report
from wattledger_agent.probe_report import (
    FORMAT,
    MEANINGS,
    UNITS,
    WIDTH,
    probe_json,
    probe_text,
    unavailable_json,
    unavailable_text,
)
from wattledger_agent.probes import reading
from wattledger_agent.probes.device import Device, Inventory, MigInstance
from wattledger_agent.probes.probe import ProbeUnavailable
from wattledger_agent.probes.reading import (
    IMPLAUSIBLE,
    NO_PERMISSION,
    NOT_SUPPORTED,
    POWER_CAP,
    SENTINEL,
    THERMAL,
    UNREAD,
    DeviceReading,
    InstanceReading,
    ProbeTick,
    ProcessReading,
    Reading,
    ZoneReading,
    lost_device,
    unknown,
)

MIG_UUID = "MIG-33333333-cccc-4ccc-8ccc-cccccccccccc"
CARD = Device(
    "GPU-b", "nvidia", "NVIDIA H200", "590.48.01", 1, 4, "0000:83:00.0", sharing="mig", counter_epoch="boot/590/0",
    instances=(MigInstance("10", "", "1g.18gb", 1), MigInstance("2", MIG_UUID, "3g.71gb", 3, 76 << 30, 1, (MIG_UUID,))),
    counter_scope="gpu", power_field="nvml.instant", power_window_us=25_000, power_limit_mw=700_000,
    memory_bytes=150_754_820_096, is_mig=True,
)  # fmt: skip
READ = DeviceReading(
    "GPU-b", Reading(294_140), unknown(SENTINEL), unknown(NOT_SUPPORTED), Reading(17_782_800_384), Reading(36),
    Reading(POWER_CAP | THERMAL), (InstanceReading("2", Reading(500_000)), InstanceReading("10", unknown(IMPLAUSIBLE))),
    (ProcessReading(12_267, Reading(970_000), Reading(9), "2"), ProcessReading(77, unknown(NOT_SUPPORTED))),
)  # fmt: skip
GONE = lost_device("GPU-a")
NOTES = ("GPU-b: the counter was not read, because " + "a reason that is long and goes on " * 5, "another")
INVENTORY = Inventory((CARD, Device("GPU-a", "nvidia", "NVIDIA H200", "590.48.01")), NOTES, "nvml 590.48.01")
TICK = ProbeTick((READ, GONE), (ZoneReading("package-0/dram", Reading(7), "boot"),))


def test_the_document_says_everything_that_is_known() -> None:
    shown = probe_json("nvml", INVENTORY, TICK)
    assert (shown["format"], shown["probe"], shown["library"], shown["notes"]) == (
        FORMAT, "nvml", "nvml 590.48.01", list(NOTES),
    )  # fmt: skip
    gone, card = shown["devices"]
    assert (gone["device"], gone["lost"], card["device"], card["lost"]) == ("GPU-a", True, "GPU-b", False)
    told = {field.name for field in fields(Device)} - {"device", "instances"}
    assert card["attributes"].keys() == told | {"mig_layout"}
    assert all(card["attributes"][name] == getattr(CARD, name) for name in told)
    assert card["attributes"]["mig_layout"] == "3g+1g"
    assert card["readings"] == {
        "busy_ppm": {"meaning": MEANINGS[NOT_SUPPORTED], "reason": NOT_SUPPORTED, "unit": "ppm", "value": None},
        "energy_uj": {"meaning": MEANINGS[SENTINEL], "reason": SENTINEL, "unit": "µJ", "value": None},
        "memory_used_bytes": {"unit": "bytes", "value": 17_782_800_384},
        "power_mw": {"unit": "mW", "value": 294_140},
        "temperature_c": {"unit": "°C", "value": 36},
        "throttle": {"unit": "bits", "value": 3},
    }
    assert [(one["gpu_instance"], one["activity"]["value"]) for one in card["instances"]] == [
        ("2", 500_000),
        ("10", None),
    ]
    instance = {field.name for field in fields(MigInstance)} | {"activity"}
    assert all(one.keys() == instance for one in card["instances"])
    assert [(one["pid"], one["sm"]["value"], one["memory"]["value"]) for one in card["processes"]["list"]] == [
        (77, None, None), (12_267, 970_000, 9),
    ]  # fmt: skip
    assert gone["processes"] == {"reason": reading.GPU_LOST}
    assert all(one["reason"] == reading.GPU_LOST for one in gone["readings"].values())
    assert shown["zones"] == [{"counter_epoch": "boot", "energy": {"unit": "µJ", "value": 7}, "zone": "package-0/dram"}]


def test_the_document_is_the_same_whatever_the_order_of_the_driver() -> None:
    backwards = replace(INVENTORY, devices=INVENTORY.devices[::-1]), replace(TICK, devices=TICK.devices[::-1])
    there, back = probe_json("nvml", INVENTORY, TICK), probe_json("nvml", *backwards)
    assert json.dumps(there) == json.dumps(back)
    assert json.dumps(there) == json.dumps(there, sort_keys=True)


def test_what_only_the_inventory_or_only_the_tick_has_is_shown() -> None:
    shown = probe_json("x", Inventory((CARD,)), ProbeTick((replace(READ, device="GPU-x"),)))
    assert [(one["device"], one["attributes"] is None) for one in shown["devices"]] == [
        ("GPU-b", False),
        ("GPU-x", True),
    ]
    assert {one["reason"] for one in shown["devices"][0]["readings"].values()} == {UNREAD.reason}
    text = probe_text("x", Inventory((CARD,)), ProbeTick((replace(READ, device="GPU-x"),)))
    assert "inventory              not in it" in text and "unknown: not_read" in text


def test_the_text_says_every_reading_with_its_unit_or_its_reason() -> None:
    text = probe_text("nvml", INVENTORY, TICK)
    for line in (
        "nvml: nvml 590.48.01",
        "GPU-a  LOST",
        "  model                  nvidia NVIDIA H200, driver 590.48.01",
        "  place                  index 1, minor 4, PCI 0000:83:00.0",
        "  sharing                mig, 3g+1g",
        "  power reading          nvml.instant, window 25000 µs, refresh unknown",
        "  power limit            700000 mW",
        "  counter epoch          boot/590/0, covers gpu",
        "  power                  294140 mW",
        "  energy                 unknown: sentinel (the library gave its mark for no value)",
        "  memory used            17782800384 bytes",
        "  temperature            36 °C",
        "  throttle               3 (power cap, thermal)",
        f"  instance 2             3g.71gb {MIG_UUID}, active 500000 ppm",
        "  instance 10            1g.18gb, active unknown: implausible",
        "  processes              2",
        "  pid 77                 SM unknown: not_supported, memory unknown: not_read",
        "  pid 12267              SM 970000 ppm, memory 9 bytes in instance 2",
        "  package-0/dram         7 µJ",
        "- another",
    ):
        assert f"{line}\n" in text


def test_the_text_fits_its_width_whatever_it_has_to_say() -> None:
    long = "x" * 250
    wild = replace(
        CARD, device=f"GPU-{long}", gpu_model=long, driver=long, pci=long, power_field=long, counter_epoch=long,
        instances=(MigInstance(long, long, long, 1),),
    )  # fmt: skip
    zones = (ZoneReading(f"package-0/{long}", unknown(NO_PERMISSION), long),)
    text = probe_text(
        long, Inventory((wild,), (long, "a " * 300), long), ProbeTick((replace(READ, device=wild.device),), zones)
    )
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert max(len(line) for line in probe_text("nvml", INVENTORY, TICK).splitlines()) <= WIDTH
    assert max(len(line) for line in unavailable_text("nvml", ProbeUnavailable(long, long)).splitlines()) <= WIDTH


def test_what_a_terminal_would_obey_is_not_passed_on() -> None:
    named = replace(CARD, gpu_model="H200\x1b[2J\nGPU-c")
    assert "H200?[2J?GPU-c" in probe_text("nvml", Inventory((named,), ("a\x07b",)), ProbeTick())


def test_nothing_found_is_said() -> None:
    assert probe_text("rapl", Inventory(), ProbeTick()) == "rapl: library unknown\n\n  no device\n"
    assert probe_json("rapl", Inventory(), ProbeTick())["devices"] == []


@pytest.mark.parametrize(("absent", "state"), [(True, "not here"), (False, "not available")])
def test_a_probe_that_can_not_work_says_what_to_do(absent: bool, state: str) -> None:
    error = ProbeUnavailable("libnvidia-ml.so.1 is not there", "install the driver", absent)
    assert unavailable_json("nvml", error) == {
        "absent": absent, "available": False, "fix": "install the driver", "format": FORMAT, "probe": "nvml",
        "problem": "libnvidia-ml.so.1 is not there: install the driver",
    }  # fmt: skip
    assert unavailable_text("nvml", error) == f"nvml: {state}: libnvidia-ml.so.1 is not there: install the driver\n"


def test_every_reason_has_a_meaning_and_every_column_a_unit() -> None:
    reasons = {value for name, value in vars(reading).items() if name.isupper() and isinstance(value, str)}
    assert set(MEANINGS) == reasons
    columns = {field.name for field in fields(DeviceReading)}
    assert set(UNITS) == columns - {"device", "instances", "processes", "processes_reason", "lost"}
    assert "print(" not in Path(probe_report.__file__).read_text()

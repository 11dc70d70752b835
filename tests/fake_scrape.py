"""An exporter that is not there: dcgm-exporter's page of made-up cards, and captured pages that can be edited."""

import re
from collections.abc import Iterable
from pathlib import Path

from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.scrape import ScrapeProbe

from tests.probe_under_test import ProbeUnderTest

URL = "http://127.0.0.1:9400/metrics"
T0_US = 1_767_225_600_000_000
GPU_A = "GPU-11111111-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
GPU_B = "GPU-22222222-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
CAPTURES = Path(__file__).resolve().parents[1].parent / "shared" / "data" / "captures"
BLANK = "9223372036854775794"
"""What dcgm-exporter prints where DCGM says that a field is not supported."""
FIELD_OF = {
    "power_mw": "DCGM_FI_DEV_POWER_USAGE",
    "energy_uj": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
    "busy_ppm": "DCGM_FI_DEV_GPU_UTIL",
    "memory_used_bytes": "DCGM_FI_DEV_FB_USED",
    "temperature_c": "DCGM_FI_DEV_GPU_TEMP",
    "throttle": "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
}
SMI_FIELDS_OF = {
    "power_mw": r"power_draw_\w*watts",
    "busy_ppm": "utilization_gpu_ratio",
    "memory_used_bytes": "memory_used_bytes",
    "temperature_c": "temperature_gpu",
    "throttle": "clocks_event_reasons_active",
}


def sample(name: str, value: object, of: str = GPU_A, **labels: str) -> str:
    """One line of dcgm-exporter's page, with the labels that it always writes; one set to empty is left out."""
    shown = {
        "gpu": "0", "UUID": of, "pci_bus_id": "00000000:83:00.0", "device": "nvidia0",
        "modelName": "NVIDIA A100-SXM4-80GB", "Hostname": "gpu-7", "DCGM_FI_DRIVER_VERSION": "550.90.07",
    } | labels  # fmt: skip
    text = ",".join(f'{key}="{one}"' for key, one in shown.items() if one)
    return f"{name}{{{text}}} {value}"


def page(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


class Pages:
    """Gives one page after the other, the last one for ever; `None` is an exporter that does not answer."""

    def __init__(self, *pages: str | None) -> None:
        self._pages = list(pages)

    def __call__(self) -> str:
        text = self._pages.pop(0) if len(self._pages) > 1 else self._pages[0]
        if text is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return text


class FakeExporter:
    """dcgm-exporter with two A100: what its cards count, hide and lose. Calling it gives the page."""

    def __init__(self) -> None:
        self.clock = ManualClock(T0_US)
        self.energy_mj = {GPU_A: 126_272_101_025, GPU_B: 4_294_000_000}
        self.power_w = {GPU_A: "301.25", GPU_B: "88.5"}
        self.denied: set[tuple[str, str]] = set()
        self.lost: set[str] = set()
        self.is_broken = False

    def advance(self) -> None:
        """One second at the power that is shown."""
        self.clock.sleep(1)
        for uuid, power in self.power_w.items():
            self.energy_mj[uuid] += int(float(power) * 1000)

    def __call__(self) -> str:
        if self.is_broken:
            raise ConnectionRefusedError(111, "Connection refused")
        return page("# HELP DCGM_FI_DEV_POWER_USAGE Power draw (in W).", *self._lines())

    def _lines(self) -> Iterable[str]:
        for number, uuid in enumerate((GPU_A, GPU_B)):
            place = {"gpu": str(number), "pci_bus_id": f"00000000:{number + 3}3:00.0", "device": f"nvidia{number}"}
            values = {
                "power_mw": self.power_w[uuid], "energy_uj": self.energy_mj[uuid], "busy_ppm": 45 + number,
                "memory_used_bytes": 1024 * (1 + number), "temperature_c": 40 + number, "throttle": 4 * number,
            }  # fmt: skip
            for column, value in values.items():
                is_blank = uuid in self.lost or (uuid, column) in self.denied
                yield sample(FIELD_OF[column], BLANK if is_blank else value, uuid, **place)
            yield sample("DCGM_FI_DEV_XID_ERRORS", 79 if uuid in self.lost else 0, uuid, **place)


def contract_probe() -> ProbeUnderTest:
    """The scrape probe on two cards of dcgm-exporter."""
    exporter = FakeExporter()
    return ProbeUnderTest(
        probe=ScrapeProbe(URL, exporter, boot="boot-1", clock=exporter.clock),
        devices=(GPU_A, GPU_B),
        advance=exporter.advance,
        lose=exporter.lost.add,
        deny=lambda device, column: exporter.denied.add((device, column)),
        break_library=lambda: setattr(exporter, "is_broken", True),
        mend_library=lambda: setattr(exporter, "is_broken", False),
    )


def captured_probe(path: Path, device: str) -> ProbeUnderTest:
    """The scrape probe on a captured page of nvidia_gpu_exporter, which leaves a reading that it has not out."""
    text = path.read_text(encoding="utf-8")
    state = {"text": text, "is_broken": ""}
    clock = ManualClock(T0_US)

    def fetch() -> str:
        if state["is_broken"]:
            raise TimeoutError("timed out")
        return state["text"]

    def deny(_: str, column: str) -> None:
        state["text"] = re.sub(rf"^nvidia_smi_{SMI_FIELDS_OF[column]}\{{.*\n", "", state["text"], flags=re.MULTILINE)

    return ProbeUnderTest(
        probe=ScrapeProbe(URL, fetch, clock=clock),
        devices=(device,),
        advance=lambda: clock.sleep(1),
        deny=deny,
        break_library=lambda: state.update(is_broken="yes"),
        mend_library=lambda: state.update(is_broken=""),
    )


CAPTURED = {
    "linux-x86_64__nvidia-h200__590.48.01__load": "0000:83:00.0",
    "linux-x86_64__nvidia-h200-mig__590.48.01__load": "0000:83:00.0",
    "linux-x86_64__nvidia-l40s__595.80__idle": "0000:01:00.0",
}
"""Captures and the identity of their one device: the UUIDs are zeroed, so it is the PCI address."""

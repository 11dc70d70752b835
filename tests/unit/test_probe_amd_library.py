"""Loading AMD SMI: a machine without ROCm, a wrapper that does not fit its library, missing rights, a clean stdout."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from wattledger_agent.clock import ManualClock
from wattledger_agent.probes.amd import AmdSmiProbe
from wattledger_agent.probes.amd_library import GROUPS, load_wrapper, misfit, open_library
from wattledger_agent.probes.probe import ProbeUnavailable

from tests.fake_amdsmi import FakeAmdSmi, probe_of
from tests.fake_amdsmi_api import FakeApi
from tests.fake_amdsmi_gpu import API_FAILED, DRIVER_NOT_LOADED, FakeGpu


def _kfd(folder: Path, is_there: bool = True) -> Path:
    kfd = folder / "kfd"
    if is_there:
        kfd.touch()
    return kfd


def test_without_rocm_the_real_wrapper_is_absent_and_prints_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probe = AmdSmiProbe(ManualClock(), kfd=tmp_path / "kfd")
    with pytest.raises(ProbeUnavailable) as caught:
        probe.open()
    assert caught.value.absent
    assert "amd-smi-lib" in caught.value.fix
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "error", [KeyError("libamd_smi.so"), OSError("wrong ELF class"), ImportError("no module"), ModuleNotFoundError("x")]
)
@pytest.mark.parametrize("has_compute_device", [True, False])
def test_a_failed_import_is_a_fault_only_beside_a_compute_device(
    tmp_path: Path, error: Exception, has_compute_device: bool
) -> None:
    def load() -> ModuleType:
        raise error

    with pytest.raises(ProbeUnavailable) as caught:
        open_library(load, _kfd(tmp_path, has_compute_device))
    assert caught.value.absent is not has_compute_device


def test_a_symbol_that_the_library_lacks_is_told_with_the_wrapper_to_use(tmp_path: Path) -> None:
    def load() -> ModuleType:
        raise AttributeError("undefined symbol: amdsmi_get_gpu_xcd_counter")

    with pytest.raises(ProbeUnavailable, match="amdsmi_get_gpu_xcd_counter") as caught:
        open_library(load, _kfd(tmp_path))
    assert "/opt/rocm/share/amd_smi" in caught.value.fix
    assert not caught.value.absent


def test_the_wrapper_shipped_with_the_library_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "amdsmi").mkdir()
    (tmp_path / "amdsmi" / "__init__.py").write_text("print('Unable to find')\n__version__ = 'shipped'\n")
    before = list(sys.path)
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    try:
        assert load_wrapper(tmp_path).__dict__["__version__"] == "shipped"
    finally:
        sys.modules.pop("amdsmi", None)
    assert sys.path == before


FITS = [
    (23, 68, True),
    (24, 68, True),
    (25, 68, False),
    (26, 68, False),
    (24, 40, False),
    (25, 40, True),
    (26, 40, False),
    (24, 192, False),
    (25, 192, False),
    (26, 192, True),
    (27, 192, True),
    (None, 192, True),
    (26, None, True),
    (27, 200, True),
]


@pytest.mark.parametrize(("library", "size", "fits"), FITS)
def test_b24_which_library_a_wrapper_may_read(library: int | None, size: int | None, fits: bool) -> None:
    assert (misfit(library, size) == "") is fits


@pytest.mark.parametrize("library", ["6.3", "6.4"])
def test_b24_the_wrapper_of_7_0_is_refused_over_an_older_library(tmp_path: Path, library: str) -> None:
    fake = FakeAmdSmi(library=library)
    with pytest.raises(ProbeUnavailable, match=r"wrapper 7\.0\.2") as caught:
        fake.probe(ManualClock(), tmp_path).open()
    assert "/opt/rocm/share/amd_smi" in caught.value.fix
    assert not caught.value.absent
    assert not fake.open


def test_b24_a_library_that_writes_behind_the_structure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeAmdSmi()
    monkeypatch.setattr("tests.fake_amdsmi.power_bytes", lambda gpu, library: b"\0" * 200)
    with pytest.raises(ProbeUnavailable, match="writes behind the end of amdsmi_power_info_t"):
        fake.probe(ManualClock(), tmp_path).open()
    assert not fake.open


def test_the_fitting_library_is_named_with_its_wrapper(tmp_path: Path) -> None:
    probe = FakeAmdSmi().probe(ManualClock(), tmp_path)
    probe.open()
    assert probe.inventory().library == "amdsmi 26.0.2 (wrapper 7.0.2)"


def test_a_compute_device_that_may_not_be_opened_says_which_groups_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeAmdSmi()
    fake.broken = API_FAILED
    monkeypatch.setattr("wattledger_agent.probes.amd_library.os.access", lambda path, mode: False)
    with pytest.raises(ProbeUnavailable, match="may not be opened") as caught:
        fake.probe(ManualClock(), tmp_path).open()
    assert caught.value.fix == GROUPS


def test_no_gpu_is_no_fault(tmp_path: Path) -> None:
    fake = FakeAmdSmi()
    fake.gpus = []
    with pytest.raises(ProbeUnavailable, match="no GPU") as caught:
        fake.probe(ManualClock(), tmp_path).open()
    assert caught.value.absent


def test_a_driver_that_goes_while_open_ends_the_reading_until_opened_again(tmp_path: Path) -> None:
    fake = FakeAmdSmi()
    clock = ManualClock()
    probe = fake.probe(clock, tmp_path)
    probe.open()
    probe.read()
    fake.broken = DRIVER_NOT_LOADED
    with pytest.raises(ProbeUnavailable, match="status 34"):
        probe.read()
    probe.close()
    with pytest.raises(ProbeUnavailable):
        probe.open()
    fake.broken = 0
    probe.open()
    assert len(probe.read().devices) == 1


def test_when_no_device_answers_any_call_the_probe_gives_up(tmp_path: Path) -> None:
    fake = FakeAmdSmi(FakeGpu(), FakeGpu(bus=0x22))
    probe = fake.probe(ManualClock(), tmp_path)
    probe.open()
    fake.broken = API_FAILED
    with pytest.raises(ProbeUnavailable, match="no AMD device answers"):
        probe.read()


def _shapeless(module: ModuleType) -> Callable[[], ModuleType]:
    for name in ("amdsmi_get_gpu_activity", "amdsmi_get_gpu_kfd_info", "amdsmi_get_gpu_metrics_info"):
        module.__dict__.pop(name, None)
    return lambda: module


def test_functions_that_a_version_lacks_cost_only_their_own_reading(tmp_path: Path) -> None:
    api = FakeApi(FakeAmdSmi(), "6.0")
    probe = probe_of(_shapeless(api.module()), ManualClock(), tmp_path)
    probe.open()
    (reading,) = probe.read().devices
    assert reading.power_mw.value == 717_000
    assert reading.busy_ppm.reason == "not_supported"
    assert not reading.lost


def test_reading_before_opening_and_closing_twice() -> None:
    probe = AmdSmiProbe(ManualClock())
    probe.close()
    probe.close()
    with pytest.raises(ProbeUnavailable, match="not open"):
        probe.read()

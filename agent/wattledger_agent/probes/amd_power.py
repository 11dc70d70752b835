"""Which of AMD's power fields to believe: by GPU generation one is valid; others are sentinels, lies or other units."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wattledger_agent.probes.amd_metrics import Metrics
from wattledger_agent.probes.amd_value import ALL_ONES_16, number
from wattledger_agent.probes.reading import ABI_MISMATCH, IMPLAUSIBLE, NOT_SUPPORTED, SENTINEL, Reading, unknown

CURRENT: Final = "current_socket_power"
AVERAGE: Final = "average_socket_power"
SOCKET: Final = "socket_power"
_FIELDS: Final = (CURRENT, AVERAGE, SOCKET)
"""MI300 and later fill the current one, MI200 and earlier the average one; since 6.4 socket_power repeats either."""
_MOST_W: Final = 10_000
"""No socket draws more; a field beyond it is another field's bytes."""
_MOST_APU_W: Final = 500
_UNDER_LOAD_PPM: Final = 500_000


@dataclass(frozen=True, slots=True)
class Power:
    """`reading` in mW, of `field`. `odd`: a sentence on what else the structure showed; empty: nothing odd."""

    reading: Reading
    field: str = ""
    odd: str = ""


def choose_power(
    info: Mapping[str, object],
    metrics: Metrics,
    failure: str = "",
    limit_mw: int | None = None,
    busy_ppm: int | None = None,
) -> Power:
    """The socket's power. AMD gives whole watts (1 W -> 1,000 mW).

    `info` are the fields of the power structure (empty where the call gave none), `metrics` stands in for them,
    `failure` is the reason of a failed call: its fields count only if they have a value.
    """
    why: set[str] = set()
    for name, raw in _candidates(info, metrics):
        reading = _reading(raw, metrics.is_apu, limit_mw, busy_ppm)
        if reading.value is not None:
            return Power(reading, name, _odd(info, name))
        why.add(reading.reason)
    for reason in (ABI_MISMATCH, IMPLAUSIBLE):
        if reason in why and not failure:
            return Power(unknown(reason))
    return Power(unknown(failure or (SENTINEL if why else NOT_SUPPORTED)))


def _candidates(info: Mapping[str, object], metrics: Metrics) -> Iterator[tuple[str, object]]:
    given = [name for name in _FIELDS if name in info]
    # One absurd field shows another library's layout: none of its neighbours is what it is called.
    absurd = [name for name in given if (number(info[name]) or 0) > _MOST_W and not _in_milliwatts(info[name])]
    for name in absurd or given:
        yield name, info[name]
    for name in (CURRENT, AVERAGE):
        if name in metrics.numbers:
            yield name, metrics.numbers[name]


def _reading(raw: object, is_apu: bool, limit_mw: int | None, busy_ppm: int | None) -> Reading:
    watts = number(raw)
    if watts is None:
        return unknown(SENTINEL)
    power_mw = watts * (1 if _in_milliwatts(raw) else 1000)
    if not 0 <= power_mw <= _MOST_W * 1000:
        return unknown(ABI_MISMATCH)
    if power_mw == 0 or (power_mw < 1000 and (busy_ppm is None or busy_ppm > _UNDER_LOAD_PPM)):
        # 0 W: secondary dies, frozen firmware, a field of another version. No powered GPU draws nothing.
        return unknown(IMPLAUSIBLE)
    if is_apu and power_mw > _MOST_APU_W * 1000:
        # Some drivers put milliwatts into the tables of processors with graphics (amdgpu_top#30).
        return unknown(IMPLAUSIBLE)
    if limit_mw is not None and 2 * power_mw > 3 * limit_mw:
        return unknown(IMPLAUSIBLE)
    return Reading(power_mw)


def _in_milliwatts(raw: object) -> bool:
    return isinstance(raw, Mapping) and str(raw.get("unit", "")).strip().lower() == "mw"


def _odd(info: Mapping[str, object], chosen: str) -> str:
    zero = [name for name in _FIELDS if name in info and name != chosen and info[name] == 0]
    if zero:
        beside = f"{chosen} {info.get(chosen, 'of gpu_metrics')}"
        return f"{zero[0]} is 0 beside {beside}: a sign that the library's layout is not the wrapper's"
    return ""


def limits_of(cap: object) -> tuple[int | None, int | None]:
    """The limit in force and the highest that can be set, in mW, from `amdsmi_get_power_cap_info`: it gives W before
    ROCm 6.2 and µW since."""
    if not isinstance(cap, Mapping):
        return None, None
    return _limit(cap.get("power_cap")), _limit(cap.get("max_power_cap"))


def _limit(raw: object) -> int | None:
    value = number(raw, narrow=False)
    if value is None or value <= 0 or value == ALL_ONES_16:
        return None
    return value // 1000 if value >= 100_000 else value * 1000

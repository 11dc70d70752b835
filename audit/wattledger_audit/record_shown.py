"""Records in words: each field that says something, times in UTC and by a local clock, money with its currency."""

from decimal import Decimal
from zoneinfo import ZoneInfo

from wattledger_audit.intake.record import DeviceTrace, Record
from wattledger_audit.shown_time import local_text, utc_text

_TIMES = frozenset(("start_us", "end_us", "submit_us", "eligible_us"))
_INTERNAL = frozenset(("run_key", "delivery_rank"))
_SECOND_US = 1_000_000
_OPEN = {"start_us": "not said", "end_us": "not said: open"}


def shown_record(record: Record, zone: ZoneInfo | None) -> dict[str, str]:
    """Fields by name, empty ones left out. `zone`: the clock beside UTC, None for none."""
    if isinstance(record, DeviceTrace):
        return _trace(record, zone)
    shown: dict[str, str] = {}
    for name, value in record._asdict().items():
        if name in _TIMES:
            if value is not None or name in _OPEN:
                shown[name.removesuffix("_us")] = _OPEN[name] if value is None else _moment(value, zone)
        elif name in _INTERNAL or value is None or value == "" or value == () or value is False:
            continue
        elif name == "amount":
            shown[name] = f"{value:f} {getattr(record, 'currency', '')}".rstrip()
        elif name.endswith("_us"):
            if value:
                shown[name.removesuffix("_us")] = _seconds(value)
        else:
            shown[name] = _text(value)
    return shown


def _text(value: object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return "yes" if value is True else str(value)


def _moment(at_us: int, zone: ZoneInfo | None) -> str:
    local = "" if zone is None or zone.key == "UTC" else f" = {local_text(at_us, zone)} {zone.key}"
    return utc_text(at_us) + local


def _seconds(us: int) -> str:
    whole, rest = divmod(us, _SECOND_US)
    return f"{whole}.{rest:06} s" if rest else f"{whole} s"


def _trace(trace: DeviceTrace, zone: ZoneInfo | None) -> dict[str, str]:
    shown = {
        "node": trace.node, "device": trace.device, "index": "" if trace.index < 0 else str(trace.index),
        "gpu_model": trace.gpu_model, "driver": trace.driver,
        "readings": str(len(trace.ticks_us)),
    }  # fmt: skip
    if len(trace.ticks_us):
        shown["first"] = _moment(int(trace.ticks_us[0]), zone)
        shown["last"] = _moment(int(trace.ticks_us[-1]), zone)
    powers = trace.power_mw[trace.power_valid]
    shown["power"] = f"{int(powers.min())} to {int(powers.max())} mW, {len(powers)} readings" if len(powers) else ""
    counters = trace.counter_uj[trace.counter_valid]
    shown["energy counter"] = f"{int(counters[0])} to {int(counters[-1])} µJ" if len(counters) else ""
    shown["busy"] = f"{int(trace.busy_valid.sum())} readings" if trace.busy_valid.any() else ""
    return {name: text for name, text in shown.items() if text}

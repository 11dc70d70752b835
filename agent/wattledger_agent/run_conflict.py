"""Where sources contradict each other: holds that can't all be true, and use that no hold covers. Decides nothing."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from wattledger_agent.run_claim import WireClaim
from wattledger_agent.watchers.run import Finding

SOURCE = "run_book"
WATCHERS_DISAGREE = "watchers_disagree"
USE_WITHOUT_ALLOCATION = "use_without_allocation"
_TOO_MUCH = "which is more than there is of"
_FORGET_US = 3_600_000_000

Job = tuple[str, str]
"""Cluster and job."""
Capacity = Callable[[str, str], Fraction]
"""The part of a device that one of its GPU instances is."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An open run that is not suspended, with what was said that it holds."""

    name: str
    job: Job
    claims: tuple[WireClaim, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """Somebody on a device. `job` is None where no known run owns the process; `label` then says what it is, such as
    `kubernetes pod 1f0c…` or `processes of uid 1000`, and is the same for all processes of that kind."""

    device: str
    gpu_instance: str
    job: Job | None
    label: str


class Conflicts:
    """Remembers what was said, so that each contradiction is told once, and again when it changes."""

    def __init__(self, settle_us: int) -> None:
        self._settle_us = settle_us
        self._claims: set[str] = set()
        self._since_us: dict[str, int] = {}
        self._said_us: dict[str, int] = {}

    def of_claims(self, holders: Iterable[Holder], capacity: Capacity) -> list[Finding]:
        """Pairs of jobs that hold more of one device, or of one instance, than there is of it."""
        by_device: dict[str, list[tuple[Holder, WireClaim]]] = {}
        for holder in holders:
            for claim in holder.claims:
                by_device.setdefault(claim["device"], []).append((holder, claim))
        now: dict[str, str] = {}
        for device, held in sorted(by_device.items()):
            for first, second in combinations(held, 2):
                if first[0].job != second[0].job and _exceeds(first[1], second[1], capacity):
                    sentence = " and ".join(sorted((_holds(*first), _holds(*second))))
                    now[sentence] = f"{sentence}, {_TOO_MUCH} {device}: ask which source is wrong"
            jobs = {holder.job for holder, _ in held}
            if len(jobs) > 2 and sum(_share(claim) for _, claim in held) > 1 and not any(device in key for key in now):
                sentence = " and ".join(sorted(_holds(*one) for one in held))
                now[sentence] = f"{sentence}, together {_TOO_MUCH} {device}: ask which source is wrong"
        said, self._claims = self._claims, set(now)
        return [Finding(SOURCE, WATCHERS_DISAGREE, now[key]) for key in sorted(now) if key not in said]

    def of_use(self, uses: Iterable[Use], holders: Iterable[Holder], now_us: int) -> list[Finding]:
        """Who is on a device without holding it, once that has lasted: `uses` is all that is seen now."""
        places = [(holder, claim) for holder in holders for claim in holder.claims]
        now: dict[str, tuple[str, str]] = {}
        for use in uses:
            over = [
                (h, c) for h, c in places if c["device"] == use.device and _overlap(c["gpu_instance"], use.gpu_instance)
            ]
            if any(holder.job == use.job for holder, _ in over):
                continue
            place = use.device + (f" instance {use.gpu_instance}" if use.gpu_instance else "")
            for holder, claim in over:
                sentence = f"{_holds(holder, claim)}, but {use.label} is on {place}"
                now[sentence] = (WATCHERS_DISAGREE, f"{sentence} and holds no part of it: ask which source is wrong")
            if not over:
                sentence = f"{use.label} is on {place}, which nobody holds"
                now[sentence] = (USE_WITHOUT_ALLOCATION, f"{sentence}: it is used without an allocation")
        self._since_us = {key: self._since_us.get(key, now_us) for key in now}
        due = [k for k in sorted(now) if k not in self._said_us and now_us - self._since_us[k] >= self._settle_us]
        self._said_us |= {key: now_us for key in now if key in self._said_us or key in due}
        self._said_us = {key: at_us for key, at_us in self._said_us.items() if now_us - at_us < _FORGET_US}
        return [Finding(SOURCE, *now[key]) for key in due]

    def to_json(self) -> dict[str, object]:
        return {"claims": sorted(self._claims), "since_us": self._since_us, "said_us": self._said_us}

    def restore(self, data: Mapping[str, object]) -> None:
        """Raises KeyError or TypeError for what `to_json` did not write."""
        claims = {str(key) for key in _list(data["claims"])}
        since_us, said_us = _times(data["since_us"]), _times(data["said_us"])
        self._claims, self._since_us, self._said_us = claims, since_us, said_us


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {type(value).__name__}")
    return value


def _times(value: object) -> dict[str, int]:
    if not isinstance(value, dict) or not all(isinstance(at_us, int) for at_us in value.values()):
        raise TypeError("expected times by sentence")
    return {str(key): at_us for key, at_us in value.items()}


def _overlap(first: str, second: str) -> bool:
    return first == second or not first or not second


def _exceeds(first: WireClaim, second: WireClaim, capacity: Capacity) -> bool:
    instances = first["gpu_instance"], second["gpu_instance"]
    if not _overlap(*instances):
        return False
    there_is = capacity(first["device"], instances[0]) if instances[0] == instances[1] != "" else Fraction(1)
    return _share(first) + _share(second) > there_is


def _share(claim: WireClaim) -> Fraction:
    return Fraction(claim["share_num"], claim["share_den"])


def _holds(holder: Holder, claim: WireClaim) -> str:
    place = claim["device"] + (f" instance {claim['gpu_instance']}" if claim["gpu_instance"] else "")
    return f"{holder.name} holds {claim['share_num']}/{claim['share_den']} of {place}"

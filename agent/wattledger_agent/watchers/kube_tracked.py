"""One pod that holds devices, followed over looks: who it is, when it started, ended and let go. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wattledger_agent.watchers.kube_hold import PodHold
from wattledger_agent.watchers.kube_pod import PodFacts
from wattledger_agent.watchers.kube_share import PodShares

GONE_LIMIT_US = 600_000_000
"""How long a pod that the API server no longer knows may be listed before its end is put at when it went."""
FIRST_SEEN = "seen-"


@dataclass(frozen=True, slots=True)
class ApiView:
    """What the API server told. `is_used`: runs may wait for its word; `is_fresh`: read after the kubelet's list of
    this look, so that a pod which is absent is gone."""

    is_used: bool = False
    is_fresh: bool = False
    pods: Mapping[tuple[str, str], PodFacts] = field(default_factory=dict)


@dataclass(slots=True)
class Tracked:
    """`gone_us`: since when the API server no longer knows the pod; `missing_us`: since when the kubelet no longer
    lists it; `floor_us`: it is not billed before (another run had the pod then). `is_blocked`: ended, but its devices
    are not free. `is_named`: job and start are settled, so the run may be told. `seen_us`: when last listed.
    `shares`: what it held when last told."""

    hold: PodHold
    first_us: int
    uid: str = ""
    facts: PodFacts | None = None
    floor_us: int = 0
    job: str = ""
    is_named: bool = False
    is_end_told: bool = False
    is_release_told: bool = False
    seen_us: int = 0
    started_us: int | None = None
    ended_us: int | None = None
    released_us: int | None = None
    is_blocked: bool = False
    gone_us: int | None = None
    missing_us: int | None = None
    shares: PodShares | None = None
    owner_keys: dict[str, None] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return self.ended_us is None

    def learn(self, facts: PodFacts | None, now_us: int, api: ApiView) -> None:
        """Takes in what the API server says of this pod; None: it says nothing."""
        if facts is None:
            if self.uid and api.is_fresh and self.gone_us is None:
                self.gone_us = now_us
            return
        self.facts, self.gone_us = facts, None
        if not self.is_named:
            self.uid, self.job = facts.uid, facts.job
        self.owner_keys.update(dict.fromkeys(facts.owner_keys))
        if self.uid and self.started_us is None:  # a start once seen stands: later statuses lose it
            started_us = facts.started_us(self.hold.holders)
            self.started_us = None if started_us is None else max(started_us, self.floor_us)

    def name(self, now_us: int, api: ApiView, patience_us: int) -> None:
        """Settles job and start: by UID and container start, or by name and first sight where there is no UID and none
        to wait for."""
        if self.is_named:
            return
        if self.uid:
            self.is_named = self.started_us is not None
            return
        if api.is_used and now_us - self.first_us < patience_us and self.missing_us is None:
            return
        self.started_us = max(self.first_us, self.floor_us)
        self.job = f"{self.hold.namespace}/{self.hold.name}/{FIRST_SEEN}{self.started_us}"
        self.is_named = True

    def find_end(self, now_us: int, is_listed: bool, api: ApiView, is_settling: bool) -> None:
        """Decides whether and when it ended. `is_settling`: the kubelet restarted, and may list less than there is."""
        if is_listed:
            self.missing_us, self.seen_us = None, now_us
        elif self.missing_us is None:
            self.missing_us = now_us
        if not self.is_open:
            return
        at_us = self._end_us(now_us, is_listed, api, is_settling)
        if at_us is not None:
            self.ended_us = max(min(at_us, now_us), self.started_us or 0)
            self.is_blocked = is_listed and not self._is_over_for_good()

    def find_release(self, now_us: int, is_listed: bool, taken_us: int | None) -> None:
        """Decides when the devices of an ended pod were free: when it was over as a whole, the kubelet let go, or
        another had them (`taken_us`)."""
        if not self.is_blocked or self.ended_us is None:
            return
        if taken_us is not None:
            free_us = taken_us
        elif self._is_over_for_good() and self.facts is not None:
            free_us = self.facts.finished_us(tuple(self.facts.containers)) or now_us
        elif not is_listed:
            free_us = now_us
        else:
            return
        self.is_blocked = False
        if free_us > self.ended_us:
            self.released_us = free_us

    def take_news(self) -> bool:
        """Whether it ended, or its devices came free, since this was last asked."""
        is_news = not self.is_open and self.is_named and not self.is_end_told
        is_news |= self.released_us is not None and not self.is_release_told
        self.is_end_told, self.is_release_told = not self.is_open, self.released_us is not None
        return is_news

    def _end_us(self, now_us: int, is_listed: bool, api: ApiView, is_settling: bool) -> int | None:
        if self.facts is not None and self.uid and self.facts.is_over(self.hold.holders):
            return self.facts.finished_us(self.hold.holders) or now_us
        if is_listed:
            is_stale = self.gone_us is not None and now_us - self.gone_us > GONE_LIMIT_US
            return self.gone_us if is_stale else None
        if self.uid and api.is_used:
            # The API server has the last word: a kubelet that restarted lists nothing for a while.
            return self.missing_us if self.gone_us is not None else None
        return None if is_settling else self.missing_us

    def _is_over_for_good(self) -> bool:
        """In the last phase the kubelet gives the devices to whoever asks, even while it still lists them."""
        return self.facts is not None and self.gone_us is None and self.facts.is_last_phase

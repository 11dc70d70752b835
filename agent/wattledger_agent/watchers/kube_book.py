"""All pods that hold devices, paired over looks with what the kubelet lists and the API server tells. Pure."""

from collections.abc import Iterable, Sequence

from wattledger_agent.watchers.kube_hold import PodHold
from wattledger_agent.watchers.kube_pod import PodFacts
from wattledger_agent.watchers.kube_tracked import FIRST_SEEN, ApiView, Tracked
from wattledger_agent.watchers.run import Run

PATIENCE_US = 60_000_000
"""How long a pod that the kubelet lists waits for the API server's word on it."""
Key = tuple[str, str]


class PodBook:
    """Follows the pods. `recalled`: open runs of an agent that ran here before, so that a pod named by first sight
    keeps its name."""

    def __init__(self, recalled: Iterable[Run] = ()) -> None:
        self._tracked: dict[Key, list[Tracked]] = {}
        self._recalled = {run.job: run for run in recalled if run.ended_us is None}

    @property
    def tracked(self) -> list[Tracked]:
        """All that is followed, by name, older first."""
        return [one for _, those in sorted(self._tracked.items()) for one in those]

    def see(
        self, now_us: int, holds: Sequence[PodHold], api: ApiView, is_settling: bool = False
    ) -> tuple[list[Tracked], list[Tracked]]:
        """Takes in one look. Gives the pods open now, and those that ended or whose devices came free in it."""
        listed: dict[Key, list[PodHold]] = {}
        for hold in holds:
            listed.setdefault(hold.key, []).append(hold)
        present: set[int] = set()
        for key in sorted(listed.keys() | self._tracked.keys()):
            facts = api.pods.get(key)
            those = self._pair(key, listed.get(key, []), api, now_us, present)
            for one in those:
                one.learn(facts if facts is not None and one.uid == facts.uid else None, now_us, api)
                one.find_end(now_us, id(one) in present, api, is_settling)
                one.name(now_us, api, PATIENCE_US)
        return self._settle(now_us, present)

    def _pair(self, key: Key, holds: list[PodHold], api: ApiView, now_us: int, present: set[int]) -> list[Tracked]:
        """Each listed pod with the tracked one that it is. A name may be listed twice: while a forcibly deleted pod is
        still there and its successor too."""
        facts, is_alone = api.pods.get(key), len(holds) == 1
        those = self._tracked.setdefault(key, [])
        free = list(those)
        for hold in holds:
            match = next((one for one in free if _is_same(one, hold, facts, is_alone, api.is_fresh)), None)
            if match is None:
                match = self._start(hold, facts, those, now_us)
                those.append(match)
            else:
                free.remove(match)
                match.hold = hold
            if not match.uid and facts is not None and all(facts.uid != one.uid for one in those):
                if match.is_named:  # it was told by name; from here on it goes on under its UID
                    match.ended_us = now_us
                    match = Tracked(hold, now_us, facts.uid, floor_us=now_us)
                    those.append(match)
                match.uid = facts.uid
            present.add(id(match))
        for one in free:
            if one.uid and facts is not None and one.uid != facts.uid:
                # A successor is made when the one before is gone, unless that was deleted by force and seen after.
                made_us = facts.created_us or 0
                missing_us = now_us if one.missing_us is None else one.missing_us
                one.missing_us = made_us if one.seen_us < made_us < missing_us else missing_us
        return those

    def _start(self, hold: PodHold, facts: PodFacts | None, those: list[Tracked], now_us: int) -> Tracked:
        one = Tracked(hold, now_us)
        if facts is not None and all(facts.uid != other.uid for other in those):
            one.uid = facts.uid
            if before := self._recalled.pop(facts.job, None):
                one.started_us = before.started_us
        if not one.is_named and (before := self._recall_first_seen(hold)):
            if one.uid:
                one.floor_us = now_us
            else:
                one.job, one.started_us, one.is_named = before.job, before.started_us, True
        return one

    def _recall_first_seen(self, hold: PodHold) -> Run | None:
        prefix = f"{hold.namespace}/{hold.name}/{FIRST_SEEN}"
        job = next((job for job in self._recalled if job.startswith(prefix)), None)
        return self._recalled.pop(job) if job is not None else None

    def _settle(self, now_us: int, present: set[int]) -> tuple[list[Tracked], list[Tracked]]:
        holders: dict[str, list[int]] = {}
        for one in self.tracked:
            if one.is_open and one.started_us is not None:
                for thing in one.hold.things:
                    holders.setdefault(thing, []).append(one.started_us)
        running, changed = [], []
        for one in self.tracked:
            if one.ended_us is None:
                running += [one] if one.is_named else []
                continue
            next_us = [at for thing in one.hold.things for at in holders.get(thing, ()) if at >= one.ended_us]
            one.find_release(now_us, id(one) in present, min(next_us, default=None))
            changed += [one] if one.take_news() else []
        for key, those in list(self._tracked.items()):
            self._tracked[key] = [one for one in those if one.is_open or one.is_blocked or id(one) in present]
            if not self._tracked[key]:
                del self._tracked[key]
        return running, changed


def _is_same(one: Tracked, hold: PodHold, facts: PodFacts | None, is_alone: bool, is_fresh: bool) -> bool:
    """Whether a listed pod is this tracked one. The kubelet gives no UID, so what it holds has to tell: the devices of
    a pod never change, though a list may show them one container after another."""
    is_alike = one.hold.things == hold.things or (is_alone and one.hold.things < hold.things)
    if not one.uid or facts is None:
        return is_alike
    if one.uid == facts.uid:
        return is_alike or (is_alone and is_fresh)
    has_successor = is_alone and facts.started_us(hold.holders) is not None
    return is_alike and not has_successor

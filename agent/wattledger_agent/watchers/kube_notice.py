"""What a Kubernetes watcher has to tell people, each thing once. Pure but for remembering what was told."""

from collections.abc import Iterable, Mapping

from wattledger_agent.watchers.kube_pod import PodFacts
from wattledger_agent.watchers.kube_run import SOURCE
from wattledger_agent.watchers.kube_tracked import GONE_LIMIT_US, Tracked
from wattledger_agent.watchers.run import Finding

_REMEMBERED = 20_000
_NO_DEVICE_US = 60_000_000
_NOT_STARTED_US = 600_000_000
Key = tuple[str, str]


class Notices:
    """Collects findings of one look; `take` hands them out."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}
        self._new: list[Finding] = []
        self._seen_uids: set[str] = set()

    def tell(self, reason: str, subject: str, detail: str) -> None:
        """Once for each reason and subject. No raw input: a pod's spec may hold secrets."""
        if (reason, subject) in self._told:
            return
        if len(self._told) >= _REMEMBERED:
            del self._told[next(iter(self._told))]
        self._told[reason, subject] = None
        self._new.append(Finding(SOURCE, reason, detail))

    def forget(self, *reasons: str) -> None:
        """These may be told again: what they spoke of was over in between."""
        self._told = {told: None for told in self._told if told[0] not in reasons}

    def take(self) -> tuple[Finding, ...]:
        found, self._new = tuple(self._new), []
        return found

    def about_tracked(self, tracked: Iterable[Tracked], now_us: int, is_api_used: bool) -> None:
        """Pods whose identity, start or end is doubtful."""
        for one in tracked:
            pod = f"pod {one.hold.namespace}/{one.hold.name}"
            if one.is_named and not one.uid:
                if is_api_used:
                    self.tell(
                        "pod_not_in_api",
                        one.job,
                        f"{pod} is listed by the kubelet but not by the API server (deleted, or a static pod without "
                        "its mirror): its run goes by its name and when it was first seen, without labels",
                    )
                else:
                    self.tell(
                        "identity_without_uid",
                        "",
                        "pods are known by namespace, name and when they were first seen: without the API server there "
                        "are no UIDs, labels, CPU requests or exact times. Give the watcher access to it (get and list "
                        "on pods)",
                    )
            if one.is_open and not one.is_named and now_us - one.first_us > _NOT_STARTED_US:
                self.tell(
                    "held_before_start",
                    f"{one.hold.key}{one.first_us}",
                    f"{pod} has devices since {(now_us - one.first_us) // 1_000_000} s, but no container that has "
                    "them has started: nobody is billed, and nobody else can have them. Look at its events",
                )
            if one.ended_us is not None and one.gone_us == one.ended_us and one.missing_us is None:
                self.tell(
                    "device_kept_after_pod",
                    one.job,
                    f"{pod} is gone from the API server since {GONE_LIMIT_US // 60_000_000} min, but the kubelet still "
                    "lists its devices: its run ends when it went. Restarting the kubelet frees them",
                )
            if one.facts is not None and one.facts.odd_plan:
                self.tell(
                    "plan_unknown",
                    one.job,
                    f"{pod} is tagged with plan {one.facts.odd_plan[:40]!r}: use reserved, on_demand, spot, internal "
                    "or trial",
                )

    def about_missing(
        self, pods: Mapping[Key, PodFacts], tracked: Iterable[Tracked], since_us: int, now_us: int
    ) -> None:
        """Pods of the API server that ask for GPUs and that the kubelet never listed with one. `since_us`: what ended
        before is another's to tell. Call only with a fresh answer of the API server."""
        here = {one.uid for one in tracked}
        self._seen_uids = (self._seen_uids | here) & {facts.uid for facts in pods.values()}
        for facts in pods.values():
            if not facts.asks_for_gpus or facts.uid in self._seen_uids:
                continue
            names = tuple(facts.containers)
            started_us, ended_us = facts.started_us(names), facts.finished_us(names)
            if started_us is None:
                continue
            if ended_us is not None:
                if ended_us >= since_us:
                    self.tell(
                        "run_without_devices",
                        facts.uid,
                        f"pod {facts.job} ran {(ended_us - started_us) // 1000} ms with GPUs and was over before the "
                        "kubelet was asked: which ones is not known, and nobody is billed. Ask more often",
                    )
            elif now_us - started_us > _NO_DEVICE_US:
                self.tell(
                    "devices_unknown",
                    facts.uid,
                    f"pod {facts.job} runs with a GPU limit, but the kubelet lists no device for it: check that its "
                    "device plugin runs, and the resource name in the watcher's settings",
                )

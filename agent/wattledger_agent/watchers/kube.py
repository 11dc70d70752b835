"""The Kubernetes watcher: the kubelet's list of held devices, joined with the API server's word on the pods.

Reads a socket and HTTPS; the rules are in the kube_* modules beside it.
"""

from collections.abc import Iterable, Mapping

import structlog

from wattledger_agent.watchers.kube_api import KubeApi, KubeApiError
from wattledger_agent.watchers.kube_book import PATIENCE_US, PodBook
from wattledger_agent.watchers.kube_claim import GPU_DRIVERS
from wattledger_agent.watchers.kube_device import parse_device_id
from wattledger_agent.watchers.kube_dra import ClaimReader
from wattledger_agent.watchers.kube_hold import PodHold
from wattledger_agent.watchers.kube_notice import Notices
from wattledger_agent.watchers.kube_pod import PodFacts, TagNames, parse_pod
from wattledger_agent.watchers.kube_podresources import PodResources
from wattledger_agent.watchers.kube_run import SOURCE, run_of
from wattledger_agent.watchers.kube_share import NodeShares, count_replicas, count_users, gpu_hold, pod_shares
from wattledger_agent.watchers.kube_tracked import ApiView, Tracked
from wattledger_agent.watchers.run import DeviceRef, Run, Sighting
from wattledger_agent.watchers.watcher import WatcherUnavailable

_SETTLE_US = 60_000_000
_REPLICAS_US = 60_000_000
_API_REASONS = (
    "api_forbidden", "api_unauthorized", "api_unreachable", "api_busy", "api_too_large", "api_bad_answer",
)  # fmt: skip
_NO_DRIVERS: frozenset[str] = frozenset()
_log = structlog.get_logger()


class KubernetesWatcher:
    """One run a pod that holds GPUs. Keeps the Watcher protocol; every sighting is a snapshot.

    A run is `namespace/name/uid`, from the first start of the containers that hold devices to the last's end. Without
    the API server it is `namespace/name/seen-<µs>`, from when it was first listed. A run that ended may come again,
    with `released_us`, when its devices come free later than it ended.

    `api`: None for none. `api_period_us`: how often it is asked while the kubelet's list stays the same.
    `reads_claims`: look up dynamic resource allocation; without it such devices are BY_UNKNOWN. `extra_resources`:
    resource names that are GPUs too. `replicas`: how many shares a resource has, where the kubelet does not tell.
    `since_us`: pods that ended before are no news (default: the first look). `recalled`: open runs told before a
    restart of the agent.
    """

    def __init__(
        self,
        cluster: str,
        node: str,
        kubelet: PodResources,
        api: KubeApi | None = None,
        *,
        tags: TagNames | None = None,
        api_period_us: int = 10_000_000,
        reads_claims: bool = False,
        drivers: frozenset[str] = GPU_DRIVERS,
        extra_resources: frozenset[str] = _NO_DRIVERS,
        replicas: Mapping[str, int] | None = None,
        shared_by: str = "time_sliced",
        since_us: int | None = None,
        recalled: Iterable[Run] = (),
    ) -> None:
        self._cluster, self._node = cluster, node
        self._kubelet, self._api = kubelet, api
        self._tags = tags or TagNames()
        self._api_period_us = api_period_us
        self._claims = ClaimReader(api, node, drivers) if api is not None and reads_claims else None
        self._drivers, self._extra = drivers, extra_resources
        self._fallback, self._shared_by = dict(replicas or {}), shared_by
        self._since_us = since_us
        self._book, self._notices = PodBook(recalled), Notices()
        self._pods: dict[tuple[str, str], PodFacts] = {}
        self._keys: list[tuple[str, str]] = []
        self._asked_us: int | None = None
        self._answered_us: int | None = None
        self._is_refused = self._has_failed = False
        self._replicas: dict[DeviceRef, int] = {}
        self._replicas_us: int | None = None
        self._kubelet_starts = 0
        self._unsettled_us: int | None = None
        self._restarts: dict[str, int] = {}
        self._reported_to_us = 0

    @property
    def name(self) -> str:
        return SOURCE

    def look(self, now_us: int) -> Sighting:
        """Raises WatcherUnavailable where the kubelet does not answer; without the API server it goes on, and says so
        in a finding."""
        holds = self._list(now_us)
        if self._answered_us is None:
            self._answered_us = now_us
        if self._since_us is None:
            self._since_us = now_us
        is_fresh = self._read_api(now_us, [hold.key for hold in holds])
        is_used = self._api is not None and not self._is_refused and now_us - self._answered_us <= PATIENCE_US
        view = ApiView(is_used, is_fresh, self._pods)
        is_settling = self._unsettled_us is not None and now_us - self._unsettled_us < _SETTLE_US
        running, changed = self._book.see(now_us, holds, view, is_settling)
        self._read_claims(holds, now_us)
        runs = self._runs(running, changed)
        self._tell(now_us, [*self._book.tracked, *changed], is_used, is_fresh)
        if (is_fresh or not is_used) and all(one.is_named or one.uid for one in self._book.tracked):
            self._reported_to_us = now_us
        return Sighting(
            at_us=now_us,
            runs=tuple(runs),
            is_snapshot=True,
            reported_to_us=self._reported_to_us,
            findings=self._notices.take(),
        )

    def owner_of(self, key: str) -> str:
        """Job of a pod UID or container id of this node, also of a pod that was given no device (it may use one all
        the same, where an image asks for all); empty: not known."""
        return next((facts.job for facts in self._pods.values() if key in facts.owner_keys), "")

    def close(self) -> None:
        self._kubelet.close()

    def _list(self, now_us: int) -> list[PodHold]:
        try:
            listed = self._kubelet.pods()
            found = [gpu_hold(one, self._drivers, self._extra) for one in listed]
            holds = [one for one in found if one is not None]
            self._count_replicas(holds, now_us)
        except WatcherUnavailable:
            self._unsettled_us = now_us
            raise
        if self._kubelet.restarts != self._kubelet_starts:
            self._kubelet_starts, self._unsettled_us = self._kubelet.restarts, now_us
        return holds

    def _count_replicas(self, holds: Iterable[PodHold], now_us: int) -> None:
        """Asks for all devices when a replica of one that is not counted yet is held, and now and then."""
        names = [parse_device_id(i) for hold in holds for c in hold.containers for d in c.devices for i in d.ids]
        shared = {one.ref for one in names if one.replica is not None}
        is_due = self._replicas_us is None or now_us - self._replicas_us >= _REPLICAS_US
        if shared and (is_due or shared - self._replicas.keys()):
            try:
                # A device that is not offered at this moment keeps its last count.
                self._replicas |= count_replicas(self._kubelet.allocatable())
            except WatcherUnavailable as error:
                self._notices.tell("allocatable_unread", "", f"{error}; shares of shared devices stay as last known")
            self._replicas_us = now_us

    def _read_api(self, now_us: int, keys: list[tuple[str, str]]) -> bool:
        """Whether the pods were read now. Asked at once when the kubelet's list names other pods than before."""
        if self._api is None:
            return False
        is_due = self._asked_us is None or now_us - self._asked_us >= self._api_period_us
        since = [
            one.first_us if one.missing_us is None else one.missing_us
            for one in self._book.tracked
            if not one.is_named or one.missing_us is not None
        ]
        is_waiting = any(now_us - at_us < PATIENCE_US for at_us in since)
        if not is_due and (self._has_failed or (sorted(keys) == self._keys and not is_waiting)):
            return False
        self._asked_us, self._keys = now_us, sorted(keys)
        try:
            pods: dict[tuple[str, str], PodFacts] = {}
            for item in self._api.pods(self._node):
                try:
                    facts = parse_pod(item, self._tags, self._extra)
                except ValueError as error:
                    self._notices.tell("bad_pod", str(error), f"API server's answer: {error}; it is left out")
                    continue
                pods[facts.namespace, facts.name] = facts
        except KubeApiError as error:
            self._is_refused, self._has_failed = error.is_refusal, True
            self._notices.tell(error.reason, "pods", f"{error}. Until then pods go by what was known last")
            return False
        self._notices.forget(*_API_REASONS)
        self._pods, self._answered_us = pods, now_us
        self._is_refused = self._has_failed = False
        return True

    def _read_claims(self, holds: Iterable[PodHold], now_us: int) -> None:
        if self._claims is None:
            return
        try:
            self._claims.read(holds, now_us)
        except KubeApiError as error:
            self._notices.tell(error.reason, "claims", f"{error}. Until then devices of new claims go to nobody")

    def _runs(self, running: list[Tracked], changed: list[Tracked]) -> list[Run]:
        node = NodeShares(
            self._replicas,
            self._fallback,
            self._claims.slices if self._claims is not None else {},
            self._claims.claims if self._claims is not None else {},
            count_users(one.hold for one in running),
            self._shared_by,
        )
        runs = []
        for one in (*running, *changed):
            shares = one.shares
            if shares is None or one.is_open:  # what an ended run held is what it held last
                own = one.hold if one.facts is None else one.facts
                one.shares = shares = pod_shares(one.hold, node, own.cpus, own.memory_bytes)
            for reason, subject, detail in shares.troubles:
                self._notices.tell(
                    reason, f"{one.job} {subject}", f"pod {one.hold.namespace}/{one.hold.name}: {detail}"
                )
            if shares.held:
                runs.append(run_of(one, shares, self._cluster))
        return runs

    def _tell(self, now_us: int, tracked: list[Tracked], is_used: bool, is_fresh: bool) -> None:
        self._notices.about_tracked(tracked, now_us, is_used)
        if is_fresh and self._since_us is not None:
            self._notices.about_missing(self._pods, tracked, self._since_us, now_us)
        restarts = {one.job: one.facts.restarts(one.hold.holders) for one in tracked if one.facts is not None}
        for job, count in restarts.items():
            if count > self._restarts.get(job, count):
                _log.info("kubernetes_container_restarted", job=job, restarts=count)
        self._restarts = restarts

"""Watches processes that use a device without a scheduler or a container: each is a run of its own."""

import pwd
from collections import Counter
from collections.abc import Callable

from wattledger_agent.watchers.cgroup_path import CONTAINER, KUBERNETES, SLURM
from wattledger_agent.watchers.process_cache import ProcessCache
from wattledger_agent.watchers.process_table import Process, ProcessTable
from wattledger_agent.watchers.process_use import FirstSeen, InUse, Place, SeenOnDevices, in_use, shared_evenly
from wattledger_agent.watchers.run import Finding, Run, Sighting
from wattledger_agent.watchers.tags import TagRule, Tags, accept_tags

SOURCE = "processes"
UNKNOWN_USER = "unknown"


def user_name(uid: int) -> str:
    """The login name, or `uid:1000` where this machine has none for it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


class ProcessWatcher:
    """Implements Watcher. A process that SLURM, Kubernetes or a container owns is none of its runs.

    A run lasts as long as its process, from when it was first seen on a device; `held` follows the devices that it is
    on. `cluster` names this machine, for a pid means nothing elsewhere. `looked_us` is when the agent last looked
    before it was started again, None: never.
    """

    name = SOURCE

    def __init__(
        self,
        seen: SeenOnDevices,
        table: ProcessTable,
        cluster: str,
        rule: TagRule | None = None,
        looked_us: int | None = None,
        name_of: Callable[[int], str] = user_name,
    ) -> None:
        self._seen = seen
        self._table = table
        self._processes = ProcessCache(table)
        self._cluster = cluster
        self._rule = rule or TagRule()
        self._name_of = name_of
        self._first_seen = FirstSeen(looked_us)
        self._boot = table.boot_id()[:8]
        self._known: dict[str, Process] = {}
        self._tags: dict[str, Tags] = {}
        self._users: dict[int, str] = {}

    def look(self, now_us: int) -> Sighting:
        """Every process of its own that was on a device and still lives: a snapshot."""
        uses = {use.process.key: use for use in in_use(self._seen(), self._processes, now_us) if _is_plain(use.process)}
        for key, process in list(self._known.items()):
            if key not in uses and self._table.start_ticks(process.pid) == process.start_ticks:
                uses[key] = InUse(process, ())
        counts = Counter(place for use in uses.values() for place in use.places)
        findings: list[Finding] = []
        runs = tuple(self._run(use, counts, findings, now_us) for _, use in sorted(uses.items()))
        self._known = {key: use.process for key, use in uses.items()}
        self._tags = {key: self._tags[key] for key in uses}
        self._first_seen.looked(now_us, uses)
        return Sighting(now_us, runs, True, now_us, tuple(findings))

    def close(self) -> None:
        """Nothing is kept open."""

    def _run(self, use: InUse, counts: dict[Place, int], findings: list[Finding], now_us: int) -> Run:
        process = use.process
        user = UNKNOWN_USER if process.uid is None else self._user(process.uid)
        if process.key not in self._tags:
            tags = accept_tags(SOURCE, f"process {process.pid}", process.uid, dict(process.tags), self._rule)
            self._tags[process.key] = tags
            findings += tags.findings
        tags = self._tags[process.key]
        uid = UNKNOWN_USER if process.uid is None else str(process.uid)
        boot = f"@{self._boot}" if self._boot else ""
        return Run(
            SOURCE, self._cluster, f"{uid}/{process.key}{boot}", 0,
            self._first_seen.since_us(process.key, process.started_us, now_us), shared_evenly(use.places, counts),
            tenant=tags.tenant or user, user=user, model_tag=tags.model, owner_keys=(process.key,),
        )  # fmt: skip

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            self._users[uid] = self._name_of(uid)
        return self._users[uid]


def _is_plain(process: Process) -> bool:
    """No scheduler's, no container's, no MPS server (its clients use the device), and known not to be."""
    owned = process.owner.kind in (SLURM, KUBERNETES, CONTAINER)
    return not owned and not process.is_mps_server and not process.why_unread("cgroup")

"""Watches containers that use a device without a scheduler (docker, podman, containerd, LXC): each is a run."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from wattledger_agent.watchers.cgroup import CgroupTree
from wattledger_agent.watchers.cgroup_path import CONTAINER
from wattledger_agent.watchers.process import UNKNOWN_USER, user_name
from wattledger_agent.watchers.process_cache import ProcessCache
from wattledger_agent.watchers.process_table import Process, ProcessTable
from wattledger_agent.watchers.process_use import FirstSeen, Place, SeenOnDevices, in_use, shared_evenly
from wattledger_agent.watchers.run import Finding, Run, Sighting
from wattledger_agent.watchers.tags import TagRule, Tags, accept_tags

SOURCE = "containers"


@dataclass(frozen=True, slots=True)
class _Container:
    """`first` is the oldest of its processes that was seen on a device."""

    first: Process
    places: frozenset[Place]


class ContainerWatcher:
    """Implements Watcher. A container of a pod or of a SLURM job is none of its runs.

    What a container was given is known to its engine only; here it holds the devices that its processes are on. A run
    lasts as long as the container has processes, which the cgroup tree tells; where that can't be read, as long as the
    process that was seen first. Tags come from that process's environment.
    """

    name = SOURCE

    def __init__(
        self,
        seen: SeenOnDevices,
        table: ProcessTable,
        cluster: str,
        rule: TagRule | None = None,
        cgroups: CgroupTree | None = None,
        looked_us: int | None = None,
        name_of: Callable[[int], str] = user_name,
    ) -> None:
        self._seen = seen
        self._table = table
        self._processes = ProcessCache(table)
        self._cluster = cluster
        self._rule = rule or TagRule()
        self._cgroups = cgroups or CgroupTree()
        self._name_of = name_of
        self._first_seen = FirstSeen(looked_us)
        self._known: dict[str, _Container] = {}
        self._tags: dict[str, Tags] = {}

    def look(self, now_us: int) -> Sighting:
        """Every container that was on a device and still lives: a snapshot."""
        found = self._on_devices(now_us)
        for key, known in self._known.items():
            if key in found:
                oldest = min(known.first, found[key].first, key=lambda p: (p.start_ticks, p.pid))
                found[key] = _Container(oldest, found[key].places)
            elif self._lives(key, known):
                found[key] = _Container(known.first, frozenset())
        counts = Counter(place for container in found.values() for place in container.places)
        findings: list[Finding] = []
        runs = tuple(self._run(key, container, counts, findings, now_us) for key, container in sorted(found.items()))
        self._known = found
        self._tags = {key: self._tags[key] for key in found}
        self._first_seen.looked(now_us, found)
        return Sighting(now_us, runs, True, now_us, tuple(findings))

    def close(self) -> None:
        """Nothing is kept open."""

    def _on_devices(self, now_us: int) -> dict[str, _Container]:
        found: dict[str, _Container] = {}
        for use in in_use(self._seen(), self._processes, now_us):
            if use.process.owner.kind == CONTAINER:
                # of containers in a container the outer one was given the device
                key = use.process.owner.keys[-1]
                known = found.get(key, _Container(use.process, frozenset()))
                first = min(known.first, use.process, key=lambda p: (p.start_ticks, p.pid))
                found[key] = _Container(first, known.places | frozenset(use.places))
        return found

    def _lives(self, key: str, container: _Container) -> bool:
        told = self._cgroups.is_populated(container.first.owner, key)
        if told is not None:
            return told
        return self._table.start_ticks(container.first.pid) == container.first.start_ticks

    def _run(
        self, key: str, container: _Container, counts: dict[Place, int], findings: list[Finding], now_us: int
    ) -> Run:
        first = container.first
        user = UNKNOWN_USER if first.uid is None else self._name_of(first.uid)
        if key not in self._tags:
            self._tags[key] = accept_tags(SOURCE, f"container {key}", first.uid, dict(first.tags), self._rule)
            findings += self._tags[key].findings
        tags = self._tags[key]
        return Run(
            SOURCE, self._cluster, key, 0, self._first_seen.since_us(key, first.started_us, now_us),
            shared_evenly(container.places, counts), tenant=tags.tenant or user, user=user, model_tag=tags.model,
            owner_keys=(key,),
        )  # fmt: skip

"""Walks the cgroup tree of either layout for jobs and containers that live there. Reads directories and pid lists."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wattledger_agent.watchers.cgroup_path import CONTAINER, KUBERNETES, SLURM, Owner, owner_of_path

_PREFERRED_V1 = ("devices", "memory", "freezer", "cpuset", "cpu,cpuacct", "cpu", "pids")
_MOST_DIRECTORIES = 20_000
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class LiveCgroup:
    """A directory that stands for a job or a container. `is_populated`: a process lives in it or below; one that is
    left over after its job's end has none, and says nothing about who holds what."""

    owner: Owner
    is_populated: bool


class CgroupTree:
    """The tree mounted at `root`."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._root = root

    @property
    def is_unified(self) -> bool:
        """Whether v2 is mounted here (hybrid machines have it beside v1, at `unified`, without the device rules)."""
        return (self._root / "cgroup.controllers").is_file()

    def owners(self) -> tuple[LiveCgroup, ...]:
        """Jobs and containers in the tree, by path. Of nested ones the outermost of each job or pod and container."""
        found: dict[tuple[str, ...], LiveCgroup] = {}
        for hierarchy, base in self._bases():
            for path in _directories(base):
                owner = owner_of_path("/" + path.relative_to(base).as_posix(), hierarchy)
                if owner.kind not in (SLURM, KUBERNETES, CONTAINER):
                    continue
                known = found.get(owner.keys)
                if known is None or (not known.is_populated and known.owner.hierarchy != hierarchy):
                    found[owner.keys] = LiveCgroup(owner, _is_populated(path))
        return tuple(sorted(found.values(), key=lambda cgroup: cgroup.owner.path))

    def is_populated(self, owner: Owner, key: str) -> bool | None:
        """Whether the directory that `key` of the owner stands for still has a process; None: it can't be told here."""
        if not self._root.is_dir() or "/../" in owner.path:
            return None
        elements = owner.path.split("/")
        ends = [n for n in range(len(elements)) if key in owner_of_path("/".join(elements[: n + 1])).keys]
        path = "/".join(elements[: ends[0] + 1] if ends else elements).strip("/")
        bases = [base for hierarchy, base in self._bases() if hierarchy == owner.hierarchy] or [self._root]
        return any(_is_populated(base / path) for base in bases)

    def _bases(self) -> list[tuple[str, Path]]:
        """Hierarchies to look into: the unified one, else those of v1 that schedulers use."""
        if self.is_unified:
            return [("", self._root)]
        return [(name, self._root / name) for name in _PREFERRED_V1 if (self._root / name).is_dir()]


def _directories(base: Path) -> Iterator[Path]:
    """Directories below, nearest first, in order of their names; links are not followed and the walk is bounded."""
    level, count = [base], 0
    for _ in range(_DEEPEST):
        below: list[Path] = []
        for path in level:
            try:
                with os.scandir(path) as entries:
                    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError:
                continue
            below += [path / name for name in names]
        for path in below:
            count += 1
            if count > _MOST_DIRECTORIES:
                return
            yield path
        level = below


def _is_populated(path: Path) -> bool:
    """v2 says so in `cgroup.events`; v1 has to be asked for pids, here and below."""
    try:
        return "populated 1" in (path / "cgroup.events").read_text().splitlines()
    except OSError:
        pass
    return any(_has_pids(place) for place in (path, *_directories(path)))


def _has_pids(path: Path) -> bool:
    try:
        return bool((path / "cgroup.procs").read_text().strip())
    except OSError:
        return False

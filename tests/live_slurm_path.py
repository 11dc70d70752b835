"""A node of SLURM as its watcher sees it: a drop folder, files that a site's jobs write, and eight cards."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattledger_agent.probes.device import Inventory
from wattledger_agent.watchers.slurm import SlurmReader, SlurmWatcher
from wattledger_agent.watchers.slurm_files import SlurmFiles
from wattledger_agent.watchers.slurm_folder import DropFolder
from wattledger_agent.watchers.slurm_site import SlurmSite

from tests.live_path import LivePath, S, cards
from tests.slurm_watch_case import T0, drop_text, put_drop

GPUS = [f"GPU-{n}0000000-0000-0000-0000-000000000000" for n in range(8)]
LOOK_S = 7200
Span = tuple[str, int, float, float | None]
"""Job, attempt, start and end in seconds from T0."""


class SlurmPath(LivePath):
    """Node gpu01 of cluster alpha with eight cards, a drop folder and a folder of files that a site's jobs write."""

    def __init__(
        self,
        folder: Path,
        is_snapshot: bool = False,
        booted_s: int | None = None,
        has_files: bool = True,
        inventory: Inventory | None = None,
        **site: Any,
    ) -> None:
        self.drops, self.files = folder / "drops", folder / "files"
        self.drops.mkdir(mode=0o700)
        self.files.mkdir()
        made = SlurmSite("gpu01", cluster="alpha", **site)
        owner = frozenset({os.geteuid()})
        readers: list[SlurmReader] = [SlurmFiles([f"{self.files}/*"], made, is_snapshot)] if has_files else []
        booted_us = None if booted_s is None else (T0 + booted_s) * S
        watcher = SlurmWatcher(made, readers, DropFolder(self.drops, made, owner), booted_us=booted_us)
        super().__init__(folder / "log", inventory or cards(*GPUS), watcher, node="gpu01", base_us=T0 * S)

    def write(self, data: bytes | str, at_s: float = LOOK_S - 60, name: str = "told") -> "SlurmPath":
        """A file of the site as it was written at a time."""
        path = self.files / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        os.utime(path, (T0 + at_s,) * 2)
        return self

    def prolog(
        self,
        at_s: float,
        job: str = "123",
        restarts: int = 0,
        gpus: str = "0,1",
        values: Mapping[str, str] | None = None,
    ) -> None:
        """A record of a start. `gpus` is SLURM_JOB_GPUS, `-`: there is none."""
        told = {"SLURM_JOB_GPUS": gpus, "SLURM_JOB_START_TIME": f"{T0 + int(at_s)}", **(values or {})}
        self._drop("prolog", at_s, job, restarts, told)

    def epilog(self, at_s: float, job: str = "123", restarts: int = 0, gpus: str = "0,1", started_s: int = 60) -> None:
        told = {"SLURM_JOB_GPUS": gpus, "SLURM_JOB_START_TIME": f"{T0 + started_s}"}
        self._drop("epilog", at_s, job, restarts, told)

    def _drop(self, kind: str, at_s: float, job: str, restarts: int, values: Mapping[str, str]) -> None:
        at_ns = f"{T0 * 10**9 + round(at_s * 10**9)}"
        put_drop(self.drops, drop_text(kind, at_ns, SLURM_JOB_ID=job, SLURM_JOB_RESTART_COUNT=f"{restarts}", **values))

    def spans(self) -> list[Span]:
        """Job, attempt, start and end of each run, as its events say; claims or not."""
        found: dict[tuple[str, int], list[float | None]] = {}
        for event in self.events():
            at_s = (event["at_us"] - T0 * S) / S
            span = found.setdefault((event["job"], event["attempt"]), [None, None])
            if event["kind"] == "start":
                span[0] = at_s
            elif event["kind"] in ("end", "requeue"):
                span[1] = at_s
        return [(*key, start or 0, end) for key, (start, end) in found.items()]

    def unknown_gpus(self) -> int:
        """How many GPUs are held of which nothing says which they are."""
        return self.reasons().count("device_unknown_space")

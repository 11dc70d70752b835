"""Facts about one job of two GPUs, as a test changes them, and the runs that a watcher makes of them."""

from dataclasses import replace

from wattledger_agent.watchers.run import BY_MINOR, BY_UUID, DeviceRef, Held, Run
from wattledger_agent.watchers.slurm_fact import ACCOUNTING, EPILOG, LIVE, PROLOG, Fact
from wattledger_agent.watchers.slurm_site import SlurmSite

from tests.slurm_watch_case import NOW_US, SITE, T0, S, Told, watch

STAMP = (T0 + 60) * S
GPU0, GPU1 = Held(DeviceRef(BY_MINOR, "0")), Held(DeviceRef(BY_MINOR, "1"))
UUIDS = (Held(DeviceRef(BY_UUID, "GPU-a")), Held(DeviceRef(BY_UUID, "GPU-b")))


def prolog(at_us: int = STAMP + 200_000, **changed: object) -> Fact:
    usual = Fact(
        PROLOG, "123", at_us, "alpha", attempt=0, start_us=STAMP, held=(GPU0, GPU1), account="acme", user="ann",
        file="prolog-123-0-1",
    )  # fmt: skip
    return replace(usual, **changed)  # type: ignore[arg-type]


def epilog(at_us: int = STAMP + 3_600_700_000, **changed: object) -> Fact:
    return prolog(at_us, **{"kind": EPILOG, "file": "epilog-123-0-2", **changed})


def accounted(**changed: object) -> Fact:
    usual = Fact(
        ACCOUNTING, "123", NOW_US, "alpha", attempt=0, start_us=STAMP, end_us=STAMP + 3600 * S, state="COMPLETED",
        gpus=2, cpus=8, memory_bytes=64, account="acme", user="ann", plan="spot",
    )  # fmt: skip
    return replace(usual, **changed)  # type: ignore[arg-type]


def live(**changed: object) -> Fact:
    usual = Fact(
        LIVE, "123", NOW_US, attempt=0, start_us=STAMP, state="RUNNING", held=(GPU0, GPU1), gpus=2, cpus=8,
        account="acme", user="ann",
    )  # fmt: skip
    return replace(usual, **changed)  # type: ignore[arg-type]


def seen(*facts: Fact, site: SlurmSite = SITE, now_us: int = NOW_US) -> tuple[Run, ...]:
    """The runs of one look at all these facts."""
    told = Told()
    told.tell(*facts)
    return watch(told, site=site).look(now_us).runs


def seen_one(*facts: Fact, site: SlurmSite = SITE) -> Run:
    (run,) = seen(*facts, site=site)
    return run

"""One run out of all that was said of it: which source is believed for what. Pure; knows no other runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wattledger_agent.watchers.run import BY_MIG_UUID, BY_UNKNOWN, BY_UUID, DeviceRef, Held, Run
from wattledger_agent.watchers.slurm_device import mig_profile, spread, unknown_devices
from wattledger_agent.watchers.slurm_fact import ACCOUNTING, EPILOG, LIVE, PROLOG, SOURCE, Fact
from wattledger_agent.watchers.slurm_state import OPEN
from wattledger_agent.watchers.slurm_time import US_PER_S

Facts = Mapping[str, Fact]
"""The newest fact of each kind."""
NEAR_US = 2 * US_PER_S
"""A stamp of whole seconds and an event seen on the node within this are the same moment."""
_ORDER = (EPILOG, PROLOG, ACCOUNTING, LIVE)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the other runs say about one: `started_us` as it was reported before, `closed_us` when something else
    shows that it had ended (its node restarted, its next attempt began, it is gone from the controller)."""

    started_us: int | None = None
    closed_us: int | None = None


def stamp_us(facts: Facts) -> int | None:
    """The scheduler's start, whole seconds; a resize makes later ones, so it is the earliest."""
    stamps = [fact.start_us for fact in facts.values() if fact.start_us is not None]
    return min(stamps, default=None)


def begun_us(facts: Facts) -> int | None:
    """When it got its devices. The prolog's time is exact; one that came later than a second after the scheduler's
    stamp was late (by default it runs at the first step), and the devices were held before."""
    stamp, prolog = stamp_us(facts), facts.get(PROLOG)
    if prolog is None:
        return stamp
    return prolog.at_us if stamp is None or prolog.at_us < stamp + US_PER_S else stamp


def ended_us(facts: Facts) -> tuple[int | None, int | None]:
    """When the job ended and, if that was later, when its devices were free. The epilog's time is the node's own and
    exact; accounting's end is when the job's work was over."""
    epilog = facts.get(EPILOG)
    stamps = [facts[kind].end_us for kind in (ACCOUNTING, LIVE) if kind in facts]
    stamp = next((end for end in stamps if end is not None), None)
    accounting = facts.get(ACCOUNTING)
    if epilog is None:
        waits_for_epilog = PROLOG in facts and accounting is not None and accounting.is_of_no_length
        return (None if waits_for_epilog else stamp), None
    if stamp is None:
        stamp = next((fact.stop_us for fact in facts.values() if fact.stop_us is not None), None)
    if stamp is None or epilog.at_us < stamp + NEAR_US:
        return epilog.at_us, None
    return stamp, epilog.at_us


def held_of(facts: Facts) -> tuple[Held, ...]:
    """What it holds here: UUIDs before positions, what the node saw before what the controller says, unless that is
    newer and of another size (a resize). Shares of cards that the node named by UUID are the controller's, for both
    go by position. A count alone stands for so many unknown devices; nothing said, for one."""
    drop = next((facts[kind] for kind in (EPILOG, PROLOG) if kind in facts and facts[kind].held), None)
    drop = drop or next((facts[kind] for kind in (EPILOG, PROLOG) if kind in facts), None)
    live = facts.get(LIVE)
    seen, said = (drop.held or () if drop else ()), live.held if live else None
    counted = [facts[kind] for kind in (LIVE, ACCOUNTING) if kind in facts]
    kind = next((fact.gpu_kind for fact in counted if fact.gpu_kind), "")
    count = next((fact.gpus for fact in counted if fact.gpus is not None), None)
    is_resized = bool(seen and said and live and drop and EPILOG not in facts and live.at_us > drop.at_us) and (
        len(seen) != len(said or ())
    )
    if seen and not is_resized and all(one.ref.by in (BY_UUID, BY_MIG_UUID) for one in seen):
        is_shared = said is not None and _tells_more(said) and len(said) == len(seen)
        pairs = zip(seen, said or (), strict=False)
        return tuple(replace(part, ref=one.ref) for one, part in pairs) if is_shared else seen
    if said and (is_resized or not seen or _tells_more(said) or mig_profile(kind)):
        return said
    if seen and mig_profile(kind):
        return tuple(Held(DeviceRef(BY_UNKNOWN, f"gres:{kind}#{one.ref.value}")) for one in seen)
    if seen or (said is not None and not count):
        return seen or said or ()
    if count is not None:
        return unknown_devices(count, kind)
    return () if drop is not None and not counted else unknown_devices(1, kind)


def compose(facts: Facts, job: str, attempt: int, cluster: str, bounds: Bounds) -> Run | None:
    """The run, None while nothing says when it began."""
    started = bounds.started_us if bounds.started_us is not None else begun_us(facts)
    if started is None:
        return None
    ended, released = ended_us(facts)
    ended = bounds.closed_us if ended is None else ended
    ended = None if ended is None else max(ended, started)
    stop = next((fact.stop_us for fact in facts.values() if fact.stop_us is not None), None) if ended is None else None
    account, tenant = _first(facts, "account"), _first(facts, "tenant_tag")
    views = [facts[kind] for kind in (LIVE, ACCOUNTING) if kind in facts]
    newest = max(views, key=lambda fact: fact.at_us, default=None)
    state = next((fact.state for fact in reversed(views) if fact.state and fact.state not in OPEN), "")
    sluids = sorted({fact.sluid for fact in facts.values() if fact.sluid})
    cpus = next((fact.cpus for fact in facts.values() if fact.cpus is not None), None)
    memory = next((fact.memory_bytes for fact in facts.values() if fact.memory_bytes is not None), None)
    return Run(
        SOURCE, cluster, job, attempt, started,
        held=spread(held_of(facts), cpus, memory),
        ended_us=ended,
        stop_requested_us=stop,
        released_us=released if released is None or ended is None or released > ended else None,
        is_suspended=ended is None and newest is not None and newest.state == "SUSPENDED",
        outcome=state if ended is not None else "",
        tenant=tenant or account,
        project=account,
        user=_first(facts, "user"),
        model_tag=_first(facts, "model_tag"),
        plan=_first(facts, "plan"),
        requested_profile=_first(facts, "requested_profile"),
        exclusive=any(fact.exclusive for fact in facts.values()),
        owner_keys=(f"job_{job}", *sluids),
    )  # fmt: skip


def _tells_more(held: tuple[Held, ...]) -> bool:
    return any(one.share_den is not None or one.sharing != "exclusive" for one in held)


def _first(facts: Facts, name: str) -> str:
    """The first text, by who is believed first: what the node saw, then accounting, then the controller."""
    texts = (getattr(facts[kind], name) for kind in _ORDER if kind in facts)
    return next((text for text in texts if text), "")

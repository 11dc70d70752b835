"""A tracked pod as a run. Pure."""

from wattledger_agent.watchers.kube_pod import PodFacts
from wattledger_agent.watchers.kube_share import PodShares
from wattledger_agent.watchers.kube_tracked import Tracked
from wattledger_agent.watchers.run import Run

SOURCE = "kubernetes"


def run_of(one: Tracked, shares: PodShares, cluster: str) -> Run:
    """Needs a named pod. A container that restarts leaves the run as it is: the pod holds its devices throughout."""
    facts: PodFacts | None = one.facts
    started_us = one.started_us or 0
    stop_us = facts.stop_requested_us if facts is not None else None
    stop_us = one.gone_us if stop_us is None else stop_us
    if stop_us is not None and not started_us <= stop_us < (one.ended_us or stop_us + 1):
        stop_us = None  # it had ended by itself, and was cleared away later
    return Run(
        source=SOURCE,
        cluster=cluster,
        job=one.job,
        attempt=0,
        started_us=started_us,
        held=shares.held,
        ended_us=one.ended_us,
        stop_requested_us=stop_us,
        released_us=one.released_us,
        outcome=facts.outcome if facts is not None and one.ended_us is not None else "",
        tenant=facts.tenant if facts is not None else one.hold.namespace,
        project=facts.project if facts is not None else one.hold.namespace,
        user=facts.user if facts is not None else "",
        model_tag=facts.model_tag if facts is not None else "",
        plan=facts.plan if facts is not None else "",
        requested_profile=shares.requested_profile,
        owner_keys=tuple(one.owner_keys),
    )

"""Runs from kube-state-metrics' facts: a container holds its GPUs while its pod runs, no longer and no shorter.

Where no phase of a pod is told, what it asked for counts as held all the time that it asked (`phase_not_told`)."""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from math import ceil

from wattledger_core.interval import Interval, clip, overlap

from wattledger_audit.intake.kube_facts import INIT_LIMITS, INIT_REQUESTS, LIMITS, REQUESTS, ClaimKey, KubeFacts
from wattledger_audit.intake.kube_pod import Life, end_state, lives, terminated, was_pending, whose
from wattledger_audit.intake.kube_series import Span
from wattledger_audit.intake.kube_share import share_on_node
from wattledger_audit.intake.mig_profile import GpuResource, gpu_resource
from wattledger_audit.intake.record import UsageRun
from wattledger_audit.intake.usage_words import plan_of

_MODEL_LABELS = ("wattledger_model", "model")
_PLAN_LABELS = ("wattledger_plan", "plan")
_CORES = ("nvidia_com_gpucores", "nvidia.com/gpucores")


def claimed_runs(facts: KubeFacts, step_us: int) -> Iterator[UsageRun]:
    """The runs of every GPU claim, by cluster, namespace, pod and container; a pod that only waited has no start."""
    for metric, key in _claims(facts):
        resource = gpu_resource(key.resource)
        assert resource is not None  # _claims gives GPUs only
        yield from _runs_of(facts, metric, key, resource, step_us)


def _claims(facts: KubeFacts) -> list[tuple[str, ClaimKey]]:
    """Each GPU claim once: requests, or limits where there are none; an init container that holds beside the others
    (a native sidecar) or that is the only one to ask."""
    found: dict[ClaimKey, str] = {}
    for metric in (REQUESTS, LIMITS):
        for key in facts.claims[metric].about():
            if gpu_resource(key.resource):
                found.setdefault(key, metric)
    holders = {(key.pod, key.resource) for key in found}
    for metric in (INIT_REQUESTS, INIT_LIMITS):
        for key in facts.claims[metric].about():
            sidecar = any((pod, key.container) in facts.restartable_init for pod in facts.same_pods(key.pod))
            if gpu_resource(key.resource) and (sidecar or (key.pod, key.resource) not in holders):
                found.setdefault(key, metric)
    placed = {(key.pod, key.container, key.resource) for key in found if key.node}
    return sorted(
        (metric, key)
        for key, metric in found.items()
        if key.node or (key.pod, key.container, key.resource) not in placed  # without a node it was yet to be placed
    )


def _runs_of(facts: KubeFacts, metric: str, key: ClaimKey, resource: GpuResource, step_us: int) -> Iterator[UsageRun]:
    asked = [span for span in facts.claims[metric].spans(key, step_us) if span.value > 0]
    down = terminated(facts, key.pod, key.container, step_us)
    for life in lives(facts, key.pod, key.container, step_us):
        parts = _held(asked, life, down)
        if not parts:
            waiting = clip([(span.start_us, span.end_us) for span in asked], *life.bounds)
            if waiting and was_pending(facts, key.pod, step_us):
                yield _run(facts, key, resource, life, asked[0].value, None, waiting[0][0], "PENDING", step_us)
            continue
        open_at_end = parts[-1].end_us > facts.last_us()
        state = end_state(facts, key.pod, key.container, open_at_end, step_us)
        for part in parts:
            held = (part.start_us, part.end_us)
            yield _run(facts, key, resource, life, part.value, held, life.submit_us, state, step_us)


def _held(asked: list[Span], life: Life, down: list[Interval]) -> list[Span]:
    """The claim's spans while the pod ran, without the times when the container was down."""
    held: list[Span] = []
    for span in asked:
        parts = clip([(span.start_us, span.end_us)], *life.bounds)
        if life.running is not None:
            parts = [both for part in parts for run in life.running if (both := overlap(*part, *run))]
        held += [Span(a_us, b_us, span.value) for part in parts for a_us, b_us in _without(part, down)]
    return held


def _without(part: Interval, holes: list[Interval]) -> list[Interval]:
    left, at_us = [], part[0]
    for start_us, end_us in holes:
        if start_us < part[1] and end_us > at_us:
            left.append((at_us, start_us))
            at_us = end_us
    left.append((at_us, part[1]))
    return [(a_us, b_us) for a_us, b_us in left if a_us < b_us]


def _run(
    facts: KubeFacts, key: ClaimKey, resource: GpuResource, life: Life, count: Decimal, held: Interval | None,
    submit_us: int | None, state: str, step_us: int,
) -> UsageRun:  # fmt: skip
    pod = key.pod
    tenant, project, labels = whose(facts, pod)
    plan = plan_of(next((labels[name] for name in _PLAN_LABELS if name in labels), ""))
    node = share_on_node(
        key.resource, resource, facts.node_labels.get((pod.cluster, key.node), {}), _beside(facts, key, _CORES, step_us)
    )
    gpus, share = Fraction(count), node.share
    if gpus.denominator > 1:
        gpus, share = Fraction(gpus.numerator), share / gpus.denominator
    told = (("plan_unknown", plan is None), ("phase_not_told", life.running is None))
    marks = (*node.marks, *(mark for mark, odd in told if odd))
    return UsageRun(
        line=facts.place_of[key], cluster=pod.cluster, job=f"{pod.namespace}/{pod.pod}", attempt=0,
        run_key=f"{life.key}|{key.container}|{key.resource}|{key.node}|{count.normalize():f}",
        tenant=tenant, project=project, user="",
        model_tag=next((labels[name] for name in _MODEL_LABELS if name in labels), ""),
        plan="on_demand" if plan is None else plan, partition="", sku="",
        nodes=(key.node,) if key.node else (), device="",
        gpu_model=node.gpu_model, gpus=int(gpus), share_num=share.numerator, share_den=share.denominator,
        submit_us=submit_us, eligible_us=None, start_us=held and held[0], end_us=held and held[1], suspended_us=0,
        state=state, tokens=None, exclusive=False, cpus=_beside(facts, key, ("cpu",), step_us),
        memory_bytes=_beside(facts, key, ("memory",), step_us), limit_us=None, waits_for="", marks=marks,
    )  # fmt: skip


def _beside(facts: KubeFacts, key: ClaimKey, resources: tuple[str, ...], step_us: int) -> int | None:
    """What the same container asks of another resource, rounded up to whole ones; None: it is not told."""
    for resource in resources:
        for metric in (REQUESTS, LIMITS, INIT_REQUESTS):
            spans = facts.claims[metric].spans(key._replace(resource=resource), step_us)
            if spans:
                return ceil(spans[0].value)
    return None

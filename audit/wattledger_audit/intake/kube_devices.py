"""Which pod held which device, from GPU exporters' series that carry pod names: their being there is what counts.

Used for pods of which no request is told. Values are not read; absence of a series is no idleness, only no news.
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from wattledger_audit.intake.kube_facts import KubeFacts, PodKey
from wattledger_audit.intake.kube_pod import whose
from wattledger_audit.intake.kube_series import Span, SpanStore
from wattledger_audit.intake.mig_profile import mig_share
from wattledger_audit.intake.prometheus_range import Series
from wattledger_audit.intake.record import UsageRun

PREFIX = "DCGM_FI_"
_HERE = Decimal(1)


class HoldKey(NamedTuple):
    """One pod's container on one device, or on one MIG instance of it."""

    pod: PodKey
    container: str
    node: str
    device: str
    instance: str


class HeldDevices:
    """Collects exporter series; `runs` once all are in."""

    def __init__(self, facts: KubeFacts) -> None:
        self._facts = facts
        self._store: SpanStore[HoldKey] = SpanStore()
        self._about: dict[HoldKey, tuple[int, str, str]] = {}
        self._named_by_exporter = False

    def add(self, series: Series) -> bool:
        """Takes in a series of a device; False: it names no pod, or is of another metric."""
        labels = series.labels
        if not labels.get("__name__", "").startswith(PREFIX) or "UUID" not in labels:
            return False
        if "exported_pod" in labels:
            self._named_by_exporter = True
        named = labels.get("exported_pod") or labels.get("pod", "")
        if not named:
            return False
        words = {key: labels.get(f"exported_{key}") or labels.get(key, "") for key in ("namespace", "pod", "container")}
        cluster = {"cluster": labels["cluster"]} if "cluster" in labels else {}
        pod = self._facts.pod_key({**words, **cluster, "uid": labels.get("pod_uid", "")})
        node = labels.get("Hostname") or labels.get("hostname") or labels.get("node", "")
        key = HoldKey(pod, words["container"], node, labels["UUID"].partition("::")[0], labels.get("GPU_I_ID", ""))
        self._store.add(key, [(at_us, _HERE) for at_us, _ in series.samples], series.step_us)
        if "exported_pod" in labels or key not in self._about:
            own = "exported" if "exported_pod" in labels else ""
            about = f"{labels.get('modelName', '')}\0{labels.get('GPU_I_PROFILE', '')}"
            self._about[key] = (series.place, about, own)
        return True

    def runs(self, fallback_step_us: int | None) -> Iterator[UsageRun]:
        """One run a stretch of time, by cluster, pod and device. Several pods on one device at once share it alike, for
        as long as they are several."""
        step_us = fallback_step_us or self._store.single_step_us()
        asked = {
            (key.pod.cluster, key.pod.namespace, key.pod.pod) for s in self._facts.claims.values() for key in s.about()
        }
        spans = {
            key: self._store.spans(key, step_us or 0)
            for key in sorted(self._store.about())
            if key.pod[:3] not in asked and (not self._named_by_exporter or self._about[key][2])
        }
        holders: dict[tuple[str, str], list[list[Span]]] = {}
        for key, held in spans.items():
            holders.setdefault((key.device, key.instance), []).append(held)
        for key, held in spans.items():
            others = holders[key.device, key.instance]
            for span in held:
                for part, together in _by_number(span, others):
                    yield self._run(key, part, together)

    def _run(self, key: HoldKey, span: Span, together: int) -> UsageRun:
        place, about, _ = self._about[key]
        model, _, profile = about.partition("\0")
        marks = []
        share = Fraction(1)
        if key.instance:
            found = mig_share(profile, model)
            share = Fraction(found.slices, found.of) if found else share
            marks += [] if found else ["share_unknown"]
        if together > 1:
            share /= together
            marks.append("share_from_concurrency")
        tenant, project, _ = whose(self._facts, key.pod)
        return UsageRun(
            line=place, cluster=key.pod.cluster, job=f"{key.pod.namespace}/{key.pod.pod}", attempt=0,
            run_key=f"{key.pod.uid}|{key.container}|{key.node}|{key.device}|{key.instance}|{together}",
            tenant=tenant, project=project, user="", model_tag="", plan="", partition="", sku="",
            nodes=(key.node,) if key.node else (), device=key.device, gpu_model=model, gpus=1,
            share_num=share.numerator, share_den=share.denominator, submit_us=None, eligible_us=None,
            start_us=span.start_us, end_us=span.end_us, suspended_us=0, state="", tokens=None, exclusive=False,
            cpus=None, memory_bytes=None, limit_us=None, waits_for="", marks=tuple(marks),
        )  # fmt: skip


def _by_number(span: Span, holders: list[list[Span]]) -> list[tuple[Span, int]]:
    """The parts of a span by how many held the device in them, itself included."""
    near = [one for spans in holders for one in spans if one.start_us < span.end_us and one.end_us > span.start_us]
    cuts = {at for one in near for at in (one.start_us, one.end_us) if span.start_us < at < span.end_us}
    parts: list[tuple[Span, int]] = []
    for a_us, b_us in pairwise(sorted({span.start_us, span.end_us, *cuts})):
        together = sum(one.start_us <= a_us and one.end_us >= b_us for one in near)
        if parts and parts[-1][1] == together:
            parts[-1] = (parts[-1][0]._replace(end_us=b_us), together)
        else:
            parts.append((span._replace(start_us=a_us, end_us=b_us), together))
    return parts

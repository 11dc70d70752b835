"""Usage of a Kubernetes cluster from kube-state-metrics, as Prometheus range answers in JSON: one document or many,
one after the other or one a line, whose ranges may overlap.

Runs of one pod carry one `run_key` (uid, container, resource, node, count). Where a pod is told of with a hole in
between, the runs of one key are the union of their `[start, end)`, not its hull. Phases, stamps and labels bound what
requests say, and each metric mostly comes in a file of its own: `read_together` reads them as one.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain

from wattledger_audit.intake.importer import Detection, Importer
from wattledger_audit.intake.json_documents import looks_like_json
from wattledger_audit.intake.kube_devices import PREFIX, HeldDevices
from wattledger_audit.intake.kube_facts import KubeFacts, metric_name
from wattledger_audit.intake.kube_runs import claimed_runs
from wattledger_audit.intake.options import ReadOptions
from wattledger_audit.intake.prometheus_range import series_of
from wattledger_audit.intake.record import USAGE, UsageRun
from wattledger_audit.intake.refusal import InputRefused, Rejections
from wattledger_audit.intake.source import Source

_METRICS = ("kube_pod_container_resource", "kube_pod_init_container_resource", "kube_pod_", "kube_node_labels")


def detect(source: Source) -> Detection | None:
    """By kube-state-metrics' names; series of a GPU exporter are telemetry first, and usage only if asked for."""
    head = source.head
    if not looks_like_json(source):
        return None
    if '"metric"' not in head:
        return _without_series(head)
    for metric in _METRICS:
        if f'"{metric}' in head:
            return Detection(96, f"Prometheus range answers with series of kube-state-metrics ({metric}…)")
    if '"resource"' in head and ("nvidia_com_" in head or "amd_com_" in head):
        return Detection(90, "Prometheus range answers with GPU requests of pods")
    if f'"{PREFIX}' in head and ('"exported_pod"' in head or '"pod"' in head):
        return Detection(20, "Prometheus range answers of a GPU exporter that name pods")
    return None


def _without_series(head: str) -> Detection | None:
    """Errors, and answers without a series: a query for what did not happen in its range says so in this way."""
    if '"status"' in head and '"errorType"' in head:
        return Detection(21, "an error that Prometheus answered")
    if '"resultType"' in head and '"result"' in head:
        return Detection(21, "a Prometheus answer without any series")
    return None


def read(source: Source, options: ReadOptions, rejections: Rejections) -> Iterator[UsageRun]:
    """Runs by pod and container; `line` is the number of the series in the file. Series that say nothing of who held
    what are rejected. Raises InputRefused for broken JSON, failed queries, and samples without any step."""
    yield from (run for _, run in read_together([source], options, rejections))


def read_together(
    sources: Sequence[Source], options: ReadOptions, rejections: Rejections
) -> Iterator[tuple[int, UsageRun]]:
    """Runs of files that are parts of one whole (a file a metric, a file a chunk), each with the number of the file
    that has its claim. In whatever order the files come, the runs are the same."""
    facts = KubeFacts(options.cluster or "")
    devices = HeldDevices(facts)
    firsts: list[int] = []
    place = 0
    for source in sources:
        firsts.append(place)
        for series in series_of(source):
            place = firsts[-1] + series.place
            told = series._replace(place=place)
            if not facts.add(told) and not devices.add(told):
                name = metric_name(series.labels)
                why = "names no pod" if name.startswith(PREFIX) else "says nothing of who held what"
                rejections.add(source.name, series.place, "metric", name, f"metric_not_used: this series {why}")
    step_us = facts.step_us()
    if step_us is None and facts.last_us():
        raise InputRefused(
            f"{sources[0].name}: each series has one sample, so how long it speaks for is unknown: ask for a range "
            "(query_range with a step)"
        )
    for run in chain(claimed_runs(facts, step_us or 0), devices.runs(step_us)):
        number = bisect_left(firsts, run.line) - 1
        yield number, run._replace(line=run.line - firsts[number])


IMPORTERS = (Importer("kube-state-metrics ranges", USAGE, detect, read),)

"""What a pod asks for: CPUs, memory, GPUs. Pure; the rule is the scheduler's."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import ceil
from typing import Any

from wattledger_agent.watchers.kube_container import rows, table
from wattledger_agent.watchers.kube_device import is_gpu_resource
from wattledger_agent.watchers.kube_quantity import parse_quantity


def requested(spec: Mapping[str, Any], resource: str) -> int | None:
    """A pod's request of `cpu` (CPUs) or `memory` (bytes), rounded up; None: it asks for none, so nothing is its own.

    All containers and native sidecars together, or the largest moment of its start if that is more, plus overhead;
    what the pod as a whole asks for comes first. Source: Kubernetes documentation, sidecar containers and pod-level
    resources.
    """
    whole = _of(table(spec.get("resources")), resource)
    if whole is None:
        mains = [_of(table(one.get("resources")), resource) for one in rows(spec.get("containers"))]
        sidecars, peak = Fraction(0), Fraction(0)
        inits = rows(spec.get("initContainers"))
        asked = [_of(table(one.get("resources")), resource) for one in inits]
        for one, amount in zip(inits, asked, strict=True):
            own = amount or Fraction(0)
            peak = max(peak, sidecars + own)
            sidecars += own if one.get("restartPolicy") == "Always" else 0
        if all(amount is None for amount in (*mains, *asked)):
            return None
        whole = max(peak, sidecars + sum(amount or Fraction(0) for amount in mains))
    return ceil(whole + (parse_quantity(table(spec.get("overhead")).get(resource)) or 0))


def asks_for_gpus(spec: Mapping[str, Any], extra: Iterable[str]) -> bool:
    """Whether any container has a limit on a GPU resource (a device is only ever given for a limit)."""
    for one in (*rows(spec.get("containers")), *rows(spec.get("initContainers"))):
        for name, amount in table(table(one.get("resources")).get("limits")).items():
            if is_gpu_resource(str(name), extra) and parse_quantity(amount):
                return True
    return False


def split(total: int | None, parts: int) -> list[int | None]:
    """A total over equal parts as whole numbers that sum to it exactly."""
    if total is None:
        return [None] * parts
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]


def _of(resources: Mapping[str, Any], resource: str) -> Fraction | None:
    asked, limits = table(resources.get("requests")), table(resources.get("limits"))
    return parse_quantity(asked.get(resource, limits.get(resource)))

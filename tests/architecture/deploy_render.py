"""Renders and lints the Helm chart in a process of its own (its library brings Go's runtime); walks what comes out."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from tests.architecture.layout import ROOT

CHART = ROOT / "infra" / "helm" / "wattledger-agent"
Object = dict[str, Any]
_WITHIN_S = 120
_SCRIPT = """
import json, sys
import helm_python as helm
chart_path, cases = json.load(sys.stdin)
answers = []
with helm.Chart.load(chart_path) as chart:
    for values in cases:
        try:
            answers.append(chart.render(values, name="wl", namespace="metering"))
        except helm.HelmError as error:
            answers.append({"error": str(error)})
lint = [helm.lint(chart_path, values, strict=True) for values in cases[:1]]
json.dump([answers, lint], sys.stdout)
"""


class Rendered:
    """One rendering: `error` is empty when it succeeded."""

    def __init__(self, answer: dict[str, str]) -> None:
        self.error = answer.get("error", "")
        texts = [] if self.error else [text for name, text in answer.items() if name.endswith(".yaml")]
        self.objects: list[Object] = [found for text in texts for found in yaml.safe_load_all(text) if found]
        self.notes = next((text for name, text in answer.items() if name.endswith("NOTES.txt")), "")

    def of(self, kind: str) -> list[Object]:
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str) -> Object:
        [found] = self.of(kind)
        return found

    def pods(self) -> Iterator[tuple[str, Object]]:
        """Name and spec of each pod that this starts."""
        for found in self.objects:
            name = f"{found['kind']}/{found['metadata']['name']}"
            if found["kind"] == "Pod":
                yield name, found["spec"]
            elif "template" in found.get("spec", {}):
                yield name, found["spec"]["template"]["spec"]


def render(cases: list[Object]) -> tuple[list[Rendered], Object]:
    """Each case's rendering, and the first one's lint report."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps([str(CHART), cases]),
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    answers, [lint] = json.loads(done.stdout)
    return [Rendered(answer) for answer in answers], lint


def containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def not_confined(pod: Object) -> list[str]:
    """What of a pod goes beyond reading: privileges, devices taken out of sale, places that it could write to."""
    wrong = [key for key in ("hostNetwork", "hostIPC", "resourceClaims") if pod.get(key)]
    wrong += [f"{key} is on" for key in ("enableServiceLinks",) if pod.get(key, True)]
    if pod.get("securityContext", {}).get("seccompProfile") != {"type": "RuntimeDefault"}:
        wrong.append("no seccomp profile")
    host_paths = {volume["name"] for volume in pod.get("volumes", []) if "hostPath" in volume}
    for container in containers(pod):
        name, context = container["name"], container.get("securityContext", {})
        expected = {"privileged": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
        wrong += [f"{name}: {key}" for key, value in expected.items() if context.get(key) is not value]
        if context.get("capabilities", {}).get("drop") != ["ALL"]:
            wrong.append(f"{name}: keeps capabilities")
        asked = {kind for amounts in container.get("resources", {}).values() for kind in amounts}
        wrong += [f"{name}: asks for {kind}" for kind in sorted(asked - {"cpu", "memory", "ephemeral-storage"})]
        wrong += [
            f"{name}: may write to the host's {mount['name']}"
            for mount in container.get("volumeMounts", [])
            if mount["name"] in host_paths - {"state"} and not mount.get("readOnly")
        ]
    return wrong

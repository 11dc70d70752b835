"""The Helm chart over a matrix of values: valid for Kubernetes, confined, and with no right that nothing asked for."""

import re
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from wattledger_agent import metrics
from wattledger_agent.settings import load_settings

from tests.architecture.deploy_render import CHART, Object, Rendered, containers, not_confined, render
from tests.architecture.layout import ROOT

KAFKA: Object = {"kafka": {"bootstrap": "k1:9092,[fd00::1]:9093"}}
SASL: Object = {
    "kafka": {**KAFKA["kafka"], "security": "sasl_ssl", "username": "agent", "passwordSecret": {"name": "s"}}
}
MONITORED = {name: {"enabled": True} for name in ("podMonitor", "serviceMonitor", "prometheusRule")}
NOT_ROOT = {"podResources": {"enabled": False}}
CASES: dict[str, Object] = {
    "default": {},
    "not_root": NOT_ROOT,
    "group": {"podResources": {"group": 985}},
    "not_root_emptydir": {**NOT_ROOT, "state": {"type": "emptyDir"}},
    "no_api": {"apiJoin": {"enabled": False}},
    "dra": {"apiJoin": {"resourceClaims": True}},
    "processes": {**NOT_ROOT, "processes": {"enabled": True}},
    "environment": {"processes": {"enabled": True, "readEnvironment": True}},
    "rapl": {**NOT_ROOT, "rapl": {"enabled": True}},
    "amd": {**NOT_ROOT, "nvidia": {"enabled": False}, "amd": {"enabled": True, "groups": [44, 109]}},
    "cdi": {"cdiDevices": ["nvidia.com/gpu=all"], "runtimeClassName": "nvidia"},
    "no_devices": {**NOT_ROOT, "nvidia": {"enabled": False}},
    "sasl": {**SASL, **NOT_ROOT, "ticker": {"enabled": True}},
    "authority": {"kafka": {"security": "ssl", "caSecret": {"name": "ca"}}},
    "monitored": {**MONITORED, "networkPolicy": {"enabled": True}, "ticker": {"enabled": True}},
    "egress": {"networkPolicy": {"enabled": True, "egress": {"enabled": True, "kafkaPorts": [9093]}}},
    "digest": {"image": {"registry": "registry.example", "digest": "sha256:" + "a" * 64}},
    "settings": {"cluster": "c1", "config": {"wal": {"cap_bytes": 8 << 30}, "processes": {"tag_uids": "1000-1999"}}},
    "bare": {"service": {"enabled": False}, "serviceAccount": {"create": False}, "tolerations": []},
    "openshift": {**NOT_ROOT, "runAsUser": 1000650000, "runAsGroup": 1000650000, "fullnameOverride": "x"},
}
REFUSED: list[tuple[str, Object, str]] = [
    ("no_brokers", {"kafka": {"bootstrap": ""}}, "kafka.bootstrap is empty"),
    ("no_port", {"kafka": {"bootstrap": "k1"}}, "bootstrap"),
    ("misspelt", {"podResource": {"enabled": False}}, "podResource"),
    ("misspelt_inside", {"rapl": {"enable": True}}, "enable"),
    ("gpu_asked_for", {"resources": {"limits": {"nvidia.com/gpu": 1}}}, "nvidia.com/gpu"),
    ("gpu_asked_for_by_the_ticker", {"ticker": {"resources": {"requests": {"amd.com/gpu": 1}}}}, "amd.com/gpu"),
    ("root_by_number", {"runAsUser": 0}, "runAsUser"),
    ("whole_root_as_state", {"state": {"path": "/"}}, "path"),
    ("text_for_a_switch", {"ticker": {"enabled": "yes"}}, "ticker"),
    ("no_digest", {"image": {"digest": "latest"}}, "digest"),
    (
        "password_from_nowhere",
        {"kafka": {"security": "sasl_ssl", "username": "a"}},
        "kafka.passwordSecret.name is empty",
    ),
    ("user_in_the_clear", {"kafka": {"username": "a", "passwordSecret": {"name": "s"}}}, "shows no user"),
    ("nobody", {"kafka": {"security": "sasl_ssl"}}, "kafka.username is empty"),
]
CUSTOM = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
KUBERNETES = ("1.28", "1.33", "1.37")


def merged(values: Object) -> Object:
    return {**values, "kafka": {**KAFKA["kafka"], **values.get("kafka", {})}}


@pytest.fixture(scope="module")
def chart() -> tuple[dict[str, Rendered], Object]:
    every = [*CASES.values(), *(values for _, values, _ in REFUSED)]
    answers, lint = render([merged(values) for values in every])
    return dict(zip([*CASES, *(name for name, _, _ in REFUSED)], answers, strict=True)), lint


@pytest.fixture(params=CASES)
def rendered(request: pytest.FixtureRequest, chart: tuple[dict[str, Rendered], Object]) -> Rendered:
    found = chart[0][request.param]
    assert found.error == ""
    return found


def agent_of(rendered: Rendered) -> tuple[Object, Object]:
    """The agent's pod and container."""
    pod: Object = rendered.one("DaemonSet")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    return pod, container


def test_the_chart_passes_lint(chart: tuple[dict[str, Rendered], Object]) -> None:
    assert (chart[1]["errors"], [m for m in chart[1]["messages"] if m["severity"] > 1]) == ([], [])


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_valid_for_kubernetes(rendered: Rendered, version: str) -> None:
    for found in rendered.objects:
        if found["kind"] in CUSTOM:
            assert found["apiVersion"] == "monitoring.coreos.com/v1"
        else:
            kubernetes_validate.validate(found, version, strict=True)


def test_the_validator_refuses_a_field_that_kubernetes_does_not_know(chart: tuple[dict[str, Rendered], Object]) -> None:
    broken = deepcopy(chart[0]["default"].one("DaemonSet"))
    broken["spec"]["template"]["spec"]["hostPIDs"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES[0], strict=True)


def test_every_container_is_confined_and_asks_for_no_device(rendered: Rendered) -> None:
    assert {name: wrong for name, pod in rendered.pods() if (wrong := not_confined(pod))} == {}


WRONG: list[tuple[list[str | int], Any]] = [
    (["hostNetwork"], True),
    (["resourceClaims"], [{"name": "gpu"}]),
    (["enableServiceLinks"], True),
    (["securityContext", "seccompProfile"], {"type": "Unconfined"}),
    (["containers", 0, "securityContext", "privileged"], True),
    (["containers", 0, "securityContext", "readOnlyRootFilesystem"], False),
    (["containers", 0, "securityContext", "capabilities"], {"add": ["SYS_ADMIN"]}),
    (["containers", 0, "resources", "limits", "nvidia.com/gpu"], 1),
    (["containers", 0, "volumeMounts", 3, "readOnly"], False),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda value: str(value)[:50])
def test_what_is_not_confined_is_found(
    chart: tuple[dict[str, Rendered], Object], path: list[str | int], value: object
) -> None:
    pod: Any = deepcopy(agent_of(chart[0]["default"])[0])
    inner = pod
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert not_confined(pod)


@pytest.mark.parametrize(("name", "values", "says"), REFUSED, ids=[name for name, _, _ in REFUSED])
def test_wrong_values_are_refused_by_name(
    chart: tuple[dict[str, Rendered], Object], name: str, values: Object, says: str
) -> None:
    assert says in chart[0][name].error


@pytest.mark.parametrize(
    ("case", "user", "added", "sees_processes"),
    [
        ("default", 0, [], False),
        ("no_api", 0, [], False),
        ("not_root", 65532, [], False),
        ("group", 65532, [], False),
        ("amd", 65532, [], False),
        ("openshift", 1000650000, [], False),
        ("processes", 65532, [], True),
        ("environment", 0, ["SYS_PTRACE", "DAC_READ_SEARCH"], True),
        ("rapl", 0, [], False),
    ],
)
def test_privilege_is_what_the_switches_need(
    chart: tuple[dict[str, Rendered], Object], case: str, user: int, added: list[str], sees_processes: bool
) -> None:
    pod, container = agent_of(chart[0][case])
    context = container["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (user, user)
    assert context.get("runAsNonRoot", False) is (user != 0)
    assert context["capabilities"].get("add", []) == added
    assert pod["hostPID"] is sees_processes


@pytest.mark.parametrize(
    ("case", "rights"),
    [
        ("default", {("", "pods")}),
        ("dra", {("", "pods"), ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceslices")}),
        ("no_api", None),
    ],
)
def test_the_api_is_read_only_when_it_is_asked_at_all(
    chart: tuple[dict[str, Rendered], Object], case: str, rights: set[tuple[str, str]] | None
) -> None:
    found = chart[0][case]
    pod, _ = agent_of(found)
    assert pod["automountServiceAccountToken"] is (rights is not None)
    assert found.one("ServiceAccount")["automountServiceAccountToken"] is False
    if rights is None:
        assert found.of("ClusterRole") + found.of("ClusterRoleBinding") == []
        return
    rules = found.one("ClusterRole")["rules"]
    assert {(group, kind) for rule in rules for group in rule["apiGroups"] for kind in rule["resources"]} == rights
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    [subject] = found.one("ClusterRoleBinding")["subjects"]
    assert (subject["name"], subject["namespace"]) == (pod["serviceAccountName"], "metering")


@pytest.mark.parametrize(
    ("case", "paths"),
    [
        ("default", {"/var/lib/wattledger-agent", "/var/lib/kubelet/pod-resources"}),
        ("not_root", {"/var/lib/wattledger-agent"}),
        ("not_root_emptydir", set[str]()),
        ("rapl", {"/var/lib/wattledger-agent", "/sys/devices/virtual/powercap"}),
    ],
)
def test_the_host_is_open_where_a_switch_says_so(
    chart: tuple[dict[str, Rendered], Object], case: str, paths: set[str]
) -> None:
    pod, _ = agent_of(chart[0][case])
    assert {volume["hostPath"]["path"] for volume in pod["volumes"] if "hostPath" in volume} == paths


def test_every_mount_has_its_volume_and_every_volume_a_mount(rendered: Rendered) -> None:
    for name, pod in rendered.pods():
        mounted = {mount["name"] for one in containers(pod) for mount in one.get("volumeMounts", [])}
        assert mounted == {volume["name"] for volume in pod.get("volumes", [])}, name


def test_liveness_asks_for_the_process_and_readiness_for_its_work(rendered: Rendered) -> None:
    _, container = agent_of(rendered)
    assert container["livenessProbe"]["httpGet"] == {"path": "/-/healthy", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/-/ready", "port": "http"}


def test_selectors_take_the_agents_and_the_ticker_and_no_other_pod(rendered: Rendered) -> None:
    for found in [*rendered.of("DaemonSet"), *rendered.of("Deployment")]:
        labels = found["spec"]["template"]["metadata"]["labels"]
        assert found["spec"]["selector"]["matchLabels"].items() <= labels.items()
        for service in rendered.of("Service"):
            assert service["spec"]["selector"].items() <= labels.items()
    for pod in rendered.of("Pod"):
        for service in rendered.of("Service"):
            assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def settings_of(rendered: Rendered, file: str, folder: Path) -> Any:
    text = rendered.one("ConfigMap")["data"][file]
    tomllib.loads(text)
    (folder / file).write_text(text)
    return load_settings(folder / file)


def test_the_agent_takes_the_settings_that_the_chart_writes(rendered: Rendered, tmp_path: Path) -> None:
    pod, container = agent_of(rendered)
    settings = settings_of(rendered, "agent.toml", tmp_path)
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert settings.kafka.bootstrap == KAFKA["kafka"]["bootstrap"]
    assert str(settings.wal.path.parent) in mounts
    assert (settings.http_host, settings.http_port) == ("0.0.0.0", container["ports"][0]["containerPort"])
    assert ("kubernetes" in settings.watchers) is (str(settings.kubernetes.pod_resources.parent) in mounts)
    assert ("processes" in settings.watchers) is pod["hostPID"]
    assert settings.kubernetes.api is pod["automountServiceAccountToken"]
    assert ("rapl" in settings.sampling.probes) is ("/sys/class/powercap" in mounts)
    for file in (settings.kafka.password_file, settings.kafka.ca_file):
        assert file is None or str(file.parent) in mounts
    assert container["env"][0] == {
        "name": "WATTLEDGER_AGENT_NODE",
        "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
    }


def test_settings_of_ones_own_win(chart: tuple[dict[str, Rendered], Object], tmp_path: Path) -> None:
    settings = settings_of(chart[0]["settings"], "agent.toml", tmp_path)
    assert (settings.cluster, settings.wal.cap_bytes, settings.processes.tag_uids) == ("c1", 8 << 30, "1000-1999")


def test_the_ticker_is_one_and_reads_no_device(chart: tuple[dict[str, Rendered], Object], tmp_path: Path) -> None:
    assert chart[0]["default"].of("Deployment") == []
    found = chart[0]["sasl"].one("Deployment")
    pod = found["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (found["spec"]["replicas"], found["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert container["args"][0] == "ticker"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in container["env"]
    assert [volume for volume in pod["volumes"] if "hostPath" in volume] == []
    assert container["securityContext"]["runAsNonRoot"] is True
    settings = settings_of(chart[0]["sasl"], "ticker.toml", tmp_path)
    assert (settings.kafka.security, settings.kafka.username) == ("sasl_ssl", "agent")


def test_a_secret_can_be_read_by_who_runs(chart: tuple[dict[str, Rendered], Object]) -> None:
    pod, container = agent_of(chart[0]["sasl"])
    [secret] = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret["defaultMode"] == 0o440
    assert pod["securityContext"]["fsGroup"] == container["securityContext"]["runAsGroup"]


def test_the_state_folder_is_given_to_a_group_without_a_capability(chart: tuple[dict[str, Rendered], Object]) -> None:
    pod, container = agent_of(chart[0]["not_root"])
    [first] = pod["initContainers"]
    assert (first["securityContext"]["runAsUser"], first["securityContext"]["capabilities"]) == (0, {"drop": ["ALL"]})
    assert pod["securityContext"]["fsGroup"] == container["securityContext"]["runAsGroup"] == 65532
    for case in ("default", "not_root_emptydir"):
        assert "initContainers" not in agent_of(chart[0][case])[0]


@pytest.mark.parametrize(
    ("case", "image"),
    [("default", "wattledger-agent:0.1.0"), ("digest", "registry.example/wattledger-agent@sha256:" + "a" * 64)],
)
def test_one_image_is_used_throughout(chart: tuple[dict[str, Rendered], Object], case: str, image: str) -> None:
    assert {one["image"] for _, pod in chart[0][case].pods() for one in containers(pod)} == {image}


def test_alerts_name_metrics_that_the_agent_has(chart: tuple[dict[str, Rendered], Object]) -> None:
    declared: set[str] = set()
    for found in vars(metrics).values():
        if isinstance(found, MetricWrapperBase):
            [family] = found.describe()
            declared |= {family.name, f"{family.name}_total"} if family.type == "counter" else {family.name}
    rules = [rule for group in chart[0]["monitored"].one("PrometheusRule")["spec"]["groups"] for rule in group["rules"]]
    named = {name for rule in rules for name in re.findall(r"wattledger_agent_\w+", rule["expr"])}
    assert len(rules) == 7
    assert named - declared == set()


def test_nothing_for_prometheus_and_no_policy_unless_asked(chart: tuple[dict[str, Rendered], Object]) -> None:
    assert {found["kind"] for found in chart[0]["default"].objects} == {
        "ClusterRole", "ClusterRoleBinding", "ConfigMap", "DaemonSet", "Pod", "Service", "ServiceAccount",
    }  # fmt: skip
    egress = chart[0]["egress"].one("NetworkPolicy")["spec"]["egress"]
    assert {port["port"] for rule in egress for port in rule["ports"]} == {53, 9093, 443, 6443}


def test_the_chart_is_of_the_projects_version_and_its_image() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    dockerfile = (ROOT / "infra" / "docker" / "Dockerfile").read_text()
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert described["version"] == described["appVersion"] == project["version"]
    assert f"USER {values['runAsUser']}:{values['runAsGroup']}" in dockerfile
    assert f"EXPOSE {values['port']}" in dockerfile
    templates = "".join(path.read_text() for path in (CHART / "templates").rglob("*.yaml"))
    for path in set(re.findall(r"\[(/[\w./-]+), -IS(?:, (/[\w./-]+))?", templates)):
        assert all(part in dockerfile for part in path if part)


def test_every_value_is_documented_and_in_the_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    readme = (CHART / "README.md").read_text()
    assert set(values) == set(schema["properties"])
    assert [name for name in values if f"`{name}" not in readme] == []

"""The API server's reader against a real HTTPS server: trust, tokens, pages, and what it says when it may not."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from wattledger_agent.clock import SystemClock
from wattledger_agent.watchers.kube_api import KubeApi, KubeApiError

from tests.kube_api_server import ApiServer, api_pod, api_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path) as running:
        yield running


def reader(server: ApiServer, page_items: int = 500, timeout_s: float = 3.0, largest: int = 1 << 20) -> KubeApi:
    return KubeApi(server.url, SystemClock(), server.token_path, server.ca_path, timeout_s, page_items, largest)


def names(api: KubeApi) -> list[str]:
    return [str(one["metadata"]["name"]) for one in api.pods("n1")]


def refusal(api: KubeApi) -> KubeApiError:
    with pytest.raises(KubeApiError) as caught:
        list(api.pods("n1"))
    return caught.value


def test_pods_of_one_node_come_page_by_page(server: ApiServer) -> None:
    server.pods = [api_pod(f"p{i}") for i in range(7)]
    assert names(reader(server, page_items=3)) == [f"p{i}" for i in range(7)]
    first, *rest = [query for _, query in server.requests]
    assert first == {"fieldSelector": "spec.nodeName=n1", "resourceVersion": "0", "limit": "3"}
    assert [query["continue"] for query in rest] == ["3", "6"]


def test_a_later_list_is_never_older_than_the_one_before(server: ApiServer) -> None:
    api = reader(server)
    names(api), names(api)
    assert server.requests[-1][1]["resourceVersion"] == "100"
    assert server.requests[-1][1]["resourceVersionMatch"] == "NotOlderThan"
    server.version = 50  # restored from a backup
    assert refusal(api).reason == "api_busy"
    assert names(api) == []


def test_a_list_whose_continuation_expired_starts_again(server: ApiServer) -> None:
    server.pods = [api_pod(f"p{i}") for i in range(4)]
    api = reader(server, page_items=2)
    listing = api.pods("n1")
    next(listing), next(listing)
    server.once = [410]
    assert [str(one["metadata"]["name"]) for one in listing] == ["p0", "p1", "p2", "p3"]


def test_a_list_that_expires_again_and_again_is_given_up(server: ApiServer) -> None:
    server.pods = [api_pod(f"p{i}") for i in range(3)]
    listing = reader(server, page_items=1).pods("n1")
    next(listing)
    with pytest.raises(KubeApiError):
        for _ in listing:
            server.once = [410]


def test_a_rotated_token_is_read_again(server: ApiServer) -> None:
    api = reader(server)
    assert names(api) == []
    server.token = "second"
    server.write_token("second")
    assert names(api) == []
    server.once = [401]  # between our reading the token and the server's change of mind
    assert names(api) == []


def test_a_token_that_is_refused_is_said(server: ApiServer) -> None:
    server.write_token("s3cr3t")
    error = refusal(reader(server))
    assert (error.reason, error.is_refusal) == ("api_unauthorized", True)
    assert str(server.token_path) in str(error) and "automountServiceAccountToken" in str(error)
    assert "s3cr3t" not in str(error)


def test_a_missing_right_is_named(server: ApiServer) -> None:
    server.denies = {"pods": 403, "resourceslices": 403}
    error = refusal(reader(server))
    assert (error.reason, error.is_refusal) == ("api_forbidden", True)
    assert "ClusterRole with get and list on pods" in str(error)
    with pytest.raises(KubeApiError, match="list on resourceslices"):
        reader(server).slices("n1")


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_busy_server_is_asked_later(server: ApiServer, code: int) -> None:
    server.once = [code]
    error = refusal(reader(server))
    assert (error.reason, error.is_refusal) == ("api_busy", False)
    assert str(code) in str(error)


def test_a_server_of_another_authority_is_not_talked_to(server: ApiServer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with api_server(other):
        api = KubeApi(server.url, SystemClock(), server.token_path, other / "ca.crt")
        error = refusal(api)
    assert error.reason == "api_unreachable" and "not of the authority" in str(error)
    assert server.requests == []


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    with api_server(tmp_path, host="127.0.0.2") as server:
        assert refusal(reader(server)).reason == "api_unreachable"
        assert server.requests == []


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_missing_mount_is_said(server: ApiServer, name: str) -> None:
    (server.folder / name).unlink()
    error = refusal(reader(server))
    assert error.reason == "api_unreachable" and "mount the service account" in str(error)


def test_a_server_that_hangs_costs_the_timeout(server: ApiServer) -> None:
    server.delay = threading.Event()
    try:
        assert refusal(reader(server, timeout_s=0.2)).reason == "api_unreachable"
    finally:
        server.delay.set()


def test_an_answer_over_the_limit_is_not_kept(server: ApiServer) -> None:
    server.pods = [api_pod(f"p{i}") for i in range(30)]
    assert refusal(reader(server, largest=10_000)).reason == "api_too_large"


@pytest.mark.parametrize("raw", [b"<html>", b"[]", b"\xff\xfe", b'{"items": '])
def test_an_answer_that_is_no_object_is_said(server: ApiServer, raw: bytes) -> None:
    server.raw = raw
    assert refusal(reader(server)).reason == "api_bad_answer"


@pytest.mark.parametrize("raw", [b"{}", b'{"items": null}', b'{"items": [null, 5], "metadata": null}'])
def test_an_empty_list_has_no_pods(server: ApiServer, raw: bytes) -> None:
    server.raw = raw
    assert names(reader(server)) == []


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_claims_and_slices_are_found_in_the_version_that_is_served(server: ApiServer, version: str) -> None:
    server.dra_version = version
    server.claims = {"acme/c": {"metadata": {"uid": "x"}}}
    server.slices = [{"spec": {}}]
    api = reader(server)
    assert api.claim("acme", "c") == {"metadata": {"uid": "x"}}
    assert api.claim("acme", "none") is None
    assert api.slices("n1") == [{"spec": {}}]
    assert server.requests[-1][1]["fieldSelector"] == "spec.nodeName=n1"


def test_a_cluster_without_claims_has_none(server: ApiServer) -> None:
    server.dra_version = "v9"
    assert (reader(server).slices("n1"), reader(server).claim("acme", "c")) == ([], None)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:8080", "https://", "ftp://x", "https://user:secret@10.0.0.1", "10.0.0.1"]
)
def test_an_address_that_would_leak_the_token_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give https") as caught:
        KubeApi(url, SystemClock(), tmp_path, tmp_path)
    assert "secret" not in str(caught.value)

"""How SLURM's data come in: files that change, a socket that listens, a slurmrestd that answers."""

import http.server
import json
import os
import socket
import socketserver
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wattledger_agent.watchers.run import Run
from wattledger_agent.watchers.slurm import SlurmWatcher
from wattledger_agent.watchers.slurm_fact import Document
from wattledger_agent.watchers.slurm_files import SlurmFiles
from wattledger_agent.watchers.slurm_rest import SlurmRest
from wattledger_agent.watchers.slurm_socket import SlurmSocket
from wattledger_agent.watchers.watcher import WatcherUnavailable

from tests.slurm_watch_case import NOW_US, RUNNING, SITE, T0, S, drop_text, only, sacct_file, sacct_row, scontrol_job

ME = frozenset({os.geteuid()})
JOB = {
    "job_id": 123, "account": "acme", "user_name": "ann", "job_state": ["RUNNING"], "nodes": "gpu01",
    "start_time": T0 + 60, "restart_cnt": 0, "gres_detail": ["gpu:2(IDX:0-1)"], "tres_alloc_str": "cpu=8,gres/gpu=2",
}  # fmt: skip


def put(path: Path, data: bytes, age_s: int = 10) -> None:
    """The file as it is `age_s` before now."""
    path.write_bytes(data)
    os.utime(path, (NOW_US // S - age_s,) * 2)


def jobs(documents: tuple[Document, ...]) -> list[str]:
    return [fact.job for document in documents for fact in document.facts]


def reasons(documents: tuple[Document, ...]) -> list[str]:
    return [finding.reason for document in documents for finding in document.findings]


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    files = SlurmFiles([f"{tmp_path}/*.txt"], SITE)
    put(tmp_path / "sacct.txt", sacct_file(sacct_row()))
    assert jobs(files.read(NOW_US)) == ["123"]
    assert files.reported_to_us == NOW_US - 10 * S
    assert files.read(NOW_US) == ()
    put(tmp_path / "sacct.txt", sacct_file(sacct_row(), sacct_row(JobIDRaw="124")), age_s=9)
    assert jobs(files.read(NOW_US)) == ["123", "124"]
    put(tmp_path / "jobs.txt", scontrol_job().encode())
    assert jobs(files.read(NOW_US)) == ["123"]


def test_a_file_that_is_being_written_is_left_until_it_is_still(tmp_path: Path) -> None:
    files = SlurmFiles([f"{tmp_path}/sacct.txt"], SITE)
    path = tmp_path / "sacct.txt"
    put(path, sacct_file(sacct_row())[:80], age_s=0)
    assert (files.read(NOW_US), files.read(NOW_US + S)) == ((), ())
    put(path, sacct_file(sacct_row()), age_s=0)
    assert jobs(files.read(NOW_US + 3 * S)) == ["123"]


def test_a_file_that_replaced_another_is_read_at_once(tmp_path: Path) -> None:
    files = SlurmFiles([f"{tmp_path}/sacct.txt"], SITE)
    path = tmp_path / "sacct.txt"
    put(path, sacct_file(sacct_row()))
    files.read(NOW_US)
    put(tmp_path / "new", sacct_file(sacct_row(JobIDRaw="124")), age_s=0)
    (tmp_path / "new").rename(path)
    assert jobs(files.read(NOW_US)) == ["124"]


def test_what_may_be_half_written_is_told_only_when_it_stays_so(tmp_path: Path) -> None:
    files = SlurmFiles([f"{tmp_path}/jobs.json"], SITE)
    put(tmp_path / "jobs.json", json.dumps({"jobs": [JOB]}).encode()[:50])
    assert reasons(files.read(NOW_US)) == []
    assert reasons(files.read(NOW_US + 30 * S)) == []
    assert reasons(files.read(NOW_US + 60 * S)) == ["broken_json"]
    assert reasons(files.read(NOW_US + 90 * S)) == []


def test_a_dump_that_is_cut_gives_its_whole_rows(tmp_path: Path) -> None:
    files = SlurmFiles([f"{tmp_path}/sacct.txt"], SITE)
    data = sacct_file(sacct_row(), sacct_row(JobIDRaw="124"))
    put(tmp_path / "sacct.txt", data[:-40])
    documents = files.read(NOW_US)
    assert (jobs(documents), documents[0].is_whole) == (["123"], False)
    put(tmp_path / "sacct.txt", data, age_s=5)
    assert jobs(files.read(NOW_US)) == ["123", "124"]


def test_the_capacity_of_shards_is_remembered_from_another_file(tmp_path: Path) -> None:
    files = SlurmFiles([f"{tmp_path}/*.txt"], SITE, is_snapshot=True)
    put(tmp_path / "a-node.txt", b"NodeName=gpu01 Gres=gpu:2,shard:16\n   GresUsed=gpu:0\n")
    put(tmp_path / "jobs.txt", scontrol_job(detail="   Nodes=gpu01 CPU_IDs=0 Mem=1 GRES=shard:2(IDX:1)\n").encode())
    (held,) = files.read(NOW_US)[1].facts[0].held or ()
    assert (held.share_num, held.share_den) == (2, 8)


def test_no_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WatcherUnavailable, match=r"infra/slurm/README\.md"):
        SlurmFiles([f"{tmp_path}/*.txt"], SITE).read(NOW_US)


def test_a_file_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    watcher = SlurmWatcher(SITE, [SlurmFiles([f"{tmp_path}/*.txt"], SITE, is_snapshot=True)])
    put(tmp_path / "jobs.txt", scontrol_job().encode())
    assert only(watcher.look(NOW_US)).ended_us is None
    (tmp_path / "jobs.txt").unlink()
    with pytest.raises(WatcherUnavailable):
        watcher.look(NOW_US)
    put(tmp_path / "jobs.txt", b"", age_s=5)
    assert only(watcher.look(NOW_US)).ended_us is None


def test_a_job_that_left_the_controllers_files_has_ended(tmp_path: Path) -> None:
    watcher = SlurmWatcher(SITE, [SlurmFiles([f"{tmp_path}/*.txt"], SITE, is_snapshot=True)])
    run: Run | None = None
    other = scontrol_job(job="124")
    for age_s, text in ((300, scontrol_job() + other), (200, other), (100, other)):
        put(tmp_path / "jobs.txt", text.encode(), age_s)
        run = next((one for one in watcher.look(NOW_US).runs if one.job == "123"), None)
    assert run is not None
    assert run.ended_us == NOW_US - 200 * S


def send(path: Path, data: bytes, close: bool = True) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(str(path))
    client.sendall(data)
    if close:
        client.close()
    return client


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[Path, SlurmSocket]]:
    server = SlurmSocket(tmp_path / "slurm.sock", SITE, ME)
    assert server.read(NOW_US)[0].facts == ()
    yield tmp_path / "slurm.sock", server
    server.close()


@pytest.mark.parametrize(
    "data",
    [
        drop_text(), scontrol_job().encode(), scontrol_job(one_line=True).encode(), sacct_file(sacct_row(**RUNNING)),
        json.dumps({"jobs": [JOB]}).encode(),
    ],
    ids=["drop", "scontrol", "scontrol -o", "sacct", "json"],
)  # fmt: skip
def test_a_document_of_any_form_is_taken_from_the_socket(listening: tuple[Path, SlurmSocket], data: bytes) -> None:
    path, server = listening
    send(path, data)
    documents = server.read(NOW_US)
    assert (jobs(documents), reasons(documents)) == (["123"], [])
    assert jobs(server.read(NOW_US)) == []


def test_a_document_that_comes_in_parts_is_waited_for(listening: tuple[Path, SlurmSocket]) -> None:
    path, server = listening
    data = sacct_file(sacct_row())
    client = send(path, data[:50], close=False)
    assert jobs(server.read(NOW_US)) == []
    client.sendall(data[50:])
    assert jobs(server.read(NOW_US + S)) == []
    client.close()
    assert jobs(server.read(NOW_US + 2 * S)) == ["123"]


def test_a_sender_that_never_closes_is_given_up(listening: tuple[Path, SlurmSocket]) -> None:
    path, server = listening
    client = send(path, sacct_file(sacct_row()), close=False)
    assert reasons(server.read(NOW_US)) == []
    assert reasons(server.read(NOW_US + 11 * S)) == ["torn_document"]
    with client, pytest.raises(OSError):
        client.sendall(b"x")
        client.sendall(b"x")


def test_a_large_document_of_many_parts_is_taken(listening: tuple[Path, SlurmSocket]) -> None:
    path, server = listening
    rows = [sacct_row(JobIDRaw=f"{n}") for n in range(1000, 6000)]
    client = threading.Thread(target=send, args=(path, sacct_file(*rows)))
    client.start()
    found: list[str] = []
    for _ in range(1000):
        found += jobs(server.read(NOW_US))
        if found:
            break
        threading.Event().wait(0.01)
    client.join()
    assert len(found) == 5000


def test_a_peer_that_is_not_on_the_list_is_not_heard(tmp_path: Path) -> None:
    server = SlurmSocket(tmp_path / "s.sock", SITE, frozenset({os.geteuid() + 1}))
    server.read(NOW_US)
    send(tmp_path / "s.sock", drop_text())
    documents = server.read(NOW_US)
    assert (jobs(documents), reasons(documents)) == ([], ["foreign_peer"])
    assert f"uid {os.geteuid()}" in documents[-1].findings[0].detail
    server.close()


def test_the_socket_replaces_one_that_was_left_and_goes_when_closed(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    server = SlurmSocket(path, SITE, ME)
    server.read(NOW_US)
    send(path, drop_text())
    assert jobs(server.read(NOW_US)) == ["123"]
    server.close()
    assert not path.exists()
    path.write_text("somebody's file")
    with pytest.raises(WatcherUnavailable):
        SlurmSocket(path, SITE, ME).read(NOW_US)
    assert stat.S_ISREG(path.stat().st_mode)


Answer = Callable[[str, dict[str, str]], tuple[int, Any]]


class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def handler(answer: Answer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answer(self.path, {name.lower(): value for name, value in self.headers.items()})
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

        def address_string(self) -> str:
            return "peer"

    return Handler


class Served:
    """A slurmrestd of one version that counts what it was asked."""

    def __init__(self, version: str = "v0.0.41") -> None:
        self.version = version
        self.status = 200
        self.path = "/jobs/?flags=DETAIL"
        self.jobs: list[dict[str, Any]] = [JOB]
        self.asked: list[str] = []
        self.headers: dict[str, str] = {}

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, Any]:
        self.asked.append(path)
        self.headers = headers
        if self.status != 200:
            return self.status, {"errors": [{"description": "Authentication failure"}]}
        if path == f"/slurm/{self.version}{self.path}":
            return 200, {"jobs": self.jobs, "errors": [], "warnings": []}
        if path == f"/slurm/{self.version}/node/gpu01":
            return 200, {"nodes": [{"name": "gpu01", "gres": "gpu:2,shard:16"}], "errors": []}
        return 404, b"Unable find requested URL."


@pytest.fixture(params=["unix", "http"])
def rest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, str]]:
    served = Served()
    server: socketserver.BaseServer
    if request.param == "unix":
        server = UnixServer(str(tmp_path / "rest.sock"), handler(served.answer))
        address = f"unix:{tmp_path}/rest.sock"
    else:
        http_server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(served.answer))
        server, address = http_server, f"http://127.0.0.1:{http_server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served, address
    server.shutdown()
    server.server_close()
    thread.join()


def test_slurmrestd_is_asked_when_due_in_the_version_that_it_serves(rest: tuple[Served, str]) -> None:
    served, address = rest
    reader = SlurmRest(address, SITE, "gpu01", versions=("v0.0.44", "v0.0.41", "v0.0.40"))
    (document,) = reader.read(NOW_US)
    assert ([fact.job for fact in document.facts], document.is_whole) == (["123"], True)
    assert reader.reported_to_us == NOW_US
    assert "/slurm/v0.0.44/node/gpu01" in served.asked
    count = len(served.asked)
    assert (reader.read(NOW_US + 59 * S), len(served.asked)) == ((), count)
    assert jobs(reader.read(NOW_US + 60 * S)) == ["123"]
    assert served.asked[count:] == ["/slurm/v0.0.41/node/gpu01", "/slurm/v0.0.41/jobs/?flags=DETAIL"]


def test_a_version_that_knows_no_details_is_asked_without(rest: tuple[Served, str]) -> None:
    served, address = rest
    served.path = "/jobs/"
    assert jobs(SlurmRest(address, SITE, "gpu01").read(NOW_US)) == ["123"]


def test_shards_of_slurmrestd_have_the_nodes_capacity(rest: tuple[Served, str]) -> None:
    served, address = rest
    served.jobs = [{**JOB, "gres_detail": ["shard:2(IDX:1)"]}]
    (held,) = SlurmRest(address, SITE, "gpu01").read(NOW_US)[0].facts[0].held or ()
    assert (held.share_num, held.share_den) == (2, 8)


def test_a_token_is_read_again_at_each_question(rest: tuple[Served, str], tmp_path: Path) -> None:
    served, address = rest
    token = tmp_path / "token"
    token.write_text("SLURM_JWT=first\n")
    reader = SlurmRest(address, SITE, "gpu01", token_file=token, user="slurm")
    reader.read(NOW_US)
    assert (served.headers["x-slurm-user-token"], served.headers["x-slurm-user-name"]) == ("first", "slurm")
    token.write_text("second")
    reader.read(NOW_US + 60 * S)
    assert served.headers["x-slurm-user-token"] == "second"


@pytest.mark.parametrize("text", ["", "two words", "a\nX-Evil: 1", "tök"])
def test_a_file_that_holds_no_token_is_not_sent(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    reader = SlurmRest("http://127.0.0.1:9", SITE, "gpu01", token_file=tmp_path / "token")
    with pytest.raises(WatcherUnavailable, match="holds no token") as refused:
        reader.read(NOW_US)
    assert "Evil" not in str(refused.value)


def test_an_answer_of_refusal_is_told_and_asked_again_later(rest: tuple[Served, str]) -> None:
    served, address = rest
    served.status = 401
    reader = SlurmRest(address, SITE, "gpu01")
    with pytest.raises(WatcherUnavailable, match=r"answers 401.*Authentication failure"):
        reader.read(NOW_US)
    count = len(served.asked)
    with pytest.raises(WatcherUnavailable, match="answers 401"):
        reader.read(NOW_US + S)
    assert len(served.asked) == count
    served.status = 200
    assert jobs(reader.read(NOW_US + 60 * S)) == ["123"]


def test_the_wait_after_failures_doubles_up_to_ten_minutes(rest: tuple[Served, str]) -> None:
    served, address = rest
    served.status = 500
    reader = SlurmRest(address, SITE, "gpu01")
    tries = []
    for second in range(0, 3600, 10):
        before = len(served.asked)
        with pytest.raises(WatcherUnavailable):
            reader.read(NOW_US + second * S)
        if len(served.asked) > before:
            tries.append(second)
    assert tries == [0, 60, 180, 420, 900, 1500, 2100, 2700, 3300]


def test_a_slurmrestd_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WatcherUnavailable, match="is it running"):
        SlurmRest(f"unix:{tmp_path}/none.sock", SITE, "gpu01").read(NOW_US)


def test_no_version_that_is_known_is_told(rest: tuple[Served, str]) -> None:
    served, address = rest
    served.version = "v0.0.99"
    with pytest.raises(WatcherUnavailable, match="serves none of"):
        SlurmRest(address, SITE, "gpu01", versions=("v0.0.41", "v0.0.40")).read(NOW_US)


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unix:/path"):
        SlurmRest("/run/slurmrestd.sock", SITE, "gpu01")


def test_a_whole_answer_ends_what_it_lacks(rest: tuple[Served, str]) -> None:
    served, address = rest
    watcher = SlurmWatcher(SITE, [SlurmRest(address, SITE, "gpu01")])
    assert only(watcher.look(NOW_US)).ended_us is None
    served.jobs = []
    assert only(watcher.look(NOW_US + 60 * S)).ended_us is None
    assert only(watcher.look(NOW_US + 120 * S)).ended_us == NOW_US + 60 * S
    assert watcher.look(NOW_US + 180 * S).runs == ()

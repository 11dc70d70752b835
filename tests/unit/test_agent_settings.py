"""Settings of the agent: what is refused and in which words, variables, and the list that an operator reads."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from wattledger_agent.settings import AgentSettings, load_settings
from wattledger_agent.settings_list import settings_text
from wattledger_agent.settings_refused import refusals
from wattledger_agent.settings_variables import UnknownVariable, Variables, unknown_variables, variable_names

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    with pytest.raises(ValidationError) as caught:
        load_settings(file)
    return [line.replace(f"{file}, ", "") for line in refusals(caught.value, file, {})]


REFUSED = [
    ("a typing error", 'clutser = "hpc"', "line 1: clutser is no setting (is cluster meant?)"),
    ("one in a table", '[kafka]\n\nbootstap = "a:1"', "line 3: kafka.bootstap is no setting (is kafka.bootstrap "),
    (
        "a setting outside of its table", "period_ms = 500",
        "line 1: period_ms is no setting here: it is sampling.period_ms, in the table [sampling]",
    ),
    (
        "a setting in a table that belongs above", "[kafka]\nhttp_port = 1",
        "line 2: kafka.http_port is no setting here: it is http_port, above all tables",
    ),
    ("text in place of a list", 'watchers = "slurm"', "line 1: watchers is 'slurm': must be a list: "),
    (
        "a watcher that there is not", 'watchers = ["slrum"]',
        "line 1: watchers is 'slrum': must be 'slurm', 'kubernetes', 'containers' or 'processes'",
    ),
    ("a number as a name", "node = 3", "line 1: node is 3: must be text in quotes"),
    ("a unit in the value", '[sampling]\nperiod_ms = "1s"', "line 2: sampling.period_ms is '1s': must be a whole"),
    ("part of a number", "[sampling]\nperiod_ms = 1.5", "line 2: sampling.period_ms is 1.5: must be a whole number"),
    ("too small", "[sampling]\nperiod_ms = -1", "line 2: sampling.period_ms is -1: must be at least 100"),
    (
        "longer than a tick can be", "[sampling]\nperiod_ms = 99999999999999999999999999",
        "line 2: sampling.period_ms is 99999999999999999999999999: must be at most 60000",
    ),
    ("no end", "watch_s = inf", "line 1: watch_s is inf: must be at most 3600"),
    ("no number", "watch_s = nan", "line 1: watch_s is nan: must be at most 3600"),
    ("a table as a value", "wal = 3", "line 1: wal is 3: is a table of settings, not a value"),
    ("a log that is no path", "[wal]\npath = 3", "line 2: wal.path is 3: must be a path in quotes"),
    ("a log without a name", '[wal]\npath = ""', "line 2: wal.path is '': no name of a file"),
    ("brokers left empty", 'kafka.bootstrap = ""', "line 1: kafka.bootstrap is '': '' is no broker"),
    ("a port that there is not", 'kafka.bootstrap = "b:99999"', "line 1: kafka.bootstrap is 'b:99999'"),
    ("an address of the web", 'kafka.bootstrap = "http://b:9092"', "line 1: kafka.bootstrap is 'http://b:9092'"),
    ("a comma too many", 'kafka.bootstrap = "a:1,"', "line 1: kafka.bootstrap is 'a:1,': '' is no broker"),
    ("no topic name", 'kafka.topic_prefix = "prod/"', "line 1: kafka.topic_prefix is 'prod/': no start of a"),
    ("more than the producer holds", "kafka.in_flight = 2_000_000", "line 1: kafka.in_flight is 2000000: must be at"),
    ("no user", '[kafka]\nsecurity = "sasl_ssl"', "line 1: kafka: security is sasl_ssl, and username is empty"),
    ("a user whom nobody sees", '[kafka]\nusername = "a"', "line 1: kafka: username is set, and security is plaintext"),
    ("TLS that is not used", '[kafka]\nca_file = "/ca"', "line 1: kafka: ca_file or cert_file is set, and security is"),
    ("half a certificate", '[kafka]\nsecurity = "ssl"\ncert_file = "/c"', "line 1: kafka: cert_file and key_file"),
    ("a probe twice", '[sampling]\nprobes = ["rapl", "rapl"]', "line 2: sampling.probes is ['rapl', 'rapl']: rapl is"),
    ("a watcher twice", 'watchers = ["slurm", "slurm"]', "line 1: watchers is ['slurm', 'slurm']: slurm is"),
    ("a trace that is not named", '[sampling]\nprobes = ["trace"]', "line 1: sampling: the probe trace needs a file"),
    ("a node of two words", 'node = "a b"', "line 1: node is 'a b': no name of a node"),
    ("a node of two lines", 'node = "a\\nb"', "line 1: node is 'a\\nb': no name of a node"),
    ("a site that can't be printed", 'site = "\\u001b[31m"', "line 1: site is '\\x1b[31m': no name"),
    ("no users", '[processes]\ntag_uids = "abc"', "line 2: processes.tag_uids is 'abc': uids 'abc': 'abc' is no uid"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_a_refusal_says_where_what_and_what_to_write(tmp_path: Path, text: str, words: str) -> None:
    [line] = said(tmp_path, text)
    assert line.startswith(words)


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    assert len(said(tmp_path, "node = 3\nfoo = 1\n[wal]\ncap_bytes = -1\n")) == 3


def test_a_refusal_shows_no_password(tmp_path: Path) -> None:
    lines = said(tmp_path, '[kafka]\npassword = ["hunter2"]\npasword = "hunter2"\nsecurity = "sasl_ssl"\n')
    assert len(lines) == 2 and "hunter2" not in "".join(lines)
    [line] = said(tmp_path, '[kafka]\npassword = "hunter2"\nsecurity = "sasl_ssl"\n')
    assert "hunter2" not in line


VARIABLES: list[tuple[str, dict[str, str], str, Any]] = [
    ("a list with commas", {"WATTLEDGER_AGENT_WATCHERS": "slurm, processes"}, "watchers", ("slurm", "processes")),
    ("a list of one", {"WATTLEDGER_AGENT_WATCHERS": "slurm"}, "watchers", ("slurm",)),
    ("an empty list", {"WATTLEDGER_AGENT_WATCHERS": ""}, "watchers", ()),
    ("a list as JSON", {"WATTLEDGER_AGENT_WATCHERS": '["slurm"]'}, "watchers", ("slurm",)),
    ("numbers", {"WATTLEDGER_AGENT_SLURM__SOCKET_UIDS": "0,64030"}, "slurm.socket_uids", (0, 64030)),
    ("one number", {"WATTLEDGER_AGENT_SLURM__SOCKET_UIDS": "7"}, "slurm.socket_uids", (7,)),
    ("paths", {"WATTLEDGER_AGENT_SLURM__FILES": "/a/*.txt,/b"}, "slurm.files", ("/a/*.txt", "/b")),
    ("no folder", {"WATTLEDGER_AGENT_SLURM__DROP_DIR": ""}, "slurm.drop_dir", None),
    ("a table as JSON", {"WATTLEDGER_AGENT_WAL": '{"cap_bytes": 5}'}, "wal.cap_bytes", 5),
    ("small letters", {"wattledger_agent_kafka__bootstrap": "b:1"}, "kafka.bootstrap", "b:1"),
]


@pytest.mark.parametrize(("given", "name", "value"), [v[1:] for v in VARIABLES], ids=[v[0] for v in VARIABLES])
def test_a_variable_sets(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], name: str, value: Any) -> None:
    for variable, text in given.items():
        monkeypatch.setenv(variable, text)
    found: Any = load_settings()
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value


def test_a_list_that_is_no_list_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATTLEDGER_AGENT_WATCHERS", '["slurm"')
    with pytest.raises(ValidationError) as caught:
        load_settings()
    [line] = refusals(caught.value, None, Variables(AgentSettings).env_vars)
    assert line.startswith("WATTLEDGER_AGENT_WATCHERS: watchers is '[\"slurm\"': must be a list")


def test_a_variable_that_is_no_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATTLEDGER_AGENT_KAFKA_BOOTSTRAP", "b:1")
    with pytest.raises(UnknownVariable, match=re.escape("(is WATTLEDGER_AGENT_KAFKA__BOOTSTRAP meant?)")):
        load_settings()


UNKNOWN = [
    ("a single underscore", "WATTLEDGER_AGENT_WAL_PATH", "/x", True),
    ("a port as a number", "WATTLEDGER_AGENT_PORT", "9479", True),
    ("a setting", "WATTLEDGER_AGENT_WAL__PATH", "/x", False),
    ("systemd's socket", "NOTIFY_SOCKET", "/x", False),
    ("another program's", "WATTLEDGER_TENANT", "acme", False),
    ("a service's port", "WATTLEDGER_AGENT_PORT", "tcp://10.0.0.1:9478", False),
    ("a service's host", "WATTLEDGER_AGENT_SERVICE_HOST", "10.0.0.1", False),
    ("a service's named port", "WATTLEDGER_AGENT_SERVICE_PORT_METRICS", "9478", False),
    ("a service's address", "WATTLEDGER_AGENT_PORT_9478_TCP_ADDR", "10.0.0.1", False),
]


@pytest.mark.parametrize(("name", "text", "is_refused"), [u[1:] for u in UNKNOWN], ids=[u[0] for u in UNKNOWN])
def test_which_variables_are_taken_for_a_mistake(name: str, text: str, is_refused: bool) -> None:
    assert bool(unknown_variables({name: text}, variable_names(AgentSettings), "WATTLEDGER_AGENT_")) == is_refused


def test_a_file_that_is_not_there_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_settings(tmp_path / "none.toml")


def test_the_list_in_the_repository_is_what_the_command_prints() -> None:
    assert (ROOT / "infra" / "packages" / "settings.toml").read_text() == settings_text(AgentSettings())


def test_the_list_names_every_setting_and_says_what_it_is_for() -> None:
    for name, field in AgentSettings.model_fields.items():
        assert field.description, f"{name} says nothing of itself"
        group = type(field.default) if isinstance(field.default, BaseModel) else None
        for key, inner in group.model_fields.items() if group else ():
            assert inner.description, f"{name}.{key} says nothing of itself"
    named = set(re.findall(r"^# (\w+) = ", settings_text(AgentSettings()), re.MULTILINE))
    fields = {
        path[-1] for path in variable_names(AgentSettings).values() if len(path) > 1 or not _is_group_name(path[0])
    }
    assert named == fields


def _is_group(field: Any) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _is_group_name(name: str) -> bool:
    return _is_group(AgentSettings.model_fields[name])


def test_the_list_is_a_file_that_sets_the_same_again(tmp_path: Path) -> None:
    given = load_settings(
        None, node="n1", watchers=("slurm", "processes"), http_port=0,
        kafka={"security": "sasl_ssl", "username": "a", "password_file": "/p", "bootstrap": "a:1,b:2"},
        wal={"path": "/var/x/ä.wal", "old_key_files": ("/k1", "/k2")},
        slurm={"drop_dir": "", "comment_tags": True, "socket_uids": (0, 5)}, watch_s=2.5,
    )  # fmt: skip
    text = settings_text(given)
    assert max(len(line) for line in text.splitlines()) <= 80
    file = tmp_path / "again.toml"
    file.write_text(text)
    assert load_settings(file).model_dump() == given.model_dump()
    every = "\n".join(re.sub(r"^# (?=\w+ = )", "", line) for line in settings_text(AgentSettings()).splitlines())
    assert "bootstrap" in tomllib.loads(every)["kafka"]


def test_the_list_shows_no_password() -> None:
    text = settings_text(load_settings(None, kafka={"security": "ssl", "password": "hunter2"}))
    assert "hunter2" not in text and "# set, not shown" in text

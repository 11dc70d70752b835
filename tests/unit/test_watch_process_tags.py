"""Who may tag its own work, and with what."""

import pytest
from wattledger_agent.watchers.tags import TagRule, Uids, accept_tags

ALL = TagRule(Uids.parse("all"))


@pytest.mark.parametrize(
    ("text", "members", "others"),
    [
        ("all", [0, 1000, 4_294_967_294], []),
        ("none", [], [0, 1000]),
        ("", [], [0, 1000]),
        (" NONE ", [], [0]),
        ("1000", [1000], [0, 999, 1001]),
        ("1000-1999, 2500", [1000, 1999, 2500], [999, 2000, 2499, 2501]),
        ("0", [0], [1]),
        ("5-5", [5], [4, 6]),
    ],
)
def test_uids_are_a_list_of_ranges(text: str, members: list[int], others: list[int]) -> None:
    uids = Uids.parse(text)
    assert all(uid in uids for uid in members)
    assert not any(uid in uids for uid in others)
    assert None not in uids


@pytest.mark.parametrize(
    "text", ["x", "1000-", "-5", "2000-1000", "1000 1001", "all,5", "1000,,2000", "99999999999", "1.5"]
)
def test_uids_that_are_none_are_refused_with_the_part_that_is_wrong(text: str) -> None:
    with pytest.raises(ValueError, match="uids"):
        Uids.parse(text)


def test_an_allowed_uid_tags_itself() -> None:
    carried = {"WATTLEDGER_TENANT": " acme ", "WATTLEDGER_MODEL": "meta/llama-3.1:70b@v2"}
    tags = accept_tags("processes", "process 5", 1000, carried, TagRule(Uids.parse("1000-1999")))
    assert (tags.tenant, tags.model, tags.findings) == ("acme", "meta/llama-3.1:70b@v2", ())


@pytest.mark.parametrize("uid", [999, 0, None])
def test_who_may_not_tag_itself_is_refused_and_named(uid: int | None) -> None:
    rule = TagRule(Uids.parse("1000-1999"))
    tags = accept_tags("processes", "process 5", uid, {"WATTLEDGER_TENANT": "bigbank"}, rule)
    assert (tags.tenant, tags.model) == ("", "")
    (finding,) = tags.findings
    assert finding.reason == "tag_not_allowed"
    assert "process 5" in finding.detail and "bigbank" not in finding.detail, "what it may not say is not passed on"
    assert ("unknown" if uid is None else str(uid)) in finding.detail


def test_nobody_may_tag_itself_unless_it_is_allowed() -> None:
    assert accept_tags("processes", "process 5", 0, {"WATTLEDGER_TENANT": "a"}, TagRule()).tenant == ""


@pytest.mark.parametrize("value", ["acme", "Büro Köln", "a", "team-7", "a.b_c", "顧客", "org/model:tag", "C++"])
def test_names_of_any_script_are_taken(value: str) -> None:
    assert accept_tags("p", "x", 1, {"WATTLEDGER_TENANT": value}, ALL).tenant == value


@pytest.mark.parametrize(
    "value",
    [
        "__idle__", "_a", '=HYPERLINK("http://x")', "+1", "-1", "@SUM", "a\tb", "a\nb", "a\rb", "a;b", "a'b", 'a"b',
        "a,b", "a|b", "a/", "a\x00b", "a\u202eb", "�", "x" * 129, "a_",
    ],
)  # fmt: skip
def test_e17_values_that_could_pass_for_something_else_are_refused(value: str) -> None:
    tags = accept_tags("p", "process 5", 1, {"WATTLEDGER_TENANT": value}, ALL)
    assert tags.tenant == ""
    (finding,) = tags.findings
    assert finding.reason == "tag_malformed"
    assert len(finding.detail) < 400


def test_empty_values_are_no_tags_and_no_finding() -> None:
    tags = accept_tags("p", "x", 1, {"WATTLEDGER_TENANT": "", "WATTLEDGER_MODEL": "  "}, TagRule())
    assert (tags.tenant, tags.model, tags.findings) == ("", "", ())

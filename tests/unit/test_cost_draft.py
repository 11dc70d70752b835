"""Drafted cost files: they load as they are and when filled in, and say what the files gave, with money unmapped."""

import re
from decimal import Decimal
from pathlib import Path

import pytest
from wattledger_audit.assessment.cost_book import CostBook
from wattledger_audit.assessment.cost_draft import DraftFacts, draft_costs
from wattledger_audit.assessment.cost_file import read_cost_file
from wattledger_audit.assessment.host_fold import can_list, fold_hosts
from wattledger_audit.assessment.tenant_likeness import likely_tenants
from wattledger_audit.intake.slurm_hostlist import expand_hostlist

from tests.pricing_builders import at

FACTS = DraftFacts(
    usage_nodes={
        **{f"gpu{number:02}": ("H100", 8) for number in range(1, 17)},
        **{f"gpu{number:02}": ("A100", 4) for number in (20, 21, 23)},
        "login1": ("", 0),
        "box": ("", 2),
    },
    tenants={"usage": ("globex", "acme", "umbrella-1", "umbrella-2"), "billing": ("Acme Inc.", "globex")},
    unmapped=(
        ("Hooli", Decimal("12.5"), "USD"),
        ("Acme Inc.", Decimal(100), "USD"),
        ("Initech, Inc", Decimal("2500.25"), "USD"),
        ("Umbrella", Decimal(40), "USD"),
        ("Hooli", Decimal(30), "USD"),
    ),
    currency="USD",
    timezone="Europe/Berlin",
    period="2026-10",
)
NASTY = 'a: "b" # {c}\n- d \\ \x7f é 漢 😀'


def loaded(folder: Path, text: str) -> CostBook:
    path = folder / "costs.yaml"
    path.write_text(text, encoding="utf-8")
    return read_cost_file(path, at("2026-10-01T00:00+02:00"), at("2026-11-01T00:00+01:00"))


def filled_in(text: str) -> str:
    """The draft with every commented section taken as it stands: what a person who removes each # gets."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        inside = re.fullmatch(r"#\w+:", line) is not None or (inside and line.startswith("#  "))
        lines.append(line[1:] if inside else line)
    return "\n".join(lines) + "\n"


def without_rate(text: str) -> str:
    """The draft's compute has two entries for the same GPUs, to choose from: this takes the purchase."""
    return re.sub(r"  - \{.*per_gpu_hour: 1\.20\}\n", "", text)


def test_a_draft_loads_as_it_is_without_any_cost(tmp_path: Path) -> None:
    book = loaded(tmp_path, draft_costs(FACTS))
    assert (book.currency, book.timezone.key, book.prices, book.spreads) == ("USD", "Europe/Berlin", (), ())
    assert (book.idle_policy, book.target_margin_ppm, book.price_step) == ("weighted", 200_000, Decimal("0.01"))
    assert {node.node: (node.gpu_model, node.gpus) for node in book.fleet} == {
        node: facts for node, facts in FACTS.usage_nodes.items() if facts[1]
    }
    assert [tenant.name for tenant in book.tenants] == ["acme", "globex", "umbrella-1", "umbrella-2"]


def test_each_commented_entry_is_valid_once_its_comment_sign_is_gone(tmp_path: Path) -> None:
    book = loaded(tmp_path, without_rate(filled_in(draft_costs(FACTS))))
    assert {price.kind for price in book.prices} == {"energy", "pool"}
    assert {spread.component for spread in book.spreads} == {"compute", "pool:fabric"}
    assert set(book.power) == {"A100", "H100"}
    assert (len(book.fx), len(book.meters), len(book.skus), book.assumptions) == (1, 1, 2, ())
    rate = re.sub(r"  - gpu_model: \"A100\"\n    purchase:\n(      .*\n)+", "", filled_in(draft_costs(FACTS)))
    assert "compute" in {price.kind for price in loaded(tmp_path, rate).prices}


def test_hosts_alike_are_one_line(tmp_path: Path) -> None:
    text = draft_costs(FACTS)
    assert '- {node: "gpu[01-16]", gpu_model: "H100", gpus: 8}  # 16 nodes\n' in text
    assert '- {node: "gpu[20-21,23]", gpu_model: "A100", gpus: 4}  # 3 nodes\n' in text
    assert '- {node: "box", gpu_model: "", gpus: 2}  # model not in the usage: fill it in; 1 node\n' in text
    assert "login1" not in text


def test_aliases_are_drafted_only_where_one_tenant_is_likely_and_are_marked(tmp_path: Path) -> None:
    text = draft_costs(FACTS)
    assert '    aliases: {billing: ["Acme Inc."]}  # drafted: check, billed 100.00 USD\n' in text
    assert {t.name: dict(t.aliases) for t in loaded(tmp_path, text).tenants if t.aliases} == {
        "acme": {"billing": ("Acme Inc.",)}
    }


def test_what_is_unmapped_is_listed_in_money_largest_first() -> None:
    listed = draft_costs(FACTS).split("# Billed, but no usage is known under this name")[1].split("# What a billed")[0]
    assert re.findall(r"#\s+([\d.]+ USD)  (.*)", listed) == [
        ("2500.25 USD", '"Initech, Inc"'), ("42.50 USD", '"Hooli"'), ("40.00 USD", '"Umbrella"'),
    ]  # fmt: skip
    assert "(2582.75 USD in all)" in listed


def test_amounts_of_several_currencies_stay_apart_and_ask_for_a_rate() -> None:
    facts = DraftFacts(unmapped=(("a1x", Decimal(5), "EUR"), ("a1x", Decimal(7), "USD")), currency="USD")
    text = draft_costs(facts)
    assert '5.00 EUR, 7.00 USD  "a1x"' in text
    assert "#  - {currency: EUR, from: 2026-01-01, to: 2026-02-01, rate: 1.00, source: ECB}" in text


def test_the_same_facts_in_another_order_give_the_same_text() -> None:
    shuffled = DraftFacts(
        dict(list(FACTS.usage_nodes.items())[::-1]),
        {"billing": FACTS.tenants["billing"][::-1], "usage": FACTS.tenants["usage"][::-1]},
        tuple(FACTS.unmapped)[::-1],
        FACTS.currency,
        FACTS.timezone,
        FACTS.period,
    )
    assert draft_costs(shuffled) == draft_costs(FACTS)


def test_no_facts_at_all_give_a_draft_that_loads(tmp_path: Path) -> None:
    book = loaded(tmp_path, draft_costs(DraftFacts()))
    assert (book.currency, book.timezone.key, book.fleet, book.tenants) == ("USD", "UTC", (), ())
    assert loaded(tmp_path, without_rate(filled_in(draft_costs(DraftFacts())))).spreads


def test_names_are_only_ever_text(tmp_path: Path) -> None:
    facts = DraftFacts(
        {NASTY: ("M", 1), "node1": (NASTY, 1), "no": ("yes", 1)},
        {"usage": (NASTY, "null", "1e3"), "billing": ("Null GmbH",)},
        ((NASTY + "2", Decimal(1), NASTY),),
        NASTY,
        "UTC",
        NASTY,
    )
    book = loaded(tmp_path, draft_costs(facts))
    assert {tenant.name for tenant in book.tenants} == {NASTY, "null", "1e3"}
    assert [(node.node, node.gpu_model) for node in book.fleet] == [("node1", NASTY), ("no", "yes")]
    assert loaded(tmp_path, without_rate(filled_in(draft_costs(facts)))).spreads


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu02", "gpu01", "gpu03"], "gpu[01-03]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["n1", "n01", "n2"], "n[1-2,01]"),
        (["n1", "n3", "login"], "login,n[1,3]"),
        (["r1n1.lab", "r1n2.lab", "r2n1.lab"], "r1n[1-2].lab,r2n1.lab"),
        (["n099", "n100", "n0100"], "n[099-100,0100]"),
        (["n1", "n1"], "n1"),
        (["a12345678901"], "a12345678901"),
    ],
)
def test_folded_hosts_expand_to_the_same_names(names: list[str], folded: str) -> None:
    assert fold_hosts(names) == folded
    assert sorted(expand_hostlist(folded)) == sorted(set(names))
    assert all(can_list(name) for name in names)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1]", "a\n"])
def test_what_would_not_come_back_from_a_host_list_is_not_put_in_one(name: str) -> None:
    assert not can_list(name)


@pytest.mark.parametrize(
    ("billed", "used", "likely"),
    [
        (["Acme Inc."], ["acme", "globex"], {"Acme Inc.": "acme"}),
        (["ACME Corp, LLC"], ["acme"], {"ACME Corp, LLC": "acme"}),
        (["Société Générale S.A."], ["societe-generale"], {"Société Générale S.A.": "societe-generale"}),
        (["Acme Robotics GmbH"], ["acme"], {"Acme Robotics GmbH": "acme"}),
        (["Globexx"], ["globex"], {"Globexx": "globex"}),
        (["Deep Mine"], ["deepmine"], {"Deep Mine": "deepmine"}),
        # two could be it, either way round
        (["Acme Inc.", "ACME GmbH"], ["acme"], {}),
        (["Acme Robotics"], ["acme", "acme-robotics-2"], {"Acme Robotics": "acme"}),
        (["Umbrella Group"], ["umbrella", "umbrella-lab", "umbrella-group-eu"], {}),
        # the same words win over what is only alike
        (["Acme Inc.", "Acmee"], ["acme"], {"Acme Inc.": "acme"}),
        # numbers tell tenants apart
        (["Tenant 12"], ["tenant-13"], {}),
        (["Team1"], ["team2", "team1"], {"Team1": "team1"}),
        # too short to be alike, and nothing alike
        (["ab"], ["abc"], {}),
        (["Initech"], ["acme"], {}),
        (["Inc."], ["inc"], {"Inc.": "inc"}),
        ([], ["acme"], {}),
    ],
)
def test_the_likely_tenant_of_a_billed_name(billed: list[str], used: list[str], likely: dict[str, str]) -> None:
    assert likely_tenants(billed, used) == likely

"""`report.html` as it is written: no text leaves its place, the same report is the same bytes, what is shown when."""

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from wattledger_audit.report import embedded, page
from wattledger_audit.report.model import Report
from wattledger_audit.report.page import page_text, write_page

from tests.report_sample import full_report, leakage_report, usage_only_report
from tests.report_sample_text import LONG_NAME, SCRIPT_NAME, SHEET_NAME

TEMPLATES = Path(str(files("wattledger_audit.report"))) / "templates"
MAX_LINES = 400
REPORTS = {"full": full_report, "leakage": leakage_report, "usage only": usage_only_report}
EVERY = pytest.mark.parametrize("report", [make() for make in REPORTS.values()], ids=list(REPORTS))


@dataclass
class Parsed(HTMLParser):
    """Elements with their attributes, the text of styles and scripts, and all other text."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    text: str = ""
    inside: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("style", "script"):
            self.inside = tag
            self.sources.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.sources[-1] += data
        else:
            self.text += data

    def attributes(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.elements if name in attrs]

    def count(self, tag: str) -> int:
        return Counter(found for found, _ in self.elements)[tag]


def parsed(report: Report) -> Parsed:
    found = Parsed()
    found.feed(page_text(report))
    found.close()
    return found


def test_the_same_report_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_page(full_report(), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert (tmp_path / "one").read_bytes().startswith(b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset=')


@EVERY
def test_names_stay_text_wherever_they_stand(report: Report) -> None:
    found = parsed(report)
    assert found.count("script") == 3 and found.count("b") == 0 and found.count("style") == 1
    for name in (SCRIPT_NAME, SHEET_NAME, LONG_NAME):
        assert name in found.text
    assert not [name for _, attrs in found.elements for name in attrs if name.startswith("on") or name == "style"]


@EVERY
def test_the_embedded_data_is_the_report_and_nothing_in_it_can_end_the_script(report: Report) -> None:
    found = parsed(report)
    _, data, _, _ = found.sources
    assert json.loads(data) == json.loads(report.model_dump_json())
    assert not set("<>&\u2028\u2029") & set(data)


def test_text_that_a_script_would_end_at_survives_as_it_is() -> None:
    hostile = "</script><!--<script>]]>\u2028\u2029&amp;\x00\"'\\"
    text = str(embedded.script_json({"a": hostile}))
    assert json.loads(text) == {"a": hostile}
    assert not set("<>&\u2028\u2029\x00") & set(text)


@EVERY
def test_only_the_pages_own_style_and_script_may_run_and_nothing_may_load(report: Report) -> None:
    found = parsed(report)
    [policy] = [attrs["content"] or "" for _, attrs in found.elements if "http-equiv" in attrs]
    style, _, _, script = found.sources
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    digests = [hashlib.sha256(text.encode()).digest() for text in (style, script)]
    hashes = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert [allowed.pop("style-src"), allowed.pop("script-src")] == hashes
    assert allowed == {"default-src": "'none'", "img-src": "data:", "base-uri": "'none'", "form-action": "'none'"}
    assert found.attributes("src") == []
    assert {href for href in found.attributes("href") if not href.startswith("#")} == {"data:,"}
    assert not re.search(r"url\(|@import|https?:", style + script)


@EVERY
def test_every_reference_inside_the_page_has_its_one_target(report: Report) -> None:
    found = parsed(report)
    ids = Counter(found.attributes("id"))
    assert max(ids.values()) == 1
    links = [href[1:] for href in found.attributes("href") if href.startswith("#")]
    wanted = [*links, *found.attributes("for"), *found.attributes("aria-labelledby")]
    assert len(wanted) > 20
    assert [name for name in wanted if name not in ids] == []


@EVERY
def test_every_table_has_a_caption_and_every_heading_cell_says_what_it_heads(report: Report) -> None:
    found = parsed(report)
    assert found.count("table") == found.count("caption") > 3
    assert [attrs for tag, attrs in found.elements if tag == "th" and not attrs.get("scope")] == []
    landmarks = {tag: found.count(tag) for tag in ("header", "nav", "main", "footer", "h1")}
    assert set(landmarks.values()) == {1}


ORDER = (
    "verdict", "bridge", "tenants", "skus", "walk", "repricing", "capacity", "idle", "tokens", "tie-out", "coverage",
    "discrepancies", "files", "rejected", "method",
)  # fmt: skip


def test_sections_stand_in_the_order_in_which_they_are_asked_for() -> None:
    found = [attrs["id"] for tag, attrs in parsed(full_report()).elements if tag == "section"]
    assert found == list(ORDER)


def test_the_verdict_the_bridge_and_the_next_answer_come_before_any_table_of_tenants() -> None:
    report = full_report()
    text = page_text(report)
    parts = (report.headline, report.next_answer, '<section id="bridge"', '<section id="tenants"')
    at = [text.index(part) for part in parts]
    assert at == sorted(at)


def headings(report: Report) -> set[str]:
    """The words of the columns of the table of tenants."""
    text = page_text(report)
    table = text[text.index('id="tenants-table"') : text.index("</thead>", text.index('id="tenants-table"'))]
    return set(re.findall(r'<button type="button"[^>]*>([^<]+)', table))


def test_without_costs_no_cost_is_shown_and_a_box_says_what_a_cost_file_would_add() -> None:
    report = leakage_report()
    assert headings(report) == {
        "Tenant", "Action", "Billed", "Contract", "Effective", "Held", "Billable", "Provider pays",
    }  # fmt: skip
    found = parsed(report)
    assert "What a cost file would add" in found.text and "What a billing export would add" not in found.text
    ids = found.attributes("id")
    assert not {"switches", "repricing", "walk"} & set(ids)
    assert "Tenants below cost" not in found.text


def test_without_billing_no_margin_is_shown_and_a_box_says_what_a_billing_export_would_add() -> None:
    report = usage_only_report()
    assert not {"Billed", "Effective", "Margin", "Margin %"} & headings(report)
    assert {"Cost, full floor", "Break-even", "Suggested", "Marginal floor", "Share of idle"} <= headings(report)
    assert "What a billing export would add" in parsed(report).text


def test_a_report_of_nothing_is_a_page_too() -> None:
    empty = full_report().model_copy(
        update={
            name: []
            for name in (
                "files", "bridge", "tenants", "skus", "repricing", "walk", "waterfall", "idle", "tokens", "tie_out",
                "rejected", "discrepancies", "method", "assumptions", "depth", "verdict_lines",
            )
        }
    )  # fmt: skip
    found = parsed(empty)
    assert found.count("h1") == 1
    assert "No tenant used or was billed anything" in found.text


def test_an_unknown_price_says_why_where_it_stands_and_other_figures_on_a_hover() -> None:
    text = page_text(full_report())
    assert '–<small class="why">no billable quantity</small>' in text
    assert 'title="energy is not known"' in text
    assert 'title="-46037.322273">-46,037.32<' in text


def test_every_part_of_the_script_is_in_the_page_and_no_template_is_long() -> None:
    assert {path.name for path in (TEMPLATES / "script").iterdir()} == set(page.SCRIPTS)
    paths = [path for path in TEMPLATES.rglob("*") if path.is_file()]
    assert len(paths) > 20
    assert [path.name for path in paths if len(path.read_text().splitlines()) >= MAX_LINES] == []

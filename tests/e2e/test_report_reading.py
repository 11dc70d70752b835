"""The report in a real browser, as it is read: nothing leaves the file, by key alone, on paper, in the dark, narrow."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.report.model import Report

from tests.e2e.report_browser import ENTER, TAB, choose, chromium, media, needs_chromium, opened, pick, press, run
from tests.report_sample import full_report, leakage_report, usage_only_report

pytestmark = needs_chromium()
EVERY = pytest.mark.parametrize("make", [full_report, leakage_report, usage_only_report])
PAPER = "return getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@EVERY
def test_no_error_is_logged_and_no_request_leaves_the_file(
    browser: Any, tmp_path: Path, make: Callable[[], Report]
) -> None:
    report = make()
    path = opened(browser, report, tmp_path)
    if report.stage == "full":
        choose(browser, "energy", "even")
        choose(browser, "true", "apart")
    run(browser, "for (const button of document.querySelectorAll('thead button, #theme')) button.click()")
    assert run(browser, "return document.title") == report.title
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert path.as_uri() in asked
    assert {url for url in asked if not url.startswith("data:")} == {path.as_uri()}


def test_the_pages_policy_lets_nothing_else_run_or_load(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    run(
        browser,
        """const script = document.createElement("script"); script.textContent = "document.title = 'ran'";
        const image = document.createElement("img"); image.src = "http://127.0.0.1:9/x.png";
        const style = document.createElement("style"); style.textContent = "body { display: none }";
        document.body.append(script, image, style)""",
    )
    assert run(browser, "return document.title") == full_report().title
    assert run(browser, "return getComputedStyle(document.body).display") == "block"
    refused = [entry["message"] for entry in browser.get_log("browser")]
    assert len(refused) == 3 and all("Content Security Policy" in message for message in refused)


def test_the_data_of_the_page_is_the_report(browser: Any, tmp_path: Path) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    text = run(browser, "return document.getElementById('report-data').textContent")
    assert json.loads(text) == json.loads(report.model_dump_json())
    assert run(browser, "return document.querySelectorAll('script').length") == 3


def test_the_first_key_reaches_the_skip_link_and_it_leads_to_the_verdict(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    press(browser, TAB)
    assert run(browser, "return document.activeElement.className") == "skip"
    assert run(browser, "return document.activeElement.getBoundingClientRect().top") >= 0
    assert run(browser, "return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press(browser, ENTER)
    assert run(browser, "return document.activeElement.id") == "main"
    assert browser.current_url.endswith("#main")


def test_every_control_and_every_scrolling_box_is_reached_by_key_alone(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    count = run(browser, "return document.querySelectorAll('.box, summary, thead button').length")
    unreachable = run(
        browser,
        """return [...document.querySelectorAll("a, button, select, input, summary, .box")]
          .filter((e) => e.tabIndex < 0 && e.getClientRects().length).map((e) => e.outerHTML.slice(0, 80))""",
    )
    assert (unreachable, count > 50) == ([], True)


def test_the_walk_shows_the_chosen_tenant(browser: Any, tmp_path: Path) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    seen = """return [...document.querySelectorAll(".walk")].filter((walk) => walk.getClientRects().length)
      .map((walk) => walk.querySelector("caption").textContent)"""
    assert run(browser, seen) == [report.walk[0].tenant]
    pick(browser, "walk-tenant", "4")
    assert run(browser, seen) == [report.walk[4].tenant]


def test_two_rows_of_joules_per_token_compare(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    ratio = "return [...document.querySelectorAll('#compare tbody tr')].map((row) => row.cells[3].textContent)"
    assert run(browser, ratio) == ["0.333 ×", "0.295 ×"]  # 0.5 ÷ 1.5 and 0.18 ÷ 0.61
    pick(browser, "compare-a", "1")
    pick(browser, "compare-b", "0")
    assert run(browser, ratio) == ["3.000 ×", "3.389 ×"]
    pick(browser, "compare-b", "2")
    assert run(browser, ratio) == ["–", "–"]


ON_PAPER = """const seen = (e) => e.checkVisibility();
  return {
    cut: [...document.querySelectorAll(".box")].filter((b) => b.scrollHeight > b.clientHeight + 1).length,
    closed: [...document.querySelectorAll("details")].filter((d) => !seen(d.querySelector(".parts"))).length,
    walks: [...document.querySelectorAll(".walk")].filter(seen).length,
    controls: ["nav", "#switches", "#theme", ".chooser"].filter((q) => seen(document.querySelector(q))),
    paper: getComputedStyle(document.body).backgroundColor,
  }"""


def test_paper_shows_everything_opened_and_the_switches_as_chosen(browser: Any, tmp_path: Path) -> None:
    report = full_report()
    opened(browser, report, tmp_path)
    assert run(browser, ON_PAPER)["closed"] == run(browser, "return document.querySelectorAll('details').length") > 5
    choose(browser, "true", "even")
    run(browser, "document.documentElement.dataset.theme = 'dark'")
    media(browser, "print")
    everything = {"cut": 0, "closed": 0, "walks": len(report.walk), "controls": [], "paper": "rgb(255, 255, 255)"}
    assert run(browser, ON_PAPER) == everything
    now = "return document.getElementById('shown-now').innerText"
    assert run(browser, now).startswith("Shown: true cost, idle even")
    media(browser)
    closed_again = "return document.querySelectorAll('details[open]').length === 0"
    wait = pytest.importorskip("selenium.webdriver.support.wait").WebDriverWait(browser, 5)
    assert wait.until(lambda _: run(browser, closed_again))


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)], ids=["desk", "phone"])
@EVERY
def test_the_page_is_never_wider_than_the_window(
    browser: Any, tmp_path: Path, make: Callable[[], Report], size: tuple[int, int]
) -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened(browser, make(), tmp_path)
    width = run(browser, "return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= size[0]


def test_dark_follows_the_reader_and_the_button(browser: Any, tmp_path: Path) -> None:
    opened(browser, full_report(), tmp_path)
    light, dark = "rgb(255, 255, 255)", "rgb(20, 24, 29)"
    found = [run(browser, PAPER)]
    for _ in range(2):
        run(browser, "document.getElementById('theme').click()")
        found.append(run(browser, PAPER))
    assert found == [light, dark, light]
    run(browser, "delete document.documentElement.dataset.theme")
    media(browser, scheme="dark")
    assert run(browser, PAPER) == dark


CONTRAST = """const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const curve = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * curve(r / 255) + 0.7152 * curve(g / 255) + 0.0722 * curve(b / 255);
  const behind = (e) => {
    const colour = channels(getComputedStyle(e).backgroundColor);
    return colour.length < 4 || colour[3] > 0 ? colour : behind(e.parentElement);
  };
  const weak = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (!e.getClientRects().length || e.closest(".vh, svg")) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) weak.add(`${e.tagName}.${e.className} ${(a + 0.05) / (b + 0.05)}`);
  }
  return [...weak]"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(browser: Any, tmp_path: Path, scheme: str) -> None:
    opened(browser, full_report(), tmp_path)
    media(browser, scheme=scheme)
    assert run(browser, CONTRAST) == []
    run(browser, "document.body.style.color = getComputedStyle(document.body).backgroundColor")
    assert run(browser, CONTRAST) != []

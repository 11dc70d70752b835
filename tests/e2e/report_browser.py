"""A headless Chromium with a report's page in it, and what a hand does there. Debian's chromium and its driver."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from wattledger_audit.report.model import Report
from wattledger_audit.report.page import write_page

CHROMIUM, CHROMEDRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
ENTER, SPACE, TAB = "\ue007", " ", "\ue004"
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,900")


def needs_chromium() -> pytest.MarkDecorator:
    """Skips where the browser or its driver is not installed."""
    there = CHROMIUM.exists() and CHROMEDRIVER.exists()
    return pytest.mark.skipif(not there, reason="needs /usr/bin/chromium and /usr/bin/chromedriver")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that logs its console and every request; closed at the end."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in _FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(CHROMEDRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


def opened(browser: Any, report: Report, folder: Path) -> Path:
    """The report's page, written and open on a screen; logs of pages before are dropped."""
    path = folder / "report.html"
    write_page(report, path)
    browser.get("about:blank")
    media(browser)
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    return path


def media(browser: Any, kind: str = "", scheme: str = "light") -> None:
    """What the page is shown on (`print`, or nothing said), and which colours its reader prefers."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": kind, "features": features})


def run(browser: Any, script: str, *values: object) -> Any:
    """What a script of the page's own says."""
    return browser.execute_script(script, *values)


def pick(browser: Any, select: str, value: str) -> None:
    """Chooses an entry of a list."""
    run(
        browser,
        """const list = document.getElementById(arguments[0]); list.value = arguments[1];
        list.dispatchEvent(new Event("change", {bubbles: true}))""",
        select,
        value,
    )


def choose(browser: Any, cost: str, policy: str) -> None:
    """Both switches; the list of policies is off under energy only, so it comes first."""
    run(browser, "document.querySelector('#switches input[value=true]').click()")
    pick(browser, "idle-policy", policy)
    run(browser, f"document.querySelector('#switches input[value={cost}]').click()")


def press(browser: Any, key: str) -> None:
    """A key, wherever the focus is."""
    browser.switch_to.active_element.send_keys(key)

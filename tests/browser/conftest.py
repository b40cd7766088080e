"""A browser for the tests, and the scenes that they look at. Without a Chromium they say so, and are not run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.api.browsing import BrowserSession
from tests.api.serving import Client
from tests.browser.scene import NOW, Scene, played

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE = {"width": 1440, "height": 1120}, {"width": 390, "height": 844}
PATIENCE = 60_000  # milliseconds: a machine that does much else is slow
expect.set_options(timeout=PATIENCE)
# What a page takes away after some seconds (a message, the first of two keys, the pause before it tries again) it takes
# away after minutes here: how fast a test presses and looks depends on what else the machine does.
LONGER = 60
LASTING = """(longer) => {
  const begin = window.setTimeout;
  window.setTimeout = (act, wait, ...more) => begin(act, wait >= 1000 ? wait * longer : wait, ...more);
}"""
# How many answers the page waits for, in an attribute of its root; an answer is waited for until what it changes is
# drawn. The stream of events never ends, and logs may not.
ASKING = """() => {
  const send = window.fetch, frame = window.requestAnimationFrame;
  let asks = 0;
  const count = (by) => { document.documentElement.dataset.asks = asks += by; };
  const drawn = () => frame(() => frame(() => frame(() => count(-1))));
  window.fetch = async (...call) => {
    if (/\\/(stream|log)\\//.test(String(call[0]?.url || call[0]))) return send(...call);
    count(1);
    try {
      const answer = await send(...call);
      answer.clone().arrayBuffer().then(drawn, drawn);
      return answer;
    } catch (fault) { drawn(); throw fault; }
  };
}"""
# A refused call is logged by the browser itself; what is refused on purpose is not a fault of a page.
EXPECTED = ("Failed to load resource", "net::ERR_")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a test here last longer than others: it waits for several things in turn, each with this patience."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600), append=False)


# Not for the session: Playwright's event loop counts as running in this thread, and other tests run loops of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("THE DASHBOARD IS NOT TESTED: there is no Chromium on PATH; apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("scene")) as found:
        yield found


@contextmanager
def opened(
    browser: Browser,
    url: str,
    secret: str | None,
    *,
    at: str | None = None,
    longer: int = LONGER,
    **options: Any,
) -> Iterator[BrowserContext]:
    """A browser of one person, signed in with a token; it fails on errors of pages and on requests that leave.

    `longer`: 1 where a test stops the clock of its page, and the seconds of the page are what it is about.
    """
    held = {} if secret is None else {"storage_state": signed_in(url, secret)}
    context = browser.new_context(
        **{"viewport": DESKTOP, "timezone_id": "Europe/Paris", "locale": "en-GB", **held, **options}
    )
    context.set_default_timeout(PATIENCE)
    context.clock.install(time=NOW if at is None else at)
    context.add_init_script(f"({LASTING})({longer})")
    context.add_init_script(f"({ASKING})()")
    faults: list[str] = []
    origin = urlsplit(url)._replace(path="", query="", fragment="").geturl()

    def watch(page: Page) -> None:
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on(
            "console",
            lambda line: (
                faults.append(f"console: {line.text}")
                if line.type in ("error", "warning") and not line.text.startswith(EXPECTED)
                else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((f"{origin}/", "blob:"))
                else faults.append(f"left the origin: {request.url}")
            ),
        )

    context.on("page", watch)
    try:
        yield context
        assert faults == []
    finally:
        context.close()


def signed_in(url: str, secret: str) -> Any:
    """What a browser keeps after its page has signed in: the cookie, and the proof among what the page keeps."""
    begun = BrowserSession(Client(url, None), {"token": secret})
    assert begun.begun.status == 201, begun.begun.raw
    address = urlsplit(url)
    cookie = {
        "name": begun.name,
        "value": begun.cookie.value,
        "domain": address.hostname,
        "path": begun.cookie["path"],
        "httpOnly": True,
        "secure": False,
        "sameSite": "Strict",
        "expires": -1,
    }
    kept = {"name": f"everwhen.proof {address.path}/", "value": begun.begun.fields["csrf_token"]}
    origin = address._replace(path="", query="", fragment="").geturl()
    return {"cookies": [cookie], "origins": [{"origin": origin, "localStorage": [kept]}]}


def settled(page: Page) -> None:
    """Wait until the page has what it asked for, and shows it: before that, what it is measured by may move."""
    expect(page.get_by_role("main")).to_be_visible()
    expect(page.locator("html[data-asks='0']:not(:has([aria-busy=true]))")).to_be_attached()
    page.evaluate("document.fonts.ready")
    page.get_by_role("main").element_handle().wait_for_element_state("stable")


def root_of(page: Page) -> str:
    """The address of the folder that the page's modules come from."""
    found: str = page.evaluate("document.querySelector('script[type=module]').src.replace('/main.js', '')")
    return found


@pytest.fixture
def page(browser: Browser, scene: Scene) -> Iterator[Page]:
    """A page of the scene's admin."""
    with opened(browser, scene.url, scene.secret) as context:
        yield context.new_page()

"""How the pages look: readable for everybody (axe), and as the pictures in docs/screenshots show them.

The pictures are written by the long form only, so that a test run leaves the work tree as it was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DESKTOP, PHONE, opened, settled
from tests.browser.scene import Scene

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text()
SCREENSHOTS = Path(__file__).parents[2] / "docs" / "screenshots"
PAGES = {
    "now": "/",
    "week": "/week",
    "month": "/week?as=month",
    "schedules": "/schedules",
    "schedule": "/schedules/withings-poll?at=2026-11-16T08:26:23Z",
    "jobs": "/jobs",
    "approvals": "/approvals",
    "budgets": "/budgets",
    "alerts": "/alerts",
    "new": "/new",
    "breakers": "/breakers?key=withings-poll",
    "quiet-hours": "/quiet-hours",
    "audit": "/audit",
    "system": "/system",
}
# What was asked for is drawn with the next frame but one.
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
LONGEST = 2_000  # of a picture
SERIOUS = ("serious", "critical")


def findings(page: Page, *rules: str) -> list[str]:
    """What axe says is serious, each with the first place that it is about; of these rules, or of all."""
    page.evaluate("(text) => window.axe || (0, eval)(text)", AXE)
    chosen = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found: dict[str, Any] = page.evaluate("(chosen) => axe.run(document, chosen)", chosen)
    return [
        f"{one['id']}: {one['help']} at {one['nodes'][0]['html'][:300]} {one['nodes'][0].get('failureSummary')}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


def findings_in_both(page: Page) -> list[str]:
    """The same in light, and in dark what depends on colours."""
    page.emulate_media(color_scheme="light")
    found = findings(page)
    page.emulate_media(color_scheme="dark")
    page.evaluate(FRAMES)
    return found + [f"dark: {one}" for one in findings(page, "color-contrast", "link-in-text-block")]


def test_axe_finds_nothing_serious_in_light_and_dark(browser: Browser, scene: Scene) -> None:
    with opened(browser, scene.url, scene.secret, bypass_csp=True) as context:
        page = context.new_page()
        faults = []
        for name, path in pages_of(scene).items():
            page.goto(scene.url + path)
            settled(page)
            faults += [f"{name}: {one}" for one in findings_in_both(page)]
        assert not faults, "\n".join(faults)
    with opened(browser, scene.url, None, bypass_csp=True) as context:
        page = context.new_page()
        page.goto(scene.url)
        expect(page.get_by_label("Token")).to_be_visible()
        assert findings_in_both(page) == []


def test_dialogs_and_menus_are_readable_too(browser: Browser, scene: Scene) -> None:
    with opened(browser, scene.url, scene.secret, bypass_csp=True) as context:
        page = context.new_page()
        page.goto(f"{scene.url}/schedules/recount")
        settled(page)
        for name in ("Trigger…", "Pause…", "Search or jump to"):
            page.get_by_role("button", name=name).first.click()
            expect(page.get_by_role("dialog")).to_be_visible()
            assert findings(page) == [], name
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
        page.get_by_role("button", name="More: cancel").click()
        expect(page.get_by_role("menuitem", name="Backfill…")).to_be_focused()
        assert findings(page) == []
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="More: cancel")).to_be_focused()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("Single-key shortcuts")
        assert findings(page) == []


def pages_of(scene: Scene) -> dict[str, str]:
    """Every page; a job that runs, and a schedule that was changed."""
    admin = scene.service.admin
    (job,) = admin.get("/jobs/?status=running&group=reviewer").fields["items"]
    (changed,) = admin.get("/schedules/?q=digest-eu").fields["items"]
    return {**PAGES, "revisions": f"/schedules/{changed['id']}?tab=revisions", "job": f"/jobs/{job['id']}"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("scheme", "size", "viewport"),
    [
        ("light", "desktop", DESKTOP),
        ("dark", "desktop", DESKTOP),
        ("light", "phone", PHONE),
        ("dark", "phone", PHONE),
    ],
)
def test_every_page_has_its_picture(
    browser: Browser, scene: Scene, scheme: str, size: str, viewport: dict[str, int]
) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    is_phone = size == "phone"
    looks: dict[str, Any] = {
        "color_scheme": scheme,
        "viewport": viewport,
        "has_touch": is_phone,
        "is_mobile": is_phone,
    }
    with opened(browser, scene.url, scene.secret, **looks) as context:
        page = context.new_page()
        for name, path in pages_of(scene).items():
            page.goto(scene.url + path)
            settled(page)
            if name == "now":  # the whole day comes after the line
                expect(page.locator(".tl-map canvas[width]")).to_be_visible()
            page.evaluate(FRAMES)
            # A phone would show a page that is too wide smaller, and the window with it.
            assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"] + 1, name
            if is_phone:  # a screen as long as the page: what is fixed stays at its end
                tall = page.evaluate("document.documentElement.scrollHeight")
                page.set_viewport_size({"width": viewport["width"], "height": min(tall, LONGEST)})
                page.evaluate(FRAMES)
            page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}-{size}.png")
            page.set_viewport_size({"width": viewport["width"], "height": viewport["height"]})
    with opened(browser, scene.url, None, **looks) as context:
        page = context.new_page()
        page.goto(scene.url)
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
        page.screenshot(path=SCREENSHOTS / f"sign-in-{scheme}-{size}.png")

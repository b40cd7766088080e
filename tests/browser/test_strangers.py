"""Text of strangers, in names, notes, payloads, logs and errors, is text on every page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, expect

from everwhen.model.outcome import Outcome
from everwhen.testing.manual import ManualClock
from everwhen.web.routes import dashboard_routes
from tests.api.serving import serving
from tests.api.working import claimed, end, said, triggered
from tests.browser.conftest import opened, settled

MARKUP = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'
NAME = f"evil {MARKUP} \x1b[31m \u202e"
# Marks of direction, and separators of lines that are no line breaks: shown as text, so that nothing is read backwards.
MARKS = "user\u061c\u200e\u200f\u202e\u2067\u2028\u2029exe"
SHOWN_MARKS = "user\\x61c\\x200e\\x200f\\x202e\\x2067\\x2028\\x2029exe"
START = "2026-01-05T08:00:00Z"
# Addresses of strangers are text: no link leads away, or runs anything.
STRANGE_LINKS = """[...document.querySelectorAll("a[href], [src], form[action]")]
  .map((one) => one.href || one.src || one.action).filter((to) => !to.startsWith(location.origin + "/"))"""


def test_nothing_of_a_stranger_is_taken_as_markup(browser: Browser, tmp_path: Path) -> None:
    clock = ManualClock(START)
    with (
        serving(tmp_path, file="", url="sqlite://", clock=clock, further=dashboard_routes()) as service,
        opened(browser, service.url, service.admin.secret, at=START) as context,
    ):
        made = service.admin.create(name=NAME, description=MARKUP, payload={MARKUP: MARKUP}, owner=None)
        path = f"/schedules/{made['id']}/"
        job = triggered(service.admin, made, payload={"text": MARKUP})
        claim = claimed(service, job["id"])
        said(service, job["id"], f"{MARKUP}\x1b]0;title\x07\x1b[2J\x00\n{MARKS}\n".encode())
        end(service, claim, Outcome("failed", error=f"{MARKUP}\x07"))
        service.admin.post(f"{path}pause/", {"note": MARKUP})
        service.client("viewer", owner=MARKUP)
        service.admin.post(
            "/quiet-hours/", {"id": "q", "name": MARKUP, "windows": [{"between": "22:00-07:00"}]}
        )
        page = context.new_page()
        seen = 0
        own = f"/schedules/{made['id']}"
        pages = (
            "/",
            "/schedules",
            "/jobs",
            "/audit",
            "/system",
            "/week",
            "/quiet-hours",
            "/approvals",
            "/alerts",
            "/budgets",
            f"/new?like={made['id']}",
        )
        tabs = [f"{own}?tab={name}" for name in ("slots", "revisions", "definition")]
        others = ("/?table=yes&span=86400", "/week?as=month", f"/breakers?key={quote(MARKUP)}")
        asked = [f"/{name}?q={quote(MARKUP)}&group={quote(MARKUP)}" for name in ("", "schedules")]
        for address in (*pages, f"/jobs/{job['id']}", f"{own}?at={START}", *tabs, *others, *asked):
            page.goto(service.url + address)
            settled(page)
            seen += MARKUP in page.get_by_role("main").inner_text()
            assert page.evaluate("window.hit") is None
            assert page.evaluate("document.querySelectorAll('main img, main script').length") == 0
            assert page.evaluate(STRANGE_LINKS) == []
        assert seen >= 9
        page.goto(f"{service.url}/jobs/{job['id']}")
        expect(page.get_by_role("log")).to_contain_text("\\x1b]0;title\\x07\\x1b[2J")
        expect(page.get_by_role("log")).to_contain_text(SHOWN_MARKS)
        page.goto(f"{service.url}/schedules")
        expect(page.get_by_role("link", name="evil")).to_contain_text("\\x1b[31m")
        # Dialogs, messages and the list to jump to.
        page.get_by_role("checkbox", name=re.compile("^Select evil")).check()
        page.get_by_role("toolbar").get_by_role("button", name="Resume").click()
        said_so = page.locator(".toast").filter(has_text="Resumed evil")
        expect(said_so).to_contain_text(f"{MARKUP} \\x1b[31m \\x202e")
        page.get_by_role("toolbar").get_by_role("button", name="Delete…").click()
        expect(page.get_by_role("dialog")).to_contain_text(f"{MARKUP} \\x1b[31m \\x202e will fire nothing")
        expect(page.get_by_role("dialog").get_by_role("heading")).to_contain_text("\\x202e")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Search or jump to").click()
        expect(page.get_by_role("option", name=re.compile("evil"))).to_contain_text("\\x202e")
        everything = page.evaluate("document.body.innerText + document.title")
        assert not re.search("[\\x00-\\x08\\x0b-\\x1f\\u202a-\\u202e]", everything)
        assert page.evaluate("[window.hit, document.querySelectorAll('img, script:not([src])').length]") == [
            None,
            0,
        ]

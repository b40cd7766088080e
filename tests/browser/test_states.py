"""The states that every page can be in, and how it is moved by hand: loading, empty, refused, read-only, by touch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FloatRect, Page, Route, expect

from everwhen.store.lanes import Lane
from everwhen.web.routes import dashboard_routes
from tests.api.serving import serving
from tests.browser.conftest import PHONE, opened, settled
from tests.browser.scene import Scene, played
from tests.browser.test_looks import FRAMES
from tests.browser.test_pages import confirm, press, show

MIDDLE = {"width": 900, "height": 800}
# What no text may do: be longer than the place that it has.
CUT = """(chosen) => [...document.querySelectorAll(chosen)].filter((one) => one.offsetParent &&
  (one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)).map((one) => one.textContent)"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("states"), hours=1) as found:
        yield found


def test_a_page_that_waits_shows_its_shape_and_one_that_failed_what_to_do(page: Page, scene: Scene) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/v1/jobs/?*", hold)
    show(page, scene, "/jobs")
    expect(page.locator("main [aria-busy=true]").first).to_be_attached()
    page.clock.fast_forward(300)
    expect(page.locator("main .skeleton").first).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="Loading")).to_be_attached()
    page.clock.fast_forward(6_000)
    expect(page.get_by_text(re.compile(r"Still asking, .+ so far\."))).to_be_visible()
    held[0].fulfill(
        status=500, json={"type": "urn:everwhen:problem:internal", "status": 500, "detail": "no <b>luck</b>"}
    )
    failed = page.get_by_role("alert")
    expect(failed).to_contain_text("The jobs could not be loaded")
    expect(failed).to_contain_text("500: no <b>luck</b>")
    page.unroute_all()
    failed.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("table", name="Jobs, newest first")).to_be_visible()
    for path, clear in (("/jobs?status=lost", "Jobs"), ("/audit?type=node.lost", "Audit")):
        show(page, scene, path)
        expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
        press(page, "Clear the filter")
        expect(page.get_by_role("region", name=clear).get_by_role("row").nth(1)).to_be_visible()
    show(page, scene, "/?q=nothing-has-this")
    line = page.get_by_role("region", name="Time line")
    expect(line).to_contain_text("Nothing matches in this span.")
    line.get_by_role("button", name="Clear the filter").click()
    expect(line.get_by_role("link", name="recount")).to_be_visible()
    for path, words in (
        ("/schedules/nowhere", "There is no such schedule"),
        ("/jobs/nowhere", "There is no such job"),
    ):
        show(page, scene, path)
        expect(page.get_by_role("heading", name=words)).to_be_visible()


def test_a_time_line_waits_for_a_slow_answer_and_does_not_ask_again_each_second(
    browser: Browser, scene: Scene
) -> None:
    """The clock of the browser is wrong by a week: the first look is at the wrong time, and the next one counts."""
    asked: list[Route] = []

    def hold(route: Route) -> None:
        if "stretch=" in route.request.url:  # the whole day
            route.continue_()
            return
        asked.append(route)
        if len(asked) == 1:
            route.continue_()

    with opened(browser, scene.url, scene.secret, at="2026-11-09T08:41:23Z") as context:
        page = context.new_page()
        page.route("**/system/status/", lambda route: route.abort())  # only the line says what time it is
        page.route(re.compile("/api/v1/timeline/"), hold)
        with page.expect_request(re.compile(r"/timeline/\?from=2026-11-16")):
            show(page, scene, "/")
        for _ in range(6):
            page.clock.fast_forward(1_000)
            page.evaluate(FRAMES)
        assert len(asked) == 2
        asked[1].continue_()
        line = page.get_by_role("region", name="Time line")
        expect(line.get_by_role("link", name="recount")).to_be_visible()
        page.unroute_all()


def test_a_service_without_anything_says_what_belongs_on_each_page(browser: Browser, tmp_path: Path) -> None:
    with (
        serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service,
        opened(browser, service.url, service.admin.secret) as context,
    ):
        page = context.new_page()
        page.goto(service.url)
        expect(page.get_by_role("heading", name="Nothing is scheduled yet")).to_be_visible()
        for key, words in (
            ("s", "No schedules yet"),
            ("j", "No jobs yet"),
            ("p", "Nothing waits for approval"),
            ("l", "Nothing needs you"),
            ("b", "There is no budget"),
            ("q", "No quiet hours yet"),
            ("r", "No breaker has counted a failure"),
        ):
            page.keyboard.press("g")
            page.keyboard.press(key)
            expect(page.get_by_role("heading", name=words)).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)


def test_a_read_only_database_is_shown_and_refuses_in_words(browser: Browser, tmp_path: Path) -> None:
    faults: list[str] = []
    with serving(
        tmp_path, file="", further=dashboard_routes(), unready=lambda: next(iter(faults), None)
    ) as service:
        made = service.admin.create(name="still")
        with opened(browser, service.url, service.admin.secret) as context:
            page = context.new_page()
            page.goto(f"{service.url}/schedules/{made['id']}")
            expect(page.get_by_role("button", name="Pause…")).to_be_visible()
            database: Any = service.runtime.tokens._store
            database._database.write(Lane.API, lambda c: c.execute("PRAGMA query_only = 1"))
            faults.append("the database is read-only")
            page.clock.fast_forward(6_000)
            expect(page.get_by_text("Not ready: the database is read-only.")).to_be_visible()
            press(page, "Pause…")
            page.get_by_label("Note").fill("kept")
            confirm(page, "Pause still")
            expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("read")
            expect(page.get_by_label("Note")).to_have_value("kept")  # the input stays
            page.goto(f"{service.url}/schedules")
            expect(page.get_by_role("link", name="still").first).to_be_visible()


def test_nothing_is_cut_in_the_tiles_and_every_width_has_a_way_out(browser: Browser, scene: Scene) -> None:
    for viewport in ({"width": 1440, "height": 900}, MIDDLE, PHONE):
        with opened(browser, scene.url, scene.secret, viewport=viewport) as context:
            page = context.new_page()
            show(page, scene, "/")
            expect(page.get_by_role("list", name="Health").get_by_text("Lag", exact=True)).to_be_visible()
            settled(page)
            assert page.evaluate(CUT, ".tile .name, .tile .fig, .tile .hint") == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
            show(page, scene, "/schedules")
            expect(page.get_by_role("link", name="recount").filter(visible=True)).to_be_visible()
            settled(page)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
            menu = page.get_by_role("button", name="Actions for recount")
            if viewport is not PHONE:  # nothing of a row has to be looked for at its side
                expect(menu).to_be_in_viewport()
            show(page, scene, "/new")
            # One button, and behind every field that it sends.
            create = page.get_by_role("button", name="Create", exact=True)
            expect(create).to_have_count(1)
            settled(page)
            last = page.get_by_label("Timeout").element_handle()
            is_below = "(one, last) => one.getBoundingClientRect().top > last.getBoundingClientRect().bottom"
            assert viewport["width"] > 1100 or create.evaluate(is_below, last)
            if viewport is PHONE:
                press(page, "More")
            press(page, re.compile("^Theme: "))
            press(page, "Sign out")
            expect(page.get_by_label("Token")).to_be_visible()


def place_of_the_line(page: Page) -> FloatRect:
    """Return where the line is when it has its rows, and all that is above it: until then it moves and grows."""
    expect(page.get_by_role("list", name="Health").get_by_text("Lag", exact=True)).to_be_visible()
    settled(page)
    canvas = page.get_by_role("img", name=re.compile("^Time line of slots"))
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    return box


def test_the_line_is_zoomed_by_wheel_and_fingers_about_where_they_are(browser: Browser, scene: Scene) -> None:
    with opened(browser, scene.url, scene.secret) as context:
        page = context.new_page()
        show(page, scene, "/?span=3600")
        line = page.get_by_role("region", name="Time line")
        expect(line.get_by_role("link", name="recount")).to_be_visible()
        box = place_of_the_line(page)
        page.mouse.move(box["x"] + 200, box["y"] + 60)
        page.mouse.wheel(0, 200)  # alone it scrolls the page
        page.keyboard.down("Control")
        page.mouse.wheel(0, -400)
        page.keyboard.up("Control")
        expect(page).to_have_url(re.compile(r"span=1\d\d\d&from="))
        press(page, "Back to now")
        expect(page).not_to_have_url(re.compile("from="))
    looks: dict[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
    with opened(browser, scene.url, scene.secret, **looks) as context:
        page = context.new_page()
        show(page, scene, "/?span=3600")
        box = place_of_the_line(page)
        session = context.new_cdp_session(page)
        y, middle = box["y"] + 70, box["x"] + box["width"] / 2

        def touch(kind: str, *places: float) -> None:
            points = [{"x": place, "y": y, "id": number} for number, place in enumerate(places)]
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", middle - 30, middle + 30)
        for apart in (45, 60, 90, 120):  # two fingers apart: four times as near
            touch("touchMove", middle - apart, middle + apart)
        touch("touchEnd")
        expect(page).to_have_url(re.compile(r"span=9\d\d&from="))
        assert page.evaluate("visualViewport.scale") == 1  # the line is zoomed, not the page
        y = place_of_the_line(page)["y"] + 70  # what is read again for a narrower window may have fewer rows
        touch("touchStart", middle)
        before = page.url
        for way in (20, 60, 100):
            touch("touchMove", middle + way)
        touch("touchEnd")
        expect(page).not_to_have_url(before)  # one finger moves it
        press(page, "Filter")
        page.get_by_label("Status").select_option("held")
        expect(page).to_have_url(re.compile("held=true"))
        page.keyboard.press("Escape")
        press(page, "Status: held")
        expect(page).not_to_have_url(re.compile("held=true"))


def test_the_filters_of_the_line_stand_beside_it_and_focus_returns_to_what_opened_a_panel(
    page: Page, scene: Scene
) -> None:
    show(page, scene, "/")
    press(page, "Owner: any")
    expect(page.get_by_label("Owner")).to_be_focused()
    page.get_by_label("Owner").select_option("shop")
    line = page.get_by_role("region", name="Time line")
    expect(line.get_by_role("link", name="health-ping")).to_have_count(0)
    expect(line.get_by_role("link", name="cache-warm")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Filter", exact=True)).to_be_focused()
    press(page, "Owner: shop")
    expect(line.get_by_role("link", name="health-ping")).to_be_visible()
    page.keyboard.press("v")  # keys rest in fields, not on buttons
    expect(page.get_by_role("region", name="The slots of the time line")).to_be_visible()
    show(page, scene, "/schedules/withings-poll")
    opener = page.get_by_role("button", name=re.compile("^Why, slot")).first
    opener.click()
    panel = page.get_by_role("complementary", name="Why?")
    expect(panel.get_by_role("button", name="Reset the breaker")).to_be_visible()
    expect(panel).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(opener).to_be_focused()
    press(page, "Trigger…")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Trigger…")).to_be_focused()
    page.keyboard.press("w")
    panel.get_by_role("button", name="Slot before").click()
    panel.get_by_role("button", name="Slot after").click()
    panel.get_by_role("button", name="Reset the breaker").click()
    expect(page.locator(".toast").filter(has_text="The breaker withings-poll is closed.")).to_be_visible()
    panel.get_by_role("button", name="Trigger now…").click()
    confirm(page, "Cancel")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)

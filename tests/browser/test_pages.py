"""Each page and button by a person's way: by role and label."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Locator, Page, expect

from everwhen.operations.tokens import create_token
from everwhen.web.routes import dashboard_routes
from tests.api.serving import serving
from tests.browser.conftest import PHONE, opened, settled
from tests.browser.scene import NODE, Scene


def show(page: Page, scene: Scene, path: str) -> None:
    page.goto(f"{scene.url}{path}")
    expect(page.get_by_role("main")).to_be_visible()


def press(page: Page, name: str | re.Pattern[str], *, exact: bool = False) -> None:
    page.get_by_role("button", name=name, exact=exact).first.click()


def confirm(page: Page, name: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=name).click()


def toast(page: Page, text: str) -> Locator:
    return page.locator(".toast").filter(has_text=text)


def copied(page: Page, button: str | Locator) -> str:
    """Press a button that copies, and return what it copied."""
    page.evaluate(
        """() => {
  delete document.documentElement.dataset.copied;
  navigator.clipboard.writeText = async (text) => { document.documentElement.dataset.copied = text; };
}"""
    )
    (page.get_by_role("button", name=button).first if isinstance(button, str) else button).click()
    found = page.locator("html[data-copied]")
    expect(found).to_be_attached()
    expect(toast(page, "Copied.").last).to_be_visible()
    return found.get_attribute("data-copied") or ""


def test_a_token_signs_in_and_a_wrong_one_is_refused_in_the_words_of_the_api(
    browser: Browser, scene: Scene
) -> None:
    with opened(browser, scene.url, None) as context:
        page = context.new_page()
        page.goto(f"{scene.url}/schedules?status=paused")
        page.get_by_label("Token").fill("wrong")
        press(page, "Sign in")
        expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
        page.get_by_label("Token").fill(scene.secret)
        press(page, "Sign in")
        expect(page).to_have_url(f"{scene.url}/schedules?status=paused")  # where the person wanted to go
        expect(page.get_by_role("link", name="cert-check")).to_be_visible()
        press(page, "Sign out")
        expect(page.get_by_label("Token")).to_be_visible()


def test_a_link_signs_in_once(browser: Browser, scene: Scene) -> None:
    link = f"{scene.url}/sign-in#key={scene.service.context.sign_in_links.create()}"
    with opened(browser, scene.url, None) as context:
        page = context.new_page()
        page.goto(link)
        expect(page.get_by_role("heading", name="Now", level=1)).to_be_visible()
        assert "key" not in page.url
    with opened(browser, scene.url, None) as context:
        page = context.new_page()
        page.goto(link)
        expect(page.get_by_role("alert")).to_contain_text("was used, or is too old")


def test_now_answers_first_and_its_line_is_walked_by_keys(page: Page, scene: Scene) -> None:
    show(page, scene, "/")
    expect(page.get_by_label("How everything stands")).to_contain_text("Every due slot is accounted for.")
    expect(page.get_by_role("link", name="withings-poll breaker open, probes at 11:42")).to_be_visible()
    line = page.get_by_role("region", name="Time line")
    expect(line.get_by_role("link", name="search-reindex")).to_be_visible()
    canvas = line.get_by_role("img", name=re.compile("Time line of slots"))
    canvas.focus()
    page.keyboard.press("ArrowRight")
    card = line.get_by_role("status").filter(has_text="slot")
    expect(card).to_contain_text("reviewer.check-issues")
    page.keyboard.press("ArrowDown")
    expect(card).to_contain_text("reviewer.morning-report")
    expect(card).to_contain_text("Waits for a place")
    page.keyboard.press("w")
    expect(page.get_by_role("complementary", name="Why?")).to_contain_text("held")


def test_the_line_is_zoomed_filtered_and_shown_as_a_table(page: Page, scene: Scene) -> None:
    show(page, scene, "/")
    press(page, "1 h", exact=True)
    expect(page).to_have_url(re.compile(r"span=3600"))
    press(page, re.compile("^Failing"))
    expect(page).to_have_url(re.compile(r"failing=true"))
    expect(page.get_by_role("link", name="withings-poll").first).to_be_visible()
    line = page.get_by_role("region", name="Time line")
    expect(line.get_by_role("link", name="search-reindex")).to_have_count(0)
    press(page, "Show as a table")
    table = page.get_by_role("region", name="The slots of the time line")
    expect(table.get_by_role("cell", name="skipped").first).to_be_visible()
    page.reload()
    expect(table.get_by_role("cell", name="skipped").first).to_be_visible()  # the address is the state
    page.get_by_role("button", name="Failing").last.click()
    page.keyboard.press("n")
    expect(page).not_to_have_url(re.compile(r"failing"))


def test_what_happens_is_on_the_page_without_asking(page: Page, scene: Scene) -> None:
    with page.expect_response(re.compile("/events/stream/")):  # what happened before is not in the stream
        show(page, scene, "/")
    feed = page.locator("section", has=page.get_by_role("heading", name="Just happened"))
    expect(feed.get_by_role("listitem").first).to_be_visible()
    made = scene.service.admin.create(name="a-new-one", run={"message": {"text": "hello"}})
    slots, now = scene.service.runtime.slots, scene.clock.now()
    slots.heartbeat(now, node=NODE, version="1", is_scheduler=True)
    slots.tick(now, limit=100, behind=False)
    expect(feed).to_contain_text("a-new-one")
    scene.service.admin.call("DELETE", f"/schedules/{made['id']}/")


def count_rows(scene: Scene, **filters: str) -> int:
    """Count the rows of the table, with its head: other tests of the module may have added schedules to the scene."""
    matching: int = scene.service.admin.get(f"/schedules/?{urlencode(filters)}").fields["total"]
    return matching + 1


def test_schedules_are_searched_ordered_and_filtered_in_the_address(page: Page, scene: Scene) -> None:
    show(page, scene, "/schedules")
    expect(page.get_by_role("row")).to_have_count(count_rows(scene))
    page.keyboard.press("/")
    page.keyboard.type("poll")
    expect(page.get_by_role("row")).to_have_count(count_rows(scene, q="poll"))
    expect(page).to_have_url(re.compile(r"q=poll"))
    page.go_back() if "q=" not in page.url else page.get_by_label("Search schedules").fill("")
    press(page, re.compile("^Paused"))
    expect(page.get_by_role("link", name="digest-eu").first).to_be_visible()
    expect(page.get_by_role("row")).to_have_count(count_rows(scene, status="paused"))
    press(page, re.compile("^All"))
    press(page, re.compile("^Owner"))
    expect(page.get_by_role("columnheader", name="Owner")).to_have_attribute("aria-sort", "ascending")
    page.locator("body").press("f")
    page.get_by_label("Group").select_option("reviewer")
    expect(page.get_by_role("row")).to_have_count(count_rows(scene, group="reviewer"))
    press(page, "Clear", exact=True)
    page.get_by_label("Search schedules").fill("nothing has this")
    press(page, "Clear the filter")
    expect(page.get_by_role("row")).to_have_count(count_rows(scene))
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 selected")


def test_many_are_paused_and_resumed_with_undo_and_a_deletion_waits(page: Page, scene: Scene) -> None:
    def status(name: str) -> str:
        found: str = scene.service.admin.get(f"/schedules/{name}/").fields["status"]
        return found

    show(page, scene, "/schedules")
    for name in ("recount", "mail-digest"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    press(page, "Pause…")
    expect(page.get_by_role("dialog")).to_contain_text("fire nothing until they are resumed")
    confirm(page, "Pause 2 schedules")
    expect(page.get_by_text("Paused 2 schedules.")).to_be_visible()
    assert (status("recount"), status("mail-digest")) == ("paused", "paused")
    press(page, "Undo")
    expect(page.get_by_text("Resumed 2 schedules.")).to_be_visible()
    assert (status("recount"), status("mail-digest")) == ("active", "active")
    press(page, "Actions for vacuum-events")
    page.get_by_role("menuitem", name="Delete…").click()
    expect(page.get_by_role("dialog")).to_contain_text("cannot be undone")
    confirm(page, "Delete vacuum-events")
    press(page, "Keep")
    expect(page.get_by_text("Kept vacuum-events.")).to_be_visible()
    expect(page.get_by_role("link", name="vacuum-events").first).to_be_visible()


def test_why_is_one_click_from_every_slot(page: Page, scene: Scene) -> None:
    show(page, scene, "/schedules/withings-poll")
    expect(page.get_by_text("everwhen.yaml:")).to_be_visible()
    expect(
        page.get_by_role("table", name="The next slots with predicted skips").get_by_role("row")
    ).to_have_count(10)
    page.get_by_role("button", name=re.compile("^Why, slot")).first.click()
    panel = page.get_by_role("complementary", name="Why?")
    expect(panel).to_contain_text("skipped: the circuit breaker withings-poll was open")
    expect(panel).to_contain_text("everwhen why withings-poll --at")
    before = panel.get_by_role("heading", level=2).inner_text()
    page.keyboard.press("[")
    expect(panel.get_by_role("heading", level=2)).not_to_have_text(before)
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.get_by_role("link", name="Slots").click()
    expect(
        page.get_by_role("table", name="The last slots with their outcome").get_by_role("row")
    ).not_to_have_count(0)
    page.get_by_role("link", name="Definition").click()
    expect(page.get_by_text("circuit_breaker", exact=True)).to_be_visible()
    press(page, re.compile("^More"))
    page.get_by_role("menuitem", name="Backfill…").click()
    page.get_by_label("From", exact=True).fill("2026-11-16T08:50")
    page.get_by_label("To, not included").fill("2026-11-16T09:30")
    confirm(page, "Count the slots")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("3 slots have no job.")
    confirm(page, "Run 3 slots")
    expect(page.get_by_text("Backfilling 3 slots of withings-poll.")).to_be_visible()


def test_a_schedule_is_paused_resumed_and_triggered_with_a_payload(page: Page, scene: Scene) -> None:
    show(page, scene, "/schedules/cache-warm")
    press(page, "Pause…")
    page.get_by_label("Note").fill("not today")
    confirm(page, "Pause cache-warm")
    expect(page.get_by_text("not today").first).to_be_visible()
    press(page, "Resume", exact=True)
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    press(page, re.compile("^More"))
    page.get_by_role("menuitem", name="Backfill…").click()
    confirm(page, "Count the slots")
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("nothing would run")
    confirm(page, "Cancel")
    press(page, "Trigger…")
    page.get_by_label("With a payload of its own").check()
    page.get_by_role("textbox", name="Payload").fill("{")
    confirm(page, "Trigger now")
    expect(page.get_by_role("alert")).to_contain_text("not valid JSON")
    page.get_by_role("textbox", name="Payload").fill('{"pages": 3}')
    confirm(page, "Trigger now")
    expect(page).to_have_url(re.compile(r"/jobs/sched-"))
    expect(page.get_by_text('"pages": 3')).to_be_visible()
    press(page, "Cancel…")
    confirm(page, "Cancel the job")
    expect(page.get_by_text("Cancelled", exact=True).first).to_be_visible()


def test_a_job_has_its_log_with_colours_and_a_search(page: Page, scene: Scene, tmp_path: Path) -> None:
    (job,) = scene.service.admin.get("/jobs/?status=running&group=reviewer").fields["items"]
    show(page, scene, f"/jobs/{job['id']}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("reading inbox/0417.md")
    expect(log.get_by_text("FAILED")).to_have_class("b c1")
    press(page, re.compile("^Errors"))
    expect(log).not_to_contain_text("reading inbox")
    expect(log).to_contain_text("AssertionError")
    press(page, "All", exact=True)
    page.get_by_label("Find in the log").fill("retry")
    expect(page.get_by_text("1 of 3")).to_be_visible()
    with page.expect_download() as saving:
        press(page, "Download the log")
    saving.value.save_as(tmp_path / "log")
    assert "work item" in (tmp_path / "log").read_text()


def test_a_new_schedule_is_previewed_checked_and_created(page: Page, scene: Scene) -> None:
    show(page, scene, "/new")
    preview = page.get_by_role("complementary", name="Preview")
    page.get_by_label("Cron expression").fill("30 2 * * 0")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    expect(preview).to_contain_text("At 02:30, on Sundays")
    expect(preview).to_contain_text("Shifted: the clock jumps from 02:00 to 03:00")
    page.get_by_label("Jitter").fill("5x")
    expect(page.get_by_text('Invalid time unit "x"')).to_be_visible()
    expect(page.get_by_role("button", name="Create", exact=True)).to_be_disabled()
    page.get_by_label("Jitter").fill("")
    page.get_by_label("Name", exact=True).fill("vacuum")
    press(page, "Message", exact=True)
    page.get_by_label("Text").fill("Vacuum!")
    expect(page.get_by_role("button", name="Create", exact=True)).to_be_enabled()
    press(page, "Create paused")
    expect(page.get_by_role("heading", name="vacuum", level=2)).to_be_visible()
    press(page, re.compile("^More"))
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_label("Cron expression").fill("0 4 * * 0")
    press(page, "Save as revision 2")
    page.get_by_role("link", name="Revisions").click()
    expect(page.get_by_role("group", name="What revision 2 changed")).to_contain_text("0 4 * * 0")


def test_breakers_quiet_hours_audit_and_system(page: Page, scene: Scene) -> None:
    show(page, scene, "/breakers")
    press(page, "withings-poll")
    expect(page.get_by_role("table", name="Changes of the breaker")).to_be_visible()
    press(page, "Reset…")
    confirm(page, "Reset the breaker")
    expect(page.get_by_role("cell", name="Closed", exact=True)).to_be_visible()
    show(page, scene, "/quiet-hours")
    press(page, "New…")
    page.get_by_label("Id").fill("lunch")
    confirm(page, "Make them")
    page.get_by_role("gridcell", name="Mon 12:00, open").click()
    press(page, "Save", exact=True)
    expect(page.get_by_text("Saved lunch.")).to_be_visible()
    windows = scene.service.admin.get("/quiet-hours/lunch/").fields["windows"]
    assert "12:00-12:30" in [one["between"] for one in windows if one["days"] == ["monday"]]
    show(page, scene, "/audit")
    press(page, "Breakers", exact=True)
    expect(page.get_by_role("row").filter(has_text="breaker.reset")).to_contain_text("mira")
    page.keyboard.press("g")
    page.keyboard.press("y")
    expect(page.get_by_role("region", name="Problems")).to_have_count(0)
    expect(page.get_by_text("local workers run the jobs")).to_be_visible()
    press(page, "Pause everything…")
    confirm(page, "Pause everything")
    expect(page.get_by_text("The whole system is paused", exact=True)).to_be_visible()
    page.get_by_role("button", name="Resume the system").first.click()
    expect(page.get_by_text("The whole system is paused", exact=True)).to_have_count(0)
    press(page, "New token…")
    page.get_by_label("Name").fill("of the test")
    confirm(page, "Create the token")
    expect(page.get_by_text("shown this once")).to_be_visible()


def test_what_waits_for_approval_is_approved_by_its_revision_or_declined_with_a_note(
    page: Page, scene: Scene
) -> None:
    agent = scene.service.client("operator", owner="support", approval="required")
    wanted = [agent.create(name=name, run={"message": {"text": "hello"}}) for name in ("this", "not-this")]
    show(page, scene, f"/schedules/{wanted[0]['id']}")
    expect(page.get_by_text("Waits for approval").first).to_be_visible()
    press(page, "Approve revision 1")
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()
    show(page, scene, f"/schedules/{wanted[1]['id']}")
    press(page, "Decline…")
    page.get_by_label("Note").fill("once a day is enough")
    confirm(page, "Decline and delete")
    expect(page).to_have_url(re.compile("/schedules$"))
    declined, _ = scene.service.admin.get("/audit/?type=schedule.declined").fields["items"]
    assert (declined["uid"], "once a day is enough" in str(declined)) == (wanted[1]["uid"], True)
    scene.service.admin.call("DELETE", f"/schedules/{wanted[0]['id']}/")


def test_the_week_and_the_month(page: Page, scene: Scene) -> None:
    show(page, scene, "/week")
    cell = page.get_by_role("gridcell", name=re.compile(r"Tue 17 Nov 08:00.*mail-digest"))
    cell.click()
    expect(page.get_by_role("dialog").get_by_role("link", name="mail-digest")).to_be_visible()
    confirm(page, "Close")
    # An hourly schedule is counted, also on a day on which it was paused soon.
    expect(page.get_by_role("gridcell", name=re.compile("cert-check"))).to_have_count(0)
    night = page.get_by_role("gridcell", name=re.compile(r"Tue 17 Nov 03:00.*quiet hours .*nights"))
    expect(night).to_have_count(1)
    page.get_by_label("Quiet hours that are shaded").select_option(label="Quiet hours: none")
    expect(night).to_have_count(0)
    expect(page).to_have_url(re.compile("quiet="))
    press(page, "Month", exact=True)
    expect(page.get_by_role("link", name=re.compile("^Mon 16 Nov: "))).to_be_visible()


def test_a_viewer_has_nothing_that_changes_something(browser: Browser, scene: Scene) -> None:
    viewer = create_token(scene.service.runtime, "a viewer", "viewer")
    with opened(browser, scene.url, viewer.secret) as context:
        page = context.new_page()
        for path in ("/schedules", "/schedules/recount", "/breakers", "/quiet-hours", "/system"):
            show(page, scene, path)
            expect(page.get_by_role("main")).to_contain_text(re.compile(r"\w"))
            for name in ("Pause…", "Trigger…", "Actions for", "Reset…", "New…", "Revoke"):
                expect(page.get_by_role("button", name=name)).to_have_count(0)
            expect(page.get_by_role("link", name="New schedule")).to_have_count(0)
        show(page, scene, "/new")
        expect(page.get_by_text("This token may only look")).to_be_visible()
        expect(page.get_by_text("a viewer · viewer, read-only").first).to_be_visible()


def test_the_keyboard_and_the_theme(page: Page, scene: Scene) -> None:
    show(page, scene, "/")
    expect(page.get_by_role("region", name="Time line")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Schedules", level=1)).to_be_visible()
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("table").get_by_role("link", name="recount")).to_be_visible()
    for key in "jjkxp":
        page.keyboard.press(key)
    expect(page.get_by_role("dialog")).to_contain_text("fires nothing")
    page.keyboard.press("Escape")
    first = page.get_by_role("row").nth(1)
    expect(first.get_by_role("link").first).to_be_focused()
    expect(first.get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("table", name="Jobs, newest first")).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("row").nth(1).get_by_role("link").first).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.get_by_role("region", name="Time line")).to_be_visible()
    page.keyboard.press("/")
    page.get_by_label("Schedule, page or job id").fill("reind")
    expect(page.get_by_role("option", name=re.compile("search-reindex"))).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/schedules/search-reindex"))
    press(page, re.compile("^Theme: system"))
    press(page, re.compile("^Theme: light"))
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_on_a_phone_the_pages_have_their_way_at_the_bottom(browser: Browser, scene: Scene) -> None:
    with opened(browser, scene.url, scene.secret, viewport=PHONE, has_touch=True) as context:
        page = context.new_page()
        show(page, scene, "/")
        page.get_by_role("navigation", name="Main, at the bottom").get_by_role(
            "link", name="Schedules"
        ).click()
        expect(page.get_by_role("link", name="recount").last).to_be_visible()
        show(page, scene, "/week")
        page.get_by_role("button", name=re.compile("^Tue")).click()
        expect(page.get_by_role("columnheader", name=re.compile("^Tue"))).to_be_visible()
        expect(page.get_by_role("columnheader", name=re.compile("^Mon"))).to_be_hidden()
        wide = "document.documentElement.scrollWidth > innerWidth + 1"
        settled(page)
        assert page.evaluate(wide) is False
        press(page, "More")
        press(page, "Sign out")
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate(wide) is False


def test_the_first_run_says_what_to_do_next(browser: Browser, tmp_path: Path) -> None:
    with (
        serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service,
        opened(browser, service.url, service.admin.secret) as context,
    ):
        page = context.new_page()
        page.goto(f"{service.url}/")
        expect(page.get_by_role("heading", name="Nothing is scheduled yet")).to_be_visible()
        copies = page.get_by_role("main").get_by_role("button", name="Copy")
        assert copied(page, copies.nth(0)).startswith("schedules:")
        assert copied(page, copies.nth(1)).startswith("curl ")
        page.get_by_role("main").get_by_role("link", name="New schedule").click()
        expect(page.get_by_role("complementary", name="Preview")).to_be_visible()
        # More slots than six hours can show: the first look is a shorter one, with a row for each schedule.
        service.admin.create(name="every-second", every="1s")
        page.goto(f"{service.url}/")
        line = page.get_by_role("region", name="Time line")
        expect(line.get_by_role("link", name="every-second")).to_be_visible()
        expect(line.get_by_role("button", name="15 min")).to_have_attribute("aria-pressed", "true")

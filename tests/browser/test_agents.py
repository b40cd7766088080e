"""Approvals, budgets and alerts, by a person's way: by role and label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from everwhen.model.cost import parse_cost
from everwhen.model.outcome import Outcome
from everwhen.operations.tokens import create_token
from everwhen.testing.manual import ManualClock
from everwhen.web.routes import dashboard_routes
from tests.api.serving import serving
from tests.api.working import ran, triggered
from tests.browser.conftest import opened
from tests.browser.scene import NOW, Scene, played, token_of
from tests.browser.test_pages import confirm, press, show

MARKUP = '<img src=x onerror="window.hit=1">'
STRANGE = f"{MARKUP} \x1b[31m \u202e"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("agents"), hours=1) as found:
        yield found


def card_of(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name)


def test_a_card_says_what_a_change_would_fire_and_spend(page: Page, scene: Scene) -> None:
    show(page, scene, "/approvals")
    expect(page.get_by_text("2 schedules wait for you.")).to_be_visible()
    badge = page.get_by_role("navigation", name="Main", exact=True).get_by_role("img", name="2 waiting")
    expect(badge).to_be_visible()
    card = card_of(page, "digest-eu")
    for text in (
        "through token mcp-support",
        "Changed after approval",
        "Every 10 minutes from 07:00 to 18:50, Monday to Friday",
        "Summarise every new thread of the EU queue",
        "5 firings become 360",
        "Fires every 5 minutes at most",
        "It asks for more than is left of the budget of triage.",
    ):
        expect(card).to_contain_text(text)
    expect(card.get_by_role("img", name=re.compile("6 more asked for, of 3"))).to_be_visible()
    expect(card_of(page, "recheck-pr-512")).to_contain_text("14:00:00 CET")
    card.get_by_role("link", name="Edit first").click()
    expect(page.get_by_role("heading", name="Edit schedule", level=1)).to_be_visible()
    expect(page.get_by_label("Prompt")).to_have_value(re.compile("^Summarise every new thread"))
    expect(page.get_by_role("button", name="Save as revision 3")).to_be_enabled()


def test_the_revision_shown_is_approved_and_one_that_changed_meanwhile_is_refused(
    page: Page, scene: Scene
) -> None:
    agent = token_of(scene.service, "mcp-late", "support", approval="required")
    made = agent.create(name="late-change", every="1h", run={"message": {"text": "once"}})
    path = f"/schedules/{made['id']}/"
    show(page, scene, "/approvals")
    card = card_of(page, "late-change")
    approve = card.get_by_role("button", name="Approve revision 1")
    expect(approve).to_be_visible()
    # The page cannot know yet of the change that comes between the look and the answer.
    page.route("**/review/", lambda route: route.abort())
    page.route("**/schedules/?waiting=true*", lambda route: route.abort())
    assert agent.patch(path, {"run": {"message": {"text": "twice"}}}).status == 200
    approve.click()
    expect(page.get_by_role("status").filter(has_text="revision 2")).to_be_visible()
    page.unroute_all()
    expect(card.get_by_role("button", name="Approve revision 2")).to_be_visible()
    expect(card).to_contain_text("twice")
    expect(card).to_have_attribute("aria-current", "true")  # nothing moved away under the hand
    card.get_by_role("button", name="Approve revision 2").click()
    expect(card).to_have_count(0)
    assert scene.service.admin.get(path).fields["status"] == "active"
    scene.service.admin.call("DELETE", path)


def test_cards_are_answered_by_keys_and_a_decline_takes_a_note(page: Page, scene: Scene) -> None:
    agent = token_of(scene.service, "mcp-keys", "support", approval="required")
    wanted = [
        agent.create(name=name, every="1h", run={"message": {"text": name}})
        for name in ("by-key", "not-this")
    ]
    show(page, scene, "/approvals")
    expect(page.get_by_role("article")).to_have_count(4)
    for name in ("recheck-pr-512", "by-key", "not-this"):
        page.keyboard.press("j")
        expect(card_of(page, name)).to_have_attribute("aria-current", "true")
    page.keyboard.press("k")
    page.keyboard.press("a")
    expect(card_of(page, "by-key")).to_have_count(0)
    expect(card_of(page, "not-this")).to_have_attribute("aria-current", "true")
    page.keyboard.press("d")
    page.get_by_label("Note").fill(f"once is enough {MARKUP}")
    confirm(page, "Decline and delete")
    expect(card_of(page, "not-this")).to_have_count(0)
    decided = page.locator("section", has=page.get_by_role("heading", name="Decided"))
    expect(decided).to_contain_text(f"not-this, revision 1declined by mira: once is enough {MARKUP}")
    expect(decided).to_contain_text("by-key, revision 1approved by mira")
    assert scene.service.admin.get(f"/schedules/{wanted[0]['id']}/").fields["status"] == "active"
    scene.service.admin.call("DELETE", f"/schedules/{wanted[0]['id']}/")


def test_a_key_that_is_pressed_again_or_held_does_not_approve_the_next_card(page: Page, scene: Scene) -> None:
    agent = token_of(scene.service, "mcp-twice", "support", approval="required")
    names = ("first-card", "second-card", "third-card")
    made = [agent.create(name=name, every="1h", run={"message": {"text": name}}) for name in names]
    answers: list[Route] = []

    def hold(route: Route) -> None:
        answers.append(route)

    page.route("**/approve/", hold)
    show(page, scene, "/approvals")
    expect(page.get_by_role("article")).to_have_count(5)
    card_of(page, "first-card").focus()
    expect(card_of(page, "first-card")).to_have_attribute("aria-current", "true")
    page.keyboard.down("a")
    page.keyboard.down("a")  # held: the browser repeats it
    page.keyboard.up("a")
    card_of(page, "second-card").focus()
    page.keyboard.press("a")  # pressed again, before the first answer is there
    page.evaluate("fetch('/healthz').then((answer) => answer.ok)")  # what was sent before has arrived by now
    (sent,) = answers
    sent.continue_()
    page.unroute_all()
    expect(card_of(page, "first-card")).to_have_count(0)
    expect(card_of(page, "second-card")).to_have_attribute("aria-current", "true")
    page.keyboard.down("a")  # the second one, deliberately
    expect(card_of(page, "second-card")).to_have_count(0)
    page.keyboard.down("a")  # still held
    page.keyboard.up("a")
    expect(card_of(page, "third-card").get_by_role("button", name="Approve revision 1")).to_be_enabled()
    admin = scene.service.admin
    found = [admin.get(f"/schedules/{one['id']}/").fields["status"] for one in made]
    assert found == ["active", "active", "paused"]
    for one in made:
        admin.call("DELETE", f"/schedules/{one['id']}/")


def test_what_an_agent_writes_comes_by_itself_and_is_text(page: Page, scene: Scene) -> None:
    show(page, scene, "/approvals")
    expect(page.get_by_role("article")).to_have_count(2)
    agent = token_of(scene.service, f"token {STRANGE}", "support", approval="required")
    run = {"agent": {"name": "triage", "prompt": f"prompt {STRANGE}"}}
    made = agent.create(name=f"name {STRANGE}", description=STRANGE, payload={STRANGE: MARKUP}, run=run)
    card = card_of(page, "name <img")
    expect(card).to_contain_text(f"prompt {MARKUP} \\x1b[31m \\x202e")
    expect(card).to_contain_text(f"through token token {MARKUP}")
    assert page.evaluate("[window.hit, document.querySelectorAll('main img').length]") == [None, 0]
    card.get_by_role("button", name="Decline…").click()
    confirm(page, "Decline and delete")
    expect(card).to_have_count(0)
    assert scene.service.admin.get(f"/schedules/{made['id']}/").status == 404


def test_budgets_say_what_is_used_reserved_and_spent(page: Page, scene: Scene) -> None:
    show(page, scene, "/budgets")
    expect(page.get_by_text("1 budget is spent.")).to_be_visible()
    groups = page.get_by_role("region", name="Agents and other groups")
    triage = groups.get_by_role("listitem").filter(has_text="triage")
    expect(triage).to_contain_text("Budget spent")
    expect(triage).to_contain_text("3 of 3, spent")
    expect(triage).to_contain_text("10:00:00 CET")
    reviewer = groups.get_by_role("listitem").filter(has_text="reviewer")
    expect(reviewer).to_contain_text("of 20 USD")
    expect(reviewer).to_contain_text("reserved for runs that have not ended")
    expect(page.get_by_role("region", name="Owners")).to_contain_text("of 300")
    expect(page.get_by_role("region", name="Limits of tokens")).to_contain_text("every 5 min at most")
    show(page, scene, "/")
    press(page, re.compile("^Spent budgets"))
    expect(page).to_have_url(re.compile("/budgets$"))
    show(page, scene, "/")
    expect(page.get_by_role("link", name="triage spent its budget until 10:00")).to_be_visible()
    waiting = page.locator("section", has=page.get_by_role("heading", name="Waiting"))
    waiting.get_by_role("link", name="digest-eu").click()
    expect(page).to_have_url(re.compile("/approvals$"))


def test_alerts_are_acknowledged_silenced_and_reported_again(page: Page, scene: Scene) -> None:
    show(page, scene, "/")
    press(page, re.compile("^Open alerts"))
    alerts = page.get_by_role("table", name="Alerts, newest first")
    row = alerts.get_by_role("row").filter(has_text="withings-poll").filter(has_text="failing")
    expect(row).to_contain_text("HTTP 401: token expired")
    row.get_by_role("button", name="Silence…").click()
    page.get_by_label("For").select_option("1h")
    expect(page.get_by_role("dialog")).to_contain_text("Until 10:41")
    confirm(page, "Silence")
    expect(row).to_have_count(0)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    row.get_by_role("button", name="Silence…").click()
    page.get_by_label("For").select_option("1h")
    confirm(page, "Silence")
    expect(row).to_have_count(0)
    press(page, re.compile("^Silenced"))
    expect(page).to_have_url(re.compile("view=silenced"))
    expect(row).to_contain_text("until 10:41")
    silences = page.get_by_role("region", name="Silences")
    silences.get_by_role("button", name="End silence").click()
    expect(silences).to_have_count(0)
    press(page, re.compile("^Open"))
    row.get_by_role("button", name="Acknowledge").click()
    expect(row).to_have_count(0)
    found = scene.service.admin.get("/system/status/").fields
    assert found["open_alerts"] == found["unanswered_alerts"] + 1
    count = found["unanswered_alerts"]  # the same wherever it stands
    expect(page.get_by_role("main")).to_contain_text(
        re.compile(rf"^{count} alerts? (is|are) open\.1 acknowledged besides\.")
    )
    expect(page.get_by_role("button", name=f"Open {count}", exact=True)).to_be_visible()
    expect(page.get_by_role("img", name=f"{count} open", exact=True)).to_have_count(1)
    press(page, re.compile("^Acknowledged"))
    row.get_by_role("link", name="withings-poll").click()
    expect(page).to_have_url(re.compile("/schedules/withings-poll$"))
    show(page, scene, "/alerts")
    messages = page.get_by_role("region", name="Messages")
    expect(messages).to_contain_text("chat: given up, HTTP 404: no such channel")
    expect(messages.get_by_role("img", name="delivered").first).to_be_visible()
    expect(messages).to_contain_text("APPROVAL recheck-pr-512: it waits for approval")  # not its generated id
    press(page, "Send a test through shell")
    expect(page.get_by_role("status").filter(has_text="shell: delivered, exit 0: thank you.")).to_be_visible()
    expect(messages).to_contain_text("shell: delivered")


def test_the_cost_of_runs_is_on_the_pages_of_the_schedule_and_the_job(page: Page, scene: Scene) -> None:
    show(page, scene, "/schedules/reviewer.check-issues")
    expect(page.get_by_role("main")).to_contain_text(
        "after this run10 min after its job ends"
    )  # the next one
    expect(page.get_by_role("img", name=re.compile("^Cost of the last .* in USD"))).to_be_visible()
    show(page, scene, "/jobs?status=succeeded")
    row = page.get_by_role("row").filter(has_text="check-issues").first
    expect(row).to_contain_text(re.compile(r"0\.\d\d USD"))
    row.get_by_role("link", name="check-issues").click()
    expect(page.get_by_role("region", name="Cost")).to_contain_text("Reported")
    (running,) = scene.service.admin.get("/jobs/?status=running&group=reviewer").fields["items"]
    show(page, scene, f"/jobs/{running['id']}")
    expect(page.get_by_role("region", name="Cost")).to_contain_text("until it ends")


def test_an_estimate_stands_on_no_page_as_if_it_were_spent(browser: Browser, tmp_path: Path) -> None:
    file = """
agents: {writer: {command: [agent]}}
budgets: {writer: {cost_per_day: 20 USD, cost_per_run: 0.60 USD}}
"""
    with (
        serving(
            tmp_path, file=file, url="sqlite://", clock=ManualClock(NOW), further=dashboard_routes()
        ) as service,
        opened(browser, service.url, service.admin.secret) as context,
    ):
        made = service.admin.create(name="silent", run={"agent": {"name": "writer", "prompt": "hush"}})
        loud, silent = (triggered(service.admin, made)["id"] for _ in range(2))
        ran(service, loud, Outcome("succeeded", cost=parse_cost("0.25 USD")))
        ran(service, silent)
        page = context.new_page()
        page.goto(f"{service.url}/jobs/{silent}")
        region = page.get_by_role("region", name="Cost")
        expect(region).to_contain_text("0.60 USD estimated")
        expect(region.get_by_text("Reported", exact=True)).to_have_count(0)
        expect(region.get_by_text("Reserved", exact=True)).to_have_count(0)  # it has ended
        page.goto(f"{service.url}/jobs/{loud}")
        expect(region).to_contain_text("Reported0.25 USD by the run")
        expect(region.get_by_text("Estimated", exact=True)).to_have_count(0)
        page.goto(f"{service.url}/jobs?status=succeeded")
        expect(page.get_by_role("row").filter(has_text="0.60 USD estimated")).to_have_count(1)
        expect(page.get_by_role("row").filter(has_text="estimated")).to_have_count(1)
        page.goto(f"{service.url}/budgets")
        writer = page.get_by_role("listitem").filter(has_text="writer")
        expect(writer).to_contain_text("0.25 reported, 0.60 estimated of 20 USD")
        expect(writer).to_contain_text("0.25 USD reported, 0.60 USD estimated since it exists")
        page.goto(f"{service.url}/schedules/{made['id']}")
        expect(page.get_by_text("as reported; 1 estimate left out")).to_be_visible()


def test_the_most_that_a_day_may_cost_is_no_mean(page: Page, scene: Scene) -> None:
    agent = token_of(scene.service, "weekly", None, approval="required")
    run = {"agent": {"name": "reviewer", "prompt": "weekly"}}
    made = agent.create(name="weekly-look", every=None, cron="0 9 * * mon", run=run)
    show(page, scene, "/approvals")
    card = card_of(page, "weekly-look")
    expect(card).to_contain_text("at most 0.60 USD on one day, 0.0855 USD a day on average")
    scene.service.admin.post(f"/schedules/{made['id']}/decline/", {"note": "no"})


def test_a_viewer_only_looks_and_another_owner_sees_nothing_of_it(browser: Browser, scene: Scene) -> None:
    viewer = create_token(scene.service.runtime, "a viewer", "viewer")
    with opened(browser, scene.url, viewer.secret) as context:
        page = context.new_page()
        show(page, scene, "/approvals")
        expect(card_of(page, "digest-eu")).to_contain_text("5 firings become 360")
        page.keyboard.press("a")
        for path in ("/approvals", "/alerts", "/budgets"):
            show(page, scene, path)
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            for name in ("Approve revision", "Decline…", "Acknowledge", "Silence…", "End silence"):
                main = page.get_by_role("main")
                expect(main.get_by_role("button", name=re.compile(f"^{name}( 2)?$"))).to_have_count(0)
    made = [one["id"] for one in scene.service.admin.get("/schedules/?waiting=true").fields["items"]]
    watching = token_of(scene.service, "watching", None)
    assert len(made) == 2 and watching.get("/alerts/?state=open").fields["total"]
    limited = token_of(scene.service, "limited", "support", approval="required")
    with opened(browser, scene.url, limited.secret) as context:
        page = context.new_page()
        (own,) = limited.get("/schedules/?waiting=true").fields["items"]
        show(page, scene, f"/schedules/{own['id']}")
        expect(page.get_by_role("button", name="Trigger…")).to_be_visible()
        expect(page.get_by_role("button", name=re.compile("^Approve|^Decline"))).to_have_count(0)
    other = create_token(scene.service.runtime, "another owner", "operator", owner="another")
    with opened(browser, scene.url, other.secret) as context:
        page = context.new_page()
        show(page, scene, "/approvals")
        expect(page.get_by_role("heading", name="Nothing waits for approval")).to_be_visible()
        show(page, scene, "/alerts")
        expect(page.get_by_text("No alert is open.")).to_be_visible()
        show(page, scene, "/budgets")
        expect(page.get_by_role("heading", name="There is no budget")).to_be_visible()
        show(page, scene, "/system")
        expect(page.get_by_role("heading", name="Not for this token")).to_be_visible()
        show(page, scene, "/")
        expect(page.get_by_text("No schedule of another fails.")).to_be_visible()

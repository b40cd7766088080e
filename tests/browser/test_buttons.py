"""What changes something: each button is pressed as a person does, and the service is asked what became of it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from everwhen.config.read import Host, read_configuration
from everwhen.model.fields import GENERAL
from everwhen.model.instants import rfc3339_text
from everwhen.model.outcome import Outcome
from everwhen.model.reasons import BRIEF
from everwhen.operations.tokens import create_token
from everwhen.wiring import plugins_in
from tests.api.test_system import on_a_file
from tests.api.working import claimed, end, ran, said, triggered
from tests.browser.conftest import LONGER, PHONE, opened, root_of, settled
from tests.browser.scene import FILE, Scene, played
from tests.browser.test_pages import confirm, copied, press, show, toast

RUN = {
    "http": {
        "url": "https://shop.example/recount",
        "method": "PUT",
        "headers": {"X-Team": "shop", "Authorization": "Bearer 0123456789abcdef"},
        "body": {"deep": [1, "two"]},
    }
}
# Every kind of value that YAML and a shell could take for something else.
PAYLOAD = {
    "yes": "no",
    "a: b": "- c",
    "it's": '"quoted" $HOME `id`',
    "n": [1, None, True, "1e3"],
    "line": "\u2028",
}


TELL = """async ([root, events]) => {
  const { hearOne } = await import(`${root}/live.js`);
  for (const event of events) hearOne(event);
}"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with played(tmp_path_factory.mktemp("buttons"), hours=1) as found:
        yield found


def fields_of(scene: Scene, path: str) -> Any:
    return scene.service.admin.get(path).fields


def choose(page: Page, item: str) -> None:
    press(page, re.compile("^More: "))
    page.get_by_role("menuitem", name=item).click()


@pytest.fixture
def timed_page(browser: Browser, scene: Scene) -> Iterator[Page]:
    """A page whose messages last as long as they do for a person: its test stops the clock of the page."""
    with opened(browser, scene.url, scene.secret, longer=1) as context:
        yield context.new_page()


def test_a_deletion_waits_ten_seconds_and_can_be_kept_until_it_is_sent(
    timed_page: Page, scene: Scene
) -> None:
    page = timed_page
    made = scene.service.admin.create(name="short-lived")
    path = f"/schedules/{made['id']}"
    show(page, scene, path)

    def delete() -> None:
        choose(page, "Delete…")
        expect(page.get_by_role("dialog")).to_contain_text("afterwards it cannot be undone")
        # The ten seconds are those of the page. It goes forward only: to where it has not been by then.
        page.clock.pause_at(page.evaluate("new Date(Date.now() + 600_000).toISOString()"))
        confirm(page, "Delete short-lived")
        expect(toast(page, "Deleting short-lived. Once it is sent it cannot be undone.")).to_be_visible()

    delete()
    page.clock.run_for(9_900)
    press(page, "Keep")
    expect(toast(page, "Kept short-lived.")).to_be_visible()
    page.clock.run_for(20_000)
    page.clock.resume()
    assert fields_of(scene, f"{path}/")["status"] == "active"
    delete()
    # Other messages do not push away the one that can still be stopped.
    page.get_by_role("link", name="Definition").click()
    for _ in range(5):
        copied(page, "Copy as JSON")
        page.clock.run_for(100)
    expect(toast(page, "Deleting short-lived.").get_by_role("button", name="Keep")).to_be_visible()
    # Its end takes nobody away from the page where they are by then.
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.clock.run_for(11_000)
    expect(toast(page, "Deleted short-lived.")).to_be_visible()
    expect(page).to_have_url(re.compile("/audit$"))
    assert scene.service.admin.get(f"{path}/").status == 404


def test_a_deletion_that_waits_is_not_sent_under_another_sign_in(timed_page: Page, scene: Scene) -> None:
    page, service = timed_page, scene.service
    other = create_token(service.runtime, "somebody else", "admin")
    made = service.admin.create(name="not-theirs")
    show(page, scene, f"/schedules/{made['id']}")
    choose(page, "Delete…")
    page.clock.pause_at(page.evaluate("new Date(Date.now() + 1_200_000).toISOString()"))
    confirm(page, "Delete not-theirs")
    expect(toast(page, "Deleting not-theirs.")).to_be_visible()
    press(page, "Sign out")
    page.get_by_label("Token").fill(other.secret)
    press(page, "Sign in")
    expect(page.get_by_text("somebody else · admin")).to_be_visible()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.clock.run_for(20_000)
    expect(toast(page, "Deleting not-theirs.")).to_have_count(0)  # its time is over
    assert "DELETE" not in sent
    assert fields_of(scene, f"/schedules/{made['id']}/")["status"] == "active"
    service.admin.call("DELETE", f"/schedules/{made['id']}/")


REPEATED = """async ([root]) => {
  const { LineModel } = await import(`${root}/line_model.js`);
  const row = { schedule_id: "a", is_listed: true, usual_seconds: null, jitter_seconds: 0 };
  const model = new LineModel({ items: [], spans: [], rows: [row] }, 0);
  const at = (seconds) => `2026-11-16T08:00:${seconds}Z`, about = { schedule_id: "a", job_id: "j", slot_at: at("00") };
  const fired = { ...about, type: "schedule.fired", at: at("01"), detail: { origin: "schedule" } };
  const started = { ...about, type: "job.started", at: at("02"), detail: { origin: "schedule", attempt: 1 } };
  const ended = { ...about, type: "job.succeeded", at: at("30"), detail: { attempt: 1, seconds: 28 } };
  const again = { ...started, at: at("40"), detail: { attempt: 2 } }, states = [];
  for (const event of [fired, started, fired, started, ended, fired, started, again]) {
    model.apply([event]);
    const { status, started_at, ended_at } = model.items.get("j");
    states.push(`${status} from ${started_at} to ${ended_at}`);
  }
  return states;
}"""


def test_a_repeated_event_resets_no_bar_that_runs_or_is_over(page: Page, scene: Scene) -> None:
    show(page, scene, "/")
    states = page.evaluate(REPEATED, [root_of(page)])
    at = "2026-11-16T08:00:"
    queued, running = "queued from null to null", f"running from {at}02Z to null"
    over, again = f"succeeded from {at}02Z to {at}30Z", f"running from {at}40Z to null"
    assert states == [queued, running, running, running, over, over, over, again]


def test_undo_touches_only_what_was_changed(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    body = {"note": "holidays", "until": "2026-11-20T08:00:00Z"}
    assert admin.post("/schedules/recount/pause/", body).status == 200
    show(page, scene, "/schedules")
    for name in ("recount", "cache-warm", "cert-check"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("toolbar").get_by_role("button", name="Resume").click()
    expect(toast(page, "1 of 3 schedules was not resumed")).to_be_visible()
    toast(page, "Resumed 2 schedules.").get_by_role("button", name="Undo").click()
    expect(toast(page, "Paused 2 schedules.")).to_be_visible()
    found = {
        name: fields_of(scene, f"/schedules/{name}/") for name in ("recount", "cache-warm", "cert-check")
    }
    assert {name: one["status"] for name, one in found.items()} == {
        "recount": "paused", "cache-warm": "active", "cert-check": "paused"
    }  # fmt: skip
    assert found["recount"]["status_reason"] == "holidays"
    assert found["recount"]["resume_at"].startswith("2026-11-20T08:00:00")
    assert found["cert-check"]["status_reason"] == "the authority is down"
    assert admin.post("/schedules/recount/resume/").status == 200


def test_a_schedule_is_paused_with_a_note_until_a_time(page: Page, scene: Scene) -> None:
    show(page, scene, "/schedules/mail-digest")
    press(page, "Pause…")
    page.get_by_label("Note").fill("after the fair")
    page.get_by_label("Resume by itself").select_option(
        label="Tomorrow at 08:00, Tue 2026-11-17 08:00:00 CET +01:00"
    )
    confirm(page, "Pause mail-digest")
    expect(
        page.get_by_text(
            re.compile(
                r"^Paused by mira since \d\d:\d\d:\d\d CET \+01:00, "
                r"until Tue 2026-11-17 08:00:00 CET \+01:00: after the fair$"
            )
        )
    ).to_be_visible()
    found = fields_of(scene, "/schedules/mail-digest/")
    assert (found["status_reason"], found["resume_at"]) == ("after the fair", "2026-11-17T07:00:00Z")
    press(page, "Resume", exact=True)
    expect(page.get_by_role("button", name="Pause…")).to_be_visible()


def test_jobs_are_cancelled_from_the_page_of_their_schedule_and_run_again_from_their_own(
    page: Page, scene: Scene
) -> None:
    admin, service = scene.service.admin, scene.service
    made = admin.create(name="two-at-once", if_running="allow")
    jobs = [triggered(admin, made)["id"] for _ in range(2)]
    show(page, scene, f"/schedules/{made['id']}")
    choose(page, "Cancel its jobs…")
    expect(page.get_by_role("dialog")).to_contain_text("They will not start.")
    confirm(page, "Cancel 2 jobs")
    expect(toast(page, "Cancelled 2 jobs.")).to_be_visible()
    assert [fields_of(scene, f"/jobs/{job}/")["status"] for job in jobs] == ["cancelled", "cancelled"]
    running = triggered(admin, made)["id"]
    claimed(service, running)
    page.reload()
    choose(page, "Cancel its job…")
    expect(page.get_by_role("dialog")).to_contain_text("Its process is asked to end")
    confirm(page, "Cancel the job")
    expect(toast(page, "The job is cancelled.")).to_be_visible()
    press(page, re.compile("^More: "))
    expect(page.get_by_role("menuitem", name="Backfill…")).to_be_visible()
    expect(page.get_by_role("menuitem", name=re.compile("^Cancel"))).to_have_count(0)
    show(page, scene, f"/jobs/{jobs[0]}")
    press(page, "Re-run")
    expect(page).not_to_have_url(re.compile(jobs[0]))
    again = page.url.rpartition("/")[2]
    expect(toast(page, f"Runs again: job {again}.")).to_be_visible()
    rerun = fields_of(scene, f"/jobs/{again}/")
    assert rerun["origin"] == "manual" and rerun["due_at"] >= rerun["slot_at"]
    assert admin.call("DELETE", f"/schedules/{made['id']}/").status == 204


def test_what_put_a_job_off_is_called_what_it_is(page: Page, scene: Scene) -> None:
    """A re-run comes later than its slot because somebody asked later, and a one-shot within its second."""
    admin, service = scene.service.admin, scene.service
    *_, job = fields_of(scene, "/jobs/?schedule_id=search-reindex")["items"]
    again = admin.post(f"/jobs/{job['id']}/rerun/").fields["job"]
    assert again["due_at"] > again["slot_at"]
    show(page, scene, f"/jobs/{again['id']}")
    timings = page.locator("section", has=page.get_by_role("heading", name="Timings"))
    expect(timings).to_contain_text("Requestedto run its slot again")
    expect(timings).not_to_contain_text("jitter")
    (jittered, *_) = fields_of(scene, "/jobs/?schedule_id=withings-poll&limit=1")["items"]
    assert jittered["due_at"] > jittered["slot_at"]
    show(page, scene, f"/jobs/{jittered['id']}")
    expect(timings).to_contain_text("of jitter")
    once = admin.create(name="once", every=None, at=rfc3339_text(scene.clock.now() + 900_000))
    scene.clock.advance(1)
    service.runtime.slots.tick(scene.clock.now(), limit=500, behind=False)
    (single,) = fields_of(scene, f"/jobs/?schedule_id={once['id']}")["items"]
    show(page, scene, f"/jobs/{single['id']}")
    expect(timings).to_contain_text("Fired")
    expect(timings).not_to_contain_text("jitter")


def test_the_figures_of_few_runs_say_of_how_many(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    made = admin.create(name="seldom")
    for _ in range(3):
        ran(scene.service, triggered(admin, made)["id"])
    few, many = (admin.get(f"/schedules/{name}/stats/").fields for name in (made["id"], "health-ping"))
    assert few["duration_p95"] is None and many["duration_p95"] is not None
    for name, figures in ((made["id"], few), ("health-ping", many)):
        show(page, scene, f"/schedules/{name}")
        usual = page.get_by_role("main").locator("dl.facts > div").filter(has_text="Usual duration")
        expect(usual).to_contain_text(f"median of {figures['duration_jobs']} jobs")
        expect(usual.get_by_text("p95")).to_have_count(1 if figures is many else 0)
    show(page, scene, "/schedules/health-ping?tab=definition")
    counters = page.locator("section", has=page.get_by_role("heading", name="Counters"))
    expect(counters).to_contain_text("Succeeded")
    expect(counters.get_by_text("Runs", exact=True)).to_have_count(0)


def test_a_dead_schedule_is_revived(page: Page, scene: Scene) -> None:
    made = scene.service.admin.create(
        name="tired", on_exhausted="stop", max_retries=0, first_run="immediately"
    )
    path = f"/schedules/{made['id']}/"
    scene.service.runtime.slots.tick(scene.clock.now(), limit=500, behind=False)
    (job,) = fields_of(scene, f"/jobs/?schedule_id={made['id']}")["items"]
    ran(scene.service, job["id"], Outcome("failed", error="no luck"))
    show(page, scene, path.rstrip("/"))
    expect(page.get_by_text("Dead", exact=True)).to_be_visible()
    choose(page, "Revive")
    expect(toast(page, "Revived tired.")).to_be_visible()
    assert fields_of(scene, path)["status"] == "active"
    scene.service.admin.call("DELETE", path)


def test_a_copy_has_every_key_and_its_yaml_and_curl_work(page: Page, scene: Scene, tmp_path: Path) -> None:
    admin = scene.service.admin
    keys = {
        "circuit_breaker": {"threshold": 4, "reset_after": "10m"}, "not_on": ["sunday"], "retry_delay": "5m",
        "jitter": "30s", "only_between": "06:00-22:00", "outside_window": "defer", "quiet_hours": "nights",
        "start_at": "2026-12-01T00:00:00Z", "end_at": "2030-01-01T00:00:00Z", "misfire_grace": "1m",
        "catch_up": "run_all", "catch_up_limit": 5, "if_running": "queue", "queue_limit": 7, "max_outstanding": 9,
        "max_concurrent": 3, "total_repeats": 8, "on_exhausted": "stop", "on_lost": "fail", "timeout": "20m",
        "queue": "others", "expect": {"within": "1d2h", "grace": "3h"}, "ping": {"url": "https://example.com/ping"},
    }  # fmt: skip
    made = admin.create(
        name="origin", every=None, cron="30 7 * * *", timezone="Europe/Paris", run=RUN, payload=PAYLOAD, owner="shop",
        description="Why it is there.", max_retries=2, dst={"gap": "skip", "fold": "second"}, **keys,
    )  # fmt: skip
    assert {key for key in GENERAL if not made[key]} == {"every", "at", "after", "first_run"}, "try every key"
    show(page, scene, f"/schedules/{made['id']}")
    choose(page, "Duplicate")
    expect(page.get_by_role("note")).to_contain_text("run.http.headers.Authorization")
    expect(page.get_by_label("When clocks change")).to_have_value("skip second")
    expect(page.get_by_role("complementary", name="Preview")).to_contain_text("Every day at 07:30")
    expect(page.get_by_role("button", name="Create", exact=True)).to_be_enabled()
    yaml, curl = copied(page, "As YAML"), copied(page, "As curl")
    press(page, "Create paused")
    expect(page.get_by_role("heading", name="origin copy", level=2)).to_be_visible()
    copy = fields_of(scene, f"/schedules/{page.url.rpartition('/')[2]}/")
    # The text for a shell, as a shell would read it.
    words = shlex.split(curl.replace("\\\n", ""))
    body = json.loads(words[words.index("-d") + 1])
    assert words[words.index("POST") + 1] == f"{scene.url}/api/v1/schedules/"
    by_curl = admin.post("/schedules/", body)
    assert by_curl.status == 201, by_curl.raw
    # The text for the file, as `everwhen config check` reads it.
    file = tmp_path / "everwhen.yaml"
    file.write_text(f'quiet_hours: {{nights: {{windows: [{{between: "22:00-07:00"}}]}}}}\n{yaml}')
    declared = read_configuration(file, Host({}, lambda: "UTC", 0, plugins_in=plugins_in)).declared
    assert [str(one.schedule_id) for one in declared.schedules] == ["origin-copy"]
    for found in (copy, by_curl.fields):
        for key in set(GENERAL) - {"name", "enabled", "run"}:
            assert found[key] == made[key], key
        assert (
            found["run"]["http"]["body"] == {"deep": [1, "two"]} and found["run"]["http"]["method"] == "PUT"
        )
        assert found["run"]["http"]["headers"] == {"X-Team": "shop"}  # a mask is not a secret
    assert copy["status"] == "paused"
    for one in (made, copy, by_curl.fields):
        admin.call("DELETE", f"/schedules/{one['id']}/")


def test_what_requests_fire_is_copied_and_edited_as_such(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    made = admin.post(
        "/schedules/", {"type": "webhook", "name": "on push", "run": RUN, "max_concurrent": 0}
    ).fields
    show(page, scene, f"/schedules/{made['id']}")
    choose(page, "Duplicate")
    expect(page.get_by_role("main")).to_contain_text("Fired by a request, never by the clock.")
    press(page, "Create", exact=True)
    expect(page.get_by_role("heading", name="on push copy", level=2)).to_be_visible()
    copy = page.url.rpartition("/")[2]
    choose(page, "Edit")
    page.get_by_label("Timeout").fill("5m")
    page.get_by_role("button", name="Save as revision 2").first.click()
    expect(toast(page, "Changed on push copy: revision 2.")).to_be_visible()
    edited = fields_of(scene, f"/schedules/{copy}/")
    assert (edited["type"], edited["cron"], edited["timeout"]) == ("webhook", None, "5m")
    for one in (made["id"], copy):
        admin.call("DELETE", f"/schedules/{one}/")


def test_the_form_has_the_words_and_the_defaults_of_the_service(page: Page, scene: Scene) -> None:
    show(page, scene, "/new")
    terms = {one["key"]: one for one in fields_of(scene, "/terms/")["keys"]}
    for label, key in {"Still running": "if_running", "Missed while down": "catch_up"}.items():
        options = page.get_by_label(label).get_by_role("option")
        expect(options).to_have_text(
            [
                f"{terms[key]['default']}, the default",
                *(f"{one['word']}: {one['about']}" for one in terms[key]["words"]),
            ]
        )
    methods = page.get_by_label("Method").get_by_role("option")
    expect(methods).to_have_text([one["word"] for one in terms["run.http.method"]["words"]])
    clocks = page.get_by_label("When clocks change")
    expect(clocks.get_by_role("option")).to_have_count(3 * 4)
    clocks.select_option("skip both")
    expect(page.get_by_role("main")).to_contain_text(
        "The slot does not exist on that day; The slot fires both times"
    )
    for label, key in {"Timeout": "timeout", "Retries": "max_retries"}.items():
        expect(page.get_by_label(label)).to_have_attribute(
            "placeholder", f"{terms[key]['default']}, the default"
        )


def test_a_reason_is_shown_in_the_words_of_the_service(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    made = admin.create(name="closed", not_on=["mon"], first_run="immediately")
    scene.service.runtime.slots.tick(scene.clock.now(), limit=500, behind=False)
    show(page, scene, f"/schedules/{made['id']}?tab=slots")
    expect(page.get_by_role("row", name=BRIEF["excluded_day"])).to_have_count(1)
    admin.call("DELETE", f"/schedules/{made['id']}/")


def test_an_edit_changes_what_was_changed_and_clears_what_was_emptied(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    made = admin.create(name="edited", every=None, cron="30 7 * * *", jitter="30s", run=RUN, payload={"a": 1})
    path = f"/schedules/{made['id']}"
    show(page, scene, path)
    choose(page, "Edit")
    page.get_by_label("Cron expression").fill("45 7 * * *")
    page.get_by_label("Jitter").fill("")
    page.get_by_label("Payload").fill("")
    # Somebody else was faster: nothing is lost, and nothing is overwritten.
    assert admin.patch(f"{path}/", {"description": "by somebody else"}).status == 200
    press(page, "Save as revision 2")
    expect(page.get_by_role("alert").filter(has_text="revision")).to_be_visible()
    expect(page.get_by_label("Cron expression")).to_have_value("45 7 * * *")
    page.reload()
    page.get_by_label("Cron expression").fill("45 7 * * *")
    page.get_by_label("Jitter").fill("")
    page.get_by_label("Payload").fill("")
    press(page, "Save as revision 3")
    expect(page).to_have_url(re.compile(f"{path}$"))
    found = fields_of(scene, f"{path}/")
    assert (found["cron"], found["jitter"], found["payload"], found["revision"]) == (
        "45 7 * * *",
        None,
        {},
        3,
    )
    assert found["description"] == "by somebody else"
    stored = scene.service.runtime.catalogue.get(made["id"])
    assert (
        stored is not None and "0123456789abcdef" in stored.definition.target.spec
    )  # its secret is still there
    admin.call("DELETE", f"{path}/")
    context = scene.service.context
    context.settings = replace(context.settings, allow_code_targets=True)
    made = admin.create(name="argv", run={"command": ["echo", "two words", 'a "b"'], "cwd": "/tmp"})
    show(page, scene, f"/new?edit={made['id']}")
    expect(page.get_by_label("Command", exact=True)).to_have_value('echo "two words" "a \\"b\\""')
    page.get_by_label("Command", exact=True).fill('echo "two words" again')
    press(page, "Save as revision 2")
    expect(page).to_have_url(re.compile(f"/schedules/{made['id']}$"))
    found = fields_of(scene, f"/schedules/{made['id']}/")
    assert found["run"] == {"command": ["echo", "two words", "again"], "cwd": "/tmp"}
    admin.call("DELETE", f"/schedules/{made['id']}/")


def test_quiet_hours_are_drawn_over_midnight_by_hand_and_by_finger(
    browser: Browser, page: Page, scene: Scene
) -> None:
    admin = scene.service.admin
    show(page, scene, "/quiet-hours")
    press(page, "New…")
    page.get_by_label("Id").fill("fair")
    confirm(page, "Make them")
    grid = page.get_by_role("grid", name="Closed half hours of fair")

    def cell(day: str, at: str) -> Locator:
        return grid.get_by_role("gridcell", name=re.compile(f"^{day} {at}, "))

    expect(page.get_by_text("every day 22:00-07:00")).to_be_visible()
    settled(page)
    cell("Sat", "12:00").hover()
    page.mouse.down()
    cell("Sat", "13:30").hover(force=True)
    cell("Sat", "12:30").hover(force=True)
    cell("Sat", "13:00").hover(force=True)
    page.mouse.up()
    press(page, "Hold", exact=True)
    press(page, "Save", exact=True)
    expect(toast(page, "Saved fair.")).to_be_visible()
    found = fields_of(scene, "/quiet-hours/fair/")
    spans = {one["between"]: one.get("days") for one in found["windows"]}
    assert spans == {"22:00-07:00": None, "12:00-14:00": ["saturday"]}  # still one window over midnight
    assert found["action"] == "defer"
    cell("Sun", "23:30").focus()
    page.keyboard.press("ArrowUp")
    expect(cell("Sat", "23:30")).to_be_focused()
    page.keyboard.press("Space")
    press(page, "Save", exact=True)
    expect(page.get_by_text("Sat 22:00-23:30")).to_be_visible()
    with opened(browser, scene.url, scene.secret, viewport=PHONE, has_touch=True, is_mobile=True) as context:
        phone = context.new_page()
        show(phone, scene, "/quiet-hours")
        phone.get_by_role("button", name=re.compile("^fair")).click()
        expect(phone.get_by_role("gridcell", name="Wed 10:00, open")).to_be_visible()
        settled(phone)
        first = phone.get_by_role("gridcell", name="Wed 10:00, open").bounding_box()
        last = phone.get_by_role("gridcell", name="Wed 12:00, open").bounding_box()
        assert first is not None and last is not None
        session = context.new_cdp_session(phone)
        y = first["y"] + 10
        for kind, x in (
            ("touchStart", first["x"] + 2),
            *(("touchMove", x) for x in range(int(first["x"]) + 6, int(last["x"]), 4)),
        ):
            session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        expect(phone.get_by_role("gridcell", name="Wed 11:00, closed")).to_be_visible()
    press(page, "Delete…")
    confirm(page, "Delete them")
    expect(toast(page, "Deleted.")).to_be_visible()
    assert admin.get("/quiet-hours/fair/").status == 404


def test_the_system_is_reloaded_and_its_tokens_are_made_and_revoked(
    page: Page, scene: Scene, tmp_path: Path
) -> None:
    admin = scene.service.admin
    before = scene.service.context.node_hooks
    file = tmp_path / "everwhen.yaml"
    file.write_text(
        f"{FILE}  - {{id: brand-new, every: 2h, run: {{command: [new]}}}}\n".replace(
            "every: 20m", "every: 40m"
        )
    )
    on_a_file(scene.service, file)
    show(page, scene, "/system")
    press(page, "What would a reload change?")
    card = page.locator("section", has=page.get_by_role("heading", name="Configuration"))
    expect(card).to_contain_text("brand-new is created")
    expect(card).to_contain_text('trigger: {"every":"20m"}trigger: {"every":"40m"}')
    expect(card).not_to_contain_text("null")
    expect(card).to_contain_text(re.compile(r"\d+ firings? (stays?|vanish)"))
    press(page, "Reload the file…")
    expect(page.get_by_role("dialog")).to_contain_text("0 schedules are removed.")
    confirm(page, "Reload")
    expect(toast(page, "Reloaded: 1 schedule created, 1 changed, 0 removed.")).to_be_visible()
    assert fields_of(scene, "/schedules/invoice-sync/")["every"] == "40m"
    file.write_text("schedules: [{id: a, every: 5x}]")
    press(page, "What would a reload change?")
    expect(page.get_by_role("alert")).to_contain_text("everwhen.yaml:1")
    scene.service.context.node_hooks = before
    press(page, "New token…")
    page.get_by_label("Name").fill("<b>robot</b>")
    page.get_by_label("Role").select_option("operator")
    page.get_by_label("Owner").fill("shop")
    confirm(page, "Create the token")
    secret = copied(page, "Copy the secret")
    mine = replace(admin, secret=secret).get("/me/").fields
    assert (mine["name"], mine["role"], mine["owner"]) == ("<b>robot</b>", "operator", "shop")
    page.get_by_role("button", name="Revoke <b>robot</b>").click()
    expect(page.get_by_role("dialog")).to_contain_text("It cannot be undone.")
    confirm(page, "Revoke the token")
    expect(toast(page, "The token is revoked.")).to_be_visible()
    assert replace(admin, secret=secret).get("/me/").status == 401
    press(page, "Pause everything…")
    confirm(page, "Pause everything")
    toast(page, "The whole system is paused.").get_by_role("button", name="Undo").click()
    expect(toast(page, "The system is resumed.")).to_be_visible()
    assert fields_of(scene, "/system/status/")["is_paused"] is False


def test_the_audit_is_filtered_and_followed_and_nothing_moves_under_a_hand(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    show(page, scene, "/audit?schedule=cert-check")
    rows = page.get_by_role("region", name="Audit").get_by_role("row")
    expect(rows.filter(has_text="schedule.paused").first).to_contain_text("the authority is down")
    expect(rows.filter(has_text="health-ping")).to_have_count(0)
    expect(rows.filter(has_text="job.succeeded")).not_to_have_count(0)
    press(page, "Changes", exact=True)
    expect(page).to_have_url(re.compile(r"schedule=cert-check&type=schedule.created"))
    expect(rows.filter(has_text="job.succeeded")).to_have_count(
        0
    )  # the answer is there, not only the question
    rows.nth(1).get_by_role("link").first.focus()
    first = rows.nth(1).inner_text()
    assert admin.post("/schedules/cert-check/resume/").status == 200
    news = page.get_by_role("button", name="1 new, show")
    expect(news).to_be_visible()
    assert first.splitlines()[-1] in rows.nth(1).inner_text()  # what the focus is on stays
    news.click()
    expect(rows.nth(1)).to_contain_text("schedule.resumed")
    press(page, "Following")
    page.get_by_label("Of schedules with this name").focus()
    assert admin.post("/schedules/cert-check/pause/", {"note": "the authority is down"}).status == 200
    expect(page.get_by_role("button", name="1 new, show")).to_be_visible()
    press(page, "Not following")
    expect(rows.nth(1)).to_contain_text("schedule.paused")
    press(page, "Schedule: cert-check")
    press(page, "All", exact=True)
    expect(rows.filter(has_text="job.started").first).to_be_visible()  # another answer, not the one before
    expect(rows).to_have_count(51)
    # The stream may tell what the answer has already: each event is there once.
    events = fields_of(scene, "/audit/?type=schedule.paused&limit=1")["items"]
    page.evaluate(TELL, [root_of(page), [*events, {**events[0], "id": 10**9, "type": "node.lost"}]])
    expect(rows.filter(has_text="node.lost")).to_have_count(1)
    expect(rows).to_have_count(52)
    press(page, "Older", exact=True)
    expect(rows).to_have_count(102)


def test_the_rows_of_a_list_stay_where_they_are_while_a_hand_is_on_it(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    made = admin.create(name="comes-later")
    with page.expect_response(re.compile("/events/stream/")):
        show(page, scene, "/jobs")
    rows = page.get_by_role("table", name="Jobs, newest first").get_by_role("row")
    expect(rows).to_have_count(51)
    known = rows.nth(1).get_by_role("link").nth(1).get_attribute("href") or ""
    rows.nth(1).hover()
    job = triggered(admin, made)["id"]
    news = page.get_by_role("button", name="1 new, show")
    expect(news).to_be_visible()
    expect(rows.nth(1).get_by_role("link").nth(1)).to_have_attribute("href", known)
    news.click()
    expect(rows.nth(1).get_by_role("link").nth(1)).to_have_attribute("href", f"/jobs/{job}")
    expect(news).to_have_count(0)
    admin.call("DELETE", f"/schedules/{made['id']}/?cancel=true")


def test_what_is_being_typed_stays_while_the_page_is_drawn_again(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    show(page, scene, "/audit")
    rows = page.get_by_role("region", name="Audit").get_by_role("row")
    expect(rows).to_have_count(51)
    field = page.get_by_label("Of schedules with this name")
    field.press_sequentially("cert-")
    assert admin.post("/schedules/cache-warm/pause/", {"note": "meanwhile"}).status == 200
    expect(rows.filter(has_text="meanwhile")).to_be_visible()
    expect(field).to_have_value("cert-")
    field.press_sequentially("check")
    field.press("Enter")
    expect(page).to_have_url(re.compile("q=cert-check$"))
    expect(field).to_have_value("cert-check")
    page.go_back()
    expect(field).to_have_value("")  # as the address says
    assert admin.post("/schedules/cache-warm/resume/").status == 200
    show(page, scene, "/schedules")
    expect(page.get_by_role("link", name="recount")).to_be_visible()
    # Its text counts after a moment without a key: with the clock stopped, that moment does not come.
    page.clock.pause_at(page.evaluate("new Date(Date.now() + 600_000).toISOString()"))
    search = page.get_by_label("Search schedules")
    search.press_sequentially("rec")
    press(page, re.compile("^Filter"))
    expect(search).to_have_value("rec")
    page.clock.resume()
    expect(page).to_have_url(re.compile("q=rec$"))
    page.get_by_role("button", name=re.compile("^Filter")).click()
    search.fill("nothing has this")
    press(page, "Clear the filter")
    expect(search).to_have_value("")


def test_a_log_is_followed_wrapped_and_searched(page: Page, scene: Scene) -> None:
    service = scene.service
    made = service.admin.create(name="talks", payload={"city": "Paris"})
    job = triggered(service.admin, made)["id"]
    claim = claimed(service, job)
    text = "".join(f"line {number} of many\n" for number in range(1, 301)).encode()
    said(service, job, text)
    show(page, scene, f"/jobs/{job}")
    log = page.get_by_role("log")
    expect(log.get_by_text("line 300 of many")).to_be_in_viewport()  # it follows
    top = "document.querySelector('[role=log]').scrollTop"
    page.get_by_label("Find in the log").fill("line 30")
    expect(page.get_by_text("1 of 2")).to_be_visible()
    page.get_by_label("Find in the log").press("Enter")
    expect(page.get_by_text("2 of 2")).to_be_visible()
    page.get_by_label("Find in the log").press("Shift+Enter")
    expect(log.get_by_text("line 30 of many")).to_be_in_viewport()
    page.get_by_label("Find in the log").press("Escape")
    expect(page.get_by_role("button", name="Not following")).to_be_visible()
    before = page.evaluate(top)
    said(service, job, b"one more\n\x1b[31mred\nstill red\x1b[0m\nplain\n", position=len(text))
    expect(log.get_by_text("one more")).to_be_attached()
    assert page.evaluate(top) == before  # what is read does not move
    page.keyboard.press("Shift+G")
    expect(log.get_by_text("one more")).to_be_in_viewport()
    expect(log.get_by_text("still red")).to_have_class("c1")
    expect(log.get_by_text("plain", exact=True)).not_to_have_class("c1")
    page.keyboard.press("l")
    expect(page.get_by_role("button", name="Not following")).to_be_visible()
    expect(page).to_have_url(re.compile("/jobs/"))
    press(page, "Newest")
    expect(page.get_by_role("button", name="Following", exact=True)).to_be_visible()
    press(page, "Wrap long lines")
    expect(page.get_by_role("button", name="Wrap long lines")).to_have_attribute("aria-pressed", "false")
    press(page, "Output", exact=True)
    expect(page.get_by_text("304 lines,")).to_be_visible()
    page.route("**/log/", lambda route: route.fulfill(status=503, json={"status": 503, "detail": "not now"}))
    press(page, "Download the log")
    expect(toast(page, "not now")).to_be_visible()  # and no file that is not a log
    assert copied(page, "Copy the job id") == job
    assert json.loads(copied(page, "Copy the payload")) == {"city": "Paris"}
    end(service, claim, Outcome("succeeded", result='{"pages": 3}'))
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    assert json.loads(copied(page, "Copy the result")) == {"pages": 3}
    service.admin.call("DELETE", f"/schedules/{made['id']}/?cancel=true")


def test_schedules_that_rest_made_have_their_name_everywhere(page: Page, scene: Scene) -> None:
    service = scene.service
    breaker = {"threshold": 1, "reset_after": "1h"}
    made = service.admin.create(
        name="by-rest", circuit_breaker=breaker, first_run="immediately", max_retries=0
    )
    service.runtime.slots.tick(scene.clock.now(), limit=500, behind=False)
    (job,) = fields_of(scene, f"/jobs/?schedule_id={made['id']}")["items"]
    ran(service, job["id"], Outcome("failed", error="no luck"))
    show(page, scene, "/breakers")
    press(page, "by-rest", exact=True)
    expect(page.get_by_role("heading", name="What happened to by-rest")).to_be_visible()
    show(page, scene, "/")
    expect(page.get_by_role("link", name="by-rest breaker open")).to_be_visible()
    show(page, scene, "/schedules")
    warm = page.get_by_role("row").filter(has_text="cache-warm")
    expect(warm).to_contain_text("every hour at minute 5, UTC")  # its own zone beside the viewer's
    expect(warm).to_contain_text("10:05:00 CET +01:0009:05:00 UTC")
    expect(page.get_by_role("row").filter(has_text="by-rest")).to_contain_text("Breaker open")
    expect(page.get_by_role("row").filter(has_text="inbox-sweep")).to_contain_text("Budget spent")
    show(page, scene, f"/jobs/{job['id']}")
    page.locator("section", has=page.get_by_role("heading", name="Other jobs")).get_by_role(
        "link", name="All"
    ).click()
    expect(page.get_by_role("button", name="Schedule: by-rest")).to_be_visible()
    expect(page.get_by_text("1 job", exact=True)).to_be_visible()
    service.admin.post(f"/breakers/{made['id']}/reset/")
    service.admin.call("DELETE", f"/schedules/{made['id']}/")
    # The record keeps the name.
    show(page, scene, "/audit")
    search = page.get_by_label("Of schedules with this name")
    search.fill("By-Rest")
    search.press("Enter")
    rows = page.get_by_role("region", name="Audit").get_by_role("row")
    expect(rows.filter(has_text="schedule.deleted")).to_have_count(1)
    expect(rows.filter(has_text="schedule.deleted")).to_contain_text("by-rest")
    expect(rows.filter(has_text="cert-check")).to_have_count(0)
    show(page, scene, f"/jobs/{job['id']}")
    expect(page.get_by_role("heading", name="by-rest")).to_be_visible()


def test_an_instant_of_a_schedule_is_shown_in_its_own_zone_too_and_typed_in_it(
    page: Page, scene: Scene
) -> None:
    admin = scene.service.admin
    made = admin.create(name="tea", every=None, cron="0 * * * *", timezone="Asia/Kolkata")
    show(page, scene, f"/schedules/{made['id']}")
    half_past = re.compile(r"\d\d:30:00 CET \+01:00 \(\d\d:00:00 IST \+05:30\)")
    expect(page.get_by_text(half_past).first).to_be_visible()
    press(page, "More")
    page.get_by_role("menuitem", name=re.compile("Backfill")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("Asia/Kolkata").first).to_be_visible()
    dialog.get_by_label("From").fill("2026-11-16T09:00")
    with page.expect_request(re.compile("backfill")) as asked:
        press(page, "Count the slots")
    assert json.loads(asked.value.post_data or "")["from"] == "2026-11-16T03:30:00.000Z"
    press(page, "Cancel", exact=True)
    admin.call("DELETE", f"/schedules/{made['id']}/")


def test_many_schedules_are_paged_selected_and_deleted_at_once(page: Page, scene: Scene) -> None:
    admin = scene.service.admin
    before = fields_of(scene, "/schedules/?limit=1")["total"]
    for number in range(45):
        admin.create(name=f"bulk-{number:02}", every=None, at="2026-11-16T08:55:00Z")
    show(page, scene, "/week")
    page.get_by_role("gridcell", name=re.compile("Mon 16 Nov 09:00")).click()
    expect(page.get_by_role("dialog").get_by_role("link", name="bulk-44")).to_be_attached()
    page.get_by_role("dialog").get_by_role(
        "link", name="Show on the time line"
    ).click()  # also under a long list
    expect(page).to_have_url(re.compile("from=.*span=3600"))
    show(page, scene, "/schedules?sort=name")
    press(page, "Next", exact=True)
    expect(page).to_have_url(re.compile("offset=50"))
    expect(page.get_by_text(f"51 to {before + 45} of {before + 45}")).to_be_visible()
    press(page, "Previous", exact=True)
    expect(page.get_by_text(f"1 to 50 of {before + 45}")).to_be_visible()
    page.get_by_label("Search schedules").fill("bulk-")
    expect(page.get_by_text("1 to 45 of 45")).to_be_visible()
    page.get_by_label("Select the 45 rows of this page").check()
    press(page, "Clear the selection")
    expect(page.get_by_role("toolbar")).to_have_count(0)
    page.get_by_label("Select the 45 rows of this page").check()
    page.get_by_role("toolbar").get_by_role("button", name="Delete…").click()
    confirm(page, "Delete 45 schedules")
    expect(toast(page, "Deleting 45 schedules.")).to_be_visible()
    page.clock.fast_forward(10_100 * LONGER)
    expect(toast(page, "Deleted 45 schedules.")).to_be_visible()
    assert fields_of(scene, "/schedules/?limit=1")["total"] == before
    press(page, "Clear the filter")
    press(page, "Actions for cache-warm")
    page.get_by_role("menuitem", name="Duplicate").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("cache-warm copy")
    page.go_back()
    press(page, "Actions for cache-warm")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    confirm(page, "Trigger now")
    expect(toast(page, "Triggered cache-warm: job sched-")).to_be_visible()


def test_what_only_shows_something_is_pressed_too(page: Page, scene: Scene) -> None:
    show(page, scene, "/")
    line = page.get_by_role("region", name="Time line")
    for name, sought in (("Running", "running=true"), ("Held", "held=true")):
        press(page, re.compile(f"^{name}"))
        expect(page).to_have_url(re.compile(sought))
    press(page, re.compile("^Held"))
    for text, seconds in (
        ("1 min", 60),
        ("15 min", 900),
        ("1 d", 86_400),
        ("1 w", 604_800),
        ("1 mo", 2_678_400),
    ):
        press(page, text, exact=True)
        expect(page).to_have_url(re.compile(f"span={seconds}$"))
    press(page, "1 h", exact=True)
    page.keyboard.press("-")
    expect(page).to_have_url(re.compile("span=5400$"))
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("span=3600$"))
    expect(line.get_by_role("link", name="recount")).to_be_visible()  # in a month there were only figures
    canvas = line.get_by_role("img", name=re.compile("Time line of slots"))
    canvas.focus()
    for key in ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    card = line.get_by_role("status").filter(has_text="slot")
    card.get_by_role("button", name="Close").click()
    expect(card).to_have_count(0)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    expect(card.get_by_role("link", name="Job")).to_be_visible()
    card.get_by_role("link", name="Why?").click()
    expect(page.get_by_role("complementary", name="Why?")).to_be_visible()
    show(page, scene, "/")
    line.get_by_role("img", name=re.compile("^The whole day")).click()
    expect(page).to_have_url(re.compile("from="))
    page.keyboard.press("n")
    expect(page).not_to_have_url(re.compile("from="))
    show(page, scene, "/?from=2020-01-01T00:00:00Z&span=3600")
    expect(line).to_contain_text("No slot lies in this span.")
    line.get_by_role("button", name="Show a day").click()
    expect(line.get_by_role("link", name="recount")).to_be_visible()
    expect(line.get_by_role("button", name="1 d", exact=True)).to_have_attribute("aria-pressed", "true")
    show(page, scene, "/week")
    for name in ("Week before", "Week after"):
        press(page, name)
    page.keyboard.press("t")
    expect(page).not_to_have_url(re.compile("week="))
    hour = page.get_by_role("gridcell", name=re.compile("Mon 16 Nov 09:00"))
    expect(page.locator(".week [tabindex='0']")).to_have_count(
        1
    )  # one stop of Tab, and the arrows from there
    hour.focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("gridcell", name=re.compile("Tue 17 Nov 09:00"))).to_be_focused()
    show(page, scene, "/jobs?status=succeeded")
    rows = page.get_by_role("table", name="Jobs, newest first").get_by_role("row")
    expect(rows).to_have_count(51)
    newest = rows.nth(1).inner_text()
    press(page, "Older", exact=True)
    expect(rows.nth(1)).not_to_have_text(newest)
    press(page, "Newer", exact=True)
    for label, word in (("Timed out", "timed_out"), ("Running", "running")):
        press(page, label, exact=True)
        expect(page).to_have_url(re.compile(f"status={word}"))
    show(page, scene, "/schedules/health-ping?tab=slots")
    press(page, "Show more")
    expect(page.get_by_role("row").nth(55)).to_be_attached()
    page.get_by_role("link", name="Definition").click()
    assert json.loads(copied(page, "Copy as JSON"))["every"] == "1m"
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("As a table").click()
    expect(page.get_by_role("cell", name="2026-11-16")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Why, slot")).first).to_be_visible()
    page.keyboard.press("w")
    assert copied(page, "Copy the command").startswith("everwhen why health-ping --at 2026-11-16T")
    page.keyboard.press("?")
    page.get_by_label("Single-key shortcuts").uncheck()
    confirm(page, "Close")
    page.keyboard.press("c")
    page.keyboard.press("?")  # the list itself is always there
    page.get_by_label("Single-key shortcuts").check()
    confirm(page, "Close")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="New schedule", level=1)).to_be_visible()
    for trigger, label in (
        ("Every", "Interval"),
        ("At", "Instant"),
        ("After", "Delay"),
        ("Cron", "Cron expression"),
    ):
        press(page, trigger, exact=True)
        expect(page.get_by_label(label, exact=True)).to_be_visible()
    for target, label in (("Plugin", "Plugin"), ("Agent", "Prompt"), ("Command", "Command"), ("HTTP", "URL")):
        press(page, target, exact=True)
        expect(page.get_by_label(label, exact=True)).to_be_visible()
    assert page.get_by_label("Payload").evaluate("(one) => one.spellcheck") is False
    page.get_by_label("Jitter").fill("5x")
    page.get_by_role("complementary", name="Preview").get_by_role("link", name="jitter").click()
    expect(page.get_by_label("Jitter")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.get_by_label("Schedule, page or job id").fill("aud")
    page.get_by_role("option", name=re.compile("Audit")).click()
    expect(page.get_by_role("heading", name="Audit", level=1)).to_be_visible()

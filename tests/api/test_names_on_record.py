"""Events, jobs and alerts name their schedules, also deleted ones; the audit is searched by these names."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest

from everwhen.model.retention import Retention
from everwhen.operations.maintenance import prune
from everwhen.store.dialect import Statement
from everwhen.store.lanes import Lane
from tests.api.serving import Client, Service
from tests.api.test_streams import on_each, stream

__all__ = ["on_each"]

KEY = "/schedules/key"


def audit(client: Client, query: str) -> list[dict[str, Any]]:
    answer = client.get(f"/audit/?{query}")
    assert answer.status == 200, answer.raw
    found: list[dict[str, Any]] = answer.fields["items"]
    return found


def made_with_key(client: Client, key: str, **keys: Any) -> dict[str, Any]:
    body = {"every": "1h", "run": {"message": {"text": "x"}}, **keys}
    answer = client.call("PUT", f"{KEY}/{key}/", body)
    assert answer.status == 201, answer.raw
    found: dict[str, Any] = answer.fields
    return found


def names(event: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    return event["schedule_key"], event["schedule_name"], event["timezone"]


def test_the_events_of_a_deleted_schedule_keep_its_key_its_name_and_its_zone(on_each: Service) -> None:
    made = made_with_key(on_each.admin, "nightly", name="Größe of Fleet", timezone="Asia/Kolkata")
    on_each.admin.post(f"/schedules/{made['id']}/trigger/")
    named = ("nightly", "Größe of Fleet", "Asia/Kolkata")
    events = audit(on_each.admin, f"schedule_id={made['id']}")
    assert {names(event) for event in events} == {named}
    assert on_each.admin.call("DELETE", f"/schedules/{made['id']}/").status == 204
    after = audit(on_each.admin, f"schedule_id={made['id']}")
    assert len(after) > len(events)
    assert {names(event) for event in after} == {named}
    assert {"schedule.created", "job.cancelled", "schedule.deleted"} <= {event["type"] for event in after}
    deleted = next(event for event in after if event["type"] == "schedule.deleted")
    assert deleted["detail"] == {"key": "nightly", "name": "Größe of Fleet"}
    assert deleted["actor_name"] == "admin"
    (job,) = on_each.admin.get(f"/jobs/?schedule_id={made['id']}").fields["items"]
    assert names(job) == named
    assert names(on_each.admin.get(f"/jobs/{job['id']}/").fields) == named


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("text", ["of fleet", "GRößE", "nightly", "Fleet"])
def test_the_audit_is_searched_by_name_and_key_of_present_and_deleted_schedules(
    on_each: Service, text: str, is_deleted: bool
) -> None:
    made = made_with_key(on_each.admin, "nightly", name="Größe of Fleet")
    other = made_with_key(on_each.admin, "other", name="Something else")
    for one in (made, other):
        on_each.admin.post(f"/schedules/{one['id']}/trigger/")
        if is_deleted:
            on_each.admin.call("DELETE", f"/schedules/{one['id']}/")
    if text == "GRößE":  # both databases lower ASCII alone
        text = "GRöß"
    found = audit(on_each.admin, f"q={quote(text)}")
    assert {event["schedule_id"] for event in found} == {made["id"]}
    assert {event["type"] for event in found} >= {"schedule.created", "job.triggered"}
    assert audit(on_each.admin, f"q={quote(text)}&type=schedule.created")[0]["schedule_id"] == made["id"]
    assert audit(on_each.admin, f"q={quote(text)}&schedule_id={other['id']}") == []
    assert audit(on_each.admin, "q=there+is+none") == []


def test_a_search_finds_the_firings_and_ends_of_deleted_schedules_as_well(on_each: Service) -> None:
    made = made_with_key(on_each.admin, "nightly")
    on_each.admin.post(f"/schedules/{made['id']}/trigger/")
    on_each.admin.call("DELETE", f"/schedules/{made['id']}/?cancel=true")
    kinds = {event["type"] for event in audit(on_each.admin, "q=nightly")}
    assert kinds == {event["type"] for event in audit(on_each.admin, f"schedule_id={made['id']}")}


def test_a_name_of_others_finds_nothing_of_theirs(on_each: Service) -> None:
    ada, bob = on_each.client("operator", owner="ada"), on_each.client("operator", owner="bob")
    made = made_with_key(ada, "secret-plan", name="Secret plan")
    ada.call("DELETE", f"/schedules/{made['id']}/")
    assert {event["schedule_id"] for event in audit(ada, "q=secret")} == {made["id"]}
    assert audit(bob, "q=secret") == []


def test_a_text_in_very_many_names_is_refused_with_what_to_do(on_each: Service) -> None:
    body = [
        {"every": "1h", "name": f"Mass {number}", "run": {"message": {"text": "x"}}}
        for number in range(1_001)
    ]
    assert on_each.admin.post("/schedules/batch/", body).fields["failed"] == 0
    answer = on_each.admin.get("/audit/?q=mass")
    assert answer.problem == "invalid"
    assert answer.fields["detail"] == 'more than 1,000 schedules have "mass" in a name; give more of the name'
    assert on_each.admin.get("/audit/?q=mass+77").status == 200
    # Those of others neither count for an owner nor are told of.
    bob = on_each.client("operator", owner="bob")
    assert audit(bob, "q=mass") == []
    kept, gone = (made_with_key(bob, key, name="Mass of Bob") for key in ("kept", "gone"))
    bob.call("DELETE", f"/schedules/{gone['id']}/")
    assert {event["schedule_id"] for event in audit(bob, "q=mass")} == {kept["id"], gone["id"]}
    assert {event["schedule_id"] for event in audit(on_each.admin, "q=mass&owner=bob")} == {
        kept["id"],
        gone["id"],
    }


def test_a_schedule_that_retention_has_removed_is_named_nowhere(on_each: Service) -> None:
    made = made_with_key(on_each.admin, "old")
    on_each.admin.call("DELETE", f"/schedules/{made['id']}/")
    kept = on_each.context.runtime
    assert names(audit(on_each.admin, "q=old")[0])[0] == "old"
    prune(kept, Retention(audit=0, jobs=0))
    assert audit(on_each.admin, "q=old") == []


def test_a_stream_and_what_follows_a_list_name_schedule_and_actor(on_each: Service) -> None:
    made = made_with_key(on_each.admin, "streamed", name="Streamed")
    behind = on_each.admin.get("/audit/?limit=1").fields["last_event_id"]
    with stream(on_each.admin, "/events/stream/", after=behind) as events:
        on_each.admin.post(f"/schedules/{made['id']}/pause/", {"note": "later"})
        item = next(item for item in iter(events.next, None) if item.kind == "schedule.paused")
    assert (names(item.fields), item.fields["actor_name"]) == (("streamed", "Streamed", "UTC"), "admin")
    assert item.fields in audit(on_each.admin, f"after={behind}&q=streamed")


def test_a_schedule_that_an_earlier_release_deleted_is_found_by_the_name_of_its_revisions(
    on_each: Service,
) -> None:
    made = made_with_key(on_each.admin, "before", name="Old report", timezone="Asia/Kolkata")
    on_each.admin.call("DELETE", f"/schedules/{made['id']}/")
    forget = Statement("UPDATE audit_events SET detail = '{}' WHERE type = 'schedule.deleted'")
    on_each.runtime.catalogue._store.write(Lane.API, lambda tx: tx.run(forget))
    found = audit(on_each.admin, "q=old+rep")
    assert {names(event) for event in found} == {(None, "Old report", "Asia/Kolkata")}
    assert audit(on_each.admin, "q=before") == []  # that release kept no key


def test_an_instant_that_a_sentence_shows_is_taken_by_the_call(on_each: Service) -> None:
    made = on_each.admin.create(every=None, cron="30 * * * *", timezone="Asia/Kolkata")
    path = f"/schedules/{made['id']}/why/"
    (shown,) = re.findall(r"\w{3} [\d-]{10} [\d:]{8} IST \+05:30", on_each.admin.get(path).fields["sentence"])
    found = on_each.admin.get(f"{path}?at={quote(shown)}").fields
    assert found["slot_at"] == made["next_slot_at"]
    for text in (shown.removesuffix(" +05:30"), "Mon", "09:00 +05:30"):  # no instant by itself
        assert on_each.admin.get(f"{path}?at={quote(text)}").status == 422


# -- pauses --


def test_a_paused_schedule_says_who_when_until_when_and_why(on_each: Service) -> None:
    made = on_each.admin.create(name="Report", timezone="Europe/Berlin")
    assert made["pause"] is None
    mira = on_each.client("operator")
    until = "2090-07-01T09:00:00Z"
    paused = mira.post(f"/schedules/{made['id']}/pause/", {"note": "moving house", "until": until}).fields
    pause = paused["pause"]
    assert (pause["by"], pause["name"], pause["until"]) == ("token", "operator None", until)
    assert pause["note"] == "moving house"
    assert pause["actor"].startswith("token:tok_") and pause["at"] is not None
    assert on_each.admin.get(f"/schedules/{made['id']}/").fields["pause"] == pause
    (listed,) = on_each.admin.get("/schedules/?status=paused").fields["items"]
    assert listed["pause"] == pause
    coming = on_each.admin.get(f"/schedules/{made['id']}/upcoming/").fields["sentence"]
    explained = on_each.admin.get(f"/schedules/{made['id']}/why/").fields["sentence"]
    for sentence in (coming, explained):
        assert "paused by operator None since " in sentence
        assert ", until Sat 2090-07-01 11:00:00 CEST +02:00 (moving house). To go on now:" in sentence
    resumed = on_each.admin.post(f"/schedules/{made['id']}/resume/").fields
    assert resumed["pause"] is None


def test_a_schedule_that_waits_for_approval_says_who_asked(on_each: Service) -> None:
    agent = on_each.client("operator", approval="required")
    made = agent.create()
    assert (made["pause"]["by"], made["pause"]["name"]) == ("approval", "operator None")
    again = on_each.admin.get(f"/schedules/{made['id']}/").fields
    assert again["pause"] == made["pause"]


def test_a_paused_system_says_who_paused_it(on_each: Service) -> None:
    made = on_each.admin.create()
    on_each.client("operator").post("/system/pause/")
    assert on_each.admin.get("/system/status/").fields["paused_by_name"] == "operator None"
    for path in ("/upcoming/", f"/schedules/{made['id']}/why/"):
        assert (
            "The system has been paused by operator None since " in on_each.admin.get(path).fields["sentence"]
        )
    on_each.admin.post("/system/resume/")
    assert on_each.admin.get("/system/status/").fields["paused_by_name"] is None

"""Previews, upcoming slots, the ledger of slots, figures and revisions; and many schedules in one call."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from everwhen.engine.ticker import Ticker
from tests.api.serving import HTTP_RUN, Service, serving

FILE = """
quiet_hours: {always: {windows: [{between: "00:00-12:00"}, {between: "12:00-24:00"}]}}
schedules:
  - {id: of-the-file, every: 1h, run: {message: {text: hi}}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("looking"), file=FILE) as found:
        yield found


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_preview_says_it_in_words_and_writes_nothing(service: Service) -> None:
    before = service.admin.get("/schedules/").fields["total"]
    body = {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}
    found = service.client("viewer").post("/preview/?limit=400", body).fields
    assert (found["sentence"], found["type"], found["timezone"]) == (
        "every day at 02:30",
        "cron",
        "Europe/Berlin",
    )
    notes = [item["note"] for item in found["items"] if item["note"] is not None]
    assert any(note.startswith("shifted: the clock jumps from 02:00 to 03:00") for note in notes)
    assert any(note.startswith("doubled: 02:30 comes twice") for note in notes)
    assert service.admin.get("/schedules/").fields["total"] == before


def test_a_preview_predicts_skips(service: Service) -> None:
    body = {"every": "6h", "only_between": "00:00-06:00", "start_at": "2090-01-01T01:00:00Z"}
    items = service.admin.post("/preview/?limit=4", body).fields["items"]
    assert [item["skip_reason"] for item in items] == [None, *["outside_window"] * 3]
    quiet = service.admin.post("/preview/?limit=2", {"every": "1h", "quiet_hours": "always"}).fields["items"]
    assert [item["skip_reason"] for item in quiet] == ["quiet_hours"] * 2


@pytest.mark.parametrize(
    "body", [{}, {"every": "5x"}, {"cron": "0 0 30 2 *"}, {"every": "1h", "cron": "0 * * * *"}]
)
def test_a_preview_of_nonsense_is_refused(service: Service, body: dict[str, Any]) -> None:
    assert service.admin.post("/preview/", body).problem == "invalid"


def test_upcoming_of_all_is_in_order_and_of_the_tokens_owner_only(service: Service) -> None:
    eve = service.client(owner="eve")
    eve.create(every="7m", first_run="after_interval")
    eve.create(every="5m", first_run="after_interval")
    items = eve.get("/upcoming/?limit=5").fields["items"]
    assert [item["due_at"] for item in items] == sorted(item["due_at"] for item in items)
    ends = [when(item["due_at"]) - when(items[0]["due_at"]) for item in items]
    assert [round(end / timedelta(minutes=1)) for end in ends] == [0, 2, 5, 9, 10]
    assert len(service.client(owner="nobody at all").get("/upcoming/").fields["items"]) == 0


def test_the_ledger_of_slots_has_what_fired_and_what_did_not_by_pages(service: Service) -> None:
    made = service.admin.create(every="1s", run={"message": {"text": "x"}}, quiet_hours=None)
    quiet = service.admin.create(every="1m", quiet_hours="always")
    Ticker(service.runtime.slots, service.runtime.clock).step()
    fired = service.admin.get(f"/schedules/{made['id']}/slots/").fields
    assert fired["items"][0]["fate"] == "fired"
    assert fired["items"][0]["job"]["origin"] == "schedule"
    skipped = service.admin.get(f"/schedules/{quiet['id']}/slots/?limit=1").fields
    assert [(one["fate"], one["reason"], one["count"]) for one in skipped["items"]] == [
        ("skipped", "quiet_hours", 1)
    ]
    following = service.admin.get(f"/schedules/{quiet['id']}/slots/?cursor={skipped['next_cursor']}").fields
    assert following == {"items": [], "total": 0, "next_cursor": None}


def test_the_record_of_a_deleted_schedule_answers_its_owner_and_nobody_else(service: Service) -> None:
    ada, bob = service.client(owner="ada"), service.client(owner="bob")
    made = ada.create(every="1s", run={"message": {"text": "x"}})
    Ticker(service.runtime.slots, service.runtime.clock).step()
    ada.call("DELETE", f"/schedules/{made['id']}/")
    for path in ("slots", "why", "stats", "revisions"):
        assert ada.get(f"/schedules/{made['id']}/{path}/").status == 200, path
        strange = bob.get(f"/schedules/{made['id']}/{path}/")
        assert (strange.status, strange.raw) == (404, bob.get(f"/schedules/unknown/{path}/").raw)
    assert ada.get(f"/schedules/{made['id']}/").status == 404


def test_revisions_tell_how_it_was_without_its_secrets(service: Service) -> None:
    made = service.admin.create(
        run={"http": {"url": "https://example.com/", "headers": {"X-Token": "hunter2"}}}
    )
    service.admin.patch(f"/schedules/{made['id']}/", {"every": "2h"})
    answer = service.admin.get(f"/schedules/{made['id']}/revisions/")
    items = answer.fields["items"]
    assert [(one["revision"], one["cause"], one["definition"]["every"]) for one in items] == [
        (2, "edited", "2h"),
        (1, "created", "1h"),
    ]
    assert b"hunter2" not in answer.raw


def test_figures_of_a_schedule_that_never_ran_are_empty(service: Service) -> None:
    made = service.admin.create()
    found = service.admin.get(f"/schedules/{made['id']}/stats/").fields
    assert (found["jobs"], found["success_rate"], found["duration_max"]) == (0, None, None)


def test_a_schedule_of_the_file_is_changed_there_and_paused_here(service: Service) -> None:
    path = "/schedules/of-the-file/"
    shown = service.admin.get(path).fields
    assert (shown["source"], shown["source_line"]) == ("config", 4)
    assert shown["source_file"].endswith("everwhen.yaml")
    for method, body in (("PATCH", {"name": "x"}), ("DELETE", None)):
        answer = service.admin.call(method, path, body)
        assert (answer.status, answer.problem) == (409, "declared-elsewhere")
    assert service.admin.post("/schedules/batch-delete/", {"schedule_ids": ["of-the-file"]}).status == 409
    assert service.admin.post(f"{path}pause/").fields["paused_by"] == "token"
    assert service.admin.post(f"{path}resume/").status == 200


# -- many at once --


def test_many_are_made_each_by_itself(service: Service) -> None:
    good = {"every": "1h", "run": HTTP_RUN}
    answer = service.admin.post("/schedules/batch/", {"schedules": [good, {"every": "5x"}, good, 17]})
    items = answer.fields["items"]
    assert (answer.status, answer.fields["failed"]) == (200, 2)
    assert [item["id"] is not None for item in items] == [True, False, True, False]
    assert items[1]["problem"]["errors"][0]["message"] == "run is required"
    assert service.admin.get(f"/schedules/{items[2]['id']}/").status == 200


def test_a_batch_stops_at_the_tokens_quota(service: Service) -> None:
    client = service.client(max_schedules=3)
    found = client.post("/schedules/batch/", {"schedules": [{"every": "1h", "run": HTTP_RUN}] * 5}).fields
    assert [item["id"] is not None for item in found["items"]] == [True, True, True, False, False]
    assert found["items"][4]["problem"]["type"].endswith("limit-reached")


def test_the_same_batch_again_makes_nothing_twice(service: Service) -> None:
    body = {"schedules": [{"every": "1h", "run": HTTP_RUN, "owner": "twice"}] * 3}
    headers = {"Idempotency-Key": "import-1"}
    first = service.admin.post("/schedules/batch/", body, headers=headers).fields
    again = service.admin.post("/schedules/batch/", body, headers=headers).fields
    assert again == first
    assert service.admin.get("/schedules/?owner=twice").fields["total"] == 3


@pytest.mark.parametrize(
    "body",
    ["[]", {}, {"schedules": {}}, {"schedules": [], "more": 1}, {"schedules": [{}] * 10_001}, [{}] * 10_001],
    ids=lambda body: str(body)[:30],
)
def test_a_batch_is_a_list_of_at_most_ten_thousand(service: Service, body: Any) -> None:
    assert service.admin.post("/schedules/batch/", body).problem == "invalid"

"""Jobs over REST: listed in bounded time, looked at, followed, cancelled, run again, reported."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from everwhen.api.payloads import model_of
from everwhen.errors import StatusError
from everwhen.model.outcome import Outcome
from everwhen.model.queries import EventFilter
from everwhen.verify.ledger import check_ledger
from everwhen.views.jobs import Job
from tests.api.serving import HTTP_RUN, Client, Service, serving
from tests.api.working import FAILED, claimed, end, ran, said, triggered


def listed(client: Client, query: str = "") -> list[str]:
    return [item["id"] for item in client.get(f"/jobs/{query}").fields["items"]]


def test_a_job_has_every_documented_key_and_no_other(service: Service) -> None:
    job = triggered(service.admin, service.admin.create(), payload={"a": 1})
    assert set(job) == set(model_of(Job).model_fields)
    found = service.admin.get(f"/jobs/{job['id']}/")
    label = {"schedule_key": None, "schedule_name": found.fields["schedule_name"], "timezone": "UTC"}
    more = {"handed_over_at": None, "delivery": None, "reserved": None, **label}
    assert (found.status, found.fields) == (200, {**job, **more})
    assert job["payload"] == {"a": 1} and job["origin"] == "manual"


def test_a_job_that_a_queue_has_says_since_when(service: Service) -> None:
    job = triggered(service.admin, service.admin.create())
    now = service.runtime.clock.now()
    sent = {one.job_id: one for one in service.runtime.outbox.hand_over(now, limit=1_000, until=now + 1)}
    found = service.admin.get(f"/jobs/{job['id']}/").fields
    assert (found["status"], found["delivery"]) == ("queued", sent[job["id"]].number)
    assert found["handed_over_at"] is not None


def test_jobs_are_filtered_by_schedule_group_status_origin_and_time(service: Service) -> None:
    first, second = service.admin.create(), service.admin.create()
    job, other = triggered(service.admin, first), triggered(service.admin, second)
    ran(service, job["id"], FAILED)
    assert listed(service.admin, f"?schedule_id={first['id']}") == [job["id"]]
    assert (
        listed(service.admin, f"?schedule_id={second['uid']}&status=queued") == []
    )  # claimed beside the first
    assert listed(service.admin, f"?schedule_id={second['uid']}&status=running") == [other["id"]]
    assert job["id"] in listed(service.admin, "?status=failed")
    assert other["id"] not in listed(service.admin, "?status=failed")
    assert listed(service.admin, f"?schedule_id={first['id']}&origin=schedule") == []
    assert listed(service.admin, f"?schedule_id={first['id']}&origin=manual") == [job["id"]]
    since = job["slot_at"].replace("+", "%2B")
    assert listed(service.admin, f"?schedule_id={first['id']}&from={since}") == [job["id"]]
    assert listed(service.admin, f"?schedule_id={first['id']}&to={since}") == []
    assert listed(service.admin, "?schedule_id=unknown") == []


def test_a_group_has_its_jobs(service: Service) -> None:
    made = service.admin.create(run={"workflow": {"id": "1", "trigger_node_id": "trigger_schedule_abc123"}})
    job = triggered(service.admin, made)
    assert job["id"] in listed(service.admin, f"?group={made['group']}")
    assert listed(service.admin, "?group=another") == []


@pytest.mark.parametrize("query", ["status=broken", "origin=x", "from=yesterday", "limit=501", "cursor=%21"])
def test_a_filter_that_means_nothing_is_refused(service: Service, query: str) -> None:
    answer = service.admin.get(f"/jobs/?{query}")
    assert (answer.status, answer.problem) == (422, "invalid")


@pytest.mark.parametrize("how", ["", "schedule_id={id}&", "status=failed&", "origin=manual&"])
def test_pages_of_jobs_go_through_all_newest_first(tmp_path: Path, how: str) -> None:
    with serving(tmp_path) as service:
        made = service.admin.create()
        jobs = []
        for _ in range(7):
            jobs.append(triggered(service.admin, made)["id"])
            ran(service, jobs[-1], FAILED)
        seen, path = [], f"/jobs/?{how.format(id=made['id'])}limit=3"
        page = service.admin.get(path).fields
        while True:
            assert (page["total"], page["total_is_approximate"]) == (7, False)
            seen += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            page = service.admin.get(f"{path}&cursor={page['next_cursor']}").fields
        assert seen == jobs[::-1]
        assert listed(service.admin, "?limit=2&offset=5") == jobs[1::-1]


# -- whose they are --


def test_someone_elses_job_and_an_unknown_one_look_the_same(service: Service) -> None:
    theirs = service.client(owner="them")
    job = triggered(theirs, theirs.create())
    mine = service.client(owner="me")
    for method, path in [
        ("GET", "/jobs/{id}/"),
        ("GET", "/jobs/{id}/log/"),
        ("POST", "/jobs/{id}/cancel/"),
        ("POST", "/jobs/{id}/rerun/"),
    ]:
        answers = [mine.call(method, path.format(id=each)) for each in (job["id"], "sched-unknown-n1-rc0")]
        assert [answer.status for answer in answers] == [404, 404], path
        assert answers[0].fields["type"] == answers[1].fields["type"]
        assert (
            theirs.call("GET", path.format(id=job["id"]).replace("cancel/", "").replace("rerun/", "")).status
            == 200
        )
    assert listed(mine) == [] and listed(mine, f"?schedule_id={job['schedule_id']}") == []
    assert listed(theirs) == [job["id"]]


def test_jobs_of_a_deleted_schedule_are_still_its_owners(service: Service) -> None:
    ada = service.client(owner="ada")
    made = ada.create()
    job = triggered(ada, made)
    ran(service, job["id"])
    assert ada.call("DELETE", f"/schedules/{made['id']}/").status == 204
    assert ada.get(f"/jobs/{job['id']}/").fields["status"] == "succeeded"
    assert listed(ada, f"?schedule_id={made['id']}") == [job["id"]]
    assert service.client(owner="bob").get(f"/jobs/{job['id']}/").status == 404
    again = ada.post(f"/jobs/{job['id']}/rerun/")
    assert (again.status, again.problem) == (409, "conflict")


def test_a_viewer_looks_at_jobs_and_does_nothing(service: Service) -> None:
    job = triggered(service.admin, service.admin.create())
    viewer = service.client("viewer")
    assert viewer.get(f"/jobs/{job['id']}/log/").status == 200
    for action in ("cancel", "rerun"):
        assert viewer.post(f"/jobs/{job['id']}/{action}/").status == 403


# -- actions --


def test_a_queued_job_is_cancelled_at_once_and_only_once(service: Service) -> None:
    made = service.admin.create()
    job = triggered(service.admin, made)
    answer = service.admin.post(f"/jobs/{job['id']}/cancel/")
    assert (answer.status, answer.fields["status"], answer.fields["reason"]) == (200, "cancelled", "person")
    again = service.admin.post(f"/jobs/{job['id']}/cancel/")
    assert (again.status, again.problem) == (400, "wrong-status")
    assert again.fields["detail"] == str(StatusError("cancel", "cancelled"))
    (event,) = service.runtime.ledger.events(EventFilter(types=["job.cancelled"], uid=made["uid"]), limit=2)
    assert event.event.actor is not None and event.event.actor.startswith("token:")


def test_a_rerun_is_a_new_job_of_the_same_slot_and_payload(service: Service) -> None:
    made = service.admin.create()
    job = triggered(service.admin, made, payload={"day": 3})
    early = service.admin.post(f"/jobs/{job['id']}/rerun/")
    assert (early.status, early.problem) == (400, "wrong-status")
    ran(service, job["id"], FAILED)
    before = service.admin.get(f"/schedules/{made['id']}/").fields
    answer = service.admin.post(f"/jobs/{job['id']}/rerun/")
    new = answer.fields["job"]
    assert (answer.status, answer.fields["skipped"]) == (202, None)
    assert new["id"] != job["id"] and (new["origin"], new["status"]) == ("manual", "queued")
    assert (new["slot_at"], new["payload"]) == (job["slot_at"], {"day": 3})
    ran(service, new["id"])
    after = service.admin.get(f"/schedules/{made['id']}/").fields
    for key in ("next_run_at", "run_count", "error_count", "last_error"):
        assert after[key] == before[key]
    (event,) = service.runtime.ledger.events(EventFilter(types=["job.rerun"], uid=made["uid"]), limit=2)
    assert event.event.detail == {"of": job["id"]} and event.event.job_id == new["id"]
    with service.runtime.ledger.history() as history:
        assert check_ledger(history, service.runtime.clock.now()).is_clean


def test_a_rerun_may_be_skipped(service: Service) -> None:
    made = service.admin.create()
    job = triggered(service.admin, made)
    ran(service, job["id"])
    triggered(service.admin, made)
    answer = service.admin.post(f"/jobs/{job['id']}/rerun/", {"if_running": "skip"})
    assert answer.fields == {"job": None, "skipped": "already_running", "warnings": []}


# -- output --


def test_the_output_of_a_job_is_followed_by_position(service: Service) -> None:
    job = triggered(service.admin, service.admin.create())
    claim, path = claimed(service, job["id"]), f"/jobs/{job['id']}/log/"
    assert service.admin.get(path).fields["items"] == []
    said(service, job["id"], "grüße".encode()[:3])  # half of the ü
    first = service.admin.get(path).fields
    assert [item["text"] for item in first["items"]] == ["gr"] and not first["is_over"]
    said(service, job["id"], "grüße\n".encode())
    said(service, job["id"], b"oh\n", stream="stderr")
    second = service.admin.get(f"{path}?after={first['next_after']}").fields
    assert {item["stream"]: item["text"] for item in second["items"]} == {"stdout": "üße\n", "stderr": "oh\n"}
    end(service, claim)
    third = service.admin.get(f"{path}?after={second['next_after']}").fields
    assert (third["items"], third["is_over"], third["next_after"]) == ([], True, second["next_after"])


def test_the_output_is_plain_text_for_whoever_wants_that(service: Service) -> None:
    job = triggered(service.admin, service.admin.create())
    claim = claimed(service, job["id"])
    said(service, job["id"], b"begin\n")
    said(service, job["id"], b"end\n", position=100)
    plain = service.admin.get(f"/jobs/{job['id']}/log/", Accept="text/plain")
    assert plain.headers["content-type"].startswith("text/plain")
    assert plain.raw.decode() == "begin\n\n… 94 bytes are not kept …\nend\n"
    end(service, claim)
    assert service.admin.get(f"/jobs/{job['id']}/log/", Accept="text/html, */*").fields["total"] == 2
    for nonsense in ("%25", "abc", "MS5zdGRvdXQuLTE", "MS5zdGRvdXQ"):
        assert service.admin.get(f"/jobs/{job['id']}/log/?after={nonsense}").status == 422


# -- outcomes from elsewhere --


def external(service: Service, secret: str) -> dict[str, Any]:
    """A job whose request was answered 202."""
    made = service.admin.create(run=HTTP_RUN, timeout="1h")
    job = triggered(service.admin, made)
    claim = claimed(service, job["id"])
    end(service, claim, Outcome("succeeded", awaits=sha256(secret.encode()).hexdigest()))
    return job


def test_an_outcome_is_reported_once_and_by_its_token_alone(service: Service) -> None:
    job = external(service, "one-time")
    path, body = f"/jobs/{job['id']}/outcome/", {"status": "succeeded", "result": {"rows": 3}}
    nobody = service.nobody
    assert nobody.post(path, body).status == 401
    assert nobody.post(path, body, headers={"Everwhen-Outcome-Token": "wrong"}).status == 404
    assert (
        nobody.post(path, {"status": "great"}, headers={"Everwhen-Outcome-Token": "one-time"}).status == 422
    )
    answer = nobody.post(path, body, headers={"Everwhen-Outcome-Token": "one-time"})
    assert (answer.status, answer.fields["status"], answer.fields["result"]) == (
        200,
        "succeeded",
        '{"rows": 3}',
    )
    assert nobody.post(path, body, headers={"Everwhen-Outcome-Token": "one-time"}).status == 404


def test_guessed_outcome_tokens_are_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        job = external(service, "one-time")
        guess = {"Everwhen-Outcome-Token": "guess"}
        statuses = [
            service.nobody.post(f"/jobs/{job['id']}/outcome/", {"status": "failed"}, headers=guess).status
            for _ in range(25)
        ]
        assert statuses[0] == 404 and statuses[-1] == 429

"""Lists with some fields only, and schedules that are looked up by the caller's own key."""

from __future__ import annotations

import pytest

from everwhen.views.schedules import FIELD_GROUPS, FIELD_NAMES
from tests.api.serving import Service

BODY = {"every": "1h", "run": {"message": {"text": "hello"}}}


def test_a_list_has_every_field_unless_it_is_asked_for_some(service: Service) -> None:
    service.admin.create(name="all")
    assert {*service.admin.get("/schedules/").fields["items"][0]} == {*FIELD_NAMES}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("fields=name", {"id", "name"}),
        ("fields=name,status", {"id", "name", "status"}),
        ("fields=name&fields=status", {"id", "name", "status"}),
        ("include=summary", {*FIELD_GROUPS["summary"]}),
        ("include=source&fields=cron", {"id", "cron", *FIELD_GROUPS["source"]}),
        ("include=state,trigger", {"id", *FIELD_GROUPS["state"], *FIELD_GROUPS["trigger"]}),
    ],
)
def test_a_list_has_the_fields_that_are_asked_for_and_the_id(
    service: Service, query: str, names: set[str]
) -> None:
    service.admin.create(name="some")
    page = service.admin.get(f"/schedules/?q=some&{query}").fields
    assert {*page} == {"items", "total", "total_is_approximate", "next_cursor"}
    assert {*page["items"][0]} == names


def test_an_agents_list_has_them_too(service: Service) -> None:
    service.admin.create(name="of the agent", run={"agent": {"name": "bot"}})
    page = service.admin.get("/agents/bot/schedules/?fields=name").fields
    assert [{*item} for item in page["items"]] == [{"id", "name"}]


def test_every_field_is_in_a_group(service: Service) -> None:
    assert {name for names in FIELD_GROUPS.values() for name in names} == {*FIELD_NAMES}
    service.admin.create()
    every = ",".join(FIELD_GROUPS)
    assert {*service.admin.get(f"/schedules/?include={every}").fields["items"][0]} == {*FIELD_NAMES}


@pytest.mark.parametrize(
    ("query", "path", "message"),
    [
        ("fields=nam", "fields", '"nam": unknown name, did you mean "name"?'),
        ("facets=status&facets=grup", "facets", '"grup": unknown name, did you mean "group"?'),
        ("fields=id,%00", "fields", '"\\x00": unknown name'),
        ("fields=", "fields", '"": unknown name'),
        ("fields=name,", "fields", '"": unknown name'),
        ("include=sumary", "include", '"sumary": unknown name, did you mean "summary"?'),
        ("fields=" + "x" * 20_000, "fields", f'"{"x" * 99}…": unknown name'),
    ],
)
def test_a_field_that_is_not_there_is_refused_with_those_that_are(
    service: Service, query: str, path: str, message: str
) -> None:
    answer = service.admin.get(f"/schedules/?{query}")
    assert (answer.status, answer.problem) == (422, "invalid")
    assert answer.fields["errors"] == [{"path": path, "message": message}]
    assert f"{path} takes these names: " in answer.fields["detail"]


# -- by key --


def test_a_schedule_is_found_by_the_key_that_it_was_put_under(service: Service) -> None:
    made = service.admin.call("PUT", "/schedules/key/my-report/", BODY)
    found = service.client("viewer").get("/schedules/key/my-report")
    assert (found.status, found.fields["id"], found.fields["key"]) == (200, made.fields["id"], "my-report")
    assert found.headers["etag"] == '"1"'


def test_keys_belong_to_their_owner(service: Service) -> None:
    ada, bob = service.client(owner="ada"), service.client(owner="bob")
    hers = ada.call("PUT", "/schedules/key/same/", BODY).fields["id"]
    assert bob.get("/schedules/key/same/").fields["detail"] == "Scheduled job not found."
    his = bob.call("PUT", "/schedules/key/same/", BODY).fields["id"]
    assert (ada.get("/schedules/key/same/").fields["id"], bob.get("/schedules/key/same/").fields["id"]) == (
        hers,
        his,
    )
    assert ada.get("/schedules/key/same/?owner=bob").status == 404
    assert service.admin.get("/schedules/key/same/").status == 404
    assert service.admin.get("/schedules/key/same/?owner=bob").fields["id"] == his


@pytest.mark.parametrize("key", ["no-such-key", "a%2Fb", "caf%C3%A9", "%00", "-x", "x" * 201, "..", "%2e%2e"])
def test_a_key_that_cannot_be_is_not_found_or_refused(service: Service, key: str) -> None:
    for method, body in (("GET", None), ("PUT", BODY)):
        answer = service.admin.call(method, f"/schedules/key/{key}/", body)
        assert answer.status in (201, 404, 405, 422), answer.raw
        assert method == "PUT" or answer.status in (404, 422)


def test_a_schedule_whose_id_is_key_keeps_its_calls(service: Service) -> None:
    assert service.admin.get("/schedules/key/why/").fields["detail"] == "Scheduled job not found."
    assert service.admin.get("/schedules/key/upcoming/").status == 404

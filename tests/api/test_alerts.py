"""Alerts over REST: listed, acknowledged, silenced; rules listed and tested through their real channels."""

from __future__ import annotations

from dataclasses import replace

from everwhen.config.sections.notify import rules_in
from tests.api.serving import Service
from tests.api.working import alerted
from tests.targets.http_server import a_server, status


def test_alerts_are_listed_acknowledged_and_silenced(service: Service) -> None:
    one = service.admin.create(first_run="after_interval")
    theirs = service.client("operator", owner="team-a").create(first_run="after_interval")
    alerted(service, one["id"], theirs["id"])
    found = service.admin.get("/alerts/?state=open").fields
    assert {item["class"] for item in found["items"]} == {"scheduler.stalled", "schedule.overdue"}
    assert found["total"] == 3
    assert {item["group"] for item in found["items"]} == {None}
    assert {item["text"] for item in found["items"]} == {"the scheduler stalls", "a slot is overdue"}
    (own,) = service.client("viewer", owner="team-a").get("/alerts/").fields["items"]
    assert own["schedule_id"] == theirs["id"]
    assert own["evidence"]["slot_at"] == theirs["next_slot_at"]
    stranger = service.client("operator", owner="team-b")
    assert stranger.get(f"/alerts/{own['id']}/").status == 404
    assert stranger.post(f"/alerts/{own['id']}/ack/").status == 404
    acked = service.admin.post(f"/alerts/{own['id']}/ack/").fields
    assert acked["acked_at"] is not None
    assert (
        service.admin.get(f"/alerts/?schedule_id={theirs['id']}&class=schedule.overdue").fields["total"] == 1
    )
    assert service.admin.get("/audit/?type=alert.acknowledged").fields["total"] == 1
    deliveries = service.admin.get("/alerts/deliveries/?rule=http").fields["items"]
    assert {item["state"] for item in deliveries} == {"delivered"}
    assert service.client("viewer", owner="team-a").get("/alerts/deliveries/").fields["total"] == 0


def test_a_silence_names_a_schedule_or_a_group_and_ends(service: Service) -> None:
    one = service.admin.create()
    made = service.admin.post("/alerts/silences/", {"subject": one["id"], "duration": "2h"})
    assert made.status == 201
    assert made.fields["kind"] == "schedule"
    nobody = service.admin.post("/alerts/silences/", {"subject": "nobody", "duration": "2h"})
    assert nobody.status == 404
    assert nobody.fields["detail"] == 'there is no schedule or group "nobody"'
    refused = service.admin.post("/alerts/silences/", {"subject": one["id"], "duration": "soon"})
    assert refused.status == 422
    assert [s["id"] for s in service.admin.get("/alerts/silences/").fields["items"]] == [made.fields["id"]]
    assert service.client("viewer", owner="x").get("/alerts/silences/").fields["total"] == 0
    path = f"/alerts/silences/{made.fields['id']}/"
    assert service.client("operator", owner="x").call("DELETE", path).status == 404
    assert service.admin.call("DELETE", path).status == 204
    assert service.admin.get("/alerts/silences/").fields["total"] == 0


def test_a_subject_has_one_silence_as_long_as_the_longest(service: Service) -> None:
    """Each call was a row more, which every list of silences and every count of alerts looked at."""
    ada, bob = (service.client(owner=name) for name in ("ada", "bob"))
    subjects = {client: client.create()["id"] for client in (ada, bob)}
    made = [
        client.post("/alerts/silences/", {"subject": subjects[client], "duration": duration})
        for duration in ("2h", "1h", "4h", "3h")
        for client in (ada, bob)
    ]
    assert {one.status for one in made} == {201}
    for client, subject in subjects.items():
        (silence,) = client.get("/alerts/silences/").fields["items"]
        assert silence["subject"] == subject
        own = [one.fields for one in made if one.fields["subject"] == subject]
        assert silence == own[-1] and silence["until"] == max(one["until"] for one in own)
    assert service.admin.get("/alerts/silences/").fields["total"] == 2


def test_a_rule_is_tested_through_its_channel(service: Service) -> None:
    with a_server(status(200, "ok")) as good, a_server(status(403, "no")) as bad:
        rules = rules_in(
            [{"name": "good", "http": {"url": good.url}}, {"name": "bad", "http": {"url": bad.url}}]
        )
        service.context.node_hooks = replace(service.context.node_hooks, alert_rules=lambda: rules)
        sent = service.admin.post("/alerts/rules/good/test/").fields
        failed = service.admin.post("/alerts/rules/bad/test/").fields
        assert (sent["state"], sent["answer"]) == ("delivered", "HTTP 200: ok")
        assert (failed["state"], failed["answer"]) == ("given_up", "HTTP 403: no")
        unknown = service.admin.post("/alerts/rules/none/test/")
        assert unknown.status == 404
        assert unknown.fields["detail"] == 'there is no rule "none"; the rules under notify are good, bad'
        listed = service.admin.get("/alerts/rules/").fields["items"]
        assert [(one["name"], one["last"]["state"]) for one in listed] == [
            ("good", "delivered"),
            ("bad", "given_up"),
        ]
        assert good.seen[0].json["kind"] == "test"
        assert service.client("operator", owner="x").get("/alerts/rules/").status == 403


def test_nothing_of_a_rule_says_where_it_sends_to(service: Service) -> None:
    rules = rules_in([{"name": "quiet", "http": {"url": "https://example.com/secret-path"}}])
    service.context.node_hooks = replace(service.context.node_hooks, alert_rules=lambda: rules)
    assert b"secret-path" not in service.admin.get("/alerts/rules/").raw

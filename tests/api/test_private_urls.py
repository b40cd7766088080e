"""URLs that no job could ever request are refused when a schedule is made or changed, not each time it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everwhen.config.problems import Report
from everwhen.config.read import Host, examine
from everwhen.model.schedule import Target
from tests.api.serving import Service, serving
from tests.submissions import Submission, create_schedule

PRIVATE = "http://127.0.0.1:9000/run"
EVERYWHERE = [
    "127.0.0.1",
    "127.0.0.1:8080",
    "user:word@10.1.2.3",
    "localhost",
    "LocalHost.",
    "api.localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "169.254.169.254",
    "192.168.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "1.1",
    "1.1.1.1.",
    "256.1.1.1",
    "0.0.0.0",
    "224.0.0.1",
    "192.88.99.1",
    "[fec0::1]",
    "１２７.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
]


def http(url: str) -> dict[str, Any]:
    return {"http": {"url": url}}


def refusal(answer: Any) -> list[tuple[str, str]]:
    assert (answer.status, answer.problem) == (422, "invalid"), answer.raw
    return [(one["path"], one["message"]) for one in answer.fields["errors"]]


@pytest.mark.parametrize("host", EVERYWHERE)
def test_an_address_that_is_not_public_is_refused_however_it_is_written(service: Service, host: str) -> None:
    ((path, message),) = refusal(
        service.admin.post("/schedules/", {"every": "1h", "run": http(f"http://{host}/")})
    )
    assert path == "run.http.url"
    assert message.endswith(
        "is not a public address; the service allows others with api.allow_private_urls: true"
    )
    assert "word" not in message


@pytest.mark.parametrize(
    "host", ["example.com", "1.1.1.1", "[2606:4700:4700::1111]", "a.local", "10.example.com"]
)
def test_what_is_public_or_only_a_look_up_can_tell_is_taken(service: Service, host: str) -> None:
    service.admin.create(run=http(f"http://{host}/"))


def test_every_way_to_make_or_change_a_schedule_refuses_it(service: Service) -> None:
    body = {"every": "1h", "run": http(PRIVATE)}
    made = service.admin.create()
    ways = [
        service.admin.post("/schedules/", body),
        service.admin.call("PUT", "/schedules/key/private/", body),
        service.admin.patch(f"/schedules/{made['id']}/", {"run": http(PRIVATE)}),
        service.admin.patch(f"/schedules/{made['id']}/", {"ping": {"url": PRIVATE}}),
    ]
    assert [refusal(way)[0][0] for way in ways] == ["run.http.url"] * 3 + ["ping.url"]
    batch = service.admin.post(
        "/schedules/batch/", [body, {"every": "1h", "run": http("https://example.com/")}]
    )
    assert [one["problem"] and one["problem"]["status"] for one in batch.fields["items"]] == [422, None]


def test_where_the_service_allows_private_urls_they_are_taken(tmp_path: Path) -> None:
    with serving(tmp_path, allow_private_urls=True) as service:
        made = service.admin.create(run=http(PRIVATE), ping={"url": PRIVATE})
        assert made["run"] == http(PRIVATE)


def test_a_url_of_a_program_stays_what_it_was_when_something_else_is_edited(service: Service) -> None:
    target = Target("http", json.dumps({"url": PRIVATE}))
    create_schedule(service.runtime, Submission("of-a-program", {"every": "1h"}, target, source="python"))
    assert service.admin.patch("/schedules/of-a-program/", {"name": "renamed"}).status == 200
    stored = service.runtime.catalogue.get("of-a-program")
    assert stored is not None and json.loads(stored.definition.target.spec)["source"] == "python"
    changed = service.admin.patch("/schedules/of-a-program/", {"run": http(f"{PRIVATE}/other")})
    assert refusal(changed)[0][0] == "run.http.url"


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://example.com:99999/", "its port must be a number from 1 to 65535"),
        ("https://example.com:0/", "its port must be a number from 1 to 65535"),
        ("https://:443/", "it names no host"),
        ("https://[::1/", "its host is not a valid IPv6 address in brackets"),
        ("https://exam ple.com/", "its host contains a character that no name has"),
    ],
)
def test_a_url_that_is_none_is_refused_with_what_is_wrong(service: Service, url: str, fault: str) -> None:
    answer = service.admin.post("/schedules/", {"every": "1h", "run": http(url)})
    assert refusal(answer) == [("run.http.url", f"must be a URL, such as https://host/path: {fault}")]


def test_the_variable_of_the_environment_counts_for_workers_too(tmp_path: Path) -> None:
    for environ, allowed in (({}, False), ({"EVERWHEN_API_ALLOW_PRIVATE_URLS": "true"}, True)):
        host = Host(environ, lambda: "UTC", 0)
        assert examine(tmp_path / "everwhen.yaml", host, Report()).allows_private_urls is allowed

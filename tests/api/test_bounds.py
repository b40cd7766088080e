"""How large things may be: a payload, a schedule, any body (413); how many problems are told; what long texts cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everwhen.api.batches import MOST_VALUES_OF_MANY
from everwhen.api.json_reader import MOST_SCHEDULE, parse_json
from everwhen.api.rates import Rates
from everwhen.config.settings import ApiSettings
from everwhen.model.masks import masked
from everwhen.targets.secrets import Secrets
from tests.api.serving import HTTP_RUN, Service, serving
from tests.api.test_connections import peak_memory

GOOD: dict[str, Any] = {"every": "1h", "run": HTTP_RUN}
LARGE = {**GOOD, "payload": {"a": "x" * (64 << 10)}}
HUGE = {**GOOD, "run": {"http": {"url": "https://example.com/", "body": {"a": "x" * MOST_SCHEDULE}}}}


def test_the_bounds_are_those_of_the_contract() -> None:
    assert (ApiSettings().max_payload, MOST_SCHEDULE, ApiSettings().max_body) == (
        64 << 10,
        256 << 10,
        1 << 20,
    )


@pytest.mark.parametrize("body", [LARGE, HUGE], ids=["payload", "schedule"])
def test_a_payload_and_a_schedule_beyond_their_bounds_are_413(service: Service, body: dict[str, Any]) -> None:
    schedule = service.admin.create()
    for method, path in (
        ("POST", "/schedules/"),
        ("PUT", "/schedules/key/large/"),
        ("PATCH", f"/schedules/{schedule['id']}/"),
        ("POST", "/preview/"),
    ):
        answer = service.admin.call(method, path, body)
        assert (answer.status, answer.problem) == (413, "too-large"), (method, path)
    items = service.admin.post("/schedules/batch/", {"schedules": [body, GOOD]}).fields["items"]
    assert (items[0]["problem"]["status"], items[1]["problem"]) == (413, None)


def test_a_payload_beyond_its_bound_is_413_where_it_is_triggered_and_where_it_hooks(service: Service) -> None:
    schedule = service.admin.create()
    answer = service.admin.post(f"/schedules/{schedule['id']}/trigger/", {"payload": {"a": "x" * (64 << 10)}})
    assert (answer.status, answer.problem) == (413, "too-large")
    answer = service.admin.post("/hooks/bot.push/", raw=b'"' + b"x" * (64 << 10) + b'"')
    assert (answer.status, answer.problem) == (413, "too-large")


@pytest.mark.parametrize(
    "path",
    [
        "/schedules/",
        "/schedules/batch/",
        "/schedules/batch-delete/",
        "/quiet-hours/",
        "/tokens/",
        "/preview/",
    ],
)
def test_no_body_is_larger_than_a_mebibyte(service: Service, path: str) -> None:
    answer = service.admin.post(path, raw=b" " * (1 << 20) + b"{}")
    assert (answer.status, answer.problem) == (413, "too-large")


VALUES = [
    b"[" + b"1," * 60_000 + b"1]",
    b'{"schedule_ids":[' + b'"a",' * 60_000 + b'"a"]}',
    b'{"payload":[' + b"[[]]," * 30_000 + b"[]]}",
    b'{"payload":[' + b'{"a":{}},' * 30_000 + b"{}]}",
    b"{" + b",".join(b'"k%d":1' % number for number in range(60_000)) + b"}",
]


@pytest.mark.parametrize("raw", VALUES, ids=lambda raw: raw[:24].decode())
@pytest.mark.parametrize("path", ["/schedules/{id}/trigger/", "/schedules/batch-pause/", "/tokens/"])
def test_a_body_of_very_many_values_is_refused_before_they_are_made(
    service: Service, path: str, raw: bytes
) -> None:
    answer = service.admin.post(path.replace("{id}", service.admin.create()["id"]), raw=raw)
    assert (answer.status, answer.fields["detail"]) == (413, "The body has more than 50,000 values.")


def test_commas_and_brackets_of_a_text_are_no_values(service: Service) -> None:
    made, text = service.admin.create(), '\\" \\\\' + "[{," * 18_000
    answer = service.admin.post(f"/schedules/{made['id']}/trigger/", {"payload": {"a": text}})
    assert (answer.status, answer.fields["job"]["payload"]) == (202, {"a": text})


def test_ten_thousand_schedules_are_not_too_many_values() -> None:
    fields = {"name": "a", "every": "1h", "payload": {"a": [1, 2]}, "run": {"message": {"text": "x"}}}
    raw = json.dumps([fields] * 10_000).encode()
    assert len(parse_json(raw[: 1 << 20], MOST_VALUES_OF_MANY)) == 10_000


# -- how much is told --


def many_keys(count: int) -> dict[str, Any]:
    return {f"key{number}": 1 for number in range(count)}


def test_twenty_unknown_keys_are_named_and_the_rest_is_counted(service: Service) -> None:
    answer = service.admin.post("/schedules/", {**GOOD, **many_keys(10_000)})
    assert answer.status == 422
    faults = answer.fields["errors"]
    assert len([fault for fault in faults if fault["path"].startswith("key")]) == 20
    assert {"path": "", "message": "has 9,980 further unknown keys"} in faults


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/schedules/{id}/pause/", many_keys(80_000)),
        ("/schedules/{id}/trigger/", many_keys(80_000)),
        ("/schedules/batch-pause/", {"schedule_ids": [1] * 9_000}),
        ("/schedules/batch-pause/", {"schedule_ids": [1] * 300_000}),
        ("/tokens/", {"name": "x", "limits": many_keys(80_000)}),
        ("/tokens/", {"name": "x", "limits": {"targets": [1] * 300_000}}),
        ("/session/", many_keys(80_000)),
        ("/quiet-hours/", many_keys(80_000)),
        ("/quiet-hours/", {"windows": [1] * 900}),
        ("/quiet-hours/", {"windows": [{"between": "22:00-07:00"}] * 1_001}),
        ("/quiet-hours/", {"dates": ["2026-12-25"] * 1_001}),
        ("/schedules/", {**GOOD, "not_on": ["monday"] * 20_000}),
        ("/schedules/", {**GOOD, "run": {"http": {"url": "https://example.com/", "headers": {"a": [1]}}}}),
        ("/schedules/", {**GOOD, "run": many_keys(20_000)}),
        ("/schedules/", {**GOOD, "timezone": "x" * 250_000}),
        ("/schedules/", {**GOOD, "x" * 250_000: 1}),
        ("/preview/", {**GOOD, **many_keys(15_000)}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_whatever_is_wrong_the_answer_is_short(service: Service, path: str, body: Any) -> None:
    schedule = service.admin.create()
    raw = json.dumps(body).encode()
    answer = service.admin.post(path.replace("{id}", schedule["id"]), raw=raw)
    assert answer.status in (413, 422)
    assert answer.problem
    assert len(answer.raw) < 20_000


# -- what long texts cost: each of these took minutes --


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/?" + "?token" * 40_000,
        "https://example.com/?" + "&token" * 40_000,
        "https://example.com/?" + "token" * 50_000,
        "://" * 80_000,
        "https://" + "@:" * 100_000,
    ],
    ids=lambda text: text[:30],
)
@pytest.mark.timeout(60)
def test_a_text_is_masked_in_linear_time(text: str) -> None:
    assert masked(text) == text or "***" in masked(text)


@pytest.mark.timeout(60)
def test_references_that_never_end_are_looked_for_in_linear_time(tmp_path: Path) -> None:
    text = "${a:-" * 40_000
    assert Secrets({}).resolve(text) == text
    assert Secrets({}).resolve(f"${{A:-b}}{text}") == f"b{text}"
    with serving(tmp_path) as service:
        run = {"http": {"url": "https://example.com/", "body": {"text": text}}}
        assert service.client("operator").post("/schedules/", {"every": "1h", "run": run}).status == 201


def test_the_revisions_of_a_large_schedule_do_not_stay_in_memory(tmp_path: Path) -> None:
    """Each left more than a megabyte in the caches of a process: forty a second, from one connection."""
    with serving(tmp_path) as service:
        service.context.lift_rates()
        path = f"/schedules/{service.admin.create()['id']}/"

        def edit(number: int) -> None:
            http = {"url": "https://example.com/", "body": f"{number} {'x' * 180_000}"}
            fields = {"run": {"http": http}, "payload": {"text": "x" * 60_000}}
            assert service.admin.patch(path, fields).status == 200

        for number in range(50):
            edit(number)
        before = peak_memory()
        for number in range(50, 150):
            edit(number)
        assert peak_memory() - before < 48 << 20


LARGE_RUN = {"http": {"url": "https://example.com/", "body": "x" * 180_000}}


@pytest.mark.parametrize("query", ["limit=100", "limit=100&sort=-name"])
def test_a_page_of_large_schedules_ends_early_and_the_next_one_goes_on(tmp_path: Path, query: str) -> None:
    """Five hundred of them were one answer of 140 MB, which took gigabytes to make."""
    with serving(tmp_path) as service:
        service.context.lift_rates()
        made = [service.admin.create(name=f"{number:02}", run=LARGE_RUN)["id"] for number in range(50)]
        small = service.admin.create(name="99")["id"]
        found, cursor, sizes = [], "", []
        while True:
            answer = service.admin.get(f"/schedules/?{query}{cursor}")
            sizes.append(len(answer.raw))
            found += [item["id"] for item in answer.fields["items"]]
            assert answer.fields["total"] == 51
            if answer.fields["next_cursor"] is None:
                break
            cursor = f"&cursor={answer.fields['next_cursor']}"
        assert found == [small, *reversed(made)]
        assert len(sizes) > 2 and max(sizes) < 6 << 20


def test_revisions_have_pages_and_those_of_a_large_schedule_end_early(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.context.lift_rates()
        path = f"/schedules/{service.admin.create()['id']}/"
        for number in range(40):
            assert service.admin.patch(path, {"name": str(number), "run": LARGE_RUN}).status == 200
        found, cursor, sizes = [], "", []
        while True:
            answer = service.admin.get(f"{path}revisions/?limit=41{cursor}")
            found += [item["revision"] for item in answer.fields["items"]]
            sizes.append(len(answer.raw))
            assert answer.fields["total"] == 41
            if answer.fields["next_cursor"] is None:
                break
            cursor = f"&cursor={answer.fields['next_cursor']}"
        assert found == list(range(41, 0, -1))
        assert len(sizes) > 1 and max(sizes) < 6 << 20


def test_large_bodies_and_large_answers_count_for_the_share_of_a_token(tmp_path: Path) -> None:
    """They were cheap calls, whatever they had to be read, masked and sent."""
    with serving(tmp_path) as service:
        clock = service.runtime.clock.monotonic
        service.context.shares.costs = Rates(burst=400, per_second=0.01, monotonic=clock)
        client = service.client()
        schedule = {"every": "1h", "run": LARGE_RUN}
        answers = [client.post("/schedules/", schedule) for _ in range(6)]
        assert [answer.status for answer in answers] == [201] * 3 + [429] * 3  # each by two lengths: 113
        assert int(answers[-1].headers["retry-after"]) > 100
        other = service.client()
        path = f"/schedules/{answers[0].fields['id']}/"
        statuses = [other.get(path).status for _ in range(100)]
        assert set(statuses) == {200}  # a call that costs nothing by itself is not refused, but owes
        assert other.get("/schedules/?limit=100").status == 429
        assert service.client().get("/schedules/?limit=100").status == 200

"""Many schedules in one request: a list of JSON, or as NDJSON a line each, read and answered in portions."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from everwhen.api.batches import MOST_WRONG, PIECE, PORTION, _Lines
from everwhen.api.json_reader import MOST_SCHEDULE
from everwhen.api.shares import MOST_LONG
from tests.api.serving import HTTP_RUN, Answer, Client, Service, serving
from tests.scheduler.waiting import until

GOOD: dict[str, Any] = {"every": "1h", "run": HTTP_RUN}
LINES = {"Content-Type": "application/x-ndjson"}


def lines_of(*bodies: Any) -> bytes:
    return b"".join(
        (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n" for body in bodies
    )


def post(client: Client, raw: Any, **headers: str) -> Answer:
    return client.call("POST", "/schedules/batch/", raw=raw, headers={**LINES, **headers})


def results(answer: Answer) -> list[Any]:
    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.raw.splitlines()]


def test_every_line_has_its_result_in_its_place(service: Service) -> None:
    raw = lines_of(GOOD, b"{", b"", {**GOOD, "every": "never"}, b'{"a":1,"a":2}', b"[]", GOOD).rstrip(b"\n")
    found = results(post(service.admin, raw))
    assert [one["problem"] and one["problem"]["status"] for one in found] == [None, 400, 422, 400, 422, None]
    for one in (found[0], found[-1]):
        assert service.admin.get(f"/schedules/{one['id']}/").status == 200


def test_a_list_of_json_is_a_batch_as_an_object_with_one_is(service: Service) -> None:
    wanted = [GOOD, {**GOOD, "every": "never"}, []]
    found = [service.admin.post("/schedules/batch/", body).fields for body in (wanted, {"schedules": wanted})]
    for fields in found:
        assert (fields["total"], fields["failed"]) == (3, 2)
        assert [one["problem"] and one["problem"]["status"] for one in fields["items"]] == [None, 422, 422]
    assert service.admin.post("/schedules/batch/", []).fields == {"items": [], "total": 0, "failed": 0}
    wrongs: list[Any] = [{}, {"schedules": [], "more": 1}, {"schedules": {}}, "x", [GOOD] * 10_001]
    for wrong in wrongs:
        assert service.admin.post("/schedules/batch/", wrong).status == 422
    document = replace(service.nobody, prefix="").get("/api/openapi.json").fields
    body = document["paths"]["/api/v1/schedules/batch/"]["post"]["requestBody"]["content"]["application/json"]
    name = body["schema"]["$ref"].removeprefix("#/components/schemas/")
    schemas = document["components"]["schemas"]
    shapes = [schemas[one["$ref"].removeprefix("#/components/schemas/")] for one in schemas[name]["anyOf"]]
    assert [shape["type"] for shape in shapes] == ["object", "array"]


def test_a_line_that_is_too_long_is_refused_and_the_others_are_made(service: Service) -> None:
    long = {**GOOD, "name": "x" * MOST_SCHEDULE}
    found = results(post(service.admin, lines_of(GOOD, long, GOOD)))
    assert [one["problem"] and one["problem"]["status"] for one in found] == [None, 413, None]


def test_a_batch_of_lines_may_be_larger_than_any_other_body(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        fields = {**GOOD, "payload": {"a": "x" * 5_000}}
        raw = lines_of(*[fields] * 600)
        assert len(raw) > 2 << 20
        found = results(post(service.admin, raw))  # this client reads nothing before it has sent everything
        assert len({one["id"] for one in found if one["problem"] is None}) == 600
        assert service.admin.get("/schedules/").fields["total"] == 600
        answer = post(service.admin, b" " * (17 << 20))
        assert (answer.status, answer.problem) == (413, "too-large")


def test_without_a_length_a_batch_ends_where_it_becomes_too_large(service: Service) -> None:
    line = lines_of(b"[" + b" " * (1 << 17) + b"]")
    answer = post(service.admin, (line for _ in range(130)))
    *most, last = results(answer)
    assert 100 < len(most) < 130
    assert last["problem"]["status"] == 413


def test_results_are_sent_while_the_request_is_still_coming(service: Service) -> None:
    with socket.create_connection((urlsplit(service.url).hostname, urlsplit(service.url).port), 60) as peer:
        head = (
            f"POST /api/v1/schedules/batch/ HTTP/1.1\r\nHost: {urlsplit(service.url).netloc}\r\n"
            f"Authorization: Bearer {service.admin.secret}\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        piece = lines_of(*[GOOD] * PORTION)
        peer.sendall(head.encode() + b"%x\r\n%s\r\n" % (len(piece), piece))
        answer = HTTPResponse(peer)
        answer.begin()
        first = [json.loads(answer.readline()) for _ in range(PORTION)]
        assert all(one["problem"] is None for one in first)
        peer.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (len(piece), piece))
        assert len(answer.read().splitlines()) == PORTION


def test_the_same_batch_under_the_same_key_makes_each_once(service: Service) -> None:
    raw, maker = lines_of(*[GOOD] * 250), service.client(owner="twice")
    first, again = (results(post(maker, raw, **{"Idempotency-Key": "k"})) for _ in range(2))
    assert first == again
    assert maker.get("/schedules/").fields["total"] == 250


def test_who_may_not_make_schedules_is_refused_before_a_line_is_read(service: Service) -> None:
    assert post(service.client("viewer"), lines_of(GOOD)).status == 403
    assert post(service.nobody, lines_of(GOOD)).status == 401


@pytest.mark.parametrize("piece", [b"x" * PIECE, b"\n" * PIECE, b"x\n" * (PIECE // 2), b" " * PIECE])
def test_what_waits_of_a_batch_is_bounded(piece: bytes) -> None:
    lines = _Lines()
    for _ in range(100):
        found = lines.separate(piece)
        assert len(found) <= PIECE // 2 and len(lines._rest) <= MOST_SCHEDULE
    assert lines.separate(b"\n") or b"\n" in piece


def test_lines_are_the_same_wherever_a_body_is_cut() -> None:
    body = b"\n \n" + lines_of(*[{"name": "x" * length} for length in range(200)]) + b"\r\n\n{}\n"
    for size in (1, 7, 200, len(body)):
        lines = _Lines()
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        found = [line for piece in pieces for line in lines.separate(piece)]
        assert found == [line for line in body.split(b"\n") if line.strip()]


def test_a_batch_ends_behind_a_thousand_wrong_lines_and_says_where(service: Service) -> None:
    raw = lines_of(GOOD, *[{**GOOD, "every": "never"}] * 5_000, GOOD)
    found = results(post(service.admin, raw))
    assert found[0]["problem"] is None
    last = found.pop()["problem"]
    assert last["status"] == 422 and f"{len(found):,} lines that are answered above" in last["detail"]
    assert MOST_WRONG < len(found) <= MOST_WRONG + 201


def test_a_token_sends_only_so_many_batches_at_once(service: Service) -> None:
    """Each waits for its body; the next one is refused, and one of another token is not."""
    token = service.client()
    ended = threading.Event()

    def body() -> Iterator[bytes]:
        yield lines_of(GOOD)
        ended.wait()

    with ThreadPoolExecutor(MOST_LONG) as many:
        held = [many.submit(post, token, body()) for _ in range(MOST_LONG)]
        try:
            until(
                lambda: service.context.shares.count_long_requests(token_id_of(service, token)) == MOST_LONG
            )
            refused = post(token, lines_of(GOOD))
            assert (refused.status, refused.problem) == (429, "too-many-requests")
            assert int(refused.headers["retry-after"]) > 0
            assert post(service.client(), lines_of(GOOD)).status == 200
        finally:
            ended.set()
        assert [one.result().status for one in held] == [200] * MOST_LONG
    assert post(token, lines_of(GOOD)).status == 200


def token_id_of(service: Service, client: Client) -> str:
    return str(client.get("/me/").fields["id"])

"""Messages of the API are plain sentences: what is wrong, with which thing, and what would be right."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.api.serving import HTTP_RUN, Service

BODY = {"every": "1h", "run": HTTP_RUN}
PRIVATE = re.compile(
    r"\b(?:is|are) no (?!longer)[a-z]|\bstands?\b|\bso many\b|\bis told\b|Input should|String should"
)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/schedules/?limit=0", "limit: must be at least 1"),
        ("/schedules/?limit=501", "limit: must be at most 500"),
        ("/schedules/?limit=many", "limit: must be a whole number"),
        (f"/schedules/?q={'x' * 301}", "q: must have at most 300 characters"),
        ("/schedules/?cursor=zzz", "cursor must be the next_cursor of a previous page."),
        (
            "/schedules/key/caf%C3%A9/",
            "key: must have letters, digits, ., _, : and - only, and begin with a letter or digit",
        ),
        *(
            (f"/jobs/?from={text}", "from: must be an instant with its zone, such as 2026-01-05T09:00:00Z")
            for text in ("now", "tomorrow", "2026-01-05T09:00", "2026-13-05T09:00:00Z", "2026-01-05Tnine")
        ),
    ],
)
def test_a_parameter_is_refused_with_what_would_be_right(service: Service, path: str, message: str) -> None:
    answer = service.admin.get(path)
    assert (answer.status, answer.fields["detail"]) == (422, message)


def test_a_body_is_refused_with_what_would_be_right(service: Service) -> None:
    answer = service.admin.post("/tokens/", {"role": "king", "nam": "x", "limits": 5})
    assert {one["path"]: one["message"] for one in answer.fields["errors"]} == {
        "name": "is required",
        "nam": "unknown key",
        "role": "must be one of 'viewer', 'operator' or 'admin'",
        "limits": "must be an object",
    }


def test_an_empty_list_is_refused_in_plain_words(service: Service) -> None:
    answer = service.admin.post("/webhooks/", {"url": "https://example.com/events", "on": []})
    assert (answer.status, answer.fields["detail"]) == (422, "on: must not be empty")


def test_a_limit_of_one_is_not_in_the_plural(service: Service) -> None:
    client = service.client(owner="ada", max_schedules=1)
    client.create()
    detail = client.post("/schedules/", BODY).fields["detail"]
    assert detail == "this token may have at most 1 schedule; delete one first"


def test_a_role_that_is_missing_is_named_with_the_tokens_that_have_it(service: Service) -> None:
    viewer, owned = service.client("viewer"), service.client("admin", owner="ada")
    assert (
        viewer.post("/schedules/", BODY).fields["detail"] == "This call requires an operator or admin token."
    )
    assert owned.get("/system/status/").fields["detail"] == "This call requires a token without an owner."


def test_a_text_that_is_too_long_is_not_repeated(service: Service) -> None:
    answer = service.admin.post("/schedules/", {**BODY, "name": "x" * 10_001})
    assert answer.fields["errors"] == [
        {"path": "name", "message": "must have at most 10,000 characters, not 10,001"}
    ]


def test_the_document_has_no_private_language(service: Service) -> None:
    document = replace(service.nobody, prefix="/api").get("/openapi.json").raw.decode()
    assert PRIVATE.findall(document) == []

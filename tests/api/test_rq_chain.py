"""What cannot run as a chain is refused over REST, by every way in, and the word at fault is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import Service, serving

RUN = {"message": {"text": "hello"}}


@pytest.fixture(scope="module")
def chained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("chained")
    with serving(folder, file="service: {dispatch: rq-chain}\n") as service:
        yield service


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"cron": "0 9 * * *"}, "cron"),
        ({"at": "2030-01-01T00:00:00Z"}, "at"),
        ({"every": "monthly"}, "every"),
        ({"every": "1h", "interval_from": "completion"}, "interval_from"),
        ({"every": "1h", "if_running": "allow"}, "if_running"),
    ],
)
def test_what_no_chain_can_run_is_refused(chained: Service, fields: dict[str, Any], path: str) -> None:
    before = chained.admin.get("/schedules/").fields["total"]
    answers = [
        chained.admin.post("/schedules/", {**fields, "run": RUN}),
        chained.admin.call("PUT", "/schedules/key/mine/", {**fields, "run": RUN}),
    ]
    for answer in answers:
        assert (answer.status, answer.problem) == (422, "invalid")
        assert [fault["path"] for fault in answer.fields["errors"]] == [path]
        assert "rq-chain" in answer.fields["errors"][0]["message"]
    assert chained.admin.get("/schedules/").fields["total"] == before


def test_a_chain_stays_one_when_it_is_changed(chained: Service) -> None:
    made = chained.admin.create(every="1h", run=RUN)
    refused = chained.admin.call("PATCH", f"/schedules/{made['id']}/", {"if_running": "allow"})
    assert (refused.status, refused.fields["errors"][0]["path"]) == (422, "if_running")
    assert chained.admin.call("PATCH", f"/schedules/{made['id']}/", {"if_running": "queue"}).status == 200

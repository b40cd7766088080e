"""Answers have exactly the keys that OpenAPI documents: the models require each key and refuse any other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from everwhen.api.payloads import Shape, model_of
from everwhen.api.routes.tokens import Limits
from everwhen.cli.client import Client
from everwhen.cli.local import _application_sender
from everwhen.database import open_stack
from everwhen.model.token import NO_LIMITS, Token
from everwhen.testing.manual import ManualClock
from everwhen.views.jobs import JobInDetail, JobList, Log
from everwhen.views.record import AuditList, MessageList
from everwhen.views.schedules import RevisionList, Schedule, ScheduleList, Stats
from everwhen.views.shape import View
from everwhen.views.slots import Explanation, SlotList, UpcomingList
from everwhen.views.system import BreakerList, Me, QuietHoursList, SystemStatus, TokenList
from everwhen.views.system import Token as TokenView

ADMIN = Token("local", "somebody", "admin", None, NO_LIMITS, 0)
ANSWERS: dict[str, type[Shape | View]] = {
    "/schedules/": ScheduleList,
    "/schedules/{schedule}/": Schedule,
    "/schedules/{schedule}/upcoming/": UpcomingList,
    "/schedules/{schedule}/slots/": SlotList,
    "/schedules/{schedule}/why/": Explanation,
    "/schedules/{schedule}/stats/": Stats,
    "/schedules/{schedule}/revisions/": RevisionList,
    "/upcoming/": UpcomingList,
    "/jobs/": JobList,
    "/jobs/{job}/": JobInDetail,
    "/jobs/{job}/log/": Log,
    "/system/status/": SystemStatus,
    "/breakers/": BreakerList,
    "/quiet-hours/": QuietHoursList,
    "/tokens/": TokenList,
    "/me/": Me,
    "/audit/": AuditList,
    "/messages/": MessageList,
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("shapes")
    stack = open_stack("sqlite://", clock=ManualClock())
    try:
        with _application_sender(stack.runtime, ADMIN, folder / "everwhen.yaml") as send:
            yield Client(send)
    finally:
        stack.close()


@pytest.fixture(scope="module")
def names(client: Client) -> dict[str, str]:
    body = {"every": "1h", "run": {"message": {"text": "hello"}}}
    schedule = client.post("/schedules/", body)["id"]
    client.post("/tokens/", {"name": "a token"})
    client.post("/quiet-hours/", {"id": "nights", "windows": [{"between": "22:00-07:00"}]})
    return {"schedule": schedule, "job": client.post(f"/schedules/{schedule}/trigger/", {})["job"]["id"]}


@pytest.mark.parametrize(("path", "shape"), ANSWERS.items())
def test_an_answer_has_the_documented_keys(
    client: Client, names: dict[str, str], path: str, shape: type[Shape | View]
) -> None:
    answer = client.call("GET", path.format(**names))
    model = model_of(shape) if issubclass(shape, View) else shape
    model.model_validate_json(answer.body)


def test_the_limits_of_a_token_are_all_shown() -> None:
    assert set(TokenView.of(ADMIN)["limits"]) == set(Limits.model_fields)

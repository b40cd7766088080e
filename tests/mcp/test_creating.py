"""create_schedule and preview_schedule: what they take, what they answer, and what they say is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from everwhen.mcp.server import QUESTION
from everwhen.operations.approval import forget_over
from everwhen.operations.maintenance import prove
from everwhen.testing.manual import ManualClock
from tests.api.serving import Service, serving
from tests.mcp.talking import BASE, EITHER, Tools, empty, talk

FILE = """
service: {timezone: Europe/Berlin}
agents: {bot: {command: ["true"]}, other: {command: ["true"]}}
workflows: {"1": {name: Report, run: {http: {url: "http://127.0.0.1:9/run"}}}}
"""
NOW = "2026-11-16T09:04:00Z"  # a Monday, 10:04 in Berlin
# The usual question: every weekday at nine, summarise my inbox, until Christmas.
INBOX: dict[str, Any] = {
    "name": "Inbox",
    "purpose": "Summarise the inbox every working morning.",
    "time": "09:00",
    "days": ["mon", "tue", "wed", "thu", "fri"],
    "timezone": "Europe/Berlin",
    "agent": "bot",
    "prompt": "Summarise the unread mail of the last day.",
    "until": "2026-12-24",
}
SOON: dict[str, Any] = {"name": "Tea", "purpose": "The tea is ready.", "after": "20m", "message": "Tea!"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@contextmanager
def a_service(folder: Path, clock: ManualClock) -> Iterator[Service]:
    with serving(folder, file=FILE, clock=clock) as found:
        found.context.runtime.timezone = "Europe/Berlin"
        yield found
        assert prove(found.runtime).is_clean


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("creating"), ManualClock(NOW)) as found:
        yield found


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Service]:
    """A server without schedules: one of its own for a test that moves the clock, else the one that all share."""
    if "clock" not in request.fixturenames:
        yield empty(request.getfixturevalue("shared"))
        return
    with a_service(tmp_path, request.getfixturevalue("clock")) as found:
        yield found


@pytest.fixture
def tools(service: Service) -> Tools:
    return Tools(service, service.client(owner=None))


def created(tools: Tools, **arguments: Any) -> dict[str, Any]:
    """Preview, then create."""
    preview = tools("create_schedule", **arguments)
    assert preview["result"] == "preview"
    return tools("create_schedule", **arguments, confirm=preview["confirm"])


def test_a_preview_shows_the_instants_and_creates_nothing(service: Service, tools: Tools) -> None:
    found = tools("create_schedule", **INBOX)
    assert found["result"] == "preview" and found["id"] is None
    assert found["say"] == (
        "Every weekday at 09:00 Europe/Berlin, first Tuesday 17 November, until 24 December."
    )
    assert found["now"] == "Monday 2026-11-16 10:04 Europe/Berlin"
    assert found["next"][0] == {
        "at": "2026-11-17T08:00:00Z",
        "local": "Tue 2026-11-17 09:00:00 CET +01:00",
        "weekday": "Tuesday",
        "in": "22h 56m",
    }
    assert (len(found["next"]), found["fires_per_day"]) == (5, 0.72)
    assert tools("preview_schedule", **INBOX)["confirm"] == found["confirm"]
    assert service.admin.get("/schedules/").fields["total"] == 0


def test_the_code_of_the_preview_creates_it(service: Service, tools: Tools) -> None:
    made = created(tools, **INBOX)
    assert (made["result"], made["status"], made["revision"]) == ("created", "active", 1)
    stored = service.admin.get(f"/schedules/{made['id']}/").fields
    assert (stored["cron"], stored["timezone"]) == ("0 9 * * mon,tue,wed,thu,fri", "Europe/Berlin")
    assert stored["run"] == {"agent": {"name": "bot", "prompt": INBOX["prompt"]}}
    assert (stored["name"], stored["description"]) == ("Inbox", INBOX["purpose"])
    assert stored["end_at"] == "2026-12-24T23:00:00Z"


def test_a_delay_needs_no_preview(service: Service, tools: Tools) -> None:
    made = tools("create_schedule", **SOON, max_runs=1, skip_if_later_than="2h")
    assert made["result"] == "created"
    assert made["say"] == "Once, Monday 16 November 2026 at 10:24 Europe/Berlin, in 20m."
    stored = service.admin.get(f"/schedules/{made['id']}/").fields
    assert (stored["total_repeats"], stored["misfire_grace"], stored["catch_up"]) == (1, "2h", "skip")


def test_a_code_is_for_its_arguments_its_token_and_its_time(
    service: Service, tools: Tools, clock: ManualClock
) -> None:
    code = tools("create_schedule", **INBOX)["confirm"]
    assert tools.refusal("create_schedule", **{**INBOX, "time": "08:00"}, confirm=code) == (
        "confirm does not match: the arguments changed. Leave confirm out to preview what they are now."
    )
    other = Tools(service, service.client())
    assert "does not match" in other.refusal("create_schedule", **INBOX, confirm=code)
    assert "is not a code" in tools.refusal("create_schedule", **INBOX, confirm="yes")
    clock.advance(15 * 60 + 1)
    assert "older than 15 minutes" in tools.refusal("create_schedule", **INBOX, confirm=code)


def test_the_same_again_is_there_already(service: Service, tools: Tools) -> None:
    made = created(tools, **INBOX)
    for again in (
        tools("create_schedule", **INBOX),
        tools("create_schedule", **{**INBOX, "name": "Mail", "days": INBOX["days"][::-1]}),
        tools("preview_schedule", **INBOX),
    ):
        assert (again["result"], again["id"]) == ("exists", made["id"])
    assert tools("create_schedule", **SOON)["result"] == "created"
    assert tools("create_schedule", **SOON)["result"] == "exists"
    assert service.admin.get("/schedules/").fields["total"] == 2


def test_what_exists_is_shown_with_its_own_slots_and_its_own_end(
    service: Service, tools: Tools, clock: ManualClock
) -> None:
    fields = {"name": "Tea", "purpose": "Tea.", "every": "6h", "message": "Tea!"}
    made = created(tools, **fields)
    clock.advance(3600)
    again = tools("create_schedule", **fields, until="2026-12-24")
    assert (again["result"], again["id"], again["ends"]) == ("exists", made["id"], None)
    assert again["next"][0]["at"] == made["next"][0]["at"]  # no other hour begins with the second call
    service.admin.post(f"/schedules/{made['id']}/pause/")
    paused = tools("create_schedule", **fields)
    assert (paused["status"], paused["next"], paused["say"]) == ("paused", [], "Every 6 hours.")
    assert paused["warnings"][0].startswith("The schedule is paused")


def test_a_request_of_another_kind_to_the_same_address_is_only_similar(
    service: Service, tools: Tools
) -> None:
    url = "https://example.com/tea"
    fields = {"name": "Tea", "purpose": "Tea.", "every": "6h", "url": url}
    other = service.admin.create(every="6h", run={"http": {"url": url, "method": "GET"}})
    found = tools("create_schedule", **fields)
    assert (found["result"], [one["id"] for one in found["similar"]]) == ("preview", [other["id"]])
    same = service.admin.create(every="6h", run={"http": {"url": url, "method": "POST"}})
    assert tools("create_schedule", **fields)["id"] == same["id"]


def test_what_is_over_can_be_made_again(service: Service, tools: Tools, clock: ManualClock) -> None:
    first = tools("create_schedule", **SOON)
    clock.advance(21 * 60)
    service.runtime.slots.tick(clock.now(), limit=500, behind=True)
    again = tools("create_schedule", **SOON)
    assert again["result"] == "created" and again["id"] != first["id"]


def test_a_key_is_one_definition(tools: Tools) -> None:
    made = created(tools, **INBOX, key="inbox")
    assert made["key"] == "inbox"
    assert tools("create_schedule", **INBOX, key="inbox")["result"] == "exists"
    other = {**INBOX, "time": "08:00", "key": "inbox"}
    code = tools("create_schedule", **other)["confirm"]
    refusal = tools.refusal("create_schedule", **other, confirm=code)
    assert refusal.startswith('the key "inbox" is taken by another definition: cron is "0 9 * * mon,')
    assert "update_schedule" in refusal


def test_what_says_something_else_at_the_same_time_is_similar(tools: Tools) -> None:
    made = created(tools, **INBOX)
    found = tools("create_schedule", **{**INBOX, "prompt": "Water the plants."})
    assert found["result"] == "preview"
    words = "at 09:00, Monday to Friday"
    assert found["similar"] == [{"id": made["id"], "words": words, "purpose": INBOX["purpose"]}]
    assert tools("create_schedule", **{**INBOX, "agent": "other"})["similar"] == []


@pytest.mark.parametrize(
    ("arguments", "run"),
    [
        ({"workflow": "1", "payload": {"a": 1}}, {"workflow": {"id": "1"}}),
        ({"url": "https://example.com/x"}, {"http": {"url": "https://example.com/x"}}),
        ({"message": "Hello"}, {"message": {"text": "Hello"}}),
        (
            {"agent": "bot", "prompt": "Go.", "payload": '{"a": 1}'},
            {"agent": {"name": "bot", "prompt": "Go."}},
        ),
    ],
)
def test_every_target_can_be_named(
    service: Service, tools: Tools, arguments: dict[str, Any], run: dict[str, Any]
) -> None:
    made = tools("create_schedule", name="a", purpose="b", after="1h", **arguments)
    stored = service.admin.get(f"/schedules/{made['id']}/").fields
    (kind,) = run
    assert {key: stored["run"][kind][key] for key in run[kind]} == run[kind]
    assert stored["payload"] == ({"a": 1} if "payload" in arguments else {})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"timezone": None}, 'timezone is needed with "time": ask the person, for example Europe/Berlin.'),
        (
            {"timezone": "CET"},
            'timezone "CET" is not an IANA name: ask the person where they are, for example Europe',
        ),
        ({"timezone": "Europe/Nowhere"}, "timezone"),
        (
            {"time": None, "days": None, "schedule": "0 9 * * *"},
            'unknown argument "schedule", did you mean "cron"?',
        ),
        ({"pattern": "x"}, 'unknown argument "pattern", did you mean "cron"?'),
        ({"tz": "x"}, 'unknown argument "tz", did you mean "timezone"?'),
        ({"when": "x"}, 'unknown argument "when", did you mean "at"?'),
        ({"promt": "x"}, 'unknown argument "promt", did you mean "prompt"?'),
        ({"name": None}, '"name" is needed.'),
        ({"purpose": None}, '"purpose" is needed: one sentence for the person who reads or approves it.'),
        (
            {"time": None, "days": None},
            "nothing says when: give exactly one of after, at, every, time, cron.",
        ),
        ({"every": "1h"}, "every and time both say when: give exactly one of after, at, every, time, cron."),
        (
            {"agent": None, "prompt": None},
            "nothing says what runs: give exactly one of agent, workflow, url, message.",
        ),
        ({"agent": None, "message": "x"}, '"prompt" is for an agent: name one of get_context in "agent".'),
        ({"agent": "nobody"}, "nobody"),
        ({"time": "9am"}, '"time" must be HH:MM such as 09:00.'),
        ({"days": "mon"}, '"days" must be a list such as ["mon", "fri"].'),
        (
            {"days": ["monday"]},
            '"days" has each of mon, tue, wed, thu, fri, sat, sun at most once, and one at least.',
        ),
        ({"time": None, "every": "1h"}, '"days" goes with "time": give the time of day as HH:MM.'),
        ({"payload": "x"}, '"payload" must be an object such as {"topic": "news"}.'),
        ({"max_runs": 0}, '"max_runs" must be at least 1.'),
        ({"max_runs": "three"}, '"max_runs" must be a whole number.'),
        (
            {"until": "Christmas"},
            'until "Christmas" is not an instant: write 2026-12-24, or 2026-12-24T18:00.',
        ),
        ({"until": "2020-01-01"}, "until 2020-01-01 is past: now is Monday 2026-11-16 10:04 Europe/Berlin."),
        ({"key": "a b"}, '"key" must be letters, digits, - and _, 100 at most.'),
        ({"prompt": "x" * 20_001}, '"prompt" has 20,001 characters; at most 20,000 are taken.'),
        (
            {"time": None, "days": None, "at": "2025-11-17T09:00"},
            "at 2025-11-17T09:00 is past: now is Monday 2026-11-16 10:04 Europe/Berlin.",
        ),
        ({"time": None, "days": None, "cron": "0 25 * * *"}, "hour must be 0-23"),
        ({"time": None, "days": None, "every": "soon"}, 'Invalid interval "soon"'),
    ],
)
def test_errors_say_what_to_do(service: Service, tools: Tools, change: dict[str, Any], sentence: str) -> None:
    arguments = {name: value for name, value in {**INBOX, **change}.items() if value is not None}
    assert sentence in tools.refusal("create_schedule", **arguments)
    assert sentence in tools.refusal("preview_schedule", **arguments)
    assert service.admin.get("/schedules/").fields["total"] == 0


def test_a_refusal_by_a_limit_has_its_figures(service: Service) -> None:
    agent = Tools(
        service, service.client(min_interval="10m", fires_per_day=200, max_schedules=1, targets=["message"])
    )
    often = {**SOON, "after": None, "every": "1m"}
    arguments = {name: value for name, value in often.items() if value is not None}
    assert agent.refusal("create_schedule", **arguments) == (
        "every 1m is too often: this token allows 10m. It would fire 1440 times a day; 200 of 200 are left today."
    )
    assert "only create schedules with these targets: message" in agent.refusal("create_schedule", **INBOX)
    made = agent("create_schedule", **SOON)
    assert made["left"]["schedules"] == 0
    assert agent.refusal("create_schedule", **{**SOON, "after": "30m"}) == (
        "1 of 1 schedules are used: delete one."
    )


@pytest.mark.parametrize("key", [{}, {"key": "tea"}], ids=["without a key", "with a key"])
def test_what_exists_is_found_also_when_a_limit_is_reached(service: Service, key: dict[str, str]) -> None:
    agent = Tools(service, service.client(max_schedules=1))
    made = agent("create_schedule", **SOON, **key)
    assert (made["result"], made["left"]["schedules"]) == ("created", 0)
    for tool in ("create_schedule", "preview_schedule"):
        again = agent(tool, **SOON, **key)
        assert (again["result"], again["id"]) == ("exists", made["id"])
    refusal = agent.refusal("create_schedule", **{**SOON, "message": "Coffee!"}, **key)
    assert ('the key "tea" is taken by another definition: ' in refusal) == bool(key)
    assert ("1 of 1 schedules are used: delete one." in refusal) == (not key)


def test_the_cost_of_a_day_and_what_is_left_of_the_budget_are_shown(service: Service) -> None:
    agent = Tools(service, service.client(cost_per_day="5 USD", cost_per_run="0.05 USD"))
    found = agent("preview_schedule", **{**INBOX, "days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]})
    assert found["cost_per_day"] == {"amount": "0.05", "currency": "USD"}
    assert found["say"].endswith("; about 0.05 USD a day.")
    weekly = agent("preview_schedule", **{**INBOX, "days": ["mon"]})
    assert weekly["most_cost_per_day"] == {"amount": "0.05", "currency": "USD"}
    assert weekly["say"].endswith("; about 0.007123 USD a day, at most 0.05 USD on one day.")
    assert (found["left"]["cost_today"], found["left"]["cost_this_month"]) == ("5 USD", None)


@pytest.mark.parametrize(
    ("cron", "warning"),
    [
        ("0 9 1 * mon", "joined by OR"),
        ("*/7 * * * *", "is uneven"),
        ("0 9 16 12 *", "did you mean at?"),
    ],
)
def test_warnings_name_what_is_often_not_meant(tools: Tools, cron: str, warning: str) -> None:
    fields = {name: value for name, value in INBOX.items() if name not in ("time", "days", "until")}
    (text,) = tools("create_schedule", **fields, cron=cron)["warnings"]
    assert warning in text


# -- approval --


def test_what_needs_approval_says_where_and_does_not_come_twice(service: Service) -> None:
    agent = Tools(service, service.client(approval="required"))
    made = created(agent, **INBOX)
    assert (made["result"], made["status"]) == ("waiting_for_approval", "paused")
    where = f"{BASE}/schedules/{made['id']}"
    assert made["approve"] == {
        "url": where,
        "command": f"everwhen schedules approve {made['id']} --revision 1",
    }
    again = agent("create_schedule", **INBOX)
    assert again["result"] == "exists"
    assert again["warnings"] == [f"It waits for approval at {where}; do not create it again."]
    assert where in agent.refusal("resume_schedule", id=made["id"])
    service.admin.post(f"/schedules/{made['id']}/approve/", {"revision": 1})
    assert agent("get_schedule", id=made["id"])["status"] == "active"


@pytest.mark.parametrize(
    ("approval", "first"), [("required", "2026-11-16T09:34:00Z"), ("ask", "2026-11-16T09:04:00Z")]
)
def test_an_interval_that_waits_for_approval_is_shown_with_the_slots_of_an_approval_now(
    service: Service, approval: str, first: str
) -> None:
    agent = Tools(service, service.client(approval=approval))
    often = {"name": "Tea", "purpose": "More tea.", "every": "30m", "message": "Tea!"}
    assert agent("preview_schedule", **often)["next"][0]["at"] == first
    if approval == "required":
        made = created(agent, **often)
        assert made["next"][0]["at"] == first
        approved = service.admin.post(f"/schedules/{made['id']}/approve/", {"revision": 1}).fields
        assert approved["next_slot_at"] == first


def answers(action: Any, **content: Any) -> Any:
    asked: list[str] = []

    def answer(question: str) -> types.ElicitResult:
        asked.append(question)
        return types.ElicitResult(action=action, content=content or None)

    return answer, asked


@pytest.mark.parametrize("mode", EITHER)
def test_the_person_at_the_client_is_asked(service: Service, mode: str) -> None:
    caller = service.client(approval="ask")
    answer, asked = answers("accept", create=True)
    made = created(Tools(service, caller, mode=mode, answer=answer), **INBOX)
    assert (made["result"], made["status"]) == ("created", "active")
    (question,) = asked
    for part in (
        INBOX["purpose"],
        INBOX["prompt"],
        "first Tuesday 17 November",
        "Wed 2026-11-18 09:00:00 CET +01:00",
    ):
        assert part in question


def test_an_answer_to_one_question_answers_no_other(service: Service, clock: ManualClock) -> None:
    """The call is repeated with the answer to an earlier question, which would be another one by now."""
    caller = service.client(approval="ask")
    answer, _ = answers("accept", create=True)

    async def answer_late(client: Client) -> list[Any]:
        async def create(**answered: Any) -> Any:
            return await client.session.call_tool(
                "create_schedule", SOON, allow_input_required=True, **answered
            )

        def answered(question: types.InputRequiredResult) -> dict[str, Any]:
            return {"input_responses": {QUESTION: answer("")}, "request_state": question.request_state}

        first = await create()
        clock.advance("5m")
        second = await create(**answered(first))
        unasked = await create(input_responses={QUESTION: answer("")})
        return [first, second, unasked, await create(**answered(second))]

    *questions, own = talk(service, caller, answer_late, answer=answer)
    assert [isinstance(one, types.InputRequiredResult) for one in questions] == [True] * 3
    assert own.structured_content["result"] == "created"
    assert service.admin.get("/schedules/").fields["total"] == 1


@pytest.mark.parametrize("mode", EITHER)
@pytest.mark.parametrize("refusal", [("decline", {}), ("cancel", {}), ("accept", {"create": False})])
def test_a_no_creates_nothing(service: Service, mode: str, refusal: tuple[str, dict[str, Any]]) -> None:
    answer, asked = answers(refusal[0], **refusal[1])
    before = service.admin.get("/audit/?type=schedule.created").fields["items"]
    found = created(Tools(service, service.client(approval="ask"), mode=mode, answer=answer), **INBOX)
    assert found["result"] == "declined" and len(asked) == 1
    assert service.admin.get("/schedules/").fields["total"] == 0
    assert service.admin.get("/audit/?type=schedule.created").fields["items"] == before


@pytest.mark.parametrize("mode", EITHER)
def test_a_client_that_cannot_ask_waits_for_approval(service: Service, mode: str) -> None:
    made = created(Tools(service, service.client(approval="ask"), mode=mode), **INBOX)
    assert made["result"] == "waiting_for_approval"


# -- what goes --


def test_what_agents_made_and_is_over_goes_after_a_week(
    service: Service, tools: Tools, clock: ManualClock
) -> None:
    reminder = tools("create_schedule", **SOON)
    person = service.admin.create(every=None, after="20m", run={"message": {"text": "x"}})
    clock.advance("1h")
    service.runtime.slots.tick(clock.now(), limit=500, behind=True)
    for _ in range(2):
        assert service.admin.get(f"/schedules/{reminder['id']}/").fields["status"] == "done"
        assert forget_over(service.runtime) == 0
        clock.advance("3d")
    clock.advance("23h59m")
    assert forget_over(service.runtime) == 0
    clock.advance("1m")
    assert forget_over(service.runtime) == 1
    assert service.admin.get(f"/schedules/{reminder['id']}/").status == 404
    assert service.admin.get(f"/schedules/{reminder['id']}/why/").status == 200
    assert service.admin.get(f"/schedules/{person['id']}/").status == 200


def test_a_revoked_token_may_take_its_schedules_with_it(service: Service) -> None:
    for pause, expected in (("false", "active"), ("true", "paused")):
        caller = service.client()
        made = Tools(service, caller)("create_schedule", **{**SOON, "message": pause})
        token_id = caller.get("/me/").fields["id"]
        assert service.admin.call("DELETE", f"/tokens/{token_id}/?pause={pause}").status == 204
        fields = service.admin.get(f"/schedules/{made['id']}/").fields
        assert fields["status"] == expected
        assert fields["created_by"] == f"token:{token_id}"

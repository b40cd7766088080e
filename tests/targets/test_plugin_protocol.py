from __future__ import annotations

import json

import pytest

from everwhen.target import Run
from everwhen.targets.plugin import Response, request_of, response_of

RUN = Run(
    job_id="sched-abc-n5-rc0",
    schedule_id="withings.hourly",
    schedule_name="Withings",
    slot_at=1_767_600_000_000_000,
    attempt=2,
    origin="catch_up",
    repeat_number=4,
    payload={},
    deadline_at=1_767_600_600_000_000,
    seconds_left=600.0,
)


def test_the_request_is_one_line_of_json() -> None:
    request = request_of(RUN, command="poll", config={"a": 1}, state={"seen": 3}, payload={"source": "s"})
    assert request.count(b"\n") == 1 and request.endswith(b"\n")
    assert json.loads(request) == {
        "protocol": 2,
        "job_id": "sched-abc-n5-rc0",
        "command": "poll",
        "config": {"a": 1},
        "state": {"seen": 3},
        "payload": {"source": "s"},
        "context": {
            "schedule_id": "withings.hourly",
            "schedule_name": "Withings",
            "slot_at": "2026-01-05T08:00:00Z",
            "attempt": 2,
            "origin": "catch_up",
            "catch_up": True,
            "repeat_number": 4,
        },
        "deadline_at": "2026-01-05T08:10:00Z",
    }


def test_a_whole_response_is_understood() -> None:
    response = response_of(
        b'{"status": "ok", "result": "3 new", "state_updates": {"seen": 4}, "events": [{"type": "x"}],'
        b' "logs": [{"level": "warn", "message": "slow"}, "?"]}\n'
    )
    assert response == Response(
        True, "3 new", state_updates={"seen": 4}, logs=("warn: slow",), events='{"type": "x"}\n'
    )


def test_a_response_may_be_as_short_as_its_status() -> None:
    assert response_of(b'{"status": "ok"}') == Response(True)


def test_an_error_may_be_retried_unless_it_says_otherwise() -> None:
    assert response_of(b'{"status": "error", "error": "no luck"}').may_retry
    assert response_of(b'{"status": "error", "error": "no luck", "retry": null}').may_retry
    assert not response_of(b'{"status": "error", "error": "no luck", "retry": false}').may_retry


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (b"", "nothing on standard output"),
        (b" \n", "nothing on standard output"),
        (b"Traceback (most recent", "standard output is not valid JSON: b'Traceback (most recent'"),
        (b'{"status": "o', "standard output is not valid JSON"),
        (b'{"status": "ok"}{"status": "ok"}', "standard output is not valid JSON"),
        (b'{"status": "ok", "state_updates": {"x": NaN}}', "standard output is not valid JSON"),
        (b"\xff\xfe\x00", "standard output is not valid JSON: b'\\xff\\xfe\\x00'"),
        (b"[" * 100_000, "standard output is not valid JSON"),
        (b'["ok"]', 'no status "ok" or "error"'),
        (b'{"status": "fine"}', 'no status "ok" or "error"'),
        (b'{"status": {}}', 'no status "ok" or "error"'),
        (b'{"status": "ok", "state_updates": [1]}', "state_updates is not an object"),
    ],
)
def test_anything_else_is_a_fault_that_shows_its_first_bytes(output: bytes, fault: str) -> None:
    response = response_of(output)
    assert not response.is_ok
    assert response.fault is not None and fault in response.fault
    assert len(response.fault) < 1_000


def test_text_that_no_database_takes_is_made_fit() -> None:
    response = response_of(b'{"status": "error", "error": "a\\u0000b\\ud800c"}')
    assert response.error == "a\N{REPLACEMENT CHARACTER}b?c"


def test_a_result_that_is_no_text_is_kept_as_json() -> None:
    assert response_of(b'{"status": "ok", "result": {"n": 1}}').result == '{"n": 1}'
    assert len(response_of(json.dumps({"status": "ok", "result": "x" * 10_000}).encode()).result) == 4_096


@pytest.mark.parametrize("events", ["", ', "events": null', ', "events": []'])
def test_no_events_are_no_line(events: str) -> None:
    assert response_of(f'{{"status": "ok"{events}}}'.encode()).events == ""


def test_an_event_that_stands_alone_is_kept_as_it_is() -> None:
    assert (
        response_of(b'{"status": "ok", "events": {"type": "a\\u0000b"}}').events == '{"type": "a\\u0000b"}\n'
    )


def test_of_too_many_events_the_first_are_kept_and_the_others_counted() -> None:
    event = {"type": "x", "text": "y" * 1_000}
    response = response_of(json.dumps({"status": "ok", "events": [event] * 1_000}).encode())
    *kept, last = map(json.loads, response.events.splitlines())
    assert kept == [event] * len(kept)
    assert 200 < len(kept) < 260
    assert last == {"not_kept": 1_000 - len(kept), "most_characters": 262_144}

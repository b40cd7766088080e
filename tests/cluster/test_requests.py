"""Requests that programs write inside their own transactions: carried out once, and open ones delay nobody."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everwhen.errors import SchedulerError
from everwhen.model.declare import Declared
from everwhen.model.instants import SECOND
from everwhen.model.queries import EventFilter
from everwhen.operations import requests
from everwhen.operations.maintenance import back_up, prune
from everwhen.operations.requests import (
    Submission,
    execute_requests,
    get_request,
    request_add,
    request_removal,
    request_trigger,
    request_update,
    submit_request,
)
from tests.cluster.conftest import together
from tests.conformance.tenant import Tenant, submission
from tests.submissions import define

Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(runtime: Tenant) -> Iterator[Connection]:
    """The program's, to the same database."""
    with psycopg.connect(runtime.site.url) as connection:
        yield connection
        connection.rollback()


def declared(runtime: Tenant, schedule_id: str, **fields: Any) -> Declared:
    one = submission(schedule_id, **fields)
    definition = define(runtime.runtime, one, runtime.now)
    return Declared(schedule_id, one.fields, definition.target, definition)


def add(runtime: Tenant, connection: Connection, schedule_id: str, **fields: Any) -> str:
    may_replace = fields.pop("may_replace", False)
    new = declared(runtime, schedule_id, **fields)
    return submit(
        runtime, connection, request_add(runtime.runtime, new, may_replace=may_replace, actor="app")
    )


def trigger(runtime: Tenant, connection: Connection, schedule_id: str) -> str:
    wanted = request_trigger(runtime.runtime, schedule_id, payload=None, if_running="queue")
    return submit(runtime, connection, wanted)


def submit(runtime: Tenant, connection: Connection, wanted: Submission) -> str:
    submit_request(runtime.runtime, wanted, connection)
    return wanted.request.request_id


def status(runtime: Tenant, request_id: str) -> str | None:
    request = get_request(runtime.runtime, request_id)
    return None if request is None else request.status


def test_a_transaction_that_is_open_for_a_minute_delays_nobody(
    runtime: Tenant, other: Tenant, connection: Connection, tmp_path: Path
) -> None:
    added = {"source": "python", "every": "10s", "if_running": "allow"}
    runtime.add("a", **added)
    runtime.add("b", **added)
    runtime.step()
    assert len(runtime.run()) == 2
    last = runtime.runtime.ledger.events(EventFilter(), limit=1)[0].id
    open_requests = [
        add(runtime, connection, "c", every="10s"),
        trigger(runtime, connection, "a"),
        submit(
            runtime,
            connection,
            request_update(runtime.runtime, "a", lambda _: declared(runtime, "a", every="1h"), actor="app"),
        ),
        submit(runtime, connection, request_removal(runtime.runtime, "b", cancel_running=True, actor="app")),
    ]
    assert connection.info.transaction_status.name == "INTRANS"
    for second in range(60):
        runtime.wait("1s")
        node = (runtime, other)[second % 2]
        node.beat()
        node.step()
        assert [job.due_at for job in node.run()] == ([node.now] * 2 if second % 10 == 9 else [])
        assert node.runtime.slots.next_wake_at() == (node.now // (10 * SECOND) + 1) * 10 * SECOND
        assert execute_requests(node.runtime) == 0
    # The schedules that the requests are about are changed, run and paused by others; so is the whole system.
    assert runtime.trigger("a").job_id is not None
    runtime.pause("b")
    runtime.resume("b")
    runtime.pause_system()
    runtime.resume_system()
    runtime.add("d", every="1m")
    with psycopg.connect(runtime.site.url) as another:
        done = trigger(runtime, another, "a")
    assert execute_requests(other.runtime) == 1
    assert status(runtime, done) == "done"
    prune(runtime.runtime)
    back_up(runtime.runtime, tmp_path / "copy", may_replace=True)
    # Streams wait, by design: what this transaction writes must not appear before what they have passed (L4).
    assert runtime.runtime.ledger.events_after(last, limit=10) == []
    assert {status(runtime, one) for one in open_requests} == {None}
    connection.commit()
    assert runtime.runtime.ledger.events_after(last, limit=10) != []
    assert [execute_requests(runtime.runtime) for _ in range(3)] == [3, 1, 0]  # two are about one schedule
    assert {status(runtime, one) for one in open_requests} == {"done"}
    assert runtime.runtime.catalogue.get("b") is None
    assert runtime.state("c").next_run_at is not None


def test_nodes_that_look_at_the_same_moment_carry_out_each_request_once(
    runtime: Tenant, other: Tenant, connection: Connection
) -> None:
    runtime.add("a", every="24h", if_running="allow")
    for number in range(20):
        add(runtime, connection, f"s{number}", every="24h")
        trigger(runtime, connection, "a")
        trigger(runtime, connection, f"s{number}")
    connection.commit()
    while sum(together(*(lambda node=node: execute_requests(node.runtime) for node in (runtime, other)))):
        pass
    counts = connection.execute("SELECT status, count(*) FROM requests GROUP BY 1").fetchall()
    assert counts == [("done", 60)]
    assert len(runtime.jobs("a")) == 20
    assert [len(runtime.jobs(f"s{number}")) for number in range(20)] == [1] * 20


def test_a_request_that_another_node_has_taken_is_left_alone(
    runtime: Tenant, other: Tenant, connection: Connection
) -> None:
    runtime.add("a", every="24h")
    request_id = trigger(runtime, connection, "a")
    connection.commit()
    (request,) = runtime.runtime.requests.waiting(limit=10)
    assert requests.execute_request(other.runtime, request)
    assert not requests.execute_request(runtime.runtime, request)
    assert not runtime.runtime.requests.refuse(runtime.now, request, "too late")
    assert status(runtime, request_id) == "done"
    assert len(runtime.jobs("a")) == 1


def test_it_counts_from_the_instant_at_which_a_node_sees_it(runtime: Tenant, connection: Connection) -> None:
    add(runtime, connection, "countdown", after="10m")
    add(runtime, connection, "interval", every="10m", first_run="after_interval")
    runtime.wait("1m")
    connection.commit()
    runtime.wait("1m")
    seen_at = runtime.now
    execute_requests(runtime.runtime)
    for schedule_id in ("countdown", "interval"):
        assert runtime.state(schedule_id).next_run_at == seen_at + 600 * SECOND
    assert {event.at for event in runtime.events(None, "schedule.created")} == {seen_at}


def test_an_instant_that_is_past_by_then_is_refused_and_on_record(
    runtime: Tenant, connection: Connection
) -> None:
    request_id = add(runtime, connection, "late", at="2026-01-05T08:00:30Z")
    runtime.wait("1m")
    connection.commit()
    assert execute_requests(runtime.runtime) == 1
    assert status(runtime, request_id) == "refused"
    (event,) = runtime.events("late", "request.refused")
    assert (event.at, event.actor, event.detail["action"]) == (runtime.now, "app", "add")
    assert "already past" in str(event.detail["error"])


def test_requests_about_one_schedule_wait_for_each_other_and_no_others(
    runtime: Tenant, connection: Connection
) -> None:
    runtime.add("a", every="24h")
    first = [trigger(runtime, connection, "a"), add(runtime, connection, "b", every="1h")]
    trigger(runtime, connection, "a")
    trigger(runtime, connection, "b")
    connection.commit()
    waiting = runtime.runtime.requests.waiting(limit=10)
    assert [one.request_id for one in waiting] == first
    assert execute_requests(runtime.runtime) == 4
    assert execute_requests(runtime.runtime) == 0


def test_a_request_that_this_release_does_not_understand_waits_and_harms_no_other(
    runtime: Tenant, connection: Connection
) -> None:
    runtime.add("a", every="24h")
    connection.execute("""
INSERT INTO requests (request_id, action, schedule_id, body, created_at)
VALUES ('x', 'rename', 'b', '{}', now()), ('y', 'add', 'c', '{}', now())""")
    trigger(runtime, connection, "a")
    connection.commit()
    assert execute_requests(runtime.runtime) == 1
    with pytest.raises(KeyError, match="definition"):
        execute_requests(runtime.runtime)
    assert (status(runtime, "x"), status(runtime, "y")) == ("waiting", "waiting")


def test_an_outcome_is_kept_for_a_day_and_what_waits_for_ever(
    runtime: Tenant, connection: Connection
) -> None:
    runtime.add("a", every="24h")
    done, waiting = trigger(runtime, connection, "a"), trigger(runtime, connection, "a")
    connection.commit()
    (request,) = runtime.runtime.requests.waiting(limit=10)
    assert requests.execute_request(runtime.runtime, request)
    runtime.wait("23h")
    assert prune(runtime.runtime)["requests"] == 0
    runtime.wait("2h")
    assert prune(runtime.runtime, dry_run=True)["requests"] == 1
    assert prune(runtime.runtime)["requests"] == 1
    assert (status(runtime, done), status(runtime, waiting)) == (None, "waiting")
    assert execute_requests(runtime.runtime) == 1
    assert status(runtime, waiting) == "done"


def test_a_refusal_of_the_call_leaves_the_transaction_usable(runtime: Tenant, connection: Connection) -> None:
    runtime.add("a", every="24h")
    connection.execute("CREATE TEMPORARY TABLE orders (id int)")
    with pytest.raises(SchedulerError):
        add(runtime, connection, "a", every="1h")
    connection.execute("INSERT INTO orders VALUES (1)")
    connection.commit()
    assert connection.execute("SELECT count(*) FROM requests").fetchall() == [(0,)]

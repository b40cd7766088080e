"""Messages and memories of nodes that write at the same moment: none is passed by, none is overwritten."""

from __future__ import annotations

import json

import psycopg

from everwhen.model.claim import ClaimedJob
from everwhen.model.message import Message, message_target
from everwhen.model.outcome import Outcome, PluginUpdate
from everwhen.store.opened import store_of
from tests.cluster.conftest import together
from tests.conformance.tenant import Tenant, end_of

PRESENTS = message_target({"text": "Presents!"})
INSERT = """
INSERT INTO messages (event_id, at, schedule_id, uid, job_id, body)
VALUES (%s, now(), 'a', 'a', 'a', '{}') RETURNING id"""


def take(runtime: Tenant, limit: int = 10) -> list[Message]:
    held_until = runtime.now + 60_000_000
    return list(
        runtime.runtime.messages.take(
            runtime.now, "inbox", node=runtime.node, limit=limit, held_until=held_until
        )
    )


def advance(runtime: Tenant, cursor: int) -> bool:
    return runtime.runtime.messages.advance(
        runtime.now, "inbox", node=runtime.node, cursor=cursor, held_until=None
    )


def test_a_message_of_a_transaction_that_commits_late_is_not_passed_by(runtime: Tenant) -> None:
    runtime.runtime.messages.subscribe(runtime.now, "inbox")
    with psycopg.connect(runtime.site.url) as slow, psycopg.connect(runtime.site.url) as quick:
        slow.execute(INSERT, ("first",))
        quick.execute(INSERT, ("second",))
        quick.commit()
        assert take(runtime) == []  # behind the one that is still open
        slow.commit()
    assert [message.event_id for message in take(runtime)] == ["first", "second"]


def test_a_smaller_id_that_comes_later_in_the_order_of_commits_comes_once(runtime: Tenant) -> None:
    runtime.runtime.messages.subscribe(runtime.now, "inbox")
    with psycopg.connect(runtime.site.url) as older, psycopg.connect(runtime.site.url) as newer:
        older.execute("SELECT pg_current_xact_id()")
        newer.execute(INSERT, ("small id, younger transaction",))
        older.execute(INSERT, ("large id, older transaction",))
        older.commit()
        newer.commit()
    got: list[str] = []
    while taken := take(runtime, limit=1):
        got.append(taken[0].event_id)
        assert advance(runtime, taken[0].id)
        assert len(got) < 5
    assert got == ["large id, older transaction", "small id, younger transaction"]


def test_two_nodes_never_deliver_to_one_subscriber_at_once(runtime: Tenant, other: Tenant) -> None:
    runtime.runtime.messages.subscribe(runtime.now, "inbox")
    runtime.add("reminder", every="1h", target=PRESENTS)
    runtime.step()
    taken = together(lambda: take(runtime), lambda: take(other))
    assert sorted(len(messages) for messages in taken) == [0, 1]


def test_two_nodes_that_remember_for_one_plugin_at_once_both_have_their_say(
    runtime: Tenant, other: Tenant
) -> None:
    runtime.add_many(["a", "b"], every="1h")
    runtime.step()
    one, two = runtime.claim(limit=1), other.claim(limit=1)

    def settle(tenant: Tenant, claimed: ClaimedJob, key: str) -> None:
        outcome = Outcome("succeeded", also=PluginUpdate("withings", json.dumps({key: 1})))
        store_of(tenant.runtime).slots.settle(tenant.now, [end_of(claimed, outcome)])

    together(lambda: settle(runtime, one[0], "first"), lambda: settle(other, two[0], "second"))
    assert runtime.runtime.catalogue.plugin_state("withings") == {"first": 1, "second": 1}

"""What the previous release has written, read by this one: its schedules, its revisions, its counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from everwhen.model.history import Cause
from everwhen.model.policy import Guard
from everwhen.model.schedule import Definition, Target
from everwhen.operations.apply import protect_schedules
from everwhen.operations.local_functions import invalidate_orphans
from everwhen.store.schema.migrations import POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS
from tests.conformance.tenant import FAILED, Tenant
from tests.submissions import Submission, create_schedules


def run(runtime: Tenant, script: str) -> None:
    runtime.stack.database.build(lambda builder: builder.run(script))


def age(runtime: Tenant) -> None:
    run(runtime, "UPDATE schedule_revisions SET cause = NULL; UPDATE nodes SET migration = NULL")


def causes(runtime: Tenant, name: str) -> list[Cause | None]:
    with runtime.runtime.ledger.history([runtime.state(name).uid]) as record:
        (history,) = record.histories
        return [revision.cause for revision in history.revisions]


def guarded(_schedule_id: str, definition: Definition) -> Definition | None:
    return None if definition.group == "gone" else replace(definition, guard=Guard("guard:g", 1))


def test_revisions_say_why_they_were_written(runtime: Tenant) -> None:
    runtime.add("a", every="1h")
    runtime.edit("a", every="2h")
    assert causes(runtime, "a") == ["created", "edited"]


def test_schedules_of_groups_from_before_are_upgraded_once(runtime: Tenant) -> None:
    runtime.add("new", every="1h", group="g", source="api")
    runtime.add("edited", every="1h", group="g", source="api")
    runtime.edit("edited", every="2h", group="g")
    runtime.add("added", every="1h", group="g", source="python")
    runtime.add("alone", every="1h", source="api")
    runtime.add("gone", every="1h", group="gone", source="api")
    runtime.add("file", every="1h", group="g", source="config")
    age(runtime)
    runtime.add("since", every="1h", group="g", source="api")

    assert protect_schedules(runtime.runtime, guarded) == ["new", "edited", "added"]
    assert protect_schedules(runtime.runtime, guarded) == []
    assert causes(runtime, "new") == causes(runtime, "added") == [None, "upgraded"]
    assert causes(runtime, "edited") == [None, None, "upgraded"]
    assert causes(runtime, "since") == ["created"]
    assert causes(runtime, "alone") == causes(runtime, "gone") == causes(runtime, "file") == [None]
    (event,) = runtime.events("new", "schedule.updated")
    assert (event.actor, event.detail) == ("upgrade", {"revision": 2, "cause": "upgraded"})


def test_what_is_as_it_should_be_gets_no_revision_and_is_not_looked_at_again(runtime: Tenant) -> None:
    runtime.add("a", every="1h", group="g", source="api")
    age(runtime)
    revision = runtime.state("a").revision
    assert protect_schedules(runtime.runtime, lambda _id, definition: definition) == []
    assert (runtime.state("a").revision, causes(runtime, "a")) == (revision, ["created"])
    assert runtime.runtime.catalogue.from_before("api", only_groups=True) == []


@pytest.mark.parametrize(("is_from_before", "faults"), [(True, 0), (False, 2)])
def test_counts_of_a_process_from_before_are_not_held_against_the_rules_of_now(
    runtime: Tenant, is_from_before: bool, faults: int
) -> None:
    """The old process counted consecutive failures where there are no retries, and had no failed slots."""
    runtime.add("a", every="1h")
    runtime.step()
    runtime.run(FAILED)
    runtime.wait("1m")
    runtime.beat()
    run(runtime, "UPDATE schedules SET current_retry = 1, failed_slots = 0")
    if is_from_before:
        run(runtime, "UPDATE nodes SET migration = NULL")
    assert runtime.check().fault_count == faults
    run(runtime, "UPDATE schedules SET current_retry = 0, failed_slots = 1")
    assert runtime.check().is_clean


@pytest.mark.parametrize(
    ("is_upgraded", "is_over", "faults"), [(True, False, 0), (True, True, 2), (False, False, 2)]
)
def test_a_queue_worker_may_be_from_before_until_the_upgrade_is_declared_over(
    runtime: Tenant, is_upgraded: bool, is_over: bool, faults: int
) -> None:
    """It leaves no row in `nodes`, of either release; a database that was made by this one had no other."""
    runtime.wait("1m")
    runtime.beat()
    with upgrade(runtime, is_upgraded=is_upgraded, is_over=is_over):
        runtime.add("a", every="1h")
        runtime.wait("1m")
        runtime.step()
        runtime.run(FAILED)
        run(runtime, "DELETE FROM nodes")
        run(runtime, "UPDATE schedules SET current_retry = 1, failed_slots = 0 WHERE schedule_id = 'a'")
        assert runtime.check().fault_count == faults
        run(runtime, "UPDATE schedules SET current_retry = 0, failed_slots = 1")
        assert runtime.check().is_clean


@contextmanager
def upgrade(runtime: Tenant, *, is_upgraded: bool, is_over: bool) -> Iterator[None]:
    """Let the database have been one of the previous release until now; the databases of other tests stay as new."""
    applied_at = "(SELECT max(heartbeat_at) FROM nodes)" if is_upgraded else "applied_at"
    run(runtime, f"UPDATE everwhen_migrations SET applied_at = {applied_at} WHERE number = 2")
    if is_over:
        run(
            runtime,
            "INSERT INTO everwhen_migrations (number, name, step, applied_at) "
            "SELECT number, name, 'after', applied_at FROM everwhen_migrations WHERE number = 2",
        )
    try:
        yield
    finally:
        run(runtime, "DELETE FROM everwhen_migrations WHERE step = 'after'")
        first = "(SELECT applied_at FROM everwhen_migrations WHERE number = 1)"
        run(runtime, f"UPDATE everwhen_migrations SET applied_at = {first} WHERE number = 2")


# -- reasons --


def test_a_reason_that_the_previous_release_may_have_written_is_not_judged(runtime: Tenant) -> None:
    """It wrote false ones: `superseded` of what was open when a schedule ended."""
    runtime.add("a", every="1m")
    runtime.step()
    runtime.wait("1m")
    (created,) = runtime.events("a", "schedule.created")
    wrong = created._replace(
        type="schedule.skipped", at=runtime.now, slot_at=runtime.now, reason="superseded", detail={}
    )
    runtime.runtime.slots.record([wrong])
    assert [fault.sentence for fault in runtime.check().of("reason")] == [
        "it was skipped, reason superseded, and nothing had held it, or would have"
    ]
    runtime.wait("1s")
    runtime.beat()
    with migrated_now(runtime):
        report = runtime.check()
        assert (report.of("reason"), report.unjudged) == ([], 1)
        assert "the reasons of 1 slot are not judged" in report.unjudged_text
    assert runtime.check().of("reason")
    run(runtime, "DELETE FROM audit_events WHERE type = 'schedule.skipped'")


@contextmanager
def migrated_now(runtime: Tenant) -> Iterator[None]:
    """Let the database have been one of release 0.2 until the last heartbeat."""
    run(
        runtime,
        "UPDATE everwhen_migrations SET applied_at = (SELECT max(heartbeat_at) FROM nodes) WHERE number = 3",
    )
    try:
        yield
    finally:
        first = "(SELECT applied_at FROM everwhen_migrations WHERE number = 1)"
        run(runtime, f"UPDATE everwhen_migrations SET applied_at = {first} WHERE number = 3")


def test_the_upgrade_finds_the_functions_that_only_one_process_has(runtime: Tenant) -> None:
    local = Target("python", json.dumps({"function": "f", "name": "shop", "process": "1f"}))
    named_alike = Target("python", json.dumps({"function": "m:f", "kwargs": {"process": "1f\0\ud800"}}))
    create_schedules(
        runtime.runtime,
        [
            Submission("local", {"every": "1h"}, local, source="python", bound_to="shop/1f"),
            Submission("alike", {"every": "1h"}, named_alike, source="python", bound_to="shop"),
        ],
    )
    written = runtime.runtime.catalogue.local_queues()
    run(runtime, "UPDATE schedules SET local_queue = NULL")
    assert runtime.runtime.catalogue.local_queues() == {}
    migrations = SQLITE_MIGRATIONS if runtime.runtime.database_kind == "sqlite" else POSTGRES_MIGRATIONS
    _, update, statement = migrations[2].before.partition("UPDATE schedules SET local_queue")
    run(runtime, update + statement)
    assert runtime.runtime.catalogue.local_queues() == written == {"default@shop/1f": True}

    orphans = invalidate_orphans(runtime.runtime, "shop", "2e", "declare it again")
    assert (set(orphans.queues), orphans.may_have_more) == ({"default@shop/1f"}, False)
    assert runtime.runtime.catalogue.local_queues() == {"default@shop/1f": False}
    assert (runtime.state("local").status, runtime.state("alike").status) == ("invalid", "active")

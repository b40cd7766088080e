"""The cursors of named listeners, and the feed that is read from them: nothing is missed, wherever reading stopped."""

from __future__ import annotations

import pytest

from everwhen.engine.listeners import EventListener, NamedListener
from everwhen.errors import ConfigError
from everwhen.model.event_cursor import EventCursor
from everwhen.model.instants import DAY
from everwhen.model.retention import Retention
from everwhen.operations.event_feed import facts_of
from everwhen.operations.listening import (
    FeedPosition,
    FeedStep,
    forget_listener,
    position_now,
    position_of,
    steps_after,
)
from everwhen.operations.maintenance import prune
from tests.conformance.tenant import FAILED, LEASE, Tenant

MINUTE = 60_000_000


def create(runtime: Tenant, name: str = "audit") -> None:
    runtime.runtime.event_cursors.create(runtime.now, EventCursor(name, 0, 0))


def take(runtime: Tenant, name: str = "audit") -> EventCursor | None:
    held_until = runtime.now + MINUTE
    return runtime.runtime.event_cursors.take(runtime.now, name, node=runtime.node, held_until=held_until)


def test_one_node_holds_a_cursor_until_its_time_is_over(runtime: Tenant) -> None:
    create(runtime)
    neighbour = runtime.neighbour()
    first = take(runtime)
    assert first is not None
    assert take(neighbour) is None
    assert take(runtime, "another") is None
    runtime.wait("2m")
    second = take(neighbour)
    assert second is not None
    cursors = runtime.runtime.event_cursors
    assert cursors.save(runtime.now, first._replace(event_row=7)) is None  # it has lost it
    kept = cursors.save(runtime.now, second._replace(event_row=9, open_jobs="1-3"))
    assert kept is not None
    assert cursors.find("audit") == kept
    assert (kept.event_row, kept.open_jobs) == (9, "1-3")


def test_a_cursor_of_a_lost_node_is_free_at_once_and_one_that_is_given_up_too(runtime: Tenant) -> None:
    create(runtime)
    runtime.beat()
    assert take(runtime) is not None
    neighbour = runtime.neighbour()
    runtime.wait("31s")
    neighbour.beat()
    assert take(neighbour) is None
    assert runtime.runtime.upkeep.note_lost(runtime.now, node=neighbour.node, lease=LEASE)
    held = take(neighbour)
    assert held is not None
    assert runtime.runtime.event_cursors.save(runtime.now, held._replace(node=None, held_until=None))
    assert take(runtime) is not None


def test_a_cursor_of_a_node_that_signed_off_without_giving_it_up_is_free_soon(runtime: Tenant) -> None:
    create(runtime)
    runtime.beat()
    assert take(runtime) is not None
    runtime.runtime.slots.sign_off_node(runtime.now, node=runtime.node)
    neighbour = runtime.neighbour()
    assert take(neighbour) is None  # its listeners receive its end
    runtime.wait("10s")
    assert take(neighbour) is not None


def test_a_name_that_has_a_cursor_keeps_it(runtime: Tenant) -> None:
    cursors = runtime.runtime.event_cursors
    cursors.create(runtime.now, EventCursor("audit", 3, 4, "4"))
    create(runtime)
    found = cursors.find("audit")
    assert found is not None
    assert (found.event_row, found.job_row, found.open_jobs) == (3, 4, "4")


def test_errors_are_stored_whatever_they_contain(runtime: Tenant) -> None:
    create(runtime)
    held = take(runtime)
    assert held is not None
    failed = held._replace(
        failing="end 1.1", failures=2, next_attempt_at=runtime.now, last_error="a\0b\ud800"
    )
    assert runtime.runtime.event_cursors.save(runtime.now, failed) is not None


def test_nothing_is_missed_wherever_reading_stopped(runtime: Tenant) -> None:
    """A reader that stops after any number of steps goes on from its stored position, and hears all the others."""
    for stop in range(12):
        position = position_now(runtime.runtime, follows=True)
        name = f"s{stop}"
        runtime.add(name, every="1m", if_running="allow")
        runtime.step()
        (early,) = runtime.claim()
        heard = read(runtime, position, stop)
        runtime.wait_and_step("1m")
        (late,) = runtime.claim()
        runtime.settle(late, outcome=FAILED)
        heard += read(runtime, position, stop)
        runtime.settle(early)
        runtime.pause(name)
        cursor = position.stored_in(EventCursor("audit", 0, 0))
        again = position_of(runtime.runtime, cursor, follows=True)
        heard += read(runtime, again, 1_000)
        assert sorted(heard) == [
            "job.failed",
            "job.started",
            "job.started",
            "job.succeeded",
            "schedule.created",
            "schedule.fired",
            "schedule.fired",
            "schedule.paused",
        ]
        assert again.open_jobs == {}


def read(runtime: Tenant, position: FeedPosition, most: int) -> list[str]:
    heard: list[str] = []
    while most > 0 and (steps := steps_after(runtime.runtime, position, limit=50)):
        for step in steps[:most]:
            position.move_behind(step)
            heard += _types(step)
        most -= len(steps)
    return heard


def _types(step: FeedStep) -> list[str]:
    return [] if step.entry is None else [facts_of(step.entry).type]


def test_an_end_comes_behind_its_start_although_the_clock_was_set_back(runtime: Tenant) -> None:
    position = position_now(runtime.runtime, follows=True)
    runtime.add("a", every="1m")
    runtime.step()
    (job,) = runtime.claim()
    runtime.clock.step("-1h")
    runtime.settle(job)
    assert read(runtime, position, 100) == [
        "schedule.created",
        "schedule.fired",
        "job.started",
        "job.succeeded",
    ]


def test_a_position_that_follows_enough_jobs_takes_no_more_until_some_have_ended(runtime: Tenant) -> None:
    position = position_now(runtime.runtime, follows=True)
    runtime.add_many(["a", "b", "c"], every="1h")
    runtime.step()
    heard: list[str] = []

    def hear() -> None:
        for step in steps_after(runtime.runtime, position, limit=4, most_followed=1):
            position.move_behind(step)
            heard.extend(_types(step))

    hear()
    assert heard == ["schedule.created"] * 3 + ["schedule.fired"]
    runtime.pause_system()
    hear()
    assert heard[4:] == ["system.paused"]
    runtime.resume_system()
    runtime.run()
    for _ in range(5):
        hear()
    assert heard.count("schedule.fired") == heard.count("job.succeeded") == 3


def test_who_wants_ends_only_later_hears_those_of_outstanding_jobs(runtime: Tenant) -> None:
    runtime.add("a", every="1m")
    runtime.step()
    position = position_now(runtime.runtime, follows=False)
    (job,) = runtime.claim()
    cursor = position.stored_in(EventCursor("audit", 0, 0))
    again = position_of(runtime.runtime, cursor, follows=True)
    runtime.settle(job)
    assert read(runtime, again, 100) == ["job.succeeded"]


def test_a_job_that_no_longer_exists_is_not_waited_for(runtime: Tenant) -> None:
    position = FeedPosition(0, 1_000, {999: 0})
    read(runtime, position, 100)
    assert position.open_jobs == {}


# -- names that nobody uses any more --


def test_a_name_that_is_forgotten_begins_anew(runtime: Tenant) -> None:
    create(runtime)
    create(runtime, "pager")
    forget_listener(runtime.runtime, "audit")
    assert runtime.runtime.event_cursors.names() == ["pager"]
    with pytest.raises(ConfigError, match='listener "pagr": unknown listener, did you mean "pager"'):
        forget_listener(runtime.runtime, "pagr")


def test_a_name_that_is_in_use_is_not_forgotten(runtime: Tenant) -> None:
    create(runtime)
    runtime.beat()
    assert take(runtime) is not None
    with pytest.raises(ConfigError, match=f'listener "audit" is used by node {runtime.node}; stop'):
        forget_listener(runtime.runtime, "audit")
    runtime.wait("2m")  # its hold is over
    forget_listener(runtime.runtime, "audit")
    assert runtime.runtime.event_cursors.find("audit") is None


@pytest.mark.parametrize(
    ("kept", "days"),
    [(Retention(), 90), (Retention(jobs=200 * DAY), 200), (Retention(jobs=DAY, audit=DAY), 30)],
)
def test_a_name_that_nobody_used_for_as_long_as_the_record_is_kept_is_forgotten(
    runtime: Tenant, kept: Retention, days: int
) -> None:
    create(runtime)
    runtime.wait(f"{days - 1}d")
    create(runtime, "pager")
    assert prune(runtime.runtime, kept)["listeners"] == 0
    runtime.wait("2d")
    assert prune(runtime.runtime, kept, dry_run=True)["listeners"] == 1
    assert prune(runtime.runtime, kept)["listeners"] == 1
    assert runtime.runtime.event_cursors.names() == ["pager"]


def test_a_listener_whose_cursor_is_gone_goes_on_from_then(runtime: Tenant) -> None:
    """Somebody had the name forgotten, or has restored a backup that does not have it."""
    heard: list[str | None] = []
    listener = EventListener(
        lambda entry: heard.append(facts_of(entry).schedule_id), frozenset({"schedule.created"}), "", "audit"
    )
    named = NamedListener(runtime.runtime, listener, lambda: runtime.node)
    named.begin()
    runtime.add("a", every="1h")
    named.step(lambda: False)
    assert heard == ["a"]
    runtime.runtime.event_cursors.forget(runtime.now + 2 * MINUTE, "audit")
    runtime.add("b", every="1h")
    named.step(lambda: False)  # it hears it once more before it knows
    runtime.wait("2s")
    named.step(lambda: False)
    runtime.add("c", every="1h")
    named.step(lambda: False)
    assert heard == ["a", "b", "c"]
    assert runtime.runtime.event_cursors.find("audit") is not None

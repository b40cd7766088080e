"""The fast path decides what the full path decides, or leaves the decision to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everwhen.decide.claim import claim
from everwhen.decide.draft import give_places_back
from everwhen.decide.fast_path import end_fast, fire_fast, succeed_fast
from everwhen.decide.settle import settle_full
from everwhen.decide.tick import decide_full
from everwhen.model.changes import Decision
from everwhen.model.claim import ORDINARY, Start, counters_of
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.limits import Breaker, Limit, Shared
from everwhen.model.outcome import SUCCEEDED, Outcome
from everwhen.model.policy import IfRunning
from everwhen.model.row_changes import start_job
from everwhen.model.schedule import Definition, Plan, Schedule, State
from tests.decide.builders import (
    FAILED,
    a_breaker_rule,
    a_budget,
    a_capacity,
    a_definition,
    a_guard,
    a_job,
    a_one_shot,
    a_schedule,
    at,
    quiet_hours,
)
from tests.keeping import kept

NINE = at("09:00")
KEYS = ("guard:g", "capacity:g")


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def definitions() -> st.SearchStrategy[Definition]:
    triggers = st.sampled_from(
        [{"every": "1h"}, {"every": "10s"}, {"cron": "0 * * * *"}, {"every": "monthly"}, {"at_instant": NINE}]
    )
    fields = st.fixed_dictionaries(
        {
            "if_running": st.sampled_from(["skip", "queue", "cancel", "allow"]),
            "interval_from": st.sampled_from(["slot", "slot", "slot", "completion"]),
            "guard": maybe(st.integers(1, 3).map(lambda n: a_guard(n, key=KEYS[0]))),
            "capacity": maybe(st.integers(1, 3).map(lambda n: a_capacity(n, key=KEYS[1]))),
            "catch_up": maybe(st.sampled_from(["skip", "run_once", "run_all"])),
            "misfire_grace": maybe(st.integers(0, 10).map(lambda n: n * SECOND)),
        },
        optional={
            "jitter_ms": st.integers(1, 5_000),
            "only_between": st.just("08:00-18:00"),
            "breaker": st.just(a_breaker_rule()),
            "budgets": st.just((a_budget(per_hour=1),)),
            "end_at": st.just(NINE + HOUR),
        },
    )
    return st.builds(lambda trigger, rest: a_definition(**trigger, **rest), triggers, fields)


def states() -> st.SearchStrategy[dict[str, Any]]:
    datetimes = st.sampled_from([NINE - HOUR, NINE - 10 * SECOND, NINE])
    return st.fixed_dictionaries(
        {
            "fire_count": st.integers(0, 5),
            "outstanding": st.sampled_from([0, 0, 0, 1, 2]),
            "last_slot_at": maybe(datetimes),
            "last_fired_at": maybe(datetimes),
            "run_count": st.integers(0, 5),
            "current_repeat": st.integers(0, 3),
            "last_error": maybe(st.just("exit code 1")),
            "failed_slots": st.integers(0, 2),
            "current_retry": st.integers(0, 2),
            "error_count": st.integers(0, 2),
            "numbers_skipped": st.integers(0, 2),
        },
        optional={
            "status": st.sampled_from(["active", "paused"]),
            "running_jobs": st.integers(0, 1),
            "waiting": st.integers(0, 1),
            "skip_reason": st.just("already_running"),
            "skip_count": st.integers(0, 2),
            "held_slot_at": st.just(NINE - HOUR),
        },
    )


DELAYS = st.sampled_from([-1, 0, 1, SECOND, 4 * SECOND, 10 * SECOND, MINUTE, 6 * MINUTE, HOUR])
TAKEN = st.tuples(st.integers(0, 3), st.integers(0, 3))
ORIGINS = st.sampled_from(["schedule", "catch_up", "retry", "manual", "backfill", "webhook"])
OUTCOMES = st.sampled_from(
    [SUCCEEDED, SUCCEEDED, FAILED, Outcome("timed_out"), Outcome("succeeded", is_still_running=True)]
)


@settings(max_examples=500)
@given(definition=definitions(), changes=states(), late=DELAYS, taken=TAKEN)
def test_a_fast_firing_equals_the_full_one(
    definition: Definition, changes: dict[str, Any], late: int, taken: tuple[int, int]
) -> None:
    compare_firings(definition, changes, late, taken)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=50_000, derandomize=False)
@given(definition=definitions(), changes=states(), late=DELAYS, taken=TAKEN)
def test_a_fast_firing_equals_the_full_one_in_many_cases(
    definition: Definition, changes: dict[str, Any], late: int, taken: tuple[int, int]
) -> None:
    compare_firings(definition, changes, late, taken)


def compare_firings(
    definition: Definition, changes: dict[str, Any], late: int, taken: tuple[int, int]
) -> None:
    plan = Plan("a", definition, None)
    state = State(1, "a1b2c3d4e5f6", "a", None, 1, "active", NINE - 2 * HOUR, NINE, NINE)
    state = state._replace(next_run_at=plan.calendar(state.anchor_at).due_at(NINE), **changes)
    if state.skip_count:
        state = state._replace(skip_first_at=NINE - HOUR, skip_last_at=NINE - 10 * SECOND)
    if state.held_slot_at is not None:
        state = state._replace(
            held_due_at=state.held_slot_at, held_since=NINE - HOUR, held_reason="at_capacity"
        )
    schedule, now = Schedule(state, plan), NINE + late
    fast, full = (Shared(limits={k: Limit(k, n, n) for k, n in zip(KEYS, taken, strict=True)}) for _ in "ab")
    found = fire_fast(schedule, now, fast)
    if found is None:
        assert fast == Shared(limits=fast.limits) and not fast.undo
    else:
        assert found == decide_full(schedule, now, full)
        assert fast == full
        compare_ends(found, now, full)


def compare_ends(fired: Decision, now: int, shared: Shared) -> None:
    """Compare the row of a message, which ends as it fires, with the row after a claim and a settlement."""
    found = end_fast(fired, now)
    if found is None:
        return
    untouched = shared.mark()
    key = (fired.after.uid, fired.after.revision)
    job = kept(fired.jobs[0], 1, fired.after, fired.plan, now)
    counters = {fired.after.uid: counters_of(fired.after)}
    claims = claim([job], {key: fired.plan}, counters, shared, node="n", limit=1, now=now)
    started = claims.starts[0][1].added_to(fired.after, now)
    ended = settle_full(claims.taken[0].job, SUCCEEDED, Schedule(started, fired.plan), now, shared)
    assert found == ended.after and not (ended.jobs or ended.events or ended.cancelled)
    give_places_back(claims.taken[0].job, shared)
    assert shared.mark() == untouched


@pytest.mark.parametrize("if_running", ["skip", "queue", "cancel", "allow"])
def test_a_fast_firing_puts_the_job_into_the_line_of_the_full_one(if_running: IfRunning) -> None:
    schedule = a_schedule(if_running=if_running, next_slot_at=NINE)
    assert fire_fast(schedule, NINE, Shared()) == decide_full(schedule, NINE, Shared())


@pytest.mark.parametrize("fields", [{"every": "1h"}, {"cron": "0 * * * *"}, {"every": "10s"}])
@pytest.mark.parametrize("limits", [{}, {"guard": a_guard(1)}, {"capacity": a_capacity(1)}])
def test_a_slot_that_is_on_time_takes_the_fast_path(fields: dict[str, Any], limits: dict[str, Any]) -> None:
    assert fire_fast(a_schedule(**fields, **limits, next_slot_at=NINE), NINE + SECOND, Shared()) is not None


@pytest.mark.parametrize(
    "schedule",
    [
        a_one_shot(NINE),
        a_schedule(every="1h", next_slot_at=NINE, status="paused"),
        a_schedule(every="1h", next_slot_at=NINE, outstanding=1),
        a_schedule(every="1h", next_slot_at=NINE, held_slot_at=NINE - HOUR),
        a_schedule(every="1h", next_slot_at=NINE, skip_reason="already_running"),
        a_schedule(every="1h", next_slot_at=NINE, only_between="08:00-18:00"),
        a_schedule(every="1h", next_slot_at=NINE, quiet=quiet_hours("22:00-07:00")),
        a_schedule(every="1h", next_slot_at=NINE, breaker=a_breaker_rule()),
        a_schedule(every="1h", next_slot_at=NINE, budgets=(a_budget(per_hour=9),)),
        a_schedule(every="1h", next_slot_at=NINE, interval_from="completion"),
        a_schedule(every="1h", next_slot_at=NINE - HOUR),
    ],
)
def test_a_slot_that_other_rules_concern_takes_the_full_path(schedule: Schedule) -> None:
    assert fire_fast(schedule, NINE, Shared()) is None


REPEATS = st.sampled_from([0, 0, 0, 3])


@settings(max_examples=500)
@given(definition=definitions(), changes=states(), repeats=REPEATS, origin=ORIGINS, outcome=OUTCOMES)
def test_a_fast_success_equals_the_full_one(
    definition: Definition, changes: dict[str, Any], repeats: int, origin: str, outcome: Outcome
) -> None:
    compare_successes(definition, changes, repeats, origin, outcome)


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=50_000, derandomize=False)
@given(definition=definitions(), changes=states(), repeats=REPEATS, origin=ORIGINS, outcome=OUTCOMES)
def test_a_fast_success_equals_the_full_one_in_many_cases(
    definition: Definition, changes: dict[str, Any], repeats: int, origin: str, outcome: Outcome
) -> None:
    compare_successes(definition, changes, repeats, origin, outcome)


def compare_successes(
    definition: Definition, changes: dict[str, Any], total_repeats: int, origin: str, outcome: Outcome
) -> None:
    plan = Plan("a", replace(definition, total_repeats=total_repeats), None)
    state = State(1, "a1b2c3d4e5f6", "a", "me", 1, "active", NINE - 2 * HOUR, NINE, NINE)
    schedule = Schedule(state._replace(**changes), plan)
    job = a_job(schedule, 3, origin=origin)
    found = succeed_fast(job, outcome, schedule, NINE + SECOND)
    if found is not None:
        shared = after_a_failure(schedule)
        assert found == settle_full(job, outcome, schedule, NINE + SECOND, shared)
        assert shared == after_a_failure(schedule)  # no breaker changed


def after_a_failure(schedule: Schedule) -> Shared:
    rule = schedule.definition.breaker
    return Shared() if rule is None else Shared(breakers={rule.key: Breaker(rule.key, failure_count=1)})


def test_a_plain_success_takes_the_fast_path() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE, outstanding=1, running_jobs=1)
    assert succeed_fast(a_job(schedule), SUCCEEDED, schedule, NINE) is not None


def test_a_start_moves_the_columns_that_are_named() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE, outstanding=1, last_error="exit code 1")
    state, job = schedule.state, a_job(schedule, status="queued", started_at=None, attempt=2, fence=4)
    assert ORDINARY.added_to(state, NINE) == state._replace(running_jobs=1, last_run_at=NINE)
    retried = Start(running_jobs=1, waiting=-1, retries_waiting=-1, is_own=False)
    fields: dict[str, Any] = {"running_jobs": 1, "waiting": -1, "retries_waiting": -1}
    assert retried.added_to(state, NINE) == state._replace(**fields)
    fields = {
        "status": "running",
        "is_counted": True,
        "is_probe": True,
        "attempt": 3,
        "started_at": NINE,
        "deadline_at": NINE + 5,
    }
    assert start_job(job, NINE, NINE + 5, "n", True) == job._replace(node="n", fence=5, **fields)


@pytest.mark.parametrize(
    "fields", [{"total_repeats": 3}, {"interval_from": "completion"}, {"breaker": a_breaker_rule()}]
)
def test_a_success_that_something_depends_on_takes_the_full_path(fields: dict[str, Any]) -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE, outstanding=1, running_jobs=1, **fields)
    assert succeed_fast(a_job(schedule), SUCCEEDED, schedule, NINE) is None


def a_firing(**fields: Any) -> Decision:
    found = fire_fast(a_schedule(next_slot_at=NINE, **fields), NINE, Shared())
    assert found is not None
    return found


def test_a_message_that_fires_alone_ends_on_the_fast_path() -> None:
    after = end_fast(a_firing(every="1h"), NINE)
    assert after is not None
    assert (after.outstanding, after.running_jobs, after.run_count) == (0, 0, 1)
    assert after.last_run_at == after.last_completed_at == after.last_success_at == NINE


@pytest.mark.parametrize(
    "change",
    [
        lambda fired: fired._replace(jobs=[]),
        lambda fired: fired._replace(before=fired.before._replace(running_jobs=1)),
        lambda fired: fired._replace(after=fired.after._replace(outstanding=2)),
        lambda fired: fired._replace(jobs=[fired.jobs[0]._replace(origin="catch_up")]),
        lambda fired: fired._replace(jobs=[fired.jobs[0]._replace(is_ready=False)]),
        lambda fired: fired._replace(plan=a_schedule(total_repeats=3).plan),
    ],
)
def test_a_message_that_other_jobs_or_rules_concern_ends_on_the_full_path(change: Any) -> None:
    assert end_fast(change(a_firing(every="1h")), NINE) is None

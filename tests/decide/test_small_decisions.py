"""Decisions of one or two rules each: approval, overdue slots, links of a chain, charges, checks, re-runs."""

from __future__ import annotations

from typing import Any

import pytest

from everwhen.decide import approval
from everwhen.decide import hand_over as links
from everwhen.decide.budgets import Attempt, charge_caller, makers_budgets
from everwhen.decide.by_hand import rerun, trigger
from everwhen.decide.claim import claim
from everwhen.decide.edit import create
from everwhen.decide.explain import Evidence, explain_slot
from everwhen.decide.hand_over import OnTheirWay, hand_over
from everwhen.decide.outlook import (
    Conditions,
    check_schedule,
    coming_slots,
    held_too_long_since,
    overdue_event,
    overdue_since,
)
from everwhen.decide.reconcile import MOST, firings
from everwhen.errors import FiringLimitError, LimitError, PreconditionError, StatusError
from everwhen.model.history import Revision
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.limits import Breaker, Limit, Shared
from everwhen.model.message import MESSAGE
from everwhen.model.policy import TOKEN_BUDGET, Budget
from everwhen.model.schedule import Schedule, Target
from tests.decide.builders import (
    a_breaker_rule,
    a_budget,
    a_capacity,
    a_chain,
    a_guard,
    a_job,
    a_one_shot,
    a_plan,
    a_schedule,
    at,
    with_jobs,
)

NINE = at("09:00")


# -- approval --


def waiting(**fields: Any) -> Schedule:
    known: dict[str, Any] = {"status": "paused", "paused_by": approval.APPROVAL, "next_slot_at": None}
    return a_schedule(**{**known, **fields})


def test_a_new_schedule_that_waits_for_approval_shows_its_next_slots() -> None:
    plan = a_plan(every="1h")
    creation = create(plan, "a1b2c3d4e5f6", NINE, is_enabled=False, paused_by=approval.APPROVAL)
    found = approval.request_for_new(creation, plan, NINE, actor="ada")
    assert approval.is_waiting(found.state) and found.state.status_reason == approval.WAITS
    asked = found.events[-1]
    assert (asked.type, asked.actor, len(asked.detail["next"])) == ("schedule.approval_requested", "ada", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("schedule", "types"),
    [
        (
            a_schedule(every="1h", next_slot_at=at("10:00")),
            ["schedule.paused", "schedule.approval_requested"],
        ),
        (a_schedule(status="invalid", next_slot_at=None), ["schedule.paused", "schedule.approval_requested"]),
        (a_schedule(status="dead", next_slot_at=None), ["schedule.approval_requested"]),
    ],
)
def test_an_edit_that_needs_approval_stops_the_schedule(schedule: Schedule, types: list[str]) -> None:
    decision = approval.request(schedule, NINE, Shared(), actor="ada")
    assert [event.type for event in decision.events] == types
    assert decision.after.paused_by == approval.APPROVAL


def test_the_request_of_an_agent_shows_its_prompt_and_a_webhook_no_slots() -> None:
    agent = a_schedule(on="webhook", target=Target("agent", '{"prompt": "look around"}'))
    asked = approval.request(agent, NINE, Shared(), actor=None).events[-1]
    assert (asked.detail["prompt"], asked.detail["next"]) == ("look around", [])
    chain = approval.request(a_chain("5m"), NINE, Shared(), actor=None).events[-1]
    assert len(chain.detail["next"]) == 1  # type: ignore[arg-type]


def test_an_approval_resumes_the_revision_that_was_looked_at() -> None:
    decision = approval.approve(waiting(every="1h"), NINE, Shared(), revision=1, by="ada")
    assert decision.after.status == "active"
    assert decision.events[0].type == "schedule.approved"
    with pytest.raises(PreconditionError):
        approval.approve(waiting(every="1h"), NINE, Shared(), revision=2, by="ada")


def test_an_approval_of_a_schedule_that_ended_leaves_it_ended() -> None:
    decision = approval.approve(waiting(status="dead"), NINE, Shared(), revision=1, by="ada")
    assert (decision.after.status, decision.after.paused_by) == ("dead", None)


def test_a_declined_schedule_is_deleted_and_only_one_that_waits_can_be_declined() -> None:
    decision = approval.decline(waiting(), NINE, Shared(), note="no", by="ada")
    assert decision.events[0].type == "schedule.declined"
    with pytest.raises(StatusError):
        approval.decline(a_schedule(every="1h"), NINE, Shared(), note=None, by="ada")


def test_what_reaches_the_run_or_decides_when_it_is_needs_a_new_look() -> None:
    old = a_plan(every="1h").definition
    assert not approval.needs_new_look(old, a_plan(every="1h").definition)
    changes: list[dict[str, Any]] = [{"name": "other"}, {"description": "other"}, {"if_running": "allow"}]
    for change in (*changes, {"every": "2h"}):
        assert approval.needs_new_look(old, a_plan(**{"every": "1h", **change}).definition)


# -- overdue --


def test_a_slot_is_overdue_after_the_gap_to_the_next_one_and_at_least_a_minute() -> None:
    assert overdue_since(a_schedule(every="1h", next_slot_at=NINE)) == NINE + HOUR
    assert overdue_since(a_schedule(every="10s", next_slot_at=NINE)) == NINE + MINUTE
    assert overdue_since(a_chain("5m", next_slot_at=NINE)) == NINE + MINUTE
    assert overdue_since(a_one_shot(NINE)) == NINE + MINUTE
    assert overdue_since(a_schedule(next_slot_at=None)) is None


def test_a_held_slot_is_overdue_only_when_it_waits_for_a_key() -> None:
    held: dict[str, Any] = {
        "held_slot_at": NINE,
        "held_due_at": NINE,
        "held_since": NINE,
        "held_reason": "at_capacity",
    }
    schedule = a_schedule(every="1h", held_key="capacity:g", **held)
    assert held_too_long_since(schedule) == NINE + HOUR
    assert held_too_long_since(a_schedule(every="1h", **held)) is None
    event = overdue_event(schedule, NINE, NINE + HOUR, NINE + 2 * HOUR)
    assert (event.reason, event.detail["due_at"]) == ("at_capacity", NINE)
    assert overdue_event(a_schedule(every="1h", next_slot_at=NINE), NINE, NINE, NINE).reason is None


# -- links --


def test_a_schedule_has_links_for_its_slot_its_release_and_the_end_of_its_pause() -> None:
    active = a_schedule(every="1h", next_slot_at=NINE, release_at=NINE + MINUTE)
    assert [link.at for link in links.links_of(active, ())] == [NINE, NINE + MINUTE]
    paused = a_schedule(status="paused", next_slot_at=None)
    assert links.links_of(paused, ()) == links.links_of(None, ()) == []
    resuming = a_schedule(status="paused", next_slot_at=None, resume_at=NINE)
    assert [link.at for link in links.links_of(resuming, ())] == [NINE]
    assert links.links_of(a_schedule(status="done", next_slot_at=None), ()) == []
    assert links.links_of(a_schedule(every="1h", next_slot_at=NINE, queue="jobs@program"), ()) == []


def test_the_first_job_that_waits_has_a_link_and_runs_first() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE)
    early = a_job(schedule, 1, status="queued", slot_at=at("07:00"), ready_at=NINE + SECOND)
    late = a_job(schedule, 2, status="queued", slot_at=at("08:00"), ready_at=NINE)
    found = links.links_of(schedule, [early, late, a_job(schedule, 3)])
    assert [(link.at, link.is_slot) for link in found] == [(NINE, True), (NINE, False)]
    assert links.next_ready([early, late], NINE + SECOND) == early
    assert links.next_ready([early, late], NINE) == late
    assert links.next_ready([], NINE) is None


def test_what_may_not_begin_is_tried_again_at_a_shared_instant() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE)
    job = a_job(schedule, status="queued", ready_at=NINE)
    assert links.later_link(job, NINE + SECOND).at == NINE + links.LATER
    assert links.look_again_link(schedule, NINE + SECOND).at == NINE + 2 * links.LATER


# -- charges --


def test_firings_of_a_token_are_counted_and_refused_beyond_its_limit() -> None:
    shared, budget = Shared(), Budget("k", per_hour=2)
    schedule = a_schedule(every="1h", next_slot_at=NINE)

    def charge(budgets: list[Budget], count: int, now: int) -> None:
        jobs = [*trigger(schedule, now, Shared()).jobs] * count
        charge_caller(shared, Attempt("a", "u", None), jobs, schedule.definition, budgets, now=now)

    charge([budget, budget], 0, NINE)
    charge([budget], 2, NINE)
    with pytest.raises(FiringLimitError):
        charge([budget], 1, NINE)
    with pytest.raises(LimitError, match="take fewer"):
        charge([budget], 3, NINE + HOUR)


def test_only_budgets_of_tokens_are_those_of_its_makers() -> None:
    of_token = Budget(f"{TOKEN_BUDGET}tok_1", per_hour=1)
    assert makers_budgets(a_plan(budgets=(of_token, a_budget(per_hour=1))).definition) == (of_token,)


# -- the check of a schedule --


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (a_schedule(every="1h", next_slot_at=NINE), None),
        (a_schedule(on="webhook"), "unsupported_type"),
        (a_schedule(status="paused", next_slot_at=None), "disabled"),
        (a_schedule(every="1h", next_slot_at=NINE, outstanding=1), "already_running"),
        (a_schedule(every="1h", next_slot_at=NINE, capacity=a_capacity(1, key="full")), "at_capacity"),
        (a_schedule(every="1h", next_slot_at=NINE + SECOND), "not_due"),
        (a_schedule(every="1h", next_slot_at=NINE, only_between="10:00-11:00"), "outside_window"),
        (a_schedule(every="1h", next_slot_at=NINE, breaker=a_breaker_rule(key="broken")), "circuit_open"),
        (a_schedule(every="1h", next_slot_at=NINE, budgets=(a_budget(per_hour=1, key="spent"),)), "budget"),
        (a_schedule(every="1h", next_slot_at=NINE, guard=a_guard(1, key="full")), "outstanding_limit"),
    ],
)
def test_a_check_names_the_first_reason_that_keeps_a_schedule_from_firing(
    schedule: Schedule, reason: str | None
) -> None:
    limits = {"full": Limit("full", 1, 1), "spent": Limit("spent").fired(NINE)}
    shared = Shared(limits, {"broken": Breaker("broken", "open", 3, NINE)})
    assert check_schedule(schedule, NINE, shared) == (reason is None, reason)


# -- by hand --


def test_a_rerun_is_a_manual_job_for_the_same_slot_with_the_same_payload() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE)
    job = a_job(schedule, status="failed", payload='{"a": 1}')
    decision = rerun(schedule, job, NINE, Shared(), actor="ada")
    (again,) = decision.jobs
    assert (again.origin, again.slot_at, again.payload) == ("manual", job.slot_at, '{"a": 1}')
    assert [(event.type, event.detail["of"]) for event in decision.events] == [("job.rerun", job.job_id)]


def test_a_rerun_beside_a_running_job_may_be_refused_and_a_trigger_names_its_actor() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE)
    busy = with_jobs(schedule, a_job(schedule))
    refused = rerun(busy, a_job(schedule), NINE, Shared(), if_running="skip")
    assert (refused.refusal, refused.jobs) == ("already_running", [])
    assert trigger(schedule, NINE, Shared(), actor="ada").events[0].actor == "ada"


# -- what is to come --


def test_the_slots_to_come_end_with_the_schedule_and_begin_where_they_are_asked_for() -> None:
    ending = a_schedule(every="1h", next_slot_at=NINE, end_at=NINE + 3 * HOUR, jitter_ms=1_000)
    assert len(list(coming_slots(ending, Conditions()))) == 3
    later = list(coming_slots(ending, Conditions(), start=NINE + HOUR + 5 * SECOND))
    assert [slot.slot_at for slot in later] == [NINE + 2 * HOUR]
    just_due = list(coming_slots(ending, Conditions(), start=NINE + HOUR + SECOND))
    assert just_due[-1].slot_at == NINE + 2 * HOUR
    over = a_one_shot(NINE, status="paused", next_slot_at=None, resume_at=NINE + HOUR)
    assert list(coming_slots(over, Conditions())) == []


def test_a_breaker_that_probes_leaves_the_fate_of_a_slot_to_its_probe() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE, breaker=a_breaker_rule(key="k"))
    probing = Conditions(NINE, Shared(breakers={"k": Breaker("k", "half_open", 3, NINE)}))
    assert next(coming_slots(schedule, probing)).outlook.fate == "fires"


def test_very_many_firings_are_listed_up_to_an_instant() -> None:
    schedule = a_schedule(every="1m", next_slot_at=NINE)
    found = firings(schedule.plan, schedule.state, NINE + 20_000 * MINUTE)
    assert (len(found.instants), found.until) == (MOST, NINE + MOST * MINUTE)


# -- jobs that begin --


def test_a_message_in_a_queues_installation_needs_no_worker() -> None:
    schedule = a_schedule(every="1h", target=Target(MESSAGE))
    job = a_job(schedule, status="queued", ready_at=NINE)
    plans = {(job.uid, job.revision): schedule.plan}
    chosen = hand_over([job], plans, {}, Shared(), OnTheirWay(), limit=1, now=NINE)
    assert (chosen.given, chosen.messages) == ([], [job])


def test_a_retry_counts_towards_the_limits_of_its_token_when_it_begins() -> None:
    budget = Budget(f"{TOKEN_BUDGET}tok_1", per_hour=1)
    schedule = a_schedule(every="1h", budgets=(budget,))
    job = a_job(schedule, status="queued", origin="retry", retry=1, ready_at=NINE, fence=0)
    plans, shared = {(job.uid, job.revision): schedule.plan}, Shared()
    assert claim([job], plans, {}, shared, node="n", limit=1, now=NINE).taken
    again = claim([job], plans, {}, shared, node="n", limit=1, now=NINE)
    ((refused, refusal),) = again.refused
    assert (again.taken, refused, refusal.refill_at) == ([], job, NINE + HOUR)


# -- explanations --


def evidence(schedule: Schedule, **fields: Any) -> Evidence:
    revision = Revision(1, NINE - HOUR, schedule.plan)
    known: dict[str, Any] = {"slot_at": NINE, "due_at": NINE, "revision": revision, "state": schedule.state}
    return Evidence(**{**known, "present": schedule.plan, **fields})


def test_a_slot_that_nobody_decides_is_explained_by_the_last_sign_of_a_scheduler() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE)
    late = Conditions(now=NINE + 10 * MINUTE)
    none = explain_slot(evidence(schedule, conditions=late)).sentence
    assert "no scheduler has run on this database" in none
    busy = explain_slot(evidence(schedule, conditions=late, last_sign_at=late.now)).sentence
    assert "a scheduler is running, and behind" in busy


def test_a_slot_beyond_retention_is_explained_so() -> None:
    schedule = a_schedule(every="1h", next_slot_at=NINE + 5 * HOUR, last_slot_at=NINE + 4 * HOUR)
    conditions = Conditions(now=NINE + 4 * HOUR + MINUTE)
    found = explain_slot(evidence(schedule, conditions=conditions, retained_from=NINE + HOUR)).sentence
    assert "it lies beyond retention" in found

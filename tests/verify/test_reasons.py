"""The checker judges reasons: what the record shows to be false is refused, what it can be passes (L1).

Each case is one entry of one schedule, with what else is on record. It begins at 22:00 UTC on a Saturday.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from everwhen.model.events import Event, EventType
from everwhen.model.history import Circumstances, History, Recorded, Revision, ScheduleHistory
from everwhen.model.instants import DAY, HOUR, MINUTE, SECOND
from everwhen.model.job import Job
from everwhen.model.limits import BreakerState, Transition, TransitionReason
from everwhen.model.node import Node
from everwhen.model.policy import BreakerRule, Budget, Capacity, Guard
from everwhen.model.schedule import Definition, Plan, QuietHoursPolicy, State, Target
from everwhen.timetable.civil_time import zone
from everwhen.timetable.cron import parse_cron
from everwhen.timetable.trigger import Cron, Every, Once, OnRequest
from everwhen.timetable.windows import QuietHours, QuietWindow, Window
from everwhen.verify.circumstances import Intervals
from everwhen.verify.ledger import LedgerReport, check_ledger

UID = "a1b2c3d4e5f6"
START = 1_774_735_200 * SECOND
SLOT = START + 10 * MINUTE
EVERY_MINUTE = Every(60, "1m")
BREAKER = BreakerRule("b", 3, 30 * MINUTE)
BUDGET = Budget("budget:agent:a", per_day=10)


def quiet(between: tuple[int, int], action: Any = "skip", dates: Any = ()) -> QuietHoursPolicy:
    hours = QuietHours(zone("UTC"), (QuietWindow(Window(*between)),) if between[1] else (), dates)
    return QuietHoursPolicy("nights", "nights", hours, action)


NIGHT = quiet((22 * 60, 23 * 60))
DEFERRED = quiet((22 * 60, 23 * 60), "defer")
FOR_EVER = quiet((0, 0), "defer", ((START // DAY, START // DAY + 500),))


def a_plan(trigger: Any = EVERY_MINUTE, policy: QuietHoursPolicy | None = None, **fields: Any) -> Plan:
    if policy is not None:
        fields["quiet_hours_id"] = policy.policy_id
    return Plan("s", Definition(trigger, zone("UTC"), Target("command"), **fields), policy)


def cron(text: str) -> Cron:
    return Cron(parse_cron(text))


def an_event(kind: EventType, at: int, slot_at: int | None = None, **fields: Any) -> Event:
    return Event(kind, at, "s", UID, slot_at=slot_at, **fields)


def skipped(reason: str, at: int = SLOT, slot_at: int = SLOT, **detail: Any) -> Event:
    return an_event("schedule.skipped", at, slot_at, reason=reason, detail=detail)


def missed(reason: str, at: int = SLOT + HOUR, slot_at: int = SLOT, **detail: Any) -> Event:
    return an_event("schedule.missed", at, slot_at, reason=reason, detail=detail)


def a_range(event: Event, last: int, count: int) -> Event:
    assert event.slot_at is not None
    return event._replace(slot_count=count, detail={**event.detail, "first": event.slot_at, "last": last})


def a_job(created_at: int, ended_at: int | None, **fields: Any) -> Job:
    values: dict[str, Any] = {
        **dict.fromkeys(Job._fields),
        "row_id": 1,
        "job_id": f"sched-{UID}-n1-rc0",
        "uid": UID,
        "schedule_id": "s",
        "revision": 1,
        "number": 1,
        "retry": 0,
        "origin": "schedule",
        "status": "running" if ended_at is None else "succeeded",
        "slot_at": created_at,
        "due_at": created_at,
        "attempt": 1,
        "rescues": 0,
        "queue": "default",
        "is_ready": True,
        "is_counted": True,
        "is_probe": False,
        "created_at": created_at,
        "started_at": created_at,
        "ended_at": ended_at,
        "released_at": ended_at,
        "node": "n",
        "fence": 1,
        "cancel_requested": False,
    }
    return Job(**{**values, **fields})


def a_retry(created_at: int, not_before: int, ended_at: int | None = None, **fields: Any) -> Job:
    known: dict[str, Any] = {"origin": "retry", "retry": 1, "not_before": not_before, "status": "queued"}
    known |= {"started_at": None, "node": None, "fence": 0}
    return a_job(created_at, ended_at, **{**known, **fields})


def moved(
    at: int, to: BreakerState, before: BreakerState = "closed", reason: TransitionReason = "failure_threshold"
) -> Transition:
    return Transition("b", before, to, reason, 3, None, at)


def reached(at: int, until: int, key: str = BUDGET.key) -> Recorded:
    return Recorded(1, Event("budget.reached", at, detail={"key": key, "refill_at": until}))


def started(at: int, heard_at: int | None) -> Recorded:
    return Recorded(1, Event("scheduler.started", at, detail={"last_heartbeat_at": heard_at}))


def a_node(started_at: int, heartbeat_at: int, **fields: Any) -> Node:
    return Node("n", "0", True, True, started_at, heartbeat_at, **fields)


@dataclass(frozen=True)
class Entry:
    """One entry, and what else is on record."""

    event: Event
    plan: Plan = field(default_factory=a_plan)
    jobs: Sequence[Job] = ()
    around: Circumstances | None = field(default_factory=Circumstances)
    after: Sequence[Event] = ()
    before: Sequence[Event] = ()
    system: Sequence[Recorded] = ()
    revisions: Sequence[Plan] = ()
    state: State | None = None
    tolerance: int = 0
    retained_from: int = 0

    def report(self) -> LedgerReport:
        created = an_event("schedule.created", START, detail={"revision": 1, "anchor_at": START})
        events = [
            Recorded(number, event)
            for number, event in enumerate([created, *self.before, self.event, *self.after], 1)
            if event.type != "scheduler.stopped"  # none but the row
        ]
        plans = [self.plan, *self.revisions]
        revisions = [Revision(number, START, plan) for number, plan in enumerate(plans, 1)]
        history = ScheduleHistory(UID, "s", revisions, events, list(self.jobs), self.state)
        record = History([history], self.system, retained_from=self.retained_from, circumstances=self.around)
        return check_ledger(record, START + DAY, tolerance=self.tolerance)

    def refusals(self) -> list[str]:
        return [fault.sentence.rpartition(", and ")[2] for fault in self.report().of("reason")]


QUIET_SINCE = Circumstances(policies={"nights": START - DAY})
OPEN_WINDOW: dict[str, Any] = {"only_between": Window(21 * 60, 23 * 60)}
SHUT_WINDOW: dict[str, Any] = {"only_between": Window(21 * 60, 22 * 60)}
OPENED = Circumstances(transitions=[moved(SLOT - MINUTE, "open")])
PAUSED = an_event("schedule.paused", SLOT, reason="paused")
EDITED = an_event("schedule.updated", SLOT, detail={"revision": 2, "anchor_at": SLOT + MINUTE})
LATE = SLOT + HOUR
STEPPED = Event("scheduler.clock_stepped", SLOT, detail={"from": SLOT + MINUTE, "to": SLOT - MINUTE})
TWICE = Recorded(1, STEPPED)
SPENT = Circumstances(reached=[reached(SLOT - MINUTE, SLOT + 2 * HOUR)])
RUNNING = a_job(SLOT - 2 * MINUTE, None)


def an_hourly(**fields: Any) -> Plan:
    return a_plan(cron("10 * * * *"), **fields)


def held(reason: str = "quiet_hours", at: int = SLOT, **detail: Any) -> dict[str, Any]:
    return {"held": reason, "held_at": at, **detail}


TRUE: Mapping[str, Entry] = {
    "outside_window": Entry(skipped("outside_window"), a_plan(**SHUT_WINDOW)),
    "excluded_day": Entry(skipped("excluded_day"), a_plan(not_on=0b1000000)),
    "quiet_hours": Entry(skipped("quiet_hours"), a_plan(policy=NIGHT), around=QUIET_SINCE),
    "closed when it was decided": Entry(
        skipped("outside_window", START + HOUR + 10 * SECOND, START + 59 * MINUTE),
        a_plan(cron("59 * * * *"), only_between=Window(0, 23 * 60), misfire_grace=2 * MINUTE),
        around=None,
    ),
    "closed when the hold was decided": Entry(
        skipped("outside_window", LATE + HOUR, **held(opening_at=START + HOUR)),
        an_hourly(policy=DEFERRED, only_between=Window(22 * 60, 24 * 60)),
        around=QUIET_SINCE,
    ),
    "no opening in 400 days": Entry(skipped("quiet_hours"), a_plan(policy=FOR_EVER), around=QUIET_SINCE),
    "a gathered run in a closed time": Entry(
        a_range(skipped("quiet_hours", LATE), SLOT + 50 * SECOND, 6),
        a_plan(Every(10, "10s"), NIGHT),
        around=QUIET_SINCE,
    ),
    "the first of a gathered run was late": Entry(
        a_range(skipped("quiet_hours", LATE, START - 10 * SECOND), START + 10 * SECOND, 3),
        a_plan(Every(10, "10s"), NIGHT),
        around=QUIET_SINCE._replace(policies={"nights": START - 2 * DAY}),
    ),
    "superseded": Entry(
        skipped("superseded", SLOT + HOUR, **held("at_capacity")), an_hourly(capacity=Capacity("c", 1))
    ),
    "superseded, and never held": Entry(
        skipped("superseded", LATE), a_plan(policy=DEFERRED), around=QUIET_SINCE
    ),
    "paused": Entry(skipped("paused"), after=[PAUSED]),
    "paused by its deletion": Entry(skipped("paused"), after=[an_event("schedule.deleted", SLOT)]),
    "paused by the end of a span": Entry(
        skipped("paused"), system=[Recorded(90, Event("system.resumed", SLOT))]
    ),
    "paused by a restore": Entry(
        skipped("paused"),
        system=[Recorded(90, Event("system.restored", SLOT, detail={"backed_up_at": SLOT - 1}))],
    ),
    "edited": Entry(skipped("edited"), after=[EDITED], revisions=[a_plan(Every(120, "2m"))]),
    "edited and over": Entry(
        skipped("edited"),
        after=[an_event("schedule.done", SLOT, reason="in_the_past"), EDITED],
        revisions=[a_plan(Every(120, "2m"))],
    ),
    "circuit_open": Entry(skipped("circuit_open"), a_plan(breaker=BREAKER), around=OPENED),
    "circuit_open during a probe": Entry(
        skipped("circuit_open"),
        a_plan(breaker=BREAKER),
        around=Circumstances(
            transitions=[
                moved(START - HOUR, "open"),
                moved(SLOT - MINUTE, "half_open", "open", "cooldown_elapsed"),
            ]
        ),
    ),
    "circuit_open after a probe that failed": Entry(
        skipped("circuit_open"),
        a_plan(breaker=BREAKER),
        around=Circumstances(
            transitions=[
                moved(START - HOUR, "open"),
                moved(SLOT - 2 * MINUTE, "half_open", "open", "cooldown_elapsed"),
                moved(SLOT - MINUTE, "open", "half_open", "probe_failed"),
            ]
        ),
    ),
    "circuit_open by what came before the record": Entry(
        skipped("circuit_open"),
        a_plan(breaker=BREAKER),
        around=Circumstances(transitions=[moved(SLOT + MINUTE, "half_open", "open", "cooldown_elapsed")]),
    ),
    "already_running": Entry(skipped("already_running"), jobs=[RUNNING]),
    "already_running, as late as a slot may be": Entry(
        skipped("already_running", SLOT + 30 * SECOND), jobs=[RUNNING]
    ),
    "already_running beside a manual job": Entry(
        skipped("already_running"), jobs=[a_job(SLOT - MINUTE, SLOT + MINUTE, origin="manual")]
    ),
    "already_running, a retry": Entry(
        skipped("already_running"),
        jobs=[a_retry(START, SLOT - MINUTE, status="running", started_at=SLOT - MINUTE, node="n", fence=1)],
    ),
    "already_running, claimed twice": Entry(
        skipped("already_running"),
        jobs=[a_retry(START, SLOT - MINUTE, LATE, started_at=SLOT + MINUTE, node="n", fence=3)],
    ),
    "already_running, held before": Entry(
        skipped("already_running", SLOT + 10 * MINUTE, **held("at_capacity")),
        an_hourly(capacity=Capacity("c", 1)),
        jobs=[RUNNING],
    ),
    "a gathered run of already_running": Entry(
        a_range(skipped("already_running", LATE), SLOT + 90 * SECOND, 10),
        a_plan(Every(10, "10s")),
        jobs=[RUNNING],
    ),
    "retrying": Entry(skipped("retrying"), jobs=[a_retry(START, SLOT + MINUTE)]),
    "retrying, begun since": Entry(
        skipped("retrying"),
        jobs=[a_retry(START, SLOT, LATE, status="succeeded", started_at=SLOT, node="n", fence=1)],
    ),
    "queue_full": Entry(
        skipped("queue_full"),
        a_plan(if_running="queue", queue_limit=2),
        jobs=[a_job(START, None, started_at=None, status="queued") for _ in range(2)],
    ),
    "budget": Entry(skipped("budget"), a_plan(budgets=(BUDGET,)), around=SPENT),
    "budget, behind a window that is caught up": Entry(
        skipped("budget"), a_plan(budgets=(BUDGET,), catch_up="run_all"), jobs=[RUNNING], around=SPENT
    ),
    "down": Entry(
        missed("down"),
        around=Circumstances(
            nodes=[a_node(START - DAY, START), a_node(LATE - MINUTE, LATE)], signs=[started(LATE, START)]
        ),
    ),
    "down beside a worker": Entry(
        missed("down"), around=Circumstances(nodes=[a_node(START - DAY, LATE)._replace(is_scheduler=False)])
    ),
    "down by a step of the clock": Entry(
        missed("down"),
        system=[Recorded(1, Event("scheduler.clock_stepped", LATE, detail={"from": START, "to": LATE}))],
        around=Circumstances(nodes=[a_node(START - DAY, LATE)]),
    ),
    "down beside a frozen node": Entry(
        missed("down"),
        around=Circumstances(
            nodes=[a_node(START - DAY, LATE + HOUR)],
            signs=[Recorded(1, Event("node.lost", LATE, detail={"node": "n"}))],
        ),
    ),
    "down, and another one started": Entry(
        missed("down"),
        around=Circumstances(nodes=[a_node(START - DAY, LATE + HOUR)], signs=[started(LATE, START)]),
    ),
    "late": Entry(missed("late"), around=Circumstances(nodes=[a_node(START - DAY, LATE)])),
    "late by a node that was cut off": Entry(
        missed("late"),
        around=Circumstances(nodes=[a_node(START - DAY, LATE)], signs=[started(LATE - MINUTE, START)]),
    ),
    "missed without an opening": Entry(
        missed("down", SLOT + DAY),
        a_plan(
            Every(86_400, "1d"),
            quiet((0, 0), dates=((START // DAY + 1, START // DAY + 500),)),
            catch_up="run_once",
        ),
        around=QUIET_SINCE,
    ),
    "missed after a deferral": Entry(missed("down", LATE), a_plan(policy=DEFERRED), around=QUIET_SINCE),
    "a range of missed slots": Entry(
        a_range(missed("down", START + 3 * HOUR), START + 2 * HOUR - MINUTE, 110),
        a_plan(only_between=Window(22 * 60, 24 * 60)),
    ),
    "a range of missed slots, one of them deferred": Entry(
        a_range(missed("down", START + 3 * HOUR), START + 2 * HOUR - MINUTE, 61),
        a_plan(policy=DEFERRED),
        around=QUIET_SINCE,
    ),
    "catch_up_limit": Entry(
        missed("catch_up_limit"), a_plan(catch_up="run_all", catch_up_limit=10), around=None
    ),
    "missed for circuit_open, cooled": Entry(
        missed("circuit_open"),
        a_plan(catch_up="run_once", breaker=BREAKER),
        around=Circumstances(transitions=[moved(START, "open")]),
    ),
    "missed for budget": Entry(
        missed("budget"), a_plan(catch_up="run_once", budgets=(BUDGET,)), around=SPENT
    ),
    "missed for its share of the budget": Entry(
        missed("budget"), a_plan(catch_up="run_once", budgets=(BUDGET,)), jobs=[a_job(START, START)]
    ),
    "a request to a schedule that is paused": Entry(
        skipped("paused", origin="webhook"), a_plan(OnRequest("webhook")), before=[PAUSED]
    ),
    "a request while the system is paused": Entry(
        skipped("paused", origin="webhook"),
        a_plan(OnRequest("webhook")),
        system=[Recorded(1, Event("system.paused", START))],
    ),
    "a request after the end": Entry(
        skipped("paused", origin="webhook"), a_plan(OnRequest("webhook"), end_at=START // SECOND + 60)
    ),
    "a request beside a job": Entry(
        skipped("already_running", origin="webhook"), a_plan(OnRequest("webhook")), jobs=[RUNNING]
    ),
    "a request to a full queue": Entry(
        skipped("queue_full", origin="chat"),
        a_plan(OnRequest("chat"), if_running="queue", queue_limit=1),
        jobs=[a_job(START, None, started_at=None, status="queued")],
    ),
    "held by what an edit removed": Entry(
        skipped("paused", **held("at_capacity")),
        a_plan(capacity=Capacity("c", 1)),
        before=[an_event("schedule.updated", SLOT, detail={"revision": 2})],
        after=[PAUSED],
        revisions=[a_plan()],
    ),
    "held, of an earlier release": Entry(
        skipped("paused", held="quiet_hours"), a_plan(policy=DEFERRED), after=[PAUSED], around=QUIET_SINCE
    ),
    "a chain": Entry(
        skipped("already_running"),
        a_plan(interval_from="completion"),
        jobs=[a_job(START, None, origin="manual")],
    ),
    "nobody caught up what nobody may": Entry(
        missed("down"), a_plan(Once(SLOT // SECOND, "at", "then"), catch_up="skip")
    ),
}


@pytest.mark.parametrize("name", TRUE)
def test_a_reason_that_can_be_true_passes(name: str) -> None:
    report = TRUE[name].report()
    assert [fault.sentence for fault in report.of("reason")] == []
    assert report.reasons > 0 and (report.unjudged == 0 or TRUE[name].around is None)


FALSE: Mapping[str, tuple[Entry, str]] = {
    "outside_window": (Entry(skipped("outside_window"), a_plan(**OPEN_WINDOW)), "that did not close it"),
    "excluded_day": (Entry(skipped("excluded_day"), a_plan(not_on=0b1)), "that did not close it"),
    "quiet_hours": (
        Entry(skipped("quiet_hours", LATE, LATE), a_plan(policy=NIGHT), around=QUIET_SINCE),
        "that did not close it",
    ),
    "closed when it was decided, and missed by then": (
        Entry(skipped("outside_window", LATE, SLOT), an_hourly(only_between=Window(0, 23 * 60))),
        "that did not close it",
    ),
    "closed when due, of a slot that was held": (
        Entry(skipped("quiet_hours", LATE, **held()), an_hourly(policy=DEFERRED), around=QUIET_SINCE),
        "that did not close it",
    ),
    "the issue's": (
        Entry(
            skipped("outside_window", SLOT + 20 * MINUTE, **held()),
            an_hourly(policy=DEFERRED, **OPEN_WINDOW),
            around=QUIET_SINCE,
        ),
        "that did not close it",
    ),
    "a slot that was to be held": (
        Entry(skipped("quiet_hours"), a_plan(policy=DEFERRED), around=QUIET_SINCE),
        "it was to be held until the opening",
    ),
    "a gathered run outside closed times": (
        Entry(
            a_range(skipped("quiet_hours", START + 3 * HOUR, LATE), LATE + MINUTE, 7),
            a_plan(Every(10, "10s"), NIGHT),
            around=QUIET_SINCE,
        ),
        "that did not close it",
    ),
    "a range with too many closed slots": (
        Entry(
            a_range(skipped("quiet_hours", START + DAY), START + DAY + 5 * MINUTE, 200),
            a_plan(policy=NIGHT),
            around=QUIET_SINCE,
        ),
        "only 57 slots of its range can have that reason",
    ),
    "superseded before the next slot": (
        Entry(
            skipped("superseded", SLOT + HOUR - 1, **held("at_capacity")),
            an_hourly(capacity=Capacity("c", 1)),
        ),
        "the next slot was not due",
    ),
    "superseded, and nothing would have held it": (
        Entry(skipped("superseded")),
        "nothing had held it, or would have",
    ),
    "superseded without a next slot": (
        Entry(skipped("superseded"), a_plan(Once(SLOT // SECOND, "at", "then"))),
        "no slot follows it",
    ),
    "superseded, a chain": (
        Entry(skipped("superseded"), a_plan(interval_from="completion")),
        "no slot follows it",
    ),
    "superseded after its opening": (
        Entry(skipped("superseded", LATE), an_hourly(policy=DEFERRED), around=QUIET_SINCE),
        "its opening came before the next slot",
    ),
    "paused": (Entry(skipped("paused")), "nothing had stopped the schedule"),
    "paused, another time": (
        Entry(skipped("paused"), after=[PAUSED._replace(at=SLOT + 1)]),
        "nothing had stopped the schedule",
    ),
    "paused, and the system went on earlier": (
        Entry(skipped("paused"), system=[Recorded(1, Event("system.resumed", SLOT - 1))]),
        "nothing had stopped the schedule",
    ),
    "edited": (Entry(skipped("edited"), after=[PAUSED]), "its times were not edited then"),
    "edited, and not the times": (
        Entry(
            skipped("edited"),
            after=[an_event("schedule.updated", SLOT, detail={"revision": 2})],
            revisions=[a_plan()],
        ),
        "its times were not edited then",
    ),
    "circuit_open": (
        Entry(
            skipped("circuit_open"),
            a_plan(breaker=BREAKER),
            around=Circumstances(
                transitions=[moved(START, "open"), moved(SLOT - 1, "closed", "half_open", "success")]
            ),
        ),
        "the breaker b was not open",
    ),
    "circuit_open, never opened": (
        Entry(skipped("circuit_open"), a_plan(breaker=BREAKER)),
        "the breaker b was not open",
    ),
    "circuit_open without a breaker": (
        Entry(skipped("circuit_open"), around=OPENED),
        "it has no circuit breaker",
    ),
    "circuit_open, and it was to probe": (
        Entry(
            skipped("circuit_open"),
            a_plan(breaker=BREAKER),
            around=Circumstances(transitions=[moved(SLOT - 30 * MINUTE, "open")]),
        ),
        "the breaker b was not open",
    ),
    "circuit_open after a probe that was cancelled, long ago": (
        Entry(
            skipped("circuit_open"),
            a_plan(breaker=BREAKER),
            around=Circumstances(
                transitions=[
                    moved(SLOT - HOUR, "open"),
                    moved(SLOT - 2 * MINUTE, "half_open", "open", "cooldown_elapsed"),
                    moved(SLOT - MINUTE, "open", "half_open", "probe_cancelled"),
                ]
            ),
        ),
        "the breaker b was not open",
    ),
    "already_running": (
        Entry(skipped("already_running"), jobs=[a_job(START, SLOT - 1)]),
        "no job of it was queued or running",
    ),
    "already_running, a backfill": (
        Entry(skipped("already_running"), jobs=[a_job(START, None, origin="backfill")]),
        "no job of it was queued or running",
    ),
    "already_running, only a retry that waits": (
        Entry(skipped("already_running"), jobs=[a_retry(START, SLOT + MINUTE)]),
        "no job of it was queued or running",
    ),
    "already_running, if_running allow": (
        Entry(skipped("already_running"), a_plan(if_running="allow"), jobs=[RUNNING]),
        "if_running is allow",
    ),
    "already_running, a minute and a moment after": (
        Entry(skipped("already_running"), jobs=[a_job(START, SLOT - MINUTE - 1)], tolerance=MINUTE),
        "no job of it was queued or running",
    ),
    "already_running, missed by then": (
        Entry(skipped("already_running", LATE), jobs=[RUNNING]),
        "it had been missed by then",
    ),
    "already_running, later than a slot may be": (
        Entry(skipped("already_running", SLOT + 30 * SECOND + 1), jobs=[RUNNING]),
        "it had been missed by then",
    ),
    "already_running in a closed time": (
        Entry(skipped("already_running"), a_plan(**SHUT_WINDOW), jobs=[RUNNING]),
        "outside_window comes first, which applied",
    ),
    "already_running, released in a closed time": (
        Entry(
            skipped("already_running", LATE, **held("at_capacity")),
            a_plan(cron("10 20 * * *"), capacity=Capacity("c", 1), **OPEN_WINDOW),
            jobs=[RUNNING],
        ),
        "outside_window comes first, which applied",
    ),
    "already_running behind a breaker": (
        Entry(skipped("already_running"), a_plan(breaker=BREAKER), jobs=[RUNNING], around=OPENED),
        "the breaker b was open, which comes first",
    ),
    "a gathered run with a gap": (
        Entry(
            a_range(skipped("already_running", LATE), SLOT + 90 * SECOND, 10),
            a_plan(Every(10, "10s")),
            jobs=[a_job(START, SLOT + 5 * SECOND), a_job(SLOT + 85 * SECOND, None)],
        ),
        "no job of it was queued or running",
    ),
    "retrying, and nothing waits": (Entry(skipped("retrying"), jobs=[RUNNING]), "no job of it was waiting"),
    "retrying, and one runs": (
        Entry(skipped("retrying"), jobs=[RUNNING, a_retry(START, SLOT + MINUTE)]),
        "a job of it was queued or running",
    ),
    "retrying, if_running queue": (
        Entry(skipped("retrying"), a_plan(if_running="queue"), jobs=[a_retry(START, LATE)]),
        "if_running is queue",
    ),
    "queue_full": (
        Entry(
            skipped("queue_full"),
            a_plan(if_running="queue", queue_limit=2),
            jobs=[RUNNING, a_job(START, None, started_at=None, status="queued")],
        ),
        "1 jobs of it were queued, of 2",
    ),
    "queue_full, if_running skip": (Entry(skipped("queue_full")), "if_running is skip"),
    "budget without one": (Entry(skipped("budget"), around=SPENT), "it has no budget"),
    "budget": (
        Entry(
            skipped("budget"),
            a_plan(budgets=(BUDGET,)),
            around=Circumstances(
                reached=[reached(START - DAY, START), reached(SLOT + 1, LATE), reached(START, LATE, "other")]
            ),
        ),
        "no limit of its budgets is on record as used up then",
    ),
    "budget that only alerts": (
        Entry(skipped("budget"), a_plan(budgets=(BUDGET._replace(on_reached="alert"),)), around=SPENT),
        "no limit of its budgets is on record as used up then",
    ),
    "budget, and a job runs": (
        Entry(skipped("budget"), a_plan(budgets=(BUDGET,)), jobs=[RUNNING], around=SPENT),
        "a job of it was queued or running, which comes first",
    ),
    "down": (
        Entry(missed("down"), around=Circumstances(nodes=[a_node(START - DAY, LATE)])),
        "a scheduler was alive",
    ),
    "late": (
        Entry(
            missed("late"),
            around=Circumstances(nodes=[a_node(START - DAY, START)], signs=[started(LATE, START)]),
        ),
        "no scheduler was alive",
    ),
    "missed on time": (Entry(missed("down", SLOT)), "it was on time and the newest"),
    "missed in a closed time": (
        Entry(missed("down"), a_plan(**SHUT_WINDOW)),
        "outside_window comes first, which applied",
    ),
    "missed, and its policy catches up": (
        Entry(missed("down"), a_plan(catch_up="run_once")),
        "its policy is to catch it up",
    ),
    "a range of too many missed slots": (
        Entry(
            a_range(missed("down", START + 3 * HOUR), START + 2 * HOUR - MINUTE, 62),
            a_plan(policy=DEFERRED),
            around=QUIET_SINCE,
        ),
        "only 61 slots of its range can have that reason",
    ),
    "catch_up_limit": (
        Entry(missed("catch_up_limit"), a_plan(catch_up="run_all", catch_up_limit=61)),
        "only 60 slots follow it, of the 61 that are caught up",
    ),
    "catch_up_limit, run_once": (
        Entry(missed("catch_up_limit"), a_plan(catch_up="run_once")),
        "its policy is run_once",
    ),
    "catch_up_limit, a chain": (
        Entry(missed("catch_up_limit"), a_plan(interval_from="completion", catch_up="run_all")),
        "a chain has one slot at a time",
    ),
    "missed for circuit_open, and nothing is caught up": (
        Entry(missed("circuit_open"), a_plan(breaker=BREAKER), around=OPENED),
        "its policy is to catch nothing up",
    ),
    "missed for circuit_open": (
        Entry(missed("circuit_open"), a_plan(breaker=BREAKER, catch_up="run_once")),
        "the breaker b was not open",
    ),
    "missed for budget": (
        Entry(
            missed("budget"),
            a_plan(catch_up="run_once", budgets=(BUDGET,)),
            jobs=[a_job(START - DAY, START - DAY)],
        ),
        "nothing counted for them that day",
    ),
    "missed for budget without one": (
        Entry(missed("budget"), a_plan(catch_up="run_once")),
        "it has no budget",
    ),
    "no reason of a skip": (Entry(skipped("down")), "that is not a reason of such an entry"),
    "no reason of a miss": (Entry(missed("paused")), "that is not a reason of such an entry"),
    "no reason of a request": (
        Entry(skipped("budget", origin="webhook"), a_plan(OnRequest("webhook"))),
        "that is not a reason of such an entry",
    ),
    "a request to an active schedule": (
        Entry(skipped("paused", origin="webhook"), a_plan(OnRequest("webhook"))),
        "nothing had stopped the schedule",
    ),
    "a request beside nothing": (
        Entry(skipped("already_running", origin="webhook"), a_plan(OnRequest("webhook"))),
        "no job of it was outstanding",
    ),
    "a request, if_running allow": (
        Entry(skipped("already_running", origin="chat"), a_plan(OnRequest("chat"), if_running="allow")),
        "if_running is allow",
    ),
    "held by a limit that it has not": (
        Entry(skipped("paused", **held("at_capacity")), a_plan(guard=Guard("g", 1)), after=[PAUSED]),
        "it has no such limit",
    ),
    "held by a guard that it has not": (
        Entry(
            skipped("paused", **held("outstanding_limit")), a_plan(capacity=Capacity("c", 1)), after=[PAUSED]
        ),
        "it has no such limit",
    ),
    "held, if_running queue": (
        Entry(
            skipped("paused", **held("outstanding_limit")),
            a_plan(guard=Guard("g", 1), if_running="queue"),
            after=[PAUSED],
        ),
        "if_running is queue",
    ),
    "held by no reason of a hold": (
        Entry(skipped("paused", **held("budget")), after=[PAUSED]),
        "that is not a reason of a hold",
    ),
    "held where nothing defers": (
        Entry(skipped("paused", **held("outside_window")), a_plan(**SHUT_WINDOW), after=[PAUSED]),
        "the schedule defers no such slot",
    ),
    "held in an open time": (
        Entry(
            skipped("paused", **held("outside_window")),
            a_plan(**OPEN_WINDOW, outside_window="defer"),
            after=[PAUSED],
        ),
        "that did not close it",
    ),
    "held before it was due": (
        Entry(
            skipped("paused", **held("at_capacity", SLOT - 1)),
            a_plan(capacity=Capacity("c", 1)),
            after=[PAUSED],
        ),
        "its hold does not lie between its due time and its entry",
    ),
    "an opening before the hold": (
        Entry(
            skipped("outside_window", LATE + HOUR, **held(at=SLOT + MINUTE, opening_at=SLOT)),
            an_hourly(policy=DEFERRED, only_between=Window(22 * 60, 24 * 60)),
            around=QUIET_SINCE,
        ),
        "its hold does not lie between its due time and its entry",
    ),
    "an opening in a closed time": (
        Entry(
            skipped("outside_window", LATE + HOUR, **held(opening_at=SLOT + MINUTE)),
            an_hourly(policy=DEFERRED, only_between=Window(22 * 60, 24 * 60)),
            around=QUIET_SINCE,
        ),
        "what it names is not an opening",
    ),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_reason_that_the_record_shows_to_be_false_is_refused(name: str) -> None:
    entry, sentence = FALSE[name]
    refusals = entry.refusals()
    assert refusals and set(refusals) == {sentence}


# -- what cannot be judged --

UNJUDGED: Mapping[str, Entry] = {
    "a policy that was written since": Entry(
        skipped("quiet_hours", LATE, LATE),
        a_plan(policy=NIGHT),
        around=Circumstances(policies={"nights": LATE + 1}),
    ),
    "a policy that is gone": Entry(skipped("quiet_hours", LATE, LATE), a_plan(quiet_hours_id="nights")),
    "superseded under such a policy": Entry(skipped("superseded"), a_plan(policy=DEFERRED)),
    "caught up under such a policy": Entry(
        missed("down", LATE), a_plan(policy=DEFERRED, catch_up="run_once")
    ),
    "held under such a policy": Entry(
        skipped("paused", LATE, LATE, **held(at=LATE)),
        a_plan(policy=DEFERRED),
        after=[PAUSED._replace(at=LATE)],
    ),
    "a breaker whose transitions are deleted": Entry(
        skipped("circuit_open"), a_plan(breaker=BREAKER), retained_from=START
    ),
    "an hour that the clock showed twice": Entry(skipped("already_running"), system=[TWICE]),
    "a miss in such an hour": Entry(missed("down"), system=[TWICE]),
    "a late one in such an hour": Entry(missed("late"), system=[TWICE]),
    "a share in such an hour": Entry(
        missed("budget"),
        a_plan(catch_up="run_once", budgets=(BUDGET,)),
        system=[TWICE._replace(event=TWICE.event._replace(detail={"from": LATE, "to": LATE - MINUTE}))],
    ),
    "a share of a budget of cost": Entry(
        missed("budget"), a_plan(catch_up="run_once", budgets=(BUDGET._replace(unit="USD"),))
    ),
    "what an earlier release wrote": Entry(skipped("outside_window"), around=Circumstances(judged_from=LATE)),
    "what retention has begun to delete": Entry(skipped("outside_window"), retained_from=SLOT + 1),
    "a breaker without its transitions": Entry(skipped("circuit_open"), a_plan(breaker=BREAKER), around=None),
    "a budget without its events": Entry(skipped("budget"), a_plan(budgets=(BUDGET,)), around=None),
    "down without the nodes": Entry(missed("down"), around=None),
    "late without the nodes": Entry(missed("late"), around=None),
}


@pytest.mark.parametrize("name", UNJUDGED)
def test_what_is_not_on_record_is_not_judged_and_counted_as_that(name: str) -> None:
    report = UNJUDGED[name].report()
    assert report.of("reason") == []
    assert (report.reasons, report.unjudged) == (0, 1) or "held" in name


def test_the_report_says_how_many_reasons_are_not_judged() -> None:
    report = Entry(
        a_range(skipped("budget"), SLOT + 2 * HOUR, 1_200), around=Circumstances(judged_from=LATE)
    ).report()
    assert report.unjudged_text == "; the reasons of 1,200 slots are not judged, too little is on record"
    assert LedgerReport(1, 1, 1, (), 0).unjudged_text == ""
    assert str(LedgerReport(1, 1, 1, (), 0, 0, 1)) == (
        "1 schedules, 1 slots, 1 jobs: every slot has exactly one entry; the reasons of 1 slot are not judged, "
        "too little is on record"
    )


# -- the row --


def a_row(**fields: Any) -> State:
    return State(1, UID, "s", None, 1, "active", START, LATE, LATE, **fields)


def on_the_row(state: State, plan: Plan, **fields: Any) -> Entry:
    return Entry(an_event("scheduler.stopped", START), plan, state=state, **fields)


HELD: dict[str, Any] = {"held_slot_at": SLOT, "held_due_at": SLOT, "held_since": SLOT}


@pytest.mark.parametrize(
    ("state", "plan", "refused"),
    [
        (a_row(**HELD, held_reason="quiet_hours"), a_plan(policy=DEFERRED), []),
        (
            a_row(**HELD, held_reason="outside_window"),
            a_plan(policy=DEFERRED),
            ["the schedule defers no such slot"],
        ),
        (a_row(**HELD, held_reason="at_capacity"), a_plan(capacity=Capacity("c", 1)), []),
        (a_row(**HELD, held_reason="at_capacity"), a_plan(), ["it has no such limit"]),
        (
            a_row(skip_reason="retrying", skip_first_at=SLOT, skip_last_at=SLOT + MINUTE, skip_count=2),
            a_plan(),
            ["no job of it was waiting"] * 2,
        ),
        (
            a_row(
                skip_reason="already_running",
                skip_held="at_capacity",
                skip_first_at=SLOT,
                skip_last_at=SLOT + MINUTE,
                skip_count=2,
            ),
            a_plan(capacity=Capacity("c", 1)),
            ["no job of it was queued or running"] * 2,
        ),
    ],
)
def test_what_is_only_on_the_row_is_judged_too(state: State, plan: Plan, refused: list[str]) -> None:
    entry = on_the_row(state, plan, around=QUIET_SINCE)
    assert entry.refusals() == refused
    assert entry.report().reasons > 0


def test_a_hold_is_not_judged_after_an_edit_or_under_a_policy_that_was_written_since() -> None:
    state = a_row(**HELD, held_reason="at_capacity")
    edit = an_event("schedule.updated", LATE, detail={"revision": 2})
    edited = on_the_row(state, a_plan(), before=[edit], revisions=[a_plan()])
    assert (edited.refusals(), edited.report().unjudged) == ([], 1)
    unknown = on_the_row(a_row(**HELD, held_reason="quiet_hours"), a_plan(policy=DEFERRED))
    assert (unknown.refusals(), unknown.report().unjudged) == ([], 1)


def test_an_entry_without_a_revision_or_a_slot_is_not_judged() -> None:
    nameless = skipped("paused")._replace(slot_at=None)
    assert Entry(nameless).report().reasons == 0
    assert (
        Entry(skipped("paused"), before=[an_event("schedule.updated", START, detail={"revision": 9})])
        .report()
        .reasons
        == 0
    )


def test_intervals_know_what_touches_and_what_covers() -> None:
    intervals = Intervals()
    assert not intervals.touch(0, 9) and not intervals.cover(1, 2) and intervals.count(0, 9) == 0
    intervals.add(5, 20)
    intervals.add(1, 3)
    intervals.add(6, 7)
    assert intervals.touch(3, 4) and not intervals.touch(4, 4) and intervals.touch(20, 30)
    assert not intervals.touch(21, 30)
    assert intervals.cover(8, 19) and not intervals.cover(8, 20) and not intervals.cover(5, 9)
    assert [intervals.count(*span) for span in ((0, 0), (1, 5), (6, 7), (21, 30))] == [0, 2, 2, 0]

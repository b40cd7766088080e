"""The runtime as a whole, breakers, tokens, quiet hours and the configuration, as they are answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from everwhen.model.cost import amount_number
from everwhen.model.host_fault import HostFault
from everwhen.model.instants import SECOND
from everwhen.model.limits import BreakerState, TransitionReason
from everwhen.model.node import Role
from everwhen.model.policy import OnReached, WhenClosed
from everwhen.model.schedule import QuietHoursPolicy
from everwhen.model.spending import BudgetKind, BudgetLevel, LimitName, Usage
from everwhen.model.token import AccessRole, ApprovalMode, TokenLimits, limits_to_json
from everwhen.operations import system
from everwhen.operations.access import key_of
from everwhen.runtime import DatabaseKind
from everwhen.timetable.civil_time import ORDINAL_OF_1970
from everwhen.timetable.windows import EVERY_WEEKDAY, weekday_names
from everwhen.views.shape import Object, View, When, each, field, when_text

if TYPE_CHECKING:
    from everwhen.model import limits as model
    from everwhen.model import token as model_token
    from everwhen.operations import apply, diff
    from everwhen.operations.context import Surroundings


# Circuit breakers as they are answered.


class Breaker(View):
    """While it is open, slots are skipped; the first one after a while is its probe."""

    key: str
    state: BreakerState
    failure_count: int = field(about="Failures in a row.")
    opened_at: When | None
    probes_at: When | None = field(
        about="When it is open: from then on its next slot is the probe. Null where no schedule has it."
    )
    probe_job_id: str | None


class Transition(View):
    from_state: BreakerState
    to_state: BreakerState
    reason: TransitionReason
    failure_count: int
    job_id: str | None
    at: When


class BreakerWithTransitions(Breaker):
    """A breaker and its latest changes, newest first."""

    transitions: list[Transition]


class BreakerList(View):
    items: list[Breaker]
    total: int


def breaker_to_json(breaker: model.Breaker, probe_times: Mapping[str, int]) -> Object:
    """Return a breaker; `probe_times` has those of open breakers by key."""
    return Breaker.of(breaker, probes_at=when_text(probe_times.get(breaker.key)))


def breaker_with_transitions(
    breaker: model.Breaker, transitions: Iterable[model.Transition], probe_times: Mapping[str, int]
) -> Object:
    return BreakerWithTransitions.of(
        breaker,
        probes_at=when_text(probe_times.get(breaker.key)),
        transitions=[Transition.of(each) for each in transitions],
    )


class BudgetLimit(View):
    """One limit of a budget in its current window: spent and reserved count as used."""

    limit: LimitName
    used: float = field(lambda usage: _amount(usage, usage.used))
    most: float = field(lambda usage: _amount(usage, usage.most))
    left: float = field(lambda usage: _amount(usage, max(usage.most - usage.used, 0)))
    reported: float | None = field(
        lambda usage: amount_number(usage.used - usage.estimated) if usage.is_cost else None,
        about="Of a cost: what runs reported of the used amount.",
    )
    estimated: float | None = field(
        lambda usage: amount_number(usage.estimated) if usage.is_cost else None,
        about="Of a cost: the estimates in the used amount, of runs without a report and of those that go on.",
    )
    level: BudgetLevel = field(lambda usage: usage.level or "ok", about="warning from 80 per cent on.")
    window_at: When = field(
        "window", about="When the window began; windows are hours, days and months of UTC."
    )
    refill_at: When = field("ends_at", about="When it ends, and the next begins.")


class Budget(View):
    """What a group, an owner or a token may fire and spend."""

    kind: BudgetKind
    name: str
    key: str = field("budget.key")
    currency: str | None = field("budget.unit", about="The unit of its costs; null: it counts none.")
    cost_per_run: float | None = field(lambda one: _optional_amount(one.budget.cost_per_run))
    reserved: float = field(
        lambda one: amount_number(one.spending.reserved), about="Estimates of jobs that have not ended."
    )
    total_cost: float = field(
        lambda one: amount_number(one.spending.total_cost), about="Ever, reported and estimated."
    )
    total_estimated: float = field(
        lambda one: amount_number(one.spending.estimated_total_cost), about="What of it is estimated."
    )
    on_reached: OnReached = field("budget.on_reached")
    catch_up_share: int = field("budget.catch_up_share", about="Of a window, in per cent.")
    skipped: int = field(about="Slots that it has skipped in the current windows.")
    spent_until: When | None = field(
        about="When the reached limit that refills last does so; null: none is reached."
    )
    schedules: int | None = field(about="Of a token: how many it has that are not done or dead.")
    max_schedules: int | None = field("terms.max_schedules", about="Of a token: how many it may have.")
    min_interval: int | None = field(
        "terms.min_interval", about="Of a token: seconds between slots, at least."
    )
    ttl: int | None = field("terms.ttl", about="Of a token: seconds that its schedules last, at most.")
    limits: list[BudgetLimit] = field(via=lambda limits: [BudgetLimit.of(one) for one in limits])


class BudgetList(View):
    items: list[Budget]
    total: int


def _amount(usage: Usage, amount: int) -> float:
    return amount_number(amount) if usage.is_cost else amount


def _optional_amount(amount: int | None) -> float | None:
    return None if amount is None else amount_number(amount)


class SpentBudget(View):
    """A budget with a limit that is reached."""

    kind: BudgetKind
    name: str
    spent_until: When | None
    skipped: int = field(about="Slots that it has skipped in the current windows.")


class Node(View):
    """One start of one process."""

    id: str = field("node")
    version: str
    role: Role
    is_alive: bool
    started_at: When
    heartbeat_at: When
    clock_skew: float = field(
        lambda node: node.clock_skew / SECOND, about="Its clock minus the database's, in seconds."
    )
    stopped_at: When | None
    lost_at: When | None
    unfit: HostFault | None = field(about="Why its host lets it begin no jobs.")
    unfit_since: When | None


class Queue(View):
    queued: int = field(lambda counts: counts.jobs.get("queued", 0))
    running: int = field(lambda counts: counts.jobs.get("running", 0))


class LateSchedule(View):
    """A schedule that should have fired."""

    schedule_id: str = field("state.schedule_id")
    timezone: str = field("definition.zone.name")
    due_at: When | None = field("state.next_run_at")


class Holder(View):
    """A job that has a place that a held slot waits for."""

    job_id: str
    schedule_id: str
    status: str
    node: str | None
    started_at: When | None


class HeldSlot(View):
    """A slot that waits for a place, or for an opening."""

    schedule_id: str = field("hold.schedule_id")
    timezone: str | None
    slot_at: When = field("hold.slot_at", via=when_text)
    since: When = field("hold.since", via=when_text)
    reason: str = field("hold.reason")
    by: list[Holder] = field(via=each(Holder.of), about="The jobs that have its places.")


class Disk(View):
    """The disk of the database's file."""

    free_gib: float = field(lambda disk: round(disk.free / (1 << 30), 1))
    free_percent: int


class Next(View):
    schedule_id: str = field("state.schedule_id")
    timezone: str = field("definition.zone.name")
    next_run_at: When | None = field("state.next_run_at")


class FeedDelay(View):
    """An open transaction of the database; events that were committed after its beginning are read when it ends."""

    pid: int | None = field(about="The server process; null for a prepared transaction.")
    application: str
    seconds: int = field(about="How long it has been open.")


class SystemStatus(View):
    """The status of the service. Figures of a loop are those of the process that answers; null where it has none."""

    now: When = field(about="When this was so, by the clock of the database.")
    status: Literal["running", "stopping", "stopped"]
    is_paused: bool = field(lambda found: found.paused_at is not None)
    paused_at: When | None
    paused_by_name: str | None = field(
        lambda found: None if found.pause is None else found.pause.name, about="Who paused the system."
    )
    started_at: When | None
    check_count: int | None
    trigger_count: int | None
    last_check_at: When | None
    unready: str | None = field(about="Why the process that answers is not ready; null when it is.")
    dispatch: str = field(
        about="Who runs jobs: local workers, which are nodes, or rq, celery, rq-chain, whose workers are nodes "
        "only while they run one."
    )
    lag: float = field(
        lambda found: found.lag / SECOND, about="For how many seconds the earliest due slot has been waiting."
    )
    queue: Queue = field("counts", via=Queue.of)
    overdue: int = field(about="Schedules that are behind by more than a minute; at most 1,000 are counted.")
    held: int = field("counts.held", about="Slots that wait for a place, or for an opening.")
    schedules: dict[str, int] = field("counts.schedules", about="How many there are, by status.")
    breakers: list[Breaker] = field(
        lambda found: [breaker_to_json(one, found.probe_times) for one in found.breakers],
        about="Those that are not closed.",
    )
    next: Next | None = field("soonest", via=Next.of)
    nodes: list[Node] = field(
        lambda found: [Node.of(node, is_alive=system.is_alive(node, found.now)) for node in found.nodes],
        about="Those of the last day, newest first.",
    )
    late: list[LateSchedule] = field(via=each(LateSchedule.of), about="The first ten that are overdue.")
    held_slots: list[HeldSlot] = field("holds", via=each(HeldSlot.of), about="Ten of the held slots.")
    broker: str | None = field(about="Why the broker of the queue does not answer; null when it does.")
    database: DatabaseKind | None
    disk: Disk | None = field(via=Disk.of, about="Null where the database is on another machine.")
    feed_delay: FeedDelay | None = field(
        via=FeedDelay.of, about="The open transaction that has held the event feed back for half a minute."
    )
    last_backup_at: When | None = field(about="When `everwhen db backup` last wrote a backup.")
    waiting: int = field(about="Schedules that wait for approval; at most 10,000 are counted.")
    open_alerts: int = field(about="Alerts that are open; at most 10,000 are counted.")
    unanswered_alerts: int = field(about="Those of them that nobody has acknowledged or silenced.")
    spent_budgets: list[SpentBudget] = field(
        via=each(SpentBudget.of), about="Those that the token may see, the first to refill first."
    )
    problems: list[str] = field(about="A sentence for everything that is wrong; empty when all is well.")


class ScheduleName(View):
    """The names of one schedule."""

    id: str = field("schedule_id")
    key: str | None = field(key_of, about="The key that its creator chose.")
    name: str


class ScheduleNames(View):
    items: list[ScheduleName]
    total: int


class Switch(View):
    is_paused: bool
    paused_at: When | None
    paused_by_name: str | None = field(about="Who paused the system.")


class Health(View):
    """One word, and a sentence where it is not the good one."""

    status: Literal["ok", "ready", "unready"]
    reason: str | None = field(is_optional=True, about="Why it is not ready.")
    detail: str | None = field(
        is_optional=True, about="What is wrong while it is ready: an open transaction delays the event feed."
    )


def health_to_json(status: str, reason: str | None, detail: str | None = None) -> Object:
    """Return the health of a process; `detail` is left out where there is none."""
    fields = Health.made(status=status, reason=reason, detail=detail)
    if detail is None:
        del fields["detail"]
    return fields


def status_to_json(
    found: system.SystemStatus,
    loop: system.LoopFigures | None,
    *,
    unready: str | None,
    dispatch: str,
    broker: str | None = None,
) -> Object:
    """Return how everything stands; `loop` has the figures of this process, None where it has no loop.

    `broker` says why the broker of a queue does not answer.
    """
    return SystemStatus.of(
        found,
        status=system.status_of(found) if loop is None else loop.status,
        started_at=None if loop is None else when_text(loop.started_at),
        check_count=None if loop is None else loop.check_count,
        trigger_count=None if loop is None else loop.trigger_count,
        last_check_at=None if loop is None else when_text(loop.last_check_at),
        unready=unready,
        dispatch=dispatch,
        broker=broker,
        problems=system.list_problems(found, unready=unready, dispatch=dispatch, broker=broker),
    )


# Tokens as they are answered: without their secrets.


_LIMITS: Object = dict.fromkeys(TokenLimits._fields)


class Limits(View):
    """What a token may make at most. The model of `api` documents it, because it is part of a body as well."""


class Token(View):
    """A token without its secret."""

    id: str = field("token_id")
    name: str
    role: AccessRole
    owner: str | None = field(about="It is confined to what this owner has; null: everything.")
    limits: Limits = field(via=lambda limits: {**_LIMITS, **limits_to_json(limits)})
    created_at: When
    created_by: str | None
    expires_at: When | None
    revoked_at: When | None


class NewToken(Token):
    """A token with its secret, which no other answer contains."""

    token: str


class TokenList(View):
    items: list[Token]
    total: int


class Left(View):
    """What a token may still do; null: not limited."""

    schedules: int | None
    fires_this_hour: int | None
    fires_today: int | None
    cost_today: str | None
    cost_this_month: str | None


class Usable(View):
    """What a token may let schedules run."""

    kinds: list[str] = field(about="Kinds of targets.")
    agents: list[str]
    workflows: list[str]
    plugins: list[str]


class Me(Token):
    """Who is asking, what it may still do, and what time it is."""

    via: Literal["token", "session"]
    csrf_token: str | None = field(
        about="Of a session: the proof of its page, which sends it as X-CSRF-Token."
    )
    now: When
    timezone: str = field(about="The service's.")
    local_now: str = field(about="The same instant in that zone.", examples=["2026-11-16T10:04:00+01:00"])
    weekday: str = field(about="Of today in that zone.", examples=["Monday"])
    timezones: list[str] = field(about="Those of the newest schedules that it sees, most frequent first.")
    approval: ApprovalMode = field(about="Whether what it creates waits for the approval of another person.")
    left: Left
    targets: Usable


def me_to_json(token: model_token.Token, about: Surroundings, *, via: str, csrf_token: str | None) -> Object:
    return Me.of(
        token,
        via=via,
        csrf_token=csrf_token,
        now=when_text(about.now),
        timezone=about.zone.name,
        local_now=about.zone.datetime(about.now // SECOND).isoformat(),
        weekday=f"{about.zone.datetime(about.now // SECOND):%A}",
        timezones=about.zones,
        approval=token.limits.approval or "none",
        left=Left.of(about.left),
        targets=Usable.of(about.usable),
    )


# What a reload of the configuration file changed, or would change, as it is answered.


class Reloaded(View):
    """What it changed, by schedule id."""

    created: list[str] = field(via=list)
    changed: list[str] = field(via=list)
    removed: list[str] = field(via=list)
    switched: list[str] = field(via=list)
    sections: list[str] = field(via=list, about="What changed besides schedules: `notify[0]`, `workflows.1`.")


class KeyChange(View):
    key: str
    before: object
    after: object


class Firings(View):
    """The firings of the next 7 days."""

    kept: int
    moved: list[list[When]] = field(via=each(each(when_text)))
    vanished: list[When] = field(via=each(when_text))
    appeared: list[When] = field(via=each(when_text))
    until: When | None = field(about="They were worked out up to here, because there are very many.")


class ScheduleChange(View):
    schedule_id: str
    what: Literal["created", "changed", "removed"]
    place: str | None = field(lambda change: change.place or None)
    timezone: str = field(about="The zone of the schedule.")
    keys: list[KeyChange] = field(via=each(KeyChange.of))
    firings: Firings = field(via=Firings.of)


class Diff(View):
    items: list[ScheduleChange]
    total: int
    sections: list[KeyChange] = field(about="What would change in workflows, messages, notify and api.")


def diff_to_json(changes: Sequence[diff.ScheduleChange], sections: Sequence[apply.KeyChange]) -> Object:
    return Diff.made(
        items=[ScheduleChange.of(change) for change in changes],
        total=len(changes),
        sections=[KeyChange.of(change) for change in sections],
    )


# Quiet-hours policies as they are answered; the same keys, without id and source, are those of a file.


def _days(mask: int) -> list[str] | None:
    return None if mask == EVERY_WEEKDAY else weekday_names(mask)


def _day(number: int) -> str:
    return date.fromordinal(number + ORDINAL_OF_1970).isoformat()


def _dates(span: tuple[int, int]) -> str | Object:
    first, last = map(_day, span)
    return first if first == last else DateRange.made(from_=first, to=last)


class QuietWindow(View):
    days: list[str] | None = field(
        lambda quiet: _days(quiet.weekdays), about="The days on which it begins; null: all."
    )
    between: str = field("window", via=str, examples=["22:00-07:00"])


class DateRange(View):
    """Whole days, both ends included."""

    from_: str
    to: str


class QuietHours(View):
    """A policy that schedules may share."""

    id: str = field("policy_id")
    name: str
    timezone: str = field("hours.zone.name")
    windows: list[QuietWindow] = field("hours.windows", via=each(QuietWindow.of))
    dates: list[str | DateRange] = field("hours.dates", via=each(_dates))
    action: WhenClosed
    source: str = field(about="`config`: of the file, and to be changed there; `api`.")


class QuietHoursList(View):
    items: list[QuietHours]
    total: int


def policy_to_json(policy: QuietHoursPolicy) -> dict[str, Any]:
    """Return a policy with the keys of a file, from which the same policy can be read."""
    shown = QuietHours.of(policy, source=None)
    return {key: shown[key] for key in shown if key not in ("id", "source")}

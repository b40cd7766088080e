"""Tokens: the identity of a caller, its role, its owner and its limits. Of the secret only a hash is stored.

A token with an owner is confined to that owner's data, whatever its role; one without sees what its role allows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from everwhen.errors import CostError, LimitError, TokenError, shown
from everwhen.model.budget_terms import budget_terms, share_of
from everwhen.model.instants import DAY, SECOND
from everwhen.model.pause import USER
from everwhen.model.policy import TOKEN_BUDGET, Budget, OnReached
from everwhen.model.schedule import Definition, Plan
from everwhen.timetable.gaps import SHORTEST_MONTH, smallest_cron_gap
from everwhen.timetable.interval import LONGEST, parse_seconds
from everwhen.timetable.trigger import Cron, Every, EveryMonth, Once

AccessRole = Literal["viewer", "operator", "admin"]
Approval = Literal["ask", "recurring", "required"]
ApprovalMode = Literal["none", "ask", "recurring", "required"]
LOCAL_ID = "local"  # of a user of the machine, who has no token
ROLES: tuple[AccessRole, ...] = get_args(AccessRole)
APPROVALS: tuple[Approval, ...] = get_args(Approval)
ANSWERS_KEPT = DAY
GAPS_SEEN = 400 * DAY // SECOND  # how far the matches of a cron expression are checked against min_interval
APPROVAL_TTL = 7 * 86_400.0  # seconds


class TokenLimits(NamedTuple):
    """The limits on what a token may create and cause; durations in seconds, None: no limit."""

    max_schedules: int | None = None
    min_interval: int | None = None
    ttl: int | None = None
    fires_per_hour: int | None = None
    fires_per_day: int | None = None
    targets: tuple[str, ...] | None = None
    approval: Approval | None = None  # processes of 0.1 treat every word as `required`
    cost_per_day: str | None = None  # such as 5 USD
    cost_per_month: str | None = None
    cost_per_run: str | None = None
    on_reached: OnReached | None = None
    catch_up_share: int | None = None  # per cent

    @property
    def needs_approval(self) -> bool:
        return self.approval is not None

    def needs_approval_of(self, definition: Definition, *, is_accepted: bool = False) -> bool:
        """Return whether a person has to approve this definition before it fires.

        `is_accepted`: the person at the client was asked and accepted it, which only `ask` believes.
        """
        match self.approval:
            case None:
                return False
            case "ask":
                return not is_accepted
            case "recurring":
                return not isinstance(definition.trigger, Once)
            case _:
                return True


NO_LIMITS = TokenLimits()


class Confinement(NamedTuple):
    """What the token of a run is confined to: schedules of this agent that runs of it made.

    `depth` is that of what it makes; beyond `max_depth` it makes nothing.
    """

    group: str
    job_id: str
    depth: int
    max_depth: int


class Token(NamedTuple):
    """One token; `owner` None: it is valid for all owners. `confined`: it is that of a run, and ends with it."""

    token_id: str
    name: str
    role: AccessRole
    owner: str | None
    limits: TokenLimits
    created_at: int
    created_by: str | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    confined: Confinement | None = None

    def is_good(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may(self, role: AccessRole) -> bool:
        """Return whether it has the permissions of that role."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, owner: str | None) -> bool:
        return self.owner is None or self.owner == owner


def budget_of(token: Token) -> Budget | None:
    """Return what a token may cause; None when that is not limited."""
    terms, min_interval = budget_terms(token.limits._asdict()), token.limits.min_interval
    if terms is None and min_interval is None:
        return None
    return Budget(f"{TOKEN_BUDGET}{token.token_id}", **(terms or {}), min_interval=min_interval)


def actor_of(token: Token | None) -> str | None:
    """Return the name under which what a token does is recorded; of a user of the machine that of the user."""
    if token is None:
        return None
    return f"{USER}{token.name}" if token.token_id == LOCAL_ID else f"token:{token.token_id}"


class Session(NamedTuple):
    """A browser session opened with a token. Of its secrets, too, only hashes are stored. It ends with its token."""

    hash: str
    token_id: str
    created_at: int
    expires_at: int
    proof: str | None  # None: begun by a node of 0.2, whose cookie has another name


class StoredResponse(NamedTuple):
    """The stored response to an idempotent request: a repeated request gets it again for as long as it is kept."""

    token_id: str
    key: str
    digest: str
    answer: str
    kept: int = ANSWERS_KEPT

    @property
    def fields(self) -> tuple[str, str, str, str]:
        return self.token_id, self.key, self.digest, self.answer

    def stored_at(self, now: int) -> int:
        """Return the instant that it is stored with.

        All nodes, including those of the previous release, delete a response a day after that instant; so a response
        that is kept for longer is dated into the future.
        """
        return now + self.kept - ANSWERS_KEPT


TOKEN_COLUMNS = tuple(name for name in Token._fields if name != "confined")


def token_row(token: Token) -> tuple[object, ...]:
    stored = token._replace(limits=limits_text(token.limits))  # type: ignore[arg-type]
    return tuple(getattr(stored, name) for name in TOKEN_COLUMNS)


def token_of(row: tuple[Any, ...]) -> Token:
    token = Token(*row)
    return token._replace(limits=_kept(json.loads(token.limits)))  # type: ignore[arg-type]


def limits_in(text: str) -> TokenLimits:
    """Return limits as they are stored."""
    return _kept(json.loads(text))


def token_id_of_agent(group: str, owner: str | None) -> str:
    """Return the id that the tokens of all runs of an agent have: its limits count for all of them together."""
    return f"agent:{group}" if owner is None else f"agent:{group}@{owner}"


def _kept(values: dict[str, Any]) -> TokenLimits:
    """Return limits as they were stored; they were validated when the token was created."""
    if "targets" in values:
        values["targets"] = tuple(values["targets"])
    return TokenLimits(**values)


def limits_to_json(limits: TokenLimits) -> dict[str, Any]:
    """Return the limits that are set, as JSON values."""
    found = limits._asdict()
    values = {name: value for name, value in found.items() if value is not None}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def limits_text(limits: TokenLimits) -> str:
    return json.dumps(limits_to_json(limits))


def limits_of(values: Mapping[str, Any]) -> TokenLimits:
    """Parse limits from user input; raise TokenError for an invalid one.

    >>> limits_of({"min_interval": "5m", "targets": ["http"]}).min_interval
    300
    """
    unknown = set(values) - set(TokenLimits._fields)
    if unknown:
        raise TokenError(f'there is no limit "{shown(min(unknown))}"')
    chosen = {name: value for name, value in values.items() if value is not None}
    for name in ("max_schedules", "fires_per_hour", "fires_per_day"):
        if name in chosen and not _is_count(chosen[name]):
            raise TokenError(f"{name} must be a whole number from 0 on")
    for name in ("min_interval", "ttl"):
        if name in chosen:
            chosen[name] = _seconds(name, chosen[name])
    try:
        budget_terms(chosen)
    except CostError as error:
        raise TokenError(str(error)) from None
    if "catch_up_share" in chosen:
        chosen["catch_up_share"] = share_of(chosen["catch_up_share"])
    if chosen.get("on_reached", "skip") not in get_args(OnReached):
        raise TokenError(f"on_reached must be one of {', '.join(get_args(OnReached))}")
    if "targets" in chosen:
        chosen["targets"] = _targets(chosen["targets"])
    if chosen.get("approval") == "none":
        del chosen["approval"]
    if chosen.get("approval", "required") not in APPROVALS:
        raise TokenError(f"approval must be one of none, {', '.join(APPROVALS)}")
    return TokenLimits(**chosen)


def _targets(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(kind, str) for kind in value):
        raise TokenError("targets must be a list of target kinds, such as [http, message]")
    return tuple(value)


def _seconds(name: str, value: Any) -> int:
    seconds = value if isinstance(value, int) and not isinstance(value, bool) else parse_seconds(value)
    if not 0 < seconds <= LONGEST:
        raise TokenError(f"{name} must be a duration of 1 to {LONGEST} seconds")
    return seconds


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**31


def refuse_beyond(limits: TokenLimits, plan: Plan, now: int, created_at: int) -> None:
    """Raise LimitError when the definition of a schedule created at `created_at` exceeds the limits of the token."""
    definition = plan.definition
    if limits.targets is not None and definition.target.kind not in limits.targets:
        allowed = ", ".join(limits.targets) or "none"
        raise LimitError(
            f"this token may only create schedules with these targets: {allowed}", limit="targets"
        )
    if limits.min_interval is not None:
        _refuse_too_often(limits.min_interval, plan, now)
    if limits.fires_per_day is not None and limits.on_reached != "alert":
        _refuse_too_many(limits.fires_per_day, plan, now)
    if limits.ttl is not None:
        _refuse_too_long(limits.ttl, definition, now, created_at)


def _refuse_too_often(least: int, plan: Plan, now: int) -> None:
    gap = _smallest_gap(plan, now)
    jitter = (plan.definition.jitter_ms or 0) / 1_000  # two slots may come so much closer
    if gap is not None and gap - jitter < least:
        raise LimitError(
            f"this token may not create schedules that fire more often than every {least}s",
            limit="min_interval",
        )


def _smallest_gap(plan: Plan, now: int) -> int | None:
    """Return the fewest seconds between two slots that follow; of a cron expression, within 400 days of the first."""
    definition = plan.definition
    match definition.trigger:
        case Every(seconds=seconds):
            return seconds
        case EveryMonth():
            return SHORTEST_MONTH
        case Cron(expression=expression):
            slots, zone = plan.calendar(None).slots, definition.zone
            first = slots.next_after(now // SECOND)
            if first is None:
                return None
            end = min(first + GAPS_SEEN, slots.end_at)
            return smallest_cron_gap(expression, first + zone.offset_at(first), end + zone.offset_at(end))
        case _:
            return None


def _refuse_too_many(most: int, plan: Plan, now: int) -> None:
    """Raise LimitError when a schedule alone fires more often than the token may in a day, in one of the next days."""
    trigger = plan.definition.trigger
    if isinstance(trigger, Every):
        fires = -(-DAY // (SECOND * trigger.seconds))  # on the days that have the most
    elif isinstance(trigger, Cron):
        fires = _fires_in_a_day(plan, now, most)
    else:
        fires = 0
    if fires > most:
        raise LimitError(
            f"this schedule alone would fire {fires} times a day, and this token may cause {most}; let it fire less "
            "often",
            limit="fires_per_day",
        )


def _fires_in_a_day(plan: Plan, now: int, most: int) -> int:
    """Return the slots of the first day in a week that has too many, or the most that a day has."""
    slots, fires = plan.calendar(None).slots, 0
    for day in range(now - now % DAY, now + 8 * DAY, DAY):
        fires = max(fires, slots.count_between(-(-max(now, day) // SECOND), (day + DAY) // SECOND))
        if fires > most:
            break
    return fires


def _refuse_too_long(ttl: int, definition: Definition, now: int, created_at: int) -> None:
    """Raise LimitError when a schedule lasts longer than `ttl`. A one-shot has no end_at, so its instant is checked."""
    last = created_at // SECOND + ttl
    if last <= now // SECOND:
        raise LimitError(
            f"the schedules of this token last {ttl}s, and this one is older; create another",
            limit="ttl",
        )
    ends_at = definition.trigger.instant if isinstance(definition.trigger, Once) else definition.end_at
    if ends_at is None or ends_at > last:
        raise LimitError(f"what this token makes lasts {ttl}s at most; end it sooner", limit="ttl")


# -- runs of agents --

SELF_SCHEDULE_DEFAULTS: Mapping[str, Any] = {
    "max_schedules": 5,
    "min_interval": "10m",
    "ttl": "7d",
    "approval": "recurring",
    "max_depth": 1,
    "fires_per_hour": 10,
    "fires_per_day": 50,
}


def limits_of_runs(self_schedule: Mapping[str, Any]) -> tuple[TokenLimits, int]:
    """Return the limits that `self_schedule` gives to the tokens of runs, and how deep their schedules may go."""
    given = {
        **SELF_SCHEDULE_DEFAULTS,
        **{key: value for key, value in self_schedule.items() if value is not None},
    }
    max_depth = given.pop("max_depth")
    return limits_of({**given, "targets": ["agent"]}), max_depth

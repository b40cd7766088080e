"""What calls work with: the runtime, the settings, the rules for submissions, and what is remembered of callers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request

from everwhen.api.connections import ConnectionLimits
from everwhen.api.hosting import NodeHooks
from everwhen.api.rates import MOST_BUCKETS, Line, Rates
from everwhen.api.shares import Shares
from everwhen.api.sign_in_links import SignInLinks
from everwhen.api.streams import Streams
from everwhen.compat.body_shapes import BODY_SHAPES
from everwhen.config.settings import ApiSettings
from everwhen.config.submission import SubmissionRules
from everwhen.errors import StoreError, SubmissionError
from everwhen.installed_kinds import safe_kinds
from everwhen.model.fast_values import replaced
from everwhen.model.group import Groups
from everwhen.model.instants import SECOND
from everwhen.model.queries import Entry
from everwhen.model.retention import Retention
from everwhen.model.token import Token
from everwhen.operations.access import Caller, config_places, count_schedules
from everwhen.operations.apply import config_revision
from everwhen.operations.quiet_hours import policy_ids
from everwhen.operations.system import DATABASE_IS_SILENT, describe_fault, feed_delay, next_wake_at
from everwhen.operations.tokens import hash_of
from everwhen.runtime import Runtime
from everwhen.telemetry.metrics import Metrics

PER_SECOND, BURST = 500.0, 1_000  # of one token
BEYOND_LIMIT = 20  # requests that one beyond a limit of its token counts as: a transaction refused it
FAILURES_PER_MINUTE = 20  # of one address
# What an address may ask without a token, in units: 200 requests of files a second, and far fewer of what is large.
ANONYMOUS_PER_SECOND, ANONYMOUS_BURST = 1_000.0, 5_000
# Of addresses beyond that, how many secrets that were never known here are looked up, and how many may wait for it.
LOOKED_UP_PER_SECOND, MOST_LOOKED_UP = 100.0, 1_000
# What an address may ask of /healthz and /readyz; beyond it the answer is late, and never refused: whoever is refused
# takes the service for dead.
CHECKS_PER_SECOND, CHECKS_BURST = 20.0, 40
# What expensive calls of one token may cost, in units of about a millisecond of a processor.
COST_PER_SECOND, COST_BURST = 500.0, 15_000
LINES_PER_MINUTE = 2  # in the log, of one kind that requests cause

COUNTED, MOST_COUNTED = 10.0, 10_000  # seconds, schedules
READY_WITHIN = 2.0  # seconds
SILENT_WITH_QUEUE = "the database or the broker does not answer"

Unready = Callable[[], str | None]
"""Why a node is not ready; None when it is. Any client may read it: it names no host and no file."""

log = logging.getLogger("everwhen")


class Readiness:
    """Whether the node of this process does its work; a process without a node needs nothing but the database.

    All callers share one question to the database, so that one that does not answer keeps no thread per caller. After
    two seconds they get the answer that it does not respond.
    """

    def __init__(self, runtime: Runtime, unready: Unready | None, *, has_queue: bool = False) -> None:
        self._runtime = runtime
        self._unready = unready
        self._silent = SILENT_WITH_QUEUE if has_queue and unready is not None else DATABASE_IS_SILENT
        self._question: asyncio.Task[str | None] | None = None
        self._detail: asyncio.Task[str | None] | None = None

    async def reason(self) -> str | None:
        """Return why it is not ready; None when it is."""
        if self._question is None or self._question.done():
            self._question = asyncio.create_task(run_sync(self._ask, abandon_on_cancel=True))
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self._question), READY_WITHIN)
        return self._silent

    async def detail(self) -> str | None:
        """Return what is wrong although it is ready; None when nothing is, or the database takes its time."""
        if self._detail is None or self._detail.done():
            self._detail = asyncio.create_task(run_sync(self._ask_detail, abandon_on_cancel=True))
        with suppress(TimeoutError):
            return await asyncio.wait_for(asyncio.shield(self._detail), READY_WITHIN)
        return None

    def _ask_detail(self) -> str | None:
        try:
            found = feed_delay(self._runtime)
        except StoreError:
            return None
        return None if found is None else str(found)

    def _ask(self) -> str | None:
        if self._unready is not None:
            return self._unready()
        try:
            next_wake_at(self._runtime)
        except StoreError as error:
            return describe_fault(error)
        return None


@dataclass(slots=True)
class ApiContext:
    """One for all requests of a process."""

    runtime: Runtime
    settings: ApiSettings
    rules: Callable[[], SubmissionRules]  # of the configuration in force
    unready: Unready | None = None  # of the node of this process, where it has one
    changes: Callable[[], int] | None = None  # another number when anybody has committed
    measured: Metrics | None = None  # of this process; None for a command, which nobody scrapes
    node_hooks: NodeHooks = field(default_factory=NodeHooks, kw_only=True)
    jobs_kept: int = field(default=Retention().jobs, kw_only=True)  # by retention
    limits: ConnectionLimits = field(default_factory=ConnectionLimits, kw_only=True)
    rates: Rates = field(init=False)
    failures: Rates = field(init=False)
    anonymous: Rates = field(init=False)
    guesses: Line = field(init=False)
    health_checks: Rates = field(init=False)
    shares: Shares = field(init=False)
    lines: Rates = field(init=False)
    readiness: Readiness = field(init=False)
    streams: Streams = field(init=False)
    sign_in_links: SignInLinks = field(init=False)
    known_tokens: dict[str, tuple[Token, float]] = field(default_factory=dict)  # by hash, seen then
    insiders: dict[str, Token] = field(default_factory=dict)  # by hash
    _places: tuple[int, Mapping[str, str]] = field(init=False)
    _counts: dict[str | None, tuple[int, float]] = field(init=False, default_factory=dict)
    _safe_kinds: frozenset[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        limited = partial(Rates, monotonic=self.runtime.clock.monotonic)
        self.rates = limited(burst=BURST, per_second=PER_SECOND)
        self.failures = limited(burst=FAILURES_PER_MINUTE, per_second=FAILURES_PER_MINUTE / 60)
        self.anonymous = limited(burst=ANONYMOUS_BURST, per_second=ANONYMOUS_PER_SECOND)
        self.guesses = Line(per_second=LOOKED_UP_PER_SECOND, most=MOST_LOOKED_UP)
        self.health_checks = limited(burst=CHECKS_BURST, per_second=CHECKS_PER_SECOND)
        self.shares = Shares(limited(burst=COST_BURST, per_second=COST_PER_SECOND))
        self.lines = limited(burst=1, per_second=LINES_PER_MINUTE / 60)
        self.readiness = Readiness(self.runtime, self.unready, has_queue=self.node_hooks.dispatch != "local")
        self.streams = Streams(self.runtime, self.changes, self.shares)
        self.sign_in_links = SignInLinks(self.runtime.clock.monotonic)
        self._places = (0, {})

    def close(self) -> None:
        """End what would go on for ever, or waits; called from any thread."""
        self.streams.close()
        self.shares.close()

    def lift_rates(self) -> None:
        """Count no requests any more: for those who send very many."""
        for rates in (self.rates, self.failures, self.anonymous, self.health_checks, self.shares.costs):
            rates.unlimited = True

    def charge_refusal(self, token_id: str) -> None:
        """Count a request beyond a limit or a share of its token as many: soon its rate refuses it, before any work."""
        self.rates.charge(token_id, BEYOND_LIMIT)

    @property
    def metrics(self) -> Metrics:
        """Return the metrics of this process, made here only for a command, which need not count schedules at start."""
        if self.measured is None:
            self.measured = Metrics(self.runtime)
        return self.measured

    def authenticate(self, secret: str, token: Token) -> None:
        """Admit a caller without a token: a user who can open the database."""
        self.insiders[hash_of(secret)] = token

    def safe_kinds(self) -> frozenset[str]:
        """Return the kinds of targets of other packages that run no code; they are looked up at the first call."""
        if self._safe_kinds is None:
            self._safe_kinds = safe_kinds()
        return self._safe_kinds

    def groups(self) -> Groups:
        """Return the groups of the configuration in force."""
        return self.rules().groups

    def log_seldom(self, level: int, message: str, *about: object) -> None:
        """Write a line that requests cause, as many as callers like to send; the same line only now and then."""
        if not self.lines.take(f"{message} {about}"):
            log.log(level, message, *about)

    def log_outage(self, error: StoreError) -> None:
        """Say why the database does not answer, where only the runtime can read it."""
        message = "a request is refused, because the database does not answer: %s"
        self.log_seldom(logging.WARNING, message, error)

    async def count_schedules(self, owner: str | None) -> int:
        """Return about how many schedules a caller of this owner sees, up to a bound; from a moment ago."""
        now = self.runtime.clock.monotonic()
        count, counted_at = self._counts.get(owner, (0, -inf))
        if now - counted_at >= COUNTED:
            count = await run_sync(count_schedules, self.runtime, owner, MOST_COUNTED)
            if len(self._counts) >= MOST_BUCKETS:
                self._counts.clear()
            self._counts[owner] = (count, now)
        return count

    def rules_for(self, caller: Caller, fields: object) -> SubmissionRules:
        """Return the rules for a submission of this caller."""
        if caller.token.confined is not None:
            _refuse_other_keys(fields)
        names = _policies(fields)
        found = policy_ids(self.runtime) if names else frozenset()
        around = self.rules()
        return replaced(
            around,
            now=self.runtime.clock.now(),
            quiet_hours=found,
            groups=caller.usable_groups(around.groups),
            owner=caller.token.owner,
            may_refer=caller.may_run_code,
            max_timeout=None if caller.token.owner is None else self.settings.max_timeout * SECOND,
            bodies=BODY_SHAPES,
            # To look whether a function is there is to import its module, which runs it.
            python_fault=around.python_fault if caller.may_run_code else None,
        )

    def place_of(self, entry: Entry) -> str | None:
        """Return the file and line that declare a schedule."""
        if entry.source != "config":
            return None
        revision, _ = config_revision(self.runtime)
        if self._places[0] != revision:
            self._places = (revision, config_places(self.runtime))
        return self._places[1].get(entry.schedule.state.schedule_id)


# What the token of a run may say about a schedule: when and what, and no limit or queue of the agent.
_KEYS_OF_RUNS = frozenset(
    (
        "name description every cron at after timezone start_at end_at first_run jitter run payload total_repeats "
        "misfire_grace catch_up enabled"
    ).split()
)


def _refuse_other_keys(fields: object) -> None:
    others = sorted(set(fields) - _KEYS_OF_RUNS) if isinstance(fields, dict) else []
    if others:
        raise SubmissionError((str(key), "is not for the token of a run") for key in others)


def _policies(fields: object) -> list[Any]:
    """Return the quiet hours that a submission names anywhere, or that any of several submissions names."""
    if isinstance(fields, list):
        return [name for one in fields for name in _policies(one)]
    if not isinstance(fields, dict):
        return []
    return [fields[key] for key in ("quiet_hours", "quiet_hours_policy_id") if fields.get(key) is not None]


def context_of(request: Request) -> ApiContext:
    context: ApiContext = request.app.state.context
    return context

"""A morning on a service with a manual clock, played in virtual time: what the pages of the dashboard show.

Something runs, something is held, something fails, a breaker is open, a budget is spent, an alert is open, a schedule
is paused and two wait for approval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any

from everwhen.api.hosting import NodeHooks
from everwhen.config.sections.notify import rules_in
from everwhen.engine.notifier import Notifier
from everwhen.engine.ticker import end_pauses
from everwhen.model.alerts import AlertDelivery, Sent
from everwhen.model.claim import ClaimedJob
from everwhen.model.cost import parse_cost
from everwhen.model.events import Event
from everwhen.model.instants import HOUR, MINUTE, SECOND
from everwhen.model.outcome import SUCCEEDED, JobEnd, Outcome
from everwhen.model.token import limits_of
from everwhen.operations.system import LoopFigures
from everwhen.operations.tokens import create_token
from everwhen.testing.manual import ManualClock
from everwhen.web.routes import dashboard_routes
from tests.api.serving import Client, Service, serving
from tests.api.working import said

NOW = "2026-11-16T08:41:23Z"  # 09:41:23 in Paris
NODE = "node-a"
FILE = """
quiet_hours:
  nights: {timezone: Europe/Paris, windows: [{days: [mon, tue, wed, thu, fri], between: "22:00-07:00"}]}
agents:
  reviewer:
    command: [agent]
    max_concurrent: 1
    schedules:
      check-issues: {type: interval, interval: 10m, prompt: Check for ready issues.}
      morning-report: {type: cron, cron: "40 9 * * 1-5", timezone: Europe/Paris, prompt: Daily report.}
  triage:
    owner: support
    command: [agent]
    schedules:
      inbox-sweep: {type: interval, interval: 10m, prompt: Sweep the inbox.}
budgets:
  reviewer: {fires_per_day: 200, cost_per_day: 20 USD, cost_per_run: 0.60 USD}
  triage: {fires_per_hour: 3, fires_per_day: 200}
  owner:support: {fires_per_day: 300}
schedules:
  - {id: search-reindex, every: 30m, run: {command: [reindex]}, owner: search}
  - {id: invoice-sync, every: 20m, max_retries: 2, retry_delay: 60s, run: {command: [sync]}, owner: billing}
  - {id: warehouse-load, cron: "10 */2 * * *", run: {command: [load]}, owner: data}
  - {id: price-feed, every: 5m, only_between: "08:00-18:00", timezone: Europe/London, run: {command: [feed]},
     owner: trading}
  - {id: recount, every: 10m, interval_from: completion, run: {command: [recount]}, owner: shop}
  - {id: mail-digest, cron: "30 8,11 * * 1-5", timezone: Europe/Paris, run: {command: [digest]}, owner: support}
  - {id: cache-warm, cron: "5 * * * *", run: {command: [warm]}, owner: shop}
  - {id: cert-check, every: 1h, run: {command: [certs]}, owner: ops}
  - {id: health-ping, every: 1m, run: {command: [ping]}, owner: ops}
  - {id: nightly-backup, cron: "0 2 * * *", timezone: Europe/Berlin, quiet_hours: nights, run: {command: [dump]},
     owner: ops}
  - {id: withings-poll, every: 15m, jitter: 30s, only_between: "07:00-23:00", timezone: Europe/Paris,
     circuit_breaker: {threshold: 3, reset_after: 3h}, run: {command: [poll]}, owner: health}
"""
FAILED = Outcome("failed", error="HTTP 401: token expired")
REVIEWED = [Outcome("succeeded", cost=parse_cost(f"0.{cents} USD")) for cents in (21, 34, 27, 42)]
TIMED_OUT = Outcome("timed_out", error="stopped after 1 h (timeout)")
RULES = rules_in(
    [
        {"name": "pager", "http": {"url": "https://pager.example"}, "group_wait": 0},
        {"name": "chat", "http": {"url": "https://chat.example"}, "group_wait": 0, "on": ["budget.*"]},
        {"name": "shell", "command": ["echo", "thank you"], "on": ["breaker.reset"]},
    ]
)
LOG = b"""reading inbox/0417.md
work item: flaky retry test (issue 417)
\x1b[32mplan\x1b[0m: reproduce, find the race, fix it
$ make test
tests/retry.py::test_a_retry_waits_for_its_time PASSED
tests/retry.py::test_a_retry_keeps_its_slot \x1b[1;31mFAILED\x1b[0m
"""


def course_of(claim: ClaimedJob, at: int, end: int) -> tuple[int, Outcome]:
    """How long a job takes, and how it ends, in this story."""
    job = claim.job
    number, left = job.number, end - at
    match job.schedule_id:
        case "reviewer.check-issues":
            length = 10 * HOUR if left < 12 * MINUTE else 4 * MINUTE + (number % 4) * 25 * SECOND
            return length, REVIEWED[number % 4]
        case "search-reindex":
            return 21 * MINUTE, SUCCEEDED
        case "invoice-sync":
            fails = number in (3, 9) and not job.retry
            return (30 * SECOND if fails else 190 * SECOND), (
                Outcome("failed", error="HTTP 503") if fails else SUCCEEDED
            )
        case "warehouse-load":
            return (HOUR, TIMED_OUT) if left < 2 * HOUR else (48 * MINUTE, SUCCEEDED)
        case "withings-poll":
            return 64 * SECOND, FAILED if left < 90 * MINUTE else SUCCEEDED
        case "triage.inbox-sweep":
            return 150 * SECOND, SUCCEEDED
        case "health-ping":
            return 400_000 + number % 5 * 50_000, FAILED if 100 < left // MINUTE < 104 else SUCCEEDED
        case _:
            return (50 + number % 3 * 12) * SECOND, SUCCEEDED


@dataclass
class Scene:
    """The service at the end of its morning."""

    service: Service
    clock: ManualClock
    secret: str

    @property
    def url(self) -> str:
        return self.service.url


@contextmanager
def played(folder: Path, *, hours: int = 6, file: str = FILE) -> Iterator[Scene]:
    """Serve the dashboard of a service whose last hours were played."""
    clock = ManualClock(NOW)
    end = clock.now()
    clock.step(-hours * HOUR // SECOND)
    with serving(
        folder, file=file, url="sqlite://", clock=clock, further=dashboard_routes(), allow_private_urls=True
    ) as service:
        service.context.lift_rates()  # by a clock that stands still nothing comes back
        notifier = Notifier(
            service.runtime, lambda: RULES, {"http": Receiver()}, node=lambda: NODE, is_threaded=False
        )
        notifier.begin()
        notifier.step()
        play(service, clock, end, course_of, acts=requests_of(service, end), tell=notifier.step)
        made = create_token(service.runtime, "mira", "admin")
        finish(service, clock)
        for _ in range(4):
            notifier.step()
        notifier.release()
        yield Scene(service, clock, made.secret)


def play(
    service: Service,
    clock: ManualClock,
    end: int,
    course: Callable[[ClaimedJob, int, int], tuple[int, Outcome]],
    *,
    acts: list[tuple[int, Callable[[], object]]],
    tell: Callable[[], object],
) -> None:
    """Let time pass until `end`: what is due fires, jobs run as long as their course says, people and agents act."""
    slots = service.runtime.slots
    ends: list[tuple[int, int, ClaimedJob, Outcome]] = []
    order = count()
    while True:
        wake_at = slots.next_wake_at()
        at = min(wake_at or end, ends[0][0] if ends else end, acts[0][0] if acts else end, end)
        if at > clock.now():
            clock.advance((at - clock.now()) // SECOND + 1)
        now = min(clock.now(), end)
        slots.heartbeat(now, node=NODE, version="0.2.0", is_scheduler=True)
        while ends and ends[0][0] <= now:
            _, _, claim, outcome = heappop(ends)
            slots.settle(now, [JobEnd(claim.job.job_id, claim.job.fence, outcome)])
        end_pauses(service.runtime)  # and refill budgets
        while acts and acts[0][0] <= now:
            acts.pop(0)[1]()
            tell()
        slots.tick(now, limit=500, behind=False)
        for claim in slots.claim_jobs(now, node=NODE, limit=100):
            length, outcome = course(claim, now, end)
            heappush(ends, (now + length, next(order), claim, outcome))
        if now >= end:
            return


def requests_of(service: Service, end: int) -> list[tuple[int, Callable[[], object]]]:
    """What agents ask for during the morning: one that was declined, a change after an approval, and a new one."""
    limits = {"approval": "required", "max_schedules": 10, "min_interval": "5m", "fires_per_day": 100}
    support = token_of(service, "mcp-support", "support", **limits)
    reviewer = token_of(service, "mcp-reviewer", None, approval="required")

    def change() -> None:
        prompt = "Summarise every new thread of the EU queue and post it to the channel."
        made = support.create(
            name="digest-eu",
            every=None,
            cron="30 7 * * 1-5",
            timezone="Europe/Paris",
            run={"agent": {"name": "triage", "prompt": prompt}},
        )
        path = f"/schedules/{made['id']}/"
        assert service.admin.post(f"{path}approve/", {"revision": 1}).status == 200
        assert support.patch(path, {"cron": "*/10 7-18 * * 1-5"}).status == 200

    def decline() -> None:
        poll = reviewer.create(name="poll-every-second", every="1s")
        assert (
            service.admin.post(f"/schedules/{poll['id']}/decline/", {"note": "use the webhook"}).status == 204
        )

    def ask() -> None:
        check = "The build of pull request 512 takes about four hours. Check it again then and merge the review notes."
        run = {"agent": {"name": "reviewer", "prompt": check}}
        reviewer.create(
            name="recheck-pr-512", every=None, at="2026-11-16T13:00:00Z", timezone="Europe/Paris", run=run
        )

    return [(end - 95 * MINUTE, decline), (end - 52 * MINUTE, change), (end - 18 * MINUTE, ask)]


def token_of(service: Service, name: str, owner: str | None, **limits: Any) -> Client:
    made = create_token(service.runtime, name, "operator", owner=owner, limits=limits_of(limits))
    return replace(service.admin, secret=made.secret)


class Receiver:
    """Takes what the pager is told, and refuses what the chat is told."""

    def send(self, spec: object, delivery: AlertDelivery) -> Sent:
        return (
            Sent(True)
            if delivery.rule == "pager"
            else Sent(False, "HTTP 404: no such channel", is_final=True)
        )


def finish(service: Service, clock: ManualClock) -> None:
    """What a person and an agent did this morning."""
    admin, now = service.admin, clock.now()
    started = Event("scheduler.started", now - 104 * MINUTE, detail={"last_heartbeat_at": now - 109 * MINUTE})
    service.runtime.tokens.record([started])
    assert admin.post("/schedules/cert-check/pause/", {"note": "the authority is down"}).status == 200
    service.admin.create(
        name="vacuum-events", every=None, cron="30 2 * * 0", timezone="Europe/Berlin", description="Weekly."
    )
    running = admin.get("/jobs/?status=running").fields["items"]
    for job in running:
        if job["schedule_id"] == "reviewer.check-issues":
            said(service, job["id"], LOG)
            said(service, job["id"], b"AssertionError: expected 1 queued job, found 2\n", stream="stderr")
    figures = LoopFigures("running", now - 6 * HOUR, 21_600, 640, now - 400_000)
    service.context.node_hooks = NodeHooks(figures=lambda: figures, alert_rules=lambda: RULES)

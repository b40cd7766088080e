"""Runs of an agent that do whatever they may with their tokens, on a clock that the test moves, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from random import Random
from typing import Any, NamedTuple

from hypothesis import note
from hypothesis import strategies as st

from everwhen.engine.running import run_of
from everwhen.model.claim import ClaimedJob
from everwhen.model.instants import DAY, HOUR, SECOND, to_datetime
from everwhen.model.job import Job
from everwhen.model.outcome import SUCCEEDED, JobEnd, Outcome
from everwhen.model.policy import MOST_GRACE
from everwhen.model.queries import JobFilter, ScheduleFilter
from everwhen.model.schedule import State
from everwhen.model.token import limits_of_runs
from everwhen.operations.agent_runs import AgentRuns
from everwhen.operations.tokens import find_token
from everwhen.testing.manual import ManualClock
from tests.api.serving import Client, Service
from tests.api.working import NODE
from tests.mcp.talking import Tools

FAILED = Outcome("failed", error="no luck")
OVER_MCP = {"Everwhen-Client": "mcp"}
MOST_RUNNING = 6
TIMES: list[dict[str, Any]] = [
    {"after": "1s"},
    {"after": "2s"},
    {"after": "5m"},
    {"after": "11m"},
    {"every": "10m"},
    {"every": "10m", "first_run": "immediately"},
    {"every": "15m", "jitter": "5m"},
    {"every": "11m", "jitter": "9m", "first_run": "immediately"},
    {"cron": "*/10 * * * *"},
    {"cron": "0,59 0-20/2,21 * * *"},
]
MORE: list[dict[str, Any]] = [
    {},
    {},
    {"payload": {"a": 1}},
    {"total_repeats": 1},
    {"catch_up": "run_all", "misfire_grace": "1d"},
]
CALLS = {
    "create": 3,
    "put": 1,
    "patch": 4,
    "trigger": 4,
    "again": 4,
    "delete_and_create": 2,
    "tool_create": 1,
    "tool_trigger": 1,
    "tool_update": 1,
    "rename": 1,
    "pause": 1,
    "pause_until": 1,
    "resume": 2,
    "enable": 1,
    "revive": 1,
    "delete": 1,
    "forbidden": 0.3,
}
HAPPENS = {"wait": 8, "sleep": 0.5, "end": 1, "fail": 1}
LENGTH = 50
Step = tuple[Any, ...]


def steps_of(random: Random) -> list[Step]:
    """A sequence of what runs do and of what happens to them: from one seed, so that no two are alike."""
    kinds = {**CALLS, **HAPPENS}
    drawn = random.choices(list(kinds), list(kinds.values()), k=LENGTH)
    return [_step_of(kind, random) for kind in drawn]


def _step_of(kind: str, random: Random) -> Step:
    number = random.randrange(100)
    if kind in HAPPENS:
        return kind, number
    return kind, number, random.randrange(100), random.choice(TIMES), random.choice(MORE)


STEPS = st.builds(steps_of, st.randoms(use_true_random=True))
SETTINGS = st.fixed_dictionaries(
    {
        "max_schedules": st.sampled_from([1, 1, 2, 5]),
        "min_interval": st.just("10m"),
        "max_depth": st.sampled_from([1, 1, 2]),
        "approval": st.just("none"),
        "fires_per_hour": st.sampled_from([4, 60, 60]),
        "fires_per_day": st.sampled_from([6, 500, 500]),
    }
)
PASSES = (1, 1, 1, 2, 2, 2, 5, 5, 30, 300, 300, 600, 601, 2_000)


class RunOfAgent(NamedTuple):
    """A run that goes on, and the calls with its token."""

    claim: ClaimedJob
    client: Client
    depth: int


@dataclass
class Lineage:
    """An agent, the schedule of a person that began it, and all that its runs have made."""

    service: Service
    clock: ManualClock
    agent: str
    settings: dict[str, Any]
    runs: list[RunOfAgent] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    names: count[int] = field(default_factory=count)
    root: str = ""
    started_at_depth: dict[object, int] = field(
        default_factory=dict
    )  # the deepest run that armed or started it

    def begin(self) -> None:
        """Begin in the morning of the next day, whatever ran before."""
        self._move_to(self.clock.now() // DAY * DAY + DAY + 8 * HOUR + 10 * 60 * SECOND)
        fields = {"every": "1d", "first_run": "after_interval", "if_running": "allow"}
        self.root = self.service.admin.create(**fields, run=self.target)["id"]
        self.start_root()

    @property
    def target(self) -> dict[str, Any]:
        return {"agent": {"name": self.agent, "prompt": "Go on."}}

    def start_root(self) -> None:
        """A person starts the agent."""
        assert self.service.admin.post(f"/schedules/{self.root}/trigger/").status == 202
        self._claim()

    def play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step[0] in CALLS:
                self._call(*step)
            else:
                getattr(self, step[0])(step[1])
            self._claim()

    # -- what happens to them --

    def sleep(self, number: int) -> None:
        """No scheduler is alive for a while."""
        self.clock.advance(f"{PASSES[number % len(PASSES)]}s")
        self._tick()

    def wait(self, number: int) -> None:
        """Time passes, and every slot is looked at when it is due."""
        until = self.clock.now() + PASSES[number % len(PASSES)] * SECOND
        for _ in range(200):
            wake = self.service.runtime.slots.next_wake_at()
            if wake is None or wake > until:
                break
            self._move_to(max(wake, self.clock.now()))
            self._tick()
            self._claim()
        self._move_to(until)
        self._tick()

    def end(self, number: int) -> None:
        self._end(number, SUCCEEDED)

    def fail(self, number: int) -> None:
        self._end(number, FAILED)

    def _move_to(self, instant: int) -> None:
        self.clock.advance(timedelta(microseconds=instant - self.clock.now()))
        now = self.clock.now()
        self.service.runtime.slots.heartbeat(now, node=NODE, version="1", is_scheduler=True)

    def _tick(self) -> None:
        slots = self.service.runtime.slots
        for is_behind in (False, True):
            while slots.tick(self.clock.now(), limit=100, behind=is_behind).more:
                pass

    def _claim(self) -> None:
        slots, now = self.service.runtime.slots, self.clock.now()
        for claim in slots.claim_jobs(now, node=NODE, limit=100):
            runs = AgentRuns(self.service.runtime, {self.agent: self.settings}.get, lambda: "http://a")
            secret = runs.token_for(self.agent, run_of(claim))
            assert secret is not None
            token = find_token(self.service.runtime, secret)
            assert token is not None and token.confined is not None
            assert token.confined.depth > self.started_at_depth.get(claim.job.schedule_id, 0)
            client = replace(self.service.admin, secret=secret)
            self.runs.append(RunOfAgent(claim, client, token.confined.depth))
        while len(self.runs) > MOST_RUNNING:
            self._end(0, SUCCEEDED)

    def _end(self, number: int, outcome: Outcome) -> None:
        if not self.runs:
            self.start_root()
        claim = self.runs.pop(number % len(self.runs)).claim
        ended = JobEnd(claim.job.job_id, claim.job.fence, outcome)
        self.service.runtime.slots.settle(self.clock.now(), [ended])

    def end_all(self) -> None:
        while self.runs:
            self._end(0, SUCCEEDED)

    # -- what they do --

    def _call(self, kind: str, whose: int, which: int, times: dict[str, Any], more: dict[str, Any]) -> None:
        runtime = self.service.runtime
        self.runs = [run for run in self.runs if find_token(runtime, run.client.secret or "")]
        if not self.runs:
            self.start_root()
        run = self.runs[whose % len(self.runs)]
        schedule = self.made[which % len(self.made)] if self.made else self.root
        before = self._fires()
        getattr(self, f"_{kind}")(run.client, schedule, times, more)
        note(f"{self.clock.moment} depth {run.depth} {kind} {schedule[-6:]} {times} {more}")
        self.made = list(dict.fromkeys([*self.made, *(one.schedule_id for one in self._states())]))
        started = {uid for uid, *fires in self._fires() - before}
        assert not started or run.depth <= self.settings["max_depth"], kind
        self.started_at_depth |= {uid: max(self.started_at_depth.get(uid, 0), run.depth) for uid in started}

    def _fires(self) -> set[tuple[object, ...]]:
        """What will fire, and when, and what has fired."""
        active = {(one.schedule_id, one.next_run_at) for one in self._states() if one.status == "active"}
        return active | {(job.schedule_id, job.job_id) for job in self._jobs()}

    def _new(self, times: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        return {"name": f"n{next(self.names)}", "run": self.target, **more, **times}

    def _create(self, client: Client, _id: str, times: dict[str, Any], more: dict[str, Any]) -> None:
        client.post("/schedules/", self._new(times, more), headers=OVER_MCP)

    def _put(self, client: Client, _id: str, times: dict[str, Any], more: dict[str, Any]) -> None:
        client.call("PUT", "/schedules/key/mine/", self._new(times, more))

    def _patch(self, client: Client, schedule: str, times: dict[str, Any], _more: dict[str, Any]) -> None:
        client.patch(f"/schedules/{schedule}/", {**times, "first_run": None})

    def _rename(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.patch(f"/schedules/{schedule}/", {"description": f"d{next(self.names)}"})

    def _enable(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.patch(f"/schedules/{schedule}/", {"enabled": True})

    def _delete(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.call("DELETE", f"/schedules/{schedule}/")

    def _delete_and_create(
        self, client: Client, schedule: str, times: dict[str, Any], more: dict[str, Any]
    ) -> None:
        self._delete(client, schedule)
        self._create(client, schedule, times, more)

    def _pause_until(self, client: Client, schedule: str, *_rest: Any) -> None:
        until = (self.clock.moment + timedelta(seconds=1)).isoformat()
        client.post(f"/schedules/{schedule}/pause/", {"until": until})

    def _again(self, client: Client, schedule: str, times: dict[str, Any], more: dict[str, Any]) -> None:
        """Arm it at once, whatever became of it."""
        if client.patch(f"/schedules/{schedule}/", {"after": "1s"}).status != 200:
            self._create(client, schedule, {"after": "1s"}, more)

    def _forbidden(self, client: Client, schedule: str, times: dict[str, Any], more: dict[str, Any]) -> None:
        """Make the calls that no run may make."""
        span = {"from": "2026-11-17T07:00:00Z", "to": "2026-11-18T07:00:00Z"}
        client.post("/schedules/batch/", {"schedules": [self._new(times, more)] * 3})
        client.post(f"/schedules/{schedule}/backfill/", span)
        for path in (f"/schedules/{schedule}/approve/", f"/hooks/{schedule}/", f"/chat/{schedule}/"):
            client.post(path, {"revision": 1})
        for job in client.get(f"/jobs/?schedule_id={schedule}").fields.get("items", ())[:1]:
            client.post(f"/jobs/{job['id']}/rerun/")

    def _trigger(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.post(f"/schedules/{schedule}/trigger/")

    def _pause(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.post(f"/schedules/{schedule}/pause/")

    def _resume(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.post(f"/schedules/{schedule}/resume/")

    def _revive(self, client: Client, schedule: str, *_rest: Any) -> None:
        client.post(f"/schedules/{schedule}/revive/")

    def _tool(self, client: Client, tool: str, /, **arguments: Any) -> None:
        Tools(self.service, client).try_to(tool, **arguments)

    def _tool_create(self, client: Client, _id: str, times: dict[str, Any], _more: dict[str, Any]) -> None:
        trigger = {"after": times.get("after", "2s")}
        name = f"n{next(self.names)}"
        self._tool(
            client, "create_schedule", name=name, purpose="p", agent=self.agent, prompt=name, **trigger
        )

    def _tool_trigger(self, client: Client, schedule: str, *_rest: Any) -> None:
        self._tool(client, "trigger_schedule", id=schedule, request_id=f"r{next(self.names)}")

    def _tool_update(self, client: Client, schedule: str, *_rest: Any) -> None:
        one = client.get(f"/schedules/{schedule}/")
        if one.status == 200:
            self._tool(client, "update_schedule", id=schedule, revision=one.fields["revision"], after="1s")

    # -- what came of it --

    def _states(self) -> list[State]:
        found = self.service.runtime.catalogue.states(ScheduleFilter(group=self.agent), limit=1_000)
        return [state for state in found if state.schedule_id != self.root]

    def _jobs(self) -> list[Job]:
        ledger = self.service.runtime.ledger
        return [job for uid in self.made for job in ledger.jobs(JobFilter(uid=uid), limit=10_000)]

    def check(self) -> None:
        limits, _ = limits_of_runs(self.settings)
        assert limits.min_interval is not None and limits.max_schedules is not None
        jobs = self._jobs()
        begun = [job.created_at if job.origin != "retry" else job.started_at for job in jobs]
        for window, most in ((HOUR, limits.fires_per_hour), (DAY, limits.fires_per_day)):
            counts = Counter(at // window for at in begun if at is not None)
            assert most is not None and max(counts.values(), default=0) <= most
        firings = sorted((job for job in jobs if job.origin != "retry"), key=lambda job: job.created_at)
        check_spacing(firings, 1, limits.min_interval, lambda job: job.uid)
        check_spacing(firings, limits.max_schedules, limits.min_interval, lambda _job: "")
        assert sum(one.status not in ("done", "dead") for one in self._states()) <= limits.max_schedules


def check_spacing(
    firings: Sequence[Job], places: int, min_interval: int, group: Callable[[Job], str]
) -> None:
    """In `min_interval` no more firings of a group than it has places; a slot that is a little late is on time."""
    by_group: dict[str, list[Job]] = {}
    for job in firings:
        by_group.setdefault(group(job), []).append(job)
    for jobs in by_group.values():
        for before, after in zip(jobs, jobs[places:], strict=False):
            is_on_time = before.origin == "schedule" and before.created_at - before.due_at <= MOST_GRACE
            since = before.due_at if is_on_time else before.created_at
            assert after.created_at - since >= min_interval * SECOND, [
                (one.job_id, one.origin, to_datetime(one.created_at)) for one in jobs
            ]

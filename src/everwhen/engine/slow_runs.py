"""The watch over runs that take much longer than usual; it records each of them once.

It reads the jobs that run for more than a minute, twice a minute, and what is usual once per run. Of several schedulers
only the first looks, as for overdue slots.
"""

from __future__ import annotations

from everwhen.decide.slow import RUNS, slow_event, slow_from, usual_duration
from everwhen.engine.watches import LOOK_EVERY, is_first_scheduler
from everwhen.model.events import Event
from everwhen.model.instants import MINUTE
from everwhen.model.job import Job
from everwhen.runtime import Runtime
from everwhen.store.opened import store_of

MOST = 1_000  # runs per look

Attempt = tuple[str, int]


class SlowWatch:
    """Checks twice a minute."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = store_of(runtime)
        self._looked = float("-inf")
        self._usual: dict[Attempt, int | None] = {}  # of the attempts that run
        self._recorded: set[Attempt] = set()

    def step(self, node: str) -> None:
        clock = self._runtime.clock
        if clock.monotonic() - self._looked < LOOK_EVERY:
            return
        self._looked, now = clock.monotonic(), clock.now()
        running = self._runtime.ledger.running_since(now - MINUTE, limit=MOST)
        known = {_attempt(job) for job in running}
        self._usual = {key: usual for key, usual in self._usual.items() if key in known}
        self._recorded &= known
        if running and is_first_scheduler(self._runtime, node):
            events = [event for job in running if (event := self._event(job, now)) is not None]
            if events:
                self._runtime.slots.record(events)

    def _event(self, job: Job, now: int) -> Event | None:
        key = _attempt(job)
        if key in self._recorded:
            return None
        if key not in self._usual:
            durations = self._runtime.ledger.durations_before(job.uid, job.number, limit=RUNS)
            self._usual[key] = usual_duration(durations)
        usual = self._usual[key]
        if usual is None or job.started_at is None or slow_from(job.started_at, usual) > now:
            return None
        self._recorded.add(key)
        schedule = self._runtime.catalogue.get(job.schedule_id)
        if schedule is None or schedule.state.uid != job.uid or self._is_on_record(job):
            return None
        return slow_event(job, schedule.state.owner, usual, now)

    def _is_on_record(self, job: Job) -> bool:
        """Check whether another process has recorded this attempt."""
        found = self._runtime.ledger.events_of_slot(job.uid, job.slot_at)
        return any(
            one.event.type == "schedule.slow"
            and (one.event.job_id, one.event.detail.get("attempt")) == _attempt(job)
            for one in found
        )


def _attempt(job: Job) -> Attempt:
    return job.job_id, job.attempt

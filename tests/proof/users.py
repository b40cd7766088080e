"""Users who work during the faults: they trigger, pause, edit, delete and reload, at seeded random.

They use the operations that every surface uses. When the database is away and refuses an action, they give it up, as
a person would; whether it was done all the same is in the ledger.
"""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

from everwhen.errors import SchedulerError, StoreError
from everwhen.model.queries import JobFilter
from everwhen.model.schedule import State, Status
from everwhen.operations.breakers import reset_breaker
from everwhen.operations.jobs import backfill, cancel_job, fire_schedule, trigger_schedule
from everwhen.operations.schedules import (
    delete_schedule,
    list_schedules,
    pause_schedule,
    pause_system,
    resume_schedule,
    resume_system,
    revive_schedule,
)
from everwhen.store.opened import store_of
from tests.proof.schedules import NOBODYS, submission
from tests.proof.worlds import World
from tests.submissions import create_schedule, update_schedule

Action = Callable[[], object]
MOST_MADE = 6  # schedules that users have created: the workers must be able to keep up


class Users:
    """One thread of user actions. `counts` says how often each was done, refused, or met a database that was away."""

    def __init__(self, world: World, seed: int, *, every: float) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.surprises: list[str] = []
        self._world, self._runtime = world, store_of(world.stack.runtime)
        self._draw = random.Random(f"{seed} users")
        self._every = every
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._live, name="users", daemon=True)
        self._names = 0
        self._actions: list[tuple[str, Action, int]] = [
            ("trigger", self._trigger, 8),
            ("fire a webhook", lambda: fire_schedule(self._runtime, "asker.on-push"), 4),
            ("pause", self._pause, 4),
            ("resume", self._resume, 8),
            ("revive", self._revive, 6),
            ("cancel a job", self._cancel, 4),
            ("backfill", self._backfill, 2),
            ("create", self._create, 3),
            ("edit", self._edit, 4),
            ("delete", self._delete, 2),
            ("reset a breaker", self._reset, 1),
            ("change the file and reload", self._reload, 3),
            ("pause the system", self._pause_system, 1),
        ]

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """Stop acting; a system that users have paused is resumed."""
        self._gone.set()
        self._thread.join()

    def _live(self) -> None:
        weights = [weight for _, _, weight in self._actions]
        while not self._gone.wait(self._draw.uniform(0.2, 1.8) * self._every):
            name, action, _ = self._draw.choices(self._actions, weights)[0]
            with self._world.hands:
                self._do(name, action)

    def _do(self, name: str, action: Action) -> None:
        try:
            action()
            self.counts[name, "done"] += 1
        except StoreError:
            self.counts[name, "database away"] += 1
        except SchedulerError:
            self.counts[name, "refused"] += 1
        except Exception as error:
            self.surprises.append(f"{name}: {error!r}")

    # -- actions --

    def _some(self, status: Status = "active") -> State:
        """Return a schedule that users may touch; the page is ordered, so the choice depends only on the users'
        seed."""
        found = list_schedules(self._runtime, status=status, limit=200)
        free = [state for state in found if not state.schedule_id.startswith(NOBODYS)]
        if not free:
            raise SchedulerError(f"there is no {status} schedule")
        return self._draw.choice(free)

    def _trigger(self) -> None:
        trigger_schedule(self._runtime, self._some().schedule_id, payload={"seconds": 0.1})

    def _pause(self) -> None:
        pause_schedule(self._runtime, self._some().schedule_id)

    def _resume(self) -> None:
        """Resume one that does not wait for an approval: that is answered by callers."""
        state = self._some("paused")
        if state.paused_by == "approval":
            raise SchedulerError("it waits for approval")
        resume_schedule(self._runtime, state.schedule_id)

    def _revive(self) -> None:
        revive_schedule(self._runtime, self._some(self._draw.choice(("dead", "done"))).schedule_id)

    def _cancel(self) -> None:
        jobs = store_of(self._runtime).ledger.jobs(JobFilter(statuses=["queued", "running"]), limit=100)
        jobs = [job for job in jobs if not job.schedule_id.startswith(NOBODYS)]
        if jobs:
            cancel_job(self._runtime, self._draw.choice(jobs).job_id)

    def _backfill(self) -> None:
        end = self._world.now() - timedelta(seconds=self._draw.randint(5, 20))
        backfill(self._runtime, self._some().schedule_id, end - timedelta(seconds=5), end)

    def _create(self) -> None:
        made = [s for s in list_schedules(self._runtime, limit=500) if s.schedule_id.startswith("made-")]
        if len(made) >= MOST_MADE:
            raise SchedulerError("there are enough of them")
        self._names += 1
        how = self._draw.choice(
            ({"if_running": "queue"}, {"catch_up": "run_all"}, {"interval_from": "completion"})
        )
        create_schedule(self._runtime, submission(f"made-{self._names}", every=self._interval(), **how))

    def _edit(self) -> None:
        state = self._some()
        if not state.schedule_id.startswith(("made-", "played-")):
            raise SchedulerError("only those of the interface are edited over it")
        update_schedule(
            self._runtime, submission(state.schedule_id, every=self._interval(), if_running="queue")
        )

    def _delete(self) -> None:
        state = self._some()
        if not state.schedule_id.startswith("made-"):
            raise SchedulerError("only those that users have made are deleted")
        delete_schedule(self._runtime, state.schedule_id, cancel_running=self._draw.random() < 0.5)

    def _reset(self) -> None:
        reset_breaker(self._runtime, self._draw.choice(("breaks", "breaks-and-retries")))

    def _reload(self) -> None:
        """Change the interval of one schedule, and add or remove another."""
        schedules = self._world.fields["schedules"]
        edited = [
            fields for fields in schedules if fields["id"] in ("jittered", "all", "skips", "retries", "chain")
        ]
        self._draw.choice(edited)["every"] = self._interval()
        optional = next((fields for fields in schedules if fields["id"] == "optional"), None)
        if optional is not None:
            schedules.remove(optional)
        else:
            schedules.append({**schedules[0], "id": "optional", "every": self._interval()})
        self._world.write_file()
        self._draw.choice(self._world.machines).scheduler.signal(signal.SIGHUP)

    def _pause_system(self) -> None:
        pause_system(self._runtime)
        try:
            self._gone.wait(self._draw.uniform(0.5, 2.0))
        finally:
            self.resume_system()

    def resume_system(self) -> None:
        """Resume the system, until it succeeds: no other process will."""
        while True:
            try:
                return resume_system(self._runtime)
            except StoreError:
                threading.Event().wait(0.2)
            except SchedulerError:
                return None  # it was not paused: the database was away at the pause

    def _interval(self) -> str:
        return f"{self._draw.randint(2, 4) * self._world.slower}s"

"""Counters recounted from the jobs, and jobs that cannot be as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from everwhen.decide.ledger_entries import Fault
from everwhen.model.history import Life
from everwhen.model.job import FINAL, Job
from everwhen.model.limits import Limit


@dataclass(slots=True)
class Tally:
    """What the jobs of one life add up to, and those of all lives for the limits that they share."""

    slots: int = 0
    jobs: int = 0
    outstanding: int = 0
    running: int = 0
    waiting: int = 0
    retries_waiting: int = 0
    highest_number: int = 0
    serial_running: int = 0
    behind: int = 0
    in_front: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    running_of: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Another life."""
        self.outstanding = self.running = self.waiting = self.retries_waiting = self.highest_number = 0
        self.serial_running = self.behind = self.in_front = 0

    def add(self, job: Job) -> None:
        self.jobs += 1
        self.highest_number = max(self.highest_number, job.number)
        is_beside = job.origin == "backfill"
        is_unreleased = job.node is not None and job.released_at is None
        if is_unreleased:
            self.running += not is_beside
            if job.capacity_key is not None:
                self.running_of[job.capacity_key] += 1
            self.serial_running += job.line == "own" and job.status == "running"
        if not job.is_outstanding:
            self.in_front += is_unreleased and not is_beside
            return
        self.outstanding += not is_beside
        if job.is_counted:
            self.taken.update(key for key in (job.guard_key, job.capacity_key) if key is not None)
        if job.status == "queued" and job.not_before is not None and not job.fence:
            self.waiting += 1
            self.retries_waiting += job.origin == "retry"
        if not is_beside:
            is_behind = job.status == "queued" and not job.is_ready
            self.behind += is_behind
            self.in_front += not is_behind

    def check_limits(self, limits: Sequence[Limit]) -> Iterator[Fault]:
        """The rows that schedules share, against the jobs of all of them."""
        rows = {limit.key: limit for limit in limits}
        for key in sorted(rows.keys() | self.taken.keys() | self.running_of.keys()):
            row = rows.get(key) or Limit(key)
            for word, on_row, counted in (
                ("outstanding", row.outstanding, self.taken[key]),
                ("running", row.running, self.running_of[key]),
            ):
                if on_row != counted:
                    sentence = f"limit {key}: the row says {on_row} {word}, the jobs make {counted}"
                    yield Fault("counter", "", key, None, sentence)


def check_counters(life: Life, tally: Tally) -> Iterator[Fault]:
    """The columns of the row, against the jobs of this life."""
    if tally.serial_running > 1:
        sentence = f"{tally.serial_running} jobs run at once that must run one after another"
        yield Fault("job", life.uid, life.schedule_id, None, sentence)
    if tally.behind and not tally.in_front:
        sentence = f"{tally.behind} queued jobs stand behind nobody: they will never be ready"
        yield Fault("job", life.uid, life.schedule_id, None, sentence)
    state = life.state
    if state is None:
        return
    for word, on_row, counted in (
        ("outstanding", state.outstanding, tally.outstanding),
        ("running_jobs", state.running_jobs, tally.running),
        ("waiting", state.waiting, tally.waiting),
        ("retries_waiting", state.retries_waiting, tally.retries_waiting),
    ):
        if on_row != counted:
            sentence = f"{word}: the row says {on_row}, the jobs make {counted}"
            yield Fault("counter", life.uid, life.schedule_id, None, sentence)
    if state.fire_count < tally.highest_number:
        sentence = f"fire_count: the row says {state.fire_count}, a job has number {tally.highest_number}"
        yield Fault("counter", life.uid, life.schedule_id, None, sentence)


def check_job(life: Life, job: Job, *, is_steady: bool) -> Iterator[Fault]:
    """A job in a state that no path leads to. `is_steady`: the clock was never put back."""
    is_of_clock = job.origin in ("schedule", "catch_up")
    for is_wrong, sentence in (
        (is_steady and is_of_clock and job.created_at < job.due_at, "fired before it was due"),
        (job.status in FINAL and job.ended_at is None, f"is {job.status} and never ended"),
        (job.status not in FINAL and job.ended_at is not None, f"is {job.status} and has ended"),
        (job.status == "running" and (job.node is None or job.started_at is None), "runs nowhere"),
        (job.status == "running" and job.released_at is not None, "runs and was let go of"),
        (job.status == "queued" and job.node is not None, "is queued and belongs to a node"),
        (job.status == "running" and not job.attempt, "runs in no attempt"),
        (job.status in FINAL - {"cancelled"} and not job.attempt, f"is {job.status} and never started"),
        (job.status == "running" and not job.is_counted, "runs and takes no place"),
    ):
        if is_wrong:
            yield Fault("job", life.uid, life.schedule_id, job.slot_at, f"{job.job_id} {sentence}")
